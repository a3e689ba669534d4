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
 * plugin is not open in it, which the checks of the level abi find fault with; the report then says
 * NOT_APPLICABLE. */
bool conformance_session_open(const conformance_subject *subject,
                              const conformance_session_options *options,
                              conformance_report *report, conformance_session *session);
void conformance_session_close(conformance_session *session);

/* Whether the plugin offers an interface. */
bool conformance_session_offers(const conformance_session *session, const char *interface);

/* Nothing can be said: the verdict becomes NOT_APPLICABLE, unless something has failed. */
void conformance_skip(conformance_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

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

/* Numbers that depend on nothing but the state, which they change: splitmix64. */
uint64_t conformance_next(uint64_t *state);

/* Continues a hash (FNV-1a) with more bytes; begin with 0. */
uint64_t conformance_hash(uint64_t hash, const void *bytes, size_t count);

#endif
