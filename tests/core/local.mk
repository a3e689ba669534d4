# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += tests/core/test_profile
tests_core_test_profile_SOURCES = tests/core/test_profile.c tests/core/profile_world.h
tests_core_test_profile_LDADD = $(CORE_TEST_LIBS)
check_PROGRAMS += tests/core/test_profile_plugins
tests_core_test_profile_plugins_SOURCES = tests/core/test_profile_plugins.c tests/core/profile_world.h
tests_core_test_profile_plugins_LDADD = $(CORE_TEST_LIBS)
check_PROGRAMS += tests/core/test_profile_sources
tests_core_test_profile_sources_SOURCES = tests/core/test_profile_sources.c tests/core/profile_world.h
tests_core_test_profile_sources_LDADD = $(CORE_TEST_LIBS)
check_PROGRAMS += tests/core/test_tensor
