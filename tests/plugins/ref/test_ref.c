/* SPDX-License-Identifier: Apache-2.0 */
/* The reference plugin's promises: bits that depend on nothing but types and K, operands that are
 * not read, NaN that stays in its row, blobs that are refused, reasons for what is declined. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "conformance/gemm.h"
#include "plugins/ref/ref.h"

/* ---- A GEMM with a bias and an activation, over contiguous host memory ---- */

typedef struct problem {
    kiln_gemm_desc desc;
    int64_t m, n, k;
    double alpha, beta;
    char *a, *b, *c, *d; /* [M, K], [K, N], [M, N], [M, N] */
    float *bias;         /* [N] */
    kiln_tensor tensors[KILN_GEMM_OPERAND + 2];
} problem;

static void fill(uint32_t type, char *memory, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double value = (double)(int64_t)(seed ^ seed >> 31) * 0x1p-63;
        kiln_store_f64(type, memory, i, type == KILN_I8 ? value * 127 : value, 0);
    }
}

static int64_t size_of(uint32_t type)
{
    return kiln_type_bits(type) / 8;
}

static problem make_problem(uint32_t type, int64_t m, int64_t n, int64_t k)
{
    problem p = {.m = m, .n = n, .k = k, .alpha = 0.75, .beta = 0};
    p.desc.head.struct_size = sizeof p.desc;
    p.desc.head.flags = KILN_GEMM_DYNAMIC_M;
    p.desc.m = m;
    p.desc.n = n;
    p.desc.k = k;
    p.desc.batch = 1;
    p.desc.a_type = p.desc.b_type = p.desc.c_type = p.desc.d_type = type;
    if (type == KILN_I8)
        p.desc.c_type = p.desc.d_type = KILN_F32;
    p.desc.epilogue_count = 2;
    p.desc.epilogues[0] =
        (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS, .operand = KILN_OPERAND_ROW, .type = KILN_F32};
    p.desc.epilogues[1] = (kiln_epilogue){.kind = KILN_EPILOGUE_GELU_ERF};
    p.a = test_malloc((size_t)(m * k * size_of(type)));
    p.b = test_malloc((size_t)(k * n * size_of(type)));
    p.c = test_malloc((size_t)(m * n * 8));
    p.d = test_malloc((size_t)(m * n * 8)); /* whatever type D gets */
    p.bias = test_malloc((size_t)n * sizeof(float));
    fill(type, p.a, m * k, 1);
    fill(type, p.b, k * n, 2);
    fill(p.desc.c_type, p.c, m * n, 3);
    fill(KILN_F32, (char *)p.bias, n, 4);
    memset(p.d, 0xff, (size_t)(m * n * size_of(p.desc.d_type)));
    p.tensors[KILN_GEMM_A] = kiln_matrix(type, p.a, m, k, k);
    p.tensors[KILN_GEMM_B] = kiln_matrix(type, p.b, k, n, n);
    p.tensors[KILN_GEMM_C] = kiln_matrix(p.desc.c_type, p.c, m, n, n);
    p.tensors[KILN_GEMM_D] = kiln_matrix(p.desc.d_type, p.d, m, n, n);
    p.tensors[KILN_GEMM_OPERAND] = kiln_vector(KILN_F32, p.bias, n);
    return p;
}

static void free_problem(problem *p)
{
    test_free(p->a);
    test_free(p->b);
    test_free(p->c);
    test_free(p->d);
    test_free(p->bias);
}

static size_t d_bytes(const problem *p)
{
    return (size_t)(p->m * p->n * size_of(p->desc.d_type));
}

static kiln_gemm_args args_of(const problem *p)
{
    return (kiln_gemm_args){
        {sizeof(kiln_gemm_args), KILN_GEMM_OPERAND + 2, p->tensors}, p->alpha, p->beta};
}

/* ---- Runtimes and plans ---- */

static kiln_runtime *open_runtime(const char *threads, const char *blas)
{
    kiln_setting settings[] = {{"threads.count", threads}, {"options.ref.blas", blas}};
    kiln_runtime_options options = {.struct_size = sizeof options,
                                    .profile_text = "schema: 1\nname: test\nplugins: [ref]\n",
                                    .settings = settings,
                                    .setting_count = 2};
    kiln_runtime *runtime = NULL;
    if (kiln_runtime_open(&options, &runtime) != KILN_OK)
        fail_msg("%s", kiln_last_error());
    return runtime;
}

