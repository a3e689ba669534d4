/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of kiln.gemm/1: results that lie exactly half-way between two values of D. Sums are of
 * whole numbers that every order of summation finds exactly, so that nothing but the last rounding
 * is seen. */
#include <math.h>
#include <stdio.h>

#include "conformance/gemm/numeric.h"
#include "conformance/plugin/op/gemm_plain.h"
#include "conformance/plugin/op/op.h"

enum {
    TIES = 8,             /* rows */
    COLUMNS = 6,          /* every other one negative, where that can be */
    LARGEST_DEPTH = 10000 /* a sum that would need more steps is not tried */
};

/* Significant bits of a type of floating-point numbers; 0 of integers. */
static int significant_bits(uint32_t type)
{
    switch (type) {
    case KILN_F32:
        return 24;
    case KILN_F16:
        return 11;
    case KILN_BF16:
        return 8;
    case KILN_E4M3:
        return 4;
    case KILN_E5M2:
        return 3;
    case KILN_E2M1:
        return 2;
    default:
        return 0;
    }
}

static bool is_signed(uint32_t type)
{
    return type != KILN_U8 && type != KILN_U4;
}

/* The largest power of two, at most 2^11, that a type of A or B holds. */
static double largest_power(uint32_t type)
{
    switch (type) {
    case KILN_E4M3:
        return 256;
    case KILN_E2M1:
    case KILN_I4:
        return 4;
    case KILN_U4:
        return 8;
    case KILN_I8:
        return 64;
    case KILN_U8:
        return 128;
    default:
        return 2048;
    }
}

/* One way to make ties: D = factor * (2 q + 1), which is half-way between 2 q and 2 q + 2 of them.
 */
typedef struct tie_plan {
    const conformance_plain_types *types;
    uint32_t d_type;
    double factor;       /* alpha */
    int64_t q[TIES];     /* of each row; odd and even ones */
    double anchor;       /* with quantising: the value in column 0, so that the scale is 1 */
    uint32_t scale_type; /* of D; NONE: D is not quantised */
    bool negative;       /* every other column is negative */
} tie_plan;

/* q from 2^(bits - 1) to 2^bits - 1 are those whose last bit is the last of D; of integers all. */
static void choose_ties(tie_plan *plan)
{
    int bits = significant_bits(plan->d_type);
    int64_t first = bits ? (int64_t)1 << (bits - 1) : 0, last = bits ? 2 * first - 1 : 7;
    const int64_t wanted[TIES] = {
        first,    first + 1, first + 2, first + 3, first + last / 4, first + last / 4 + 1,
        last - 1, last};
    for (int i = 0; i < TIES; i++)
        plan->q[i] = wanted[i] < first ? first : wanted[i] > last ? last : wanted[i];
    plan->factor = bits ? 1 : 0.5;
}

/* ---- Sums ---- */

/* Elements of A that, each times what stands in B for that step, have the sum `sum`: in the first
 * `large` steps B is its largest power, in the others 1. Counts the steps of either kind where
 * `test` is NULL. */
static void write_sum(conformance_gemm_case *test, const conformance_plain_types *types,
                      int64_t row, double sum, int64_t steps[2])
{
    double a_most = largest_power(types->a), b_most = largest_power(types->b);
    bool by_k = test && (test->desc.head.flags & KILN_GEMM_TRANSPOSE_A);
    int64_t at[2] = {0, test ? steps[0] : 0}, begin = at[1];
    while (sum >= 1) {
        double unit = sum >= b_most ? b_most : 1, element = a_most;
        while (element > 1 && element * unit > sum)
            element /= 2;
        int64_t *k = &at[unit == 1];
        if (test)
            conformance_gemm_set(test, KILN_GEMM_A, by_k ? *k : row, by_k ? row : *k, element);
        ++*k;
        sum -= element * unit;
    }
    if (!test) {
        steps[0] = at[0] > steps[0] ? at[0] : steps[0];
        steps[1] = at[1] - begin > steps[1] ? at[1] - begin : steps[1];
    }
}

/* The sum that gives row i, and column 0 where that is the anchor. */
static double sum_of(const tie_plan *plan, int64_t row)
{
    return (double)(2 * plan->q[row] + 1);
}

