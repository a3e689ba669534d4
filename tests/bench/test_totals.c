/* SPDX-License-Identifier: Apache-2.0 */
/* What a replay amounts to, from results that are made up: totals, shares, what is missing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/replay.h"

static bench_result *add(bench_report *report, const char *backend, const char *device,
                         double median, int64_t calls)
{
    bench_result result;
    memset(&result, 0, sizeof result);
    strcpy(result.operator_name, "kiln.gemm/1");
    snprintf(result.shape, sizeof result.shape, "m=%lld n=1 k=1",
             (long long)report->result_count + 1);
    strcpy(result.dtype, "f32");
    strcpy(result.backend, backend);
    strcpy(result.device, device);
    result.threads = 1;
    result.median = (bench_estimate){median, median / 2, median * 2};
    result.gflops = 1;
    result.ceiling_pct = 50;
    result.check_ceiling = result.check_self = result.limit_ns = NAN;
    result.calls = calls;
    assert_true(bench_report_add(report, &result));
    return &report->results[report->result_count - 1];
}

static void add_peer(bench_result *result, const char *name, double median)
{
    bench_peer_result *peer = &result->peers[result->peer_count++];
    strcpy(peer->name, name);
    peer->median_ns = median;
    peer->ratio = (bench_estimate){median / result->median.value, NAN, NAN};
}

/* Three shapes on two backends; the third one is on one of them only, and a peer computes two. */
static bench_report some_replay(void)
{
    bench_report report;
    memset(&report, 0, sizeof report);
    report.replay_shapes = 4;
    report.replay_calls = 1111;
    add_peer(add(&report, "ref", "host", 100, 1000), "openblas", 10);
    add(&report, "cpu", "host", 20, 1000);
    add_peer(add(&report, "ref", "host", 3000, 100), "openblas", 6000);
    strcpy(add(&report, "cpu", "host", 700, 100)->void_reason, "noise");
    add(&report, "ref", "host", 50000, 10);
    add(&report, "npu", "npu:0", 400, 10)->model = true;
    return report;
}

static const bench_total *find(const bench_total *totals, int64_t count, const char *backend,
                               const char *peer)
{
    for (int64_t i = 0; i < count; i++)
        if (strcmp(totals[i].backend, backend) == 0 && strcmp(totals[i].peer, peer) == 0)
            return &totals[i];
    fail_msg("there is no total of %s %s", backend, peer);
    return NULL;
}

static void test_totals(void **state)
{
    (void)state;
    bench_report report = some_replay();
    bench_total totals[BENCH_MAXIMUM_TOTALS];
    int64_t count = bench_totals(&report, totals, BENCH_MAXIMUM_TOTALS);
    assert_int_equal(count, 4);
    const bench_total *ref = find(totals, count, "ref", ""), *cpu = find(totals, count, "cpu", ""),
                      *npu = find(totals, count, "npu", ""),
                      *peer = find(totals, count, "ref", "openblas");
    assert_true(ref->sum.value == 100000 + 300000 + 500000);
    assert_true(ref->sum.low == 450000 && ref->sum.high == 1800000);
    assert_int_equal(ref->shapes, 3);
    assert_int_equal(ref->calls, 1110);
    assert_int_equal(ref->void_shapes, 0);
    assert_true(cpu->sum.value == 20000 + 70000);
    assert_int_equal(cpu->shapes, 2);
    assert_int_equal(cpu->void_shapes, 1);
    assert_true(npu->model && npu->sum.value == 4000);
    assert_true(peer->sum.value == 10000 + 600000);
    assert_true(isnan(peer->sum.low) && isnan(peer->sum.high));
    assert_true(peer->backend_sum == 100000 + 300000); /* without the shape that it did not do */
    assert_int_equal(peer->shapes, 2);
    assert_int_equal(peer->calls, 1100);
    /* No more than there is room for. */
    assert_int_equal(bench_totals(&report, totals, 2), 2);
    assert_int_equal(bench_totals(&report, totals, 0), 0);
    bench_report_free(&report);
}

