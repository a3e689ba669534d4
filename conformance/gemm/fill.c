/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a random case. What a run must not read stays 0xff. */
#include <math.h>
#include <stdlib.h>

#include "conformance/gemm/case.h"
#include "conformance/gemm/numeric.h"
#include "conformance/lines.h"

/* ---- Groups ---- */

int64_t conformance_case_groups_at(const conformance_gemm_case *test, int64_t index)
{
    const conformance_tensor *groups = &test->tensors[KILN_GEMM_GROUPS];
    const uint8_t *memory = groups->memory + groups->tensor.byte_offset;
    int32_t value;
    memcpy(&value, memory + index * (int64_t)sizeof value, sizeof value);
    return value;
}

int64_t conformance_case_group_of(const conformance_gemm_case *test, int64_t row)
{
    return conformance_case_groups_at(test, row);
}

static void set_groups_at(conformance_gemm_case *test, int64_t index, int64_t value)
{
    const kiln_tensor *tensor = &test->tensors[KILN_GEMM_GROUPS].tensor;
    uint8_t *memory = test->tensors[KILN_GEMM_GROUPS].memory + tensor->byte_offset;
    kiln_store_f64(tensor->type, memory, index, (double)value, 0);
}

/* Blocks of rows, each of one group or all padding, with padding behind a group's last rows; or
 * every row by itself. */
static void fill_contiguous(uint64_t *random, conformance_gemm_case *test)
{
    int64_t groups = test->desc.groups, alignment = test->desc.group_alignment;
    int64_t block = alignment ? alignment : 1 + conformance_random_below(random, 40);
    int64_t only =
        conformance_random_one_in(random, 10) ? conformance_random_below(random, groups) : -1;
    bool sorted = conformance_random_one_in(random, 2),
         empty = conformance_random_one_in(random, 40);
    for (int64_t first = 0, at = 0; first < test->m; first += block, at++) {
        int64_t group =
            sorted ? at * groups / (test->m / block + 1) : conformance_random_below(random, groups);
        if (only >= 0)
            group = only;
        if (empty || conformance_random_one_in(random, 6))
            group = -1;
        int64_t count = conformance_random_one_in(random, 3)
                            ? conformance_random_below(random, block + 1)
                            : block;
        for (int64_t i = 0; i < block && first + i < test->m; i++)
            set_groups_at(test, first + i, i < count ? group : -1);
    }
}

static void fill_masked(uint64_t *random, conformance_gemm_case *test)
{
    bool empty = conformance_random_one_in(random, 40);
    for (int64_t g = 0; g < test->desc.groups; g++) {
        int64_t choice = conformance_random_below(random, 5);
        int64_t count = choice == 0   ? 0
                        : choice == 1 ? test->m
                                      : conformance_random_below(random, test->m + 1);
        set_groups_at(test, g, empty ? 0 : count);
    }
}

static int compare_integers(const void *a, const void *b)
{
    int64_t one, two;
    memcpy(&one, a, sizeof one);
    memcpy(&two, b, sizeof two);
    return (one > two) - (one < two);
}

/* Ascending multiples of the alignment, some of them equal, mostly up to K. */
static void fill_ends(uint64_t *random, conformance_gemm_case *test)
{
    enum { MOST_GROUPS = 16 };
    int64_t ends[MOST_GROUPS], groups = test->desc.groups;
    int64_t unit = test->desc.group_alignment ? test->desc.group_alignment : 1;
    for (int64_t g = 0; g < groups; g++) {
        ends[g] = conformance_random_below(random, test->k / unit + 1) * unit;
        if (g > 0 && conformance_random_one_in(random, 5))
            ends[g] = ends[g - 1];
    }
    qsort(ends, (size_t)groups, sizeof *ends, compare_integers);
    if (!conformance_random_one_in(random, 4))
        ends[groups - 1] = test->k / unit * unit;
    for (int64_t g = 0; g < groups; g++)
        set_groups_at(test, g, ends[g]);
}

static void fill_groups(uint64_t *random, conformance_gemm_case *test)
{
    if (test->desc.grouping == KILN_GROUPING_CONTIGUOUS)
        fill_contiguous(random, test);
    else if (test->desc.grouping == KILN_GROUPING_MASKED)
        fill_masked(random, test);
    else if (test->desc.grouping == KILN_GROUPING_K)
        fill_ends(random, test);
}

/* ---- Values ---- */

/* Near the end of an integer's range: sums of those overflow what is too narrow for them. */
static double choose_extreme(uint64_t *random, uint32_t type, bool low)
{
    double end = low ? conformance_type_lowest(type) : conformance_type_largest(type);
    double inwards = (double)conformance_random_below(random, 3);
    return low ? end + inwards : end - inwards;
}

