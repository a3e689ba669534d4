/* SPDX-License-Identifier: Apache-2.0 */
/* A device among others: several threads, devices and processes, and the state of the caller. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conformance/plugin/device/device.h"
#include "conformance/plugin/state.h"
#include "conformance/sanitizers.h"

/* ---- Threads ---- */

enum { THREADS = 4, ROUNDS = 60, BYTES = 4000 };

typedef struct worker {
    conformance_bed *bed;
    unsigned char number;
    int64_t rounds;
    const char *problem;
    kiln_status status;
} worker;

/* What one thread does on a stream of its own; NULL, or what went wrong. */
static const char *work(worker *self)
{
    conformance_bed *bed = self->bed;
    const kiln_device_table *table = &bed->table;
    unsigned char sent[BYTES], back[BYTES];
    void *stream, *event, *memories[2], *host;
    uint32_t space = conformance_bed_space(bed);
#define TRY(call)                           \
    if ((self->status = (call)) != KILN_OK) \
    return #call
    for (self->rounds = 0; self->rounds < ROUNDS; self->rounds++) {
        memset(sent, self->number + (int)self->rounds, BYTES);
        memset(back, 0, BYTES);
        TRY(table->stream_create(bed->device, &stream));
        TRY(table->event_create(bed->device, &event));
        for (int i = 0; i < 2; i++)
            TRY(table->alloc(bed->device, space, BYTES, 64, &memories[i], &host));
        TRY(conformance_bed_queue_write(bed, stream, memories[0], 0, sent, BYTES));
        TRY(table->event_record(bed->device, event, stream));
        TRY(conformance_bed_queue_move(bed, stream, memories[1], 0, memories[0], 0, BYTES));
        TRY(table->stream_wait_event(bed->device, stream, event));
        TRY(conformance_bed_queue_read(bed, stream, memories[1], 0, back, BYTES));
        TRY(table->event_wait(bed->device, event));
        TRY(table->stream_wait(bed->device, stream));
        for (int i = 0; i < 2; i++)
            table->free(bed->device, memories[i]);
        table->event_destroy(bed->device, event);
        table->stream_destroy(bed->device, stream);
        if (memcmp(sent, back, BYTES) != 0)
            return "bytes that went to the device and back";
    }
#undef TRY
    return NULL;
}

static void *run_worker(void *argument)
{
    worker *self = argument;
    self->problem = work(self);
    return NULL;
}

void conformance_device_threads(const conformance_subject *subject, conformance_report *report)
{
    conformance_bed bed;
    worker workers[THREADS];
    pthread_t threads[THREADS];
    int started = 0;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    for (; started < THREADS; started++) {
        workers[started] = (worker){.bed = &bed, .number = (unsigned char)(started * 60)};
        if (pthread_create(&threads[started], NULL, run_worker, &workers[started]) != 0)
            break;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        report->cases += workers[i].rounds;
        if (workers[i].problem)
            conformance_fail(report, "with %d threads at once, each with a stream: %s: %s", started,
                             workers[i].problem,
                             workers[i].status == KILN_OK ? "differ"
                                                          : kiln_status_name(workers[i].status));
    }
    conformance_bed_close(&bed);
}

/* ---- Two devices ---- */

enum { ROWS = 9, COLUMNS = 13, STRIDE = 20 };

static bool same_rows(const float *a, const float *b)
{
    for (int i = 0; i < ROWS; i++)
        if (memcmp(a + i * STRIDE, b + i * STRIDE, COLUMNS * sizeof *a) != 0)
            return false;
    return true;
}

/* Buffers on both that may have equal addresses, written, read, and copied from one to the other.
 */
