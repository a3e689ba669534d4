# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += tests/plugins/ref/test_ref
tests_plugins_ref_test_ref_LDADD = plugins/ref/libref.la $(TEST_LIBS)
