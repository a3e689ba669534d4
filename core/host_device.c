/* SPDX-License-Identifier: Apache-2.0 */
/* The host as a device: ordinary memory, and streams that are queues with a worker each. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/copy.h"
#include "core/device.h"
#include "core/fork.h"

enum { QUEUE_SLOTS = 256, SENTENCE = 512 };

/* One completion: of one record of an event, or of a gate. Events, and commands in queues, hold
 * references, so that a wait is for the record that it saw, whatever is recorded later. */
typedef struct host_mark {
    _Atomic int64_t references;
    _Atomic uint64_t generation; /* process in which it was last used */
    bool gate;                   /* the caller's to complete, in a child of fork too */
    pthread_mutex_t mutex;
    pthread_cond_t reached;
    bool done;
    kiln_status status;
    char sentence[SENTENCE];
} host_mark;

typedef struct host_event {
    pthread_mutex_t mutex;
    _Atomic uint64_t generation;
    host_mark *current; /* of the newest record; NULL before the first */
} host_event;

typedef struct host_command {
    enum { COMMAND_COPY, COMMAND_FILL, COMMAND_CALL, COMMAND_RECORD, COMMAND_WAIT } kind;
    union {
        kiln_copy_request copy;
        kiln_fill_request fill;
        struct {
            kiln_stream_fn function;
            void *argument;
        } call;
        host_mark *mark;
    } of;
} host_command;

typedef struct host_stream {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t worker;
    _Atomic uint64_t generation; /* process in which the worker runs */
    uint64_t head, tail;         /* commands queued and finished */
    bool stop;
    kiln_status status; /* sticky */
    char sentence[SENTENCE];
    char exceeded[SENTENCE]; /* the sentence of a KILN_CAPACITY that nobody has waited for */
    host_command queue[QUEUE_SLOTS];
} host_stream;

/* ---- Fork: objects are taken over by the child at their first use there ---- */

static pthread_mutex_t adoption = PTHREAD_MUTEX_INITIALIZER;
static const char *const left_behind = "what was queued before the fork is the parent's work";

/* The parent's threads may have held the lock, and will not complete the mark here. */
static void mark_adopt(host_mark *mark, uint64_t generation)
{
    pthread_mutex_lock(&adoption);
    if (atomic_load(&mark->generation) != generation) {
        pthread_mutex_init(&mark->mutex, NULL);
        pthread_cond_init(&mark->reached, NULL);
        if (!mark->gate && !mark->done) {
            mark->done = true;
            mark->status = KILN_FORKED;
            snprintf(mark->sentence, sizeof mark->sentence, "%s", left_behind);
        }
        atomic_store(&mark->generation, generation);
    }
    pthread_mutex_unlock(&adoption);
}

static void mark_lock(host_mark *mark)
{
    uint64_t generation = kiln_process_generation();
    if (atomic_load_explicit(&mark->generation, memory_order_acquire) != generation)
        mark_adopt(mark, generation);
    pthread_mutex_lock(&mark->mutex);
}

static void event_lock(host_event *event)
{
    uint64_t generation = kiln_process_generation();
    if (atomic_load_explicit(&event->generation, memory_order_acquire) != generation) {
        pthread_mutex_lock(&adoption);
        if (atomic_load(&event->generation) != generation)
            pthread_mutex_init(&event->mutex, NULL);
        atomic_store(&event->generation, generation);
        pthread_mutex_unlock(&adoption);
    }
    pthread_mutex_lock(&event->mutex);
}

/* ---- Marks ---- */

static host_mark *mark_new(bool gate)
{
    host_mark *mark = calloc(1, sizeof *mark);
    if (!mark)
        return NULL;
    atomic_store(&mark->references, 1);
    atomic_store(&mark->generation, kiln_process_generation());
    mark->gate = gate;
    pthread_mutex_init(&mark->mutex, NULL);
    pthread_cond_init(&mark->reached, NULL);
    return mark;
}

static void mark_release(host_mark *mark)
{
    if (!mark || atomic_fetch_sub(&mark->references, 1) != 1)
        return;
    pthread_mutex_destroy(&mark->mutex);
    pthread_cond_destroy(&mark->reached);
    free(mark);
}

/* False when it was complete already. */
static bool mark_complete(host_mark *mark, kiln_status status, const char *sentence)
{
    mark_lock(mark);
    bool first = !mark->done;
    if (first) {
        mark->done = true;
        mark->status = status;
        snprintf(mark->sentence, sizeof mark->sentence, "%s", sentence);
        pthread_cond_broadcast(&mark->reached);
    }
    pthread_mutex_unlock(&mark->mutex);
    return first;
}

