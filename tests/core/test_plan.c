/* SPDX-License-Identifier: Apache-2.0 */
/* Routing: who is asked, in which order, who is taken and why; that kiln_explain says what
 * kiln_plan_create does; a vendor's own operator. */
#include "tests/core/fake_backend.h"
#include "tests/core/fixture.h"

#include <stdio.h>
#include <stdlib.h>

enum { ALPHA, BETA, GAMMA };

static kiln_gemm_desc small_gemm(uint32_t type)
{
    return (kiln_gemm_desc){.head = {.struct_size = sizeof(kiln_gemm_desc)},
                            .m = 4,
                            .n = 5,
                            .k = 6,
                            .a_type = type,
                            .b_type = type,
                            .d_type = type};
}

/* What creating a plan chose; explain must have said the same before. */
static kiln_plan_info create_and_compare(kiln_runtime *runtime, const kiln_op_head *descriptor,
                                         const char *operator_name,
                                         const kiln_plan_options *options, kiln_plan **plan)
{
    kiln_candidate candidates[8];
    int64_t count = 0, chosen = -1;
    assert_ok(kiln_explain(runtime, operator_name, descriptor, options, candidates, 8, &count));
    assert_true(count >= 1 && count <= 8);
    for (int64_t i = 0; i < count; i++) {
        assert_false(candidates[i].chosen && chosen >= 0);
        chosen = candidates[i].chosen ? i : chosen;
    }
    assert_true(chosen >= 0);
    assert_ok(kiln_plan_create(runtime, operator_name, descriptor, options, plan));
    kiln_plan_info info = {.struct_size = sizeof info};
    assert_ok(kiln_plan_get_info(*plan, &info));
    assert_string_equal(info.backend, candidates[chosen].backend);
    assert_string_equal(info.device, candidates[chosen].device);
    assert_string_equal(info.kernel, candidates[chosen].kernel);
    assert_int_equal(info.support, candidates[chosen].support);
    assert_int_equal(info.flags, candidates[chosen].flags);
    assert_int_equal(info.staged, candidates[chosen].staged);
    assert_int_equal(info.workspace_bytes, candidates[chosen].workspace_bytes);
    assert_int_equal(info.estimated_ns, candidates[chosen].estimated_ns);
    return info;
}

static kiln_plan_info create_gemm(kiln_runtime *runtime, uint32_t type,
                                  const kiln_plan_options *options)
{
    static char backend[32], reason[400];
    kiln_gemm_desc desc = small_gemm(type);
    kiln_plan *plan;
    kiln_plan_info info = create_and_compare(runtime, &desc.head, KILN_GEMM, options, &plan);
    snprintf(backend, sizeof backend, "%s", info.backend);
    snprintf(reason, sizeof reason, "%s", info.reason);
    info.backend = backend;
    info.reason = reason;
    kiln_plan_release(plan);
    return info;
}

/* ---- The profile's order ---- */

static void test_order_of_the_profile(void **state)
{
    (void)state;
    static const struct {
        const char *profile, *first;
    } cases[] = {
        {"plugins: [alpha, beta, gamma]", "alpha"},
        {"plugins: [gamma, '*']", "gamma"},
        {"plugins: ['*']\noperators: {kiln.gemm/1: [beta, alpha]}", "beta"},
        {"plugins: ['*']\noperators: {default: [gamma], kiln.gemm/1: [beta, alpha]}", "beta"},
        {"plugins: ['*']\noperators: {default: [gamma, beta]}", "gamma"},
        {"plugins: ['*']\noperators: {acme.axpy/1: [gamma]}", "alpha"},
        {"plugins: ['*']\noperators: {kiln.gemm/1: {types: {f32: [gamma]}, backends: [beta]}}",
         "gamma"},
        {"plugins: ['*']\noperators: {kiln.gemm/1: {types: {f64: [gamma]}, backends: [beta]}}",
         "beta"},
    };
    for (int64_t i = 0; i < COUNT(cases); i++) {
        kiln_runtime *runtime = fixture_open(cases[i].profile);
        kiln_plan_info info = create_gemm(runtime, KILN_F32, NULL);
        assert_string_equal(info.backend, cases[i].first);
        assert_int_equal(info.fallback, 0);
        kiln_runtime_close(runtime);
    }
}

