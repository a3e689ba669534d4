/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of kiln.gemm/1: values that are not ordinary numbers, what must not be read, and
 * epilogues. */
#include <math.h>

#include "conformance/plugin/op/gemm_plain.h"
#include "conformance/plugin/op/op.h"

static bool has_infinity(uint32_t type)
{
    return type == KILN_F64 || type == KILN_F32 || type == KILN_F16 || type == KILN_BF16 ||
           type == KILN_E5M2;
}

static bool has_nan(uint32_t type)
{
    return has_infinity(type) || type == KILN_E4M3;
}

/* ---- NaN and Inf ---- */

static void try_special(conformance_gemm_bench *bench, const conformance_plain_types *types,
                        uint32_t slot, double value, uint32_t kind)
{
    conformance_gemm_spec spec = conformance_gemm_plain(types, 6, 8, 16);
    if (slot == KILN_GEMM_C) {
        spec.desc.c_type = types->d;
        spec.beta = 1;
    }
    if (kind != KILN_EPILOGUE_NONE) {
        kiln_epilogue *epilogue = conformance_gemm_add(&spec, kind, KILN_OPERAND_NONE);
        epilogue->p0 = kind == KILN_EPILOGUE_CLIP ? -0.5 : 0;
        epilogue->p1 = kind == KILN_EPILOGUE_CLIP ? 0.5 : 0;
    }
    conformance_gemm_case *test = conformance_gemm_make(bench, &spec);
    if (!test)
        return;
    conformance_gemm_set(test, slot, 2, 3, value);
    conformance_gemm_try_case(bench, isnan(value) ? "a NaN among numbers" : "an Inf among numbers",
                              test);
}

static void try_nan(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    static const uint32_t kinds[] = {KILN_EPILOGUE_NONE,      KILN_EPILOGUE_RELU,
                                     KILN_EPILOGUE_CLIP,      KILN_EPILOGUE_GELU_ERF,
                                     KILN_EPILOGUE_GELU_TANH, KILN_EPILOGUE_SILU};
    for (uint32_t slot = KILN_GEMM_A; slot <= KILN_GEMM_C; slot++) {
        uint32_t type = slot == KILN_GEMM_A ? types->a : slot == KILN_GEMM_B ? types->b : types->d;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            if (has_nan(type))
                try_special(bench, types, slot, (double)NAN, kinds[i]);
            if (has_infinity(type)) {
                try_special(bench, types, slot, (double)INFINITY, kinds[i]);
                try_special(bench, types, slot, -(double)INFINITY, kinds[i]);
            }
        }
    }
    if (!has_infinity(types->a) || !has_infinity(types->b))
        return;
    /* Inf times 0, and Inf less Inf. */
    conformance_gemm_spec spec = conformance_gemm_plain(types, 6, 8, 16);
    conformance_gemm_case *test = conformance_gemm_make(bench, &spec);
    if (test) {
        conformance_gemm_set(test, KILN_GEMM_A, 2, 3, (double)INFINITY);
        conformance_gemm_set(test, KILN_GEMM_B, 3, 4, 0);
        conformance_gemm_set(test, KILN_GEMM_A, 4, 5, (double)INFINITY);
        conformance_gemm_set(test, KILN_GEMM_A, 4, 6, -(double)INFINITY);
        conformance_gemm_try_case(bench, "Inf times 0 and Inf less Inf", test);
    }
}

void conformance_op_gemm_nan(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_nan);
}

/* ---- Denormals ---- */

static void try_denormals(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    double least = types->a == KILN_F64    ? 0x1p-1070
                   : types->a == KILN_F32  ? 0x1p-140
                   : types->a == KILN_F16  ? 0x1p-20
                   : types->a == KILN_BF16 ? 0x1p-130
                   : types->a == KILN_E4M3 ? 0x1p-9
                   : types->a == KILN_E5M2 ? 0x1p-16
                                           : 0;
    if (least == 0)
        return;
    conformance_gemm_spec spec = conformance_gemm_plain(types, 5, 7, 9);
    conformance_gemm_case *test = conformance_gemm_make(bench, &spec);
    if (test) {
        conformance_gemm_set_all(test, KILN_GEMM_A, least);
        conformance_gemm_try_case(bench, "denormal A", test);
    }
    if (kiln_type_bits(types->a) < 16)
        return;
    /* Products that are denormal though their factors are not; for f16 results that are. */
    spec.magnitude = types->a == KILN_F64 ? 0x1p-520 : types->a == KILN_F16 ? 0x1p-11 : 0x1p-66;
    conformance_gemm_try(bench, "denormal products", &spec);
}

