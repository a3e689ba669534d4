/* SPDX-License-Identifier: Apache-2.0 */
/* Scales and zero points: where they lie, how far each reaches, and the rule that makes new ones.
 */
#include <math.h>

#include "plugins/ref/ref.h"

void ref_grid_shape(const kiln_quantization *quantization, const int64_t stored[2],
                    int64_t shape[2])
{
    for (int i = 0; i < 2; i++) {
        int64_t block = quantization->block[i] > 0 ? quantization->block[i] : INT64_MAX;
        shape[i] = ref_divide_up(stored[i], block);
    }
}

ref_grid ref_grid_of(const kiln_tensor *tensor, const char *data,
                     const kiln_quantization *quantization, bool rows_first)
{
    uint32_t rows = tensor->rank - 2 + !rows_first, depth = tensor->rank - 2 + rows_first;
    int64_t blocks[2];
    for (int i = 0; i < 2; i++)
        blocks[i] = quantization->block[i] > 0 ? quantization->block[i] : INT64_MAX;
    ref_grid grid = {
        .data = data,
        .type = tensor->type,
        .row_block = blocks[!rows_first],
        .depth_block = blocks[rows_first],
        .entry_stride = tensor->rank == 3 && tensor->shape[0] > 1 ? tensor->strides[0] : 0,
        .row_stride = tensor->strides[rows],
        .depth_stride = tensor->strides[depth],
    };
    return grid;
}

void ref_grid_load(const ref_grid *grid, int64_t entry, const ref_rows *rows, int64_t k,
                   double absent, double *values)
{
    for (int64_t i = 0; i < rows->count; i++)
        values[i] = !grid->data
                        ? absent
                        : kiln_load_f64(grid->type, grid->data,
                                        entry * grid->entry_stride +
                                            ref_row(rows, i) / grid->row_block * grid->row_stride +
                                            k / grid->depth_block * grid->depth_stride);
}

int64_t ref_grid_run_end(const ref_grid *grid, int64_t k)
{
    if (!grid->data || grid->depth_block == INT64_MAX)
        return INT64_MAX;
    return (k / grid->depth_block + 1) * grid->depth_block;
}

static double largest_of(uint32_t d_type)
{
    switch (d_type) {
    case KILN_E4M3:
        return 448;
    case KILN_E5M2:
        return 57344;
    case KILN_E2M1:
        return 6;
    case KILN_U8:
        return 255;
    default:
        return 127; /* i8 */
    }
}

double ref_scale_for(uint32_t d_type, uint32_t type, double largest)
{
    double scale = largest / largest_of(d_type);
    if (largest == 0)
        return 1;
    if (type == KILN_E4M3)
        return kiln_f64_from_e4m3(kiln_e4m3_from_f64(fmax(scale, 0x1p-9), KILN_SATURATE));
    if (type == KILN_UE8M0)
        return scale > 0x1p127 ? 0x1p127
                               : kiln_f64_from_ue8m0(kiln_ue8m0_from_f64(fmax(scale, 0x1p-126)));
    return scale > 0x1.fffffep127 ? 0x1.fffffep127 : (double)(float)fmax(scale, 0x1p-126);
}
