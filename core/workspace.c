/* SPDX-License-Identifier: Apache-2.0 */
/* Each thread keeps one workspace, which serves all plans that it runs and costs no atomic
 * operation. It is freed when the thread ends. Large workspaces, and those of a run inside of a
 * run, come from the plan's own idle ones. */
#include "core/workspace.h"

#include <stdlib.h>

/* A thread may serve many plans, but keeps only this much when it serves none. */
enum { THREAD_LIMIT = 4 << 20 };

typedef struct thread_workspace {
    void *memory;
    int64_t bytes;
    bool busy;
} thread_workspace;

/* Few bytes, so that they fit where a library that is loaded late finds its thread-local variables
 * fastest. */
static _Thread_local __attribute__((tls_model("initial-exec"))) thread_workspace mine;

static pthread_key_t at_thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool have_key;

static void free_of_thread(void *memory)
{
    free(memory);
    mine = (thread_workspace){0};
}

static void make_key(void)
{
    have_key = pthread_key_create(&at_thread_end, free_of_thread) == 0;
}

static void *allocate(int64_t bytes)
{
    return aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64);
}

/* Replaces the thread's workspace by a larger one. */
static bool grow(int64_t bytes)
{
    pthread_once(&once, make_key);
    void *memory = have_key ? allocate(bytes) : NULL;
    if (!memory || pthread_setspecific(at_thread_end, memory) != 0) {
        free(memory);
        return false;
    }
    free(mine.memory);
    mine = (thread_workspace){memory, bytes, false};
    return true;
}

static __attribute__((noinline)) void *take_slowly(kiln_plan *plan)
{
    int64_t bytes = plan->answer.workspace_bytes;
    if (!mine.busy && bytes <= THREAD_LIMIT && grow(bytes)) {
        mine.busy = true;
        return mine.memory;
    }
    for (int i = 0; i < KILN_PLAN_WORKSPACES; i++) {
        void *idle = atomic_exchange_explicit(&plan->workspaces[i], NULL, memory_order_acquire);
        if (idle)
            return idle;
    }
    return allocate(bytes);
}

void *kiln_workspace_take(kiln_plan *plan)
{
    if (mine.busy || mine.bytes < plan->answer.workspace_bytes)
        return take_slowly(plan);
    mine.busy = true;
    return mine.memory;
}

void kiln_workspace_give(kiln_plan *plan, void *workspace)
{
    if (workspace == mine.memory) {
        mine.busy = false;
        return;
    }
    for (int i = 0; i < KILN_PLAN_WORKSPACES; i++) {
        void *expected = NULL;
        if (atomic_compare_exchange_strong_explicit(&plan->workspaces[i], &expected, workspace,
                                                    memory_order_release, memory_order_relaxed))
            return;
    }
    free(workspace);
}
