/* SPDX-License-Identifier: Apache-2.0 */
/* What a GEMM must give, by plain loops in double. */
#include "tests/plugins/ref/problem.h"

/* Element [entry, row, column] of a tensor that may lack leading dimensions. */
static double at(const kiln_tensor *tensor, int64_t entry, int64_t row, int64_t column)
{
    int64_t index = (tensor->rank == 3 && tensor->shape[0] > 1 ? entry * tensor->strides[0] : 0) +
                    row * tensor->strides[tensor->rank - 2] +
                    column * tensor->strides[tensor->rank - 1];
    return kiln_load_f64(tensor->type, tensor->data, index);
}

/* (stored - zero point) * scale of stored element [row, column]. */
static double dequantised(const kiln_tensor *tensor, int64_t entry, int64_t row, int64_t column)
{
    int64_t r = tensor->scale_block[0] ? row / tensor->scale_block[0] : 0;
    int64_t c = tensor->scale_block[1] ? column / tensor->scale_block[1] : 0;
    double value = at(tensor, entry, row, column);
    if (tensor->zero_point)
        value -= at(tensor->zero_point, entry, r, c);
    return tensor->scale ? value * at(tensor->scale, entry, r, c) : value;
}

/* op(A) or op(B)ᵀ of all entries as [entries][rows][K]. */
static double *op(const problem *p, uint32_t slot)
{
    const kiln_tensor *tensor = &p->tensors[slot];
    bool transposed =
        p->desc.head.flags & (slot == KILN_GEMM_A ? KILN_GEMM_TRANSPOSE_A : KILN_GEMM_TRANSPOSE_B);
    bool rows_first = transposed == (slot == KILN_GEMM_B);
    int64_t rows = slot == KILN_GEMM_A ? p->m : p->n;
    double *values = test_malloc((size_t)(p->count * rows * p->k + 1) * sizeof(double));
    for (int64_t entry = 0; entry < p->count; entry++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < p->k; k++)
                values[(entry * rows + r) * p->k + k] =
                    dequantised(tensor, entry, rows_first ? r : k, rows_first ? k : r);
    return values;
}

static double silu(double v)
{
    return v / (1 + exp(-v));
}

static double operand(const problem *p, uint32_t index, int64_t entry, int64_t row, int64_t column)
{
    const kiln_tensor *tensor = &p->tensors[KILN_GEMM_OPERAND + index];
    uint32_t shape = p->desc.epilogues[index].operand;
    if (shape == KILN_OPERAND_MATRIX)
        return at(tensor, entry, row, column);
    int64_t element = shape == KILN_OPERAND_ROW ? column : shape == KILN_OPERAND_COLUMN ? row : 0;
    return kiln_load_f64(tensor->type, tensor->data,
                         (tensor->rank == 2 ? entry * tensor->strides[0] : 0) + element);
}

double problem_value(const problem *p, const double *a, const double *b, int64_t entry, int64_t row,
                     int64_t column, uint32_t steps, double *tolerance)
{
    if (steps == 0) {
        int64_t begin, end;
        double sum = 0, magnitude = 0,
               c = p->beta ? at(&p->tensors[KILN_GEMM_C], entry, row, column) : 0;
        const double *a_row = a + (entry * p->m + row) * p->k;
        const double *b_row = b + (entry * p->n + column) * p->k;
        problem_steps(p, entry, &begin, &end);
        for (int64_t k = begin; p->alpha != 0 && k < end; k++) {
            sum += a_row[k] * b_row[k];
            magnitude += fabs(a_row[k] * b_row[k]);
        }
        *tolerance = 1e-6 * (fabs(p->alpha) * magnitude + fabs(p->beta * c)) + 1e-30;
        return p->alpha * sum + p->beta * c;
    }
    const kiln_epilogue *epilogue = &p->desc.epilogues[steps - 1];
    if (epilogue->kind == KILN_EPILOGUE_SWIGLU) {
        double gate_error, up_error;
        double gate = problem_value(p, a, b, entry, row, 2 * column, steps - 1, &gate_error);
        double up = problem_value(p, a, b, entry, row, 2 * column + 1, steps - 1, &up_error);
        *tolerance = 1.2 * gate_error * fabs(up) + fabs(silu(gate)) * up_error +
                     1.2 * gate_error * up_error + 1e-6 * fabs(silu(gate) * up);
        return silu(gate) * up;
    }
    double v = problem_value(p, a, b, entry, row, column, steps - 1, tolerance);
    double x = epilogue->operand && epilogue->kind != KILN_EPILOGUE_BIAS_GRADIENT
                   ? operand(p, steps - 1, entry, row, column)
                   : epilogue->p0;
    switch (epilogue->kind) {
    case KILN_EPILOGUE_BIAS:
    case KILN_EPILOGUE_RESIDUAL:
        v += x;
        break;
    case KILN_EPILOGUE_MULTIPLY:
    case KILN_EPILOGUE_SCALE:
        v *= x;
        *tolerance *= fabs(x);
        break;
    case KILN_EPILOGUE_RELU:
        v = v < 0 ? 0 : v;
        break;
    case KILN_EPILOGUE_SILU:
        v = silu(v);
        *tolerance *= 1.2;
        break;
    default: /* those that leave v as it is */
        break;
    }
    *tolerance += 1e-6 * fabs(v);
    return v;
}

