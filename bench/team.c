/* SPDX-License-Identifier: Apache-2.0 */
/* The team of threads behind the ceiling loops. */
#include "bench/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "bench/measure.h"

typedef struct bench_worker {
    bench_team *team;
    pthread_t handle;
    int64_t thread;
} bench_worker;

struct bench_team {
    int64_t threads;
    int64_t started;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_cond_t done;
    int64_t generation; /* of the current run; under the lock, as are the next three */
    int64_t running;
    bool quit;
    int64_t end_ns; /* of the last to finish */
    void (*task)(void *argument, int64_t thread);
    void *argument;
    _Atomic int64_t arrived;
    bench_worker workers[];
};

/* All threads leave at once, so that the timed part has no waking in it. Yielding keeps this sound
 * when there are fewer processors than threads. */
static void arrive(bench_team *team)
{
    atomic_fetch_add(&team->arrived, 1);
    while (atomic_load(&team->arrived) < team->threads)
        sched_yield();
}

static void *work(void *argument)
{
    bench_worker *worker = argument;
    bench_team *team = worker->team;
    pthread_mutex_lock(&team->lock);
    for (int64_t seen = 0;;) {
        while (team->generation == seen && !team->quit)
            pthread_cond_wait(&team->wake, &team->lock);
        if (team->quit)
            break;
        seen = team->generation;
        pthread_mutex_unlock(&team->lock);
        arrive(team);
        team->task(team->argument, worker->thread);
        int64_t end = bench_now(NULL);
        pthread_mutex_lock(&team->lock);
        if (end > team->end_ns)
            team->end_ns = end;
        if (--team->running == 0)
            pthread_cond_signal(&team->done);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

bench_team *bench_team_create(int64_t threads)
{
    bench_team *team = calloc(1, sizeof *team + (size_t)threads * sizeof *team->workers);
    if (!team)
        return NULL;
    team->threads = threads;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->wake, NULL);
    pthread_cond_init(&team->done, NULL);
    for (int64_t i = 0; i + 1 < threads; i++) {
        bench_worker *worker = &team->workers[i];
        *worker = (bench_worker){.team = team, .thread = i + 1};
        if (pthread_create(&worker->handle, NULL, work, worker) != 0) {
            bench_team_destroy(team);
            return NULL;
        }
        team->started++;
    }
    return team;
}

void bench_team_destroy(bench_team *team)
{
    if (!team)
        return;
    pthread_mutex_lock(&team->lock);
    team->quit = true;
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);
    for (int64_t i = 0; i < team->started; i++)
        pthread_join(team->workers[i].handle, NULL);
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->wake);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

int64_t bench_team_threads(const bench_team *team)
{
    return team->threads;
}

int64_t bench_team_run(bench_team *team, void (*task)(void *argument, int64_t thread),
                       void *argument)
{
    pthread_mutex_lock(&team->lock);
    team->task = task;
    team->argument = argument;
    team->running = team->threads - 1;
    team->end_ns = 0;
    team->generation++;
    atomic_store(&team->arrived, 0);
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);

    arrive(team);
    int64_t begin = bench_now(NULL);
    task(argument, 0);
    int64_t end = bench_now(NULL);

    pthread_mutex_lock(&team->lock);
    while (team->running > 0)
        pthread_cond_wait(&team->done, &team->lock);
    if (team->end_ns > end)
        end = team->end_ns;
    pthread_mutex_unlock(&team->lock);
    return end > begin ? end - begin : 1;
}