static void test_fallback_says_why(void **state)
{
    (void)state;
    kiln_runtime *runtime =
        fixture_open("plugins: ['*']\noperators: {kiln.gemm/1: [missing, alpha, beta, gamma]}");
    kiln_plan_info info = create_gemm(runtime, KILN_F32, NULL);
    assert_string_equal(info.backend, "alpha");
    assert_int_equal(info.fallback, 1);
    assert_says(info.reason, "missing");
    assert_says(info.reason, "no plugin of this name was found");
    kiln_runtime_close(runtime);

    runtime = fixture_open("plugins: ['*']\noperators: {kiln.gemm/1: [alpha, beta, gamma]}");
    fake_backends[ALPHA].refuses = true;
    fake_backends[ALPHA].reason = "it is Monday";
    fake_backends[BETA].query_status = KILN_INVALID;
    info = create_gemm(runtime, KILN_F32, NULL);
    assert_string_equal(info.backend, "gamma");
    assert_int_equal(info.fallback, 1);
    assert_says(info.reason, "it is Monday");
    kiln_candidate candidates[3];
    int64_t count;
    kiln_gemm_desc desc = small_gemm(KILN_F32);
    assert_ok(kiln_explain(runtime, KILN_GEMM, &desc.head, NULL, candidates, 3, &count));
    assert_string_equal(candidates[0].reason, "it is Monday");
    assert_string_equal(candidates[1].reason, "beta cannot answer");
    assert_int_equal(candidates[1].support, KILN_SUPPORT_NO);
    kiln_runtime_close(runtime);
}

/* Where the profile gives no order there is no first choice to fall back from. */
static void test_no_order_no_fallback(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha, beta, gamma]");
    fake_backends[ALPHA].refuses = true;
    kiln_plan_info info = create_gemm(runtime, KILN_F32, NULL);
    assert_string_equal(info.backend, "beta");
    assert_int_equal(info.fallback, 0);
    assert_string_equal(info.reason, "the first that serves it");
    kiln_runtime_close(runtime);
}

/* A plugin that is in the list but was not opened: the reason says so. */
static void test_backend_that_is_not_open(void **state)
{
    (void)state;
    kiln_runtime *runtime =
        fixture_open("plugins: [beta]\noperators: {kiln.gemm/1: [alpha, beta]}");
    kiln_plan_info info = create_gemm(runtime, KILN_F32, NULL);
    assert_string_equal(info.backend, "beta");
    assert_int_equal(info.fallback, 1);
    assert_says(info.reason, "not in profile");
    kiln_runtime_close(runtime);
}

static void test_everybody_declines(void **state)
{
    (void)state;
    kiln_runtime *runtime =
        fixture_open("plugins: ['*']\noperators: {kiln.gemm/1: [alpha, beta, missing]}");
    fake_backends[ALPHA].refuses = fake_backends[BETA].refuses = true;
    fake_backends[ALPHA].reason = "too cold";
    fake_backends[BETA].reason = "too warm";
    kiln_gemm_desc desc = small_gemm(KILN_F32);
    kiln_plan *plan = NULL;
    assert_fails(kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan), KILN_UNSUPPORTED,
                 "alpha: too cold; beta: too warm; missing:");
    assert_null(plan);
    kiln_candidate candidates[3];
    int64_t count;
    assert_ok(kiln_explain(runtime, KILN_GEMM, &desc.head, NULL, candidates, 3, &count));
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(candidates[i].chosen, 0);
    assert_fails(kiln_plan_create(runtime, "acme.sort/1", &desc.head, NULL, &plan),
                 KILN_UNSUPPORTED, "no open plugin offers acme.sort/1");
    kiln_runtime_close(runtime);
}

/* Explain writes no more than it is given room for, and counts the rest. */
static void test_explain_with_little_room(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: ['*']");
    kiln_gemm_desc desc = small_gemm(KILN_F32);
    kiln_candidate candidates[2];
    int64_t count = 0;
    memset(candidates, 0x55, sizeof candidates);
    assert_ok(kiln_explain(runtime, KILN_GEMM, &desc.head, NULL, candidates, 1, &count));
    assert_int_equal(count, 3);
    assert_string_equal(candidates[0].backend, "alpha");
    assert_int_equal(candidates[1].support, 0x55555555);
    assert_ok(kiln_explain(runtime, KILN_GEMM, &desc.head, NULL, NULL, 0, &count));
    assert_int_equal(count, 3);
    assert_int_equal(fake_backends[ALPHA].plans, 0); /* nothing was prepared */
    kiln_runtime_close(runtime);
}

