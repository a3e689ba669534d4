/* SPDX-License-Identifier: Apache-2.0 */
/* The checks on the arguments of a GEMM: the common case in a few nanoseconds, and all others
 * tensor by tensor. */
#include "core/ops/gemm.h"

static inline bool fits(int64_t actual, int64_t planned, uint32_t dynamic)
{
    return dynamic ? actual <= planned : actual == planned;
}

static inline bool is_quantized(const kiln_quantization *quantization)
{
    return quantization->scale_type || quantization->zero_type;
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
    if (desc->c_type == KILN_TYPE_NONE &&
        kiln_gemm_factor(desc, ((const kiln_gemm_args *)head)->beta) != 0)
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
                                  .misaligned = kiln_gemm_promised(alignment, type) - 1};
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
    prepared->possible =
        kiln_device_is_host(home) && desc->batch == 1 && desc->grouping == KILN_GROUPING_NONE &&
        desc->epilogue_count == 0 && !is_quantized(&desc->a_quantization) &&
        !is_quantized(&desc->b_quantization) && prepared->a.size && prepared->b.size &&
        prepared->d.size && !(desc->head.flags & (KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B));
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

/* ---- All others ---- */

static __attribute__((cold, noinline)) kiln_status
wrong_dimensions(const kiln_gemm_desc *desc, int64_t leading, int64_t m, int64_t n, int64_t k)
{
    if (desc->grouping != KILN_GROUPING_NONE)
        return kiln_fail(KILN_INVALID,
                         "gemm: the tensors give m=%lld n=%lld k=%lld, and D %lld matrices; the "
                         "plan was made for m=%lld n=%lld k=%lld (maxima where dynamic), and "
                         "%lld matrices of D",
                         (long long)m, (long long)n, (long long)k, (long long)leading,
                         (long long)desc->m, (long long)desc->n, (long long)desc->k,
                         desc->grouping == KILN_GROUPING_CONTIGUOUS ? 1 : (long long)desc->groups);
    return kiln_fail(KILN_INVALID,
                     "gemm: the tensors give m=%lld n=%lld k=%lld batch=%lld; the plan was made "
                     "for m=%lld n=%lld k=%lld batch=%lld "
                     "(maxima where dynamic)",
                     (long long)m, (long long)n, (long long)k, (long long)leading,
                     (long long)desc->m, (long long)desc->n, (long long)desc->k,
                     (long long)desc->batch);
}

static __attribute__((cold, noinline)) kiln_status wrong_rank(uint32_t slot,
                                                              const kiln_tensor *tensor)
{
    return kiln_fail(KILN_INVALID,
                     "gemm: %s has shape of rank %u; it must be a matrix, with the batch or the "
                     "groups before it where there are any",
                     kiln_gemm_slot_names[slot], tensor->rank);
}

/* Most inputs: A, B and what scales them, C, operands, GROUPS; and outputs: D, D_SCALE and
 * operands. */
enum { MAX_INPUTS = 8 + KILN_GEMM_MAX_EPILOGUES, MAX_OUTPUTS = 2 + KILN_GEMM_MAX_EPILOGUES };

/* A run that is being checked. */
typedef struct gemm_run {
    const kiln_gemm_desc *desc;
    kiln_device *home;
    const kiln_args_head *head;
    int64_t m, n, k;    /* of op(A) op(B) */
    int64_t columns;    /* of D: n, or half of it */
    uint32_t narrow;    /* the first epilogue that sees `columns` */
    int64_t leading[4]; /* of A, B, C and D */
    int64_t vectors;    /* leading dimension of vectors that have one: batch or groups */
    /* What the run touches. D is the first output. */
    kiln_gemm_extent inputs[MAX_INPUTS], outputs[MAX_OUTPUTS];
    int input_count, output_count;
} gemm_run;

/* The first epilogue that sees N/2 columns: behind SWIGLU, or beyond all. D's columns are whole
 * pieces of SWIGLU. */
