/* SPDX-License-Identifier: Apache-2.0 */
/* What a runtime consists of. Each part has its own file; this header is what they share. */
#ifndef KILN_CORE_RUNTIME_H
#define KILN_CORE_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/error.h"
#include "core/profile/profile.h"
#include "kiln/plugin.h"

/* A plugin as one runtime sees it: found, and perhaps open. */
typedef struct kiln_instance {
    char name[32];
    char *path;
    const char *state; /* as kiln_plugin_info.state */
    char reason[512];
    char *interfaces; /* comma-separated */
    kiln_plugin plugin;
    kiln_option_value *options;
    kiln_host host;
    void *instance; /* the plugin's own */
    bool open;
} kiln_instance;

typedef struct kiln_pool kiln_pool;
typedef struct kiln_plan_cache kiln_plan_cache;
typedef struct kiln_record kiln_record;
typedef struct kiln_tuning kiln_tuning;

struct kiln_runtime {
    kiln_profile *profile;
    uint64_t flags;
    kiln_log_fn log;
    void *log_context;
    int log_level;
    uint64_t generation; /* of the process that opened it: see fork.h */

    kiln_instance **instances;
    int64_t instance_count;
    kiln_instance **open; /* the open ones, in the profile's order */
    int64_t open_count;
    kiln_device **devices;
    int64_t device_count;

    kiln_pool *pool;
    kiln_plan_cache *plans;
    kiln_record *record; /* NULL = not recording */
    kiln_tuning *tuning;
    bool staging_allowed;

    pthread_rwlock_t trace_lock;
    _Atomic(kiln_trace_fn) trace;
    void *trace_context;
};

/* One line to the runtime's log, if it has one and the level is wanted. */
void kiln_runtime_log(const kiln_runtime *runtime, int level, const char *format, ...)
    KILN_PRINTF(3, 4);

/* The open instance of a name, or NULL; *found (may be NULL) is set to the instance that is not
 * open. */
kiln_instance *kiln_runtime_instance(const kiln_runtime *runtime, const char *name,
                                     const kiln_instance **found);

/* Refuses a struct from a caller that is shorter than its size field, longer than any can be
 * (nobody has set its size), or not zero beyond the `known` bytes. `name` is its type's. */
kiln_status kiln_check_struct(const void *object, size_t known, const char *name);

enum { KILN_MAX_STRUCT = 4096 };

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t kiln_now_ns(void);

/* Fills the table that plugins are given. */
void kiln_host_table_fill(kiln_host *host, kiln_runtime *runtime);

/* True when somebody listens; cheap enough for every run. */
static inline bool kiln_tracing(const kiln_runtime *runtime)
{
    return atomic_load_explicit(&((kiln_runtime *)runtime)->trace, memory_order_relaxed) != NULL;
}

/* Sends an event (struct_size is filled in). */
void kiln_trace_emit(kiln_runtime *runtime, kiln_trace_event event);

#endif
