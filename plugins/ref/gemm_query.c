/* SPDX-License-Identifier: Apache-2.0 */
/* Which GEMM descriptors the plugin serves: all that kiln/gemm.h speaks of.
 *
 *   A and B    any mix of f32, f16, bf16, e4m3, e5m2, e2m1, i8, u8, i4, u4; or both f64
 *   scales     of operands of at most 8 bits: f32, f16, bf16, e4m3, ue8m0
 *   C and D    f32, f16, bf16, e4m3, e5m2, i8, u8; also f64 when A is f64, i32 when A and B are
 *              integers without scales, and D e2m1 when it is quantised
 *   operands   f32, f16, bf16; also f64 when A is f64 */
#include <math.h>

#include "plugins/ref/gemm.h"

enum {
    KNOWN_FLAGS = KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B | KILN_GEMM_PACKED_A |
                  KILN_GEMM_PACKED_B | KILN_GEMM_DYNAMIC_M | KILN_GEMM_DYNAMIC_N |
                  KILN_GEMM_DYNAMIC_K | KILN_GEMM_DYNAMIC_BATCH | KILN_GEMM_SATURATE
};

static bool is_integer(uint32_t type)
{
    return type == KILN_I8 || type == KILN_U8 || type == KILN_I4 || type == KILN_U4;
}

bool ref_gemm_is_integer(const kiln_gemm_desc *desc)
{
    return is_integer(desc->a_type) && is_integer(desc->b_type);
}

const kiln_epilogue *ref_gemm_find(const kiln_gemm_desc *desc, uint32_t kind)
{
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        if (desc->epilogues[i].kind == kind)
            return &desc->epilogues[i];
    return NULL;
}

/* ---- Types ---- */

static bool is_plain_float(uint32_t type)
{
    return type == KILN_F32 || type == KILN_F16 || type == KILN_BF16;
}

static bool is_small_float(uint32_t type)
{
    return type == KILN_E4M3 || type == KILN_E5M2;
}

static bool multiplied_type(uint32_t type)
{
    return type == KILN_F64 || is_plain_float(type) || is_small_float(type) || type == KILN_E2M1 ||
           is_integer(type);
}

static bool operand_type(uint32_t type, const kiln_gemm_desc *desc)
{
    return is_plain_float(type) || (type == KILN_F64 && desc->a_type == KILN_F64);
}

static bool is_scaled(const kiln_gemm_desc *desc)
{
    return desc->a_quantization.scale_type || desc->b_quantization.scale_type;
}

static bool output_type(uint32_t type, const kiln_gemm_desc *desc)
{
    return operand_type(type, desc) || is_small_float(type) || type == KILN_I8 || type == KILN_U8 ||
           (type == KILN_I32 && ref_gemm_is_integer(desc) && !is_scaled(desc));
}

static uint32_t accumulator_of(const kiln_gemm_desc *desc)
{
    return ref_gemm_is_integer(desc) ? KILN_I32 : KILN_F64;
}

/* What the types of an output say of the operands. */
static bool decline_output(const kiln_gemm_desc *desc, char name, uint32_t type,
                           kiln_answer *answer)
{
    return kiln_decline(answer, "%c_type = %s is not offered with a_type = %s, b_type = %s%s", name,
                        kiln_type_name(type), kiln_type_name(desc->a_type),
                        kiln_type_name(desc->b_type), is_scaled(desc) ? " and scales" : "");
}

static bool accept_types(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    const uint32_t types[] = {desc->a_type, desc->b_type};
    for (int i = 0; i < 2; i++)
        if (!multiplied_type(types[i]))
            return kiln_decline(answer,
                                "%c_type = %s: ref multiplies f64, f32, f16, bf16, e4m3, e5m2, "
                                "e2m1, i8, u8, i4 and u4",
                                "ab"[i], kiln_type_name(types[i]));
    if ((desc->a_type == KILN_F64) != (desc->b_type == KILN_F64))
        return kiln_decline(answer, "b_type = %s with a_type = %s: f64 goes with f64 only",
                            kiln_type_name(desc->b_type), kiln_type_name(desc->a_type));
    if (desc->c_type != KILN_TYPE_NONE && !output_type(desc->c_type, desc))
        return decline_output(desc, 'c', desc->c_type, answer);
    if (desc->d_type == KILN_E2M1 && !ref_gemm_find(desc, KILN_EPILOGUE_QUANTIZE))
        return kiln_decline(answer, "d_type = e2m1 is offered with KILN_EPILOGUE_QUANTIZE only");
    if (desc->d_type != KILN_E2M1 && !output_type(desc->d_type, desc))
        return decline_output(desc, 'd', desc->d_type, answer);
    return true;
}

