/* SPDX-License-Identifier: Apache-2.0 */
/* A capacity that was exceeded: no fault, and said once. */
#include <string.h>

#include "conformance/plugin/device/device.h"

#define FIRST "the granary has room for 12 sacks, not 13"

typedef struct entry {
    conformance_bed *bed;
    kiln_status answer;
    const char *sentence;
    int called;
    kiln_status status; /* that it was called with */
} entry;

static kiln_status exceed(void *argument, kiln_status status)
{
    entry *self = argument;
    self->called++;
    self->status = status;
    if (self->answer == KILN_OK)
        return KILN_OK;
    return self->bed->instance.host->set_error(self->answer, "%s", self->sentence);
}

/* What the next wait returns. */
static void demand(conformance_bed *bed, void *stream, kiln_status wanted, const char *what)
{
    bed->instance.host->set_error(KILN_INVALID, "something else");
    bed->report->cases++;
    kiln_status status = BED_CALL(bed, stream_wait, bed->device, stream);
    if (wanted == KILN_OK)
        conformance_bed_ok(bed, status, what);
    else
        conformance_bed_fails(bed, status, wanted, FIRST, what);
}

static void play(conformance_bed *bed, void *stream)
{
    static entry first, second, behind;
    void *event;
    first = (entry){bed, KILN_CAPACITY, FIRST, 0, KILN_OK};
    second = (entry){bed, KILN_CAPACITY, "another sentence", 0, KILN_OK};
    behind = (entry){bed, KILN_OK, "", 0, KILN_OK};
    if (!BED_OK(bed, event_create, bed->device, &event))
        return;
    BED_OK(bed, stream_enqueue, bed->device, stream, exceed, &first);
    BED_OK(bed, stream_enqueue, bed->device, stream, exceed, &second);
    BED_OK(bed, stream_enqueue, bed->device, stream, exceed, &behind);
    BED_OK(bed, event_record, bed->device, event, stream);
    conformance_bed_ok(bed, BED_CALL(bed, event_wait, bed->device, event),
                       "event_wait behind a function that returned KILN_CAPACITY");
    demand(bed, stream, KILN_CAPACITY, "the first stream_wait after KILN_CAPACITY");
    demand(bed, stream, KILN_OK, "the second stream_wait after KILN_CAPACITY");
    if (behind.called != 1 || behind.status != KILN_OK)
        conformance_fail(bed->report,
                         "a function behind one that returned KILN_CAPACITY was called %d time%s, "
                         "at the end with status %s; it must be called once, with OK",
                         behind.called, behind.called == 1 ? "" : "s",
                         kiln_status_name(behind.status));
    BED_OK(bed, stream_enqueue, bed->device, stream, exceed, &first);
    demand(bed, stream, KILN_CAPACITY, "stream_wait after another KILN_CAPACITY");
    CONFORMANCE_CALL_VOID("event_destroy", bed->table.event_destroy(bed->device, event));
}

void conformance_device_capacity(const conformance_subject *subject, conformance_report *report)
{
    static conformance_bed opened;
    conformance_bed *bed = &opened;
    void *stream;
    memset(bed, 0, sizeof *bed);
    if (!conformance_bed_open(bed, subject, report))
        return;
    if (!bed->table.stream_enqueue) {
        conformance_skip(report, "it has no functions on streams (stream_enqueue)");
    } else if (BED_OK(bed, stream_create, bed->device, &stream)) {
        play(bed, stream);
        CONFORMANCE_CALL_VOID("stream_destroy", bed->table.stream_destroy(bed->device, stream));
    }
    conformance_bed_close(bed);
}
