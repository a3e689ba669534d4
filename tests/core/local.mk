# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += tests/core/test_profile
tests_core_test_profile_LDADD = $(CORE_TEST_LIBS)
check_PROGRAMS += tests/core/test_tensor
