/* SPDX-License-Identifier: Apache-2.0 */
/* From a record of calls to cases. */
#include "tools/kiln/bench_replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kiln/recorded.h"

/* ---- What is not measured ---- */

static void leave(bench_replay *replay, const recorded_call *call, const char *shape,
                  const char *why)
{
    replay->left = tool_grow(replay->left, (size_t)replay->left_count + 1, sizeof *replay->left);
    bench_left *left = &replay->left[replay->left_count++];
    snprintf(left->shape, sizeof left->shape, "%s", shape);
    left->calls = call->runs;
    snprintf(left->why, sizeof left->why, "%.120s:%lld: %s", replay->path, (long long)call->line,
             why);
}

static void count_other(bench_replay *replay, const recorded_call *call)
{
    int64_t i = 0;
    while (i < replay->other_count &&
           strcmp(replay->others[i].operator_name, call->operator_name) != 0)
        i++;
    if (i == replay->other_count) {
        replay->others = tool_grow(replay->others, (size_t)i + 1, sizeof *replay->others);
        memset(&replay->others[i], 0, sizeof *replay->others);
        memcpy(replay->others[i].operator_name, call->operator_name,
               sizeof replay->others->operator_name);
        replay->other_count++;
    }
    replay->others[i].shapes++;
    if (__builtin_add_overflow(replay->others[i].calls, call->runs, &replay->others[i].calls))
        replay->others[i].calls = INT64_MAX;
}

/* ---- Cases ---- */

/* alpha = 1, and beta = 1 where there is a C: factors are not recorded. */
static void add_case(const bench_options *self, bench_replay *replay, const recorded_call *call)
{
    recorded_gemm gemm;
    gemm_problem problem;
    if (!recorded_gemm_read(call, &gemm, problem.text, sizeof problem.text)) {
        leave(replay, call, KILN_GEMM, problem.text);
        return;
    }
    bench_case *one = &replay->cases[replay->count];
    memset(one, 0, sizeof *one);
    recorded_gemm_words(&gemm.actual, one->shape, sizeof one->shape);
    one->calls = call->runs;
    one->planned = gemm.planned;
    one->gemm = (bench_gemm){
        .desc = gemm.actual, .alpha = 1, .beta = gemm.actual.c_type == KILN_TYPE_NONE ? 0 : 1};
    memcpy(one->home, call->home, sizeof one->home);
    if (!gemm.sizes_told) {
        leave(
            replay, call, one->shape,
            "its sizes were not recorded, only these, which are the largest that the plan allows");
        return;
    }
    if (bench_case_finish(self, one, &problem))
        replay->count++;
    else
        leave(replay, call, one->shape, problem.text);
}

static double operations(const bench_case *one)
{
    return bench_gemm_operations(&one->gemm) * (double)one->calls;
}

/* By all that is measured: who served the call does not matter here. */
static int compare_cases(const void *left, const void *right)
{
    const bench_case *a = left, *b = right;
    int order = memcmp(&a->gemm, &b->gemm, sizeof a->gemm);
    order = order ? order : memcmp(&a->planned, &b->planned, sizeof a->planned);
    return order ? order : strcmp(a->home, b->home);
}

/* Of those with equal operations the order is fixed, too. */
static int compare_weights(const void *left, const void *right)
{
    double a = operations(left), b = operations(right);
    return a != b ? (a < b ? 1 : -1) : compare_cases(left, right);
}

/* Calls that differ in what is not measured are one case. */
static void merge(bench_replay *replay)
{
    int64_t kept = 0;
    if (replay->count == 0)
        return;
    qsort(replay->cases, (size_t)replay->count, sizeof *replay->cases, compare_cases);
    for (int64_t i = 1; i < replay->count; i++) {
        bench_case *first = &replay->cases[kept], *one = &replay->cases[i];
        if (compare_cases(first, one) != 0)
            replay->cases[++kept] = *one;
        else if (__builtin_add_overflow(first->calls, one->calls, &first->calls))
            first->calls = INT64_MAX;
    }
    replay->count = kept + 1;
    qsort(replay->cases, (size_t)replay->count, sizeof *replay->cases, compare_weights);
}

