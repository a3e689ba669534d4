/* SPDX-License-Identifier: Apache-2.0 */
/* A hash of bytes, for telling whether two runs tried or found the same: FNV-1a. */
#ifndef KILN_CONFORMANCE_HASH_H
#define KILN_CONFORMANCE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Continues a hash with more bytes; begin with 0. */
static inline uint64_t conformance_hash(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = (const unsigned char *)bytes;
    if (hash == 0)
        hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
