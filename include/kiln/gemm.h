/* SPDX-License-Identifier: Apache-2.0 */
/* kiln.gemm/1: D = epilogue(alpha * op(A) * op(B) + beta * C), batched or grouped.
 *
 * Matrices are row-major with unit column stride and any row stride that is at least the row. op(A)
 * is M×K: A is stored [M, K], or [K, M] with KILN_GEMM_TRANSPOSE_A; op(B) is K×N: stored [K, N], or
 * [N, K] with KILN_GEMM_TRANSPOSE_B. C is [M, N], and so is D unless an epilogue narrows it. With a
 * batch every tensor has a leading dimension `batch` (strides[0] may be 0 for inputs). A leading
 * dimension of 1, of a batch or of groups, may be left out, and may stand where there is none.
 * Base addresses and strides need no alignment beyond what the descriptor promises; tensors of
 * which it promises nothing (scales, GROUPS, D_SCALE) are aligned to their elements.
 *
 * Meaning, on every backend:
 *   - A and B are both f64; or each is one of f32, f16, bf16, e4m3, e5m2, e2m1 or of i8, u8, i4,
 * u4, in any mix. An element of a quantised operand means (stored - zero point) * scale. C and D
 * are each f32, f16, bf16, e4m3, e5m2, i8 or u8; or f64 where A and B are; or i32 where A and B are
 * integers without scales. D may be e2m1 with KILN_EPILOGUE_QUANTIZE.
 *   - The sum over k accumulates in f64 for f64, and in at least f32 otherwise. Where A and B are
 * both integers it is exact, in i32, over every run of k in which the scales do not change (K up to
 * kiln_gemm_integer_depth, where that cannot overflow). alpha, beta and the epilogues are applied
 * in f32 (f64 for f64), in order, and the result is rounded once to D's type, to nearest even. When
 * D is i32, alpha and beta are applied in f64.
 *   - A result beyond D's range becomes Inf, or NaN in e4m3, which has no Inf; integers saturate,
 * with NaN giving 0.
 *   - alpha and beta are first rounded to the type in which they are applied; 0 means 0 after that.
 * beta = 0 never reads C; alpha = 0 reads neither A nor B, packed or not. K = 0 gives beta*C and
 * the epilogue.
 *   - Zero sizes are valid. Where D has no elements nothing is done, but that bias gradients, which
 * are then sums of no rows, are set to 0. A tensor without elements needs no memory.
 *   - NaN and Inf propagate as IEEE says, through relu and clip too.
 *   - The order of summation depends on types, K, the blocks of scales along K and the device
 * alone, so bits do not change with M, the other rows and columns, the batch, threads or packing
 * (backends that cannot promise this say so in their answer).
 *   - D may be C (same address, type, shape and strides). What a run writes (D, D_SCALE, bias
 * gradients) must otherwise overlap neither what it reads nor another of these.
 *
 * Error bound per element, tested against a loop in double, for f32 accumulation (u = 2^-24) and
 * output unit v (2^-24 f32, 2^-11 f16, 2^-8 bf16):  |D - exact| <= (K + 4) u * (|alpha| Σ|a||b| +
 * |beta||c|) + v |exact|, to first order, without scales, epilogues and subnormals; docs/gemm.md
 * has every term, and what each epilogue adds. */
#ifndef KILN_GEMM_H
#define KILN_GEMM_H

#include "kiln/kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_GEMM "kiln.gemm/1"

enum { KILN_GEMM_MAX_EPILOGUES = 8 };

/* Slots of kiln_gemm_args.head.tensors. */
enum {
    KILN_GEMM_A = 0,
    KILN_GEMM_B = 1,
    KILN_GEMM_C = 2,
    KILN_GEMM_D = 3,
    KILN_GEMM_OPERAND = 4,  /* first of 8: operand of epilogue i is slot 4 + i */
    KILN_GEMM_GROUPS = 12,  /* row → group, counts, or ends: by `grouping` */
    KILN_GEMM_D_SCALE = 13, /* what KILN_EPILOGUE_QUANTIZE finds */
    KILN_GEMM_SLOTS = 14
};