/* Keeps the first `top` cases. */
static void cut(bench_replay *replay, int64_t top)
{
    double all = 0, beyond = 0;
    for (int64_t i = 0; i < replay->count; i++) {
        all += operations(&replay->cases[i]);
        beyond += i < top ? 0 : operations(&replay->cases[i]);
    }
    if (replay->count <= top)
        return;
    replay->passed_over = replay->count - top;
    replay->passed_over_share = beyond / all;
    replay->count = top;
}

static void count_all(bench_replay *replay)
{
    replay->shapes = replay->count + replay->left_count;
    for (int64_t i = 0; i < replay->shapes; i++) {
        int64_t calls =
            i < replay->count ? replay->cases[i].calls : replay->left[i - replay->count].calls;
        if (__builtin_add_overflow(replay->calls, calls, &replay->calls))
            replay->calls = INT64_MAX;
    }
}

static void take_calls(const bench_options *self, bench_replay *replay, const recorded_calls *calls)
{
    replay->cases = tool_allocate((size_t)calls->count, sizeof *replay->cases);
    for (int64_t i = 0; i < calls->count; i++) {
        const recorded_call *call = &calls->calls[i];
        if (call->runs == 0)
            replay->never_ran++;
        else if (strcmp(call->operator_name, KILN_GEMM) != 0)
            count_other(replay, call);
        else
            add_case(self, replay, call);
    }
    merge(replay);
    count_all(replay);
    if (self->top > 0)
        cut(replay, self->top);
}

bool bench_replay_read(const bench_options *self, bench_replay *replay)
{
    recorded_calls calls;
    memset(replay, 0, sizeof *replay);
    replay->path = self->replay;
    bool good = recorded_read(self->replay, &calls);
    if (good)
        take_calls(self, replay, &calls);
    else
        recorded_tell(&self->common, &calls);
    recorded_free(&calls);
    return good;
}

void bench_replay_free(bench_replay *replay)
{
    free(replay->cases);
    free(replay->left);
    free(replay->others);
    memset(replay, 0, sizeof *replay);
}

/* ---- Telling ---- */

static void note(bench_report *report, const char *format, ...) KILN_PRINTF(2, 3);

static void note(bench_report *report, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = tool_text_v(format, arguments);
    va_end(arguments);
    bench_report_note(report, text);
    free(text);
}

void bench_replay_begin(const bench_replay *replay, bench_report *report)
{
    report->replay_shapes = replay->shapes;
    report->replay_calls = replay->calls;
    for (int64_t i = 0; i < replay->left_count; i++) {
        bench_message message;
        bench_say(&message, "%lld call%s not measured: %s", (long long)replay->left[i].calls,
                  replay->left[i].calls == 1 ? "" : "s", replay->left[i].why);
        bench_report_fail(report, replay->left[i].shape, "", &message);
    }
    for (int64_t i = 0; i < replay->other_count; i++)
        note(report, "left out, since only %s is measured: %s, calls: %lld, shapes: %lld",
             KILN_GEMM, replay->others[i].operator_name, (long long)replay->others[i].calls,
             (long long)replay->others[i].shapes);
    if (replay->never_ran > 0)
        note(report, "plans that were made and never ran: %lld", (long long)replay->never_ran);
    if (replay->passed_over > 0)
        note(report, "passed over (--top): shapes: %lld, with %.3g %% of the operations",
             (long long)replay->passed_over, 100 * replay->passed_over_share);
}

void bench_replay_add_json(const bench_replay *replay, json_t *object)
{
    json_t *member = json_object_get(object, "replay"), *others = json_array();
    for (int64_t i = 0; i < replay->other_count; i++)
        json_array_append_new(others, json_pack("{s:s, s:I, s:I}", "operator",
                                                replay->others[i].operator_name, "shapes",
                                                (json_int_t)replay->others[i].shapes, "calls",
                                                (json_int_t)replay->others[i].calls));
    json_object_set_new(member, "file", json_string(replay->path));
    json_object_set_new(member, "other_operators", others);
    json_object_set_new(member, "never_ran", json_integer(replay->never_ran));
    json_object_set_new(member, "passed_over", json_integer(replay->passed_over));
}
