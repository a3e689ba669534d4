/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle of GEMM by itself: values computed by hand (with mpmath where they are not rational),
 * bounds against their formulas, and what the judge makes of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "conformance/gemm.h"

static const double inf = (double)INFINITY, nan_value = (double)NAN;

/* ---- Asking ---- */

/* A GEMM in the making: at most 64 elements a tensor. */
typedef struct question {
    kiln_gemm_desc desc;
    kiln_gemm_args args;
    kiln_tensor tensors[KILN_GEMM_SLOTS];
    kiln_tensor scales[2], zero_points[2];
    double memory[KILN_GEMM_SLOTS + 4][64];
    conformance_gemm_expected expected;
} question;

static void put(question *q, int place, kiln_tensor *tensor, uint32_t type, uint32_t rank,
                const int64_t *shape, const double *values)
{
    *tensor = kiln_tensor_host(type, q->memory[place], rank, shape);
    int64_t count = kiln_tensor_elements(tensor), row = shape[rank - 1];
    for (int64_t i = 0; values && i < count; i++) {
        int64_t line = i / row, bytes = kiln_type_row_bytes(type, row);
        kiln_store_f64(type, (char *)q->memory[place] + line * bytes, i % row, values[i], 0);
    }
}

#define SHAPE(...)                                                                    \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                                 \
        __VA_ARGS__                                                                   \
    }
#define VALUES(...)  \
    (const double[]) \
    {                \
        __VA_ARGS__  \
    }

static void slot(question *q, uint32_t index, uint32_t type, uint32_t rank, const int64_t *shape,
                 const double *values)
{
    put(q, (int)index, &q->tensors[index], type, rank, shape, values);
}

/* Scales of A (0) or B (1). */
static void scales(question *q, int operand, uint32_t type, uint32_t rank, const int64_t *shape,
                   const double *values, int32_t rows, int32_t columns)
{
    kiln_quantization *quantization = operand ? &q->desc.b_quantization : &q->desc.a_quantization;
    put(q, KILN_GEMM_SLOTS + operand, &q->scales[operand], type, rank, shape, values);
    q->tensors[operand].scale = &q->scales[operand];
    quantization->scale_type = type;
    quantization->block[0] = rows;
    quantization->block[1] = columns;
}

static void zero_points(question *q, int operand, uint32_t rank, const int64_t *shape,
                        const double *values)
{
    uint32_t type = q->tensors[operand].type;
    put(q, KILN_GEMM_SLOTS + 2 + operand, &q->zero_points[operand], type, rank, shape, values);
    q->tensors[operand].zero_point = &q->zero_points[operand];
    (operand ? &q->desc.b_quantization : &q->desc.a_quantization)->zero_type = type;
}

static question *begin(double alpha, double beta)
{
    question *q = calloc(1, sizeof *q);
    assert_non_null(q);
    q->args = (kiln_gemm_args){{sizeof q->args, KILN_GEMM_SLOTS, q->tensors}, alpha, beta};
    q->desc.head.struct_size = sizeof q->desc;
    return q;
}

static void add_epilogue(question *q, kiln_epilogue epilogue)
{
    q->desc.epilogues[q->desc.epilogue_count++] = epilogue;
}

static void ask(question *q)
{
    const char *reason = "";
    q->desc.batch = 1;
    q->desc.a_type = q->tensors[KILN_GEMM_A].type;
    q->desc.b_type = q->tensors[KILN_GEMM_B].type;
    q->desc.c_type = q->tensors[KILN_GEMM_C].type;
    q->desc.d_type = q->tensors[KILN_GEMM_D].type;
    if (conformance_gemm_oracle(&q->desc, &q->args, 0, &q->expected, &reason) != KILN_OK)
        fail_msg("%s", reason);
}

static void end(question *q)
{
    conformance_gemm_expected_free(&q->expected);
    free(q);
}

static void expect(const double *got, int count, const double *wanted)
{
    for (int i = 0; i < count; i++)
        if (!(fabs(got[i] - wanted[i]) <= 1e-12 * fabs(wanted[i])))
            fail_msg("element %d is %.17g instead of %.17g", i, got[i], wanted[i]);
}

