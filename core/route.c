/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the backend of a plan: the profile's order, and each backend's own answer. */
#include <stdio.h>

#include "core/plan.h"

static bool name_is_valid(const char *name)
{
    size_t length = name ? strlen(name) : 0;
    return length > 0 && length < 64 && strchr(name, '/') != NULL;
}

static kiln_status take_options(const kiln_plan_options *options, kiln_request *request)
{
    if (!options)
        return KILN_OK;
    kiln_status status = kiln_check_struct(options, sizeof *options, "kiln_plan_options");
    if (status != KILN_OK)
        return status;
    kiln_receive_table(&request->options, sizeof request->options, options);
    if (request->options.flags & ~(uint32_t)KILN_PLAN_REPRODUCIBLE)
        return kiln_fail(KILN_UNSUPPORTED, "kiln_plan_options.flags %#x is not known",
                         request->options.flags);
    if (request->options.staging > KILN_STAGING_DENY)
        return kiln_fail(KILN_UNSUPPORTED, "kiln_plan_options.staging %u is not known",
                         request->options.staging);
    if ((request->options.parameter_count && !request->options.parameters) ||
        (request->options.payload_size && !request->options.payload))
        return kiln_fail(KILN_INVALID,
                         "kiln_plan_options counts %llu parameters and %llu bytes of payload, but "
                         "their pointer is NULL",
                         (unsigned long long)request->options.parameter_count,
                         (unsigned long long)request->options.payload_size);
    if (request->options.device && request->options.device->runtime != request->runtime)
        return kiln_fail(KILN_INVALID, "device %s belongs to another runtime",
                         request->options.device->name);
    return KILN_OK;
}

static kiln_status take_descriptor(const kiln_op_head *descriptor, kiln_request *request)
{
    size_t size = descriptor->struct_size;
    if (size < sizeof *descriptor)
        return kiln_fail(KILN_INVALID, "%s: the descriptor's struct_size is %zu; set it to sizeof",
                         request->operator_name, size);
    if (size > KILN_MAX_DESCRIPTOR)
        return kiln_fail(KILN_UNSUPPORTED, "%s: descriptor of %zu bytes; at most %d are possible",
                         request->operator_name, size, KILN_MAX_DESCRIPTOR);
    if (request->known) {
        size_t known = request->known->descriptor_size;
        if (kiln_receive_descriptor(request->descriptor, known, descriptor) != KILN_OK)
            return kiln_fail(KILN_UNSUPPORTED,
                             "%s: the descriptor holds fields that this version does not know",
                             request->operator_name);
        request->descriptor_size = known;
        return request->known->canonicalise(request->descriptor);
    }
    memcpy(request->descriptor, descriptor, size);
    request->descriptor_size = size;
    return KILN_OK;
}

kiln_status kiln_request_make(kiln_runtime *runtime, const char *operator_name,
                              const kiln_op_head *descriptor, const kiln_plan_options *options,
                              kiln_request *request)
{
    memset(request, 0, sizeof *request);
    request->runtime = runtime;
    if (!name_is_valid(operator_name))
        return kiln_fail(KILN_INVALID, "'%s' is not an operator's name; it reads like kiln.gemm/1",
                         operator_name ? operator_name : "(null)");
    snprintf(request->operator_name, sizeof request->operator_name, "%s", operator_name);
    request->known = kiln_operator_find(operator_name);
    kiln_status status = take_options(options, request);
    if (status == KILN_OK)
        status = take_descriptor(descriptor, request);
    request->device = request->options.device ? request->options.device : runtime->devices[0];
    request->staging =
        request->options.staging == KILN_STAGING_ALLOW ||
        (request->options.staging == KILN_STAGING_PROFILE && runtime->staging_allowed);
    return status == KILN_OK ? kiln_device_check_process(request->device) : status;
}

static const kiln_operator_table *operator_table(const kiln_instance *instance, const char *name)
{
    const char *const *interfaces = instance->plugin.interfaces;
    for (int64_t i = 0; interfaces && interfaces[i]; i++)
        if (strcmp(interfaces[i], name) == 0)
            return instance->plugin.interface(instance->instance, name);
    return NULL;
}

