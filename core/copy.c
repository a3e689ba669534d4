/* SPDX-License-Identifier: Apache-2.0 */
/* kiln_copy and kiln_fill: from tensors to requests of the device tables, and the host's own
 * strided loops. */
#include "core/copy.h"

#include <stdlib.h>

#include "core/device.h"

static void copy_level(const kiln_copy_request *request, int64_t level, char *destination,
                       const char *source)
{
    if (level == request->rank) {
        memcpy(destination, source, (size_t)request->element_bytes);
        return;
    }
    int64_t d = request->destination.strides[level], s = request->source.strides[level],
            count = request->shape[level];
    if (level == request->rank - 1 && d == request->element_bytes && s == request->element_bytes) {
        memcpy(destination, source, (size_t)(count * request->element_bytes));
        return;
    }
    for (int64_t i = 0; i < count; i++)
        copy_level(request, level + 1, destination + i * d, source + i * s);
}

static bool is_empty(const int64_t *shape, int64_t rank)
{
    for (int64_t i = 0; i < rank; i++)
        if (shape[i] == 0)
            return true;
    return false;
}

void kiln_host_copy(const kiln_copy_request *request, char *destination, const char *source)
{
    if (!is_empty(request->shape, request->rank))
        copy_level(request, 0, destination, source);
}

static void fill_level(const kiln_fill_request *request, int64_t level, char *destination)
{
    if (level == request->rank) {
        memcpy(destination, request->pattern, (size_t)request->element_bytes);
        return;
    }
    for (int64_t i = 0; i < request->shape[level]; i++)
        fill_level(request, level + 1, destination + i * request->destination.strides[level]);
}

void kiln_host_fill(const kiln_fill_request *request, char *destination)
{
    fill_level(request, 0, destination);
}

/* Merges neighbouring dimensions that are contiguous on both sides, so that loops are as long as
 * they can be, and leaves out those of one element. */
static void merge_dimensions(kiln_copy_request *request)
{
    int64_t kept = -1;
    for (int64_t i = 0; i < request->rank; i++) {
        int64_t size = request->shape[i], product, to = request->destination.strides[i],
                from = request->source.strides[i];
        if (size == 1)
            continue;
        bool joined = kept >= 0 && request->destination.strides[kept] == size * to &&
                      request->source.strides[kept] == size * from &&
                      !__builtin_mul_overflow(request->shape[kept], size, &product);
        kept += !joined;
        request->shape[kept] = joined ? product : size;
        request->destination.strides[kept] = to;
        request->source.strides[kept] = from;
    }
    request->rank = kept + 1;
}

/* Host memory is an address to every table; device memory is the object of its own. */
static void set_side(kiln_copy_side *side, const kiln_tensor *tensor)
{
    int64_t bits = kiln_type_bits(tensor->type);
    if (tensor->buffer && !kiln_device_is_host(tensor->buffer->device))
        side->memory = tensor->buffer->memory;
    else
        side->host = tensor->buffer ? tensor->buffer->host : tensor->data;
    side->byte_offset = tensor->byte_offset;
    for (uint32_t i = 0; i < tensor->rank; i++) /* that of a single element may be any number */
        side->strides[i] = tensor->shape[i] > 1 ? tensor->strides[i] * bits / 8 : 0;
}

static kiln_status check_layout(const kiln_tensor *tensor, const char *what)
{
    if (tensor->layout == KILN_LAYOUT_STRIDED)
        return KILN_OK;
    return kiln_fail(KILN_UNSUPPORTED,
                     "%s: it is packed, so its shape says nothing of its bytes; take it as u8",
                     what);
}

/* A row of sub-byte elements is copied as bytes; that needs unit innermost stride and outer strides
 * of whole bytes. */
static kiln_status check_sub_byte(const kiln_tensor *tensor, const char *what)
{
    int bits = kiln_type_bits(tensor->type);
    if (bits >= 8 || tensor->rank == 0)
        return KILN_OK;
    uint32_t last = tensor->rank - 1;
    bool whole = tensor->strides[last] == 1 || tensor->shape[last] <= 1;
    for (uint32_t i = 0; i < last; i++)
        whole = whole && (tensor->strides[i] % (8 / bits) == 0 || tensor->shape[i] <= 1);
    return whole
               ? KILN_OK
               : kiln_fail(
                     KILN_INVALID,
                     "%s: rows of %s must be contiguous and start on a byte; give it other strides",
                     what, kiln_type_name(tensor->type));
}