/* Its status once it is complete, NOT_READY when it is not and `wait` is false. */
static kiln_status mark_status(host_mark *mark, bool wait)
{
    mark_lock(mark);
    while (wait && !mark->done)
        pthread_cond_wait(&mark->reached, &mark->mutex);
    kiln_status status = mark->done ? mark->status : KILN_NOT_READY;
    if (mark->done && status != KILN_OK)
        kiln_fail(status, "%s", mark->sentence);
    pthread_mutex_unlock(&mark->mutex);
    return status;
}

/* The newest mark of an event, with a reference for the caller; NULL before the first record. */
static host_mark *event_mark(host_event *event)
{
    event_lock(event);
    host_mark *mark = event->current;
    if (mark)
        atomic_fetch_add(&mark->references, 1);
    pthread_mutex_unlock(&event->mutex);
    return mark;
}

/* A mark for a new record, with a reference for the caller: the former one again if nobody else
 * looks at it any more. */
static host_mark *event_new_mark(host_event *event)
{
    event_lock(event);
    host_mark *mark = event->current;
    if (mark && atomic_load(&mark->references) == 1 && mark_status(mark, false) != KILN_NOT_READY) {
        mark->done = false;
    } else {
        mark = mark_new(false);
        if (mark) {
            mark_release(event->current);
            event->current = mark;
        }
    }
    if (mark)
        atomic_fetch_add(&mark->references, 1);
    pthread_mutex_unlock(&event->mutex);
    return mark;
}

/* ---- Streams ---- */

/* What a command has come to. That a capacity was exceeded is no fault: the next wait says it. */
static void stream_note(host_stream *stream, kiln_status status)
{
    pthread_mutex_lock(&stream->mutex);
    if (status == KILN_CAPACITY && !stream->exceeded[0]) {
        snprintf(stream->exceeded, sizeof stream->exceeded, "%s", kiln_last_error());
    } else if (status != KILN_CAPACITY && stream->status == KILN_OK) {
        stream->status = status;
        snprintf(stream->sentence, sizeof stream->sentence, "%s", kiln_last_error());
    }
    pthread_mutex_unlock(&stream->mutex);
}

static kiln_status call(const host_stream *stream, const host_command *command, kiln_status fault)
{
    if (fault != KILN_OK)
        kiln_fail(fault, "%s", stream->sentence);
    uint64_t failures = kiln_thread.failures;
    kiln_status status = command->of.call.function(command->of.call.argument, fault);
    if (status < 0 && kiln_thread.failures == failures)
        kiln_fail(status, "a function on the stream: %s; it gave no reason",
                  kiln_status_text(status));
    return status;
}

/* Only the worker changes the status, so it may read it without the lock. */
static void execute(host_stream *stream, const host_command *command)
{
    kiln_status status = KILN_OK, fault = stream->status;
    switch (command->kind) {
    case COMMAND_COPY:
        if (fault == KILN_OK)
            kiln_host_copy(&command->of.copy,
                           command->of.copy.destination.host +
                               command->of.copy.destination.byte_offset,
                           command->of.copy.source.host + command->of.copy.source.byte_offset);
        break;
    case COMMAND_FILL:
        if (fault == KILN_OK)
            kiln_host_fill(&command->of.fill, command->of.fill.destination.host +
                                                  command->of.fill.destination.byte_offset);
        break;
    case COMMAND_CALL:
        status = call(stream, command, fault);
        break;
    case COMMAND_RECORD:
        mark_complete(command->of.mark, fault, stream->sentence);
        mark_release(command->of.mark);
        break;
    case COMMAND_WAIT:
        if (fault == KILN_OK)
            status = mark_status(command->of.mark, true);
        mark_release(command->of.mark);
        break;
    }
    if (status < 0)
        stream_note(stream, status);
}

static void *stream_main(void *argument)
{
    host_stream *stream = argument;
    pthread_mutex_lock(&stream->mutex);
    for (;;) {
        while (stream->head == stream->tail && !stream->stop)
            pthread_cond_wait(&stream->changed, &stream->mutex);
        if (stream->head == stream->tail)
            break;
        host_command command = stream->queue[stream->tail % QUEUE_SLOTS];
        pthread_mutex_unlock(&stream->mutex);
        execute(stream, &command);
        pthread_mutex_lock(&stream->mutex);
        stream->tail++;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->mutex);
    return NULL;
}

