/* SPDX-License-Identifier: Apache-2.0 */
/* A GEMM that the oracle computes: its arguments, as far as they have been found readable, and its
 * memory. */
#ifndef KILN_CONFORMANCE_GEMM_JOB_H
#define KILN_CONFORMANCE_GEMM_JOB_H

#include "conformance/gemm.h"
#include "conformance/gemm/numeric.h"
#include "conformance/gemm/operand.h"

/* Steps of k in which no scale changes. */
typedef struct segment {
    int64_t begin, end;
} segment;

/* Sums of a bias gradient on the way: values, their magnitudes, their errors, and how many of each
 * row. */
typedef struct gradient_sums {
    long double *values;
    double *magnitudes, *errors;
    int64_t *counts;
} gradient_sums;

/* One GEMM on its way. */
typedef struct gemm_job {
    const kiln_gemm_desc *desc;
    gemm_arithmetic arithmetic;
    int64_t m, n, k, batch;
    double alpha, beta;
    gemm_operand a, b;
    matrix_view c, operands[KILN_GEMM_MAX_EPILOGUES], groups;
    conformance_gemm_expected *expected;
    gradient_sums gradients[KILN_GEMM_MAX_EPILOGUES];

    int64_t segment_count;
    segment *segments;
    double *op_b;           /* op(B) of one part, without scales, K × N */
    gemm_factor *b_factors; /* of its segments and columns */
    double *op_a;           /* one row of op(A), without scales */

    bool *is_row; /* of the part under way: which of the M rows */

    /* Of one row of D. */
    double *segment_sums, *segment_magnitudes;
    gemm_terms *terms;
    long double *values;
    double *errors;
} gemm_job;

/* Fills sizes and views from arguments; job->desc and job->expected are set. */
kiln_status conformance_job_bind(gemm_job *job, const kiln_gemm_args *args, const char **reason);

/* Memory for the bound job and for what it expects; false when there is none. */
bool conformance_job_make(gemm_job *job);

/* Frees the job's own memory, all or a part of it. */
void conformance_job_free(gemm_job *job);

#endif
