# SPDX-License-Identifier: Apache-2.0
NPU_TEST_SUPPORT = tests/plugins/npu/npu_support.c tests/plugins/npu/npu_support.h
NPU_TEST_LIBS = plugins/npu/libnpu.la $(TEST_LIBS)

check_PROGRAMS += \
	tests/plugins/npu/test_access \
	tests/plugins/npu/test_device \
	tests/plugins/npu/test_engine \
	tests/plugins/npu/test_gemm \
	tests/plugins/npu/test_order \
	tests/plugins/npu/test_plugin

tests_plugins_npu_test_access_SOURCES = tests/plugins/npu/test_access.c $(NPU_TEST_SUPPORT)
tests_plugins_npu_test_access_LDADD = $(NPU_TEST_LIBS)
tests_plugins_npu_test_device_SOURCES = tests/plugins/npu/test_device.c $(NPU_TEST_SUPPORT)
tests_plugins_npu_test_device_LDADD = $(NPU_TEST_LIBS)
tests_plugins_npu_test_engine_SOURCES = tests/plugins/npu/test_engine.c $(NPU_TEST_SUPPORT)
tests_plugins_npu_test_engine_LDADD = $(NPU_TEST_LIBS)
tests_plugins_npu_test_gemm_SOURCES = tests/plugins/npu/test_gemm.c $(NPU_TEST_SUPPORT)
tests_plugins_npu_test_gemm_LDADD = $(NPU_TEST_LIBS)
tests_plugins_npu_test_order_SOURCES = tests/plugins/npu/test_order.c $(NPU_TEST_SUPPORT)
tests_plugins_npu_test_order_LDADD = $(NPU_TEST_LIBS)
