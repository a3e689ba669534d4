/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a measured gap share. */
#ifndef KILN_BENCH_GAP_INTERNAL_H
#define KILN_BENCH_GAP_INTERNAL_H

#include "bench/gap.h"
#include "kiln/plugin.h"

/* Contenders. Those that do not take part have no `run`. */
typedef enum gap_contender {
    GAP_RUN = 0,
    GAP_AGAIN,
    GAP_COMPUTE,
    GAP_MEMORY,
    GAP_PACKED,
    GAP_ROUNDED,
    GAP_ROUNDED_MEMORY,
    GAP_TINY,
    GAP_NATIVE,
    GAP_DIRECT,
    GAP_CONTENDERS
} gap_contender;

/* One GEMM that is measured: the one that is asked about, or a change of it. */
typedef struct gap_variant {
    bench_gemm gemm;
    bench_target target;
    bench_operands operands;
    bench_kiln kiln;
    bench_memory memory;
    bool open, made;
} gap_variant;

typedef struct gap_measurement {
    bench_session *session;
    bench_gap *gap;
    gap_variant plain, packed, rounded;
    gap_variant tiny; /* for what does not depend on sizes */
    kiln_plan_native native;
    kiln_run_context context;
    bench_contender contenders[GAP_CONTENDERS];
    double *samples;            /* of all contenders */
    double *parts[BENCH_PARTS]; /* differences, round by round */
    int64_t rounds;
    bool has_native, has_direct;
    double share; /* operations of the rounded shape over those of the plain one */
    bench_message message;
} gap_measurement;

/* gap_variants.c. Each opens what can be had, and says in the part's remark how it is found or why
 * not. */
bool gap_open_plain(gap_measurement *self, const bench_gemm *gemm, const bench_target *target,
                    bench_message *message);
void gap_open_packed(gap_measurement *self);
void gap_open_rounded(gap_measurement *self);
void gap_open_entries(gap_measurement *self);
void gap_close(gap_measurement *self);

/* Whether the rounded shape is packed as the packed one is. */
bool gap_rounded_is_packed(const gap_measurement *self);

/* For bench_contender: `context` is the measurement. */
int64_t gap_run_native(void *context, int64_t calls);
int64_t gap_run_direct(void *context, int64_t calls);

/* gap_model.c: a device that counts cycles, and whose times say nothing. */
bool gap_measure_cycles(gap_measurement *self, bench_message *message);

#endif
