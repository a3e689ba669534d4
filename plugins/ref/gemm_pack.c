/* SPDX-License-Identifier: Apache-2.0 */
/* Packed operands. A blob is a header, then op(A) or op(B)ᵀ, entry by entry, as panels of REF_ROWS
 * or REF_COLUMNS rows: [entries][rows / panel][K][panel] elements of the operand's own type, zeros
 * beyond the last row; then its scales and its zero points, each as a contiguous tensor of the
 * shape that they came in. */
#include "plugins/ref/gemm.h"

typedef struct blob_header {
    kiln_pack_header common;
    kiln_quantization quantization;
    int64_t scale_entries, zero_entries; /* 1: shared by all; 0: there are none */
    uint64_t reserved[2];
} blob_header;

KILN_STATIC_ASSERT(sizeof(blob_header) == 192, "the payload begins aligned");

/* Where the parts of a blob begin. */
typedef struct blob_layout {
    int64_t scales, zeros, bytes;
} blob_layout;

/* Transposed and plain operands of one shape give different payloads: they are different formats.
 */
static const char *format_name(uint32_t slot, bool transposed)
{
    if (slot == KILN_GEMM_A)
        return transposed ? "ref-a8-t-2" : "ref-a8-n-2";
    return transposed ? "ref-b64-t-2" : "ref-b64-n-2";
}

static char slot_name(uint32_t slot)
{
    return slot == KILN_GEMM_A ? 'A' : 'B';
}

/* ---- Sizes ---- */

/* *end += count * each, rounded up to whole lines of 64 bytes; false on overflow. */
static bool add_part(int64_t *end, int64_t count, int64_t each)
{
    int64_t bytes;
    if (__builtin_mul_overflow(count, each, &bytes) || __builtin_add_overflow(*end, bytes, end) ||
        __builtin_add_overflow(*end, 63, end))
        return false;
    *end = *end / 64 * 64;
    return true;
}

static bool add_grid(int64_t *end, int64_t entries, uint32_t type, const int64_t shape[2])
{
    int64_t rows;
    if (type == KILN_TYPE_NONE || entries == 0)
        return true;
    return shape[1] <= INT64_MAX / 16 && !__builtin_mul_overflow(entries, shape[0], &rows) &&
           add_part(end, rows, kiln_type_row_bytes(type, shape[1]));
}

/* False when the blob that a header speaks of does not fit in 64 bits. Its numbers may be anything.
 */
static bool lay_out(const blob_header *header, bool transposed, blob_layout *layout)
{
    const int64_t *shape = header->common.shape;
    uint32_t slot = header->common.operand, type = header->common.type;
    int64_t panel = slot == KILN_GEMM_A ? REF_ROWS : REF_COLUMNS;
    bool rows_first = ref_rows_first(slot, transposed);
    int64_t panels = ref_divide_up(shape[1 + !rows_first], panel), depth = shape[1 + rows_first];
    int64_t steps, grid[2];
    if (shape[0] < 0 || shape[1] < 0 || shape[2] < 0 || header->scale_entries < 0 ||
        header->zero_entries < 0)
        return false;
    ref_grid_shape(&header->quantization, &shape[1], grid);
    layout->bytes = sizeof *header;
    if (__builtin_mul_overflow(shape[0], panels, &steps) ||
        __builtin_mul_overflow(steps, depth, &steps) ||
        !add_part(&layout->bytes, steps, panel * kiln_type_bits(type) / 8))
        return false;
    layout->scales = layout->bytes;
    if (!add_grid(&layout->bytes, header->scale_entries, header->quantization.scale_type, grid))
        return false;
    layout->zeros = layout->bytes;
    return add_grid(&layout->bytes, header->zero_entries, header->quantization.zero_type, grid);
}

/* ---- Headers ---- */

/* The header of a blob of a matrix of this shape. */
static blob_header make_header(const ref_gemm_plan *plan, uint32_t slot, uint32_t type,
                               const int64_t shape[3])
{
    blob_header header = {
        .common = {.version = 1, .header_bytes = sizeof header, .type = type, .operand = slot},
        .quantization = *ref_gemm_quantization(&plan->desc, slot)};
    memcpy(header.common.magic, "KILNPACK", sizeof header.common.magic);
    snprintf(header.common.backend, sizeof header.common.backend, "ref");
    snprintf(header.common.format, sizeof header.common.format, "%s",
             format_name(slot, ref_gemm_transposed(&plan->desc, slot)));
    memcpy(header.common.shape, shape, sizeof header.common.shape);
    return header;
}

