/* SPDX-License-Identifier: Apache-2.0 */
/* One job at a time. A job is announced by one atomic word, `state`: its epoch, a bit that says
 * that it is open, and the number of workers that have joined. Workers join only while it is open
 * and leave after their last part, so the job is finished when the caller has closed it and the
 * count is back at zero; a worker that wakes late finds it closed and touches nothing. Workers spin
 * for a while before they sleep, because a wake-up through the kernel costs tens of microseconds.
 */
#include "core/pool.h"

#include <fenv.h>
#include <sched.h>
#include <stdlib.h>

#include "core/fork.h"
#include "support/pause.h"

enum { OPEN = 1, JOIN_SHIFT = 1, EPOCH_SHIFT = 32 };
#define JOINED(state) (((state)&0xffffffffu) >> JOIN_SHIFT)
#define EPOCH(state)  ((state) >> EPOCH_SHIFT)

struct kiln_pool {
    int64_t threads; /* the caller included */
    int64_t spin_ns;
    bool pin;
    kiln_parallel_for_fn team; /* the caller's own, instead of workers */
    void *team_context;

    _Alignas(64) _Atomic uint64_t state;
    _Alignas(64) _Atomic int64_t next; /* first part that nobody has taken */
    _Alignas(64) _Atomic int64_t sleepers;
    _Atomic bool stop;
    atomic_flag busy;

    void (*task)(void *argument, int64_t part);
    void *argument;
    int64_t parts;
    fenv_t environment;
    kiln_visit visit; /* what the caller is inside of */

    pthread_mutex_t mutex;
    pthread_cond_t wake;
    pthread_t *workers;
    int64_t worker_count;
    _Atomic uint64_t generation; /* process in which the workers run; 0 = not started */
};

static _Thread_local bool inside_task;

static void work(kiln_pool *pool)
{
    int64_t part;
    while ((part = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->parts)
        pool->task(pool->argument, part);
}

/* Joins the open job whose epoch differs from `seen`; returns its epoch, or `seen`. */
static uint64_t try_join(kiln_pool *pool, uint64_t seen)
{
    uint64_t state = atomic_load_explicit(&pool->state, memory_order_relaxed);
    while ((state & OPEN) && EPOCH(state) != seen)
        if (atomic_compare_exchange_weak_explicit(&pool->state, &state, state + (1u << JOIN_SHIFT),
                                                  memory_order_acquire, memory_order_relaxed))
            return EPOCH(state);
    return seen;
}

static bool job_waits(kiln_pool *pool, uint64_t seen)
{
    uint64_t state = atomic_load(&pool->state);
    return (state & OPEN) && EPOCH(state) != seen;
}

static void spin_then_sleep(kiln_pool *pool, uint64_t seen)
{
    int64_t end = kiln_now_ns() + pool->spin_ns;
    do {
        for (int i = 0; i < 64; i++) {
            if (job_waits(pool, seen) || atomic_load_explicit(&pool->stop, memory_order_relaxed))
                return;
            pause_briefly();
        }
    } while (kiln_now_ns() < end);
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!job_waits(pool, seen) && !atomic_load(&pool->stop))
        pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *argument)
{
    kiln_pool *pool = argument;
    uint64_t seen = 0;
    fenv_t current;
    fegetenv(&current);
    inside_task = true;
    while (!atomic_load(&pool->stop)) {
        uint64_t epoch = try_join(pool, seen);
        if (epoch == seen) {
            spin_then_sleep(pool, seen);
            continue;
        }
        seen = epoch;
        /* Flush-to-zero and rounding are the caller's, as if it had computed alone. */
        if (memcmp(&current, &pool->environment, sizeof current) != 0) {
            current = pool->environment;
            fesetenv(&current);
        }
        kiln_thread = pool->visit;
        work(pool);
        atomic_fetch_sub_explicit(&pool->state, 1u << JOIN_SHIFT, memory_order_release);
    }
    return NULL;
}

/* Pins worker `index` (0 is the caller's place) to the index-th processor of those allowed. */
static void pin_worker(pthread_t thread, int64_t index)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && index-- == 0)
            CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) == 1)
        pthread_setaffinity_np(thread, sizeof one, &one);
}

/* Starts the workers in this process, once; in a child of fork the parent's are gone and are
 * replaced. A worker that cannot be started is done without. */
static void start_workers(kiln_pool *pool, uint64_t generation)
{
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    atomic_store(&pool->state, 0);
    atomic_store(&pool->sleepers, 0);
    pool->worker_count = 0;
    for (int64_t i = 1; i < pool->threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker_main, pool) != 0)
            break;
        if (pool->pin)
            pin_worker(thread, i);
        pool->workers[pool->worker_count++] = thread;
    }
    pool->generation = generation;
}

