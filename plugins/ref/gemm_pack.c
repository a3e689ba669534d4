/* SPDX-License-Identifier: Apache-2.0 */
/* Packed operands. The payload holds op(A) or op(B)ᵀ, batch entry by batch entry, as panels of
 * REF_ROWS or REF_COLUMNS rows: [batch][rows / panel][K][panel] elements of the operand's own type,
 * zeros beyond the last row. */
#include <stdio.h>

#include "plugins/ref/ref.h"

enum { PAYLOAD_AT = 192 }; /* behind the header, aligned */

/* Transposed and plain operands of one shape give different payloads: they are different formats.
 */
static const char *format_name(uint32_t slot, bool transposed)
{
    if (slot == KILN_GEMM_A)
        return transposed ? "ref-a8-t-1" : "ref-a8-n-1";
    return transposed ? "ref-b64-t-1" : "ref-b64-n-1";
}

static bool is_transposed(const kiln_gemm_desc *desc, uint32_t slot)
{
    return desc->head.flags & (slot == KILN_GEMM_A ? KILN_GEMM_TRANSPOSE_A : KILN_GEMM_TRANSPOSE_B);
}

static const char *slot_name(uint32_t slot)
{
    return slot == KILN_GEMM_A ? "A" : "B";
}

/* -1 when the size does not fit in 64 bits. */
static int64_t blob_bytes(uint32_t type, uint32_t slot, int64_t batch, int64_t rows, int64_t depth)
{
    int64_t panel = slot == KILN_GEMM_A ? REF_ROWS : REF_COLUMNS;
    int64_t panels = rows / panel + (rows % panel != 0), bytes;
    if (__builtin_mul_overflow(panels, panel * (kiln_type_bits(type) / 8), &bytes) ||
        __builtin_mul_overflow(bytes, depth, &bytes) ||
        __builtin_mul_overflow(bytes, batch, &bytes) ||
        __builtin_add_overflow(bytes, PAYLOAD_AT, &bytes))
        return -1;
    return bytes;
}

static kiln_status check_slot(const ref_gemm_plan *plan, uint32_t slot)
{
    if (slot == KILN_GEMM_A || slot == KILN_GEMM_B)
        return KILN_OK;
    return plan->instance->host->set_error(KILN_UNSUPPORTED,
                                           "ref packs operands A (%d) and B (%d), not %u",
                                           KILN_GEMM_A, KILN_GEMM_B, (unsigned)slot);
}

/* The header that a blob of this tensor must have. */
static kiln_pack_header expected_header(const ref_gemm_plan *plan, uint32_t slot,
                                        const kiln_tensor *tensor)
{
    kiln_pack_header header = {
        .version = 1, .header_bytes = PAYLOAD_AT, .type = tensor->type, .operand = slot};
    ref_operand view = ref_operand_strided(tensor, NULL, slot, is_transposed(&plan->desc, slot));
    memcpy(header.magic, "KILNPACK", sizeof header.magic);
    snprintf(header.backend, sizeof header.backend, "ref");
    snprintf(header.format, sizeof header.format, "%s",
             format_name(slot, is_transposed(&plan->desc, slot)));
    header.shape[0] = view.batch;
    header.shape[1] = tensor->shape[tensor->rank - 2];
    header.shape[2] = tensor->shape[tensor->rank - 1];
    header.bytes = blob_bytes(tensor->type, slot, view.batch, view.rows, view.depth);
    return header;
}

/* Bytes from the tensor's offset to the end of its buffer; no limit is known for a host pointer. */
static int64_t room(const kiln_host *host, const kiln_tensor *tensor)
{
    return tensor->buffer ? host->buffer_bytes(tensor->buffer) - tensor->byte_offset : INT64_MAX;
}

static bool same_text(const char found[32], const char *expected)
{
    return strncmp(found, expected, 32) == 0;
}

static kiln_status check_header(const ref_gemm_plan *plan, uint32_t slot, const kiln_tensor *tensor,
                                const char *blob)
{
    const kiln_host *host = plan->instance->host;
    kiln_pack_header want = expected_header(plan, slot, tensor), have;
    const char *name = slot_name(slot);
    if (room(host, tensor) < PAYLOAD_AT)
        return host->set_error(KILN_INVALID,
                               "packed operand %s: its buffer holds %lld bytes, less than a header",
                               name, (long long)room(host, tensor));
    memcpy(&have, blob, sizeof have);
    if (memcmp(have.magic, want.magic, sizeof have.magic) != 0)
        return host->set_error(KILN_INVALID,
                               "packed operand %s does not begin with KILNPACK: pack it with "
                               "kiln_plan_pack",
                               name);
    if (have.version != want.version || have.header_bytes != want.header_bytes)
        return host->set_error(
            KILN_INVALID, "packed operand %s: header version %u with %u bytes, not 1 with %d", name,
            (unsigned)have.version, (unsigned)have.header_bytes, PAYLOAD_AT);
    if (!same_text(have.backend, want.backend))
        return host->set_error(KILN_INVALID,
                               "packed operand %s was packed by backend '%.31s', not ref", name,
                               have.backend);
    if (!same_text(have.format, want.format))
        return host->set_error(KILN_INVALID, "packed operand %s has format '%.31s', not '%s'", name,
                               have.format, want.format);
    if (have.type != want.type || have.operand != want.operand)
        return host->set_error(
            KILN_INVALID, "packed operand %s is a blob of %s for slot %u, not of %s for slot %u",
            name, kiln_type_name(have.type), (unsigned)have.operand, kiln_type_name(want.type),
            (unsigned)slot);
    if (memcmp(have.shape, want.shape, sizeof have.shape) != 0)
        return host->set_error(
            KILN_INVALID, "packed operand %s has shape %lld x %lld x %lld, not %lld x %lld x %lld",
            name, (long long)have.shape[0], (long long)have.shape[1], (long long)have.shape[2],
            (long long)want.shape[0], (long long)want.shape[1], (long long)want.shape[2]);
    if (want.bytes < 0 || have.bytes != want.bytes || have.bytes > room(host, tensor))
        return host->set_error(
            KILN_INVALID,
            "packed operand %s claims %lld bytes; its shape needs %lld and there is room "
            "for %lld",
            name, (long long)have.bytes, (long long)want.bytes, (long long)room(host, tensor));
    return KILN_OK;
}

