/* SPDX-License-Identifier: Apache-2.0 */
/* kiln.gemm/1: its canonical descriptor. */
#include <stdio.h>

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

/* An alignment in its canonical form: absent when it promises nothing beyond the element size. */
static kiln_status canonical_alignment(const char *name, uint32_t *alignment, uint32_t type)
{
    uint32_t element = (uint32_t)(kiln_type_bits(type) + 7) / 8;
    if (*alignment & (*alignment - 1))
        return kiln_fail(KILN_INVALID, "gemm: %s is %u; an alignment is a power of two, or 0", name,
                         *alignment);
    if (*alignment == element)
        *alignment = 0;
    return KILN_OK;
}

static bool takes_operand(uint32_t kind)
{
    return kind == KILN_EPILOGUE_BIAS || kind == KILN_EPILOGUE_RESIDUAL ||
           kind == KILN_EPILOGUE_MULTIPLY || kind == KILN_EPILOGUE_BIAS_GRADIENT;
}

static kiln_status canonical_epilogue(kiln_epilogue *epilogue, uint32_t index)
{
    if (epilogue->kind == KILN_EPILOGUE_NONE || epilogue->kind > KILN_EPILOGUE_BIAS_GRADIENT)
        return kiln_fail(epilogue->kind ? KILN_UNSUPPORTED : KILN_INVALID,
                         "gemm: epilogue %u has kind %u, which is not known", index,
                         epilogue->kind);
    bool matrix =
        epilogue->kind == KILN_EPILOGUE_RESIDUAL || epilogue->kind == KILN_EPILOGUE_MULTIPLY;
    if (epilogue->operand > KILN_OPERAND_MATRIX)
        return kiln_fail(KILN_UNSUPPORTED,
                         "gemm: epilogue %u has operand shape %u, which is not known", index,
                         epilogue->operand);
    if (matrix && epilogue->operand == KILN_OPERAND_NONE)
        epilogue->operand = KILN_OPERAND_MATRIX;
    if (takes_operand(epilogue->kind) && epilogue->operand == KILN_OPERAND_NONE)
        epilogue->operand = KILN_OPERAND_ROW;
    bool vector =
        epilogue->operand >= KILN_OPERAND_SCALAR && epilogue->operand <= KILN_OPERAND_COLUMN;
    bool fits = epilogue->operand == KILN_OPERAND_NONE ? true
                : matrix                               ? epilogue->operand == KILN_OPERAND_MATRIX
                : epilogue->kind == KILN_EPILOGUE_SCALE || takes_operand(epilogue->kind) ? vector
                                                                                         : false;
    if (!fits)
        return kiln_fail(KILN_INVALID,
                         "gemm: epilogue %u of kind %u cannot take an operand of shape %u", index,
                         epilogue->kind, epilogue->operand);
    if (epilogue->operand != KILN_OPERAND_NONE) {
        kiln_status status = check_type("the type of an epilogue's operand", epilogue->type, false);
        if (status == KILN_OK)
            status = canonical_alignment("the alignment of an epilogue's operand",
                                         &epilogue->alignment, epilogue->type);
        if (status != KILN_OK)
            return status;
    } else if (epilogue->type || epilogue->alignment) {
        return kiln_fail(KILN_INVALID,
                         "gemm: epilogue %u has no operand, but a type or alignment of one", index);
    }
    bool constants =
        epilogue->kind == KILN_EPILOGUE_CLIP ||
        (epilogue->kind == KILN_EPILOGUE_SCALE && epilogue->operand == KILN_OPERAND_NONE);
    if (!constants && (epilogue->p0 != 0 || epilogue->p1 != 0))
        return kiln_fail(KILN_INVALID, "gemm: epilogue %u of kind %u takes no constants", index,
                         epilogue->kind);
    if (epilogue->kind == KILN_EPILOGUE_CLIP && !(epilogue->p0 <= epilogue->p1))
        return kiln_fail(
            KILN_INVALID,
            "gemm: epilogue %u clips to [%g, %g]; the lower limit must not be above the upper",
            index, epilogue->p0, epilogue->p1);
    return KILN_OK;
}

static kiln_status canonical_epilogues(kiln_gemm_desc *desc)
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
        kiln_status status = canonical_epilogue(&desc->epilogues[i], i);
        if (status != KILN_OK)
            return status;
    }
    return KILN_OK;
}

