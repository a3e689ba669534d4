/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing: wrong options, runtimes that do not see each other, many threads, and that
 * nothing is left behind after many cycles. */
#include "tests/core/fake_device.h"
#include "tests/core/fixture.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *plugin_folder;

static int set_up(void **state)
{
    plugin_folder = getenv("KILN_TEST_STATIC") ? "/nonexistent" : fixture_plugin_folder();
    fake_backends_reset();
    return fake_device_set_up(state);
}

static int tear_down(void **state)
{
    return fake_backends_tear_down(state) | fake_device_tear_down(state);
}

/* ---- Options ---- */

static void test_wrong_options(void **state)
{
    (void)state;
    kiln_runtime *runtime = NULL;
    kiln_setting half = {.path = "threads.count"}, unknown = {"threads.cuont", "2"};
    kiln_runtime_options options;
#define REFUSED(status, words, ...)                                                      \
    do {                                                                                 \
        options = (kiln_runtime_options){                                                \
            .struct_size = sizeof options, .flags = KILN_RUNTIME_ISOLATED, __VA_ARGS__}; \
        assert_fails(kiln_runtime_open(&options, &runtime), status, words);              \
        assert_null(runtime);                                                            \
    } while (0)
    REFUSED(KILN_INVALID, "both profile and profile_text", .profile = "ref",
            .profile_text = "schema: 1");
    REFUSED(KILN_INVALID, "setting_count is 2, but settings is NULL", .setting_count = 2);
    REFUSED(KILN_INVALID, "setting 0 has no path or no value", .settings = &half,
            .setting_count = 1);
    REFUSED(KILN_PARSE, "did you mean", .settings = &unknown, .setting_count = 1);
    REFUSED(KILN_PARSE, "profile_text:1:1", .profile_text = "threads: {count: 1}");
    REFUSED(KILN_PARSE, "profile_text:2:", .profile_text = "schema: 1\nthreads: {count: -1}");
    REFUSED(KILN_PARSE, "profile_text:", .profile_text = "schema: [1");
    REFUSED(KILN_IO, "/nonexistent/profile.yaml", .profile = "/nonexistent/profile.yaml");
    REFUSED(KILN_NOT_FOUND, "no profile 'nobody'", .profile = "nobody");
    REFUSED(KILN_NOT_FOUND,
            "profile_text:2:", .profile_text = "schema: 1\ndevices: {default: 'acme:0'}");
    REFUSED(KILN_PARSE, "did you mean 'limit'",
            .profile_text = "schema: 1\nplugins: [alpha]\noptions: {alpha: {limt: 3}}");
    REFUSED(KILN_PARSE, "options.alpha.limit",
            .profile_text = "schema: 1\nplugins: [alpha]\noptions: {alpha: {limit: 5000}}");
    options = (kiln_runtime_options){.struct_size = sizeof options, .flags = 2};
    assert_fails(kiln_runtime_open(&options, &runtime), KILN_UNSUPPORTED, "flags 0x2");
    static const uint64_t sizes[] = {0, 7, 1 << 20, UINT64_MAX};
    for (int64_t i = 0; i < COUNT(sizes); i++) {
        options = (kiln_runtime_options){.struct_size = sizes[i]};
        assert_fails(kiln_runtime_open(&options, &runtime), KILN_INVALID, "struct_size");
    }
    struct {
        kiln_runtime_options options;
        uint64_t beyond[4];
    } larger = {{.struct_size = sizeof larger, .flags = KILN_RUNTIME_ISOLATED}, {0}};
    assert_ok(kiln_runtime_open(&larger.options, &runtime));
    kiln_runtime_close(runtime);
    larger.beyond[3] = 1;
    assert_fails(kiln_runtime_open(&larger.options, &runtime), KILN_UNSUPPORTED, "does not know");
    memset(&options, 0xff, sizeof options); /* what lies beyond struct_size is not read */
    options.struct_size = offsetof(kiln_runtime_options, profile);
    options.flags = KILN_RUNTIME_ISOLATED;
    assert_ok(kiln_runtime_open(&options, &runtime));
    kiln_runtime_close(runtime);
    kiln_runtime_close(NULL);
}

/* A team of nobody, or of fewer, is a team of one. */
static void run_all(void *context, int64_t parts, void (*task)(void *argument, int64_t part),
                    void *argument)
{
    (void)context;
    for (int64_t i = 0; i < parts; i++)
        task(argument, i);
}

