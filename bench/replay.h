/* SPDX-License-Identifier: Apache-2.0 */
/* What the shapes of a replay amount to, each weighed by how often it was called. */
#ifndef KILN_BENCH_REPLAY_H
#define KILN_BENCH_REPLAY_H

#include "bench/result.h"

enum { BENCH_MAXIMUM_TOTALS = 128 }; /* more than any machine's plugins and peers make */

/* Calls times median, added up over the shapes that one backend on one device computed, or over
 * those of them that a peer computed beside it. In nanoseconds, of models in cycles. */
typedef struct bench_total {
    char backend[32];
    char device[32];
    char peer[32]; /* "" = the backend itself */
    bool model;
    bench_estimate sum; /* the interval adds up those of the medians; NaN for a peer, without one */
    double backend_sum; /* the backend's own over the same shapes */
    int64_t shapes;
    int64_t calls;
    int64_t void_shapes; /* of them, those whose measurement does not hold */
} bench_total;

/* All totals, backends before their peers, in the order of the results; at most `capacity` are
 * written, their number is returned. */
int64_t bench_totals(const bench_report *report, bench_total *totals, int64_t capacity);

/* Part of its backend's total that a result of the report makes up. */
double bench_share(const bench_report *report, const bench_result *result);

/* The shapes by their share, then the totals, then what is missing. */
void bench_replay_table(FILE *file, const bench_report *report);

/* {"shapes","calls","totals":[…]}; NULL when memory is exhausted. */
json_t *bench_replay_json(const bench_report *report);

#endif
