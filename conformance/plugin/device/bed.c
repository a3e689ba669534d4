/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks of devices share. */
#include <stdio.h>
#include <string.h>

#include "conformance/hash.h"
#include "conformance/plugin/device/device.h"
#include "conformance/random.h"

/* ---- Opening ---- */

static bool find_table(conformance_bed *bed)
{
    const kiln_plugin *plugin = &bed->plugin.table;
    bool listed = false;
    for (int64_t i = 0; plugin->interfaces[i]; i++)
        listed |= strcmp(plugin->interfaces[i], KILN_DEVICE) == 0;
    conformance_calling("interface");
    const void *table = listed ? plugin->interface(bed->instance.instance, KILN_DEVICE) : NULL;
    conformance_calling(NULL);
    if (!table)
        conformance_skip(bed->report, "it offers no " KILN_DEVICE);
    else if (kiln_receive_table(&bed->table, sizeof bed->table, table) == KILN_OK)
        return true;
    return false;
}

bool conformance_bed_open(conformance_bed *bed, const conformance_subject *subject,
                          conformance_report *report)
{
    memset(bed, 0, sizeof *bed);
    bed->report = report;
    bed->random = subject->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    if (!conformance_load_and_open(&bed->plugin, &bed->instance, subject, report))
        return false;
    bool good = find_table(bed);
    if (good && conformance_device_count(&bed->instance) == 0) {
        conformance_skip(bed->report, "its " KILN_DEVICE " has no device");
        good = false;
    }
    if (good) {
        /* The library opens a device at its first use. */
        kiln_stream *stream;
        bed->handle = conformance_device(&bed->instance, 0);
        conformance_calling("open of " KILN_DEVICE);
        good = conformance_bed_ok(bed, kiln_stream_create(bed->handle, &stream), "stream_create");
        if (good)
            kiln_stream_destroy(stream);
        conformance_calling(NULL);
    }
    if (good) {
        bed->device = bed->instance.host->device_native(bed->handle, bed->instance.instance);
        good = BED_OK(bed, stream_create, bed->device, &bed->stream);
    }
    if (!good)
        conformance_close(&bed->instance);
    return good;
}

void conformance_bed_close(conformance_bed *bed)
{
    if (bed->report->cases > 0)
        bed->report->vectors = bed->vectors;
    CONFORMANCE_CALL_VOID("stream_destroy", bed->table.stream_destroy(bed->device, bed->stream));
    conformance_close(&bed->instance);
}

/* ---- Statuses ---- */

bool conformance_bed_ok(conformance_bed *bed, kiln_status status, const char *function)
{
    if (status == KILN_OK)
        return true;
    conformance_fail(bed->report, "%s returns %s (%s)", function, kiln_status_name(status),
                     kiln_last_error());
    return false;
}

bool conformance_bed_fails(conformance_bed *bed, kiln_status status, kiln_status wanted,
                           const char *sentence, const char *function)
{
    if (status != wanted)
        conformance_fail(bed->report, "%s returns %s, not the fault %s", function,
                         kiln_status_name(status), kiln_status_name(wanted));
    else if (!strstr(kiln_last_error(), sentence))
        conformance_fail(bed->report,
                         "%s returns the fault, but the sentence is '%s', in which '%s' is missing",
                         function, kiln_last_error(), sentence);
    else
        return true;
    return false;
}

/* ---- Random numbers and hashes ---- */

int64_t conformance_bed_random(conformance_bed *bed, int64_t low, int64_t high)
{
    return low + conformance_random_below(&bed->random, high - low + 1);
}

void conformance_bed_random_bytes(conformance_bed *bed, void *bytes, size_t count)
{
    unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        at[i] = (unsigned char)(conformance_random(&bed->random) >> 24);
}

void conformance_bed_hash(conformance_bed *bed, const void *data, size_t size)
{
    bed->vectors = conformance_hash(bed->vectors, data, size);
}

/* ---- Memory ---- */

uint32_t conformance_bed_space(const conformance_bed *bed)
{
    kiln_device_info info = {.struct_size = sizeof info};
    kiln_device_get_info(bed->handle, &info);
    uint32_t space = KILN_SPACE_DEVICE;
    while (space < 63 && !(info.spaces >> space & 1))
        space++;
    return space;
}

void *conformance_bed_alloc(conformance_bed *bed, int64_t bytes)
{
    void *memory = NULL, *host = NULL;
    return BED_OK(bed, alloc, bed->device, conformance_bed_space(bed), bytes, 64, &memory, &host)
               ? memory
               : NULL;
}

void conformance_bed_free(conformance_bed *bed, void *memory)
{
    CONFORMANCE_CALL_VOID("free", bed->table.free(bed->device, memory));
}

static kiln_status queue_bytes(conformance_bed *bed, void *stream, kiln_copy_side to,
                               kiln_copy_side from, int64_t bytes)
{
    kiln_copy_request request = {.struct_size = sizeof request,
                                 .element_bytes = 1,
                                 .rank = 1,
                                 .shape = {bytes},
                                 .destination = to,
                                 .source = from};
    request.destination.strides[0] = request.source.strides[0] = 1;
    return BED_CALL(bed, copy, bed->device, stream, &request);
}

