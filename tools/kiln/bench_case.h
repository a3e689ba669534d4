/* SPDX-License-Identifier: Apache-2.0 */
/* One GEMM that `kiln bench` measures, from words or from a record of calls. */
#ifndef KILN_TOOLS_BENCH_CASE_H
#define KILN_TOOLS_BENCH_CASE_H

#include "bench/kiln_gemm.h"
#include "tools/kiln/bench_options.h"
#include "tools/kiln/gemm_words.h"

/* What a case says, and how it is told: the shape is words without type, device and backend. */
typedef struct bench_case {
    bench_gemm gemm;
    char device[64];  /* "" = not told */
    char backend[32]; /* "" = by the profile */
    char shape[192];
    char dtype[48];

    /* Of a replay. */
    int64_t calls;          /* how often it was called; 0 = no replay */
    kiln_gemm_desc planned; /* by which it was planned */
    char home[64];          /* the device where its tensors lived: there, if this machine has it */
} bench_case;

/* Reads a case from words. False with what is wrong. */
bool bench_case_read(const bench_options *self, const char *text, bench_case *one,
                     gemm_problem *problem);

/* Completes a case whose descriptor and shape are set. False with what is wrong when it cannot be
 * measured. */
bool bench_case_finish(const bench_options *self, bench_case *one, gemm_problem *problem);

#endif