void conformance_op_gemm_denormals(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_denormals);
}

/* ---- Beyond the largest value ---- */

static void try_saturation(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    /* Beyond the range of these are none that the sum could hold. */
    if (types->d == KILN_F64 || types->d == KILN_F32)
        return;
    for (int saturate = 0; saturate < 2; saturate++) {
        conformance_gemm_spec spec = conformance_gemm_plain(types, 5, 7, 9);
        spec.desc.head.flags |= saturate ? KILN_GEMM_SATURATE : 0;
        spec.alpha = types->d == KILN_BF16 ? 1 : 0x1p30; /* into results that are no f32 */
        spec.magnitude = types->d == KILN_F16 ? 300 : 1;
        conformance_gemm_try(bench, saturate ? "results that saturate" : "results beyond the range",
                             &spec);
    }
}

void conformance_op_gemm_saturation(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_saturation);
}

/* ---- What must not be read ---- */

/* Runs a host case whose tensors in `slots`, one bit each, can be neither read nor written. */
static void try_unreadable(conformance_gemm_bench *bench, const char *what,
                           conformance_gemm_case *test, uint32_t slots)
{
    conformance_gemm_moved moved;
    conformance_gemm_raw raw;
    conformance_gemm_result result = {.outcome = CONFORMANCE_PASSED};
    kiln_plan *plan = test ? conformance_gemm_plan(bench, &test->desc) : NULL;
    if (plan && conformance_gemm_raw_of(bench, plan, &raw) &&
        conformance_gemm_move(bench, test, true, &moved)) {
        result.answer_flags = raw.info.flags;
        for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++)
            if ((slots >> slot & 1) && moved.memory[slot].mapping)
                conformance_guard_protect(&moved.memory[slot], false);
        kiln_status status = kiln_plan_run(plan, NULL, &moved.args.head);
        conformance_gemm_return(test, &moved);
        if (status != KILN_OK)
            conformance_fail(bench->report, "%s: %s: %s", what, kiln_status_name(status),
                             kiln_last_error());
        conformance_gemm_judge(test, &result);
        bench->report->judged++;
        if (result.outcome == CONFORMANCE_FAILED)
            conformance_fail(bench->report, "%s: %s", what, result.text);
    }
    kiln_plan_release(plan);
    conformance_gemm_case_free(test);
}

static void try_beta_zero(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    conformance_gemm_spec spec = conformance_gemm_plain(types, 9, 11, 13);
    spec.desc.c_type = types->d;
    conformance_gemm_case *test = conformance_gemm_make(bench, &spec);
    if (!test)
        return;
    if (has_nan(types->d))
        conformance_gemm_set_all(test, KILN_GEMM_C, (double)NAN);
    conformance_gemm_try_case(bench, "beta 0 with C full of NaN", test);
    if (bench->session.host && !conformance_bench_failed(bench))
        try_unreadable(bench, "beta 0 with C that cannot be read",
                       conformance_gemm_make(bench, &spec), 1u << KILN_GEMM_C);
}

void conformance_op_gemm_beta_zero(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_beta_zero);
}

static void try_alpha_zero(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    /* With their scales and zero points. */
    const uint32_t of_product =
        1u << KILN_GEMM_A | 1u << KILN_GEMM_B | 0xfu << CONFORMANCE_GEMM_SCALE;
    for (int with_c = 0; with_c < 2; with_c++) {
        conformance_gemm_spec spec = conformance_gemm_plain(types, 9, 11, 13);
        spec.alpha = 0;
        if (with_c) {
            spec.desc.c_type = types->d;
            spec.beta = 1;
        }
        conformance_gemm_case *test = conformance_gemm_make(bench, &spec);
        if (!test)
            return;
        for (uint32_t slot = KILN_GEMM_A; slot <= KILN_GEMM_B; slot++)
            if (has_nan(slot == KILN_GEMM_A ? types->a : types->b))
                conformance_gemm_set_all(test, slot, (double)NAN);
        conformance_gemm_try_case(bench, "alpha 0 with A and B full of NaN", test);
        if (bench->session.host && !conformance_bench_failed(bench))
            try_unreadable(bench, "alpha 0 with A and B that cannot be read",
                           conformance_gemm_make(bench, &spec), of_product);
    }
}

