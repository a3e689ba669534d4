/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events: what queued work holds until it has finished, and waits between devices that
 * know nothing of each other. */
#include <sched.h>
#include <stdlib.h>

#include "core/device.h"
#include "core/fork.h"
#include "core/plan.h"

static void bridge_release(kiln_bridge *bridge);

kiln_status kiln_stream_create(kiln_device *device, kiln_stream **result)
{
    kiln_status status = kiln_device_ready(device);
    if (status != KILN_OK)
        return status;
    kiln_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return kiln_fail_memory("a stream");
    stream->device = device;
    atomic_flag_clear(&stream->reaping);
    status = device->table.stream_create(device->native, &stream->native);
    if (status != KILN_OK)
        free(stream);
    else
        *result = stream;
    return status;
}

/* Releases what one finished piece of work held; its event and its arrays stay for the next. */
static void pending_clear(kiln_pending *pending)
{
    for (int64_t i = 0; i < pending->buffer_count; i++)
        kiln_buffer_release(pending->buffers[i]);
    pending->buffer_count = 0;
    if (pending->plan)
        kiln_plan_release(pending->plan);
    pending->plan = NULL;
    if (pending->bridge)
        bridge_release(pending->bridge);
    pending->bridge = NULL;
}

static void pending_free(kiln_device *device, kiln_pending *pending)
{
    pending_clear(pending);
    if (pending->event)
        device->table.event_destroy(device->native, pending->event);
    free(pending->buffers);
    free(pending->copy);
}

static kiln_pending *slot_of(kiln_stream *stream, uint64_t number)
{
    return &stream->pending[number % KILN_PENDING_SLOTS];
}

void kiln_stream_reap(kiln_stream *stream)
{
    kiln_device *device = stream->device;
    if (atomic_flag_test_and_set_explicit(&stream->reaping, memory_order_acquire))
        return; /* another thread does it */
    uint64_t next = atomic_load_explicit(&stream->reaped, memory_order_relaxed);
    while (next != atomic_load_explicit(&stream->queued, memory_order_acquire)) {
        kiln_pending *oldest = slot_of(stream, next);
        if (device->table.event_query(device->native, oldest->event) == KILN_NOT_READY)
            break;
        pending_clear(oldest);
        atomic_store_explicit(&stream->reaped, ++next, memory_order_release);
    }
    atomic_flag_clear_explicit(&stream->reaping, memory_order_release);
}

kiln_status kiln_stream_reserve(kiln_stream *stream, kiln_pending **result)
{
    kiln_device *device = stream->device;
    *result = NULL;
    kiln_status status = kiln_device_check_process(device);
    if (status != KILN_OK)
        return status;
    uint64_t number = atomic_load_explicit(&stream->queued, memory_order_relaxed);
    kiln_pending *pending = slot_of(stream, number);
    kiln_stream_reap(stream);
    while (number - atomic_load_explicit(&stream->reaped, memory_order_acquire) ==
           KILN_PENDING_SLOTS) {
        /* A fault is reported by the wait for the stream, not here. */
        device->table.event_wait(device->native, pending->event);
        kiln_stream_reap(stream);
        sched_yield(); /* another thread may be at it */
    }
    if (!pending->event) {
        status = device->table.event_create(device->native, &pending->event);
        if (status != KILN_OK)
            return status;
    }
    *result = pending;
    return KILN_OK;
}

kiln_status kiln_stream_commit(kiln_stream *stream, kiln_pending *pending)
{
    kiln_device *device = stream->device;
    kiln_status status = device->table.event_record(device->native, pending->event, stream->native);
    if (status != KILN_OK) /* then only waiting tells when the work is done */
        device->table.stream_wait(device->native, stream->native);
    atomic_fetch_add_explicit(&stream->queued, 1, memory_order_release);
    return status;
}

kiln_status kiln_pending_hold(kiln_pending *pending, kiln_buffer *buffer)
{
    if (!buffer)
        return KILN_OK;
    if (pending->buffer_count == pending->buffer_capacity) {
        int64_t capacity = pending->buffer_capacity ? 2 * pending->buffer_capacity : 8;
        kiln_buffer **grown = realloc(pending->buffers, (size_t)capacity * sizeof *grown);
        if (!grown)
            return kiln_fail_memory("the references of queued work");
        pending->buffers = grown;
        pending->buffer_capacity = capacity;
    }
    kiln_buffer_retain(buffer);
    pending->buffers[pending->buffer_count++] = buffer;
    return KILN_OK;
}

