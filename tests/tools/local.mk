# SPDX-License-Identifier: Apache-2.0
TOOLS_IO_TEST_LIBS = tools/io/libkilnio.la $(TEST_LIBS)

check_PROGRAMS += tests/tools/test_io tests/tools/test_io_malformed tests/tools/test_io_write
tests_tools_test_io_SOURCES = tests/tools/test_io.c tests/tools/io_fixture.h
tests_tools_test_io_LDADD = $(TOOLS_IO_TEST_LIBS)
tests_tools_test_io_malformed_SOURCES = tests/tools/test_io_malformed.c tests/tools/io_fixture.h
tests_tools_test_io_malformed_LDADD = $(TOOLS_IO_TEST_LIBS)
tests_tools_test_io_write_SOURCES = tests/tools/test_io_write.c tests/tools/io_fixture.h
tests_tools_test_io_write_LDADD = $(TOOLS_IO_TEST_LIBS)

# Files as NumPy and the safetensors package write them.
EXTRA_DIST += \
	tests/tools/data/bfloat16.npy \
	tests/tools/data/big_endian.npy \
	tests/tools/data/bzip2.npz \
	tests/tools/data/complex.npy \
	tests/tools/data/deflated.npz \
	tests/tools/data/f4.npy \
	tests/tools/data/fortran.npy \
	tests/tools/data/make.py \
	tests/tools/data/object.npy \
	tests/tools/data/scalar.npy \
	tests/tools/data/stored.npz \
	tests/tools/data/structured.npy \
	tests/tools/data/types.safetensors \
	tests/tools/data/version2.npy \
	tests/tools/data/version3.npy \
	tests/tools/data/zip64.npz

# The program kiln, as people call it.
SCRIPT_TESTS += tests/tools/test_check_plugin.sh tests/tools/test_cli.sh tests/tools/test_job.sh tests/tools/test_readme.sh tests/tools/test_run.sh \
	tests/tools/test_run_quantized.sh \
	tests/tools/test_vendor_guide.sh
EXTRA_DIST += tests/tools/cli_fixture.sh tests/tools/plugins/narrow.c tests/tools/plugins/wide.c
check_LTLIBRARIES += tests/tools/plugins/clamp.la tests/tools/plugins/crasher.la tests/tools/plugins/hostile.la
tests_tools_plugins_clamp_la_SOURCES = tests/tools/plugins/clamp.c
tests_tools_plugins_clamp_la_LDFLAGS = $(TEST_PLUGIN_LINK)
tests_tools_plugins_crasher_la_SOURCES = tests/tools/plugins/crasher.c
tests_tools_plugins_crasher_la_LDFLAGS = $(TEST_PLUGIN_LINK)
tests_tools_plugins_hostile_la_SOURCES = tests/tools/plugins/hostile.c
tests_tools_plugins_hostile_la_LDFLAGS = $(TEST_PLUGIN_LINK)

# The reader of recorded calls, from the program's own sources.
check_PROGRAMS += tests/tools/test_recorded
tests_tools_test_recorded_SOURCES = tests/tools/test_recorded.c \
	tools/kiln/common.c \
	tools/kiln/gemm_describe.c \
	tools/kiln/gemm_epilogues.c \
	tools/kiln/gemm_words.c \
	tools/kiln/recorded.c \
	tools/kiln/recorded_gemm.c
tests_tools_test_recorded_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_tools_test_recorded_LDADD = support/libkilnsupport.la $(TEST_LIBS) $(JANSSON_LIBS)

# Zeroing what a step makes, from the program's own source.
check_PROGRAMS += tests/tools/test_zero
tests_tools_test_zero_SOURCES = tests/tools/test_zero.c tools/kiln/zero.c
tests_tools_test_zero_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_tools_test_zero_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)

# Comparing what a step makes, from the program's own source.
check_PROGRAMS += tests/tools/test_judge
tests_tools_test_judge_SOURCES = tests/tools/test_judge.c tools/kiln/judge.c
tests_tools_test_judge_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_tools_test_judge_LDADD = conformance/libconformance.la $(TEST_LIBS) -lm