static void play_two(conformance_bed *bed)
{
    kiln_runtime *runtime = bed->instance.runtime;
    kiln_buffer *buffers[2] = {NULL, NULL};
    float rows[2][ROWS * STRIDE], back[ROWS * STRIDE];
    kiln_tensor here[2], there[2], found = kiln_matrix(KILN_F32, back, ROWS, COLUMNS, STRIDE);
    bool good = true;
    for (int i = 0; i < 2; i++) {
        conformance_bed_random_bytes(bed, rows[i], sizeof rows[i]);
        here[i] = kiln_matrix(KILN_F32, rows[i], ROWS, COLUMNS, STRIDE);
        there[i] = here[i];
        good = good && conformance_bed_ok(bed,
                                          kiln_buffer_alloc(conformance_device(&bed->instance, i),
                                                            conformance_bed_space(bed),
                                                            sizeof rows[i], &buffers[i]),
                                          "alloc");
        there[i].data = NULL;
        there[i].buffer = buffers[i];
    }
    for (int i = 0; good && i < 2; i++)
        good = conformance_bed_ok(bed, kiln_copy(NULL, runtime, &there[i], &here[i]), "kiln_copy");
    for (int i = 0; good && i < 2; i++) {
        good = conformance_bed_ok(bed, kiln_copy(NULL, runtime, &found, &there[i]), "kiln_copy");
        bed->report->cases++;
        if (good && !same_rows(rows[i], back))
            conformance_fail(bed->report,
                             "device %d gives other bytes than it was given, while "
                             "another device is used",
                             i);
    }
    good = good &&
           conformance_bed_ok(bed, kiln_copy(NULL, runtime, &there[1], &there[0]), "kiln_copy") &&
           conformance_bed_ok(bed, kiln_copy(NULL, runtime, &found, &there[1]), "kiln_copy");
    bed->report->cases++;
    if (good && !same_rows(rows[0], back))
        conformance_fail(bed->report, "a copy from one device to the other changes the bytes");
    for (int i = 0; i < 2; i++)
        kiln_buffer_release(buffers[i]);
}

void conformance_device_two(const conformance_subject *subject, conformance_report *report)
{
    conformance_bed bed;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    if (conformance_device_count(&bed.instance) < 2)
        conformance_skip(bed.report, "it has one device");
    else
        play_two(&bed);
    conformance_bed_close(&bed);
}

/* ---- Waits across devices ---- */

static kiln_status fail_now(void *argument, kiln_status status)
{
    const kiln_host *host = argument;
    return status != KILN_OK ? status : host->set_error(KILN_FAULT, "the turnip has sunk");
}

/* `to` waits for work of `from`; with `fault`, for work that fails. */
static void cross(conformance_bed *bed, kiln_device *from, kiln_device *to, bool fault)
{
    kiln_stream *first = NULL, *second = NULL;
    kiln_event *event = NULL;
    kiln_status status;
    const char *names = kiln_device_name(from);
    if (!conformance_bed_ok(bed, kiln_stream_create(from, &first), "kiln_stream_create") ||
        !conformance_bed_ok(bed, kiln_stream_create(to, &second), "kiln_stream_create") ||
        !conformance_bed_ok(bed, kiln_event_create(from, &event), "kiln_event_create"))
        return;
    if (fault)
        kiln_stream_enqueue(first, fail_now, (void *)bed->instance.host);
    conformance_bed_ok(bed, kiln_event_record(event, first), "kiln_event_record");
    conformance_calling("a wait across devices");
    conformance_bed_ok(bed, kiln_stream_wait_event(second, event), "kiln_stream_wait_event");
    status = kiln_stream_wait(second);
    conformance_calling(NULL);
    bed->report->cases++;
    if (fault && (status != KILN_FAULT || !strstr(kiln_last_error(), "turnip")))
        conformance_fail(bed->report,
                         "a stream of %s that waited for a faulted stream of %s returns %s (%s)",
                         kiln_device_name(to), names, kiln_status_name(status), kiln_last_error());
    if (!fault)
        conformance_bed_ok(bed, status, "a wait across devices");
    kiln_stream_wait(first);
    kiln_event_destroy(event);
    kiln_stream_destroy(second);
    kiln_stream_destroy(first);
}

