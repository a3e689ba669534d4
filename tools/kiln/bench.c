/* SPDX-License-Identifier: Apache-2.0 */
/* kiln bench: speed beside ceilings and peers, and what the frame costs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases.h"
#include "bench/replay.h"
#include "bench/session.h"
#include "tools/kiln/bench_replay.h"

/* ---- What happens meanwhile ---- */

/* For the method's and the session's callbacks: there is one run in the program. */
static struct {
    const tool_common *common;
    const char *what;
    bool table;
} current;

static bool is_interrupted(void *context)
{
    (void)context;
    return tool_interrupted() != 0;
}

static void show_round(void *context, int64_t round, int64_t rounds)
{
    (void)context;
    tool_progress("%s, round %lld of %lld", current.what, (long long)round + 1, (long long)rounds);
}

static void show_row(const bench_result *result)
{
    if (!current.table)
        return;
    tool_progress_end();
    bench_table_row(stdout, result);
    tool_progress_begin(current.common);
}

/* ---- Running ---- */

/* Peers that were named must be there, before anything is measured. */
static bool add_named_peers(bench_session *session, const bench_options *self)
{
    bench_message message;
    for (int i = 0; i < self->peer_count; i++) {
        const bench_peer *peer = bench_peer_find(self->peers[i]);
        if (!peer)
            bench_say(&message, "there is no peer '%s'", self->peers[i]);
        tool_progress("starting peer %s", self->peers[i]);
        if (!peer ||
            !bench_session_add_peer(session, peer, self->peer_core, self->peer_path, &message)) {
            tool_fail(&self->common, "%s", message.text);
            return false;
        }
    }
    return true;
}

/* Otherwise those that are there, when the first case wants them. */
static void add_all_peers(bench_session *session, void *context)
{
    const bench_options *self = context;
    bench_message message;
    for (int i = 0; bench_peer_at(i); i++) {
        tool_progress("starting peer %s", bench_peer_at(i)->name);
        if (!bench_session_add_peer(session, bench_peer_at(i), self->peer_core, self->peer_path,
                                    &message))
            bench_report_note(session->report, message.text);
    }
}

static void start_session(bench_session *session, bench_options *self, kiln_runtime *runtime,
                          bench_report *report)
{
    memset(session, 0, sizeof *session);
    session->runtime = runtime;
    session->report = report;
    session->attempts = self->attempts;
    session->row = show_row;
    session->method = (bench_method){.slice_ns = self->slice_ms * 1000000,
                                     .rounds = self->rounds,
                                     .minimum_rounds = self->rounds < 5 ? self->rounds : 5,
                                     .budget_ns = self->budget_s * 1000000000,
                                     .seed = (uint64_t)self->seed,
                                     .stop = is_interrupted,
                                     .progress = show_round};
    if (!self->no_peers && self->peer_count == 0) {
        session->start_peers = add_all_peers;
        session->peers_context = self;
    }
    report->seed = (uint64_t)self->seed;
    report->slice_ns = session->method.slice_ns;
    report->rounds = self->rounds;
}

/* What a replayed case was planned by; NULL for others. */
static const kiln_gemm_desc *planned(const bench_case *one)
{
    return one->calls > 0 ? &one->planned : NULL;
}

/* Every backend that serves the case, once each. */
static bench_end measure_all(bench_session *session, const bench_case *one, const char *device)
{
    bench_place places[BENCH_MAXIMUM_NAMES];
    bench_message message;
    int64_t count = bench_places(session->runtime, planned(one) ? planned(one) : &one->gemm.desc,
                                 places, BENCH_MAXIMUM_NAMES, &message);
    if (count == 0)
        bench_say(&message, "no backend serves this");
    if (count <= 0) {
        bench_report_fail(session->report, one->shape, "all", &message);
        return BENCH_END_FAILED;
    }
    bench_end end = BENCH_END_MEASURED;
    for (int64_t i = 0; i < count && i < BENCH_MAXIMUM_NAMES && end != BENCH_END_INTERRUPTED; i++) {
        bool done = device[0] && strcmp(places[i].device, device) != 0;
        for (int64_t j = 0; j < i; j++)
            done |= strcmp(places[i].backend, places[j].backend) == 0;
        bench_target target = {session->runtime, places[i].backend, places[i].device, planned(one)};
        if (!done)
            end = bench_session_gemm(session, &one->gemm, &target, one->shape, one->dtype);
    }
    return end;
}

