/* SPDX-License-Identifier: Apache-2.0 */
/* The compute threads: every part once, whatever else goes on; the caller's team in their place;
 * the caller's rounding; fork. */
#include "tests/core/fixture.h"

#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { MAX_PARTS = 1000 };

typedef struct job {
    kiln_runtime *runtime;
    _Atomic int count[MAX_PARTS];
    _Atomic int64_t depth_failures;
    _Atomic int64_t wrong;
    int64_t inner_parts;
    pthread_t caller;
    _Atomic int64_t others; /* parts that another thread than the caller ran */
    _Atomic int64_t naps;   /* of parts that wait for another thread */
} job;

static kiln_runtime *open_with_threads(int64_t threads)
{
    char profile[128];
    snprintf(profile, sizeof profile, "threads: {count: %lld, spin_us: 20}\n", (long long)threads);
    return fixture_open(profile);
}

static void count_part(void *argument, int64_t part)
{
    job *work = argument;
    atomic_fetch_add(&work->count[part], 1);
    if (!pthread_equal(pthread_self(), work->caller))
        atomic_fetch_add(&work->others, 1);
}

static void run_and_check(kiln_runtime *runtime, int64_t parts)
{
    job work = {.caller = pthread_self()};
    kiln_parallel_for(runtime, parts, count_part, &work);
    for (int64_t i = 0; i < MAX_PARTS; i++)
        assert_int_equal(work.count[i], i < parts);
}

static void test_every_part_once(void **state)
{
    (void)state;
    for (int64_t threads = 1; threads <= 8; threads++) {
        kiln_runtime *runtime = open_with_threads(threads);
        assert_int_equal(kiln_thread_count(runtime), threads);
        static const int64_t parts[] = {-1, 0, 1, 2, 3, 7, 8, 9, 64, MAX_PARTS};
        for (int64_t i = 0; i < COUNT(parts); i++)
            run_and_check(runtime, parts[i]);
        kiln_runtime_close(runtime);
    }
}

/* Jobs so short that workers join late, or find the job over, or are asleep. */
static void test_many_short_jobs(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_with_threads(4);
    for (int64_t i = 0; i < 3000; i++) {
        run_and_check(runtime, fixture_random(2, 9));
        if (i % 300 == 0)
            fixture_sleep_us(200); /* longer than they spin */
    }
    kiln_runtime_close(runtime);
}

static void wait_for_another(void *argument, int64_t part)
{
    job *work = argument;
    count_part(work, part);
    while (atomic_load(&work->others) == 0 && atomic_fetch_add(&work->naps, 1) < 200000)
        fixture_sleep_us(100); /* at least 20 s in all: a loaded machine is slow to start threads */
}

static void test_workers_do_take_part(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_with_threads(2);
    job work = {.caller = pthread_self()};
    kiln_parallel_for(runtime, 2, wait_for_another, &work);
    assert_true(work.others > 0);
    kiln_runtime_close(runtime);
}

/* ---- A job inside of a job, and beside another ---- */

typedef struct inner_job {
    job *outer;
    pthread_t thread;
} inner_job;

static void check_inline(void *argument, int64_t part)
{
    inner_job *inner = argument;
    if (!pthread_equal(pthread_self(), inner->thread))
        atomic_fetch_add(&inner->outer->depth_failures, 1);
    atomic_fetch_add(&inner->outer->count[part], 1);
}

static void run_inner(void *argument, int64_t part)
{
    (void)part;
    job *work = argument;
    inner_job inner = {work, pthread_self()};
    kiln_parallel_for(work->runtime, work->inner_parts, check_inline, &inner);
}

static void check_nested(kiln_runtime *runtime)
{
    job work = {.runtime = runtime, .inner_parts = 50};
    kiln_parallel_for(runtime, 20, run_inner, &work);
    for (int64_t i = 0; i < 50; i++)
        assert_int_equal(work.count[i], 20);
    assert_int_equal(work.depth_failures, 0);
}

