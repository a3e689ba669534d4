/* SPDX-License-Identifier: Apache-2.0 */
/* Groupings: values, bits that are those of each group alone, groups that are empty, and indices,
 * counts and offsets beyond their limits. */
#include "tests/plugins/ref/problem.h"

static problem grouped(uint32_t grouping, uint32_t a_type, uint32_t b_type, int64_t m, int64_t n,
                       int64_t k, int64_t groups)
{
    problem p = problem_of(a_type, b_type, KILN_F32, m, n, k);
    p.desc.grouping = grouping;
    p.count = groups;
    return p;
}

static const char *const names[] = {"", "contiguous", "masked", "by k"};

/* ---- Values, and the same bits in every way ---- */

static void test_values(void **state)
{
    (void)state;
    for (uint32_t grouping = 1; grouping <= 3; grouping++)
        for (uint32_t flags = 0; flags < 4; flags++)
            for (int64_t groups = 1; groups <= 7; groups += 3) {
                problem p = grouped(grouping, KILN_BF16, KILN_E4M3, 150, 70, 300, groups);
                p.desc.head.flags = flags | KILN_GEMM_DYNAMIC_M;
                p.desc.m = 256;
                p.seed = (uint64_t)groups;
                p.beta = 0.5;
                p.desc.c_type = KILN_F32;
                if (groups == 4)
                    p.desc.d_type = KILN_BF16;
                p.shared_vectors = flags == 2;
                problem_add(&p, KILN_EPILOGUE_BIAS, KILN_OPERAND_ROW, KILN_F32);
                problem_add(&p, KILN_EPILOGUE_SCALE, KILN_OPERAND_COLUMN, KILN_BF16);
                problem_add(&p, KILN_EPILOGUE_SCALE, KILN_OPERAND_SCALAR, KILN_F32);
                problem_add(&p, KILN_EPILOGUE_MULTIPLY, KILN_OPERAND_MATRIX, KILN_F16);
                problem_make(&p);
                problem_check(&p, names[grouping], KILN_OK);
                problem_free(&p);
            }
}

/* As mixtures of experts have them. */
static void test_quantised(void **state)
{
    (void)state;
    for (uint32_t grouping = 1; grouping <= 3; grouping++)
        for (int shared = 0; shared < 2; shared++) {
            problem p = grouped(grouping, KILN_E4M3, KILN_E4M3, 60, 130, 300, 4);
            p.desc.head.flags = KILN_GEMM_TRANSPOSE_B;
            p.desc.a_quantization = (kiln_quantization){KILN_F32, 0, {1, 128}};
            p.desc.b_quantization = (kiln_quantization){KILN_F32, 0, {128, 128}};
            p.shared_scales = shared;
            problem_make(&p);
            problem_check(&p, names[grouping], KILN_OK);
            problem_free(&p);

            p = grouped(grouping, KILN_I8, KILN_I4, 33, 66, 150, 4);
            p.desc.a_quantization = (kiln_quantization){KILN_F32, KILN_I8, {5, 40}};
            p.desc.b_quantization = (kiln_quantization){KILN_BF16, KILN_I4, {32, 3}};
            p.shared_scales = shared;
            problem_make(&p);
            problem_check(&p, names[grouping], KILN_OK);
            problem_free(&p);

            p = grouped(grouping, KILN_U4, KILN_E2M1, 33, 66, 151, 4);
            p.desc.head.flags = KILN_GEMM_TRANSPOSE_A;
            p.desc.a_quantization = (kiln_quantization){KILN_F32, KILN_U4, {5, 40}};
            p.shared_scales = shared;
            problem_make(&p);
            problem_check(&p, names[grouping], KILN_OK);
            problem_free(&p);
        }
}