static bool accept_sum(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    uint32_t accumulator = accumulator_of(desc);
    bool lesser =
        accumulator == KILN_F64 && desc->a_type != KILN_F64 && desc->accumulator == KILN_F32;
    if (desc->accumulator && desc->accumulator != accumulator && !lesser)
        return kiln_decline(
            answer, "accumulator = %s: with a_type = %s and b_type = %s ref accumulates in %s",
            kiln_type_name(desc->accumulator), kiln_type_name(desc->a_type),
            kiln_type_name(desc->b_type), kiln_type_name(accumulator));
    if (desc->k > kiln_gemm_integer_depth(desc))
        return kiln_decline(
            answer,
            "k = %lld with a_type = %s and b_type = %s: the sum may overflow i32 beyond k = %lld",
            (long long)desc->k, kiln_type_name(desc->a_type), kiln_type_name(desc->b_type),
            (long long)kiln_gemm_integer_depth(desc));
    return true;
}

/* ---- Scales and zero points ---- */

static bool accept_block(const kiln_quantization *quantization, char name, kiln_answer *answer)
{
    bool wanted = quantization->scale_type || quantization->zero_type;
    for (int i = 0; i < 2; i++) {
        int32_t block = quantization->block[i];
        if (wanted ? block != -1 && block < 1 : block != 0)
            return kiln_decline(answer, "%c_quantization.block[%d] = %d: %s", name, i, (int)block,
                                wanted ? "it must be -1 or at least 1"
                                       : "there is neither a scale type nor a zero type");
    }
    return true;
}

static bool accept_quantized_operand(const kiln_quantization *quantization, char name,
                                     uint32_t type, kiln_answer *answer)
{
    uint32_t scale = quantization->scale_type, zero = quantization->zero_type;
    if (scale && !is_plain_float(scale) && scale != KILN_E4M3 && scale != KILN_UE8M0)
        return kiln_decline(
            answer, "%c_quantization.scale_type = %s: scales are f32, f16, bf16, e4m3 or ue8m0",
            name, kiln_type_name(scale));
    if (scale && kiln_type_bits(type) > 8)
        return kiln_decline(answer,
                            "%c_quantization.scale_type = %s with %c_type = %s: only types of at "
                            "most 8 bits have scales",
                            name, kiln_type_name(scale), name, kiln_type_name(type));
    if (zero && (zero != type || !is_integer(type)))
        return kiln_decline(answer,
                            "%c_quantization.zero_type = %s with %c_type = %s: zero points are "
                            "integers, of the operand's own type",
                            name, kiln_type_name(zero), name, kiln_type_name(type));
    return accept_block(quantization, name, answer);
}

static bool accept_quantized_output(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    const kiln_quantization *quantization = &desc->d_quantization;
    if (!ref_gemm_find(desc, KILN_EPILOGUE_QUANTIZE)) {
        if (quantization->scale_type || quantization->zero_type)
            return kiln_decline(
                answer, "d_quantization.%s = %s is offered with KILN_EPILOGUE_QUANTIZE only",
                quantization->scale_type ? "scale_type" : "zero_type",
                kiln_type_name(quantization->scale_type ? quantization->scale_type
                                                        : quantization->zero_type));
        return accept_block(quantization, 'd', answer);
    }
    if (kiln_type_bits(desc->d_type) > 8)
        return kiln_decline(
            answer, "d_type = %s: ref quantises to e4m3, e5m2, e2m1, i8 and u8 (epilogue QUANTIZE)",
            kiln_type_name(desc->d_type));
    if (quantization->scale_type != KILN_F32 && quantization->scale_type != KILN_E4M3 &&
        quantization->scale_type != KILN_UE8M0)
        return kiln_decline(answer,
                            "d_quantization.scale_type = %s: D has scales of f32, e4m3 or ue8m0",
                            kiln_type_name(quantization->scale_type));
    if (quantization->zero_type)
        return kiln_decline(answer, "d_quantization.zero_type = %s: D has no zero points",
                            kiln_type_name(quantization->zero_type));
    if (quantization->block[0] != 1)
        return kiln_decline(answer,
                            "d_quantization.block[0] = %d: each row of D has its own scales",
                            (int)quantization->block[0]);
    return accept_block(quantization, 'd', answer);
}