/* In a quantised row the anchor has steps of its own, in which the other columns of B are 0. */
static void count_steps(const tie_plan *plan, int64_t steps[2], int64_t anchor_steps[2])
{
    steps[0] = steps[1] = anchor_steps[0] = anchor_steps[1] = 0;
    for (int64_t row = 0; row < TIES; row++)
        write_sum(NULL, plan->types, row, sum_of(plan, row), steps);
    if (plan->anchor != 0)
        write_sum(NULL, plan->types, 0, plan->anchor / plan->factor, anchor_steps);
}

static void set_b(conformance_gemm_case *test, int64_t k, int64_t column, double value)
{
    bool by_column = test->desc.head.flags & KILN_GEMM_TRANSPOSE_B;
    conformance_gemm_set(test, KILN_GEMM_B, by_column ? column : k, by_column ? k : column, value);
}

static void write_values(conformance_gemm_case *test, const tie_plan *plan, const int64_t steps[2])
{
    double most = largest_power(plan->types->b);
    int64_t own = steps[0] + steps[1], first_column = plan->anchor != 0;
    int64_t all[2] = {steps[0], steps[1]};
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++)
        if (test->tensors[slot].memory && slot != KILN_GEMM_D && slot != KILN_GEMM_D_SCALE)
            conformance_gemm_set_all(
                test, slot,
                slot >= CONFORMANCE_GEMM_SCALE && slot < CONFORMANCE_GEMM_ZERO_POINT ? 1 : 0);
    for (int64_t row = 0; row < TIES; row++)
        write_sum(test, plan->types, row, sum_of(plan, row), all);
    for (int64_t column = first_column; column < COLUMNS; column++)
        for (int64_t k = 0; k < own; k++)
            set_b(test, k, column,
                  (plan->negative && column % 2 ? -1 : 1) * (k < steps[0] ? most : 1));
    /* The anchor: the same in every row. */
    bool by_k = test->desc.head.flags & KILN_GEMM_TRANSPOSE_A;
    double rest = plan->anchor != 0 ? plan->anchor / plan->factor : 0;
    for (int64_t k = own; rest >= 1; k++) {
        double unit = rest >= most ? most : 1, element = largest_power(plan->types->a);
        while (element > 1 && element * unit > rest)
            element /= 2;
        for (int64_t row = 0; row < TIES; row++)
            conformance_gemm_set(test, KILN_GEMM_A, by_k ? k : row, by_k ? row : k, element);
        set_b(test, k, 0, unit);
        rest -= element * unit;
    }
}

/* ---- Results ---- */

/* What the tie must become: the one of its two neighbours whose last bit is 0. */
static double even_neighbour(const tie_plan *plan, int64_t row, bool negative)
{
    int64_t q = plan->q[row] + plan->q[row] % 2;
    return (negative ? -2 : 2) * (double)q * plan->factor;
}

static void judge(conformance_gemm_bench *bench, const tie_plan *plan,
                  const conformance_gemm_case *test)
{
    for (int64_t row = 0; row < TIES && !conformance_bench_failed(bench); row++) {
        double scale = plan->scale_type ? conformance_gemm_get(test, KILN_GEMM_D_SCALE, row, 0) : 1;
        if (scale != 1) /* it may be off by what dividing by the largest value costs */
            continue;
        for (int64_t column = plan->anchor != 0; column < COLUMNS; column++) {
            bool negative = plan->negative && column % 2;
            double measured = conformance_gemm_get(test, KILN_GEMM_D, row, column),
                   even = even_neighbour(plan, row, negative),
                   exact = (negative ? -1 : 1) * sum_of(plan, row) * plan->factor;
            if (measured != even)
                conformance_fail(
                    bench->report,
                    "%s x %s -> %s%s: D[%lld, %lld] is exactly %.9g, half-way between "
                    "two values of its type; it must become %.9g, whose last bit is 0, "
                    "but is %.9g",
                    kiln_type_name(plan->types->a), kiln_type_name(plan->types->b),
                    kiln_type_name(plan->d_type), plan->scale_type ? " quantised with scale 1" : "",
                    (long long)row, (long long)column, exact, even, measured);
        }
        bench->report->judged++;
    }
}

