/* SPDX-License-Identifier: Apache-2.0 */
/* A GEMM by plain loops, row by row, and what can be wrong with the loops. */
#include "planted_gemm.h"

#include <fenv.h>
#include <sched.h>

static void store(const planted_row *row, int64_t j, double value)
{
    const planted_product *self = row->product;
    const kiln_tensor *d = &self->tensors[KILN_GEMM_D];
    int64_t element = planted_element_at(self, KILN_GEMM_D, row->place.d, row->place.row, j);
    bool saturates = (self->desc->head.flags & KILN_GEMM_SATURATE) && !planted(NEVER_SATURATES);
    if (planted(ROUNDS_HALF_AWAY))
        value += value * 0x1p-40;
    kiln_store_f64(d->type, self->addresses[KILN_GEMM_D], element, value,
                   saturates ? KILN_SATURATE : 0);
    if (planted(WRITES_GAPS) && j == self->columns - 1 && d->strides[d->rank - 2] > self->columns &&
        row->place.row + 1 < self->m)
        kiln_store_f64(d->type, self->addresses[KILN_GEMM_D], element + 1, 0, 0);
}

/* Columns of D from `first` on, which are finished together. */
static void compute_piece(planted_row *row, double *sums, int64_t first, int64_t count)
{
    const planted_product *self = row->product;
    uint32_t epilogues = self->desc->epilogue_count;
    row->first = first;
    row->count = count < self->room ? count : self->room;
    if (self->columns != self->n) /* the columns of the sum are others */
        row->count = 0;
    for (int64_t j = 0; j < row->count; j++)
        sums[j] = planted_sum(self, &row->place, first + j);
    if (planted(SHARED_SCRATCH))
        sched_yield(); /* as if the kernel were larger: the others get their turn */
    if (planted_quantized_block(self) > 0) {
        planted_quantize(row, first, count);
        return;
    }
    for (int64_t j = first; j < first + count; j++)
        store(row, j, planted_value(row, epilogues, j));
}

static void compute_row(planted_row *row)
{
    const planted_product *self = row->product;
    double piece[PLANTED_PIECE], *sums = self->sums ? self->sums : piece;
    int64_t block = planted_quantized_block(self), width = block > 0 ? block : self->room,
            end = self->end_column;
    row->sums = sums;
    if (planted(FORGETS_EMPTY_SUMS) && self->k == 0)
        return;
    if (planted(LOSES_LAST_COLUMN) && self->n < self->desc->n)
        end -= self->columns > 2;
    if (planted(READS_BEYOND_A) && self->k > 0 && self->addresses[KILN_GEMM_A]) {
        const kiln_tensor *a = &self->tensors[KILN_GEMM_A];
        volatile char last = self->addresses[KILN_GEMM_A][planted_span(a)];
        (void)last;
    }
    for (int64_t first = self->first_column; first < end; first += width)
        compute_piece(row, sums, first, end - first < width ? end - first : width);
}

static void compute_all(const planted_product *self)
{
    planted_row row = {.product = self};
    planted_gradients(self);
    for (int64_t line = self->begin; line < self->end; line++) {
        bool belongs = planted_place_of(self, line, &row.place);
        if (planted(WRONG_TAIL) && self->m % 64 == 63 && row.place.row == self->m - 1)
            continue;
        if (belongs)
            compute_row(&row);
        else if (planted(WRITES_PADDING) && self->columns > 0)
            store(&row, 0, 0);
    }
}

void planted_compute(const planted_product *self)
{
    int rounding = fegetround();
    if (planted(CHANGES_ROUNDING)) /* it knows about itself, but not about its callers */
        fesetround(FE_TONEAREST);
    compute_all(self);
    if (planted(CHANGES_ROUNDING))
        fesetround(rounding);
}
