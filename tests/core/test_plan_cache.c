/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of plans: who shares one, that it is bounded and that a plan in use outlives its
 * eviction, that several threads make a plan once. */
#include "tests/core/fake_backend.h"
#include "tests/core/fixture.h"

#include <stdio.h>
#include <stdlib.h>

enum { ALPHA, BETA, GAMMA };

static kiln_plan *create(kiln_runtime *runtime, const kiln_op_head *descriptor,
                         const kiln_plan_options *options)
{
    kiln_plan *plan = NULL;
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, descriptor, options, &plan));
    return plan;
}

static kiln_gemm_desc gemm_of(int64_t m)
{
    return (kiln_gemm_desc){.head = {.struct_size = sizeof(kiln_gemm_desc)},
                            .m = m,
                            .n = 2,
                            .k = 2,
                            .a_type = KILN_F32,
                            .b_type = KILN_F32,
                            .d_type = KILN_F32};
}

/* ---- Who shares a plan ---- */

static void test_equal_requests_share(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: ['*']");
    kiln_gemm_desc desc = gemm_of(3), again = gemm_of(3);
    kiln_plan *plan = create(runtime, &desc.head, NULL);
    assert_ptr_equal(create(runtime, &again.head, NULL), plan);
    kiln_plan_options zeroed = {.struct_size = sizeof zeroed}, host = zeroed;
    host.device = kiln_device_at(runtime, 0);
    assert_ptr_equal(create(runtime, &desc.head, &zeroed), plan);
    assert_ptr_equal(create(runtime, &desc.head, &host), plan);
    kiln_gemm_desc shorter = gemm_of(3); /* what is missing counts as zero */
    shorter.head.struct_size = offsetof(kiln_gemm_desc, epilogues);
    assert_ptr_equal(create(runtime, &shorter.head, NULL), plan);
    kiln_plan_options named = {.struct_size = sizeof named, .backend = "alpha"};
    char same_name[] = "alpha";
    kiln_plan *by_name = create(runtime, &desc.head, &named);
    named.backend = same_name;
    assert_ptr_equal(create(runtime, &desc.head, &named), by_name);
    assert_int_equal(fake_backends[ALPHA].plans, 2);
    for (int i = 0; i < 5; i++)
        kiln_plan_release(plan);
    kiln_plan_release(by_name);
    kiln_plan_release(by_name);
    kiln_runtime_close(runtime);
}

static void test_different_requests_do_not(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: ['*']"), *other = fixture_open("plugins: ['*']");
    kiln_parameter parameters[] = {{"block", 1}, {"block", 2}};
    kiln_gemm_desc desc = gemm_of(3), dynamic = gemm_of(3), larger = gemm_of(4);
    dynamic.head.flags = KILN_GEMM_DYNAMIC_M;
    kiln_plan_options options[] = {
        {.struct_size = sizeof options[0], .backend = "alpha"},
        {.struct_size = sizeof options[0], .backend = "beta"},
        {.struct_size = sizeof options[0], .staging = KILN_STAGING_ALLOW},
        {.struct_size = sizeof options[0], .flags = KILN_PLAN_REPRODUCIBLE},
        {.struct_size = sizeof options[0], .parameters = &parameters[0], .parameter_count = 1},
        {.struct_size = sizeof options[0], .parameters = &parameters[1], .parameter_count = 1},
        {.struct_size = sizeof options[0], .parameters = parameters, .parameter_count = 2},
        {.struct_size = sizeof options[0], .payload = "text", .payload_size = 4},
        {.struct_size = sizeof options[0], .payload = "tent", .payload_size = 4},
    };
    kiln_plan *plans[16];
    int64_t count = 0;
    plans[count++] = create(runtime, &desc.head, NULL);
    plans[count++] = create(runtime, &dynamic.head, NULL);
    plans[count++] = create(runtime, &larger.head, NULL);
    plans[count++] = create(other, &desc.head, NULL);
    for (int64_t i = 0; i < COUNT(options); i++)
        plans[count++] = create(runtime, &desc.head, &options[i]);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < i; k++)
            assert_ptr_not_equal(plans[i], plans[k]);
    while (count > 0)
        kiln_plan_release(plans[--count]);
    kiln_runtime_close(runtime);
    kiln_runtime_close(other);
}