static kiln_status find_narrow(gemm_run *run)
{
    run->narrow = KILN_GEMM_MAX_EPILOGUES + 1;
    for (uint32_t i = 0; i < run->desc->epilogue_count; i++) {
        const kiln_epilogue *epilogue = &run->desc->epilogues[i];
        if (epilogue->kind != KILN_EPILOGUE_SWIGLU)
            continue;
        run->narrow = i + 1;
        if (epilogue->p0 > 0 && run->columns % (int64_t)epilogue->p0)
            return kiln_fail(KILN_INVALID,
                             "gemm: D has %lld columns, which are no whole pieces of the %lld that "
                             "KILN_EPILOGUE_SWIGLU takes together",
                             (long long)run->columns, (long long)epilogue->p0);
    }
    return KILN_OK;
}

/* The sizes of the product, from the shapes of D and A. */
static kiln_status find_sizes(gemm_run *run)
{
    const kiln_gemm_desc *desc = run->desc;
    const uint32_t flags = desc->head.flags;
    const kiln_tensor *a = &run->head->tensors[KILN_GEMM_A], *d = &run->head->tensors[KILN_GEMM_D];
    if (d->rank != 2 && d->rank != 3)
        return wrong_rank(KILN_GEMM_D, d);
    if (a->rank != 2 && a->rank != 3)
        return wrong_rank(KILN_GEMM_A, a);
    int64_t leading = d->rank == 3 ? d->shape[0] : 1, groups = desc->groups;
    run->m = d->shape[d->rank - 2];
    run->n = run->columns = d->shape[d->rank - 1];
    run->k = a->shape[flags & KILN_GEMM_TRANSPOSE_A ? a->rank - 2 : a->rank - 1];
    kiln_status status = find_narrow(run);
    if (status != KILN_OK)
        return status;
    bool wide =
        run->narrow <= KILN_GEMM_MAX_EPILOGUES && __builtin_mul_overflow(run->columns, 2, &run->n);
    bool planned = desc->grouping == KILN_GROUPING_NONE
                       ? fits(leading, desc->batch, flags & KILN_GEMM_DYNAMIC_BATCH)
                       : leading == (desc->grouping == KILN_GROUPING_CONTIGUOUS ? 1 : groups);
    if (wide || !planned || !fits(run->m, desc->m, flags & KILN_GEMM_DYNAMIC_M) ||
        !fits(run->n, desc->n, flags & KILN_GEMM_DYNAMIC_N) ||
        !fits(run->k, desc->k, flags & KILN_GEMM_DYNAMIC_K) ||
        (run->m | run->n | run->k | leading) < 0)
        return wrong_dimensions(desc, leading, run->m, run->n, run->k);
    run->vectors = desc->grouping == KILN_GROUPING_NONE ? leading : groups;
    for (int slot = KILN_GEMM_A; slot <= KILN_GEMM_D; slot++)
        run->leading[slot] = leading;
    if (desc->grouping == KILN_GROUPING_CONTIGUOUS)
        run->leading[KILN_GEMM_B] = groups;
    else if (desc->grouping == KILN_GROUPING_K)
        run->leading[KILN_GEMM_A] = run->leading[KILN_GEMM_B] = 1;
    return KILN_OK;
}

/* Nothing is to be done where D has no elements, but for bias gradients: the sum of no rows is 0.
 */
static bool is_empty(const gemm_run *run)
{
    int64_t leading = run->leading[KILN_GEMM_D];
    if (run->n == 0 || (run->m > 0 && leading > 0))
        return run->n == 0;
    for (uint32_t i = 0; i < run->desc->epilogue_count; i++) {
        uint32_t slot = KILN_GEMM_OPERAND + i;
        if (run->desc->epilogues[i].kind == KILN_EPILOGUE_BIAS_GRADIENT &&
            (leading > 0 || slot >= run->head->tensor_count || run->head->tensors[slot].rank != 2))
            return false;
    }
    return true;
}

static kiln_gemm_extent *next_input(gemm_run *run)
{
    return &run->inputs[run->input_count++];
}

