# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += tests/conformance/test_gemm
LONG_TESTS += tests/conformance/test_gemm
tests_conformance_test_gemm_CPPFLAGS = $(AM_CPPFLAGS)
if PLUGIN_REF
tests_conformance_test_gemm_CPPFLAGS += -DTEST_REF
endif
if PLUGIN_NPU
tests_conformance_test_gemm_CPPFLAGS += -DTEST_NPU
endif
