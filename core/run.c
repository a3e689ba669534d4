/* SPDX-License-Identifier: Apache-2.0 */
/* Running plans. The held plan on host memory without a stream is the short path: check, call. */
#include <stdlib.h>

#include "core/fork.h"
#include "core/plan.h"
#include "core/pool.h"
#include "core/record.h"
#include "core/workspace.h"

/* The backend's run or schedule. */
typedef kiln_status (*verb_fn)(void *plan, const kiln_run_context *context,
                               const kiln_args_head *arguments);

static __attribute__((cold, noinline)) kiln_status forked(const kiln_plan *plan)
{
    return kiln_device_check_process(plan->device);
}

/* ---- Runs without a stream on host memory ---- */

static inline kiln_status call_verb(kiln_plan *plan, verb_fn verb, const kiln_run_context *context,
                                    const kiln_args_head *arguments)
{
    kiln_visit before = kiln_enter(&plan->running);
    return kiln_leave_with(&before, verb(plan->native, context, arguments));
}

static inline kiln_status run_here(kiln_plan *plan, verb_fn verb, int64_t part, int64_t parts,
                                   const kiln_args_head *arguments)
{
    kiln_run_context context = {.struct_size = sizeof context, .part = part, .parts = parts};
    if (plan->answer.workspace_bytes == 0)
        return call_verb(plan, verb, &context, arguments);
    context.workspace = kiln_workspace_take(plan);
    context.workspace_bytes = plan->answer.workspace_bytes;
    if (!context.workspace)
        return kiln_fail_memory("the workspace of a run");
    kiln_status status = call_verb(plan, verb, &context, arguments);
    kiln_workspace_give(plan, context.workspace);
    return status;
}

/* ---- Runs on a stream ---- */

static kiln_status hold_tensors(kiln_pending *pending, const kiln_args_head *arguments)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; status == KILN_OK && i < arguments->tensor_count; i++) {
        const kiln_tensor *tensor = &arguments->tensors[i];
        status = kiln_pending_hold(pending, tensor->buffer);
        if (status == KILN_OK && tensor->scale)
            status = kiln_pending_hold(pending, tensor->scale->buffer);
        if (status == KILN_OK && tensor->zero_point)
            status = kiln_pending_hold(pending, tensor->zero_point->buffer);
    }
    return status;
}

/* Queues the plan on a stream of its device, which reads the arguments during the call. */
static kiln_status queue_on_device(kiln_plan *plan, verb_fn verb, kiln_stream *stream,
                                   const kiln_args_head *arguments)
{
    kiln_pending *pending;
    kiln_status status = kiln_stream_reserve(stream, &pending);
    if (status != KILN_OK)
        return status;
    kiln_run_context context = {.struct_size = sizeof context, .stream = stream};
    if (plan->answer.workspace_bytes > 0) {
        kiln_buffer *workspace;
        status = kiln_stream_workspace(stream, plan->answer.workspace_bytes, &workspace);
        if (status == KILN_OK) {
            context.workspace = workspace->memory;
            context.workspace_bytes = workspace->bytes;
            status = kiln_pending_hold(pending, workspace);
        }
    }
    if (status == KILN_OK)
        status = hold_tensors(pending, arguments);
    if (status == KILN_OK) {
        kiln_plan_retain(plan);
        pending->plan = plan;
        status = call_verb(plan, verb, &context, arguments);
    }
    kiln_status recorded = kiln_stream_commit(stream, pending);
    return status != KILN_OK ? status : recorded;
}

static kiln_status run_staged(kiln_plan *plan, verb_fn verb, const kiln_args_head *arguments);

/* Arguments of a host plan that waits in a host stream, copied behind one another. */
typedef struct queued_run {
    kiln_plan *plan;
    verb_fn verb;
    kiln_args_head *arguments;
} queued_run;

static kiln_status queued_run_call(void *argument, kiln_status status)
{
    queued_run *queued = argument;
    if (status != KILN_OK)
        return status;
    return queued->plan->staged ? run_staged(queued->plan, queued->verb, queued->arguments)
                                : run_here(queued->plan, queued->verb, 0, 0, queued->arguments);
}

