# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/ref/libref.la
plugins_ref_libref_la_SOURCES = \
	plugins/ref/block.c \
	plugins/ref/element.c \
	plugins/ref/gemm.h \
	plugins/ref/gemm_bind.c \
	plugins/ref/gemm_epilogue.c \
	plugins/ref/gemm_groups.c \
	plugins/ref/gemm_pack.c \
	plugins/ref/gemm_plan.c \
	plugins/ref/gemm_product.c \
	plugins/ref/gemm_query.c \
	plugins/ref/gemm_run.c \
	plugins/ref/matrix.c \
	plugins/ref/operand.c \
	plugins/ref/quantization.c \
	plugins/ref/ref.h
plugins_ref_libref_la_CPPFLAGS = $(AM_CPPFLAGS) $(OPENBLAS_CFLAGS)
plugins_ref_libref_la_LIBADD = $(OPENBLAS_LIBS) -lm

plugin_LTLIBRARIES += plugins/ref.la
plugins_ref_la_SOURCES = plugins/ref/plugin.c
plugins_ref_la_CPPFLAGS = $(KILN_PLUGIN_CPPFLAGS) $(OPENBLAS_CFLAGS)
plugins_ref_la_LDFLAGS = $(KILN_PLUGIN_LINK)
plugins_ref_la_LIBADD = plugins/ref/libref.la