static double choose_value(uint64_t *random, uint32_t type, double spread)
{
    switch (type) {
    case KILN_I8:
        return (double)(conformance_random_below(random, 256) - 128);
    case KILN_U8:
        return (double)conformance_random_below(random, 256);
    case KILN_I4:
        return (double)(conformance_random_below(random, 16) - 8);
    case KILN_U4:
        return (double)conformance_random_below(random, 16);
    case KILN_I32:
        return (double)(conformance_random_below(random, 2000001) - 1000000);
    case KILN_E4M3:
    case KILN_E5M2:
        return conformance_random_unit(random) * fmin(spread, 16);
    case KILN_E2M1:
        return conformance_random_unit(random) * 6.5;
    default:
        return conformance_random_unit(random) * spread;
    }
}

static double choose_planted(uint64_t *random, uint32_t type, uint32_t plant)
{
    static const double specials[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 0, -0.0};
    if (plant == CONFORMANCE_GEMM_SPECIALS)
        return CONFORMANCE_RANDOM_OF(random, specials);
    return conformance_random_unit(random) * (type == KILN_F64                        ? 0x1p-1025
                                              : type == KILN_F16 || type == KILN_E5M2 ? 0x1p-15
                                              : type == KILN_E4M3                     ? 0x1p-7
                                                                                      : 0x1p-128);
}

static void fill(uint64_t *random, conformance_tensor *made, double spread, uint32_t plant,
                 bool extreme)
{
    const kiln_tensor *tensor = &made->tensor;
    bool low = conformance_random_one_in(random, 2);
    int64_t rarity = plant == CONFORMANCE_GEMM_SPECIALS ? 100 : 3;
    for (int64_t line = 0; line < conformance_line_count(tensor); line++) {
        uint8_t *memory = conformance_line(tensor, made->memory, line);
        for (int64_t j = 0; j < conformance_line_elements(tensor); j++) {
            bool planted = plant && conformance_random_one_in(random, rarity);
            double value = planted   ? choose_planted(random, tensor->type, plant)
                           : extreme ? choose_extreme(random, tensor->type, low)
                                     : choose_value(random, tensor->type, spread);
            kiln_store_f64(tensor->type, memory, conformance_line_index(tensor, j), value,
                           KILN_SATURATE);
        }
    }
}

static void fill_scales(uint64_t *random, conformance_tensor *made, bool extreme)
{
    static const double extremes[] = {0,       0x1p-149, 0x1p-126,    0x1p-100,        0x1p60,
                                      0x1p100, 0x1p127,  (double)NAN, (double)INFINITY};
    const kiln_tensor *tensor = &made->tensor;
    bool negative = conformance_random_one_in(random, 6);
    for (int64_t line = 0; line < conformance_line_count(tensor); line++) {
        uint8_t *memory = conformance_line(tensor, made->memory, line);
        for (int64_t j = 0; j < conformance_line_elements(tensor); j++) {
            double value = ldexp(1 + fabs(conformance_random_unit(random)),
                                 (int)conformance_random_below(random, 6) - 3);
            if (negative && tensor->type != KILN_UE8M0 && conformance_random_one_in(random, 4))
                value = -value;
            if (extreme && conformance_random_one_in(random, 30))
                value = CONFORMANCE_RANDOM_OF(random, extremes);
            kiln_store_f64(tensor->type, memory, conformance_line_index(tensor, j), value,
                           KILN_SATURATE);
        }
    }
}

/* ---- What a grouping leaves out ---- */

static void blank_element(conformance_tensor *made, int64_t leading, int64_t row, int64_t column)
{
    const kiln_tensor *tensor = &made->tensor;
    int64_t bits = kiln_type_bits(tensor->type);
    uint32_t last = tensor->rank - 1;
    int64_t element = row * tensor->strides[last - 1];
    if (last > 1)
        element += leading * tensor->strides[0];
    uint8_t *memory = made->memory + tensor->byte_offset + element * bits / 8;
    if (bits < 8)
        memory[column / 2] |= (uint8_t)(column % 2 ? 0xf0 : 0x0f);
    else
        memset(memory + column * tensor->strides[last] * (bits / 8), 0xff, (size_t)bits / 8);
}

static void blank_row(conformance_tensor *made, int64_t leading, int64_t row)
{
    if (made->memory)
        for (int64_t j = 0; j < conformance_line_elements(&made->tensor); j++)
            blank_element(made, leading, row, j);
}

static void blank_column(conformance_tensor *made, int64_t leading, int64_t column)
{
    if (made->memory)
        for (int64_t i = 0; i < made->tensor.shape[made->tensor.rank - 2]; i++)
            blank_element(made, leading, i, column);
}

/* True when the matrices along a leading dimension are others than for the other groups. */
static bool is_own(const conformance_tensor *made)
{
    return made->tensor.rank == 2 || made->tensor.strides[0] > 0;
}