/* Within a thousandth above, for terms of underflow. */
static void expect_bound(double got, double wanted)
{
    if (!(got >= wanted && got <= wanted * 1.001))
        fail_msg("a bound is %.17g instead of %.17g", got, wanted);
}

static double gamma_of(double roundings)
{
    return roundings * 0x1p-24 / (1 - roundings * 0x1p-24);
}

/* ---- Plain products ---- */

/* (1 2; 3 4) (5 6; 7 8) in f64 with one epilogue, C = (100 200; 300 400). */
static void plain(uint32_t flags, double alpha, double beta, const kiln_epilogue *epilogue,
                  const double *wanted, int count)
{
    question *q = begin(alpha, beta);
    q->desc.head.flags = flags;
    slot(q, KILN_GEMM_A, KILN_F64, SHAPE(2, 2), VALUES(1, 2, 3, 4));
    slot(q, KILN_GEMM_B, KILN_F64, SHAPE(2, 2), VALUES(5, 6, 7, 8));
    slot(q, KILN_GEMM_C, KILN_F64, SHAPE(2, 2), VALUES(100, 200, 300, 400));
    slot(q, KILN_GEMM_D, KILN_F64, SHAPE(2, count / 2), NULL);
    if (epilogue)
        add_epilogue(q, *epilogue);
    ask(q);
    expect(q->expected.exact, count, wanted);
    end(q);
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
    question *q = begin(0.5, 2);
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
    end(q);
}

static void test_refusals(void **state)
{
    (void)state;
    const char *reason = "";
    question *q = begin(1, 0);
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
    end(q);
}

/* ---- Quantised operands ---- */

/* Two runs of k, which are exact: 2 + 3 roundings, and two for each scaled operand. */
static void test_integer_scales(void **state)
{
    (void)state;
    question *q = begin(1, 0);
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
    end(q);

    /* Whole and without scales: 4 roundings of f64, and the half of rounding to i32. */
    q = begin(0.5, 0);
    slot(q, KILN_GEMM_A, KILN_I8, SHAPE(1, 3), VALUES(-128, -128, 127));
    slot(q, KILN_GEMM_B, KILN_I8, SHAPE(3, 1), VALUES(-128, 127, 1));
    slot(q, KILN_GEMM_D, KILN_I32, SHAPE(1, 1), NULL);
    ask(q);
    assert_true(q->expected.exact[0] == 127.5); /* (16384 - 16256 + 127) / 2 */
    expect_bound(q->expected.bound[0], 0.5 + 4 * 0x1p-53 * 127.5);
    end(q);
}

