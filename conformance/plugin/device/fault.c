/* SPDX-License-Identifier: Apache-2.0 */
/* Faults: they stick to their stream, with their sentence, and to those that wait for it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "conformance/plugin/device/device.h"

#define SENTENCE "the cabbage is on fire in row 42"

enum { BYTES = 300 };

/* A bed with a stream that is faulted, and one that is not. */
typedef struct scene {
    conformance_bed bed;
    void *faulted, *sound;
    void *memory;
} scene;

static void scene_close(scene *self)
{
    conformance_bed *bed = &self->bed;
    if (self->faulted)
        CONFORMANCE_CALL_VOID("stream_destroy",
                              bed->table.stream_destroy(bed->device, self->faulted));
    if (self->sound)
        CONFORMANCE_CALL_VOID("stream_destroy",
                              bed->table.stream_destroy(bed->device, self->sound));
    if (self->memory)
        conformance_bed_free(bed, self->memory);
    conformance_bed_close(bed);
}

static void with_scene(const conformance_subject *subject, conformance_report *report,
                       void (*play)(scene *self))
{
    static scene self;
    memset(&self, 0, sizeof self);
    if (!conformance_bed_open(&self.bed, subject, report))
        return;
    conformance_bed *bed = &self.bed;
    if (conformance_can_fault(bed) && BED_OK(bed, stream_create, bed->device, &self.faulted) &&
        BED_OK(bed, stream_create, bed->device, &self.sound) &&
        (self.memory = conformance_bed_alloc(bed, BYTES)))
        play(&self);
    scene_close(&self);
}

/* Another failure on this thread, so that the fault's sentence must be set anew. */
static void forget_sentence(scene *self)
{
    self->bed.instance.host->set_error(KILN_INVALID, "something else");
}

static void demand_fault(scene *self, void *stream)
{
    conformance_bed *bed = &self->bed;
    forget_sentence(self);
    bed->report->cases++;
    conformance_bed_fails(bed, BED_CALL(bed, stream_wait, bed->device, stream), KILN_FAULT,
                          SENTENCE, "stream_wait of a faulted stream");
}

/* ---- Sticky ---- */

typedef struct elsewhere {
    scene *scene;
    kiln_status status;
    char sentence[256];
} elsewhere;

static void *wait_elsewhere(void *argument)
{
    elsewhere *self = argument;
    conformance_bed *bed = &self->scene->bed;
    self->status = BED_CALL(bed, stream_wait, bed->device, self->scene->faulted);
    snprintf(self->sentence, sizeof self->sentence, "%s", kiln_last_error());
    return NULL;
}

static void play_sticky(scene *self)
{
    conformance_bed *bed = &self->bed;
    elsewhere other = {.scene = self};
    pthread_t thread;
    if (!conformance_fault(bed, self->faulted, SENTENCE))
        return;
    for (int i = 0; i < 3; i++)
        demand_fault(self, self->faulted);
    /* The first one counts. */
    conformance_fault(bed, self->faulted, "a second fault");
    demand_fault(self, self->faulted);
    if (pthread_create(&thread, NULL, wait_elsewhere, &other) != 0)
        return;
    pthread_join(thread, NULL);
    bed->report->cases++;
    if (other.status != KILN_FAULT || !strstr(other.sentence, SENTENCE))
        conformance_fail(bed->report,
                         "on another thread stream_wait returns %s with the sentence '%s'",
                         kiln_status_name(other.status), other.sentence);
}

void conformance_device_fault_sticky(const conformance_subject *subject, conformance_report *report)
{
    with_scene(subject, report, play_sticky);
}

/* ---- What is queued behind ---- */

static void play_skips(scene *self)
{
    conformance_bed *bed = &self->bed;
    unsigned char before[BYTES], other[BYTES], after[BYTES];
    memset(before, 1, BYTES);
    memset(other, 2, BYTES);
    if (!conformance_bed_write(bed, self->memory, 0, before, BYTES) ||
        !conformance_fault(bed, self->faulted, SENTENCE))
        return;
    /* It may be refused at once as well. */
    conformance_bed_queue_write(bed, self->faulted, self->memory, 0, other, BYTES);
    kiln_fill_request fill = {.struct_size = sizeof fill,
                              .element_bytes = 1,
                              .rank = 1,
                              .shape = {BYTES},
                              .destination = {.memory = self->memory, .strides = {1}},
                              .pattern = {3}};
    if (bed->table.fill)
        (void)BED_CALL(bed, fill, bed->device, self->faulted, &fill);
    demand_fault(self, self->faulted);
    if (conformance_bed_read(bed, self->memory, 0, after, BYTES) &&
        memcmp(before, after, BYTES) != 0)
        conformance_fail(bed->report, "a command that was queued behind a fault was done");
    /* Neither is what is queued now. */
    conformance_bed_queue_write(bed, self->faulted, self->memory, 0, other, BYTES);
    demand_fault(self, self->faulted);
    if (conformance_bed_read(bed, self->memory, 0, after, BYTES) &&
        memcmp(before, after, BYTES) != 0)
        conformance_fail(bed->report, "a command that was queued after a fault was done");
}

