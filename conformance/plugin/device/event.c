/* SPDX-License-Identifier: Apache-2.0 */
/* Events and gates: when they are reached, what a wait for one means, and how long one is needed.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "conformance/plugin/device/device.h"

enum { BYTES = 777, STREAMS = 3 };

/* A bed with some streams and memory. */
typedef struct scene {
    conformance_bed bed;
    void *streams[STREAMS];
    void *memories[2];
    unsigned char sent[BYTES], back[BYTES];
} scene;

static void scene_close(scene *self)
{
    conformance_bed *bed = &self->bed;
    for (int i = 0; i < STREAMS; i++)
        if (self->streams[i])
            CONFORMANCE_CALL_VOID("stream_destroy",
                                  bed->table.stream_destroy(bed->device, self->streams[i]));
    for (int i = 0; i < 2; i++)
        if (self->memories[i])
            conformance_bed_free(bed, self->memories[i]);
    conformance_bed_close(bed);
}

static bool scene_open(scene *self, const conformance_subject *subject, conformance_report *report)
{
    memset(self, 0, sizeof *self);
    if (!conformance_bed_open(&self->bed, subject, report))
        return false;
    bool good = true;
    for (int i = 0; good && i < STREAMS; i++)
        good = BED_OK(&self->bed, stream_create, self->bed.device, &self->streams[i]);
    for (int i = 0; good && i < 2; i++)
        good = (self->memories[i] = conformance_bed_alloc(&self->bed, BYTES)) != NULL;
    conformance_bed_random_bytes(&self->bed, self->sent, BYTES);
    conformance_bed_hash(&self->bed, self->sent, BYTES);
    if (!good)
        scene_close(self);
    return good;
}

static void with_scene(const conformance_subject *subject, conformance_report *report,
                       void (*play)(scene *self))
{
    static scene self;
    if (!scene_open(&self, subject, report))
        return;
    play(&self);
    scene_close(&self);
}

static void *new_event(scene *self)
{
    void *event = NULL;
    BED_OK(&self->bed, event_create, self->bed.device, &event);
    return event;
}

static void destroy_event(scene *self, void *event)
{
    if (event)
        CONFORMANCE_CALL_VOID("event_destroy",
                              self->bed.table.event_destroy(self->bed.device, event));
}

/* What query says; a status that it may not return fails the check. */
static kiln_status query(scene *self, void *event)
{
    return BED_CALL(&self->bed, event_query, self->bed.device, event);
}

static void demand_query(scene *self, void *event, kiln_status wanted, const char *when)
{
    kiln_status status = query(self, event);
    self->bed.report->cases++;
    if (status != wanted)
        conformance_fail(self->bed.report, "event_query returns %s %s, not %s",
                         kiln_status_name(status), when, kiln_status_name(wanted));
}

static void pause_ms(int64_t milliseconds)
{
    nanosleep(
        &(struct timespec){.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000},
        NULL);
}

/* Whether an event is reached within some seconds, without a wait that might never return. */
static bool reached_soon(scene *self, void *event)
{
    for (int i = 0; i < 500; i++) {
        if (query(self, event) != KILN_NOT_READY)
            return true;
        pause_ms(10);
    }
    return false;
}

/* ---- When an event is reached ---- */

static void play_unrecorded(scene *self)
{
    conformance_bed *bed = &self->bed;
    void *event = new_event(self);
    if (!event)
        return;
    demand_query(self, event, KILN_OK, "for an event that was never recorded");
    BED_OK(bed, event_wait, bed->device, event);
    BED_OK(bed, stream_wait_event, bed->device, self->streams[0], event);
    BED_OK(bed, stream_wait, bed->device, self->streams[0]);
    destroy_event(self, event);
}

void conformance_device_event_unrecorded(const conformance_subject *subject,
                                         conformance_report *report)
{
    with_scene(subject, report, play_unrecorded);
}

