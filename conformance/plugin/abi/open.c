/* SPDX-License-Identifier: Apache-2.0 */
/* Instances: opening, several at once, and what is left behind after closing. */
#include "conformance/plugin/abi/abi.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conformance/plugin/served.h"
#include "conformance/plugin/state.h"
#include "conformance/sanitizers.h"

/* ---- All that can be done without computing ---- */

enum { PLANS = 8 }; /* at most, of all that is served */

static void exercise_plans(conformance_instance *self, const kiln_operator_table *table)
{
    static _Thread_local conformance_served served[CONFORMANCE_SERVED];
    if (!table->query)
        return;
    int64_t count = conformance_find_served(self, table, served);
    int64_t step = count / PLANS + 1;
    for (int64_t i = 0; i < count && table->plan && table->free; i += step) {
        void *plan = NULL;
        kiln_plan_request request = {.struct_size = sizeof request,
                                     .device = served[i].device,
                                     .descriptor = &served[i].desc.head};
        if (conformance_make_plan(self, table, &request, &plan) != KILN_OK)
            continue;
        conformance_enter(self->plugin, "free");
        table->free(plan);
        conformance_leave(self->plugin, "free");
    }
}

static void exercise_device(kiln_device *device)
{
    kiln_buffer *buffer;
    kiln_stream *stream;
    kiln_event *event;
    conformance_calling("a function of " KILN_DEVICE);
    if (kiln_buffer_alloc(device, KILN_SPACE_DEVICE, 64, &buffer) == KILN_OK)
        kiln_buffer_release(buffer);
    if (kiln_stream_create(device, &stream) == KILN_OK) {
        if (kiln_event_create(device, &event) == KILN_OK) {
            kiln_event_record(event, stream);
            kiln_event_wait(event);
            kiln_event_destroy(event);
        }
        kiln_stream_wait(stream);
        kiln_stream_destroy(stream);
    }
    conformance_calling(NULL);
}

void conformance_exercise(conformance_instance *instance)
{
    const char *const *names = instance->plugin->table.interfaces;
    for (int64_t i = 0; names[i]; i++) {
        kiln_operator_table table;
        if (conformance_operator(instance, names[i], &table) && strcmp(names[i], KILN_GEMM) == 0)
            exercise_plans(instance, &table);
    }
    for (int64_t i = 0; i < conformance_device_count(instance) && i < 4; i++)
        exercise_device(conformance_device(instance, i));
}

static bool cycle(const conformance_plugin *plugin)
{
    conformance_instance instance;
    plugin->report->cases++;
    if (!conformance_open(&instance, plugin, NULL))
        return false;
    conformance_exercise(&instance);
    conformance_close(&instance);
    return true;
}

/* ---- Opening ---- */

void conformance_abi_opens(const conformance_subject *subject, conformance_report *report)
{
    conformance_plugin plugin;
    conformance_instance instance;
    if (!conformance_load(&plugin, subject, report))
        return;
    report->cases = 1;
    if (conformance_open(&instance, &plugin, NULL)) {
        conformance_close(&instance);
    } else if (report->verdict == CONFORMANCE_CHECK_NOT_APPLICABLE) {
        report->verdict = CONFORMANCE_CHECK_PASSED;
        conformance_fail(report, "its probe finds no hardware on this machine: certify it on one "
                                 "that has it");
    }
}

void conformance_abi_newer_host(const conformance_subject *subject, conformance_report *report)
{
    conformance_plugin plugin;
    if (!conformance_load(&plugin, subject, report))
        return;
    plugin.newer_host = true;
    cycle(&plugin);
}

/* ---- Two at once ---- */

/* Makes the plugin say an error through one of its instances, if it can be brought to. */
static void provoke(conformance_instance *self)
{
    const char *const *names = self->plugin->table.interfaces;
    for (int64_t i = 0; names[i]; i++) {
        kiln_operator_table table;
        if (!conformance_operator(self, names[i], &table) || !table.query)
            continue;
        struct {
            kiln_op_head head;
            unsigned char bytes[1016];
        } wrong = {{sizeof wrong, UINT32_MAX}, {0}};
        wrong.bytes[1015] = 1;
        kiln_answer answer;
        conformance_query(self, &table, conformance_device(self, -1), &wrong.head, &answer);
        wrong.head.struct_size = 4;
        conformance_query(self, &table, conformance_device(self, -1), &wrong.head, &answer);
    }
    for (int64_t i = 0; names[i]; i++)
        if (strcmp(names[i], KILN_DEVICE) == 0) {
            const kiln_device_table *table =
                self->plugin->table.interface(self->instance, KILN_DEVICE);
            kiln_device_info info = {.struct_size = sizeof info};
            if (table && table->info)
                (void)CONFORMANCE_CALL("info", table->info(self->instance, 1000000, &info));
        }
}

