/* SPDX-License-Identifier: Apache-2.0 */
/* The planted device: what its two files share. planted_device.c has what it says of itself, its
 * memory and its copies; planted_stream.c has its streams, events and gates. */
#ifndef TESTS_CONFORMANCE_PLANTED_DEVICE_H
#define TESTS_CONFORMANCE_PLANTED_DEVICE_H

#include "planted.h"

typedef struct planted_memory {
    int64_t offset, bytes; /* in the device's arena */
    struct planted_memory *next;
} planted_memory;

/* One lock for a device and all that belongs to it. */
typedef struct planted_device {
    const kiln_host *host;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    char *arena;
    planted_memory *memories; /* by offset */

    /* What only defects need: */
    pthread_t opener;
    kiln_status fault; /* the last one of any stream */
    void *calls;
} planted_device;

/* Sets the sentence; returns the status. */
kiln_status planted_fail(const planted_device *device, kiln_status status, const char *sentence);

/* Do what the request says, now; false when it reaches beyond the memory. */
bool planted_copy(planted_device *device, const kiln_copy_request *request);
bool planted_fill(planted_device *device, const kiln_fill_request *request);

/* ---- planted_stream.c: functions of kiln_device_table ---- */

kiln_status planted_queue_copy(void *device, void *stream, const kiln_copy_request *request);
kiln_status planted_queue_fill(void *device, void *stream, const kiln_fill_request *request);
kiln_status planted_stream_create(void *device, void **stream);
void planted_stream_destroy(void *device, void *stream);
kiln_status planted_stream_wait(void *device, void *stream);
kiln_status planted_stream_counters(void *device, void *stream, kiln_counter *counters,
                                    int64_t capacity, int64_t *count);
kiln_status planted_event_create(void *device, void **event);
void planted_event_destroy(void *device, void *event);
kiln_status planted_event_record(void *device, void *event, void *stream);
kiln_status planted_event_query(void *device, void *event);
kiln_status planted_event_wait(void *device, void *event);
kiln_status planted_stream_wait_event(void *device, void *stream, void *event);
kiln_status planted_gate_create(void *device, void **gate);
kiln_status planted_gate_complete(void *device, void *gate, kiln_status status,
                                  const char *sentence);
kiln_status planted_gate_reset(void *device, void *gate);

#endif
