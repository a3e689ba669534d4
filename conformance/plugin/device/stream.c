/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: order, functions, requests that are kept, the end of a stream. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conformance/plugin/device/device.h"
#include "conformance/plugin/guard.h"

static void no_functions(conformance_bed *bed)
{
    conformance_skip(bed->report, "it has no functions on streams (stream_enqueue)");
}

void conformance_device_stream_idle(const conformance_subject *subject, conformance_report *report)
{
    conformance_bed bed;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    for (int i = 0; i < 50; i++) {
        void *stream;
        report->cases++;
        if (!BED_OK(&bed, stream_create, bed.device, &stream))
            break;
        if (i % 2)
            BED_OK(&bed, stream_wait, bed.device, stream);
        CONFORMANCE_CALL_VOID("stream_destroy", bed.table.stream_destroy(bed.device, stream));
    }
    conformance_bed_close(&bed);
}

/* ---- Order ---- */

enum { HOPS = 200, HOP_BYTES = 257 };

/* Bytes that travel from one allocation to the next: each copy needs the one before it. */
void conformance_device_stream_order(const conformance_subject *subject, conformance_report *report)
{
    conformance_bed bed;
    unsigned char sent[HOP_BYTES], back[HOP_BYTES] = {0};
    void *memories[3];
    if (!conformance_bed_open(&bed, subject, report))
        return;
    bool good = true;
    for (int i = 0; i < 3; i++)
        good = (memories[i] = conformance_bed_alloc(&bed, HOP_BYTES)) && good;
    for (int round = 0; good && round < 20; round++) {
        conformance_bed_random_bytes(&bed, sent, sizeof sent);
        conformance_bed_hash(&bed, sent, sizeof sent);
        good = conformance_bed_ok(
            &bed, conformance_bed_queue_write(&bed, bed.stream, memories[0], 0, sent, sizeof sent),
            "copy");
        for (int i = 0; good && i < HOPS; i++, report->cases++)
            good = conformance_bed_ok(&bed,
                                      conformance_bed_queue_move(&bed, bed.stream,
                                                                 memories[(i + 1) % 3], 0,
                                                                 memories[i % 3], 0, HOP_BYTES),
                                      "copy");
        good = good && conformance_bed_read(&bed, memories[HOPS % 3], 0, back, sizeof back);
        if (good && memcmp(sent, back, sizeof sent) != 0) {
            conformance_fail(report,
                             "%d copies on one stream, each from where the one before wrote, "
                             "do not arrive: streams are in order",
                             HOPS);
            good = false;
        }
    }
    for (int i = 0; i < 3; i++)
        if (memories[i])
            conformance_bed_free(&bed, memories[i]);
    conformance_bed_close(&bed);
}

/* ---- Functions ---- */

enum { CALLS = 300 };

typedef struct call_log {
    _Atomic int calls;
    int order[CALLS + 1];
    kiln_status statuses[CALLS + 1];
} call_log;

typedef struct call_entry {
    call_log *log;
    int number;
} call_entry;

static kiln_status note_call(void *argument, kiln_status status)
{
    call_entry *entry = argument;
    int place = atomic_fetch_add(&entry->log->calls, 1);
    if (place <= CALLS) {
        entry->log->order[place] = entry->number;
        entry->log->statuses[place] = status;
    }
    return KILN_OK;
}

void conformance_device_stream_functions(const conformance_subject *subject,
                                         conformance_report *report)
{
    static call_log log;
    static call_entry entries[CALLS];
    conformance_bed bed;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    if (!bed.table.stream_enqueue) {
        no_functions(&bed);
        conformance_bed_close(&bed);
        return;
    }
    bool good = true;
    for (int i = 0; good && i < CALLS; i++) {
        entries[i] = (call_entry){&log, i};
        good = BED_OK(&bed, stream_enqueue, bed.device, bed.stream, note_call, &entries[i]);
    }
    good = good && BED_OK(&bed, stream_wait, bed.device, bed.stream);
    report->cases = CALLS;
    int calls = atomic_load(&log.calls);
    if (good && calls != CALLS)
        conformance_fail(report, "of %d functions %d were called when stream_wait returned", CALLS,
                         calls);
    for (int i = 0; good && i < CALLS; i++)
        if (log.order[i] != i || log.statuses[i] != KILN_OK) {
            conformance_fail(report,
                             "function %d of a stream was called as number %d, with status %s",
                             log.order[i], i, kiln_status_name(log.statuses[i]));
            break;
        }
    conformance_bed_close(&bed);
}

