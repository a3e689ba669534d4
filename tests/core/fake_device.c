/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of the plugin "fake". */
#include "tests/core/fake_device_parts.h"
#include "tests/core/fixture.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct fake_memory {
    uintptr_t handle;
    int64_t bytes;
    char *storage;
    struct fake_memory *next;
} fake_memory;

typedef struct fake_event {
    int64_t references;
    uint64_t recorded, completed;
    kiln_status status;
    char sentence[256];
} fake_event;

typedef struct command {
    enum { COPY, FILL, CALL, RECORD, WAIT } kind;
    kiln_copy_request copy;
    kiln_fill_request fill;
    kiln_stream_fn function;
    void *argument;
    fake_event *event;
    uint64_t ticket;
    struct command *next;
} command;

typedef struct fake_stream {
    fake_device *device;
    pthread_t thread;
    command *first, **last;
    bool busy, stop;
    kiln_status status;
    char sentence[256], exceeded[256];
} fake_stream;

kiln_status fake_device_fail(fake_device *device, kiln_status status, const char *sentence)
{
    return device->instance->host->set_error(status, "%s", sentence);
}

/* ---- Memory ---- */

static kiln_status device_alloc(void *object, uint32_t space, int64_t bytes, int64_t alignment,
                                void **memory, void **host)
{
    fake_device *device = object;
    fake_memory *made = calloc(1, sizeof *made);
    size_t room = ((size_t)bytes + 127) / 64 * 64;
    if (alignment > 64 || alignment <= 0 || space > KILN_SPACE_PINNED)
        atomic_fetch_add(&fake_device_counted.wrong, 1);
    if (!made || bytes > 1 << 26 || !(made->storage = aligned_alloc(64, room))) {
        free(made);
        return fake_device_fail(device, KILN_NO_MEMORY, "the fake device is full");
    }
    memset(made->storage, 0xa5, room);
    pthread_mutex_lock(&device->mutex);
    made->bytes = bytes;
    made->handle = device->next_handle;
    device->next_handle += room;
    made->next = device->memories;
    device->memories = made;
    pthread_mutex_unlock(&device->mutex);
    atomic_fetch_add(&fake_device_counted.memories, 1);
    *memory = (void *)made->handle;
    *host = device->instance->addressable ? made->storage : NULL;
    return KILN_OK;
}

static void device_free(void *object, void *memory)
{
    fake_device *device = object;
    pthread_mutex_lock(&device->mutex);
    fake_memory **link = &device->memories;
    while (*link && (*link)->handle != (uintptr_t)memory)
        link = &(*link)->next;
    fake_memory *found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&device->mutex);
    if (!found) {
        atomic_fetch_add(&fake_device_counted.wrong, 1);
        return;
    }
    atomic_fetch_sub(&fake_device_counted.memories, 1);
    free(found->storage);
    free(found);
}

char *fake_device_reach(fake_device *device, const void *memory, int64_t offset, int64_t bytes)
{
    char *address = NULL;
    pthread_mutex_lock(&device->mutex);
    for (fake_memory *one = device->memories; one; one = one->next)
        if (one->handle == (uintptr_t)memory && offset >= 0 && bytes >= 0 &&
            offset <= one->bytes - bytes)
            address = one->storage + offset;
    pthread_mutex_unlock(&device->mutex);
    return address;
}

static char *reach_side(fake_device *device, const kiln_copy_side *side, int64_t offset,
                        int64_t bytes)
{
    return side->memory ? fake_device_reach(device, side->memory, side->byte_offset + offset, bytes)
                        : side->host + side->byte_offset + offset;
}

/* One element after the other, so that every one is checked. */
static bool copy_elements(fake_device *device, const kiln_copy_request *request, int64_t level,
                          int64_t to, int64_t from)
{
    if (level == request->rank) {
        char *target = reach_side(device, &request->destination, to, request->element_bytes);
        const char *origin = reach_side(device, &request->source, from, request->element_bytes);
        if (target && origin)
            memcpy(target, origin, (size_t)request->element_bytes);
        return target && origin;
    }
    for (int64_t i = 0; i < request->shape[level]; i++)
        if (!copy_elements(device, request, level + 1, to + i * request->destination.strides[level],
                           from + i * request->source.strides[level]))
            return false;
    return true;
}

