# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += tests/support/test_yaml
tests_support_test_yaml_LDADD = support/libkilnsupport.la $(CMOCKA_LIBS) -lm