/* alpha = 0 and K = 0 give beta * C in the rows that count, and in no others. */
static void test_without_product(void **state)
{
    (void)state;
    for (uint32_t grouping = 1; grouping <= 3; grouping++)
        for (int way = 0; way < 2; way++) {
            problem p = grouped(grouping, KILN_F32, KILN_F32, 40, 30, way ? 0 : 20, 3);
            p.alpha = way ? 1 : 0;
            p.beta = 2;
            p.desc.c_type = KILN_F32;
            problem_make(&p);
            for (int i = 0; i < 2; i++) /* not read */
                memset(p.memory[i], 0xff, p.bytes[i]);
            if (!way) {
                kiln_runtime *runtime = problem_runtime("1", "auto");
                kiln_plan *plan = problem_plan(runtime, &p.desc);
                problem_run(plan, &p, KILN_OK);
                problem_check_values(&p, names[grouping]);
                kiln_plan_release(plan);
                kiln_runtime_close(runtime);
            } else
                problem_check(&p, names[grouping], KILN_OK);
            problem_free(&p);
        }
}

/* ---- The bits of each group alone ---- */

/* The matrix [entry] of a tensor, from `row` on. */
static kiln_tensor part(const kiln_tensor *tensor, int64_t entry, int64_t row, int64_t rows)
{
    kiln_tensor view = *tensor;
    int64_t first = row * tensor->strides[tensor->rank - 2];
    if (tensor->rank == 3) {
        first += entry * tensor->strides[0];
        memmove(view.shape, view.shape + 1, 2 * sizeof *view.shape);
        memmove(view.strides, view.strides + 1, 2 * sizeof *view.strides);
        view.rank = 2;
    }
    view.byte_offset = first * kiln_type_bits(tensor->type) / 8;
    view.shape[0] = rows;
    return view;
}

/* Computes rows of an entry of `p` as a GEMM of its own, and compares. */
static void check_alone(kiln_plan *plan, const problem *p, const outputs *expected, int64_t entry,
                        int64_t row, int64_t rows)
{
    const kiln_tensor *d = &p->tensors[KILN_GEMM_D];
    int64_t begin, end;
    kiln_tensor tensors[4] = {part(&p->tensors[KILN_GEMM_A], entry, row, rows),
                              part(&p->tensors[KILN_GEMM_B], entry, 0, p->k),
                              {0},
                              part(d, entry, row, rows)};
    problem_steps(p, entry, &begin, &end);
    tensors[KILN_GEMM_A].shape[1] = tensors[KILN_GEMM_B].shape[0] = end - begin;
    tensors[KILN_GEMM_A].byte_offset += begin * 2;
    tensors[KILN_GEMM_B].byte_offset += begin * p->tensors[KILN_GEMM_B].strides[0] * 2;
    kiln_gemm_args args = {{sizeof args, 4, tensors}, p->alpha, 0};
    if (kiln_plan_run(plan, NULL, &args.head) != KILN_OK)
        fail_msg("%s", kiln_last_error());
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = tensors[KILN_GEMM_D].byte_offset + i * d->strides[d->rank - 2] * 4;
        assert_memory_equal(p->memory[KILN_GEMM_D] + at, expected->bytes[KILN_GEMM_D] + at,
                            (size_t)p->n * 4);
    }
}

static void test_groups_alone(void **state)
{
    (void)state;
    kiln_runtime *runtime = problem_runtime("2", "auto");
    for (uint32_t grouping = 1; grouping <= 3; grouping++) {
        problem p = grouped(grouping, KILN_F16, KILN_BF16, 150, 90, 700, 4);
        problem_make(&p);
        kiln_gemm_desc desc = p.desc;
        desc.grouping = KILN_GROUPING_NONE;
        desc.groups = 0;
        desc.head.flags |= KILN_GEMM_DYNAMIC_M | KILN_GEMM_DYNAMIC_K;
        kiln_plan *plan = problem_plan(runtime, &p.desc), *alone = problem_plan(runtime, &desc);
        problem_run(plan, &p, KILN_OK);
        outputs o = problem_outputs(&p);
        if (grouping == KILN_GROUPING_CONTIGUOUS)
            for (int64_t row = 0; row < p.m; row++) {
                int32_t group = problem_row_group(&p, row);
                if (group >= 0)
                    check_alone(alone, &p, &o, group, row, 1);
            }
        else
            for (int64_t entry = 0; entry < p.count; entry++)
                check_alone(alone, &p, &o, entry, 0, problem_rows(&p, entry));
        outputs_free(&o);
        kiln_plan_release(plan);
        kiln_plan_release(alone);
        problem_free(&p);
    }
    kiln_runtime_close(runtime);
}

