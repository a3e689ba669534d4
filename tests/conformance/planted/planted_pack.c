/* SPDX-License-Identifier: Apache-2.0 */
/* Packed operands: a header, and the rows behind one another. */
#include "planted_gemm.h"

#include <stdio.h>
#include <stdlib.h>

int64_t planted_span(const kiln_tensor *tensor)
{
    int64_t last = 0;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] == 0)
            return 0;
        last += (tensor->shape[i] - 1) * tensor->strides[i];
    }
    return (last + 1) * kiln_type_bits(tensor->type) / 8;
}

int64_t planted_blob_bytes(const kiln_tensor *tensor)
{
    return PAYLOAD_AT + kiln_tensor_elements(tensor) * kiln_type_bits(tensor->type) / 8;
}

static kiln_pack_header header_of(uint32_t operand, const kiln_tensor *tensor)
{
    kiln_pack_header header = {.version = 1,
                               .header_bytes = PAYLOAD_AT,
                               .type = tensor->type,
                               .operand = operand,
                               .shape = {tensor->rank == 3 ? tensor->shape[0] : 1,
                                         tensor->shape[tensor->rank - 2],
                                         tensor->shape[tensor->rank - 1]},
                               .bytes = planted_blob_bytes(tensor)};
    memcpy(header.magic, "KILNPACK", sizeof header.magic);
    snprintf(header.backend, sizeof header.backend, "planted");
    snprintf(header.format, sizeof header.format, "planted-rows-1");
    return header;
}

const char *planted_blob_problem(uint32_t operand, const kiln_tensor *tensor, const char *blob,
                                 int64_t room)
{
    kiln_pack_header want = header_of(operand, tensor), have;
    memcpy(&have, blob, sizeof have);
    if (planted(TAKES_FOREIGN_BLOBS))
        memcpy(have.backend, want.backend, sizeof have.backend);
    if (have.bytes > room)
        return "a packed operand says that it is longer than its buffer";
    return memcmp(&have, &want, offsetof(kiln_pack_header, payload_hash)) == 0
               ? NULL
               : "a packed operand is not what this plugin made of such a tensor";
}

/* The leading dimension of A or B. */
static int64_t matrices_of(const kiln_gemm_desc *desc, uint32_t operand)
{
    switch (desc->grouping) {
    case KILN_GROUPING_CONTIGUOUS:
        return operand == KILN_GEMM_A ? 1 : desc->groups;
    case KILN_GROUPING_MASKED:
        return desc->groups;
    case KILN_GROUPING_K:
        return 1;
    default:
        return desc->batch > 0 ? desc->batch : 1;
    }
}

kiln_status planted_pack_size(void *object, uint32_t operand, int64_t *bytes)
{
    const planted_plan *self = object;
    const kiln_gemm_desc *desc = &self->desc;
    int64_t shape[3] = {matrices_of(desc, operand), operand == KILN_GEMM_A ? desc->m : desc->k,
                        operand == KILN_GEMM_A ? desc->k : desc->n};
    if (operand > KILN_GEMM_B)
        return self->instance->host->set_error(KILN_UNSUPPORTED, "planted packs A and B only");
    kiln_tensor whole =
        kiln_tensor_host(operand == KILN_GEMM_A ? desc->a_type : desc->b_type, NULL, 3, shape);
    *bytes = planted_blob_bytes(&whole);
    return KILN_OK;
}

/* One packing or unpacking, as it waits in a stream. */
typedef struct planted_packing {
    planted_plan *plan;
    uint32_t operand;
    bool unpack;
    kiln_tensor strided, packed;
    void *strided_memory, *packed_memory;
    int64_t room;
} planted_packing;