kiln_status kiln_stream_workspace(kiln_stream *stream, int64_t bytes, kiln_buffer **workspace)
{
    if (!stream->workspace || stream->workspace->bytes < bytes) {
        kiln_buffer *larger;
        kiln_status status = kiln_buffer_alloc(stream->device, KILN_SPACE_DEVICE, bytes, &larger);
        if (status != KILN_OK)
            return status;
        /* Queued work holds its own reference to the smaller one. */
        kiln_buffer_release(stream->workspace);
        stream->workspace = larger;
    }
    *workspace = stream->workspace;
    return KILN_OK;
}

static bool of_another_process(const kiln_device *device)
{
    return kiln_device_check_process(device) != KILN_OK;
}

void kiln_stream_destroy(kiln_stream *stream)
{
    if (!stream)
        return;
    kiln_device *device = stream->device;
    if (!of_another_process(device)) {
        device->table.stream_wait(device->native, stream->native);
        for (int64_t i = 0; i < KILN_PENDING_SLOTS; i++)
            pending_free(device, &stream->pending[i]);
        device->table.stream_destroy(device->native, stream->native);
    }
    kiln_buffer_release(stream->workspace);
    free(stream);
}

kiln_status kiln_stream_wait(kiln_stream *stream)
{
    kiln_device *device = stream->device;
    if (of_another_process(device))
        return KILN_FORKED;
    kiln_status status = device->table.stream_wait(device->native, stream->native);
    kiln_stream_reap(stream);
    if (status != KILN_OK && kiln_tracing(device->runtime))
        kiln_trace_emit(device->runtime, (kiln_trace_event){.kind = KILN_TRACE_FAULT,
                                                            .status = status,
                                                            .device = device->name,
                                                            .text = kiln_last_error(),
                                                            .begin_ns = kiln_now_ns(),
                                                            .end_ns = kiln_now_ns()});
    return status;
}

kiln_device *kiln_stream_device(const kiln_stream *stream)
{
    return stream->device;
}

static kiln_status lacks(const kiln_device *device, const char *function)
{
    return kiln_fail(KILN_UNSUPPORTED, "device %s does not offer %s", device->name, function);
}

kiln_status kiln_stream_enqueue(kiln_stream *stream, kiln_stream_fn function, void *argument)
{
    kiln_device *device = stream->device;
    if (!function)
        return kiln_fail(KILN_INVALID, "a function on a stream must not be NULL");
    if (!device->table.stream_enqueue)
        return lacks(device, "functions on streams (stream_enqueue)");
    if (of_another_process(device))
        return KILN_FORKED;
    return device->table.stream_enqueue(device->native, stream->native, function, argument);
}

kiln_status kiln_stream_counters(kiln_stream *stream, kiln_counter *counters, int64_t capacity,
                                 int64_t *count)
{
    kiln_device *device = stream->device;
    *count = 0;
    if (!device->table.stream_counters)
        return KILN_OK;
    if (of_another_process(device))
        return KILN_FORKED;
    return device->table.stream_counters(device->native, stream->native, counters, capacity, count);
}

static kiln_status event_new(kiln_device *device, bool gate, kiln_event **result)
{
    kiln_status status = kiln_device_ready(device);
    if (status != KILN_OK)
        return status;
    if (gate && (!device->table.gate_create || !device->table.gate_complete))
        return lacks(device, "gates");
    kiln_event *event = calloc(1, sizeof *event);
    if (!event)
        return kiln_fail_memory("an event");
    event->device = device;
    event->gate = gate;
    status = gate ? device->table.gate_create(device->native, &event->native)
                  : device->table.event_create(device->native, &event->native);
    if (status != KILN_OK)
        free(event);
    else
        *result = event;
    return status;
}

kiln_status kiln_event_create(kiln_device *device, kiln_event **event)
{
    return event_new(device, false, event);
}

kiln_status kiln_gate_create(kiln_device *device, kiln_event **gate)
{
    return event_new(device, true, gate);
}