/* Two operators whose descriptors have the same bytes. */
static void test_operators_are_told_apart(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: ['*']");
    kiln_gemm_desc desc = gemm_of(3);
    kiln_plan *gemm = create(runtime, &desc.head, NULL), *axpy;
    assert_ok(kiln_plan_create(runtime, ACME_AXPY, &desc.head, NULL, &axpy));
    assert_ptr_not_equal(gemm, axpy);
    kiln_plan_release(gemm);
    kiln_plan_release(axpy);
    kiln_runtime_close(runtime);
}

static void test_plans_of_a_parent_are_not_cached(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: ['*']");
    kiln_gemm_desc desc = gemm_of(3);
    kiln_plan_options options = {.struct_size = sizeof options, .parent = &options};
    kiln_plan *first = create(runtime, &desc.head, &options),
              *second = create(runtime, &desc.head, &options);
    assert_ptr_not_equal(first, second);
    kiln_plan_release(first);
    assert_int_equal(fake_backends[ALPHA].frees, 1); /* at once: nobody else holds it */
    kiln_plan_release(second);
    kiln_runtime_close(runtime);
}

static void test_failures_are_not_cached(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    kiln_gemm_desc desc = gemm_of(3);
    kiln_plan *plan;
    fake_backends[ALPHA].plan_status = KILN_NO_MEMORY;
    assert_fails(kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan), KILN_NO_MEMORY,
                 "prepare");
    fake_backends[ALPHA].plan_status = KILN_OK;
    kiln_plan_release(create(runtime, &desc.head, NULL));
    kiln_runtime_close(runtime);
}

/* ---- Bounds ---- */

static void test_it_is_bounded(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]\nplans: {cache_entries: 8}");
    for (int64_t m = 1; m <= 200; m++) {
        kiln_gemm_desc desc = gemm_of(m);
        kiln_plan_release(create(runtime, &desc.head, NULL));
        assert_true(fake_backends[ALPHA].made - fake_backends[ALPHA].frees <= 8);
    }
    int64_t made = fake_backends[ALPHA].made;
    kiln_gemm_desc newest = gemm_of(200);
    kiln_plan_release(create(runtime, &newest.head, NULL));
    assert_int_equal(fake_backends[ALPHA].made, made);
    kiln_runtime_close(runtime);
}

/* Plans that somebody holds are evicted from the cache like others, but live on. */
static void test_held_plans_outlive_eviction(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]\nplans: {cache_entries: 4}");
    kiln_plan *held[40];
    for (int64_t i = 0; i < COUNT(held); i++) {
        kiln_gemm_desc desc = gemm_of(i + 1);
        held[i] = create(runtime, &desc.head, NULL);
    }
    float a[80] = {0}, b[4] = {1, 0, 0, 1}, d[80];
    for (int64_t i = 0; i < 80; i++)
        a[i] = (float)i;
    for (int64_t i = 0; i < COUNT(held); i++) {
        kiln_tensor tensors[4] = {kiln_matrix(KILN_F32, a, i + 1, 2, 2),
                                  kiln_matrix(KILN_F32, b, 2, 2, 2)};
        tensors[KILN_GEMM_D] = kiln_matrix(KILN_F32, d, i + 1, 2, 2);
        kiln_gemm_args args = {{sizeof args, 4, tensors}, 1, 0};
        assert_ok(kiln_plan_run(held[i], NULL, &args.head));
        assert_memory_equal(a, d, (size_t)(i + 1) * 2 * sizeof *a);
        kiln_plan_release(held[i]);
    }
    assert_true(fake_backends[ALPHA].made - fake_backends[ALPHA].frees <= 4);
    kiln_runtime_close(runtime);
}

/* ---- Threads ---- */

typedef struct crowd {
    kiln_runtime *runtime;
    _Atomic(kiln_plan *) plan;
    _Atomic int64_t failures;
    int64_t keys;
} crowd;

static void create_the_same(void *argument, int64_t index)
{
    (void)index;
    crowd *shared = argument;
    kiln_gemm_desc desc = gemm_of(3);
    kiln_plan *plan = NULL, *none = NULL;
    if (kiln_plan_create(shared->runtime, KILN_GEMM, &desc.head, NULL, &plan) != KILN_OK ||
        (!atomic_compare_exchange_strong(&shared->plan, &none, plan) && none != plan))
        atomic_fetch_add(&shared->failures, 1);
    kiln_plan_release(plan);
}

