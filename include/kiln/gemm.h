/* SPDX-License-Identifier: Apache-2.0 */
/* kiln.gemm/1: D = epilogue(alpha * op(A) * op(B) + beta * C), batched.
 *
 * Matrices are row-major with unit column stride and any row stride that is at least the row. op(A)
 * is M×K: A is stored [M, K], or [K, M] with KILN_GEMM_TRANSPOSE_A; op(B) is K×N: stored [K, N], or
 * [N, K] with KILN_GEMM_TRANSPOSE_B. C and D are [M, N]. With a batch every tensor has a leading
 * dimension `batch` (strides[0] may be 0 for inputs); without one (batch 1) rank 2 and rank 3 with
 * a leading 1 are both accepted. Base addresses and strides need no alignment beyond what the
 * descriptor promises.
 *
 * Meaning, on every backend:
 *   - The sum over k accumulates in f64 for f64, at least f32 for f32, f16 and bf16, and exactly in
 * i32 for i8 (K up to 131,071, where it cannot overflow). alpha, beta and the epilogues are applied
 * in f32 (f64 for f64), in order, and the result is rounded once to D's type, to nearest even;
 * integers saturate. When D is i32, alpha and beta are applied in f64.
 *   - beta = 0 never reads C; alpha = 0 reads neither A nor B. K = 0 gives beta*C and the epilogue.
 * Zero sizes are valid.
 *   - NaN and Inf propagate as IEEE says, through relu and clip too.
 *   - The order of summation depends on types, K and the device alone, so bits do not change with
 * M, the other rows and columns, the batch, threads or packing (backends that cannot promise this
 * say so in their answer).
 *   - D may be C (same address and strides) but must not overlap A, B or an epilogue operand.
 *
 * Error bound per element, tested against a loop in double, for f32 accumulation (u = 2^-24) and
 * output unit v (2^-24 f32, 2^-11 f16, 2^-8 bf16):  |D - exact| <= (K + 4) u * (|alpha| Σ|a||b| +
 * |beta||c|) + v |exact|, to first order, without epilogues and subnormals; docs/gemm.md has every
 * term, and what each epilogue adds.
 *
 * Declared for backends to come, and declined by all of this version: the epilogues from SWIGLU on,
 * quantised operands, groupings, and precisions other than EXACT. */
#ifndef KILN_GEMM_H
#define KILN_GEMM_H

#include "kiln/kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_GEMM "kiln.gemm/1"

enum {
    KILN_GEMM_MAX_EPILOGUES = 8,
    KILN_GEMM_MAX_I8_K = 131071 /* 131,072 * 128 * 128 = 2^31 */
};

/* Slots of kiln_gemm_args.head.tensors. */
enum {
    KILN_GEMM_A = 0,
    KILN_GEMM_B = 1,
    KILN_GEMM_C = 2,
    KILN_GEMM_D = 3,
    KILN_GEMM_OPERAND = 4, /* first of 8: operand of epilogue i is slot 4 + i */
    KILN_GEMM_GROUPS = 12, /* row → group, counts, or K offsets: by `grouping` */
    KILN_GEMM_D_SCALE = 13,
    KILN_GEMM_SLOTS = 14
};

/* Flags of kiln_gemm_desc.head. */
enum {
    KILN_GEMM_TRANSPOSE_A = 1,
    KILN_GEMM_TRANSPOSE_B = 2,
    KILN_GEMM_PACKED_A = 4, /* A comes packed by kiln_plan_pack of this plan's backend */
    KILN_GEMM_PACKED_B = 8,
    /* The dimension's value is a maximum; a run's tensors give the actual one. */
    KILN_GEMM_DYNAMIC_M = 16,
    KILN_GEMM_DYNAMIC_N = 32,
    KILN_GEMM_DYNAMIC_K = 64,
    KILN_GEMM_DYNAMIC_BATCH = 128,
    KILN_GEMM_SATURATE = 256 /* finite results beyond D's range become its largest value */
};

/* Steps after alpha and beta, each v = f(v). x is the operand. erf-gelu: v/2 (1 + erf(v/√2));
 * tanh-gelu: Hendrycks and Gimpel, arXiv 1606.08415, v/2 (1 + tanh(√(2/π)(v + 0.044715 v³))); silu:
 * v / (1 + e^-v). */
