/* SPDX-License-Identifier: Apache-2.0 */
/* A device in software: memory that the host reaches only by copying, and streams with a thread
 * each. And what can be wrong with it. */
#include "planted.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEVICES = 2, MEMORY = 1 << 28 };

typedef struct planted_memory {
    char *storage;
    int64_t bytes;
    struct planted_memory *next;
} planted_memory;

/* One lock for a device and all that belongs to it. */
typedef struct planted_device {
    const kiln_host *host;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    planted_memory *memories;
    int64_t used;
} planted_device;

/* One record of an event, or one use of a gate: whoever waits for it holds it. */
typedef struct planted_mark {
    int64_t references;
    bool gate, reached;
    kiln_status status;
    char sentence[256];
} planted_mark;

typedef struct planted_event {
    int64_t references;
    planted_mark *last; /* NULL = never recorded */
} planted_event;

typedef struct planted_command {
    enum { COPY, FILL, CALL, RECORD, WAIT } kind;
    kiln_copy_request copy;
    kiln_fill_request fill;
    kiln_stream_fn function;
    void *argument;
    planted_event *event;
    planted_mark *mark;
    struct planted_command *next;
} planted_command;

typedef struct planted_stream {
    planted_device *device;
    pthread_t thread;
    planted_command *first, **last;
    planted_command *spare; /* commands that are done with */
    bool busy, stop;
    kiln_status status;
    char sentence[256];
    int64_t waiting, done;
} planted_stream;

static kiln_status fail(const planted_device *self, kiln_status status, const char *sentence)
{
    return self->host->set_error(status, "%s", sentence);
}

/* ---- Memory ---- */

static kiln_status device_alloc(void *object, uint32_t space, int64_t bytes, int64_t alignment,
                                void **result, void **host)
{
    planted_device *self = object;
    if (space != KILN_SPACE_DEVICE)
        return fail(self, KILN_UNSUPPORTED, "planted: only device memory is offered");
    size_t unit = alignment > 64 ? (size_t)alignment : 64,
           room = ((size_t)bytes + unit) / unit * unit;
    planted_memory *made = calloc(1, sizeof *made);
    if (!made || bytes > MEMORY || !(made->storage = aligned_alloc(unit, room))) {
        free(made);
        return fail(self, KILN_NO_MEMORY, "planted: the device's memory is exhausted");
    }
    memset(made->storage, 0xa5, room);
    made->bytes = bytes;
    pthread_mutex_lock(&self->mutex);
    bool fits = self->used + bytes <= MEMORY;
    if (fits) {
        self->used += bytes;
        made->next = self->memories;
        self->memories = made;
    }
    pthread_mutex_unlock(&self->mutex);
    if (!fits) {
        free(made->storage);
        free(made);
        return fail(self, KILN_NO_MEMORY, "planted: the device's memory is exhausted");
    }
    *result = made;
    *host = NULL;
    return KILN_OK;
}

static void device_free(void *object, void *gone)
{
    planted_device *self = object;
    planted_memory *found = gone;
    pthread_mutex_lock(&self->mutex);
    planted_memory **link = &self->memories;
    while (*link && *link != found)
        link = &(*link)->next;
    if (*link) {
        *link = found->next;
        self->used -= found->bytes;
    }
    pthread_mutex_unlock(&self->mutex);
    if (!planted(LEAKS_MEMORY))
        free(found->storage);
    free(found);
}

char *planted_reach(planted_device *self, const void *wanted, int64_t offset, int64_t bytes)
{
    char *address = NULL;
    pthread_mutex_lock(&self->mutex);
    for (const planted_memory *one = self->memories; one; one = one->next)
        if (one == wanted && offset >= 0 && bytes >= 0 && offset <= one->bytes - bytes)
            address = one->storage + offset;
    pthread_mutex_unlock(&self->mutex);
    return address;
}

/* ---- Copies ---- */

static char *reach_side(planted_device *self, const kiln_copy_side *side, int64_t offset,
                        int64_t bytes)
{
    int64_t at = (planted(IGNORES_OFFSET) && side->memory ? 0 : side->byte_offset) + offset;
    return side->memory ? planted_reach(self, side->memory, at, bytes) : side->host + at;
}