static void play_reached(scene *self)
{
    conformance_bed *bed = &self->bed;
    void *event = new_event(self), *stream = self->streams[0];
    for (int round = 0; event && round < 10 && conformance_can_hold(bed); round++) {
        conformance_hold hold;
        conformance_bed_random_bytes(bed, self->sent, BYTES);
        if (!conformance_hold_begin(&hold, bed, stream))
            break;
        conformance_bed_queue_write(bed, stream, self->memories[0], 0, self->sent, BYTES);
        BED_OK(bed, event_record, bed->device, event, stream);
        demand_query(self, event, KILN_NOT_READY, "while the stream before it is held");
        conformance_hold_release(&hold);
        BED_OK(bed, event_wait, bed->device, event);
        demand_query(self, event, KILN_OK, "after event_wait");
        if (conformance_bed_read(bed, self->memories[0], 0, self->back, BYTES) &&
            memcmp(self->sent, self->back, BYTES) != 0)
            conformance_fail(bed->report,
                             "event_wait returned before what was queued ahead of it was done");
        BED_OK(bed, stream_wait, bed->device, stream);
        conformance_hold_end(&hold);
    }
    destroy_event(self, event);
}

void conformance_device_event_reached(const conformance_subject *subject,
                                      conformance_report *report)
{
    with_scene(subject, report, play_reached);
}

/* ---- Between streams ---- */

static void play_between(scene *self)
{
    conformance_bed *bed = &self->bed;
    for (int round = 0; round < 30 && conformance_can_hold(bed); round++) {
        void *event = new_event(self), *first = self->streams[round % 2],
             *second = self->streams[1 - round % 2];
        conformance_hold hold;
        conformance_bed_random_bytes(bed, self->sent, BYTES);
        if (!event || !conformance_hold_begin(&hold, bed, first))
            return;
        conformance_bed_queue_write(bed, first, self->memories[0], 0, self->sent, BYTES);
        BED_OK(bed, event_record, bed->device, event, first);
        BED_OK(bed, stream_wait_event, bed->device, second, event);
        conformance_bed_queue_move(bed, second, self->memories[1], 0, self->memories[0], 0, BYTES);
        conformance_hold_release(&hold);
        BED_OK(bed, stream_wait, bed->device, second);
        bed->report->cases++;
        if (conformance_bed_read(bed, self->memories[1], 0, self->back, BYTES) &&
            memcmp(self->sent, self->back, BYTES) != 0)
            conformance_fail(bed->report, "a stream did not wait for another's event");
        BED_OK(bed, stream_wait, bed->device, first);
        conformance_hold_end(&hold);
        destroy_event(self, event);
    }
}

void conformance_device_event_between_streams(const conformance_subject *subject,
                                              conformance_report *report)
{
    with_scene(subject, report, play_between);
}

/* Recording an event again, on a stream that is done, does not let those pass that wait for the
 * former record. */
static void play_not_hastened(scene *self)
{
    conformance_bed *bed = &self->bed;
    void *event = new_event(self), *passed = new_event(self);
    conformance_hold hold;
    if (!event || !passed || !conformance_hold_begin(&hold, bed, self->streams[0]))
        return;
    BED_OK(bed, event_record, bed->device, event, self->streams[0]);
    BED_OK(bed, stream_wait_event, bed->device, self->streams[1], event);
    BED_OK(bed, event_record, bed->device, passed, self->streams[1]);
    BED_OK(bed, event_record, bed->device, event, self->streams[2]);
    BED_OK(bed, stream_wait, bed->device, self->streams[2]);
    bed->report->cases++;
    if (!reached_soon(self, event))
        conformance_fail(bed->report, "an event that was recorded again, on an idle stream, is not "
                                      "reached while its former record is not");
    pause_ms(50);
    if (query(self, passed) != KILN_NOT_READY)
        conformance_fail(bed->report,
                         "recording an event again let a stream pass that waits for the "
                         "former record");
    conformance_hold_release(&hold);
    BED_OK(bed, stream_wait, bed->device, self->streams[1]);
    BED_OK(bed, stream_wait, bed->device, self->streams[0]);
    conformance_hold_end(&hold);
    destroy_event(self, event);
    destroy_event(self, passed);
}

/* Recording it again, on a stream that is held, does not stop those that wait for the former
 * record, which is reached. */