/* K + 4 roundings, and two for each scaled operand. */
static void test_float_scales(void **state)
{
    (void)state;
    question *q = begin(1, 0);
    slot(q, KILN_GEMM_A, KILN_E4M3, SHAPE(1, 4), VALUES(1.5, -2, 3, 0.5));
    slot(q, KILN_GEMM_B, KILN_E4M3, SHAPE(4, 1), VALUES(2, 4, -1, 6));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(1, 1), NULL);
    scales(q, 0, KILN_UE8M0, SHAPE(1, 2), VALUES(0.5, 8), 1, 2);
    scales(q, 1, KILN_F32, SHAPE(2, 1), VALUES(0.75, 1.5), 2, 1);
    ask(q);
    expect(q->expected.exact, 1, VALUES(-1.875)); /* (3 - 8) 0.375 + (-3 + 3) 12 */
    expect_bound(q->expected.bound[0], gamma_of(4 + 4 + 4) * (11 * 0.375 + 6 * 12) + 0x1p-24);
    end(q);

    /* e2m1 in two rows, and scales of A column by column. */
    q = begin(1, 0);
    slot(q, KILN_GEMM_A, KILN_E2M1, SHAPE(2, 3), VALUES(0.5, 6, -1.5, 1, 2, 3));
    slot(q, KILN_GEMM_B, KILN_E2M1, SHAPE(3, 1), VALUES(-3, 4, 2));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(2, 1), NULL);
    scales(q, 0, KILN_E4M3, SHAPE(2, 3), VALUES(2, 1, 0.25, 0.5, 4, 8), 1, 1);
    q->scales[0].strides[0] = 1; /* columns of 2: (2, 1), (0.25, 0.5), (4, 8) */
    q->scales[0].strides[1] = 2;
    ask(q);
    expect(q->expected.exact, 2, VALUES(-3 + 6 - 12, -3 + 4 + 48));
    end(q);

    /* w4a16: rows of B are in groups of 2, stored by column of op(B). */
    q = begin(1, 0);
    q->desc.head.flags = KILN_GEMM_TRANSPOSE_B;
    slot(q, KILN_GEMM_A, KILN_BF16, SHAPE(1, 3), VALUES(1, -2, 0.5));
    slot(q, KILN_GEMM_B, KILN_U4, SHAPE(1, 3), VALUES(15, 3, 8));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(1, 1), NULL);
    scales(q, 1, KILN_BF16, SHAPE(1, 2), VALUES(0.5, -2), 1, 2);
    zero_points(q, 1, SHAPE(1, 2), VALUES(7, 9));
    ask(q);
    expect(q->expected.exact, 1, VALUES(1 * 8 * 0.5 - 2 * -4 * 0.5 + 0.5 * -1 * -2));
    end(q);
}

/* 3 (a_scale) · 2 (b_scale) */
static question *scaled_product(double a_scale, double b_scale)
{
    question *q = begin(1, 0);
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
    end(q);
    q = scaled_product(0x1p126, 0x1p-100); /* 6 2^126 overflows, but not 3 2^126 2 2^-100 */
    assert_true(q->expected.bound[0] == inf);
    end(q);
    q = scaled_product(0x1p100, 0x1p-100);
    assert_true(q->expected.exact[0] == 6 && q->expected.bound[0] < 1e-5);
    end(q);
    q = scaled_product(0x1p-100, 0x1p-60); /* the product of the scales vanishes */
    assert_true(q->expected.exact[0] == 6 * 0x1p-160);
    assert_true(q->expected.bound[0] >= 0x1p-149 && q->expected.bound[0] < 0x1p-143);
    end(q);
    q = scaled_product(nan_value, 1);
    assert_true(isnan(q->expected.exact[0]) && q->expected.bound[0] == 0);
    end(q);
    q = scaled_product(inf, 1);
    assert_true(q->expected.bound[0] == inf);
    end(q);
}

/* ---- Groups ---- */

static void add_gradient(question *q, uint32_t rank, const int64_t *shape)
{
    uint32_t index = KILN_GEMM_OPERAND + q->desc.epilogue_count;
    slot(q, index, KILN_F32, rank, shape, NULL);
    add_epilogue(q, (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS_GRADIENT,
                                    .operand = KILN_OPERAND_ROW,
                                    .type = KILN_F32});
}

