/* SPDX-License-Identifier: Apache-2.0 */
/* Stress: what plans and instances leave behind, and child processes. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/planning.h"
#include "conformance/plugin/op/gemm_plain.h"
#include "conformance/plugin/op/op.h"
#include "conformance/plugin/state.h"
#include "conformance/sanitizers.h"

/* ---- What a process holds ---- */

typedef struct holdings {
    int64_t bytes; /* of the heap */
    int64_t files, threads, mappings;
} holdings;

static holdings holdings_now(void)
{
    conformance_state state;
    conformance_state_take(&state, false);
    holdings now = {
        .bytes = state.heap_bytes, .threads = state.threads, .mappings = state.mappings};
    for (int i = 0; i < CONFORMANCE_DESCRIPTORS; i++)
        now.files += state.descriptors[i];
    return now;
}

typedef struct leftover {
    const char *what;
    int64_t per_hundred; /* hundredths of one per round that are too many */
    int64_t least;       /* that any measurement has found; -1 = none yet */
} leftover;

enum { MEASUREMENTS = 40 };

/* Does `round` many times, again and again, and looks at what has grown. Caches fill up and then
 * grow no more; what is left behind each time is left behind in every measurement. */
static void measure(conformance_report *report, const char *what, int64_t times,
                    void (*round)(void *argument), void *argument)
{
    leftover all[] = {{"bytes of memory", 800, -1},
                      {"open files", 50, -1},
                      {"threads", 50, -1},
                      {"mappings", 50, -1}};
    bool growing = true;
#if defined(__GLIBC__)
    mallopt(M_ARENA_MAX, 1); /* else each new thread may begin a heap of its own */
#endif
    for (int64_t i = 0; i < times; i++)
        round(argument);
    for (int measured = 0; growing && measured < MEASUREMENTS; measured++) {
        holdings before = holdings_now();
        for (int64_t i = 0; i < times; i++)
            round(argument);
        holdings after = holdings_now();
        int64_t grown[] = {after.bytes - before.bytes, after.files - before.files,
                           after.threads - before.threads, after.mappings - before.mappings};
        growing = false;
        for (int i = 0; i < 4; i++) {
            if (all[i].least < 0 || grown[i] < all[i].least)
                all[i].least = grown[i] > 0 ? grown[i] : 0;
            growing |= all[i].least * 100 >= times * all[i].per_hundred;
        }
        report->cases += times;
    }
    for (int i = 0; i < 4; i++)
        if (all[i].least * 100 >= times * all[i].per_hundred)
            conformance_fail(report, "%lld times %s leave %lld %s behind, and so again and again",
                             (long long)times, what, (long long)all[i].least, all[i].what);
}

/* ---- Plans and runs ---- */

typedef struct planned {
    conformance_gemm_bench *bench;
    conformance_gemm_case *test;
    kiln_plan *plan;
} planned;

/* A plan with a parent is not cached. */
static void plan_once(void *argument)
{
    planned *self = argument;
    kiln_plan_options options = {.struct_size = sizeof options,
                                 .device = self->bench->session.device,
                                 .backend = self->bench->session.name,
                                 .parent = self};
    kiln_plan *plan = NULL;
    if (conformance_plan_create(self->bench->session.runtime, KILN_GEMM, &self->test->desc.head,
                                &options, &plan) != KILN_OK)
        conformance_fail(self->bench->report, "planning fails: %s", kiln_last_error());
    kiln_plan_release(plan);
}

static void ask_once(void *argument)
{
    planned *self = argument;
    conformance_gemm_ask(&self->bench->session, &self->test->desc);
}

static void run_once(void *argument)
{
    planned *self = argument;
    conformance_gemm_result result;
    conformance_gemm_execute(self->bench->session.runtime, self->bench->session.name, self->test,
                             &result); /* whether it is right is asked elsewhere */
}

void conformance_stress_plans(const conformance_subject *subject, conformance_report *report)
{
    conformance_gemm_bench bench;
    if (conformance_bench_begin(subject, NULL, report, &bench))
        for (int i = 0; i < bench.type_count && i < 2; i++) {
            conformance_gemm_spec spec = conformance_gemm_plain(&bench.types[i], 8, 9, 10);
            planned self = {.bench = &bench};
            if (!conformance_bench_serves(&bench, &spec) ||
                !(self.test = conformance_gemm_make(&bench, &spec)))
                continue;
            measure(report, "query", 100, ask_once, &self);
            measure(report, "plan and free", 100, plan_once, &self);
            measure(report, "run", 100, run_once, &self);
            self.test->desc.head.flags |= KILN_GEMM_PACKED_B;
            if (conformance_gemm_ask(&bench.session, &self.test->desc).support != KILN_SUPPORT_NO)
                measure(report, "pack, unpack and run", 50, run_once, &self);
            conformance_gemm_case_free(self.test);
        }
    conformance_bench_end(&bench);
}

/* ---- Instances ---- */

