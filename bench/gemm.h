/* SPDX-License-Identifier: Apache-2.0 */
/* A GEMM to be measured: its random operands in host memory, its cost, and the check that a result
 * is right. Plain data, so that it can be sent to the process of a peer, which then makes the same
 * operands. */
#ifndef KILN_BENCH_GEMM_H
#define KILN_BENCH_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "kiln/gemm.h"
#include "bench/measure.h"

typedef struct bench_gemm {
    kiln_gemm_desc
        desc; /* fixed sizes; PACKED_A, PACKED_B: that operand is prepared before it is measured */
    double alpha;
    double beta;
    uint64_t seed; /* of the operands */
} bench_gemm;

/* Operands that may be quantised: A and B. */
enum { BENCH_QUANTIZED_SLOTS = 2 };

/* Host memory of all operands, contiguous, 64-byte aligned, random; contents of outputs undefined.
 * Unused slots are zeroed. Rows, or steps of k, are spread evenly over groups; of a masked grouping
 * all rows count. `scale` and `zero_point` of A and B point into this. */
typedef struct bench_operands {
    kiln_tensor tensors[KILN_GEMM_SLOTS];
    kiln_tensor scales[BENCH_QUANTIZED_SLOTS], zero_points[BENCH_QUANTIZED_SLOTS];
} bench_operands;

/* How many tensors a run of the GEMM takes. */
uint32_t bench_gemm_tensor_count(const kiln_gemm_desc *desc);

/* Whether a slot is written and not read. */
bool bench_gemm_is_output(const kiln_gemm_desc *desc, uint32_t slot);

/* Whether the operands are small enough for their bytes to be counted in 64 bits; false with a
 * message when not. bench_gemm_bytes is for those only. */
bool bench_gemm_countable(const bench_gemm *gemm, bench_message *message);

/* Makes the operands; false with a message when they are too large for the memory that is
 * available. */
bool bench_operands_make(const bench_gemm *gemm, bench_operands *operands, bench_message *message);
void bench_operands_free(bench_operands *operands);

/* Bytes of a slot's tensor. */
int64_t bench_tensor_bytes(const kiln_tensor *tensor);

/* Multiplications and additions: 2 m n k, for each batch entry and each group with rows of its own.
 */
double bench_gemm_operations(const bench_gemm *gemm);

/* Bytes that must be read and written at least: every operand once. */
double bench_gemm_bytes(const bench_gemm *gemm);

/* Compares D with sums in double at `samples` random places and the corners, or everywhere when
 * samples is 0, within the bound that kiln/gemm.h documents (a few times it through epilogues).
 * False with a message that names the worst place. */
bool bench_gemm_check(const bench_gemm *gemm, const bench_operands *operands, int64_t samples,
                      bench_message *message);

/* Writes a message; returns false, so that `return bench_say(…)` works. */
bool bench_say(bench_message *message, const char *format, ...) KILN_PRINTF(2, 3);

#endif
