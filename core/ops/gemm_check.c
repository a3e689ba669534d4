/* SPDX-License-Identifier: Apache-2.0 */
/* The checks on the tensors of a GEMM. The common path is a few compares; sentences are made out of
 * line. */
#include "core/ops/gemm.h"

static const char *const slot_names[KILN_GEMM_SLOTS] = {
    "A",           "B",           "C",           "D",           "epilogue[0]",
    "epilogue[1]", "epilogue[2]", "epilogue[3]", "epilogue[4]", "epilogue[5]",
    "epilogue[6]", "epilogue[7]", "groups",      "D scale",
};

static __attribute__((cold, noinline)) kiln_status
wrong_shape(uint32_t slot, const kiln_tensor *tensor, int64_t rows, int64_t columns)
{
    uint32_t last = tensor->rank && tensor->rank <= KILN_MAX_RANK ? tensor->rank - 1 : 0;
    return kiln_fail(KILN_INVALID,
                     "gemm: %s has shape […, %lld, %lld] of rank %u; it must be [%lld, %lld], with "
                     "the batch before it",
                     slot_names[slot], (long long)tensor->shape[last ? last - 1 : 0],
                     (long long)tensor->shape[last], tensor->rank, (long long)rows,
                     (long long)columns);
}

static __attribute__((cold, noinline)) kiln_status
wrong_type(uint32_t slot, const kiln_tensor *tensor, uint32_t type)
{
    return kiln_fail(KILN_INVALID, "gemm: %s has type %s; the plan was made for %s",
                     slot_names[slot], kiln_type_name(tensor->type), kiln_type_name(type));
}

static __attribute__((cold, noinline)) kiln_status
wrong_place(uint32_t slot, const kiln_tensor *tensor, kiln_device *home)
{
    kiln_device *device = kiln_tensor_device(home->runtime, tensor);
    if (device == home)
        return kiln_fail(KILN_INVALID, "gemm: %s has neither a buffer nor an address",
                         slot_names[slot]);
    return kiln_fail(
        KILN_INVALID,
        "gemm: %s lives on %s, but the plan was made for %s; copy it there with kiln_copy",
        slot_names[slot], device->name, home->name);
}

static __attribute__((cold, noinline)) kiln_status wrong_stride(uint32_t slot,
                                                                const kiln_tensor *tensor)
{
    int64_t begin, end;
    kiln_status status = kiln_tensor_extent(tensor, slot_names[slot], &begin, &end);
    if (status != KILN_OK)
        return status;
    uint32_t last = tensor->rank - 1;
    return kiln_fail(KILN_INVALID,
                     "gemm: %s has column stride %lld and row stride %lld for rows of %lld; the "
                     "column stride must be 1 and the row "
                     "stride at least the row",
                     slot_names[slot], (long long)tensor->strides[last],
                     (long long)tensor->strides[last ? last - 1 : 0],
                     (long long)tensor->shape[last]);
}

static __attribute__((cold, noinline)) kiln_status wrong_alignment(uint32_t slot,
                                                                   uint32_t alignment)
{
    return kiln_fail(KILN_INVALID,
                     "gemm: address or strides of %s are not multiples of %u bytes, which the "
                     "descriptor promises",
                     slot_names[slot], alignment);
}

/* End of a tensor without empty dimensions in bytes from its start; -1 on overflow, which a
 * negative offset counts as. */
static inline int64_t end_of(const kiln_tensor *tensor)
{
    int64_t end = 0, span;
    bool overflow = false;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        overflow |= __builtin_mul_overflow(tensor->shape[i] - 1, tensor->strides[i], &span);
        overflow |= __builtin_add_overflow(end, span, &end);
    }
    overflow |= __builtin_add_overflow(end, 1, &end);
    overflow |= __builtin_mul_overflow(end, (int64_t)kiln_type_bits(tensor->type), &end);
    overflow |= tensor->byte_offset < 0 || end > INT64_MAX - 8 - tensor->byte_offset;
    return overflow ? -1 : (end + 7) / 8;
}

/* Where a tensor begins: an address for host memory, an offset for device memory. */
static inline uint64_t start_of(const kiln_tensor *tensor)
{
    if (!tensor->buffer)
        return (uint64_t)(uintptr_t)tensor->data + (uint64_t)tensor->byte_offset;
    return (uint64_t)(uintptr_t)tensor->buffer->host + (uint64_t)tensor->byte_offset;
}