/* Flags of kiln_gemm_desc.head. */
enum {
    KILN_GEMM_TRANSPOSE_A = 1,
    KILN_GEMM_TRANSPOSE_B = 2,
    /* A comes packed by kiln_plan_pack of this plan's backend, at the plan's sizes. A run whose
     * dynamic sizes differ from the blob's is refused, or faults its stream where only the device
     * can read the blob. */
    KILN_GEMM_PACKED_A = 4,
    KILN_GEMM_PACKED_B = 8,
    /* The dimension's value is a maximum; a run's tensors give the actual one. */
    KILN_GEMM_DYNAMIC_M = 16,
    KILN_GEMM_DYNAMIC_N = 32,
    KILN_GEMM_DYNAMIC_K = 64,
    KILN_GEMM_DYNAMIC_BATCH = 128,
    /* Finite results beyond D's range, and Inf in e4m3, become its largest value. */
    KILN_GEMM_SATURATE = 256
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
    /* Pieces of p0 columns in pairs (gate, up): v becomes [M, N/2] with silu(gate) * up, the
     * columns of a pair in column order, and what follows sees N/2 columns. p0 = 0 is 1: every
     * other column a gate; p0 = -1 is N/2: the gates first, then all of up. N is a multiple of
     * 2 p0 (of 2 where p0 is 0 or -1). At most once. */
    KILN_EPILOGUE_SWIGLU = 10,
    /* Last. For each row and each block of d_quantization.block[1] columns: m = the largest finite
     * |v|, the scale s = m / L (L the largest value of D's type: 448 for e4m3, 57344 for e5m2, 6
     * for e2m1, 127 for i8, 255 for u8) rounded to f32, or to e4m3, or up to a power of two for
     * ue8m0, never below 2^-126 (2^-9 for e4m3) nor beyond its type; s = 1 where m = 0. D = v / s,
     * converted with KILN_SATURATE, and s goes into slot D_SCALE. D has at most 8 bits. No operand.
     */
    KILN_EPILOGUE_QUANTIZE = 11,
    /* Σ v over the rows, into the operand, an f32 (f64 for f64) row vector: over the whole batch or
     * all groups when it has rank 1, over each when it has rank 2. v stays. Rows that a grouping
     * leaves out do not count; a sum of none is 0, also when M is 0. */
    KILN_EPILOGUE_BIAS_GRADIENT = 12
} kiln_epilogue_kind;

/* Shape of an epilogue's operand. */
typedef enum kiln_operand_shape {
    KILN_OPERAND_NONE = 0,   /* for BIAS taken as ROW, for RESIDUAL and MULTIPLY as MATRIX */
    KILN_OPERAND_SCALAR = 1, /* [1] */
    KILN_OPERAND_ROW = 2,    /* [N], the same for every row */
    KILN_OPERAND_COLUMN = 3, /* [M], one per row */
    KILN_OPERAND_MATRIX = 4  /* [M, N], with a leading batch where D has one */
} kiln_operand_shape;

/* Frozen. In a batched GEMM a vector of rank 1 is shared by the whole batch, and so is a matrix of
 * rank 2; vectors of rank 2 and matrices of rank 3 have the batch first. The same holds with the
 * groups in place of the batch, but that in a contiguous grouping columns are [M] and matrices
 * [M, N], since there the rows of all groups are one matrix. */
typedef struct kiln_epilogue {
    uint32_t kind;
    uint32_t operand;   /* kiln_operand_shape */
    uint32_t type;      /* kiln_type of the operand: f32, f16, bf16; f64 for f64 GEMM */
    uint32_t alignment; /* as in kiln_gemm_desc */
    double p0;
    double p1;
} kiln_epilogue;

