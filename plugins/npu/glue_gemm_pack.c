/* SPDX-License-Identifier: Apache-2.0 */
/* Packed A and B: Kiln's header, then for each matrix of the batch its columns of 32 bytes, as
 * npu_pack_program writes them. The layout depends on type and shape alone, so that every plan of
 * one weight reads the same blob, on every configuration of the model. */
#include "plugins/npu/glue.h"

#include <stdio.h>

enum { PAYLOAD_AT = 256 }; /* behind the header, aligned */

static const char format[] = "npu-fractal-1";

_Static_assert(offsetof(kiln_pack_header, payload_hash) <= NPU_EXPECT_MAX,
               "what is compared fits a command");

static bool is_operand(uint32_t operand)
{
    return operand == KILN_GEMM_A || operand == KILN_GEMM_B;
}

static kiln_status refuse_operand(const struct npu_gemm_plan *plan, uint32_t operand)
{
    return plan->instance->host->set_error(KILN_UNSUPPORTED,
                                           "npu packs operands A (%d) and B (%d), not %u",
                                           KILN_GEMM_A, KILN_GEMM_B, (unsigned)operand);
}

/* The stored matrix. */
static struct npu_pack stored(const struct npu_gemm_plan *plan, uint32_t operand)
{
    const kiln_pack_header *header = &plan->header[operand];
    return (struct npu_pack){plan->gemm.type, header->shape[1], header->shape[2]};
}

/* Bytes of a blob of `batch` matrices; -1 when they cannot be counted. */
static int64_t blob_bytes(const struct npu_gemm_plan *plan, uint32_t operand, int64_t batch)
{
    struct npu_pack pack = stored(plan, operand);
    int64_t bytes = npu_pack_bytes(&pack);
    if (bytes < 0 || __builtin_mul_overflow(bytes, batch, &bytes) ||
        __builtin_add_overflow(bytes, PAYLOAD_AT, &bytes))
        return -1;
    return bytes;
}

static int64_t batch_of(const kiln_tensor *tensor)
{
    return tensor->rank == 3 ? tensor->shape[0] : 1;
}

static kiln_pack_header header_of(const struct npu_gemm_plan *plan, uint32_t operand, int64_t batch)
{
    kiln_pack_header header = plan->header[operand];
    header.shape[0] = batch;
    header.bytes = blob_bytes(plan, operand, batch);
    return header;
}

kiln_status npu_gemm_prepare_packing(struct npu_gemm_plan *plan)
{
    const struct npu_config *config = &plan->instance->config;
    const kiln_gemm_desc *desc = &plan->desc;
    char error[256];
    for (uint32_t operand = KILN_GEMM_A; operand <= KILN_GEMM_B; operand++) {
        kiln_pack_header *header = &plan->header[operand];
        bool is_a = operand == KILN_GEMM_A;
        bool transposed = is_a ? plan->gemm.transpose_a : plan->gemm.transpose_b;
        int64_t rows = is_a ? desc->m : desc->k, columns = is_a ? desc->k : desc->n;
        *header = (kiln_pack_header){
            .version = 1,
            .header_bytes = PAYLOAD_AT,
            .type = is_a ? desc->a_type : desc->b_type,
            .operand = operand,
            .shape = {1, transposed ? columns : rows, transposed ? rows : columns}};
        memcpy(header->magic, "KILNPACK", sizeof header->magic);
        snprintf(header->backend, sizeof header->backend, "npu");
        snprintf(header->format, sizeof header->format, "%s", format);
        snprintf(plan->sentence[operand], sizeof plan->sentence[operand],
                 "packed operand %s is not a blob of npu, format %s, %s of %lld x %lld: pack it "
                 "with kiln_plan_pack of such a plan",
                 is_a ? "A" : "B", format, kiln_type_name(header->type),
                 (long long)header->shape[1], (long long)header->shape[2]);
    }
    plan->pack = npu_pack_program(config, plan->gemm.type, false, error, sizeof error);
    plan->unpack = npu_pack_program(config, plan->gemm.type, true, error, sizeof error);
    /* A model with a very small UB does not pack; it says so when it is asked to. */
    return KILN_OK;
}

