/* SPDX-License-Identifier: Apache-2.0 */
/* How random cases are made. */
#ifndef KILN_CONFORMANCE_GEMM_CASE_H
#define KILN_CONFORMANCE_GEMM_CASE_H

#include "conformance/gemm.h"

/* splitmix64 */
typedef struct random_state {
    uint64_t state;
} random_state;

static inline uint64_t random_next(random_state *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* In [0, count). */
static inline int64_t random_below(random_state *random, int64_t count)
{
    return (int64_t)(random_next(random) % (uint64_t)count);
}

static inline bool random_one_in(random_state *random, int64_t count)
{
    return random_below(random, count) == 0;
}

/* In [-1, 1). */
static inline double random_uniform(random_state *random)
{
    return (double)(int64_t)random_next(random) * 0x1p-63;
}

#define RANDOM_OF(random, array) \
    ((array)[random_below(random, (int64_t)(sizeof(array) / sizeof *(array)))])

/* The first number of a case's own sequence. */
random_state conformance_case_random(uint64_t seed, int64_t index);

/* Everything of a case but its memory: descriptor, sizes, factors, features. It begins zeroed, with
 * seed and index set. */
void conformance_case_choose(random_state *random, conformance_gemm_case *test);

/* True for a case that has been chosen and passes the filter. */
bool conformance_case_matches(const conformance_gemm_case *test,
                              const conformance_gemm_filter *filter);

/* Tensors for a chosen case, without values; false when memory is exhausted. */
bool conformance_case_make_tensors(random_state *random, conformance_gemm_case *test);

/* GROUPS, then values for everything that may be read; what may not stays 0xff, which is NaN in the
 * floating-point types. */
void conformance_case_fill(random_state *random, conformance_gemm_case *test);

/* Group of row `row` in a contiguous grouping. */
int64_t conformance_case_group_of(const conformance_gemm_case *test, int64_t row);

/* Element `index` of GROUPS. */
int64_t conformance_case_groups_at(const conformance_gemm_case *test, int64_t index);

#endif
