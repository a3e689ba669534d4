# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/npu/libnpu.la
plugins_npu_libnpu_la_SOURCES = \
	plugins/npu/access.c \
	plugins/npu/access.h \
	plugins/npu/assembler.c \
	plugins/npu/assembler.h \
	plugins/npu/block.h \
	plugins/npu/checks.c \
	plugins/npu/config.c \
	plugins/npu/config.h \
	plugins/npu/cube.c \
	plugins/npu/device.c \
	plugins/npu/device.h \
	plugins/npu/disassemble.c \
	plugins/npu/dma.c \
	plugins/npu/event.c \
	plugins/npu/event.h \
	plugins/npu/execute.c \
	plugins/npu/fault.h \
	plugins/npu/gemm.h \
	plugins/npu/gemm_blocks.c \
	plugins/npu/gemm_launch.c \
	plugins/npu/gemm_layout.h \
	plugins/npu/gemm_pack.c \
	plugins/npu/gemm_program.c \
	plugins/npu/glue.h \
	plugins/npu/glue_device.c \
	plugins/npu/glue_gemm_pack.c \
	plugins/npu/glue_gemm_query.c \
	plugins/npu/glue_gemm_run.c \
	plugins/npu/machine.h \
	plugins/npu/memory.c \
	plugins/npu/memory.h \
	plugins/npu/numeric.h \
	plugins/npu/order.c \
	plugins/npu/order.h \
	plugins/npu/program.c \
	plugins/npu/program.h \
	plugins/npu/sharing.c \
	plugins/npu/sharing.h \
	plugins/npu/synchronize.c \
	plugins/npu/timeline.c \
	plugins/npu/timeline.h \
	plugins/npu/transfer.c \
	plugins/npu/transfer.h \
	plugins/npu/units.h \
	plugins/npu/vector.c
plugins_npu_libnpu_la_LIBADD = -lm

plugin_LTLIBRARIES += plugins/npu.la
plugins_npu_la_SOURCES = plugins/npu/plugin.c
plugins_npu_la_CPPFLAGS = $(KILN_PLUGIN_CPPFLAGS)
plugins_npu_la_LDFLAGS = $(KILN_PLUGIN_LINK)
plugins_npu_la_LIBADD = plugins/npu/libnpu.la

EXTRA_DIST += plugins/npu/MODEL.md
