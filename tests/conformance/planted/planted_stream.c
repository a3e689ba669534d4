/* SPDX-License-Identifier: Apache-2.0 */
/* The device's streams, with a thread each, its events and gates. And what can be wrong with them.
 */
#include "planted_device.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

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
    const kiln_copy_request *callers_copy; /* behind other work; no longer there when it is done */
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
    bool exceeded; /* a capacity, since the last wait */
    kiln_status status;
    char sentence[256]; /* of the fault, or of what was exceeded */
    int64_t waiting, done;
    int64_t calls; /* in a row */
} planted_stream;

/* ---- Events: under the lock ---- */

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

/* ---- A stream's thread ---- */

static _Thread_local bool on_stream;

static kiln_status call(planted_stream *self, const planted_command *todo, char *sentence,
                        size_t size)
{
    planted_device *device = self->device;
    if (self->status != KILN_OK && planted(SKIPS_FUNCTIONS))
        return self->status;
    if (planted(LOSES_A_CALL) && self->calls == 250)
        return self->status;
    if (self->status != KILN_OK)
        planted_fail(device, self->status, self->sentence);
    kiln_status status = todo->function(todo->argument, self->status);
    snprintf(sentence, size, "%s", status < 0 ? device->host->last_error() : "");
    return status;
}

/* What takes time, without the lock; a stream's status changes on its own thread only. */
static kiln_status work(planted_stream *self, const planted_command *todo, char *sentence,
                        size_t size)
{
    planted_device *device = self->device;
    if (todo->kind == CALL)
        return call(self, todo, sentence, size);
    if (self->status != KILN_OK && !planted(COPIES_BEHIND_FAULT))
        return KILN_OK;
    const kiln_copy_request *copy = &todo->copy;
    if (planted(KEEPS_REQUEST) && todo->callers_copy && copy->shape[0] == 512)
        copy = todo->callers_copy;
    bool done = todo->kind == COPY ? planted_copy(device, copy) : planted_fill(device, &todo->fill);
    snprintf(sentence, size, "planted: a copy or fill beyond the memory");
    return done ? KILN_OK : KILN_FAULT;
}

static void note_failure(planted_stream *self, kiln_status status, const char *sentence)
{
    if (self->status != KILN_OK)
        return;
    bool first = !self->exceeded || planted(LAST_SENTENCE);
    if (status == KILN_CAPACITY && !planted(CAPACITY_FAULTS)) {
        self->exceeded = true;
    } else {
        self->status = status;
        self->device->fault = status;
        first = true;
    }
    if (first)
        snprintf(self->sentence, sizeof self->sentence, "%s", sentence);
}

static void execute(planted_stream *self, planted_command *todo)
{
    planted_device *device = self->device;
    kiln_status status = KILN_OK;
    char sentence[256] = "";
    self->calls = todo->kind == CALL ? self->calls + 1 : 0;
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
    if (status < 0)
        note_failure(self, status, sentence);
    release_mark(todo->mark);
    if (todo->event)
        unreference(todo->event);
}

static void *stream_main(void *argument)
{
    planted_stream *self = argument;
    planted_device *device = self->device;
    on_stream = true;
    pthread_mutex_lock(&device->mutex);
    for (;;) {
        planted_command *todo = self->first;
        if (planted(DROPS_FAULTED_WORK) && self->stop && self->status != KILN_OK)
            todo = NULL;
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

/* ---- Queueing ---- */

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
        return planted_fail(device, KILN_NO_MEMORY, "planted: no memory for a command");
    }
    *copy = *todo;
    copy->next = NULL;
    if (copy->event)
        copy->mark = copy->kind == RECORD ? mark_again(copy->event, false) : copy->event->last;
    if (copy->kind == RECORD && !copy->mark) {
        copy->next = self->spare;
        self->spare = copy;
        pthread_mutex_unlock(&device->mutex);
        return planted_fail(device, KILN_NO_MEMORY, "planted: no memory for a record");
    }
    if (!self->first && !self->busy)
        copy->callers_copy = NULL;
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

kiln_status planted_queue_copy(void *object, void *to, const kiln_copy_request *request)
{
    if (kiln_check_request(request, sizeof *request) != KILN_OK && !planted(OBEYS_LONG_REQUESTS))
        return planted_fail(object, KILN_UNSUPPORTED, "planted: the request says too much");
    return push(to, &(planted_command){.kind = COPY, .copy = *request, .callers_copy = request});
}

kiln_status planted_queue_fill(void *object, void *to, const kiln_fill_request *request)
{
    if (kiln_check_request(request, sizeof *request) != KILN_OK && !planted(OBEYS_LONG_REQUESTS))
        return planted_fail(object, KILN_UNSUPPORTED, "planted: the request says too much");
    return push(to, &(planted_command){.kind = FILL, .fill = *request});
}

kiln_status planted_enqueue(void *object, void *to, kiln_stream_fn function, void *argument)
{
    planted_device *device = object;
    if (planted(LEAKS_WITH_FIRST_CALL) && !device->calls)
        device->calls = calloc(1, 4096);
    return push(to, &(planted_command){.kind = CALL, .function = function, .argument = argument});
}

/* ---- Streams ---- */

static void block_window_changes(void)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
}

