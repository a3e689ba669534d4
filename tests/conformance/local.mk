# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += tests/conformance/test_gemm_cases tests/conformance/test_gemm_ratio
check_PROGRAMS += tests/conformance/test_gemm_oracle tests/conformance/test_gemm_oracle_groups tests/conformance/test_gemm_oracle_scales
if PLUGIN_REF
check_PROGRAMS += tests/conformance/test_gemm
LONG_TESTS += tests/conformance/test_gemm
else
if PLUGIN_NPU
check_PROGRAMS += tests/conformance/test_gemm
LONG_TESTS += tests/conformance/test_gemm
endif
endif
tests_conformance_test_gemm_CPPFLAGS = $(AM_CPPFLAGS)
if PLUGIN_REF
tests_conformance_test_gemm_CPPFLAGS += -DTEST_REF
endif
if PLUGIN_NPU
tests_conformance_test_gemm_CPPFLAGS += -DTEST_NPU
endif
tests_conformance_test_gemm_cases_SOURCES = \
	tests/conformance/naive.c \
	tests/conformance/naive.h \
	tests/conformance/naive_element.c \
	tests/conformance/naive_epilogue.c \
	tests/conformance/naive_parts.h \
	tests/conformance/naive_rows.c \
	tests/conformance/naive_sum.c \
	tests/conformance/test_gemm_cases.c
GEMM_QUESTION = tests/conformance/question.c tests/conformance/question.h
tests_conformance_test_gemm_oracle_SOURCES = tests/conformance/test_gemm_oracle.c $(GEMM_QUESTION)
tests_conformance_test_gemm_oracle_groups_SOURCES = tests/conformance/test_gemm_oracle_groups.c $(GEMM_QUESTION)
tests_conformance_test_gemm_oracle_scales_SOURCES = tests/conformance/test_gemm_oracle_scales.c $(GEMM_QUESTION)

# What the backends of the tree serve of a fixed set of cases.
TEST_HELPERS += tests/conformance/count_cases
SCRIPT_TESTS += tests/conformance/test_counts.sh
EXTRA_DIST += tests/conformance/counts/acme.txt tests/conformance/counts/npu.txt tests/conformance/counts/ref.txt

# A plugin that is broken in one way at a time, and the checks that must find it.
if TOOLS
SCRIPT_TESTS += tests/conformance/test_planted.sh
LONG_TESTS += tests/conformance/test_planted.sh
endif
EXTRA_DIST += \
	tests/conformance/planted/defects.txt \
	tests/conformance/planted/planted.c \
	tests/conformance/planted/planted.h \
	tests/conformance/planted/planted_device.c \
	tests/conformance/planted/planted_device.h \
	tests/conformance/planted/planted_epilogue.c \
	tests/conformance/planted/planted_gemm.c \
	tests/conformance/planted/planted_gemm.h \
	tests/conformance/planted/planted_gradient.c \
	tests/conformance/planted/planted_pack.c \
	tests/conformance/planted/planted_place.c \
	tests/conformance/planted/planted_plan.c \
	tests/conformance/planted/planted_quantize.c \
	tests/conformance/planted/planted_run.c \
	tests/conformance/planted/planted_serve.c \
	tests/conformance/planted/planted_stream.c \
	tests/conformance/planted/planted_sum.c \
	tests/conformance/planted/table.md
