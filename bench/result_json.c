/* SPDX-License-Identifier: Apache-2.0 */
/* A run as JSON. */
#include <math.h>

#include "bench/replay.h"

/* null for what does not apply: JSON has no NaN. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *interval(bench_estimate estimate)
{
    return json_pack("[o,o]", number(estimate.low), number(estimate.high));
}

static json_t *numbers(const bench_samples *samples)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < samples->count; i++)
        json_array_append_new(array, number(samples->values[i]));
    return array;
}

static json_t *peers(const bench_result *result)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < result->peer_count; i++) {
        const bench_peer_result *peer = &result->peers[i];
        json_array_append_new(array,
                              json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "name", peer->name,
                                        "version", peer->version, "kernel", peer->kernel,
                                        "median_ns", number(peer->median_ns), "ratio",
                                        number(peer->ratio.value), "ratio_interval",
                                        interval(peer->ratio), "samples", numbers(&peer->samples)));
    }
    return array;
}

static json_t *checks(const bench_result *result)
{
    return json_pack("{s:o, s:o, s:I}", "ceiling_pct", number(result->check_ceiling), "self_ratio",
                     number(result->check_self), "attempts", (json_int_t)result->attempts);
}

/* Members that every case has, in the order in which they are documented. */
static json_t *common(const bench_result *result)
{
    double median_ns = result->model ? NAN : result->median.value;
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "operator", result->operator_name,
        "shape", result->shape, "dtype", result->dtype, "backend", result->backend, "threads",
        (json_int_t)result->threads, "median_ns", number(median_ns), "gflops",
        number(result->gflops), "ceiling_pct", number(result->ceiling_pct), "samples",
        numbers(&result->samples), "peers", peers(result));
    if (!object)
        return NULL;
    json_object_set_new(object, "sample_unit", json_string(result->model ? "cycles" : "ns"));
    json_object_set_new(object, "median_interval", interval(result->median));
    json_object_set_new(object, "device", json_string(result->device));
    json_object_set_new(object, "kernel", json_string(result->kernel));
    json_object_set_new(object, "void", json_boolean(result->void_reason[0] != 0));
    json_object_set_new(object, "checks", checks(result));
    return object;
}

static json_t *case_object(const bench_report *report, const bench_result *result)
{
    json_t *object = common(result);
    if (!object)
        return NULL;
    if (result->ceiling[0])
        json_object_set_new(object, "ceiling", json_string(result->ceiling));
    if (result->void_reason[0])
        json_object_set_new(object, "void_reason", json_string(result->void_reason));
    if (result->note[0])
        json_object_set_new(object, "note", json_string(result->note));
    if (result->model) {
        json_object_set_new(object, "model", json_true());
        json_object_set_new(object, "median_cycles", number(result->median.value));
    }
    if (result->calls > 0) {
        json_object_set_new(object, "calls", json_integer(result->calls));
        json_object_set_new(object, "share", number(bench_share(report, result)));
    }
    if (!isnan(result->limit_ns)) {
        json_object_set_new(object, "limit_ns", number(result->limit_ns));
        json_object_set_new(object, "pass", json_boolean(!bench_result_beyond(result)));
    }
    return object;
}

static json_t *ceilings(const bench_report *report)
{
    json_t *object = json_object();
    for (int64_t i = 0; i < report->ceiling_count; i++) {
        const bench_ceiling_result *ceiling = &report->ceilings[i];
        double median = bench_median(ceiling->rates.values, ceiling->rates.count);
        json_object_set_new(object, ceiling->name,
                            json_pack("{s:o, s:s, s:I, s:o}", ceiling->bytes ? "gbps" : "gflops",
                                      number(median), "kernel", ceiling->kernel, "threads",
                                      (json_int_t)ceiling->threads, "samples",
                                      numbers(&ceiling->rates)));
    }
    return object;
}

static json_t *failures(const bench_report *report)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < report->failure_count; i++)
        json_array_append_new(array,
                              json_pack("{s:s, s:s, s:s}", "shape", report->failures[i].shape,
                                        "backend", report->failures[i].backend, "error",
                                        report->failures[i].message.text));
    return array;
}

static json_t *notes(const bench_report *report)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < report->note_count; i++)
        json_array_append_new(array, json_string(report->notes[i].text));
    return array;
}

static json_t *method(const bench_report *report)
{
    return json_pack("{s:I, s:I, s:I}", "slice_ns", (json_int_t)report->slice_ns, "rounds",
                     (json_int_t)report->rounds, "seed", (json_int_t)report->seed);
}

json_t *bench_report_json(const bench_report *report)
{
    json_t *cases = json_array();
    for (int64_t i = 0; i < report->result_count; i++)
        json_array_append_new(cases, case_object(report, &report->results[i]));
    json_t *object =
        json_pack("{s:o, s:o, s:o, s:b, s:b, s:o, s:o, s:o}", "host", bench_host_json(), "ceilings",
                  ceilings(report), "cases", cases, "void", bench_report_void(report),
                  "interrupted", report->interrupted, "method", method(report), "failures",
                  failures(report), "notes", notes(report));
    if (object && report->replay_shapes > 0)
        json_object_set_new(object, "replay", bench_replay_json(report));
    return object;
}