static size_t round_up(size_t size)
{
    return (size + 15) / 16 * 16;
}

/* Copies the argument struct, its tensors, their scales and zero points into the pending slot. */
static kiln_status copy_arguments(kiln_pending *pending, kiln_plan *plan,
                                  const kiln_args_head *arguments, queued_run **result)
{
    size_t head = round_up(sizeof(queued_run)), body = round_up(arguments->struct_size);
    size_t bytes = head + body + 3 * arguments->tensor_count * sizeof(kiln_tensor);
    if ((size_t)pending->copy_bytes < bytes) {
        void *larger = realloc(pending->copy, bytes);
        if (!larger)
            return kiln_fail_memory("the arguments of queued work");
        pending->copy = larger;
        pending->copy_bytes = (int64_t)bytes;
    }
    queued_run *queued = pending->copy;
    queued->plan = plan;
    queued->arguments = (kiln_args_head *)((char *)pending->copy + head);
    memcpy(queued->arguments, arguments, arguments->struct_size);
    kiln_tensor *tensors = (kiln_tensor *)((char *)queued->arguments + body),
                *scales = tensors + arguments->tensor_count,
                *zero_points = scales + arguments->tensor_count;
    for (uint32_t i = 0; i < arguments->tensor_count; i++) {
        tensors[i] = arguments->tensors[i];
        if (tensors[i].scale) {
            scales[i] = *tensors[i].scale;
            tensors[i].scale = &scales[i];
        }
        if (tensors[i].zero_point) {
            zero_points[i] = *tensors[i].zero_point;
            tensors[i].zero_point = &zero_points[i];
        }
    }
    queued->arguments->tensors = tensors;
    *result = queued;
    return KILN_OK;
}

static kiln_status queue_on_host(kiln_plan *plan, verb_fn verb, kiln_stream *stream,
                                 const kiln_args_head *arguments)
{
    kiln_pending *pending;
    queued_run *queued = NULL;
    kiln_status status = kiln_stream_reserve(stream, &pending);
    if (status == KILN_OK)
        status = copy_arguments(pending, plan, arguments, &queued);
    if (status == KILN_OK)
        status = hold_tensors(pending, arguments);
    if (status == KILN_OK) {
        kiln_plan_retain(plan);
        pending->plan = plan;
        queued->verb = verb;
        status = kiln_stream_enqueue(stream, queued_run_call, queued);
    }
    if (!pending)
        return status;
    kiln_status recorded = kiln_stream_commit(stream, pending);
    return status != KILN_OK ? status : recorded;
}

/* ---- Staged runs: host tensors through the device's memory ---- */

typedef struct staged_run {
    kiln_tensor tensors[KILN_MAX_TENSORS];
    kiln_tensor scales[KILN_MAX_TENSORS], zero_points[KILN_MAX_TENSORS];
    int64_t bytes[KILN_MAX_TENSORS];
    kiln_buffer *buffers[3 * KILN_MAX_TENSORS];
    int64_t buffer_count;
} staged_run;

static bool is_absent(const kiln_tensor *tensor)
{
    return tensor->type == KILN_TYPE_NONE || (!tensor->buffer && !tensor->data);
}

/* Copies one tensor between host and device, and tells the listener. */
static kiln_status copy_staged(const kiln_plan *plan, const kiln_tensor *to,
                               const kiln_tensor *from, int64_t bytes, const char *text)
{
    int64_t started = kiln_now_ns();
    kiln_status status = kiln_copy(NULL, plan->runtime, to, from);
    if (kiln_tracing(plan->runtime))
        kiln_trace_emit(plan->runtime, (kiln_trace_event){.kind = KILN_TRACE_STAGE,
                                                          .status = status,
                                                          .operator_name = plan->operator_name,
                                                          .backend = plan->instance->name,
                                                          .device = plan->device->name,
                                                          .text = text,
                                                          .begin_ns = started,
                                                          .end_ns = kiln_now_ns(),
                                                          .bytes = bytes});
    return status;
}

