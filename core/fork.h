/* SPDX-License-Identifier: Apache-2.0 */
/* Knowing, in a nanosecond, that this process is a child of the one that made an object. */
#ifndef KILN_CORE_FORK_H
#define KILN_CORE_FORK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The page that the kernel zeroes in a child; NULL before its first use. */
extern _Atomic(_Atomic uint64_t *) kiln_generation_page;

/* Gives this process its generation if it has none. */
uint64_t kiln_process_generation_make(void);

/* A number that differs between this process and any parent or child that has used Kiln; never 0.
 * Any thread. */
static inline uint64_t kiln_process_generation(void)
{
    _Atomic uint64_t *page = atomic_load_explicit(&kiln_generation_page, memory_order_acquire);
    uint64_t generation = page ? atomic_load_explicit(page, memory_order_relaxed) : 0;
    return generation ? generation : kiln_process_generation_make();
}

#endif
