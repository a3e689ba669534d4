/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a GEMM goes beyond the ceiling of arithmetic: each part is measured as a
 * difference between two contenders that took turns, never computed from a model. */
#ifndef KILN_BENCH_GAP_H
#define KILN_BENCH_GAP_H

#include "bench/session.h"

typedef enum bench_part_kind {
    BENCH_PART_BANDWIDTH = 0, /* what the ceiling of memory takes beyond that of arithmetic */
    BENCH_PART_PACKING = 1,   /* what plain operands take beyond packed ones */
    BENCH_PART_TAILS = 2,     /* what this shape takes beyond the rate of whole blocks */
    BENCH_PART_OVERHEAD = 3,  /* what kiln_plan_run takes beyond the backend's own function */
    BENCH_PART_REST = 4,      /* what is left of the gap */
    BENCH_PART_DIRECT = 5,    /* what kiln_call takes beyond kiln_plan_run; no part of the gap */
    BENCH_PARTS = 6
} bench_part_kind;

/* A median over rounds, with its interval, in nanoseconds (cycles of a model). A value may be
 * negative: it is then within the noise, or the parts share something. NaN: not reported. */
typedef struct bench_part {
    bench_estimate amount;
    char remark[256]; /* how it was found, or why not */
} bench_part;

typedef struct bench_gap {
    char backend[32];
    char device[32];
    char kernel[64];
    int64_t threads;
    bool model;             /* amounts are cycles: times say nothing */
    double operations;      /* of one run */
    double bytes;           /* that must be moved at least */
    bench_estimate run;     /* kiln_plan_run */
    double self_ratio;      /* against itself */
    bench_estimate compute; /* the ceiling of arithmetic; NaN = not reported */
    bench_estimate memory;  /* that of memory */
    bench_estimate gap;     /* the run less the ceiling of arithmetic */
    double memory_bytes;    /* that the ceiling of memory moves */
    char compute_name[96];  /* "f32: avx512f …" */
    char memory_name[96];
    int64_t block[3]; /* to whose multiples m, n and k were rounded */
    bool block_told;  /* by the device; else it is a guess */
    bench_part parts[BENCH_PARTS];
    int64_t rounds;
    bool interrupted;
} bench_gap;

/* "bandwidth" and so on. */
const char *bench_part_name(bench_part_kind kind);

/* Measures; the session has its method and team. False with the message when it cannot be done. */
bool bench_gap_measure(bench_session *session, const bench_gemm *gemm, const bench_target *target,
                       bench_gap *gap, bench_message *message);

#endif