typedef struct extent {
    const kiln_buffer *owner; /* device memory: offsets of different buffers are not comparable */
    uint64_t begin, end;
    /* All of it lies within `row` bytes from `begin` and from every multiple of `pitch` behind it.
     */
    uint64_t row, pitch; /* pitch 0: there is only one row */
} extent;

static inline extent extent_of(const kiln_tensor *tensor, int64_t bytes)
{
    extent range = {.owner = tensor->buffer && !tensor->buffer->host ? tensor->buffer : NULL,
                    .begin = start_of(tensor)};
    range.end = range.begin + (uint64_t)bytes;
    range.row = (uint64_t)bytes;
    uint32_t last = tensor->rank - 1;
    if (tensor->rank < 2 || tensor->shape[last - 1] == 1)
        return range;
    uint64_t bits = (uint64_t)kiln_type_bits(tensor->type);
    range.pitch = (uint64_t)tensor->strides[last - 1] * bits / 8;
    range.row = ((uint64_t)tensor->shape[last] * bits + 7) / 8;
    uint64_t entry = last > 1 ? (uint64_t)tensor->strides[0] * bits / 8 : 0;
    if (range.pitch && entry % range.pitch) /* the matrices of the batch lie side by side */
        range.row += (uint64_t)(tensor->shape[0] - 1) * entry;
    return range;
}

static inline bool is_inside(const kiln_tensor *tensor, int64_t bytes)
{
    return !tensor->buffer ||
           (tensor->byte_offset >= 0 && bytes <= tensor->buffer->bytes - tensor->byte_offset);
}

/* What a descriptor's alignment promises; 0 is the element size. */
static inline uint32_t promised(uint32_t alignment, uint32_t type)
{
    return alignment ? alignment : (uint32_t)(kiln_type_bits(type) + 7) / 8;
}

static inline bool honours(const kiln_tensor *tensor, uint32_t alignment)
{
    uint64_t bits = start_of(tensor);
    if (tensor->buffer && !tensor->buffer->host)
        bits = (uint64_t)tensor->byte_offset;
    for (uint32_t i = 0; i + 1 < tensor->rank; i++)
        bits |= (uint64_t)tensor->strides[i] * (uint64_t)kiln_type_bits(tensor->type) / 8;
    return (bits & (alignment - 1)) == 0;
}

/* A matrix in `slot`, `rows` × `columns` as stored, with the given batch. */
static inline kiln_status check_matrix(uint32_t slot, const kiln_tensor *tensor, uint32_t type,
                                       uint32_t alignment, kiln_device *home, int64_t batch,
                                       int64_t rows, int64_t columns, bool shared, extent *range)
{
    if (tensor->type != type)
        return wrong_type(slot, tensor, type);
    if (tensor->rank != 2 && tensor->rank != 3)
        return wrong_shape(slot, tensor, rows, columns);
    uint32_t last = tensor->rank - 1;
    if (tensor->shape[last] != columns || tensor->shape[last - 1] != rows ||
        (tensor->rank == 3 ? tensor->shape[0] != batch : batch != 1 && !shared))
        return wrong_shape(slot, tensor, rows, columns);
    if (kiln_tensor_device(home->runtime, tensor) != home || (!tensor->buffer && !tensor->data))
        return wrong_place(slot, tensor, home);
    if (tensor->layout != KILN_LAYOUT_STRIDED || tensor->flags || tensor->reserved)
        return kiln_fail(
            KILN_UNSUPPORTED,
            "gemm: %s has a layout, flags or reserved fields that the plan does not take",
            slot_names[slot]);
    int64_t bytes = end_of(tensor);
    if (tensor->strides[last] != 1 || (tensor->strides[last - 1] < columns && rows > 1) ||
        tensor->strides[last - 1] < 0 || (tensor->rank == 3 && tensor->strides[0] < 0) ||
        bytes < 0 || !is_inside(tensor, bytes))
        return wrong_stride(slot, tensor);
    alignment = promised(alignment, type);
    if (!honours(tensor, alignment))
        return wrong_alignment(slot, alignment);
    *range = extent_of(tensor, bytes);
    return KILN_OK;
}