static void test_nested_runs_inline(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_with_threads(4);
    for (int64_t i = 0; i < 20; i++)
        check_nested(runtime);
    run_and_check(runtime, 100); /* and the caller is outside again */
    kiln_runtime_close(runtime);
}

/* While one thread's job is under way those of the others run on themselves. */
static void run_several(void *argument, int64_t index)
{
    job *shared = argument;
    for (int64_t i = 0; i < 300; i++) {
        job work = {.caller = pthread_self()};
        int64_t parts = 2 + (index + i) % 13;
        kiln_parallel_for(shared->runtime, parts, count_part, &work);
        for (int64_t k = 0; k < 32; k++)
            if (work.count[k] != (k < parts))
                atomic_fetch_add(&shared->wrong, 1);
    }
}

static void test_busy_runs_inline(void **state)
{
    (void)state;
    job shared = {.runtime = open_with_threads(3)};
    fixture_threads(6, run_several, &shared);
    assert_int_equal(shared.wrong, 0);
    kiln_runtime_close(shared.runtime);
}

typedef struct two_runtimes {
    kiln_runtime *runtimes[2];
    _Atomic int64_t wrong;
} two_runtimes;

static void run_on_one_of_two(void *argument, int64_t index)
{
    two_runtimes *both = argument;
    job shared = {.runtime = both->runtimes[index % 2]};
    run_several(&shared, index);
    atomic_fetch_add(&both->wrong, shared.wrong);
}

static void test_two_runtimes_at_once(void **state)
{
    (void)state;
    two_runtimes both = {.runtimes = {open_with_threads(2), open_with_threads(3)}};
    fixture_threads(4, run_on_one_of_two, &both);
    assert_int_equal(both.wrong, 0);
    kiln_runtime_close(both.runtimes[0]);
    kiln_runtime_close(both.runtimes[1]);
}

/* Closing while the workers sleep, spin, or have not been started. */
static void test_close_at_any_time(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 30; i++) {
        kiln_runtime *runtime = open_with_threads(4);
        for (int64_t jobs = 0; jobs < i % 3; jobs++)
            run_and_check(runtime, 4);
        if (i % 5 == 0)
            fixture_sleep_us(300);
        kiln_runtime_close(runtime);
    }
}

/* ---- The caller's own team ---- */

typedef struct team {
    int64_t calls, parts;
} team;

static void run_backwards(void *context, int64_t parts, void (*task)(void *argument, int64_t part),
                          void *argument)
{
    team *own = context;
    own->calls++;
    own->parts += parts;
    for (int64_t part = parts; part-- > 0;)
        task(argument, part);
}

static void test_callers_own_team(void **state)
{
    (void)state;
    team own = {0};
    kiln_runtime_options options = {.struct_size = sizeof options,
                                    .flags = KILN_RUNTIME_ISOLATED,
                                    .parallel_for = run_backwards,
                                    .parallel_context = &own,
                                    .parallel_threads = 5};
    kiln_runtime *runtime;
    assert_ok(kiln_runtime_open(&options, &runtime));
    assert_int_equal(kiln_thread_count(runtime), 5);
    run_and_check(runtime, 17);
    assert_int_equal(own.calls, 1);
    assert_int_equal(own.parts, 17);
    /* A part that asks for parts is on its own: the team may not be able to nest. */
    check_nested(runtime);
    assert_int_equal(own.calls, 2);
    run_and_check(runtime, 3);
    assert_int_equal(own.calls, 3);
    kiln_runtime_close(runtime);

    options.parallel_threads = 0; /* a team of one: never called */
    own.calls = 0;
    assert_ok(kiln_runtime_open(&options, &runtime));
    assert_int_equal(kiln_thread_count(runtime), 1);
    run_and_check(runtime, 17);
    assert_int_equal(own.calls, 0);
    kiln_runtime_close(runtime);
}

/* ---- Rounding and flushing of denormals ---- */

