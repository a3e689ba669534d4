/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle of GEMM by itself, of plain products: values computed by hand (with mpmath where they
 * are not rational), and bounds against their formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/conformance/question.h"

/* (1 2; 3 4) (5 6; 7 8) in f64 with one epilogue, C = (100 200; 300 400). */
static void plain(uint32_t flags, double alpha, double beta, const kiln_epilogue *epilogue,
                  const double *wanted, int count)
{
    question *q = question_begin(alpha, beta);
    q->desc.head.flags = flags;
    slot(q, KILN_GEMM_A, KILN_F64, SHAPE(2, 2), VALUES(1, 2, 3, 4));
    slot(q, KILN_GEMM_B, KILN_F64, SHAPE(2, 2), VALUES(5, 6, 7, 8));
    slot(q, KILN_GEMM_C, KILN_F64, SHAPE(2, 2), VALUES(100, 200, 300, 400));
    slot(q, KILN_GEMM_D, KILN_F64, SHAPE(2, count / 2), NULL);
    if (epilogue)
        add_epilogue(q, *epilogue);
    ask(q);
    expect(q->expected.exact, count, wanted);
    question_end(q);
}

static void test_values(void **state)
{
    (void)state;
    plain(0, 1, 0, NULL, VALUES(19, 22, 43, 50), 4);
    plain(KILN_GEMM_TRANSPOSE_B, 1, 0, NULL, VALUES(17, 23, 39, 53), 4);
    plain(KILN_GEMM_TRANSPOSE_A, 1, 0, NULL, VALUES(26, 30, 38, 44), 4);
    plain(KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B, 1, 0, NULL, VALUES(23, 31, 34, 46), 4);
    plain(0, -2, 0.5, NULL, VALUES(12, 56, 64, 100), 4);
    plain(0, 0, 1, NULL, VALUES(100, 200, 300, 400), 4);

    /* alpha makes 1, 22/19, 43/19 and 50/19 of the sums. */
    kiln_epilogue activation = {.kind = KILN_EPILOGUE_GELU_ERF};
    plain(0, -1.0 / 19, 0, &activation,
          VALUES(-0.15865525393145705141, -0.14294615536169259807, -0.026734636376871197802,
                 -0.011182778775266215976),
          4);
    activation.kind = KILN_EPILOGUE_GELU_TANH;
    plain(0, 1.0 / 19, 0, &activation,
          VALUES(0.84119199060827670478, 1.0147454225675381714, 2.2367364253882760076,
                 2.6208657017178949095),
          4);
    activation.kind = KILN_EPILOGUE_SILU;
    plain(0, -1.0 / 19, 0, &activation,
          VALUES(-0.26894142136999512075, -0.27679477491642369764, -0.21323591172695988684,
                 -0.17666710232784757519),
          4);
    /* silu(1) 22/19, silu(43/19) 50/19 */
    activation.kind = KILN_EPILOGUE_SWIGLU;
    plain(0, 1.0 / 19, 0, &activation,
          VALUES(0.846488880518953018080289648425, 5.39453153423653215374646495817), 2);
    kiln_epilogue clip = {.kind = KILN_EPILOGUE_CLIP, .p0 = 20, .p1 = 45};
    plain(0, 1, 0, &clip, VALUES(20, 22, 43, 45), 4);
    kiln_epilogue relu = {.kind = KILN_EPILOGUE_RELU};
    plain(0, -1, 0.15, &relu, VALUES(0, 8, 2, 10), 4);
}

/* ---- Factors ---- */

/* Not 0, but half of what f32 can tell from it. */
static const double tiny = 0x1p-150;

/* a · 2 times alpha, and c times beta, in these types; a and c are read where the factors are not
 * 0. */
