# SPDX-License-Identifier: Apache-2.0
check_LTLIBRARIES += tests/plugins/ref/libproblem.la
tests_plugins_ref_libproblem_la_SOURCES = \
	tests/plugins/ref/problem.c \
	tests/plugins/ref/problem.h \
	tests/plugins/ref/problem_values.c
REF_PROBLEM = tests/plugins/ref/libproblem.la

check_PROGRAMS += tests/plugins/ref/test_grouped
tests_plugins_ref_test_grouped_LDADD = $(REF_PROBLEM) $(TEST_LIBS)
check_PROGRAMS += tests/plugins/ref/test_outputs
tests_plugins_ref_test_outputs_LDADD = $(REF_PROBLEM) $(TEST_LIBS)
check_PROGRAMS += tests/plugins/ref/test_quantized
tests_plugins_ref_test_quantized_LDADD = $(REF_PROBLEM) $(TEST_LIBS)
check_PROGRAMS += tests/plugins/ref/test_query
tests_plugins_ref_test_query_LDADD = plugins/ref/libref.la $(TEST_LIBS)
check_PROGRAMS += tests/plugins/ref/test_ref
tests_plugins_ref_test_ref_LDADD = plugins/ref/libref.la $(TEST_LIBS)