static kiln_status check_vector(uint32_t slot, const kiln_tensor *tensor,
                                const kiln_epilogue *epilogue, kiln_device *home, int64_t count,
                                extent *range)
{
    if (tensor->type != epilogue->type)
        return wrong_type(slot, tensor, epilogue->type);
    if (tensor->rank != 1 || tensor->shape[0] != count)
        return kiln_fail(
            KILN_INVALID,
            "gemm: %s must be a vector of %lld elements; it has rank %u and first dimension %lld",
            slot_names[slot], (long long)count, tensor->rank, (long long)tensor->shape[0]);
    if (kiln_tensor_device(home->runtime, tensor) != home || (!tensor->buffer && !tensor->data))
        return wrong_place(slot, tensor, home);
    int64_t bytes = end_of(tensor);
    if (tensor->layout != KILN_LAYOUT_STRIDED || tensor->flags || tensor->reserved ||
        (count > 1 && tensor->strides[0] != 1) || bytes < 0 || !is_inside(tensor, bytes))
        return kiln_fail(KILN_INVALID,
                         "gemm: %s must be contiguous, with no flags, and inside of its buffer",
                         slot_names[slot]);
    uint32_t alignment = promised(epilogue->alignment, epilogue->type);
    if (!honours(tensor, alignment))
        return wrong_alignment(slot, alignment);
    *range = extent_of(tensor, bytes);
    return KILN_OK;
}

/* A packed operand's blob is its backend's to verify; here only what every blob has in common. */
static kiln_status check_blob(uint32_t slot, const kiln_tensor *tensor, uint32_t type,
                              kiln_device *home, int64_t batch, int64_t rows, int64_t columns,
                              extent *range)
{
    if (tensor->type != type)
        return wrong_type(slot, tensor, type);
    if (tensor->layout != KILN_LAYOUT_PACKED)
        return kiln_fail(KILN_INVALID,
                         "gemm: %s is not packed, but the plan takes it packed; see kiln_plan_pack",
                         slot_names[slot]);
    if (tensor->rank != 2 && tensor->rank != 3)
        return wrong_shape(slot, tensor, rows, columns);
    uint32_t last = tensor->rank - 1;
    if (tensor->shape[last] != columns || tensor->shape[last - 1] != rows ||
        (tensor->rank == 3 && tensor->shape[0] != batch && tensor->shape[0] != 1))
        return wrong_shape(slot, tensor, rows, columns);
    if (kiln_tensor_device(home->runtime, tensor) != home || (!tensor->buffer && !tensor->data))
        return wrong_place(slot, tensor, home);
    int64_t room = tensor->buffer ? tensor->buffer->bytes - tensor->byte_offset : INT64_MAX;
    if (tensor->byte_offset < 0 || room < (int64_t)sizeof(kiln_pack_header))
        return kiln_fail(KILN_INVALID, "gemm: the packed %s has no room for its header",
                         slot_names[slot]);
    kiln_pack_header header = {.bytes = 0};
    if (kiln_device_addressable(home))
        memcpy(&header, (const char *)(uintptr_t)start_of(tensor), sizeof header);
    *range = (extent){.owner = tensor->buffer && !tensor->buffer->host ? tensor->buffer : NULL,
                      .begin = start_of(tensor)};
    /* Where the header cannot be read, or lies, the backend alone sees an overlap. */
    if (header.bytes > 0 && header.bytes <= room && header.bytes < INT64_MAX / 2)
        range->row = (uint64_t)header.bytes;
    range->end = range->begin + range->row;
    return KILN_OK;
}

/* Matrices of one pitch may lie side by side, as columns of a wider one. */
static bool overlaps(const extent *a, const extent *b)
{
    if (a->owner != b->owner || a->begin >= b->end || b->begin >= a->end)
        return false;
    uint64_t pitch = a->pitch ? a->pitch : b->pitch;
    if (!pitch || (b->pitch && b->pitch != pitch))
        return true;
    uint64_t apart = a->begin <= b->begin ? (b->begin - a->begin) % pitch
                                          : (pitch - (a->begin - b->begin) % pitch) % pitch;
    return apart < a->row || apart + b->row > pitch;
}

static bool same_view(const kiln_tensor *a, const kiln_tensor *b)
{
    uint32_t rank = a->rank;
    bool same = start_of(a) == start_of(b) && a->type == b->type && rank == b->rank;
    for (uint32_t i = 0; same && i < rank; i++)
        same = a->strides[i] == b->strides[i] || a->shape[i] == 1;
    return same;
}