static bool copy_elements(planted_device *self, const kiln_copy_request *request, int64_t level,
                          int64_t to, int64_t from)
{
    int64_t bytes = request->element_bytes;
    if (level == request->rank) {
        char *target = reach_side(self, &request->destination, to, bytes);
        const char *origin = reach_side(self, &request->source, from, bytes);
        if (target && origin)
            memcpy(target, origin, (size_t)bytes);
        return target && origin;
    }
    int64_t to_stride = request->destination.strides[level],
            from_stride = request->source.strides[level];
    if (planted(SWAPS_STRIDES) && request->rank == 3 && level == 0)
        to_stride = request->destination.strides[1] * request->shape[1];
    for (int64_t i = 0; i < request->shape[level]; i++)
        if (!copy_elements(self, request, level + 1, to + i * to_stride, from + i * from_stride))
            return false;
    /* As if a row were copied in whole words. */
    if (planted(CLOBBERS_GAPS) && level + 1 == request->rank && request->rank > 1 &&
        request->destination.memory &&
        request->destination.strides[level - 1] > to_stride * request->shape[level]) {
        char *gap =
            reach_side(self, &request->destination, to + to_stride * request->shape[level], 1);
        if (gap)
            *gap = 0;
    }
    return true;
}

static bool fill_elements(planted_device *self, const kiln_fill_request *request, int64_t level,
                          int64_t to)
{
    if (level == request->rank) {
        char *target = reach_side(self, &request->destination, to, request->element_bytes);
        for (int64_t i = 0; target && i < request->element_bytes; i++)
            target[i] = (char)request->pattern[planted(FILLS_BYTES) ? 0 : i];
        return target != NULL;
    }
    for (int64_t i = 0; i < request->shape[level]; i++)
        if (!fill_elements(self, request, level + 1, to + i * request->destination.strides[level]))
            return false;
    return true;
}

/* ---- Events ---- */

/* Under the lock, as all of the following. */
static void release_mark(planted_mark *mark)
{
    if (mark && --mark->references == 0)
        free(mark);
}

static void unreference(planted_event *event)
{
    if (--event->references > 0)
        return;
    release_mark(event->last);
    free(event);
}

/* A new record of the event; NULL when memory is exhausted. */
static planted_mark *mark_again(planted_event *event, bool gate)
{
    planted_mark *mark = calloc(1, sizeof *mark);
    if (mark) {
        mark->references = 1;
        mark->gate = gate;
        release_mark(event->last);
        event->last = mark;
    }
    return mark;
}

static void reach(planted_device *self, planted_mark *mark, kiln_status status,
                  const char *sentence)
{
    mark->reached = true;
    mark->status = planted(EVENT_LOSES_FAULT) && !mark->gate ? KILN_OK : status;
    snprintf(mark->sentence, sizeof mark->sentence, "%s", sentence);
    pthread_cond_broadcast(&self->changed);
}

static kiln_status await(planted_device *self, const planted_mark *mark, char *sentence,
                         size_t size)
{
    while (mark && !mark->reached && !planted(WAIT_RETURNS_EARLY))
        pthread_cond_wait(&self->changed, &self->mutex);
    snprintf(sentence, size, "%s", mark ? mark->sentence : "");
    return mark ? mark->status : KILN_OK;
}

/* ---- Streams ---- */

/* What takes time, without the lock; a stream's status changes on its own thread only. */
static kiln_status work(planted_stream *self, const planted_command *todo, char *sentence,
                        size_t size)
{
    planted_device *device = self->device;
    if (todo->kind == CALL) {
        if (self->status != KILN_OK && planted(SKIPS_FUNCTIONS))
            return self->status;
        if (self->status != KILN_OK)
            fail(device, self->status, self->sentence);
        kiln_status status = todo->function(todo->argument, self->status);
        snprintf(sentence, size, "%s", status < 0 ? device->host->last_error() : "");
        return status;
    }
    if (self->status != KILN_OK && !planted(COPIES_BEHIND_FAULT))
        return KILN_OK;
    bool done = todo->kind == COPY ? copy_elements(device, &todo->copy, 0, 0, 0)
                                   : fill_elements(device, &todo->fill, 0, 0);
    snprintf(sentence, size, "planted: a copy or fill beyond the memory");
    return done ? KILN_OK : KILN_FAULT;
}

