/* SPDX-License-Identifier: Apache-2.0 */
/* The generation lives in a page that the kernel zeroes in a child (MADV_WIPEONFORK), since getpid() costs a microsecond on
 * some machines. The page lives as long as the process. */
#include "core/fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic(_Atomic uint64_t *) page;
static _Atomic uint64_t last_generation;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_page(void)
{
    static _Atomic uint64_t fallback;
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Without the page a child is taken for its parent; nothing else depends on it. */
    if (memory == MAP_FAILED || madvise(memory, size, MADV_WIPEONFORK) != 0)
        memory = (void *)&fallback;
    atomic_store(&page, (_Atomic uint64_t *)memory);
}

uint64_t kiln_process_generation(void)
{
    _Atomic uint64_t *current = atomic_load_explicit(&page, memory_order_acquire);
    if (!current) {
        pthread_once(&once, make_page);
        current = atomic_load(&page);
    }
    uint64_t generation = atomic_load_explicit(current, memory_order_relaxed);
    if (generation)
        return generation;
    uint64_t fresh = atomic_fetch_add(&last_generation, 1) + 1;
    return atomic_compare_exchange_strong(current, &generation, fresh) ? fresh : generation;
}