kiln_status planted_stream_create(void *object, void **result)
{
    planted_device *device = object;
    planted_stream *self = calloc(1, sizeof *self);
    if (!self)
        return planted_fail(device, KILN_NO_MEMORY, "planted: no memory for a stream");
    self->device = device;
    self->last = &self->first;
    self->status = planted(FAULTS_SPREAD) ? device->fault : KILN_OK;
    if (planted(STREAM_BLOCKS_SIGNAL))
        block_window_changes();
    if (pthread_create(&self->thread, NULL, stream_main, self) != 0) {
        free(self);
        return planted_fail(device, KILN_NO_MEMORY, "planted: no thread for a stream");
    }
    *result = self;
    return KILN_OK;
}

void planted_stream_destroy(void *object, void *gone)
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

kiln_status planted_stream_wait(void *object, void *waited)
{
    planted_device *device = object;
    planted_stream *self = waited;
    pthread_mutex_lock(&device->mutex);
    while (self->first || self->busy)
        pthread_cond_wait(&device->changed, &device->mutex);
    kiln_status status = self->status;
    if (status == KILN_OK && self->exceeded)
        status = KILN_CAPACITY;
    if (status == KILN_OK && planted(IDLE_IS_INVALID) && self->done == 0)
        status = KILN_INVALID;
    self->exceeded = self->exceeded && planted(CAPACITY_IS_REPEATED);
    if (status != KILN_OK)
        planted_fail(device, status, planted(FAULT_WITHOUT_WORDS) ? "" : self->sentence);
    if (planted(FAULT_IS_FORGOTTEN))
        self->status = KILN_OK;
    pthread_mutex_unlock(&device->mutex);
    return status;
}

kiln_status planted_stream_counters(void *object, void *asked, kiln_counter *counters,
                                    int64_t capacity, int64_t *count)
{
    planted_device *device = object;
    planted_stream *self = asked;
    pthread_mutex_lock(&device->mutex);
    if (capacity > 0)
        counters[0] = (kiln_counter){.name = "commands", .unit = "1", .value = self->done};
    pthread_mutex_unlock(&device->mutex);
    *count = planted(COUNTS_WHAT_FITS) && capacity < 1 ? capacity : 1;
    return KILN_OK;
}

/* ---- Events and gates, for the core ---- */

kiln_status planted_event_create(void *object, void **result)
{
    planted_event *made = calloc(1, sizeof *made);
    if (!made)
        return planted_fail(object, KILN_NO_MEMORY, "planted: no memory for an event");
    made->references = 1;
    *result = made;
    return KILN_OK;
}

void planted_event_destroy(void *object, void *gone)
{
    planted_device *device = object;
    planted_event *event = gone;
    pthread_mutex_lock(&device->mutex);
    if (planted(DESTROY_LETS_PASS) && event->last && !event->last->reached)
        reach(device, event->last, KILN_OK, "");
    unreference(event);
    pthread_mutex_unlock(&device->mutex);
}

kiln_status planted_event_record(void *object, void *one, void *on)
{
    (void)object;
    return push(on, &(planted_command){.kind = RECORD, .event = one});
}

kiln_status planted_stream_wait_event(void *object, void *waits, void *one)
{
    (void)object;
    return push(waits, &(planted_command){.kind = WAIT, .event = one});
}

kiln_status planted_event_query(void *object, void *asked)
{
    planted_device *device = object;
    planted_event *one = asked;
    kiln_status status = planted(UNRECORDED_IS_AHEAD) ? KILN_NOT_READY : KILN_OK;
    pthread_mutex_lock(&device->mutex);
    const planted_mark *mark = one->last;
    if (mark)
        status = mark->reached || planted(QUERY_IS_EARLY) ? mark->status : KILN_NOT_READY;
    if (status < 0 && status != KILN_NOT_READY)
        planted_fail(device, status, mark->sentence);
    pthread_mutex_unlock(&device->mutex);
    return status;
}

kiln_status planted_event_wait(void *object, void *waited)
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
    return status == KILN_OK ? status : planted_fail(device, status, sentence);
}

kiln_status planted_gate_create(void *object, void **result)
{
    void *made = NULL;
    kiln_status status = planted_event_create(object, &made);
    if (status != KILN_OK)
        return status;
    if (!mark_again(made, true)) {
        free(made);
        return planted_fail(object, KILN_NO_MEMORY, "planted: no memory for a gate");
    }
    *result = made;
    return KILN_OK;
}

kiln_status planted_gate_complete(void *object, void *gate, kiln_status status,
                                  const char *sentence)
{
    planted_device *device = object;
    planted_event *one = gate;
    bool lost = planted(GATE_LOSES_STATUS) || (planted(STREAM_LOSES_STATUS) && on_stream);
    pthread_mutex_lock(&device->mutex);
    bool armed = !one->last->reached;
    if (armed)
        reach(device, one->last, lost ? KILN_OK : status,
              sentence ? sentence : "a gate was completed with a failure");
    pthread_mutex_unlock(&device->mutex);
    return armed ? KILN_OK
                 : planted_fail(device, KILN_INVALID, "planted: the gate was completed before");
}

kiln_status planted_gate_reset(void *object, void *gate)
{
    planted_device *device = object;
    pthread_mutex_lock(&device->mutex);
    bool armed = planted(RESET_LEAVES_OPEN) || mark_again(gate, true);
    pthread_mutex_unlock(&device->mutex);
    return armed ? KILN_OK : planted_fail(device, KILN_NO_MEMORY, "planted: no memory for a gate");
}