static void play_not_delayed(scene *self)
{
    conformance_bed *bed = &self->bed;
    void *event = new_event(self), *passed = new_event(self);
    conformance_hold first, second;
    if (!event || !passed || !conformance_hold_begin(&first, bed, self->streams[0]) ||
        !conformance_hold_begin(&second, bed, self->streams[1]))
        return;
    BED_OK(bed, event_record, bed->device, event, self->streams[2]);
    BED_OK(bed, stream_wait, bed->device, self->streams[2]);
    BED_OK(bed, stream_wait_event, bed->device, self->streams[1], event);
    BED_OK(bed, event_record, bed->device, passed, self->streams[1]);
    BED_OK(bed, event_record, bed->device, event, self->streams[0]);
    conformance_hold_release(&second);
    bed->report->cases++;
    if (!reached_soon(self, passed))
        conformance_fail(bed->report, "recording an event again delays a stream that waits for the "
                                      "former record");
    conformance_hold_release(&first);
    BED_OK(bed, stream_wait, bed->device, self->streams[0]);
    BED_OK(bed, stream_wait, bed->device, self->streams[1]);
    conformance_hold_end(&first);
    conformance_hold_end(&second);
    destroy_event(self, event);
    destroy_event(self, passed);
}

/* Many records of one event in a row. */
static void play_many_records(scene *self)
{
    conformance_bed *bed = &self->bed;
    void *event = new_event(self);
    for (int i = 0; event && i < 200; i++) {
        BED_OK(bed, event_record, bed->device, event, self->streams[i % STREAMS]);
        if (i % 50 == 49)
            BED_OK(bed, event_wait, bed->device, event);
        bed->report->cases++;
    }
    destroy_event(self, event);
    for (int i = 0; i < STREAMS; i++)
        BED_OK(bed, stream_wait, bed->device, self->streams[i]);
}

static void play_again(scene *self)
{
    if (!conformance_can_hold(&self->bed))
        return;
    play_not_hastened(self);
    play_not_delayed(self);
    play_many_records(self);
}

void conformance_device_event_again(const conformance_subject *subject, conformance_report *report)
{
    with_scene(subject, report, play_again);
}

/* ---- Destroyed while queued work names it ---- */

static void play_destroyed(scene *self)
{
    conformance_bed *bed = &self->bed;
    for (int round = 0; round < 20 && conformance_can_hold(bed); round++) {
        conformance_hold hold;
        void *event = new_event(self), *gate = NULL;
        conformance_bed_random_bytes(bed, self->sent, BYTES);
        if (!event || !conformance_hold_begin(&hold, bed, self->streams[0]))
            return;
        conformance_bed_queue_write(bed, self->streams[0], self->memories[0], 0, self->sent, BYTES);
        BED_OK(bed, event_record, bed->device, event, self->streams[0]);
        BED_OK(bed, stream_wait_event, bed->device, self->streams[1], event);
        destroy_event(self, event);
        if (hold.gate && BED_OK(bed, gate_create, bed->device, &gate)) {
            BED_OK(bed, stream_wait_event, bed->device, self->streams[0], gate);
            BED_OK(bed, gate_complete, bed->device, gate, KILN_OK, NULL);
            destroy_event(self, gate);
        }
        /* Others take its place, and must not be taken for it. */
        void *others[8];
        for (int i = 0; i < 8; i++)
            others[i] = new_event(self);
        conformance_bed_queue_move(bed, self->streams[1], self->memories[1], 0, self->memories[0],
                                   0, BYTES);
        conformance_hold_release(&hold);
        BED_OK(bed, stream_wait, bed->device, self->streams[1]);
        BED_OK(bed, stream_wait, bed->device, self->streams[0]);
        conformance_hold_end(&hold);
        bed->report->cases++;
        if (conformance_bed_read(bed, self->memories[1], 0, self->back, BYTES) &&
            memcmp(self->sent, self->back, BYTES) != 0)
            conformance_fail(bed->report, "a stream did not wait for an event that was destroyed "
                                          "while its wait was queued");
        for (int i = 0; i < 8; i++)
            destroy_event(self, others[i]);
    }
}

