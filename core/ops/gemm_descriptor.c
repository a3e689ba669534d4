/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptor of a GEMM: what contradicts itself is refused, and what means the same gets one
 * form. Which types a product may have is the backends' to say. */
#include "core/ops/gemm.h"

static const uint32_t known_flags = KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B |
                                    KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B | KILN_GEMM_DYNAMIC_M |
                                    KILN_GEMM_DYNAMIC_N | KILN_GEMM_DYNAMIC_K |
                                    KILN_GEMM_DYNAMIC_BATCH | KILN_GEMM_SATURATE;

static kiln_status check_dimension(const char *name, int64_t value)
{
    return value >= 0 ? KILN_OK
                      : kiln_fail(KILN_INVALID, "gemm: %s is %lld; it must not be negative", name,
                                  (long long)value);
}

static kiln_status check_type(const char *name, uint32_t type, bool optional)
{
    if (kiln_type_bits(type) || (optional && type == KILN_TYPE_NONE))
        return KILN_OK;
    return kiln_fail(KILN_INVALID, "gemm: %s is %u, which is not one of kiln_type", name, type);
}

/* An alignment in its canonical form: absent when it promises nothing beyond the element size (a
 * byte for smaller elements), or when there is no operand. */
static kiln_status canonical_alignment(const char *name, uint32_t *alignment, uint32_t type)
{
    if (*alignment & (*alignment - 1))
        return kiln_fail(KILN_INVALID, "gemm: %s is %u; an alignment is a power of two, or 0", name,
                         *alignment);
    if (*alignment == kiln_gemm_promised(0, type) || type == KILN_TYPE_NONE)
        *alignment = 0;
    return KILN_OK;
}

static kiln_status canonical_types(kiln_gemm_desc *desc)
{
    kiln_status status;
    if ((status = check_type("a_type", desc->a_type, false)) != KILN_OK ||
        (status = check_type("b_type", desc->b_type, false)) != KILN_OK ||
        (status = check_type("c_type", desc->c_type, true)) != KILN_OK ||
        (status = check_type("d_type", desc->d_type, false)) != KILN_OK ||
        (status = check_type("accumulator", desc->accumulator, true)) != KILN_OK ||
        (status = canonical_alignment("a_alignment", &desc->a_alignment, desc->a_type)) !=
            KILN_OK ||
        (status = canonical_alignment("b_alignment", &desc->b_alignment, desc->b_type)) !=
            KILN_OK ||
        (status = canonical_alignment("c_alignment", &desc->c_alignment, desc->c_type)) != KILN_OK)
        return status;
    return canonical_alignment("d_alignment", &desc->d_alignment, desc->d_type);
}

/* ---- Quantisation ---- */

static bool is_integer(uint32_t type)
{
    return type == KILN_I8 || type == KILN_U8 || type == KILN_I4 || type == KILN_U4;
}

/* Types whose elements may have scales. */
static bool is_quantisable(uint32_t type)
{
    return is_integer(type) || type == KILN_E4M3 || type == KILN_E5M2 || type == KILN_E2M1;
}

static bool is_scale_type(uint32_t type)
{
    return type == KILN_F32 || type == KILN_F16 || type == KILN_BF16 || type == KILN_E4M3 ||
           type == KILN_UE8M0;
}

static kiln_status check_blocks(char name, const kiln_quantization *quantization, bool used)
{
    for (int i = 0; i < 2; i++) {
        int32_t block = quantization->block[i];
        if (used ? block > 0 || block == -1 : block == 0)
            continue;
        return kiln_fail(KILN_INVALID,
                         used ? "gemm: %c_quantization.block[%d] is %d; it is the number of "
                                "elements that share a scale, or -1 for all of them"
                              : "gemm: %c_quantization.block[%d] is %d, but there is neither a "
                                "scale_type nor a zero_type",
                         name, i, block);
    }
    return KILN_OK;
}

static kiln_status check_quantization(char name, const kiln_quantization *quantization,
                                      uint32_t type)
{
    uint32_t scale = quantization->scale_type, zero = quantization->zero_type;
    bool used = scale || zero;
    kiln_status status = check_blocks(name, quantization, used);
    if (status != KILN_OK || !used)
        return status;
    if (!is_quantisable(type))
        return kiln_fail(KILN_INVALID,
                         "gemm: %c_quantization is set, but %c_type is %s; scales and zero points "
                         "are for e4m3, e5m2, e2m1, i8, u8, i4 and u4",
                         name, name, kiln_type_name(type));
    if ((status = check_type("a scale_type", scale, true)) != KILN_OK ||
        (status = check_type("a zero_type", zero, true)) != KILN_OK)
        return status;
    if (scale && !is_scale_type(scale))
        return kiln_fail(KILN_INVALID,
                         "gemm: %c_quantization.scale_type is %s; it must be f32, %se4m3 or ue8m0",
                         name, kiln_type_name(scale), name == 'd' ? "" : "f16, bf16, ");
    if (zero && (zero != type || !is_integer(type)))
        return kiln_fail(KILN_INVALID,
                         "gemm: %c_quantization.zero_type is %s, but %c_type is %s; zero points "
                         "are for integers and of the same type",
                         name, kiln_type_name(zero), name, kiln_type_name(type));
    return KILN_OK;
}

