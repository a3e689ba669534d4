/* SPDX-License-Identifier: Apache-2.0 */
/* Making plans, and what can be asked of them. */
#include "core/plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/fork.h"
#include "core/record.h"
#include "core/tuning.h"

static void trace_plan(const kiln_plan *plan, int64_t begin)
{
    if (!kiln_tracing(plan->runtime))
        return;
    kiln_trace_event event = {.kind = KILN_TRACE_PLAN,
                              .operator_name = plan->operator_name,
                              .backend = plan->instance->name,
                              .device = plan->device->name,
                              .text = plan->reason,
                              .begin_ns = begin,
                              .end_ns = kiln_now_ns()};
    kiln_trace_emit(plan->runtime, event);
    if (plan->fallback) {
        event.kind = KILN_TRACE_FALLBACK;
        kiln_trace_emit(plan->runtime, event);
    }
}

/* Tuning parameters: the caller's, else those on record for this device. */
static void fill_parameters(const kiln_request *request, const kiln_choice *choice,
                            kiln_parameter *recorded, kiln_plan_request *wanted)
{
    wanted->parameters = request->options.parameters;
    wanted->parameter_count = request->options.parameter_count;
    if (wanted->parameter_count > 0)
        return;
    int64_t count =
        kiln_tuning_find(request->runtime->tuning, request->operator_name, request->descriptor,
                         request->descriptor_size, choice->device->info.fingerprint,
                         choice->backend, recorded, KILN_TUNING_PARAMETERS, NULL);
    if (count > 0) {
        wanted->parameters = recorded;
        wanted->parameter_count = (uint64_t)count;
    }
}

/* The reason that people read: why this one, and what was passed over. A backend that the profile
 * denies was nobody's choice, and without an order in the profile there is no first choice. */
static void set_reason(kiln_plan *plan, const kiln_choice *choices, int64_t index)
{
    int64_t first = 0;
    while (first < index && !choices[first].preferred)
        first++;
    plan->fallback = first < index;
    if (plan->fallback)
        snprintf(plan->reason, sizeof plan->reason, "after %s declined: %s", choices[first].backend,
                 choices[first].reason);
    else
        snprintf(plan->reason, sizeof plan->reason, "%s%s",
                 choices[index].preferred ? "first choice" : "the first that serves it",
                 plan->staged ? ", with staging" : "");
}

static kiln_status call_plan(kiln_plan *plan, const kiln_plan_request *request)
{
    kiln_place place = {"planning with plugin", plan->instance->path};
    kiln_visit before = kiln_enter(&place);
    return kiln_leave_with(&before,
                           plan->table.plan(plan->instance->instance, request, &plan->native));
}

static kiln_status prepare(const kiln_request *request, const kiln_choice *choice,
                           kiln_plan **result)
{
    kiln_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return kiln_fail_memory("a plan");
    atomic_store(&plan->references, 1);
    plan->runtime = request->runtime;
    plan->generation = kiln_process_generation();
    plan->known = request->known;
    plan->raw = choice->raw;
    kiln_receive_table(&plan->table, sizeof plan->table, choice->raw);
    plan->instance = choice->instance;
    plan->running = (kiln_place){"running plugin", choice->instance->path};
    plan->device = choice->device;
    plan->home = request->device;
    plan->staged = choice->staged;
    plan->answer = choice->answer;
    memcpy(plan->operator_name, request->operator_name, sizeof plan->operator_name);
    plan->descriptor_size = request->descriptor_size;
    memcpy(plan->descriptor, request->descriptor, request->descriptor_size);

    kiln_parameter recorded[KILN_TUNING_PARAMETERS];
    kiln_plan_request wanted = {.struct_size = sizeof wanted,
                                .device = choice->device,
                                .descriptor = (const kiln_op_head *)plan->descriptor,
                                .payload = request->options.payload,
                                .payload_size = request->options.payload_size,
                                .parent = request->options.parent};
    fill_parameters(request, choice, recorded, &wanted);
    kiln_status status =
        kiln_device_is_host(choice->device) ? KILN_OK : kiln_device_ready(choice->device);
    if (status == KILN_OK)
        status = call_plan(plan, &wanted);
    if (status != KILN_OK) {
        free(plan);
        return status;
    }
    plan->direct = kiln_device_is_host(plan->device) && !plan->staged;
    if (plan->known) {
        plan->known->prepare(plan->descriptor, plan->home, plan->prepared);
        plan->outputs = plan->known->outputs(plan->descriptor);
    } else if (plan->table.outputs) {
        plan->outputs = plan->table.outputs(plan->native);
    }
    *result = plan;
    return KILN_OK;
}

