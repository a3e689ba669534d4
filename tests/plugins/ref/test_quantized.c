/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of every type, with scales and zero points: values, bits, packing, and blobs that are
 * refused. */
#include "tests/plugins/ref/problem.h"

static const uint32_t types[] = {KILN_F32,  KILN_F16, KILN_BF16, KILN_E4M3, KILN_E5M2,
                                 KILN_E2M1, KILN_I8,  KILN_U8,   KILN_I4,   KILN_U4};
enum { TYPES = sizeof types / sizeof *types };

static bool is_integer(uint32_t type)
{
    return type == KILN_I8 || type == KILN_U8 || type == KILN_I4 || type == KILN_U4;
}

/* ---- Types ---- */

static void test_every_mix(void **state)
{
    (void)state;
    static const uint32_t results[] = {KILN_F32,  KILN_F16, KILN_BF16, KILN_E4M3,
                                       KILN_E5M2, KILN_I8,  KILN_U8};
    for (int a = 0; a < TYPES; a++)
        for (int b = 0; b < TYPES; b++) {
            char what[100];
            int turn = a * TYPES + b;
            problem p = problem_of(types[a], types[b], results[turn % 7], 9 + turn % 3, 66, 131);
            p.seed = (uint64_t)turn + 1;
            p.desc.head.flags = (uint32_t)(turn / 3 % 4) | (turn % 2 ? KILN_GEMM_SATURATE : 0);
            p.alpha = 0.01;
            p.beta = 0.5;
            p.desc.c_type = results[turn / 7 % 7];
            problem_make(&p);
            snprintf(what, sizeof what, "%s x %s -> %s, flags %u", kiln_type_name(types[a]),
                     kiln_type_name(types[b]), kiln_type_name(p.desc.d_type), p.desc.head.flags);
            problem_check(&p, what, KILN_OK);
            problem_free(&p);
        }
}

/* The plain sum of integers is exact, in i32. */
static void test_integers_to_i32(void **state)
{
    (void)state;
    static const uint32_t integers[] = {KILN_I8, KILN_U8, KILN_I4, KILN_U4};
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            problem p = problem_of(integers[a], integers[b], KILN_I32, 5, 7, 300);
            p.alpha = 1;
            p.desc.a_quantization = (kiln_quantization){KILN_TYPE_NONE, integers[a], {1, -1}};
            problem_make(&p);
            problem_check(&p, "integers to i32", KILN_OK);
            problem_free(&p);
        }
}

/* ---- Scales and zero points ---- */

static const struct {
    const char *name;
    uint32_t a, b;
    kiln_quantization a_quantization, b_quantization;
    uint32_t flags;
} schemes[] = {
    {"fp8, 1 x 128 and 128 x 128 in f32",
     KILN_E4M3,
     KILN_E4M3,
     {KILN_F32, 0, {1, 128}},
     {KILN_F32, 0, {128, 128}},
     KILN_GEMM_TRANSPOSE_B},
    {"fp8, 1 x 128 in ue8m0",
     KILN_E4M3,
     KILN_E5M2,
     {KILN_UE8M0, 0, {1, 128}},
     {KILN_UE8M0, 0, {1, 128}},
     KILN_GEMM_TRANSPOSE_B},
    {"int8 by rows and columns",
     KILN_I8,
     KILN_I8,
     {KILN_F32, 0, {1, -1}},
     {KILN_F32, 0, {1, -1}},
     KILN_GEMM_TRANSPOSE_B},
    {"u8 with zero points and i8",
     KILN_U8,
     KILN_I8,
     {KILN_F32, KILN_U8, {1, -1}},
     {KILN_F32, KILN_I8, {-1, 1}},
     0},
    {"u8 and i8 by groups of k",
     KILN_U8,
     KILN_I8,
     {KILN_BF16, KILN_U8, {1, 48}},
     {KILN_F16, KILN_I8, {36, 1}},
     0},
    {"w4a16, groups of 32",
     KILN_BF16,
     KILN_I4,
     {0, 0, {0, 0}},
     {KILN_BF16, 0, {1, 32}},
     KILN_GEMM_TRANSPOSE_B},
    {"w4a16 with zero points", KILN_F16, KILN_U4, {0, 0, {0, 0}}, {KILN_F16, KILN_U4, {64, 3}}, 0},
    {"w4a8", KILN_I8, KILN_I4, {KILN_F32, 0, {1, -1}}, {KILN_E4M3, KILN_I4, {32, 1}}, 0},
    {"nvfp4",
     KILN_E2M1,
     KILN_E2M1,
     {KILN_E4M3, 0, {1, 16}},
     {KILN_E4M3, 0, {1, 16}},
     KILN_GEMM_TRANSPOSE_B},
    {"mxfp4 weights",
     KILN_BF16,
     KILN_E2M1,
     {0, 0, {0, 0}},
     {KILN_UE8M0, 0, {1, 32}},
     KILN_GEMM_TRANSPOSE_B},
    {"one scale for all",
     KILN_I8,
     KILN_U4,
     {KILN_F32, 0, {-1, -1}},
     {KILN_F32, 0, {-1, -1}},
     KILN_GEMM_TRANSPOSE_A},
    {"a zero point alone", KILN_E4M3, KILN_U8, {0, 0, {0, 0}}, {0, KILN_U8, {7, 5}}, 0},
    {"one scale for each element",
     KILN_I8,
     KILN_I8,
     {KILN_F32, KILN_I8, {1, 1}},
     {KILN_F32, 0, {1, 1}},
     KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B},
    {"odd blocks of u4",
     KILN_U4,
     KILN_I4,
     {KILN_F16, KILN_U4, {3, 5}},
     {KILN_UE8M0, KILN_I4, {7, 11}},
     KILN_GEMM_TRANSPOSE_A},
};
enum { SCHEMES = sizeof schemes / sizeof *schemes };

