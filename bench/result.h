/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured, and how it is told: JSON, a table, comma-separated lines. */
#ifndef KILN_BENCH_RESULT_H
#define KILN_BENCH_RESULT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/measure.h"
#include "bench/statistics.h"

enum { BENCH_MAXIMUM_PEERS = 8 };

/* Values in the order of the rounds; owned. */
typedef struct bench_samples {
    double *values;
    int64_t count;
} bench_samples;

/* A copy; empty when memory is exhausted. */
bench_samples bench_samples_copy(const double *values, int64_t count);

typedef struct bench_peer_result {
    char name[32];
    char version[64];
    char kernel[64];
    bench_samples samples; /* ns */
    double median_ns;
    bench_estimate ratio; /* the peer's time / Kiln's time */
} bench_peer_result;

/* One case. Numbers that do not apply are NaN. */
typedef struct bench_result {
    char operator_name[48];
    char shape[192];
    char dtype[48];
    char backend[32];
    char device[32];
    char kernel[64];
    int64_t threads;
    bool model;            /* the device is a model: samples are cycles, and there are no times */
    bench_samples samples; /* ns, or cycles, per operation */
    bench_estimate median;
    double gflops;
    double ceiling_pct;
    char ceiling[64];      /* key of the ceiling that binds; "" = none */
    double check_ceiling;  /* the ceiling in Kiln's place, percent */
    double check_self;     /* Kiln against itself */
    char void_reason[192]; /* "" = the measurement holds */
    int64_t attempts;
    bench_peer_result peers[BENCH_MAXIMUM_PEERS];
    int64_t peer_count;
    double limit_ns; /* the median must not be beyond it */
    char note[256];
    int64_t calls; /* of a replay: how often it was called; 0 = no replay */
} bench_result;

/* Whether the case is beyond its limit. */
bool bench_result_beyond(const bench_result *result);

/* Measured rates of one ceiling, over all cases. */
typedef struct bench_ceiling_result {
    char name[64];
    char kernel[64];
    bool bytes; /* GB/s, else GFLOP/s (int8: Gop/s) */
    int64_t threads;
    bench_samples rates;
} bench_ceiling_result;

/* What could not be measured. */
typedef struct bench_failure {
    char shape[192];
    char backend[32];
    bench_message message;
} bench_failure;

/* A whole run. Zeroed means empty. */
typedef struct bench_report {
    bench_result *results;
    int64_t result_count;
    bench_ceiling_result *ceilings;
    int64_t ceiling_count;
    bench_failure *failures;
    int64_t failure_count;
    bench_message *notes;
    int64_t note_count;
    bool interrupted;
    uint64_t seed;
    int64_t slice_ns;
    int64_t rounds;
    int64_t replay_shapes; /* of a replay, measured or not; 0 = no replay */
    int64_t replay_calls;
} bench_report;

void bench_report_free(bench_report *report);

/* Add to the report; a result's samples become the report's. False when memory is exhausted. */
bool bench_report_add(bench_report *report, const bench_result *result);
bool bench_report_fail(bench_report *report, const char *shape, const char *backend,
                       const bench_message *message);
bool bench_report_note(bench_report *report, const char *text);

/* Appends rates to the ceiling of that name, making it at first. */
bool bench_report_ceiling(bench_report *report, const char *name, const char *kernel, bool bytes,
                          int64_t threads, const double *rates, int64_t count);

/* Whether any case is void; beyond its limit. */
bool bench_report_void(const bench_report *report);
bool bench_report_beyond(const bench_report *report);

/* {"host":{…},"ceilings":{…},"cases":[…],…}; bench/README.md describes it. NULL when memory is
 * exhausted. */
json_t *bench_report_json(const bench_report *report);

/* This machine: {"cpu","processors","instructions",…}. */
json_t *bench_host_json(void);

/* A row per case as it comes, below a head; and what is to be said at the end. */
void bench_table_head(FILE *file);
void bench_table_row(FILE *file, const bench_result *result);
void bench_table_end(FILE *file, const bench_report *report);

/* Comma-separated values: a head and one line for Kiln and for each peer of each case. */
void bench_report_csv(FILE *file, const bench_report *report);

#endif