/* ---- Denied backends ---- */

static void test_denied_backends(void **state)
{
    (void)state;
    static const struct {
        const char *profile, *expected;
    } cases[] = {
        {"operators: {kiln.gemm/1: {deny: [alpha]}}", "beta"},
        {"operators: {kiln.gemm/1: {backends: [alpha, gamma, beta], deny: [alpha]}}", "gamma"},
        {"operators: {default: {deny: [alpha, beta]}}", "gamma"},
        {"operators: {default: {deny: [alpha, beta]}, kiln.gemm/1: {deny: [alpha]}}", "beta"},
    };
    kiln_gemm_desc desc = small_gemm(KILN_F32);
    kiln_plan_options options = {.struct_size = sizeof options, .backend = "alpha"};
    for (int64_t i = 0; i < COUNT(cases); i++) {
        kiln_runtime *runtime = fixture_open(cases[i].profile);
        kiln_plan_info info = create_gemm(runtime, KILN_F32, NULL);
        assert_string_equal(info.backend, cases[i].expected);
        assert_int_equal(info.fallback, 0); /* what is denied was nobody's choice */
        kiln_plan *plan;
        assert_fails(kiln_plan_create(runtime, KILN_GEMM, &desc.head, &options, &plan),
                     KILN_UNSUPPORTED, "the profile denies it");
        kiln_runtime_close(runtime);
    }
}

/* ---- Options ---- */

static void test_one_backend_asked_for(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: ['*']\noperators: {kiln.gemm/1: [alpha]}");
    kiln_plan_options options = {.struct_size = sizeof options, .backend = "gamma"};
    kiln_plan_info info = create_gemm(runtime, KILN_F32, &options);
    assert_string_equal(info.backend, "gamma"); /* though the profile's list lacks it */
    assert_int_equal(info.fallback, 0);
    fake_backends[GAMMA].refuses = true;
    kiln_gemm_desc desc = small_gemm(KILN_F64);
    kiln_plan *plan;
    assert_fails(kiln_plan_create(runtime, KILN_GEMM, &desc.head, &options, &plan),
                 KILN_UNSUPPORTED, "gamma");
    options.backend = "a name that is much too long for any plugin to bear, but harmless";
    assert_fails(kiln_plan_create(runtime, KILN_GEMM, &desc.head, &options, &plan),
                 KILN_UNSUPPORTED, "no plugin of this name");
    kiln_runtime_close(runtime);
}

static void test_reproducible_only(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("operators: {kiln.gemm/1: [alpha, beta]}");
    kiln_plan_options options = {.struct_size = sizeof options, .flags = KILN_PLAN_REPRODUCIBLE};
    fake_backends[ALPHA].unreproducible = true;
    kiln_plan_info info = create_gemm(runtime, KILN_F32, &options);
    assert_string_equal(info.backend, "beta");
    assert_int_equal(info.flags, KILN_ANSWER_REPRODUCIBLE);
    assert_says(info.reason, "not reproducible");
    assert_string_equal(create_gemm(runtime, KILN_F32, NULL).backend, "alpha");
    kiln_runtime_close(runtime);
}

