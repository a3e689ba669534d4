/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor's elements as a stream of bytes in row-major order. */
#include "tools/io/row_major.h"

/* What must hold of every tensor; `*elements` is their number. */
static const char *check_tensor(const kiln_tensor *tensor, int64_t *elements)
{
    if (kiln_type_bits(tensor->type) == 0)
        return "it has no known element type";
    if (tensor->rank > KILN_MAX_RANK)
        return "its rank is above 8";
    if (tensor->buffer)
        return "it lies in a buffer: copy it to host memory first";
    if (tensor->layout != KILN_LAYOUT_STRIDED)
        return "it is packed for one backend: use the tensor that it was made from";
    if (tensor->scale)
        return "it has scales: treat them as a tensor of their own";
    *elements = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] < 0 || tensor->strides[i] < 0)
            return "a size or stride is negative";
        if (__builtin_mul_overflow(*elements, tensor->shape[i], elements) ||
            *elements > INT64_MAX / 64)
            return "it has more than 2^57 elements";
    }
    return *elements > 0 && !tensor->data ? "it has no data" : NULL;
}

/* Whether rows of elements smaller than a byte start on bytes. */
static bool rows_start_on_bytes(const kiln_tensor *tensor)
{
    int64_t bits = kiln_type_bits(tensor->type);
    for (uint32_t i = 0; bits < 8 && i < tensor->rank; i++) {
        bool innermost = i + 1 == tensor->rank;
        if (tensor->shape[i] > 1 &&
            (innermost ? tensor->strides[i] != 1 : tensor->strides[i] * bits % 8 != 0))
            return false;
    }
    return true;
}

const char *row_major_open(row_major *stream, const kiln_tensor *tensor)
{
    int64_t elements, bits = kiln_type_bits(tensor->type);
    const char *wrong = check_tensor(tensor, &elements);
    if (wrong)
        return wrong;
    memset(stream, 0, sizeof *stream);
    if (elements == 0)
        return NULL;
    if (!rows_start_on_bytes(tensor))
        return "its rows do not start on whole bytes: pad the row stride to an even number";

    /* The innermost dimensions that follow one another without gaps make up a piece. */
    int64_t run = 1;
    uint32_t rank = tensor->rank;
    for (; rank > 0; rank--) {
        bool whole = run * bits % 8 == 0 || rank == tensor->rank;
        if (tensor->shape[rank - 1] != 1 && !(whole && tensor->strides[rank - 1] == run))
            break;
        run *= tensor->shape[rank - 1];
    }
    stream->piece = (const uint8_t *)tensor->data + tensor->byte_offset;
    stream->piece_bytes = kiln_type_row_bytes(tensor->type, run);
    stream->pieces = elements / run;
    stream->last_mask = (uint8_t)(0xff >> (stream->piece_bytes * 8 - run * bits));
    stream->rank = rank;
    for (uint32_t i = 0; i < rank; i++) {
        stream->shape[i] = tensor->shape[i];
        stream->step[i] = tensor->strides[i] * bits / 8;
    }
    stream->total = stream->pieces * stream->piece_bytes;
    return NULL;
}

static void next_piece(row_major *stream)
{
    stream->position = 0;
    if (--stream->pieces == 0)
        return;
    for (uint32_t i = stream->rank; i-- > 0;) {
        stream->piece += stream->step[i];
        if (++stream->index[i] < stream->shape[i])
            return;
        stream->piece -= stream->step[i] * stream->shape[i];
        stream->index[i] = 0;
    }
}

size_t row_major_read(row_major *stream, void *out, size_t size)
{
    uint8_t *bytes = out;
    size_t done = 0;
    while (done < size && stream->pieces > 0) {
        size_t left = (size_t)(stream->piece_bytes - stream->position);
        size_t part = size - done < left ? size - done : left;
        memcpy(bytes + done, stream->piece + stream->position, part);
        done += part;
        stream->position += (int64_t)part;
        if (stream->position < stream->piece_bytes)
            continue;
        bytes[done - 1] &= stream->last_mask;
        next_piece(stream);
    }
    return done;
}