/* ---- Flags, precision, groupings ---- */

static bool accept_grouping(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    if (desc->grouping > KILN_GROUPING_K)
        return kiln_decline(answer, "grouping = %u is not known", (unsigned)desc->grouping);
    if (desc->grouping != KILN_GROUPING_NONE && desc->batch > 1)
        return kiln_decline(answer, "batch = %lld with grouping = %u: it must be 1",
                            (long long)desc->batch, (unsigned)desc->grouping);
    if (desc->groups < 0 || (desc->groups > 0) != (desc->grouping != KILN_GROUPING_NONE))
        return kiln_decline(answer, "groups = %lld with grouping = %u: give both or neither",
                            (long long)desc->groups, (unsigned)desc->grouping);
    return true;
}

static bool accept_modes(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    if (desc->head.flags & ~(uint32_t)KNOWN_FLAGS)
        return kiln_decline(answer, "flags = 0x%x: ref knows 0x%x", (unsigned)desc->head.flags,
                            (unsigned)KNOWN_FLAGS);
    if (desc->precision > KILN_PRECISION_AUTO)
        return kiln_decline(answer, "precision = %u is not known", (unsigned)desc->precision);
    double most = desc->precision == KILN_PRECISION_AUTO ? 1 : 0;
    if (!(desc->max_rel_error >= 0 && desc->max_rel_error <= most))
        return kiln_decline(answer, "max_rel_error = %g with precision = %u: from 0 to %g",
                            desc->max_rel_error, (unsigned)desc->precision, most);
    return accept_grouping(desc, answer);
}

/* ---- Epilogues ---- */

/* The operand shapes that a kind may have, one bit each; 0 = the kind is not known. */
static unsigned operand_shapes(uint32_t kind)
{
    const unsigned none = 1u << KILN_OPERAND_NONE, matrix = 1u << KILN_OPERAND_MATRIX,
                   row = 1u << KILN_OPERAND_ROW;
    const unsigned vectors = 1u << KILN_OPERAND_SCALAR | row | 1u << KILN_OPERAND_COLUMN;
    switch (kind) {
    case KILN_EPILOGUE_RELU:
    case KILN_EPILOGUE_GELU_ERF:
    case KILN_EPILOGUE_GELU_TANH:
    case KILN_EPILOGUE_SILU:
    case KILN_EPILOGUE_CLIP:
    case KILN_EPILOGUE_SWIGLU:
    case KILN_EPILOGUE_QUANTIZE:
        return none;
    case KILN_EPILOGUE_BIAS:
        return vectors;
    case KILN_EPILOGUE_SCALE:
        return none | vectors;
    case KILN_EPILOGUE_RESIDUAL:
    case KILN_EPILOGUE_MULTIPLY:
        return matrix;
    case KILN_EPILOGUE_BIAS_GRADIENT:
        return row;
    default:
        return 0;
    }
}

/* Pieces of SWIGLU of p0 columns: 0 = 1, -1 = half of all. */
static bool accept_pieces(const kiln_gemm_desc *desc, double p0, kiln_answer *answer)
{
    if (!(p0 >= -1 && p0 <= 0x1p53 && p0 == floor(p0)))
        return kiln_decline(answer, "p0 = %g: SWIGLU takes pieces of whole columns, or -1", p0);
    int64_t piece = p0 > 0 ? (int64_t)p0 : 1;
    if (desc->n % piece || desc->n / piece % 2)
        if (!(desc->head.flags & KILN_GEMM_DYNAMIC_N))
            return kiln_decline(answer, "n = %lld: SWIGLU takes pieces of %lld columns in pairs",
                                (long long)desc->n, (long long)piece);
    return true;
}