static kiln_plan *make_plan(kiln_runtime *runtime, const kiln_gemm_desc *desc)
{
    kiln_plan_options options = {.struct_size = sizeof options, .backend = "ref"};
    kiln_plan *plan = NULL;
    if (kiln_plan_create(runtime, KILN_GEMM, &desc->head, &options, &plan) != KILN_OK)
        fail_msg("%s", kiln_last_error());
    return plan;
}

static void run(kiln_plan *plan, const problem *p)
{
    kiln_gemm_args args = args_of(p);
    if (kiln_plan_run(plan, NULL, &args.head) != KILN_OK)
        fail_msg("%s", kiln_last_error());
}

static const uint32_t types[] = {KILN_F64, KILN_F32, KILN_F16, KILN_BF16, KILN_I8};

/* ---- Reproducibility ---- */

static void test_threads_and_parts(void **state)
{
    (void)state;
    kiln_runtime *one = open_runtime("1", "auto"), *two = open_runtime("2", "auto");
    for (int t = 0; t < 5; t++) {
        problem p = make_problem(types[t], 301, 270, 400);
        p.beta = 0.5;
        char *expected = test_malloc(d_bytes(&p));
        kiln_plan *plan = make_plan(one, &p.desc), *threaded = make_plan(two, &p.desc);
        run(plan, &p);
        memcpy(expected, p.d, d_bytes(&p));
        memset(p.d, 0xff, d_bytes(&p));
        run(threaded, &p);
        assert_memory_equal(p.d, expected, d_bytes(&p));
        kiln_gemm_args args = args_of(&p);
        for (int64_t parts = 1; parts <= 5; parts++) {
            memset(p.d, 0xff, d_bytes(&p));
            for (int64_t part = parts; part-- > 0;)
                assert_int_equal(kiln_plan_run_part(threaded, part, parts, &args.head), KILN_OK);
            assert_memory_equal(p.d, expected, d_bytes(&p));
        }
        kiln_plan_release(plan);
        kiln_plan_release(threaded);
        test_free(expected);
        free_problem(&p);
    }
    kiln_runtime_close(one);
    kiln_runtime_close(two);
}

/* One plan and one packed weight serve every M up to 4096; a row has the same bits alone, and in
 * any batch of rows. */
static void check_any_m(uint32_t type, const char *blas, int64_t largest)
{
    int64_t size = size_of(type);
    enum { N = 20, K = 150 };
    kiln_runtime *runtime = open_runtime("2", blas);
    problem p = make_problem(type, largest, N, K);
    kiln_plan *plain = make_plan(runtime, &p.desc);
    run(plain, &p);
    char *expected = test_malloc(d_bytes(&p));
    memcpy(expected, p.d, d_bytes(&p));

    p.desc.head.flags |= KILN_GEMM_PACKED_B;
    kiln_plan *plan = make_plan(runtime, &p.desc);
    kiln_tensor packed = p.tensors[KILN_GEMM_B];
    int64_t bytes;
    assert_int_equal(kiln_plan_pack_size(plan, KILN_GEMM_B, &bytes), KILN_OK);
    assert_int_equal(
        kiln_buffer_alloc(kiln_device_at(runtime, 0), KILN_SPACE_DEVICE, bytes, &packed.buffer),
        KILN_OK);
    packed.data = NULL;
    packed.layout = KILN_LAYOUT_PACKED;
    assert_int_equal(kiln_plan_pack(plan, NULL, KILN_GEMM_B, &p.tensors[KILN_GEMM_B], &packed),
                     KILN_OK);
    p.tensors[KILN_GEMM_B] = packed;

    for (int64_t m = 1; m <= largest; m += m < 130 ? 1 : m < largest - 90 ? 61 : 1) {
        memset(p.d, 0xff, d_bytes(&p));
        p.tensors[KILN_GEMM_A].shape[0] = p.tensors[KILN_GEMM_D].shape[0] = m;
        run(plan, &p);
        assert_memory_equal(p.d, expected, (size_t)(m * N * size));
    }
    p.tensors[KILN_GEMM_A].shape[0] = p.tensors[KILN_GEMM_D].shape[0] = 1;
    for (int64_t row = 0; row < 130; row++) {
        p.tensors[KILN_GEMM_A].byte_offset = row * K * size;
        run(plan, &p);
        assert_memory_equal(p.d, expected + row * N * size, (size_t)(N * size));
    }
    kiln_buffer_release(packed.buffer);
    kiln_plan_release(plain);
    kiln_plan_release(plan);
    test_free(expected);
    free_problem(&p);
    kiln_runtime_close(runtime);
}

