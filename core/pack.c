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

/* A tensor and what scales it, in the order of kiln_tensor's fields; absent ones are NULL. */
enum { PARTS = 3 };

static void list_parts(const kiln_tensor *tensor, const kiln_tensor *parts[PARTS])
{
    parts[0] = tensor;
    parts[1] = tensor->scale;
    parts[2] = tensor->zero_point;
}

static const char *const part_names[PARTS] = {"the strided tensor", "its scales",
                                              "its zero points"};

/* Scales and zero points must be where the elements are. */
static kiln_status check_parts(const kiln_plan *plan, const kiln_tensor *strided)
{
    const kiln_tensor *parts[PARTS];
    kiln_device *device = kiln_tensor_device(plan->runtime, strided);
    list_parts(strided, parts);
    for (int i = 0; i < PARTS; i++) {
        int64_t begin, end;
        kiln_status status =
            parts[i] ? kiln_tensor_extent(parts[i], part_names[i], &begin, &end) : KILN_OK;
        if (status != KILN_OK)
            return status;
        if (parts[i] && kiln_tensor_device(plan->runtime, parts[i]) != device)
            return kiln_fail(KILN_INVALID, "%s are on %s, but the strided tensor is on %s",
                             part_names[i], kiln_tensor_device(plan->runtime, parts[i])->name,
                             device->name);
    }
    return KILN_OK;
}

/* Where something lies: by address, within its own buffer where the host cannot address that. */
typedef struct region {
    const kiln_buffer *buffer; /* NULL = by address */
    uintptr_t begin, end;
} region;

static region region_at(const kiln_tensor *tensor, int64_t begin, int64_t end)
{
    void *host = tensor->buffer ? tensor->buffer->host : tensor->data;
    return (region){host ? NULL : tensor->buffer, (uintptr_t)host + (uintptr_t)begin,
                    (uintptr_t)host + (uintptr_t)end};
}

/* Gaps between rows count as the tensor's. Empty for an absent part. */
static region region_of(const kiln_tensor *part, const char *name)
{
    int64_t begin = 0, end = 0;
    if (!part || kiln_tensor_extent(part, name, &begin, &end) != KILN_OK)
        return (region){NULL, 0, 0};
    return region_at(part, begin, end);
}

static bool overlap(const region *a, const region *b)
{
    return a->buffer == b->buffer && a->begin < a->end && b->begin < b->end && a->begin < b->end &&
           b->begin < a->end;
}

/* A backend reads one side while it writes the other. */
static kiln_status check_apart(const kiln_tensor *strided, const kiln_tensor *packed, int64_t bytes)
{
    const kiln_tensor *parts[PARTS];
    region blob = region_at(packed, packed->byte_offset, packed->byte_offset + bytes);
    list_parts(strided, parts);
    for (int i = 0; i < PARTS; i++) {
        region part = region_of(parts[i], part_names[i]);
        if (overlap(&part, &blob))
            return kiln_fail(KILN_INVALID,
                             "the packed tensor of %lld bytes overlaps %s; they must be in "
                             "memory of their own",
                             (long long)bytes, part_names[i]);
    }
    return KILN_OK;
}

/* What is unpacked must lie apart: an element that two places share would be either's. */
static kiln_status check_destination(const kiln_tensor *strided)
{
    const kiln_tensor *parts[PARTS];
    region regions[PARTS];
    list_parts(strided, parts);
    for (int i = 0; i < PARTS; i++) {
        regions[i] = region_of(parts[i], part_names[i]);
        for (uint32_t d = 0; parts[i] && d < parts[i]->rank; d++)
            if (parts[i]->strides[d] == 0 && parts[i]->shape[d] > 1)
                return kiln_fail(KILN_INVALID,
                                 "cannot unpack into %s: its stride %u is 0, so that elements "
                                 "share their memory",
                                 part_names[i], d);
        for (int j = 0; j < i; j++)
            if (overlap(&regions[i], &regions[j]))
                return kiln_fail(KILN_INVALID,
                                 "cannot unpack: %s overlaps %s; they must be in memory of their "
                                 "own",
                                 part_names[j], part_names[i]);
    }
    return KILN_OK;
}