static void check_rounding(void *argument, int64_t part)
{
    job *work = argument;
    volatile double one = 1, three = 3;
    atomic_fetch_add(&work->wrong, fegetround() != FE_UPWARD);
    atomic_fetch_add(&work->wrong, !(one / three * 3 > 1));
#if defined(__x86_64__)
    atomic_fetch_add(&work->wrong, (_mm_getcsr() & 0x8040) != 0x8040);
#endif
    wait_for_another(argument, part);
}

static void check_default_rounding(void *argument, int64_t part)
{
    job *work = argument;
    atomic_fetch_add(&work->wrong, fegetround() != FE_TONEAREST);
#if defined(__x86_64__)
    atomic_fetch_add(&work->wrong, (_mm_getcsr() & 0x8040) != 0);
#endif
    wait_for_another(argument, part);
}

static void test_floating_environment_reaches_workers(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_with_threads(4);
    run_and_check(runtime, 8); /* the workers exist before the environment changes */
    fenv_t before;
    fegetenv(&before);
    fesetround(FE_UPWARD);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, denormals are zero */
#endif
    job upward = {.caller = pthread_self()};
    kiln_parallel_for(runtime, 8, check_rounding, &upward);
    fesetenv(&before);
    assert_int_equal(upward.wrong, 0);
    assert_true(upward.others > 0);
    job nearest = {.caller = pthread_self()};
    kiln_parallel_for(runtime, 8, check_default_rounding, &nearest);
    assert_int_equal(nearest.wrong, 0);
    assert_true(nearest.others > 0);
    kiln_runtime_close(runtime);
}

/* ---- Fork ---- */

static int use_in_child(void *argument)
{
    kiln_runtime *runtime = argument;
    job work = {.caller = pthread_self()};
    for (int64_t i = 0; i < 100; i++)
        kiln_parallel_for(runtime, 40, count_part, &work);
    for (int64_t i = 0; i < 40; i++)
        if (work.count[i] != 100)
            return 1;
    job two = {.caller = pthread_self()};
    kiln_parallel_for(runtime, 2, wait_for_another, &two);
    if (two.others == 0)
        return 2; /* the child has no workers */
    kiln_runtime_close(runtime);
    return 0;
}

static void test_child_has_its_own_workers(void **state)
{
    (void)state;
    fixture_needs_fork();
    kiln_runtime *runtime = open_with_threads(3);
    assert_int_equal(fixture_in_child(use_in_child, runtime), 0); /* never used before the fork */
    run_and_check(runtime, 10);
    assert_int_equal(fixture_in_child(use_in_child, runtime), 0);
    run_and_check(runtime, 10);
    kiln_runtime_close(runtime);
}

typedef struct forker {
    kiln_runtime *runtime;
    int result;
} forker;

static int use_in_many_threads(void *argument)
{
    job shared = {.runtime = argument};
    fixture_threads(4, run_several, &shared);
    return shared.wrong == 0 ? 0 : 1;
}

static void fork_inside(void *argument, int64_t part)
{
    forker *own = argument;
    if (part == 0)
        own->result = fixture_in_child(use_in_many_threads, own->runtime);
}

/* The pool was busy when the process forked, and in the child several threads come at once. */
static void test_fork_while_busy(void **state)
{
    (void)state;
    fixture_needs_fork();
    forker own = {.runtime = open_with_threads(3)};
    kiln_parallel_for(own.runtime, 4, fork_inside, &own);
    assert_int_equal(own.result, 0);
    kiln_runtime_close(own.runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_part_once),
        cmocka_unit_test(test_many_short_jobs),
        cmocka_unit_test(test_workers_do_take_part),
        cmocka_unit_test(test_nested_runs_inline),
        cmocka_unit_test(test_busy_runs_inline),
        cmocka_unit_test(test_two_runtimes_at_once),
        cmocka_unit_test(test_close_at_any_time),
        cmocka_unit_test(test_callers_own_team),
        cmocka_unit_test(test_floating_environment_reaches_workers),
        cmocka_unit_test(test_child_has_its_own_workers),
        cmocka_unit_test(test_fork_while_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