static void test_shares(void **state)
{
    (void)state;
    bench_report report = some_replay();
    static const double expected[] = {1.0 / 9, 2.0 / 9, 3.0 / 9, 7.0 / 9, 5.0 / 9, 1};
    for (int i = 0; i < 6; i++) {
        double share = bench_share(&report, &report.results[i]);
        if (!(fabs(share - expected[i]) < 1e-12))
            fail_msg("share %d is %g instead of %g", i, share, expected[i]);
    }
    bench_report_free(&report);
}

/* Everything that was printed. */
static char *printed(void (*print)(FILE *file, const bench_report *report),
                     const bench_report *report)
{
    static char *text; /* static: gcc takes what open_memstream puts there for its own address */
    static size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    print(file, report);
    fclose(file);
    return text;
}

static void assert_has(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("'%s' is missing in:\n%s", words, text);
}

/* What stands behind the words. */
static const char *after(const char *text, const char *words)
{
    assert_has(text, words);
    return strstr(text, words) + strlen(words);
}

static void test_table(void **state)
{
    (void)state;
    bench_report report = some_replay();
    char *text = printed(bench_replay_table, &report);
    assert_has(text,
               "total ref: 900.0 us [450.0 us, 1.80 ms] for 1110 of 1111 calls, 3 of 4 shapes\n");
    assert_has(text, "total cpu: 90.0 us");
    assert_has(text, "; void measurements: 1\n");
    assert_has(text, "total npu on npu:0: 4000 cycles");
    assert_has(text, "total openblas (beside ref): 610.0 us for 1100 of 1111 calls, 2 of 4 shapes; "
                     "ref takes 400.0 us for these (ratio 1.525)\n");
    /* The largest share first. */
    assert_has(after(text, "m=6 n=1"), "m=4 n=1");
    assert_has(after(text, "m=4 n=1"), "m=1 n=1");
    free(text);
    bench_report_free(&report);
}

static void test_nothing_measured(void **state)
{
    (void)state;
    bench_report report;
    memset(&report, 0, sizeof report);
    report.replay_shapes = 2;
    report.replay_calls = 30;
    char *text = printed(bench_replay_table, &report);
    assert_has(text, "nothing was measured: calls: 30, shapes: 2");
    free(text);
    json_t *object = bench_replay_json(&report);
    assert_int_equal(json_array_size(json_object_get(object, "totals")), 0);
    json_decref(object);
}

static void test_json_and_csv(void **state)
{
    (void)state;
    bench_report report = some_replay();
    json_t *object = bench_report_json(&report);
    const json_t *replay = json_object_get(object, "replay"),
                 *totals = json_object_get(replay, "totals"), *peer = json_array_get(totals, 3),
                 *cases = json_object_get(object, "cases");
    assert_int_equal(json_integer_value(json_object_get(replay, "shapes")), 4);
    assert_int_equal(json_integer_value(json_object_get(replay, "calls")), 1111);
    assert_int_equal(json_array_size(totals), 4);
    assert_true(json_is_null(json_object_get(json_array_get(totals, 0), "peer")));
    assert_string_equal(json_string_value(json_object_get(peer, "peer")), "openblas");
    assert_true(json_real_value(json_object_get(peer, "ratio")) == 1.525);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(cases, 4), "calls")), 10);
    json_decref(object);
    char *text = printed(bench_report_csv, &report);
    assert_has(text, ",void,calls,share\n");
    assert_has(text, "\ntotal,,,ref,,kiln,900000,ns,,,,,,0,1110,1\n");
    assert_has(text, "\ntotal,,,ref,,openblas,610000,ns,,,1.525,,,0,1100,1\n");
    assert_has(text, "\ntotal,,,npu,,kiln,4000,cycles,,,,,,0,10,1\n");
    free(text);
    /* Without a replay neither has anything of it. */
    report.replay_shapes = 0;
    for (int64_t i = 0; i < report.result_count; i++)
        report.results[i].calls = 0;
    object = bench_report_json(&report);
    assert_null(json_object_get(object, "replay"));
    json_decref(object);
    text = printed(bench_report_csv, &report);
    assert_null(strstr(text, "share"));
    assert_null(strstr(text, "total"));
    free(text);
    bench_report_free(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_totals),       cmocka_unit_test(test_shares),
        cmocka_unit_test(test_table),        cmocka_unit_test(test_nothing_measured),
        cmocka_unit_test(test_json_and_csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
