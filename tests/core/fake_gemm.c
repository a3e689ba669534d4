/* SPDX-License-Identifier: Apache-2.0 */
/* The product that the fake backends compute, by the shortest loops. */
#include "tests/core/fake_backend.h"

/* Element [p, i, j], less its zero point and scaled; a tensor of rank 2 is the same for every p. */
static double element(const kiln_tensor *tensor, int64_t p, int64_t i, int64_t j)
{
    const int64_t *strides = tensor->strides + tensor->rank - 2, *block = tensor->scale_block;
    int64_t index =
        (tensor->rank == 3 ? p * tensor->strides[0] : 0) + i * strides[0] + j * strides[1];
    double value = kiln_load_f64(tensor->type, tensor->data, index);
    int64_t row = block[0] ? i / block[0] : 0, column = block[1] ? j / block[1] : 0;
    if (tensor->zero_point)
        value -= element(tensor->zero_point, p, row, column);
    return tensor->scale ? value * element(tensor->scale, p, row, column) : value;
}

static void store(const kiln_tensor *tensor, int64_t p, int64_t i, int64_t j, double value)
{
    const int64_t *strides = tensor->strides + tensor->rank - 2;
    int64_t index =
        (tensor->rank == 3 ? p * tensor->strides[0] : 0) + i * strides[0] + j * strides[1];
    kiln_store_f64(tensor->type, tensor->data, index, value, 0);
}

static double dot(const kiln_gemm_desc *desc, const kiln_tensor *tensors, int64_t p, int64_t i,
                  int64_t j)
{
    bool transpose_a = desc->head.flags & KILN_GEMM_TRANSPOSE_A,
         transpose_b = desc->head.flags & KILN_GEMM_TRANSPOSE_B;
    const kiln_tensor *a = &tensors[KILN_GEMM_A], *b = &tensors[KILN_GEMM_B];
    int64_t k = a->shape[a->rank - (transpose_a ? 2 : 1)];
    double sum = 0;
    for (int64_t l = 0; l < k; l++)
        sum += element(a, p, transpose_a ? l : i, transpose_a ? i : l) *
               element(b, p, transpose_b ? j : l, transpose_b ? l : j);
    return sum;
}

/* Σ over rows into a vector of rank 1, and D's scale, which is always 2. */
static double finish(const kiln_gemm_desc *desc, const kiln_tensor *tensors, int64_t p, int64_t i,
                     int64_t j, double value)
{
    for (uint32_t e = 0; e < desc->epilogue_count; e++) {
        const kiln_tensor *sums = &tensors[KILN_GEMM_OPERAND + e];
        if (desc->epilogues[e].kind == KILN_EPILOGUE_BIAS_GRADIENT)
            kiln_store_f64(sums->type, sums->data, j,
                           kiln_load_f64(sums->type, sums->data, j) + value, 0);
        if (desc->epilogues[e].kind == KILN_EPILOGUE_QUANTIZE) {
            int32_t block = desc->d_quantization.block[1];
            store(&tensors[KILN_GEMM_D_SCALE], p, i, block == -1 ? 0 : j / block, 2);
            value /= 2;
        }
    }
    return value;
}

kiln_status fake_gemm(const kiln_gemm_desc *desc, double alpha, double beta,
                      const kiln_tensor *tensors)
{
    const kiln_tensor *d = &tensors[KILN_GEMM_D], *groups = &tensors[KILN_GEMM_GROUPS];
    int64_t batch = d->rank == 3 ? d->shape[0] : 1, m = d->shape[d->rank - 2],
            n = d->shape[d->rank - 1];
    kiln_status status = KILN_OK;
    for (uint32_t e = 0; e < desc->epilogue_count; e++)
        if (desc->epilogues[e].kind == KILN_EPILOGUE_BIAS_GRADIENT)
            memset(tensors[KILN_GEMM_OPERAND + e].data, 0, (size_t)n * sizeof(float));
    for (int64_t p = 0; p < batch; p++) {
        int64_t rows = m;
        if (desc->grouping == KILN_GROUPING_MASKED) {
            double count = kiln_load_f64(groups->type, groups->data, p);
            status = count > (double)m ? KILN_CAPACITY : status;
            rows = count > (double)m ? m : (int64_t)count;
        }
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < n; j++) {
                double value = alpha != 0 ? alpha * dot(desc, tensors, p, i, j) : 0;
                if (beta != 0)
                    value += beta * element(&tensors[KILN_GEMM_C], p, i, j);
                store(d, p, i, j, finish(desc, tensors, p, i, j, value));
            }
    }
    return status;
}
