/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence that explains a failure, one per thread. */
#ifndef KILN_CORE_ERROR_H
#define KILN_CORE_ERROR_H

#include <stdarg.h>

#include "kiln/kiln.h"

/* Sets this thread's sentence and returns `status`, so that `return kiln_fail(…)` reads well. The
 * arguments may point into the former sentence. */
kiln_status kiln_fail(kiln_status status, const char *format, ...) KILN_PRINTF(2, 3);
kiln_status kiln_fail_v(kiln_status status, const char *format, va_list arguments);

enum { KILN_SENTENCE = 1024 }; /* bytes, with the 0 */

/* The usual sentence for exhausted memory; `what` is what was to be made. */
kiln_status kiln_fail_memory(const char *what);

/* ---- Visits to foreign code ---- */

/* Foreign code, for kiln_activity: "running plugin" and its path. Lives as long as the visit. */
typedef struct kiln_place {
    const char *verb;
    const char *path;
} kiln_place;

/* What the calling thread is inside of (NULL = nothing foreign), and how often it has failed. */
typedef struct kiln_visit {
    const kiln_place *place;
    uint64_t failures;
} kiln_visit;

/* Few bytes, so that they fit where a library that is loaded late finds its thread-local variables
 * fastest. */
extern _Thread_local __attribute__((tls_model("initial-exec"))) kiln_visit kiln_thread;

/* Says that foreign code is about to be called; the result is for the end of the visit. */
static inline kiln_visit kiln_enter(const kiln_place *place)
{
    kiln_visit before = kiln_thread;
    kiln_thread.place = place;
    return before;
}

static inline void kiln_leave(const kiln_visit *before)
{
    kiln_thread.place = before->place;
}

/* What a failed visit amounts to: a status that is one, with a sentence. */
kiln_status kiln_visit_failed(const kiln_visit *before, kiln_status status);

/* Ends a visit that returned a status. */
static inline kiln_status kiln_leave_with(const kiln_visit *before, kiln_status status)
{
    if (status != KILN_OK)
        status = kiln_visit_failed(before, status);
    kiln_leave(before);
    return status;
}

#endif