/* Shape, in copied elements, of a tensor; returns the bytes of one. */
static int64_t copied_shape(const kiln_tensor *tensor, int64_t *shape)
{
    int bits = kiln_type_bits(tensor->type);
    for (uint32_t i = 0; i < tensor->rank; i++)
        shape[i] = tensor->shape[i];
    if (bits >= 8)
        return bits / 8;
    if (tensor->rank > 0)
        shape[tensor->rank - 1] =
            kiln_type_row_bytes(tensor->type, tensor->shape[tensor->rank - 1]);
    return 1;
}

static kiln_status check_pair(const kiln_tensor *destination, const kiln_tensor *source)
{
    int64_t begin, end;
    kiln_status status = kiln_tensor_extent(destination, "destination", &begin, &end);
    if (status == KILN_OK)
        status = kiln_tensor_extent(source, "source", &begin, &end);
    if (status != KILN_OK)
        return status;
    if (destination->type != source->type)
        return kiln_fail(KILN_INVALID,
                         "copy from %s to %s: the types must be equal; convert with kiln_convert",
                         kiln_type_name(source->type), kiln_type_name(destination->type));
    if (destination->rank != source->rank)
        return kiln_fail(KILN_INVALID, "copy from rank %u to rank %u: the ranks must be equal",
                         source->rank, destination->rank);
    for (uint32_t i = 0; i < source->rank; i++)
        if (destination->shape[i] != source->shape[i])
            return kiln_fail(KILN_INVALID,
                             "copy: dimension %u is %lld in the source and %lld in the destination",
                             i, (long long)source->shape[i], (long long)destination->shape[i]);
    if ((status = check_layout(destination, "destination")) != KILN_OK ||
        (status = check_layout(source, "source")) != KILN_OK ||
        (status = check_sub_byte(destination, "destination")) != KILN_OK)
        return status;
    return check_sub_byte(source, "source");
}

static void build_request(kiln_copy_request *request, const kiln_tensor *destination,
                          const kiln_tensor *source)
{
    memset(request, 0, sizeof *request);
    request->struct_size = sizeof *request;
    request->rank = source->rank;
    request->element_bytes = copied_shape(source, request->shape);
    set_side(&request->destination, destination);
    set_side(&request->source, source);
    if (kiln_type_bits(source->type) < 8 && source->rank > 0)
        request->destination.strides[source->rank - 1] = request->source.strides[source->rank - 1] =
            1;
    merge_dimensions(request);
}

static kiln_status copy_on_stream(kiln_stream *stream, const kiln_copy_request *request,
                                  const kiln_tensor *destination, const kiln_tensor *source)
{
    kiln_device *device = stream->device;
    kiln_pending *pending;
    kiln_status status = kiln_stream_reserve(stream, &pending);
    if (status == KILN_OK)
        status = kiln_pending_hold(pending, destination->buffer);
    if (status == KILN_OK)
        status = kiln_pending_hold(pending, source->buffer);
    if (status == KILN_OK)
        status = device->table.copy(device->native, stream->native, request);
    kiln_status recorded = pending ? kiln_stream_commit(stream, pending) : KILN_OK;
    return status != KILN_OK ? status : recorded;
}

/* Between two devices neither of which is the host: through host memory. */
static kiln_status copy_through_host(kiln_runtime *runtime, const kiln_tensor *destination,
                                     const kiln_tensor *source)
{
    kiln_tensor middle;
    int64_t bytes;
    kiln_status status = kiln_tensor_compact(source, "copy", &middle, &bytes);
    if (status != KILN_OK)
        return status;
    middle.data = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (!middle.data)
        return kiln_fail_memory("a copy between two devices");
    status = kiln_copy(NULL, runtime, &middle, source);
    if (status == KILN_OK)
        status = kiln_copy(NULL, runtime, destination, &middle);
    free(middle.data);
    return status;
}

static void trace_copy(kiln_runtime *runtime, kiln_device *device, const kiln_tensor *source,
                       int64_t begin, kiln_status status)
{
    if (kiln_tracing(runtime))
        kiln_trace_emit(runtime, (kiln_trace_event){.kind = KILN_TRACE_COPY,
                                                    .status = status,
                                                    .device = device->name,
                                                    .begin_ns = begin,
                                                    .end_ns = kiln_now_ns(),
                                                    .bytes = kiln_tensor_elements(source) *
                                                             kiln_type_bits(source->type) / 8});
}