static void test_odd_teams(void **state)
{
    (void)state;
    static const int64_t sizes[] = {INT64_MIN, -1, 0, 1};
    for (int64_t i = 0; i < COUNT(sizes); i++) {
        kiln_runtime_options options = {.struct_size = sizeof options,
                                        .flags = KILN_RUNTIME_ISOLATED,
                                        .parallel_for = run_all,
                                        .parallel_threads = sizes[i]};
        kiln_runtime *runtime;
        assert_ok(kiln_runtime_open(&options, &runtime));
        assert_int_equal(kiln_thread_count(runtime), 1);
        kiln_runtime_close(runtime);
    }
}

static void test_settings(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("threads: {count: 3}");
    assert_true(kiln_setting_count(runtime) > 10);
    assert_string_equal(kiln_setting_get(runtime, "threads.count"), "3");
    assert_null(kiln_setting_get(runtime, "threads.cuont"));
    kiln_setting_info info = {.struct_size = sizeof info};
    assert_ok(kiln_setting_at(runtime, 0, &info));
    assert_non_null(info.path);
    assert_int_equal(kiln_setting_at(runtime, kiln_setting_count(runtime), &info), KILN_NOT_FOUND);
    assert_int_equal(kiln_setting_at(runtime, -1, &info), KILN_NOT_FOUND);
    info.struct_size = 7;
    assert_int_equal(kiln_setting_at(runtime, 0, &info), KILN_INVALID);
    kiln_runtime_close(runtime);
}

static void test_devices(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [fake]\ndevices: {default: 'fake:1'}");
    kiln_device *device = NULL;
    assert_int_equal(kiln_device_count(runtime), 3);
    assert_null(kiln_device_at(runtime, 3));
    assert_null(kiln_device_at(runtime, -1));
    assert_string_equal(kiln_device_name(kiln_device_at(runtime, 0)), "host");
    assert_string_equal(kiln_device_name(kiln_device_default(runtime)), "fake:1");
    assert_ptr_equal(kiln_device_runtime(kiln_device_default(runtime)), runtime);
    assert_fails(kiln_device_find(runtime, "fake:2", &device), KILN_NOT_FOUND,
                 "host, fake:0, fake:1");
    assert_null(device);
    kiln_device_info info = {.struct_size = offsetof(kiln_device_info, memory_bytes),
                             .memory_bytes = 77};
    assert_ok(kiln_device_get_info(kiln_device_at(runtime, 2), &info));
    assert_string_equal(info.fingerprint, "fake device 1 of a test");
    assert_int_equal(info.memory_bytes, 77);
    info.struct_size = 4;
    assert_fails(kiln_device_get_info(kiln_device_at(runtime, 2), &info), KILN_INVALID,
                 "struct_size is 4");
    assert_int_equal(fake_device_counted.devices, 0); /* opened at the first use */
    kiln_runtime_close(runtime);
    runtime = fixture_open(NULL);
    assert_string_equal(kiln_device_name(kiln_device_default(runtime)), "host");
    kiln_runtime_close(runtime);
}

static void test_status_words(void **state)
{
    (void)state;
    assert_string_equal(kiln_status_name(KILN_FORKED), "FORKED");
    assert_string_equal(kiln_status_name((kiln_status)-99), "UNKNOWN");
    assert_string_equal(kiln_status_text((kiln_status)5), "unknown status");
    assert_true(strlen(kiln_status_text(KILN_OK)) > 0);
    assert_true(strlen(kiln_version()) > 0);
}

/* ---- Two runtimes ---- */

static void kernel_of(kiln_runtime *runtime, char *kernel, size_t size)
{
    acme_axpy_desc desc = {{sizeof desc, 0}, 1, KILN_F32, 0};
    kiln_candidate candidate = {.kernel = ""};
    int64_t count = 0;
    if (kiln_explain(runtime, ACME_AXPY, &desc.head, NULL, &candidate, 1, &count) == KILN_OK)
        snprintf(kernel, size, "%s", candidate.kernel);
}

static void test_two_runtimes(void **state)
{
    (void)state;
    kiln_runtime *one =
        fixture_open("plugins: [alpha]\nthreads: {count: 2}\noptions: {alpha: {limit: 3}}");
    kiln_runtime *two =
        fixture_open("plugins: [alpha, beta]\nthreads: {count: 5}\noptions: {alpha: {limit: 9}}");
    char kernel[64];
    kernel_of(one, kernel, sizeof kernel);
    assert_string_equal(kernel, "alpha-3");
    kernel_of(two, kernel, sizeof kernel);
    assert_string_equal(kernel, "alpha-9");
    assert_int_equal(kiln_thread_count(one), 2);
    assert_int_equal(kiln_thread_count(two), 5);
    assert_string_equal(kiln_setting_get(one, "options.alpha.limit"), "3");
    kiln_runtime_close(one);
    kernel_of(two, kernel, sizeof kernel); /* goes on without the other */
    assert_string_equal(kernel, "alpha-9");
    kiln_runtime_close(two);
}