/* A view of the same shape over device memory. */
static kiln_status stage_tensor(kiln_plan *plan, staged_run *run, const kiln_tensor *host,
                                bool copy_in, kiln_tensor *staged, int64_t *bytes)
{
    if (host->layout != KILN_LAYOUT_STRIDED)
        return kiln_fail(KILN_UNSUPPORTED, "a packed tensor cannot be staged; place it on %s",
                         plan->device->name);
    kiln_status status = kiln_tensor_compact(host, "staged tensor", staged, bytes);
    if (status == KILN_OK)
        status = kiln_staging_take(plan->device, *bytes > 0 ? *bytes : 1, &staged->buffer);
    if (status != KILN_OK)
        return status;
    run->buffers[run->buffer_count++] = staged->buffer;
    *bytes = kiln_tensor_elements(host) * kiln_type_bits(host->type) / 8;
    return copy_in ? copy_staged(plan, staged, host, *bytes, "to the device") : KILN_OK;
}

static kiln_tensor without_memory(const kiln_tensor *tensor)
{
    kiln_tensor view = *tensor;
    view.buffer = NULL;
    view.data = NULL;
    return view;
}

/* A tensor that is there for its shape alone: nobody touches its elements. */
static void keep_shape(staged_run *run, uint32_t slot, const kiln_tensor *host)
{
    kiln_tensor *staged = &run->tensors[slot];
    *staged = without_memory(host);
    if (host->scale) {
        run->scales[slot] = without_memory(host->scale);
        staged->scale = &run->scales[slot];
    }
    if (host->zero_point) {
        run->zero_points[slot] = without_memory(host->zero_point);
        staged->zero_point = &run->zero_points[slot];
    }
}

static kiln_status stage_all(kiln_plan *plan, staged_run *run, const kiln_args_head *arguments)
{
    kiln_status status = KILN_OK;
    /* A vendor's operator may read what it writes, or write only a part of it. */
    uint64_t inputs = plan->known ? plan->known->inputs(plan->descriptor, arguments) : UINT64_MAX;
    for (uint32_t i = 0; status == KILN_OK && i < arguments->tensor_count; i++) {
        const kiln_tensor *host = &arguments->tensors[i];
        if (is_absent(host) || !((inputs | plan->outputs) >> i & 1)) {
            keep_shape(run, i, host);
            continue;
        }
        status = stage_tensor(plan, run, host, inputs >> i & 1, &run->tensors[i], &run->bytes[i]);
        int64_t bytes;
        if (status == KILN_OK && host->scale) {
            status = stage_tensor(plan, run, host->scale, true, &run->scales[i], &bytes);
            run->tensors[i].scale = &run->scales[i];
        }
        if (status == KILN_OK && host->zero_point) {
            status = stage_tensor(plan, run, host->zero_point, true, &run->zero_points[i], &bytes);
            run->tensors[i].zero_point = &run->zero_points[i];
        }
        run->tensors[i].scale_block[0] = host->scale_block[0];
        run->tensors[i].scale_block[1] = host->scale_block[1];
    }
    return status;
}

static kiln_status return_outputs(kiln_plan *plan, staged_run *run, const kiln_args_head *arguments)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; status == KILN_OK && i < arguments->tensor_count; i++) {
        if (!(plan->outputs >> i & 1) || is_absent(&arguments->tensors[i]))
            continue;
        status = copy_staged(plan, &arguments->tensors[i], &run->tensors[i], run->bytes[i],
                             "to the host");
    }
    return status;
}

static kiln_status run_on_internal_stream(kiln_plan *plan, verb_fn verb,
                                          const kiln_args_head *arguments)
{
    kiln_stream *stream;
    kiln_status status = kiln_device_lock(plan->device, &stream);
    if (status != KILN_OK)
        return status;
    status = queue_on_device(plan, verb, stream, arguments);
    return kiln_device_finish(plan->device, status);
}