static problem scheme(int i, int64_t m, int64_t n, int64_t k)
{
    problem p = problem_of(schemes[i].a, schemes[i].b, KILN_F32, m, n, k);
    p.desc.head.flags = schemes[i].flags;
    p.desc.a_quantization = schemes[i].a_quantization;
    p.desc.b_quantization = schemes[i].b_quantization;
    p.seed = (uint64_t)i + 10;
    return p;
}

static void test_schemes(void **state)
{
    (void)state;
    for (int i = 0; i < SCHEMES; i++) {
        problem p = scheme(i, 137, 141, 300);
        problem_make(&p);
        problem_check(&p, schemes[i].name, KILN_OK);
        problem_free(&p);
    }
}

/* A batch, whose scales are its own or shared. */
static void test_scales_of_a_batch(void **state)
{
    (void)state;
    for (int i = 0; i < SCHEMES; i++)
        for (int shared = 0; shared < 2; shared++) {
            problem p = scheme(i, 5, 70, 65);
            p.count = 3;
            p.shared_scales = shared;
            problem_make(&p);
            problem_check(&p, schemes[i].name, KILN_OK);
            problem_free(&p);
        }
}

/* Scales that lie column by column, in memory of their own shape. */
static void test_strides_of_scales(void **state)
{
    (void)state;
    kiln_runtime *runtime = problem_runtime("1", "auto");
    problem p = scheme(0, 9, 140, 300);
    problem_make(&p);
    kiln_plan *plan = problem_plan(runtime, &p.desc);
    problem_run(plan, &p, KILN_OK);
    outputs o = problem_outputs(&p);
    kiln_tensor row_major = p.grids[0], turned = row_major;
    float *memory = test_malloc((size_t)(row_major.shape[0] * row_major.shape[1]) * sizeof(float));
    turned.data = memory;
    turned.strides[0] = 1;
    turned.strides[1] = turned.shape[0];
    for (int64_t i = 0; i < turned.shape[0]; i++)
        for (int64_t j = 0; j < turned.shape[1]; j++)
            memory[i + j * turned.strides[1]] =
                ((const float *)row_major.data)[i * row_major.strides[0] + j];
    p.tensors[KILN_GEMM_A].scale = &turned;
    problem_run(plan, &p, KILN_OK);
    problem_same(&p, &o, "scales by columns");
    test_free(memory);
    outputs_free(&o);
    kiln_plan_release(plan);
    problem_free(&p);
    kiln_runtime_close(runtime);
}