typedef enum kiln_epilogue_kind {
    KILN_EPILOGUE_NONE = 0,
    KILN_EPILOGUE_BIAS = 1, /* v + x, x a row vector [N], a column vector [M], or a scalar [1] */
    KILN_EPILOGUE_RELU = 2, /* max(v, 0), NaN stays */
    KILN_EPILOGUE_GELU_ERF = 3,  /* -Inf gives -0 */
    KILN_EPILOGUE_GELU_TANH = 4, /* -Inf gives -0 */
    KILN_EPILOGUE_SILU = 5,      /* -Inf gives -0 */
    KILN_EPILOGUE_RESIDUAL = 6,  /* v + x, x a matrix [M, N] */
    KILN_EPILOGUE_MULTIPLY = 7,  /* v * x, x a matrix [M, N] */
    KILN_EPILOGUE_SCALE = 8,     /* v * p0, or v * x with x a row vector, column vector or scalar */
    KILN_EPILOGUE_CLIP = 9,      /* clamped to [p0, p1], p0 <= p1; NaN stays */
    KILN_EPILOGUE_SWIGLU = 10,   /* columns in pairs (gate, up): silu(gate) * up; D is [M, N/2] */
    KILN_EPILOGUE_QUANTIZE =
        11, /* last: scale per row and 128 columns from the block's largest magnitude */
    KILN_EPILOGUE_BIAS_GRADIENT = 12 /* column sums into the operand */
} kiln_epilogue_kind;

/* Shape of an epilogue's operand. */
typedef enum kiln_operand_shape {
    KILN_OPERAND_NONE = 0,   /* for BIAS taken as ROW, for RESIDUAL and MULTIPLY as MATRIX */
    KILN_OPERAND_SCALAR = 1, /* [1] */
    KILN_OPERAND_ROW = 2,    /* [N], the same for every row */
    KILN_OPERAND_COLUMN = 3, /* [M], one per row */
    KILN_OPERAND_MATRIX = 4  /* [M, N], with a leading batch where D has one */
} kiln_operand_shape;

/* Frozen. In a batched GEMM a vector is shared by the whole batch, and so is a matrix of rank 2;
 * one of rank 3 has the batch before its rows. */
typedef struct kiln_epilogue {
    uint32_t kind;
    uint32_t operand;   /* kiln_operand_shape */
    uint32_t type;      /* kiln_type of the operand: f32, f16, bf16; f64 for f64 GEMM */
    uint32_t alignment; /* as in kiln_gemm_desc */
    double p0;
    double p1;
} kiln_epilogue;

/* How an operand is quantised: blocks of scale_block[0] × scale_block[1] stored elements share a
 * scale. Zero = none. Frozen. */
typedef struct kiln_quantization {
    uint32_t scale_type;
    uint32_t zero_type;
    int32_t block[2]; /* -1 = the whole extent */
} kiln_quantization;

typedef enum kiln_grouping {
    KILN_GROUPING_NONE = 0,
    KILN_GROUPING_CONTIGUOUS = 1, /* GROUPS: i32 [M], row → group, -1 = padding */
    KILN_GROUPING_MASKED = 2, /* GROUPS: i32 [groups], valid rows of each group's fixed capacity */
    KILN_GROUPING_K = 3       /* GROUPS: i64 [groups + 1], offsets into K */
} kiln_grouping;

/* How far a backend may leave the meaning above for speed. */
typedef enum kiln_precision {
    KILN_PRECISION_EXACT = 0,
    KILN_PRECISION_FAST = 1,
    KILN_PRECISION_AUTO = 2
} kiln_precision;

/* Zeroed means plain. No pointers, no padding. */
typedef struct kiln_gemm_desc {
    kiln_op_head head;
    int64_t m, n, k; /* of op(A) op(B); maxima where dynamic */
    int64_t batch;   /* 0 is taken as 1 (an empty batch: dynamic, and a run with 0) */
    uint32_t a_type, b_type;
    uint32_t c_type; /* KILN_TYPE_NONE: no C, beta must be 0 */
    uint32_t d_type;
    /* Promise about each operand: its base address and all its strides in bytes are multiples of
     * this power of two. 0 = the element size. */
    uint32_t a_alignment, b_alignment, c_alignment, d_alignment;
    uint32_t accumulator; /* kiln_type; 0 = as documented above */
    uint32_t precision;   /* kiln_precision */
    double max_rel_error; /* for KILN_PRECISION_AUTO */
    uint32_t grouping;    /* kiln_grouping */
    uint32_t epilogue_count;
    int64_t groups;
    kiln_quantization a_quantization, b_quantization, d_quantization;
    kiln_epilogue epilogues[KILN_GEMM_MAX_EPILOGUES];
} kiln_gemm_desc;

/* Arguments of a run: the slots above, then the factors. */
typedef struct kiln_gemm_args {
    kiln_args_head head;
    double alpha;
    double beta;
} kiln_gemm_args;

KILN_STATIC_ASSERT(sizeof(kiln_epilogue) == 32 && sizeof(kiln_quantization) == 16,
                   "structs that stand in arrays are frozen");
KILN_STATIC_ASSERT(sizeof(kiln_gemm_desc) ==
                       8 + 4 * 8 + 8 * 4 + 8 + 8 + 8 + 8 + 3 * 16 + KILN_GEMM_MAX_EPILOGUES * 32,
                   "a descriptor has no padding");

/* The largest power of two, at most 64, that divides a tensor's address and strides in bytes; the
 * offset in its buffer where the host cannot address it. */