kiln_status conformance_bed_queue_write(conformance_bed *bed, void *stream, void *memory,
                                        int64_t offset, const void *host, int64_t bytes)
{
    return queue_bytes(bed, stream, (kiln_copy_side){.memory = memory, .byte_offset = offset},
                       (kiln_copy_side){.host = (char *)(uintptr_t)host}, bytes);
}

kiln_status conformance_bed_queue_read(conformance_bed *bed, void *stream, void *memory,
                                       int64_t offset, void *host, int64_t bytes)
{
    return queue_bytes(bed, stream, (kiln_copy_side){.host = host},
                       (kiln_copy_side){.memory = memory, .byte_offset = offset}, bytes);
}

kiln_status conformance_bed_queue_move(conformance_bed *bed, void *stream, void *to,
                                       int64_t to_offset, void *from, int64_t from_offset,
                                       int64_t bytes)
{
    return queue_bytes(bed, stream, (kiln_copy_side){.memory = to, .byte_offset = to_offset},
                       (kiln_copy_side){.memory = from, .byte_offset = from_offset}, bytes);
}

bool conformance_bed_write(conformance_bed *bed, void *memory, int64_t offset, const void *host,
                           int64_t bytes)
{
    return conformance_bed_ok(
               bed, conformance_bed_queue_write(bed, bed->stream, memory, offset, host, bytes),
               "copy") &&
           BED_OK(bed, stream_wait, bed->device, bed->stream);
}

bool conformance_bed_read(conformance_bed *bed, void *memory, int64_t offset, void *host,
                          int64_t bytes)
{
    return conformance_bed_ok(
               bed, conformance_bed_queue_read(bed, bed->stream, memory, offset, host, bytes),
               "copy") &&
           BED_OK(bed, stream_wait, bed->device, bed->stream);
}

/* ---- Holding a stream ---- */

static bool has_gates(const conformance_bed *bed)
{
    return bed->table.gate_create && bed->table.gate_complete;
}

bool conformance_can_hold(conformance_bed *bed)
{
    if (has_gates(bed) || bed->table.stream_enqueue)
        return true;
    conformance_skip(bed->report, "it has neither gates nor functions on streams");
    return false;
}

static kiln_status sleep_until_released(void *argument, kiln_status status)
{
    conformance_hold *hold = argument;
    (void)status;
    while (sem_wait(&hold->released) != 0)
        ;
    return KILN_OK;
}

bool conformance_hold_begin(conformance_hold *hold, conformance_bed *bed, void *stream)
{
    memset(hold, 0, sizeof *hold);
    hold->bed = bed;
    sem_init(&hold->released, 0, 0);
    if (!has_gates(bed))
        return BED_OK(bed, stream_enqueue, bed->device, stream, sleep_until_released, hold);
    return BED_OK(bed, gate_create, bed->device, &hold->gate) &&
           BED_OK(bed, stream_wait_event, bed->device, stream, hold->gate);
}

void conformance_hold_release(conformance_hold *hold)
{
    conformance_bed *bed = hold->bed;
    if (hold->gate)
        BED_OK(bed, gate_complete, bed->device, hold->gate, KILN_OK, NULL);
    else
        sem_post(&hold->released);
}

void conformance_hold_end(conformance_hold *hold)
{
    conformance_bed *bed = hold->bed;
    if (hold->gate)
        CONFORMANCE_CALL_VOID("event_destroy", bed->table.event_destroy(bed->device, hold->gate));
    sem_destroy(&hold->released);
}

/* ---- Faults ---- */

bool conformance_can_fault(conformance_bed *bed)
{
    return conformance_can_hold(bed);
}

typedef struct fault_cause {
    const kiln_host *host;
    char sentence[128];
} fault_cause;

static kiln_status cause_fault(void *argument, kiln_status status)
{
    fault_cause *cause = argument;
    if (status == KILN_OK)
        status = cause->host->set_error(KILN_FAULT, "%s", cause->sentence);
    return status;
}

bool conformance_fault(conformance_bed *bed, void *stream, const char *sentence)
{
    static fault_cause causes[32];
    static int used;
    if (has_gates(bed)) {
        void *gate;
        bool done = BED_OK(bed, gate_create, bed->device, &gate) &&
                    BED_OK(bed, stream_wait_event, bed->device, stream, gate) &&
                    BED_OK(bed, gate_complete, bed->device, gate, KILN_FAULT, sentence);
        CONFORMANCE_CALL_VOID("event_destroy", bed->table.event_destroy(bed->device, gate));
        return done;
    }
    fault_cause *cause = &causes[used++ % 32];
    cause->host = bed->instance.host;
    snprintf(cause->sentence, sizeof cause->sentence, "%s", sentence);
    return BED_OK(bed, stream_enqueue, bed->device, stream, cause_fault, cause);
}
