/* SPDX-License-Identifier: Apache-2.0 */
/* Which GEMM descriptors the model serves.
 *
 *   A and B    both of one type: f16, bf16 or i8
 *   C and D    f32, f16, bf16, i32 or i8
 *   operands   f32, f16, bf16
 *
 * M, N, K and the batch may be dynamic; a packed operand has the largest M, N and K, and with one a
 * run must have the largest K. */
#include "plugins/npu/glue.h"

enum {
    KNOWN_FLAGS = KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B | KILN_GEMM_PACKED_A |
                  KILN_GEMM_PACKED_B | KILN_GEMM_DYNAMIC_M | KILN_GEMM_DYNAMIC_N |
                  KILN_GEMM_DYNAMIC_K | KILN_GEMM_DYNAMIC_BATCH | KILN_GEMM_SATURATE
};

static bool type_of(uint32_t type, enum npu_type *result)
{
    switch (type) {
    case KILN_F16:
        *result = NPU_F16;
        return true;
    case KILN_BF16:
        *result = NPU_BF16;
        return true;
    case KILN_I8:
        *result = NPU_I8;
        return true;
    case KILN_F32:
        *result = NPU_F32;
        return true;
    case KILN_I32:
        *result = NPU_I32;
        return true;
    default:
        return false;
    }
}

static bool accept_types(const kiln_gemm_desc *desc, struct npu_gemm *gemm, kiln_answer *answer)
{
    const char *a = kiln_type_name(desc->a_type);
    uint32_t sum = desc->a_type == KILN_I8 ? KILN_I32 : KILN_F32;
    if (!type_of(desc->a_type, &gemm->type) || gemm->type == NPU_F32 || gemm->type == NPU_I32)
        return kiln_decline(answer, "a_type = %s: the cube unit multiplies f16, bf16 and i8", a);
    if (desc->b_type != desc->a_type)
        return kiln_decline(answer,
                            "b_type = %s with a_type = %s: the cube unit wants both the same",
                            kiln_type_name(desc->b_type), a);
    if (!type_of(desc->d_type, &gemm->d_type))
        return kiln_decline(answer, "d_type = %s: the vector unit knows f32, f16, bf16, i32 and i8",
                            kiln_type_name(desc->d_type));
    gemm->c_type = gemm->d_type;
    if (desc->c_type != KILN_TYPE_NONE && !type_of(desc->c_type, &gemm->c_type))
        return kiln_decline(answer, "c_type = %s: the vector unit knows f32, f16, bf16, i32 and i8",
                            kiln_type_name(desc->c_type));
    if (desc->accumulator && desc->accumulator != sum)
        return kiln_decline(answer,
                            "accumulator = %s: with a_type = %s the cube unit accumulates in %s",
                            kiln_type_name(desc->accumulator), a, kiln_type_name(sum));
    if (gemm->type == NPU_I8 && desc->k > kiln_gemm_integer_depth(desc))
        return kiln_decline(answer,
                            "k = %lld with a_type = i8: the sum may overflow i32 beyond k = %lld",
                            (long long)desc->k, (long long)kiln_gemm_integer_depth(desc));
    return true;
}

static bool is_plain(const kiln_quantization *quantization)
{
    static const kiln_quantization none;
    return memcmp(quantization, &none, sizeof none) == 0;
}

static bool accept_modes(const kiln_gemm_desc *desc, kiln_answer *answer)
{
    if (desc->head.flags & ~(uint32_t)KNOWN_FLAGS)
        return kiln_decline(answer, "flags = 0x%x: npu knows 0x%x", (unsigned)desc->head.flags,
                            (unsigned)KNOWN_FLAGS);
    if (desc->precision > KILN_PRECISION_AUTO) /* the exact kernels serve all that are known */
        return kiln_decline(answer, "precision = %u is not known", (unsigned)desc->precision);
    double most = desc->precision == KILN_PRECISION_AUTO ? 1 : 0;
    if (!(desc->max_rel_error >= 0 && desc->max_rel_error <= most))
        return kiln_decline(answer, "max_rel_error = %g with precision = %u: from 0 to %g",
                            desc->max_rel_error, (unsigned)desc->precision, most);
    if (desc->grouping != KILN_GROUPING_NONE || desc->groups)
        return kiln_decline(answer, "grouping = %u with %lld groups: npu groups nothing",
                            (unsigned)desc->grouping, (long long)desc->groups);
    if (!is_plain(&desc->a_quantization) || !is_plain(&desc->b_quantization) ||
        !is_plain(&desc->d_quantization))
        return kiln_decline(answer, "npu takes and gives no scales or zero points");
    if (desc->m > INT32_MAX || desc->n > INT32_MAX || desc->batch > INT32_MAX)
        return kiln_decline(answer,
                            "m = %lld, n = %lld, batch = %lld: npu takes at most 2^31 - 1 of each",
                            (long long)desc->m, (long long)desc->n, (long long)desc->batch);
    return true;
}

