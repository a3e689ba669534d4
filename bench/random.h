/* SPDX-License-Identifier: Apache-2.0 */
/* The generator behind inputs, orders of slices and resampling: SplitMix64 (Steele, Lea and Flood,
 * OOPSLA 2014). */
#ifndef KILN_BENCH_RANDOM_H
#define KILN_BENCH_RANDOM_H

#include <stdint.h>

/* The next 64 bits; `state` may start at any value. */
static inline uint64_t bench_random(uint64_t *state)
{
    uint64_t bits = (*state += 0x9e3779b97f4a7c15u);
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return bits ^ bits >> 31;
}

/* Uniform in [0, bound), bound >= 1, but for a bias below bound / 2^64. */
static inline int64_t bench_random_below(uint64_t *state, int64_t bound)
{
    return (int64_t)(bench_random(state) % (uint64_t)bound);
}

/* Uniform in [-1, 1). */
static inline double bench_random_unit(uint64_t *state)
{
    return (double)(int64_t)(bench_random(state) >> 11) * 0x1p-52 - 1;
}

#endif
