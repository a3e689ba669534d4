/* SPDX-License-Identifier: Apache-2.0 */
/* GEMMs with everything that a descriptor can say, over random tensors in host memory; what they
 * must give, by plain loops; and the ways to run them, which must all give the same bits. */
#ifndef TESTS_REF_PROBLEM_H
#define TESTS_REF_PROBLEM_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kiln/gemm.h"

enum {
    PROBLEM_TENSORS = KILN_GEMM_SLOTS + 4
}; /* the slots; scales, then zero points, of A and B */

typedef struct problem {
    /* Set these, then call problem_make. Sizes in the descriptor may be maxima. */
    kiln_gemm_desc desc;
    int64_t m, n, k, count; /* of op(A) op(B); batch entries or groups */
    double alpha, beta;
    bool shared_scales; /* one for all entries */
    bool shared_vectors;
    uint64_t seed;

    kiln_tensor tensors[KILN_GEMM_SLOTS];
    kiln_tensor grids[4];
    char *memory[PROBLEM_TENSORS];
    size_t bytes[PROBLEM_TENSORS];
} problem;

/* A descriptor of these sizes, without epilogues and C. */
problem problem_of(uint32_t a_type, uint32_t b_type, uint32_t d_type, int64_t m, int64_t n,
                   int64_t k);

/* Adds an epilogue. */
kiln_epilogue *problem_add(problem *p, uint32_t kind, uint32_t operand, uint32_t type);

/* Makes the tensors, with gaps behind their rows, of 0xff; outputs are all 0xff. GROUPS gets
 * something valid: see problem_group. */
void problem_make(problem *p);
void problem_free(problem *p);

/* Which group row `row` of D belongs to in a contiguous grouping (-1: none). How many rows of entry
 * `entry` count, and its steps of k, in the others. */
int32_t problem_row_group(const problem *p, int64_t row);
int64_t problem_rows(const problem *p, int64_t entry);
void problem_steps(const problem *p, int64_t entry, int64_t *begin, int64_t *end);

/* The first epilogue of a kind; NULL when there is none. */
const kiln_epilogue *problem_find(const problem *p, uint32_t kind);

kiln_gemm_args problem_args(const problem *p);

/* A runtime with ref alone. `blas` is options.ref.blas. */
kiln_runtime *problem_runtime(const char *threads, const char *blas);
kiln_plan *problem_plan(kiln_runtime *runtime, const kiln_gemm_desc *desc);

/* Sets the outputs to 0xff, runs, and fails the test unless the run returns `expected`. */
void problem_run(kiln_plan *plan, problem *p, kiln_status expected);

/* Fails the test unless the outputs are what plain loops give, and nothing else was written. */
void problem_check_values(const problem *p, const char *what);

/* Runs it in every way (threads, parts, packed operands that are also unpacked, plain C blocks),
 * each giving `status`, and checks values and that all bits are the same. */
void problem_check(problem *p, const char *what, kiln_status status);

/* The outputs, to compare: problem_same fails the test where they differ. */
typedef struct outputs {
    char *bytes[PROBLEM_TENSORS];
} outputs;

outputs problem_outputs(const problem *p);
void problem_same(const problem *p, const outputs *expected, const char *what);
void outputs_free(outputs *o);

/* What plain loops give for an element of D, before it is quantised and rounded, after the first
 * `steps` epilogues; and how far ref may be from it. */
double problem_value(const problem *p, const double *a, const double *b, int64_t entry, int64_t row,
                     int64_t column, uint32_t steps, double *tolerance);

#endif