/* Where the integers of a run cancel, nothing is left, whatever the scales are. */
static void test_exact_runs(void **state)
{
    (void)state;
    kiln_runtime *runtime = problem_runtime("1", "auto");
    static const int32_t lengths[] = {16, 50, 256, 300, -1};
    for (int i = 0; i < 5; i++) {
        problem p = problem_of(KILN_I8, KILN_I8, KILN_F32, 3, 5, 600);
        int64_t length = lengths[i] < 0 ? p.k : lengths[i];
        p.desc.a_quantization = (kiln_quantization){KILN_F32, 0, {1, lengths[i]}};
        p.desc.b_quantization = (kiln_quantization){KILN_F32, 0, {lengths[i], 1}};
        problem_make(&p);
        int8_t *a = p.tensors[KILN_GEMM_A].data, *b = p.tensors[KILN_GEMM_B].data;
        for (int64_t k = 0; k < p.k; k++) { /* pairs within each run */
            int64_t end = (k / length + 1) * length < p.k ? (k / length + 1) * length : p.k;
            int64_t mirror = k / length * length + end - 1 - k;
            for (int64_t row = 0; row < p.m; row++)
                a[row * p.tensors[KILN_GEMM_A].strides[0] + k] = (int8_t)(1 + row * 41);
            for (int64_t j = 0; j < p.n; j++)
                b[k * p.tensors[KILN_GEMM_B].strides[0] + j] =
                    (int8_t)(k == mirror ? 0
                                         : (k < mirror ? 1 : -1) *
                                               (19 + j + (k < mirror ? k : mirror) % 100));
        }
        kiln_plan *plan = problem_plan(runtime, &p.desc);
        problem_run(plan, &p, KILN_OK);
        for (int64_t row = 0; row < p.m; row++)
            for (int64_t j = 0; j < p.n; j++)
                assert_true(((float *)p.tensors[KILN_GEMM_D]
                                 .data)[row * p.tensors[KILN_GEMM_D].strides[0] + j] == 0);
        kiln_plan_release(plan);
        problem_free(&p);
    }
    kiln_runtime_close(runtime);
}

/* NaN among the scales reaches the elements of its block and no other. */
static void test_nan_scale(void **state)
{
    (void)state;
    kiln_runtime *runtime = problem_runtime("2", "auto");
    for (int i = 0; i < SCHEMES; i++) {
        problem p = scheme(i, 20, 70, 140);
        if (p.desc.b_quantization.scale_type == KILN_TYPE_NONE)
            continue;
        problem_make(&p);
        kiln_plan *plan = problem_plan(runtime, &p.desc);
        kiln_tensor *scale = &p.grids[1];
        bool transposed = p.desc.head.flags & KILN_GEMM_TRANSPOSE_B;
        int32_t block = p.desc.b_quantization.block[transposed ? 0 : 1];
        kiln_store_f64(scale->type, scale->data, 0, (double)NAN, 0);
        problem_run(plan, &p, KILN_OK);
        const kiln_tensor *d = &p.tensors[KILN_GEMM_D];
        for (int64_t row = 0; row < p.m; row++)
            for (int64_t j = 0; j < p.n; j++)
                assert_int_equal(isnan(((float *)d->data)[row * d->strides[0] + j]) != 0,
                                 block < 0 || j < block);
        kiln_plan_release(plan);
        problem_free(&p);
    }
    kiln_runtime_close(runtime);
}