static void execute(planted_stream *self, planted_command *todo)
{
    planted_device *device = self->device;
    kiln_status status = KILN_OK;
    char sentence[256] = "";
    if (todo->kind == RECORD) {
        reach(device, todo->mark, self->status, self->sentence);
    } else if (todo->kind == WAIT) {
        if (self->status == KILN_OK)
            status =
                await(device, planted(WAITS_FOR_LATER_RECORDS) ? todo->event->last : todo->mark,
                      sentence, sizeof sentence);
        if (planted(KEEPS_ITS_OWN_STATUS) && todo->mark && !todo->mark->gate)
            status = KILN_OK;
    } else {
        pthread_mutex_unlock(&device->mutex);
        status = work(self, todo, sentence, sizeof sentence);
        pthread_mutex_lock(&device->mutex);
    }
    if (status < 0 && self->status == KILN_OK) {
        self->status = status;
        snprintf(self->sentence, sizeof self->sentence, "%s", sentence);
    }
    release_mark(todo->mark);
    if (todo->event)
        unreference(todo->event);
}

static void *stream_main(void *argument)
{
    planted_stream *self = argument;
    planted_device *device = self->device;
    pthread_mutex_lock(&device->mutex);
    for (;;) {
        planted_command *todo = self->first;
        if (!todo && self->stop)
            break;
        if (!todo) {
            pthread_cond_wait(&device->changed, &device->mutex);
            continue;
        }
        self->first = todo->next;
        self->last = self->first ? self->last : &self->first;
        self->busy = true;
        self->waiting--;
        execute(self, todo);
        todo->next = self->spare;
        self->spare = todo;
        self->busy = false;
        self->done++;
        pthread_cond_broadcast(&device->changed);
    }
    pthread_mutex_unlock(&device->mutex);
    return NULL;
}

static kiln_status push(planted_stream *self, const planted_command *todo)
{
    planted_device *device = self->device;
    pthread_mutex_lock(&device->mutex);
    planted_command *copy = self->spare;
    if (copy)
        self->spare = copy->next;
    else
        copy = malloc(sizeof *copy);
    if (!copy) {
        pthread_mutex_unlock(&device->mutex);
        return fail(device, KILN_NO_MEMORY, "planted: no memory for a command");
    }
    *copy = *todo;
    copy->next = NULL;
    if (copy->event)
        copy->mark = copy->kind == RECORD ? mark_again(copy->event, false) : copy->event->last;
    if (copy->kind == RECORD && !copy->mark) {
        copy->next = self->spare;
        self->spare = copy;
        pthread_mutex_unlock(&device->mutex);
        return fail(device, KILN_NO_MEMORY, "planted: no memory for a record");
    }
    if (copy->event)
        copy->event->references++;
    if (copy->mark)
        copy->mark->references++;
    self->waiting++;
    /* As if small copies went round a queue that has become long. */
    if (planted(COPIES_OVERTAKE) && copy->kind == COPY && self->waiting > 100 && self->first) {
        copy->next = self->first;
        self->first = copy;
    } else {
        *self->last = copy;
        self->last = &copy->next;
    }
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
    return KILN_OK;
}

static kiln_status device_copy(void *object, void *to, const kiln_copy_request *request)
{
    if (kiln_check_request(request, sizeof *request) != KILN_OK && !planted(OBEYS_LONG_REQUESTS))
        return fail(object, KILN_UNSUPPORTED, "planted: the request says too much");
    return push(to, &(planted_command){.kind = COPY, .copy = *request});
}

