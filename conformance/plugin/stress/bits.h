/* SPDX-License-Identifier: Apache-2.0 */
/* Promised bits of everything that is served: scales, groups, and outputs beside D. */
#ifndef KILN_CONFORMANCE_PLUGIN_BITS_H
#define KILN_CONFORMANCE_PLUGIN_BITS_H

#include "conformance/plugin/op/gemm_near.h"

enum { CONFORMANCE_BITS_CASES = 320, CONFORMANCE_BITS_OUTPUTS = 3 };

/* Runs a case (NULL = there is none); true when it is served and its answer promises bits. What is
 * wrong goes into the report, and what is declined is counted. */
bool conformance_bits_run(conformance_gemm_bench *bench, conformance_gemm_case *test);

/* One case, and what its outputs were the first time: hashes of D, D_SCALE and a bias gradient. */
typedef struct conformance_bits_case {
    conformance_plain_types form;
    conformance_gemm_wish wish; /* its form is set when the case is made */
    int64_t index;
    bool known;
    uint64_t first[CONFORMANCE_BITS_OUTPUTS];
} conformance_bits_case;

typedef struct conformance_bits_cases {
    uint64_t seed;
    int count;
    conformance_bits_case cases[CONFORMANCE_BITS_CASES];
} conformance_bits_cases;

/* Finds what the plugin serves: every kind of A and B with every grouping, each of these with the
 * epilogues that have outputs of their own, and each kind of A and B with them. */
void conformance_bits_find(const conformance_session *session, uint64_t seed,
                           conformance_bits_cases *all);

/* Runs each case in the bench's session, and compares with the first time, in which it was run with
 * these; `what` is "with another number of threads". */
void conformance_bits_compare(conformance_gemm_bench *bench, conformance_bits_cases *all,
                              const char *what);

/* The same at other addresses, whatever these promise. */
void conformance_bits_move(conformance_gemm_bench *bench, conformance_bits_cases *all);

/* Runs each case again with fewer rows, and compares those. */
void conformance_bits_shrink(conformance_gemm_bench *bench, conformance_bits_cases *all);

/* Runs what is grouped by rows again with each group's B alone, and compares that group's rows. */
void conformance_bits_ungroup(conformance_gemm_bench *bench, conformance_bits_cases *all);

/* Runs each case in shares, on the host, and compares with the whole. */
void conformance_bits_share(conformance_gemm_bench *bench, conformance_bits_cases *all);

#endif
