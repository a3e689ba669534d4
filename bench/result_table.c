/* SPDX-License-Identifier: Apache-2.0 */
/* A run for people and for spreadsheets. */
#include <math.h>
#include <string.h>

#include "bench/replay.h"

/* "12.3 us" and the like. */
static const char *time_text(double nanoseconds, char text[32])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    int unit = 0;
    while (fabs(nanoseconds) >= 999.95 && unit < 3) {
        nanoseconds /= 1000;
        unit++;
    }
    snprintf(text, 32, "%.*f %s", fabs(nanoseconds) < 9.995 ? 2 : 1, nanoseconds, units[unit]);
    return text;
}

/* A number, or a dash for what does not apply. */
static const char *number_text(double value, int digits, const char *unit, char text[32])
{
    if (isfinite(value))
        snprintf(text, 32, "%.*f%s", digits, value, unit);
    else
        snprintf(text, 32, "-");
    return text;
}

void bench_table_head(FILE *file)
{
    fprintf(file, "%-38s %-13s %-18s %3s %12s %9s %8s %s\n", "case", "type", "backend", "thr",
            "median", "GFLOP/s", "ceiling", "ratio [95 %]");
    fflush(file);
}

static void print_peer(FILE *file, const bench_result *result, const bench_peer_result *peer)
{
    char time[32], rate[32], who[192];
    double gflops = result->gflops * result->median.value / peer->median_ns;
    snprintf(who, sizeof who, "%s %s %s", peer->name, peer->version, peer->kernel);
    fprintf(file, "%-38s %-32s %3s %12s %9s %8s %.3f [%.3f, %.3f]\n", "", who, "",
            time_text(peer->median_ns, time), number_text(gflops, 1, "", rate), "",
            peer->ratio.value, peer->ratio.low, peer->ratio.high);
}

/* The operator's name is told where there are several: "run m=1 n=1 k=1" for "overhead.run". */
static const char *case_text(const bench_result *result, char *text, size_t size)
{
    const char *name =
        strncmp(result->operator_name, "overhead.", 9) == 0 ? result->operator_name + 9 : "";
    snprintf(text, size, "%s%s%s", name, name[0] ? " " : "", result->shape);
    return text;
}

static const char *backend_text(const bench_result *result, char *text, size_t size)
{
    bool host = strcmp(result->device, "host") == 0;
    snprintf(text, size, "%s%s%s", result->backend, host ? "" : " on ", host ? "" : result->device);
    return text;
}

void bench_table_row(FILE *file, const bench_result *result)
{
    char time[32], rate[32], ceiling[32], backend[80], who[256];
    fprintf(file, "%-38s %-13s %-18s %3lld ", case_text(result, who, sizeof who), result->dtype,
            backend_text(result, backend, sizeof backend), (long long)result->threads);
    if (result->model)
        fprintf(file, "%.0f cycles of the model", result->median.value);
    else
        fprintf(file, "%12s %9s %8s", time_text(result->median.value, time),
                number_text(result->gflops, 1, "", rate),
                number_text(result->ceiling_pct, 1, " %", ceiling));
    if (!isnan(result->limit_ns))
        fprintf(file, " limit %s: %s", time_text(result->limit_ns, time),
                result->void_reason[0]        ? "void"
                : bench_result_beyond(result) ? "FAIL"
                                              : "pass");
    fputc('\n', file);
    for (int64_t i = 0; i < result->peer_count; i++)
        print_peer(file, result, &result->peers[i]);
    if (result->void_reason[0])
        fprintf(file, "    void: %s\n", result->void_reason);
    if (result->note[0])
        fprintf(file, "    note: %s\n", result->note);
    fflush(file);
}

/* Memory's ceilings are many, one for each number of bytes: those that bind nothing are left to the
 * JSON. */
static bool worth_telling(const bench_report *report, const bench_ceiling_result *ceiling)
{
    for (int64_t i = 0; i < report->result_count; i++)
        if (strcmp(report->results[i].ceiling, ceiling->name) == 0)
            return true;
    return !ceiling->bytes;
}