kiln_status kiln_copy(kiln_stream *stream, kiln_runtime *runtime, const kiln_tensor *destination,
                      const kiln_tensor *source)
{
    kiln_status status = check_pair(destination, source);
    if (status != KILN_OK)
        return status;
    kiln_device *to = kiln_tensor_device(runtime, destination),
                *from = kiln_tensor_device(runtime, source);
    kiln_device *device = kiln_device_is_host(to) ? from : to;
    if (is_empty(source->shape, source->rank))
        return KILN_OK;
    if (kiln_device_is_host(device) && !stream) {
        kiln_copy_request request;
        int64_t begin = kiln_now_ns();
        build_request(&request, destination, source);
        char *target = destination->buffer ? destination->buffer->host : destination->data;
        const char *origin = source->buffer ? source->buffer->host : source->data;
        kiln_host_copy(&request, target + destination->byte_offset, origin + source->byte_offset);
        trace_copy(runtime, device, source, begin, KILN_OK);
        return KILN_OK;
    }
    if (stream && stream->device != to && stream->device != from)
        return kiln_fail(
            KILN_INVALID,
            "copy from %s to %s on a stream of %s: the stream must belong to one of the two",
            from->name, to->name, stream->device->name);
    if (to != from && !kiln_device_is_host(to) && !kiln_device_is_host(from)) {
        if (stream)
            return kiln_fail(
                KILN_UNSUPPORTED,
                "copy from %s to %s on a stream: copy without a stream, or through host memory",
                from->name, to->name);
        return copy_through_host(runtime, destination, source);
    }
    if (stream && stream->device != device)
        return kiln_fail(KILN_INVALID,
                         "copy between %s and the host on a stream of the host: use a stream of %s",
                         device->name, device->name);
    kiln_copy_request request;
    build_request(&request, destination, source);
    int64_t begin = kiln_now_ns();
    if (stream) {
        status = kiln_device_ready(device);
        if (status == KILN_OK)
            status = copy_on_stream(stream, &request, destination, source);
    } else {
        kiln_stream *internal;
        status = kiln_device_lock(device, &internal);
        if (status != KILN_OK)
            return status;
        status = device->table.copy(device->native, internal->native, &request);
        status = kiln_device_finish(device, status);
    }
    trace_copy(runtime, device, source, begin, status);
    return status;
}

/* The pattern of one filled element; for sub-byte types, of one byte of equal elements. */
static void set_pattern(kiln_fill_request *request, uint32_t type, double value)
{
    int bits = kiln_type_bits(type);
    kiln_store_f64(type, request->pattern, 0, value, 0);
    if (bits < 8)
        for (int64_t i = 1; i < 8 / bits; i++)
            kiln_store_f64(type, request->pattern, i, value, 0);
}

kiln_status kiln_fill(kiln_stream *stream, kiln_runtime *runtime, const kiln_tensor *destination,
                      double value)
{
    int64_t begin, end;
    kiln_status status = kiln_tensor_extent(destination, "destination", &begin, &end);
    if (status == KILN_OK)
        status = check_layout(destination, "destination");
    if (status == KILN_OK)
        status = check_sub_byte(destination, "destination");
    if (status != KILN_OK)
        return status;
    int bits = kiln_type_bits(destination->type);
    if (bits < 8 &&
        (destination->rank == 0 || destination->shape[destination->rank - 1] % (8 / bits) != 0))
        return kiln_fail(KILN_INVALID, "fill: rows of %s must be whole bytes",
                         kiln_type_name(destination->type));
    kiln_device *device = kiln_tensor_device(runtime, destination);
    if (stream && stream->device != device)
        return kiln_fail(KILN_INVALID,
                         "fill of a tensor on %s on a stream of %s: the stream must belong to the "
                         "tensor's device",
                         device->name, stream->device->name);
    if (!device->table.fill)
        return kiln_fail(KILN_UNSUPPORTED, "device %s does not offer fill", device->name);
    if (is_empty(destination->shape, destination->rank))
        return KILN_OK;
    kiln_fill_request request = {.struct_size = sizeof request, .rank = destination->rank};
    request.element_bytes = copied_shape(destination, request.shape);
    set_side(&request.destination, destination);
    if (bits < 8)
        request.destination.strides[destination->rank - 1] = 1;
    set_pattern(&request, destination->type, value);
    if (kiln_device_is_host(device) && !stream) {
        char *base = destination->buffer ? destination->buffer->host : destination->data;
        kiln_host_fill(&request, base + destination->byte_offset);
        return KILN_OK;
    }
    if (!stream) {
        kiln_stream *internal;
        status = kiln_device_lock(device, &internal);
        if (status != KILN_OK)
            return status;
        status = device->table.fill(device->native, internal->native, &request);
        return kiln_device_finish(device, status);
    }
    kiln_pending *pending = NULL;
    status = kiln_device_ready(device);
    if (status == KILN_OK)
        status = kiln_stream_reserve(stream, &pending);
    if (status == KILN_OK)
        status = kiln_pending_hold(pending, destination->buffer);
    if (status == KILN_OK)
        status = device->table.fill(device->native, stream->native, &request);
    kiln_status recorded = pending ? kiln_stream_commit(stream, pending) : KILN_OK;
    return status != KILN_OK ? status : recorded;
}