/* The tensor of a slot behind D, which the descriptor calls for. */
static kiln_status need(const gemm_run *run, uint32_t slot, const kiln_tensor **tensor)
{
    *tensor = &run->head->tensors[slot];
    if (slot < run->head->tensor_count && (*tensor)->type != KILN_TYPE_NONE)
        return KILN_OK;
    if (slot < KILN_GEMM_GROUPS)
        return kiln_fail(KILN_INVALID, "gemm: epilogue %u needs its operand in slot %u",
                         slot - KILN_GEMM_OPERAND, slot);
    return kiln_fail(KILN_INVALID, "gemm: %s is missing; the plan needs it in slot %u",
                     kiln_gemm_slot_names[slot], slot);
}

/* A or B, with its scales and zero points. */
static kiln_status check_factor(gemm_run *run, uint32_t slot)
{
    const kiln_gemm_desc *desc = run->desc;
    const kiln_tensor *tensor = &run->head->tensors[slot];
    bool is_a = slot == KILN_GEMM_A;
    bool transposed = desc->head.flags & (is_a ? KILN_GEMM_TRANSPOSE_A : KILN_GEMM_TRANSPOSE_B);
    bool packed = desc->head.flags & (is_a ? KILN_GEMM_PACKED_A : KILN_GEMM_PACKED_B);
    int64_t rows = is_a ? run->m : run->k, columns = is_a ? run->k : run->n;
    kiln_gemm_expected expected = {
        .slot = slot,
        .type = is_a ? desc->a_type : desc->b_type,
        .alignment = is_a ? desc->a_alignment : desc->b_alignment,
        .leading = run->leading[slot],
        .rows = transposed ? columns : rows,
        .columns = transposed ? rows : columns,
        .quantization = is_a ? &desc->a_quantization : &desc->b_quantization,
    };
    if (packed) {
        expected.shared = desc->grouping == KILN_GROUPING_NONE;
        return kiln_gemm_check_blob(tensor, &expected, run->home, next_input(run));
    }
    kiln_status status = kiln_gemm_check_matrix(tensor, &expected, run->home, next_input(run));
    for (int zero_point = 0; status == KILN_OK && zero_point < 2; zero_point++)
        if (zero_point ? tensor->zero_point : tensor->scale)
            status =
                kiln_gemm_check_scale(tensor, zero_point, &expected, run->home, next_input(run));
    return status;
}

static kiln_status check_c_and_d(gemm_run *run)
{
    const kiln_gemm_desc *desc = run->desc;
    const kiln_tensor *c = &run->head->tensors[KILN_GEMM_C], *d = &run->head->tensors[KILN_GEMM_D];
    kiln_gemm_expected expected = {.slot = KILN_GEMM_D,
                                   .type = desc->d_type,
                                   .alignment = desc->d_alignment,
                                   .leading = run->leading[KILN_GEMM_D],
                                   .rows = run->m,
                                   .columns = run->columns,
                                   .output = true};
    kiln_status status =
        kiln_gemm_check_matrix(d, &expected, run->home, &run->outputs[run->output_count++]);
    if (status != KILN_OK || kiln_gemm_factor(desc, ((const kiln_gemm_args *)run->head)->beta) == 0)
        return status;
    expected.slot = KILN_GEMM_C;
    expected.type = desc->c_type;
    expected.alignment = desc->c_alignment;
    expected.columns = run->n;
    expected.output = false;
    kiln_gemm_extent *extent = next_input(run);
    status = kiln_gemm_check_matrix(c, &expected, run->home, extent);
    if (status == KILN_OK && kiln_gemm_same_view(c, d)) /* each element is read before written */
        run->input_count--;
    return status;
}

