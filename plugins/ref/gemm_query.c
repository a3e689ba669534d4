/* SPDX-License-Identifier: Apache-2.0 */
/* Which GEMM descriptors the plugin serves, and its plans.
 *
 *   A and B    both of one type: f64, f32, f16, bf16 or i8
 *   C and D    f32, f16, bf16, i8; also f64 when A is f64, and i32 when A is i8
 *   operands   f32, f16, bf16; also f64 when A is f64 */
#include <stdio.h>
#include <stdlib.h>

#include "plugins/ref/ref.h"

enum {
    KNOWN_FLAGS = KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B | KILN_GEMM_PACKED_A |
                  KILN_GEMM_PACKED_B | KILN_GEMM_DYNAMIC_M | KILN_GEMM_DYNAMIC_N |
                  KILN_GEMM_DYNAMIC_K | KILN_GEMM_DYNAMIC_BATCH | KILN_GEMM_SATURATE
};

static bool multiplied_type(uint32_t type)
{
    return type == KILN_F64 || type == KILN_F32 || type == KILN_F16 || type == KILN_BF16 ||
           type == KILN_I8;
}

static bool operand_type(uint32_t type, uint32_t a_type)
{
    return type == KILN_F32 || type == KILN_F16 || type == KILN_BF16 ||
           (type == KILN_F64 && a_type == KILN_F64);
}

static bool output_type(uint32_t type, uint32_t a_type)
{
    return operand_type(type, a_type) || type == KILN_I8 || (type == KILN_I32 && a_type == KILN_I8);
}

static uint32_t accumulator_of(uint32_t a_type)
{
    return a_type == KILN_I8 ? KILN_I32 : KILN_F64;
}

static bool accept_types(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    const char *a = kiln_type_name(desc->a_type);
    if (!multiplied_type(desc->a_type))
        return kiln_decline(answer, "a_type = %s: ref multiplies f64, f32, f16, bf16 and i8", a);
    if (desc->b_type != desc->a_type)
        return kiln_decline(answer, "b_type = %s with a_type = %s: ref wants both the same",
                            kiln_type_name(desc->b_type), a);
    if (desc->c_type != KILN_TYPE_NONE && !output_type(desc->c_type, desc->a_type))
        return kiln_decline(answer, "c_type = %s is not offered with a_type = %s",
                            kiln_type_name(desc->c_type), a);
    if (!output_type(desc->d_type, desc->a_type))
        return kiln_decline(answer, "d_type = %s is not offered with a_type = %s",
                            kiln_type_name(desc->d_type), a);
    uint32_t accumulator = accumulator_of(desc->a_type);
    bool lesser =
        accumulator == KILN_F64 && desc->a_type != KILN_F64 && desc->accumulator == KILN_F32;
    if (desc->accumulator && desc->accumulator != accumulator && !lesser)
        return kiln_decline(answer, "accumulator = %s: with a_type = %s ref accumulates in %s",
                            kiln_type_name(desc->accumulator), a, kiln_type_name(accumulator));
    if (desc->a_type == KILN_I8 && desc->k > kiln_gemm_integer_depth(desc))
        return kiln_decline(answer,
                            "k = %lld with a_type = i8: the sum may overflow i32 beyond k = %lld",
                            (long long)desc->k, (long long)kiln_gemm_integer_depth(desc));
    return true;
}

static bool accept_quantization(const kiln_quantization *quantization, const char *name,
                                kiln_answer *answer)
{
    if (quantization->scale_type)
        return kiln_decline(answer, "%s_quantization.scale_type = %s: ref takes no scales", name,
                            kiln_type_name(quantization->scale_type));
    if (quantization->zero_type)
        return kiln_decline(answer, "%s_quantization.zero_type = %s: ref takes no zero points",
                            name, kiln_type_name(quantization->zero_type));
    if (quantization->block[0] || quantization->block[1])
        return kiln_decline(answer, "%s_quantization.block = %d x %d: ref takes no scales", name,
                            quantization->block[0], quantization->block[1]);
    return true;
}

static bool accept_modes(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    if (desc->head.flags & ~(uint32_t)KNOWN_FLAGS)
        return kiln_decline(answer, "flags = 0x%x: ref knows 0x%x", (unsigned)desc->head.flags,
                            (unsigned)KNOWN_FLAGS);
    if (desc->precision != KILN_PRECISION_EXACT)
        return kiln_decline(answer, "precision = %u: ref computes exactly only",
                            (unsigned)desc->precision);
    if (desc->max_rel_error != 0)
        return kiln_decline(answer, "max_rel_error = %g: ref computes exactly only",
                            desc->max_rel_error);
    if (desc->grouping != KILN_GROUPING_NONE)
        return kiln_decline(answer, "grouping = %u: ref groups nothing", (unsigned)desc->grouping);
    if (desc->groups)
        return kiln_decline(answer, "groups = %lld: ref groups nothing", (long long)desc->groups);
    return accept_quantization(&desc->a_quantization, "a", answer) &&
           accept_quantization(&desc->b_quantization, "b", answer) &&
           accept_quantization(&desc->d_quantization, "d", answer);
}

