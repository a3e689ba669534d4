/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle of GEMM by itself, of quantised operands and results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/conformance/question.h"

/* ---- Operands ---- */

/* Two runs of k, which are exact: 2 + 3 roundings, and two for each scaled operand. */
static void test_integer_scales(void **state)
{
    (void)state;
    question *q = question_begin(1, 0);
    slot(q, KILN_GEMM_A, KILN_U8, SHAPE(2, 4), VALUES(10, 20, 30, 40, 50, 60, 70, 80));
    slot(q, KILN_GEMM_B, KILN_I8, SHAPE(4, 2), VALUES(3, -4, 5, 6, -7, 8, 9, -10));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(2, 2), NULL);
    scales(q, 0, KILN_F32, SHAPE(2, 2), VALUES(0.5, 0.25, 2, 1), 1, 2);
    zero_points(q, 0, SHAPE(2, 2), VALUES(1, 2, 3, 4));
    scales(q, 1, KILN_F16, SHAPE(1, 2), VALUES(0.5, 3), -1, 1);
    zero_points(q, 1, SHAPE(1, 2), VALUES(1, -2));
    ask(q);
    expect(q->expected.exact, 4, VALUES(33.5, 183, 362, 2328));
    /* 94 / 4 and 80 / 8 are the runs of the first element. */
    expect_bound(q->expected.bound[0], gamma_of(9) * 33.5 + 0x1p-19);
    question_end(q);

    /* Whole and without scales: 4 roundings of f64, and the half of rounding to i32. */
    q = question_begin(0.5, 0);
    slot(q, KILN_GEMM_A, KILN_I8, SHAPE(1, 3), VALUES(-128, -128, 127));
    slot(q, KILN_GEMM_B, KILN_I8, SHAPE(3, 1), VALUES(-128, 127, 1));
    slot(q, KILN_GEMM_D, KILN_I32, SHAPE(1, 1), NULL);
    ask(q);
    assert_true(q->expected.exact[0] == 127.5); /* (16384 - 16256 + 127) / 2 */
    expect_bound(q->expected.bound[0], 0.5 + 4 * 0x1p-53 * 127.5);
    question_end(q);
}

/* K + 4 roundings, and two for each scaled operand. */
static void test_float_scales(void **state)
{
    (void)state;
    question *q = question_begin(1, 0);
    slot(q, KILN_GEMM_A, KILN_E4M3, SHAPE(1, 4), VALUES(1.5, -2, 3, 0.5));
    slot(q, KILN_GEMM_B, KILN_E4M3, SHAPE(4, 1), VALUES(2, 4, -1, 6));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(1, 1), NULL);
    scales(q, 0, KILN_UE8M0, SHAPE(1, 2), VALUES(0.5, 8), 1, 2);
    scales(q, 1, KILN_F32, SHAPE(2, 1), VALUES(0.75, 1.5), 2, 1);
    ask(q);
    expect(q->expected.exact, 1, VALUES(-1.875)); /* (3 - 8) 0.375 + (-3 + 3) 12 */
    expect_bound(q->expected.bound[0], gamma_of(4 + 4 + 4) * (11 * 0.375 + 6 * 12) + 0x1p-24);
    question_end(q);

    /* e2m1 in two rows, and scales of A column by column. */
    q = question_begin(1, 0);
    slot(q, KILN_GEMM_A, KILN_E2M1, SHAPE(2, 3), VALUES(0.5, 6, -1.5, 1, 2, 3));
    slot(q, KILN_GEMM_B, KILN_E2M1, SHAPE(3, 1), VALUES(-3, 4, 2));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(2, 1), NULL);
    scales(q, 0, KILN_E4M3, SHAPE(2, 3), VALUES(2, 1, 0.25, 0.5, 4, 8), 1, 1);
    q->scales[0].strides[0] = 1; /* columns of 2: (2, 1), (0.25, 0.5), (4, 8) */
    q->scales[0].strides[1] = 2;
    ask(q);
    expect(q->expected.exact, 2, VALUES(-3 + 6 - 12, -3 + 4 + 48));
    question_end(q);

    /* w4a16: rows of B are in groups of 2, stored by column of op(B). */
    q = question_begin(1, 0);
    q->desc.head.flags = KILN_GEMM_TRANSPOSE_B;
    slot(q, KILN_GEMM_A, KILN_BF16, SHAPE(1, 3), VALUES(1, -2, 0.5));
    slot(q, KILN_GEMM_B, KILN_U4, SHAPE(1, 3), VALUES(15, 3, 8));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(1, 1), NULL);
    scales(q, 1, KILN_BF16, SHAPE(1, 2), VALUES(0.5, -2), 1, 2);
    zero_points(q, 1, SHAPE(1, 2), VALUES(7, 9));
    ask(q);
    expect(q->expected.exact, 1, VALUES(1 * 8 * 0.5 - 2 * -4 * 0.5 + 0.5 * -1 * -2));
    question_end(q);
}