static __attribute__((cold, noinline)) kiln_status overlap(uint32_t slot)
{
    return kiln_fail(
        KILN_INVALID,
        "gemm: D overlaps %s; write to other memory (only C may be D, as the same view)",
        slot_names[slot]);
}

static kiln_status check_epilogues(const kiln_gemm_desc *desc, kiln_device *home,
                                   const kiln_args_head *head, int64_t batch, int64_t m, int64_t n,
                                   const extent *d)
{
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        const kiln_epilogue *epilogue = &desc->epilogues[i];
        uint32_t slot = KILN_GEMM_OPERAND + i;
        if (epilogue->operand == KILN_OPERAND_NONE)
            continue;
        const kiln_tensor *tensor = &head->tensors[slot];
        if (slot >= head->tensor_count || tensor->type == KILN_TYPE_NONE)
            return kiln_fail(KILN_INVALID, "gemm: epilogue %u needs its operand in slot %u", i,
                             slot);
        int64_t count = epilogue->operand == KILN_OPERAND_ROW      ? n
                        : epilogue->operand == KILN_OPERAND_COLUMN ? m
                                                                   : 1;
        extent range;
        kiln_status status = epilogue->operand == KILN_OPERAND_MATRIX
                                 ? check_matrix(slot, tensor, epilogue->type, epilogue->alignment,
                                                home, batch, m, n, true, &range)
                                 : check_vector(slot, tensor, epilogue, home, count, &range);
        if (status != KILN_OK)
            return status;
        if (overlaps(d, &range))
            return overlap(slot);
    }
    return KILN_OK;
}

static kiln_status check_factors(const kiln_gemm_desc *desc, const kiln_args_head *head)
{
    if (head->struct_size < sizeof(kiln_gemm_args) || head->struct_size > KILN_MAX_STRUCT)
        return kiln_fail(KILN_INVALID, "gemm: the arguments' struct_size is %u; set it to sizeof",
                         head->struct_size);
    if (head->tensor_count <= KILN_GEMM_D || head->tensor_count > KILN_GEMM_SLOTS || !head->tensors)
        return kiln_fail(KILN_INVALID,
                         "gemm: %u tensors were given; 4 to %d are needed, in the order of "
                         "KILN_GEMM_A and so on",
                         head->tensor_count, KILN_GEMM_SLOTS);
    const unsigned char *beyond = (const unsigned char *)head + sizeof(kiln_gemm_args);
    for (uint32_t i = 0; i < head->struct_size - sizeof(kiln_gemm_args); i++)
        if (beyond[i])
            return kiln_fail(KILN_UNSUPPORTED,
                             "gemm: the arguments hold fields that this version does not know");
    if (((const kiln_gemm_args *)head)->beta != 0 && desc->c_type == KILN_TYPE_NONE)
        return kiln_fail(KILN_INVALID, "gemm: beta is %g, but the plan has no C (c_type is none)",
                         ((const kiln_gemm_args *)head)->beta);
    return KILN_OK;
}

/* ---- The common case at a few nanoseconds: plain matrices in host memory, so small that no
 * product can overflow. ---- */

/* What is known of such a matrix before the run. */
typedef struct plain_expectation {
    uint64_t type_and_rank; /* as the two fields lie in the tensor */
    uint64_t size;
    uint64_t misaligned; /* address bits that must be zero */
} plain_expectation;

typedef struct gemm_prepared {
    bool possible;
    plain_expectation a, b, d;
} gemm_prepared;

enum { PLAIN_BITS = 28 }; /* sizes up to 2^28, strides up to 2^29 */

static plain_expectation expect_plain(uint32_t type, uint32_t alignment)
{
    plain_expectation expected = {.size = (uint64_t)kiln_type_bits(type) / 8,
                                  .misaligned = promised(alignment, type) - 1};
    uint32_t fields[2] = {type, 2};
    memcpy(&expected.type_and_rank, fields, sizeof fields);
    return expected;
}

_Static_assert(offsetof(kiln_tensor, rank) == offsetof(kiln_tensor, type) + 4,
               "type and rank are read as one word");
_Static_assert(offsetof(kiln_tensor, flags) == offsetof(kiln_tensor, layout) + 4,
               "layout and flags are read as one word");
