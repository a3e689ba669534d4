/* SPDX-License-Identifier: Apache-2.0 */
/* The GEMM of the planted plugin: what its files share. A run computes rows of D one by one.
 * planted_place.c says which rows of A and B, and which steps of k, a row of D belongs to;
 * planted_sum.c sums, planted_epilogue.c does the rest, planted_quantize.c and planted_gradient.c
 * what takes more than one value. */
#ifndef TESTS_CONFORMANCE_PLANTED_GEMM_H
#define TESTS_CONFORMANCE_PLANTED_GEMM_H

#include "planted.h"

/* Behind the slots of a GEMM: what scales A and B. */
enum {
    PLANTED_SCALE = KILN_GEMM_SLOTS,
    PLANTED_ZERO_POINT = KILN_GEMM_SLOTS + 2,
    PLANTED_TENSORS = KILN_GEMM_SLOTS + 4
};

/* One run, or a share of it, where the tensors are. */
typedef struct planted_product {
    const kiln_gemm_desc *desc;
    kiln_gemm_args args; /* with factors as they are applied */
    kiln_tensor tensors[PLANTED_TENSORS];
    char *addresses[PLANTED_TENSORS];
    int64_t entries, m, n, k, columns; /* matrices of D, op(A) op(B), and columns of D */
    int64_t begin, end;                /* rows of D, counted over all its matrices */
    int64_t first_column, end_column;  /* of D */
    int64_t share;                     /* when the caller calls for each by itself */
    int64_t threads;
    double *sums; /* of one row; NULL = on the stack, in pieces */
    int64_t room; /* in sums */
} planted_product;

/* ---- planted_serve.c ---- */

/* Whether such a GEMM is served; else declines with a reason. */
bool planted_accept(const kiln_gemm_desc *desc, kiln_answer *answer);

/* The type of the sum. */
uint32_t planted_sum_type(const kiln_gemm_desc *desc);

/* The index of the first epilogue of a kind; epilogue_count when there is none. */
uint32_t planted_find(const kiln_gemm_desc *desc, uint32_t kind);

/* ---- planted_place.c ---- */

/* What a row of D is made of. */
typedef struct planted_place {
    int64_t row;     /* in its matrix */
    int64_t group;   /* batch entry or group: whose vectors and matrices of epilogues */
    int64_t a, b, d; /* which matrix of each */
    int64_t k, end_of_k;
} planted_place;

/* The place of a row of D, counted over all its matrices; false for one that a grouping leaves out.
 */
bool planted_place_of(const planted_product *product, int64_t line, planted_place *place);

/* An index, count or end is beyond its limit. */
bool planted_groups_exceed(const planted_product *product);

/* ---- planted_sum.c ---- */

/* Elements from a tensor's first to element (row, column) of a matrix of its leading dimension. */
int64_t planted_element_at(const planted_product *product, uint32_t slot, int64_t matrix,
                           int64_t row, int64_t column);

/* Column j of a row of op(A) op(B). */
double planted_sum(const planted_product *product, const planted_place *place, int64_t j);

/* ---- planted_epilogue.c ---- */

/* A row in the making. */
typedef struct planted_row {
    const planted_product *product;
    planted_place place;
    const double *sums; /* those of `count` columns from `first` on; others are made anew */
    int64_t first, count;
} planted_row;

/* The value in column j before epilogue `index`, or behind all. */
double planted_value(const planted_row *row, uint32_t index, int64_t j);

/* ---- planted_quantize.c ---- */

/* Columns of D that share a scale; 0 where D is not quantised. */
int64_t planted_quantized_block(const planted_product *product);

/* Stores `count` columns of D from `first` on, which share a scale, and the scale. */
void planted_quantize(const planted_row *row, int64_t first, int64_t count);

/* ---- planted_gradient.c ---- */

/* Sums over all rows for the columns of the product; before D, which may be C, is written. */
void planted_gradients(const planted_product *product);

/* ---- planted_gemm.c ---- */

void planted_compute(const planted_product *product);

/* ---- planted_pack.c ---- */

enum { PAYLOAD_AT = 192 };

/* Bytes from a tensor's first element to the end of its last. */
int64_t planted_span(const kiln_tensor *tensor);

/* Whether `blob` is this plugin's packing of such a tensor; else a static sentence. */
const char *planted_blob_problem(uint32_t operand, const kiln_tensor *tensor, const char *blob,
                                 int64_t room);
int64_t planted_blob_bytes(const kiln_tensor *tensor);

#endif