static kiln_status check_epilogue(gemm_run *run, uint32_t index)
{
    const kiln_epilogue *epilogue = &run->desc->epilogues[index];
    const kiln_tensor *tensor;
    kiln_status status = need(run, KILN_GEMM_OPERAND + index, &tensor);
    if (status != KILN_OK)
        return status;
    int64_t n = index < run->narrow ? run->n : run->columns;
    bool matrix = epilogue->operand == KILN_OPERAND_MATRIX,
         by_row = matrix || epilogue->operand == KILN_OPERAND_COLUMN;
    kiln_gemm_expected expected = {
        .slot = KILN_GEMM_OPERAND + index,
        .type = epilogue->type,
        .alignment = epilogue->alignment,
        .leading = by_row ? run->leading[KILN_GEMM_D] : run->vectors,
        .rows = run->m,
        .columns = epilogue->operand == KILN_OPERAND_COLUMN   ? run->m
                   : epilogue->operand == KILN_OPERAND_SCALAR ? 1
                                                              : n,
        .shared = true,
        .output = epilogue->kind == KILN_EPILOGUE_BIAS_GRADIENT,
    };
    kiln_gemm_extent *extent =
        expected.output ? &run->outputs[run->output_count++] : next_input(run);
    return matrix ? kiln_gemm_check_matrix(tensor, &expected, run->home, extent)
                  : kiln_gemm_check_vector(tensor, &expected, run->home, extent);
}

static kiln_status check_groups(gemm_run *run)
{
    const kiln_gemm_desc *desc = run->desc;
    const kiln_tensor *tensor;
    kiln_status status = need(run, KILN_GEMM_GROUPS, &tensor);
    if (status != KILN_OK)
        return status;
    kiln_gemm_expected expected = {
        .slot = KILN_GEMM_GROUPS,
        .type = KILN_I32,
        .leading = 1,
        .columns = desc->grouping == KILN_GROUPING_CONTIGUOUS ? run->m : desc->groups};
    if (tensor->rank != 1)
        return kiln_fail(KILN_INVALID, "gemm: GROUPS has rank %u; it must be a vector of %lld",
                         tensor->rank, (long long)expected.columns);
    return kiln_gemm_check_vector(tensor, &expected, run->home, next_input(run));
}

static kiln_status check_d_scale(gemm_run *run)
{
    const kiln_quantization *quantization = &run->desc->d_quantization;
    const kiln_tensor *tensor;
    kiln_status status = need(run, KILN_GEMM_D_SCALE, &tensor);
    if (status != KILN_OK)
        return status;
    kiln_gemm_expected expected = {.slot = KILN_GEMM_D_SCALE,
                                   .type = quantization->scale_type,
                                   .leading = run->leading[KILN_GEMM_D],
                                   .rows = run->m,
                                   .columns =
                                       kiln_gemm_blocks(run->columns, quantization->block[1]),
                                   .output = true};
    return kiln_gemm_check_either_way(tensor, &expected, run->home,
                                      &run->outputs[run->output_count++]);
}

static __attribute__((cold, noinline)) kiln_status overlap(const kiln_gemm_extent *output,
                                                           const kiln_gemm_extent *other)
{
    return kiln_fail(
        KILN_INVALID,
        "gemm: %s overlaps %s; write to other memory (only C may be D, as the same view)",
        output->what, other->what);
}

/* What is written lies apart from all that is read, and from all else that is written. */
static kiln_status check_overlaps(const gemm_run *run)
{
    for (int i = 0; i < run->output_count; i++) {
        const kiln_gemm_extent *output = &run->outputs[i];
        for (int j = 0; j < run->input_count; j++)
            if (kiln_gemm_overlaps(output, &run->inputs[j]))
                return overlap(output, &run->inputs[j]);
        for (int j = i + 1; j < run->output_count; j++)
            if (kiln_gemm_overlaps(output, &run->outputs[j]))
                return overlap(output, &run->outputs[j]);
    }
    return KILN_OK;
}

static __attribute__((noinline)) kiln_status check_closely(const kiln_gemm_desc *desc,
                                                           kiln_device *home,
                                                           const kiln_args_head *head, bool *empty)
{
    gemm_run run;
    run.desc = desc, run.home = home, run.head = head;
    run.input_count = run.output_count = 0;
    kiln_status status = check_factors(desc, head);
    if (status == KILN_OK)
        status = find_sizes(&run);
    if (status != KILN_OK)
        return status;
    *empty = is_empty(&run);
    if (*empty)
        return KILN_OK;
    status = check_c_and_d(&run);
    if (status == KILN_OK && run.k > 0)
        status = check_factor(&run, KILN_GEMM_A);
    if (status == KILN_OK && run.k > 0)
        status = check_factor(&run, KILN_GEMM_B);
    for (uint32_t i = 0; status == KILN_OK && i < desc->epilogue_count; i++)
        if (desc->epilogues[i].operand != KILN_OPERAND_NONE)
            status = check_epilogue(&run, i);
    if (status == KILN_OK && desc->grouping != KILN_GROUPING_NONE)
        status = check_groups(&run);
    if (status == KILN_OK && is_quantized(&desc->d_quantization))
        status = check_d_scale(&run);
    return status == KILN_OK ? check_overlaps(&run) : status;
}