/* D's scales are what KILN_EPILOGUE_QUANTIZE finds. */
static kiln_status check_d_quantization(const kiln_gemm_desc *desc, bool quantizes)
{
    const kiln_quantization *quantization = &desc->d_quantization;
    bool used = quantization->scale_type || quantization->zero_type;
    kiln_status status = check_quantization('d', quantization, desc->d_type);
    if (status != KILN_OK)
        return status;
    if (used != quantizes)
        return kiln_fail(KILN_INVALID,
                         "gemm: d_quantization and KILN_EPILOGUE_QUANTIZE go together; %s",
                         used ? "the epilogue is missing" : "d_quantization is zeroed");
    if (!used)
        return KILN_OK;
    if (quantization->zero_type ||
        (quantization->scale_type != KILN_F32 && quantization->scale_type != KILN_E4M3 &&
         quantization->scale_type != KILN_UE8M0))
        return kiln_fail(KILN_INVALID,
                         "gemm: d_quantization has scale_type %s and zero_type %s; D has scales of "
                         "f32, e4m3 or ue8m0 and no zero points",
                         kiln_type_name(quantization->scale_type),
                         kiln_type_name(quantization->zero_type));
    if (quantization->block[0] != 1)
        return kiln_fail(KILN_INVALID,
                         "gemm: d_quantization.block[0] is %d; it must be 1, since every row of D "
                         "has scales of its own",
                         quantization->block[0]);
    return KILN_OK;
}

/* ---- Epilogues ---- */

static bool takes_matrix(uint32_t kind)
{
    return kind == KILN_EPILOGUE_RESIDUAL || kind == KILN_EPILOGUE_MULTIPLY;
}

/* The shape of the operand that a kind cannot do without; NONE when it can. */
static uint32_t usual_operand(uint32_t kind)
{
    return takes_matrix(kind)                                                  ? KILN_OPERAND_MATRIX
           : kind == KILN_EPILOGUE_BIAS || kind == KILN_EPILOGUE_BIAS_GRADIENT ? KILN_OPERAND_ROW
                                                                               : KILN_OPERAND_NONE;
}

static bool takes_operand(uint32_t kind, uint32_t operand)
{
    if (operand == KILN_OPERAND_NONE)
        return true; /* of those that need one it has been set */
    if (kind == KILN_EPILOGUE_BIAS_GRADIENT)
        return operand == KILN_OPERAND_ROW;
    if (kind == KILN_EPILOGUE_BIAS || kind == KILN_EPILOGUE_SCALE)
        return operand <= KILN_OPERAND_COLUMN;
    return takes_matrix(kind) && operand == KILN_OPERAND_MATRIX;
}

static kiln_status canonical_operand(const kiln_gemm_desc *desc, kiln_epilogue *epilogue,
                                     uint32_t index)
{
    if (epilogue->operand > KILN_OPERAND_MATRIX)
        return kiln_fail(KILN_UNSUPPORTED,
                         "gemm: epilogue %u has operand shape %u, which is not known", index,
                         epilogue->operand);
    if (epilogue->operand == KILN_OPERAND_NONE)
        epilogue->operand = usual_operand(epilogue->kind);
    if (!takes_operand(epilogue->kind, epilogue->operand))
        return kiln_fail(KILN_INVALID,
                         "gemm: epilogue %u of kind %u cannot take an operand of shape %u", index,
                         epilogue->kind, epilogue->operand);
    if (epilogue->operand == KILN_OPERAND_NONE) {
        if (epilogue->type || epilogue->alignment)
            return kiln_fail(KILN_INVALID,
                             "gemm: epilogue %u has no operand, but a type or alignment of one",
                             index);
        return KILN_OK;
    }
    kiln_status status = check_type("the type of an epilogue's operand", epilogue->type, false);
    if (status != KILN_OK)
        return status;
    uint32_t sums = desc->a_type == KILN_F64 ? KILN_F64 : KILN_F32;
    if (epilogue->kind == KILN_EPILOGUE_BIAS_GRADIENT && epilogue->type != sums)
        return kiln_fail(
            KILN_INVALID, "gemm: epilogue %u sums into %s; a bias gradient of %s is of %s", index,
            kiln_type_name(epilogue->type), kiln_type_name(desc->a_type), kiln_type_name(sums));
    return canonical_alignment("the alignment of an epilogue's operand", &epilogue->alignment,
                               epilogue->type);
}

