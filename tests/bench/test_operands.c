/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of every kind of GEMM that is measured, and the check of results: a right one passes,
 * one wrong element does not. Results are made here, by the definition in kiln/gemm.h. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gemm.h"

static bench_gemm some_gemm(void)
{
    return (bench_gemm){.desc = {.head = {sizeof(kiln_gemm_desc), 0},
                                 .m = 6,
                                 .n = 10,
                                 .k = 9,
                                 .batch = 1,
                                 .a_type = KILN_F32,
                                 .b_type = KILN_F32,
                                 .d_type = KILN_F32},
                        .alpha = 1,
                        .seed = 5};
}

/* ---- By the definition ---- */

static int64_t offset(const kiln_tensor *tensor, int64_t batch, int64_t row, int64_t column)
{
    uint32_t last = tensor->rank - 1;
    return (tensor->rank == 3 ? batch * tensor->strides[0] : 0) + row * tensor->strides[last - 1] +
           column * tensor->strides[last];
}

static double at(const kiln_tensor *tensor, int64_t batch, int64_t row, int64_t column)
{
    return kiln_load_f64(tensor->type, tensor->data, offset(tensor, batch, row, column));
}

/* What an element of A or B means: element [row, k] of op(A), or [column, k] of op(B)ᵀ. */
static double meaning(const kiln_tensor *tensor, bool k_is_column, int64_t batch, int64_t across,
                      int64_t k)
{
    int64_t row = k_is_column ? across : k, column = k_is_column ? k : across;
    int64_t scale_row = tensor->scale_block[0] ? row / tensor->scale_block[0] : 0,
            scale_column = tensor->scale_block[1] ? column / tensor->scale_block[1] : 0;
    double value = at(tensor, batch, row, column);
    if (tensor->zero_point)
        value -= at(tensor->zero_point, batch, scale_row, scale_column);
    return tensor->scale ? value * at(tensor->scale, batch, scale_row, scale_column) : value;
}

