/* SPDX-License-Identifier: Apache-2.0 */
/* The generation lives in a page that the kernel zeroes in a child (MADV_WIPEONFORK), since
 * getpid() costs a microsecond on some machines. The page lives as long as the process. */
#include "core/fork.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

_Atomic(_Atomic uint64_t *) kiln_generation_page;
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
    atomic_store(&kiln_generation_page, (_Atomic uint64_t *)memory);
}

uint64_t kiln_process_generation_make(void)
{
    pthread_once(&once, make_page);
    _Atomic uint64_t *page = atomic_load(&kiln_generation_page);
    uint64_t none = 0, fresh = atomic_fetch_add(&last_generation, 1) + 1;
    return atomic_compare_exchange_strong(page, &none, fresh) ? fresh : none;
}
