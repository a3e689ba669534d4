/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the level stress, and those of them that have to do with threads and streams. */
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "conformance/plugin/op/gemm_plain.h"
#include "conformance/plugin/op/op.h"

#define STRESS(name, function, what, limit)                             \
    {                                                                   \
        "stress." name, CONFORMANCE_LEVEL_STRESS, what, function, limit \
    }

const conformance_check conformance_stress_checks[] = {
    STRESS("threads", conformance_stress_threads,
           "Eight threads plan and run at once, on one plan and on their own.", 0),
    STRESS("streams", conformance_stress_streams, "Many runs wait in several streams.", 0),
    STRESS("faults", conformance_stress_faults,
           "A run behind a fault is skipped, and the fault stays.", 30),
    STRESS("two-runtimes", conformance_stress_runtimes,
           "Two runtimes work at once and do not see each other.", 15),
    STRESS("parallel-for", conformance_stress_team,
           "A run uses the caller's team, in whatever order that takes its parts.", 0),
    STRESS("nested", conformance_stress_nested, "Runs from inside of the caller's tasks.", 0),
    STRESS("thread-state", conformance_stress_state,
           "Rounding, flushing of denormals and the signal mask of the caller stay.", 0),
    STRESS("plans-leave-nothing", conformance_stress_plans,
           "Plans and runs leave no memory, thread or file behind.", 0),
    STRESS("cycles", conformance_stress_cycles,
           "Opening and closing leaves no memory, thread, mapping or file behind.", 0),
    STRESS("fork", conformance_stress_fork, "A child process computes, or is told that it cannot.",
           20),
    STRESS("bits-repeat", conformance_stress_bits_repeat,
           "Promised bits are the same each time and at every address.", 0),
    STRESS("bits-threads", conformance_stress_bits_threads,
           "Promised bits are the same for any number of threads.", 0),
    STRESS("bits-neighbours", conformance_stress_bits_neighbours,
           "Promised bits of a row or column do not depend on the others.", 0),
    STRESS("bits-batch", conformance_stress_bits_batch,
           "Promised bits of a matrix do not depend on its batch.", 0),
    STRESS("bits-parts", conformance_stress_bits_parts,
           "Promised bits are the same in any number of shares.", 0),
};

const size_t conformance_stress_check_count =
    sizeof conformance_stress_checks / sizeof conformance_stress_checks[0];

/* ---- Results that are known ---- */

/* Executes a copy of `test` and judges it; "" when it is right. */
static void run_again(conformance_session *session, conformance_gemm_case *test, char *text,
                      size_t size)
{
    conformance_gemm_result result;
    conformance_tensor *d = &test->tensors[KILN_GEMM_D];
    memcpy(d->memory, d->before, (size_t)d->bytes);
    conformance_gemm_execute(session->runtime, session->name, test, &result);
    if (result.outcome == CONFORMANCE_PASSED)
        conformance_gemm_judge(test, &result);
    snprintf(text, size, "%.*s", (int)size - 1,
             result.outcome == CONFORMANCE_PASSED ? "" : result.text);
}

/* ---- Threads ---- */

enum { THREADS = 8, ROUNDS = 60, CASES = 3 };

typedef struct thread_work {
    conformance_session *session;
    conformance_gemm_case *cases[THREADS][CASES]; /* the first of equal descriptors */
    char texts[THREADS][600];
} thread_work;

static void work(void *argument, int64_t index)
{
    thread_work *all = argument;
    for (int round = 0; round < ROUNDS && !*all->texts[index]; round++)
        run_again(all->session, all->cases[index][round % CASES], all->texts[index],
                  sizeof all->texts[index]);
}

static void run_threads(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    thread_work all = {.session = &bench->session};
    conformance_gemm_spec asked = conformance_gemm_plain(types, 5, 17, 64);
    bool made = true;
    if (!conformance_bench_serves(bench, &asked))
        return;
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < CASES; k++) {
            conformance_gemm_spec spec =
                conformance_gemm_plain(types, k == 0 ? 24 : 5 + i, k == 1 ? 17 : 24, 64);
            spec.streamed = k == 2;
            all.cases[i][k] = conformance_gemm_make(bench, &spec);
            made = made && all.cases[i][k];
        }
    if (made && !conformance_threads(THREADS, work, &all))
        conformance_fail(bench->report, "no threads could be made");
    for (int i = 0; i < THREADS; i++) {
        if (*all.texts[i])
            conformance_fail(bench->report, "with %d threads at once: %s", THREADS, all.texts[i]);
        for (int k = 0; k < CASES; k++)
            conformance_gemm_case_free(all.cases[i][k]);
    }
}

