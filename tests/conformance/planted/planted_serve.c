/* SPDX-License-Identifier: Apache-2.0 */
/* Which GEMMs are served, and what can be wrong with that. */
#include "planted_gemm.h"

enum {
    KNOWN_FLAGS = KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B | KILN_GEMM_PACKED_A |
                  KILN_GEMM_PACKED_B | KILN_GEMM_DYNAMIC_M | KILN_GEMM_DYNAMIC_N |
                  KILN_GEMM_DYNAMIC_K | KILN_GEMM_DYNAMIC_BATCH | KILN_GEMM_SATURATE
};

static bool is_integer(uint32_t type)
{
    return type == KILN_I8 || type == KILN_U8;
}

static bool is_factor(uint32_t type)
{
    return type == KILN_F32 || type == KILN_F16 || type == KILN_E4M3 || is_integer(type);
}

uint32_t planted_sum_type(const kiln_gemm_desc *desc)
{
    return is_integer(desc->a_type) && is_integer(desc->b_type) ? KILN_I32 : KILN_F32;
}

uint32_t planted_find(const kiln_gemm_desc *desc, uint32_t kind)
{
    uint32_t i = 0;
    while (i < desc->epilogue_count && desc->epilogues[i].kind != kind)
        i++;
    return i;
}

/* ---- Types ---- */

/* Of C or D. */
static bool is_output(uint32_t type, const kiln_gemm_desc *desc)
{
    bool whole = planted_sum_type(desc) == KILN_I32 && !desc->a_quantization.scale_type &&
                 !desc->b_quantization.scale_type;
    return is_factor(type) || type == KILN_BF16 || (type == KILN_I32 && whole);
}

static bool accept_types(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    uint32_t sum = planted_sum_type(desc);
    if (!is_factor(desc->a_type) || !is_factor(desc->b_type)) {
        kiln_decline(answer, "a_type or b_type is not f32, f16, e4m3, i8 or u8");
        if (planted(REASONS_RUN_OUT) && desc->a_type == KILN_E5M2)
            answer->reason[0] = '\0';
        return false;
    }
    if (!is_output(desc->d_type, desc) ||
        (desc->c_type != KILN_TYPE_NONE && !is_output(desc->c_type, desc)))
        return kiln_decline(answer, "c_type or d_type does not go with a_type and b_type");
    if (desc->accumulator != KILN_TYPE_NONE && desc->accumulator != sum)
        return kiln_decline(answer, "the sum is in %s", kiln_type_name(sum));
    if (desc->k > kiln_gemm_integer_depth(desc))
        return kiln_decline(answer, "k is so large that the sum may overflow");
    return true;
}

/* ---- Scales ---- */

static bool is_block(int32_t block)
{
    return block > 0 || block == -1;
}

static bool accept_scales(const kiln_quantization *quantization, uint32_t type, bool packed,
                          kiln_answer *answer)
{
    static const kiln_quantization plain;
    uint32_t scale = quantization->scale_type;
    if (memcmp(quantization, &plain, sizeof plain) == 0)
        return true;
    if (packed)
        return kiln_decline(answer, "what has scales is not packed");
    if (scale != KILN_TYPE_NONE && scale != KILN_F32 && scale != KILN_F16 && scale != KILN_BF16 &&
        scale != KILN_E4M3 && scale != KILN_UE8M0)
        return kiln_decline(answer, "scales are f32, f16, bf16, e4m3 or ue8m0");
    if (kiln_type_bits(type) != 8 || (quantization->zero_type != KILN_TYPE_NONE &&
                                      (quantization->zero_type != type || !is_integer(type))))
        return kiln_decline(answer, "such scales or zero points do not go with the type");
    if (!is_block(quantization->block[0]) || !is_block(quantization->block[1]))
        return kiln_decline(answer, "such blocks of scales are not known");
    return true;
}

static bool accept_quantized_d(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    static const kiln_quantization plain;
    const kiln_quantization *quantization = &desc->d_quantization;
    uint32_t at = planted_find(desc, KILN_EPILOGUE_QUANTIZE), scale = quantization->scale_type;
    if (at == desc->epilogue_count)
        return memcmp(quantization, &plain, sizeof plain) == 0 ||
               kiln_decline(answer, "D has scales, but is not quantised");
    if (at + 1 != desc->epilogue_count || kiln_type_bits(desc->d_type) != 8)
        return kiln_decline(answer, "quantising comes last, and into 8 bits");
    if ((scale != KILN_F32 && scale != KILN_E4M3 && scale != KILN_UE8M0) ||
        quantization->zero_type || quantization->block[0] != 1 || !is_block(quantization->block[1]))
        return kiln_decline(answer, "D is quantised by row, with scales of f32, e4m3 or ue8m0");
    return true;
}

/* ---- Epilogues ---- */

static bool accept_pairs(const kiln_gemm_desc *desc, uint32_t at, kiln_answer *answer)
{
    double columns = desc->epilogues[at].p0;
    if (at != planted_find(desc, KILN_EPILOGUE_SWIGLU))
        return kiln_decline(answer, "there is one swiglu at most");
    if (columns != -1 && !(columns >= 0 && columns <= 0x1p31 && columns == (int64_t)columns))
        return kiln_decline(answer, "swiglu takes a number of columns");
    return true;
}

static bool accept_epilogue(const kiln_gemm_desc *desc, uint32_t at, kiln_answer *answer)
{
    const kiln_epilogue *epilogue = &desc->epilogues[at];
    if (epilogue->kind < KILN_EPILOGUE_BIAS || epilogue->kind > KILN_EPILOGUE_BIAS_GRADIENT)
        return kiln_decline(answer, "an epilogue of kind %u is not offered", epilogue->kind);
    if (epilogue->operand > KILN_OPERAND_MATRIX)
        return kiln_decline(answer, "operand shape %u is not known", epilogue->operand);
    if (epilogue->operand && epilogue->type != KILN_F32 && epilogue->type != KILN_F16 &&
        epilogue->type != KILN_BF16)
        return kiln_decline(answer, "operands are f32, f16 or bf16");
    if (epilogue->kind == KILN_EPILOGUE_BIAS_GRADIENT && epilogue->type != KILN_F32)
        return kiln_decline(answer, "a bias gradient is f32");
    return epilogue->kind != KILN_EPILOGUE_SWIGLU || accept_pairs(desc, at, answer);
}

/* ---- All of it ---- */

bool planted_accept(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    uint32_t flags = desc->head.flags;
    if (planted(SERVES_NOTHING))
        return kiln_decline(answer, "not today");
    if ((flags & ~(uint32_t)KNOWN_FLAGS) && !planted(OBEYS_UNKNOWN_FLAGS))
        return kiln_decline(answer, "flags %#x are not known", (unsigned)flags);
    if (desc->precision > KILN_PRECISION_AUTO && !planted(OBEYS_UNKNOWN_PRECISION))
        return kiln_decline(answer, "precision %u is not known", desc->precision);
    if (desc->grouping > KILN_GROUPING_K)
        return kiln_decline(answer, "grouping %u is not known", desc->grouping);
    if (desc->epilogue_count > KILN_GEMM_MAX_EPILOGUES)
        return kiln_decline(answer, "there are too many epilogues");
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        if (!accept_epilogue(desc, i, answer))
            return false;
    return accept_types(desc, answer) &&
           accept_scales(&desc->a_quantization, desc->a_type, flags & KILN_GEMM_PACKED_A, answer) &&
           accept_scales(&desc->b_quantization, desc->b_type, flags & KILN_GEMM_PACKED_B, answer) &&
           accept_quantized_d(desc, answer);
}
