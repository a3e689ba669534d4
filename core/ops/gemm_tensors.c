/* SPDX-License-Identifier: Apache-2.0 */
/* The checks on single tensors of a GEMM. What is right passes by a few compares; sentences are
 * made out of line. */
#include <stdio.h>

#include "core/ops/gemm.h"

const char *const kiln_gemm_slot_names[KILN_GEMM_SLOTS] = {
    "A",           "B",           "C",           "D",           "epilogue[0]",
    "epilogue[1]", "epilogue[2]", "epilogue[3]", "epilogue[4]", "epilogue[5]",
    "epilogue[6]", "epilogue[7]", "GROUPS",      "D_SCALE",
};

/* "[2, 3, 4]" */
static void print_shape(char *text, size_t size, uint32_t rank, const int64_t *shape)
{
    size_t used = 0;
    for (uint32_t i = 0; i < rank && i < KILN_MAX_RANK && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "[",
                                 (long long)shape[i]);
    if (used < size)
        snprintf(text + used, size - used, "%s]", rank ? "" : "[");
}

/* `rank` is 1 for a vector, whose elements are `columns`, else 2. */
static __attribute__((cold, noinline)) kiln_status wrong_shape(const char *what,
                                                               const kiln_tensor *tensor,
                                                               const kiln_gemm_expected *expected,
                                                               uint32_t rank)
{
    int64_t wanted[3] = {expected->leading, expected->rows, expected->columns};
    char got[200], with[80], without[80];
    if (rank == 1)
        wanted[1] = expected->columns;
    print_shape(got, sizeof got, tensor->rank, tensor->shape);
    print_shape(with, sizeof with, rank + 1, wanted);
    print_shape(without, sizeof without, rank, wanted + 1);
    bool either = expected->shared && expected->leading != 1;
    return kiln_fail(KILN_INVALID, "gemm: %s has shape %s of rank %u; it must be %s%s%s", what, got,
                     tensor->rank, expected->leading == 1 ? without : with, either ? " or " : "",
                     either ? without : "");
}

static __attribute__((cold, noinline)) kiln_status wrong_type(const char *what, uint32_t type,
                                                              uint32_t wanted)
{
    return kiln_fail(KILN_INVALID, "gemm: %s has type %s; the plan was made for %s", what,
                     kiln_type_name(type), kiln_type_name(wanted));
}

static __attribute__((cold, noinline)) kiln_status
wrong_place(const char *what, const kiln_tensor *tensor, const kiln_device *home)
{
    if (!tensor->buffer && (!tensor->data || !home))
        return kiln_fail(KILN_INVALID, "gemm: %s has neither a buffer nor an address", what);
    return kiln_fail(
        KILN_INVALID,
        "gemm: %s lives on %s, but the plan was made for %s; copy it there with kiln_copy", what,
        kiln_tensor_device(home->runtime, tensor)->name, home->name);
}

/* `form` says what was expected of the strides. */
static __attribute__((cold, noinline)) kiln_status
wrong_stride(const char *what, const kiln_tensor *tensor, const char *form)
{
    int64_t begin, end;
    kiln_status status = kiln_tensor_extent(tensor, what, &begin, &end);
    if (status != KILN_OK)
        return status;
    uint32_t last = tensor->rank - 1;
    return kiln_fail(
        KILN_INVALID, "gemm: %s has column stride %lld and row stride %lld for rows of %lld; %s",
        what, (long long)tensor->strides[last], (long long)tensor->strides[last ? last - 1 : 0],
        (long long)tensor->shape[last], form);
}

static __attribute__((cold, noinline)) kiln_status wrong_alignment(const char *what,
                                                                   uint32_t alignment)
{
    return kiln_fail(KILN_INVALID,
                     "gemm: address or strides of %s are not multiples of %u bytes, as the "
                     "descriptor promises or the type needs",
                     what, alignment);
}

