/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a random case: rows and matrices with gaps, bases off their alignment, columns in place
 * of rows where both are allowed. */
#include <stdlib.h>

#include "conformance/gemm/case.h"
#include "conformance/gemm/numeric.h"

enum { GUARD_BYTES = 64 };

/* How a tensor may lie. */
enum {
    LEADING = 1,   /* its first dimension is a batch's, or groups */
    BROADCAST = 2, /* and may have stride 0 */
    ALIGNED = 4,   /* it is aligned to its elements */
    EITHER_WAY = 8 /* rows or columns are contiguous */
};

typedef struct tensor_plan {
    uint32_t type, rank; /* with the leading dimension */
    int64_t leading, rows, columns;
    unsigned how;
} tensor_plan;

static int64_t round_to(int64_t value, int64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static int64_t at_least_one(int64_t value)
{
    return value > 0 ? value : 1;
}

/* Strides in elements; returns how many the tensor spans. */
static int64_t lay_out(uint64_t *random, bool gaps, const tensor_plan *plan, kiln_tensor *tensor)
{
    bool leading = plan->how & LEADING;
    uint32_t own = plan->rank - leading, last = plan->rank - 1;
    int64_t bits = kiln_type_bits(plan->type), per_byte = bits < 8 ? 8 / bits : 1;
    bool turned =
        own == 2 && bits >= 8 && (plan->how & EITHER_WAY) && conformance_random_one_in(random, 2);
    int64_t inner = turned ? plan->rows : plan->columns,
            outer = turned ? plan->columns : plan->rows;
    bool beside = gaps && leading && own == 2 && !turned && conformance_random_one_in(random, 8);
    int64_t row = round_to(at_least_one(inner), per_byte), entry;
    if (beside) { /* the matrices lie side by side */
        entry = row;
        row *= at_least_one(plan->leading);
    }
    if (gaps && conformance_random_one_in(random, 2))
        row += round_to(conformance_random_below(random, 18), per_byte);
    if (!beside) {
        entry = own == 2 ? outer * row : row;
        if (gaps && conformance_random_one_in(random, 2))
            entry += round_to(conformance_random_below(random, 40), per_byte);
    }
    tensor->type = plan->type;
    tensor->rank = plan->rank;
    tensor->shape[last] = plan->columns;
    tensor->strides[last] = turned ? row : 1;
    if (own == 2) {
        tensor->shape[last - 1] = plan->rows;
        tensor->strides[last - 1] = turned ? 1 : row;
    }
    if (!leading)
        return own == 2 ? outer * row : row;
    if ((plan->how & BROADCAST) && conformance_random_one_in(random, 3))
        entry = 0;
    tensor->shape[0] = plan->leading;
    tensor->strides[0] = entry;
    int64_t before = (at_least_one(plan->leading) - 1) * entry;
    return before + (own == 2 ? at_least_one(outer) * row : row);
}

static bool make_tensor(uint64_t *random, conformance_gemm_case *test, uint32_t slot,
                        const tensor_plan *plan)
{
    conformance_tensor *made = &test->tensors[slot];
    bool gaps = test->features & CONFORMANCE_GEMM_GAPS;
    int64_t elements = lay_out(random, gaps, plan, &made->tensor);
    int64_t bits = kiln_type_bits(plan->type), size = (bits + 7) / 8, offset = 0;
    if (gaps && conformance_random_one_in(random, 2))
        offset = !(plan->how & ALIGNED) && conformance_random_one_in(random, 3)
                     ? conformance_random_below(random, 70)
                     : conformance_random_below(random, 20) * size;
    made->bytes = round_to(offset + (elements * bits + 7) / 8 + GUARD_BYTES, 64);
    made->memory = aligned_alloc(64, (size_t)made->bytes);
    made->before = malloc((size_t)made->bytes);
    if (!made->memory || !made->before)
        return false;
    memset(made->memory, 0xff, (size_t)made->bytes);
    made->tensor.data = made->memory;
    made->tensor.byte_offset = offset;
    return true;
}

/* ---- Each of them ---- */

/* The leading dimension of a slot from A to D; 0 where it has none. */
static int64_t leading_of(const conformance_gemm_case *test, uint32_t slot, bool batched)
{
    bool factor = slot == KILN_GEMM_A || slot == KILN_GEMM_B;
    switch (test->desc.grouping) {
    case KILN_GROUPING_CONTIGUOUS:
        return slot == KILN_GEMM_B ? test->desc.groups : 0;
    case KILN_GROUPING_MASKED:
        return test->desc.groups;
    case KILN_GROUPING_K:
        return factor ? 0 : test->desc.groups;
    default:
        return batched ? test->batch : 0;
    }
}

static tensor_plan matrix_plan(uint32_t type, bool leads, int64_t leading, int64_t rows,
                               int64_t columns, unsigned how)
{
    return (tensor_plan){.type = type,
                         .rank = 2u + leads,
                         .leading = leading,
                         .rows = rows,
                         .columns = columns,
                         .how = how | (leads ? LEADING : 0u)};
}

int64_t conformance_gemm_blocks_in(int64_t extent, int32_t block)
{
    return block > 0 ? round_to(extent, block) / block : extent > 0;
}

/* Scales, or zero points, of operand A or B, whose tensor has been made. */
static bool make_scales(uint64_t *random, conformance_gemm_case *test, uint32_t slot, uint32_t type,
                        uint32_t scale_slot)
{
    const kiln_quantization *quantization =
        slot == KILN_GEMM_A ? &test->desc.a_quantization : &test->desc.b_quantization;
    const kiln_tensor *tensor = &test->tensors[slot].tensor;
    uint32_t last = tensor->rank - 1;
    bool leads = tensor->rank == 3 && !conformance_random_one_in(random, 4);
    tensor_plan plan =
        matrix_plan(type, leads, tensor->shape[0],
                    conformance_gemm_blocks_in(tensor->shape[last - 1], quantization->block[0]),
                    conformance_gemm_blocks_in(tensor->shape[last], quantization->block[1]),
                    BROADCAST | ALIGNED | EITHER_WAY);
    return make_tensor(random, test, scale_slot, &plan);
}

static bool make_factor(uint64_t *random, conformance_gemm_case *test, uint32_t slot, bool batched)
{
    bool is_a = slot == KILN_GEMM_A;
    const kiln_quantization *quantization =
        is_a ? &test->desc.a_quantization : &test->desc.b_quantization;
    bool transposed =
        test->desc.head.flags & (is_a ? KILN_GEMM_TRANSPOSE_A : KILN_GEMM_TRANSPOSE_B);
    int64_t rows = is_a ? test->m : test->k, columns = is_a ? test->k : test->n;
    int64_t leading = leading_of(test, slot, batched);
    bool leads = batched || leading > 0;
    if (test->desc.grouping == KILN_GROUPING_CONTIGUOUS && is_a)
        leads = false;
    tensor_plan plan =
        matrix_plan(is_a ? test->desc.a_type : test->desc.b_type, leads, leading,
                    transposed ? columns : rows, transposed ? rows : columns, BROADCAST);
    if (!make_tensor(random, test, slot, &plan))
        return false;
    kiln_tensor *tensor = &test->tensors[slot].tensor;
    uint32_t scale = CONFORMANCE_GEMM_SCALE + slot, zero = CONFORMANCE_GEMM_ZERO_POINT + slot;
    if (quantization->scale_type || quantization->zero_type)
        for (int i = 0; i < 2; i++)
            tensor->scale_block[i] = quantization->block[i] > 0 ? quantization->block[i] : 0;
    if (quantization->scale_type) {
        if (!make_scales(random, test, slot, quantization->scale_type, scale))
            return false;
        tensor->scale = &test->tensors[scale].tensor;
    }
    if (quantization->zero_type) {
        if (!make_scales(random, test, slot, quantization->zero_type, zero))
            return false;
        tensor->zero_point = &test->tensors[zero].tensor;
        if (kiln_type_bits(quantization->zero_type) >= 8 && conformance_random_one_in(random, 5))
            memset(test->tensors[zero].tensor.strides, 0, sizeof tensor->strides); /* one for all */
    }
    return true;
}

/* D, or what has its leading dimension: C, D_SCALE. */
static bool make_like_d(uint64_t *random, conformance_gemm_case *test, uint32_t slot, uint32_t type,
                        int64_t columns, bool batched, unsigned how)
{
    int64_t leading = leading_of(test, slot, batched);
    tensor_plan plan = matrix_plan(type, batched || leading > 0, leading, test->m, columns, how);
    return make_tensor(random, test, slot, &plan);
}

/* The operand of epilogue i, which sees `width` columns. In place of the batch, or of the groups,
 * there may be one for all; in a contiguous grouping what belongs to rows has no groups. */
static bool make_operand(uint64_t *random, conformance_gemm_case *test, uint32_t i, int64_t width,
                         bool batched)
{
    kiln_epilogue *epilogue = &test->desc.epilogues[i];
    uint32_t slot = KILN_GEMM_OPERAND + i, shape = epilogue->operand;
    if (shape == KILN_OPERAND_NONE)
        return true;
    bool matrix = shape == KILN_OPERAND_MATRIX,
         output = epilogue->kind == KILN_EPILOGUE_BIAS_GRADIENT;
    bool contiguous = test->desc.grouping == KILN_GROUPING_CONTIGUOUS;
    int64_t leading = contiguous ? test->desc.groups : leading_of(test, KILN_GEMM_D, batched);
    bool leads = (batched || leading > 0) && conformance_random_one_in(random, 2);
    if (contiguous && (matrix || shape == KILN_OPERAND_COLUMN))
        leads = false;
    tensor_plan plan = {.type = epilogue->type,
                        .rank = (matrix ? 2u : 1u) + leads,
                        .leading = leading,
                        .rows = test->m,
                        .columns = shape == KILN_OPERAND_SCALAR   ? 1
                                   : shape == KILN_OPERAND_COLUMN ? test->m
                                                                  : width,
                        .how = (leads ? LEADING : 0u) | (output ? 0u : BROADCAST)};
    if (!make_tensor(random, test, slot, &plan))
        return false;
    epilogue->alignment = kiln_tensor_alignment(&test->tensors[slot].tensor);
    return true;
}

static bool make_operands(uint64_t *random, conformance_gemm_case *test, bool batched)
{
    int64_t width = test->n;
    for (uint32_t i = 0; i < test->desc.epilogue_count; i++) {
        if (!make_operand(random, test, i, width, batched))
            return false;
        if (test->desc.epilogues[i].kind == KILN_EPILOGUE_SWIGLU)
            width /= 2;
    }
    return true;
}

static bool make_groups(uint64_t *random, conformance_gemm_case *test)
{
    const kiln_gemm_desc *desc = &test->desc;
    tensor_plan plan = {.type = KILN_I32,
                        .rank = 1,
                        .columns =
                            desc->grouping == KILN_GROUPING_CONTIGUOUS ? test->m : desc->groups,
                        .how = ALIGNED};
    return desc->grouping == KILN_GROUPING_NONE ||
           make_tensor(random, test, KILN_GEMM_GROUPS, &plan);
}

/* The alignments that the tensors have, as promises. A packed operand's base is the blob's. */
static void promise_alignments(conformance_gemm_case *test)
{
    kiln_gemm_desc *desc = &test->desc;
    const conformance_tensor *tensors = test->tensors;
    if (!(desc->head.flags & KILN_GEMM_PACKED_A))
        desc->a_alignment = kiln_tensor_alignment(&tensors[KILN_GEMM_A].tensor);
    if (!(desc->head.flags & KILN_GEMM_PACKED_B))
        desc->b_alignment = kiln_tensor_alignment(&tensors[KILN_GEMM_B].tensor);
    if (desc->c_type != KILN_TYPE_NONE)
        desc->c_alignment = kiln_tensor_alignment(&tensors[KILN_GEMM_C].tensor);
    desc->d_alignment = kiln_tensor_alignment(&tensors[KILN_GEMM_D].tensor);
}

bool conformance_case_make_tensors(uint64_t *random, conformance_gemm_case *test)
{
    kiln_gemm_desc *desc = &test->desc;
    conformance_tensor *tensors = test->tensors;
    bool batched = desc->grouping == KILN_GROUPING_NONE &&
                   (test->batch != 1 || conformance_random_one_in(random, 3));
    bool made = make_factor(random, test, KILN_GEMM_A, batched) &&
                make_factor(random, test, KILN_GEMM_B, batched) &&
                make_like_d(random, test, KILN_GEMM_D, desc->d_type, test->d_columns, batched, 0);
    if (made && test->aliased)
        tensors[KILN_GEMM_C].tensor = tensors[KILN_GEMM_D].tensor;
    else if (made && desc->c_type != KILN_TYPE_NONE)
        made = make_like_d(random, test, KILN_GEMM_C, desc->c_type, test->n, batched, BROADCAST);
    if (made && desc->d_quantization.scale_type)
        made =
            make_like_d(random, test, KILN_GEMM_D_SCALE, desc->d_quantization.scale_type,
                        conformance_gemm_blocks_in(test->d_columns, desc->d_quantization.block[1]),
                        batched, ALIGNED | EITHER_WAY);
    made = made && make_operands(random, test, batched) && make_groups(random, test);
    if (made)
        promise_alignments(test);
    return made;
}