void conformance_device_fault_skips(const conformance_subject *subject, conformance_report *report)
{
    with_scene(subject, report, play_skips);
}

enum { CALLS = 20 };

typedef struct call {
    scene *scene;
    int number;
} call;

static struct {
    _Atomic int count;
    int order[CALLS];
    kiln_status status[CALLS];
    bool worded[CALLS];
} calls;

static kiln_status note_call(void *argument, kiln_status status)
{
    const call *self = argument;
    int place = atomic_fetch_add(&calls.count, 1);
    if (place < CALLS) {
        calls.order[place] = self->number;
        calls.status[place] = status;
        calls.worded[place] =
            strstr(self->scene->bed.instance.host->last_error(), SENTENCE) != NULL;
    }
    self->scene->bed.instance.host->set_error(KILN_INVALID, "something else");
    return KILN_OK;
}

/* So that what is queued behind it is still there when the stream is destroyed. */
static kiln_status linger(void *argument, kiln_status status)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    return note_call(argument, status);
}

static bool has_functions(conformance_bed *bed)
{
    if (!bed->table.stream_enqueue)
        conformance_skip(bed->report, "it has no functions on streams (stream_enqueue)");
    return bed->table.stream_enqueue != NULL;
}

static void judge_calls(conformance_bed *bed, int wanted)
{
    int count = atomic_load(&calls.count);
    bed->report->cases += wanted;
    if (count != wanted)
        conformance_fail(bed->report, "of %d functions behind a fault %d were called", wanted,
                         count);
    for (int i = 0; i < wanted && i < count; i++)
        if (calls.order[i] != i || calls.status[i] != KILN_FAULT || !calls.worded[i])
            conformance_fail(
                bed->report,
                "function %d behind a fault was called as number %d, with status %s and "
                "the sentence %s",
                calls.order[i], i, kiln_status_name(calls.status[i]),
                calls.worded[i] ? "set" : "not set");
}

static void play_functions(scene *self)
{
    static call entries[CALLS];
    conformance_bed *bed = &self->bed;
    if (!has_functions(bed) || !conformance_fault(bed, self->faulted, SENTENCE))
        return;
    for (int i = 0; i < CALLS; i++) {
        entries[i] = (call){self, i};
        if (i == CALLS / 2)
            demand_fault(self, self->faulted);
        BED_OK(bed, stream_enqueue, bed->device, self->faulted, note_call, &entries[i]);
    }
    demand_fault(self, self->faulted);
    judge_calls(bed, CALLS);
}

void conformance_device_fault_functions(const conformance_subject *subject,
                                        conformance_report *report)
{
    with_scene(subject, report, play_functions);
}

/* ---- Events ---- */

static void play_events(scene *self)
{
    conformance_bed *bed = &self->bed;
    void *before, *after;
    if (!BED_OK(bed, event_create, bed->device, &before) ||
        !BED_OK(bed, event_create, bed->device, &after))
        return;
    BED_OK(bed, event_record, bed->device, before, self->faulted);
    conformance_fault(bed, self->faulted, SENTENCE);
    BED_OK(bed, event_record, bed->device, after, self->faulted);
    bed->report->cases += 3;
    for (int i = 0; i < 2; i++) {
        forget_sentence(self);
        conformance_bed_fails(bed, BED_CALL(bed, event_wait, bed->device, after), KILN_FAULT,
                              SENTENCE, "event_wait for an event behind a fault");
    }
    forget_sentence(self);
    conformance_bed_fails(bed, BED_CALL(bed, event_query, bed->device, after), KILN_FAULT, SENTENCE,
                          "event_query of an event behind a fault");
    conformance_bed_ok(bed, BED_CALL(bed, event_wait, bed->device, before),
                       "event_wait for an event ahead of a fault");
    /* The same event serves again on a sound stream. */
    BED_OK(bed, event_record, bed->device, after, self->sound);
    conformance_bed_ok(bed, BED_CALL(bed, event_wait, bed->device, after),
                       "event_wait for an event that was recorded again on a sound stream");
    CONFORMANCE_CALL_VOID("event_destroy", bed->table.event_destroy(bed->device, before));
    CONFORMANCE_CALL_VOID("event_destroy", bed->table.event_destroy(bed->device, after));
}