void conformance_op_gemm_alpha_zero(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_alpha_zero);
}

/* ---- Epilogues ---- */

static void set_constants(kiln_epilogue *epilogue)
{
    if (epilogue->kind == KILN_EPILOGUE_CLIP) {
        epilogue->p0 = -0.75;
        epilogue->p1 = 0.5;
    } else if (epilogue->kind == KILN_EPILOGUE_SCALE && epilogue->operand == KILN_OPERAND_NONE) {
        epilogue->p0 = -1.75;
    }
}

static bool goes_together(uint32_t kind, uint32_t operand)
{
    switch (kind) {
    case KILN_EPILOGUE_BIAS:
        return operand >= KILN_OPERAND_SCALAR && operand <= KILN_OPERAND_COLUMN;
    case KILN_EPILOGUE_SCALE:
        return operand <= KILN_OPERAND_COLUMN;
    case KILN_EPILOGUE_RESIDUAL:
    case KILN_EPILOGUE_MULTIPLY:
        return operand == KILN_OPERAND_MATRIX;
    default:
        return operand == KILN_OPERAND_NONE;
    }
}

static void try_epilogues(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    static const uint32_t operand_types[] = {KILN_F32, KILN_F16, KILN_BF16, KILN_F64};
    for (uint32_t kind = KILN_EPILOGUE_BIAS; kind <= KILN_EPILOGUE_CLIP; kind++)
        for (uint32_t operand = KILN_OPERAND_NONE; operand <= KILN_OPERAND_MATRIX; operand++)
            for (int i = 0; i < (operand ? 3 + (types->a == KILN_F64) : 1); i++) {
                if (!goes_together(kind, operand))
                    continue;
                conformance_gemm_spec spec = conformance_gemm_plain(types, 9, 10, 8);
                kiln_epilogue *epilogue = conformance_gemm_add(&spec, kind, operand);
                set_constants(epilogue);
                if (operand)
                    epilogue->type = operand_types[i];
                conformance_gemm_try(bench, "an epilogue", &spec);
            }
}

void conformance_op_gemm_epilogues(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_epilogues);
}

/* Pairs that give different results the other way round. */
static void try_order(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    static const uint32_t steps[][2] = {
        {KILN_EPILOGUE_BIAS, KILN_OPERAND_ROW},
        {KILN_EPILOGUE_SCALE, KILN_OPERAND_COLUMN},
        {KILN_EPILOGUE_RELU, KILN_OPERAND_NONE},
        {KILN_EPILOGUE_RESIDUAL, KILN_OPERAND_MATRIX},
        {KILN_EPILOGUE_CLIP, KILN_OPERAND_NONE},
        {KILN_EPILOGUE_SCALE, KILN_OPERAND_NONE},
        {KILN_EPILOGUE_MULTIPLY, KILN_OPERAND_MATRIX},
        {KILN_EPILOGUE_SILU, KILN_OPERAND_NONE},
    };
    const size_t count = sizeof steps / sizeof *steps;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++) {
            conformance_gemm_spec spec = conformance_gemm_plain(types, 9, 10, 8);
            set_constants(conformance_gemm_add(&spec, steps[i][0], steps[i][1]));
            set_constants(conformance_gemm_add(&spec, steps[k][0], steps[k][1]));
            conformance_gemm_try(bench, "two epilogues", &spec);
        }
    conformance_gemm_spec spec = conformance_gemm_plain(types, 9, 10, 8);
    for (size_t i = 0; i < count; i++)
        set_constants(conformance_gemm_add(&spec, steps[i][0], steps[i][1]));
    conformance_gemm_try(bench, "eight epilogues", &spec);
}

void conformance_op_gemm_epilogue_order(const conformance_subject *subject,
                                        conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_order);
}
