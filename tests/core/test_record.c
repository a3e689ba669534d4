/* SPDX-License-Identifier: Apache-2.0 */
/* The record of what an application asks for: one line of JSON per plan and sizes of its runs, with
 * how often they came. */
#include "tests/core/fake_device.h"
#include "tests/core/fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- JSON, strictly ---- */

static const char *skip_value(const char *at, int depth);

static const char *skip_string(const char *at)
{
    if (*at != '"')
        return NULL;
    for (at++; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at == '\\' && !strchr("\"\\/bfnrtu", *++at))
            return NULL;
    }
    return at + 1;
}

static const char *skip_members(const char *at, char end, bool keys, int depth)
{
    if (*at == end)
        return at + 1;
    for (;;) {
        if (keys && (!(at = skip_string(at)) || *at++ != ':'))
            return NULL;
        if (!(at = skip_value(at, depth + 1)) || (*at != ',' && *at != end))
            return NULL;
        if (*at++ == end)
            return at;
    }
}

static const char *skip_value(const char *at, int depth)
{
    if (depth > 5)
        return NULL;
    if (*at == '"')
        return skip_string(at);
    if (*at == '{' || *at == '[')
        return skip_members(at + 1, *at == '{' ? '}' : ']', *at == '{', depth);
    const char *digits = at + (*at == '-');
    size_t count = strspn(digits, "0123456789");
    return count && (count == 1 || *digits != '0') ? digits + count : NULL;
}

/* ---- Reading the file back ---- */

enum { MAX_LINES = 16 };

typedef struct record {
    char lines[MAX_LINES][4096];
    int count;
} record;

/* Every line is one JSON object. */
static void read_record(const char *path, record *read)
{
    memset(read, 0, sizeof *read);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s was not written", path);
    while (read->count < MAX_LINES &&
           fgets(read->lines[read->count], sizeof read->lines[0], file)) {
        char *line = read->lines[read->count++];
        const char *end = *line == '{' ? skip_value(line, 0) : NULL;
        if (!end || strcmp(end, "\n") != 0)
            fail_msg("no JSON: %s", line);
    }
    fclose(file);
}

static void assert_line(const record *read, int index, const char *operator_name,
                        const char *backend, int64_t runs)
{
    char words[160];
    assert_true(index < read->count);
    snprintf(words, sizeof words, "{\"record\":1,\"operator\":\"%s\",\"backend\":\"%s\",",
             operator_name, backend);
    assert_says(read->lines[index], words);
    snprintf(words, sizeof words, ",\"runs\":%lld}", (long long)runs);
    assert_says(read->lines[index], words);
}

/* A line of the record holds these sizes, this often. */
static void assert_sizes(const record *read, int64_t m, int64_t n, int64_t k, int64_t batch,
                         int64_t runs)
{
    char words[160];
    snprintf(words, sizeof words,
             ",\"sizes\":{\"m\":%lld,\"n\":%lld,\"k\":%lld,\"batch\":%lld},\"runs\":%lld}",
             (long long)m, (long long)n, (long long)k, (long long)batch, (long long)runs);
    int found = 0;
    for (int i = 0; i < read->count; i++)
        found += strstr(read->lines[i], words) != NULL;
    if (found != 1)
        fail_msg("%d lines have %s", found, words);
}

static int set_up(void **state)
{
    fake_backends_reset();
    return fake_device_set_up(state);
}

static int tear_down(void **state)
{
    return fake_backends_tear_down(state) | fake_device_tear_down(state);
}

/* ---- What is recorded ---- */

static char path[4200];

/* Into a new folder, under a name that has to be escaped. */
static kiln_runtime *open_recording(void)
{
    char profile[5000];
    const char *folder = fixture_folder();
    snprintf(path, sizeof path, "%s/it's a \"record\".jsonl", folder);
    snprintf(profile, sizeof profile,
             "plugins: [alpha, fake]\nrecord: {file: '%s/it''s a \"record\".jsonl'}", folder);
    return fixture_open(profile);
}