/* ---- Requests are the caller's again once they are queued ---- */

void conformance_device_stream_requests(const conformance_subject *subject,
                                        conformance_report *report)
{
    conformance_bed bed;
    conformance_hold hold;
    conformance_guard_pages guard;
    unsigned char sent[512], back[512];
    if (!conformance_bed_open(&bed, subject, report))
        return;
    void *memory = conformance_bed_alloc(&bed, sizeof sent);
    conformance_bed_random_bytes(&bed, sent, sizeof sent);
    if (memory && conformance_can_hold(&bed) &&
        conformance_guard_make(&guard, sizeof(kiln_copy_request)) &&
        conformance_hold_begin(&hold, &bed, bed.stream)) {
        kiln_copy_request *request = conformance_guard_end(&guard, sizeof *request);
        *request = (kiln_copy_request){.struct_size = sizeof *request,
                                       .element_bytes = 1,
                                       .rank = 1,
                                       .shape = {sizeof sent},
                                       .destination = {.memory = memory, .strides = {1}},
                                       .source = {.host = (char *)sent, .strides = {1}}};
        report->cases++;
        bool good = BED_OK(&bed, copy, bed.device, bed.stream, request);
        memset(request, 0x77, sizeof *request);
        conformance_guard_free(&guard);
        conformance_hold_release(&hold);
        good = good && BED_OK(&bed, stream_wait, bed.device, bed.stream);
        conformance_hold_end(&hold);
        if (good && conformance_bed_read(&bed, memory, 0, back, sizeof back) &&
            memcmp(sent, back, sizeof sent) != 0)
            conformance_fail(report,
                             "a queued copy follows what the caller did to the request afterwards");
    }
    if (memory)
        conformance_bed_free(&bed, memory);
    conformance_bed_close(&bed);
}

/* ---- The end of a stream ---- */

static kiln_status linger(void *argument, kiln_status status)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    return note_call(argument, status);
}

void conformance_device_stream_destroy(const conformance_subject *subject,
                                       conformance_report *report)
{
    conformance_bed bed;
    unsigned char sent[1000], back[1000];
    if (!conformance_bed_open(&bed, subject, report))
        return;
    void *memory = conformance_bed_alloc(&bed, sizeof sent);
    for (int round = 0; memory && round < 10; round++) {
        static call_log log;
        static call_entry entry;
        void *stream;
        int64_t functions = 0;
        memset(&log, 0, sizeof log);
        entry = (call_entry){&log, 0};
        if (!BED_OK(&bed, stream_create, bed.device, &stream))
            break;
        conformance_bed_random_bytes(&bed, sent, sizeof sent);
        for (; bed.table.stream_enqueue && functions < 3; functions++)
            BED_OK(&bed, stream_enqueue, bed.device, stream, functions ? note_call : linger,
                   &entry);
        conformance_bed_ok(
            &bed, conformance_bed_queue_write(&bed, stream, memory, 0, sent, sizeof sent), "copy");
        CONFORMANCE_CALL_VOID("stream_destroy", bed.table.stream_destroy(bed.device, stream));
        report->cases++;
        if (atomic_load(&log.calls) != functions)
            conformance_fail(report,
                             "stream_destroy returned when %d of %lld functions had been called",
                             atomic_load(&log.calls), (long long)functions);
        if (!conformance_bed_read(&bed, memory, 0, back, sizeof back))
            break;
        if (memcmp(sent, back, sizeof sent) != 0)
            conformance_fail(report, "stream_destroy returned before a queued copy was done");
    }
    if (memory)
        conformance_bed_free(&bed, memory);
    conformance_bed_close(&bed);
}

