/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory for tensors that the core copies to a device and back. Idle blocks are kept for the
 * next run; idle and used ones together stay within staging.pool_bytes. */
#include <stdlib.h>

#include "core/device.h"

typedef struct staging_block {
    kiln_buffer *buffer;
    struct staging_block *next;
} staging_block;

static void drop_first(kiln_device *device)
{
    staging_block *block = device->staging;
    device->staging = block->next;
    device->staging_bytes -= block->buffer->bytes;
    kiln_buffer_release(block->buffer);
    free(block);
}

/* Blocks come in sizes at most an eighth apart, each for its own size only, so that whether a run
 * fits the pool depends on its tensors and not on what ran before. */
static int64_t block_size(int64_t bytes, int64_t limit)
{
    int64_t unit = 64;
    while (unit < bytes / 16)
        unit *= 2;
    int64_t size = (bytes + unit - 1) / unit * unit;
    return size <= limit ? size : bytes;
}

/* An idle block of that size, unlinked. */
static kiln_buffer *take_idle(kiln_device *device, int64_t bytes)
{
    staging_block **link = &device->staging;
    while (*link && (*link)->buffer->bytes != bytes)
        link = &(*link)->next;
    if (!*link)
        return NULL;
    staging_block *block = *link;
    kiln_buffer *buffer = block->buffer;
    *link = block->next;
    free(block);
    return buffer;
}

kiln_status kiln_staging_take(kiln_device *device, int64_t bytes, kiln_buffer **buffer)
{
    int64_t limit = kiln_profile_integer(device->runtime->profile, "staging.pool_bytes");
    kiln_status status = kiln_device_ready(device);
    if (status != KILN_OK)
        return status;
    bytes = block_size(bytes, limit);
    pthread_mutex_lock(&device->mutex);
    *buffer = take_idle(device, bytes);
    if (!*buffer) {
        while (device->staging && bytes > limit - device->staging_bytes)
            drop_first(device);
        if (bytes > limit - device->staging_bytes)
            status = kiln_fail(KILN_NO_MEMORY,
                               "staging %lld bytes on %s: %lld of the pool's %lld bytes are in "
                               "use; raise staging.pool_bytes, or "
                               "place the tensors on the device",
                               (long long)bytes, device->name, (long long)device->staging_bytes,
                               (long long)limit);
        else
            device->staging_bytes += bytes;
    }
    pthread_mutex_unlock(&device->mutex);
    if (status != KILN_OK || *buffer)
        return status;
    status = kiln_buffer_alloc(device, KILN_SPACE_DEVICE, bytes, buffer);
    if (status != KILN_OK) {
        pthread_mutex_lock(&device->mutex);
        device->staging_bytes -= bytes;
        pthread_mutex_unlock(&device->mutex);
    }
    return status;
}

void kiln_staging_give(kiln_device *device, kiln_buffer *buffer)
{
    staging_block *block = malloc(sizeof *block);
    pthread_mutex_lock(&device->mutex);
    if (block) {
        block->buffer = buffer;
        block->next = device->staging;
        device->staging = block;
    } else {
        device->staging_bytes -= buffer->bytes;
        kiln_buffer_release(buffer);
    }
    pthread_mutex_unlock(&device->mutex);
}

void kiln_staging_free_all(kiln_device *device)
{
    while (device->staging)
        drop_first(device);
}
