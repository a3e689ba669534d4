/* SPDX-License-Identifier: Apache-2.0 */
/* D with a scale for each block of a row, and what can be wrong with it. */
#include "planted_gemm.h"

#include <float.h>
#include <math.h>

int64_t planted_quantized_block(const planted_product *self)
{
    int64_t block = self->desc->d_quantization.block[1];
    if (self->desc->d_quantization.scale_type == KILN_TYPE_NONE)
        return 0;
    return block > 0 && block < self->columns ? block : self->columns;
}

static double largest_of(uint32_t type)
{
    return type == KILN_E4M3 ? 448 : type == KILN_I8 ? 127 : 255;
}

static double largest_value(const planted_row *row, int64_t first, int64_t count)
{
    double largest = 0;
    for (int64_t j = first; j < first + count; j++) {
        double size = fabs(planted_value(row, row->product->desc->epilogue_count, j));
        if (isfinite(size) && size > largest)
            largest = size;
    }
    return largest;
}

/* As its type holds it. */
static double scale_for(double largest, uint32_t d_type, uint32_t scale_type)
{
    double scale = largest / largest_of(d_type);
    if (largest == 0)
        return 1;
    if (scale_type == KILN_E4M3)
        return fmax(kiln_f64_from_e4m3(kiln_e4m3_from_f64(scale, KILN_SATURATE)), 0x1p-9);
    if (scale_type == KILN_F32)
        return fmin(fmax((double)(float)scale, 0x1p-126), (double)FLT_MAX);
    if (planted(QUANTIZE_ROUNDS_DOWN))
        scale = ldexp(1, ilogb(scale));
    return fmax(kiln_f64_from_ue8m0(kiln_ue8m0_from_f64(scale)), 0x1p-126);
}

void planted_quantize(const planted_row *row, int64_t first, int64_t count)
{
    const planted_product *self = row->product;
    const kiln_gemm_desc *desc = self->desc;
    uint32_t scale_type = desc->d_quantization.scale_type;
    double scale = scale_for(largest_value(row, first, count), desc->d_type, scale_type);
    int64_t block = first / planted_quantized_block(self);
    kiln_store_f64(scale_type, self->addresses[KILN_GEMM_D_SCALE],
                   planted_element_at(self, KILN_GEMM_D_SCALE, row->place.d, row->place.row, block),
                   scale, 0);
    for (int64_t j = first; j < first + count; j++)
        kiln_store_f64(desc->d_type, self->addresses[KILN_GEMM_D],
                       planted_element_at(self, KILN_GEMM_D, row->place.d, row->place.row, j),
                       planted_value(row, desc->epilogue_count, j) / scale, KILN_SATURATE);
}