static void test_lines_and_counts(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_recording();
    float x[4] = {1, 2, 3, 4}, y[4] = {0}, d[4];
    acme_axpy_desc axpy = {{sizeof axpy, 0}, 4, KILN_F32, 0};
    kiln_gemm_desc gemm = {.head = {.struct_size = sizeof gemm},
                           .m = 2,
                           .n = 2,
                           .k = 2,
                           .a_type = KILN_F32,
                           .b_type = KILN_F32,
                           .d_type = KILN_F32};
    kiln_tensor vectors[] = {kiln_vector(KILN_F32, x, 4), kiln_vector(KILN_F32, y, 4)};
    kiln_tensor matrices[4] = {kiln_matrix(KILN_F32, x, 2, 2, 2),
                               kiln_matrix(KILN_F32, x, 2, 2, 2)};
    matrices[KILN_GEMM_D] = kiln_matrix(KILN_F32, d, 2, 2, 2);
    acme_axpy_args axpy_args = {{sizeof axpy_args, 2, vectors}, 1};
    kiln_gemm_args gemm_args = {{sizeof gemm_args, 4, matrices}, 1, 0};
    kiln_stream *stream;
    kiln_plan *plan, *unused;
    assert_ok(kiln_stream_create(kiln_device_at(runtime, 0), &stream));
    for (int i = 0; i < 5; i++)
        assert_ok(kiln_call(runtime, ACME_AXPY, &axpy.head, NULL, &axpy_args.head));
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, &gemm.head, NULL, &plan));
    for (int i = 0; i < 3; i++) {
        assert_ok(kiln_plan_run(plan, i % 2 ? stream : NULL, &gemm_args.head));
        assert_ok(kiln_stream_wait(stream)); /* all write to one D */
    }
    for (int64_t part = 0; part < 4; part++) /* one run in shares is one run */
        assert_ok(kiln_plan_run_part(plan, part, 4, &gemm_args.head));
    matrices[KILN_GEMM_A].type = KILN_F64; /* what is refused did not run */
    assert_fails(kiln_plan_run(plan, NULL, &gemm_args.head), KILN_INVALID, "f64");
    axpy.reserved = 1;
    kiln_plan_options options = {.struct_size = sizeof options,
                                 .device = kiln_device_at(runtime, 2)};
    assert_ok(kiln_plan_create(runtime, ACME_AXPY, &axpy.head, &options, &unused));
    kiln_plan_release(unused);
    kiln_plan_release(plan);
    assert_ok(kiln_stream_wait(stream));
    kiln_stream_destroy(stream);
    assert_int_not_equal(access(path, F_OK), 0); /* written at the end */
    kiln_runtime_close(runtime);

    record read;
    read_record(path, &read);
    assert_int_equal(read.count, 3);
    assert_line(&read, 0, ACME_AXPY, "alpha", 5);
    assert_line(&read, 1, KILN_GEMM, "alpha", 4);
    assert_sizes(&read, 2, 2, 2, 1, 4);
    assert_says(read.lines[1], "\"text\":\"m=2 n=2 k=2 batch=1 f32*f32->f32");
    assert_line(&read, 2, ACME_AXPY, "fake", 0);
    assert_says(read.lines[2], "\"device\":\"fake:1\"");
    /* The descriptor's bytes, in hexadecimal. */
    char hex[2 * sizeof axpy + 40] = "\"descriptor\":\"";
    for (size_t i = 0; i < sizeof axpy; i++)
        snprintf(hex + strlen(hex), 3, "%02x", ((unsigned char *)&axpy)[i]);
    assert_says(read.lines[2], strcat(hex, "\""));
}

enum { LARGEST = 8 };

/* f32 operands that are all zero, of any sizes up to LARGEST. */
typedef struct zeros {
    float inputs[LARGEST * LARGEST * LARGEST], output[LARGEST * LARGEST * LARGEST];
    kiln_tensor tensors[4];
} zeros;

static void make_zeros(zeros *self, uint32_t flags, int64_t m, int64_t n, int64_t k, int64_t batch)
{
    bool ta = flags & KILN_GEMM_TRANSPOSE_A, tb = flags & KILN_GEMM_TRANSPOSE_B;
    int64_t a[] = {batch, ta ? k : m, ta ? m : k}, b[] = {batch, tb ? n : k, tb ? k : n},
            d[] = {batch, m, n};
    memset(self, 0, sizeof *self);
    self->tensors[KILN_GEMM_A] = kiln_tensor_host(KILN_F32, self->inputs, 3, a);
    self->tensors[KILN_GEMM_B] = kiln_tensor_host(KILN_F32, self->inputs, 3, b);
    self->tensors[KILN_GEMM_D] = kiln_tensor_host(KILN_F32, self->output, 3, d);
}

