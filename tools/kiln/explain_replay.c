/* SPDX-License-Identifier: Apache-2.0 */
/* kiln explain --replay: who would serve each call of a record. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kiln/explain.h"
#include "tools/kiln/recorded.h"
#include "tools/kiln/table.h"

const char explain_replay_help[] =
    "--replay asks about every call of a record (KILN_RECORD, record.file), on the device\n"
    "where its tensors lived, and shows how often it came, who served it then, who would now,\n"
    "and why not the first choice. Sizes do not matter to routing beyond what a plan allows,\n"
    "so that calls of one plan share a row.\n";

/* Calls of one plan, and what is said of it. */
typedef struct answer {
    const recorded_call *call; /* the first of them */
    int64_t calls, sizes;
    char shape[256];
    kiln_device *device;
    bool elsewhere; /* the device where it was recorded is not here */
    kiln_candidate *candidates;
    int64_t count;
    const kiln_candidate *chosen; /* NULL: nobody serves it */
    char why[1024];               /* not the first choice; not at all */
} answer;

typedef struct replay {
    const tool_common *common;
    kiln_runtime *runtime;
    const char *device, *backend;
    answer *answers;
    int64_t count;
} replay;

/* ---- Asking ---- */

static void describe(answer *self)
{
    recorded_gemm gemm;
    char problem[320];
    if (recorded_gemm_read(self->call, &gemm, problem, sizeof problem)) {
        recorded_gemm_words(&gemm.planned, self->shape, sizeof self->shape);
        size_t used = strlen(self->shape);
        snprintf(self->shape + used, sizeof self->shape - used, " %s*%s->%s",
                 kiln_type_name(gemm.planned.a_type), kiln_type_name(gemm.planned.b_type),
                 kiln_type_name(gemm.planned.d_type));
    } else {
        snprintf(self->shape, sizeof self->shape, "descriptor of %zu bytes",
                 self->call->descriptor_size);
    }
}

/* Why those before the chosen one, or all, do not serve it. */
static void say_why(answer *self)
{
    const kiln_candidate *end = self->chosen ? self->chosen : self->candidates + self->count;
    size_t used = 0;
    if (self->count == 0)
        snprintf(self->why, sizeof self->why, "no open plugin offers it");
    for (const kiln_candidate *one = self->candidates; one < end && used < sizeof self->why; one++)
        used += (size_t)snprintf(self->why + used, sizeof self->why - used, "%s%s: %s",
                                 used ? "; " : "", one->backend, one->reason);
}

static void ask(const replay *self, answer *one)
{
    const recorded_call *call = one->call;
    const char *device = self->device[0] ? self->device : call->home;
    one->device = kiln_device_default(self->runtime);
    if (device[0] && kiln_device_find(self->runtime, device, &one->device) != KILN_OK)
        one->elsewhere = true;
    one->candidates = explain_ask(self->runtime, call->operator_name, call->descriptor, one->device,
                                  self->backend, &one->count);
    if (!one->candidates) {
        snprintf(one->why, sizeof one->why, "%s", kiln_last_error());
        return;
    }
    one->chosen = explain_chosen(one->candidates, one->count);
    say_why(one);
}

static int compare_plans(const recorded_call *a, const recorded_call *b)
{
    int order = strcmp(a->operator_name, b->operator_name);
    order = order ? order : strcmp(a->home, b->home);
    order = order ? order : strcmp(a->device, b->device);
    order = order ? order : strcmp(a->backend, b->backend);
    if (order || a->descriptor_size != b->descriptor_size)
        return order ? order : a->descriptor_size < b->descriptor_size ? -1 : 1;
    return memcmp(a->descriptor, b->descriptor, a->descriptor_size);
}

static int compare_for_grouping(const void *left, const void *right)
{
    const recorded_call *a = ((const answer *)left)->call, *b = ((const answer *)right)->call;
    int order = compare_plans(a, b);
    return order ? order : (a->line > b->line) - (a->line < b->line);
}

/* The most frequent first. */
static int compare_counts(const void *left, const void *right)
{
    const answer *a = left, *b = right;
    if (a->calls != b->calls)
        return a->calls < b->calls ? 1 : -1;
    return (a->call->line > b->call->line) - (a->call->line < b->call->line);
}

/* One answer per plan. */
static void group(replay *self, const recorded_calls *calls)
{
    self->answers = tool_allocate((size_t)calls->count, sizeof *self->answers);
    for (int64_t i = 0; i < calls->count; i++)
        self->answers[i].call = &calls->calls[i];
    qsort(self->answers, (size_t)calls->count, sizeof *self->answers, compare_for_grouping);
    for (int64_t i = 0; i < calls->count; i++) {
        const recorded_call *call = self->answers[i].call;
        if (self->count == 0 || compare_plans(self->answers[self->count - 1].call, call) != 0) {
            memset(&self->answers[self->count], 0, sizeof *self->answers);
            self->answers[self->count++].call = call;
        }
        answer *one = &self->answers[self->count - 1];
        one->sizes += call->size_count > 0;
        if (__builtin_add_overflow(one->calls, call->runs, &one->calls))
            one->calls = INT64_MAX;
    }
    qsort(self->answers, (size_t)self->count, sizeof *self->answers, compare_counts);
}

/* ---- Telling ---- */