static void test_wrong_requests(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open(NULL), *other = fixture_open(NULL);
    kiln_gemm_desc desc = small_gemm(KILN_F32), broken = desc;
    kiln_plan *plan = NULL;
    kiln_plan_options options = {.struct_size = 4};
#define REFUSED(status, words) \
    assert_fails(kiln_plan_create(runtime, KILN_GEMM, &broken.head, &options, &plan), status, words)
    REFUSED(KILN_INVALID, "struct_size is 4");
    options = (kiln_plan_options){.struct_size = sizeof options, .flags = 2};
    REFUSED(KILN_UNSUPPORTED, "flags 0x2");
    options = (kiln_plan_options){.struct_size = sizeof options, .staging = 3};
    REFUSED(KILN_UNSUPPORTED, "staging 3");
    options = (kiln_plan_options){.struct_size = sizeof options, .parameter_count = 1};
    REFUSED(KILN_INVALID, "parameter");
    options = (kiln_plan_options){.struct_size = sizeof options, .payload_size = 1};
    REFUSED(KILN_INVALID, "payload");
    options =
        (kiln_plan_options){.struct_size = sizeof options, .device = kiln_device_at(other, 0)};
    REFUSED(KILN_INVALID, "another runtime");
    options = (kiln_plan_options){.struct_size = UINT64_MAX}; /* never initialised */
    REFUSED(KILN_INVALID, "struct_size");
    options = (kiln_plan_options){.struct_size = sizeof options};
    broken.head.struct_size = 4;
    REFUSED(KILN_INVALID, "struct_size is 4");
    broken.head.struct_size = 0xfffffff0u;
    REFUSED(KILN_UNSUPPORTED, "bytes");
    broken = desc;
    broken.head.flags = 1u << 20;
    REFUSED(KILN_UNSUPPORTED, "flags 0x100000");
    struct {
        kiln_gemm_desc desc;
        uint64_t beyond;
    } larger = {desc, 0};
    larger.desc.head.struct_size = sizeof larger;
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, &larger.desc.head, NULL, &plan));
    kiln_plan_release(plan);
    larger.beyond = 1;
    assert_fails(kiln_plan_create(runtime, KILN_GEMM, &larger.desc.head, NULL, &plan),
                 KILN_UNSUPPORTED, "does not know");
    static const char *const names[] = {
        "", "gemm", NULL, "a/1 with a name that is far longer than the sixty-three bytes allowed"};
    for (int64_t i = 0; i < COUNT(names); i++)
        assert_fails(kiln_plan_create(runtime, names[i], &desc.head, NULL, &plan), KILN_INVALID,
                     "not an operator's name");
    assert_fails(kiln_plan_create(runtime, "kiln.gemm/2", &desc.head, NULL, &plan),
                 KILN_UNSUPPORTED, "kiln.gemm/2");
    unsigned char large[2048] = {0};
    ((kiln_op_head *)(void *)large)->struct_size = sizeof large;
    assert_fails(kiln_plan_create(runtime, ACME_AXPY, (kiln_op_head *)(void *)large, NULL, &plan),
                 KILN_UNSUPPORTED, "2048 bytes");
    kiln_runtime_close(runtime);
    kiln_runtime_close(other);
}

/* An older caller's options end earlier, a newer one's later. */
static void test_options_of_other_sizes(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    kiln_gemm_desc desc = small_gemm(KILN_F32);
    kiln_plan *plan;
    struct {
        kiln_plan_options options;
        uint64_t beyond;
    } larger = {{.struct_size = sizeof larger, .backend = "alpha"}, 0};
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, &desc.head, &larger.options, &plan));
    kiln_plan_release(plan);
    larger.beyond = 1;
    assert_fails(kiln_plan_create(runtime, KILN_GEMM, &desc.head, &larger.options, &plan),
                 KILN_UNSUPPORTED, "does not know");
    kiln_plan_options shorter;
    memset(&shorter, 0xff, sizeof shorter);
    shorter.struct_size = offsetof(kiln_plan_options, backend);
    shorter.device = NULL;
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, &desc.head, &shorter, &plan));
    kiln_plan_release(plan);
    kiln_runtime_close(runtime);
}

/* ---- Backends that answer nonsense ---- */

static void test_nonsense_is_declined(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    kiln_gemm_desc desc = small_gemm(KILN_F32);
    kiln_plan *plan;
    static const struct {
        int64_t workspace, alignment;
        int32_t support;
        const char *words;
    } cases[] = {
        {-1, 0, 0, "workspace of -1 bytes"},
        {64, 128, 0, "128 bytes"},
        {64, -5, 0, "-5 bytes"},
        {0, 0, 7, "answer 7"},
        {0, 0, -3, "answer -3"},
    };
    for (int64_t i = 0; i < COUNT(cases); i++) {
        fake_backends[ALPHA].workspace_bytes = cases[i].workspace;
        fake_backends[ALPHA].workspace_alignment = cases[i].alignment;
        fake_backends[ALPHA].support = cases[i].support;
        assert_fails(kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan),
                     KILN_UNSUPPORTED, cases[i].words);
    }
    kiln_runtime_close(runtime);
}

