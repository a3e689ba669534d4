/* SPDX-License-Identifier: Apache-2.0 */
/* What `kiln bench` prints: the JSON object has the members that it promises, of the right kinds;
 * tables. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/result.h"

/* ---- A report that is made up ---- */

static bench_result some_result(void)
{
    static const double times[] = {110, 100, 90, 105, 95, 100};
    bench_result result;
    memset(&result, 0, sizeof result);
    strcpy(result.operator_name, "kiln.gemm/1");
    strcpy(result.shape, "m=2 n=5 k=7");
    strcpy(result.dtype, "f32");
    strcpy(result.backend, "ref");
    strcpy(result.device, "host");
    strcpy(result.kernel, "loop");
    result.threads = 2;
    result.samples = bench_samples_copy(times, 6);
    result.median = bench_median_estimate(times, 6);
    result.gflops = 1.4;
    result.ceiling_pct = 50;
    strcpy(result.ceiling, "f32");
    result.check_ceiling = 100.2;
    result.check_self = 0.999;
    result.attempts = 1;
    result.limit_ns = NAN;
    return result;
}

static void add_peer(bench_result *result)
{
    static const double times[] = {210, 200, 190};
    bench_peer_result *peer = &result->peers[result->peer_count++];
    memset(peer, 0, sizeof *peer);
    strcpy(peer->name, "openblas");
    strcpy(peer->version, "0.3.21");
    strcpy(peer->kernel, "SkylakeX");
    peer->samples = bench_samples_copy(times, 3);
    peer->median_ns = 200;
    peer->ratio = (bench_estimate){2, 1.9, 2.1};
}

static bench_report some_report(void)
{
    static const double rates[] = {2.9, 2.8, 2.7};
    bench_report report;
    memset(&report, 0, sizeof report);
    bench_result result = some_result();
    add_peer(&result);
    assert_true(bench_report_add(&report, &result));
    assert_true(bench_report_ceiling(&report, "f32", "fma", false, 2, rates, 2));
    assert_true(bench_report_ceiling(&report, "memory 208+40", "loads", true, 2, rates, 3));
    assert_true(bench_report_ceiling(&report, "f32", "fma", false, 2, rates + 2, 1));
    report.slice_ns = 20000000;
    report.rounds = 6;
    report.seed = 1;
    return report;
}

/* As a reader sees it: through text. */
static json_t *round_trip(const bench_report *report)
{
    json_t *object = bench_report_json(report);
    assert_non_null(object);
    char *text = json_dumps(object, 0);
    json_decref(object);
    assert_non_null(text);
    json_error_t error;
    json_t *read = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (!read)
        fail_msg("%s", error.text);
    return read;
}

/* ---- JSON ---- */

/* A member and the kinds that it may have: s text, i whole number, r number, n null, a array, o
 * object, b boolean. */
typedef struct member {
    const char *name;
    const char *kinds;
} member;

static char kind_of(const json_t *value)
{
    return json_is_string(value)    ? 's'
           : json_is_integer(value) ? 'i'
           : json_is_real(value)    ? 'r'
           : json_is_null(value)    ? 'n'
           : json_is_array(value)   ? 'a'
           : json_is_object(value)  ? 'o'
           : json_is_boolean(value) ? 'b'
                                    : '?';
}

static void assert_members(const json_t *object, const member *members, size_t count)
{
    assert_true(json_is_object(object));
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(object, members[i].name);
        if (!value)
            fail_msg("'%s' is missing", members[i].name);
        if (!strchr(members[i].kinds, kind_of(value)))
            fail_msg("'%s' is of kind %c, not one of %s", members[i].name, kind_of(value),
                     members[i].kinds);
    }
}

#define ASSERT_MEMBERS(object, members) \
    assert_members(object, members, sizeof(members) / sizeof(members)[0])

static const member top_members[] = {{"host", "o"},     {"ceilings", "o"},    {"cases", "a"},
                                     {"void", "b"},     {"interrupted", "b"}, {"method", "o"},
                                     {"failures", "a"}, {"notes", "a"}};
static const member case_members[] = {
    {"operator", "s"}, {"shape", "s"},      {"dtype", "s"},       {"backend", "s"},
    {"threads", "i"},  {"median_ns", "rn"}, {"gflops", "rn"},     {"ceiling_pct", "rn"},
    {"samples", "a"},  {"peers", "a"},      {"device", "s"},      {"kernel", "s"},
    {"void", "b"},     {"checks", "o"},     {"sample_unit", "s"}, {"median_interval", "a"}};
