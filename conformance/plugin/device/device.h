/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the device level, by file, and what they share: a device of the plugin that a
 * runtime has opened, with its table, so that its functions are called as the library calls them.
 */
#ifndef KILN_CONFORMANCE_PLUGIN_DEVICE_H
#define KILN_CONFORMANCE_PLUGIN_DEVICE_H

#include <semaphore.h>

#include "conformance/plugin/load.h"

#define CONFORMANCE_RUN(name) \
    void name(const conformance_subject *subject, conformance_report *report)

/* plugin/device/memory.c */
CONFORMANCE_RUN(conformance_device_count_stable);
CONFORMANCE_RUN(conformance_device_info);
CONFORMANCE_RUN(conformance_device_info_size);
CONFORMANCE_RUN(conformance_device_alloc);
CONFORMANCE_RUN(conformance_device_alloc_apart);
CONFORMANCE_RUN(conformance_device_alloc_refuses);
CONFORMANCE_RUN(conformance_device_alloc_exhausted);
CONFORMANCE_RUN(conformance_device_alloc_cycles);

/* plugin/device/copy.c */
CONFORMANCE_RUN(conformance_device_copy_bytes);
CONFORMANCE_RUN(conformance_device_copy_strided);
CONFORMANCE_RUN(conformance_device_copy_broadcast);
CONFORMANCE_RUN(conformance_device_copy_within);
CONFORMANCE_RUN(conformance_device_copy_empty);
CONFORMANCE_RUN(conformance_device_copy_types);
CONFORMANCE_RUN(conformance_device_fill);
CONFORMANCE_RUN(conformance_device_fill_strided);

/* plugin/device/stream.c */
CONFORMANCE_RUN(conformance_device_stream_idle);
CONFORMANCE_RUN(conformance_device_stream_order);
CONFORMANCE_RUN(conformance_device_stream_functions);
CONFORMANCE_RUN(conformance_device_stream_requests);
CONFORMANCE_RUN(conformance_device_stream_destroy);
CONFORMANCE_RUN(conformance_device_stream_counters);
CONFORMANCE_RUN(conformance_device_request_tail);

/* plugin/device/event.c */
CONFORMANCE_RUN(conformance_device_event_unrecorded);
CONFORMANCE_RUN(conformance_device_event_reached);
CONFORMANCE_RUN(conformance_device_event_between_streams);
CONFORMANCE_RUN(conformance_device_event_again);
CONFORMANCE_RUN(conformance_device_event_destroyed);
CONFORMANCE_RUN(conformance_device_gate);
CONFORMANCE_RUN(conformance_device_gate_reset);

/* plugin/device/fault.c */
CONFORMANCE_RUN(conformance_device_fault_sticky);
CONFORMANCE_RUN(conformance_device_fault_skips);
CONFORMANCE_RUN(conformance_device_fault_functions);
CONFORMANCE_RUN(conformance_device_fault_events);
CONFORMANCE_RUN(conformance_device_fault_taken_over);
CONFORMANCE_RUN(conformance_device_fault_contained);
CONFORMANCE_RUN(conformance_device_fault_destroy);

/* plugin/device/capacity.c */
CONFORMANCE_RUN(conformance_device_capacity);

/* plugin/device/shared.c */
CONFORMANCE_RUN(conformance_device_threads);
CONFORMANCE_RUN(conformance_device_two);
CONFORMANCE_RUN(conformance_device_across);
CONFORMANCE_RUN(conformance_device_fork);
CONFORMANCE_RUN(conformance_device_thread_state);

/* ---- A device under test ---- */

typedef struct conformance_bed {
    conformance_plugin plugin;
    conformance_instance instance;
    conformance_report *report;
    kiln_device *handle; /* the first device */
    void *device;        /* the plugin's own object of it */
    kiln_device_table table;
    void *stream; /* for transfers of the check itself */
    uint64_t random;
    uint64_t vectors;
} conformance_bed;

/* Opens the plugin and its first device. NOT_APPLICABLE when it has none. False when the check has
 * to end; then nothing is left open. */
bool conformance_bed_open(conformance_bed *bed, const conformance_subject *subject,
                          conformance_report *report);
void conformance_bed_close(conformance_bed *bed);

/* The call must return KILN_OK; else the check fails, with the plugin's sentence. Returns whether
 * it did. */
bool conformance_bed_ok(conformance_bed *bed, kiln_status status, const char *function);

/* The call must have failed with this status, and with a sentence that has `sentence` in it.
 * Returns whether it did. */
bool conformance_bed_fails(conformance_bed *bed, kiln_status status, kiln_status wanted,
                           const char *sentence, const char *function);

#define BED_CALL(bed, function, ...) \
    ((kiln_status)CONFORMANCE_CALL(#function, (bed)->table.function(__VA_ARGS__)))
#define BED_OK(bed, function, ...) \
    conformance_bed_ok((bed), BED_CALL(bed, function, __VA_ARGS__), #function)

/* Uniform in [low, high]. */
int64_t conformance_bed_random(conformance_bed *bed, int64_t low, int64_t high);
void conformance_bed_random_bytes(conformance_bed *bed, void *bytes, size_t count);

/* Adds inputs to the hash of what was tried. */
void conformance_bed_hash(conformance_bed *bed, const void *data, size_t size);

/* Memory of KILN_SPACE_DEVICE (or the first space that is offered); NULL when there is none. */
void *conformance_bed_alloc(conformance_bed *bed, int64_t bytes);
void conformance_bed_free(conformance_bed *bed, void *memory);
uint32_t conformance_bed_space(const conformance_bed *bed);

/* A contiguous copy of bytes, not waited for. */
kiln_status conformance_bed_queue_write(conformance_bed *bed, void *stream, void *memory,
                                        int64_t offset, const void *host, int64_t bytes);
kiln_status conformance_bed_queue_read(conformance_bed *bed, void *stream, void *memory,
                                       int64_t offset, void *host, int64_t bytes);
kiln_status conformance_bed_queue_move(conformance_bed *bed, void *stream, void *to,
                                       int64_t to_offset, void *from, int64_t from_offset,
                                       int64_t bytes);

/* The same on the check's own stream, and waited for. */
bool conformance_bed_write(conformance_bed *bed, void *memory, int64_t offset, const void *host,
                           int64_t bytes);
bool conformance_bed_read(conformance_bed *bed, void *memory, int64_t offset, void *host,
                          int64_t bytes);

/* ---- Holding a stream ---- */

/* Work queued behind it does not begin before release. By a gate, or where there is none by a
 * function that sleeps. */
typedef struct conformance_hold {
    conformance_bed *bed;
    void *gate; /* NULL = by the function */
    sem_t released;
} conformance_hold;

/* True where streams of this device can be held. Otherwise the check does not apply. */
bool conformance_can_hold(conformance_bed *bed);
bool conformance_hold_begin(conformance_hold *hold, conformance_bed *bed, void *stream);
void conformance_hold_release(conformance_hold *hold);

/* After the stream was waited for. */
void conformance_hold_end(conformance_hold *hold);

/* ---- Faults ---- */

/* Faults a stream with KILN_FAULT and this sentence, by a gate or a function. */
bool conformance_fault(conformance_bed *bed, void *stream, const char *sentence);

/* True where faults can be made. Otherwise the check does not apply. */
bool conformance_can_fault(conformance_bed *bed);

#endif
