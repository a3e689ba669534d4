/* SPDX-License-Identifier: Apache-2.0 */
/* How far what a step made is from what it had to make. */
#ifndef KILN_TOOLS_JUDGE_H
#define KILN_TOOLS_JUDGE_H

#include "conformance/gemm.h"
#include "tools/kiln/run.h"

/* A tensor as it came out, on the host, contiguous; of a quantised D with its scales. */
typedef struct judged_values {
    kiln_tensor tensor; /* type NONE: there is none */
    kiln_tensor scales; /* type NONE: there are none */
    int64_t block;      /* columns that share one; 0 = all */
} judged_values;

/* One tensor that a step makes, and what is known about it. */
typedef struct judged {
    int64_t index, scales;   /* of the tensor in the job, and of those of its scales */
    judged_values result;    /* of the step */
    judged_values reference; /* of the other backend; none when the oracle is the reference */
    /* From the oracle; NULL when only a tolerance judges two backends. */
    const double *exact, *bound;
    const double *scale_low, *scale_high; /* of a quantised D, else NULL */
    const bool *written;                  /* rows that count; NULL = all */
    bool saturate;
    /* What stays Inf or NaN on the way to this tensor; NONE: nothing must. */
    uint32_t overflows_in; /* the type of the arithmetic */
    double tolerance;      /* relative to the largest magnitude; negative = the bounds judge */
} judged;

/* Adds what is found of one tensor: the comparison has begun with judge_begin and ends with
 * judge_end. */
void judge_begin(run_comparison *found, bool bounded);
void judge_tensor(const judged *judge, run_comparison *found);
void judge_end(double tolerance, run_comparison *found);

#endif
