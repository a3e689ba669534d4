/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM plans: all programs are made when planning; a run fills in registers and queues a launch. */
#include "plugins/npu/glue.h"

#include <stdio.h>
#include <stdlib.h>

static void plan_free(void *object)
{
    struct npu_gemm_plan *plan = object;
    if (!plan)
        return;
    for (int product = 0; product < 2; product++)
        for (int read_c = 0; read_c < 2; read_c++)
            npu_program_free(plan->program[product][read_c]);
    npu_program_free(plan->pack);
    npu_program_free(plan->unpack);
    free(plan);
}

static kiln_status take_parameters(const struct npu_instance *instance,
                                   const kiln_plan_request *request, struct npu_gemm_plan *plan)
{
    const struct {
        const char *name;
        int64_t *value;
    } known[] = {{"block_m", &plan->blocks.m},
                 {"block_n", &plan->blocks.n},
                 {"block_k", &plan->blocks.k},
                 {"slice", &plan->blocks.depth}};
    char error[256];
    for (uint64_t i = 0; i < request->parameter_count; i++) {
        const kiln_parameter *parameter = &request->parameters[i];
        size_t k = 0;
        while (k < 4 && strncmp(parameter->name, known[k].name, sizeof parameter->name) != 0)
            k++;
        if (k == 4)
            return instance->host->set_error(
                KILN_INVALID,
                "npu: parameter '%.23s' is unknown; there are block_m, block_n, block_k and slice",
                parameter->name);
        *known[k].value = parameter->value;
    }
    if (npu_gemm_check_blocks(&instance->config, &plan->gemm, &plan->blocks, error, sizeof error))
        return instance->host->set_error(KILN_INVALID, "npu: %s", error);
    return KILN_OK;
}

/* A program for each way in which factors of a run leave out the product or C. */
static kiln_status make_programs(const struct npu_instance *instance, struct npu_gemm_plan *plan)
{
    char error[256];
    for (int product = 0; product <= (int)plan->gemm.product; product++)
        for (int read_c = 0; read_c <= (int)plan->gemm.read_c; read_c++) {
            struct npu_gemm variant = plan->gemm;
            variant.product = product;
            variant.read_c = read_c;
            plan->program[product][read_c] =
                npu_gemm_program(&instance->config, &variant, &plan->blocks, error, sizeof error);
            if (!plan->program[product][read_c])
                return instance->host->set_error(KILN_NO_MEMORY, "npu: %s", error);
        }
    return KILN_OK;
}

static kiln_status plan_create(void *object, const kiln_plan_request *request, void **result)
{
    struct npu_instance *instance = object;
    kiln_answer answer = {.struct_size = sizeof answer};
    if (kiln_check_request(request, sizeof *request) != KILN_OK)
        return instance->host->set_error(KILN_UNSUPPORTED,
                                         "npu: the plan request is of another version");
    struct npu_gemm_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return instance->host->set_error(KILN_NO_MEMORY, "npu: no memory for a plan");
    plan->instance = instance;
    kiln_status status =
        kiln_receive_descriptor(&plan->desc, sizeof plan->desc, request->descriptor);
    if (status != KILN_OK)
        status = instance->host->set_error(status, "npu: the descriptor is of another version");
    else if (!npu_gemm_accept(instance, request->device, &plan->desc, &plan->gemm, &plan->blocks,
                              &answer))
        status = instance->host->set_error(KILN_UNSUPPORTED, "npu: %s", answer.reason);
    if (status == KILN_OK)
        status = take_parameters(instance, request, plan);
    if (status == KILN_OK)
        status = make_programs(instance, plan);
    if (status == KILN_OK)
        status = npu_gemm_prepare_packing(plan);
    if (status != KILN_OK)
        plan_free(plan);
    else
        *result = plan;
    return status;
}

kiln_status npu_gemm_strided_operand(const struct npu_gemm_plan *plan, const kiln_tensor *tensor,
                                     uint32_t slot, struct npu_gemm_operand *result)
{
    const kiln_host *host = plan->instance->host;
    int64_t size = kiln_type_bits(tensor->type) / 8;
    uint32_t rank = tensor->rank;
    if (!tensor->buffer)
        return host->set_error(
            KILN_INVALID, "npu: tensor %u of the GEMM is not in a device's buffer", (unsigned)slot);
    result->address = npu_memory_address(host->buffer_native(tensor->buffer)) + tensor->byte_offset;
    result->stride = rank >= 2 ? tensor->strides[rank - 2] * size : 0;
    result->batch = rank == 3 ? tensor->strides[0] * size : 0;
    return KILN_OK;
}

/* The tensor of a slot; NULL when there is none. */
static const kiln_tensor *tensor_of(const kiln_gemm_args *arguments, uint32_t slot)
{
    return slot < arguments->head.tensor_count ? &arguments->head.tensors[slot] : NULL;
}

static kiln_status bind(const struct npu_gemm_plan *plan, const kiln_gemm_args *arguments,
                        uint32_t slot, struct npu_gemm_operand *result)
{
    const kiln_tensor *tensor = tensor_of(arguments, slot);
    if (!tensor)
        return plan->instance->host->set_error(
            KILN_INVALID, "npu: tensor %u of the GEMM is missing", (unsigned)slot);
    if (tensor->layout == KILN_LAYOUT_PACKED)
        return npu_gemm_packed_operand(plan, slot, tensor, result);
    return npu_gemm_strided_operand(plan, tensor, slot, result);
}

