/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning records: stored and found again, in the runtime and through the file; trusted only for
 * their own descriptor, backend and device; lines that are none are passed over; they reach the
 * plans. */
#include "tests/core/fake_device.h"
#include "tests/core/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALPHA, BETA, GAMMA };

static int set_up(void **state)
{
    fake_backends_reset();
    return fake_device_set_up(state);
}

static int tear_down(void **state)
{
    return fake_backends_tear_down(state) | fake_device_tear_down(state);
}

static char path[4200];

static kiln_runtime *open_with_file(const char *more)
{
    char profile[5000];
    snprintf(profile, sizeof profile, "plugins: [alpha, beta, fake]\ntuning: {file: '%s'%s}", path,
             more);
    return fixture_open(profile);
}

static void new_file(const char *text)
{
    snprintf(path, sizeof path, "%s/tuning.jsonl", fixture_folder());
    if (!text)
        return;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static acme_axpy_desc axpy(int64_t count)
{
    return (acme_axpy_desc){{sizeof(acme_axpy_desc), 0}, count, KILN_F32, 0};
}

static const kiln_parameter two[] = {{"block", 64}, {"unroll \"x\"", -9223372036854775807 - 1}};
static const kiln_parameter other[] = {{"block", INT64_MAX}};

static void store(kiln_runtime *runtime, int64_t count, kiln_device *device, const char *backend,
                  const kiln_parameter *parameters, int64_t parameter_count, int64_t ns)
{
    acme_axpy_desc desc = axpy(count);
    assert_ok(kiln_tuning_store(runtime, ACME_AXPY, &desc.head, device, backend, parameters,
                                parameter_count, ns));
}

/* What is on record, compared. */
static void assert_found(kiln_runtime *runtime, int64_t count, kiln_device *device,
                         const char *backend, const kiln_parameter *parameters,
                         int64_t parameter_count, int64_t ns)
{
    acme_axpy_desc desc = axpy(count);
    kiln_parameter found[4];
    int64_t found_count = -1, found_ns = -1;
    memset(found, 0, sizeof found);
    assert_ok(kiln_tuning_lookup(runtime, ACME_AXPY, &desc.head, device, backend, found, 4,
                                 &found_count, &found_ns));
    assert_int_equal(found_count, parameter_count);
    assert_int_equal(found_ns, ns);
    for (int64_t i = 0; i < parameter_count; i++) {
        assert_string_equal(found[i].name, parameters[i].name);
        assert_true(found[i].value == parameters[i].value);
    }
}

static void assert_not_found(kiln_runtime *runtime, int64_t count, kiln_device *device,
                             const char *backend)
{
    acme_axpy_desc desc = axpy(count);
    kiln_parameter found[1];
    int64_t found_count = 5, ns = 6;
    assert_fails(kiln_tuning_lookup(runtime, ACME_AXPY, &desc.head, device, backend, found, 1,
                                    &found_count, &ns),
                 KILN_NOT_FOUND, "no tuning record");
    assert_int_equal(found_count, 5);
    assert_int_equal(ns, 6);
}

/* ---- Round trip ---- */

static void test_round_trip(void **state)
{
    (void)state;
    new_file(NULL);
    for (int pass = 0; pass < 2; pass++) {
        kiln_runtime *runtime = open_with_file("");
        kiln_device *host = kiln_device_at(runtime, 0), *device = kiln_device_at(runtime, 1),
                    *twin = kiln_device_at(runtime, 2);
        if (pass == 0) {
            assert_not_found(runtime, 10, host, "alpha");
            store(runtime, 10, host, "alpha", other, 1, 100);
            store(runtime, 10, host, "alpha", two, 2, 90); /* the last counts */
            store(runtime, 10, host, "beta", other, 1, 80);
            store(runtime, 20, host, "alpha", NULL, 0, 0);
            store(runtime, 10, device, "fake", other, 1, INT64_MAX);
        }
        assert_found(runtime, 10, host, "alpha", two, 2, 90);
        assert_found(runtime, 10, host, "beta", other, 1, 80);
        assert_found(runtime, 20, host, "alpha", NULL, 0, 0);
        assert_found(runtime, 10, device, "fake", other, 1, INT64_MAX);
        assert_not_found(runtime, 30, host, "alpha");
        assert_not_found(runtime, 10, host, "gamma");
        assert_not_found(runtime, 10, twin, "fake"); /* another fingerprint */
        assert_not_found(runtime, 10, device, "alpha");
        kiln_runtime_close(runtime);
        assert_string_equal(fixture_log(), "");
    }
}

static void test_without_a_file(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]"),
                 *second = fixture_open("plugins: [alpha]");
    store(runtime, 10, kiln_device_at(runtime, 0), "alpha", two, 2, 1);
    assert_found(runtime, 10, kiln_device_at(runtime, 0), "alpha", two, 2, 1);
    assert_not_found(second, 10, kiln_device_at(second, 0), "alpha");
    kiln_runtime_close(runtime);
    kiln_runtime_close(second);
}