void conformance_stress_threads(const conformance_subject *subject, conformance_report *report)
{
    conformance_gemm_bench bench;
    if (conformance_bench_begin(subject, NULL, report, &bench)) {
        for (int i = 0; i < bench.type_count && i < 2; i++)
            if (!conformance_bench_failed(&bench))
                run_threads(&bench, &bench.types[i]);
    }
    conformance_bench_end(&bench);
}

/* ---- Streams ---- */

enum { STREAMS = 4, QUEUED = 60 };

typedef struct queued {
    conformance_gemm_case *test;
    conformance_gemm_placed placed;
} queued;

static bool make_queued(conformance_gemm_bench *bench, const conformance_gemm_spec *spec,
                        queued *self)
{
    memset(self, 0, sizeof *self);
    self->test = conformance_gemm_make(bench, spec);
    return self->test && conformance_gemm_place(bench, self->test, &self->placed);
}

static void release(queued *self)
{
    conformance_gemm_release(&self->placed);
    conformance_gemm_case_free(self->test);
}

static void judge_queued(conformance_gemm_bench *bench, queued *self, const char *what)
{
    conformance_gemm_result result = {.outcome = CONFORMANCE_PASSED};
    kiln_candidate answer = conformance_gemm_ask(&bench->session, &self->test->desc);
    result.answer_flags = answer.flags;
    conformance_gemm_fetch(bench, self->test, &self->placed, KILN_GEMM_D);
    conformance_gemm_judge(self->test, &result);
    if (result.outcome == CONFORMANCE_FAILED)
        conformance_fail(bench->report, "%s: %s", what, result.text);
}

void conformance_stress_streams(const conformance_subject *subject, conformance_report *report)
{
    conformance_gemm_bench bench;
    static queued runs[QUEUED];
    kiln_stream *streams[STREAMS] = {NULL};
    if (conformance_bench_begin(subject, NULL, report, &bench)) {
        conformance_gemm_spec spec =
            conformance_gemm_plain(conformance_bench_first(&bench), 16, 16, 32);
        kiln_gemm_desc desc = conformance_gemm_settled(&spec);
        kiln_plan *plan =
            conformance_bench_serves(&bench, &spec) ? conformance_gemm_plan(&bench, &desc) : NULL;
        bool ready = plan != NULL;
        for (int i = 0; ready && i < STREAMS; i++)
            ready = kiln_stream_create(bench.session.device, &streams[i]) == KILN_OK;
        for (int i = 0; ready && i < QUEUED; i++)
            ready = make_queued(&bench, &spec, &runs[i]);
        for (int i = 0; ready && i < QUEUED; i++) {
            kiln_gemm_args args = {{sizeof args, KILN_GEMM_SLOTS, runs[i].placed.tensors}, 1, 0};
            ready = kiln_plan_run(plan, streams[i % STREAMS], &args.head) == KILN_OK;
        }
        for (int i = 0; i < STREAMS; i++)
            ready = (!streams[i] || kiln_stream_wait(streams[i]) == KILN_OK) && ready;
        if (!ready && report->verdict == CONFORMANCE_CHECK_PASSED)
            conformance_fail(report, "%d runs in %d streams: %s", QUEUED, STREAMS,
                             kiln_last_error());
        for (int i = 0; i < QUEUED; i++) {
            if (ready && !conformance_bench_failed(&bench))
                judge_queued(&bench, &runs[i], "one of many runs that were queued");
            release(&runs[i]);
        }
        for (int i = 0; i < STREAMS; i++)
            kiln_stream_destroy(streams[i]);
        kiln_plan_release(plan);
    }
    conformance_bench_end(&bench);
}

/* ---- Faults ---- */

static kiln_status fault(void *argument, kiln_status status)
{
    (void)argument;
    (void)status;
    return KILN_FAULT;
}

