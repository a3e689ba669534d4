/* SPDX-License-Identifier: Apache-2.0 */
/* acme.axpy/1. The core does not know it, so that every check on it is ours. */
#include <stdlib.h>

#include "plugin.h"

typedef struct axpy_plan {
    const kiln_host *host;
    int64_t count;
} axpy_plan;

/* A reason why we decline, NULL when we do not. */
static const char *why_not(const acme_instance *acme, kiln_device *device,
                           const kiln_op_head *descriptor, acme_axpy_desc *desc)
{
    if (!acme->host->device_is_host(device))
        return "acme.axpy computes in host memory only";
    if (kiln_receive_descriptor(desc, sizeof *desc, descriptor) != KILN_OK || desc->head.flags)
        return "the descriptor asks for something that this version of acme.axpy does not know";
    return desc->count < 0 ? "count is negative" : NULL;
}

static kiln_status axpy_query(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                              kiln_answer *answer)
{
    acme_axpy_desc desc;
    const char *reason = why_not(instance, device, descriptor, &desc);
    if (reason) {
        kiln_decline(answer, "%s", reason);
        return KILN_OK;
    }
    answer->support = KILN_SUPPORT_NATIVE;
    answer->flags = KILN_ANSWER_REPRODUCIBLE;
    answer->accumulator = KILN_F32;
    strncpy(answer->kernel, "axpy-c", sizeof answer->kernel - 1);
    return KILN_OK;
}

static kiln_status axpy_plan_make(void *instance, const kiln_plan_request *request, void **result)
{
    const acme_instance *acme = instance;
    acme_axpy_desc desc;
    if (kiln_check_request(request, sizeof *request) != KILN_OK)
        return acme->host->set_error(KILN_UNSUPPORTED, "acme.axpy: the request is too new");
    const char *reason = why_not(acme, request->device, request->descriptor, &desc);
    if (reason)
        return acme->host->set_error(KILN_UNSUPPORTED, "%s", reason);
    if (request->parameter_count)
        return acme->host->set_error(KILN_INVALID, "acme.axpy: there is no tuning parameter '%s'",
                                     request->parameters[0].name);
    axpy_plan *plan = malloc(sizeof *plan);
    if (!plan)
        return acme->host->set_error(KILN_NO_MEMORY, "acme.axpy: out of memory while planning");
    *plan = (axpy_plan){acme->host, desc.count};
    *result = plan;
    return KILN_OK;
}

/* NULL for what is not as it must be. */
static float *vector(const axpy_plan *plan, const kiln_args_head *arguments, uint32_t slot)
{
    const kiln_tensor *tensor = &arguments->tensors[slot];
    const int64_t size = sizeof(float);
    bool fits = tensor->type == KILN_F32 && tensor->layout == KILN_LAYOUT_STRIDED &&
                tensor->rank == 1 && tensor->shape[0] == plan->count &&
                (tensor->strides[0] == 1 || plan->count <= 1) && tensor->byte_offset >= 0;
    if (fits && tensor->buffer) /* divided, since count * size may be beyond 64 bits */
        fits =
            (plan->host->buffer_bytes(tensor->buffer) - tensor->byte_offset) / size >= plan->count;
    char *address = fits ? kiln_tensor_address(plan->host, tensor) : NULL;
    return (uintptr_t)address % sizeof(float) == 0 ? (float *)address : NULL;
}

static kiln_status axpy_run(void *object, const kiln_run_context *context,
                            const kiln_args_head *arguments)
{
    const axpy_plan *plan = object;
    const acme_axpy_args *args = (const acme_axpy_args *)arguments;
    kiln_status status = kiln_check_arguments(arguments, sizeof *args);
    if (status == KILN_OK && arguments->tensor_count != ACME_AXPY_SLOTS)
        status = KILN_INVALID;
    if (status != KILN_OK)
        return plan->host->set_error(
            status, "acme.axpy: arguments of %u bytes with %u tensors; %zu bytes and 2 are known",
            arguments->struct_size, arguments->tensor_count, sizeof *args);
    const float *x = vector(plan, arguments, ACME_AXPY_X);
    float *y = vector(plan, arguments, ACME_AXPY_Y);
    if (plan->count > 0 && (!x || !y))
        return plan->host->set_error(KILN_INVALID,
                                     "acme.axpy: %s must be a contiguous, aligned f32 vector of "
                                     "%lld elements in host memory",
                                     x ? "y" : "x", (long long)plan->count);
    /* The whole when parts is 0, else our share. */
    int64_t parts = context->parts ? context->parts : 1;
    int64_t begin = plan->count * context->part / parts,
            end = plan->count * (context->part + 1) / parts;
    for (int64_t i = begin; i < end; i++)
        y[i] += (float)args->alpha * x[i];
    return KILN_OK;
}

static uint64_t axpy_outputs(void *plan)
{
    (void)plan;
    return 1u << ACME_AXPY_Y;
}

const kiln_operator_table acme_axpy_table = {
    .struct_size = sizeof(kiln_operator_table),
    .query = axpy_query,
    .plan = axpy_plan_make,
    .run = axpy_run,
    .free = free,
    .outputs = axpy_outputs,
};