static void test_contiguous(void **state)
{
    (void)state;
    question *q = begin(1, 0);
    q->desc.grouping = KILN_GROUPING_CONTIGUOUS;
    q->desc.groups = 2;
    slot(q, KILN_GEMM_A, KILN_F32, SHAPE(4, 1), VALUES(1, 2, 3, 4));
    slot(q, KILN_GEMM_B, KILN_F32, SHAPE(2, 1, 1), VALUES(10, 100));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(4, 1), NULL);
    slot(q, KILN_GEMM_GROUPS, KILN_I32, SHAPE(4), VALUES(1, -1, 0, 1));
    add_gradient(q, SHAPE(1));
    add_gradient(q, SHAPE(2, 1));
    /* Rows of each group get another bias, and each row another addend. */
    slot(q, KILN_GEMM_OPERAND + 2, KILN_F32, SHAPE(2, 1), VALUES(0.25, 0.5));
    add_epilogue(q, (kiln_epilogue){KILN_EPILOGUE_BIAS, KILN_OPERAND_ROW, KILN_F32, 0, 0, 0});
    slot(q, KILN_GEMM_OPERAND + 3, KILN_F32, SHAPE(4), VALUES(1000, 2000, 3000, 4000));
    add_epilogue(q, (kiln_epilogue){KILN_EPILOGUE_BIAS, KILN_OPERAND_COLUMN, KILN_F32, 0, 0, 0});
    ask(q);
    const conformance_gemm_expected *expected = &q->expected;
    expect(expected->exact, 4, VALUES(1100.5, 0, 3030.25, 4400.5));
    assert_true(expected->written[0] && !expected->written[1] && expected->written[2]);
    expect(expected->gradients[0].exact, 1, VALUES(530));
    expect(expected->gradients[1].exact, 2, VALUES(30, 500));
    assert_int_equal(expected->gradients[1].rows, 2);
    assert_false(expected->exceeded);
    /* Each value is known to (1 + 4) u, the sum of three to 4 u more. */
    expect_bound(expected->gradients[0].bound[0], (gamma_of(5) + gamma_of(4)) * 530);
    conformance_gemm_expected_free(&q->expected);
    kiln_store_f64(KILN_I32, q->memory[KILN_GEMM_GROUPS], 3, 2, 0);
    ask(q);
    assert_true(q->expected.exceeded && !q->expected.written[3]);
    expect(q->expected.gradients[0].exact, 1, VALUES(130));
    end(q);
}

static void test_masked(void **state)
{
    (void)state;
    question *q = begin(1, 0);
    q->desc.grouping = KILN_GROUPING_MASKED;
    q->desc.groups = 2;
    slot(q, KILN_GEMM_A, KILN_F32, SHAPE(2, 2, 1), VALUES(1, 2, 3, 4));
    slot(q, KILN_GEMM_B, KILN_F32, SHAPE(2, 1, 1), VALUES(10, 100));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(2, 2, 1), NULL);
    slot(q, KILN_GEMM_GROUPS, KILN_I32, SHAPE(2), VALUES(1, 2));
    ask(q);
    expect(q->expected.exact, 4, VALUES(10, 0, 300, 400));
    assert_true(q->expected.written[0] && !q->expected.written[1] && q->expected.written[3]);
    assert_false(q->expected.exceeded);
    conformance_gemm_expected_free(&q->expected);
    kiln_store_f64(KILN_I32, q->memory[KILN_GEMM_GROUPS], 0, 3, 0);
    kiln_store_f64(KILN_I32, q->memory[KILN_GEMM_GROUPS], 1, -1, 0);
    ask(q);
    expect(q->expected.exact, 4, VALUES(10, 20, 0, 0));
    assert_true(q->expected.written[1] && !q->expected.written[2] && q->expected.exceeded);
    end(q);
}

static void by_k(const double ends[3], const double wanted[3], bool exceeded)
{
    question *q = begin(1, 0);
    q->desc.grouping = KILN_GROUPING_K;
    q->desc.groups = 3;
    slot(q, KILN_GEMM_A, KILN_F32, SHAPE(1, 4), VALUES(1, 2, 3, 4));
    slot(q, KILN_GEMM_B, KILN_F32, SHAPE(4, 1), VALUES(1, 1, 1, 1));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(3, 1, 1), NULL);
    slot(q, KILN_GEMM_GROUPS, KILN_I32, SHAPE(3), ends);
    ask(q);
    expect(q->expected.exact, 3, wanted);
    assert_int_equal(q->expected.exceeded, exceeded);
    end(q);
}

static void test_by_k(void **state)
{
    (void)state;
    by_k(VALUES(1, 1, 4), VALUES(1, 0, 9), false);
    by_k(VALUES(2, 3, 3), VALUES(3, 3, 0), false);
    by_k(VALUES(2, 1, 5), VALUES(3, 0, 7), true);  /* 2, 2, 4 */
    by_k(VALUES(-1, 3, 1), VALUES(0, 6, 0), true); /* 0, 3, 3 */
}

