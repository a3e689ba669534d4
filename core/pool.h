/* SPDX-License-Identifier: Apache-2.0 */
/* The compute threads of a runtime, or the caller's team in their place. */
#ifndef KILN_CORE_POOL_H
#define KILN_CORE_POOL_H

#include "core/runtime.h"

/* Reads threads.* of the profile. Starts no thread yet. */
kiln_status kiln_pool_create(const kiln_profile *profile, const kiln_runtime_options *options,
                             kiln_pool **pool);

/* Ends the threads. No parallel_for may be under way. NULL is accepted. */
void kiln_pool_destroy(kiln_pool *pool);

int64_t kiln_pool_threads(const kiln_pool *pool);

/* As kiln_parallel_for. */
void kiln_pool_run(kiln_pool *pool, int64_t parts, void (*task)(void *argument, int64_t part),
                   void *argument);

#endif