static double with_factors(uint32_t type, uint32_t d_type, double alpha, double a, double beta,
                           double c)
{
    question *q = question_begin(alpha, beta);
    slot(q, KILN_GEMM_A, type, SHAPE(1, 1), VALUES(a));
    slot(q, KILN_GEMM_B, type, SHAPE(1, 1), VALUES(2));
    slot(q, KILN_GEMM_C, d_type, SHAPE(1, 1), VALUES(c));
    slot(q, KILN_GEMM_D, d_type, SHAPE(1, 1), NULL);
    ask(q);
    double exact = q->expected.exact[0];
    question_end(q);
    return exact;
}

static void test_factors(void **state)
{
    (void)state;
    assert_true(with_factors(KILN_F32, KILN_F32, tiny, nan_value, 1, 3) == 3);
    assert_true(with_factors(KILN_F32, KILN_F32, 1, 3, tiny, nan_value) == 6);
    assert_true(with_factors(KILN_F16, KILN_F32, -tiny, inf, 1, 3) == 3);
    /* The next number of f64 is no tie, and rounds to 2^-149. */
    assert_true(isnan(with_factors(KILN_F32, KILN_F32, 0x1.0000000000001p-150, nan_value, 1, 3)));
    assert_true(with_factors(KILN_F32, KILN_F32, 0x1.0000000000001p-150, 1, 0, 0) == 0x1p-148);
    /* A factor other than 0 is rounded as well. */
    assert_true(with_factors(KILN_F32, KILN_F32, 1 + 0x1p-30, 3, 1 + 0x1p-30, 4) == 10);

    assert_true(isnan(with_factors(KILN_F64, KILN_F64, tiny, nan_value, 1, 3)));
    assert_true(isnan(with_factors(KILN_F64, KILN_F64, 1, 3, tiny, nan_value)));
    assert_true(with_factors(KILN_F64, KILN_F64, tiny, 3, 0, 0) == 6 * tiny);
    assert_true(with_factors(KILN_F64, KILN_F64, 1 + 0x1p-30, 3, 0, 0) == 6 + 6 * 0x1p-30);

    assert_true(with_factors(KILN_I8, KILN_I32, tiny, 3, 0, 0) == 6 * tiny);
    assert_true(with_factors(KILN_I8, KILN_I32, 0, 3, tiny, 5) == 5 * tiny);
    assert_true(with_factors(KILN_I8, KILN_I32, 1 + 0x1p-30, 3, 0, 0) == 6 + 6 * 0x1p-30);
    assert_true(with_factors(KILN_I8, KILN_F32, tiny, 3, 1, 5) == 5);
}

/* ---- Bounds and refusals ---- */

/* The bound is the documented formula: K + 4 roundings of f32 and one of D. */
static void test_bound_formula(void **state)
{
    (void)state;
    enum { DEPTH = 60 };
    double a[DEPTH], b[DEPTH];
    for (int k = 0; k < DEPTH; k++) {
        a[k] = 1;
        b[k] = k % 2 ? 2 : -2;
    }
    question *q = question_begin(0.5, 2);
    slot(q, KILN_GEMM_A, KILN_F32, SHAPE(1, DEPTH), a);
    slot(q, KILN_GEMM_B, KILN_F32, SHAPE(DEPTH, 1), b);
    slot(q, KILN_GEMM_C, KILN_F32, SHAPE(1, 1), VALUES(3));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(1, 1), NULL);
    ask(q);
    double wanted = gamma_of(DEPTH + 4) * (0.5 * 120 + 2 * 3);
    assert_true(q->expected.exact[0] == 6);
    expect_bound(q->expected.bound[0], wanted + 0x1p-22); /* half a unit of f32 at 6 */
    conformance_gemm_expected_free(&q->expected);
    q->tensors[KILN_GEMM_D].type = KILN_BF16;
    ask(q);
    expect_bound(q->expected.bound[0], wanted + 0x1p-6);
    conformance_gemm_expected_free(&q->expected);
    q->desc.precision = KILN_PRECISION_FAST;
    ask(q);
    expect_bound(q->expected.bound[0], wanted + 0x1p-6 + 0.01 * (0.5 * 120 + 2 * 3));
    conformance_gemm_expected_free(&q->expected);
    q->desc.precision = KILN_PRECISION_AUTO;
    q->desc.max_rel_error = 0.125;
    ask(q);
    expect_bound(q->expected.bound[0], wanted + 0x1p-5 + 0.125 * (0.5 * 120 + 2 * 3));
    question_end(q);
}