void conformance_device_across(const conformance_subject *subject, conformance_report *report)
{
    conformance_bed bed;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    if (!bed.table.gate_create || !bed.table.gate_complete || !bed.table.stream_enqueue) {
        conformance_skip(bed.report, "it lacks gates or functions on streams");
    } else {
        kiln_device *host = conformance_device(&bed.instance, -1),
                    *second = conformance_device(&bed.instance, 1);
        for (int round = 0; round < 6; round++) {
            cross(&bed, host, bed.handle, round % 3 == 2);
            cross(&bed, bed.handle, host, round % 3 == 2);
            if (second)
                cross(&bed, bed.handle, second, round % 3 == 2);
        }
    }
    conformance_bed_close(&bed);
}

/* ---- Fork ---- */

/* In the child. The parent's objects: FORKED, or they work. New ones work. Returns what fails. */
static const char *use_after_fork(conformance_bed *bed, const conformance_subject *subject)
{
    static conformance_report report;
    kiln_buffer *buffer;
    kiln_stream *stream;
    conformance_bed fresh;
    unsigned char sent[64] = {1, 2, 3}, back[64] = {0};
    kiln_status status = kiln_buffer_alloc(bed->handle, conformance_bed_space(bed), 64, &buffer);
    if (status == KILN_OK)
        kiln_buffer_release(buffer);
    else if (status != KILN_FORKED)
        return "kiln_buffer_alloc fails otherwise than with FORKED";
    status = kiln_stream_create(bed->handle, &stream);
    if (status == KILN_OK) {
        kiln_stream_wait(stream);
        kiln_stream_destroy(stream);
    } else if (status != KILN_FORKED) {
        return "kiln_stream_create fails otherwise than with FORKED";
    }
    memset(&report, 0, sizeof report);
    if (!conformance_bed_open(&fresh, subject, &report))
        return report.text;
    void *memory = conformance_bed_alloc(&fresh, 64);
    if (!memory || !conformance_bed_write(&fresh, memory, 0, sent, 64) ||
        !conformance_bed_read(&fresh, memory, 0, back, 64))
        return report.text;
    if (memcmp(sent, back, 64) != 0)
        return "bytes change on the way to the device and back";
    conformance_bed_free(&fresh, memory);
    conformance_bed_close(&fresh);
    return NULL;
}