static void decline(kiln_choice *choice, const char *format, ...) KILN_PRINTF(2, 3);

static void decline(kiln_choice *choice, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    choice->answer.support = KILN_SUPPORT_NO;
    choice->staged = false;
    vsnprintf(choice->reason, sizeof choice->reason, format, arguments);
    va_end(arguments);
}

/* The backend's answer for one device, with what the core adds to it. */
static void ask(const kiln_request *request, const kiln_operator_table *table, kiln_choice *choice,
                kiln_device *device)
{
    memset(&choice->answer, 0, sizeof choice->answer);
    choice->answer.struct_size = sizeof choice->answer;
    choice->device = device;
    choice->reason[0] = '\0';
    bool reaches = device->instance == choice->instance || kiln_device_addressable(device) ||
                   (table->flags & KILN_OPERATOR_ANY_DEVICE);
    if (!reaches) {
        decline(choice, "it cannot address the memory of %s", device->name);
        return;
    }
    kiln_place place = {"asking plugin", choice->instance->path};
    kiln_visit before = kiln_enter(&place);
    kiln_status status = table->query(choice->instance->instance, device,
                                      (const kiln_op_head *)request->descriptor, &choice->answer);
    status = kiln_leave_with(&before, status);
    choice->answer.kernel[sizeof choice->answer.kernel - 1] = '\0';
    choice->answer.reason[sizeof choice->answer.reason - 1] = '\0';
    if (status != KILN_OK)
        decline(choice, "%s", kiln_last_error());
    else if (choice->answer.support < KILN_SUPPORT_NO ||
             choice->answer.support > KILN_SUPPORT_NATIVE)
        decline(choice, "its answer %d is not one of kiln_support", choice->answer.support);
    else if (choice->answer.workspace_bytes < 0 || choice->answer.workspace_alignment < 0 ||
             choice->answer.workspace_alignment > 64)
        decline(choice,
                "it wants a workspace of %lld bytes aligned to %lld bytes; the core aligns to 64",
                (long long)choice->answer.workspace_bytes,
                (long long)choice->answer.workspace_alignment);
    else if (choice->answer.support != KILN_SUPPORT_NO &&
             (request->options.flags & KILN_PLAN_REPRODUCIBLE) &&
             !(choice->answer.flags & KILN_ANSWER_REPRODUCIBLE))
        decline(choice, "its results are not reproducible, which the call asks for");
    else if (choice->answer.support == KILN_SUPPORT_NO && !*choice->answer.reason)
        decline(choice, "it gives no reason");
    else
        snprintf(choice->reason, sizeof choice->reason, "%s", choice->answer.reason);
}

/* The device of the backend that staged tensors go to: the profile's default if it is one of its
 * own, else its first. */
static kiln_device *staging_device(kiln_runtime *runtime, const kiln_instance *instance)
{
    kiln_device *preferred = kiln_device_default(runtime);
    if (preferred->instance == instance)
        return preferred;
    for (int64_t i = 0; i < runtime->device_count; i++)
        if (runtime->devices[i]->instance == instance)
            return runtime->devices[i];
    return NULL;
}