static void test_refusals(void **state)
{
    (void)state;
    const char *reason = "";
    question *q = question_begin(1, 0);
    slot(q, KILN_GEMM_A, KILN_F32, SHAPE(1, 1), VALUES(1));
    slot(q, KILN_GEMM_B, KILN_F32, SHAPE(1, 1), VALUES(1));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(1, 1), NULL);
    ask(q);
    conformance_gemm_expected_free(&q->expected);
    q->desc.grouping = 9;
    assert_int_equal(conformance_gemm_oracle(&q->desc, &q->args, 0, &q->expected, &reason),
                     KILN_UNSUPPORTED);
    q->desc.grouping = KILN_GROUPING_MASKED;
    q->desc.groups = 1;
    assert_int_equal(conformance_gemm_oracle(&q->desc, &q->args, 0, &q->expected, &reason),
                     KILN_INVALID); /* no groups */
    q->desc.grouping = q->desc.groups = 0;
    q->desc.a_type = KILN_I64;
    assert_int_equal(conformance_gemm_oracle(&q->desc, &q->args, 0, &q->expected, &reason),
                     KILN_UNSUPPORTED);
    q->desc.a_type = KILN_F32;
    q->desc.accumulator = KILN_F16;
    assert_int_equal(conformance_gemm_oracle(&q->desc, &q->args, 0, &q->expected, &reason),
                     KILN_UNSUPPORTED);
    q->desc.accumulator = KILN_TYPE_NONE;
    q->desc.a_quantization = (kiln_quantization){KILN_F32, 0, {1, 1}};
    assert_int_equal(conformance_gemm_oracle(&q->desc, &q->args, 0, &q->expected, &reason),
                     KILN_INVALID); /* no scales */
    assert_null(q->expected.exact);
    question_end(q);
}

/* Without quantising: what D's type clamps, and what it makes of NaN and Inf. */
static void test_narrow_d(void **state)
{
    (void)state;
    static const struct {
        uint32_t type, flags;
        double value, exact;
    } rows[] = {
        {KILN_U8, 0, -3, 0},
        {KILN_U8, 0, 300, 255},
        {KILN_I8, 0, (double)NAN, 0},
        {KILN_E4M3, KILN_GEMM_SATURATE, 1000, 448},
        {KILN_E4M3, KILN_GEMM_SATURATE, -(double)INFINITY, -448},
        {KILN_E4M3, 0, (double)INFINITY, (double)NAN},
        {KILN_E5M2, KILN_GEMM_SATURATE, -1e6, -57344},
        {KILN_E5M2, KILN_GEMM_SATURATE, (double)INFINITY, (double)INFINITY},
        {KILN_E4M3, 0, 1000, 1000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        question *q = question_begin(1, 0);
        q->desc.head.flags = rows[i].flags;
        slot(q, KILN_GEMM_A, KILN_F32, SHAPE(1, 1), VALUES(1));
        slot(q, KILN_GEMM_B, KILN_F32, SHAPE(1, 1), VALUES(rows[i].value));
        slot(q, KILN_GEMM_D, rows[i].type, SHAPE(1, 1), NULL);
        ask(q);
        double exact = q->expected.exact[0];
        assert_true(exact == rows[i].exact || (isnan(exact) && isnan(rows[i].exact)));
        question_end(q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_bound_formula), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_narrow_d),
    };
    return cmocka_run_group_tests_name("gemm oracle", tests, NULL, NULL);
}