static void test_one_build_for_many_threads(void **state)
{
    (void)state;
    fake_backends[ALPHA].plan_us = 20000;
    crowd shared = {.runtime = fixture_open("plugins: [alpha]")};
    fixture_threads(8, create_the_same, &shared);
    assert_int_equal(shared.failures, 0);
    assert_int_equal(fake_backends[ALPHA].plans, 1);
    kiln_runtime_close(shared.runtime);
}

static void create_or_fail(void *argument, int64_t index)
{
    (void)index;
    crowd *shared = argument;
    kiln_gemm_desc desc = gemm_of(3);
    kiln_plan *plan = NULL;
    kiln_status status = kiln_plan_create(shared->runtime, KILN_GEMM, &desc.head, NULL, &plan);
    if (status != KILN_INVALID || !strstr(kiln_last_error(), "alpha cannot prepare"))
        atomic_fetch_add(&shared->failures, 1);
}

/* Each thread learns of the failure, with its sentence. */
static void test_a_failing_build_with_many_threads(void **state)
{
    (void)state;
    fake_backends[ALPHA].plan_us = 1000;
    fake_backends[ALPHA].plan_status = KILN_INVALID;
    crowd shared = {.runtime = fixture_open("plugins: [alpha]")};
    fixture_threads(8, create_or_fail, &shared);
    assert_int_equal(shared.failures, 0);
    kiln_runtime_close(shared.runtime);
}

/* Direct calls with more keys than entries: the sum of each result tells whether it came from the
 * right plan. */
static void call_with_many_keys(void *argument, int64_t index)
{
    crowd *shared = argument;
    float a[64], b[4] = {1, 0, 0, 1}, d[64];
    for (int64_t i = 0; i < 64; i++)
        a[i] = (float)(index * 100 + i);
    for (int64_t i = 0; i < 400; i++) {
        int64_t m = 1 + (i * 7 + index) % shared->keys;
        kiln_gemm_desc desc = gemm_of(m);
        kiln_tensor tensors[4] = {kiln_matrix(KILN_F32, a, m, 2, 2),
                                  kiln_matrix(KILN_F32, b, 2, 2, 2)};
        tensors[KILN_GEMM_D] = kiln_matrix(KILN_F32, d, m, 2, 2);
        kiln_gemm_args args = {{sizeof args, 4, tensors}, 1, 0};
        memset(d, 0, sizeof d);
        if (kiln_call(shared->runtime, KILN_GEMM, &desc.head, NULL, &args.head) != KILN_OK ||
            memcmp(a, d, (size_t)m * 2 * sizeof *a) != 0)
            atomic_fetch_add(&shared->failures, 1);
    }
}

static void test_calls_from_many_threads(void **state)
{
    (void)state;
    static const int64_t keys[] = {3, 12, 30};
    for (int64_t i = 0; i < COUNT(keys); i++) {
        crowd shared = {.runtime = fixture_open("plugins: [alpha]\nplans: {cache_entries: 4}"),
                        .keys = keys[i]};
        fixture_threads(8, call_with_many_keys, &shared);
        assert_int_equal(shared.failures, 0);
        kiln_runtime_close(shared.runtime);
    }
}

/* ---- Fork ---- */

static int call_in_child(void *argument)
{
    crowd *shared = argument;
    call_with_many_keys(shared, 0);
    create_the_same(shared, 0);
    return shared->failures == 0 ? 0 : 1;
}

static void test_child_uses_its_copy(void **state)
{
    (void)state;
    fixture_needs_fork();
    crowd shared = {.runtime = fixture_open("plugins: [alpha]\nplans: {cache_entries: 4}"),
                    .keys = 5};
    call_with_many_keys(&shared, 0);
    int result = fixture_in_child(call_in_child, &shared);
    assert_int_equal(result, 0);
    kiln_runtime_close(shared.runtime);
}

/* ---- kiln_gemm ---- */