/* ---- Counters ---- */

static void judge_counters(conformance_bed *bed, const kiln_counter *counters, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!memchr(counters[i].name, '\0', sizeof counters[i].name) || !counters[i].name[0] ||
            !memchr(counters[i].unit, '\0', sizeof counters[i].unit))
            conformance_fail(bed->report, "counter %lld of a stream has no name", (long long)i);
}

void conformance_device_stream_counters(const conformance_subject *subject,
                                        conformance_report *report)
{
    conformance_bed bed;
    conformance_guard_pages guard;
    int64_t all = 0, count = 0;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    if (!bed.table.stream_counters)
        conformance_skip(bed.report, "it counts nothing (stream_counters)");
    else if (BED_OK(&bed, stream_counters, bed.device, bed.stream, NULL, 0, &all) &&
             conformance_guard_make(&guard, ((size_t)all + 2) * sizeof(kiln_counter))) {
        /* With more room than it needs, too: it might tell of no more than there is room for. */
        for (int64_t capacity = 0; capacity <= all + 1 && capacity < 40; capacity++) {
            size_t bytes = (size_t)capacity * sizeof(kiln_counter);
            kiln_counter *counters = conformance_guard_end(&guard, bytes);
            report->cases++;
            if (!BED_OK(&bed, stream_counters, bed.device, bed.stream, counters, capacity, &count))
                break;
            judge_counters(&bed, counters, capacity < count ? capacity : count);
            if (count != all)
                conformance_fail(report,
                                 "stream_counters gives %lld with room for %lld, and %lld "
                                 "with none",
                                 (long long)count, (long long)capacity, (long long)all);
            if (!conformance_guard_whole(&guard, bytes))
                conformance_fail(report, "stream_counters writes before the array");
        }
        conformance_guard_free(&guard);
    }
    conformance_bed_close(&bed);
}

/* ---- Requests of a later version ---- */

void conformance_device_request_tail(const conformance_subject *subject, conformance_report *report)
{
    struct {
        kiln_copy_request request;
        unsigned char beyond[16];
    } copy = {{.struct_size = sizeof copy, .element_bytes = 1, .rank = 0}, {0}};
    struct {
        kiln_fill_request request;
        unsigned char beyond[16];
    } fill = {{.struct_size = sizeof fill, .element_bytes = 1, .rank = 0}, {0}};
    conformance_bed bed;
    char byte = 7;
    if (!conformance_bed_open(&bed, subject, report))
        return;
    void *memory = conformance_bed_alloc(&bed, 64);
    copy.request.destination.memory = fill.request.destination.memory = memory;
    copy.request.source.host = &byte;
    for (int wrong = 0; memory && wrong < 2; wrong++) {
        copy.beyond[15] = fill.beyond[15] = (unsigned char)wrong;
        kiln_status copied = BED_CALL(&bed, copy, bed.device, bed.stream, &copy.request);
        kiln_status filled =
            bed.table.fill ? BED_CALL(&bed, fill, bed.device, bed.stream, &fill.request) : copied;
        report->cases += 2;
        if (wrong && (copied != KILN_UNSUPPORTED || filled != KILN_UNSUPPORTED))
            conformance_fail(report,
                             "%s returns %s to a request that says something beyond what it knows, "
                             "not UNSUPPORTED",
                             copied != KILN_UNSUPPORTED ? "copy" : "fill",
                             kiln_status_name(copied != KILN_UNSUPPORTED ? copied : filled));
        if (!wrong && (copied != KILN_OK || filled != KILN_OK))
            conformance_fail(report, "%s refuses a request with zeros beyond what it knows",
                             copied != KILN_OK ? "copy" : "fill");
    }
    BED_OK(&bed, stream_wait, bed.device, bed.stream);
    if (memory)
        conformance_bed_free(&bed, memory);
    conformance_bed_close(&bed);
}