/* The vector function of a kind; false when there is none. */
static bool function_of(const kiln_epilogue *epilogue, enum npu_function *function)
{
    switch (epilogue->kind) {
    case KILN_EPILOGUE_BIAS:
    case KILN_EPILOGUE_RESIDUAL:
        *function = NPU_ADD;
        return true;
    case KILN_EPILOGUE_MULTIPLY:
        *function = NPU_MUL;
        return true;
    case KILN_EPILOGUE_SCALE:
        *function = epilogue->operand == KILN_OPERAND_NONE ? NPU_SCALE : NPU_MUL;
        return true;
    case KILN_EPILOGUE_RELU:
        *function = NPU_RELU;
        return true;
    case KILN_EPILOGUE_GELU_ERF:
        *function = NPU_GELU_ERF;
        return true;
    case KILN_EPILOGUE_GELU_TANH:
        *function = NPU_GELU_TANH;
        return true;
    case KILN_EPILOGUE_SILU:
        *function = NPU_SILU;
        return true;
    case KILN_EPILOGUE_CLIP:
        *function = NPU_CLIP;
        return true;
    default:
        return false;
    }
}

static bool accept_epilogue(const kiln_epilogue *epilogue, uint32_t index,
                            struct npu_epilogue *result, kiln_answer *answer)
{
    static const enum npu_operand_shape shapes[] = {
        [KILN_OPERAND_NONE] = NPU_OPERAND_NONE,     [KILN_OPERAND_SCALAR] = NPU_OPERAND_SCALAR,
        [KILN_OPERAND_ROW] = NPU_OPERAND_ROW,       [KILN_OPERAND_COLUMN] = NPU_OPERAND_COLUMN,
        [KILN_OPERAND_MATRIX] = NPU_OPERAND_MATRIX,
    };
    *result = (struct npu_epilogue){.type = NPU_F32};
    if (!function_of(epilogue, &result->function))
        return kiln_decline(answer, "epilogues[%u].kind = %u is not offered", (unsigned)index,
                            (unsigned)epilogue->kind);
    if (epilogue->operand > KILN_OPERAND_MATRIX)
        return kiln_decline(answer, "epilogues[%u].operand = %u is not known", (unsigned)index,
                            (unsigned)epilogue->operand);
    result->shape = shapes[epilogue->operand];
    bool wants = npu_vector_sources(result->function) == 2;
    if (wants != (result->shape != NPU_OPERAND_NONE))
        return kiln_decline(answer, "epilogues[%u].operand = %u does not go with kind = %u",
                            (unsigned)index, (unsigned)epilogue->operand, (unsigned)epilogue->kind);
    if (wants && (!type_of(epilogue->type, &result->type) || result->type == NPU_I8 ||
                  result->type == NPU_I32))
        return kiln_decline(answer, "epilogues[%u].type = %s: operands are f32, f16 or bf16",
                            (unsigned)index, kiln_type_name(epilogue->type));
    result->parameter[0] = epilogue->p0;
    result->parameter[1] = epilogue->p1;
    return true;
}

static bool accept_epilogues(const kiln_gemm_desc *desc, struct npu_gemm *gemm, kiln_answer *answer)
{
    if (desc->epilogue_count > KILN_GEMM_MAX_EPILOGUES)
        return kiln_decline(answer, "epilogue_count = %u: at most %d",
                            (unsigned)desc->epilogue_count, KILN_GEMM_MAX_EPILOGUES);
    gemm->epilogues = desc->epilogue_count;
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        if (!accept_epilogue(&desc->epilogues[i], i, &gemm->epilogue[i], answer))
            return false;
    return true;
}

/* The plugin's own devices; but for them and the host it is asked only of memory that the host can
   address, which theirs is not. */
static bool accept_device(const struct npu_instance *instance, kiln_device *device,
                          kiln_answer *answer)
{
    if (instance->host->device_index(device, instance) >= 0)
        return true;
    return kiln_decline(answer, "npu computes in the memory of its own devices only");
}