static bool fill_elements(fake_device *device, const kiln_fill_request *request, int64_t level,
                          int64_t to)
{
    if (level == request->rank) {
        char *target = reach_side(device, &request->destination, to, request->element_bytes);
        if (target)
            memcpy(target, request->pattern, (size_t)request->element_bytes);
        return target != NULL;
    }
    for (int64_t i = 0; i < request->shape[level]; i++)
        if (!fill_elements(device, request, level + 1,
                           to + i * request->destination.strides[level]))
            return false;
    return true;
}

/* ---- Streams ---- */

static void unreference(fake_event *event)
{
    if (--event->references > 0)
        return;
    atomic_fetch_sub(&fake_device_counted.events, 1);
    free(event);
}

/* Under the lock. The latest ticket counts. */
static void complete(fake_device *device, fake_event *event, uint64_t ticket, kiln_status status,
                     const char *sentence)
{
    if (ticket > event->completed) {
        event->completed = ticket;
        event->status = status;
        snprintf(event->sentence, sizeof event->sentence, "%s", sentence);
    }
    pthread_cond_broadcast(&device->changed);
}

static kiln_status await(fake_device *device, const fake_event *event, uint64_t ticket,
                         char *sentence, size_t size)
{
    while (event->completed < ticket)
        pthread_cond_wait(&device->changed, &device->mutex);
    snprintf(sentence, size, "%s", event->sentence);
    return event->status;
}

/* What takes time, without the lock; the stream's status changes on its own thread only. */
static kiln_status work(fake_stream *stream, const command *todo, char *sentence, size_t size)
{
    fake_device *device = stream->device;
    bool done = true;
    if (todo->kind == CALL) {
        if (stream->status != KILN_OK)
            fake_device_fail(device, stream->status, stream->sentence);
        kiln_status status = todo->function(todo->argument, stream->status);
        snprintf(sentence, size, "%s", status < 0 ? device->instance->host->last_error() : "");
        return status;
    }
    if (stream->status != KILN_OK)
        return KILN_OK;
    if (todo->kind == COPY)
        done = copy_elements(device, &todo->copy, 0, 0, 0);
    else if (todo->kind == FILL)
        done = fill_elements(device, &todo->fill, 0, 0);
    snprintf(sentence, size, "the fake device was made to touch what is not its memory");
    return done ? KILN_OK : KILN_FAULT;
}

static void *stream_main(void *argument)
{
    fake_stream *stream = argument;
    fake_device *device = stream->device;
    pthread_mutex_lock(&device->mutex);
    for (;;) {
        command *todo = stream->first;
        if (!todo && stream->stop)
            break;
        if (!todo) {
            pthread_cond_wait(&device->changed, &device->mutex);
            continue;
        }
        stream->first = todo->next;
        stream->last = stream->first ? stream->last : &stream->first;
        stream->busy = true;
        kiln_status status = KILN_OK;
        char sentence[256] = "";
        if (todo->kind == RECORD) {
            complete(device, todo->event, todo->ticket, stream->status, stream->sentence);
        } else if (todo->kind == WAIT) {
            if (stream->status == KILN_OK)
                status = await(device, todo->event, todo->ticket, sentence, sizeof sentence);
        } else {
            pthread_mutex_unlock(&device->mutex);
            if (device->instance->delay_us > 0)
                fixture_sleep_us(device->instance->delay_us);
            status = work(stream, todo, sentence, sizeof sentence);
            pthread_mutex_lock(&device->mutex);
        }
        if (status == KILN_CAPACITY && !stream->exceeded[0]) {
            memcpy(stream->exceeded, sentence, sizeof sentence);
        } else if (status < 0 && status != KILN_CAPACITY && stream->status == KILN_OK) {
            stream->status = status;
            memcpy(stream->sentence, sentence, sizeof sentence);
        }
        if (todo->event)
            unreference(todo->event);
        free(todo);
        stream->busy = false;
        pthread_cond_broadcast(&device->changed);
    }
    pthread_mutex_unlock(&device->mutex);
    return NULL;
}