_Static_assert(sizeof(gemm_prepared) <= KILN_OPERATOR_PREPARED,
               "what is prepared must fit the plan");

void kiln_gemm_prepare(const void *descriptor, kiln_device *home, void *memory)
{
    const kiln_gemm_desc *desc = descriptor;
    gemm_prepared *prepared = memory;
    prepared->a = expect_plain(desc->a_type, desc->a_alignment);
    prepared->b = expect_plain(desc->b_type, desc->b_alignment);
    prepared->d = expect_plain(desc->d_type, desc->d_alignment);
    prepared->possible = kiln_device_is_host(home) && desc->batch == 1 &&
                         desc->epilogue_count == 0 && prepared->a.size && prepared->b.size &&
                         prepared->d.size &&
                         !(desc->head.flags & (KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B));
}

/* The bits that are not as they must be; 0 when the tensor is such a matrix and as expected. A
 * value that must be less than a power of two and not negative is shifted down by it: what remains
 * is wrong. */
static inline uint64_t not_plain(const kiln_tensor *tensor, const plain_expectation *expected,
                                 int64_t rows, int64_t columns, uint64_t *begin, uint64_t *end)
{
    uint64_t type_and_rank, layout_and_flags,
        stride = (uint64_t)tensor->strides[0] * expected->size;
    memcpy(&type_and_rank, &tensor->type, sizeof type_and_rank);
    memcpy(&layout_and_flags, &tensor->layout, sizeof layout_and_flags);
    uint64_t address = (uint64_t)(uintptr_t)tensor->data;
    *begin = address + (uint64_t)tensor->byte_offset;
    /* With the gap behind the last row: what seems to overlap is looked at closely anyway. */
    *end = *begin + (uint64_t)rows * stride;
    return (type_and_rank ^ expected->type_and_rank) | layout_and_flags | tensor->reserved |
           (uint64_t)(uintptr_t)tensor->scale | (uint64_t)(uintptr_t)tensor->zero_point |
           (uint64_t)(uintptr_t)tensor->buffer | (uint64_t)(tensor->shape[0] ^ rows) |
           (uint64_t)(tensor->shape[1] ^ columns) | (uint64_t)(tensor->strides[1] ^ 1) |
           ((*begin | stride) & expected->misaligned) |
           (((uint64_t)tensor->strides[0] - (uint64_t)columns) >> PLAIN_BITS) |
           (((uint64_t)tensor->byte_offset | (address - 1)) >> 62);
}

static inline bool fits(int64_t actual, int64_t planned, uint32_t dynamic)
{
    return dynamic ? actual <= planned : actual == planned;
}

static inline bool is_plain_run(const kiln_gemm_desc *desc, const gemm_prepared *prepared,
                                const kiln_args_head *head)
{
    if (!prepared->possible || head->struct_size != sizeof(kiln_gemm_args) ||
        head->tensor_count - 4 > KILN_GEMM_SLOTS - 4 || !head->tensors ||
        ((const kiln_gemm_args *)head)->beta != 0)
        return false;
    const uint32_t flags = desc->head.flags;
    const kiln_tensor *a = &head->tensors[KILN_GEMM_A], *b = &head->tensors[KILN_GEMM_B],
                      *d = &head->tensors[KILN_GEMM_D];
    bool transpose_a = flags & KILN_GEMM_TRANSPOSE_A, transpose_b = flags & KILN_GEMM_TRANSPOSE_B;
    int64_t m = d->shape[0], n = d->shape[1], k = a->shape[!transpose_a];
    if (!fits(m, desc->m, flags & KILN_GEMM_DYNAMIC_M) ||
        !fits(n, desc->n, flags & KILN_GEMM_DYNAMIC_N) ||
        !fits(k, desc->k, flags & KILN_GEMM_DYNAMIC_K))
        return false;
    /* One branch per matrix: a single one at the end would keep everything in registers until then,
     * of which there are not enough. */
    uint64_t a_begin, a_end, b_begin, b_end, d_begin, d_end;
    if ((((uint64_t)m - 1) | ((uint64_t)n - 1) | (uint64_t)k) >> PLAIN_BITS ||
        not_plain(d, &prepared->d, m, n, &d_begin, &d_end))
        return false;
    if (k == 0)
        return a->rank == 2; /* else it was not K that was looked at */
    if (not_plain(a, &prepared->a, transpose_a ? k : m, transpose_a ? m : k, &a_begin, &a_end) ||
        (d_begin < a_end && a_begin < d_end))
        return false;
    return !not_plain(b, &prepared->b, transpose_b ? n : k, transpose_b ? k : n, &b_begin,
                      &b_end) &&
           (d_end <= b_begin || b_end <= d_begin);
}