_Static_assert(KILN_GEMM_MAX_EPILOGUES == NPU_EPILOGUES, "the engine takes as many epilogues");

bool npu_gemm_accept(const struct npu_instance *instance, kiln_device *device,
                     const kiln_gemm_desc *desc, struct npu_gemm *gemm,
                     struct npu_gemm_blocks *blocks, kiln_answer *answer)
{
    uint32_t flags = desc->head.flags;
    memset(gemm, 0, sizeof *gemm);
    if (!accept_device(instance, device, answer) || !accept_types(desc, gemm, answer) ||
        !accept_modes(desc, answer) || !accept_epilogues(desc, gemm, answer))
        return false;
    gemm->transpose_a = flags & KILN_GEMM_TRANSPOSE_A;
    gemm->transpose_b = flags & KILN_GEMM_TRANSPOSE_B;
    gemm->packed_a = flags & KILN_GEMM_PACKED_A;
    gemm->packed_b = flags & KILN_GEMM_PACKED_B;
    gemm->dynamic_k = (flags & KILN_GEMM_DYNAMIC_K) && !gemm->packed_a && !gemm->packed_b;
    gemm->saturate = flags & KILN_GEMM_SATURATE;
    gemm->product = desc->k > 0;
    gemm->read_c = desc->c_type != KILN_TYPE_NONE;
    gemm->m = desc->m;
    gemm->n = desc->n;
    gemm->k = desc->k;
    char error[sizeof answer->reason];
    if (npu_gemm_choose_blocks(&instance->config, gemm, blocks, error, sizeof error))
        return kiln_decline(answer, "%s", error);
    return true;
}

kiln_status npu_gemm_query(void *object, kiln_device *device, const kiln_op_head *descriptor,
                           kiln_answer *answer)
{
    const struct npu_instance *instance = object;
    kiln_gemm_desc desc;
    struct npu_gemm gemm;
    struct npu_gemm_blocks blocks;
    kiln_status status = kiln_receive_descriptor(&desc, sizeof desc, descriptor);
    if (status == KILN_INVALID)
        return instance->host->set_error(status,
                                         "the descriptor's struct_size is %u, less than its head",
                                         (unsigned)descriptor->struct_size);
    if (status != KILN_OK) {
        kiln_decline(
            answer,
            "struct_size = %u: the descriptor says something beyond the %zu bytes that npu "
            "knows",
            (unsigned)descriptor->struct_size, sizeof desc);
        return KILN_OK;
    }
    if (!npu_gemm_accept(instance, device, &desc, &gemm, &blocks, answer))
        return KILN_OK;
    answer->support = KILN_SUPPORT_NATIVE;
    answer->flags = KILN_ANSWER_REPRODUCIBLE;
    answer->accumulator = gemm.type == NPU_I8 ? KILN_I32 : KILN_F32;
    snprintf(answer->kernel, sizeof answer->kernel, "cube %lldx%lldx%lld (model)",
             (long long)blocks.m, (long long)blocks.n, (long long)blocks.k);
    return KILN_OK;
}

kiln_status npu_gemm_space(void *object, kiln_device *device, const kiln_op_head *descriptor,
                           kiln_status (*emit)(void *argument, const kiln_parameter *parameters,
                                               int64_t count),
                           void *argument)
{
    static const int64_t extents[] = {32, 64, 128, 256};
    const struct npu_instance *instance = object;
    kiln_answer answer = {.struct_size = sizeof answer};
    kiln_gemm_desc desc;
    struct npu_gemm gemm;
    struct npu_gemm_blocks chosen;
    char error[256];
    kiln_status status = kiln_receive_descriptor(&desc, sizeof desc, descriptor);
    if (status != KILN_OK || !npu_gemm_accept(instance, device, &desc, &gemm, &chosen, &answer))
        return instance->host->set_error(KILN_UNSUPPORTED, "npu: %s", answer.reason);
    for (size_t i = 0; i < 64 && status == KILN_OK; i++) {
        int64_t m = extents[i % 4], n = extents[i / 4 % 4], slice = extents[i / 16];
        struct npu_gemm_blocks blocks = {m, n, 2 * slice, slice};
        if (npu_gemm_check_blocks(&instance->config, &gemm, &blocks, error, sizeof error))
            continue;
        const kiln_parameter parameters[] = {
            {"block_m", m}, {"block_n", n}, {"block_k", 2 * slice}, {"slice", slice}};
        status = emit(argument, parameters, 4);
    }
    return status;
}