static kiln_status canonical_constants(kiln_epilogue *epilogue, uint32_t index)
{
    bool clips = epilogue->kind == KILN_EPILOGUE_CLIP;
    bool scales = epilogue->kind == KILN_EPILOGUE_SCALE && epilogue->operand == KILN_OPERAND_NONE;
    bool pairs = epilogue->kind == KILN_EPILOGUE_SWIGLU, takes_p0 = clips || scales || pairs;
    if ((!takes_p0 && epilogue->p0 != 0) || (!clips && epilogue->p1 != 0))
        return kiln_fail(KILN_INVALID, "gemm: epilogue %u of kind %u takes no constants%s", index,
                         epilogue->kind, takes_p0 ? " but p0" : "");
    if (pairs && !(epilogue->p0 >= -1 && epilogue->p0 <= 0x1p53 &&
                   epilogue->p0 == (double)(int64_t)epilogue->p0))
        return kiln_fail(KILN_INVALID,
                         "gemm: epilogue %u takes pieces of p0 = %g columns; it must be a whole "
                         "number, or -1 for half of all",
                         index, epilogue->p0);
    if (pairs && (epilogue->p0 == 0 || epilogue->p0 == 1))
        epilogue->p0 = 0; /* also not -0 */
    if (clips && !(epilogue->p0 <= epilogue->p1))
        return kiln_fail(
            KILN_INVALID,
            "gemm: epilogue %u clips to [%g, %g]; the lower limit must not be above the upper",
            index, epilogue->p0, epilogue->p1);
    if (!clips) /* not -0 */
        epilogue->p1 = 0;
    if (!takes_p0)
        epilogue->p0 = 0;
    return KILN_OK;
}

static kiln_status canonical_epilogue(kiln_gemm_desc *desc, uint32_t index)
{
    kiln_epilogue *epilogue = &desc->epilogues[index];
    if (epilogue->kind == KILN_EPILOGUE_NONE || epilogue->kind > KILN_EPILOGUE_BIAS_GRADIENT)
        return kiln_fail(epilogue->kind ? KILN_UNSUPPORTED : KILN_INVALID,
                         "gemm: epilogue %u has kind %u, which is not known", index,
                         epilogue->kind);
    kiln_status status = canonical_operand(desc, epilogue, index);
    return status == KILN_OK ? canonical_constants(epilogue, index) : status;
}

/* What one epilogue demands of the others and of the product. Pieces that are half of a known N
 * are spelt -1, or 0 where they are single columns. */
static kiln_status canonical_order(kiln_gemm_desc *desc, bool *quantizes)
{
    kiln_epilogue *swiglu = NULL;
    *quantizes = false;
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        if (*quantizes)
            return kiln_fail(KILN_INVALID,
                             "gemm: epilogue %u follows KILN_EPILOGUE_QUANTIZE, which must be last",
                             i);
        *quantizes = desc->epilogues[i].kind == KILN_EPILOGUE_QUANTIZE;
        if (desc->epilogues[i].kind != KILN_EPILOGUE_SWIGLU)
            continue;
        if (swiglu)
            return kiln_fail(KILN_INVALID,
                             "gemm: epilogue %u is a second KILN_EPILOGUE_SWIGLU; one is possible",
                             i);
        swiglu = &desc->epilogues[i];
    }
    if (swiglu && !(desc->head.flags & KILN_GEMM_DYNAMIC_N) &&
        desc->n % (swiglu->p0 > 0 ? 2 * (int64_t)swiglu->p0 : 2))
        return kiln_fail(KILN_INVALID,
                         "gemm: n is %lld, but KILN_EPILOGUE_SWIGLU takes pairs of %lld columns",
                         (long long)desc->n, swiglu->p0 > 0 ? (long long)swiglu->p0 : 1);
    if (swiglu && !(desc->head.flags & KILN_GEMM_DYNAMIC_N)) {
        if (swiglu->p0 > 0 && (double)desc->n == 2 * swiglu->p0)
            swiglu->p0 = -1;
        if (desc->n == 2)
            swiglu->p0 = 0;
    }
    return KILN_OK;
}