/* Direct calls make M dynamic, so that many values share a plan: what they were is told. */
static void test_sizes_of_direct_calls(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_recording();
    for (int64_t m = 1; m <= 8; m++)
        for (int64_t i = 0; i < m; i++) {
            zeros operands;
            make_zeros(&operands, KILN_GEMM_TRANSPOSE_B, m, 3, 2, 1);
            assert_ok(kiln_gemm(runtime, NULL, KILN_GEMM_TRANSPOSE_B, 1,
                                &operands.tensors[KILN_GEMM_A], &operands.tensors[KILN_GEMM_B], 0,
                                NULL, &operands.tensors[KILN_GEMM_D]));
        }
    kiln_runtime_close(runtime);
    record read;
    read_record(path, &read);
    assert_int_equal(read.count, 8);
    for (int64_t m = 1; m <= 8; m++)
        assert_sizes(&read, m, 3, 2, 1, m);
    assert_says(read.lines[0], "m<=1 n=3 k=2 batch=1 f32*f32^T->f32");
    assert_says(read.lines[7], "m<=8 n=3 k=2 batch=1 f32*f32^T->f32");
}

static kiln_plan *plan_any_size(kiln_runtime *runtime, uint32_t flags)
{
    kiln_plan *plan;
    kiln_gemm_desc desc = {.head = {.struct_size = sizeof desc,
                                    .flags = flags | KILN_GEMM_DYNAMIC_M | KILN_GEMM_DYNAMIC_N |
                                             KILN_GEMM_DYNAMIC_K | KILN_GEMM_DYNAMIC_BATCH},
                           .m = LARGEST,
                           .n = LARGEST,
                           .k = LARGEST,
                           .batch = LARGEST,
                           .a_type = KILN_F32,
                           .b_type = KILN_F32,
                           .d_type = KILN_F32};
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan));
    return plan;
}

/* Every dimension may be dynamic, and each is read from where it stands. */
static void test_sizes_of_dynamic_dimensions(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {{1, 2, 3, 4}, {4, 3, 2, 1}, {8, 8, 0, 8}, {7, 1, 8, 2}};
    for (uint32_t flags = 0; flags < 4; flags++) {
        kiln_runtime *runtime = open_recording();
        kiln_plan *plan = plan_any_size(runtime, flags);
        for (int i = 0; i < 12; i++) {
            const int64_t *shape = shapes[i % 4];
            zeros operands;
            make_zeros(&operands, flags, shape[0], shape[1], shape[2], shape[3]);
            kiln_gemm_args args = {{sizeof args, 4, operands.tensors}, 1, 0};
            assert_ok(kiln_plan_run(plan, NULL, &args.head));
        }
        zeros empty; /* runs nothing */
        make_zeros(&empty, flags, 0, 1, 1, 1);
        kiln_gemm_args args = {{sizeof args, 4, empty.tensors}, 1, 0};
        assert_ok(kiln_plan_run(plan, NULL, &args.head));
        kiln_plan_release(plan);
        kiln_runtime_close(runtime);
        record read;
        read_record(path, &read);
        assert_int_equal(read.count, 4);
        for (int i = 0; i < 4; i++)
            assert_sizes(&read, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], 3);
    }
}

/* A run that failed was not done. */
static void test_failed_runs_do_not_count(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_recording();
    kiln_plan *plan = plan_any_size(runtime, 0);
    zeros operands;
    make_zeros(&operands, 0, 1, 2, 3, 4);
    kiln_gemm_args args = {{sizeof args, 4, operands.tensors}, 1, 0};
    assert_ok(kiln_plan_run(plan, NULL, &args.head));
    fake_backends[0].run_status = KILN_FAULT;
    assert_fails(kiln_plan_run(plan, NULL, &args.head), KILN_FAULT, "alpha");
    assert_fails(kiln_plan_run_part(plan, 0, 2, &args.head), KILN_FAULT, "alpha");
    kiln_plan_release(plan);
    kiln_runtime_close(runtime);
    record read;
    read_record(path, &read);
    assert_int_equal(read.count, 1);
    assert_sizes(&read, 1, 2, 3, 4, 1);
}

static void test_plan_that_never_ran(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_recording();
    kiln_plan_release(plan_any_size(runtime, 0));
    kiln_runtime_close(runtime);
    record read;
    read_record(path, &read);
    assert_int_equal(read.count, 1);
    assert_line(&read, 0, KILN_GEMM, "alpha", 0);
    assert_null(strstr(read.lines[0], "sizes"));
}