static void test_little_room(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    kiln_device *host = kiln_device_at(runtime, 0);
    acme_axpy_desc desc = axpy(10);
    kiln_parameter found[2];
    int64_t count = 0;
    store(runtime, 10, host, "alpha", two, 2, 1);
    memset(found, 0x55, sizeof found);
    assert_ok(
        kiln_tuning_lookup(runtime, ACME_AXPY, &desc.head, host, "alpha", found, 1, &count, NULL));
    assert_int_equal(count, 2);
    assert_string_equal(found[0].name, "block");
    assert_int_equal(found[1].value, 0x5555555555555555);
    assert_ok(
        kiln_tuning_lookup(runtime, ACME_AXPY, &desc.head, host, "alpha", NULL, 0, &count, NULL));
    assert_ok(
        kiln_tuning_lookup(runtime, ACME_AXPY, &desc.head, host, "alpha", NULL, -3, &count, NULL));
    assert_int_equal(count, 2);
    kiln_runtime_close(runtime);
}

/* ---- What is refused ---- */

static void test_wrong_records(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]"), *stranger = fixture_open(NULL);
    kiln_device *host = kiln_device_at(runtime, 0);
    acme_axpy_desc desc = axpy(10);
    kiln_parameter many[33], unterminated = {.value = 1}, nameless = {.name = ""},
                             twice[] = {{"a", 1}, {"a", 2}};
    memset(many, 0, sizeof many);
    memset(unterminated.name, 'x', sizeof unterminated.name);
#define REFUSED(...) \
    assert_int_equal(kiln_tuning_store(runtime, ACME_AXPY, &desc.head, __VA_ARGS__), KILN_INVALID)
    REFUSED(host, "alpha", many, 33, 1);
    REFUSED(host, "alpha", many, -1, 1);
    REFUSED(host, "alpha", NULL, 1, 1);
    REFUSED(host, "alpha", two, 2, -1);
    REFUSED(host, NULL, two, 2, 1);
    REFUSED(host, "a name of more than thirty-one bytes", two, 2, 1);
    REFUSED(host, "", two, 2, 1);
    REFUSED(host, "alpha\x7f", two, 2, 1);
    REFUSED(kiln_device_at(stranger, 0), "alpha", two, 2, 1);
    /* What could not be read back from the file. */
    REFUSED(host, "alpha", &unterminated, 1, 1);
    REFUSED(host, "alpha", &nameless, 1, 1);
    REFUSED(host, "alpha", twice, 2, 1);
    assert_not_found(runtime, 10, host, "alpha");
    desc.head.struct_size = 4;
    REFUSED(host, "alpha", two, 2, 1);
    assert_fails(kiln_tuning_store(runtime, "axpy", &desc.head, host, "alpha", two, 2, 1),
                 KILN_INVALID, "not an operator's name");
    kiln_runtime_close(runtime);
    kiln_runtime_close(stranger);
}

static void test_file_that_cannot_be_written(void **state)
{
    (void)state;
    kiln_runtime *runtime =
        fixture_open("plugins: [alpha]\ntuning: {file: /nonexistent/tuning.jsonl}");
    kiln_device *host = kiln_device_at(runtime, 0);
    acme_axpy_desc desc = axpy(10);
    assert_fails(kiln_tuning_store(runtime, ACME_AXPY, &desc.head, host, "alpha", two, 2, 1),
                 KILN_IO, "/nonexistent/tuning.jsonl");
    assert_not_found(runtime, 10, host, "alpha"); /* not half stored */
    kiln_runtime_close(runtime);
}