/* A row has the same bits alone. */
static void test_rows_alone(void **state)
{
    (void)state;
    kiln_runtime *runtime = problem_runtime("2", "auto");
    for (int i = 0; i < SCHEMES; i++) {
        problem p = scheme(i, 40, 90, 260);
        if ((p.desc.head.flags & KILN_GEMM_TRANSPOSE_A) || p.desc.a_quantization.block[0] > 1)
            continue; /* rows would begin within a byte, or a block */
        p.desc.head.flags |= KILN_GEMM_DYNAMIC_M;
        problem_make(&p);
        kiln_plan *plan = problem_plan(runtime, &p.desc);
        problem_run(plan, &p, KILN_OK);
        outputs o = problem_outputs(&p);
        kiln_tensor a = p.tensors[KILN_GEMM_A], grids[4], *d = &p.tensors[KILN_GEMM_D];
        memcpy(grids, p.grids, sizeof grids);
        for (int64_t row = 0; row < p.m; row++) {
            problem one = p;
            one.tensors[KILN_GEMM_A].shape[0] = one.tensors[KILN_GEMM_D].shape[0] = 1;
            one.tensors[KILN_GEMM_A].byte_offset = row * a.strides[0] * kiln_type_bits(a.type) / 8;
            one.tensors[KILN_GEMM_D].byte_offset = row * d->strides[0] * 4;
            for (int g = 0; g < 4; g += 2)
                if (grids[g].rank && p.desc.a_quantization.block[0] == 1) {
                    one.grids[g].shape[0] = 1;
                    one.grids[g].byte_offset =
                        row * grids[g].strides[0] * kiln_type_bits(grids[g].type) / 8;
                }
            if (one.tensors[KILN_GEMM_A].scale)
                one.tensors[KILN_GEMM_A].scale = &one.grids[0];
            if (one.tensors[KILN_GEMM_A].zero_point)
                one.tensors[KILN_GEMM_A].zero_point = &one.grids[2];
            problem_run(plan, &one, KILN_OK);
            assert_memory_equal((char *)d->data + one.tensors[KILN_GEMM_D].byte_offset,
                                o.bytes[KILN_GEMM_D] + one.tensors[KILN_GEMM_D].byte_offset,
                                (size_t)p.n * 4);
        }
        outputs_free(&o);
        kiln_plan_release(plan);
        problem_free(&p);
    }
    kiln_runtime_close(runtime);
}

/* ---- Blobs ---- */

static void expect_refused(kiln_plan *plan, problem *p, const char *words)
{
    problem_run(plan, p, KILN_INVALID);
    if (!strstr(kiln_last_error(), words))
        fail_msg("'%s' does not speak of '%s'", kiln_last_error(), words);
}

/* What a plan of another quantisation makes of a blob. */
static void refuse_elsewhere(kiln_runtime *runtime, const problem *p, kiln_quantization other,
                             const char *words)
{
    problem q = *p;
    q.desc.b_quantization = other;
    kiln_plan *plan = problem_plan(runtime, &q.desc);
    expect_refused(plan, &q, words);
    kiln_plan_release(plan);
}

/* Whether two headers say the same: hash and reserved words say nothing, nor do texts behind their
 * end. */
static bool same_header(const char *blob, const char *good)
{
    const size_t quantised = sizeof(kiln_pack_header), entries = sizeof(kiln_quantization) + 16;
    kiln_pack_header a, b;
    memcpy(&a, blob, sizeof a);
    memcpy(&b, good, sizeof b);
    return memcmp(blob, good, 16) == 0 && strncmp(a.backend, b.backend, 32) == 0 &&
           strncmp(a.format, b.format, 32) == 0 && a.type == b.type && a.operand == b.operand &&
           memcmp(a.shape, b.shape, sizeof a.shape) == 0 && a.bytes == b.bytes &&
           memcmp(blob + quantised, good + quantised, entries) == 0;
}

