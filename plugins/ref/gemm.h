/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM: what its files share. D is computed tile by tile: gemm_groups.c says which rows and which
 * steps of k belong together, gemm_product.c sums, gemm_epilogue.c does the rest and writes,
 * gemm_run.c shares the tiles out. */
#ifndef REF_GEMM_H
#define REF_GEMM_H

#include "plugins/ref/ref.h"

/* ---- gemm_query.c ---- */

kiln_status ref_gemm_query(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                           kiln_answer *answer);

/* Both operands are integers: their products are summed exactly. */
bool ref_gemm_is_integer(const kiln_gemm_desc *desc);

/* The epilogue of a kind, or NULL. */
const kiln_epilogue *ref_gemm_find(const kiln_gemm_desc *desc, uint32_t kind);

/* ---- gemm_plan.c ---- */

/* How D is cut up, and what memory that takes. */
typedef struct ref_gemm_layout {
    int64_t tile_rows, tile_columns; /* of alpha op(A) op(B): whole panels, and whole blocks of
                                        what QUANTIZE scales */
    int64_t gradients;               /* epilogues that sum over rows */
    bool exact_runs;      /* integers are summed over the runs of k in which their scales stay, and
                             scaled afterwards */
    int64_t groups_bytes; /* at the beginning of the workspace: what gemm_groups.c makes */
    int64_t slot_bytes;   /* behind that, for each thread */
} ref_gemm_layout;

/* False when it does not fit in 64 bits. */
bool ref_gemm_layout_of(const kiln_gemm_desc *desc, ref_gemm_layout *layout);

/* What one thread works in. */
typedef struct ref_gemm_slot {
    double *a, *b;          /* a block of each row panel, and of one column panel */
    double *sums;           /* [row panel][column panel][REF_SUMS] */
    double *run;            /* the same of one run of k */
    double *values, *other; /* one row of the tile */
    double *gradients;      /* [gradients][tile_columns] */
} ref_gemm_slot;

ref_gemm_slot ref_gemm_slot_at(const ref_gemm_layout *layout, char *memory);

typedef struct ref_gemm_plan {
    ref_instance *instance;
    kiln_gemm_desc desc;
    ref_gemm_layout layout;
} ref_gemm_plan;

kiln_status ref_gemm_plan_create(void *instance, const kiln_plan_request *request, void **plan);
void ref_gemm_plan_free(void *plan);

/* ---- gemm_groups.c ---- */

/* The entries of a batch or the groups, and the row tiles that each has. */
typedef struct ref_gemm_groups {
    uint32_t grouping;
    int64_t count, rows, depth; /* entries or groups; M and K of each, before grouping */
    int64_t tile_rows;
    int64_t *first_tile; /* [count + 1]; NULL where all have the same number */
    int64_t *begin; /* [count + 1]: contiguous: in `list`; masked: the rows; by K: the steps of k */
    int64_t *list;  /* contiguous: rows, group by group, ascending in each */
    /* What was clamped: how much, and the first of it. */
    int64_t violations, at, value;
} ref_gemm_groups;

/* Where a tile of D stands: `entry`, its rows, and the steps of k that it sums over. */
typedef struct ref_gemm_place {
    int64_t entry;
    ref_rows rows;
    int64_t k, k_end;
} ref_gemm_place;

/* Bytes of workspace that the largest GEMM of a descriptor needs; -1 when they do not fit in 64
 * bits. */
int64_t ref_gemm_groups_bytes(const kiln_gemm_desc *desc);

/* Reads GROUPS (`data` on the host; NULL without a grouping) and clamps it. `groups` comes with
 * everything above first_tile. */
void ref_gemm_groups_read(ref_gemm_groups *groups, const kiln_tensor *tensor, const char *data,
                          char *workspace);

/* The first row tile of an entry; of entry `count`, the number of all. */
int64_t ref_gemm_groups_first(const ref_gemm_groups *groups, int64_t entry);

/* The place of a row tile. */
ref_gemm_place ref_gemm_groups_place(const ref_gemm_groups *groups, int64_t tile);

/* KILN_OK, or KILN_CAPACITY with a sentence when something was clamped. */
kiln_status ref_gemm_groups_status(const ref_gemm_groups *groups, const kiln_host *host);

/* ---- gemm_product.c ---- */

