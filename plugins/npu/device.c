/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a device and the queues that it serves. */
#define _GNU_SOURCE /* pthread_sigmask */
#include "plugins/npu/event.h"

#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum command_kind { LAUNCH, TRANSFER, EXPECT, HOST, RECORD, WAIT };

struct command {
    enum command_kind kind;
    union {
        struct {
            const struct npu_program *program;
            struct npu_launch launch;
        } launch;
        struct npu_transfer transfer;
        struct {
            int64_t address;
            int64_t count;
            const char *sentence;
            uint8_t bytes[NPU_EXPECT_MAX];
        } expect;
        struct {
            npu_host_function function;
            void *argument;
        } host;
        struct {
            struct npu_event *event; /* referenced */
            uint64_t number;
        } event;
    } as;
};

struct npu_stream {
    struct npu_device *device;
    struct npu_stream *next; /* in the device's list */
    uint64_t queued;         /* commands so far; number i lies at i % NPU_QUEUE_DEPTH */
    uint64_t done;
    int status;
    char text[NPU_TEXT];
    char exceeded[NPU_TEXT]; /* the next wait says it; "" = nothing to say */
    struct npu_counters counters;
    struct command commands[NPU_QUEUE_DEPTH];
};

struct npu_device {
    struct npu_system *system;
    struct npu_machine machine;
    pthread_t thread;
    struct npu_stream *streams; /* guarded by the system's lock, like all that follows */
    struct npu_stream *last;    /* that was served */
    bool closing;
};

/* ---- The device's thread. Functions named *_locked are called with the system's lock held. ----
 */

static bool is_ready_locked(const struct npu_stream *stream)
{
    if (stream->done == stream->queued)
        return false;
    const struct command *command = &stream->commands[stream->done % NPU_QUEUE_DEPTH];
    return command->kind != WAIT || stream->status < 0 ||
           npu_event_reached(command->as.event.event, command->as.event.number);
}

/* In turn, beginning behind the one that was served last. */
static struct npu_stream *next_ready_locked(struct npu_device *device)
{
    struct npu_stream *first =
        device->last && device->last->next ? device->last->next : device->streams;
    struct npu_stream *stream = first;
    while (stream) {
        if (is_ready_locked(stream)) {
            device->last = stream;
            return stream;
        }
        stream = stream->next ? stream->next : device->streams;
        if (stream == first)
            break;
    }
    return NULL;
}

static void add_counters(struct npu_counters *to, const struct npu_counters *from)
{
    to->cycles += from->cycles;
    to->launches += from->launches;
    to->blocks += from->blocks;
    to->copied += from->copied;
    for (int pipe = 0; pipe < NPU_PIPES; pipe++) {
        to->instructions[pipe] += from->instructions[pipe];
        to->busy[pipe] += from->busy[pipe];
    }
    for (int pipe = 0; pipe < NPU_TRANSFER_PIPES; pipe++)
        to->moved[pipe] += from->moved[pipe];
}

static int launch(struct npu_device *device, const struct command *command,
                  struct npu_counters *counters, char *text, size_t size)
{
    struct npu_fault fault;
    if (npu_machine_launch(&device->machine, command->as.launch.program, &command->as.launch.launch,
                           counters, &fault) == 0)
        return NPU_OK;
    snprintf(text, size, "%s", fault.text);
    return NPU_FAULT;
}

static int expect(struct npu_device *device, const struct command *command, char *text, size_t size)
{
    const uint8_t *found = npu_global_at(&device->machine.global, command->as.expect.address);
    if (memcmp(found, command->as.expect.bytes, (size_t)command->as.expect.count) == 0)
        return NPU_OK;
    snprintf(text, size, "%s", command->as.expect.sentence);
    return NPU_INVALID;
}

static int call(struct npu_stream *stream, const struct command *command, char *text, size_t size)
{
    const struct npu_system *system = stream->device->system;
    if (stream->status < 0 && system->report)
        system->report(system->context, stream->status, stream->text);
    int status = command->as.host.function(command->as.host.argument, stream->status);
    const char *reason = status < 0 && system->reason ? system->reason(system->context) : "";
    if (status < 0 && *reason)
        snprintf(text, size, "%s", reason);
    else if (status < 0)
        snprintf(text, size, "a function on the stream returned status %d", status);
    return status;
}

/* What takes time, without the lock. The stream's status changes on this thread only. */
static int execute(struct npu_stream *stream, const struct command *command,
                   struct npu_counters *counters, char *text, size_t size)
{
    struct npu_device *device = stream->device;
    if (command->kind == HOST)
        return call(stream, command, text, size);
    if (command->kind == LAUNCH)
        return launch(device, command, counters, text, size);
    if (command->kind == EXPECT)
        return expect(device, command, text, size);
    counters->copied += (uint64_t)npu_transfer_run(&device->machine.global, &command->as.transfer);
    return NPU_OK;
}

