/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle of GEMM by itself, of groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/conformance/question.h"

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
    question *q = question_begin(1, 0);
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
    question_end(q);
}

static void test_masked(void **state)
{
    (void)state;
    question *q = question_begin(1, 0);
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
    question_end(q);
}

static void by_k(const double ends[3], const double wanted[3], bool exceeded)
{
    question *q = question_begin(1, 0);
    q->desc.grouping = KILN_GROUPING_K;
    q->desc.groups = 3;
    slot(q, KILN_GEMM_A, KILN_F32, SHAPE(1, 4), VALUES(1, 2, 3, 4));
    slot(q, KILN_GEMM_B, KILN_F32, SHAPE(4, 1), VALUES(1, 1, 1, 1));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(3, 1, 1), NULL);
    slot(q, KILN_GEMM_GROUPS, KILN_I32, SHAPE(3), ends);
    ask(q);
    expect(q->expected.exact, 3, wanted);
    assert_int_equal(q->expected.exceeded, exceeded);
    question_end(q);
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
    question *q = question_begin(1, 0);
    q->desc.grouping = KILN_GROUPING_K;
    q->desc.groups = 2;
    slot(q, KILN_GEMM_A, KILN_E4M3, SHAPE(1, 4), VALUES(1, 1, 1, 1));
    slot(q, KILN_GEMM_B, KILN_E4M3, SHAPE(4, 1), VALUES(1, 2, 3, 4));
    slot(q, KILN_GEMM_D, KILN_F32, SHAPE(2, 1, 1), NULL);
    slot(q, KILN_GEMM_GROUPS, KILN_I32, SHAPE(2), VALUES(1, 4));
    scales(q, 0, KILN_F32, SHAPE(1, 2), VALUES(10, 1000), 1, 2);
    ask(q);
    expect(q->expected.exact, 2, VALUES(10, 20 + 7000));
    question_end(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contiguous),
        cmocka_unit_test(test_masked),
        cmocka_unit_test(test_by_k),
        cmocka_unit_test(test_scales_by_k),
    };
    return cmocka_run_group_tests_name("gemm oracle: groups", tests, NULL, NULL);
}