static const member peer_members[] = {{"name", "s"},          {"version", "s"}, {"kernel", "s"},
                                      {"median_ns", "r"},     {"ratio", "r"},   {"samples", "a"},
                                      {"ratio_interval", "a"}};
static const member host_members[] = {
    {"cpu", "s"},    {"processors", "i"},   {"page_bytes", "i"}, {"memory_bytes", "i"},
    {"system", "s"}, {"instructions", "a"}, {"kiln", "s"},       {"date", "s"}};

static double number_at(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static void json_of_a_case(void **state)
{
    (void)state;
    bench_report report = some_report();
    json_t *object = round_trip(&report);
    ASSERT_MEMBERS(object, top_members);
    ASSERT_MEMBERS(json_object_get(object, "host"), host_members);
    const json_t *one = json_array_get(json_object_get(object, "cases"), 0);
    ASSERT_MEMBERS(one, case_members);
    const json_t *peer = json_array_get(json_object_get(one, "peers"), 0);
    ASSERT_MEMBERS(peer, peer_members);
    assert_int_equal(json_array_size(json_object_get(one, "samples")), 6);
    assert_true(number_at(one, "median_ns") == 100);
    assert_true(number_at(peer, "ratio") ==
                number_at(peer, "median_ns") / number_at(one, "median_ns"));
    assert_string_equal(json_string_value(json_object_get(one, "sample_unit")), "ns");
    assert_null(json_object_get(one, "model"));
    assert_null(json_object_get(one, "limit_ns"));
    assert_false(json_is_true(json_object_get(object, "void")));
    json_decref(object);
    bench_report_free(&report);
}

static void json_of_ceilings(void **state)
{
    (void)state;
    static const member members[] = {{"kernel", "s"}, {"threads", "i"}, {"samples", "a"}};
    bench_report report = some_report();
    json_t *object = round_trip(&report);
    const json_t *ceilings = json_object_get(object, "ceilings");
    assert_int_equal(json_object_size(ceilings), 2);
    const json_t *f32 = json_object_get(ceilings, "f32"),
                 *memory = json_object_get(ceilings, "memory 208+40");
    ASSERT_MEMBERS(f32, members);
    ASSERT_MEMBERS(memory, members);
    assert_true(number_at(f32, "gflops") == 2.8); /* samples of both cases */
    assert_int_equal(json_array_size(json_object_get(f32, "samples")), 3);
    assert_true(number_at(memory, "gbps") == 2.8);
    assert_null(json_object_get(memory, "gflops"));
    json_decref(object);
    bench_report_free(&report);
}

/* A model has cycles, and never a time or a rate. */
static void json_of_a_model(void **state)
{
    (void)state;
    bench_report report;
    memset(&report, 0, sizeof report);
    bench_result result = some_result();
    result.model = true;
    result.gflops = result.ceiling_pct = result.check_ceiling = result.check_self = NAN;
    result.ceiling[0] = 0;
    assert_true(bench_report_add(&report, &result));
    json_t *object = round_trip(&report);
    const json_t *one = json_array_get(json_object_get(object, "cases"), 0);
    ASSERT_MEMBERS(one, case_members);
    assert_true(json_is_null(json_object_get(one, "median_ns")));
    assert_true(json_is_null(json_object_get(one, "gflops")));
    assert_true(json_is_null(json_object_get(one, "ceiling_pct")));
    assert_true(json_is_true(json_object_get(one, "model")));
    assert_true(number_at(one, "median_cycles") == 100);
    assert_string_equal(json_string_value(json_object_get(one, "sample_unit")), "cycles");
    json_decref(object);
    bench_report_free(&report);
}

static void json_of_limits_and_voids(void **state)
{
    (void)state;
    bench_report report;
    memset(&report, 0, sizeof report);
    for (int i = 0; i < 3; i++) {
        bench_result result = some_result();
        result.limit_ns = i == 0 ? 100 : 99.9;
        if (i == 2)
            result.median = (bench_estimate){NAN, NAN, NAN};
        if (i == 1)
            strcpy(result.void_reason, "noise");
        assert_true(bench_report_add(&report, &result));
    }
    assert_true(bench_report_void(&report));
    assert_true(bench_report_beyond(&report));
    json_t *object = round_trip(&report), *cases = json_object_get(object, "cases");
    assert_true(json_is_true(json_object_get(object, "void")));
    assert_true(json_is_true(json_object_get(json_array_get(cases, 0), "pass")));
    assert_true(json_is_false(json_object_get(json_array_get(cases, 1), "pass")));
    assert_true(json_is_false(
        json_object_get(json_array_get(cases, 2), "pass"))); /* no figure is no pass */
    assert_true(json_is_false(json_object_get(json_array_get(cases, 0), "void")));
    assert_string_equal(json_string_value(json_object_get(json_array_get(cases, 1), "void_reason")),
                        "noise");
    json_decref(object);
    bench_report_free(&report);
}

static void json_of_nothing(void **state)
{
    (void)state;
    bench_report report;
    bench_message message = {"it \"broke\""};
    memset(&report, 0, sizeof report);
    report.interrupted = true;
    assert_true(bench_report_fail(&report, "m=1", "ref", &message));
    assert_true(bench_report_note(&report, "a note"));
    json_t *object = round_trip(&report);
    ASSERT_MEMBERS(object, top_members);
    assert_int_equal(json_array_size(json_object_get(object, "cases")), 0);
    assert_true(json_is_true(json_object_get(object, "interrupted")));
    const json_t *failure = json_array_get(json_object_get(object, "failures"), 0);
    assert_string_equal(json_string_value(json_object_get(failure, "error")), message.text);
    assert_false(bench_report_void(&report) || bench_report_beyond(&report));
    json_decref(object);
    bench_report_free(&report);
}

/* ---- Tables ---- */

/* What a function prints, in allocated memory. */
static char *printed(void (*print)(FILE *file, const bench_report *report),
                     const bench_report *report)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    print(file, report);
    fclose(file);
    return text;
}