/* A new stream, or one of the parent's: its worker did not come along, and what it had yet to do is
 * lost. */
static kiln_status stream_adopt(host_stream *stream, uint64_t generation)
{
    pthread_mutex_init(&stream->mutex, NULL);
    pthread_cond_init(&stream->changed, NULL);
    if (stream->head != stream->tail && stream->status == KILN_OK) {
        stream->status = KILN_FORKED;
        snprintf(stream->sentence, sizeof stream->sentence, "%s", left_behind);
    }
    stream->head = stream->tail = 0;
    int error = pthread_create(&stream->worker, NULL, stream_main, stream);
    if (error)
        return kiln_fail(
            KILN_NO_MEMORY,
            "cannot start the thread of a host stream: %s; lower the number of threads or streams",
            strerror(error));
    atomic_store(&stream->generation, generation);
    return KILN_OK;
}

static kiln_status stream_start(host_stream *stream)
{
    uint64_t generation = kiln_process_generation();
    if (atomic_load_explicit(&stream->generation, memory_order_acquire) == generation)
        return KILN_OK;
    pthread_mutex_lock(&adoption);
    kiln_status status =
        atomic_load(&stream->generation) == generation ? KILN_OK : stream_adopt(stream, generation);
    pthread_mutex_unlock(&adoption);
    return status;
}

static kiln_status push(host_stream *stream, const host_command *command)
{
    kiln_status status = stream_start(stream);
    if (status != KILN_OK)
        return status;
    pthread_mutex_lock(&stream->mutex);
    while (stream->head - stream->tail == QUEUE_SLOTS)
        pthread_cond_wait(&stream->changed, &stream->mutex);
    stream->queue[stream->head++ % QUEUE_SLOTS] = *command;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    return KILN_OK;
}

static kiln_status host_count(void *instance, int64_t *count)
{
    (void)instance;
    *count = 1;
    return KILN_OK;
}

static kiln_status host_open(void *instance, int64_t index, kiln_device *handle, void **device)
{
    (void)instance, (void)index;
    *device = handle;
    return KILN_OK;
}

static void host_close(void *device)
{
    (void)device;
}

static kiln_status host_alloc(void *device, uint32_t space, int64_t bytes, int64_t alignment,
                              void **memory, void **host)
{
    (void)device, (void)space;
    size_t unit = (size_t)alignment, size = ((size_t)bytes + unit - 1) / unit * unit;
    *memory = aligned_alloc(unit, size ? size : unit);
    if (!*memory)
        return kiln_fail(KILN_NO_MEMORY, "out of host memory for a buffer of %lld bytes",
                         (long long)bytes);
    *host = *memory;
    return KILN_OK;
}

static void host_free(void *device, void *memory)
{
    (void)device;
    free(memory);
}

static kiln_status host_copy(void *device, void *stream, const kiln_copy_request *request)
{
    (void)device;
    host_command command = {.kind = COMMAND_COPY, .of.copy = *request};
    return push(stream, &command);
}

static kiln_status host_fill(void *device, void *stream, const kiln_fill_request *request)
{
    (void)device;
    host_command command = {.kind = COMMAND_FILL, .of.fill = *request};
    return push(stream, &command);
}

static kiln_status host_stream_create(void *device, void **result)
{
    (void)device;
    host_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return kiln_fail_memory("a host stream");
    kiln_status status = stream_start(stream);
    if (status != KILN_OK)
        free(stream);
    else
        *result = stream;
    return status;
}

static void host_stream_destroy(void *device, void *object)
{
    (void)device;
    host_stream *stream = object;
    if (stream->generation == kiln_process_generation()) {
        pthread_mutex_lock(&stream->mutex);
        stream->stop = true;
        pthread_cond_broadcast(&stream->changed);
        pthread_mutex_unlock(&stream->mutex);
        pthread_join(stream->worker, NULL);
        pthread_mutex_destroy(&stream->mutex);
        pthread_cond_destroy(&stream->changed);
    }
    free(stream);
}

static kiln_status host_stream_wait(void *device, void *object)
{
    (void)device;
    host_stream *stream = object;
    kiln_status status = stream_start(stream);
    if (status != KILN_OK)
        return status;
    pthread_mutex_lock(&stream->mutex);
    while (stream->head != stream->tail)
        pthread_cond_wait(&stream->changed, &stream->mutex);
    status = stream->status;
    if (status != KILN_OK) {
        kiln_fail(status, "%s", stream->sentence);
    } else if (stream->exceeded[0]) {
        status = kiln_fail(KILN_CAPACITY, "%s", stream->exceeded);
        stream->exceeded[0] = 0;
    }
    pthread_mutex_unlock(&stream->mutex);
    return status;
}