static kiln_status run_staged(kiln_plan *plan, verb_fn verb, const kiln_args_head *arguments)
{
    if (arguments->tensor_count > KILN_MAX_TENSORS)
        return kiln_fail(KILN_UNSUPPORTED, "%s: %u tensors; at most %d can be staged",
                         plan->operator_name, arguments->tensor_count, KILN_MAX_TENSORS);
    staged_run *run = calloc(1, sizeof *run);
    void *copy = malloc(arguments->struct_size);
    kiln_status status =
        run && copy ? stage_all(plan, run, arguments) : kiln_fail_memory("a staged run");
    if (status == KILN_OK) {
        memcpy(copy, arguments, arguments->struct_size);
        ((kiln_args_head *)copy)->tensors = run->tensors;
        status = run_on_internal_stream(plan, verb, copy);
        /* Beyond a declared capacity it has done what lies within. */
        if (status == KILN_OK || status == KILN_CAPACITY) {
            kiln_status returned = return_outputs(plan, run, arguments);
            status = returned != KILN_OK ? returned : status;
        }
    }
    for (int64_t i = 0; run && i < run->buffer_count; i++)
        kiln_staging_give(plan->device, run->buffers[i]);
    free(copy);
    free(run);
    return status;
}

/* ---- The public functions ---- */

static kiln_status check_stream(const kiln_plan *plan, const kiln_stream *stream)
{
    const kiln_device *wanted = plan->staged ? plan->home : plan->device;
    if (stream->device == wanted)
        return KILN_OK;
    return kiln_fail(
        KILN_INVALID,
        "the stream belongs to %s, but the plan runs on %s; use a stream of that device",
        stream->device->name, wanted->name);
}

static kiln_status run_somehow(kiln_plan *plan, verb_fn verb, kiln_stream *stream,
                               const kiln_args_head *arguments)
{
    bool host = kiln_device_is_host(plan->device) || plan->staged;
    if (stream) {
        kiln_status status = check_stream(plan, stream);
        if (status != KILN_OK)
            return status;
        return host ? queue_on_host(plan, verb, stream, arguments)
                    : queue_on_device(plan, verb, stream, arguments);
    }
    if (plan->staged)
        return run_staged(plan, verb, arguments);
    return host ? run_here(plan, verb, 0, 0, arguments)
                : run_on_internal_stream(plan, verb, arguments);
}

/* Beyond a declared capacity, what lies within has been done. */
static bool was_done(kiln_status status)
{
    return status == KILN_OK || status == KILN_CAPACITY;
}

static __attribute__((noinline)) kiln_status run_observed(kiln_plan *plan, kiln_stream *stream,
                                                          const kiln_args_head *arguments)
{
    bool tracing = kiln_tracing(plan->runtime);
    int64_t begin = tracing ? kiln_now_ns() : 0;
    kiln_status status = run_somehow(plan, plan->table.run, stream, arguments);
    if (tracing)
        kiln_trace_emit(plan->runtime, (kiln_trace_event){.kind = KILN_TRACE_RUN,
                                                          .status = status,
                                                          .operator_name = plan->operator_name,
                                                          .backend = plan->instance->name,
                                                          .device = plan->device->name,
                                                          .text = plan->answer.kernel,
                                                          .begin_ns = begin,
                                                          .end_ns = kiln_now_ns()});
    if (plan->recorded && was_done(status))
        kiln_record_run(plan, arguments);
    return status;
}

/* What all arguments have in common. */
static kiln_status check_arguments(const kiln_plan *plan, const kiln_args_head *arguments)
{
    if (arguments->struct_size >= sizeof *arguments && arguments->struct_size <= KILN_MAX_STRUCT &&
        (arguments->tensors || !arguments->tensor_count) &&
        arguments->tensor_count <= KILN_MAX_TENSORS)
        return KILN_OK;
    return kiln_fail(KILN_INVALID,
                     "%s: arguments of %u bytes with %u tensors; %zu to %d bytes and at most %d "
                     "tensors are possible",
                     plan->operator_name, arguments->struct_size, arguments->tensor_count,
                     sizeof *arguments, KILN_MAX_STRUCT, KILN_MAX_TENSORS);
}