static bool unchanged(conformance_gemm_bench *bench, queued *self)
{
    conformance_tensor *d = &self->test->tensors[KILN_GEMM_D];
    conformance_gemm_fetch(bench, self->test, &self->placed, KILN_GEMM_D);
    return memcmp(d->memory, d->before, (size_t)d->bytes) == 0;
}

static void fault_and_run(conformance_gemm_bench *bench, kiln_plan *plan, queued *behind,
                          queued *beside, kiln_stream *faulted, kiln_stream *other)
{
    kiln_gemm_args args = {{sizeof args, KILN_GEMM_SLOTS, behind->placed.tensors}, 1, 0};
    if (kiln_stream_enqueue(faulted, fault, NULL) == KILN_UNSUPPORTED) {
        bench->report->declined = bench->report->cases;
        return;
    }
    /* It may be refused at once, or skipped. */
    kiln_plan_run(plan, faulted, &args.head);
    for (int i = 0; i < 3; i++)
        if (kiln_stream_wait(faulted) != KILN_FAULT)
            conformance_fail(bench->report, "wait %d for a stream that has faulted does not say so",
                             i + 1);
    if (!unchanged(bench, behind))
        conformance_fail(bench->report, "a run that was queued behind a fault has written to D");
    args.head.tensors = beside->placed.tensors;
    if (kiln_plan_run(plan, other, &args.head) != KILN_OK || kiln_stream_wait(other) != KILN_OK)
        conformance_fail(bench->report, "a fault on one stream reaches another: %s",
                         kiln_last_error());
    else
        judge_queued(bench, beside, "a run on another stream than the one that has faulted");
}

void conformance_stress_faults(const conformance_subject *subject, conformance_report *report)
{
    conformance_gemm_bench bench;
    static queued runs[2];
    kiln_stream *streams[2] = {NULL, NULL};
    if (conformance_bench_begin(subject, NULL, report, &bench)) {
        conformance_gemm_spec spec =
            conformance_gemm_plain(conformance_bench_first(&bench), 9, 10, 11);
        kiln_gemm_desc desc = conformance_gemm_settled(&spec);
        kiln_plan *plan =
            conformance_bench_serves(&bench, &spec) ? conformance_gemm_plan(&bench, &desc) : NULL;
        bool ready = plan != NULL;
        for (int i = 0; ready && i < 2; i++) {
            ready = kiln_stream_create(bench.session.device, &streams[i]) == KILN_OK;
            ready = make_queued(&bench, &spec, &runs[i]) && ready;
        }
        if (ready)
            fault_and_run(&bench, plan, &runs[0], &runs[1], streams[0], streams[1]);
        else if (report->verdict == CONFORMANCE_CHECK_PASSED)
            conformance_fail(report, "no streams: %s", kiln_last_error());
        for (int i = 0; i < 2; i++) {
            kiln_stream_destroy(streams[i]);
            release(&runs[i]);
        }
        kiln_plan_release(plan);
    }
    conformance_bench_end(&bench);
}

/* ---- Two runtimes ---- */

typedef struct runtimes_work {
    const conformance_subject *subject;
    conformance_gemm_bench *benches[2];
    conformance_gemm_case *cases[2];
    char texts[3][600];
} runtimes_work;

/* Two run, and one opens and closes. */
static void use_runtimes(void *argument, int64_t index)
{
    runtimes_work *all = argument;
    for (int round = 0; round < 80 && index < 2 && !*all->texts[index]; round++)
        run_again(&all->benches[index]->session, all->cases[index], all->texts[index],
                  sizeof all->texts[index]);
    for (int round = 0; round < 4 && index == 2; round++) {
        conformance_report report = {.verdict = CONFORMANCE_CHECK_PASSED};
        conformance_session session;
        if (conformance_session_open(all->subject, NULL, &report, &session))
            conformance_session_close(&session);
        else
            snprintf(all->texts[2], sizeof all->texts[2], "a third cannot be opened: %.500s",
                     report.text);
    }
}

