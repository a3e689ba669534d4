/* SPDX-License-Identifier: Apache-2.0 */
/* A record of calls holds so much and no more, and says so. */
#include "core/device.h"
#include "core/record.h"
#include "tests/core/fake_backend.h"
#include "tests/core/fixture.h"

#include <stdio.h>
#include <stdlib.h>

static char path[4200];

/* A runtime whose record takes `maximum` plans and sizes. */
static kiln_runtime *open_recording(int64_t maximum)
{
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    snprintf(path, sizeof path, "%s/record.jsonl", fixture_folder());
    assert_null(runtime->record);
    assert_ok(kiln_record_create(path, maximum, &runtime->record));
    fixture_clear_log();
    return runtime;
}

static kiln_plan *plan_vector(kiln_runtime *runtime, int64_t n)
{
    kiln_plan *plan;
    kiln_gemm_desc desc = {.head = {.struct_size = sizeof desc, .flags = KILN_GEMM_DYNAMIC_M},
                           .m = 1000,
                           .n = n,
                           .k = 0,
                           .a_type = KILN_F32,
                           .b_type = KILN_F32,
                           .d_type = KILN_F32};
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan));
    return plan;
}

static void run(kiln_plan *plan, int64_t m, int64_t n)
{
    static float output[1000];
    kiln_tensor tensors[4] = {kiln_matrix(KILN_F32, output, m, 0, 1),
                              kiln_matrix(KILN_F32, output, 0, n, n)};
    tensors[KILN_GEMM_D] = kiln_matrix(KILN_F32, output, m, n, n);
    kiln_gemm_args args = {{sizeof args, 4, tensors}, 1, 0};
    assert_ok(kiln_plan_run(plan, NULL, &args.head));
}

/* How often the log says it. */
static int times_logged(const char *words)
{
    int times = 0;
    for (const char *at = fixture_log(); (at = strstr(at, words)); at++)
        times++;
    return times;
}

/* Lines and runs in the file. */
static void count_file(int64_t *lines, int64_t *runs, int64_t *without_sizes)
{
    char line[4096];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    *lines = *runs = *without_sizes = 0;
    while (fgets(line, sizeof line, file)) {
        int64_t times = strtoll(strstr(line, "\"runs\":") + 7, NULL, 10);
        ++*lines;
        *runs += times;
        if (!strstr(line, "\"sizes\""))
            *without_sizes += times;
    }
    fclose(file);
}

/* Further sizes are counted with their plan, so that the number of its runs stays right. */
static void test_too_many_sizes(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_recording(6);
    kiln_plan *plan = plan_vector(runtime, 1);
    for (int64_t m = 1; m <= 5; m++)
        run(plan, m, 1);
    assert_int_equal(times_logged("is full"), 0);
    for (int64_t m = 1; m <= 100; m++)
        run(plan, m, 1);
    assert_int_equal(times_logged("is full with 6 plans and sizes"), 1);
    fixture_clear_log();
    kiln_plan_release(plan);
    kiln_runtime_close(runtime);
    int64_t lines, runs, without_sizes;
    count_file(&lines, &runs, &without_sizes);
    assert_int_equal(lines, 6);
    assert_int_equal(runs, 105);
    assert_int_equal(without_sizes, 95);
}

/* Further plans are left out, and run as ever. */
static void test_too_many_plans(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_recording(4);
    for (int64_t n = 1; n <= 20; n++) {
        kiln_plan *plan = plan_vector(runtime, n);
        run(plan, 1, n);
        run(plan, 1, n);
        kiln_plan_release(plan);
    }
    assert_int_equal(times_logged("is full with 4 plans and sizes"), 1);
    fixture_clear_log();
    kiln_runtime_close(runtime);
    int64_t lines, runs, without_sizes;
    count_file(&lines, &runs, &without_sizes);
    assert_int_equal(lines, 2);
    assert_int_equal(runs, 4);
    assert_int_equal(without_sizes, 0);
}

/* With room for one thing, that is the plan. */
static void test_room_for_a_plan_only(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_recording(1);
    kiln_plan *plan = plan_vector(runtime, 1);
    for (int64_t m = 1; m <= 50; m++)
        run(plan, m, 1);
    fixture_clear_log();
    kiln_plan_release(plan);
    kiln_runtime_close(runtime);
    int64_t lines, runs, without_sizes;
    count_file(&lines, &runs, &without_sizes);
    assert_int_equal(lines, 1);
    assert_int_equal(without_sizes, 50);
}

/* Many sizes, at random, are told apart and counted right. */
static void test_many_sizes(void **state)
{
    (void)state;
    enum { RUNS = 20000 };
    static int64_t expected[1001];
    kiln_runtime *runtime = open_recording(1001);
    kiln_plan *plan = plan_vector(runtime, 1);
    for (int i = 0; i < RUNS; i++) {
        int64_t m = fixture_random(1, 1000);
        expected[m]++;
        run(plan, m, 1);
    }
    kiln_plan_release(plan);
    kiln_runtime_close(runtime);
    int64_t seen[1001] = {0};
    char line[4096];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        int64_t m = strtoll(strstr(line, "\"sizes\":{\"m\":") + 13, NULL, 10);
        assert_in_range(m, 1, 1000);
        assert_int_equal(seen[m], 0);
        seen[m] = strtoll(strstr(line, "\"runs\":") + 7, NULL, 10);
    }
    fclose(file);
    assert_memory_equal(seen, expected, sizeof seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_BACKEND_TEST(test_too_many_sizes),
        FAKE_BACKEND_TEST(test_too_many_plans),
        FAKE_BACKEND_TEST(test_room_for_a_plan_only),
        FAKE_BACKEND_TEST(test_many_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