kiln_status npu_gemm_pack_size(void *object, uint32_t operand, int64_t *bytes)
{
    const struct npu_gemm_plan *plan = object;
    if (!is_operand(operand))
        return refuse_operand(plan, operand);
    int64_t size = blob_bytes(plan, operand, plan->desc.batch > 0 ? plan->desc.batch : 1);
    if (size < 0)
        return plan->instance->host->set_error(KILN_INVALID,
                                               "npu: the packed operand would not fit in 64 bits");
    *bytes = size;
    return KILN_OK;
}

/* Where a blob lies, once it is known that `batch` matrices fit into its buffer. */
static kiln_status locate(const struct npu_gemm_plan *plan, uint32_t operand,
                          const kiln_tensor *tensor, int64_t batch, int64_t *address)
{
    const kiln_host *host = plan->instance->host;
    const char *name = operand == KILN_GEMM_A ? "A" : "B";
    if (!tensor->buffer)
        return host->set_error(KILN_INVALID, "npu: packed operand %s is not in a device's buffer",
                               name);
    int64_t room = host->buffer_bytes(tensor->buffer) - tensor->byte_offset;
    int64_t bytes = blob_bytes(plan, operand, batch);
    if (bytes < 0 || bytes > room)
        return host->set_error(KILN_INVALID,
                               "npu: packed operand %s takes %lld bytes, but its buffer has room "
                               "for %lld",
                               name, (long long)bytes, (long long)room);
    *address = npu_memory_address(host->buffer_native(tensor->buffer)) + tensor->byte_offset;
    return KILN_OK;
}

static kiln_status check_shape(const struct npu_gemm_plan *plan, uint32_t operand,
                               const kiln_tensor *tensor)
{
    const int64_t *shape = plan->header[operand].shape;
    uint32_t rank = tensor->rank;
    if ((rank == 2 || rank == 3) && tensor->shape[rank - 2] == shape[1] &&
        tensor->shape[rank - 1] == shape[2])
        return KILN_OK;
    return plan->instance->host->set_error(
        KILN_INVALID,
        "npu: packed operand %s must have the shape %lld x %lld, with the batch before",
        operand == KILN_GEMM_A ? "A" : "B", (long long)shape[1], (long long)shape[2]);
}

kiln_status npu_gemm_packed_operand(const struct npu_gemm_plan *plan, uint32_t operand,
                                    const kiln_tensor *tensor, struct npu_gemm_operand *result)
{
    if (!is_operand(operand))
        return refuse_operand(plan, operand);
    struct npu_pack pack = stored(plan, operand);
    int64_t address;
    kiln_status status = check_shape(plan, operand, tensor);
    if (status == KILN_OK)
        status = locate(plan, operand, tensor, batch_of(tensor), &address);
    if (status == KILN_OK)
        *result = (struct npu_gemm_operand){
            .address = address + PAYLOAD_AT,
            .batch = tensor->rank == 3 ? npu_pack_bytes(&pack) : 0,
        };
    return status;
}

kiln_status npu_gemm_expect_blob(const struct npu_gemm_plan *plan, const kiln_run_context *context,
                                 uint32_t operand, const kiln_tensor *tensor)
{
    const kiln_host *host = plan->instance->host;
    kiln_pack_header header = header_of(plan, operand, batch_of(tensor));
    char error[NPU_TEXT];
    int64_t address;
    kiln_status status = locate(plan, operand, tensor, batch_of(tensor), &address);
    if (status != KILN_OK)
        return status;
    int queued = npu_enqueue_expect(host->stream_native(context->stream), address, &header,
                                    offsetof(kiln_pack_header, payload_hash),
                                    plan->sentence[operand], error, sizeof error);
    return queued == NPU_OK ? KILN_OK : host->set_error((kiln_status)queued, "npu: %s", error);
}

