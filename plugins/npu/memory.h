/* SPDX-License-Identifier: Apache-2.0 */
/* Global memory of a device: its bytes and its allocator. */
#ifndef NPU_MEMORY_H
#define NPU_MEMORY_H

#include "plugins/npu/config.h"

#include <pthread.h>
#include <stdbool.h>

/* [begin, end) in model addresses. */
struct npu_range {
    int64_t begin;
    int64_t end;
};

/* Every function but open and close may be called from any thread. */
struct npu_global {
    uint8_t *bytes; /* the byte at NPU_GM_BASE */
    int64_t size;
    int64_t alignment;
    pthread_mutex_t lock;     /* guards what follows */
    struct npu_range *ranges; /* what is allocated, by ascending address */
    size_t count;
    size_t capacity;
};

/* Zeroed pages that take up memory only once touched, or NULL. Return them with npu_pages_free. */
void *npu_pages_alloc(int64_t bytes);
void npu_pages_free(void *pages, int64_t bytes);

/* 0, or -1 when memory runs out. */
int npu_global_open(struct npu_global *global, const struct npu_config *config);
void npu_global_close(struct npu_global *global);

/* First fit. `bytes` may be 0. `alignment` is a power of two, raised to the device's own. 0 and the
   model address, or -1 and one sentence in error (size bytes). */
int npu_global_alloc(struct npu_global *global, int64_t bytes, int64_t alignment, int64_t *address,
                     char *error, size_t size);

/* `address` came from npu_global_alloc and was not freed since. */
void npu_global_free(struct npu_global *global, int64_t address);

/* Whether [begin, end) lies within one allocation. */
bool npu_global_holds(struct npu_global *global, int64_t begin, int64_t end);

/* The host's view of a model address, for the model's own units. */
static inline uint8_t *npu_global_at(const struct npu_global *global, int64_t address)
{
    return global->bytes + (address - NPU_GM_BASE);
}

#endif
