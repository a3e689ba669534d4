/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks of operators and of stress share: a runtime in which the plugin alone is open,
 * memory between pages that must not be touched, and threads that begin at once. */
#ifndef KILN_CONFORMANCE_PLUGIN_SESSION_H
#define KILN_CONFORMANCE_PLUGIN_SESSION_H

#include "conformance/plugin/load.h"

typedef struct conformance_session {
    kiln_runtime *runtime;
    kiln_device *device; /* the plugin's first; the host for a plugin without devices */
    bool host;           /* it is the host */
    const char *name;    /* of the plugin */

    /* Of a watched session: its instance, for direct calls. */
    void *instance;
    conformance_plugin loaded;
    conformance_instance opened;
} conformance_session;

typedef struct conformance_session_options {
    /* The plugin's instance is known, and its functions can be called directly: see
     * conformance_load(). The other options do not matter then. */
    bool watched;
    int64_t threads; /* threads.count; 0 = 2 */
    kiln_parallel_for_fn parallel_for;
    void *parallel_context;
    int64_t parallel_threads;
} conformance_session_options;

/* Opens a runtime that reads neither files nor environment. `options` may be NULL. False when the
 * plugin is not open in it: the report then says FAILED where it opens for the checks of the level
 * abi, so that these options are what it does not bear, and else NOT_APPLICABLE, since those checks
 * find fault with it. */
bool conformance_session_open(const conformance_subject *subject,
                              const conformance_session_options *options,
                              conformance_report *report, conformance_session *session);
void conformance_session_close(conformance_session *session);

/* Whether the plugin offers an interface. */
bool conformance_session_offers(const conformance_session *session, const char *interface);

/* ---- Guarded memory ---- */

/* `bytes` bytes at `data`, all 0xff, with pages before and behind that fault when touched. */
typedef struct conformance_guarded {
    uint8_t *data;
    int64_t bytes;
    void *mapping;
    int64_t mapped;
} conformance_guarded;

/* The memory ends at the page behind it, as nearly as `alignment` (a power of two, at most 4096) of
 * its start allows; or, when `at_start`, begins where the page before it ends. */
bool conformance_guard(int64_t bytes, int64_t alignment, bool at_start,
                       conformance_guarded *memory);

/* Forbids writing, or reading as well. */
void conformance_guard_protect(const conformance_guarded *memory, bool readable);
void conformance_guard_release(conformance_guarded *memory);

/* ---- Threads ---- */

enum { CONFORMANCE_MAX_THREADS = 16 };

/* function(argument, index) for every index below `count`, each in a thread of its own. They start
 * together. False when a thread cannot be made. */
bool conformance_threads(int64_t count, void (*function)(void *argument, int64_t index),
                         void *argument);

#endif