/* ---- Files as they may be found ---- */

static void test_malformed_lines(void **state)
{
    (void)state;
    new_file(NULL);
    kiln_runtime *runtime = open_with_file("");
    store(runtime, 10, kiln_device_at(runtime, 0), "alpha", two, 2, 90);
    kiln_runtime_close(runtime);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    static const char *const lines[] = {
        "",
        "no record",
        "{",
        "[]",
        "{}",
        "{\"operator\":\"acme.axpy/1\"}",
        "{\"operator\":\"a/"
        "1\",\"backend\":\"alpha\",\"fingerprint\":\"f\",\"descriptor\":\"0g\",\"measured_ns\":1,"
        "\"parameters\":{}}",
        "{\"operator\":\"a/"
        "1\",\"backend\":\"alpha\",\"fingerprint\":\"f\",\"descriptor\":\"00\",\"measured_ns\":-1,"
        "\"parameters\":{}}",
        "{\"operator\":\"a/"
        "1\",\"backend\":\"alpha\",\"fingerprint\":\"f\",\"descriptor\":\"00\",\"measured_ns\":1,"
        "\"parameters\":[]}",
        "{\"operator\":\"a/"
        "1\",\"backend\":\"alpha\",\"fingerprint\":\"f\",\"descriptor\":\"00\",\"measured_ns\":1,"
        "\"parameters\":{\"a\":\"b\"}}",
        "{\"operator\":\"a/"
        "1\",\"backend\":\"alpha\",\"fingerprint\":\"f\",\"descriptor\":\"00\",\"measured_ns\":"
        "99999999999999999999,\"parameters\":{}}",
        "\x01\x02\xff\xfe",
        "{\"operator\":\"acme.axpy/1\",\"backend\":\"alp",
    };
    for (int64_t i = 0; i < COUNT(lines); i++)
        fprintf(file, "%s\n", lines[i]);
    fclose(file);
    runtime = open_with_file("");
    char words[64];
    for (int64_t i = 1; i < COUNT(lines); i++) {
        snprintf(words, sizeof words, "tuning.jsonl:%lld: not a tuning record", (long long)i + 2);
        assert_says(fixture_log(), words);
    }
    fixture_clear_log();
    assert_found(runtime, 10, kiln_device_at(runtime, 0), "alpha", two, 2, 90);
    store(runtime, 20, kiln_device_at(runtime, 0), "alpha", other, 1,
          1); /* behind the last, cut line */
    kiln_runtime_close(runtime);
    runtime = open_with_file("");
    assert_found(runtime, 20, kiln_device_at(runtime, 0), "alpha", other, 1, 1);
    kiln_runtime_close(runtime);
    fixture_clear_log();
}

/* A process that was killed while it wrote left half a line without an end. */
static void test_half_a_line(void **state)
{
    (void)state;
    new_file("{\"operator\":\"acme.axpy/1\",\"backend\":\"alp");
    kiln_runtime *runtime = open_with_file("");
    store(runtime, 20, kiln_device_at(runtime, 0), "alpha", other, 1, 1);
    kiln_runtime_close(runtime);
    runtime = open_with_file("");
    assert_found(runtime, 20, kiln_device_at(runtime, 0), "alpha", other, 1, 1);
    kiln_runtime_close(runtime);
    fixture_clear_log();
}

static void test_file_that_cannot_be_read(void **state)
{
    (void)state;
    new_file(NULL);
    assert_int_equal(mkdir(path, 0755), 0);
    fixture_clear_log();
    kiln_runtime *runtime = open_with_file(""); /* a folder */
    assert_says(fixture_log(), "tuning.jsonl");
    kiln_runtime_close(runtime);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0644), 0); /* to which nobody will write */
    fixture_clear_log();
    runtime = open_with_file("");
    assert_says(fixture_log(), "tuning.jsonl");
    kiln_runtime_close(runtime);
    fixture_clear_log();
}

