/* SPDX-License-Identifier: Apache-2.0 */
/* Kiln itself as a contender: a GEMM planned on one backend, its operands where the backend wants
 * them. */
#ifndef KILN_BENCH_KILN_GEMM_H
#define KILN_BENCH_KILN_GEMM_H

#include "bench/ceiling.h"
#include "bench/gemm.h"

/* Where to run. */
typedef struct bench_target {
    kiln_runtime *runtime;
    const char *backend; /* NULL or "" = by the profile */
    const char *device;  /* NULL or "" = the profile's default; then, if nobody serves the case
                            there, any other */
    const kiln_gemm_desc *planned; /* NULL = as the GEMM says; else the descriptor to plan by, whose
                                      dynamic dimensions allow the GEMM's sizes */
} bench_target;

/* Operand slots that may come packed: A and B. */
enum { BENCH_PACKED_SLOTS = 2 };

typedef struct bench_kiln {
    const bench_gemm *gemm;
    kiln_plan *plan;
    kiln_plan_info info;
    kiln_device *device;
    kiln_stream *stream; /* NULL on the host */
    kiln_tensor tensors[KILN_GEMM_SLOTS];
    kiln_tensor scales[BENCH_QUANTIZED_SLOTS], zero_points[BENCH_QUANTIZED_SLOTS];
    kiln_gemm_args args;
    /* Packed operands in host memory; elsewhere their buffers are in tensors. */
    void *packed_host[BENCH_PACKED_SLOTS];
    int64_t packed_bytes[BENCH_PACKED_SLOTS]; /* 0 = not packed */
    bool model;                               /* times say nothing: only counters do */
    bench_message message;
} bench_kiln;

/* Plans, places operands (packing those of which the descriptor says so), computes once and checks
 * the result. `operands` stays the caller's and must outlive this. False with self->message;
 * nothing is held then. */
bool bench_kiln_open(bench_kiln *self, const bench_target *target, const bench_gemm *gemm,
                     bench_operands *operands);
void bench_kiln_close(bench_kiln *self);

/* For bench_contender: `context` is a bench_kiln. Returns when the results exist. */
int64_t bench_kiln_run(void *context, int64_t calls);

/* The operands in host memory as spans of a memory ceiling: what the kernel must read and write
 * once. */
void bench_kiln_spans(const bench_kiln *self, bench_team *team, bench_memory *memory);

/* The counter "cycles" of the device after `calls` more runs, per run; negative when it has none or
 * a run fails. */
double bench_kiln_cycles(bench_kiln *self, int64_t calls);

/* All backends that serve the GEMM somewhere in the runtime, without staging; at most `capacity`
 * are written, the true number is returned; negative on failure, with the message. */
typedef struct bench_place {
    char backend[32];
    char device[32];
} bench_place;

int64_t bench_places(kiln_runtime *runtime, const kiln_gemm_desc *desc, bench_place *places,
                     int64_t capacity, bench_message *message);

#endif