/* The header goes out as fills, whose patterns travel with the commands. */
static int enqueue_header(struct npu_stream *stream, int64_t address,
                          const kiln_pack_header *header, char *error, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)header;
    int status = NPU_OK;
    for (size_t i = 0; i < sizeof *header && status == NPU_OK; i += 16) {
        struct npu_transfer fill = {
            .element_bytes = 16,
            .destination = {.address = address + (int64_t)i},
            .fill = true,
        };
        memcpy(fill.pattern, bytes + i, 16);
        status = npu_enqueue_transfer(stream, &fill, error, size);
    }
    return status;
}

_Static_assert(sizeof(kiln_pack_header) % 16 == 0 && sizeof(kiln_pack_header) <= PAYLOAD_AT,
               "the header is whole fills and lies before the payload");

/* Queues packing or unpacking of `strided`; the blob begins at `address`. */
static kiln_status enqueue(const struct npu_gemm_plan *plan, const kiln_run_context *context,
                           uint32_t operand, const kiln_tensor *strided, int64_t address,
                           const struct npu_program *program)
{
    const kiln_host *host = plan->instance->host;
    struct npu_pack pack = stored(plan, operand);
    struct npu_gemm_operand plain, packed = {address + PAYLOAD_AT, 0, npu_pack_bytes(&pack)};
    struct npu_launch launch;
    char error[NPU_TEXT];
    if (!program)
        return host->set_error(KILN_UNSUPPORTED, "npu: UB is too small to pack operands");
    kiln_status status = npu_gemm_strided_operand(plan, strided, operand, &plain);
    if (status != KILN_OK || !pack.rows || !pack.columns || !batch_of(strided))
        return status;
    npu_pack_launch(&plan->instance->config, &pack, &plain, &packed, batch_of(strided), &launch);
    int queued = npu_enqueue_launch(host->stream_native(context->stream), program, &launch, error,
                                    sizeof error);
    return queued == NPU_OK ? KILN_OK : host->set_error((kiln_status)queued, "npu: %s", error);
}

kiln_status npu_gemm_pack(void *object, const kiln_run_context *context, uint32_t operand,
                          const kiln_tensor *source, const kiln_tensor *packed)
{
    const struct npu_gemm_plan *plan = object;
    const kiln_host *host = plan->instance->host;
    char error[NPU_TEXT];
    int64_t address;
    if (!is_operand(operand))
        return refuse_operand(plan, operand);
    if (!context->stream)
        return host->set_error(KILN_INVALID, "npu: packing needs a stream");
    kiln_status status = check_shape(plan, operand, source);
    if (status == KILN_OK)
        status = locate(plan, operand, packed, batch_of(source), &address);
    if (status != KILN_OK)
        return status;
    kiln_pack_header header = header_of(plan, operand, batch_of(source));
    int queued =
        enqueue_header(host->stream_native(context->stream), address, &header, error, sizeof error);
    if (queued != NPU_OK)
        return host->set_error((kiln_status)queued, "npu: %s", error);
    return enqueue(plan, context, operand, source, address, plan->pack);
}

kiln_status npu_gemm_unpack(void *object, const kiln_run_context *context, uint32_t operand,
                            const kiln_tensor *packed, const kiln_tensor *destination)
{
    const struct npu_gemm_plan *plan = object;
    int64_t address;
    if (!is_operand(operand))
        return refuse_operand(plan, operand);
    if (!context->stream)
        return plan->instance->host->set_error(KILN_INVALID, "npu: unpacking needs a stream");
    kiln_status status = check_shape(plan, operand, destination);
    if (status == KILN_OK)
        status = locate(plan, operand, packed, batch_of(destination), &address);
    if (status == KILN_OK)
        status = npu_gemm_expect_blob(plan, context, operand, packed);
    return status == KILN_OK ? enqueue(plan, context, operand, destination, address, plan->unpack)
                             : status;
}