static const char *place(const char *backend, const char *device, char text[128])
{
    if (strcmp(device, "host") == 0 || !device[0])
        snprintf(text, 128, "%s", backend[0] ? backend : "-");
    else
        snprintf(text, 128, "%s on %s", backend, device);
    return text;
}

static void print_answers(const replay *self)
{
    char text[128];
    tool_table *table =
        tool_table_new(">calls|>sizes|operator|call|recorded|now|why not the first");
    for (int64_t i = 0; i < self->count; i++) {
        const answer *one = &self->answers[i];
        tool_table_cell(table, "%lld", (long long)one->calls);
        tool_table_cell(table, "%lld", (long long)one->sizes);
        tool_table_cell(table, "%s", one->call->operator_name);
        tool_table_cell(table, "%s", one->shape);
        tool_table_cell(table, "%s", place(one->call->backend, one->call->device, text));
        tool_table_cell(table, "%s%s",
                        one->chosen ? place(one->chosen->backend, one->chosen->device, text)
                                    : "nobody",
                        one->chosen && one->chosen->staged ? ", staged" : "");
        if (one->elsewhere)
            tool_table_cell(
                table, "(asked on %s: there is no %s here)%s%s", kiln_device_name(one->device),
                self->device[0] ? self->device : one->call->home, one->why[0] ? " " : "", one->why);
        else
            tool_table_cell(table, "%s", one->why);
    }
    tool_table_print(table, 0, stdout);
}

/* Calls that one backend would serve. */
static int64_t calls_of(const replay *self, const char *backend)
{
    int64_t calls = 0;
    for (int64_t i = 0; i < self->count; i++)
        if (self->answers[i].chosen && strcmp(self->answers[i].chosen->backend, backend) == 0 &&
            __builtin_add_overflow(calls, self->answers[i].calls, &calls))
            return INT64_MAX;
    return calls;
}

static bool is_first_of_backend(const replay *self, int64_t index)
{
    const answer *one = &self->answers[index];
    for (int64_t i = 0; i < index; i++)
        if (self->answers[i].chosen &&
            strcmp(self->answers[i].chosen->backend, one->chosen->backend) == 0)
            return false;
    return true;
}

static int64_t unserved(const replay *self)
{
    int64_t plans = 0;
    for (int64_t i = 0; i < self->count; i++)
        plans += !self->answers[i].chosen;
    return plans;
}

static void print_summary(const replay *self)
{
    puts("");
    for (int64_t i = 0; i < self->count; i++)
        if (self->answers[i].chosen && is_first_of_backend(self, i))
            printf("calls that %s would serve: %lld\n", self->answers[i].chosen->backend,
                   (long long)calls_of(self, self->answers[i].chosen->backend));
    if (unserved(self) > 0)
        printf("plans that nobody would serve: %lld\n", (long long)unserved(self));
}

static json_t *answer_json(const answer *one)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:{s:s, s:s, s:s}, s:s, s:s?, s:s, s:o}", "operator",
                     one->call->operator_name, "shape", one->shape, "calls", (json_int_t)one->calls,
                     "sizes", (json_int_t)one->sizes, "recorded", "backend", one->call->backend,
                     "device", one->call->device, "home", one->call->home, "device",
                     kiln_device_name(one->device), "chosen",
                     one->chosen ? one->chosen->backend : NULL, "why", one->why, "candidates",
                     explain_candidates_json(one->candidates, one->count));
}

static int print_json(const replay *self, const char *path)
{
    json_t *list = json_array(), *served = json_object();
    for (int64_t i = 0; i < self->count; i++) {
        const answer *one = &self->answers[i];
        json_array_append_new(list, answer_json(one));
        if (one->chosen && is_first_of_backend(self, i))
            json_object_set_new(served, one->chosen->backend,
                                json_integer(calls_of(self, one->chosen->backend)));
    }
    return tool_print_json(self->common,
                           json_pack("{s:s, s:o, s:o, s:I}", "file", path, "plans", list, "served",
                                     served, "unserved", (json_int_t)unserved(self)));
}

static int explain_all(replay *self, const recorded_calls *calls)
{
    group(self, calls);
    for (int64_t i = 0; i < self->count; i++) {
        describe(&self->answers[i]);
        ask(self, &self->answers[i]);
    }
    int code = unserved(self) > 0 ? TOOL_FAILED : TOOL_OK;
    if (self->common->json) {
        int printed = print_json(self, calls->name);
        code = printed == TOOL_OK ? code : printed;
    } else {
        print_answers(self);
        print_summary(self);
    }
    for (int64_t i = 0; i < self->count; i++)
        free(self->answers[i].candidates);
    free(self->answers);
    return code;
}

int explain_replay(const tool_common *common, const char *path, const char *device,
                   const char *backend)
{
    recorded_calls calls;
    replay self = {.common = common, .device = device, .backend = backend};
    kiln_device *found;
    int code = TOOL_FAILED;
    if (!recorded_read(path, &calls))
        recorded_tell(common, &calls);
    else if (calls.count == 0)
        tool_fail(common, "%s holds no call", path);
    else if (tool_runtime_open(common, &self.runtime)) {
        if (device[0] && kiln_device_find(self.runtime, device, &found) != KILN_OK)
            tool_fail(common, "%s", kiln_last_error());
        else
            code = explain_all(&self, &calls);
        kiln_runtime_close(self.runtime);
    }
    recorded_free(&calls);
    return code;
}