static kiln_status gemm_canonicalise(void *descriptor)
{
    kiln_gemm_desc *desc = descriptor;
    kiln_status status;
    if (desc->head.flags & ~known_flags)
        return kiln_fail(KILN_UNSUPPORTED, "gemm: flags %#x are not known to this version",
                         desc->head.flags & ~known_flags);
    if (desc->batch == 0)
        desc->batch = 1;
    if ((status = check_dimension("m", desc->m)) != KILN_OK ||
        (status = check_dimension("n", desc->n)) != KILN_OK ||
        (status = check_dimension("k", desc->k)) != KILN_OK ||
        (status = check_dimension("batch", desc->batch)) != KILN_OK ||
        (status = check_type("a_type", desc->a_type, false)) != KILN_OK ||
        (status = check_type("b_type", desc->b_type, false)) != KILN_OK ||
        (status = check_type("c_type", desc->c_type, true)) != KILN_OK ||
        (status = check_type("d_type", desc->d_type, false)) != KILN_OK ||
        (status = check_type("accumulator", desc->accumulator, true)) != KILN_OK ||
        (status = canonical_alignment("a_alignment", &desc->a_alignment, desc->a_type)) !=
            KILN_OK ||
        (status = canonical_alignment("b_alignment", &desc->b_alignment, desc->b_type)) !=
            KILN_OK ||
        (status = canonical_alignment("c_alignment", &desc->c_alignment, desc->c_type)) !=
            KILN_OK ||
        (status = canonical_alignment("d_alignment", &desc->d_alignment, desc->d_type)) != KILN_OK)
        return status;
    if (desc->precision > KILN_PRECISION_AUTO || desc->grouping > KILN_GROUPING_K)
        return kiln_fail(KILN_UNSUPPORTED,
                         "gemm: precision %u or grouping %u is not known to this version",
                         desc->precision, desc->grouping);
    if (!(desc->max_rel_error >= 0))
        return kiln_fail(KILN_INVALID, "gemm: max_rel_error is %g; it must not be negative",
                         desc->max_rel_error);
    if (desc->groups < 0 || (desc->groups > 0) != (desc->grouping != KILN_GROUPING_NONE))
        return kiln_fail(KILN_INVALID, "gemm: grouping %u with %lld groups; give both or neither",
                         desc->grouping, (long long)desc->groups);
    return canonical_epilogues(desc);
}

static uint32_t gemm_principal_type(const void *descriptor)
{
    return ((const kiln_gemm_desc *)descriptor)->a_type;
}

static uint64_t gemm_outputs(const void *descriptor)
{
    const kiln_gemm_desc *desc = descriptor;
    uint64_t outputs = 1u << KILN_GEMM_D;
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        if (desc->epilogues[i].kind == KILN_EPILOGUE_BIAS_GRADIENT)
            outputs |= 1u << (KILN_GEMM_OPERAND + i);
        if (desc->epilogues[i].kind == KILN_EPILOGUE_QUANTIZE)
            outputs |= 1u << KILN_GEMM_D_SCALE;
    }
    return outputs;
}

static uint64_t gemm_inputs(const void *descriptor, const kiln_args_head *arguments)
{
    const kiln_gemm_desc *desc = descriptor;
    const kiln_tensor *a = &arguments->tensors[KILN_GEMM_A];
    uint64_t inputs = 0;
    if (a->shape[a->rank - (desc->head.flags & KILN_GEMM_TRANSPOSE_A ? 2 : 1)] > 0)
        inputs |= 1u << KILN_GEMM_A | 1u << KILN_GEMM_B;
    if (((const kiln_gemm_args *)arguments)->beta != 0)
        inputs |= 1u << KILN_GEMM_C;
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        if (desc->epilogues[i].operand != KILN_OPERAND_NONE)
            inputs |= 1u << (KILN_GEMM_OPERAND + i);
    if (desc->grouping != KILN_GROUPING_NONE)
        inputs |= 1u << KILN_GEMM_GROUPS;
    return inputs & ~gemm_outputs(descriptor);
}

static void gemm_describe_text(const void *descriptor, char *text, size_t size)
{
    const kiln_gemm_desc *desc = descriptor;
    const uint32_t flags = desc->head.flags;
    snprintf(text, size, "m%s%lld n%s%lld k%s%lld batch%s%lld %s%s*%s%s->%s, %u epilogue%s",
             flags & KILN_GEMM_DYNAMIC_M ? "<=" : "=", (long long)desc->m,
             flags & KILN_GEMM_DYNAMIC_N ? "<=" : "=", (long long)desc->n,
             flags & KILN_GEMM_DYNAMIC_K ? "<=" : "=", (long long)desc->k,
             flags & KILN_GEMM_DYNAMIC_BATCH ? "<=" : "=", (long long)desc->batch,
             kiln_type_name(desc->a_type), flags & KILN_GEMM_TRANSPOSE_A ? "^T" : "",
             kiln_type_name(desc->b_type), flags & KILN_GEMM_TRANSPOSE_B ? "^T" : "",
             kiln_type_name(desc->d_type), desc->epilogue_count,
             desc->epilogue_count == 1 ? "" : "s");
}

const kiln_operator kiln_gemm_operator = {
    .name = KILN_GEMM,
    .descriptor_size = sizeof(kiln_gemm_desc),
    .canonicalise = gemm_canonicalise,
    .principal_type = gemm_principal_type,
    .outputs = gemm_outputs,
    .inputs = gemm_inputs,
    .prepare = kiln_gemm_prepare,
    .check = kiln_gemm_check,
    .check_packed = kiln_gemm_check_packed,
    .describe = gemm_describe_text,
};