void bench_table_end(FILE *file, const bench_report *report)
{
    if (report->ceiling_count > 0)
        fputc('\n', file);
    for (int64_t i = 0; i < report->ceiling_count; i++) {
        const bench_ceiling_result *ceiling = &report->ceilings[i];
        if (worth_telling(report, ceiling))
            fprintf(file, "ceiling %s: %.1f %s, %lld thread%s, %s\n", ceiling->name,
                    bench_median(ceiling->rates.values, ceiling->rates.count),
                    ceiling->bytes ? "GB/s" : "GFLOP/s", (long long)ceiling->threads,
                    ceiling->threads == 1 ? "" : "s", ceiling->kernel);
    }
    for (int64_t i = 0; i < report->note_count; i++)
        fprintf(file, "note: %s\n", report->notes[i].text);
    if (report->interrupted)
        fprintf(file, "interrupted: what was measured until then is above\n");
}

/* A field: in quotes where it must be. */
static void print_field(FILE *file, const char *text)
{
    bool quote = strpbrk(text, ",\"\n");
    if (quote)
        fputc('"', file);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', file);
        fputc(*text, file);
    }
    fputs(quote ? "\"," : ",", file);
}

static void print_value(FILE *file, double value, char end)
{
    if (isfinite(value))
        fprintf(file, "%.9g", value);
    fputc(end, file);
}

/* How often a replay called it, and its part of the backend's total. */
static void print_weight(FILE *file, const bench_report *report, const bench_result *result)
{
    if (report->replay_shapes > 0) {
        fprintf(file, ",%lld,", (long long)result->calls);
        print_value(file, bench_share(report, result), '\n');
    } else {
        fputc('\n', file);
    }
}

static void print_case(FILE *file, const bench_result *result, const char *who)
{
    print_field(file, result->operator_name);
    print_field(file, result->shape);
    print_field(file, result->dtype);
    print_field(file, result->backend);
    fprintf(file, "%lld,", (long long)result->threads);
    print_field(file, who);
}

/* A line per total of a replay, in the place of a case. */
static void print_totals(FILE *file, const bench_report *report)
{
    bench_total totals[BENCH_MAXIMUM_TOTALS];
    int64_t count = bench_totals(report, totals, BENCH_MAXIMUM_TOTALS);
    for (int64_t i = 0; i < count; i++) {
        const bench_total *total = &totals[i];
        bool peer = total->peer[0];
        fprintf(file, "total,,,");
        print_field(file, total->backend);
        fputc(',', file);
        print_field(file, peer ? total->peer : "kiln");
        print_value(file, total->sum.value, ',');
        print_field(file, total->model ? "cycles" : "ns");
        fprintf(file, ",,");
        print_value(file, peer ? total->sum.value / total->backend_sum : NAN, ',');
        fprintf(file, ",,%d,%lld,1\n", total->void_shapes > 0, (long long)total->calls);
    }
}

void bench_report_csv(FILE *file, const bench_report *report)
{
    fprintf(file,
            "operator,shape,dtype,backend,threads,who,median,unit,gflops,ceiling_pct,ratio,"
            "ratio_low,ratio_high,void%s\n",
            report->replay_shapes > 0 ? ",calls,share" : "");
    for (int64_t i = 0; i < report->result_count; i++) {
        const bench_result *result = &report->results[i];
        int is_void = result->void_reason[0] != 0;
        print_case(file, result, "kiln");
        print_value(file, result->median.value, ',');
        print_field(file, result->model ? "cycles" : "ns");
        print_value(file, result->gflops, ',');
        print_value(file, result->ceiling_pct, ',');
        fprintf(file, ",,,%d", is_void);
        print_weight(file, report, result);
        for (int64_t j = 0; j < result->peer_count; j++) {
            const bench_peer_result *peer = &result->peers[j];
            print_case(file, result, peer->name);
            print_value(file, peer->median_ns, ',');
            print_field(file, "ns");
            print_value(file, result->gflops * result->median.value / peer->median_ns, ',');
            fputc(',', file);
            print_value(file, peer->ratio.value, ',');
            print_value(file, peer->ratio.low, ',');
            print_value(file, peer->ratio.high, ',');
            fprintf(file, "%d", is_void);
            print_weight(file, report, result);
        }
    }
    if (report->replay_shapes > 0)
        print_totals(file, report);
}