static void try_ties(conformance_gemm_bench *bench, tie_plan *plan)
{
    int64_t steps[2], anchor_steps[2];
    count_steps(plan, steps, anchor_steps);
    int64_t depth = steps[0] + steps[1] + anchor_steps[0] + anchor_steps[1];
    if (depth > LARGEST_DEPTH)
        return;
    conformance_gemm_spec spec = conformance_gemm_plain(plan->types, TIES, COLUMNS, depth);
    spec.desc.d_type = plan->d_type;
    spec.alpha = plan->factor;
    if (plan->scale_type) {
        conformance_gemm_add(&spec, KILN_EPILOGUE_QUANTIZE, KILN_OPERAND_NONE);
        spec.desc.d_quantization.scale_type = plan->scale_type;
        spec.desc.d_quantization.block[0] = 1;
        spec.desc.d_quantization.block[1] = -1;
    }
    /* Rather often the type of D is not served: that is no news. */
    kiln_gemm_desc desc = conformance_gemm_settled(&spec);
    if (conformance_gemm_ask(&bench->session, &desc).support == KILN_SUPPORT_NO)
        return;
    conformance_gemm_case *test = conformance_gemm_make(bench, &spec);
    conformance_gemm_result result;
    if (!test)
        return;
    write_values(test, plan, steps);
    conformance_gemm_execute(bench->session.runtime, bench->session.name, test, &result);
    if (result.outcome == CONFORMANCE_FAILED)
        conformance_fail(bench->report, "ties of rounding: %s", result.text);
    else if (result.outcome == CONFORMANCE_DECLINED)
        bench->report->declined++;
    else
        judge(bench, plan, test);
    conformance_gemm_case_free(test);
}

/* ---- Types ---- */

/* Of sums in f32 the last rounding is the only one where D is narrower; sums of integers become f32
 * only then. */
static bool rounds_last(const conformance_plain_types *types, uint32_t d_type)
{
    bool whole = conformance_type_is_integer(types->a) && conformance_type_is_integer(types->b),
         scaled = types->a_blocks.scale_type || types->b_blocks.scale_type;
    if (types->a == KILN_F64)
        return d_type != KILN_I32;
    if (d_type == KILN_F32)
        return whole && !scaled;
    return d_type != KILN_I32 || (whole && !scaled);
}

static void try_rounding(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    static const uint32_t outputs[] = {KILN_F32,  KILN_F16, KILN_BF16, KILN_E4M3,
                                       KILN_E5M2, KILN_I32, KILN_I8,   KILN_U8};
    if (types->precision != KILN_PRECISION_EXACT)
        return;
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        tie_plan plan = {.types = types, .d_type = outputs[i]};
        if (!rounds_last(types, outputs[i]))
            continue;
        choose_ties(&plan);
        plan.negative = is_signed(types->b) && outputs[i] != KILN_U8;
        try_ties(bench, &plan);
        plan.factor = -plan.factor;
        if (outputs[i] != KILN_U8)
            try_ties(bench, &plan);
    }
}

/* The largest values of types that D is quantised to. */
static const struct {
    uint32_t type;
    double largest;
} quantized[] = {
    {KILN_E4M3, 448}, {KILN_E5M2, 57344}, {KILN_E2M1, 6}, {KILN_I8, 127}, {KILN_U8, 255}};

static void try_quantized(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    static const uint32_t scales[] = {KILN_F32, KILN_UE8M0};
    if (types->precision != KILN_PRECISION_EXACT)
        return;
    for (size_t i = 0; i < sizeof quantized / sizeof *quantized; i++)
        for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
            tie_plan plan = {.types = types,
                             .d_type = quantized[i].type,
                             .anchor = quantized[i].largest,
                             .scale_type = scales[k],
                             .negative = is_signed(types->b) && quantized[i].type != KILN_U8};
            choose_ties(&plan);
            if (quantized[i].type == KILN_E2M1) /* 5 and 7 are of its sums; 2.5 and 3.5 are ties */
                plan.factor = 0.5;
            try_ties(bench, &plan);
        }
}

static void try_both(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    /* Types of D are tried here, once for each kind of A and B. */
    for (const conformance_plain_types *earlier = bench->types; earlier < types; earlier++)
        if (earlier->a == types->a && earlier->b == types->b && earlier->type == types->type &&
            earlier->precision == KILN_PRECISION_EXACT)
            return;
    try_rounding(bench, types);
    if (!conformance_bench_failed(bench))
        try_quantized(bench, types);
}

void conformance_op_gemm_rounding(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_both);
}