static kiln_status push(fake_stream *stream, const command *todo)
{
    fake_device *device = stream->device;
    command *copy = malloc(sizeof *copy);
    if (!copy)
        return fake_device_fail(device, KILN_NO_MEMORY, "no memory for a command");
    *copy = *todo;
    copy->next = NULL;
    pthread_mutex_lock(&device->mutex);
    if (copy->event)
        copy->event->references++;
    if (copy->event && copy->kind == RECORD)
        copy->ticket = ++copy->event->recorded;
    else if (copy->event)
        copy->ticket = copy->event->recorded;
    *stream->last = copy;
    stream->last = &copy->next;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
    return KILN_OK;
}

static kiln_status device_copy(void *device, void *stream, const kiln_copy_request *request)
{
    (void)device;
    atomic_fetch_add(&fake_device_counted.copies, 1);
    if (request->struct_size != sizeof *request ||
        (!request->destination.memory && !request->source.memory))
        atomic_fetch_add(&fake_device_counted.wrong, 1);
    return push(stream, &(command){.kind = COPY, .copy = *request});
}

static kiln_status device_fill(void *device, void *stream, const kiln_fill_request *request)
{
    (void)device;
    return push(stream, &(command){.kind = FILL, .fill = *request});
}

kiln_status fake_device_enqueue(void *device, void *stream, kiln_stream_fn function, void *argument)
{
    (void)device;
    return push(stream, &(command){.kind = CALL, .function = function, .argument = argument});
}

static kiln_status stream_create(void *object, void **result)
{
    fake_device *device = object;
    fake_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return fake_device_fail(device, KILN_NO_MEMORY, "no memory for a stream");
    stream->device = device;
    stream->last = &stream->first;
    if (pthread_create(&stream->thread, NULL, stream_main, stream) != 0) {
        free(stream);
        return fake_device_fail(device, KILN_NO_MEMORY, "no thread for a stream");
    }
    atomic_fetch_add(&fake_device_counted.streams, 1);
    *result = stream;
    return KILN_OK;
}

static void stream_destroy(void *object, void *stream_object)
{
    fake_device *device = object;
    fake_stream *stream = stream_object;
    pthread_mutex_lock(&device->mutex);
    stream->stop = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
    pthread_join(stream->thread, NULL);
    free(stream);
    atomic_fetch_sub(&fake_device_counted.streams, 1);
}

static kiln_status stream_wait(void *object, void *stream_object)
{
    fake_device *device = object;
    fake_stream *stream = stream_object;
    pthread_mutex_lock(&device->mutex);
    while (stream->first || stream->busy)
        pthread_cond_wait(&device->changed, &device->mutex);
    kiln_status status = stream->status;
    if (status != KILN_OK) {
        fake_device_fail(device, status, stream->sentence);
    } else if (stream->exceeded[0]) {
        status = fake_device_fail(device, KILN_CAPACITY, stream->exceeded);
        stream->exceeded[0] = 0;
    }
    pthread_mutex_unlock(&device->mutex);
    return status;
}

static kiln_status stream_counters(void *device, void *stream, kiln_counter *counters,
                                   int64_t capacity, int64_t *count)
{
    (void)device, (void)stream;
    for (int64_t i = 0; i < 2 && i < capacity; i++)
        counters[i] = (kiln_counter){.name = "ticks", .unit = "1", .value = 100 + i};
    *count = 2;
    return KILN_OK;
}

/* ---- Events ---- */

static kiln_status event_create(void *object, void **result)
{
    fake_event *event = calloc(1, sizeof *event);
    if (!event)
        return fake_device_fail(object, KILN_NO_MEMORY, "no memory for an event");
    event->references = 1;
    atomic_fetch_add(&fake_device_counted.events, 1);
    *result = event;
    return KILN_OK;
}

static kiln_status gate_create(void *object, void **result)
{
    kiln_status status = event_create(object, result);
    if (status == KILN_OK)
        ((fake_event *)*result)->recorded = 1;
    return status;
}

static void event_destroy(void *object, void *event)
{
    fake_device *device = object;
    pthread_mutex_lock(&device->mutex);
    unreference(event);
    pthread_mutex_unlock(&device->mutex);
}