static void consider(const kiln_request *request, const char *name, kiln_choice *choice)
{
    memset(choice, 0, sizeof *choice);
    snprintf(choice->backend, sizeof choice->backend, "%s", name);
    choice->device = request->device;
    const kiln_instance *found = NULL;
    choice->instance = kiln_runtime_instance(request->runtime, name, &found);
    if (!choice->instance) {
        if (found)
            decline(choice, "%s: %s", found->state, found->reason);
        else
            decline(choice, "no plugin of this name was found");
        return;
    }
    choice->raw = operator_table(choice->instance, request->operator_name);
    kiln_operator_table table;
    if (!choice->raw || kiln_receive_table(&table, sizeof table, choice->raw) != KILN_OK ||
        !table.query || !table.plan || !table.run || !table.free) {
        decline(choice, "it does not offer %s", request->operator_name);
        return;
    }
    ask(request, &table, choice, request->device);
    kiln_device *other = staging_device(request->runtime, choice->instance);
    if (choice->answer.support != KILN_SUPPORT_NO || !kiln_device_is_host(request->device) ||
        !other)
        return;
    ask(request, &table, choice, other);
    choice->staged = choice->answer.support != KILN_SUPPORT_NO;
    if (!choice->staged)
        return;
    if (!request->known && !table.outputs)
        decline(choice,
                "the tensors are in host memory, and it does not say which of them it writes, so "
                "they cannot be staged; place them on %s",
                other->name);
    else if (!request->staging)
        decline(choice,
                "the tensors are in host memory; place them on %s, or set staging.policy: allow",
                other->name);
}

/* *ordered: the profile, or the caller, says in which order. */
static int64_t backend_names(const kiln_request *request, const char **names, bool *ordered)
{
    kiln_runtime *runtime = request->runtime;
    *ordered = true;
    if (request->options.backend) {
        names[0] = request->options.backend;
        return 1;
    }
    uint32_t type = request->known ? request->known->principal_type(request->descriptor)
                                   : (uint32_t)KILN_TYPE_NONE;
    int64_t count = kiln_profile_backends(runtime->profile, request->operator_name, type, names,
                                          KILN_MAX_CHOICES);
    if (count >= 0)
        return count < KILN_MAX_CHOICES ? count : KILN_MAX_CHOICES;
    *ordered = false;
    count = 0;
    for (int64_t i = 0; i < runtime->open_count && count < KILN_MAX_CHOICES; i++)
        if (operator_table(runtime->open[i], request->operator_name))
            names[count++] = runtime->open[i]->name;
    return count;
}

int64_t kiln_route(const kiln_request *request, kiln_choice *choices)
{
    const char *names[KILN_MAX_CHOICES];
    bool ordered;
    int64_t count = backend_names(request, names, &ordered);
    for (int64_t i = 0; i < count; i++) {
        consider(request, names[i], &choices[i]);
        choices[i].denied =
            kiln_profile_denied(request->runtime->profile, request->operator_name, names[i]);
        if (choices[i].denied)
            decline(&choices[i], "the profile denies it for %s", request->operator_name);
        choices[i].preferred = ordered && !choices[i].denied;
    }
    return count;
}

kiln_status kiln_explain(kiln_runtime *runtime, const char *operator_name,
                         const kiln_op_head *descriptor, const kiln_plan_options *options,
                         kiln_candidate *candidates, int64_t capacity, int64_t *count)
{
    kiln_request request;
    kiln_status status = kiln_request_make(runtime, operator_name, descriptor, options, &request);
    if (status != KILN_OK)
        return status;
    kiln_choice choices[KILN_MAX_CHOICES];
    *count = kiln_route(&request, choices);
    bool chosen = false;
    for (int64_t i = 0; i < *count; i++) {
        kiln_choice *choice = &choices[i];
        bool accepts = choice->answer.support != KILN_SUPPORT_NO;
        if (i < capacity) {
            kiln_candidate *candidate = &candidates[i];
            memset(candidate, 0, sizeof *candidate);
            memcpy(candidate->backend, choice->backend, sizeof candidate->backend);
            snprintf(candidate->device, sizeof candidate->device, "%s", choice->device->name);
            memcpy(candidate->kernel, choice->answer.kernel, sizeof candidate->kernel);
            memcpy(candidate->reason, choice->reason, sizeof candidate->reason);
            candidate->support = choice->answer.support;
            candidate->flags = choice->answer.flags;
            candidate->accumulator = choice->answer.accumulator;
            candidate->estimated_ns = choice->answer.estimated_ns;
            candidate->workspace_bytes = choice->answer.workspace_bytes;
            candidate->chosen = accepts && !chosen;
            candidate->staged = choice->staged;
        }
        chosen = chosen || accepts;
    }
    return KILN_OK;
}