/* How an operand is quantised. Zeroed = not at all. Frozen.
 *
 * A and B, of at most 8 bits an element: the element in stored row r and column c has the scale
 * (and zero point) [r / block[0], c / block[1]] of kiln_tensor.scale (.zero_point), two matrices of
 * shape [⌈rows / block[0]⌉, ⌈columns / block[1]⌉ ] with any strides (unit column stride for types
 * of fewer than 8 bits), with the operand's leading dimension before, or without one: then shared.
 * So for B stored [N, K] {128, 128} is a scale per 128×128 block, {1, -1} one per column of op(B),
 * and {1, 32} one per column and 32 steps of k. A stride may be 0, so that one zero point serves
 * all. Rows and columns count from the start of the tensor, in groupings by K too. The tensor's
 * scale_block says the same (0 for the whole extent).
 *
 * D: only with KILN_EPILOGUE_QUANTIZE, whose blocks are {1, columns}; D_SCALE is a matrix of shape
 * [M, ⌈columns of D / block[1]⌉ ] with D's leading dimension; rows or columns contiguous. */
typedef struct kiln_quantization {
    /* f32, f16, bf16, e4m3, ue8m0; of D f32, e4m3, ue8m0. NONE: scales are 1 */
    uint32_t scale_type;
    uint32_t zero_type; /* NONE, or the operand's own type, an integer. D has none */
    int32_t block[2];   /* elements that share a scale; -1 = the whole extent */
} kiln_quantization;

/* Several products in one. `batch` must be 1; K in a grouping by K, and M in a masked one, are at
 * most INT32_MAX. GROUPS, i32, is read when the work is done, where the
 * tensors are; what lies beyond its limits is clamped (an index that is no group is padding; an end
 * that is less than the one before counts as that one). All else is computed as usual, and the run
 * returns KILN_CAPACITY; of a run on a stream the next kiln_stream_wait does, once, and the stream
 * goes on. */
typedef enum kiln_grouping {
    KILN_GROUPING_NONE = 0,
    /* Row i of op(A), C and D belongs to group GROUPS[i] of [M], in any order; B has the groups as
     * leading dimension. Rows with -1 are padding: nothing of theirs is read or written. */
    KILN_GROUPING_CONTIGUOUS = 1,
    /* A, B, C and D have the groups as leading dimension; of each group's M rows the first
     * GROUPS[g] of [groups] count: the others are padding, neither read nor written. */
    KILN_GROUPING_MASKED = 2,
    /* Group g is the steps of k from GROUPS[g - 1], or 0 for the first, up to GROUPS[g] of
     * [groups], not decreasing: where each ends. C and D have the groups as leading dimension. A
     * group without steps gives beta*C and the epilogue. */
    KILN_GROUPING_K = 3
} kiln_grouping;

/* How far a backend may leave the meaning above for speed: by max_rel_error * (|alpha| Σ|a||b| +
 * |beta||c|) beside the bound. It need not: exact kernels serve every precision. */