void conformance_device_event_destroyed(const conformance_subject *subject,
                                        conformance_report *report)
{
    with_scene(subject, report, play_destroyed);
}

/* ---- Gates ---- */

static bool has_gates(scene *self)
{
    bool offered = self->bed.table.gate_create && self->bed.table.gate_complete;
    if (!offered)
        conformance_skip(self->bed.report, "it has no gates (gate_create, gate_complete)");
    return offered;
}

/* A gate that two streams wait for, completed with KILN_OK. */
static void pass_gate(scene *self, void *gate)
{
    conformance_bed *bed = &self->bed;
    void *passed = new_event(self);
    if (!passed)
        return;
    demand_query(self, gate, KILN_NOT_READY, "for a gate that was not completed");
    for (int i = 0; i < 2; i++)
        BED_OK(bed, stream_wait_event, bed->device, self->streams[i], gate);
    BED_OK(bed, event_record, bed->device, passed, self->streams[1]);
    pause_ms(10);
    demand_query(self, passed, KILN_NOT_READY, "behind a gate that was not completed");
    BED_OK(bed, gate_complete, bed->device, gate, KILN_OK, NULL);
    demand_query(self, gate, KILN_OK, "for a gate that was completed");
    BED_OK(bed, event_wait, bed->device, gate);
    for (int i = 0; i < 2; i++)
        BED_OK(bed, stream_wait, bed->device, self->streams[i]);
    demand_query(self, passed, KILN_OK, "behind a gate that was completed");
    destroy_event(self, passed);
}

static void play_gate(scene *self)
{
    conformance_bed *bed = &self->bed;
    void *gate;
    if (!has_gates(self) || !BED_OK(bed, gate_create, bed->device, &gate))
        return;
    pass_gate(self, gate);
    int64_t errors = conformance_errors_set(&bed->instance);
    if (BED_CALL(bed, gate_complete, bed->device, gate, KILN_OK, NULL) >= 0)
        conformance_fail(bed->report, "gate_complete accepts a gate that was completed before");
    else if (conformance_errors_set(&bed->instance) == errors)
        conformance_fail(bed->report, "gate_complete fails without a sentence");
    /* A stream that comes later passes at once. */
    BED_OK(bed, stream_wait_event, bed->device, self->streams[2], gate);
    BED_OK(bed, stream_wait, bed->device, self->streams[2]);
    destroy_event(self, gate);
    /* One that fails, of which there are no words. */
    if (!BED_OK(bed, gate_create, bed->device, &gate))
        return;
    BED_OK(bed, stream_wait_event, bed->device, self->streams[2], gate);
    BED_OK(bed, gate_complete, bed->device, gate, KILN_TIMEOUT, NULL);
    kiln_status status = BED_CALL(bed, stream_wait, bed->device, self->streams[2]);
    if (status != KILN_TIMEOUT || !*kiln_last_error())
        conformance_fail(bed->report,
                         "a stream that waited for a gate completed with TIMEOUT returns %s (%s)",
                         kiln_status_name(status), kiln_last_error());
    if ((status = BED_CALL(bed, event_wait, bed->device, gate)) != KILN_TIMEOUT)
        conformance_fail(bed->report, "event_wait for a gate completed with TIMEOUT returns %s",
                         kiln_status_name(status));
    destroy_event(self, gate);
}

void conformance_device_gate(const conformance_subject *subject, conformance_report *report)
{
    with_scene(subject, report, play_gate);
}

static void play_gate_reset(scene *self)
{
    conformance_bed *bed = &self->bed;
    void *gate;
    if (!has_gates(self))
        return;
    if (!bed->table.gate_reset) {
        conformance_skip(bed->report, "its gates cannot be reset (gate_reset)");
        return;
    }
    if (!BED_OK(bed, gate_create, bed->device, &gate))
        return;
    for (int round = 0; round < 5; round++) {
        pass_gate(self, gate);
        BED_OK(bed, gate_reset, bed->device, gate);
    }
    pass_gate(self, gate);
    destroy_event(self, gate);
}

void conformance_device_gate_reset(const conformance_subject *subject, conformance_report *report)
{
    with_scene(subject, report, play_gate_reset);
}