/* The rows of a contiguous grouping have the same bits in whatever order they come. */
static void test_row_order(void **state)
{
    (void)state;
    kiln_runtime *runtime = problem_runtime("1", "auto");
    problem p = grouped(KILN_GROUPING_CONTIGUOUS, KILN_F32, KILN_F32, 100, 40, 200, 3);
    problem_make(&p);
    kiln_plan *plan = problem_plan(runtime, &p.desc);
    problem_run(plan, &p, KILN_OK);
    outputs o = problem_outputs(&p);
    kiln_tensor *a = &p.tensors[KILN_GEMM_A], *d = &p.tensors[KILN_GEMM_D];
    int32_t *groups = p.tensors[KILN_GEMM_GROUPS].data;
    size_t a_row = (size_t)a->strides[0] * 4, d_row = (size_t)d->strides[0] * 4;
    char *before = test_malloc(p.bytes[KILN_GEMM_A]);
    int32_t groups_before[100];
    memcpy(before, a->data, p.bytes[KILN_GEMM_A]);
    memcpy(groups_before, groups, sizeof groups_before);
    for (size_t row = 0; row < 100; row++) {
        memcpy((char *)a->data + row * a_row, before + row * 37 % 100 * a_row, (size_t)p.k * 4);
        groups[row] = groups_before[row * 37 % 100];
    }
    problem_run(plan, &p, KILN_OK);
    for (size_t row = 0; row < 100; row++)
        assert_memory_equal((char *)d->data + row * d_row,
                            o.bytes[KILN_GEMM_D] + row * 37 % 100 * d_row, (size_t)p.n * 4);
    test_free(before);
    outputs_free(&o);
    kiln_plan_release(plan);
    problem_free(&p);
    kiln_runtime_close(runtime);
}

/* ---- Empty groups ---- */

static void test_empty_groups(void **state)
{
    (void)state;
    for (uint32_t grouping = 1; grouping <= 3; grouping++) {
        problem p = grouped(grouping, KILN_F32, KILN_F32, 20, 30, 40, 300);
        p.beta = 1;
        p.desc.c_type = KILN_F32;
        problem_make(&p);
        int32_t *groups = p.tensors[KILN_GEMM_GROUPS].data;
        for (int64_t i = 0; i < 20 && grouping == KILN_GROUPING_CONTIGUOUS; i++)
            groups[i] = i % 3 == 0 ? 299 : -1;
        for (int64_t i = 0; i < 300 && grouping == KILN_GROUPING_MASKED; i++)
            groups[i] = i == 150 ? 7 : 0;
        for (int64_t i = 0; i < 300 && grouping == KILN_GROUPING_K; i++)
            groups[i] = i >= 200 ? 33 : 0;
        problem_check(&p, names[grouping], KILN_OK);
        problem_free(&p);
    }
}

/* No group has a row. */
static void test_nothing_to_do(void **state)
{
    (void)state;
    for (uint32_t grouping = 1; grouping <= 2; grouping++) {
        problem p = grouped(grouping, KILN_F32, KILN_F32, 20, 30, 40, 5);
        problem_make(&p);
        int32_t *groups = p.tensors[KILN_GEMM_GROUPS].data;
        for (int i = 0; i < (grouping == KILN_GROUPING_CONTIGUOUS ? 20 : 5); i++)
            groups[i] = grouping == KILN_GROUPING_CONTIGUOUS ? -1 : 0;
        problem_check(&p, names[grouping], KILN_OK);
        problem_free(&p);
    }
}

/* ---- Beyond the limits ---- */

static void expect_said(const char *words)
{
    if (!strstr(kiln_last_error(), words))
        fail_msg("'%s' does not speak of '%s'", kiln_last_error(), words);
}