void conformance_device_fault_events(const conformance_subject *subject, conformance_report *report)
{
    with_scene(subject, report, play_events);
}

/* From the faulted stream to one that waits for it, and from there to a third; also when the fault
 * is old by then. */
static void play_taken_over(scene *self)
{
    conformance_bed *bed = &self->bed;
    void *events[2] = {NULL, NULL}, *third, *late;
    if (!BED_OK(bed, event_create, bed->device, &events[0]) ||
        !BED_OK(bed, event_create, bed->device, &events[1]) ||
        !BED_OK(bed, stream_create, bed->device, &third) ||
        !BED_OK(bed, stream_create, bed->device, &late))
        return;
    conformance_fault(bed, self->faulted, SENTENCE);
    BED_OK(bed, event_record, bed->device, events[0], self->faulted);
    BED_OK(bed, stream_wait_event, bed->device, self->sound, events[0]);
    BED_OK(bed, event_record, bed->device, events[1], self->sound);
    BED_OK(bed, stream_wait_event, bed->device, third, events[1]);
    demand_fault(self, third);
    demand_fault(self, self->sound);
    demand_fault(self, self->faulted);
    BED_OK(bed, stream_wait_event, bed->device, late, events[0]);
    demand_fault(self, late);
    CONFORMANCE_CALL_VOID("stream_destroy", bed->table.stream_destroy(bed->device, third));
    CONFORMANCE_CALL_VOID("stream_destroy", bed->table.stream_destroy(bed->device, late));
    for (int i = 0; i < 2; i++)
        CONFORMANCE_CALL_VOID("event_destroy", bed->table.event_destroy(bed->device, events[i]));
}

void conformance_device_fault_taken_over(const conformance_subject *subject,
                                         conformance_report *report)
{
    with_scene(subject, report, play_taken_over);
}

/* ---- What a fault leaves alone ---- */

static bool works(scene *self, void *stream, unsigned char value)
{
    conformance_bed *bed = &self->bed;
    unsigned char sent[BYTES], back[BYTES] = {0};
    memset(sent, value, BYTES);
    bed->report->cases++;
    bool good = conformance_bed_ok(
                    bed, conformance_bed_queue_write(bed, stream, self->memory, 0, sent, BYTES),
                    "copy on a sound stream") &&
                conformance_bed_ok(bed, BED_CALL(bed, stream_wait, bed->device, stream),
                                   "stream_wait of a sound stream") &&
                conformance_bed_read(bed, self->memory, 0, back, BYTES);
    if (good && memcmp(sent, back, BYTES) != 0)
        conformance_fail(bed->report, "a copy on a sound stream was not done, after another stream "
                                      "faulted");
    return good;
}

static void play_contained(scene *self)
{
    conformance_bed *bed = &self->bed;
    void *fresh;
    conformance_fault(bed, self->faulted, SENTENCE);
    works(self, self->sound, 1);
    demand_fault(self, self->faulted);
    works(self, self->sound, 2);
    if (BED_OK(bed, stream_create, bed->device, &fresh)) {
        works(self, fresh, 3);
        CONFORMANCE_CALL_VOID("stream_destroy", bed->table.stream_destroy(bed->device, fresh));
    }
    works(self, self->sound, 4);
}

void conformance_device_fault_contained(const conformance_subject *subject,
                                        conformance_report *report)
{
    with_scene(subject, report, play_contained);
}

/* A faulted stream that is destroyed with functions on it. */
static void play_destroy(scene *self)
{
    static call entries[CALLS];
    conformance_bed *bed = &self->bed;
    conformance_fault(bed, self->faulted, SENTENCE);
    int functions = bed->table.stream_enqueue ? CALLS : 0;
    for (int i = 0; i < functions; i++) {
        entries[i] = (call){self, i};
        BED_OK(bed, stream_enqueue, bed->device, self->faulted, i == 0 ? linger : note_call,
               &entries[i]);
    }
    CONFORMANCE_CALL_VOID("stream_destroy", bed->table.stream_destroy(bed->device, self->faulted));
    self->faulted = NULL;
    judge_calls(bed, functions);
    works(self, self->sound, 5);
}

void conformance_device_fault_destroy(const conformance_subject *subject,
                                      conformance_report *report)
{
    with_scene(subject, report, play_destroy);
}