void conformance_stress_runtimes(const conformance_subject *subject, conformance_report *report)
{
    conformance_gemm_bench first, second;
    bool open = conformance_bench_begin(subject, NULL, report, &first);
    bool both = open && conformance_bench_begin(subject, NULL, report, &second);
    if (open && !both) {
        char reason[900];
        snprintf(reason, sizeof reason, "%.899s", report->text);
        conformance_fail(report, "a second runtime cannot use it: %s", reason);
    }
    conformance_gemm_spec spec =
        conformance_gemm_plain(conformance_bench_first(&first), 20, 21, 64);
    if (both && !conformance_bench_serves(&first, &spec)) {
        conformance_session_close(&second.session);
    } else if (both) {
        runtimes_work all = {.subject = subject, .benches = {&first, &second}};
        all.cases[0] = conformance_gemm_make(&first, &spec);
        all.cases[1] = conformance_gemm_make(&second, &spec);
        if (all.cases[0] && all.cases[1] && !conformance_threads(3, use_runtimes, &all))
            conformance_fail(report, "no threads could be made");
        for (int i = 0; i < 3; i++)
            if (*all.texts[i])
                conformance_fail(report, "with three runtimes at once: %s", all.texts[i]);
        conformance_gemm_case_free(all.cases[0]);
        /* The second goes on when the first is closed. */
        char text[600] = "";
        conformance_session_close(&first.session);
        if (all.cases[1] && !conformance_bench_failed(&second))
            run_again(&second.session, all.cases[1], text, sizeof text);
        if (*text)
            conformance_fail(report, "after another runtime was closed: %s", text);
        conformance_gemm_case_free(all.cases[1]);
        conformance_bench_end(&second);
    }
    if (first.session.runtime)
        conformance_session_close(&first.session);
}

/* ---- The caller's team ---- */

/* Parts are taken from the last on. */
typedef struct team {
    int64_t size;    /* as the runtime is told */
    int64_t threads; /* that it has: 1 = the caller alone */
} team;

typedef struct team_job {
    void (*task)(void *argument, int64_t part);
    void *argument;
    int64_t parts, threads;
} team_job;

static void team_member(void *argument, int64_t index)
{
    const team_job *job = argument;
    for (int64_t part = job->parts - 1 - index; part >= 0; part -= job->threads)
        job->task(job->argument, part);
}

static void team_parallel_for(void *context, int64_t parts,
                              void (*task)(void *argument, int64_t part), void *argument)
{
    team *self = context;
    team_job job = {task, argument, parts, self->threads};
    if (self->threads == 1 || !conformance_threads(self->threads, team_member, &job)) {
        job.threads = 1;
        team_member(&job, 0);
    }
}

void conformance_stress_team(const conformance_subject *subject, conformance_report *report)
{
    static const team teams[] = {{1, 1}, {4, 1}, {3, 3}, {8, 8}, {2, 5}};
    for (size_t i = 0; i < sizeof teams / sizeof *teams; i++) {
        team own = teams[i];
        conformance_session_options options = {.parallel_for = team_parallel_for,
                                               .parallel_context = &own,
                                               .parallel_threads = own.size};
        conformance_gemm_bench bench;
        if (conformance_bench_begin(subject, &options, report, &bench))
            for (int k = 0; k < bench.type_count && !conformance_bench_failed(&bench); k++) {
                conformance_gemm_spec spec = conformance_gemm_plain(
                    &bench.types[k], 133, k == 0 ? 120 : 30, k == 0 ? 260 : 30);
                conformance_gemm_try(&bench, "with the caller's team", &spec);
            }
        conformance_bench_end(&bench);
        if (report->verdict != CONFORMANCE_CHECK_PASSED)
            return;
    }
}

enum { NESTED = 8 };

typedef struct nested_work {
    conformance_session *session;
    conformance_gemm_case *cases[NESTED];
    char texts[NESTED][600];
} nested_work;

static void nested_task(void *argument, int64_t part)
{
    nested_work *all = argument;
    run_again(all->session, all->cases[part], all->texts[part], sizeof all->texts[part]);
}