static bool accept_epilogue(const kiln_gemm_desc *desc, uint32_t i, kiln_answer *answer)
{
    const kiln_epilogue *epilogue = &desc->epilogues[i];
    unsigned shapes = operand_shapes(epilogue->kind);
    if (!shapes)
        return kiln_decline(answer, "epilogues[%u].kind = %u is not known", (unsigned)i,
                            (unsigned)epilogue->kind);
    if (epilogue->operand > KILN_OPERAND_MATRIX || !(shapes >> epilogue->operand & 1))
        return kiln_decline(answer, "epilogues[%u].operand = %u does not go with kind = %u",
                            (unsigned)i, (unsigned)epilogue->operand, (unsigned)epilogue->kind);
    if (epilogue->operand != KILN_OPERAND_NONE && !operand_type(epilogue->type, desc))
        return kiln_decline(answer, "epilogues[%u].type = %s is not offered with a_type = %s",
                            (unsigned)i, kiln_type_name(epilogue->type),
                            kiln_type_name(desc->a_type));
    uint32_t sum_type = desc->a_type == KILN_F64 ? KILN_F64 : KILN_F32;
    if (epilogue->kind == KILN_EPILOGUE_BIAS_GRADIENT && epilogue->type != sum_type)
        return kiln_decline(answer, "epilogues[%u].type = %s: the gradient is %s with a_type = %s",
                            (unsigned)i, kiln_type_name(epilogue->type), kiln_type_name(sum_type),
                            kiln_type_name(desc->a_type));
    if (epilogue->kind == KILN_EPILOGUE_SWIGLU &&
        epilogue != ref_gemm_find(desc, KILN_EPILOGUE_SWIGLU))
        return kiln_decline(answer, "epilogues[%u].kind = 10: only one may be SWIGLU", (unsigned)i);
    if (epilogue->kind == KILN_EPILOGUE_SWIGLU && !accept_pieces(desc, epilogue->p0, answer))
        return false;
    if (epilogue->kind == KILN_EPILOGUE_QUANTIZE && i + 1 != desc->epilogue_count)
        return kiln_decline(answer, "epilogues[%u].kind = 11: QUANTIZE must be the last",
                            (unsigned)i);
    return true;
}

static bool accept_epilogues(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    if (desc->epilogue_count > KILN_GEMM_MAX_EPILOGUES)
        return kiln_decline(answer, "epilogue_count = %u: at most %d",
                            (unsigned)desc->epilogue_count, KILN_GEMM_MAX_EPILOGUES);
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        if (!accept_epilogue(desc, i, answer))
            return false;
    return true;
}

/* ---- The answer ---- */

static bool accept(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    return accept_modes(desc, answer) && accept_epilogues(desc, answer) &&
           accept_types(desc, answer) && accept_sum(desc, answer) &&
           accept_quantized_operand(&desc->a_quantization, 'a', desc->a_type, answer) &&
           accept_quantized_operand(&desc->b_quantization, 'b', desc->b_type, answer) &&
           accept_quantized_output(desc, answer);
}

static bool find_workspace(const kiln_gemm_desc *desc, int64_t threads, kiln_answer *answer)
{
    ref_gemm_layout layout;
    int64_t bytes;
    if (!ref_gemm_layout_of(desc, &layout) ||
        __builtin_mul_overflow(threads, layout.slot_bytes, &bytes) ||
        __builtin_add_overflow(bytes, layout.groups_bytes, &answer->workspace_bytes))
        return kiln_decline(answer,
                            "m = %lld, n = %lld, groups = %lld: the workspace would not fit in 64 "
                            "bits",
                            (long long)desc->m, (long long)desc->n, (long long)desc->groups);
    answer->workspace_alignment = 64;
    return true;
}

kiln_status ref_gemm_query(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                           kiln_answer *answer)
{
    const ref_instance *ref = instance;
    kiln_gemm_desc desc;
    kiln_status status = kiln_receive_descriptor(&desc, sizeof desc, descriptor);
    if (status == KILN_INVALID)
        return ref->host->set_error(status,
                                    "the descriptor's struct_size is %u, less than its head",
                                    (unsigned)descriptor->struct_size);
    int64_t threads = ref->host->thread_count(ref->host);
    if (status != KILN_OK)
        kiln_decline(
            answer,
            "struct_size = %u: the descriptor says something beyond the %zu bytes that ref knows",
            (unsigned)descriptor->struct_size, sizeof desc);
    else if (!ref->host->device_is_host(device))
        kiln_decline(answer, "ref computes in host memory only");
    else if (accept(&desc, answer) && find_workspace(&desc, threads > 1 ? threads : 1, answer)) {
        answer->support = KILN_SUPPORT_NATIVE;
        answer->flags = KILN_ANSWER_REPRODUCIBLE;
        answer->accumulator = accumulator_of(&desc);
        snprintf(answer->kernel, sizeof answer->kernel, "%s", ref->kernel);
        snprintf(answer->reason, sizeof answer->reason, "%s", ref->remark);
    }
    return KILN_OK;
}