static void test_direct_calls_share_one_plan(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    _Alignas(64) float a[64] = {1, 2, 3, 4}, b[4] = {2, 0, 0, 2}, c[64] = {1, 1, 1, 1}, d[64];
    kiln_tensor ta = kiln_matrix(KILN_F32, a, 2, 2, 2), tb = kiln_matrix(KILN_F32, b, 2, 2, 2);
    kiln_tensor tc = kiln_matrix(KILN_F32, c, 2, 2, 2), td = kiln_matrix(KILN_F32, d, 2, 2, 2);
    assert_ok(kiln_gemm(runtime, NULL, 0, 1, &ta, &tb, 0, NULL, &td));
    assert_true(d[0] == 2 && d[1] == 4 && d[2] == 6 && d[3] == 8);
    assert_ok(kiln_gemm(runtime, NULL, KILN_GEMM_TRANSPOSE_A, 1, &ta, &tb, 10, &tc, &td));
    assert_true(d[0] == 12 && d[1] == 16 && d[2] == 14 && d[3] == 18);
    int64_t plans = fake_backends[ALPHA].plans;
    assert_int_equal(plans, 2);
    /* M up to the next power of two is the same plan, and so is a held one of the same description.
     */
    ta.shape[0] = td.shape[0] = 17;
    assert_ok(kiln_gemm(runtime, NULL, 0, 1, &ta, &tb, 0, NULL, &td));
    ta.shape[0] = td.shape[0] = 30;
    assert_ok(kiln_gemm(runtime, NULL, 0, 1, &ta, &tb, 0, NULL, &td));
    assert_int_equal(fake_backends[ALPHA].plans, plans + 1);
    kiln_gemm_desc desc;
    kiln_gemm_describe(&desc, 0, &ta, &tb, NULL, &td);
    kiln_plan_release(create(runtime, &desc.head, NULL));
    assert_int_equal(fake_backends[ALPHA].plans, plans + 1);
    kiln_runtime_close(runtime);
}

/* What describes tensors reads no further than they go. */
static void test_direct_calls_with_wrong_ranks(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {0, 1, 4, 9, 0x7fffffffu, 0xffffffffu};
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    float memory[3][4] = {{0}};
    for (int64_t i = 0; i < COUNT(ranks); i++)
        for (int wrong = 0; wrong < 3; wrong++) {
            kiln_tensor t[3];
            for (int k = 0; k < 3; k++)
                t[k] = kiln_matrix(KILN_F32, memory[k], 2, 2, 2);
            t[wrong].rank = ranks[i];
            assert_int_equal(kiln_gemm(runtime, NULL, 0, 1, &t[0], &t[1], 0, NULL, &t[2]),
                             KILN_INVALID);
        }
    kiln_runtime_close(runtime);
}

/* Host memory that a buffer wraps may lie anywhere; a direct call promises no more than is true. */
static void test_direct_calls_on_wrapped_memory(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    _Alignas(64) float memory[3][20] = {{0, 1, 2, 3, 4}, {0, 1, 0, 0, 1}};
    kiln_tensor tensors[3];
    for (int i = 0; i < 3; i++) {
        tensors[i] = kiln_matrix(KILN_F32, NULL, 2, 2, 2);
        assert_ok(kiln_buffer_wrap(runtime, &memory[i][1], 4 * sizeof(float), NULL, NULL,
                                   &tensors[i].buffer));
    }
    assert_ok(kiln_gemm(runtime, NULL, 0, 1, &tensors[0], &tensors[1], 0, NULL, &tensors[2]));
    assert_memory_equal(&memory[2][1], &memory[0][1], 4 * sizeof(float));
    for (int i = 0; i < 3; i++)
        kiln_buffer_release(tensors[i].buffer);
    kiln_runtime_close(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_BACKEND_TEST(test_equal_requests_share),
        FAKE_BACKEND_TEST(test_different_requests_do_not),
        FAKE_BACKEND_TEST(test_operators_are_told_apart),
        FAKE_BACKEND_TEST(test_plans_of_a_parent_are_not_cached),
        FAKE_BACKEND_TEST(test_failures_are_not_cached),
        FAKE_BACKEND_TEST(test_it_is_bounded),
        FAKE_BACKEND_TEST(test_held_plans_outlive_eviction),
        FAKE_BACKEND_TEST(test_one_build_for_many_threads),
        FAKE_BACKEND_TEST(test_a_failing_build_with_many_threads),
        FAKE_BACKEND_TEST(test_calls_from_many_threads),
        FAKE_BACKEND_TEST(test_child_uses_its_copy),
        FAKE_BACKEND_TEST(test_direct_calls_share_one_plan),
        FAKE_BACKEND_TEST(test_direct_calls_with_wrong_ranks),
        FAKE_BACKEND_TEST(test_direct_calls_on_wrapped_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
