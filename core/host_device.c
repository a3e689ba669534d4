/* SPDX-License-Identifier: Apache-2.0 */
/* The host as a device: ordinary memory, and streams that are queues with a worker each. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/copy.h"
#include "core/device.h"
#include "core/fork.h"

enum { QUEUE_SLOTS = 256, SENTENCE = 512 };

/* An event counts its records; a wait remembers the count that it waits for. Commands in queues
 * hold references. */
typedef struct host_event {
    _Atomic int64_t references;
    _Atomic uint64_t generation; /* process in which it was last used */
    bool gate;                   /* the caller's to complete, in a child of fork too */
    pthread_mutex_t mutex;
    pthread_cond_t reached;
    uint64_t recorded, completed;
    kiln_status status;
    char sentence[SENTENCE];
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
        struct {
            host_event *event;
            uint64_t ticket;
        } event;
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
    host_command queue[QUEUE_SLOTS];
} host_stream;

/* ---- Fork: objects are taken over by the child at their first use there ---- */

static pthread_mutex_t adoption = PTHREAD_MUTEX_INITIALIZER;
static const char *const left_behind = "what was queued before the fork is the parent's work";

/* The parent's threads may have held the lock, and will not complete the event here. */
static void event_adopt(host_event *event, uint64_t generation)
{
    pthread_mutex_lock(&adoption);
    if (atomic_load(&event->generation) != generation) {
        pthread_mutex_init(&event->mutex, NULL);
        pthread_cond_init(&event->reached, NULL);
        if (!event->gate && event->completed < event->recorded) {
            event->completed = event->recorded;
            event->status = KILN_FORKED;
            snprintf(event->sentence, sizeof event->sentence, "%s", left_behind);
        }
        atomic_store(&event->generation, generation);
    }
    pthread_mutex_unlock(&adoption);
}

static void event_lock(host_event *event)
{
    uint64_t generation = kiln_process_generation();
    if (atomic_load_explicit(&event->generation, memory_order_acquire) != generation)
        event_adopt(event, generation);
    pthread_mutex_lock(&event->mutex);
}

/* ---- Events ---- */

static void event_unreference(host_event *event)
{
    if (atomic_fetch_sub(&event->references, 1) != 1)
        return;
    pthread_mutex_destroy(&event->mutex);
    pthread_cond_destroy(&event->reached);
    free(event);
}

static void event_complete(host_event *event, uint64_t ticket, kiln_status status,
                           const char *sentence)
{
    event_lock(event);
    if (ticket > event->completed) {
        event->completed = ticket;
        event->status = status;
        snprintf(event->sentence, sizeof event->sentence, "%s", sentence);
    }
    pthread_cond_broadcast(&event->reached);
    pthread_mutex_unlock(&event->mutex);
}

static kiln_status event_await(host_event *event, uint64_t ticket)
{
    event_lock(event);
    while (event->completed < ticket)
        pthread_cond_wait(&event->reached, &event->mutex);
    kiln_status status = event->status;
    if (status != KILN_OK)
        kiln_fail(status, "%s", event->sentence);
    pthread_mutex_unlock(&event->mutex);
    return status;
}

/* ---- Streams ---- */

static void stream_fault(host_stream *stream, kiln_status status)
{
    pthread_mutex_lock(&stream->mutex);
    if (stream->status == KILN_OK) {
        stream->status = status;
        snprintf(stream->sentence, sizeof stream->sentence, "%s", kiln_last_error());
    }
    pthread_mutex_unlock(&stream->mutex);
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
        if (fault != KILN_OK)
            kiln_fail(fault, "%s", stream->sentence);
        status = command->of.call.function(command->of.call.argument, fault);
        break;
    case COMMAND_RECORD:
        event_complete(command->of.event.event, command->of.event.ticket, fault, stream->sentence);
        event_unreference(command->of.event.event);
        break;
    case COMMAND_WAIT:
        if (fault == KILN_OK)
            status = event_await(command->of.event.event, command->of.event.ticket);
        event_unreference(command->of.event.event);
        break;
    }
    if (status < 0)
        stream_fault(stream, status);
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

static void add_cache(kiln_device_info *info, const char *name, int size_name, int line_name)
{
    long size = sysconf(size_name), line = sysconf(line_name);
    if (size <= 0 || info->memory_count == KILN_MAX_MEMORIES)
        return;
    kiln_memory_info *memory = &info->memories[info->memory_count++];
    snprintf(memory->name, sizeof memory->name, "%s", name);
    memory->bytes = size;
    memory->instances = 1;
    memory->line = line > 0 ? line : 0;
}

