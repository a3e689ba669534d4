/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the naive plugin share. */
#ifndef TESTS_CONFORMANCE_NAIVE_PARTS_H
#define TESTS_CONFORMANCE_NAIVE_PARTS_H

#include "kiln/gemm.h"
#include "tests/conformance/naive.h"

/* Values of the option "order". */
enum { SCALED_ELEMENTS, SCALED_SUMS, JOINT_SCALES };

typedef struct naive_instance {
    const kiln_host *host;
    int order, mistake;
} naive_instance;

/* A run. `lead` is the batch entry, or the group. */
typedef struct naive_run {
    const naive_instance *instance;
    const kiln_gemm_desc *desc;
    const kiln_tensor *tensors;
    bool wide;
    int64_t m, n, k, leads;
    double alpha, beta;
    double *a, *b, *a_scale, *b_scale, *values; /* K, K × N, K, K × N, N */
    bool exceeded;
} naive_run;

static inline bool naive_is_mistake(const naive_run *run, int mistake)
{
    return run->instance->mistake == mistake;
}

/* One rounding of the arithmetic: of f32 values, sums, products and quotients in f64 are exact
 * enough that rounding them again does no harm. */
static inline double naive_rounded(const naive_run *run, double value)
{
    return run->wide ? value : (double)(float)value;
}

/* Element (row, column) of a tensor that has `own` dimensions of its own, behind the leading one
 * if there is one. */
double naive_load(const naive_run *run, const kiln_tensor *tensor, int64_t lead, uint32_t own,
                  int64_t row, int64_t column);
void naive_store(const naive_run *run, const kiln_tensor *tensor, int64_t lead, uint32_t own,
                 int64_t row, int64_t column, double value, int flags);

/* Steps [begin, end) of k of row or column `across` of op(A) or op(B), `step` apart in `values` and
 * `scales`: elements less their zero points, and their scales. */
void naive_load_operand(const naive_run *run, uint32_t slot, int64_t lead, int64_t across,
                        int64_t begin, int64_t end, int64_t step, double *values, double *scales);

/* The product of the row of A that was loaded and column j of B, over these steps. */
double naive_sum(const naive_run *run, int64_t j, int64_t begin, int64_t end);

/* Applies the epilogues to the values of a row and stores them. `last`: of its group. */
void naive_finish_row(naive_run *run, int64_t group, int64_t d_lead, int64_t row, bool last);

/* All of D, and what else is written. */
void naive_compute(naive_run *run);

#endif