static void test_any_m(void **state)
{
    (void)state;
    check_any_m(KILN_F64, "auto", 4096);
    check_any_m(KILN_F64, "off", 400);
    check_any_m(KILN_F16, "auto", 4096);
}

/* The entries of a batch have the bits that they have alone. */
static void test_batch(void **state)
{
    (void)state;
    enum { ENTRIES = 3 };
    kiln_runtime *runtime = open_runtime("2", "auto");
    for (int t = 0; t < 5; t++) {
        problem p = make_problem(types[t], 60 * ENTRIES, 45, 130);
        int64_t rows = p.m / ENTRIES;
        char *expected = test_malloc(d_bytes(&p));
        kiln_plan *plan = make_plan(runtime, &p.desc);
        run(plan, &p); /* the entries stacked */
        memcpy(expected, p.d, d_bytes(&p));
        memset(p.d, 0xff, d_bytes(&p));
        p.desc.batch = ENTRIES;
        int64_t a_shape[] = {ENTRIES, rows, p.k}, d_shape[] = {ENTRIES, rows, p.n},
                b_shape[] = {ENTRIES, p.k, p.n};
        p.tensors[KILN_GEMM_A] = kiln_tensor_host(types[t], p.a, 3, a_shape);
        p.tensors[KILN_GEMM_B] = kiln_tensor_host(types[t], p.b, 3, b_shape);
        p.tensors[KILN_GEMM_B].strides[0] = 0;
        p.tensors[KILN_GEMM_D] = kiln_tensor_host(p.desc.d_type, p.d, 3, d_shape);
        kiln_plan *batched = make_plan(runtime, &p.desc);
        run(batched, &p);
        assert_memory_equal(p.d, expected, d_bytes(&p));
        kiln_plan_release(plan);
        kiln_plan_release(batched);
        test_free(expected);
        free_problem(&p);
    }
    kiln_runtime_close(runtime);
}

/* ---- Rounding to D ---- */

/* D = 0.5 b, halfway between two values of D's type. */
static void test_ties(void **state)
{
    (void)state;
    static const struct {
        uint32_t type, d_type;
        double b, d;
    } ties[] = {{KILN_I8, KILN_I32, 3, 2},        {KILN_I8, KILN_I32, 5, 2},
                {KILN_I8, KILN_I32, -3, -2},      {KILN_I8, KILN_I8, 5, 2},
                {KILN_F32, KILN_I8, 7, 4},        {KILN_F32, KILN_F16, 4098, 2048},
                {KILN_F32, KILN_F16, 4102, 2052}, {KILN_F32, KILN_BF16, 514, 256},
                {KILN_F32, KILN_BF16, 518, 260}};
    kiln_runtime *runtime = open_runtime("1", "auto");
    for (size_t i = 0; i < sizeof ties / sizeof *ties; i++) {
        problem p = make_problem(ties[i].type, 1, 1, 1);
        memset(p.desc.epilogues, 0, sizeof p.desc.epilogues);
        p.desc.epilogue_count = 0;
        p.desc.d_type = p.tensors[KILN_GEMM_D].type = ties[i].d_type;
        p.desc.c_type = KILN_TYPE_NONE;
        p.alpha = 0.5;
        kiln_store_f64(ties[i].type, p.a, 0, 1, 0);
        kiln_store_f64(ties[i].type, p.b, 0, ties[i].b, 0);
        kiln_plan *plan = make_plan(runtime, &p.desc);
        run(plan, &p);
        if (kiln_load_f64(ties[i].d_type, p.d, 0) != ties[i].d)
            fail_msg("half of %g in %s became %g", ties[i].b, kiln_type_name(ties[i].d_type),
                     kiln_load_f64(ties[i].d_type, p.d, 0));
        kiln_plan_release(plan);
        free_problem(&p);
    }
    kiln_runtime_close(runtime);
}