static void fail_locked(struct npu_stream *stream, int status, const char *text)
{
    if (status == NPU_CAPACITY && !stream->exceeded[0])
        snprintf(stream->exceeded, sizeof stream->exceeded, "%s", text);
    if (stream->status < 0 || status >= 0 || status == NPU_CAPACITY)
        return;
    stream->status = status;
    snprintf(stream->text, sizeof stream->text, "%s", text);
}

static void finish_event_locked(struct npu_stream *stream, const struct command *command)
{
    struct npu_event *event = command->as.event.event;
    if (command->kind == RECORD)
        npu_event_complete(event, command->as.event.number, stream->status, stream->text);
    else
        fail_locked(stream, event->status, event->text);
    if (npu_event_unreference(event))
        free(event);
}

static void serve_locked(struct npu_stream *stream)
{
    struct npu_device *device = stream->device;
    const struct command *command = &stream->commands[stream->done % NPU_QUEUE_DEPTH];
    if (command->kind == RECORD || command->kind == WAIT) {
        finish_event_locked(stream, command);
    } else if (command->kind == HOST || stream->status >= 0) {
        struct npu_counters counters = {0};
        char text[NPU_TEXT] = "";
        pthread_mutex_unlock(&device->system->lock);
        int status = execute(stream, command, &counters, text, sizeof text);
        pthread_mutex_lock(&device->system->lock);
        add_counters(&stream->counters, &counters);
        fail_locked(stream, status, text);
    }
    stream->done++;
    pthread_cond_broadcast(&device->system->changed);
}

static void *serve(void *argument)
{
    struct npu_device *device = argument;
    /* The device rounds to nearest and keeps subnormals, whatever thread opened it. */
    fesetenv(FE_DFL_ENV);
    pthread_mutex_lock(&device->system->lock);
    while (!device->closing) {
        struct npu_stream *stream = next_ready_locked(device);
        if (stream)
            serve_locked(stream);
        else
            pthread_cond_wait(&device->system->changed, &device->system->lock);
    }
    pthread_mutex_unlock(&device->system->lock);
    return NULL;
}

/* ---- Opening and closing ---- */

/* The thread takes no signals: they are the program's. */
static int start_thread(struct npu_device *device)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(&device->thread, NULL, serve, device);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

int npu_device_open(struct npu_system *system, const struct npu_config *config,
                    struct npu_device **device, char *error, size_t size)
{
    if (npu_config_check(config, error, size))
        return NPU_INVALID;
    struct npu_device *opened = calloc(1, sizeof *opened);
    if (!opened) {
        snprintf(error, size, "no host memory for a device");
        return NPU_NO_MEMORY;
    }
    opened->system = system;
    if (npu_machine_open(&opened->machine, config, error, size)) {
        free(opened);
        return NPU_NO_MEMORY;
    }
    if (start_thread(opened)) {
        snprintf(error, size, "the system gives no thread for a device");
        npu_machine_close(&opened->machine);
        free(opened);
        return NPU_NO_MEMORY;
    }
    *device = opened;
    return NPU_OK;
}

void npu_device_close(struct npu_device *device)
{
    if (!device)
        return;
    pthread_mutex_lock(&device->system->lock);
    device->closing = true;
    pthread_cond_broadcast(&device->system->changed);
    pthread_mutex_unlock(&device->system->lock);
    pthread_join(device->thread, NULL);
    npu_machine_close(&device->machine);
    free(device);
}

struct npu_machine *npu_device_machine(struct npu_device *device)
{
    return &device->machine;
}

/* ---- Streams ---- */

int npu_stream_create(struct npu_device *device, struct npu_stream **stream, char *error,
                      size_t size)
{
    struct npu_stream *made = calloc(1, sizeof *made);
    if (!made) {
        snprintf(error, size, "no host memory for a stream");
        return NPU_NO_MEMORY;
    }
    made->device = device;
    pthread_mutex_lock(&device->system->lock);
    made->next = device->streams;
    device->streams = made;
    pthread_mutex_unlock(&device->system->lock);
    *stream = made;
    return NPU_OK;
}

/* Waits until the first `number` commands are done. */
static void drain_locked(struct npu_stream *stream, uint64_t number)
{
    while (stream->done < number)
        pthread_cond_wait(&stream->device->system->changed, &stream->device->system->lock);
}

void npu_stream_destroy(struct npu_stream *stream)
{
    if (!stream)
        return;
    struct npu_device *device = stream->device;
    pthread_mutex_lock(&device->system->lock);
    drain_locked(stream, stream->queued);
    for (struct npu_stream **link = &device->streams; *link; link = &(*link)->next)
        if (*link == stream) {
            *link = stream->next;
            break;
        }
    if (device->last == stream)
        device->last = NULL;
    pthread_mutex_unlock(&device->system->lock);
    free(stream);
}

static bool on_own_thread(const struct npu_stream *stream)
{
    return pthread_equal(pthread_self(), stream->device->thread);
}

