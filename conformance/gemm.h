/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance of backends: what each operator must compute, how far a result may be from it, and
 * random cases to try. It uses Kiln's public interface only. The conversions of kiln/tensor.h are
 * all that it can have in common with a plugin, and the tests hold those against their own.
 * docs/gemm.md derives the bounds.
 *
 * Functions may be called from several threads at once; a case is used by one at a time. */
#ifndef KILN_CONFORMANCE_GEMM_H
#define KILN_CONFORMANCE_GEMM_H

#include <stdbool.h>

#include "kiln/gemm.h"

/* ---- GEMM: the oracle ---- */

/* What a bias gradient must be: rows × columns values; one row, or one per batch entry or group. */
typedef struct conformance_gemm_gradient {
    int64_t rows, columns; /* 0 where the epilogue is no bias gradient */
    double *exact, *bound;
} conformance_gemm_gradient;

/* What a GEMM must give. D has batch × rows × columns elements, contiguous here; where D has the
 * groups as leading dimension, batch counts those. */
typedef struct conformance_gemm_expected {
    int64_t batch, rows, columns;

    /* The result before it is rounded to D's type, but clamped where D's type or KILN_GEMM_SATURATE
     * clamps, and how far a backend's D may be from it. bound is INFINITY for an element about
     * which nothing can be said, because an intermediate value may overflow. With
     * KILN_EPILOGUE_QUANTIZE: the values that are quantised, and their error before that. */
    double *exact, *bound;
    bool *written; /* batch × rows: false for rows that a grouping leaves out; exact is 0 there */
    bool *loose;   /* batch × rows: of those, the ones that group_alignment lets a run overwrite */

    /* With KILN_EPILOGUE_QUANTIZE, batch × rows × scale_columns: each scale lies from low to high.
     * low 0: it may be 1 as well, as of a block without values. high INFINITY: nothing can be said.
     */
    int64_t scale_columns;
    double *scale_low, *scale_high;

    conformance_gemm_gradient gradients[KILN_GEMM_MAX_EPILOGUES];

    /* An index, count or offset is beyond its limit, so that the run returns KILN_CAPACITY. */
    bool exceeded;
} conformance_gemm_expected;

/* Computes a GEMM by plain loops in double (long double where A is f64). Sizes come from the
 * tensors, which are strided and in host memory; A and B are the unpacked ones, with their scales,
 * whatever the descriptor says of packing. Outputs are not touched: only their shapes and types are
 * read. `answer_flags` are those that the backend gave (kiln_plan_info.flags).
 *
 * Fills *expected; free it with conformance_gemm_expected_free. On failure it is empty and *reason
 * says why, in static text: UNSUPPORTED for a descriptor that the oracle does not know, INVALID for
 * tensors that it cannot read, NO_MEMORY. */
kiln_status conformance_gemm_oracle(const kiln_gemm_desc *desc, const kiln_gemm_args *args,
                                    uint32_t answer_flags, conformance_gemm_expected *expected,
                                    const char **reason);

void conformance_gemm_expected_free(conformance_gemm_expected *expected);

/* |measured - exact| / bound, without the half that rounding to an integer may take: at most 1 for
 * a right element. INFINITY when NaN or Inf do not match; 0 for the Inf (of e4m3: NaN) that
 * rounding to D's type may give (unless the GEMM saturates), and where bound is INFINITY. */
double conformance_gemm_ratio(uint32_t d_type, bool saturate, double exact, double bound,
                              double measured);

/* The same for a scale that KILN_EPILOGUE_QUANTIZE found, and for an element with such a scale:
 * `exact` ± `bound` is the value before it is divided, `measured` the element of D, without its
 * scale. */
double conformance_gemm_scale_ratio(uint32_t scale_type, double low, double high, double measured);
double conformance_gemm_quantized_ratio(uint32_t d_type, double exact, double bound, double scale,
                                        double measured);

/* ---- GEMM: random cases ---- */

enum {
    CONFORMANCE_GEMM_TYPES = 25,
    CONFORMANCE_GEMM_LAYOUTS = 4, /* nn, nt, tn, tt */
    CONFORMANCE_GEMM_KINDS = 13,  /* no epilogue, then those of kiln_epilogue_kind */
    CONFORMANCE_GEMM_GROUPINGS = 4,
    /* As many consecutive cases ask for every cell of types × layouts × kinds × groupings once. */
    CONFORMANCE_GEMM_CELLS = CONFORMANCE_GEMM_TYPES * CONFORMANCE_GEMM_LAYOUTS *
                             CONFORMANCE_GEMM_KINDS * CONFORMANCE_GEMM_GROUPINGS,
    /* As many ask for every pair of layout or kind or grouping with any other of the four. */
    CONFORMANCE_GEMM_PAIRS = 400
};

/* How an operand is quantised, by its meaning: elements that share a scale along M or N, and along
 * K. -1 = all; both 0 = chosen by the case. */