/* ---- Operands that are not read ---- */

static bool has_nan(const problem *p)
{
    for (int64_t i = 0; i < p->m * p->n; i++)
        if (isnan(kiln_load_f64(p->desc.d_type, p->d, i)))
            return true;
    return false;
}

static void test_unread_operands(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("2", "auto");
    for (int t = 0; t < 4; t++) {
        problem p = make_problem(types[t], 40, 50, 60);
        kiln_plan *plan = make_plan(runtime, &p.desc);
        memset(p.c, 0xff, d_bytes(&p));
        run(plan, &p);
        assert_false(has_nan(&p));
        p.beta = 1;
        run(plan, &p);
        assert_true(has_nan(&p));
        fill(types[t], p.c, p.m * p.n, 3);
        memset(p.a, 0xff, (size_t)(p.m * p.k * size_of(types[t])));
        memset(p.b, 0xff, (size_t)(p.k * p.n * size_of(types[t])));
        run(plan, &p);
        assert_true(has_nan(&p));
        p.alpha = 0;
        run(plan, &p);
        assert_false(has_nan(&p));
        kiln_plan_release(plan);
        free_problem(&p);
    }
    kiln_runtime_close(runtime);
}

/* Nothing of A and B needs to exist when K is 0. */
static void test_no_depth(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("1", "auto");
    problem p = make_problem(KILN_F32, 3, 4, 5);
    p.desc.head.flags |= KILN_GEMM_DYNAMIC_K;
    p.desc.epilogue_count = 0;
    memset(p.desc.epilogues, 0, sizeof p.desc.epilogues);
    p.beta = 2;
    p.tensors[KILN_GEMM_A].shape[1] = p.tensors[KILN_GEMM_B].shape[0] = 0;
    p.tensors[KILN_GEMM_A].data = p.tensors[KILN_GEMM_B].data = NULL;
    kiln_plan *plan = make_plan(runtime, &p.desc);
    run(plan, &p);
    for (int64_t i = 0; i < p.m * p.n; i++)
        assert_true(kiln_load_f64(KILN_F32, p.d, i) == 2 * kiln_load_f64(KILN_F32, p.c, i));
    kiln_plan_release(plan);
    free_problem(&p);
    kiln_runtime_close(runtime);
}

static void check_stays(kiln_plan *plan, problem *p, const char *expected, int64_t row,
                        int64_t column)
{
    int64_t size = size_of(p->desc.d_type);
    run(plan, p);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            int64_t at = i * p->n + j;
            if (i == row || j == column)
                assert_false(isfinite(kiln_load_f64(p->desc.d_type, p->d, at)));
            else
                assert_memory_equal(p->d + at * size, expected + at * size, (size_t)size);
        }
}

static void test_nan_stays_in_its_row(void **state)
{
    (void)state;
    static const double specials[] = {(double)NAN, (double)INFINITY};
    kiln_runtime *runtime = open_runtime("2", "auto");
    for (int t = 0; t < 4; t++)
        for (int s = 0; s < 2; s++) {
            problem p = make_problem(types[t], 45, 70, 140);
            memset(p.desc.epilogues, 0, sizeof p.desc.epilogues);
            p.desc.epilogue_count = 0;
            kiln_plan *plan = make_plan(runtime, &p.desc);
            char *expected = test_malloc(d_bytes(&p));
            run(plan, &p);
            memcpy(expected, p.d, d_bytes(&p));
            kiln_store_f64(types[t], p.a, 17 * p.k + 139, specials[s], 0);
            check_stays(plan, &p, expected, 17, -1);
            fill(types[t], p.a, p.m * p.k, 1);
            kiln_store_f64(types[t], p.b, 3 * p.n + 69, specials[s], 0);
            check_stays(plan, &p, expected, -1, 69);
            kiln_plan_release(plan);
            test_free(expected);
            free_problem(&p);
        }
    kiln_runtime_close(runtime);
}