/* `measured` lies between what the ends of v ± tolerance are rounded to. */
static void check_near(const char *what, uint32_t type, bool saturate, double v, double tolerance,
                       double measured, int64_t entry, int64_t row, int64_t column)
{
    uint64_t low = 0, high = 0;
    int flags = saturate ? KILN_SATURATE : 0;
    kiln_store_f64(type, &low, 0, v - tolerance, flags);
    kiln_store_f64(type, &high, 0, v + tolerance, flags);
    double least = kiln_load_f64(type, &low, 0), most = kiln_load_f64(type, &high, 0);
    if (isnan(least) && isnan(most) && isnan(measured)) /* beyond e4m3 */
        return;
    if (!(measured >= least && measured <= most))
        fail_msg("%s: [%d, %d, %d] is %.9g in %s; it must be %.9g ± %.3g", what, (int)entry,
                 (int)row, (int)column, measured, kiln_type_name(type), v, tolerance);
}

/* A quantised row: the scale of each block is right for the largest value, and each element for its
 * scale. */
static void check_quantised_row(const problem *p, const char *what, int64_t entry, int64_t row,
                                const double *v, const double *tolerance, int64_t columns)
{
    const kiln_tensor *d = &p->tensors[KILN_GEMM_D], *scales = &p->tensors[KILN_GEMM_D_SCALE];
    double limit = p->desc.d_type == KILN_E4M3   ? 448
                   : p->desc.d_type == KILN_E5M2 ? 57344
                   : p->desc.d_type == KILN_E2M1 ? 6
                   : p->desc.d_type == KILN_U8   ? 255
                                                 : 127;
    int64_t block = p->desc.d_quantization.block[1] < 0 ? columns : p->desc.d_quantization.block[1];
    for (int64_t begin = 0; begin < columns; begin += block) {
        int64_t end = begin + block < columns ? begin + block : columns;
        double largest = 0, error = 0, scale = at(scales, entry, row, begin / block);
        for (int64_t j = begin; j < end; j++) {
            largest = fmax(largest, fabs(v[j]));
            error = fmax(error, tolerance[j]);
        }
        double low = fmax(largest - error, 0) / limit * (1 - 1e-7),
               high = (largest + error) / limit * (1 + 1e-7);
        if (p->desc.d_quantization.scale_type == KILN_UE8M0) {
            low = exp2(ceil(log2(low)));
            high = exp2(ceil(log2(high)));
        }
        if (largest == 0)
            low = high = 1;
        if (!(scale >= low && scale <= high) && !(low == 0 && scale == 1))
            fail_msg("%s: the scale [%d, %d, %d] is %.9g; it must be %.9g to %.9g", what,
                     (int)entry, (int)row, (int)(begin / block), scale, low, high);
        for (int64_t j = begin; j < end; j++)
            check_near(what, p->desc.d_type, true, v[j] / scale, tolerance[j] / scale + 1e-300,
                       at(d, entry, row, j), entry, row, j);
    }
}

/* That nothing stands in a row of D, its scales included. */
static void check_untouched(const problem *p, const char *what, int64_t entry, int64_t row)
{
    for (int slot = KILN_GEMM_D; slot < KILN_GEMM_SLOTS; slot += KILN_GEMM_D_SCALE - KILN_GEMM_D) {
        const kiln_tensor *tensor = &p->tensors[slot];
        if (!tensor->rank)
            continue;
        int64_t first = (tensor->rank == 3 ? entry * tensor->strides[0] : 0) +
                        row * tensor->strides[tensor->rank - 2];
        const char *bytes = (const char *)tensor->data + first * kiln_type_bits(tensor->type) / 8;
        for (int64_t i = 0; i < kiln_type_row_bytes(tensor->type, tensor->shape[tensor->rank - 1]);
             i++)
            if (bytes[i] != (char)0xff)
                fail_msg("%s: row %d of entry %d was written", what, (int)row, (int)entry);
    }
}

