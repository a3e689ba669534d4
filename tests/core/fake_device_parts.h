/* SPDX-License-Identifier: Apache-2.0 */
/* What the device of the plugin "fake" and its operators share. */
#ifndef TESTS_CORE_FAKE_DEVICE_PARTS_H
#define TESTS_CORE_FAKE_DEVICE_PARTS_H

#include <pthread.h>

#include "tests/core/fake_device.h"

typedef struct fake_instance {
    const kiln_host *host;
    int64_t devices, delay_us, workspace;
    bool addressable;
    kiln_device_table table;
    kiln_operator_table axpy;
} fake_instance;

/* One lock for a device and all that belongs to it. */
typedef struct fake_device {
    fake_instance *instance;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct fake_memory *memories;
    uintptr_t next_handle;
    void *last_workspace;
} fake_device;

/* The address of bytes in a memory object; NULL when they are not all in it. */
char *fake_device_reach(fake_device *device, const void *memory, int64_t offset, int64_t bytes);

/* Queues a function on a native stream of the device. */
kiln_status fake_device_enqueue(void *device, void *stream, kiln_stream_fn function,
                                void *argument);

kiln_status fake_device_fail(fake_device *device, kiln_status status, const char *sentence);

extern const kiln_device_table fake_device_table;

#endif
