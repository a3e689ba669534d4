/* SPDX-License-Identifier: Apache-2.0 */
/* Small public functions: versions, the list of settings, the default device, references to plans.
 */
#include "tests/core/fake_backend.h"
#include "tests/core/fixture.h"

#include <stdio.h>
#include <string.h>

static void test_version(void **state)
{
    (void)state;
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", KILN_VERSION_MAJOR, KILN_VERSION_MINOR,
             KILN_VERSION_PATCH);
    assert_string_equal(kiln_version(), text);
}

/* ---- Settings ---- */

/* Lists and get() tell the same values, and each path once. */
static void test_settings_agree(void **state)
{
    (void)state;
    kiln_runtime *runtime =
        fixture_open("plugins: [alpha]\nthreads: {count: 3}\noptions: {alpha: {limit: 5}}");
    int64_t count = kiln_setting_count(runtime), threads = 0, limit = 0;
    for (int64_t i = 0; i < count; i++) {
        kiln_setting_info info = {.struct_size = sizeof info};
        assert_ok(kiln_setting_at(runtime, i, &info));
        assert_true(info.path[0] && info.origin[0] && info.help);
        assert_int_equal(info.struct_size, sizeof info);
        const char *value = kiln_setting_get(runtime, info.path);
        assert_non_null(value);
        if (info.value[0] != '"' && info.value[0] != '\'') /* text may be quoted in flow form */
            assert_string_equal(value, info.value);
        threads += strcmp(info.path, "threads.count") == 0 && strcmp(info.value, "3") == 0;
        limit += strcmp(info.path, "options.alpha.limit") == 0 && strcmp(info.value, "5") == 0;
        for (int64_t other = 0; other < i; other++) {
            kiln_setting_info before = {.struct_size = sizeof before};
            assert_ok(kiln_setting_at(runtime, other, &before));
            assert_string_not_equal(before.path, info.path);
        }
    }
    assert_int_equal(threads, 1);
    assert_int_equal(limit, 1);
    assert_string_equal(kiln_setting_get(runtime, "options.alpha.limit"), "5");
    assert_null(kiln_setting_get(runtime, "options.beta.limit"));
    assert_null(kiln_setting_get(runtime, ""));
    kiln_runtime_close(runtime);
}

/* Fields that an older program does not know stay as they were. */
static void test_settings_for_an_older_program(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open(NULL);
    kiln_setting_info info = {.struct_size = offsetof(kiln_setting_info, origin), .origin = "mine"};
    assert_ok(kiln_setting_at(runtime, 0, &info));
    assert_non_null(info.value);
    assert_string_equal(info.origin, "mine");
    kiln_runtime_close(runtime);
}

/* ---- Devices ---- */

static void test_default_device(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open(NULL);
    kiln_device *host = NULL;
    assert_ok(kiln_device_find(runtime, "host", &host));
    assert_ptr_equal(kiln_device_default(runtime), host);
    assert_ptr_equal(kiln_device_at(runtime, 0), host);
    kiln_runtime_close(runtime);
    runtime = fixture_open("devices: {default: host}");
    assert_ptr_equal(kiln_device_default(runtime), kiln_device_at(runtime, 0));
    kiln_runtime_close(runtime);
}

/* ---- References to plans ---- */

enum { ALPHA };

static void add_one(kiln_plan *plan)
{
    float x[2] = {1, 2}, y[2] = {10, 20};
    kiln_tensor tensors[2] = {kiln_vector(KILN_F32, x, 2), kiln_vector(KILN_F32, y, 2)};
    acme_axpy_args args = {{sizeof args, 2, tensors}, 1};
    assert_ok(kiln_plan_run(plan, NULL, &args.head));
    assert_true(y[0] == 11 && y[1] == 22);
}

static void test_retain_keeps_a_plan(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    acme_axpy_desc desc = {{sizeof desc, 0}, 2, KILN_F32, 0};
    /* A plan with a parent is not cached: nobody but this test holds it. */
    kiln_plan_options options = {.struct_size = sizeof options, .parent = &desc};
    kiln_plan *plan;
    assert_ok(kiln_plan_create(runtime, ACME_AXPY, &desc.head, &options, &plan));
    kiln_plan_retain(plan);
    kiln_plan_retain(plan);
    for (int held = 2; held > 0; held--) {
        kiln_plan_release(plan);
        assert_int_equal(fake_backends[ALPHA].frees, 0);
        add_one(plan);
    }
    kiln_plan_release(plan);
    assert_int_equal(fake_backends[ALPHA].frees, 1);
    kiln_plan_release(NULL);
    kiln_runtime_close(runtime);
}

static void retain_and_release(void *plan, int64_t index)
{
    (void)index;
    for (int i = 0; i < 20000; i++) {
        kiln_plan_retain(plan);
        kiln_plan_release(plan);
    }
}

static void test_references_from_several_threads(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    acme_axpy_desc desc = {{sizeof desc, 0}, 2, KILN_F32, 0};
    kiln_plan_options options = {.struct_size = sizeof options, .parent = &desc};
    kiln_plan *plan;
    assert_ok(kiln_plan_create(runtime, ACME_AXPY, &desc.head, &options, &plan));
    fixture_threads(4, retain_and_release, plan);
    assert_int_equal(fake_backends[ALPHA].frees, 0);
    add_one(plan);
    kiln_plan_release(plan);
    assert_int_equal(fake_backends[ALPHA].frees, 1);
    kiln_runtime_close(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version),
        FAKE_BACKEND_TEST(test_settings_agree),
        cmocka_unit_test(test_settings_for_an_older_program),
        cmocka_unit_test(test_default_device),
        FAKE_BACKEND_TEST(test_retain_keeps_a_plan),
        FAKE_BACKEND_TEST(test_references_from_several_threads),
    };
    return cmocka_run_group_tests_name("core/public", tests, NULL, NULL);
}