/* The gaps behind the rows of D hold what they held. */
static void check_gaps(const problem *p, const char *what)
{
    const kiln_tensor *d = &p->tensors[KILN_GEMM_D];
    int64_t rows = d->shape[d->rank - 2], stride = d->strides[d->rank - 2];
    for (int64_t entry = 0; entry < (d->rank == 3 ? d->shape[0] : 1); entry++)
        for (int64_t row = 0; row < rows; row++)
            for (int64_t j = d->shape[d->rank - 1]; j < stride; j++) {
                uint64_t ones = UINT64_MAX;
                double value = at(d, entry, row, j), before = kiln_load_f64(d->type, &ones, 0);
                if (value != before && !(isnan(value) && isnan(before)))
                    fail_msg("%s: something was written behind row %d of entry %d", what, (int)row,
                             (int)entry);
            }
}

static bool belongs(const problem *p, int64_t entry, int64_t row)
{
    return p->desc.grouping == KILN_GROUPING_CONTIGUOUS ? problem_row_group(p, row) == entry
                                                        : row < problem_rows(p, entry);
}

static void check_gradients(const problem *p, const double *a, const double *b, const char *what)
{
    int64_t columns = p->n;
    for (uint32_t i = 0; i < p->desc.epilogue_count; i++) {
        const kiln_tensor *tensor = &p->tensors[KILN_GEMM_OPERAND + i];
        if (p->desc.epilogues[i].kind == KILN_EPILOGUE_SWIGLU)
            columns /= 2;
        if (p->desc.epilogues[i].kind != KILN_EPILOGUE_BIAS_GRADIENT)
            continue;
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0, error = 0, tolerance;
            for (int64_t entry = 0; entry < p->count; entry++) {
                for (int64_t row = 0; row < p->m; row++)
                    if (belongs(p, entry, row)) {
                        double v = problem_value(p, a, b, entry, row, j, i, &tolerance);
                        sum += v;
                        error += tolerance + 1e-7 * fabs(v);
                    }
                if (tensor->rank == 2 || entry + 1 == p->count) {
                    int64_t index = (tensor->rank == 2 ? entry * tensor->strides[0] : 0) + j;
                    check_near(what, tensor->type, false, sum, error,
                               kiln_load_f64(tensor->type, tensor->data, index), entry, -1, j);
                    sum = error = 0;
                }
            }
        }
    }
}

void problem_check_values(const problem *p, const char *what)
{
    const kiln_tensor *d = &p->tensors[KILN_GEMM_D];
    int64_t columns = d->shape[d->rank - 1];
    bool contiguous = p->desc.grouping == KILN_GROUPING_CONTIGUOUS;
    bool quantised = problem_find(p, KILN_EPILOGUE_QUANTIZE);
    bool saturate = p->desc.head.flags & KILN_GEMM_SATURATE;
    double *a = op(p, KILN_GEMM_A), *b = op(p, KILN_GEMM_B);
    double *v = test_malloc((size_t)(columns + 1) * sizeof *v),
           *tolerance = test_malloc((size_t)(columns + 1) * sizeof *tolerance);
    for (int64_t e = 0; e < (contiguous ? 1 : p->count); e++)
        for (int64_t row = 0; row < p->m; row++) {
            int64_t entry = contiguous ? problem_row_group(p, row) : e;
            if (entry < 0 || !belongs(p, entry, row)) {
                check_untouched(p, what, e, row);
                continue;
            }
            for (int64_t j = 0; j < columns; j++) {
                v[j] = problem_value(p, a, b, entry, row, j, p->desc.epilogue_count, &tolerance[j]);
                if (!quantised)
                    check_near(what, d->type, saturate, v[j], tolerance[j], at(d, e, row, j), e,
                               row, j);
            }
            if (quantised)
                check_quantised_row(p, what, e, row, v, tolerance, columns);
        }
    check_gaps(p, what);
    check_gradients(p, a, b, what);
    test_free(a);
    test_free(b);
    test_free(v);
    test_free(tolerance);
}
