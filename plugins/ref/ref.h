/* SPDX-License-Identifier: Apache-2.0 */
/* The reference plugin: every operator computed plainly in host memory, in double, over OpenBLAS.
 * What all of its files share.
 *
 * How a product is computed. op(A) is cut into panels of REF_ROWS rows, op(B) into panels of
 * REF_COLUMNS columns, K into steps of REF_DEPTH. One panel of each, one step deep, is converted to
 * double, padded with zeros, and multiplied in a block of that one shape; the blocks of a panel
 * pair are added in ascending order of k. A row of D therefore has the same bits wherever it
 * stands, whatever is beside it and whoever computes it. The block is also small enough (m*n*k <=
 * 262,144) for OpenBLAS to stay on the calling thread, and low, so that little is wasted on a
 * single row. */
#ifndef REF_H
#define REF_H

#include <stdbool.h>

#include "kiln/gemm.h"
#include "kiln/plugin.h"

enum {
    REF_ROWS = 8,     /* of op(A) in a block */
    REF_COLUMNS = 64, /* of op(B) in a block */
    REF_DEPTH = 128,  /* steps of k in a block */
    REF_TILE = 128,   /* rows and columns of D that one thread computes at a time, at most */
    REF_A_BLOCK = REF_DEPTH * REF_ROWS, /* elements of one operand in a block, [REF_DEPTH][panel] */
    REF_B_BLOCK = REF_DEPTH * REF_COLUMNS
};

typedef struct ref_instance {
    const kiln_host *host;
    bool blas;       /* blocks are multiplied by OpenBLAS */
    char kernel[64]; /* the answer's */
    char remark[160];
} ref_instance;

/* ---- block.c ---- */

/* sum (REF_ROWS × REF_COLUMNS, rows REF_TILE apart) = aᵀ b, or += when `add`; a and b are one block
 * of each operand. */
void ref_block_multiply(bool blas, bool add, const double *a, const double *b, double *sum);

/* Whether OpenBLAS's block agrees with the plain one, and gives each row and column the same bits
 * in every place. False also when memory is exhausted. */
bool ref_block_check(void);

/* ---- operand.c ---- */

/* op(A) or op(B)ᵀ as rows × K elements, strided or packed: row r and step k of a batch entry lie at
 * (r / panel) * panel_stride + (r % panel) * row_stride + k * depth_stride. */
typedef struct ref_operand {
    char *data;
    uint32_t type;
    int64_t panel; /* REF_ROWS for A, REF_COLUMNS for B */
    int64_t batch, rows, depth;
    int64_t batch_stride, panel_stride, row_stride, depth_stride; /* in elements */
} ref_operand;

/* A matrix or vector that is added, multiplied or written element by element: strides of 0
 * broadcast. */
typedef struct ref_matrix {
    char *data;
    uint32_t type;
    int64_t batch_stride, row_stride, column_stride;
} ref_matrix;

/* The view of operand slot KILN_GEMM_A or KILN_GEMM_B, from a strided matrix or from what packing
 * makes of it at `data`. */
ref_operand ref_operand_strided(const kiln_tensor *tensor, char *data, uint32_t slot,
                                bool transposed);
ref_operand ref_operand_packed(const kiln_tensor *tensor, char *data, uint32_t slot,
                               bool transposed);

/* Address of one element. */
char *ref_operand_at(const ref_operand *operand, int64_t batch, int64_t row, int64_t k);

/* One block as double, [REF_DEPTH][panel], zeros beyond the operand's edge. */
void ref_operand_load(const ref_operand *operand, int64_t batch, int64_t panel, int64_t k,
                      double *block);

/* The view of C, D or an epilogue's operand of the given kiln_operand_shape. */
ref_matrix ref_matrix_of(const kiln_tensor *tensor, char *data, uint32_t shape);

/* `count` elements of a row from `column` on, as double. */
void ref_matrix_load(const ref_matrix *matrix, int64_t batch, int64_t row, int64_t column,
                     int64_t count, double *values);

/* Writes them, rounded once. */
void ref_matrix_store(const ref_matrix *matrix, int64_t batch, int64_t row, int64_t column,
                      int64_t count, const double *values, bool saturate);

/* ---- gemm ---- */

typedef struct ref_gemm_plan {
    ref_instance *instance;
    kiln_gemm_desc desc;
    int64_t tile_rows, tile_columns; /* whole panels; less than REF_TILE for small problems */
    int64_t slot_bytes;              /* workspace of one thread */
} ref_gemm_plan;

/* gemm_query.c */
kiln_status ref_gemm_query(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                           kiln_answer *answer);
kiln_status ref_gemm_plan_create(void *instance, const kiln_plan_request *request, void **plan);
void ref_gemm_plan_free(void *plan);

/* gemm_run.c */
kiln_status ref_gemm_run(void *plan, const kiln_run_context *context,
                         const kiln_args_head *arguments);

/* gemm_pack.c */
kiln_status ref_gemm_pack_size(void *plan, uint32_t operand, int64_t *bytes);
kiln_status ref_gemm_pack(void *plan, const kiln_run_context *context, uint32_t operand,
                          const kiln_tensor *source, const kiln_tensor *packed);
kiln_status ref_gemm_unpack(void *plan, const kiln_run_context *context, uint32_t operand,
                            const kiln_tensor *packed, const kiln_tensor *destination);

/* The view of operand slot KILN_GEMM_A or KILN_GEMM_B, strided or packed. Refuses, with a sentence,
 * memory that the host cannot address and blobs that are not this plugin's packing of this tensor.
 */
kiln_status ref_gemm_operand(const ref_gemm_plan *plan, uint32_t slot, const kiln_tensor *tensor,
                             ref_operand *operand);

/* gemm_epilogue.c: one row of a tile after the product. */
typedef struct ref_gemm_finish {
    const kiln_gemm_desc *desc;
    bool wide; /* in double; else every step is rounded to f32 */
    double alpha, beta;
    ref_matrix c, d; /* c.data is NULL when beta is 0 */
    ref_matrix operands[KILN_GEMM_MAX_EPILOGUES];
} ref_gemm_finish;

/* alpha, beta and the epilogues on `count` sums (at most REF_TILE, overwritten), then the result
 * into D. */
void ref_gemm_finish_row(const ref_gemm_finish *finish, int64_t batch, int64_t row, int64_t column,
                         int64_t count, double *values);

#endif