static kiln_status host_stream_enqueue(void *device, void *stream, kiln_stream_fn function,
                                       void *argument)
{
    (void)device;
    host_command command = {.kind = COMMAND_CALL};
    command.of.call.function = function;
    command.of.call.argument = argument;
    return push(stream, &command);
}

static kiln_status host_event_create(void *device, void **result)
{
    (void)device;
    host_event *event = calloc(1, sizeof *event);
    if (!event)
        return kiln_fail_memory("a host event");
    atomic_store(&event->generation, kiln_process_generation());
    pthread_mutex_init(&event->mutex, NULL);
    *result = event;
    return KILN_OK;
}

static void host_event_destroy(void *device, void *object)
{
    (void)device;
    host_event *event = object;
    mark_release(event->current);
    pthread_mutex_destroy(&event->mutex);
    free(event);
}

/* Queues a command on a mark, whose reference becomes the command's. */
static kiln_status push_mark(host_stream *stream, int kind, host_mark *mark)
{
    host_command command = {.kind = kind, .of.mark = mark};
    return push(stream, &command);
}

static kiln_status host_event_record(void *device, void *event, void *stream)
{
    (void)device;
    host_mark *mark = event_new_mark(event);
    if (!mark)
        return kiln_fail_memory("a record of an event");
    kiln_status status = push_mark(stream, COMMAND_RECORD, mark);
    if (status != KILN_OK) { /* nobody else will */
        mark_complete(mark, status, kiln_last_error());
        mark_release(mark);
    }
    return status;
}

static kiln_status event_status(host_event *event, bool wait)
{
    host_mark *mark = event_mark(event);
    kiln_status status = mark ? mark_status(mark, wait) : KILN_OK;
    mark_release(mark);
    return status;
}

static kiln_status host_event_query(void *device, void *event)
{
    (void)device;
    return event_status(event, false);
}

static kiln_status host_event_wait(void *device, void *event)
{
    (void)device;
    return event_status(event, true);
}

static kiln_status host_stream_wait_event(void *device, void *stream, void *event)
{
    (void)device;
    host_mark *mark = event_mark(event);
    if (!mark)
        return KILN_OK;
    kiln_status status = push_mark(stream, COMMAND_WAIT, mark);
    if (status != KILN_OK)
        mark_release(mark);
    return status;
}

static kiln_status host_gate_create(void *device, void **result)
{
    host_mark *mark = mark_new(true);
    if (!mark)
        return kiln_fail_memory("a gate");
    kiln_status status = host_event_create(device, result);
    if (status == KILN_OK)
        ((host_event *)*result)->current = mark;
    else
        mark_release(mark);
    return status;
}

static kiln_status host_gate_complete(void *device, void *event, kiln_status status,
                                      const char *sentence)
{
    (void)device;
    host_mark *mark = event_mark(event);
    bool first = mark_complete(mark, status, sentence ? sentence : kiln_status_text(status));
    mark_release(mark);
    return first ? KILN_OK : kiln_fail(KILN_INVALID, "the gate was completed already");
}

static kiln_status host_gate_reset(void *device, void *event)
{
    (void)device;
    host_mark *mark = event_mark(event);
    mark_lock(mark);
    bool done = mark->done;
    mark->done = false;
    pthread_mutex_unlock(&mark->mutex);
    mark_release(mark);
    return done ? KILN_OK
                : kiln_fail(KILN_INVALID, "the gate is reset before it was completed; complete it "
                                          "first");
}

const kiln_device_table kiln_host_device_table = {
    .struct_size = sizeof(kiln_device_table),
    .count = host_count,
    .info = kiln_host_info,
    .open = host_open,
    .close = host_close,
    .alloc = host_alloc,
    .free = host_free,
    .copy = host_copy,
    .fill = host_fill,
    .stream_create = host_stream_create,
    .stream_destroy = host_stream_destroy,
    .stream_wait = host_stream_wait,
    .stream_enqueue = host_stream_enqueue,
    .event_create = host_event_create,
    .event_destroy = host_event_destroy,
    .event_record = host_event_record,
    .event_query = host_event_query,
    .event_wait = host_event_wait,
    .stream_wait_event = host_stream_wait_event,
    .gate_create = host_gate_create,
    .gate_complete = host_gate_complete,
    .gate_reset = host_gate_reset,
};