/* Whether somebody serves a case on a device that this machine has. */
static bool is_served(const bench_session *session, const bench_case *one, const char *device)
{
    bench_place places[BENCH_MAXIMUM_NAMES];
    bench_message message;
    int64_t count =
        bench_places(session->runtime, &one->planned, places, BENCH_MAXIMUM_NAMES, &message);
    for (int64_t i = 0; i < count && i < BENCH_MAXIMUM_NAMES; i++)
        if (strcmp(places[i].device, device) == 0)
            return true;
    return false;
}

/* Where the tensors live: as the caller says, or the case; a replayed one where its call was, if
 * somebody serves it there and the caller names no backend, which may be of another device. "" =
 * where somebody serves it. */
static const char *device_of(const bench_session *session, const bench_options *self,
                             const bench_case *one)
{
    if (self->device)
        return self->device;
    bool there = one->calls > 0 && self->backend_count == 0 && is_served(session, one, one->home);
    return there ? one->home : one->device;
}

static bench_end measure_case(bench_session *session, const bench_options *self,
                              const bench_case *one)
{
    const char *device = device_of(session, self, one), *word_backend[] = {one->backend};
    const char *const *backends = self->backend_count ? self->backends : word_backend;
    int64_t first = session->report->result_count;
    bench_end end = BENCH_END_MEASURED;
    for (int i = 0;
         i < (self->backend_count ? self->backend_count : 1) && end != BENCH_END_INTERRUPTED; i++) {
        bench_target target = {session->runtime, backends[i], device, planned(one)};
        if (strcmp(backends[i], "all") == 0)
            end = measure_all(session, one, device);
        else
            end = bench_session_gemm(session, &one->gemm, &target, one->shape, one->dtype);
    }
    for (int64_t i = first; i < session->report->result_count; i++)
        session->report->results[i].calls = one->calls;
    return end;
}

static bench_end measure_cases(bench_session *session, const bench_options *self,
                               const bench_case *list, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        current.what = list[i].shape;
        tool_progress("%s", list[i].shape);
        if (tool_interrupted() || measure_case(session, self, &list[i]) == BENCH_END_INTERRUPTED)
            return BENCH_END_INTERRUPTED;
    }
    return BENCH_END_MEASURED;
}

/* ---- Telling ---- */

/* What is to be measured: the overhead when there is no list of cases. */
typedef struct bench_task {
    const bench_case *list;
    int64_t count;
    const bench_replay *replay; /* NULL: the cases are words */
} bench_task;

static int print_json(const bench_options *self, const bench_task *task, const bench_report *report)
{
    json_t *object = bench_report_json(report);
    if (object && task->replay)
        bench_replay_add_json(task->replay, object);
    return tool_print_json(&self->common, object);
}

static int print_report(const bench_options *self, const bench_task *task, bench_report *report)
{
    int code = TOOL_OK;
    if (self->common.json)
        code = print_json(self, task, report);
    else if (self->csv)
        bench_report_csv(stdout, report);
    else
        bench_table_end(stdout, report);
    if (task->replay && !self->common.json && !self->csv)
        bench_replay_table(stdout, report);
    for (int64_t i = 0; i < report->failure_count; i++)
        code = tool_fail(&self->common, "%s%s%s: %s", report->failures[i].shape,
                         report->failures[i].backend[0] ? " on " : "", report->failures[i].backend,
                         report->failures[i].message.text);
    if (bench_report_beyond(report))
        code = tool_fail(&self->common, "a limit is exceeded");
    if (bench_report_void(report) && !self->allow_void)
        code = tool_fail(
            &self->common,
            "the run is void: nothing else may run on the machine meanwhile (--allow-void "
            "accepts it)");
    return tool_interrupted() ? 128 + tool_interrupted() : code;
}

static bench_end measure(bench_session *session, const bench_options *self, const bench_task *task)
{
    bench_target target = {.runtime = session->runtime,
                           .backend = self->backend_count ? self->backends[0] : NULL,
                           .device = "host"};
    if (current.table)
        bench_table_head(stdout);
    return task->list ? measure_cases(session, self, task->list, task->count)
                      : bench_session_overhead(session, &target);
}