/* The sum of one place, in the group that its row or its matrix belongs to. */
static double sum_at(const bench_gemm *gemm, const bench_operands *operands, int64_t batch,
                     int64_t row, int64_t column)
{
    const kiln_gemm_desc *desc = &gemm->desc;
    const kiln_tensor *a = &operands->tensors[KILN_GEMM_A], *b = &operands->tensors[KILN_GEMM_B];
    const int32_t *groups = operands->tensors[KILN_GEMM_GROUPS].data;
    int64_t a_batch = batch, b_batch = batch, from = 0, to = desc->k;
    if (desc->grouping == KILN_GROUPING_CONTIGUOUS)
        b_batch = groups[row];
    if (desc->grouping == KILN_GROUPING_K) {
        a_batch = b_batch = 0;
        from = batch > 0 ? groups[batch - 1] : 0;
        to = groups[batch];
    }
    double sum = 0;
    for (int64_t k = from; k < to; k++)
        sum += meaning(a, !(desc->head.flags & KILN_GEMM_TRANSPOSE_A), a_batch, row, k) *
               meaning(b, desc->head.flags & KILN_GEMM_TRANSPOSE_B, b_batch, column, k);
    return sum;
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double value_at(const bench_gemm *gemm, const bench_operands *operands, int64_t batch,
                       int64_t row, int64_t column)
{
    if (gemm->desc.epilogue_count > 0 && gemm->desc.epilogues[0].kind == KILN_EPILOGUE_SWIGLU)
        return silu(sum_at(gemm, operands, batch, row, 2 * column)) *
               sum_at(gemm, operands, batch, row, 2 * column + 1);
    return sum_at(gemm, operands, batch, row, column);
}

/* Fills D, and D_SCALE where there is one, which then has a scale per row and block. */
static void compute(const bench_gemm *gemm, bench_operands *operands)
{
    kiln_tensor *d = &operands->tensors[KILN_GEMM_D],
                *scales = &operands->tensors[KILN_GEMM_D_SCALE];
    int64_t batch = d->rank == 3 ? d->shape[0] : 1, rows = d->shape[d->rank - 2],
            columns = d->shape[d->rank - 1];
    int64_t block = scales->data ? gemm->desc.d_quantization.block[1] : columns;
    block = block < 1 ? columns : block;
    for (int64_t i = 0; i < batch * rows; i++)
        for (int64_t first = 0; first < columns; first += block) {
            int64_t end = first + block < columns ? first + block : columns;
            double largest = 0, scale = 1;
            for (int64_t j = first; j < end; j++)
                largest = fmax(largest, fabs(value_at(gemm, operands, i / rows, i % rows, j)));
            if (scales->data && largest > 0) {
                scale = (float)(largest / 448);
                kiln_store_f64(scales->type, scales->data,
                               offset(scales, i / rows, i % rows, first / block), scale, 0);
            }
            for (int64_t j = first; j < end; j++)
                kiln_store_f64(d->type, d->data, offset(d, i / rows, i % rows, j),
                               value_at(gemm, operands, i / rows, i % rows, j) / scale,
                               KILN_SATURATE);
        }
}

/* ---- The cases ---- */

/* The right result passes; with one element spoiled, wherever it is, it does not. */
static void judge(bench_gemm gemm, const char *what)
{
    bench_operands operands;
    bench_message message = {""};
    if (!bench_operands_make(&gemm, &operands, &message))
        fail_msg("%s: %s", what, message.text);
    kiln_tensor *d = &operands.tensors[KILN_GEMM_D];
    compute(&gemm, &operands);
    if (!bench_gemm_check(&gemm, &operands, 0, &message))
        fail_msg("%s: a right result is refused: %s", what, message.text);
    int64_t count = kiln_tensor_elements(d);
    for (int64_t i = 0; i < count; i++) {
        double right = kiln_load_f64(d->type, d->data, i);
        kiln_store_f64(d->type, d->data, i, right < 0 ? -0.7 * right : -0.7 * right - 2, 0);
        if (bench_gemm_check(&gemm, &operands, 0, &message))
            fail_msg("%s: element %lld is wrong, and it was not seen", what, (long long)i);
        kiln_store_f64(d->type, d->data, i, right, 0);
    }
    bench_operands_free(&operands);
}

static void test_quantised_operands(void **state)
{
    (void)state;
    static const struct {
        uint32_t a, b, flags;
        kiln_quantization a_scales, b_scales;
    } cases[] = {
        {KILN_E4M3, KILN_E4M3, 0, {KILN_F32, 0, {1, 4}}, {KILN_F32, 0, {4, 4}}},
        {KILN_E4M3,
         KILN_E5M2,
         KILN_GEMM_TRANSPOSE_B,
         {KILN_UE8M0, 0, {1, 4}},
         {KILN_F32, 0, {4, 4}}},
        {KILN_I8, KILN_I8, KILN_GEMM_TRANSPOSE_A, {KILN_F32, 0, {-1, 1}}, {KILN_F16, 0, {-1, 1}}},
        {KILN_U8, KILN_I8, 0, {KILN_F32, KILN_U8, {1, -1}}, {KILN_F32, 0, {-1, 1}}},
        {KILN_F16, KILN_I4, KILN_GEMM_TRANSPOSE_B, {0, 0, {0, 0}}, {KILN_F16, KILN_I4, {1, 4}}},
        {KILN_BF16, KILN_U4, 0, {0, 0, {0, 0}}, {KILN_BF16, 0, {3, 1}}},
        {KILN_E2M1,
         KILN_E2M1,
         KILN_GEMM_TRANSPOSE_B,
         {KILN_E4M3, 0, {1, 2}},
         {KILN_E4M3, 0, {1, 2}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[32];
        snprintf(what, sizeof what, "case %zu", i);
        bench_gemm gemm = some_gemm();
        gemm.desc.a_type = cases[i].a;
        gemm.desc.b_type = cases[i].b;
        gemm.desc.head.flags = cases[i].flags;
        gemm.desc.a_quantization = cases[i].a_scales;
        gemm.desc.b_quantization = cases[i].b_scales;
        judge(gemm, what);
        gemm.desc.batch = 3;
        judge(gemm, what);
    }
}

static void test_groupings(void **state)
{
    (void)state;
    static const uint32_t groupings[] = {KILN_GROUPING_CONTIGUOUS, KILN_GROUPING_MASKED,
                                         KILN_GROUPING_K};
    for (int i = 0; i < 3; i++)
        for (int64_t groups = 1; groups <= 8; groups++)
            for (int64_t alignment = 0; alignment <= 4; alignment += 4) {
                char what[64];
                snprintf(what, sizeof what, "grouping %u, %lld groups", groupings[i],
                         (long long)groups);
                bench_gemm gemm = some_gemm();
                gemm.desc.grouping = groupings[i];
                gemm.desc.groups = groups;
                gemm.desc.group_alignment = groupings[i] == KILN_GROUPING_MASKED ? 0 : alignment;
                judge(gemm, what);
            }
}

/* Groups begin where the descriptor promises, are in order, and take in everything. */
static void test_groups(void **state)
{
    (void)state;
    for (int64_t groups = 1; groups <= 9; groups++)
        for (int64_t step = 1; step <= 5; step++) {
            bench_gemm gemm = some_gemm();
            bench_operands operands;
            bench_message message;
            gemm.desc.m = gemm.desc.k = 23;
            gemm.desc.groups = groups;
            gemm.desc.group_alignment = step;
            gemm.desc.grouping = KILN_GROUPING_CONTIGUOUS;
            assert_true(bench_operands_make(&gemm, &operands, &message));
            const int32_t *rows = operands.tensors[KILN_GEMM_GROUPS].data;
            for (int64_t i = 0; i < 23; i++) {
                assert_in_range(rows[i], 0, groups - 1);
                if (i > 0 && rows[i] != rows[i - 1])
                    assert_true(rows[i] > rows[i - 1] && i % step == 0);
            }
            bench_operands_free(&operands);
            gemm.desc.grouping = KILN_GROUPING_K;
            assert_true(bench_operands_make(&gemm, &operands, &message));
            const int32_t *ends = operands.tensors[KILN_GEMM_GROUPS].data;
            assert_int_equal(ends[groups - 1], 23 / step * step);
            for (int64_t i = 0; i < groups; i++)
                assert_true(ends[i] >= (i > 0 ? ends[i - 1] : 0) && ends[i] % step == 0);
            bench_operands_free(&operands);
        }
}

static void test_swiglu_and_quantised_results(void **state)
{
    (void)state;
    bench_gemm gemm = some_gemm();
    gemm.desc.epilogue_count = 1;
    gemm.desc.epilogues[0].kind = KILN_EPILOGUE_SWIGLU;
    judge(gemm, "swiglu");
    gemm.desc.epilogue_count = 2;
    gemm.desc.epilogues[1].kind = KILN_EPILOGUE_QUANTIZE;
    gemm.desc.d_type = KILN_E4M3;
    for (int32_t block = -1; block <= 5; block += 3) {
        gemm.desc.d_quantization = (kiln_quantization){KILN_F32, KILN_TYPE_NONE, {1, block}};
        judge(gemm, "swiglu, quantise");
    }
}

/* How much is computed and moved. */
static void test_costs(void **state)
{
    (void)state;
    bench_gemm gemm = some_gemm();
    double one = 2.0 * 6 * 10 * 9;
    assert_true(bench_gemm_operations(&gemm) == one);
    assert_true(bench_gemm_bytes(&gemm) == 4 * (6 * 9 + 9 * 10 + 6 * 10));
    gemm.desc.groups = 4;
    gemm.desc.grouping = KILN_GROUPING_CONTIGUOUS; /* the rows are shared out */
    assert_true(bench_gemm_operations(&gemm) == one);
    assert_true(bench_gemm_bytes(&gemm) == 4 * (6 * 9 + 4 * 9 * 10 + 6 * 10 + 6));
    gemm.desc.grouping = KILN_GROUPING_MASKED; /* each has its own */
    assert_true(bench_gemm_operations(&gemm) == 4 * one);
    gemm.desc.grouping = KILN_GROUPING_K; /* the steps are shared out */
    assert_true(bench_gemm_operations(&gemm) == one);
    assert_true(bench_gemm_bytes(&gemm) == 4 * (6 * 9 + 9 * 10 + 4 * 6 * 10) + 4 * 4);
    gemm = some_gemm();
    gemm.desc.b_type = KILN_I4;
    gemm.desc.b_quantization = (kiln_quantization){KILN_F16, KILN_I4, {4, 1}};
    /* Rows of 10 elements take 5 bytes: 9 of B, 3 of its zero points; scales of 2 bytes. */
    assert_true(bench_gemm_bytes(&gemm) == 4 * 6 * 9 + 9 * 5 + 3 * 5 + 2 * 3 * 10 + 4 * 6 * 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantised_operands),
        cmocka_unit_test(test_groupings),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_swiglu_and_quantised_results),
        cmocka_unit_test(test_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
