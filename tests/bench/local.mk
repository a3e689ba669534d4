# SPDX-License-Identifier: Apache-2.0
BENCH_TEST_LIBS = bench/libkilnbench.la $(TEST_LIBS) $(JANSSON_LIBS)

check_PROGRAMS += tests/bench/test_cases tests/bench/test_gap tests/bench/test_kernels tests/bench/test_measure tests/bench/test_operands \
	tests/bench/test_report tests/bench/test_totals
tests_bench_test_cases_LDADD = $(BENCH_TEST_LIBS)
tests_bench_test_gap_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_bench_test_gap_LDADD = $(BENCH_TEST_LIBS)
tests_bench_test_kernels_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_bench_test_kernels_LDADD = $(BENCH_TEST_LIBS)
tests_bench_test_measure_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_bench_test_measure_LDADD = $(BENCH_TEST_LIBS)
tests_bench_test_operands_LDADD = $(BENCH_TEST_LIBS)
tests_bench_test_report_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_bench_test_report_LDADD = $(BENCH_TEST_LIBS)
tests_bench_test_totals_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_bench_test_totals_LDADD = $(BENCH_TEST_LIBS)

# The program, as people call it.
SCRIPT_TESTS += tests/bench/test_bench.sh tests/bench/test_measure_gap.sh tests/bench/test_replay.sh
