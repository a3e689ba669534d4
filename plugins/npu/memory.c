/* SPDX-License-Identifier: Apache-2.0 */
/* Global memory: pages and first-fit allocation. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "plugins/npu/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *npu_pages_alloc(int64_t bytes)
{
    void *pages = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void npu_pages_free(void *pages, int64_t bytes)
{
    if (pages)
        munmap(pages, (size_t)bytes);
}

int npu_global_open(struct npu_global *global, const struct npu_config *config)
{
    memset(global, 0, sizeof *global);
    global->bytes = npu_pages_alloc(config->size[NPU_GM]);
    if (!global->bytes)
        return -1;
    global->size = config->size[NPU_GM];
    global->alignment = config->alignment[NPU_GM];
    pthread_mutex_init(&global->lock, NULL);
    return 0;
}

void npu_global_close(struct npu_global *global)
{
    if (!global->bytes)
        return;
    npu_pages_free(global->bytes, global->size);
    free(global->ranges);
    pthread_mutex_destroy(&global->lock);
    memset(global, 0, sizeof *global);
}

static int64_t align_up(int64_t address, int64_t alignment)
{
    return (address + alignment - 1) & ~(alignment - 1);
}

/* Where `bytes` fit first; sets *index to their place among the ranges. -1 when nowhere. */
static int64_t find_gap(const struct npu_global *global, int64_t bytes, int64_t alignment,
                        size_t *index)
{
    int64_t begin = align_up(NPU_GM_BASE, alignment);
    for (size_t i = 0; i <= global->count; i++) {
        int64_t limit = i < global->count ? global->ranges[i].begin : NPU_GM_BASE + global->size;
        if (limit - begin >= bytes) {
            *index = i;
            return begin;
        }
        if (i < global->count)
            begin = align_up(global->ranges[i].end, alignment);
    }
    return -1;
}

static int64_t largest_gap(const struct npu_global *global)
{
    int64_t largest = 0, begin = NPU_GM_BASE;
    for (size_t i = 0; i <= global->count; i++) {
        int64_t limit = i < global->count ? global->ranges[i].begin : NPU_GM_BASE + global->size;
        if (limit - begin > largest)
            largest = limit - begin;
        if (i < global->count)
            begin = align_up(global->ranges[i].end, global->alignment);
    }
    return largest;
}

static bool make_room(struct npu_global *global)
{
    if (global->count < global->capacity)
        return true;
    size_t capacity = global->capacity ? 2 * global->capacity : 64;
    struct npu_range *ranges = realloc(global->ranges, capacity * sizeof *ranges);
    if (!ranges)
        return false;
    global->ranges = ranges;
    global->capacity = capacity;
    return true;
}

int npu_global_alloc(struct npu_global *global, int64_t bytes, int64_t alignment, int64_t *address,
                     char *error, size_t size)
{
    int result = -1;
    size_t index = 0;
    pthread_mutex_lock(&global->lock);
    if (bytes < 0 || alignment < 0 || (alignment & (alignment - 1))) {
        snprintf(error, size,
                 "cannot allocate %lld bytes aligned to %lld: the size must not be "
                 "negative and the alignment a power of two",
                 (long long)bytes, (long long)alignment);
    } else if (!make_room(global)) {
        snprintf(error, size, "no host memory for the list of allocations");
    } else {
        if (alignment < global->alignment)
            alignment = global->alignment;
        /* One byte at least, so that addresses of empty allocations differ. */
        int64_t begin = bytes > global->size || alignment > global->size
                            ? -1
                            : find_gap(global, bytes ? bytes : 1, alignment, &index);
        if (begin < 0) {
            snprintf(error, size,
                     "global memory is exhausted: %lld bytes asked for, %lld free in one piece of "
                     "%lld in all; free buffers or raise the memory size in the profile",
                     (long long)bytes, (long long)largest_gap(global), (long long)global->size);
        } else {
            memmove(&global->ranges[index + 1], &global->ranges[index],
                    (global->count - index) * sizeof *global->ranges);
            global->ranges[index] = (struct npu_range){begin, begin + (bytes ? bytes : 1)};
            global->count++;
            *address = begin;
            result = 0;
        }
    }
    pthread_mutex_unlock(&global->lock);
    return result;
}

/* The last range that begins at or before `address`; count when there is none. */
static size_t find_range(const struct npu_global *global, int64_t address)
{
    size_t low = 0, high = global->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (global->ranges[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? low - 1 : global->count;
}

void npu_global_free(struct npu_global *global, int64_t address)
{
    pthread_mutex_lock(&global->lock);
    size_t index = find_range(global, address);
    if (index < global->count && global->ranges[index].begin == address) {
        global->count--;
        memmove(&global->ranges[index], &global->ranges[index + 1],
                (global->count - index) * sizeof *global->ranges);
    }
    pthread_mutex_unlock(&global->lock);
}

bool npu_global_holds(struct npu_global *global, int64_t begin, int64_t end)
{
    pthread_mutex_lock(&global->lock);
    size_t index = find_range(global, begin);
    bool holds = index < global->count && end <= global->ranges[index].end;
    pthread_mutex_unlock(&global->lock);
    return holds;
}
