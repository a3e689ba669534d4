/* SPDX-License-Identifier: Apache-2.0 */
/* Knowing, in a nanosecond, that this process is a child of the one that made an object. */
#ifndef KILN_CORE_FORK_H
#define KILN_CORE_FORK_H

#include <stdint.h>

/* A number that differs between this process and any parent or child that has used Kiln; never 0. Any thread. */
uint64_t kiln_process_generation(void);

#endif
