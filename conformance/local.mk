# SPDX-License-Identifier: Apache-2.0
# What operators must compute, by the public interface alone: for the tests and for "kiln check-plugin".
noinst_LTLIBRARIES += conformance/libconformance.la
conformance_libconformance_la_SOURCES = \
	conformance/conformance.h \
	conformance/gemm_bound.c \
	conformance/gemm_case.h \
	conformance/gemm_check.c \
	conformance/gemm_choose.c \
	conformance/gemm_fill.c \
	conformance/gemm_generate.c \
	conformance/gemm_job.c \
	conformance/gemm_job.h \
	conformance/gemm_judge.c \
	conformance/gemm_numeric.h \
	conformance/gemm_operand.c \
	conformance/gemm_operand.h \
	conformance/gemm_oracle.c \
	conformance/gemm_quantize.c \
	conformance/gemm_result.h \
	conformance/gemm_sweep.c \
	conformance/gemm_tables.c \
	conformance/gemm_tensors.c \
	conformance/gemm_types.c \
	conformance/lines.h \
	conformance/plugin.h \
	conformance/plugin_abi.c \
	conformance/plugin_abi.h \
	conformance/plugin_abi_file.c \
	conformance/plugin_abi_interface.c \
	conformance/plugin_abi_open.c \
	conformance/plugin_abi_options.c \
	conformance/plugin_abi_query.c \
	conformance/plugin_abi_refuse.c \
	conformance/plugin_abi_static.c \
	conformance/plugin_device.c \
	conformance/plugin_device.h \
	conformance/plugin_device_bed.c \
	conformance/plugin_device_copy.c \
	conformance/plugin_device_event.c \
	conformance/plugin_device_fault.c \
	conformance/plugin_device_memory.c \
	conformance/plugin_device_shared.c \
	conformance/plugin_device_stream.c \
	conformance/plugin_gemm.c \
	conformance/plugin_gemm.h \
	conformance/plugin_guard.h \
	conformance/plugin_load.c \
	conformance/plugin_load.h \
	conformance/plugin_op.c \
	conformance/plugin_op.h \
	conformance/plugin_op_gemm.c \
	conformance/plugin_op_gemm_contract.c \
	conformance/plugin_op_gemm_groups.c \
	conformance/plugin_op_gemm_pack.c \
	conformance/plugin_op_gemm_values.c \
	conformance/plugin_process.c \
	conformance/plugin_served.c \
	conformance/plugin_served.h \
	conformance/plugin_session.c \
	conformance/plugin_session.h \
	conformance/plugin_state.c \
	conformance/plugin_state.h \
	conformance/plugin_stress.c \
	conformance/plugin_stress_bits.c \
	conformance/plugin_stress_life.c \
	conformance/sanitizers.h
conformance_libconformance_la_LIBADD = -ldl