typedef enum kiln_precision {
    KILN_PRECISION_EXACT = 0, /* not at all; max_rel_error is 0 */
    KILN_PRECISION_FAST = 1,  /* as AUTO with 0.01; max_rel_error is 0 */
    KILN_PRECISION_AUTO = 2   /* as far as max_rel_error, from 0 to 1, allows; 0 is EXACT */
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
     * this power of two. 0 = the element size, or a byte. */
    uint32_t a_alignment, b_alignment, c_alignment, d_alignment;
    uint32_t accumulator; /* kiln_type; 0 = as documented above */
    uint32_t precision;   /* kiln_precision */
    double max_rel_error; /* for KILN_PRECISION_AUTO */
    uint32_t grouping;    /* kiln_grouping */
    uint32_t epilogue_count;
    int64_t groups;
    /* Promise. Contiguous: each block of this many rows, counted from row 0, holds rows of one
     * group and then padding, or padding alone. K: every end is a multiple. In return, padding
     * behind rows of a group in such a block (masked: from the count to the next multiple, or M)
     * may be read, and of D and D_SCALE overwritten with anything, so that a kernel can store whole
     * tiles. 0 or 1 = none. */
    int64_t group_alignment;
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
KILN_STATIC_ASSERT(sizeof(kiln_gemm_desc) == 8 + 4 * 8 + 8 * 4 + 8 + 8 + 8 + 8 + 8 + 3 * 16 +
                                                 KILN_GEMM_MAX_EPILOGUES * 32,
                   "a descriptor has no padding");

/* The largest K at which no sum of products of integers can overflow i32, between two changes of
 * scales: by the largest magnitude of an element less its zero point. Without scales 131,071 for
 * i8, 65,793 for u8 and i8. INT64_MAX where A or B is no integer, and where every block of scales
 * is short enough. */
static inline int64_t kiln_gemm_integer_depth(const kiln_gemm_desc *desc)
{
    int64_t limit = INT32_MAX, run = INT64_MAX;
    for (int i = 0; i < 2; i++) {
        const kiln_quantization *quantization = i ? &desc->b_quantization : &desc->a_quantization;
        bool zero = quantization->zero_type != KILN_TYPE_NONE;
        uint32_t transpose = i ? KILN_GEMM_TRANSPOSE_B : KILN_GEMM_TRANSPOSE_A;
        int32_t block = quantization->block[(i == 0) != ((desc->head.flags & transpose) != 0)];
        if (quantization->scale_type != KILN_TYPE_NONE && block > 0 && block < run)
            run = block;
        switch (i ? desc->b_type : desc->a_type) {
        case KILN_I8:
            limit /= zero ? 255 : 128;
            break;
        case KILN_U8:
            limit /= 255;
            break;
        case KILN_I4:
            limit /= zero ? 15 : 8;
            break;
        case KILN_U4:
            limit /= 15;
            break;
        default:
            return INT64_MAX;
        }
    }
    return run <= limit ? INT64_MAX : limit;
}

/* Columns of a piece of KILN_EPILOGUE_SWIGLU, which makes `columns` of twice as many. */
static inline int64_t kiln_gemm_piece(const kiln_epilogue *swiglu, int64_t columns)
{
    return swiglu->p0 < 0 ? columns : swiglu->p0 > 0 ? (int64_t)swiglu->p0 : 1;
}

/* alpha or beta of a run as it is applied, and compared with 0. */
static inline double kiln_gemm_factor(const kiln_gemm_desc *desc, double value)
{
    /* volatile: gcc 12 leaves the rounding out where it joins two of these. */
    volatile float narrow = (float)value;
    bool wide = desc->a_type == KILN_F64 || desc->d_type == KILN_I32;
    return wide ? value : (double)narrow;
}

/* What a tensor's scale and zero_point say, as a descriptor says it. */
static inline kiln_quantization kiln_tensor_quantization(const kiln_tensor *tensor)
{
    kiln_quantization quantization = {KILN_TYPE_NONE, KILN_TYPE_NONE, {0, 0}};
    if (!tensor->scale && !tensor->zero_point)
        return quantization;
    quantization.scale_type = tensor->scale ? tensor->scale->type : (uint32_t)KILN_TYPE_NONE;
    quantization.zero_type =
        tensor->zero_point ? tensor->zero_point->type : (uint32_t)KILN_TYPE_NONE;
    for (int i = 0; i < 2; i++) /* what does not fit is refused as negative */
        quantization.block[i] = tensor->scale_block[i] == 0 ? -1
                                : tensor->scale_block[i] > 0 && tensor->scale_block[i] <= INT32_MAX
                                    ? (int32_t)tensor->scale_block[i]
                                    : INT32_MIN;
    return quantization;
}

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
    desc->a_quantization = kiln_tensor_quantization(a);
    desc->b_quantization = kiln_tensor_quantization(b);
}

/* Fills a descriptor from tensors (c may be NULL) and flags. M is made dynamic with its next power
 * of two as maximum, so that calls with many values of M share few plans. Add epilogues afterwards,
 * and n where SWIGLU makes D narrower. Not for groupings. */
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