static inline uint32_t kiln_tensor_alignment(const kiln_tensor *tensor)
{
    uint64_t bits = (uint64_t)tensor->byte_offset | 64, strides = 0;
    /* Memory that a buffer wraps may begin anywhere. */
    bits |= (uint64_t)(uintptr_t)(tensor->buffer ? kiln_buffer_host(tensor->buffer) : tensor->data);
    for (uint32_t i = 0; i + 1 < tensor->rank && i < KILN_MAX_RANK; i++)
        strides |= (uint64_t)tensor->strides[i];
    bits |= strides * (uint64_t)kiln_type_bits(tensor->type) / 8;
    return (uint32_t)(bits & (~bits + 1));
}

static inline int64_t kiln_round_up_pow2(int64_t value)
{
    uint64_t bits = value > 1 ? (uint64_t)value - 1 : 0;
#if defined(__GNUC__)
    return bits ? (int64_t)(2ull << (63 - __builtin_clzll(bits))) : 1;
#else
    for (int shift = 1; shift < 64; shift *= 2)
        bits |= bits >> shift;
    return (int64_t)(bits + 1);
#endif
}

/* The part of kiln_gemm_describe before the epilogues, whose struct_size ends there: what is
 * missing counts as zero. */
static inline void kiln_gemm_describe_plain(kiln_gemm_desc *desc, uint32_t flags,
                                            const kiln_tensor *a, const kiln_tensor *b,
                                            const kiln_tensor *c, const kiln_tensor *d)
{
    /* A rank that is none is refused by the run. */
    uint32_t last = d->rank - 1 < KILN_MAX_RANK ? d->rank - 1 : 0, row = last ? last - 1 : 0;
    uint32_t a_last = a->rank - 1 < KILN_MAX_RANK ? a->rank - 1 : 0,
             a_row = a_last ? a_last - 1 : 0;
    memset(desc, 0, offsetof(kiln_gemm_desc, epilogues));
    desc->head.struct_size = (uint32_t)offsetof(kiln_gemm_desc, epilogues);
    desc->head.flags = flags | KILN_GEMM_DYNAMIC_M;
    desc->m = kiln_round_up_pow2(d->shape[row]);
    desc->n = d->shape[last];
    desc->k = a->shape[flags & KILN_GEMM_TRANSPOSE_A ? a_row : a_last];
    desc->batch = d->rank == 3 ? d->shape[0] : 1;
    if (desc->batch == 0) {
        desc->batch = 1;
        desc->head.flags |= KILN_GEMM_DYNAMIC_BATCH;
    }
    desc->a_type = a->type;
    desc->b_type = b->type;
    desc->c_type = c ? c->type : (uint32_t)KILN_TYPE_NONE;
    desc->d_type = d->type;
    desc->a_alignment = kiln_tensor_alignment(a);
    desc->b_alignment = kiln_tensor_alignment(b);
    desc->c_alignment = c ? kiln_tensor_alignment(c) : 0;
    desc->d_alignment = kiln_tensor_alignment(d);
}

/* Fills a descriptor from tensors (c may be NULL) and flags. M is made dynamic with its next power
 * of two as maximum, so that calls with many values of M share few plans. Add epilogues afterwards.
 */
static inline void kiln_gemm_describe(kiln_gemm_desc *desc, uint32_t flags, const kiln_tensor *a,
                                      const kiln_tensor *b, const kiln_tensor *c,
                                      const kiln_tensor *d)
{
    kiln_gemm_describe_plain(desc, flags, a, b, c, d);
    memset(desc->epilogues, 0, sizeof desc->epilogues);
    desc->head.struct_size = sizeof *desc;
}

/* D = alpha op(A) op(B) + beta C in one call: plans through the cache, then runs. `flags` are the
 * transposes. c may be NULL when beta is 0. Streams, errors and threads as kiln_plan_run. For
 * epilogues, fill a descriptor and use kiln_call or a held plan. */
static inline kiln_status kiln_gemm(kiln_runtime *runtime, kiln_stream *stream, uint32_t flags,
                                    double alpha, const kiln_tensor *a, const kiln_tensor *b,
                                    double beta, const kiln_tensor *c, const kiln_tensor *d)
{
    kiln_gemm_desc desc;
    kiln_gemm_describe_plain(&desc, flags, a, b, c, d);
    kiln_tensor tensors[4];
    tensors[KILN_GEMM_A] = *a;
    tensors[KILN_GEMM_B] = *b;
    if (c)
        tensors[KILN_GEMM_C] = *c;
    else
        memset(&tensors[KILN_GEMM_C], 0, sizeof(kiln_tensor));
    tensors[KILN_GEMM_D] = *d;
    kiln_gemm_args args = {{(uint32_t)sizeof(kiln_gemm_args), 4, tensors}, alpha, beta};
    return kiln_call(runtime, KILN_GEMM, &desc.head, stream, &args.head);
}

#ifdef __cplusplus
}
#endif
#endif