static __attribute__((cold, noinline)) kiln_status wrong_layout(const char *what)
{
    return kiln_fail(KILN_UNSUPPORTED,
                     "gemm: %s has a layout, flags or reserved fields that the plan does not take",
                     what);
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

/* With rows and columns as one range: for any strides. */
static inline kiln_gemm_extent span_of(const char *what, const kiln_tensor *tensor, int64_t bytes)
{
    uint64_t begin = start_of(tensor);
    return (kiln_gemm_extent){.what = what,
                              .owner =
                                  tensor->buffer && !tensor->buffer->host ? tensor->buffer : NULL,
                              .begin = begin,
                              .end = begin + (uint64_t)bytes,
                              .row = (uint64_t)bytes};
}

/* For unit column stride. */
static inline kiln_gemm_extent extent_of(const char *what, const kiln_tensor *tensor, int64_t bytes)
{
    kiln_gemm_extent extent = span_of(what, tensor, bytes);
    uint32_t last = tensor->rank - 1;
    if (tensor->rank < 2 || tensor->shape[last - 1] == 1)
        return extent;
    uint64_t bits = (uint64_t)kiln_type_bits(tensor->type);
    extent.pitch = (uint64_t)tensor->strides[last - 1] * bits / 8;
    extent.row = ((uint64_t)tensor->shape[last] * bits + 7) / 8;
    uint64_t entry = last > 1 ? (uint64_t)tensor->strides[0] * bits / 8 : 0;
    if (extent.pitch && entry % extent.pitch) /* the matrices of the batch lie side by side */
        extent.row += (uint64_t)(tensor->shape[0] - 1) * entry;
    return extent;
}

static inline bool is_inside(const kiln_tensor *tensor, int64_t bytes)
{
    return !tensor->buffer ||
           (tensor->byte_offset >= 0 && bytes <= tensor->buffer->bytes - tensor->byte_offset);
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

static inline bool is_elsewhere(const kiln_tensor *tensor, const kiln_device *home)
{
    return (!tensor->buffer && !tensor->data) ||
           (home && kiln_tensor_device(home->runtime, tensor) != home);
}

/* True when rows of fewer than 8 bits an element are contiguous and start on bytes. */
static inline bool is_on_bytes(const kiln_tensor *tensor)
{
    int bits = kiln_type_bits(tensor->type);
    if (bits >= 8)
        return true;
    uint32_t last = tensor->rank - 1;
    bool whole = tensor->strides[last] == 1 || tensor->shape[last] == 1;
    for (uint32_t i = 0; i < last; i++)
        whole = whole && (tensor->strides[i] % (8 / bits) == 0 || tensor->shape[i] == 1);
    return whole;
}

/* True when the matrices of a leading dimension share no element: one behind the other, or, row by
 * row, side by side. The strides have been checked. */
static inline bool is_apart(const kiln_tensor *tensor, int64_t leading, int64_t rows,
                            int64_t columns)
{
    int64_t entry = tensor->strides[0], row = tensor->strides[1];
    return entry >= (rows - 1) * row + columns ||
           (entry >= columns && row >= (leading - 1) * entry + columns);
}

static __attribute__((cold, noinline)) kiln_status not_apart(const char *what, int64_t stride)
{
    return kiln_fail(KILN_INVALID,
                     "gemm: the batch stride of %s is %lld, so that its matrices overlap", what,
                     (long long)stride);
}

static inline bool has_shape(const kiln_tensor *tensor, const kiln_gemm_expected *expected)
{
    uint32_t last = tensor->rank - 1;
    return (tensor->rank == 2 || tensor->rank == 3) && tensor->shape[last] == expected->columns &&
           tensor->shape[last - 1] == expected->rows &&
           (tensor->rank == 3 ? tensor->shape[0] == expected->leading
                              : expected->leading == 1 || expected->shared);
}

static inline bool has_elements(const kiln_gemm_expected *expected)
{
    return expected->leading > 0 && expected->rows > 0 && expected->columns > 0;
}

static const char *const matrix_form =
    "the column stride must be 1 and the row stride at least the row";
static const char *const byte_form = "rows of fewer than 8 bits an element must be contiguous and "
                                     "start on a byte";

kiln_status kiln_gemm_check_matrix(const kiln_tensor *tensor, const kiln_gemm_expected *expected,
                                   kiln_device *home, kiln_gemm_extent *extent)
{
    const char *what = kiln_gemm_slot_names[expected->slot];
    if (tensor->type != expected->type)
        return wrong_type(what, tensor->type, expected->type);
    if (!has_shape(tensor, expected))
        return wrong_shape(what, tensor, expected, 2);
    kiln_status status = kiln_gemm_check_quantization(what, tensor, expected->quantization);
    if (status != KILN_OK)
        return status;
    *extent = (kiln_gemm_extent){.what = what};
    if (!has_elements(expected))
        return KILN_OK;
    if (is_elsewhere(tensor, home))
        return wrong_place(what, tensor, home);
    if (tensor->layout != KILN_LAYOUT_STRIDED || tensor->flags || tensor->reserved)
        return wrong_layout(what);
    uint32_t last = tensor->rank - 1;
    int64_t bytes = end_of(tensor);
    if (tensor->strides[last] != 1 ||
        (tensor->strides[last - 1] < expected->columns && expected->rows > 1) ||
        tensor->strides[last - 1] < 0 || (tensor->rank == 3 && tensor->strides[0] < 0) ||
        bytes < 0 || !is_inside(tensor, bytes))
        return wrong_stride(what, tensor, matrix_form);
    if (!is_on_bytes(tensor))
        return wrong_stride(what, tensor, byte_form);
    uint32_t alignment = kiln_gemm_promised(expected->alignment, expected->type);
    if (!honours(tensor, alignment))
        return wrong_alignment(what, alignment);
    if (expected->output && expected->leading > 1 &&
        !is_apart(tensor, expected->leading, expected->rows, expected->columns))
        return not_apart(what, tensor->strides[0]);
    *extent = extent_of(what, tensor, bytes);
    return KILN_OK;
}

kiln_status kiln_gemm_check_vector(const kiln_tensor *tensor, const kiln_gemm_expected *expected,
                                   kiln_device *home, kiln_gemm_extent *extent)
{
    const char *what = kiln_gemm_slot_names[expected->slot];
    int64_t count = expected->columns;
    if (tensor->type != expected->type)
        return wrong_type(what, tensor->type, expected->type);
    if ((tensor->rank != 1 && tensor->rank != 2) || tensor->shape[tensor->rank - 1] != count ||
        (tensor->rank == 2 ? tensor->shape[0] != expected->leading
                           : expected->leading != 1 && !expected->shared))
        return wrong_shape(what, tensor, expected, 1);
    kiln_status status = kiln_gemm_check_quantization(what, tensor, NULL);
    if (status != KILN_OK)
        return status;
    *extent = (kiln_gemm_extent){.what = what};
    if (count == 0 || (tensor->rank == 2 && expected->leading == 0))
        return KILN_OK;
    if (is_elsewhere(tensor, home))
        return wrong_place(what, tensor, home);
    if (tensor->layout != KILN_LAYOUT_STRIDED || tensor->flags || tensor->reserved)
        return wrong_layout(what);
    int64_t bytes = end_of(tensor);
    if ((count > 1 && tensor->strides[tensor->rank - 1] != 1) || tensor->strides[0] < 0 ||
        bytes < 0 || !is_inside(tensor, bytes))
        return kiln_fail(KILN_INVALID,
                         "gemm: %s must be contiguous, with unit stride and inside of its buffer",
                         what);
    if (!is_on_bytes(tensor))
        return wrong_stride(what, tensor, byte_form);
    uint32_t alignment = kiln_gemm_promised(expected->alignment, expected->type);
    if (!honours(tensor, alignment))
        return wrong_alignment(what, alignment);
    if (expected->output && tensor->rank == 2 && expected->leading > 1 &&
        tensor->strides[0] < count)
        return not_apart(what, tensor->strides[0]);
    *extent = extent_of(what, tensor, bytes);
    return KILN_OK;
}

kiln_status kiln_gemm_check_either_way(const kiln_tensor *tensor,
                                       const kiln_gemm_expected *expected, kiln_device *home,
                                       kiln_gemm_extent *extent)
{
    uint32_t last = tensor->rank - 1;
    if (!has_shape(tensor, expected) || tensor->strides[last] == 1)
        return kiln_gemm_check_matrix(tensor, expected, home, extent);
    /* Where rows are not contiguous columns must be: then the transpose is looked at. The stride of
     * a single element says nothing. */
    kiln_tensor view = *tensor;
    kiln_gemm_expected seen = *expected;
    bool turned = expected->columns > 1;
    if (turned) {
        view.shape[last] = seen.columns = expected->rows;
        view.shape[last - 1] = seen.rows = expected->columns;
        view.strides[last] = tensor->strides[last - 1];
        view.strides[last - 1] = tensor->strides[last];
    }
    if (seen.columns == 1)
        view.strides[last] = 1;
    if (seen.columns > 1 && view.strides[last] != 1)
        return wrong_stride(kiln_gemm_slot_names[expected->slot], tensor,
                            "its rows or its columns must be contiguous");
    return kiln_gemm_check_matrix(&view, &seen, home, extent);
}

kiln_status kiln_gemm_check_blob(const kiln_tensor *tensor, const kiln_gemm_expected *expected,
                                 kiln_device *home, kiln_gemm_extent *extent)
{
    const char *what = kiln_gemm_slot_names[expected->slot];
    if (tensor->type != expected->type)
        return wrong_type(what, tensor->type, expected->type);
    if (tensor->layout != KILN_LAYOUT_PACKED)
        return kiln_fail(KILN_INVALID,
                         "gemm: %s is not packed, but the plan takes it packed; see kiln_plan_pack",
                         what);
    kiln_gemm_expected one = *expected;
    one.leading = 1;
    if (!has_shape(tensor, expected) && !(expected->shared && has_shape(tensor, &one)))
        return wrong_shape(what, tensor, expected, 2);
    if (tensor->scale || tensor->zero_point)
        return kiln_fail(KILN_INVALID,
                         "gemm: the packed %s has scales or zero points; they are in the blob, so "
                         "leave the pointers NULL",
                         what);
    if (tensor->flags || tensor->reserved)
        return wrong_layout(what);
    *extent = (kiln_gemm_extent){.what = what};
    if (!has_elements(expected))
        return KILN_OK;
    if (is_elsewhere(tensor, home))
        return wrong_place(what, tensor, home);
    int64_t room = tensor->buffer ? tensor->buffer->bytes - tensor->byte_offset : INT64_MAX;
    if (tensor->byte_offset < 0 || room < (int64_t)sizeof(kiln_pack_header))
        return kiln_fail(KILN_INVALID, "gemm: the packed %s has no room for its header", what);
    kiln_pack_header header = {.bytes = 0};
    if (kiln_device_addressable(home))
        memcpy(&header, (const char *)(uintptr_t)start_of(tensor), sizeof header);
    /* Where the header cannot be read, or lies, the backend alone sees an overlap. */
    bool known = header.bytes > 0 && header.bytes <= room && header.bytes < INT64_MAX / 2;
    *extent = span_of(what, tensor, known ? header.bytes : 0);
    return KILN_OK;
}

kiln_status kiln_gemm_check_quantization(const char *what, const kiln_tensor *tensor,
                                         const kiln_quantization *said)
{
    if (!said && !tensor->scale && !tensor->zero_point)
        return KILN_OK;
    uint32_t types[2] = {said ? said->scale_type : 0, said ? said->zero_type : 0};
    const kiln_tensor *given[2] = {tensor->scale, tensor->zero_point};
    for (int i = 0; i < 2; i++)
        if (!given[i] != !types[i])
            return kiln_fail(KILN_INVALID, "gemm: %s %s %s, unlike the descriptor says", what,
                             given[i] ? "has" : "lacks", i ? "zero points" : "scales");
    if (!types[0] && !types[1])
        return KILN_OK;
    kiln_quantization found = kiln_tensor_quantization(tensor);
    if (found.block[0] != said->block[0] || found.block[1] != said->block[1])
        return kiln_fail(KILN_INVALID,
                         "gemm: the scale_block of %s is {%lld, %lld}; the descriptor says {%d, "
                         "%d}, whose -1 is 0 in a tensor",
                         what, (long long)tensor->scale_block[0], (long long)tensor->scale_block[1],
                         said->block[0], said->block[1]);
    return KILN_OK;
}

kiln_status kiln_gemm_check_scale(const kiln_tensor *operand, bool zero_point,
                                  const kiln_gemm_expected *expected, kiln_device *home,
                                  kiln_gemm_extent *extent)
{
    static const char *const names[2][2] = {{"the scales of A", "the scales of B"},
                                            {"the zero points of A", "the zero points of B"}};
    const kiln_quantization *said = expected->quantization;
    const kiln_tensor *tensor = zero_point ? operand->zero_point : operand->scale;
    const char *what = names[zero_point][expected->slot == KILN_GEMM_B];
    *extent = (kiln_gemm_extent){.what = what};
    if (!tensor)
        return KILN_OK;
    kiln_gemm_expected blocks = *expected;
    blocks.type = zero_point ? said->zero_type : said->scale_type;
    blocks.rows = kiln_gemm_blocks(expected->rows, said->block[0]);
    blocks.columns = kiln_gemm_blocks(expected->columns, said->block[1]);
    blocks.shared = true;
    if (tensor->type != blocks.type)
        return wrong_type(what, tensor->type, blocks.type);
    if (!has_shape(tensor, &blocks))
        return wrong_shape(what, tensor, &blocks, 2);
    kiln_status status = kiln_gemm_check_quantization(what, tensor, NULL);
    if (status != KILN_OK || !has_elements(&blocks))
        return status;
    if (is_elsewhere(tensor, home))
        return wrong_place(what, tensor, home);
    if (tensor->layout != KILN_LAYOUT_STRIDED || tensor->flags || tensor->reserved)
        return wrong_layout(what);
    bool negative = false;
    for (uint32_t i = 0; i < tensor->rank; i++)
        negative = negative || tensor->strides[i] < 0;
    int64_t bytes = end_of(tensor);
    if (negative || bytes < 0 || !is_inside(tensor, bytes))
        return wrong_stride(what, tensor, "strides must not be negative");
    if (!is_on_bytes(tensor))
        return wrong_stride(what, tensor, byte_form);
    uint32_t alignment = kiln_gemm_promised(0, blocks.type);
    if (!honours(tensor, alignment))
        return wrong_alignment(what, alignment);
    *extent = span_of(what, tensor, bytes);
    return KILN_OK;
}

/* Matrices of one pitch may lie side by side, as columns of a wider one. */
bool kiln_gemm_overlaps(const kiln_gemm_extent *a, const kiln_gemm_extent *b)
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

bool kiln_gemm_same_view(const kiln_tensor *a, const kiln_tensor *b)
{
    uint32_t rank = a->rank;
    bool same = start_of(a) == start_of(b) && a->type == b->type && rank == b->rank;
    for (uint32_t i = 0; same && i < rank; i++)
        same = a->shape[i] == b->shape[i] && (a->strides[i] == b->strides[i] || a->shape[i] == 1);
    return same;
}