static int run_session(bench_options *self, kiln_runtime *runtime, const bench_task *task)
{
    bench_report report;
    bench_session session;
    bench_message message;
    memset(&report, 0, sizeof report);
    start_session(&session, self, runtime, &report);
    if (task->replay)
        bench_replay_begin(task->replay, &report);
    current.common = &self->common;
    current.table = !self->common.json && !self->csv;
    current.what = "overhead";
    tool_progress_begin(&self->common);
    bench_end end = BENCH_END_FAILED;
    bool started = bench_session_start(&session, &message);
    if (!started)
        tool_fail(&self->common, "%s", message.text);
    else if (!task->list || add_named_peers(&session, self))
        end = measure(&session, self, task);
    else
        started = false;
    tool_progress_end();
    bench_session_end(&session);
    report.interrupted = end == BENCH_END_INTERRUPTED;
    int code = started ? print_report(self, task, &report) : TOOL_FAILED;
    bench_report_free(&report);
    return code;
}

static int open_and_run(bench_options *self, const bench_task *task)
{
    kiln_runtime *runtime;
    bench_options_set_threads(self, task->list ? NULL : "2");
    if (!tool_runtime_open(&self->common, &runtime))
        return TOOL_FAILED;
    int code = run_session(self, runtime, task);
    kiln_runtime_close(runtime);
    return code;
}

/* Reads all cases before anything is opened: a wrong word must not cost an hour. */
static int bench_gemm_command(bench_options *self, const char *const *words, int64_t count)
{
    bench_cases cases;
    bench_message message;
    if (count == 0 && !self->list)
        return tool_usage(&self->common,
                          "name a shape, such as m=512 n=512 k=512 type=f32, or a --list (%s)",
                          bench_case_lists);
    if (!bench_cases_expand(words, count, self->list, &cases, &message))
        return tool_usage(&self->common, "%s", message.text);
    bench_case *list = tool_allocate((size_t)cases.count, sizeof *list);
    int code = TOOL_OK;
    for (int64_t i = 0; i < cases.count && code == TOOL_OK; i++) {
        gemm_problem problem;
        if (!bench_case_read(self, cases.texts[i], &list[i], &problem))
            code = tool_usage(&self->common, "%s", problem.text);
    }
    if (code == TOOL_OK)
        code = open_and_run(self, &(bench_task){.list = list, .count = cases.count});
    free(list);
    bench_cases_free(&cases);
    return code;
}

static int replay_command(bench_options *self)
{
    bench_replay replay;
    int code = TOOL_FAILED;
    if (!bench_replay_read(self, &replay))
        ;
    else if (replay.shapes == 0)
        tool_fail(&self->common, "%s holds no call of %s that ran", self->replay, KILN_GEMM);
    else
        code = open_and_run(self, &(bench_task){replay.cases, replay.count, &replay});
    bench_replay_free(&replay);
    return code;
}

static int command(bench_options *self, int argc, char **argv)
{
    if (!bench_options_read(self, argc, argv))
        return TOOL_USAGE;
    if (self->help) {
        printf("%s%s\nOptions:\n%s%s", bench_help, gemm_words_help, bench_own_help,
               TOOL_COMMON_HELP);
        return TOOL_OK;
    }
    if (self->peer_server)
        return bench_peer_serve(self->peer_server, self->peer_path,
                                self->threads ? atoll(self->threads) : 1);
    const char *const *words = (const char *const *)argv + optind;
    int64_t count = argc - optind;
    bool gemm = count > 0 && strcmp(words[0], "gemm") == 0;
    if (self->replay && count > gemm)
        return tool_usage(&self->common, "a --replay takes no words, not '%s'", words[gemm]);
    if (self->replay)
        return replay_command(self);
    if (gemm)
        return bench_gemm_command(self, words + 1, count - 1);
    if (count > 0 && strcmp(words[0], "overhead") == 0) {
        if (count > 1)
            return tool_usage(&self->common, "overhead takes no word '%s'", words[1]);
        return open_and_run(self, &(bench_task){NULL, 0, NULL});
    }
    if (count > 0)
        return tool_usage(&self->common, "'%s' is not measured; there are: gemm, overhead",
                          words[0]);
    return tool_usage(&self->common, "say what is to be measured: gemm or overhead, or a --replay");
}

int kiln_bench_main(int argc, char **argv)
{
    bench_options self = {.slice_ms = 20, .rounds = 25, .budget_s = 20, .attempts = 3, .seed = 1};
    self.common.command = "kiln bench";
    tool_catch_interrupts();
    int code = command(&self, argc, argv);
    tool_common_free(&self.common);
    return code;
}