void kiln_event_destroy(kiln_event *event)
{
    if (!event)
        return;
    if (!of_another_process(event->device))
        event->device->table.event_destroy(event->device->native, event->native);
    free(event);
}

kiln_status kiln_event_record(kiln_event *event, kiln_stream *stream)
{
    kiln_device *device = event->device;
    if (event->gate)
        return kiln_fail(
            KILN_INVALID,
            "a gate cannot be recorded on a stream; the host completes it with kiln_gate_complete");
    if (stream->device != device)
        return kiln_fail(KILN_INVALID,
                         "event of %s recorded on a stream of %s: both must belong to one device",
                         device->name, stream->device->name);
    if (of_another_process(device))
        return KILN_FORKED;
    return device->table.event_record(device->native, event->native, stream->native);
}

kiln_status kiln_event_wait(kiln_event *event)
{
    if (of_another_process(event->device))
        return KILN_FORKED;
    return event->device->table.event_wait(event->device->native, event->native);
}

kiln_status kiln_event_query(kiln_event *event)
{
    if (of_another_process(event->device))
        return KILN_FORKED;
    return event->device->table.event_query(event->device->native, event->native);
}

kiln_status kiln_gate_complete(kiln_event *gate, kiln_status status, const char *sentence)
{
    kiln_device *device = gate->device;
    if (!gate->gate)
        return kiln_fail(KILN_INVALID,
                         "kiln_gate_complete needs an event made by kiln_gate_create");
    if (of_another_process(device))
        return KILN_FORKED;
    return device->table.gate_complete(device->native, gate->native, status, sentence);
}

kiln_status kiln_gate_reset(kiln_event *gate)
{
    kiln_device *device = gate->device;
    if (!gate->gate)
        return kiln_fail(KILN_INVALID, "kiln_gate_reset needs an event made by kiln_gate_create");
    if (!device->table.gate_reset)
        return lacks(device, "gates that can be reset");
    if (of_another_process(device))
        return KILN_FORKED;
    return device->table.gate_reset(device->native, gate->native);
}

/* One wait of a stream for an event of another device. The event's device cannot make the waiting
 * one go on, and the waiting one cannot see the event. So a stream of the event's device waits for
 * it and then, as a function, completes a gate of the waiting device. Each bridge has a stream to
 * itself until it has crossed: two on one stream would make the second wait for the first.
 *
 * The gate lives until the waiting stream has passed it, or skipped it because of a fault, and it
 * has been completed: whichever is last. */
struct kiln_bridge {
    _Atomic int references;
    kiln_device *from, *to;
    void *stream; /* native, of `from` */
    void *gate;   /* native, of `to` */
};

static void bridge_release(kiln_bridge *bridge)
{
    if (atomic_fetch_sub_explicit(&bridge->references, 1, memory_order_acq_rel) != 1)
        return;
    bridge->to->table.event_destroy(bridge->to->native, bridge->gate);
    free(bridge);
}

/* An idle stream of the device; those that a fault has made useless are destroyed on the way. */
static kiln_status bridge_stream_take(kiln_device *device, void **stream)
{
    *stream = NULL;
    pthread_mutex_lock(&device->mutex);
    while (!*stream && device->bridge_count > 0) {
        kiln_bridge_stream *idle = &device->bridge_streams[--device->bridge_count];
        if (idle->faulted)
            device->table.stream_destroy(device->native, idle->native);
        else
            *stream = idle->native;
    }
    pthread_mutex_unlock(&device->mutex);
    return *stream ? KILN_OK : device->table.stream_create(device->native, stream);
}

static void bridge_end_locked(kiln_device *device)
{
    if (--device->bridges_open == 0)
        pthread_cond_broadcast(&device->bridge_ended);
}

/* Called from a function on the stream itself, which therefore cannot be destroyed here. Room was
 * made by bridge_room(). */
static void bridge_stream_give(kiln_device *device, void *stream, bool faulted)
{
    pthread_mutex_lock(&device->mutex);
    device->bridge_streams[device->bridge_count++] = (kiln_bridge_stream){stream, faulted};
    bridge_end_locked(device);
    pthread_mutex_unlock(&device->mutex);
}