/* ---- They reach the plans ---- */

static void plan_and_release(kiln_runtime *runtime, int64_t count, const kiln_plan_options *options)
{
    acme_axpy_desc desc = axpy(count);
    kiln_plan *plan;
    assert_ok(kiln_plan_create(runtime, ACME_AXPY, &desc.head, options, &plan));
    kiln_plan_release(plan);
}

static void test_parameters_reach_the_plan(void **state)
{
    (void)state;
    new_file(NULL);
    kiln_runtime *runtime = open_with_file("");
    kiln_device *host = kiln_device_at(runtime, 0);
    store(runtime, 10, host, "alpha", two, 2, 90);
    store(runtime, 10, host, "beta", other, 1, 90);
    plan_and_release(runtime, 10, NULL);
    assert_int_equal(fake_backends[ALPHA].parameter_count, 2);
    assert_string_equal(fake_backends[ALPHA].parameters[1].name, two[1].name);
    assert_true(fake_backends[ALPHA].parameters[1].value == two[1].value);
    kiln_plan_options options = {
        .struct_size = sizeof options, .parameters = other, .parameter_count = 1};
    plan_and_release(runtime, 10, &options); /* the caller's own come first */
    assert_int_equal(fake_backends[ALPHA].parameter_count, 1);
    assert_true(fake_backends[ALPHA].parameters[0].value == INT64_MAX);
    options = (kiln_plan_options){.struct_size = sizeof options, .backend = "beta"};
    plan_and_release(runtime, 10, &options);
    assert_int_equal(fake_backends[BETA].parameter_count, 1);
    plan_and_release(runtime, 11, NULL);
    assert_int_equal(fake_backends[ALPHA].parameter_count, 0);
    /* A plan that is shared already is made anew once there is something better to know. */
    store(runtime, 11, host, "alpha", other, 1, 90);
    plan_and_release(runtime, 11, NULL);
    assert_int_equal(fake_backends[ALPHA].parameter_count, 1);
    kiln_runtime_close(runtime);
    runtime = open_with_file(", use: false");
    plan_and_release(runtime, 10, NULL);
    assert_int_equal(fake_backends[ALPHA].parameter_count, 0);
    assert_found(runtime, 10, kiln_device_at(runtime, 0), "alpha", two, 2,
                 90); /* but they can be asked for */
    kiln_runtime_close(runtime);
}

/* ---- Threads ---- */

static void store_and_look_up(void *argument, int64_t index)
{
    kiln_runtime *runtime = argument;
    for (int64_t i = 0; i < 40; i++) {
        acme_axpy_desc desc = axpy(i);
        kiln_parameter parameter = {"x", index}, found;
        int64_t count;
        kiln_tuning_store(runtime, ACME_AXPY, &desc.head, kiln_device_at(runtime, 0), "alpha",
                          &parameter, 1, 1);
        kiln_tuning_lookup(runtime, ACME_AXPY, &desc.head, kiln_device_at(runtime, 0), "alpha",
                           &found, 1, &count, NULL);
    }
}

static void test_from_many_threads(void **state)
{
    (void)state;
    new_file(NULL);
    kiln_runtime *runtime = open_with_file("");
    fixture_threads(6, store_and_look_up, runtime);
    kiln_runtime_close(runtime);
    runtime = open_with_file("");
    assert_string_equal(fixture_log(), ""); /* every line is whole */
    acme_axpy_desc desc = axpy(39);
    kiln_parameter found;
    int64_t count;
    assert_ok(kiln_tuning_lookup(runtime, ACME_AXPY, &desc.head, kiln_device_at(runtime, 0),
                                 "alpha", &found, 1, &count, NULL));
    kiln_runtime_close(runtime);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_round_trip),
        TEST(test_without_a_file),
        TEST(test_little_room),
        TEST(test_wrong_records),
        TEST(test_file_that_cannot_be_written),
        TEST(test_malformed_lines),
        TEST(test_half_a_line),
        TEST(test_file_that_cannot_be_read),
        TEST(test_parameters_reach_the_plan),
        TEST(test_from_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