static kiln_status device_fill(void *object, void *to, const kiln_fill_request *request)
{
    if (kiln_check_request(request, sizeof *request) != KILN_OK && !planted(OBEYS_LONG_REQUESTS))
        return fail(object, KILN_UNSUPPORTED, "planted: the request says too much");
    return push(to, &(planted_command){.kind = FILL, .fill = *request});
}

kiln_status planted_enqueue(void *object, void *to, kiln_stream_fn function, void *argument)
{
    (void)object;
    return push(to, &(planted_command){.kind = CALL, .function = function, .argument = argument});
}

static kiln_status stream_create(void *object, void **result)
{
    planted_stream *self = calloc(1, sizeof *self);
    if (!self)
        return fail(object, KILN_NO_MEMORY, "planted: no memory for a stream");
    self->device = object;
    self->last = &self->first;
    if (pthread_create(&self->thread, NULL, stream_main, self) != 0) {
        free(self);
        return fail(object, KILN_NO_MEMORY, "planted: no thread for a stream");
    }
    *result = self;
    return KILN_OK;
}

static void stream_destroy(void *object, void *gone)
{
    planted_device *device = object;
    planted_stream *self = gone;
    pthread_mutex_lock(&device->mutex);
    self->stop = true;
    if (planted(DESTROY_DROPS_WORK)) {
        self->first = NULL;
        self->last = &self->first;
        self->waiting = 0;
    }
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
    pthread_join(self->thread, NULL);
    while (self->spare) {
        planted_command *next = self->spare->next;
        free(self->spare);
        self->spare = next;
    }
    free(self);
}

static kiln_status stream_wait(void *object, void *waited)
{
    planted_device *device = object;
    planted_stream *self = waited;
    pthread_mutex_lock(&device->mutex);
    while (self->first || self->busy)
        pthread_cond_wait(&device->changed, &device->mutex);
    kiln_status status = self->status;
    if (status != KILN_OK)
        fail(device, status, planted(FAULT_WITHOUT_WORDS) ? "" : self->sentence);
    if (planted(FAULT_IS_FORGOTTEN))
        self->status = KILN_OK;
    pthread_mutex_unlock(&device->mutex);
    return status;
}

static kiln_status stream_counters(void *object, void *asked, kiln_counter *counters,
                                   int64_t capacity, int64_t *count)
{
    planted_device *device = object;
    planted_stream *self = asked;
    pthread_mutex_lock(&device->mutex);
    if (capacity > 0)
        counters[0] = (kiln_counter){.name = "commands", .unit = "1", .value = self->done};
    pthread_mutex_unlock(&device->mutex);
    *count = 1;
    return KILN_OK;
}

/* ---- Events and gates, for the core ---- */

static kiln_status event_create(void *object, void **result)
{
    planted_event *made = calloc(1, sizeof *made);
    if (!made)
        return fail(object, KILN_NO_MEMORY, "planted: no memory for an event");
    made->references = 1;
    *result = made;
    return KILN_OK;
}

static kiln_status gate_create(void *object, void **result)
{
    void *made = NULL;
    kiln_status status = event_create(object, &made);
    if (status != KILN_OK)
        return status;
    if (!mark_again(made, true)) {
        free(made);
        return fail(object, KILN_NO_MEMORY, "planted: no memory for a gate");
    }
    *result = made;
    return KILN_OK;
}

static void event_destroy(void *object, void *gone)
{
    planted_device *device = object;
    pthread_mutex_lock(&device->mutex);
    unreference(gone);
    pthread_mutex_unlock(&device->mutex);
}

static kiln_status event_record(void *object, void *one, void *on)
{
    (void)object;
    return push(on, &(planted_command){.kind = RECORD, .event = one});
}

static kiln_status stream_wait_event(void *object, void *waits, void *one)
{
    (void)object;
    return push(waits, &(planted_command){.kind = WAIT, .event = one});
}

static kiln_status event_query(void *object, void *asked)
{
    planted_device *device = object;
    planted_event *one = asked;
    pthread_mutex_lock(&device->mutex);
    const planted_mark *mark = one->last;
    kiln_status status = !mark                                        ? KILN_OK
                         : !mark->reached && !planted(QUERY_IS_EARLY) ? KILN_NOT_READY
                                                                      : mark->status;
    if (status < 0 && status != KILN_NOT_READY)
        fail(device, status, mark->sentence);
    pthread_mutex_unlock(&device->mutex);
    return status;
}