static void test_foreign_and_hostile_blobs(void **state)
{
    (void)state;
    kiln_runtime *runtime = problem_runtime("1", "auto");
    problem p = problem_of(KILN_BF16, KILN_I4, KILN_F32, 4, 65, 130);
    p.desc.b_quantization = (kiln_quantization){KILN_F16, KILN_I4, {32, 1}};
    p.desc.head.flags = KILN_GEMM_PACKED_B;
    problem_make(&p);
    kiln_plan *plan = problem_plan(runtime, &p.desc);
    int64_t bytes;
    assert_int_equal(kiln_plan_pack_size(plan, KILN_GEMM_B, &bytes), KILN_OK);
    /* At its end, so that a step too far is seen. */
    char *blob = test_malloc((size_t)bytes), *good = test_malloc((size_t)bytes);
    kiln_tensor packed = p.tensors[KILN_GEMM_B];
    packed.data = blob;
    packed.layout = KILN_LAYOUT_PACKED;
    packed.scale = packed.zero_point = NULL;
    packed.scale_block[0] = packed.scale_block[1] = 0;
    assert_int_equal(kiln_plan_pack(plan, NULL, KILN_GEMM_B, &p.tensors[KILN_GEMM_B], &packed),
                     KILN_OK);
    p.tensors[KILN_GEMM_B] = packed;
    problem_run(plan, &p, KILN_OK);
    memcpy(good, blob, (size_t)bytes);
    outputs o = problem_outputs(&p);

    refuse_elsewhere(runtime, &p, (kiln_quantization){KILN_F16, KILN_I4, {64, 1}}, "64 x 1");
    refuse_elsewhere(runtime, &p, (kiln_quantization){KILN_F16, KILN_I4, {-1, 1}}, "-1 x 1");
    refuse_elsewhere(runtime, &p, (kiln_quantization){KILN_BF16, KILN_I4, {32, 1}}, "of bf16");
    refuse_elsewhere(runtime, &p, (kiln_quantization){KILN_F16, 0, {32, 1}}, "of none");
    refuse_elsewhere(runtime, &p, (kiln_quantization){0, 0, {0, 0}}, "0 x 0");
    problem_run(plan, &p, KILN_OK);

    /* Any word of the header, of any value, is either the one that was there or refused. */
    static const uint64_t values[] = {
        0,          1, 2, 7, 0x7fffffff, 0xffffffff, INT64_MAX, UINT64_MAX, (uint64_t)INT64_MAX / 2,
        0x100000001};
    for (size_t at = 0; at < 192; at += 4)
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)
            for (size_t size = 4; size <= 8 && at + size <= 192; size += 4) {
                kiln_gemm_args args = problem_args(&p);
                memcpy(blob, good, 192);
                memcpy(blob + at, &values[i], size);
                bool same = same_header(blob, good);
                kiln_status status = kiln_plan_run(plan, NULL, &args.head);
                if (!same)
                    assert_int_equal(status, KILN_INVALID);
                else
                    assert_int_equal(status, KILN_OK);
                problem_same(&p, &o, "a changed header");
                status = kiln_plan_unpack(plan, NULL, KILN_GEMM_B, &packed, &packed);
                assert_true(status != KILN_OK);
            }
    outputs_free(&o);
    test_free(blob);
    test_free(good);
    kiln_plan_release(plan);
    problem_free(&p);
    kiln_runtime_close(runtime);
}

/* ---- What is declined ---- */

static void expect_declined(kiln_runtime *runtime, const kiln_gemm_desc *desc, const char *words)
{
    kiln_plan_options options = {.struct_size = sizeof options, .backend = "ref"};
    kiln_candidate candidate = {.support = -1};
    int64_t count = 0;
    kiln_status status =
        kiln_explain(runtime, KILN_GEMM, &desc->head, &options, &candidate, 1, &count);
    if (status != KILN_OK)
        fail_msg("%s: %s", words, kiln_last_error());
    if (candidate.support != KILN_SUPPORT_NO || !strstr(candidate.reason, words))
        fail_msg("support %d, '%s' does not speak of '%s'", candidate.support, candidate.reason,
                 words);
}

static void test_declined(void **state)
{
    (void)state;
    kiln_runtime *runtime = problem_runtime("1", "auto");
    problem p = problem_of(KILN_I8, KILN_I8, KILN_F32, 8, 8, 64);
    p.desc.a_quantization = (kiln_quantization){KILN_F32, KILN_I8, {1, 32}};
    kiln_gemm_desc desc = p.desc;
    desc.d_type = KILN_I32;
    expect_declined(runtime, &desc,
                    "d_type = i32 is not offered with a_type = i8, b_type = i8 and scales");
    desc = p.desc;
    desc.k = 1 << 20; /* sums of 32 steps are exact */
    kiln_plan_release(problem_plan(runtime, &desc));
    desc.a_quantization.block[1] = -1;
    expect_declined(runtime, &desc, "beyond k = 65793");
    for (int i = 0; i < TYPES; i++) {
        desc = p.desc;
        desc.a_type = types[i];
        desc.a_quantization.zero_type = is_integer(types[i]) ? types[i] : KILN_TYPE_NONE;
        if (kiln_type_bits(types[i]) <= 8)
            kiln_plan_release(problem_plan(runtime, &desc));
    }
    kiln_runtime_close(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_mix),
        cmocka_unit_test(test_integers_to_i32),
        cmocka_unit_test(test_schemes),
        cmocka_unit_test(test_scales_of_a_batch),
        cmocka_unit_test(test_strides_of_scales),
        cmocka_unit_test(test_exact_runs),
        cmocka_unit_test(test_nan_scale),
        cmocka_unit_test(test_rows_alone),
        cmocka_unit_test(test_foreign_and_hostile_blobs),
        cmocka_unit_test(test_declined),
    };
    return cmocka_run_group_tests_name("ref: quantised operands", tests, NULL, NULL);
}