static void print_rows(FILE *file, const bench_report *report)
{
    bench_table_head(file);
    for (int64_t i = 0; i < report->result_count; i++)
        bench_table_row(file, &report->results[i]);
    bench_table_end(file, report);
}

static void tables(void **state)
{
    (void)state;
    bench_report report = some_report();
    bench_result model = some_result();
    model.model = true;
    strcpy(model.backend, "npu");
    strcpy(model.device, "npu:0");
    strcpy(model.void_reason, "noise");
    assert_true(bench_report_add(&report, &model));
    strcpy(report.results[0].ceiling, "memory 208+40");
    char *text = printed(print_rows, &report);
    static const char *const parts[] = {"m=2 n=5 k=7",
                                        "100.0 ns",
                                        "50.0 %",
                                        "openblas 0.3.21 SkylakeX",
                                        "2.000 [1.900, 2.100]",
                                        "npu on npu:0",
                                        "100 cycles of the model",
                                        "void: noise",
                                        "ceiling f32: 2.8 GFLOP/s, 2 threads, fma",
                                        "ceiling memory 208+40: 2.8 GB/s"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("'%s' is missing in:\n%s", parts[i], text);
    free(text);
    strcpy(report.results[0].ceiling, "f32");
    text = printed(print_rows, &report);
    assert_null(strstr(text, "ceiling memory"));
    free(text);
    bench_report_free(&report);
}

static void comma_separated(void **state)
{
    (void)state;
    bench_report report = some_report();
    strcpy(report.results[0].shape, "m=2 epilogues=bias,\"relu\"");
    char *text = printed(bench_report_csv, &report);
    assert_string_equal(
        text,
        "operator,shape,dtype,backend,threads,who,median,unit,gflops,ceiling_pct,ratio,ratio_low,"
        "ratio_high,void\n"
        "kiln.gemm/1,\"m=2 epilogues=bias,\"\"relu\"\"\",f32,ref,2,kiln,100,ns,1.4,50,,,,0\n"
        "kiln.gemm/1,\"m=2 "
        "epilogues=bias,\"\"relu\"\"\",f32,ref,2,openblas,200,ns,0.7,,2,1.9,2.1,0\n");
    free(text);
    bench_report_free(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_of_a_case),  cmocka_unit_test(json_of_ceilings),
        cmocka_unit_test(json_of_a_model), cmocka_unit_test(json_of_limits_and_voids),
        cmocka_unit_test(json_of_nothing), cmocka_unit_test(tables),
        cmocka_unit_test(comma_separated),
    };
    return cmocka_run_group_tests_name("bench/report", tests, NULL, NULL);
}