static kiln_status event_wait(void *object, void *waited)
{
    planted_device *device = object;
    planted_event *one = waited;
    char sentence[256];
    pthread_mutex_lock(&device->mutex);
    planted_mark *mark = one->last;
    if (mark)
        mark->references++;
    kiln_status status = await(device, mark, sentence, sizeof sentence);
    release_mark(mark);
    pthread_mutex_unlock(&device->mutex);
    return status == KILN_OK ? status : fail(device, status, sentence);
}

static kiln_status gate_complete(void *object, void *gate, kiln_status status, const char *sentence)
{
    planted_device *device = object;
    planted_event *one = gate;
    pthread_mutex_lock(&device->mutex);
    bool armed = !one->last->reached;
    if (armed)
        reach(device, one->last, planted(GATE_LOSES_STATUS) ? KILN_OK : status,
              sentence ? sentence : "a gate was completed with a failure");
    pthread_mutex_unlock(&device->mutex);
    return armed ? KILN_OK : fail(device, KILN_INVALID, "planted: the gate was completed before");
}

static kiln_status gate_reset(void *object, void *gate)
{
    planted_device *device = object;
    pthread_mutex_lock(&device->mutex);
    bool armed = planted(RESET_LEAVES_OPEN) || mark_again(gate, true);
    pthread_mutex_unlock(&device->mutex);
    return armed ? KILN_OK : fail(device, KILN_NO_MEMORY, "planted: no memory for a gate");
}

/* ---- The device ---- */

static kiln_status device_count(void *object, int64_t *count)
{
    (void)object;
    *count = DEVICES;
    return KILN_OK;
}

static kiln_status device_info(void *object, int64_t index, kiln_device_info *info)
{
    const planted_instance *self = object;
    if (index < 0 || index >= DEVICES)
        return self->host->set_error(KILN_NOT_FOUND, "planted: there is no device %lld",
                                     (long long)index);
    snprintf(info->name, sizeof info->name, "planted device %lld", (long long)index);
    snprintf(info->fingerprint, sizeof info->fingerprint, "planted 1");
    info->memory_bytes = MEMORY;
    info->compute_units = 1;
    info->spaces = 1u << KILN_SPACE_DEVICE;
    info->flags = KILN_DEVICE_MODEL | (planted(CLAIMS_FORK_SAFE) ? KILN_DEVICE_FORK_SAFE : 0);
    return KILN_OK;
}

static kiln_status device_open(void *object, int64_t index, kiln_device *handle, void **result)
{
    const planted_instance *self = object;
    (void)handle;
    if (index < 0 || index >= DEVICES)
        return self->host->set_error(KILN_NOT_FOUND, "planted: there is no device %lld",
                                     (long long)index);
    planted_device *made = calloc(1, sizeof *made);
    if (!made)
        return self->host->set_error(KILN_NO_MEMORY, "planted: no memory for a device");
    made->host = self->host;
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->changed, NULL);
    *result = made;
    return KILN_OK;
}

static void device_close(void *object)
{
    planted_device *self = object;
    pthread_mutex_destroy(&self->mutex);
    pthread_cond_destroy(&self->changed);
    free(self);
}

const kiln_device_table planted_device_table = {
    .struct_size = sizeof planted_device_table,
    .count = device_count,
    .info = device_info,
    .open = device_open,
    .close = device_close,
    .alloc = device_alloc,
    .free = device_free,
    .copy = device_copy,
    .fill = planted(NO_FILL) ? NULL : device_fill,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_wait = stream_wait,
    .stream_enqueue = planted_enqueue,
    .stream_counters = stream_counters,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_wait = planted(NO_EVENT_WAIT) ? NULL : event_wait,
    .stream_wait_event = stream_wait_event,
    .gate_create = gate_create,
    .gate_complete = gate_complete,
    .gate_reset = gate_reset,
};