kiln_status kiln_gemm_check(const void *descriptor, const void *prepared, kiln_device *home,
                            const kiln_args_head *head, bool *empty)
{
    return is_plain_run(descriptor, prepared, head) ? KILN_OK
                                                    : check_closely(descriptor, home, head, empty);
}

/* ---- Packing ---- */

static __attribute__((cold, noinline)) kiln_status wrong_pair(const char *name,
                                                              const char *difference)
{
    return kiln_fail(KILN_INVALID, "gemm: the strided and the packed %s differ in %s", name,
                     difference);
}

/* The strided tensor as in a run, though it may live anywhere and promises no alignment; and as
 * many matrices as the plan has, or fewer where that is dynamic, or one for all. */
kiln_status kiln_gemm_check_packed(const void *descriptor, uint32_t operand,
                                   const kiln_tensor *strided, const kiln_tensor *packed)
{
    const kiln_gemm_desc *desc = descriptor;
    if (operand != KILN_GEMM_A && operand != KILN_GEMM_B)
        return kiln_fail(KILN_INVALID,
                         "gemm: operand %u cannot be packed; only A (0) and B (1) can", operand);
    bool is_a = operand == KILN_GEMM_A, grouped = desc->grouping != KILN_GROUPING_NONE;
    bool transposed = desc->head.flags & (is_a ? KILN_GEMM_TRANSPOSE_A : KILN_GEMM_TRANSPOSE_B);
    int64_t rows = is_a ? desc->m : desc->k, columns = is_a ? desc->k : desc->n;
    bool by_group = desc->grouping == KILN_GROUPING_MASKED ||
                    (desc->grouping == KILN_GROUPING_CONTIGUOUS && !is_a);
    kiln_gemm_expected expected = {
        .slot = operand,
        .type = is_a ? desc->a_type : desc->b_type,
        .alignment = 1,
        .leading = by_group ? desc->groups : desc->batch,
        .rows = transposed ? columns : rows,
        .columns = transposed ? rows : columns,
        .shared = !grouped,
        .quantization = is_a ? &desc->a_quantization : &desc->b_quantization,
    };
    const char *name = kiln_gemm_slot_names[operand];
    if (packed->layout != KILN_LAYOUT_PACKED || strided->layout != KILN_LAYOUT_STRIDED)
        return kiln_fail(
            KILN_INVALID,
            "gemm: packing needs one strided tensor and one of layout KILN_LAYOUT_PACKED");
    if (!grouped && strided->rank == 3 &&
        (strided->shape[0] == 1 || (desc->head.flags & KILN_GEMM_DYNAMIC_BATCH &&
                                    strided->shape[0] >= 0 && strided->shape[0] < desc->batch)))
        expected.leading = strided->shape[0];
    kiln_gemm_extent extent;
    kiln_status status = kiln_gemm_check_matrix(strided, &expected, NULL, &extent);
    for (int zero_point = 0; status == KILN_OK && zero_point < 2; zero_point++)
        status = kiln_gemm_check_scale(strided, zero_point, &expected, NULL, &extent);
    if (status != KILN_OK)
        return status;
    if (packed->type != strided->type)
        return wrong_pair(name, "type");
    if (packed->rank != strided->rank ||
        memcmp(packed->shape, strided->shape, strided->rank * sizeof *strided->shape) != 0)
        return wrong_pair(name, "shape");
    if (packed->scale || packed->zero_point)
        return kiln_fail(KILN_INVALID,
                         "gemm: the packed %s has scales or zero points; they are in the blob, so "
                         "leave the pointers NULL",
                         name);
    return KILN_OK;
}
