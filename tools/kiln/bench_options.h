/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `kiln bench`. */
#ifndef KILN_TOOLS_BENCH_OPTIONS_H
#define KILN_TOOLS_BENCH_OPTIONS_H

#include "tools/kiln/command.h"

enum { BENCH_MAXIMUM_NAMES = 16 };

/* Begin with the defaults; text is argv's. */
typedef struct bench_options {
    tool_common common;
    const char *backends[BENCH_MAXIMUM_NAMES];
    int backend_count;
    const char *peers[BENCH_MAXIMUM_NAMES];
    int peer_count;
    const char *device, *list, *replay, *threads, *peer_core, *peer_path, *peer_server;
    bool packed, allow_void, no_peers, csv, help;
    int64_t slice_ms, rounds, budget_s, attempts, seed, top;
} bench_options;

/* Help before the words of a case, and for the options that only `kiln bench` has. */
extern const char bench_help[];
extern const char bench_own_help[];

/* Reads all options; false when something is wrong and was said. */
bool bench_options_read(bench_options *self, int argc, char **argv);

/* Adds the number of threads to the settings, where it comes last and so is strongest: what
 * --threads says, else `otherwise` (may be NULL) unless --set gives a number. */
void bench_options_set_threads(bench_options *self, const char *otherwise);

#endif
