/* SPDX-License-Identifier: Apache-2.0 */
/* A device in software: memory that the host reaches only by copying. And what can be wrong with
 * what it says of itself, its memory and its copies. */
#include "planted_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { DEVICES = 2, MEMORY = 1 << 28 };

kiln_status planted_fail(const planted_device *self, kiln_status status, const char *sentence)
{
    return self->host->set_error(status, "%s", sentence);
}

/* ---- Memory ---- */

/* Puts a new memory into the first gap that has room for it. */
static bool place(planted_device *self, planted_memory *made, int64_t alignment)
{
    planted_memory **link = &self->memories;
    int64_t begin = 0;
    for (; *link; link = &(*link)->next) {
        int64_t room = (*link)->offset - begin;
        if (planted(OVERLAPS) && room > 0)
            room += 63;
        if (made->bytes <= room)
            break;
        begin = ((*link)->offset + (*link)->bytes + alignment - 1) / alignment * alignment;
    }
    if (begin > MEMORY || made->bytes > MEMORY - begin)
        return false;
    made->offset = begin;
    made->next = *link;
    *link = made;
    return true;
}

static kiln_status device_alloc(void *object, uint32_t space, int64_t bytes, int64_t alignment,
                                void **result, void **host)
{
    planted_device *self = object;
    if (space != KILN_SPACE_DEVICE && !planted(ANY_SPACE))
        return planted_fail(self, KILN_UNSUPPORTED, "planted: only device memory is offered");
    if (planted(ONE_THREAD_ONLY) && !pthread_equal(pthread_self(), self->opener))
        return planted_fail(self, KILN_INVALID, "planted: another thread has opened the device");
    planted_memory *made = calloc(1, sizeof *made);
    bool fits = made != NULL;
    if (made) {
        made->bytes = bytes;
        pthread_mutex_lock(&self->mutex);
        fits = place(self, made, alignment > 64 ? alignment : 64);
        pthread_mutex_unlock(&self->mutex);
    }
    if (!fits) {
        free(made);
        return planted_fail(self, planted(EXHAUSTED_IS_INVALID) ? KILN_INVALID : KILN_NO_MEMORY,
                            "planted: the device's memory is exhausted");
    }
    memset(self->arena + made->offset, 0xa5, (size_t)bytes);
    *result = made;
    *host = NULL;
    return KILN_OK;
}

static void device_free(void *object, void *gone)
{
    planted_device *self = object;
    planted_memory *found = gone;
    if (planted(LEAKS_MEBIBYTES) && found->bytes > 1 << 20 && found->bytes < 1 << 24)
        return;
    pthread_mutex_lock(&self->mutex);
    planted_memory **link = &self->memories;
    while (*link && *link != found)
        link = &(*link)->next;
    if (*link)
        *link = found->next;
    pthread_mutex_unlock(&self->mutex);
    free(found);
}

char *planted_reach(planted_device *self, const void *wanted, int64_t offset, int64_t bytes)
{
    char *address = NULL;
    pthread_mutex_lock(&self->mutex);
    for (const planted_memory *one = self->memories; one; one = one->next)
        if (one == wanted && offset >= 0 && bytes >= 0 && offset <= one->bytes - bytes)
            address = self->arena + one->offset + offset;
    pthread_mutex_unlock(&self->mutex);
    return address;
}

/* ---- Copies ---- */

static char *reach_side(planted_device *self, const kiln_copy_side *side, int64_t offset,
                        int64_t bytes)
{
    int64_t at = (planted(IGNORES_OFFSET) && side->memory ? 0 : side->byte_offset) + offset;
    return side->memory ? planted_reach(self, side->memory, at, bytes) : side->host + at;
}

static bool copy_element(planted_device *self, const kiln_copy_request *request, int64_t to,
                         int64_t from)
{
    int64_t bytes = request->element_bytes;
    if (planted(COPIES_ONE_MORE) && request->source.memory &&
        request->source.memory == request->destination.memory)
        bytes++;
    char *target = reach_side(self, &request->destination, to, bytes);
    const char *origin = reach_side(self, &request->source, from, bytes);
    if (target && origin)
        memcpy(target, origin, (size_t)bytes);
    return target && origin;
}

/* How many elements or rows are copied on a level. */
static int64_t copied_count(const kiln_copy_request *request, int64_t level)
{
    int64_t count = request->shape[level];
    if (planted(REPEATS_NOTHING) && request->source.strides[level] == 0 && count > 1)
        return 1;
    if (planted(EMPTY_IS_ONE) && count == 0)
        return 1;
    if (planted(HALF_BYTE_LOST) && request->rank == 2 && level == 1 && count == 4 &&
        request->element_bytes == 1)
        return 3;
    return count;
}

