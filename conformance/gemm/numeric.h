/* SPDX-License-Identifier: Apache-2.0 */
/* How far each step of a GEMM may lead from its exact value. docs/gemm.md derives what these
 * functions compute. Errors are INFINITY where overflow, or an Inf, makes the result uncertain. */
#ifndef KILN_CONFORMANCE_GEMM_NUMERIC_H
#define KILN_CONFORMANCE_GEMM_NUMERIC_H

#include <stdbool.h>

#include "kiln/gemm.h"

/* The arithmetic that a GEMM's definition allows a backend. */
typedef struct gemm_arithmetic {
    bool wide;               /* f64 */
    bool exact_runs;         /* integers: exact where the scales do not change */
    bool flushes;            /* denormals may be taken as zero */
    bool a_scaled, b_scaled; /* elements are multiplied by scales */
    double sum_unit;         /* relative rounding of sum, alpha and beta */
    double step_unit;        /* of the epilogues */
    double tiny;             /* what underflow may cost a value */
    double smallest;         /* normal number: what is less may lose digits, or vanish */
    double largest;          /* beyond it an intermediate value may be Inf */
    double relative;         /* what the precision allows beside */
    bool convert_once;       /* the sum is rounded to step_unit before the first epilogue */
} gemm_arithmetic;

gemm_arithmetic conformance_gemm_arithmetic(const kiln_gemm_desc *desc, uint32_t answer_flags);

/* Of one operand's row or column, over a segment of k in which no scale changes: the largest finite
 * |stored - zero point| and the least that is not 0, and the scale. */
typedef struct gemm_factor {
    double largest, least, scale;
} gemm_factor;

/* Σab of one element of D, gathered segment by segment. */
typedef struct gemm_terms {
    double magnitude; /* Σ|a||b| */
    double rounded; /* what roundings are relative to: Σ|a||b|, or Σ|Σab| over exact segments */
    double underflow; /* in units of what underflow may cost */
    int64_t segments;
    bool uncertain;
} gemm_terms;

/* Adds a segment of `steps` steps, whose unscaled products have the sum `sum` and Σ of magnitudes
 * `magnitude`. */
void conformance_gemm_add_segment(const gemm_arithmetic *arithmetic, int64_t steps,
                                  const gemm_factor *a, const gemm_factor *b, double sum,
                                  double magnitude, gemm_terms *terms);

/* Error of alpha Σab + beta c over k steps, where that has the exact value `value`. */
double conformance_gemm_sum_error(const gemm_arithmetic *arithmetic, int64_t k, double alpha,
                                  const gemm_terms *terms, double beta, double c,
                                  long double value);

/* Error of one epilogue that took `before`, known to ± error, with operand or factor x, to `after`.
 */
double conformance_gemm_step_error(const gemm_arithmetic *arithmetic, uint32_t kind,
                                   long double before, double error, double x, long double after);

/* Error of silu(gate) * up = after, where silu(gate) is `silu`. */
double conformance_gemm_swiglu_error(const gemm_arithmetic *arithmetic, long double gate,
                                     double gate_error, long double silu, long double up,
                                     double up_error, long double after);

/* Error of a sum of `count` values, of which Σ|v| is `magnitude` and Σ of errors `error`. */
double conformance_gemm_gradient_error(const gemm_arithmetic *arithmetic, int64_t count,
                                       long double sum, double magnitude, double error);

/* The value as D's type clamps it, and the final bound. */
double conformance_gemm_clamped(uint32_t d_type, bool saturate, long double value);
double conformance_gemm_output_bound(const gemm_arithmetic *arithmetic, uint32_t d_type,
                                     double value, double error);

/* What the scale of a block of `count` values may be: see conformance_gemm_expected. */
void conformance_gemm_scale_range(const gemm_arithmetic *arithmetic, const kiln_gemm_desc *desc,
                                  int64_t count, const double *values, const double *errors,
                                  double *low, double *high);

/* ---- Of types ---- */

/* Range of a type; what rounding to the nearest may cost a number of that magnitude, at most. */
double conformance_type_largest(uint32_t type);
double conformance_type_lowest(uint32_t type);
double conformance_type_rounding(uint32_t type, double magnitude);
bool conformance_type_is_integer(uint32_t type);

#endif
