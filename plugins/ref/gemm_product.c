/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of a tile of D. */
#include "plugins/ref/gemm.h"

/* Steps of k below which a run of integers is not worth a whole block. */
enum { SHORT_RUN = REF_DEPTH / 4 };

/* The part of a tile that all of its blocks share. */
typedef struct tile {
    const ref_gemm_product *product;
    const ref_gemm_place *place;
    ref_rows columns; /* of op(B) */
    int64_t row_panels, column_panels;
    const ref_gemm_slot *slot;
} tile;

static ref_rows row_panel(const tile *t, int64_t i)
{
    return ref_rows_from(&t->place->rows, i * REF_ROWS, REF_ROWS);
}

static ref_rows column_panel(const tile *t, int64_t j)
{
    return ref_rows_from(&t->columns, j * REF_COLUMNS, REF_COLUMNS);
}

/* The steps from k to `end` in blocks, into `sums`. Integers are exact, so short runs of them need
 * no block of full depth. */
static void multiply_steps(const tile *t, int64_t begin, int64_t end, bool exact, double *sums)
{
    const ref_gemm_product *product = t->product;
    for (int64_t k = begin; k < end; k += REF_DEPTH) {
        int64_t depth = ref_smaller(REF_DEPTH, end - k);
        int64_t steps = exact && depth <= SHORT_RUN ? depth : REF_DEPTH;
        for (int64_t i = 0; i < t->row_panels; i++) {
            ref_rows rows = row_panel(t, i);
            ref_operand_load(&product->a, t->place->entry, &rows, k, depth, steps,
                             t->slot->a + i * REF_A_BLOCK);
        }
        for (int64_t j = 0; j < t->column_panels; j++) {
            ref_rows columns = column_panel(t, j);
            ref_operand_load(&product->b, t->place->entry, &columns, k, depth, steps, t->slot->b);
            for (int64_t i = 0; i < t->row_panels; i++)
                ref_block_multiply(product->blas, k > begin, steps, t->slot->a + i * REF_A_BLOCK,
                                   t->slot->b, sums + (i * t->column_panels + j) * REF_SUMS);
        }
    }
}

/* Adds the sums of a run that begins at k, times the scales of their rows and columns. */
static void add_scaled(const tile *t, int64_t k)
{
    double a[REF_ROWS], b[REF_COLUMNS];
    for (int64_t i = 0; i < t->row_panels; i++) {
        ref_rows rows = row_panel(t, i);
        ref_grid_load(&t->product->a_scale, t->place->entry, &rows, k, 1, a);
        for (int64_t j = 0; j < t->column_panels; j++) {
            ref_rows columns = column_panel(t, j);
            ref_grid_load(&t->product->b_scale, t->place->entry, &columns, k, 1, b);
            int64_t block = (i * t->column_panels + j) * REF_SUMS;
            for (int64_t r = 0; r < rows.count; r++)
                for (int64_t c = 0; c < columns.count; c++) {
                    int64_t at = block + r * REF_COLUMNS + c;
                    t->slot->sums[at] += t->slot->run[at] * (a[r] * b[c]);
                }
        }
    }
}

void ref_gemm_multiply(const ref_gemm_product *product, const ref_gemm_place *place, int64_t column,
                       int64_t columns, const ref_gemm_slot *slot)
{
    tile t = {.product = product,
              .place = place,
              .columns = {.first = column, .count = columns},
              .row_panels = ref_divide_up(place->rows.count, REF_ROWS),
              .column_panels = ref_divide_up(columns, REF_COLUMNS),
              .slot = slot};
    bool none = product->none || place->k == place->k_end;
    if (none || product->exact_runs)
        memset(slot->sums, 0,
               (size_t)(t.row_panels * t.column_panels * REF_SUMS) * sizeof *slot->sums);
    if (none)
        return;
    if (!product->exact_runs) {
        multiply_steps(&t, place->k, place->k_end, false, slot->sums);
        return;
    }
    for (int64_t k = place->k, end; k < place->k_end; k = end) {
        end = ref_smaller(place->k_end, ref_smaller(ref_grid_run_end(&product->a_scale, k),
                                                    ref_grid_run_end(&product->b_scale, k)));
        multiply_steps(&t, k, end, true, slot->run);
        add_scaled(&t, k);
    }
}
