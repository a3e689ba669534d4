/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that ends where nothing may be touched, so that whoever reads or writes one byte too many
 * crashes. */
#ifndef KILN_CONFORMANCE_PLUGIN_GUARD_H
#define KILN_CONFORMANCE_PLUGIN_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CONFORMANCE_CANARY = 0xa5 };

/* Whole pages between two that cannot be touched. */
typedef struct conformance_guard_pages {
    unsigned char *pages;
    size_t bytes; /* of the pages in the middle */
    size_t page;
} conformance_guard_pages;

/* At least `bytes` bytes; false when there is no memory. */
static inline bool conformance_guard_make(conformance_guard_pages *guard, size_t bytes)
{
    guard->page = (size_t)sysconf(_SC_PAGESIZE);
    guard->bytes = (bytes + guard->page - 1) / guard->page * guard->page;
    if (guard->bytes == 0)
        guard->bytes = guard->page;
    void *memory =
        mmap(NULL, guard->bytes + 2 * guard->page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    guard->pages = memory == MAP_FAILED ? NULL : (unsigned char *)memory + guard->page;
    return guard->pages && mprotect(guard->pages, guard->bytes, PROT_READ | PROT_WRITE) == 0;
}

static inline void conformance_guard_free(conformance_guard_pages *guard)
{
    if (guard->pages)
        munmap(guard->pages - guard->page, guard->bytes + 2 * guard->page);
    guard->pages = NULL;
}

/* The last `bytes` bytes; all before them holds the canary. */
static inline void *conformance_guard_end(conformance_guard_pages *guard, size_t bytes)
{
    mprotect(guard->pages, guard->bytes, PROT_READ | PROT_WRITE);
    memset(guard->pages, CONFORMANCE_CANARY, guard->bytes);
    return guard->pages + guard->bytes - bytes;
}

static inline void conformance_guard_read_only(conformance_guard_pages *guard)
{
    mprotect(guard->pages, guard->bytes, PROT_READ);
}

/* True when nothing before the last `bytes` bytes has changed. */
static inline bool conformance_guard_whole(const conformance_guard_pages *guard, size_t bytes)
{
    for (size_t i = 0; i + bytes < guard->bytes; i++)
        if (guard->pages[i] != CONFORMANCE_CANARY)
            return false;
    return true;
}

#endif