static kiln_status nobody(const kiln_request *request, const kiln_choice *choices, int64_t count)
{
    char reasons[768] = "";
    for (int64_t i = 0; i < count; i++) {
        size_t used = strlen(reasons);
        snprintf(reasons + used, sizeof reasons - used, "%s%s: %s", used ? "; " : "",
                 choices[i].backend, choices[i].reason);
    }
    if (count == 0)
        return kiln_fail(KILN_UNSUPPORTED,
                         "no open plugin offers %s; `kiln info` lists what was found",
                         request->operator_name);
    return kiln_fail(KILN_UNSUPPORTED, "no backend serves this %s: %s", request->operator_name,
                     reasons);
}

kiln_status kiln_plan_build(const kiln_request *request, kiln_plan **result)
{
    kiln_choice *choices = calloc(KILN_MAX_CHOICES, sizeof *choices);
    if (!choices)
        return kiln_fail_memory("the choice of a backend");
    int64_t begin = kiln_now_ns(), count = kiln_route(request, choices);
    kiln_status status = KILN_UNSUPPORTED;
    for (int64_t i = 0; status == KILN_UNSUPPORTED && i < count; i++) {
        if (choices[i].answer.support == KILN_SUPPORT_NO)
            continue;
        status = prepare(request, &choices[i], result);
        if (status == KILN_UNSUPPORTED) { /* it found out only when it planned: on with the walk */
            snprintf(choices[i].reason, sizeof choices[i].reason, "%.255s", kiln_last_error());
        } else if (status == KILN_OK) {
            kiln_plan *plan = *result;
            set_reason(plan, choices, i);
            plan->recorded = kiln_record_plan(request->runtime->record, plan);
            trace_plan(plan, begin);
        }
    }
    if (status == KILN_UNSUPPORTED)
        status = nobody(request, choices, count);
    free(choices);
    return status;
}

void kiln_plan_retain(kiln_plan *plan)
{
    atomic_fetch_add_explicit(&plan->references, 1, memory_order_relaxed);
}

void kiln_plan_release(kiln_plan *plan)
{
    if (!plan || atomic_fetch_sub_explicit(&plan->references, 1, memory_order_acq_rel) != 1)
        return;
    /* In a child process the plan of a device that does not survive fork is the parent's. */
    if (plan->device->fork_safe || plan->generation == kiln_process_generation()) {
        kiln_place place = {"freeing a plan of plugin", plan->instance->path};
        kiln_visit before = kiln_enter(&place);
        plan->table.free(plan->native);
        kiln_leave(&before);
    }
    for (int i = 0; i < KILN_PLAN_WORKSPACES; i++)
        free(atomic_load(&plan->workspaces[i]));
    free(plan);
}

kiln_status kiln_plan_create(kiln_runtime *runtime, const char *operator_name,
                             const kiln_op_head *descriptor, const kiln_plan_options *options,
                             kiln_plan **plan)
{
    kiln_plan_key key = {operator_name, descriptor, options, runtime->devices[0]};
    if (options && options->struct_size >= offsetof(kiln_plan_options, backend) && options->device)
        key.device = options->device;
    kiln_cached_plan *pin;
    kiln_status status = kiln_plan_find(runtime, &key, plan, &pin);
    if (status != KILN_OK || !pin)
        return status;
    kiln_plan_retain(*plan);
    kiln_plan_unpin(runtime->plans, pin);
    return KILN_OK;
}

kiln_status kiln_plan_get_info(const kiln_plan *plan, kiln_plan_info *info)
{
    kiln_plan_info whole = {
        .operator_name = plan->operator_name,
        .backend = plan->instance->name,
        .device = plan->device->name,
        .kernel = plan->answer.kernel,
        .reason = plan->reason,
        .support = plan->answer.support,
        .flags = plan->answer.flags,
        .accumulator = plan->answer.accumulator,
        .fallback = plan->fallback,
        .estimated_ns = plan->answer.estimated_ns,
        .workspace_bytes = plan->answer.workspace_bytes,
        .staged = plan->staged,
    };
    uint64_t size = info->struct_size;
    if (size < sizeof size)
        return kiln_fail(KILN_INVALID, "kiln_plan_info.struct_size is %llu; set it to sizeof",
                         (unsigned long long)size);
    memcpy(info, &whole, size < sizeof whole ? (size_t)size : sizeof whole);
    info->struct_size = size;
    return KILN_OK;
}

kiln_status kiln_plan_get_native(const kiln_plan *plan, kiln_plan_native *native)
{
    if (native->struct_size < sizeof *native)
        return kiln_fail(KILN_INVALID, "kiln_plan_native.struct_size is %llu; set it to sizeof",
                         (unsigned long long)native->struct_size);
    native->table = plan->raw;
    native->plan = plan->native;
    return KILN_OK;
}