typedef struct conformance_gemm_blocks {
    uint32_t scale_type, zero_type;
    int32_t across, along_k;
} conformance_gemm_blocks;

/* Types of A and B that belong together. */
typedef struct conformance_gemm_type {
    const char *name;
    uint32_t a, b; /* NONE: any, chosen by the case */
    conformance_gemm_blocks a_blocks, b_blocks;
} conformance_gemm_type;

extern const conformance_gemm_type conformance_gemm_types[CONFORMANCE_GEMM_TYPES];
extern const char *const conformance_gemm_layouts[CONFORMANCE_GEMM_LAYOUTS];
extern const char *const conformance_gemm_kinds[CONFORMANCE_GEMM_KINDS];
extern const char *const conformance_gemm_groupings[CONFORMANCE_GEMM_GROUPINGS];

/* What is special about a case. */
enum {
    CONFORMANCE_GEMM_SPECIALS = 1,  /* NaN and Inf among the values of A or B */
    CONFORMANCE_GEMM_DENORMALS = 2, /* denormals there */
    CONFORMANCE_GEMM_ZERO_SIZE = 4, /* M, N, K or the batch is 0 */
    CONFORMANCE_GEMM_DYNAMIC = 8,   /* a dimension is dynamic */
    CONFORMANCE_GEMM_PACKED = 16,   /* A or B is */
    CONFORMANCE_GEMM_ALIASED = 32,  /* C is D */
    CONFORMANCE_GEMM_STREAMED = 64, /* on a stream of its own */
    CONFORMANCE_GEMM_WRAPPED = 128, /* on the host: through buffers instead of pointers */
    CONFORMANCE_GEMM_EXTREME = 256, /* a few scales are 0, NaN, or near the ends of their type */
    CONFORMANCE_GEMM_APPROXIMATE = 512, /* a precision other than exact is asked for */
    CONFORMANCE_GEMM_UNREAD_C = 1024,   /* C is there, and NaN, but beta is 0 */
    CONFORMANCE_GEMM_UNREAD_AB = 2048,  /* alpha is 0 */
    CONFORMANCE_GEMM_SATURATING = 4096, /* KILN_GEMM_SATURATE */
    CONFORMANCE_GEMM_BATCHED = 8192,    /* more than one batch entry, no groups */
    CONFORMANCE_GEMM_GAPS = 16384,      /* rows or matrices with gaps, or bases off their element */
    CONFORMANCE_GEMM_DEEP = 32768,      /* sums of integers that f32, or 16 bits, cannot hold */
    CONFORMANCE_GEMM_FEATURES = 16
};

/* A tensor and the memory around it. Every byte that is no element is 0xff, and stays so. */
typedef struct conformance_tensor {
    kiln_tensor tensor; /* data is `memory` */
    uint8_t *memory; /* 64-byte aligned; NULL when the slot is absent or shares another's memory */
    uint8_t *before; /* what the memory held when the case was made */
    int64_t bytes;
} conformance_tensor;

/* Behind the slots of a GEMM: scales and zero points of A and B. */
enum {
    CONFORMANCE_GEMM_SCALE = KILN_GEMM_SLOTS,
    CONFORMANCE_GEMM_ZERO_POINT = KILN_GEMM_SLOTS + 2,
    CONFORMANCE_GEMM_TENSORS = KILN_GEMM_SLOTS + 4
};

typedef struct conformance_gemm_case {
    uint64_t seed;
    int64_t index;
    int type;          /* in conformance_gemm_types */
    uint32_t features; /* CONFORMANCE_GEMM_SPECIALS and so on */
    kiln_gemm_desc desc;
    double alpha, beta;
    int64_t m, n, k, batch; /* of this run; the descriptor holds maxima where it is dynamic */
    int64_t d_columns;      /* n, or half of it behind swiglu */
    bool aliased;           /* C is D */
    bool wrapped;           /* on the host: through buffers instead of pointers */
    bool streamed;          /* on a stream of its own */
    bool violates;          /* see conformance_gemm_case_violate */
    double spread;          /* of ordinary values of A and B */
    conformance_tensor tensors[CONFORMANCE_GEMM_TENSORS];
    conformance_gemm_expected *expected; /* NULL until judged */
} conformance_gemm_case;

/* Case `index` of a seed: equal arguments give equal cases, on every machine. Cell index %
 * CONFORMANCE_GEMM_TYPES, index % CONFORMANCE_GEMM_KINDS (an epilogue that occurs, or none), index
 * % CONFORMANCE_GEMM_LAYOUTS and index / CONFORMANCE_GEMM_LAYOUTS % CONFORMANCE_GEMM_GROUPINGS; all
 * else is random. NULL when memory is exhausted. */
conformance_gemm_case *conformance_gemm_case_create(uint64_t seed, int64_t index);
void conformance_gemm_case_free(conformance_gemm_case *test);