static bool is_integer(uint32_t type)
{
    return type >= KILN_I64 && type <= KILN_U8;
}

/* Integer to integer, exactly where it fits, else saturated: doubles would lose bits beyond 2^53.
 */
static void convert_integer(uint32_t to, void *destination, uint32_t from, const void *source,
                            int64_t index)
{
    uint64_t raw = 0;
    if (from == KILN_U64)
        memcpy(&raw, (const char *)source + index * 8, 8);
    int64_t value = 0;
    if (from == KILN_I64)
        memcpy(&value, (const char *)source + index * 8, 8);
    else if (from == KILN_U64)
        value = raw > INT64_MAX ? INT64_MAX : (int64_t)raw;
    else
        value = (int64_t)kiln_load_f64(from, source, index);
    if (to == KILN_I64) {
        memcpy((char *)destination + index * 8, &value, 8);
    } else if (to == KILN_U64) {
        uint64_t wide = from == KILN_U64 ? raw : value < 0 ? 0 : (uint64_t)value;
        memcpy((char *)destination + index * 8, &wide, 8);
    } else {
        kiln_store_f64(to, destination, index, (double)value,
                       0); /* at most 32 bits wide: saturates alike */
    }
}

/* A 64-bit integer as a double that is odd in its last bit if anything was lost, so that a shorter
 * type still rounds once. */
static double round_to_odd(uint32_t type, const void *source, int64_t index)
{
    int64_t value;
    memcpy(&value, (const char *)source + index * 8, 8);
    bool negative = type == KILN_I64 && value < 0;
    uint64_t magnitude = negative ? 0 - (uint64_t)value : (uint64_t)value;
    int lost = magnitude >> 53 ? 11 - __builtin_clzll(magnitude) : 0;
    uint64_t kept = magnitude >> lost;
    kept |= (kept << lost) != magnitude;
    return ldexp(negative ? -(double)kept : (double)kept, lost);
}

kiln_status kiln_convert(uint32_t destination_type, void *destination, uint32_t source_type,
                         const void *source, int64_t count, int flags)
{
    if (!kiln_type_bits(destination_type) || !kiln_type_bits(source_type))
        return kiln_fail(KILN_INVALID, "convert: type %u is not one of kiln_type",
                         kiln_type_bits(destination_type) ? source_type : destination_type);
    if (count < 0)
        return kiln_fail(KILN_INVALID, "convert: count %lld is negative", (long long)count);
    if (flags & ~KILN_SATURATE)
        return kiln_fail(KILN_UNSUPPORTED,
                         "convert: unknown flags %#x; only KILN_SATURATE is known",
                         (unsigned)flags);
    if (is_integer(destination_type) && is_integer(source_type)) {
        for (int64_t i = 0; i < count; i++)
            convert_integer(destination_type, destination, source_type, source, i);
        return KILN_OK;
    }
    bool wide =
        (source_type == KILN_I64 || source_type == KILN_U64) && destination_type != KILN_F64;
    for (int64_t i = 0; i < count; i++)
        kiln_store_f64(destination_type, destination, i,
                       wide ? round_to_odd(source_type, source, i)
                            : kiln_load_f64(source_type, source, i),
                       flags);
    return KILN_OK;
}