/* Several runtimes add to one file. */
static void test_lines_are_appended(void **state)
{
    (void)state;
    acme_axpy_desc desc = {{sizeof desc, 0}, 0, KILN_F32, 0};
    acme_axpy_args args = {.head = {sizeof args, 0, NULL}};
    kiln_runtime *runtime = open_recording();
    assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head));
    kiln_runtime_close(runtime);
    char first[sizeof path];
    snprintf(first, sizeof first, "%s", path);
    setenv("KILN_RECORD", first, 1);
    assert_ok(fixture_try_open("plugins: [alpha]", 0, &runtime));
    unsetenv("KILN_RECORD");
    for (int i = 0; i < 2; i++)
        assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head));
    kiln_runtime_close(runtime);
    record read;
    read_record(first, &read);
    assert_int_equal(read.count, 2);
    assert_line(&read, 0, ACME_AXPY, "alpha", 1);
    assert_line(&read, 1, ACME_AXPY, "alpha", 2);
}

static void test_nothing_asked_nothing_written(void **state)
{
    (void)state;
    kiln_runtime_close(open_recording());
    assert_int_not_equal(access(path, F_OK), 0);
}

static void test_file_that_cannot_be_written(void **state)
{
    (void)state;
    acme_axpy_desc desc = {{sizeof desc, 0}, 0, KILN_F32, 0};
    acme_axpy_args args = {.head = {sizeof args, 0, NULL}};
    kiln_runtime *runtime =
        fixture_open("plugins: [alpha]\nrecord: {file: /nonexistent/folder/record.jsonl}");
    assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head));
    fixture_clear_log();
    kiln_runtime_close(runtime);
    assert_says(fixture_log(),
                "/nonexistent/folder/record.jsonl: No such file or directory; set record.file");
    fixture_clear_log();
}

/* ---- Threads and processes ---- */

static void call_often(void *argument, int64_t index)
{
    acme_axpy_args args = {.head = {sizeof args, 0, NULL}};
    for (int i = 0; i < 200; i++) {
        acme_axpy_desc desc = {{sizeof desc, 0}, 0, KILN_F32, (uint32_t)(i + index) % 5};
        kiln_call(argument, ACME_AXPY, &desc.head, NULL, &args.head);
    }
}

static void test_counts_from_many_threads(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_recording();
    fixture_threads(6, call_often, runtime);
    kiln_runtime_close(runtime);
    record read;
    int64_t runs = 0;
    read_record(path, &read);
    assert_int_equal(read.count, 5);
    for (int i = 0; i < read.count; i++)
        runs += strtoll(strstr(read.lines[i], "\"runs\":") + 7, NULL, 10);
    assert_int_equal(runs, 6 * 200);
}

typedef struct shared_plan {
    kiln_plan *plan;
    _Atomic int64_t failures;
} shared_plan;

static void run_many_sizes(void *argument, int64_t index)
{
    shared_plan *shared = argument;
    zeros operands;
    for (int64_t i = 0; i < 900; i++) {
        make_zeros(&operands, 0, 1 + (i + index) % 3, 1 + i % 4, 1, 1);
        kiln_gemm_args args = {{sizeof args, 4, operands.tensors}, 1, 0};
        if (kiln_plan_run(shared->plan, NULL, &args.head) != KILN_OK)
            atomic_fetch_add(&shared->failures, 1);
    }
}

/* All threads meet new sizes at the same time. */
static void test_sizes_from_many_threads(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_recording();
    shared_plan shared = {.plan = plan_any_size(runtime, 0)};
    fixture_threads(6, run_many_sizes, &shared);
    kiln_plan_release(shared.plan);
    kiln_runtime_close(runtime);
    assert_int_equal(shared.failures, 0);
    record read;
    read_record(path, &read);
    assert_int_equal(read.count, 12);
    for (int64_t m = 1; m <= 3; m++)
        for (int64_t n = 1; n <= 4; n++)
            assert_sizes(&read, m, n, 1, 1, 6 * 900 / 12);
}

