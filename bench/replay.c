/* SPDX-License-Identifier: Apache-2.0 */
/* Adding up a replay, and telling it. */
#include "bench/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool same_place(const bench_result *result, const char *backend, const char *device)
{
    return strcmp(result->backend, backend) == 0 && strcmp(result->device, device) == 0;
}

/* ---- Totals ---- */

static bench_total *find(bench_total *totals, int64_t count, const bench_result *result,
                         const char *peer)
{
    for (int64_t i = 0; i < count; i++)
        if (same_place(result, totals[i].backend, totals[i].device) &&
            strcmp(totals[i].peer, peer) == 0)
            return &totals[i];
    return NULL;
}

/* The total of a result or of one of its peers, begun where it is new; NULL without room. */
static bench_total *get(bench_total *totals, int64_t capacity, int64_t *count,
                        const bench_result *result, const char *peer)
{
    bench_total *total = find(totals, *count, result, peer);
    if (total)
        return total;
    if (*count == capacity)
        return NULL;
    total = &totals[(*count)++];
    memset(total, 0, sizeof *total);
    snprintf(total->backend, sizeof total->backend, "%s", result->backend);
    snprintf(total->device, sizeof total->device, "%s", result->device);
    snprintf(total->peer, sizeof total->peer, "%s", peer);
    total->model = result->model;
    if (peer[0])
        total->sum.low = total->sum.high = NAN;
    return total;
}

static void add(bench_total *total, const bench_result *result, bench_estimate each)
{
    double calls = (double)result->calls;
    total->sum.value += calls * each.value;
    total->sum.low += calls * each.low;
    total->sum.high += calls * each.high;
    total->backend_sum += calls * result->median.value;
    total->shapes++;
    total->calls += result->calls;
    total->void_shapes += result->void_reason[0] != 0;
}

int64_t bench_totals(const bench_report *report, bench_total *totals, int64_t capacity)
{
    int64_t count = 0;
    for (int64_t i = 0; i < report->result_count; i++) {
        bench_total *total = get(totals, capacity, &count, &report->results[i], "");
        if (total)
            add(total, &report->results[i], report->results[i].median);
    }
    for (int64_t i = 0; i < report->result_count; i++)
        for (int64_t j = 0; j < report->results[i].peer_count; j++) {
            const bench_peer_result *peer = &report->results[i].peers[j];
            bench_total *total = get(totals, capacity, &count, &report->results[i], peer->name);
            if (total)
                add(total, &report->results[i], (bench_estimate){peer->median_ns, NAN, NAN});
        }
    return count;
}

double bench_share(const bench_report *report, const bench_result *result)
{
    double all = 0;
    for (int64_t i = 0; i < report->result_count; i++)
        if (same_place(&report->results[i], result->backend, result->device))
            all += (double)report->results[i].calls * report->results[i].median.value;
    return (double)result->calls * result->median.value / all;
}

/* ---- The table ---- */

typedef struct ranked {
    const bench_result *result;
    double share;
    int64_t number;
} ranked;

/* By backend and device as they first came, then the largest share first. */
static int compare(const void *left, const void *right)
{
    const ranked *a = left, *b = right;
    if (a->share != b->share)
        return a->share < b->share ? 1 : -1;
    return (a->number > b->number) - (a->number < b->number);
}

static const char *time_text(double amount, bool model, char text[48])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    int unit = 0;
    if (model) {
        snprintf(text, 48, "%.0f cycles", amount);
        return text;
    }
    while (fabs(amount) >= 999.95 && unit < 3) {
        amount /= 1000;
        unit++;
    }
    snprintf(text, 48, "%.*f %s", fabs(amount) < 9.995 ? 2 : 1, amount, units[unit]);
    return text;
}

static const char *place_text(const char *backend, const char *device, char text[80])
{
    bool host = strcmp(device, "host") == 0;
    snprintf(text, 80, "%s%s%s", backend, host ? "" : " on ", host ? "" : device);
    return text;
}

static void print_number(FILE *file, double value, int width, int digits, const char *unit)
{
    if (isfinite(value))
        fprintf(file, " %*.*f%s", width, digits, value, unit);
    else
        fprintf(file, " %*s", width + (int)strlen(unit), "-");
}

static void print_row(FILE *file, const ranked *row)
{
    const bench_result *result = row->result;
    char time[48], place[80];
    fprintf(file, "%12lld", (long long)result->calls);
    print_number(file, 100 * row->share, 6, 2, " %");
    fprintf(file, " %14s", time_text(result->median.value, result->model, time));
    print_number(file, result->gflops, 9, 1, "");
    print_number(file, result->ceiling_pct, 6, 1, " %");
    fprintf(file, "  %-13s %-12s %s%s\n", result->dtype,
            place_text(result->backend, result->device, place), result->shape,
            result->void_reason[0] ? "  (void)" : "");
}