typedef struct cycle {
    const conformance_subject *subject;
    conformance_report *report;
    const conformance_plain_types *types; /* NULL = nothing is served */
} cycle;

static void open_and_close(void *argument)
{
    cycle *self = argument;
    conformance_report report = {.verdict = CONFORMANCE_CHECK_PASSED};
    conformance_gemm_bench bench;
    memset(&bench, 0, sizeof bench);
    bench.report = &report;
    if (!conformance_session_open(self->subject, NULL, &report, &bench.session)) {
        conformance_fail(self->report, "it does not open again: %s", report.text);
        return;
    }
    if (self->types) {
        conformance_gemm_spec spec = conformance_gemm_plain(self->types, 8, 9, 10);
        spec.streamed = true;
        conformance_gemm_try(&bench, "after opening again", &spec);
    }
    conformance_session_close(&bench.session);
    if (report.verdict == CONFORMANCE_CHECK_FAILED)
        conformance_fail(self->report, "%s", report.text);
}

void conformance_stress_cycles(const conformance_subject *subject, conformance_report *report)
{
    conformance_gemm_bench bench;
    conformance_report finding = {.verdict = CONFORMANCE_CHECK_PASSED};
    bool served = conformance_bench_begin(subject, NULL, &finding, &bench);
    if (!bench.session.runtime) {
        report->verdict = finding.verdict;
        memcpy(report->text, finding.text, sizeof report->text);
        return;
    }
    conformance_session_close(&bench.session);
    cycle self = {subject, report, served ? conformance_bench_first(&bench) : NULL};
    measure(report, "open and close", 8, open_and_close, &self);
}

/* ---- Child processes ---- */

enum { CHILD_RIGHT, CHILD_WRONG, CHILD_REFUSED, CHILD_LIMIT_MS = 3000 };

static int in_child(conformance_gemm_bench *bench, conformance_gemm_case *test)
{
    conformance_gemm_result result;
    conformance_tensor *d = &test->tensors[KILN_GEMM_D];
    memcpy(d->memory, d->before, (size_t)d->bytes);
    if (!bench->session.host) {
        kiln_stream *stream = NULL;
        if (kiln_stream_create(bench->session.device, &stream) == KILN_FORKED)
            return CHILD_REFUSED;
    }
    conformance_gemm_execute(bench->session.runtime, bench->session.name, test, &result);
    if (result.outcome == CONFORMANCE_PASSED)
        conformance_gemm_judge(test, &result);
    return result.outcome == CONFORMANCE_PASSED ? CHILD_RIGHT : CHILD_WRONG;
}

/* The child's word; -1 when it crashed, -2 when it took too long. */
static int fork_and_run(conformance_gemm_bench *bench, conformance_gemm_case *test)
{
    pid_t child = fork();
    if (child == 0)
        _exit(in_child(bench, test));
    int status = 0;
    for (int waited = 0; child > 0 && waited < CHILD_LIMIT_MS * (CONFORMANCE_SANITIZED ? 4 : 1);
         waited++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        usleep(1000);
    }
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    return -2;
}

void conformance_stress_fork(const conformance_subject *subject, conformance_report *report)
{
    conformance_gemm_bench bench;
    if (CONFORMANCE_TSAN) {
        conformance_skip(report, "ThreadSanitizer does not survive a fork");
        return;
    }
    if (conformance_bench_begin(subject, NULL, report, &bench)) {
        conformance_gemm_spec spec =
            conformance_gemm_plain(conformance_bench_first(&bench), 40, 41, 42);
        conformance_gemm_case *test = conformance_gemm_make(&bench, &spec);
        kiln_plan *plan = test ? conformance_gemm_plan(&bench, &test->desc) : NULL;
        kiln_device_info info = {.struct_size = sizeof info};
        bool safe =
            bench.session.host || (kiln_device_get_info(bench.session.device, &info) == KILN_OK &&
                                   (info.flags & KILN_DEVICE_FORK_SAFE));
        conformance_gemm_result result;
        if (plan) {
            conformance_gemm_execute(bench.session.runtime, bench.session.name, test, &result);
            int word = fork_and_run(&bench, test);
            if (word == -2)
                conformance_fail(report, "in a child process a run does not end");
            else if (word == -1)
                conformance_fail(report, "in a child process a run crashes");
            else if (word == CHILD_WRONG || (safe && word == CHILD_REFUSED))
                conformance_fail(report, "in a child process a run fails, though %s",
                                 bench.session.host ? "it computes on the host"
                                                    : "the device says that it is fork-safe");
            conformance_tensor *d = &test->tensors[KILN_GEMM_D];
            memcpy(d->memory, d->before, (size_t)d->bytes);
            conformance_gemm_try_case(&bench, "in the parent, after a fork", test);
        } else {
            conformance_gemm_case_free(test);
        }
        kiln_plan_release(plan);
    }
    conformance_bench_end(&bench);
}
