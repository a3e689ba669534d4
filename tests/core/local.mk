# SPDX-License-Identifier: Apache-2.0
# Tests of the core. Those that need functions which libkiln hides link core/libcore.la instead.
check_LTLIBRARIES += tests/core/libfixture.la
tests_core_libfixture_la_SOURCES = \
	tests/core/fake_backend.c \
	tests/core/fake_backend.h \
	tests/core/fake_device.c \
	tests/core/fake_device.h \
	tests/core/fake_device_parts.h \
	tests/core/fake_device_plugin.c \
	tests/core/fake_gemm.c \
	tests/core/fixture.c \
	tests/core/fixture.h
CORE_FIXTURE = tests/core/libfixture.la

check_PROGRAMS += tests/core/test_bridge
tests_core_test_bridge_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_convert
tests_core_test_convert_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_fork
tests_core_test_fork_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_loader
tests_core_test_loader_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_memory
tests_core_test_memory_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_pack
tests_core_test_pack_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_plan
tests_core_test_plan_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_plan_cache
tests_core_test_plan_cache_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_pool
tests_core_test_pool_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_public
tests_core_test_public_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_record
tests_core_test_record_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_record_full
tests_core_test_record_full_LDADD = $(CORE_FIXTURE) $(CORE_TEST_LIBS)
check_PROGRAMS += tests/core/test_run
tests_core_test_run_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_runtime
tests_core_test_runtime_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_staging
tests_core_test_staging_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_stream
tests_core_test_stream_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_trace
tests_core_test_trace_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)
check_PROGRAMS += tests/core/test_tuning
tests_core_test_tuning_LDADD = $(CORE_FIXTURE) $(BARE_TEST_LIBS)

check_PROGRAMS += tests/core/test_gemm_check
tests_core_test_gemm_check_SOURCES = tests/core/test_gemm_check.c tests/core/gemm_product.h
tests_core_test_gemm_check_LDADD = $(CORE_FIXTURE) $(CORE_TEST_LIBS)
check_PROGRAMS += tests/core/test_gemm_descriptor
tests_core_test_gemm_descriptor_SOURCES = tests/core/test_gemm_descriptor.c tests/core/gemm_product.h
tests_core_test_gemm_descriptor_LDADD = $(CORE_FIXTURE) $(CORE_TEST_LIBS)
check_PROGRAMS += tests/core/test_gemm_groups
tests_core_test_gemm_groups_SOURCES = tests/core/test_gemm_groups.c tests/core/gemm_product.h
tests_core_test_gemm_groups_LDADD = $(CORE_FIXTURE) $(CORE_TEST_LIBS)
check_PROGRAMS += tests/core/test_gemm_overlap
tests_core_test_gemm_overlap_SOURCES = tests/core/test_gemm_overlap.c tests/core/gemm_product.h
tests_core_test_gemm_overlap_LDADD = $(CORE_FIXTURE) $(CORE_TEST_LIBS)
check_PROGRAMS += tests/core/test_gemm_quantized
tests_core_test_gemm_quantized_SOURCES = tests/core/test_gemm_quantized.c tests/core/gemm_product.h
tests_core_test_gemm_quantized_LDADD = $(CORE_FIXTURE) $(CORE_TEST_LIBS)

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

# Plugins for test_loader and test_runtime.
check_LTLIBRARIES += \
	tests/core/plugins/blank.la \
	tests/core/plugins/crashing.la \
	tests/core/plugins/larger.la \
	tests/core/plugins/major.la \
	tests/core/plugins/plain.la \
	tests/core/plugins/undefined.la
tests_core_plugins_blank_la_LDFLAGS = $(TEST_PLUGIN_LINK)
tests_core_plugins_crashing_la_SOURCES = tests/core/plugins/crashing.c tests/core/plugins/ordinary.h
tests_core_plugins_crashing_la_LDFLAGS = $(TEST_PLUGIN_LINK)
tests_core_plugins_larger_la_SOURCES = tests/core/plugins/larger.c tests/core/plugins/ordinary.h
tests_core_plugins_larger_la_LDFLAGS = $(TEST_PLUGIN_LINK)
tests_core_plugins_major_la_LDFLAGS = $(TEST_PLUGIN_LINK)
tests_core_plugins_plain_la_SOURCES = tests/core/plugins/plain.c tests/core/plugins/ordinary.h
tests_core_plugins_plain_la_LDFLAGS = $(TEST_PLUGIN_LINK)
tests_core_plugins_undefined_la_SOURCES = tests/core/plugins/undefined.c tests/core/plugins/ordinary.h
tests_core_plugins_undefined_la_LDFLAGS = $(TEST_PLUGIN_LINK)