static __attribute__((cold, noinline)) kiln_status
wrong_dimensions(const kiln_gemm_desc *desc, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    return kiln_fail(KILN_INVALID,
                     "gemm: the tensors give m=%lld n=%lld k=%lld batch=%lld; the plan was made "
                     "for m=%lld n=%lld k=%lld batch=%lld "
                     "(maxima where dynamic)",
                     (long long)m, (long long)n, (long long)k, (long long)batch, (long long)desc->m,
                     (long long)desc->n, (long long)desc->k, (long long)desc->batch);
}

/* True when the matrices of a batch share no element: one behind the other, or, row by row, side by
 * side. */
static bool is_apart(const kiln_tensor *d, int64_t batch, int64_t m, int64_t n)
{
    int64_t entry = d->strides[0], row = d->strides[1];
    return entry >= (m - 1) * row + n || (entry >= n && row >= (batch - 1) * entry + n);
}

/* Scales and zero points come with the operands whose descriptor says so, and with no others. */
static kiln_status check_scales(const kiln_gemm_desc *desc, const kiln_tensor *tensors)
{
    const kiln_quantization *quantizations[] = {&desc->a_quantization, &desc->b_quantization, NULL,
                                                &desc->d_quantization};
    for (uint32_t slot = KILN_GEMM_A; slot <= KILN_GEMM_D; slot++) {
        const kiln_quantization *said = quantizations[slot];
        if (tensors[slot].type == KILN_TYPE_NONE)
            continue;
        if (!tensors[slot].scale == (said && said->scale_type) ||
            !tensors[slot].zero_point == (said && said->zero_type))
            return kiln_fail(KILN_INVALID,
                             "gemm: %s %s scales or zero points, unlike the descriptor says",
                             slot_names[slot],
                             tensors[slot].scale || tensors[slot].zero_point ? "has" : "lacks");
    }
    return KILN_OK;
}

