/* SPDX-License-Identifier: Apache-2.0 */
/* The reference plugin: every operator computed plainly in host memory, in double, over OpenBLAS.
 * What all of its files share: the instance, the block product, and views of tensors.
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
    REF_ROWS = 8,                       /* of op(A) in a block */
    REF_COLUMNS = 64,                   /* of op(B) in a block */
    REF_DEPTH = 128,                    /* steps of k in a block */
    REF_A_BLOCK = REF_DEPTH * REF_ROWS, /* elements of one operand in a block, [REF_DEPTH][panel] */
    REF_B_BLOCK = REF_DEPTH * REF_COLUMNS,
    REF_SUMS = REF_ROWS * REF_COLUMNS /* of a block product, [REF_ROWS][REF_COLUMNS] */
};

typedef struct ref_instance {
    const kiln_host *host;
    bool blas;       /* blocks are multiplied by OpenBLAS */
    char kernel[64]; /* the answer's */
    char remark[160];
} ref_instance;

static inline int64_t ref_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t ref_divide_up(int64_t value, int64_t by)
{
    return value / by + (value % by != 0);
}

/* ---- block.c ---- */

/* sums = aᵀ b, or += when `add`; a and b are one block of each operand. Only the first `steps`
 * steps are multiplied where that is less than REF_DEPTH, in plain C: for sums that are exact, and
 * so the same in any order. */
void ref_block_multiply(bool blas, bool add, int64_t steps, const double *a, const double *b,
                        double *sums);

/* Whether OpenBLAS's block agrees with the plain one, and gives each row and column the same bits
 * in every place. False also when memory is exhausted. */
bool ref_block_check(void);

/* ---- element.c ---- */

/* Converts `count` elements, from element `first` of `data` on and `stride` apart, into doubles,
 * `step` apart: exactly, but for i64 and u64. Nothing needs alignment. */
void ref_elements_load(uint32_t type, const char *data, int64_t first, int64_t stride,
                       int64_t count, double *values, int64_t step);

/* Copies one element bit by bit. */
void ref_element_copy(uint32_t type, char *to, int64_t to_index, const char *from,
                      int64_t from_index);

/* ---- matrix.c: C, D, the operands of epilogues, D's scales ---- */

/* What is read or written element by element: strides of 0 broadcast. */
typedef struct ref_matrix {
    char *data;
    uint32_t type;
    int64_t entries;                                 /* of a batch, or groups; 1: shared by all */
    int64_t entry_stride, row_stride, column_stride; /* in elements */
} ref_matrix;

/* The view of a tensor as an operand of the given kiln_operand_shape. */
ref_matrix ref_matrix_of(const kiln_tensor *tensor, char *data, uint32_t shape);

/* `count` elements of a row from `column` on, as double. */
void ref_matrix_load(const ref_matrix *matrix, int64_t entry, int64_t row, int64_t column,
                     int64_t count, double *values);

/* Writes them, each rounded once, with KILN_SATURATE when `saturate`. */
void ref_matrix_store(const ref_matrix *matrix, int64_t entry, int64_t row, int64_t column,
                      int64_t count, const double *values, bool saturate);

/* ---- quantization.c: scales and zero points ---- */

/* Scales or zero points of an operand: that of row r and step k is element [r / row_block,
 * k / depth_block]. */
typedef struct ref_grid {
    const char *data; /* NULL: there are none */
    uint32_t type;
    int64_t row_block, depth_block; /* INT64_MAX for the whole extent */
    int64_t entry_stride, row_stride, depth_stride;
} ref_grid;

/* Rows that are taken together: `count` from `first` on, or those that `list` names. */
typedef struct ref_rows {
    const int64_t *list;
    int64_t first, count;
} ref_rows;

static inline int64_t ref_row(const ref_rows *rows, int64_t index)
{
    return rows->list ? rows->list[index] : rows->first + index;
}

/* The rows from `index` on, `count` at most. */
static inline ref_rows ref_rows_from(const ref_rows *rows, int64_t index, int64_t count)
{
    ref_rows part = {rows->list ? rows->list + index : NULL, rows->first + index,
                     ref_smaller(count, rows->count - index)};
    return part;
}

/* The shape [rows, columns] that the scales of a stored matrix have. */
void ref_grid_shape(const kiln_quantization *quantization, const int64_t stored[2],
                    int64_t shape[2]);

/* The view of a tensor of scales or zero points for an operand that is stored with the rows of op()
 * first, or with k first. */
ref_grid ref_grid_of(const kiln_tensor *tensor, const char *data,
                     const kiln_quantization *quantization, bool rows_first);

/* Those of `rows` at step k; `absent` where there are none. */
void ref_grid_load(const ref_grid *grid, int64_t entry, const ref_rows *rows, int64_t k,
                   double absent, double *values);

/* The first step behind k for which other ones hold; INT64_MAX when there is none. */
int64_t ref_grid_run_end(const ref_grid *grid, int64_t k);

/* The scale for values of which the largest finite magnitude is `largest`, in `type`, of a result
 * of d_type: see KILN_EPILOGUE_QUANTIZE. */
double ref_scale_for(uint32_t d_type, uint32_t type, double largest);

/* ---- operand.c: A and B ---- */

/* op(A) or op(B)ᵀ as rows × K elements, strided or packed: row r and step k of an entry lie at
 * (r / panel) * panel_stride + (r % panel) * row_stride + k * depth_stride. */
typedef struct ref_operand {
    char *data;
    uint32_t type;
    int64_t panel; /* REF_ROWS for A, REF_COLUMNS for B */
    int64_t entries, rows, depth;
    int64_t entry_stride, panel_stride, row_stride, depth_stride; /* in elements */
    ref_grid scale, zero;
} ref_operand;

/* Whether the rows of op(A) or op(B)ᵀ are those of the stored matrix. */
static inline bool ref_rows_first(uint32_t slot, bool transposed)
{
    return transposed == (slot == KILN_GEMM_B);
}

/* The view of operand slot KILN_GEMM_A or KILN_GEMM_B, from a strided matrix or from what packing
 * makes of it at `data`; without scales and zero points. */
ref_operand ref_operand_strided(const kiln_tensor *tensor, char *data, uint32_t slot,
                                bool transposed);
ref_operand ref_operand_packed(const kiln_tensor *tensor, char *data, uint32_t slot,
                               bool transposed);

/* The number of one element from `data` on. */
int64_t ref_operand_index(const ref_operand *operand, int64_t entry, int64_t row, int64_t k);

/* At most a panel of rows, which begins a panel unless they are a list, and `depth` steps from k
 * on: less the zero points and times the scales, as double, [steps][panel], with zeros for what is
 * missing. */
void ref_operand_load(const ref_operand *operand, int64_t entry, const ref_rows *rows, int64_t k,
                      int64_t depth, int64_t steps, double *block);

#endif