void conformance_stress_nested(const conformance_subject *subject, conformance_report *report)
{
    conformance_gemm_bench bench;
    if (conformance_bench_begin(subject, NULL, report, &bench)) {
        if (!bench.session.host) {
            conformance_skip(report, "its runs wait for a device, which tasks must not");
        } else {
            nested_work all = {.session = &bench.session};
            conformance_gemm_spec spec =
                conformance_gemm_plain(conformance_bench_first(&bench), 133, 120, 260);
            bool made = conformance_bench_serves(&bench, &spec);
            for (int i = 0; made && i < NESTED; i++)
                made = (all.cases[i] = conformance_gemm_make(&bench, &spec)) && made;
            if (made)
                kiln_parallel_for(bench.session.runtime, NESTED, nested_task, &all);
            for (int i = 0; i < NESTED; i++) {
                if (*all.texts[i])
                    conformance_fail(report, "run from inside of a task: %s", all.texts[i]);
                conformance_gemm_case_free(all.cases[i]);
            }
        }
    }
    conformance_bench_end(&bench);
}

/* ---- The caller's state ---- */

typedef struct thread_state {
    int rounding;
    unsigned control; /* of the vector unit, without its sticky exceptions */
    sigset_t mask;
} thread_state;

static thread_state state_now(void)
{
    thread_state state;
    memset(&state, 0, sizeof state);
    state.rounding = fegetround();
#if defined(__SSE__)
    state.control = _mm_getcsr() & ~0x3fu;
#endif
    sigemptyset(&state.mask);
    pthread_sigmask(SIG_SETMASK, NULL, &state.mask);
    return state;
}

static void expect_state(conformance_report *report, const char *what, const thread_state *before)
{
    thread_state now = state_now();
    if (now.rounding != before->rounding)
        conformance_fail(report, "%s changes the rounding of the calling thread", what);
    else if (now.control != before->control)
        conformance_fail(report,
                         "%s changes the control word of the calling thread from %#x to %#x", what,
                         before->control, now.control);
    for (int number = 1; number < 32; number++)
        if (sigismember(&now.mask, number) != sigismember(&before->mask, number))
            conformance_fail(report, "%s changes the signal mask of the calling thread", what);
}

/* Everything that calls the plugin, in an unusual state. */
static void use_all(const conformance_subject *subject, conformance_report *report,
                    const thread_state *state)
{
    conformance_gemm_bench bench;
    bool begun = conformance_bench_begin(subject, NULL, report, &bench);
    expect_state(report, "opening or query", state);
    for (int i = 0; begun && i < bench.type_count; i++) {
        conformance_gemm_spec spec = conformance_gemm_plain(&bench.types[i], 17, 18, 19);
        kiln_gemm_desc desc = conformance_gemm_settled(&spec);
        conformance_gemm_result result;
        kiln_plan_release(conformance_gemm_plan(&bench, &desc));
        expect_state(report, "plan", state);
        conformance_gemm_case *test = conformance_gemm_make(&bench, &spec);
        if (test)
            conformance_gemm_execute(bench.session.runtime, bench.session.name, test, &result);
        expect_state(report, "run", state);
        conformance_gemm_case_free(test);
        spec.desc.head.flags |= KILN_GEMM_PACKED_B;
        test = conformance_gemm_make(&bench, &spec);
        if (test)
            conformance_gemm_execute(bench.session.runtime, bench.session.name, test, &result);
        expect_state(report, "pack or unpack", state);
        conformance_gemm_case_free(test);
    }
    conformance_bench_end(&bench);
    expect_state(report, "close", state);
}

void conformance_stress_state(const conformance_subject *subject, conformance_report *report)
{
    static const int roundings[] = {FE_TONEAREST, FE_UPWARD, FE_TOWARDZERO};
    for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++)
        for (int flush = 0; flush < 2; flush++) {
            sigset_t blocked, before;
            sigemptyset(&blocked);
            sigaddset(&blocked, SIGUSR1);
            pthread_sigmask(SIG_BLOCK, &blocked, &before);
            fesetround(roundings[i]);
#if defined(__SSE__)
            unsigned control = _mm_getcsr();
            _mm_setcsr(flush ? control | 0x8040u : control & ~0x8040u);
#endif
            thread_state state = state_now();
            if (report->verdict == CONFORMANCE_CHECK_PASSED)
                use_all(subject, report, &state);
            fesetround(FE_TONEAREST);
#if defined(__SSE__)
            _mm_setcsr(control & ~0xe040u);
#endif
            pthread_sigmask(SIG_SETMASK, &before, NULL);
        }
}
