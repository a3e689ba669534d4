# SPDX-License-Identifier: Apache-2.0
# Ceilings, peers and the measuring method of `kiln bench`.
noinst_LTLIBRARIES += bench/libkilnbench.la
bench_libkilnbench_la_SOURCES = \
	bench/cases.c bench/cases.h \
	bench/ceiling.c bench/ceiling.h \
	bench/ceiling_bf16.c \
	bench/ceiling_f32.c \
	bench/ceiling_f64.c \
	bench/ceiling_int8.c \
	bench/ceiling_memory.c \
	bench/convert.c bench/convert.h \
	bench/fill.c bench/fill.h \
	bench/gap.c bench/gap.h \
	bench/gap_internal.h \
	bench/gap_model.c \
	bench/gap_variants.c \
	bench/gemm.c bench/gemm.h \
	bench/gemm_check.c \
	bench/host.c \
	bench/kiln_gemm.c bench/kiln_gemm.h \
	bench/measure.c bench/measure.h \
	bench/overhead.h \
	bench/peer.c bench/peer.h \
	bench/peer_openblas.c \
	bench/peer_server.c \
	bench/peer_set.c bench/peer_set.h \
	bench/replay.c bench/replay.h \
	bench/result.c bench/result.h \
	bench/result_json.c \
	bench/result_table.c \
	bench/session.c bench/session.h \
	bench/session_gemm.c \
	bench/session_overhead.c \
	bench/session_parallel.c \
	bench/statistics.c bench/statistics.h \
	bench/team.c bench/team.h
bench_libkilnbench_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
bench_libkilnbench_la_LIBADD = $(JANSSON_LIBS) -ldl -lm
EXTRA_DIST += bench/README.md
