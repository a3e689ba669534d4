/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of `kiln bench --replay`: an application's own calls. */
#ifndef KILN_TOOLS_BENCH_REPLAY_H
#define KILN_TOOLS_BENCH_REPLAY_H

#include "bench/result.h"
#include "tools/kiln/bench_case.h"

/* What cannot be measured, and why. */
typedef struct bench_left {
    char shape[192];
    int64_t calls;
    char why[320];
} bench_left;

/* Calls of an operator that `kiln bench` does not measure. */
typedef struct bench_other {
    char operator_name[64];
    int64_t shapes;
    int64_t calls;
} bench_other;

typedef struct bench_replay {
    const char *path;
    bench_case *cases; /* those with the most operations first */
    int64_t count;
    bench_left *left; /* GEMMs that cannot be measured */
    int64_t left_count;
    bench_other *others;
    int64_t other_count;
    int64_t never_ran;        /* plans that were made and did not run */
    int64_t shapes, calls;    /* GEMMs that ran, measured or not */
    int64_t passed_over;      /* shapes beyond --top */
    double passed_over_share; /* of all operations */
} bench_replay;

/* Reads the record that --replay names. False when it cannot be read or is malformed, which was
 * said. Memory is the caller's in any case. */
bool bench_replay_read(const bench_options *self, bench_replay *replay);
void bench_replay_free(bench_replay *replay);

/* Tells the report of what is not measured: failures, notes and how much there was in all. */
void bench_replay_begin(const bench_replay *replay, bench_report *report);

/* Adds what the report does not know to its JSON: the file, and the operators left out. */
void bench_replay_add_json(const bench_replay *replay, json_t *object);

#endif