/* Row `row` of group `group` is padding: nothing of it is read. */
static void blank_padding(conformance_gemm_case *test, int64_t group, int64_t row)
{
    const kiln_gemm_desc *desc = &test->desc;
    bool contiguous = desc->grouping == KILN_GROUPING_CONTIGUOUS,
         transposed = desc->head.flags & KILN_GEMM_TRANSPOSE_A;
    conformance_tensor *a = &test->tensors[KILN_GEMM_A],
                       *a_scale = &test->tensors[CONFORMANCE_GEMM_SCALE],
                       *c = &test->tensors[test->aliased ? KILN_GEMM_D : KILN_GEMM_C];
    if (is_own(a))
        (transposed ? blank_column : blank_row)(a, group, row);
    if (a_scale->memory && (contiguous || (a_scale->tensor.rank == 3 && is_own(a_scale))) &&
        desc->a_quantization.block[transposed] == 1)
        (transposed ? blank_column : blank_row)(a_scale, group, row);
    if (c->memory && is_own(c))
        blank_row(c, group, row);
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        conformance_tensor *operand = &test->tensors[KILN_GEMM_OPERAND + i];
        if (desc->epilogues[i].operand == KILN_OPERAND_MATRIX &&
            (contiguous || (operand->tensor.rank == 3 && is_own(operand))))
            blank_row(operand, group, row);
        if (desc->epilogues[i].operand == KILN_OPERAND_COLUMN && contiguous)
            kiln_store_f64(operand->tensor.type, operand->memory + operand->tensor.byte_offset, row,
                           (double)NAN, 0);
    }
}

static void blank_groups(conformance_gemm_case *test)
{
    const kiln_gemm_desc *desc = &test->desc;
    conformance_tensor *a = &test->tensors[KILN_GEMM_A], *b = &test->tensors[KILN_GEMM_B];
    if (desc->grouping == KILN_GROUPING_CONTIGUOUS)
        for (int64_t i = 0; i < test->m; i++)
            if (conformance_case_group_of(test, i) < 0)
                blank_padding(test, 0, i);
    if (desc->grouping == KILN_GROUPING_MASKED)
        for (int64_t g = 0; g < desc->groups; g++)
            for (int64_t i = conformance_case_groups_at(test, g); i < test->m; i++)
                blank_padding(test, g, i);
    if (desc->grouping != KILN_GROUPING_K)
        return;
    for (int64_t k = conformance_case_groups_at(test, desc->groups - 1); k < test->k; k++) {
        (desc->head.flags & KILN_GEMM_TRANSPOSE_A ? blank_row : blank_column)(a, 0, k);
        (desc->head.flags & KILN_GEMM_TRANSPOSE_B ? blank_column : blank_row)(b, 0, k);
    }
}

/* ---- The case ---- */

static bool is_output(const conformance_gemm_case *test, uint32_t slot)
{
    if (slot >= KILN_GEMM_OPERAND && slot < KILN_GEMM_GROUPS)
        return test->desc.epilogues[slot - KILN_GEMM_OPERAND].kind == KILN_EPILOGUE_BIAS_GRADIENT;
    return slot == KILN_GEMM_D_SCALE;
}

static void fill_tensor(uint64_t *random, conformance_gemm_case *test, uint32_t slot,
                        uint32_t plant)
{
    conformance_tensor *made = &test->tensors[slot];
    bool deep = test->features & CONFORMANCE_GEMM_DEEP;
    bool multiplies = slot >= KILN_GEMM_OPERAND && slot < KILN_GEMM_GROUPS &&
                      test->desc.epilogues[slot - KILN_GEMM_OPERAND].kind >= KILN_EPILOGUE_MULTIPLY;
    if (slot >= CONFORMANCE_GEMM_SCALE && slot < CONFORMANCE_GEMM_ZERO_POINT)
        fill_scales(random, made, test->features & CONFORMANCE_GEMM_EXTREME);
    else if (slot >= CONFORMANCE_GEMM_ZERO_POINT)
        fill(random, made, 1, 0, false);
    else
        fill(random, made, multiplies ? 1.5 : test->spread, plant,
             deep && (slot == KILN_GEMM_A || slot == KILN_GEMM_B));
}

void conformance_case_fill(uint64_t *random, conformance_gemm_case *test)
{
    uint32_t plant = test->features & (CONFORMANCE_GEMM_SPECIALS | CONFORMANCE_GEMM_DENORMALS);
    bool blank_product =
        kiln_gemm_factor(&test->desc, test->alpha) == 0 && conformance_random_one_in(random, 2);
    bool reads_c = kiln_gemm_factor(&test->desc, test->beta) != 0;
    uint32_t planted = (uint32_t)conformance_random_below(random, 2); /* A or B, at least */
    fill_groups(random, test);
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        bool product = slot == KILN_GEMM_A || slot == KILN_GEMM_B || slot >= CONFORMANCE_GEMM_SCALE;
        bool unread = (slot == KILN_GEMM_C && !reads_c) || (product && blank_product) ||
                      (slot == KILN_GEMM_D && !(test->aliased && reads_c)) ||
                      slot == KILN_GEMM_GROUPS || is_output(test, slot);
        if (test->tensors[slot].memory && !unread)
            fill_tensor(random, test, slot,
                        slot == planted || conformance_random_one_in(random, 2) ? plant : 0);
    }
    blank_groups(test);
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        conformance_tensor *made = &test->tensors[slot];
        if (made->memory)
            memcpy(made->before, made->memory, (size_t)made->bytes);
    }
}