static void test_isolation(void **state)
{
    (void)state;
    const char *old = getenv("KILN_THREADS_COUNT");
    char before[64];
    snprintf(before, sizeof before, "%s", old ? old : "");
    setenv("KILN_THREADS_COUNT", "7", 1);
    kiln_runtime *isolated = fixture_open(NULL), *open = NULL;
    assert_ok(fixture_try_open(NULL, 0, &open));
    assert_int_not_equal(kiln_thread_count(isolated), 7);
    assert_int_equal(kiln_thread_count(open), 7);
    kiln_runtime_close(isolated);
    kiln_runtime_close(open);
    if (old)
        setenv("KILN_THREADS_COUNT", before, 1);
    else
        unsetenv("KILN_THREADS_COUNT");
}

/* ---- One whole cycle ---- */

static void add_part(void *argument, int64_t part)
{
    atomic_fetch_add((_Atomic int64_t *)argument, part);
}

static kiln_status do_nothing(void *argument, kiln_status status)
{
    (void)argument;
    return status;
}

/* A copy on a stream of device `d`, and another device that waits for it. */
static bool copy_and_cross(kiln_runtime *runtime, int d)
{
    kiln_device *device = kiln_device_at(runtime, d), *next = kiln_device_at(runtime, (d + 1) % 3);
    kiln_stream *stream = NULL, *other = NULL;
    kiln_event *event = NULL;
    kiln_buffer *buffer = NULL;
    float x[4] = {1, 1, 1, 1};
    kiln_tensor source = kiln_vector(KILN_F32, x, 4), remote = source;
    bool good = kiln_stream_create(device, &stream) == KILN_OK &&
                kiln_stream_create(next, &other) == KILN_OK &&
                kiln_event_create(device, &event) == KILN_OK &&
                kiln_buffer_alloc(device, KILN_SPACE_DEVICE, 16, &buffer) == KILN_OK;
    remote.buffer = buffer;
    remote.data = NULL;
    good = good && kiln_copy(stream, runtime, &remote, &source) == KILN_OK &&
           kiln_event_record(event, stream) == KILN_OK &&
           kiln_stream_wait_event(other, event) == KILN_OK &&
           kiln_stream_enqueue(other, do_nothing, NULL) == KILN_OK &&
           kiln_stream_wait(other) == KILN_OK;
    kiln_buffer_release(buffer);
    kiln_event_destroy(event);
    kiln_stream_destroy(other);
    kiln_stream_destroy(stream);
    return good;
}

/* Opens, uses most things once, closes. False when something failed. */
static bool cycle(int64_t limit)
{
    char profile[6000], kernel[64] = "", expected[64];
    snprintf(profile, sizeof profile,
             "plugins: [alpha, fake, larger, undefined]\nplugin_path: ['%s']\nthreads: {count: 3, "
             "spin_us: 0}\n"
             "staging: {policy: allow}\noptions: {alpha: {limit: %lld}}",
             plugin_folder, (long long)limit);
    kiln_runtime *runtime = NULL;
    if (fixture_try_open(profile, KILN_RUNTIME_ISOLATED, &runtime) != KILN_OK)
        return false;
    kernel_of(runtime, kernel, sizeof kernel);
    snprintf(expected, sizeof expected, "alpha-%lld", (long long)limit);
    bool good = strcmp(kernel, expected) == 0;
    _Atomic int64_t sum = 0;
    kiln_parallel_for(runtime, 9, add_part, &sum);
    good = good && sum == 36;
    float x[4] = {1, 1, 1, 1}, y[4] = {0};
    acme_axpy_desc desc = {{sizeof desc, 0}, 4, KILN_F32, 0};
    kiln_tensor tensors[2] = {kiln_vector(KILN_F32, x, 4), kiln_vector(KILN_F32, y, 4)};
    acme_axpy_args args = {{sizeof args, 2, tensors}, 1};
    good = good && copy_and_cross(runtime, (int)(limit % 3));
    for (int i = 0; i < 2; i++) { /* on the host, and staged */
        kiln_plan_options options = {.struct_size = sizeof options,
                                     .backend = i ? "fake" : "alpha"};
        kiln_plan *plan;
        good = good && kiln_plan_create(runtime, ACME_AXPY, &desc.head, &options, &plan) == KILN_OK;
        good = good && kiln_plan_run(plan, NULL, &args.head) == KILN_OK;
        if (good)
            kiln_plan_release(plan);
    }
    good = good && y[0] == 2;
    kiln_runtime_close(runtime);
    return good;
}