static void run_on_workers(kiln_pool *pool, int64_t parts, void (*task)(void *, int64_t),
                           void *argument)
{
    pool->task = task;
    pool->argument = argument;
    pool->parts = parts;
    fegetenv(&pool->environment);
    pool->visit = kiln_thread;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    uint64_t epoch =
        (EPOCH(atomic_load_explicit(&pool->state, memory_order_relaxed)) + 1) & 0xffffffffu;
    atomic_store(&pool->state, (epoch ? epoch : 1) << EPOCH_SHIFT | OPEN);
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
    }
    inside_task = true;
    work(pool);
    inside_task = false;
    uint64_t state = atomic_fetch_and_explicit(&pool->state, ~(uint64_t)OPEN, memory_order_acquire);
    for (int spins = 0; JOINED(state) != 0; spins++) {
        if (spins < 2000)
            pause_briefly();
        else
            sched_yield();
        state = atomic_load_explicit(&pool->state, memory_order_acquire);
    }
}

static void run_inline(int64_t parts, void (*task)(void *, int64_t), void *argument)
{
    for (int64_t part = 0; part < parts; part++)
        task(argument, part);
}

typedef struct team_call {
    void (*task)(void *argument, int64_t part);
    void *argument;
} team_call;

/* On the caller's threads, so that a job inside of the task is seen to be one: the caller's team
 * need not nest. */
static void run_in_team(void *argument, int64_t part)
{
    const team_call *call = argument;
    bool outer = inside_task;
    inside_task = true;
    call->task(call->argument, part);
    inside_task = outer;
}

void kiln_pool_run(kiln_pool *pool, int64_t parts, void (*task)(void *argument, int64_t part),
                   void *argument)
{
    if (parts <= 1 || pool->threads <= 1 || inside_task) {
        run_inline(parts, task, argument);
        return;
    }
    if (pool->team) {
        team_call call = {task, argument};
        pool->team(pool->team_context, parts, run_in_team, &call);
        return;
    }
    uint64_t generation = kiln_process_generation();
    uint64_t started = atomic_load_explicit(&pool->generation, memory_order_relaxed);
    /* In a child a thread of the parent may have held it; only one of the child's may let go. */
    if (started && started != generation &&
        atomic_compare_exchange_strong(&pool->generation, &started, 0))
        atomic_flag_clear(&pool->busy);
    if (atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire)) {
        run_inline(parts, task, argument);
        return;
    }
    if (pool->generation != generation)
        start_workers(pool, generation);
    run_on_workers(pool, parts, task, argument);
    atomic_flag_clear_explicit(&pool->busy, memory_order_release);
}

int64_t kiln_pool_threads(const kiln_pool *pool)
{
    return pool->threads;
}

static int64_t allowed_processors(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

kiln_status kiln_pool_create(const kiln_profile *profile, const kiln_runtime_options *options,
                             kiln_pool **result)
{
    kiln_pool *pool = aligned_alloc(64, sizeof *pool);
    if (!pool)
        return kiln_fail_memory("the thread pool");
    memset(pool, 0, sizeof *pool);
    atomic_flag_clear(&pool->busy);
    pool->threads = kiln_profile_integer(profile, "threads.count");
    if (pool->threads == 0)
        pool->threads = allowed_processors();
    pool->spin_ns = kiln_profile_integer(profile, "threads.spin_us") * 1000;
    pool->pin = kiln_profile_boolean(profile, "threads.affinity");
    if (options && options->parallel_for) {
        pool->team = options->parallel_for;
        pool->team_context = options->parallel_context;
        pool->threads = options->parallel_threads > 0 ? options->parallel_threads : 1;
    }
    pool->workers = calloc((size_t)pool->threads, sizeof *pool->workers);
    if (!pool->workers) {
        free(pool);
        return kiln_fail_memory("the thread pool");
    }
    *result = pool;
    return KILN_OK;
}

void kiln_pool_destroy(kiln_pool *pool)
{
    if (!pool)
        return;
    if (pool->generation == kiln_process_generation()) {
        pthread_mutex_lock(&pool->mutex);
        atomic_store(&pool->stop, true);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
        for (int64_t i = 0; i < pool->worker_count; i++)
            pthread_join(pool->workers[i], NULL);
        pthread_mutex_destroy(&pool->mutex);
        pthread_cond_destroy(&pool->wake);
    }
    free(pool->workers);
    free(pool);
}
