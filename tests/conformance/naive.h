/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that computes GEMM as its header says it, operation by operation in f32 (f64 for f64),
 * without thought for speed: to hold the oracle and its bounds against arithmetic that rounds at
 * every step, and to make the mistakes that the checker must find. It packs nothing. */
#ifndef TESTS_CONFORMANCE_NAIVE_H
#define TESTS_CONFORMANCE_NAIVE_H

#include "kiln/plugin.h"

/* Mistakes to make, by the option "mistake". */
/* clang-format off */
#define NAIVE_MISTAKES(X)                                                              \
    X(NONE, "none")                                                                    \
    X(SWAPPED_PAIR, "swapped-pair")         /* gate and up */                          \
    X(WRONG_GROUP, "wrong-group")           /* B of the group before */                \
    X(WRONG_SCALE, "wrong-scale")           /* of A: the first block's for all */      \
    X(NO_ZERO_POINT, "no-zero-point")       /* of B */                                 \
    X(SCALE_CODE, "scale-code")             /* scales of D that are slightly large */  \
    X(UNSCALED_D, "unscaled-d")             /* elements of D are not divided */        \
    X(ROUNDED_DOWN, "rounded-down")         /* f16 and bf16 are rounded towards 0 */   \
    X(GRADIENT_MISSES, "gradient-misses")   /* the last row of each group */           \
    X(GRADIENT_SHARED, "gradient-shared")   /* the first entry's has all others' too */ \
    X(WRITES_PADDING, "writes-padding")     /* zeros into rows that are left out */    \
    X(ROW_TOO_MANY, "row-too-many")         /* of a masked group */                    \
    X(STEP_TOO_MANY, "step-too-many")       /* of k, of a group by K */                \
    X(ONE_SUM, "one-sum")                   /* integers are summed in f32 */           \
    X(SILENT, "silent")                     /* groups beyond their limits */           \
    X(BROADCAST_VECTOR, "broadcast-vector") /* vectors are those of entry 0 */
/* clang-format on */

enum naive_mistake {
#define NAIVE_ENUM(id, name) NAIVE_##id,
    NAIVE_MISTAKES(NAIVE_ENUM)
#undef NAIVE_ENUM
        NAIVE_MISTAKE_COUNT
};

extern const char *const naive_mistake_names[NAIVE_MISTAKE_COUNT];

/* For kiln_plugin_register("naive", naive_entry). Options: order (scaled-elements: every element is
 * scaled first; scaled-sums: sums are, by one scale after the other; joint-scales: by their
 * product), mistake. */
const kiln_plugin *naive_entry(int64_t host_abi_minor);

#endif