static __attribute__((noinline)) kiln_status check_closely(const kiln_gemm_desc *desc,
                                                           kiln_device *home,
                                                           const kiln_args_head *head, bool *empty)
{
    const uint32_t flags = desc->head.flags;
    kiln_status status = check_factors(desc, head);
    if (status == KILN_OK)
        status = check_scales(desc, head->tensors);
    if (status != KILN_OK)
        return status;
    const kiln_tensor *a = &head->tensors[KILN_GEMM_A], *b = &head->tensors[KILN_GEMM_B],
                      *d = &head->tensors[KILN_GEMM_D];
    bool transpose_a = flags & KILN_GEMM_TRANSPOSE_A, transpose_b = flags & KILN_GEMM_TRANSPOSE_B;
    if (d->rank != 2 && d->rank != 3)
        return wrong_shape(KILN_GEMM_D, d, desc->m, desc->n);
    if (a->rank != 2 && a->rank != 3)
        return wrong_shape(KILN_GEMM_A, a, transpose_a ? desc->k : desc->m,
                           transpose_a ? desc->m : desc->k);
    int64_t batch = d->rank == 3 ? d->shape[0] : 1, m = d->shape[d->rank - 2],
            n = d->shape[d->rank - 1];
    int64_t k = a->shape[transpose_a ? a->rank - 2 : a->rank - 1];
    if (!fits(m, desc->m, flags & KILN_GEMM_DYNAMIC_M) ||
        !fits(n, desc->n, flags & KILN_GEMM_DYNAMIC_N) ||
        !fits(k, desc->k, flags & KILN_GEMM_DYNAMIC_K) ||
        !fits(batch, desc->batch, flags & KILN_GEMM_DYNAMIC_BATCH) || (m | n | k | batch) < 0)
        return wrong_dimensions(desc, batch, m, n, k);
    *empty = m == 0 || n == 0 || batch == 0;
    if (*empty)
        return KILN_OK;
    extent a_range, b_range, c_range, d_range;
    status = check_matrix(KILN_GEMM_D, d, desc->d_type, desc->d_alignment, home, batch, m, n, false,
                          &d_range);
    if (status != KILN_OK)
        return status;
    if (batch > 1 && !is_apart(d, batch, m, n))
        return kiln_fail(KILN_INVALID,
                         "gemm: the batch stride of D is %lld, so that its matrices overlap",
                         (long long)d->strides[0]);
    if (k > 0) {
        if (flags & KILN_GEMM_PACKED_A)
            status = check_blob(KILN_GEMM_A, a, desc->a_type, home, batch, transpose_a ? k : m,
                                transpose_a ? m : k, &a_range);
        else
            status = check_matrix(KILN_GEMM_A, a, desc->a_type, desc->a_alignment, home, batch,
                                  transpose_a ? k : m, transpose_a ? m : k, false, &a_range);
        if (status == KILN_OK && (flags & KILN_GEMM_PACKED_B))
            status = check_blob(KILN_GEMM_B, b, desc->b_type, home, batch, transpose_b ? n : k,
                                transpose_b ? k : n, &b_range);
        else if (status == KILN_OK)
            status = check_matrix(KILN_GEMM_B, b, desc->b_type, desc->b_alignment, home, batch,
                                  transpose_b ? n : k, transpose_b ? k : n, false, &b_range);
        if (status != KILN_OK)
            return status;
        if (overlaps(&d_range, &a_range))
            return overlap(KILN_GEMM_A);
        if (overlaps(&d_range, &b_range))
            return overlap(KILN_GEMM_B);
    }
    if (((const kiln_gemm_args *)head)->beta != 0) {
        const kiln_tensor *c = &head->tensors[KILN_GEMM_C];
        status = check_matrix(KILN_GEMM_C, c, desc->c_type, desc->c_alignment, home, batch, m, n,
                              false, &c_range);
        if (status != KILN_OK)
            return status;
        if (overlaps(&d_range, &c_range) && !same_view(c, d))
            return overlap(KILN_GEMM_C);
    }
    return desc->epilogue_count ? check_epilogues(desc, home, head, batch, m, n, &d_range)
                                : KILN_OK;
}

kiln_status kiln_gemm_check(const void *descriptor, const void *prepared, kiln_device *home,
                            const kiln_args_head *head, bool *empty)
{
    return is_plain_run(descriptor, prepared, head) ? KILN_OK
                                                    : check_closely(descriptor, home, head, empty);
}

kiln_status kiln_gemm_check_packed(const void *descriptor, uint32_t operand,
                                   const kiln_tensor *strided, const kiln_tensor *packed)
{
    const kiln_gemm_desc *desc = descriptor;
    if (operand != KILN_GEMM_A && operand != KILN_GEMM_B)
        return kiln_fail(KILN_INVALID,
                         "gemm: operand %u cannot be packed; only A (0) and B (1) can", operand);
    bool is_a = operand == KILN_GEMM_A;
    bool transposed = desc->head.flags & (is_a ? KILN_GEMM_TRANSPOSE_A : KILN_GEMM_TRANSPOSE_B);
    int64_t rows = is_a ? desc->m : desc->k, columns = is_a ? desc->k : desc->n;
    uint32_t type = is_a ? desc->a_type : desc->b_type;
    if (strided->type != type || packed->type != type)
        return wrong_type(operand, strided->type != type ? strided : packed, type);
    if (packed->layout != KILN_LAYOUT_PACKED || strided->layout != KILN_LAYOUT_STRIDED)
        return kiln_fail(
            KILN_INVALID,
            "gemm: packing needs one strided tensor and one of layout KILN_LAYOUT_PACKED");
    if (strided->rank != 2 && strided->rank != 3)
        return wrong_shape(operand, strided, transposed ? columns : rows,
                           transposed ? rows : columns);
    uint32_t last = strided->rank - 1;
    if (strided->shape[last] != (transposed ? rows : columns) ||
        strided->shape[last - 1] != (transposed ? columns : rows))
        return wrong_shape(operand, strided, transposed ? columns : rows,
                           transposed ? rows : columns);
    if (strided->strides[last] != 1 ||
        (strided->strides[last - 1] < strided->shape[last] && strided->shape[last - 1] > 1))
        return wrong_stride(operand, strided);
    int64_t begin, end;
    return kiln_tensor_extent(strided, slot_names[operand], &begin, &end);
}