/* A scale's block counts from the tensor's start, not from the group's. */
static void test_scales_by_k(void **state)
{
    (void)state;
    question *q = begin(1, 0);
    q->desc.grouping = KILN_GROUPING_K;
    q->desc.groups = 2;
    slot(q, KILN_GEMM_A, KILN_E4M3, SHAPE(1, 4), VALUES(1, 1, 1, 1));
    slot(q, KILN_GEMM_B, KILN_E4M3, SHAPE(4, 1), VALUES(1, 2, 3, 4));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(2, 1, 1), NULL);
    slot(q, KILN_GEMM_GROUPS, KILN_I32, SHAPE(2), VALUES(1, 4));
    scales(q, 0, KILN_F32, SHAPE(1, 2), VALUES(10, 1000), 1, 2);
    ask(q);
    expect(q->expected.exact, 2, VALUES(10, 20 + 7000));
    end(q);
}

/* ---- D of few bits ---- */

/* One row of values, made by K = 1, quantised in blocks of 2. */
static question *quantized(uint32_t d_type, uint32_t scale_type, const double values[4])
{
    question *q = begin(1, 0);
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
    end(q);

    q = quantized(KILN_E4M3, KILN_UE8M0, VALUES(3, nan_value, 3.5, -inf));
    assert_true(scale_ratio(q, 0, 0x1p-7) == 0); /* 3/448 lies between 2^-8 and 2^-7 */
    assert_true(scale_ratio(q, 0, 0x1p-8) == inf);
    assert_true(scale_ratio(q, 0, 0x1p-6) == inf);
    assert_true(scale_ratio(q, 1, 0x1p-7) == 0); /* 3.5/448 = 2^-7, or by an error more */
    assert_true(scale_ratio(q, 1, 0x1p-6) == 0);
    assert_true(scale_ratio(q, 1, 0x1p-8) == inf);
    end(q);

    q = quantized(KILN_I8, KILN_F32, VALUES(127, 1, 1e-45, 1e-44));
    assert_true(scale_ratio(q, 0, 1) < 0.01);
    assert_true(scale_ratio(q, 1, 0x1p-126) == 0); /* not below it */
    end(q);
}

static double element_ratio(uint32_t type, double exact, double scale, double measured)
{
    return conformance_gemm_quantized_ratio(type, exact, 1e-6 * fabs(exact), scale, measured);
}

static void test_quantized_elements(void **state)
{
    (void)state;
    assert_true(element_ratio(KILN_E4M3, -3, 3.0 / 448, -448) < 0.01);
    assert_true(element_ratio(KILN_E4M3, -3, 3.0 / 448, -416) > 1);
    assert_true(element_ratio(KILN_E4M3, -3, 3.0 / 448, 448) > 1);
    assert_true(element_ratio(KILN_E4M3, 1.0625, 1, 1) <= 1); /* half way */
    assert_true(element_ratio(KILN_E4M3, 1.0625, 1, 1.125) <= 1);
    assert_true(element_ratio(KILN_E4M3, 1.0624, 1, 1.125) > 1);
    assert_true(element_ratio(KILN_E4M3, 3.0000001, 3.0 / 448, 448) < 0.01); /* s was rounded */
    assert_true(element_ratio(KILN_I8, 3, 0.5, 6) == 0);
    assert_true(element_ratio(KILN_I8, 3, 0.5, 7) > 1);
    assert_true(element_ratio(KILN_I8, 3.2, 0.5, 7) > 1);
    assert_true(element_ratio(KILN_E2M1, 5, 1, 4) <= 1);
    assert_true(element_ratio(KILN_E2M1, 5, 1, 6) <= 1);
    assert_true(element_ratio(KILN_E2M1, 5.1, 1, 4) > 1);
    assert_true(element_ratio(KILN_U8, -3, 1, 0) == 0);
    assert_true(element_ratio(KILN_U8, -3, 1, 3) > 1);
    assert_true(element_ratio(KILN_E4M3, nan_value, 1, nan_value) == 0);
    assert_true(element_ratio(KILN_E4M3, nan_value, 1, 0) == inf);
    assert_true(element_ratio(KILN_E4M3, 1, 1, nan_value) == inf);
    assert_true(element_ratio(KILN_I8, nan_value, 1, 0) == 0);
    assert_true(element_ratio(KILN_E5M2, -inf, 1, -inf) == 0);
    assert_true(element_ratio(KILN_E4M3, inf, 1, 448) == 0); /* as KILN_SATURATE converts it */
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
        question *q = begin(1, 0);
        q->desc.head.flags = rows[i].flags;
        slot(q, KILN_GEMM_A, KILN_F32, SHAPE(1, 1), VALUES(1));
        slot(q, KILN_GEMM_B, KILN_F32, SHAPE(1, 1), VALUES(rows[i].value));
        slot(q, KILN_GEMM_D, rows[i].type, SHAPE(1, 1), NULL);
        ask(q);
        double exact = q->expected.exact[0];
        assert_true(exact == rows[i].exact || (isnan(exact) && isnan(rows[i].exact)));
        end(q);
    }
}