typedef struct ref_gemm_product {
    bool blas;
    bool none; /* K or alpha is 0: A and B are not read */
    bool exact_runs;
    ref_operand a, b; /* without their scales when exact_runs */
    ref_grid a_scale, b_scale;
} ref_gemm_product;

/* The sums of a tile of `columns` columns from `column` on, into slot->sums. */
void ref_gemm_multiply(const ref_gemm_product *product, const ref_gemm_place *place, int64_t column,
                       int64_t columns, const ref_gemm_slot *slot);

/* ---- gemm_epilogue.c ---- */

typedef struct ref_gemm_finish {
    const kiln_gemm_desc *desc;
    bool wide;                /* in double; else every step is rounded to f32 */
    double alpha, beta;       /* kiln_gemm_factor of what the arguments say */
    ref_matrix c, d, d_scale; /* c.data is NULL when beta is 0 */
    ref_matrix operands[KILN_GEMM_MAX_EPILOGUES];
    int64_t tile_columns; /* from one row of gradients to the next */
} ref_gemm_finish;

/* alpha, beta and the epilogues on the `count` sums of a row of op(A) op(B) from `column` on, which
 * stand in slot->values, then the result into D. */
void ref_gemm_finish_row(const ref_gemm_finish *finish, int64_t entry, int64_t row, int64_t column,
                         int64_t count, const ref_gemm_slot *slot);

/* Begins the sums over rows anew: those that the whole batch shares, or those of one entry. */
void ref_gemm_gradients_clear(const ref_gemm_finish *finish, bool shared,
                              const ref_gemm_slot *slot);

/* Writes them for the columns from `column` on; `entry` counts for those of one entry. */
void ref_gemm_gradients_store(const ref_gemm_finish *finish, bool shared, int64_t entry,
                              int64_t column, int64_t count, const ref_gemm_slot *slot);

/* ---- gemm_run.c ---- */

kiln_status ref_gemm_run(void *plan, const kiln_run_context *context,
                         const kiln_args_head *arguments);

/* ---- gemm_bind.c ---- */

/* The tensor of a slot, zeroed when there is none. */
kiln_tensor ref_gemm_tensor(const kiln_gemm_args *arguments, uint32_t slot);

/* The host address of a tensor; refuses, with a sentence, one that has none. */
kiln_status ref_gemm_address(const ref_gemm_plan *plan, uint32_t slot, const kiln_tensor *tensor,
                             char **data);

/* Whether an operand is stored transposed, and how it is quantised. */
static inline bool ref_gemm_transposed(const kiln_gemm_desc *desc, uint32_t slot)
{
    return desc->head.flags & (slot == KILN_GEMM_A ? KILN_GEMM_TRANSPOSE_A : KILN_GEMM_TRANSPOSE_B);
}

static inline const kiln_quantization *ref_gemm_quantization(const kiln_gemm_desc *desc,
                                                             uint32_t slot)
{
    return slot == KILN_GEMM_A ? &desc->a_quantization : &desc->b_quantization;
}

/* Binds the scales and zero points that come with a strided tensor, of which *operand is the view.
 * Refuses those that the descriptor does not speak of, and other types and shapes. */
kiln_status ref_gemm_bind_grids(const ref_gemm_plan *plan, uint32_t slot, const kiln_tensor *tensor,
                                ref_operand *operand);

/* The view of operand slot KILN_GEMM_A or KILN_GEMM_B with its scales and zero points, strided or
 * packed. Refuses, with a sentence, memory that the host cannot address, scales as above, and blobs
 * that are not this plugin's packing of this tensor. */
kiln_status ref_gemm_operand(const ref_gemm_plan *plan, uint32_t slot, const kiln_tensor *tensor,
                             ref_operand *operand);

/* ---- gemm_pack.c ---- */

kiln_status ref_gemm_pack_size(void *plan, uint32_t operand, int64_t *bytes);
kiln_status ref_gemm_pack(void *plan, const kiln_run_context *context, uint32_t operand,
                          const kiln_tensor *source, const kiln_tensor *packed);
kiln_status ref_gemm_unpack(void *plan, const kiln_run_context *context, uint32_t operand,
                            const kiln_tensor *packed, const kiln_tensor *destination);

/* The view of a blob; refuses one that is not this plugin's packing of this tensor. */
kiln_status ref_gemm_packed_operand(const ref_gemm_plan *plan, uint32_t slot,
                                    const kiln_tensor *tensor, char *blob, ref_operand *operand);

#endif