static void play_fork(conformance_bed *bed, const conformance_subject *subject)
{
    int ends[2], status = 0;
    char problem[512] = "";
    pid_t child = pipe(ends) == 0 ? fork() : -1;
    if (child < 0) {
        conformance_fail(bed->report, "no process could be started for the check");
        return;
    }
    if (child == 0) {
        alarm(15);
        const char *words = use_after_fork(bed, subject);
        if (words && write(ends[1], words, strlen(words)) < 0)
            _exit(2);
        _exit(words != NULL);
    }
    close(ends[1]);
    ssize_t size = read(ends[0], problem, sizeof problem - 1);
    problem[size > 0 ? size : 0] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    bed->report->cases++;
    if (WIFSIGNALED(status))
        conformance_fail(bed->report,
                         WTERMSIG(status) == SIGALRM
                             ? "a child of fork that opens the plugin anew hangs"
                             : "a child of fork that opens the plugin anew crashes: signal %d",
                         WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        conformance_fail(bed->report, "in a child of fork: %s", problem);
}

void conformance_device_fork(const conformance_subject *subject, conformance_report *report)
{
    conformance_bed bed;
    unsigned char sent[64] = {9, 8, 7}, back[64] = {0};
    if (!conformance_bed_open(&bed, subject, report))
        return;
    void *memory = conformance_bed_alloc(&bed, 64);
    if (CONFORMANCE_TSAN) {
        conformance_skip(bed.report, "ThreadSanitizer does not survive a fork");
    } else if (memory) {
        play_fork(&bed, subject);
        /* The parent goes on as if nothing had been. */
        if (conformance_bed_write(&bed, memory, 0, sent, 64) &&
            conformance_bed_read(&bed, memory, 0, back, 64) && memcmp(sent, back, 64) != 0)
            conformance_fail(report, "after a fork the parent's copies change the bytes");
    }
    if (memory)
        conformance_bed_free(&bed, memory);
    conformance_bed_close(&bed);
}

/* ---- The state of the calling thread ---- */

typedef struct state_scene {
    conformance_bed *bed;
    conformance_state before, after;
    conformance_oddness oddness;
} state_scene;

static void state_begin(state_scene *self)
{
    conformance_oddness_begin(&self->oddness);
    conformance_state_take(&self->before, false);
}

static void state_end(state_scene *self, const char *function)
{
    char text[256];
    conformance_state_take(&self->after, false);
    conformance_oddness_end(&self->oddness);
    self->bed->report->cases++;
    const char *difference = conformance_state_difference(
        &self->before, &self->after, CONFORMANCE_STATE_THREAD | CONFORMANCE_STATE_PROCESS, text);
    if (difference)
        conformance_fail(self->bed->report, "%s changed %s, and did not put it back", function,
                         difference);
}

static kiln_status do_nothing(void *argument, kiln_status status)
{
    (void)argument;
    return status;
}

static void play_state(state_scene *self)
{
    conformance_bed *bed = self->bed;
    const kiln_device_table *table = &bed->table;
    void *stream = NULL, *event = NULL, *memory = NULL, *host, *gate = NULL;
    char bytes[64] = {0};
    kiln_copy_request copy = {.struct_size = sizeof copy,
                              .element_bytes = 1,
                              .rank = 1,
                              .shape = {64},
                              .destination.strides = {1},
                              .source = {.host = bytes, .strides = {1}}};
#define WATCHED(function, ...)              \
    do {                                    \
        state_begin(self);                  \
        conformance_calling(#function);     \
        (void)table->function(__VA_ARGS__); \
        conformance_calling(NULL);          \
        state_end(self, #function);         \
    } while (0)
    WATCHED(stream_create, bed->device, &stream);
    WATCHED(event_create, bed->device, &event);
    WATCHED(alloc, bed->device, conformance_bed_space(bed), 64, 64, &memory, &host);
    if (!stream || !event || !memory) {
        conformance_fail(bed->report, "no stream, event or memory could be made: %s",
                         kiln_last_error());
        return;
    }
    copy.destination.memory = memory;
    WATCHED(copy, bed->device, stream, &copy);
    kiln_fill_request fill = {.struct_size = sizeof fill,
                              .element_bytes = 1,
                              .rank = 1,
                              .shape = {64},
                              .destination = copy.destination};
    if (table->fill)
        WATCHED(fill, bed->device, stream, &fill);
    if (table->stream_enqueue)
        WATCHED(stream_enqueue, bed->device, stream, do_nothing, NULL);
    WATCHED(event_record, bed->device, event, stream);
    WATCHED(stream_wait_event, bed->device, stream, event);
    WATCHED(event_query, bed->device, event);
    WATCHED(event_wait, bed->device, event);
    if (table->gate_create && table->gate_complete) {
        WATCHED(gate_create, bed->device, &gate);
        WATCHED(gate_complete, bed->device, gate, KILN_OK, NULL);
        WATCHED(event_destroy, bed->device, gate);
    }
    WATCHED(stream_wait, bed->device, stream);
    WATCHED(event_destroy, bed->device, event);
    WATCHED(stream_destroy, bed->device, stream);
    WATCHED(free, bed->device, memory);
#undef WATCHED
}

void conformance_device_thread_state(const conformance_subject *subject, conformance_report *report)
{
    static state_scene self;
    conformance_bed bed;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    self.bed = &bed;
    play_state(&self);
    conformance_bed_close(&bed);
}