/* A vector has a row for each matrix of the batch where it has rank 2. */
static kiln_status bind_epilogue(const struct npu_gemm_plan *plan, const kiln_gemm_args *arguments,
                                 uint32_t index, struct npu_gemm_operand *result)
{
    uint32_t slot = KILN_GEMM_OPERAND + index;
    kiln_status status = bind(plan, arguments, slot, result);
    if (status != KILN_OK || plan->gemm.epilogue[index].shape == NPU_OPERAND_MATRIX)
        return status;
    result->batch = result->stride;
    result->stride = 0;
    return KILN_OK;
}

/* Sizes and operands of a run, and which of the programs it needs. */
static kiln_status bind_all(const struct npu_gemm_plan *plan, const kiln_gemm_args *arguments,
                            struct npu_gemm *variant, struct npu_gemm_arguments *bound)
{
    const kiln_tensor *a = tensor_of(arguments, KILN_GEMM_A),
                      *d = tensor_of(arguments, KILN_GEMM_D);
    if (!d || !a || d->rank < 2)
        return plan->instance->host->set_error(KILN_INVALID, "npu: A or D of the GEMM is missing");
    *variant = plan->gemm;
    bound->m = d->shape[d->rank - 2];
    bound->n = d->shape[d->rank - 1];
    bound->batch = d->rank == 3 ? d->shape[0] : 1;
    bound->alpha = kiln_gemm_factor(&plan->desc, arguments->alpha);
    bound->beta = kiln_gemm_factor(&plan->desc, arguments->beta);
    bound->k = a->rank >= 2 ? a->shape[a->rank - (plan->gemm.transpose_a ? 2 : 1)] : 0;
    variant->product = plan->gemm.product && bound->alpha != 0 && bound->k > 0;
    variant->read_c = plan->gemm.read_c && bound->beta != 0;
    if (variant->product && !plan->gemm.dynamic_k && bound->k != plan->gemm.k)
        return plan->instance->host->set_error(
            KILN_INVALID, "npu: K is %lld; with a packed operand it must be the largest, %lld",
            (long long)bound->k, (long long)plan->gemm.k);
    kiln_status status = bind(plan, arguments, KILN_GEMM_D, &bound->d);
    if (status == KILN_OK && variant->product)
        status = bind(plan, arguments, KILN_GEMM_A, &bound->a);
    if (status == KILN_OK && variant->product)
        status = bind(plan, arguments, KILN_GEMM_B, &bound->b);
    if (status == KILN_OK && variant->read_c)
        status = bind(plan, arguments, KILN_GEMM_C, &bound->c);
    for (uint32_t i = 0; status == KILN_OK && i < plan->gemm.epilogues; i++)
        if (plan->gemm.epilogue[i].shape != NPU_OPERAND_NONE)
            status = bind_epilogue(plan, arguments, i, &bound->epilogue[i]);
    return status;
}

static kiln_status expect_blobs(const struct npu_gemm_plan *plan, const kiln_run_context *context,
                                const kiln_gemm_args *arguments)
{
    static const uint32_t slots[] = {KILN_GEMM_A, KILN_GEMM_B};
    kiln_status status = KILN_OK;
    for (int i = 0; i < 2 && status == KILN_OK; i++) {
        const kiln_tensor *tensor = tensor_of(arguments, slots[i]);
        if (tensor->layout == KILN_LAYOUT_PACKED)
            status = npu_gemm_expect_blob(plan, context, slots[i], tensor);
    }
    return status;
}

static kiln_status run(void *object, const kiln_run_context *context, const kiln_args_head *head)
{
    const struct npu_gemm_plan *plan = object;
    const kiln_host *host = plan->instance->host;
    const kiln_gemm_args *arguments = (const kiln_gemm_args *)(const void *)head;
    struct npu_gemm variant;
    struct npu_gemm_arguments bound = {0};
    struct npu_launch launch;
    char error[NPU_TEXT];
    if (!context->stream)
        return host->set_error(KILN_INVALID, "npu: a run needs a stream");
    kiln_status checked = kiln_check_arguments(head, sizeof *arguments);
    if (checked != KILN_OK)
        return host->set_error(checked, "npu: the arguments are of another version");
    kiln_status status = bind_all(plan, arguments, &variant, &bound);
    if (status == KILN_OK && variant.product)
        status = expect_blobs(plan, context, arguments);
    if (status != KILN_OK || bound.m == 0 || bound.n == 0 || bound.batch == 0)
        return status;
    npu_gemm_launch(&variant, &plan->blocks, &bound, &launch);
    int queued = npu_enqueue_launch(host->stream_native(context->stream),
                                    plan->program[variant.product][variant.read_c], &launch, error,
                                    sizeof error);
    return queued == NPU_OK ? KILN_OK : host->set_error((kiln_status)queued, "npu: %s", error);
}

const kiln_operator_table npu_gemm_table = {
    .struct_size = sizeof npu_gemm_table,
    .query = npu_gemm_query,
    .plan = plan_create,
    .run = run,
    .free = plan_free,
    .space = npu_gemm_space,
    .pack_size = npu_gemm_pack_size,
    .pack = npu_gemm_pack,
    .unpack = npu_gemm_unpack,
};