/* What every run checks; *empty is set when nothing is to be done. */
static inline kiln_status check_run(const kiln_plan *plan, const kiln_args_head *arguments,
                                    bool *empty)
{
    if (plan->known)
        return plan->known->check(plan->descriptor, plan->prepared, plan->home, arguments, empty);
    return check_arguments(plan, arguments);
}

kiln_status kiln_plan_run(kiln_plan *plan, kiln_stream *stream, const kiln_args_head *arguments)
{
    if (plan->generation != kiln_process_generation()) {
        kiln_status status = forked(plan);
        if (status != KILN_OK)
            return status;
    }
    bool empty = false;
    kiln_status status = check_run(plan, arguments, &empty);
    if (status != KILN_OK || empty)
        return status;
    if (kiln_tracing(plan->runtime) || plan->recorded)
        return run_observed(plan, stream, arguments);
    if (stream || !plan->direct)
        return run_somehow(plan, plan->table.run, stream, arguments);
    return run_here(plan, plan->table.run, 0, 0, arguments);
}

kiln_status kiln_plan_run_part(kiln_plan *plan, int64_t part, int64_t parts,
                               const kiln_args_head *arguments)
{
    if (plan->staged || !kiln_device_is_host(plan->device))
        return kiln_fail(KILN_UNSUPPORTED,
                         "a plan on %s cannot be run in parts; only plans on host memory can",
                         plan->device->name);
    if (parts < 1 || part < 0 || part >= parts)
        return kiln_fail(KILN_INVALID,
                         "part %lld of %lld: parts must be at least 1, and part within [0, parts)",
                         (long long)part, (long long)parts);
    bool empty = false;
    kiln_status status = check_run(plan, arguments, &empty);
    if (status != KILN_OK || empty)
        return status;
    status = run_here(plan, plan->table.run, part, parts, arguments);
    if (plan->recorded && part == 0 && was_done(status))
        kiln_record_run(plan, arguments);
    return status;
}

kiln_status kiln_plan_schedule(kiln_plan *plan, kiln_stream *stream,
                               const kiln_args_head *arguments)
{
    if (!plan->table.schedule)
        return kiln_fail(KILN_UNSUPPORTED, "%s of backend %s needs no schedule",
                         plan->operator_name, plan->instance->name);
    if (plan->staged)
        return kiln_fail(KILN_UNSUPPORTED, "a staged plan has no schedule; place the tensors on %s",
                         plan->device->name);
    kiln_status status = check_arguments(plan, arguments);
    if (status == KILN_OK && plan->generation != kiln_process_generation())
        status = forked(plan);
    return status == KILN_OK ? run_somehow(plan, plan->table.schedule, stream, arguments) : status;
}

/* Where a direct call runs: with the stream, else where its first buffer lives. A host stream says
 * nothing of the tensors. */
static kiln_device *device_of_call(kiln_runtime *runtime, const kiln_stream *stream,
                                   const kiln_args_head *arguments)
{
    if (stream)
        return stream->device;
    for (uint32_t i = 0; i < arguments->tensor_count; i++)
        if (arguments->tensors[i].buffer)
            return arguments->tensors[i].buffer->device;
    return runtime->devices[0];
}

kiln_status kiln_call(kiln_runtime *runtime, const char *operator_name,
                      const kiln_op_head *descriptor, kiln_stream *stream,
                      const kiln_args_head *arguments)
{
    if (arguments->tensor_count > KILN_MAX_TENSORS ||
        (arguments->tensor_count && !arguments->tensors))
        return kiln_fail(KILN_INVALID, "%u tensors were given; at most %d are possible",
                         arguments->tensor_count, KILN_MAX_TENSORS);
    kiln_plan_key key = {operator_name, descriptor, NULL,
                         device_of_call(runtime, stream, arguments)};
    kiln_cached_plan *pin;
    kiln_plan *plan;
    kiln_status status = kiln_plan_find(runtime, &key, &plan, &pin);
    if (status != KILN_OK)
        return status;
    status = kiln_plan_run(plan, stream, arguments);
    if (pin)
        kiln_plan_unpin(runtime->plans, pin);
    else
        kiln_plan_release(plan);
    return status;
}