/* As when two threads miss the cache at once: a plan with a parent is never shared. */
static void test_equal_plans_share_a_line(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_recording();
    acme_axpy_desc desc = {{sizeof desc, 0}, 0, KILN_F32, 0};
    acme_axpy_args args = {.head = {sizeof args, 0, NULL}};
    kiln_plan_options options = {.struct_size = sizeof options, .parent = &args};
    for (int i = 0; i < 3; i++) {
        kiln_plan *plan;
        assert_ok(kiln_plan_create(runtime, ACME_AXPY, &desc.head, &options, &plan));
        assert_ok(kiln_plan_run(plan, NULL, &args.head));
        kiln_plan_release(plan);
    }
    kiln_runtime_close(runtime);
    record read;
    read_record(path, &read);
    assert_int_equal(read.count, 1);
    assert_line(&read, 0, ACME_AXPY, "alpha", 3);
}

static int close_in_child(void *argument)
{
    kiln_runtime_close(argument);
    return 0;
}

/* The parent's calls are the parent's to write. */
static void test_child_writes_no_record(void **state)
{
    (void)state;
    fixture_needs_fork();
    kiln_runtime *runtime = open_recording();
    acme_axpy_desc desc = {{sizeof desc, 0}, 0, KILN_F32, 0};
    acme_axpy_args args = {.head = {sizeof args, 0, NULL}};
    assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head));
    assert_int_equal(fixture_in_child(close_in_child, runtime), 0);
    kiln_runtime_close(runtime);
    record read;
    read_record(path, &read);
    assert_int_equal(read.count, 1);
    assert_line(&read, 0, ACME_AXPY, "alpha", 1);
}

/* A child's runtime of its own has a record of its own, in the same file. */
static int record_in_child(void *argument)
{
    kiln_runtime *runtime;
    acme_axpy_desc desc = {{sizeof desc, 0}, 0, KILN_F32, 0};
    acme_axpy_args args = {.head = {sizeof args, 0, NULL}};
    if (fixture_try_open(argument, KILN_RUNTIME_ISOLATED, &runtime) != KILN_OK)
        return 1;
    for (int i = 0; i < 3; i++)
        if (kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head) != KILN_OK)
            return 2;
    kiln_runtime_close(runtime);
    return 0;
}

static void *start_child(void *profile)
{
    return (void *)(intptr_t)fixture_in_child(record_in_child, profile);
}

/* Processes that end at the same time: every line is whole. */
static void test_processes_append_to_one_file(void **state)
{
    (void)state;
    fixture_needs_fork();
    enum { CHILDREN = 8 };
    char profile[5000];
    snprintf(path, sizeof path, "%s/record.jsonl", fixture_folder());
    snprintf(profile, sizeof profile, "plugins: [alpha]\nrecord: {file: '%s'}", path);
    pthread_t threads[CHILDREN];
    for (int i = 0; i < CHILDREN; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, start_child, profile), 0);
    for (int i = 0; i < CHILDREN; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_int_equal((intptr_t)result, 0);
    }
    record read;
    read_record(path, &read);
    assert_int_equal(read.count, CHILDREN);
    for (int i = 0; i < CHILDREN; i++)
        assert_line(&read, i, ACME_AXPY, "alpha", 3);
}

static int run_in_child(void *argument)
{
    zeros operands;
    make_zeros(&operands, 0, 5, 5, 5, 1);
    kiln_gemm_args args = {{sizeof args, 4, operands.tensors}, 1, 0};
    return kiln_plan_run(argument, NULL, &args.head) != KILN_OK;
}

/* What a child runs with its parent's plans is not the parent's to count. */
static void test_child_counts_nothing(void **state)
{
    (void)state;
    fixture_needs_fork();
    kiln_runtime *runtime = open_recording();
    kiln_plan *plan = plan_any_size(runtime, 0);
    assert_int_equal(fixture_in_child(run_in_child, plan), 0);
    assert_int_equal(run_in_child(plan), 0);
    kiln_plan_release(plan);
    kiln_runtime_close(runtime);
    record read;
    read_record(path, &read);
    assert_int_equal(read.count, 1);
    assert_sizes(&read, 5, 5, 5, 1, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_lines_and_counts),
        TEST(test_sizes_of_direct_calls),
        TEST(test_sizes_of_dynamic_dimensions),
        TEST(test_failed_runs_do_not_count),
        TEST(test_plan_that_never_ran),
        TEST(test_lines_are_appended),
        TEST(test_nothing_asked_nothing_written),
        TEST(test_file_that_cannot_be_written),
        TEST(test_counts_from_many_threads),
        TEST(test_sizes_from_many_threads),
        TEST(test_equal_plans_share_a_line),
        TEST(test_child_writes_no_record),
        TEST(test_processes_append_to_one_file),
        TEST(test_child_counts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