/* A failure without a sentence must not be explained by an older one's. */
static void test_failures_without_a_sentence(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    kiln_gemm_desc desc = small_gemm(KILN_F32);
    kiln_plan *plan;
    float number;
    fake_backends[ALPHA].silent = true;
    fake_backends[ALPHA].query_status = KILN_NO_MEMORY;
    assert_fails(kiln_convert(99, &number, KILN_F32, &number, 1, 0), KILN_INVALID, "type 99");
    assert_fails(kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan), KILN_UNSUPPORTED,
                 "memory is exhausted");
    fake_backends[ALPHA].query_status = KILN_OK;
    static const kiln_status statuses[] = {KILN_UNSUPPORTED, KILN_NO_MEMORY};
    for (int64_t i = 0; i < COUNT(statuses); i++) {
        fake_backends[ALPHA].plan_status = statuses[i];
        assert_fails(kiln_convert(99, &number, KILN_F32, &number, 1, 0), KILN_INVALID, "type 99");
        assert_fails(kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan), statuses[i],
                     kiln_status_text(statuses[i]));
        assert_null(strstr(kiln_last_error(), "99"));
    }
    kiln_runtime_close(runtime);
}

/* What planning finds out: UNSUPPORTED goes on with the walk, anything else ends it. */
static void test_plan_may_decline_or_fail(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("operators: {kiln.gemm/1: [alpha, beta]}");
    kiln_gemm_desc desc = small_gemm(KILN_F32);
    kiln_plan *plan = NULL;
    fake_backends[ALPHA].plan_status = KILN_UNSUPPORTED;
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan));
    kiln_plan_info info = {.struct_size = sizeof info};
    assert_ok(kiln_plan_get_info(plan, &info));
    assert_string_equal(info.backend, "beta");
    assert_int_equal(info.fallback, 1);
    assert_says(info.reason, "alpha cannot prepare");
    kiln_plan_release(plan);
    desc.m = 40;
    plan = NULL;
    fake_backends[ALPHA].plan_status = KILN_INVALID;
    assert_fails(kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan), KILN_INVALID,
                 "alpha cannot prepare");
    assert_null(plan);
    assert_int_equal(fake_backends[BETA].plans, 1);
    fake_backends[ALPHA].plan_status = fake_backends[BETA].plan_status = KILN_UNSUPPORTED;
    assert_fails(kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan), KILN_UNSUPPORTED,
                 "beta: beta cannot prepare");
    kiln_runtime_close(runtime);
}

/* ---- What can be asked of a plan ---- */

static void test_info_of_other_sizes(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    kiln_gemm_desc desc = small_gemm(KILN_F32);
    kiln_plan *plan;
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan));
    struct {
        kiln_plan_info info;
        unsigned char beyond[16];
    } larger;
    memset(&larger, 0x55, sizeof larger);
    larger.info.struct_size = sizeof larger;
    assert_ok(kiln_plan_get_info(plan, &larger.info));
    assert_int_equal(larger.info.struct_size, sizeof larger);
    assert_string_equal(larger.info.backend, "alpha");
    kiln_plan_info shorter;
    memset(&shorter, 0x55, sizeof shorter);
    shorter.struct_size = offsetof(kiln_plan_info, kernel);
    assert_ok(kiln_plan_get_info(plan, &shorter));
    assert_string_equal(shorter.device, "host");
    assert_int_equal(shorter.support, 0x55555555);
    shorter.struct_size = 7;
    assert_fails(kiln_plan_get_info(plan, &shorter), KILN_INVALID, "struct_size is 7");
    kiln_plan_native native = {.struct_size = 8};
    assert_fails(kiln_plan_get_native(plan, &native), KILN_INVALID, "struct_size is 8");
    native.struct_size = sizeof native;
    assert_ok(kiln_plan_get_native(plan, &native));
    assert_non_null(native.plan);
    assert_non_null(native.table->run);
    kiln_plan_release(plan);
    kiln_runtime_close(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_BACKEND_TEST(test_order_of_the_profile),
        FAKE_BACKEND_TEST(test_fallback_says_why),
        FAKE_BACKEND_TEST(test_no_order_no_fallback),
        FAKE_BACKEND_TEST(test_backend_that_is_not_open),
        FAKE_BACKEND_TEST(test_everybody_declines),
        FAKE_BACKEND_TEST(test_explain_with_little_room),
        FAKE_BACKEND_TEST(test_denied_backends),
        FAKE_BACKEND_TEST(test_one_backend_asked_for),
        FAKE_BACKEND_TEST(test_reproducible_only),
        FAKE_BACKEND_TEST(test_wrong_requests),
        FAKE_BACKEND_TEST(test_options_of_other_sizes),
        FAKE_BACKEND_TEST(test_nonsense_is_declined),
        FAKE_BACKEND_TEST(test_failures_without_a_sentence),
        FAKE_BACKEND_TEST(test_plan_may_decline_or_fail),
        FAKE_BACKEND_TEST(test_info_of_other_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