static void test_violations(void **state)
{
    (void)state;
    static const struct {
        uint32_t grouping;
        int64_t at, value;
        const char *words;
    } violations[] = {
        {KILN_GROUPING_CONTIGUOUS, 7, 4, "row 7 is of group 4, but there are 4 groups"},
        {KILN_GROUPING_CONTIGUOUS, 0, -2, "row 0 is of group -2"},
        {KILN_GROUPING_CONTIGUOUS, 29, INT32_MAX, "row 29 is of group 2147483647"},
        {KILN_GROUPING_CONTIGUOUS, 5, INT32_MIN, "row 5 is of group -2147483648"},
        {KILN_GROUPING_MASKED, 2, 31, "group 2 counts 31 rows, but has room for 0 to 30"},
        {KILN_GROUPING_MASKED, 0, -1, "group 0 counts -1 rows"},
        {KILN_GROUPING_MASKED, 3, INT32_MAX, "group 3 counts 2147483647 rows"},
        {KILN_GROUPING_K, 3, 51, "group 3 ends at step 51"},
        {KILN_GROUPING_K, 0, -1, "group 0 ends at step -1"},
        {KILN_GROUPING_K, 2, 2, "group 2 ends at step 2"},
        {KILN_GROUPING_K, 1, INT32_MAX, "group 1 ends at step 2147483647"},
        {KILN_GROUPING_K, 1, INT32_MIN, "group 1 ends at step -2147483648"},
    };
    for (size_t i = 0; i < sizeof violations / sizeof *violations; i++) {
        uint32_t grouping = violations[i].grouping;
        problem p = grouped(grouping, KILN_F32, KILN_F32, 30, 140, 50, 4);
        problem_make(&p);
        ((int32_t *)p.tensors[KILN_GEMM_GROUPS].data)[violations[i].at] =
            (int32_t)violations[i].value;
        problem_check(&p, violations[i].words, KILN_CAPACITY);
        expect_said(violations[i].words);
        problem_free(&p);
    }
}

/* The first is named, the others are counted, and a stream says so when it is waited for. */
static void test_violations_on_a_stream(void **state)
{
    (void)state;
    kiln_runtime *runtime = problem_runtime("2", "auto");
    problem p = grouped(KILN_GROUPING_CONTIGUOUS, KILN_F32, KILN_F32, 30, 40, 50, 4);
    problem_make(&p);
    for (int i = 11; i < 20; i += 2)
        ((int32_t *)p.tensors[KILN_GEMM_GROUPS].data)[i] = 100 + i;
    kiln_plan *plan = problem_plan(runtime, &p.desc);
    problem_run(plan, &p, KILN_CAPACITY);
    expect_said("row 11 is of group 111");
    expect_said("4 more");
    outputs o = problem_outputs(&p);
    kiln_stream *stream;
    assert_int_equal(kiln_stream_create(kiln_device_at(runtime, 0), &stream), KILN_OK);
    kiln_gemm_args args = problem_args(&p);
    memset(p.memory[KILN_GEMM_D], 0xff, p.bytes[KILN_GEMM_D]);
    assert_int_equal(kiln_plan_run(plan, stream, &args.head), KILN_OK);
    assert_int_equal(kiln_stream_wait(stream), KILN_CAPACITY);
    expect_said("row 11 is of group 111");
    problem_same(&p, &o, "on a stream");
    /* That was no fault: the stream goes on. */
    assert_int_equal(kiln_stream_wait(stream), KILN_OK);
    memset(p.memory[KILN_GEMM_D], 0xff, p.bytes[KILN_GEMM_D]);
    assert_int_equal(kiln_plan_run(plan, stream, &args.head), KILN_OK);
    assert_int_equal(kiln_plan_run(plan, stream, &args.head), KILN_OK);
    assert_int_equal(kiln_stream_wait(stream), KILN_CAPACITY);
    problem_same(&p, &o, "on the same stream");
    assert_int_equal(kiln_stream_wait(stream), KILN_OK);
    kiln_stream_destroy(stream);
    outputs_free(&o);
    kiln_plan_release(plan);
    problem_free(&p);
    kiln_runtime_close(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_quantised),
        cmocka_unit_test(test_without_product),
        cmocka_unit_test(test_groups_alone),
        cmocka_unit_test(test_row_order),
        cmocka_unit_test(test_empty_groups),
        cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_violations),
        cmocka_unit_test(test_violations_on_a_stream),
    };
    return cmocka_run_group_tests_name("ref: groupings", tests, NULL, NULL);
}