static kiln_status event_record(void *device, void *event, void *stream)
{
    (void)device;
    return push(stream, &(command){.kind = RECORD, .event = event});
}

static kiln_status stream_wait_event(void *device, void *stream, void *event)
{
    (void)device;
    return push(stream, &(command){.kind = WAIT, .event = event});
}

static kiln_status event_query(void *object, void *event_object)
{
    fake_device *device = object;
    fake_event *event = event_object;
    pthread_mutex_lock(&device->mutex);
    kiln_status status = event->completed < event->recorded ? KILN_NOT_READY : event->status;
    if (status != KILN_OK && status != KILN_NOT_READY)
        fake_device_fail(device, status, event->sentence);
    pthread_mutex_unlock(&device->mutex);
    return status;
}

static kiln_status event_wait(void *object, void *event_object)
{
    fake_device *device = object;
    fake_event *event = event_object;
    char sentence[256];
    pthread_mutex_lock(&device->mutex);
    kiln_status status = await(device, event, event->recorded, sentence, sizeof sentence);
    pthread_mutex_unlock(&device->mutex);
    return status == KILN_OK ? status : fake_device_fail(device, status, sentence);
}

static kiln_status gate_complete(void *object, void *event_object, kiln_status status,
                                 const char *sentence)
{
    fake_device *device = object;
    fake_event *event = event_object;
    pthread_mutex_lock(&device->mutex);
    complete(device, event, event->recorded, status, sentence ? sentence : "no sentence");
    pthread_mutex_unlock(&device->mutex);
    return KILN_OK;
}

static kiln_status gate_reset(void *object, void *event_object)
{
    fake_device *device = object;
    fake_event *event = event_object;
    pthread_mutex_lock(&device->mutex);
    event->recorded = event->completed + 1;
    pthread_mutex_unlock(&device->mutex);
    return KILN_OK;
}

/* ---- The device ---- */

static kiln_status device_count(void *instance, int64_t *count)
{
    *count = ((fake_instance *)instance)->devices;
    return KILN_OK;
}

static kiln_status device_info(void *instance, int64_t index, kiln_device_info *info)
{
    snprintf(info->name, sizeof info->name, "fake %lld", (long long)index);
    snprintf(info->fingerprint, sizeof info->fingerprint, "fake device %lld of a test",
             (long long)index);
    info->memory_bytes = 1 << 26;
    info->spaces = 1u << KILN_SPACE_DEVICE | 1u << KILN_SPACE_PINNED;
    info->flags = KILN_DEVICE_MODEL |
                  (((fake_instance *)instance)->addressable ? KILN_DEVICE_HOST_ADDRESSABLE : 0);
    return KILN_OK;
}

static kiln_status device_open(void *instance, int64_t index, kiln_device *handle, void **result)
{
    (void)index, (void)handle;
    fake_device *device = calloc(1, sizeof *device);
    if (!device)
        return ((fake_instance *)instance)
            ->host->set_error(KILN_NO_MEMORY, "no memory for a device");
    device->instance = instance;
    device->next_handle = 4096;
    pthread_mutex_init(&device->mutex, NULL);
    pthread_cond_init(&device->changed, NULL);
    atomic_fetch_add(&fake_device_counted.devices, 1);
    *result = device;
    return KILN_OK;
}

static void device_close(void *object)
{
    fake_device *device = object;
    pthread_mutex_destroy(&device->mutex);
    pthread_cond_destroy(&device->changed);
    atomic_fetch_sub(&fake_device_counted.devices, 1);
    free(device);
}

const kiln_device_table fake_device_table = {
    .struct_size = sizeof fake_device_table,
    .count = device_count,
    .info = device_info,
    .open = device_open,
    .close = device_close,
    .alloc = device_alloc,
    .free = device_free,
    .copy = device_copy,
    .fill = device_fill,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_wait = stream_wait,
    .stream_enqueue = fake_device_enqueue,
    .stream_counters = stream_counters,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_wait = event_wait,
    .stream_wait_event = stream_wait_event,
    .gate_create = gate_create,
    .gate_complete = gate_complete,
    .gate_reset = gate_reset,
};
