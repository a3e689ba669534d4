# SPDX-License-Identifier: Apache-2.0
# What operators must compute, by the public interface alone: for the tests and for "kiln check-plugin".
noinst_LTLIBRARIES += conformance/libconformance.la
conformance_libconformance_la_SOURCES = \
	conformance/gemm.h \
	conformance/gemm/bound.c \
	conformance/gemm/case.h \
	conformance/gemm/check.c \
	conformance/gemm/choose.c \
	conformance/gemm/fill.c \
	conformance/gemm/generate.c \
	conformance/gemm/job.c \
	conformance/gemm/job.h \
	conformance/gemm/judge.c \
	conformance/gemm/numeric.h \
	conformance/gemm/operand.c \
	conformance/gemm/operand.h \
	conformance/gemm/oracle.c \
	conformance/gemm/quantize.c \
	conformance/gemm/result.h \
	conformance/gemm/sweep.c \
	conformance/gemm/tables.c \
	conformance/gemm/tensors.c \
	conformance/gemm/types.c \
	conformance/lines.h \
	conformance/plugin.h \
	conformance/plugin/abi/abi.h \
	conformance/plugin/abi/file.c \
	conformance/plugin/abi/interface.c \
	conformance/plugin/abi/list.c \
	conformance/plugin/abi/open.c \
	conformance/plugin/abi/options.c \
	conformance/plugin/abi/query.c \
	conformance/plugin/abi/refuse.c \
	conformance/plugin/abi/static.c \
	conformance/plugin/device/bed.c \
	conformance/plugin/device/copy.c \
	conformance/plugin/device/device.h \
	conformance/plugin/device/event.c \
	conformance/plugin/device/fault.c \
	conformance/plugin/device/list.c \
	conformance/plugin/device/memory.c \
	conformance/plugin/device/shared.c \
	conformance/plugin/device/stream.c \
	conformance/plugin/guard.h \
	conformance/plugin/load.c \
	conformance/plugin/load.h \
	conformance/plugin/op/gemm.c \
	conformance/plugin/op/gemm_contract.c \
	conformance/plugin/op/gemm_groups.c \
	conformance/plugin/op/gemm_pack.c \
	conformance/plugin/op/gemm_plain.c \
	conformance/plugin/op/gemm_plain.h \
	conformance/plugin/op/gemm_values.c \
	conformance/plugin/op/list.c \
	conformance/plugin/op/op.h \
	conformance/plugin/process.c \
	conformance/plugin/served.c \
	conformance/plugin/served.h \
	conformance/plugin/session.c \
	conformance/plugin/session.h \
	conformance/plugin/state.c \
	conformance/plugin/state.h \
	conformance/plugin/stress/bits.c \
	conformance/plugin/stress/life.c \
	conformance/plugin/stress/stress.c \
	conformance/sanitizers.h
conformance_libconformance_la_LIBADD = -ldl