/* ---- Threads ---- */

static void cycle_often(void *argument, int64_t index)
{
    for (int64_t i = 0; i < 8; i++)
        if (!cycle(index * 8 + i))
            atomic_fetch_add((_Atomic int64_t *)argument, 1);
}

static void test_eight_threads_open_and_close(void **state)
{
    (void)state;
    _Atomic int64_t failures = 0;
    fixture_threads(8, cycle_often, &failures);
    assert_int_equal(failures, 0);
}

/* ---- Nothing is left behind ---- */

enum { SANITIZED = FIXTURE_TSAN || FIXTURE_ASAN };

typedef struct footprint {
    int64_t descriptors, mappings, threads;
    size_t heap;
} footprint;

static int64_t count_entries(const char *folder)
{
    DIR *directory = opendir(folder);
    int64_t count = 0;
    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static int64_t count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int64_t count = 0;
    assert_non_null(file);
    for (int c; (c = fgetc(file)) != EOF;)
        count += c == '\n';
    fclose(file);
    return count;
}

/* A thread that was joined may still be seen for a moment. */
static int64_t count_threads(int64_t expected)
{
    int64_t count = count_entries("/proc/self/task");
    for (int i = 0; i < 10000 && count > expected; i++) {
        fixture_sleep_us(1000);
        count = count_entries("/proc/self/task");
    }
    return count;
}

static footprint measure(int64_t threads)
{
    malloc_trim(0);
    return (footprint){.descriptors = count_entries("/proc/self/fd"),
                       .mappings = count_lines("/proc/self/maps"),
                       .threads = count_threads(threads),
                       .heap = mallinfo2().uordblks + mallinfo2().hblkhd};
}

/* After 10 cycles and after 1,000 more the process has the same descriptors, mappings and bytes in
 * use, and the threads that it began with: not one may differ. */
static void test_nothing_is_left_behind(void **state)
{
    (void)state;
    int64_t many = SANITIZED ? 60 : 1000;
    /* ThreadSanitizer adds one of its own to the first. */
    int64_t threads = count_entries("/proc/self/task") + FIXTURE_TSAN;
    for (int64_t i = 0; i < 10; i++)
        assert_true(cycle(i));
    footprint early = measure(threads), middle = early;
    for (int64_t i = 0; i < many; i++) {
        assert_true(cycle(i % 1000));
        if (i == many / 2)
            middle = measure(threads);
    }
    footprint late = measure(threads);
    print_message("descriptors %lld, %lld; mappings %lld, %lld, %lld; threads %lld, %lld; bytes "
                  "%zu, %zu, %zu\n",
                  (long long)early.descriptors, (long long)late.descriptors,
                  (long long)early.mappings, (long long)middle.mappings, (long long)late.mappings,
                  (long long)early.threads, (long long)late.threads, early.heap, middle.heap,
                  late.heap);
    assert_int_equal(early.descriptors, late.descriptors);
    assert_int_equal(early.threads, threads);
    assert_int_equal(late.threads, threads);
    if (SANITIZED)
        return; /* their own memory grows */
    assert_int_equal(early.mappings, late.mappings);
    /* A chunk may be some bytes larger than was asked for when what would be left of it is too
     * small to stand alone; the smallest leak, 16 bytes a cycle, would show as 16,000. */
    assert_in_range(late.heap, early.heap - 256, early.heap + 256);
}

/* What a thread keeps for its next allocation counts as in use; so without that. It can be said
 * only before the process begins. */
static void begin_without_thread_caches(char **arguments)
{
    if (SANITIZED || getenv("GLIBC_TUNABLES"))
        return;
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
    execv("/proc/self/exe", arguments);
}

int main(int count, char **arguments)
{
    (void)count;
    begin_without_thread_caches(arguments);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_is_left_behind),
        TEST(test_wrong_options),
        TEST(test_odd_teams),
        TEST(test_settings),
        TEST(test_devices),
        TEST(test_status_words),
        TEST(test_two_runtimes),
        TEST(test_isolation),
        TEST(test_eight_threads_open_and_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