static kiln_status canonical_epilogues(kiln_gemm_desc *desc, bool *quantizes)
{
    static const kiln_epilogue absent;
    if (desc->epilogue_count > KILN_GEMM_MAX_EPILOGUES)
        return kiln_fail(KILN_INVALID, "gemm: %u epilogues; at most %d are possible",
                         desc->epilogue_count, KILN_GEMM_MAX_EPILOGUES);
    for (uint32_t i = 0; i < KILN_GEMM_MAX_EPILOGUES; i++) {
        if (i >= desc->epilogue_count) {
            if (memcmp(&desc->epilogues[i], &absent, sizeof absent) != 0)
                return kiln_fail(KILN_INVALID, "gemm: epilogue %u is set, but epilogue_count is %u",
                                 i, desc->epilogue_count);
            continue;
        }
        kiln_status status = canonical_epilogue(desc, i);
        if (status != KILN_OK)
            return status;
    }
    return canonical_order(desc, quantizes);
}

/* ---- Precision and groups ---- */

static kiln_status canonical_precision(kiln_gemm_desc *desc)
{
    if (desc->precision > KILN_PRECISION_AUTO)
        return kiln_fail(KILN_UNSUPPORTED, "gemm: precision %u is not known to this version",
                         desc->precision);
    double most = desc->precision == KILN_PRECISION_AUTO ? 1 : 0;
    if (!(desc->max_rel_error >= 0 && desc->max_rel_error <= most))
        return kiln_fail(KILN_INVALID, "gemm: max_rel_error is %g; %s", desc->max_rel_error,
                         most > 0 ? "it must be from 0 to 1"
                                  : "it is for KILN_PRECISION_AUTO and must be 0 without it");
    if (desc->max_rel_error == 0) {
        desc->max_rel_error = 0; /* not -0 */
        if (desc->precision == KILN_PRECISION_AUTO)
            desc->precision = KILN_PRECISION_EXACT;
    }
    return KILN_OK;
}

static kiln_status canonical_grouping(kiln_gemm_desc *desc)
{
    bool grouped = desc->grouping != KILN_GROUPING_NONE;
    if (desc->grouping > KILN_GROUPING_K)
        return kiln_fail(KILN_UNSUPPORTED, "gemm: grouping %u is not known to this version",
                         desc->grouping);
    if (desc->groups < 0 || (desc->groups > 0) != grouped)
        return kiln_fail(KILN_INVALID, "gemm: grouping %u with %lld groups; give both or neither",
                         desc->grouping, (long long)desc->groups);
    if (desc->group_alignment < 0 || (desc->group_alignment > 0 && !grouped))
        return kiln_fail(KILN_INVALID, "gemm: group_alignment is %lld; %s",
                         (long long)desc->group_alignment,
                         grouped ? "it must not be negative" : "without a grouping it must be 0");
    if (grouped && (desc->batch != 1 || desc->head.flags & KILN_GEMM_DYNAMIC_BATCH))
        return kiln_fail(KILN_INVALID,
                         "gemm: batch is %s%lld; with a grouping it must be 1, and not dynamic",
                         desc->head.flags & KILN_GEMM_DYNAMIC_BATCH ? "dynamic, up to " : "",
                         (long long)desc->batch);
    if ((desc->grouping == KILN_GROUPING_K && desc->k > INT32_MAX) ||
        (desc->grouping == KILN_GROUPING_MASKED && desc->m > INT32_MAX))
        return kiln_fail(KILN_INVALID,
                         "gemm: m is %lld and k is %lld with grouping %u; what GROUPS counts, in "
                         "i32, must not be beyond 2147483647",
                         (long long)desc->m, (long long)desc->k, desc->grouping);
    if (desc->group_alignment == 1)
        desc->group_alignment = 0;
    return KILN_OK;
}

kiln_status kiln_gemm_canonicalise(void *descriptor)
{
    kiln_gemm_desc *desc = descriptor;
    kiln_status status;
    bool quantizes = false;
    if (desc->head.flags & ~known_flags)
        return kiln_fail(KILN_UNSUPPORTED, "gemm: flags %#x are not known to this version",
                         desc->head.flags & ~known_flags);
    if (desc->batch == 0)
        desc->batch = 1;
    if ((status = check_dimension("m", desc->m)) != KILN_OK ||
        (status = check_dimension("n", desc->n)) != KILN_OK ||
        (status = check_dimension("k", desc->k)) != KILN_OK ||
        (status = check_dimension("batch", desc->batch)) != KILN_OK ||
        (status = canonical_types(desc)) != KILN_OK ||
        (status = canonical_precision(desc)) != KILN_OK ||
        (status = canonical_grouping(desc)) != KILN_OK ||
        (status = check_quantization('a', &desc->a_quantization, desc->a_type)) != KILN_OK ||
        (status = check_quantization('b', &desc->b_quantization, desc->b_type)) != KILN_OK ||
        (status = canonical_epilogues(desc, &quantizes)) != KILN_OK)
        return status;
    return check_d_quantization(desc, quantizes);
}
