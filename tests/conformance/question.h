/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the oracle of GEMM about one product, for tests that know its answer. */
#ifndef TESTS_CONFORMANCE_QUESTION_H
#define TESTS_CONFORMANCE_QUESTION_H

#include "conformance/gemm.h"

static const double inf = (double)INFINITY, nan_value = (double)NAN;

/* A GEMM in the making: at most 64 elements a tensor. */
typedef struct question {
    kiln_gemm_desc desc;
    kiln_gemm_args args;
    kiln_tensor tensors[KILN_GEMM_SLOTS];
    kiln_tensor scales[2], zero_points[2];
    double memory[KILN_GEMM_SLOTS + 4][64];
    conformance_gemm_expected expected;
} question;

#define SHAPE(...)                                                                    \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                                 \
        __VA_ARGS__                                                                   \
    }
#define VALUES(...)  \
    (const double[]) \
    {                \
        __VA_ARGS__  \
    }

/* A product without tensors; question_end() it. */
question *question_begin(double alpha, double beta);
void question_end(question *q);

/* Sets the tensor of a slot; values may be NULL. */
void slot(question *q, uint32_t index, uint32_t type, uint32_t rank, const int64_t *shape,
          const double *values);

/* Scales of A (0) or B (1), for blocks of so many rows and columns; and zero points. */
void scales(question *q, int operand, uint32_t type, uint32_t rank, const int64_t *shape,
            const double *values, int32_t rows, int32_t columns);
void zero_points(question *q, int operand, uint32_t rank, const int64_t *shape,
                 const double *values);

void add_epilogue(question *q, kiln_epilogue epilogue);

/* Fills q->expected, or fails the test. */
void ask(question *q);

/* Fail the test where numbers differ by more than a part in 10^12; where a bound is below what is
 * wanted, or above it by more than a thousandth, which leaves room for terms of underflow. */
void expect(const double *got, int count, const double *wanted);
void expect_bound(double got, double wanted);

/* n u / (1 - n u) of f32. */
double gamma_of(double roundings);

#endif