static bool copy_elements(planted_device *self, const kiln_copy_request *request, int64_t level,
                          int64_t to, int64_t from)
{
    if (level == request->rank)
        return copy_element(self, request, to, from);
    int64_t to_stride = request->destination.strides[level],
            from_stride = request->source.strides[level], count = copied_count(request, level);
    if (planted(SWAPS_STRIDES) && request->rank == 3 && level == 0)
        to_stride = request->destination.strides[1] * request->shape[1];
    for (int64_t i = 0; i < count; i++)
        if (!copy_elements(self, request, level + 1, to + i * to_stride, from + i * from_stride))
            return false;
    /* As if a row were copied in whole words. */
    if (planted(CLOBBERS_GAPS) && level + 1 == request->rank && request->rank > 1 &&
        request->destination.memory &&
        request->destination.strides[level - 1] > to_stride * request->shape[level]) {
        char *gap =
            reach_side(self, &request->destination, to + to_stride * request->shape[level], 1);
        if (gap)
            *gap = 0;
    }
    return true;
}

static bool fill_elements(planted_device *self, const kiln_fill_request *request, int64_t level,
                          int64_t to)
{
    if (level == request->rank) {
        char *target = reach_side(self, &request->destination, to, request->element_bytes);
        for (int64_t i = 0; target && i < request->element_bytes; i++)
            target[i] = (char)request->pattern[planted(FILLS_BYTES) ? 0 : i];
        return target != NULL;
    }
    int64_t stride = request->destination.strides[level];
    if (planted(FILL_SWAPS_STRIDES) && request->rank == 3 && level == 0)
        stride = request->destination.strides[1] * request->shape[1];
    for (int64_t i = 0; i < request->shape[level]; i++)
        if (!fill_elements(self, request, level + 1, to + i * stride))
            return false;
    return true;
}

bool planted_copy(planted_device *self, const kiln_copy_request *request)
{
    return copy_elements(self, request, 0, 0, 0);
}

bool planted_fill(planted_device *self, const kiln_fill_request *request)
{
    return fill_elements(self, request, 0, 0);
}

/* ---- What it says of itself ---- */

static kiln_status device_count(void *object, int64_t *count)
{
    planted_instance *self = object;
    *count = planted(COUNT_CHANGES) && self->counted ? 1 : DEVICES;
    self->counted = true;
    return KILN_OK;
}

static bool is_device(int64_t index)
{
    return index >= 0 && index < DEVICES;
}

static kiln_status no_device(const planted_instance *self, int64_t index)
{
    return self->host->set_error(KILN_NOT_FOUND, "planted: there is no device %lld",
                                 (long long)index);
}

static kiln_status device_info(void *object, int64_t index, kiln_device_info *info)
{
    const planted_instance *self = object;
    if (!is_device(index) && !(planted(DESCRIBES_ONE_MORE) && index == DEVICES))
        return no_device(self, index);
    snprintf(info->name, sizeof info->name, "planted device %lld", (long long)index);
    snprintf(info->fingerprint, sizeof info->fingerprint, "planted 1");
    info->memory_bytes = MEMORY;
    info->compute_units = 1;
    info->spaces =
        1u << KILN_SPACE_DEVICE | (planted(PROMISES_PINNED) ? 1u << KILN_SPACE_PINNED : 0);
    info->flags = KILN_DEVICE_MODEL | (planted(CLAIMS_FORK_SAFE) ? KILN_DEVICE_FORK_SAFE : 0);
    if (planted(INFO_BEYOND) && info->struct_size > sizeof *info)
        *(char *)(info + 1) = 1;
    return KILN_OK;
}

/* ---- Opening ---- */

/* What all devices have for memory, where each should have its own. */
static char *common_arena;

static char *make_arena(void)
{
    if (planted(ONE_ARENA) && common_arena)
        return common_arena;
    void *pages = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    common_arena = pages;
    return pages != MAP_FAILED ? pages : NULL;
}

static kiln_status device_open(void *object, int64_t index, kiln_device *handle, void **result)
{
    const planted_instance *self = object;
    (void)handle;
    if (!is_device(index))
        return no_device(self, index);
    planted_device *made = calloc(1, sizeof *made);
    if (!made || !(made->arena = make_arena())) {
        free(made);
        return self->host->set_error(KILN_NO_MEMORY, "planted: no memory for a device");
    }
    made->host = self->host;
    made->opener = pthread_self();
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->changed, NULL);
    *result = made;
    return KILN_OK;
}

static void device_close(void *object)
{
    planted_device *self = object;
    pthread_mutex_destroy(&self->mutex);
    pthread_cond_destroy(&self->changed);
    if (!planted(ONE_ARENA))
        munmap(self->arena, MEMORY);
    free(self);
}

const kiln_device_table planted_device_table = {
    .struct_size = sizeof planted_device_table,
    .count = device_count,
    .info = device_info,
    .open = device_open,
    .close = device_close,
    .alloc = device_alloc,
    .free = device_free,
    .copy = planted_queue_copy,
    .fill = planted_queue_fill,
    .stream_create = planted_stream_create,
    .stream_destroy = planted_stream_destroy,
    .stream_wait = planted_stream_wait,
    .stream_enqueue = planted_enqueue,
    .stream_counters = planted_stream_counters,
    .event_create = planted_event_create,
    .event_destroy = planted_event_destroy,
    .event_record = planted_event_record,
    .event_query = planted_event_query,
    .event_wait = planted_event_wait,
    .stream_wait_event = planted_stream_wait_event,
    .gate_create = planted_gate_create,
    .gate_complete = planted_gate_complete,
    .gate_reset = planted_gate_reset,
};