static void copy_rows(const planted_packing *self, char *strided, char *blob)
{
    const kiln_tensor *tensor = &self->strided;
    uint32_t last = tensor->rank - 1;
    int64_t size = kiln_type_bits(tensor->type) / 8, columns = tensor->shape[last],
            rows = tensor->shape[last - 1], entries = tensor->rank == 3 ? tensor->shape[0] : 1;
    for (int64_t entry = 0; entry < entries; entry++)
        for (int64_t row = 0; row < rows; row++) {
            int64_t apart = (tensor->rank == 3 ? entry * tensor->strides[0] : 0) +
                            row * tensor->strides[last - 1];
            char *line = strided + apart * size,
                 *dense = blob + (entry * rows + row) * columns * size;
            memcpy(self->unpack ? line : dense, self->unpack ? dense : line,
                   (size_t)(columns * size));
            if (planted(UNPACK_LOSES_COLUMN) && self->unpack && columns > 8)
                memset(line + 8 * size, 0, (size_t)size);
        }
}

static const char *do_packing(const planted_packing *self)
{
    const planted_plan *plan = self->plan;
    const kiln_host *host = plan->instance->host;
    int64_t bytes = planted_blob_bytes(&self->strided);
    char *blob = plan->device ? planted_reach(plan->device, self->packed_memory,
                                              self->packed.byte_offset, bytes)
                              : kiln_tensor_address(host, &self->packed);
    char *strided = plan->device
                        ? planted_reach(plan->device, self->strided_memory,
                                        self->strided.byte_offset, planted_span(&self->strided))
                        : kiln_tensor_address(host, &self->strided);
    if (!blob || !strided || bytes > self->room)
        return "an operand to pack or unpack is not in this memory";
    if (self->unpack) {
        const char *problem = planted_blob_problem(self->operand, &self->strided, blob, self->room);
        if (problem)
            return problem;
    } else {
        kiln_pack_header header = header_of(self->operand, &self->strided);
        memset(blob, 0, PAYLOAD_AT);
        memcpy(blob, &header, sizeof header);
    }
    copy_rows(self, strided, blob + PAYLOAD_AT);
    return NULL;
}

static kiln_status packing_queued(void *argument, kiln_status status)
{
    planted_packing *self = argument;
    const char *problem = status == KILN_OK ? do_packing(self) : NULL;
    if (problem)
        status = self->plan->instance->host->set_error(KILN_FAULT, "planted: %s", problem);
    free(self);
    return status;
}

static kiln_status begin(planted_plan *self, const kiln_run_context *context, uint32_t operand,
                         const kiln_tensor *strided, const kiln_tensor *packed, bool unpack)
{
    const kiln_host *host = self->instance->host;
    if (operand > KILN_GEMM_B)
        return host->set_error(KILN_UNSUPPORTED, "planted packs A and B only");
    planted_packing work = {.plan = self,
                            .operand = operand,
                            .unpack = unpack,
                            .strided = *strided,
                            .packed = *packed,
                            .room = packed->buffer
                                        ? host->buffer_bytes(packed->buffer) - packed->byte_offset
                                        : INT64_MAX};
    if (!self->device) {
        const char *problem = do_packing(&work);
        return problem ? host->set_error(KILN_INVALID, "planted: %s", problem) : KILN_OK;
    }
    if (!context->stream || !strided->buffer || !packed->buffer)
        return host->set_error(KILN_INVALID, "planted: packing needs a stream and device memory");
    work.strided_memory = host->buffer_native(strided->buffer);
    work.packed_memory = host->buffer_native(packed->buffer);
    planted_packing *made = malloc(sizeof *made);
    if (!made)
        return host->set_error(KILN_NO_MEMORY, "planted: no memory to pack");
    *made = work;
    return planted_enqueue(self->device, host->stream_native(context->stream), packing_queued,
                           made);
}

kiln_status planted_pack(void *plan, const kiln_run_context *context, uint32_t operand,
                         const kiln_tensor *source, const kiln_tensor *packed)
{
    return begin(plan, context, operand, source, packed, false);
}

kiln_status planted_unpack(void *plan, const kiln_run_context *context, uint32_t operand,
                           const kiln_tensor *packed, const kiln_tensor *destination)
{
    return begin(plan, context, operand, destination, packed, true);
}