static kiln_status host_info(void *instance, int64_t index, kiln_device_info *info)
{
    (void)instance, (void)index;
    struct utsname system;
    uname(&system);
    snprintf(info->name, sizeof info->name, "host (%.40s)", system.machine);
    snprintf(info->fingerprint, sizeof info->fingerprint, "host %.60s", system.machine);
    info->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    info->compute_units = sysconf(_SC_NPROCESSORS_ONLN);
    info->spaces = 1u << KILN_SPACE_DEVICE | 1u << KILN_SPACE_HOST;
    info->flags = KILN_DEVICE_HOST_ADDRESSABLE | KILN_DEVICE_FORK_SAFE;
    add_cache(info, "L1d", _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL1_DCACHE_LINESIZE);
    add_cache(info, "L2", _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL2_CACHE_LINESIZE);
    add_cache(info, "L3", _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL3_CACHE_LINESIZE);
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
    if (stream->status != KILN_OK)
        kiln_fail(stream->status, "%s", stream->sentence);
    status = stream->status;
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
    atomic_store(&event->references, 1);
    atomic_store(&event->generation, kiln_process_generation());
    pthread_mutex_init(&event->mutex, NULL);
    pthread_cond_init(&event->reached, NULL);
    *result = event;
    return KILN_OK;
}

static void host_event_destroy(void *device, void *event)
{
    (void)device;
    event_unreference(event);
}

/* Queues a command on an event; the command holds a reference. */
static kiln_status push_event(host_stream *stream, int kind, host_event *event, uint64_t ticket)
{
    host_command command = {.kind = kind};
    command.of.event.event = event;
    command.of.event.ticket = ticket;
    atomic_fetch_add(&event->references, 1);
    kiln_status status = push(stream, &command);
    if (status != KILN_OK)
        event_unreference(event);
    return status;
}

static kiln_status host_event_record(void *device, void *object, void *stream)
{
    (void)device;
    host_event *event = object;
    event_lock(event);
    uint64_t ticket = ++event->recorded;
    pthread_mutex_unlock(&event->mutex);
    kiln_status status = push_event(stream, COMMAND_RECORD, event, ticket);
    if (status != KILN_OK) /* nobody else will */
        event_complete(event, ticket, status, kiln_last_error());
    return status;
}

static uint64_t current_ticket(host_event *event)
{
    event_lock(event);
    uint64_t ticket = event->recorded;
    pthread_mutex_unlock(&event->mutex);
    return ticket;
}

static kiln_status host_event_query(void *device, void *object)
{
    (void)device;
    host_event *event = object;
    event_lock(event);
    kiln_status status = event->completed < event->recorded ? KILN_NOT_READY : event->status;
    if (status != KILN_OK && status != KILN_NOT_READY)
        kiln_fail(status, "%s", event->sentence);
    pthread_mutex_unlock(&event->mutex);
    return status;
}

static kiln_status host_event_wait(void *device, void *event)
{
    (void)device;
    return event_await(event, current_ticket(event));
}

static kiln_status host_stream_wait_event(void *device, void *stream, void *event)
{
    (void)device;
    return push_event(stream, COMMAND_WAIT, event, current_ticket(event));
}

static kiln_status host_gate_create(void *device, void **result)
{
    kiln_status status = host_event_create(device, result);
    if (status != KILN_OK)
        return status;
    host_event *event = *result;
    event->gate = true;
    event->recorded = 1;
    return KILN_OK;
}

static kiln_status host_gate_complete(void *device, void *event, kiln_status status,
                                      const char *sentence)
{
    (void)device;
    event_complete(event, current_ticket(event), status,
                   sentence ? sentence : kiln_status_text(status));
    return KILN_OK;
}

static kiln_status host_gate_reset(void *device, void *object)
{
    (void)device;
    host_event *event = object;
    event_lock(event);
    event->recorded = event->completed + 1;
    event->status = KILN_OK;
    pthread_mutex_unlock(&event->mutex);
    return KILN_OK;
}

const kiln_device_table kiln_host_device_table = {
    .struct_size = sizeof(kiln_device_table),
    .count = host_count,
    .info = host_info,
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
