/* SPDX-License-Identifier: Apache-2.0 */
/* Random cases that a backend serves. One that serves little of what there is declines nearly every
 * random case: these are made simpler, in one respect after the other, until it does not. */
#ifndef KILN_CONFORMANCE_PLUGIN_GEMM_NEAR_H
#define KILN_CONFORMANCE_PLUGIN_GEMM_NEAR_H

#include "conformance/plugin/op/gemm_plain.h"

/* In what respects a random case becomes like the form that is served. */
enum {
    CONFORMANCE_EASE_EPILOGUES = 1, /* there are none */
    CONFORMANCE_EASE_C = 2,         /* nor is C */
    CONFORMANCE_EASE_OPTIONS = 4,   /* no saturation, no packed operand */
    CONFORMANCE_EASE_FIXED = 8,     /* nothing is dynamic */
    CONFORMANCE_EASE_PRECISION = 16,
    CONFORMANCE_EASE_LAYOUT = 32,  /* the transposes */
    CONFORMANCE_EASE_OUTPUT = 64,  /* the type of D */
    CONFORMANCE_EASE_PLACES = 128, /* no gaps between rows, and bases aligned */
    CONFORMANCE_EASE_SIZES = 256,  /* multiples of the form's units */
    CONFORMANCE_EASE_BLOCKS = 512, /* scales by the blocks that the types say */
    CONFORMANCE_EASE_BATCH = 1024, /* one matrix, or three groups */
    CONFORMANCE_EASE_ALL = 2047,
    /* Not for being served: nothing but ordinary numbers, and alpha is not 0. */
    CONFORMANCE_EASE_VALUES = 2048
};

/* What is wished of a case. Zero = as it comes. */
typedef struct conformance_gemm_wish {
    const conformance_plain_types *form; /* NULL = not known: nothing becomes easier */
    uint32_t ease;
    int64_t m, n, k;   /* with CONFORMANCE_EASE_SIZES: these, or the next multiples of the unit */
    uint32_t epilogue; /* with CONFORMANCE_EASE_EPILOGUES: this one alone */
    uint32_t d_type;   /* with that being KILN_EPILOGUE_QUANTIZE */
    int64_t batch;     /* with CONFORMANCE_EASE_BATCH and without groups */
} conformance_gemm_wish;

/* Case `index` of a seed with a wish. NULL when the plugin declines it, and `reason` has its words;
 * or when memory is exhausted, and `reason` is "". */
conformance_gemm_case *conformance_gemm_near(const conformance_session *session, uint64_t seed,
                                             int64_t index, const conformance_gemm_wish *wish,
                                             char reason[256]);

/* The first index, from `first` on, of a case of a type and a grouping. */
int64_t conformance_gemm_index(int64_t first, int type, uint32_t grouping);

/* What many cases came to, by types of A and B and by grouping. */
typedef struct conformance_gemm_tally {
    const conformance_session *session;
    kiln_device *device; /* on which they run */
    uint64_t seed;
    int64_t tried, declined, passed, failed;
    int64_t served[CONFORMANCE_GEMM_TYPES][CONFORMANCE_GEMM_GROUPINGS];
    int64_t next[CONFORMANCE_GEMM_TYPES][CONFORMANCE_GEMM_GROUPINGS]; /* index to go on with */
    int64_t elements, unbounded;
    double largest_ratio;
    int64_t largest_index;
    uint64_t vectors;
    char first_failure[1000], last_decline[1000];
} conformance_gemm_tally;

/* Runs and judges a case, and frees it. */
conformance_outcome conformance_gemm_tally_case(conformance_gemm_tally *tally,
                                                conformance_gemm_case *test);

/* Tries cases of a type and a grouping until `wanted` of them were served: more and more of them
 * like `form`, NULL where none is known. Gives up at a failure, or after many that were declined.
 * False when memory is exhausted. */
bool conformance_gemm_tally_until(conformance_gemm_tally *tally, int type, uint32_t grouping,
                                  const conformance_plain_types *form, int64_t wanted);

#endif
