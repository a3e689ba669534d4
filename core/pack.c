/* SPDX-License-Identifier: Apache-2.0 */
/* Packed operands: a backend's own layout of a tensor that many runs read. */
#include "core/plan.h"

kiln_status kiln_plan_pack_size(kiln_plan *plan, uint32_t operand, int64_t *bytes)
{
    if (!plan->table.pack_size)
        return kiln_fail(KILN_UNSUPPORTED, "backend %s packs no operands", plan->instance->name);
    kiln_place place = {"packing with plugin", plan->instance->path};
    kiln_visit before = kiln_enter(&place);
    return kiln_leave_with(&before, plan->table.pack_size(plan->native, operand, bytes));
}

typedef kiln_status (*pack_fn)(void *plan, const kiln_run_context *context, uint32_t operand,
                               const kiln_tensor *from, const kiln_tensor *to);

static kiln_status call_pack(kiln_plan *plan, pack_fn function, const kiln_run_context *context,
                             uint32_t operand, const kiln_tensor *from, const kiln_tensor *to)
{
    kiln_place place = {"packing with plugin", plan->instance->path};
    kiln_visit before = kiln_enter(&place);
    return kiln_leave_with(&before, function(plan->native, context, operand, from, to));
}

static kiln_status check_pack(kiln_plan *plan, uint32_t operand, const kiln_tensor *strided,
                              const kiln_tensor *packed)
{
    int64_t bytes, room;
    kiln_status status = plan->known
                             ? plan->known->check_packed(plan->descriptor, operand, strided, packed)
                             : KILN_OK;
    if (status == KILN_OK)
        status = kiln_plan_pack_size(plan, operand, &bytes);
    if (status != KILN_OK)
        return status;
    if (kiln_tensor_device(plan->runtime, packed) != plan->device || packed->byte_offset < 0 ||
        (!packed->buffer && !packed->data))
        return kiln_fail(KILN_INVALID,
                         "the packed tensor must be in memory of %s, where the plan runs",
                         plan->device->name);
    room = packed->buffer ? packed->buffer->bytes - packed->byte_offset : INT64_MAX;
    if (room < bytes)
        return kiln_fail(
            KILN_INVALID,
            "the packed tensor has room for %lld bytes; it needs %lld (kiln_plan_pack_size)",
            (long long)room, (long long)bytes);
    return KILN_OK;
}

/* Queues or does a pack or unpack, whose two tensors are on the plan's device. */
static kiln_status pack_on_device(kiln_plan *plan, kiln_stream *stream, pack_fn function,
                                  uint32_t operand, const kiln_tensor *from, const kiln_tensor *to)
{
    kiln_pending *pending;
    kiln_run_context context = {.struct_size = sizeof context, .stream = stream};
    kiln_status status = kiln_stream_reserve(stream, &pending);
    if (status != KILN_OK)
        return status;
    status = kiln_pending_hold(pending, from->buffer);
    if (status == KILN_OK)
        status = kiln_pending_hold(pending, to->buffer);
    if (status == KILN_OK) {
        kiln_plan_retain(plan);
        pending->plan = plan;
        status = call_pack(plan, function, &context, operand, from, to);
    }
    kiln_status recorded = kiln_stream_commit(stream, pending);
    return status != KILN_OK ? status : recorded;
}

static kiln_status pack_now(kiln_plan *plan, pack_fn function, uint32_t operand,
                            const kiln_tensor *from, const kiln_tensor *to)
{
    if (kiln_device_is_host(plan->device)) {
        kiln_run_context context = {.struct_size = sizeof context};
        return call_pack(plan, function, &context, operand, from, to);
    }
    kiln_stream *stream;
    kiln_status status = kiln_device_lock(plan->device, &stream);
    if (status != KILN_OK)
        return status;
    status = pack_on_device(plan, stream, function, operand, from, to);
    return kiln_device_finish(plan->device, status);
}

/* Packs or unpacks a strided tensor that lives on the host for a plan that does not, through device
 * memory. */
static kiln_status pack_through_device(kiln_plan *plan, pack_fn function, uint32_t operand,
                                       const kiln_tensor *strided, const kiln_tensor *packed,
                                       bool unpack)
{
    kiln_tensor middle;
    int64_t bytes;
    kiln_status status = kiln_tensor_compact(strided, "packed operand", &middle, &bytes);
    if (status == KILN_OK)
        status = kiln_buffer_alloc(plan->device, KILN_SPACE_DEVICE, bytes, &middle.buffer);
    if (status != KILN_OK)
        return status;
    if (!unpack)
        status = kiln_copy(NULL, plan->runtime, &middle, strided);
    if (status == KILN_OK)
        status = unpack ? pack_now(plan, function, operand, packed, &middle)
                        : pack_now(plan, function, operand, &middle, packed);
    if (status == KILN_OK && unpack)
        status = kiln_copy(NULL, plan->runtime, strided, &middle);
    kiln_buffer_release(middle.buffer);
    return status;
}

static kiln_status pack_or_unpack(kiln_plan *plan, kiln_stream *stream, uint32_t operand,
                                  const kiln_tensor *strided, const kiln_tensor *packed,
                                  bool unpack)
{
    pack_fn function = unpack ? plan->table.unpack : plan->table.pack;
    kiln_status status = kiln_device_check_process(plan->device);
    if (status != KILN_OK)
        return status;
    if (!function)
        return kiln_fail(KILN_UNSUPPORTED, "backend %s does not %s operands", plan->instance->name,
                         unpack ? "unpack" : "pack");
    status = check_pack(plan, operand, strided, packed);
    if (status != KILN_OK)
        return status;
    if (stream && (stream->device != plan->device || kiln_device_is_host(plan->device))) {
        status = kiln_stream_wait(stream); /* on the host it is done now, behind what is queued */
        stream = NULL;
    }
    if (status != KILN_OK)
        return status;
    kiln_device *device = kiln_tensor_device(plan->runtime, strided);
    if (device != plan->device && !kiln_device_is_host(device))
        return kiln_fail(KILN_INVALID,
                         "the strided tensor is on %s; it must be on %s or on the host",
                         device->name, plan->device->name);
    if (device != plan->device) {
        status = stream ? kiln_stream_wait(stream) : KILN_OK;
        return status != KILN_OK
                   ? status
                   : pack_through_device(plan, function, operand, strided, packed, unpack);
    }
    const kiln_tensor *from = unpack ? packed : strided, *to = unpack ? strided : packed;
    return stream ? pack_on_device(plan, stream, function, operand, from, to)
                  : pack_now(plan, function, operand, from, to);
}

kiln_status kiln_plan_pack(kiln_plan *plan, kiln_stream *stream, uint32_t operand,
                           const kiln_tensor *source, const kiln_tensor *packed)
{
    return pack_or_unpack(plan, stream, operand, source, packed, false);
}

kiln_status kiln_plan_unpack(kiln_plan *plan, kiln_stream *stream, uint32_t operand,
                             const kiln_tensor *packed, const kiln_tensor *destination)
{
    return pack_or_unpack(plan, stream, operand, destination, packed, true);
}
