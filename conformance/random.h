/* SPDX-License-Identifier: Apache-2.0 */
/* The generator behind all that is drawn at random: SplitMix64 (Steele, Lea and Flood, OOPSLA
 * 2014). Equal states give equal numbers, on every machine. */
#ifndef KILN_CONFORMANCE_RANDOM_H
#define KILN_CONFORMANCE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

/* The next 64 bits; `state` may start at any value. */
static inline uint64_t conformance_random(uint64_t *state)
{
    uint64_t bits = (*state += UINT64_C(0x9e3779b97f4a7c15));
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}

/* Uniform in [0, bound), bound >= 1, but for a bias below bound / 2^64. */
static inline int64_t conformance_random_below(uint64_t *state, int64_t bound)
{
    return (int64_t)(conformance_random(state) % (uint64_t)bound);
}

static inline bool conformance_random_one_in(uint64_t *state, int64_t count)
{
    return conformance_random_below(state, count) == 0;
}

/* Uniform in [-1, 1]. */
static inline double conformance_random_unit(uint64_t *state)
{
    return (double)(int64_t)conformance_random(state) * 0x1p-63;
}

/* An element of an array. */
#define CONFORMANCE_RANDOM_OF(state, array) \
    ((array)[conformance_random_below(state, (int64_t)(sizeof(array) / sizeof *(array)))])

#endif