static void test_d_is_c(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("2", "auto");
    for (int t = 0; t < 5; t++) {
        problem p = make_problem(types[t], 150, 140, 60);
        p.beta = -0.5;
        kiln_plan *plan = make_plan(runtime, &p.desc);
        run(plan, &p);
        char *expected = test_malloc(d_bytes(&p));
        memcpy(expected, p.d, d_bytes(&p));
        p.tensors[KILN_GEMM_D] = p.tensors[KILN_GEMM_C];
        run(plan, &p);
        assert_memory_equal(p.c, expected, d_bytes(&p));
        kiln_plan_release(plan);
        test_free(expected);
        free_problem(&p);
    }
    kiln_runtime_close(runtime);
}

/* ---- Packed operands ---- */

/* Runs with the blob as it is, which must be refused with a sentence that holds `words`, and must
 * not touch D. */
static void expect_refused(kiln_plan *plan, problem *p, const char *words)
{
    char *before = test_malloc(d_bytes(p));
    kiln_gemm_args args = args_of(p);
    memcpy(before, p->d, d_bytes(p));
    assert_int_equal(kiln_plan_run(plan, NULL, &args.head), KILN_INVALID);
    if (!strstr(kiln_last_error(), words))
        fail_msg("'%s' does not speak of '%s'", kiln_last_error(), words);
    assert_memory_equal(p->d, before, d_bytes(p));
    test_free(before);
}

static void test_corrupt_blobs(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("1", "auto");
    problem p = make_problem(KILN_BF16, 5, 33, 33);
    p.desc.head.flags |= KILN_GEMM_PACKED_B;
    kiln_plan *plan = make_plan(runtime, &p.desc);
    int64_t bytes;
    assert_int_equal(kiln_plan_pack_size(plan, KILN_GEMM_B, &bytes), KILN_OK);
    char *blob = test_malloc((size_t)bytes);
    kiln_tensor packed = p.tensors[KILN_GEMM_B];
    packed.data = blob;
    packed.layout = KILN_LAYOUT_PACKED;
    assert_int_equal(kiln_plan_pack(plan, NULL, KILN_GEMM_B, &p.tensors[KILN_GEMM_B], &packed),
                     KILN_OK);
    p.tensors[KILN_GEMM_B] = packed;
    run(plan, &p);

    kiln_pack_header good, bad;
    memcpy(&good, blob, sizeof good);
    assert_int_equal(good.bytes, bytes);
    assert_memory_equal(good.magic, "KILNPACK", 8);
#define CORRUPT(change, words)      \
    bad = good;                     \
    change;                         \
    memcpy(blob, &bad, sizeof bad); \
    expect_refused(plan, &p, words)
    CORRUPT(bad.magic[0] = 'k', "KILNPACK");
    CORRUPT(bad.version = 2, "version 2");
    CORRUPT(bad.header_bytes = 64, "64 bytes");
    CORRUPT(strcpy(bad.backend, "cpu"), "'cpu'");
    CORRUPT(memset(bad.backend, 'x', sizeof bad.backend), "xxx");
    CORRUPT(strcpy(bad.format, "ref-b64-t-2"), "ref-b64-t-2");
    CORRUPT(bad.type = KILN_F16, "f16");
    CORRUPT(bad.operand = KILN_GEMM_A, "slot 0");
    CORRUPT(bad.shape[0] = 2, "2 x 33 x 33");
    CORRUPT(bad.shape[2] = -1, "33 x -1");
    CORRUPT(bad.bytes = bytes - 1, "bytes");
    CORRUPT(bad.bytes = INT64_MAX, "bytes");
#undef CORRUPT
    memcpy(blob, &good, sizeof good);
    run(plan, &p);

    p.tensors[KILN_GEMM_B].shape[0] = 32;
    expect_refused(plan, &p, "[33, 33]");
    p.tensors[KILN_GEMM_B].rank = 0;
    expect_refused(plan, &p, "rank 0");
    p.tensors[KILN_GEMM_B] = packed;
    run(plan, &p);

    /* A buffer that ends before the blob does. */
    kiln_buffer *part;
    assert_int_equal(kiln_buffer_wrap(runtime, blob, bytes - 1, NULL, NULL, &part), KILN_OK);
    p.tensors[KILN_GEMM_B].buffer = part;
    p.tensors[KILN_GEMM_B].data = NULL;
    expect_refused(plan, &p, "room");
    kiln_buffer_release(part);
    test_free(blob);
    kiln_plan_release(plan);
    free_problem(&p);
    kiln_runtime_close(runtime);
}