static void print_rows(FILE *file, const bench_report *report)
{
    ranked *rows = malloc((size_t)report->result_count * sizeof *rows);
    if (!rows)
        return;
    fprintf(file, "\n%12s %8s %14s %9s %8s  %-13s %-12s %s\n", "calls", "share", "median",
            "GFLOP/s", "ceiling", "type", "backend", "case");
    for (int64_t i = 0; i < report->result_count; i++) {
        const bench_result *result = &report->results[i];
        rows[i] = (ranked){result, bench_share(report, result), i};
    }
    qsort(rows, (size_t)report->result_count, sizeof *rows, compare);
    for (int64_t i = 0; i < report->result_count; i++)
        print_row(file, &rows[i]);
    free(rows);
}

/* "3 of 5 shapes, 40 of 90 calls" where something is missing. */
static void print_cover(FILE *file, const bench_report *report, const bench_total *total)
{
    if (total->shapes == report->replay_shapes && total->calls == report->replay_calls)
        fprintf(file, "%lld call%s of %lld shape%s", (long long)total->calls,
                total->calls == 1 ? "" : "s", (long long)total->shapes,
                total->shapes == 1 ? "" : "s");
    else
        fprintf(file, "%lld of %lld calls, %lld of %lld shapes", (long long)total->calls,
                (long long)report->replay_calls, (long long)total->shapes,
                (long long)report->replay_shapes);
}

static void print_total(FILE *file, const bench_report *report, const bench_total *total)
{
    char time[48], low[48], high[48], place[80];
    place_text(total->backend, total->device, place);
    fprintf(file, "total %s%s%s%s: %s", total->peer, total->peer[0] ? " (beside " : "", place,
            total->peer[0] ? ")" : "", time_text(total->sum.value, total->model, time));
    if (isfinite(total->sum.low))
        fprintf(file, " [%s, %s]", time_text(total->sum.low, total->model, low),
                time_text(total->sum.high, total->model, high));
    fprintf(file, " for ");
    print_cover(file, report, total);
    if (total->peer[0])
        fprintf(file, "; %s takes %s for these (ratio %.3f)", place,
                time_text(total->backend_sum, total->model, time),
                total->sum.value / total->backend_sum);
    if (total->void_shapes > 0)
        fprintf(file, "; void measurements: %lld", (long long)total->void_shapes);
    fputc('\n', file);
}

void bench_replay_table(FILE *file, const bench_report *report)
{
    bench_total totals[BENCH_MAXIMUM_TOTALS];
    int64_t count = bench_totals(report, totals, BENCH_MAXIMUM_TOTALS);
    if (report->result_count > 0)
        print_rows(file, report);
    fputc('\n', file);
    for (int64_t i = 0; i < count; i++)
        print_total(file, report, &totals[i]);
    if (count == 0)
        fprintf(file, "nothing was measured: calls: %lld, shapes: %lld\n",
                (long long)report->replay_calls, (long long)report->replay_shapes);
    fflush(file);
}

/* ---- JSON ---- */

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *total_object(const bench_total *total)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:o, s:s, s:o, s:o, s:I, s:I, s:I}", "backend", total->backend, "device",
        total->device, "peer", total->peer[0] ? json_string(total->peer) : json_null(), "unit",
        total->model ? "cycles" : "ns", "total", number(total->sum.value), "interval",
        json_pack("[o,o]", number(total->sum.low), number(total->sum.high)), "shapes",
        (json_int_t)total->shapes, "calls", (json_int_t)total->calls, "void_shapes",
        (json_int_t)total->void_shapes);
    if (object && total->peer[0]) {
        json_object_set_new(object, "backend_total", number(total->backend_sum));
        json_object_set_new(object, "ratio", number(total->sum.value / total->backend_sum));
    }
    return object;
}

json_t *bench_replay_json(const bench_report *report)
{
    bench_total totals[BENCH_MAXIMUM_TOTALS];
    int64_t count = bench_totals(report, totals, BENCH_MAXIMUM_TOTALS);
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        json_array_append_new(list, total_object(&totals[i]));
    return json_pack("{s:I, s:I, s:o}", "shapes", (json_int_t)report->replay_shapes, "calls",
                     (json_int_t)report->replay_calls, "totals", list);
}