/* Makes room for one more bridge stream, so that giving it back cannot fail. */
static kiln_status bridge_room(kiln_device *device)
{
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&device->mutex);
    if (device->bridge_count + device->bridges_open == device->bridge_capacity) {
        int64_t capacity = device->bridge_capacity ? 2 * device->bridge_capacity : 4;
        kiln_bridge_stream *grown =
            realloc(device->bridge_streams, (size_t)capacity * sizeof *grown);
        if (grown) {
            device->bridge_streams = grown;
            device->bridge_capacity = capacity;
        } else {
            status = kiln_fail_memory("a wait between two devices");
        }
    }
    if (status == KILN_OK)
        device->bridges_open++;
    pthread_mutex_unlock(&device->mutex);
    return status;
}

static void bridge_room_give(kiln_device *device)
{
    pthread_mutex_lock(&device->mutex);
    bridge_end_locked(device);
    pthread_mutex_unlock(&device->mutex);
}

void kiln_device_end_bridges(kiln_device *device)
{
    if (device->runtime->generation != kiln_process_generation())
        return; /* those of the parent */
    pthread_mutex_lock(&device->mutex);
    while (device->bridges_open > 0)
        pthread_cond_wait(&device->bridge_ended, &device->mutex);
    pthread_mutex_unlock(&device->mutex);
}

/* Called on the event's device. */
static kiln_status bridge_cross(void *argument, kiln_status status)
{
    kiln_bridge *crossing = argument;
    kiln_device *from = crossing->from;
    void *stream = crossing->stream;
    crossing->to->table.gate_complete(crossing->to->native, crossing->gate, status,
                                      status == KILN_OK ? NULL : kiln_last_error());
    bridge_release(crossing);
    bridge_stream_give(from, stream, status != KILN_OK);
    return KILN_OK;
}

/* The event's half: a stream of its device that will complete the gate. */
static kiln_status bridge_start(kiln_bridge *crossing, void *event)
{
    kiln_device *from = crossing->from;
    kiln_status status = bridge_room(from);
    if (status != KILN_OK)
        return status;
    status = bridge_stream_take(from, &crossing->stream);
    if (status != KILN_OK) {
        bridge_room_give(from);
        return status;
    }
    status = from->table.stream_wait_event(from->native, crossing->stream, event);
    if (status == KILN_OK)
        status = from->table.stream_enqueue(from->native, crossing->stream, bridge_cross, crossing);
    if (status != KILN_OK)
        bridge_stream_give(from, crossing->stream, true);
    return status;
}

static kiln_status wait_across(kiln_stream *stream, kiln_event *event)
{
    kiln_device *to = stream->device, *from = event->device;
    if (!to->table.gate_create || !to->table.gate_complete)
        return lacks(to, "gates, which waiting for another device's event needs");
    if (!from->table.stream_enqueue)
        return lacks(
            from, "functions on streams, which waiting for its events from another device needs");
    kiln_bridge *crossing = calloc(1, sizeof *crossing);
    if (!crossing)
        return kiln_fail_memory("a wait between two devices");
    *crossing = (kiln_bridge){.references = 2, .from = from, .to = to};
    kiln_pending *pending;
    kiln_status status = kiln_stream_reserve(stream, &pending);
    if (status == KILN_OK)
        status = to->table.gate_create(to->native, &crossing->gate);
    if (status != KILN_OK) {
        free(crossing);
        return status;
    }
    pending->bridge = crossing;
    status = to->table.stream_wait_event(to->native, stream->native, crossing->gate);
    if (status == KILN_OK)
        status = bridge_start(crossing, event->native);
    if (status != KILN_OK) { /* the stream may already wait for the gate: fault it rather than leave
                                it waiting */
        to->table.gate_complete(to->native, crossing->gate, status, kiln_last_error());
        bridge_release(crossing);
    }
    kiln_status recorded = kiln_stream_commit(stream, pending);
    return status != KILN_OK ? status : recorded;
}

kiln_status kiln_stream_wait_event(kiln_stream *stream, kiln_event *event)
{
    kiln_device *device = stream->device;
    if (device->runtime != event->device->runtime)
        return kiln_fail(KILN_INVALID, "stream of %s and event of %s belong to different runtimes",
                         device->name, event->device->name);
    if (of_another_process(device) || of_another_process(event->device))
        return KILN_FORKED;
    if (device != event->device)
        return wait_across(stream, event);
    return device->table.stream_wait_event(device->native, stream->native, event->native);
}