static void test_ratio(void **state)
{
    (void)state;
    assert_true(conformance_gemm_ratio(KILN_F32, false, 1, 0.5, 1.25) == 0.5);
    assert_true(conformance_gemm_ratio(KILN_F32, false, 1, 0.5, 2) == 2);
    assert_true(conformance_gemm_ratio(KILN_F32, false, nan_value, 0, nan_value) == 0);
    assert_true(conformance_gemm_ratio(KILN_F32, false, nan_value, 0, 1) == inf);
    assert_true(conformance_gemm_ratio(KILN_F32, false, 1, 0.5, nan_value) == inf);
    assert_true(conformance_gemm_ratio(KILN_F32, false, inf, 0, inf) == 0);
    assert_true(conformance_gemm_ratio(KILN_F32, false, inf, 0, -inf) == inf);
    assert_true(conformance_gemm_ratio(KILN_F32, false, inf, 0, 3e38) == inf);
    /* 65536 would follow the largest f16. */
    assert_true(conformance_gemm_ratio(KILN_F16, false, 65500, 36, inf) == 0);
    assert_true(conformance_gemm_ratio(KILN_F16, false, 65500, 35, inf) == inf);
    assert_true(conformance_gemm_ratio(KILN_F16, false, 65500, 36, -inf) == inf);
    assert_true(conformance_gemm_ratio(KILN_F16, true, 65504, 36, inf) == inf);
    assert_true(conformance_gemm_ratio(KILN_F16, true, inf, 0, inf) == 0);
    /* 480 would follow the largest e4m3, which has NaN there. */
    assert_true(conformance_gemm_ratio(KILN_E4M3, false, 470, 16, nan_value) == 0);
    assert_true(conformance_gemm_ratio(KILN_E4M3, false, 450, 16, nan_value) == inf);
    assert_true(conformance_gemm_ratio(KILN_E4M3, true, 448, 40, nan_value) == inf);
    assert_true(conformance_gemm_ratio(KILN_F32, false, 1, inf, 7) == 0);
    assert_true(conformance_gemm_ratio(KILN_I32, false, 1.5, 0.5, 2) == 0);
    assert_true(conformance_gemm_ratio(KILN_I32, false, 2, 0.5, 3) == inf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_bound_formula),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_integer_scales),
        cmocka_unit_test(test_float_scales),
        cmocka_unit_test(test_extreme_scales),
        cmocka_unit_test(test_contiguous),
        cmocka_unit_test(test_masked),
        cmocka_unit_test(test_by_k),
        cmocka_unit_test(test_scales_by_k),
        cmocka_unit_test(test_quantized_scales),
        cmocka_unit_test(test_quantized_elements),
        cmocka_unit_test(test_narrow_d),
        cmocka_unit_test(test_ratio),
    };
    return cmocka_run_group_tests_name("gemm oracle", tests, NULL, NULL);
}
