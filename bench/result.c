/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting what was measured. */
#include "bench/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bench_samples bench_samples_copy(const double *values, int64_t count)
{
    bench_samples samples = {NULL, 0};
    samples.values = count > 0 ? malloc((size_t)count * sizeof *values) : NULL;
    if (samples.values) {
        memcpy(samples.values, values, (size_t)count * sizeof *values);
        samples.count = count;
    }
    return samples;
}

bool bench_result_beyond(const bench_result *result)
{
    return !isnan(result->limit_ns) && !(result->median.value <= result->limit_ns);
}

/* Room for one more element at the end of an array of `count`; NULL when memory is exhausted. */
static void *grow(void *array, int64_t count, size_t size)
{
    return realloc(array, (size_t)(count + 1) * size);
}

bool bench_report_add(bench_report *report, const bench_result *result)
{
    bench_result *results = grow(report->results, report->result_count, sizeof *results);
    if (!results)
        return false;
    report->results = results;
    results[report->result_count++] = *result;
    return true;
}

bool bench_report_fail(bench_report *report, const char *shape, const char *backend,
                       const bench_message *message)
{
    bench_failure *failures = grow(report->failures, report->failure_count, sizeof *failures);
    if (!failures)
        return false;
    report->failures = failures;
    bench_failure *failure = &failures[report->failure_count++];
    snprintf(failure->shape, sizeof failure->shape, "%s", shape);
    snprintf(failure->backend, sizeof failure->backend, "%s", backend);
    failure->message = *message;
    return true;
}

bool bench_report_note(bench_report *report, const char *text)
{
    bench_message *notes = grow(report->notes, report->note_count, sizeof *notes);
    if (!notes)
        return false;
    report->notes = notes;
    snprintf(notes[report->note_count++].text, sizeof notes->text, "%s", text);
    return true;
}

static bench_ceiling_result *find_ceiling(bench_report *report, const char *name)
{
    for (int64_t i = 0; i < report->ceiling_count; i++)
        if (strcmp(report->ceilings[i].name, name) == 0)
            return &report->ceilings[i];
    bench_ceiling_result *ceilings =
        grow(report->ceilings, report->ceiling_count, sizeof *ceilings);
    if (!ceilings)
        return NULL;
    report->ceilings = ceilings;
    bench_ceiling_result *ceiling = &ceilings[report->ceiling_count++];
    memset(ceiling, 0, sizeof *ceiling);
    snprintf(ceiling->name, sizeof ceiling->name, "%s", name);
    return ceiling;
}

bool bench_report_ceiling(bench_report *report, const char *name, const char *kernel, bool bytes,
                          int64_t threads, const double *rates, int64_t count)
{
    bench_ceiling_result *ceiling = find_ceiling(report, name);
    if (!ceiling)
        return false;
    snprintf(ceiling->kernel, sizeof ceiling->kernel, "%s", kernel);
    ceiling->bytes = bytes;
    ceiling->threads = threads;
    double *values =
        realloc(ceiling->rates.values, (size_t)(ceiling->rates.count + count) * sizeof *values);
    if (!values)
        return count == 0;
    memcpy(values + ceiling->rates.count, rates, (size_t)count * sizeof *values);
    ceiling->rates = (bench_samples){values, ceiling->rates.count + count};
    return true;
}

bool bench_report_void(const bench_report *report)
{
    for (int64_t i = 0; i < report->result_count; i++)
        if (report->results[i].void_reason[0])
            return true;
    return false;
}

bool bench_report_beyond(const bench_report *report)
{
    for (int64_t i = 0; i < report->result_count; i++)
        if (bench_result_beyond(&report->results[i]))
            return true;
    return false;
}

void bench_report_free(bench_report *report)
{
    for (int64_t i = 0; i < report->result_count; i++) {
        bench_result *result = &report->results[i];
        free(result->samples.values);
        for (int64_t j = 0; j < result->peer_count; j++)
            free(result->peers[j].samples.values);
    }
    for (int64_t i = 0; i < report->ceiling_count; i++)
        free(report->ceilings[i].rates.values);
    free(report->results);
    free(report->ceilings);
    free(report->failures);
    free(report->notes);
    memset(report, 0, sizeof *report);
}
