/* SPDX-License-Identifier: Apache-2.0 */
/* Telling a listener what happens. */
#include "core/runtime.h"

#include <time.h>

int64_t kiln_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

kiln_status kiln_trace_set(kiln_runtime *runtime, kiln_trace_fn trace, void *context)
{
    /* The lock is held while a listener is called, so once we have it the former one is no longer
     * in use. */
    pthread_rwlock_wrlock(&runtime->trace_lock);
    runtime->trace_context = context;
    atomic_store(&runtime->trace, trace);
    pthread_rwlock_unlock(&runtime->trace_lock);
    return KILN_OK;
}

void kiln_trace_emit(kiln_runtime *runtime, kiln_trace_event event)
{
    event.struct_size = sizeof event;
    pthread_rwlock_rdlock(&runtime->trace_lock);
    kiln_trace_fn trace = atomic_load(&runtime->trace);
    if (trace)
        trace(runtime->trace_context, &event);
    pthread_rwlock_unlock(&runtime->trace_lock);
}