static kiln_status check_pack(kiln_plan *plan, uint32_t operand, const kiln_tensor *strided,
                              const kiln_tensor *packed, bool unpack)
{
    int64_t bytes, room;
    kiln_status status = plan->known
                             ? plan->known->check_packed(plan->descriptor, operand, strided, packed)
                             : KILN_OK;
    if (status == KILN_OK)
        status = check_parts(plan, strided);
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
    status = check_apart(strided, packed, bytes);
    return status == KILN_OK && unpack ? check_destination(strided) : status;
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
    const kiln_tensor *parts[2 * PARTS];
    list_parts(from, parts);
    list_parts(to, parts + PARTS);
    for (int i = 0; status == KILN_OK && i < 2 * PARTS; i++)
        if (parts[i])
            status = kiln_pending_hold(pending, parts[i]->buffer);
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
 * memory; what scales it goes the same way. */
static kiln_status pack_through_device(kiln_plan *plan, pack_fn function, uint32_t operand,
                                       const kiln_tensor *strided, const kiln_tensor *packed,
                                       bool unpack)
{
    const kiln_tensor *parts[PARTS];
    kiln_tensor middle[PARTS] = {{.buffer = NULL}};
    kiln_status status = KILN_OK;
    list_parts(strided, parts);
    for (int i = 0; status == KILN_OK && i < PARTS; i++) {
        int64_t bytes;
        if (!parts[i])
            continue;
        status = kiln_tensor_compact(parts[i], "packed operand", &middle[i], &bytes);
        if (status == KILN_OK)
            status = kiln_buffer_alloc(plan->device, KILN_SPACE_DEVICE, bytes, &middle[i].buffer);
        if (status == KILN_OK && !unpack)
            status = kiln_copy(NULL, plan->runtime, &middle[i], parts[i]);
    }
    middle[0].scale = parts[1] ? &middle[1] : NULL;
    middle[0].zero_point = parts[2] ? &middle[2] : NULL;
    memcpy(middle[0].scale_block, strided->scale_block, sizeof strided->scale_block);
    if (status == KILN_OK)
        status = unpack ? pack_now(plan, function, operand, packed, &middle[0])
                        : pack_now(plan, function, operand, &middle[0], packed);
    for (int i = 0; status == KILN_OK && unpack && i < PARTS; i++)
        if (parts[i])
            status = kiln_copy(NULL, plan->runtime, parts[i], &middle[i]);
    for (int i = 0; i < PARTS; i++)
        kiln_buffer_release(middle[i].buffer);
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
    status = check_pack(plan, operand, strided, packed, unpack);
    if (status != KILN_OK)
        return status;
    kiln_device *device = kiln_tensor_device(plan->runtime, strided);
    if (device != plan->device && !kiln_device_is_host(device))
        return kiln_fail(KILN_INVALID,
                         "the strided tensor is on %s; it must be on %s or on the host",
                         device->name, plan->device->name);
    const kiln_tensor *from = unpack ? packed : strided, *to = unpack ? strided : packed;
    bool through = device != plan->device;
    if (stream && stream->device == plan->device && !kiln_device_is_host(plan->device) && !through)
        return pack_on_device(plan, stream, function, operand, from, to);
    /* It is done now, behind what is queued. A capacity that was exceeded there is passed on. */
    kiln_status before = stream ? kiln_stream_wait(stream) : KILN_OK;
    char sentence[KILN_SENTENCE] = "";
    if (before == KILN_CAPACITY)
        snprintf(sentence, sizeof sentence, "%s", kiln_last_error());
    else if (before != KILN_OK)
        return before;
    status = through ? pack_through_device(plan, function, operand, strided, packed, unpack)
                     : pack_now(plan, function, operand, from, to);
    return status == KILN_OK && before != KILN_OK ? kiln_fail(before, "%s", sentence) : status;
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