/* Calls of one instance must reach the host table that this one was given. */
static void demand_own_host(conformance_instance *self, const conformance_instance *other,
                            conformance_report *report)
{
    int64_t before = conformance_errors_set(other);
    provoke(self);
    report->cases++;
    if (conformance_errors_set(other) != before)
        conformance_fail(report,
                         "a call of one instance used the host table of another: instances do not "
                         "see each other, so keep `host` in the instance");
}

void conformance_abi_two_instances(const conformance_subject *subject, conformance_report *report)
{
    conformance_plugin plugin;
    conformance_instance first, second, third;
    if (!conformance_load(&plugin, subject, report))
        return;
    plugin.guard_closed = true; /* what a closed instance was given must not be used any more */
    if (!conformance_open(&first, &plugin, NULL))
        return;
    if (!conformance_open(&second, &plugin, NULL)) {
        conformance_close(&first);
        return;
    }
    demand_own_host(&first, &second, report);
    demand_own_host(&second, &first, report);
    conformance_exercise(&first);
    conformance_exercise(&second);
    conformance_close(&first);
    conformance_exercise(&second);
    provoke(&second);
    if (conformance_open(&third, &plugin, NULL)) {
        demand_own_host(&second, &third, report);
        conformance_close(&second);
        conformance_exercise(&third);
        provoke(&third);
        conformance_close(&third);
    } else {
        conformance_close(&second);
    }
}

/* ---- Opening again ---- */

enum { CYCLES = 5 };

/* Drivers beneath a plugin may start what they like at the first open; later ones add nothing. So
 * what the plugin itself leaves behind once, and never again, is not seen. */
static void reopen(const conformance_subject *subject, conformance_report *report, unsigned parts)
{
    static conformance_state before, after;
    char text[256];
    conformance_plugin plugin;
    int64_t threads;
    if (!conformance_load(&plugin, subject, report))
        return;
    threads = plugin.threads;
    for (int i = 0; i <= CYCLES; i++) {
        conformance_state *state = i == 0 ? &before : &after;
        if (!cycle(&plugin))
            return;
        if (parts & CONFORMANCE_STATE_THREADS)
            threads = conformance_threads_settled(threads);
        conformance_state_take(state, parts & CONFORMANCE_STATE_EXIT);
        const char *difference =
            i == 0 ? NULL : conformance_state_difference(&before, &after, parts, text);
        if (difference) {
            char often[24] = "";
            if (i > 1)
                snprintf(often, sizeof often, ", %d times,", i);
            conformance_fail(report, "opening and closing it again%s changed %s", often,
                             difference);
            return;
        }
    }
}

void conformance_abi_reopen_threads(const conformance_subject *subject, conformance_report *report)
{
    reopen(subject, report, CONFORMANCE_STATE_THREADS);
}

void conformance_abi_reopen_descriptors(const conformance_subject *subject,
                                        conformance_report *report)
{
    reopen(subject, report, CONFORMANCE_STATE_DESCRIPTORS);
}

void conformance_abi_reopen_handlers(const conformance_subject *subject, conformance_report *report)
{
    reopen(subject, report, CONFORMANCE_STATE_HANDLERS);
}

void conformance_abi_reopen_exit(const conformance_subject *subject, conformance_report *report)
{
    static conformance_state state;
    conformance_state_take(&state, true);
    if (state.exit_handlers < 0) {
        conformance_skip(report,
                         "this C library, or a sanitizer, does not let exit handlers be counted");
        return;
    }
    reopen(subject, report, CONFORMANCE_STATE_EXIT);
}

/* Opening and closing takes long where hardware is behind it: fewer cycles must do then. */
enum { MEMORY_WARM = 20, MEMORY_CYCLES = 40, MEMORY_LEAST = 8, MEMORY_SECONDS = 8 };

static double seconds_since(const struct timespec *begin)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begin->tv_sec) + (double)(now.tv_nsec - begin->tv_nsec) * 1e-9;
}

/* How many cycles left more memory behind than there was: more of the heap, more mappings. */
typedef struct growth {
    int cycles, heap, mappings;
    int64_t heap_bytes, mapped_bytes;
} growth;

typedef struct cycle_run {
    const conformance_plugin *plugin;
    bool done;
} cycle_run;

static void *run_cycle(void *argument)
{
    cycle_run *run = argument;
    run->done = cycle(run->plugin);
    return NULL;
}

/* In a thread of its own: what the C library keeps for a thread, and counts as used, goes back when
 * the thread ends. */
static bool cycle_apart(const conformance_plugin *plugin)
{
    cycle_run run = {plugin, false};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_cycle, &run) != 0)
        return cycle(plugin);
    conformance_calling("open, close or what is between them");
    pthread_join(thread, NULL);
    conformance_calling(NULL);
    return run.done;
}