/* 3 (a_scale) · 2 (b_scale) */
static question *scaled_product(double a_scale, double b_scale)
{
    question *q = question_begin(1, 0);
    slot(q, KILN_GEMM_A, KILN_E4M3, SHAPE(1, 1), VALUES(3));
    slot(q, KILN_GEMM_B, KILN_E4M3, SHAPE(1, 1), VALUES(2));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(1, 1), NULL);
    scales(q, 0, KILN_F32, SHAPE(1, 1), VALUES(a_scale), 1, 1);
    scales(q, 1, KILN_F32, SHAPE(1, 1), VALUES(b_scale), 1, 1);
    ask(q);
    return q;
}

static void test_extreme_scales(void **state)
{
    (void)state;
    question *q = scaled_product(0x1p100, 0x1p100); /* overflows in every order */
    assert_true(q->expected.bound[0] == inf);
    question_end(q);
    q = scaled_product(0x1p126, 0x1p-100); /* 6 2^126 overflows, but not 3 2^126 2 2^-100 */
    assert_true(q->expected.bound[0] == inf);
    question_end(q);
    q = scaled_product(0x1p100, 0x1p-100);
    assert_true(q->expected.exact[0] == 6 && q->expected.bound[0] < 1e-5);
    question_end(q);
    q = scaled_product(0x1p-100, 0x1p-60); /* the product of the scales vanishes */
    assert_true(q->expected.exact[0] == 6 * 0x1p-160);
    assert_true(q->expected.bound[0] >= 0x1p-149 && q->expected.bound[0] < 0x1p-143);
    question_end(q);
    q = scaled_product(nan_value, 1);
    assert_true(isnan(q->expected.exact[0]) && q->expected.bound[0] == 0);
    question_end(q);
    q = scaled_product(inf, 1);
    assert_true(q->expected.bound[0] == inf);
    question_end(q);
}

/* ---- Results ---- */

/* One row of values, made by K = 1, quantised in blocks of 2. */
static question *quantized(uint32_t d_type, uint32_t scale_type, const double values[4])
{
    question *q = question_begin(1, 0);
    slot(q, KILN_GEMM_A, KILN_F32, SHAPE(1, 1), VALUES(1));
    slot(q, KILN_GEMM_B, KILN_F32, SHAPE(1, 4), values);
    slot(q, KILN_GEMM_D, d_type, SHAPE(1, 4), NULL);
    q->desc.d_quantization = (kiln_quantization){scale_type, 0, {1, 2}};
    add_epilogue(q, (kiln_epilogue){.kind = KILN_EPILOGUE_QUANTIZE});
    ask(q);
    assert_int_equal(q->expected.scale_columns, 2);
    return q;
}

static double scale_ratio(const question *q, int block, double scale)
{
    return conformance_gemm_scale_ratio(q->desc.d_quantization.scale_type,
                                        q->expected.scale_low[block], q->expected.scale_high[block],
                                        scale);
}

static void test_quantized_scales(void **state)
{
    (void)state;
    question *q = quantized(KILN_E4M3, KILN_F32, VALUES(1, -3, 0, 0));
    expect(q->expected.exact, 4, VALUES(1, -3, 0, 0));
    double third = (double)(3.0f / 448), step = 0x1p-31; /* of f32 at 0.0067 */
    assert_true(scale_ratio(q, 0, third) < 0.5);
    assert_true(scale_ratio(q, 0, third + 5 * step) < 1); /* roundings of the value and of s */
    assert_true(scale_ratio(q, 0, third + 20 * step) == inf);
    assert_true(scale_ratio(q, 0, third - 20 * step) == inf);
    assert_true(scale_ratio(q, 0, nan_value) == inf);
    assert_true(scale_ratio(q, 1, 1) == 0); /* no values */
    assert_true(scale_ratio(q, 1, 2) == inf);
    assert_true(scale_ratio(q, 1, 0) == inf);
    question_end(q);

    q = quantized(KILN_E4M3, KILN_UE8M0, VALUES(3, nan_value, 3.5, -inf));
    assert_true(scale_ratio(q, 0, 0x1p-7) == 0); /* 3/448 lies between 2^-8 and 2^-7 */
    assert_true(scale_ratio(q, 0, 0x1p-8) == inf);
    assert_true(scale_ratio(q, 0, 0x1p-6) == inf);
    assert_true(scale_ratio(q, 1, 0x1p-7) == 0); /* 3.5/448 = 2^-7, or by an error more */
    assert_true(scale_ratio(q, 1, 0x1p-6) == 0);
    assert_true(scale_ratio(q, 1, 0x1p-8) == inf);
    question_end(q);

    q = quantized(KILN_I8, KILN_F32, VALUES(127, 1, 1e-45, 1e-44));
    assert_true(scale_ratio(q, 0, 1) < 0.01);
    assert_true(scale_ratio(q, 1, 0x1p-126) == 0); /* not below it */
    question_end(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integer_scales),
        cmocka_unit_test(test_float_scales),
        cmocka_unit_test(test_extreme_scales),
        cmocka_unit_test(test_quantized_scales),
    };
    return cmocka_run_group_tests_name("gemm oracle: scales", tests, NULL, NULL);
}