int npu_stream_wait(struct npu_stream *stream, char *error, size_t size)
{
    if (on_own_thread(stream)) {
        snprintf(error, size, "a host function must not wait for a stream of its own device");
        return NPU_INVALID;
    }
    pthread_mutex_lock(&stream->device->system->lock);
    drain_locked(stream, stream->queued);
    int status = stream->status;
    if (status < 0) {
        snprintf(error, size, "%s", stream->text);
    } else if (stream->exceeded[0]) {
        snprintf(error, size, "%s", stream->exceeded);
        stream->exceeded[0] = 0;
        status = NPU_CAPACITY;
    }
    pthread_mutex_unlock(&stream->device->system->lock);
    return status;
}

void npu_stream_counters(struct npu_stream *stream, struct npu_counters *counters)
{
    pthread_mutex_lock(&stream->device->system->lock);
    *counters = stream->counters;
    pthread_mutex_unlock(&stream->device->system->lock);
}

/* ---- Queueing ---- */

/* A free place at the end of the queue, with the lock held then; NULL when it would never come. */
static struct command *begin_command(struct npu_stream *stream, char *error, size_t size)
{
    pthread_mutex_lock(&stream->device->system->lock);
    if (on_own_thread(stream) && stream->queued - stream->done == NPU_QUEUE_DEPTH) {
        pthread_mutex_unlock(&stream->device->system->lock);
        snprintf(error, size, "a host function queued more than %d commands", NPU_QUEUE_DEPTH);
        return NULL;
    }
    while (stream->queued - stream->done == NPU_QUEUE_DEPTH)
        drain_locked(stream, stream->done + 1);
    return &stream->commands[stream->queued % NPU_QUEUE_DEPTH];
}

static int end_command(struct npu_stream *stream)
{
    stream->queued++;
    pthread_cond_broadcast(&stream->device->system->changed);
    pthread_mutex_unlock(&stream->device->system->lock);
    return NPU_OK;
}

int npu_enqueue_launch(struct npu_stream *stream, const struct npu_program *program,
                       const struct npu_launch *launch, char *error, size_t size)
{
    struct command *command = begin_command(stream, error, size);
    if (!command)
        return NPU_INVALID;
    command->kind = LAUNCH;
    command->as.launch.program = program;
    command->as.launch.launch = *launch;
    return end_command(stream);
}

int npu_enqueue_transfer(struct npu_stream *stream, const struct npu_transfer *transfer,
                         char *error, size_t size)
{
    if (npu_transfer_check(&stream->device->machine.global, transfer, error, size))
        return NPU_INVALID;
    struct command *command = begin_command(stream, error, size);
    if (!command)
        return NPU_INVALID;
    command->kind = TRANSFER;
    command->as.transfer = *transfer;
    return end_command(stream);
}

int npu_enqueue_expect(struct npu_stream *stream, int64_t address, const void *bytes, int64_t count,
                       const char *sentence, char *error, size_t size)
{
    struct npu_global *global = &stream->device->machine.global;
    if (count < 1 || count > NPU_EXPECT_MAX ||
        !npu_global_holds(global, address, address + count)) {
        snprintf(error, size,
                 "%lld bytes of global memory at %#llx do not lie within one allocation",
                 (long long)count, (long long)address);
        return NPU_INVALID;
    }
    struct command *command = begin_command(stream, error, size);
    if (!command)
        return NPU_INVALID;
    command->kind = EXPECT;
    command->as.expect.address = address;
    command->as.expect.count = count;
    command->as.expect.sentence = sentence;
    memcpy(command->as.expect.bytes, bytes, (size_t)count);
    return end_command(stream);
}

int npu_enqueue_host(struct npu_stream *stream, npu_host_function function, void *argument,
                     char *error, size_t size)
{
    struct command *command = begin_command(stream, error, size);
    if (!command)
        return NPU_INVALID;
    command->kind = HOST;
    command->as.host.function = function;
    command->as.host.argument = argument;
    return end_command(stream);
}

int npu_enqueue_record(struct npu_stream *stream, struct npu_event *event, char *error, size_t size)
{
    struct command *command = begin_command(stream, error, size);
    if (!command)
        return NPU_INVALID;
    if (event->gate || event->recorded - event->finished == NPU_EVENT_WINDOW) {
        pthread_mutex_unlock(&stream->device->system->lock);
        snprintf(error, size,
                 event->gate ? "a gate cannot be recorded"
                             : "the event has %d recordings under way already",
                 NPU_EVENT_WINDOW);
        return NPU_INVALID;
    }
    event->references++;
    command->kind = RECORD;
    command->as.event.event = event;
    command->as.event.number = ++event->recorded;
    return end_command(stream);
}

int npu_enqueue_wait(struct npu_stream *stream, struct npu_event *event, char *error, size_t size)
{
    struct command *command = begin_command(stream, error, size);
    if (!command)
        return NPU_INVALID;
    event->references++;
    command->kind = WAIT;
    command->as.event.event = event;
    command->as.event.number = event->recorded;
    return end_command(stream);
}