/* ---- What is declined ---- */

static void expect_declined(kiln_runtime *runtime, const kiln_gemm_desc *desc, const char *words)
{
    kiln_plan_options options = {.struct_size = sizeof options, .backend = "ref"};
    kiln_candidate candidate;
    int64_t count = 0;
    if (kiln_explain(runtime, KILN_GEMM, &desc->head, &options, &candidate, 1, &count) != KILN_OK)
        fail_msg("%s: %s", words, kiln_last_error());
    assert_int_equal(count, 1);
    if (candidate.support != KILN_SUPPORT_NO || !strstr(candidate.reason, words))
        fail_msg("support %d, '%s' does not speak of '%s'", candidate.support, candidate.reason,
                 words);
    kiln_plan *plan;
    assert_int_equal(kiln_plan_create(runtime, KILN_GEMM, &desc->head, &options, &plan),
                     KILN_UNSUPPORTED);
    assert_non_null(strstr(kiln_last_error(), words));
}

static void test_declined(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("1", "auto");
    problem p = make_problem(KILN_F16, 4, 4, 4);
    kiln_plan_release(make_plan(runtime, &p.desc));
    kiln_gemm_desc desc;
#define DECLINED(change, words) \
    desc = p.desc;              \
    change;                     \
    expect_declined(runtime, &desc, words)
    DECLINED(desc.a_type = KILN_I16, "a_type = i16");
    DECLINED(desc.b_type = KILN_F64, "b_type = f64 with a_type = f16");
    DECLINED(desc.c_type = KILN_F64, "c_type = f64");
    DECLINED(desc.d_type = KILN_I32, "d_type = i32");
    DECLINED(desc.d_type = KILN_I16, "d_type = i16");
    DECLINED(desc.accumulator = KILN_F16, "accumulator = f16");
    DECLINED((desc.a_type = desc.b_type = KILN_I8, desc.k = 131072), "k = 131072");
    DECLINED(desc.epilogues[0].type = KILN_F64, "epilogues[0].type = f64");
#undef DECLINED
    free_problem(&p);
    kiln_runtime_close(runtime);
}

/* ---- The block ---- */

static void test_block(void **state)
{
    (void)state;
    print_message("# OpenBLAS %s the check at start\n", ref_block_check() ? "passes" : "fails");
    kiln_runtime *plain = open_runtime("1", "off");
    problem p = make_problem(KILN_F32, 4, 4, 4);
    kiln_plan *plan = make_plan(plain, &p.desc);
    kiln_plan_info info = {.struct_size = sizeof info};
    assert_int_equal(kiln_plan_get_info(plan, &info), KILN_OK);
    assert_string_equal(info.kernel, "plain-c-block");
    assert_int_equal(info.flags, KILN_ANSWER_REPRODUCIBLE);
    conformance_gemm_summary summary = {0};
    assert_int_equal(conformance_gemm_sweep(plain, "ref", 2, 0, 40, &summary), KILN_OK);
    if (summary.failed)
        fail_msg("%s", summary.first_failure);
    assert_int_equal(summary.passed, 40);
    kiln_plan_release(plan);
    free_problem(&p);
    kiln_runtime_close(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_and_parts),
        cmocka_unit_test(test_any_m),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_unread_operands),
        cmocka_unit_test(test_no_depth),
        cmocka_unit_test(test_nan_stays_in_its_row),
        cmocka_unit_test(test_d_is_c),
        cmocka_unit_test(test_corrupt_blobs),
        cmocka_unit_test(test_declined),
        cmocka_unit_test(test_block),
    };
    return cmocka_run_group_tests_name("ref", tests, NULL, NULL);
}