static blob_header header_for(const ref_gemm_plan *plan, uint32_t slot, const kiln_tensor *tensor)
{
    int64_t shape[3] = {tensor->rank == 3 ? tensor->shape[0] : 1, tensor->shape[tensor->rank - 2],
                        tensor->shape[tensor->rank - 1]};
    return make_header(plan, slot, tensor->type, shape);
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

/* Who made the blob, and for what. */
static kiln_status check_maker(const kiln_host *host, char name, const kiln_pack_header *have,
                               const kiln_pack_header *want)
{
    if (memcmp(have->magic, want->magic, sizeof have->magic) != 0)
        return host->set_error(KILN_INVALID,
                               "packed operand %c does not begin with KILNPACK: pack it with "
                               "kiln_plan_pack",
                               name);
    if (have->version != want->version || have->header_bytes != want->header_bytes)
        return host->set_error(
            KILN_INVALID, "packed operand %c: header version %u with %u bytes, not 1 with %u", name,
            (unsigned)have->version, (unsigned)have->header_bytes, (unsigned)want->header_bytes);
    if (!same_text(have->backend, want->backend))
        return host->set_error(KILN_INVALID,
                               "packed operand %c was packed by backend '%.31s', not ref", name,
                               have->backend);
    if (!same_text(have->format, want->format))
        return host->set_error(KILN_INVALID, "packed operand %c has format '%.31s', not '%s'", name,
                               have->format, want->format);
    if (have->type != want->type || have->operand != want->operand)
        return host->set_error(
            KILN_INVALID, "packed operand %c is a blob of %s for slot %u, not of %s for slot %u",
            name, kiln_type_name(have->type), (unsigned)have->operand, kiln_type_name(want->type),
            (unsigned)want->operand);
    if (memcmp(have->shape, want->shape, sizeof have->shape) != 0)
        return host->set_error(
            KILN_INVALID, "packed operand %c has shape %lld x %lld x %lld, not %lld x %lld x %lld",
            name, (long long)have->shape[0], (long long)have->shape[1], (long long)have->shape[2],
            (long long)want->shape[0], (long long)want->shape[1], (long long)want->shape[2]);
    return KILN_OK;
}

static bool right_entries(int64_t entries, uint32_t type, int64_t batch)
{
    return type == KILN_TYPE_NONE ? entries == 0 : entries == 1 || entries == batch;
}

static kiln_status check_quantization(const kiln_host *host, char name, const blob_header *have,
                                      const blob_header *want)
{
    const kiln_quantization *had = &have->quantization, *wanted = &want->quantization;
    int64_t batch = want->common.shape[0];
    if (memcmp(had, wanted, sizeof *had) != 0)
        return host->set_error(
            KILN_INVALID,
            "packed operand %c has scales of %s and zero points of %s for blocks of %d x %d, not "
            "of %s and of %s for %d x %d",
            name, kiln_type_name(had->scale_type), kiln_type_name(had->zero_type),
            (int)had->block[0], (int)had->block[1], kiln_type_name(wanted->scale_type),
            kiln_type_name(wanted->zero_type), (int)wanted->block[0], (int)wanted->block[1]);
    if (!right_entries(have->scale_entries, wanted->scale_type, batch) ||
        !right_entries(have->zero_entries, wanted->zero_type, batch))
        return host->set_error(
            KILN_INVALID,
            "packed operand %c claims scales for %lld and zero points for %lld entries of %lld",
            name, (long long)have->scale_entries, (long long)have->zero_entries, (long long)batch);
    return KILN_OK;
}

/* Reads a blob's header and refuses one that is not that of this tensor. */
static kiln_status check_blob(const ref_gemm_plan *plan, uint32_t slot, const kiln_tensor *tensor,
                              const char *blob, blob_header *have, blob_layout *layout)
{
    const kiln_host *host = plan->instance->host;
    blob_header want = header_for(plan, slot, tensor);
    char name = slot_name(slot);
    int64_t space = room(host, tensor);
    if (space < (int64_t)sizeof *have)
        return host->set_error(KILN_INVALID,
                               "packed operand %c: its buffer holds %lld bytes, less than a header",
                               name, (long long)space);
    memcpy(have, blob, sizeof *have);
    kiln_status status = check_maker(host, name, &have->common, &want.common);
    if (status == KILN_OK)
        status = check_quantization(host, name, have, &want);
    if (status != KILN_OK)
        return status;
    if (!lay_out(have, ref_gemm_transposed(&plan->desc, slot), layout))
        return host->set_error(KILN_INVALID, "packed operand %c would not fit in 64 bits", name);
    if (have->common.bytes != layout->bytes || layout->bytes > space)
        return host->set_error(
            KILN_INVALID,
            "packed operand %c claims %lld bytes; its shape needs %lld and there is room for %lld",
            name, (long long)have->common.bytes, (long long)layout->bytes, (long long)space);
    return KILN_OK;
}

/* ---- The parts of a blob as tensors ---- */

/* The operand's tensor, whose scales and zero points are those in the blob. */
typedef struct blob_tensors {
    kiln_tensor operand, scale, zero;
} blob_tensors;

static kiln_tensor part_tensor(const blob_header *header, uint32_t type, int64_t entries,
                               char *data)
{
    int64_t shape[3] = {entries};
    ref_grid_shape(&header->quantization, &header->common.shape[1], &shape[1]);
    return kiln_tensor_host(type, data, 3, shape);
}

static void find_tensors(const blob_header *header, const blob_layout *layout,
                         const kiln_tensor *tensor, char *blob, blob_tensors *parts)
{
    const kiln_quantization *quantization = &header->quantization;
    parts->operand = *tensor;
    parts->operand.scale = parts->operand.zero_point = NULL;
    if (quantization->scale_type) {
        parts->scale = part_tensor(header, quantization->scale_type, header->scale_entries,
                                   blob + layout->scales);
        parts->operand.scale = &parts->scale;
    }
    if (quantization->zero_type) {
        parts->zero = part_tensor(header, quantization->zero_type, header->zero_entries,
                                  blob + layout->zeros);
        parts->operand.zero_point = &parts->zero;
    }
}

kiln_status ref_gemm_packed_operand(const ref_gemm_plan *plan, uint32_t slot,
                                    const kiln_tensor *tensor, char *blob, ref_operand *operand)
{
    blob_header header;
    blob_layout layout;
    blob_tensors parts;
    kiln_status status = check_blob(plan, slot, tensor, blob, &header, &layout);
    if (status != KILN_OK)
        return status;
    *operand = ref_operand_packed(tensor, blob + sizeof header, slot,
                                  ref_gemm_transposed(&plan->desc, slot));
    find_tensors(&header, &layout, tensor, blob, &parts);
    return ref_gemm_bind_grids(plan, slot, &parts.operand, operand);
}

/* ---- Packing ---- */

static kiln_status check_slot(const ref_gemm_plan *plan, uint32_t slot)
{
    if (slot == KILN_GEMM_A || slot == KILN_GEMM_B)
        return KILN_OK;
    return plan->instance->host->set_error(KILN_UNSUPPORTED,
                                           "ref packs operands A (%d) and B (%d), not %u",
                                           KILN_GEMM_A, KILN_GEMM_B, (unsigned)slot);
}

/* How many matrices an operand is, at most. */
static int64_t most_entries(const kiln_gemm_desc *desc, uint32_t slot)
{
    switch (desc->grouping) {
    case KILN_GROUPING_CONTIGUOUS:
        return slot == KILN_GEMM_A ? 1 : desc->groups;
    case KILN_GROUPING_MASKED:
        return desc->groups;
    case KILN_GROUPING_K:
        return 1;
    default:
        return desc->batch > 0 ? desc->batch : 1;
    }
}

kiln_status ref_gemm_pack_size(void *plan, uint32_t operand, int64_t *bytes)
{
    const ref_gemm_plan *gemm = plan;
    const kiln_gemm_desc *desc = &gemm->desc;
    kiln_status status = check_slot(gemm, operand);
    if (status != KILN_OK)
        return status;
    bool is_a = operand == KILN_GEMM_A, transposed = ref_gemm_transposed(desc, operand);
    int64_t rows = is_a ? desc->m : desc->n, entries = most_entries(desc, operand);
    bool rows_first = ref_rows_first(operand, transposed);
    int64_t shape[3] = {entries, rows_first ? rows : desc->k, rows_first ? desc->k : rows};
    blob_header header = make_header(gemm, operand, is_a ? desc->a_type : desc->b_type, shape);
    blob_layout layout;
    header.scale_entries = header.zero_entries = entries;
    if (!lay_out(&header, transposed, &layout))
        return gemm->instance->host->set_error(KILN_INVALID,
                                               "ref: the packed operand would not fit in 64 bits");
    *bytes = layout.bytes;
    return KILN_OK;
}

/* Copies every element between two views of one operand. */
static void copy_operand(const ref_operand *to, const ref_operand *from)
{
    for (int64_t entry = 0; entry < to->entries; entry++)
        for (int64_t row = 0; row < to->rows; row++)
            for (int64_t k = 0; k < to->depth; k++)
                ref_element_copy(to->type, to->data, ref_operand_index(to, entry, row, k),
                                 from->data, ref_operand_index(from, entry, row, k));
}

static int64_t entries_of(const kiln_tensor *tensor)
{
    return tensor->rank == 3 ? tensor->shape[0] : 1;
}

/* Copies scales or zero points, all of one shape but that those of one entry serve all; both may be
 * absent. */
static void copy_grid(const kiln_host *host, const kiln_tensor *to, const kiln_tensor *from)
{
    if (!to || !from)
        return;
    uint32_t t = to->rank - 2, f = from->rank - 2;
    char *target = kiln_tensor_address(host, to);
    const char *source = kiln_tensor_address(host, from);
    for (int64_t entry = 0; entry < entries_of(to); entry++)
        for (int64_t i = 0; i < to->shape[t]; i++)
            for (int64_t j = 0; j < to->shape[t + 1]; j++)
                ref_element_copy(to->type, target,
                                 (t ? entry * to->strides[0] : 0) + i * to->strides[t] +
                                     j * to->strides[t + 1],
                                 source,
                                 (entries_of(from) > 1 ? entry * from->strides[0] : 0) +
                                     i * from->strides[f] + j * from->strides[f + 1]);
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
    ref_operand strided;
    blob_layout layout;
    blob_tensors parts;
    kiln_status status = check_slot(gemm, operand);
    if (status != KILN_OK || is_idle_share(context))
        return status;
    char *blob = kiln_tensor_address(host, packed);
    if (source->layout != KILN_LAYOUT_STRIDED || !blob)
        return host->set_error(KILN_INVALID,
                               "ref: packing needs a strided source, and a blob in host memory");
    status = ref_gemm_operand(gemm, operand, source, &strided);
    if (status != KILN_OK)
        return status;
    bool transposed = ref_gemm_transposed(&gemm->desc, operand);
    blob_header header = header_for(gemm, operand, source);
    header.scale_entries = source->scale ? entries_of(source->scale) : 0;
    header.zero_entries = source->zero_point ? entries_of(source->zero_point) : 0;
    if (!lay_out(&header, transposed, &layout) || layout.bytes > room(host, packed))
        return host->set_error(KILN_INVALID,
                               "ref: the packed operand does not fit in the %lld bytes there are",
                               (long long)room(host, packed));
    header.common.bytes = layout.bytes;
    memset(blob, 0, (size_t)layout.bytes);
    memcpy(blob, &header, sizeof header);
    ref_operand panels = ref_operand_packed(source, blob + sizeof header, operand, transposed);
    copy_operand(&panels, &strided);
    find_tensors(&header, &layout, source, blob, &parts);
    copy_grid(host, parts.operand.scale, source->scale);
    copy_grid(host, parts.operand.zero_point, source->zero_point);
    return KILN_OK;
}

kiln_status ref_gemm_unpack(void *plan, const kiln_run_context *context, uint32_t operand,
                            const kiln_tensor *packed, const kiln_tensor *destination)
{
    const ref_gemm_plan *gemm = plan;
    const kiln_host *host = gemm->instance->host;
    blob_header header;
    blob_layout layout;
    blob_tensors parts;
    ref_operand panels, strided;
    kiln_status status = check_slot(gemm, operand);
    if (status != KILN_OK || is_idle_share(context))
        return status;
    char *blob = kiln_tensor_address(host, packed);
    if (destination->layout != KILN_LAYOUT_STRIDED || !blob)
        return host->set_error(
            KILN_INVALID, "ref: unpacking needs a strided destination, and a blob in host memory");
    if (packed->rank != 2 && packed->rank != 3)
        return host->set_error(KILN_INVALID, "ref: the blob has rank %u, not 2 or 3",
                               (unsigned)packed->rank);
    status = ref_gemm_operand(gemm, operand, destination, &strided);
    if (status == KILN_OK)
        status = check_blob(gemm, operand, packed, blob, &header, &layout);
    if (status != KILN_OK)
        return status;
    panels = ref_operand_packed(packed, blob + sizeof header, operand,
                                ref_gemm_transposed(&gemm->desc, operand));
    find_tensors(&header, &layout, packed, blob, &parts);
    if (panels.entries != strided.entries || panels.rows != strided.rows ||
        panels.depth != strided.depth ||
        (destination->scale && entries_of(destination->scale) < header.scale_entries) ||
        (destination->zero_point && entries_of(destination->zero_point) < header.zero_entries))
        return host->set_error(
            KILN_INVALID,
            "ref: packed operand %c and its destination, or their scales, have different shapes",
            slot_name(operand));
    copy_operand(&strided, &panels);
    copy_grid(host, destination->scale, parts.operand.scale);
    copy_grid(host, destination->zero_point, parts.operand.zero_point);
    return KILN_OK;
}
