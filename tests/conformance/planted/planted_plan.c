/* SPDX-License-Identifier: Apache-2.0 */
/* Answers and plans of kiln.gemm/1, and what can be wrong with them. */
#include "planted_gemm.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_ours(const planted_instance *self, const kiln_device *device)
{
    if (planted(WRONG_ON_HOST) && self->host->device_is_host(device))
        return true;
    return ON_DEVICE ? self->host->device_index(device, self) >= 0
                     : self->host->device_is_host(device) != 0;
}

static int64_t slot_bytes(const kiln_gemm_desc *desc)
{
    return ON_DEVICE ? 0 : (desc->n * (int64_t)sizeof(double) + 63) / 64 * 64;
}

static kiln_status receive(const kiln_op_head *descriptor, kiln_gemm_desc *desc)
{
    if (planted(READS_BEYOND_DESCRIPTOR)) {
        memcpy(desc, descriptor, sizeof *desc);
        desc->head.struct_size = sizeof *desc;
        return descriptor->struct_size < sizeof *descriptor ? KILN_INVALID : KILN_OK;
    }
    if (planted(REFUSES_ZEROS_BEHIND) && descriptor->struct_size > sizeof *desc)
        return KILN_UNSUPPORTED;
    kiln_status status = kiln_receive_descriptor(desc, sizeof *desc, descriptor);
    if (planted(OBEYS_UNKNOWN_TAIL) && status == KILN_UNSUPPORTED) {
        memcpy(desc, descriptor, sizeof *desc);
        return KILN_OK;
    }
    return status;
}

static kiln_status query(void *object, kiln_device *device, const kiln_op_head *descriptor,
                         kiln_answer *answer)
{
    const planted_instance *self = object;
    kiln_gemm_desc desc;
    if (planted(READS_FLAGS_FIRST) && descriptor->flags >> 16)
        return self->host->set_error(KILN_UNSUPPORTED, "planted: these flags are not known");
    kiln_status status = receive(descriptor, &desc);
    if (status == KILN_INVALID)
        return self->host->set_error(status, "planted: a descriptor of %u bytes has no head",
                                     (unsigned)descriptor->struct_size);
    if (status != KILN_OK)
        kiln_decline(answer, "the descriptor says more than this plugin knows");
    else if (!is_ours(self, device))
        kiln_decline(answer, "the tensors are elsewhere");
    else if (planted_accept(&desc, answer)) {
        int64_t threads = self->host->thread_count(self->host);
        answer->support = KILN_SUPPORT_EMULATED;
        answer->flags = KILN_ANSWER_REPRODUCIBLE;
        answer->accumulator = planted_sum_type(&desc);
        answer->workspace_bytes = slot_bytes(&desc) * (threads > 1 ? threads : 1);
        answer->workspace_alignment = 64;
        snprintf(answer->kernel, sizeof answer->kernel, "rows");
        if (planted(WORKSPACE_TOO_SMALL) && desc.n == 40 && desc.k >= 200)
            answer->workspace_bytes -= 64;
    }
    if (planted(NO_REASON))
        answer->reason[0] = '\0';
    if (planted(ANSWERS_BEYOND) && answer->struct_size > sizeof *answer)
        *(char *)(answer + 1) = 1;
    if (planted(CONTRADICTS) && answer->support) {
        static _Atomic int asked;
        answer->accumulator = atomic_fetch_add(&asked, 1) % 2 ? KILN_F64 : answer->accumulator;
    }
    return KILN_OK;
}

/* ---- Tuning ---- */

static const char piece[] = "piece";

static bool is_piece(const kiln_parameter *parameter)
{
    return strcmp(parameter->name, piece) == 0 && parameter->value >= 16 &&
           parameter->value <= (planted(REFUSES_ITS_SPACE) ? 32 : PLANTED_PIECE);
}

/* ---- Plans ---- */

static bool is_large(const kiln_gemm_desc *desc)
{
    return desc->m == 128 && desc->n == 128;
}

static kiln_status plan_create(void *object, const kiln_plan_request *request, void **result)
{
    planted_instance *self = object;
    kiln_answer answer = {.struct_size = sizeof answer};
    if (kiln_check_request(request, sizeof *request) != KILN_OK &&
        !planted(OBEYS_LONG_PLAN_REQUESTS))
        return self->host->set_error(KILN_UNSUPPORTED, "planted: the request says too much");
    kiln_status status = query(object, request->device, request->descriptor, &answer);
    for (uint64_t i = 0; status == KILN_OK && i < request->parameter_count; i++)
        if (!is_piece(&request->parameters[i]))
            status = self->host->set_error(KILN_INVALID, "planted: parameter '%.23s' is unknown",
                                           request->parameters[i].name);
    if (status != KILN_OK)
        return status;
    planted_plan *made = calloc(1, sizeof *made);
    if (!made)
        return self->host->set_error(KILN_NO_MEMORY, "planted: no memory for a plan");
    receive(request->descriptor, &made->desc);
    if ((answer.support == KILN_SUPPORT_NO && !planted(PLANS_WHAT_IT_DECLINES)) ||
        (planted(PLAN_FAILS) && made->desc.m == 5 && made->desc.n == 6) ||
        (planted(ONE_PLAN_AT_A_TIME) && is_large(&made->desc) && self->large_plans > 0)) {
        free(made);
        return self->host->set_error(KILN_UNSUPPORTED, "planted: %s",
                                     answer.reason[0] ? answer.reason : "after all, no");
    }
    made->instance = self;
    made->device = ON_DEVICE ? self->host->device_native(request->device, self) : NULL;
    made->slot_bytes = slot_bytes(&made->desc);
    made->piece = request->parameter_count ? request->parameters[0].value : PLANTED_PIECE;
    if (planted(SHARED_SCRATCH)) /* by the shares of one run, but by all runs alike */
        made->scratch =
            calloc((size_t)self->host->thread_count(self->host) + 1, (size_t)made->slot_bytes + 64);
    if (planted(LEAKS_PLAN) && !malloc(64))
        return KILN_NO_MEMORY;
    self->large_plans += is_large(&made->desc);
    *result = made;
    return KILN_OK;
}

static void plan_free(void *object)
{
    planted_plan *self = object;
    self->instance->large_plans -= is_large(&self->desc);
    free(self->scratch);
    if (!planted(LEAKS_PLAN))
        free(self);
}

static kiln_status space(void *object, kiln_device *device, const kiln_op_head *descriptor,
                         kiln_status (*emit)(void *argument, const kiln_parameter *parameters,
                                             int64_t count),
                         void *argument)
{
    kiln_answer answer = {.struct_size = sizeof answer};
    kiln_status status = query(object, device, descriptor, &answer);
    for (int64_t columns = 16; columns <= PLANTED_PIECE && answer.support && status == KILN_OK;
         columns *= 2) {
        kiln_parameter parameter = {.value = columns};
        memcpy(parameter.name, piece, sizeof piece);
        status = emit(argument, &parameter, 1);
    }
    return status;
}

const kiln_operator_table planted_gemm_table = {
    .struct_size = sizeof planted_gemm_table,
    .flags = planted(UNKNOWN_TABLE_FLAG) ? 1u << 31 : 0,
    .query = query,
    .plan = plan_create,
    .run = planted_run,
    .free = plan_free,
    .space = space,
    .pack_size = planted_pack_size,
    .pack = planted_pack,
    .unpack = planted(NO_UNPACK) ? NULL : planted_unpack,
};
