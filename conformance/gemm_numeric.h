/* SPDX-License-Identifier: Apache-2.0 */
/* How far each step of a GEMM may lead from its exact value. docs/gemm.md derives what these
 * functions compute. */
#ifndef KILN_CONFORMANCE_GEMM_NUMERIC_H
#define KILN_CONFORMANCE_GEMM_NUMERIC_H

#include <stdbool.h>

#include "kiln/gemm.h"

/* The arithmetic that a GEMM's definition allows a backend. */
typedef struct gemm_arithmetic {
    bool exact_sum;    /* the sum is exact: i8 */
    bool flushes;      /* denormals may be taken as zero */
    double sum_unit;   /* relative rounding of sum, alpha and beta */
    double step_unit;  /* of the epilogues */
    double tiny;       /* what underflow may cost a value */
    double largest;    /* beyond it an intermediate value may be Inf */
    bool convert_once; /* the sum is rounded to step_unit before the first epilogue */
} gemm_arithmetic;

gemm_arithmetic conformance_gemm_arithmetic(const kiln_gemm_desc *desc, uint32_t answer_flags);

/* Error of alpha Σab + beta c. `magnitude` is Σ|a||b| (|Σab| where the sum is exact), `spread`
 * Σ(|a| + |b|), which matters only where denormals are flushed. All of these return INFINITY where
 * overflow makes the result uncertain. */
double conformance_gemm_sum_error(const gemm_arithmetic *arithmetic, int64_t k, double alpha,
                                  double magnitude, double spread, double beta, double c);

/* Error of one epilogue that took `before`, known to ± error, with operand or factor x, to `after`.
 */
double conformance_gemm_step_error(const gemm_arithmetic *arithmetic, uint32_t kind,
                                   long double before, double error, double x, long double after);

/* The value as D's type clamps it, and the final bound. */
double conformance_gemm_clamped(uint32_t d_type, bool saturate, long double value);
double conformance_gemm_output_bound(const gemm_arithmetic *arithmetic, uint32_t d_type,
                                     double value, double error);

#endif