/* The operand shapes that a kind may have, one bit each; 0 = the kind is not offered. */
static unsigned operand_shapes(uint32_t kind)
{
    const unsigned none = 1u << KILN_OPERAND_NONE, matrix = 1u << KILN_OPERAND_MATRIX;
    const unsigned vectors =
        1u << KILN_OPERAND_SCALAR | 1u << KILN_OPERAND_ROW | 1u << KILN_OPERAND_COLUMN;
    switch (kind) {
    case KILN_EPILOGUE_RELU:
    case KILN_EPILOGUE_GELU_ERF:
    case KILN_EPILOGUE_GELU_TANH:
    case KILN_EPILOGUE_SILU:
    case KILN_EPILOGUE_CLIP:
        return none;
    case KILN_EPILOGUE_BIAS:
        return vectors;
    case KILN_EPILOGUE_SCALE:
        return none | vectors;
    case KILN_EPILOGUE_RESIDUAL:
    case KILN_EPILOGUE_MULTIPLY:
        return matrix;
    default:
        return 0;
    }
}

static bool accept_epilogues(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    if (desc->epilogue_count > KILN_GEMM_MAX_EPILOGUES)
        return kiln_decline(answer, "epilogue_count = %u: at most %d",
                            (unsigned)desc->epilogue_count, KILN_GEMM_MAX_EPILOGUES);
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        const kiln_epilogue *epilogue = &desc->epilogues[i];
        unsigned shapes = operand_shapes(epilogue->kind);
        if (!shapes)
            return kiln_decline(answer, "epilogues[%u].kind = %u is not offered", (unsigned)i,
                                (unsigned)epilogue->kind);
        if (epilogue->operand > KILN_OPERAND_MATRIX || !(shapes >> epilogue->operand & 1))
            return kiln_decline(answer, "epilogues[%u].operand = %u does not go with kind = %u",
                                (unsigned)i, (unsigned)epilogue->operand, (unsigned)epilogue->kind);
        if (epilogue->operand != KILN_OPERAND_NONE && !operand_type(epilogue->type, desc->a_type))
            return kiln_decline(answer, "epilogues[%u].type = %s is not offered with a_type = %s",
                                (unsigned)i, kiln_type_name(epilogue->type),
                                kiln_type_name(desc->a_type));
    }
    return true;
}

/* The side of a tile: whole panels, no more than are needed. */
static int64_t tile_side(int64_t extent, int64_t panel)
{
    return extent >= REF_TILE ? REF_TILE
           : extent <= 0      ? panel
                              : (extent + panel - 1) / panel * panel;
}

/* Blocks of A and B, then the sums: rows of REF_TILE. */
static int64_t slot_bytes(int64_t tile_rows, int64_t tile_columns)
{
    return ((tile_rows + tile_columns) * REF_DEPTH + tile_rows * REF_TILE) *
           (int64_t)sizeof(double);
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
    if (status != KILN_OK)
        kiln_decline(
            answer,
            "struct_size = %u: the descriptor says something beyond the %zu bytes that ref knows",
            (unsigned)descriptor->struct_size, sizeof desc);
    else if (!ref->host->device_is_host(device))
        kiln_decline(answer, "ref computes in host memory only");
    else if (accept_types(&desc, answer) && accept_modes(&desc, answer) &&
             accept_epilogues(&desc, answer)) {
        int64_t threads = ref->host->thread_count(ref->host);
        answer->support = KILN_SUPPORT_NATIVE;
        answer->flags = KILN_ANSWER_REPRODUCIBLE;
        answer->accumulator = accumulator_of(desc.a_type);
        answer->workspace_bytes =
            (threads > 1 ? threads : 1) *
            slot_bytes(tile_side(desc.m, REF_ROWS), tile_side(desc.n, REF_COLUMNS));
        answer->workspace_alignment = 64;
        snprintf(answer->kernel, sizeof answer->kernel, "%s", ref->kernel);
        snprintf(answer->reason, sizeof answer->reason, "%s", ref->remark);
    }
    return KILN_OK;
}

kiln_status ref_gemm_plan_create(void *instance, const kiln_plan_request *request, void **plan)
{
    ref_instance *ref = instance;
    kiln_answer answer = {.struct_size = sizeof answer};
    kiln_status status = ref_gemm_query(instance, request->device, request->descriptor, &answer);
    if (status != KILN_OK)
        return status;
    if (answer.support == KILN_SUPPORT_NO)
        return ref->host->set_error(KILN_UNSUPPORTED, "ref: %s", answer.reason);
    if (request->parameter_count)
        return ref->host->set_error(KILN_INVALID,
                                    "ref: parameter '%s' is unknown: ref has no tuning parameters",
                                    request->parameters[0].name);
    ref_gemm_plan *made = calloc(1, sizeof *made);
    if (!made)
        return ref->host->set_error(KILN_NO_MEMORY, "ref: no memory for a plan");
    made->instance = ref;
    kiln_receive_descriptor(&made->desc, sizeof made->desc, request->descriptor);
    made->tile_rows = tile_side(made->desc.m, REF_ROWS);
    made->tile_columns = tile_side(made->desc.n, REF_COLUMNS);
    made->slot_bytes = slot_bytes(made->tile_rows, made->tile_columns);
    *plan = made;
    return KILN_OK;
}

void ref_gemm_plan_free(void *plan)
{
    free(plan);
}
