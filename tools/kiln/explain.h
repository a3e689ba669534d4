/* SPDX-License-Identifier: Apache-2.0 */
/* What the forms of `kiln explain` share: asking about one operator, about the calls of a record,
 * and measuring where the time of one goes. */
#ifndef KILN_TOOLS_EXPLAIN_H
#define KILN_TOOLS_EXPLAIN_H

#include "tools/kiln/command.h"
#include "tools/kiln/gemm_words.h"

/* All candidates for an operator, in allocated memory, in the order in which routing asks.
 * `backend`
 * "" = by the profile. NULL on failure, with the sentence in kiln_last_error(). */
kiln_candidate *explain_ask(kiln_runtime *runtime, const char *operator_name,
                            const kiln_op_head *descriptor, kiln_device *device,
                            const char *backend, int64_t *count);

/* The one that a plan would take; NULL when there is none. */
const kiln_candidate *explain_chosen(const kiln_candidate *candidates, int64_t count);

json_t *explain_candidates_json(const kiln_candidate *candidates, int64_t count);

/* --replay: who would serve each call of a record. `device` and `backend` "" = as recorded, and by
 * the profile. Returns the exit code. */
int explain_replay(const tool_common *common, const char *path, const char *device,
                   const char *backend);

/* --measure: where the time of a GEMM goes. Returns the exit code. */
typedef struct explain_measure_options {
    int64_t slice_ms, rounds;
} explain_measure_options;

int explain_measure(const tool_common *common, kiln_runtime *runtime, const gemm_words *words,
                    const explain_measure_options *options);

/* Help texts for them: what they do, and how --measure finds each number. */
extern const char explain_replay_help[];
extern const char explain_measure_help[];

#endif
