# SPDX-License-Identifier: Apache-2.0
# The program kiln: one file per subcommand, and for `kiln run` one per part of it.
bin_PROGRAMS += kiln
kiln_SOURCES = \
	tools/kiln/bench.c \
	tools/kiln/bench_case.c \
	tools/kiln/bench_case.h \
	tools/kiln/bench_options.c \
	tools/kiln/bench_options.h \
	tools/kiln/bench_replay.c \
	tools/kiln/bench_replay.h \
	tools/kiln/check_plugin.c \
	tools/kiln/check_plugin.h \
	tools/kiln/check_plugin_operators.c \
	tools/kiln/check_plugin_report.c \
	tools/kiln/check_plugin_skips.c \
	tools/kiln/checks.c \
	tools/kiln/command.h \
	tools/kiln/common.c \
	tools/kiln/compare.c \
	tools/kiln/execute.c \
	tools/kiln/explain.c \
	tools/kiln/explain.h \
	tools/kiln/explain_measure.c \
	tools/kiln/explain_replay.c \
	tools/kiln/gemm_describe.c \
	tools/kiln/gemm_epilogues.c \
	tools/kiln/gemm_words.c \
	tools/kiln/gemm_words.h \
	tools/kiln/info.c \
	tools/kiln/info_json.c \
	tools/kiln/info_json.h \
	tools/kiln/job.c \
	tools/kiln/job.h \
	tools/kiln/job_files.c \
	tools/kiln/job_scales.c \
	tools/kiln/job_shapes.c \
	tools/kiln/job_step.c \
	tools/kiln/job_tensors.c \
	tools/kiln/job_views.c \
	tools/kiln/judge.c \
	tools/kiln/judge.h \
	tools/kiln/main.c \
	tools/kiln/outputs.c \
	tools/kiln/placement.c \
	tools/kiln/progress.c \
	tools/kiln/recorded.c \
	tools/kiln/recorded.h \
	tools/kiln/recorded_gemm.c \
	tools/kiln/report.c \
	tools/kiln/report_json.c \
	tools/kiln/routing.c \
	tools/kiln/run.c \
	tools/kiln/run.h \
	tools/kiln/run_gemm.c \
	tools/kiln/signals.c \
	tools/kiln/table.c \
	tools/kiln/table.h \
	tools/kiln/zero.c
kiln_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
kiln_LDFLAGS =
kiln_LDADD = bench/libkilnbench.la conformance/libconformance.la tools/io/libkilnio.la support/libkilnsupport.la \
	$(KILN_LIBS) $(JANSSON_LIBS) -lm

dist_man_MANS = docs/man/kiln.1 docs/man/kiln-bench.1 docs/man/kiln-check-plugin.1 docs/man/kiln-explain.1 docs/man/kiln-info.1 docs/man/kiln-run.1
