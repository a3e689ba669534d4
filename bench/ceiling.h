/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine can do at most: loops that do nothing but the one instruction that a kernel
 * lives on. Each kind has its own file with one loop per instruction set; the fastest that runs
 * here is the ceiling. */
#ifndef KILN_BENCH_CEILING_H
#define KILN_BENCH_CEILING_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/team.h"

typedef enum bench_ceiling_kind {
    BENCH_CEILING_F32 =
        0, /* fused multiply-add, f32: also the ceiling of f16, which accumulates in f32 */
    BENCH_CEILING_F64 = 1,  /* fused multiply-add, f64 */
    BENCH_CEILING_BF16 = 2, /* bf16 dot product into f32 */
    BENCH_CEILING_INT8 = 3, /* u8·s8 dot product into i32 */
    BENCH_CEILING_KINDS = 4
} bench_ceiling_kind;

/* Bytes of random input that a loop reads: 16 vectors of 64 bytes. */
enum { BENCH_CEILING_INPUT = 16 * 64 };

/* One loop. `run` does `units` units of `operations` each (multiply and add count two) and returns
 * a sum of what it computed, so that no compiler may leave anything out. `inputs` is
 * BENCH_CEILING_INPUT bytes of random finite values of the kind's element type. */
typedef struct bench_loop {
    const char *name;
    double operations;
    bool (*supported)(void);
    double (*run)(int64_t units, const void *inputs);
} bench_loop;

/* The loops of a kind, ended by one without a name. */
extern const bench_loop bench_loops_f32[];
extern const bench_loop bench_loops_f64[];
extern const bench_loop bench_loops_bf16[];
extern const bench_loop bench_loops_int8[];

/* Always true: for loops that run anywhere. */
bool bench_loop_anywhere(void);

/* A ceiling of arithmetic, ready to be a contender. */
typedef struct bench_ceiling {
    bench_ceiling_kind kind;
    const bench_loop *loop;
    bench_team *team;
    double operations; /* of one call: a unit on every thread */
    _Alignas(64) unsigned char inputs[BENCH_CEILING_INPUT];
} bench_ceiling;

/* Takes the fastest loop of the kind for this machine, found by a few milliseconds of trial; bf16
 * becomes f32 where there is no dot product of bf16 or where it is slower than converting (it is on
 * some server CPUs). The team stays the caller's and must outlive the ceiling. */
void bench_ceiling_init(bench_ceiling *ceiling, bench_ceiling_kind kind, bench_team *team,
                        uint64_t seed);

/* For bench_contender: `context` is a bench_ceiling. */
int64_t bench_ceiling_run(void *context, int64_t calls);

/* "f32" and so on: the key in reports. */
const char *bench_ceiling_name(bench_ceiling_kind kind);

/* ---- Memory ---- */

enum { BENCH_MEMORY_SPANS = 4 };

typedef struct bench_span {
    unsigned char *address;
    int64_t bytes;
} bench_span;

/* A loop that reads some spans of memory and writes one, as often and in the ratio that a kernel
 * must at least: once each. Giving it the kernel's own operands gives it the same bytes, pages and
 * state of the caches. */
typedef struct bench_memory {
    bench_team *team;
    bench_span reads[BENCH_MEMORY_SPANS]; /* unused ones have no bytes */
    bench_span write;                     /* overwritten with anything */
    double sink;
} bench_memory;

/* For bench_contender: `context` is a bench_memory; one call reads and writes everything once,
 * shared among the team. */
int64_t bench_memory_run(void *context, int64_t calls);

/* Name of the instruction set that the memory loop uses here. */
const char *bench_memory_kernel(void);

#endif
