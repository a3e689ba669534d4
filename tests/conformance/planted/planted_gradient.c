/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over the rows of D, and what can be wrong with them. */
#include "planted_gemm.h"

/* A row counts. */
static bool counts(const planted_product *self, int64_t line, planted_place *place)
{
    return planted_place_of(self, line, place) ||
           (planted(GRADIENT_COUNTS_PADDING) && self->desc->grouping == KILN_GROUPING_MASKED);
}

/* Of column j before epilogue `index`; of one batch entry or group, or of all where that is -1. */
static double sum_rows(const planted_product *self, uint32_t index, int64_t group, int64_t j)
{
    planted_row row = {.product = self};
    double sum = 0;
    for (int64_t line = 0; line < self->entries * self->m; line++)
        if (counts(self, line, &row.place) && (group < 0 || row.place.group == group))
            sum += (double)(float)planted_value(&row, index, j);
    return sum;
}

static void sum_column(const planted_product *self, uint32_t index, int64_t j)
{
    const kiln_tensor *gradient = &self->tensors[KILN_GEMM_OPERAND + index];
    bool mixed = planted(GRADIENTS_OF_BATCH_MIXED) && self->desc->grouping == KILN_GROUPING_NONE,
         apart = gradient->rank == 2 && !mixed;
    for (int64_t g = 0; g < (gradient->rank == 2 ? gradient->shape[0] : 1); g++)
        kiln_store_f64(gradient->type, self->addresses[KILN_GEMM_OPERAND + index],
                       (gradient->rank == 2 ? g * gradient->strides[0] : 0) + j,
                       sum_rows(self, index, apart ? g : -1, j), 0);
}

void planted_gradients(const planted_product *self)
{
    const kiln_gemm_desc *desc = self->desc;
    uint32_t pairs = planted_find(desc, KILN_EPILOGUE_SWIGLU);
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        if (desc->epilogues[i].kind != KILN_EPILOGUE_BIAS_GRADIENT)
            continue;
        /* Before pairs are joined there are twice as many columns. */
        int64_t times = pairs < desc->epilogue_count && i < pairs ? 2 : 1;
        for (int64_t j = times * self->first_column; j < times * self->end_column; j++)
            sum_column(self, i, j);
    }
}