/* The case in one line. */
void conformance_gemm_case_describe(const conformance_gemm_case *test, char *text, size_t size);

/* XXH3-64 of everything that the case asks: descriptor, factors, shapes, strides and the bytes of
 * all tensors. Never 0. */
uint64_t conformance_gemm_case_hash(const conformance_gemm_case *test);

/* Puts an index, count or offset of a grouping beyond its limit: `choice` from 0 on chooses which
 * and how. The run must return KILN_CAPACITY and be right all the same. False, and nothing has
 * changed, when the case has no grouping, or nothing to compute. Before the case is executed. */
bool conformance_gemm_case_violate(conformance_gemm_case *test, uint64_t choice);

/* ---- GEMM: checking a backend ---- */

typedef enum conformance_outcome {
    CONFORMANCE_PASSED = 0,
    CONFORMANCE_DECLINED =
        1, /* the backend says that it does not serve the descriptor; text has its reason */
    CONFORMANCE_FAILED = 2 /* text says what is wrong */
} conformance_outcome;

typedef struct conformance_gemm_result {
    conformance_outcome outcome;
    uint32_t answer_flags;
    int64_t elements;     /* of D, its scales, and gradients */
    int64_t unbounded;    /* of them, those whose bound is INFINITY */
    double largest_ratio; /* of measured error to bound */
    double global; /* 1 - 2 Σxy / Σ(x² + y²) over elements of D, where it is not quantised,
                      that are at least 64 times their bound */
    char text[1024];
} conformance_gemm_result;

/* Runs the case on the plugin `backend` alone, on its first device or the host, and brings the
 * outputs into the case's memory. Packs operands, and unpacks them to compare, as the descriptor
 * says. outcome is PASSED when it ran. */
void conformance_gemm_execute(kiln_runtime *runtime, const char *backend,
                              conformance_gemm_case *test, conformance_gemm_result *result);

/* The same on a device of one's choice: on the host, say, though the plugin has devices. NULL = as
 * conformance_gemm_execute. */
void conformance_gemm_execute_on(kiln_runtime *runtime, kiln_device *device, const char *backend,
                                 conformance_gemm_case *test, conformance_gemm_result *result);

/* Judges the outputs in the case's memory, and that no other byte has changed. `result` is as
 * conformance_gemm_execute left it. */
void conformance_gemm_judge(conformance_gemm_case *test, conformance_gemm_result *result);

/* ---- GEMM: many cases ---- */

/* Which cases: bits by index in the tables above. 0 = any. */
typedef struct conformance_gemm_filter {
    uint32_t types, layouts, groupings;
    uint32_t kinds;    /* at least one of them occurs */
    uint32_t features; /* all of them */
    uint32_t without;  /* none of these features */
} conformance_gemm_filter;

/* Cases by types of A and B, transposes, epilogue kinds that occur, and grouping. */
typedef struct conformance_gemm_cells {
    int64_t count[CONFORMANCE_GEMM_TYPES][CONFORMANCE_GEMM_LAYOUTS][CONFORMANCE_GEMM_KINDS]
                 [CONFORMANCE_GEMM_GROUPINGS];
} conformance_gemm_cells;

/* Begins zeroed; sweeps add to it. */
typedef struct conformance_gemm_summary {
    int64_t passed, declined, failed;
    int64_t elements, unbounded;
    double largest_ratio;
    int64_t largest_ratio_index;
    double type_ratios[CONFORMANCE_GEMM_TYPES]; /* the largest of each */
    double largest_global;
    int64_t features[CONFORMANCE_GEMM_FEATURES]; /* cases that passed, by the feature's bit */
    uint64_t vectors;                            /* of all cases tried, whatever their order */
    conformance_gemm_cells passed_cells, declined_cells;
    char first_failure[1600]; /* "" when none */
    char last_decline[1600];
} conformance_gemm_summary;

/* Cases `first` to `first + count - 1` of a seed. Failed cases are counted, not returned. NOT_FOUND
 * when the runtime has no open plugin `backend`, NO_MEMORY when a case cannot be made. */
kiln_status conformance_gemm_sweep(kiln_runtime *runtime, const char *backend, uint64_t seed,
                                   int64_t first, int64_t count, conformance_gemm_summary *summary);

/* The first `count` cases from `first` on that pass the filter. INVALID when a long search finds
 * none. */
kiln_status conformance_gemm_sweep_of(kiln_runtime *runtime, const char *backend,
                                      const conformance_gemm_filter *filter, uint64_t seed,
                                      int64_t first, int64_t count,
                                      conformance_gemm_summary *summary);

/* The same on a device of one's choice; see conformance_gemm_execute_on. */
kiln_status conformance_gemm_sweep_on(kiln_runtime *runtime, kiln_device *device,
                                      const char *backend, const conformance_gemm_filter *filter,
                                      uint64_t seed, int64_t first, int64_t count,
                                      conformance_gemm_summary *summary);

#endif