kiln_status ref_gemm_operand(const ref_gemm_plan *plan, uint32_t slot, const kiln_tensor *tensor,
                             ref_operand *operand)
{
    const kiln_host *host = plan->instance->host;
    bool transposed = is_transposed(&plan->desc, slot);
    char *data = kiln_tensor_address(host, tensor);
    if (!data)
        return host->set_error(KILN_INVALID,
                               "ref: tensor %u of the GEMM is missing or not in host memory",
                               (unsigned)slot);
    if (tensor->rank != 2 && tensor->rank != 3)
        return host->set_error(KILN_INVALID, "ref: operand %s has rank %u, not 2 or 3",
                               slot_name(slot), (unsigned)tensor->rank);
    if (tensor->layout != KILN_LAYOUT_PACKED) {
        *operand = ref_operand_strided(tensor, data, slot, transposed);
        return KILN_OK;
    }
    *operand = ref_operand_packed(tensor, data + PAYLOAD_AT, slot, transposed);
    return check_header(plan, slot, tensor, data);
}

kiln_status ref_gemm_pack_size(void *plan, uint32_t operand, int64_t *bytes)
{
    const ref_gemm_plan *gemm = plan;
    const kiln_gemm_desc *desc = &gemm->desc;
    kiln_status status = check_slot(gemm, operand);
    if (status != KILN_OK)
        return status;
    int64_t size = blob_bytes(desc->a_type, operand, desc->batch > 0 ? desc->batch : 1,
                              operand == KILN_GEMM_A ? desc->m : desc->n, desc->k);
    if (size < 0)
        return gemm->instance->host->set_error(KILN_INVALID,
                                               "ref: the packed operand would not fit in 64 bits");
    *bytes = size;
    return KILN_OK;
}

/* Copies every element between two views of one operand. */
static void copy_elements(const ref_operand *to, const ref_operand *from)
{
    size_t size = (size_t)kiln_type_bits(to->type) / 8;
    for (int64_t batch = 0; batch < to->batch; batch++)
        for (int64_t row = 0; row < to->rows; row++)
            for (int64_t k = 0; k < to->depth; k++)
                memcpy(ref_operand_at(to, batch, row, k), ref_operand_at(from, batch, row, k),
                       size);
}

/* One share packs everything: a weight is packed once. */
static bool is_idle_share(const kiln_run_context *context)
{
    return context->parts > 0 && context->part > 0;
}

kiln_status ref_gemm_pack(void *plan, const kiln_run_context *context, uint32_t operand,
                          const kiln_tensor *source, const kiln_tensor *packed)
{
    const ref_gemm_plan *gemm = plan;
    const kiln_host *host = gemm->instance->host;
    kiln_status status = check_slot(gemm, operand);
    if (status != KILN_OK || is_idle_share(context))
        return status;
    kiln_pack_header header = expected_header(gemm, operand, source);
    if (header.bytes < 0 || header.bytes > room(host, packed))
        return host->set_error(KILN_INVALID,
                               "ref: the packed operand needs %lld bytes, there is room for %lld",
                               (long long)header.bytes, (long long)room(host, packed));
    char *from = kiln_tensor_address(host, source), *to = kiln_tensor_address(host, packed);
    if (!from || !to)
        return host->set_error(KILN_INVALID, "ref: packing needs source and blob in host memory");
    bool transposed = is_transposed(&gemm->desc, operand);
    ref_operand strided = ref_operand_strided(source, from, operand, transposed);
    ref_operand panels = ref_operand_packed(source, to + PAYLOAD_AT, operand, transposed);
    memset(to, 0, (size_t)header.bytes);
    memcpy(to, &header, sizeof header);
    copy_elements(&panels, &strided);
    return KILN_OK;
}

kiln_status ref_gemm_unpack(void *plan, const kiln_run_context *context, uint32_t operand,
                            const kiln_tensor *packed, const kiln_tensor *destination)
{
    const ref_gemm_plan *gemm = plan;
    const kiln_host *host = gemm->instance->host;
    kiln_status status = check_slot(gemm, operand);
    if (status != KILN_OK || is_idle_share(context))
        return status;
    char *to = kiln_tensor_address(host, destination);
    ref_operand panels;
    status = ref_gemm_operand(gemm, operand, packed, &panels);
    if (status == KILN_OK && !to)
        status = host->set_error(KILN_INVALID, "ref: unpacking needs a destination in host memory");
    if (status != KILN_OK)
        return status;
    ref_operand strided =
        ref_operand_strided(destination, to, operand, is_transposed(&gemm->desc, operand));
    if (panels.batch != strided.batch || panels.rows != strided.rows ||
        panels.depth != strided.depth)
        return host->set_error(KILN_INVALID,
                               "ref: packed operand %s and its destination have different shapes",
                               slot_name(operand));
    copy_elements(&strided, &panels);
    return KILN_OK;
}
