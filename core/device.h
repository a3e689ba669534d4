/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, buffers, streams and events: the core's handles around what a device table makes. */
#ifndef KILN_CORE_DEVICE_H
#define KILN_CORE_DEVICE_H

#include "core/runtime.h"

/* A native stream that serves waits between devices; useless once it has taken over a fault. */
typedef struct kiln_bridge_stream {
    void *native;
    bool faulted;
} kiln_bridge_stream;

struct kiln_device {
    kiln_runtime *runtime;
    kiln_instance *instance; /* NULL = the host */
    void *plugin_instance;
    kiln_device_table table;
    int64_t index;
    char name[64];
    kiln_device_info info;
    bool fork_safe;

    pthread_mutex_t mutex; /* opening, and the pools below */
    _Atomic bool opened;
    void *native;
    uint64_t generation; /* process that opened it */
    pthread_mutex_t internal_mutex;
    kiln_stream *internal;                     /* for work without a stream */
    struct kiln_bridge_stream *bridge_streams; /* idle ones, see stream.c */
    int64_t bridge_count, bridge_capacity;
    int64_t bridges_open; /* under way, each with room in the array */
    pthread_cond_t bridge_ended;
    struct staging_block *staging; /* idle blocks, see staging.c */
    int64_t staging_bytes;         /* idle and in use */
};

struct kiln_buffer {
    _Atomic int64_t references;
    kiln_device *device;
    int64_t bytes;
    void *memory; /* the device's object */
    void *host;
    void (*release)(void *context);
    void *context;
};

typedef struct kiln_bridge kiln_bridge;

/* Work that has been queued and whose objects must stay until it has finished. */
typedef struct kiln_pending {
    void *event; /* native, recorded behind the work */
    kiln_plan *plan;
    kiln_bridge *bridge; /* see stream.c */
    kiln_buffer **buffers;
    int64_t buffer_count, buffer_capacity;
    void *copy; /* arguments that the work reads when it runs */
    int64_t copy_bytes;
} kiln_pending;

enum { KILN_PENDING_SLOTS = 64 };

/* Work enters the ring on the thread that feeds the stream, and leaves it on any that waits. */
struct kiln_stream {
    kiln_device *device;
    void *native;
    kiln_pending pending[KILN_PENDING_SLOTS];
    _Atomic uint64_t queued, reaped; /* since the stream was made; slots are these, modulo */
    atomic_flag reaping;
    kiln_buffer *workspace;
};

struct kiln_event {
    kiln_device *device;
    void *native;
    bool gate;
};

/* A row-major view, without memory yet, of a tensor's type and shape, and the bytes that it needs.
 * Its rows are aligned as well as the tensor's, up to 64 bytes, so that it keeps a promise of
 * alignment. INVALID when the tensor is malformed, as for kiln_tensor_extent(). */
kiln_status kiln_tensor_compact(const kiln_tensor *tensor, const char *what, kiln_tensor *compact,
                                int64_t *bytes);

/* The host device (index 0) and those of an open plugin. */
kiln_status kiln_device_create_host(kiln_runtime *runtime, kiln_device **device);
kiln_status kiln_device_create_all(kiln_runtime *runtime, kiln_instance *instance);
void kiln_device_destroy(kiln_device *device);

/* Opens the device if it is not yet; FORKED in a child process unless the device is fork-safe.
 * Every use passes here. */
kiln_status kiln_device_ready(kiln_device *device);

/* FORKED, with a sentence, when the device is another process's. */
kiln_status kiln_device_check_process(const kiln_device *device);

static inline bool kiln_device_is_host(const kiln_device *device)
{
    return device->instance == NULL;
}

/* True when the host may dereference tensors on the device. */
static inline bool kiln_device_addressable(const kiln_device *device)
{
    return (device->info.flags & KILN_DEVICE_HOST_ADDRESSABLE) != 0;
}

/* The device on which a tensor lives. */
static inline kiln_device *kiln_tensor_device(kiln_runtime *runtime, const kiln_tensor *tensor)
{
    return tensor->buffer ? tensor->buffer->device : runtime->devices[0];
}

/* First and one-past-last byte that a strided tensor may touch, relative to its buffer or data
 * pointer. INVALID with a sentence when the tensor is malformed: rank, type, negative sizes or
 * strides, overflow, or outside of its buffer. `what` names it. */
kiln_status kiln_tensor_extent(const kiln_tensor *tensor, const char *what, int64_t *begin,
                               int64_t *end);

/* The table of the host device, core/host_device.c. */
extern const kiln_device_table kiln_host_device_table;
kiln_status kiln_host_info(void *instance, int64_t index, kiln_device_info *info);

/* Waits until no wait of another device for one of this one's events is under way. */
void kiln_device_end_bridges(kiln_device *device);

/* Takes a pending slot of the stream, waiting for the oldest work when all are in use. The slot is
 * not counted until kiln_stream_commit(), which records its event behind what was queued. */
kiln_status kiln_stream_reserve(kiln_stream *stream, kiln_pending **pending);
kiln_status kiln_stream_commit(kiln_stream *stream, kiln_pending *pending);
kiln_status kiln_pending_hold(kiln_pending *pending, kiln_buffer *buffer);

/* Releases what finished work held. */
void kiln_stream_reap(kiln_stream *stream);

/* A workspace of at least `bytes` that belongs to the stream and is free once what is queued has
 * finished. */
kiln_status kiln_stream_workspace(kiln_stream *stream, int64_t bytes, kiln_buffer **workspace);

/* The device's own stream, for work without a stream, locked for the caller until
 * kiln_device_finish(). */
kiln_status kiln_device_lock(kiln_device *device, kiln_stream **stream);

/* Waits for the work that was queued, of which `status` is what queueing it returned, and unlocks.
 * Returns the fault of the stream, which is then replaced, else `status`, else KILN_CAPACITY when
 * the wait says so. */
kiln_status kiln_device_finish(kiln_device *device, kiln_status status);

/* Device memory for staged tensors from a pool bounded by staging.pool_bytes; NO_MEMORY when in-use
 * blocks leave no room. */
kiln_status kiln_staging_take(kiln_device *device, int64_t bytes, kiln_buffer **buffer);
void kiln_staging_give(kiln_device *device, kiln_buffer *buffer);
void kiln_staging_free_all(kiln_device *device);

#endif
