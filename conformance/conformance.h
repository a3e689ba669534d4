/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance of backends: what each operator must compute, how far a result may be from it, and
 * random cases to try. It uses Kiln's public interface only and shares no code with any plugin.
 * docs/gemm.md derives the bounds.
 *
 * Functions may be called from several threads at once; a case is used by one at a time. */
#ifndef KILN_CONFORMANCE_H
#define KILN_CONFORMANCE_H

#include <stdbool.h>

#include "kiln/gemm.h"

/* ---- GEMM: the oracle ---- */

/* Computes a GEMM by plain loops in double (long double where A is f64). `exact` and `bound`
 * receive batch × M × N values, contiguous: the result before it is rounded to D's type, but
 * clamped where D's type or KILN_GEMM_SATURATE clamps, and how far a backend's D may be from it.
 * bound is INFINITY for an element about which nothing can be said, because an intermediate value
 * may overflow.
 *
 * Sizes come from the tensors, which are strided and in host memory; A and B are the unpacked ones
 * whatever the descriptor says of packing. D is not touched: only its shape and type are read.
 * `answer_flags` are those that the backend gave (kiln_plan_info.flags). On failure *reason says
 * why, in static text: UNSUPPORTED for a descriptor that the oracle does not know, INVALID for
 * tensors that it cannot read, NO_MEMORY. */
kiln_status conformance_gemm_oracle(const kiln_gemm_desc *desc, const kiln_gemm_args *args,
                                    uint32_t answer_flags, double *exact, double *bound,
                                    const char **reason);

/* |measured - exact| / bound, without the half that rounding to an integer may take: at most 1 for
 * a right element. INFINITY when NaN or Inf do not match; 0 for an Inf that rounding to D's type
 * may give (unless the GEMM saturates), and where bound is INFINITY. */
double conformance_gemm_ratio(uint32_t d_type, bool saturate, double exact, double bound,
                              double measured);

/* ---- GEMM: random cases ---- */

/* A tensor and the memory around it. Every byte that is no element is 0xff, and stays so. */
typedef struct conformance_tensor {
    kiln_tensor tensor; /* data is `memory` */
    uint8_t *memory; /* 64-byte aligned; NULL when the slot is absent or shares another's memory */
    uint8_t *before; /* what the memory held when the case was made */
    int64_t bytes;
} conformance_tensor;

enum { CONFORMANCE_GEMM_TENSORS = KILN_GEMM_OPERAND + KILN_GEMM_MAX_EPILOGUES };

typedef struct conformance_gemm_case {
    uint64_t seed;
    int64_t index;
    kiln_gemm_desc desc;
    double alpha, beta;
    int64_t m, n, k, batch; /* of this run; the descriptor holds maxima where it is dynamic */
    bool aliased;           /* C is D */
    bool wrapped;           /* on the host: through buffers instead of pointers */
    bool streamed;          /* on a stream of its own */
    conformance_tensor tensors[CONFORMANCE_GEMM_TENSORS];
    double *exact, *bound; /* NULL until judged */
} conformance_gemm_case;

/* Case `index` of a seed: equal arguments give equal cases. Types, layouts and one of the epilogues
 * go round, so that any 200 consecutive cases ask for every cell at least once. NULL when memory is
 * exhausted. */
conformance_gemm_case *conformance_gemm_case_create(uint64_t seed, int64_t index);
void conformance_gemm_case_free(conformance_gemm_case *test);

/* The case in one line. */
void conformance_gemm_case_describe(const conformance_gemm_case *test, char *text, size_t size);

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
    int64_t elements;
    int64_t unbounded;    /* of them, those whose bound is INFINITY */
    double largest_ratio; /* of measured error to bound */
    double global; /* 1 - 2 Σxy / Σ(x² + y²) over elements that are at least 64 times their bound */
    char text[1024];
} conformance_gemm_result;

/* Runs the case on the plugin `backend` alone, on its first device or the host, and brings D into
 * the case's memory. Packs operands, and unpacks them to compare, as the descriptor says. outcome
 * is PASSED when it ran. */
void conformance_gemm_execute(kiln_runtime *runtime, const char *backend,
                              conformance_gemm_case *test, conformance_gemm_result *result);

/* Judges D in the case's memory, and that no other byte has changed. `result` is as
 * conformance_gemm_execute left it. */
void conformance_gemm_judge(conformance_gemm_case *test, conformance_gemm_result *result);

/* ---- GEMM: many cases ---- */

enum {
    CONFORMANCE_GEMM_TYPES = 5,   /* f64, f32, f16, bf16, i8 */
    CONFORMANCE_GEMM_LAYOUTS = 4, /* nn, nt, tn, tt */
    CONFORMANCE_GEMM_KINDS = 10,  /* no epilogue, then kiln_epilogue_kind from BIAS to CLIP */
    CONFORMANCE_GEMM_GROUPINGS = 1
};

/* Cases by A's type, transposes, epilogue kinds that occur, and grouping. */
typedef struct conformance_gemm_cells {
    int64_t count[CONFORMANCE_GEMM_TYPES][CONFORMANCE_GEMM_LAYOUTS][CONFORMANCE_GEMM_KINDS]
                 [CONFORMANCE_GEMM_GROUPINGS];
} conformance_gemm_cells;

extern const uint32_t conformance_gemm_types[CONFORMANCE_GEMM_TYPES];
extern const char *const conformance_gemm_layouts[CONFORMANCE_GEMM_LAYOUTS];
extern const char *const conformance_gemm_kinds[CONFORMANCE_GEMM_KINDS];

/* Begins zeroed; sweeps add to it. */
typedef struct conformance_gemm_summary {
    int64_t passed, declined, failed;
    int64_t elements, unbounded;
    double largest_ratio;
    int64_t largest_ratio_index;
    double largest_global;
    conformance_gemm_cells passed_cells, declined_cells;
    char first_failure[1600]; /* "" when none */
    char last_decline[1600];
} conformance_gemm_summary;

/* Cases `first` to `first + count - 1` of a seed. Failed cases are counted, not returned. NOT_FOUND
 * when the runtime has no open plugin `backend`, NO_MEMORY when a case cannot be made. */
kiln_status conformance_gemm_sweep(kiln_runtime *runtime, const char *backend, uint64_t seed,
                                   int64_t first, int64_t count, conformance_gemm_summary *summary);

#endif