/* Cycles until there were enough; false when one fails. */
static bool grow(const conformance_plugin *plugin, int most, int64_t *threads, growth *grown)
{
    static conformance_state before, after;
    struct timespec begin;
    memset(grown, 0, sizeof *grown);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    conformance_state_take(&before, false);
    while (grown->cycles < most &&
           (grown->cycles < MEMORY_LEAST || seconds_since(&begin) < MEMORY_SECONDS)) {
        if (!cycle_apart(plugin))
            return false;
        *threads = conformance_threads_settled(*threads);
        conformance_state_take(&after, false);
        grown->cycles++;
        grown->heap += after.heap_bytes > before.heap_bytes;
        grown->mappings += after.mapped_bytes > before.mapped_bytes;
        grown->heap_bytes += after.heap_bytes - before.heap_bytes;
        grown->mapped_bytes += after.mapped_bytes - before.mapped_bytes;
        before = after;
    }
    return true;
}

/* What grows with nearly every cycle is lost; what grows now and then is a cache. */
void conformance_abi_reopen_memory(const conformance_subject *subject, conformance_report *report)
{
    growth grown;
    conformance_plugin plugin;
    if (!conformance_load(&plugin, subject, report))
        return;
    int64_t threads = plugin.threads;
    if (!grow(&plugin, MEMORY_WARM, &threads, &grown) ||
        !grow(&plugin, MEMORY_CYCLES, &threads, &grown))
        return;
    if (grown.heap * 10 >= grown.cycles * 9)
        conformance_fail(report, "every open and close leaves memory behind: %lld bytes in %d",
                         (long long)grown.heap_bytes, grown.cycles);
    else if (grown.mappings * 10 >= grown.cycles * 9 && !CONFORMANCE_SANITIZED)
        conformance_fail(report, "every open and close leaves a mapping behind: %lld bytes in %d",
                         (long long)grown.mapped_bytes, grown.cycles);
}

/* ---- What every call leaves as it was ---- */

typedef struct state_watch {
    conformance_report *report;
    unsigned parts;
    conformance_state before, after;
    conformance_oddness oddness;
} state_watch;

static void watch_before(void *argument, const char *function)
{
    state_watch *watch = argument;
    (void)function;
    conformance_oddness_begin(&watch->oddness);
    conformance_state_take(&watch->before, false);
}

static void watch_after(void *argument, const char *function)
{
    state_watch *watch = argument;
    char text[256];
    conformance_state_take(&watch->after, false);
    conformance_oddness_end(&watch->oddness);
    watch->report->cases++;
    const char *difference =
        conformance_state_difference(&watch->before, &watch->after, watch->parts, text);
    if (difference)
        conformance_fail(watch->report, "%s changed %s, and did not put it back", function,
                         difference);
}

static void watch_state(const conformance_subject *subject, conformance_report *report,
                        unsigned parts)
{
    static state_watch watch;
    conformance_plugin plugin;
    watch = (state_watch){.report = report, .parts = parts};
    if (!conformance_load(&plugin, subject, report))
        return;
    plugin.watch = &(conformance_watch){watch_before, watch_after, &watch};
    cycle(&plugin);
}

void conformance_abi_thread_state(const conformance_subject *subject, conformance_report *report)
{
    watch_state(subject, report, CONFORMANCE_STATE_THREAD);
}

void conformance_abi_process_state(const conformance_subject *subject, conformance_report *report)
{
    watch_state(subject, report, CONFORMANCE_STATE_PROCESS);
}

/* ---- Silence, and the end of the process ---- */

/* Whoever runs the check looks at what was printed. */
void conformance_abi_silent(const conformance_subject *subject, conformance_report *report)
{
    conformance_plugin plugin;
    conformance_instance instance;
    if (!conformance_load_and_open(&plugin, &instance, subject, report))
        return;
    conformance_exercise(&instance);
    provoke(&instance);
    conformance_close(&instance);
}

/* A process that has used the plugin ends by exit(). */
void conformance_abi_exit(const conformance_subject *subject, conformance_report *report)
{
    int status = 0;
    report->cases = 1;
    pid_t child = fork();
    if (child == 0) {
        conformance_plugin plugin;
        conformance_report ignored = {0};
        if (conformance_load(&plugin, subject, &ignored))
            cycle(&plugin);
        exit(0);
    }
    pid_t ended = child < 0 ? -1 : 0;
    for (int i = 0; i < 2000 && ended == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        ended = waitpid(child, &status, WNOHANG);
    }
    if (child < 0) {
        conformance_fail(report, "no process could be started for the check");
    } else if (ended == 0) {
        conformance_fail(report, "a process that used the plugin does not end: exit() hangs");
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    } else if (WIFSIGNALED(status)) {
        conformance_fail(report,
                         "a process that used the plugin crashes as it ends: signal %d (%s)",
                         WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) != 0) {
        conformance_fail(report, "a process that used the plugin ends with exit code %d, not 0",
                         WEXITSTATUS(status));
    }
}
