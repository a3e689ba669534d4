/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of a GEMM: what contradicts itself is refused, what means the same has one form. */
#include "tests/core/gemm_product.h"

static void test_descriptors(void **state)
{
    (void)state;
    product p;
    CASE(, KILN_OK, "");
    CASE(desc->m = -1, KILN_INVALID, "m is -1");
    CASE(desc->n = INT64_MIN, KILN_INVALID, "n is -9223372036854775808");
    CASE(desc->k = -7, KILN_INVALID, "k is -7");
    CASE(desc->batch = -1, KILN_INVALID, "batch is -1");
    CASE(desc->a_type = 0, KILN_INVALID, "a_type is 0");
    CASE(desc->b_type = 77, KILN_INVALID, "b_type is 77");
    CASE(desc->c_type = 78, KILN_INVALID, "c_type is 78");
    CASE(desc->d_type = KILN_TYPE_COUNT, KILN_INVALID, "d_type is");
    CASE(desc->accumulator = 99, KILN_INVALID, "accumulator is 99");
    CASE(desc->a_alignment = 3, KILN_INVALID, "a_alignment is 3");
    CASE(desc->d_alignment = 48, KILN_INVALID, "d_alignment is 48");
    CASE(desc->precision = 3, KILN_UNSUPPORTED, "precision 3");
    CASE(desc->grouping = 4, KILN_UNSUPPORTED, "grouping 4");
    CASE(desc->groups = 2, KILN_INVALID, "give both or neither");
    CASE(desc->grouping = KILN_GROUPING_MASKED, KILN_INVALID, "give both or neither");
    CASE(desc->groups = -1, KILN_INVALID, "give both or neither");
    CASE(desc->head.flags = 512, KILN_UNSUPPORTED, "0x200");
    CASE(desc->epilogue_count = 9, KILN_INVALID, "9 epilogues");
    CASE(desc->epilogues[0].kind = KILN_EPILOGUE_RELU, KILN_INVALID, "epilogue 0 is set");
    CASE(desc->epilogue_count = 1, KILN_INVALID, "kind 0");
}

static void test_epilogue_descriptors(void **state)
{
    (void)state;
    static const struct {
        kiln_epilogue epilogue;
        kiln_status status;
        const char *words;
    } cases[] = {
        {{.kind = 99}, KILN_UNSUPPORTED, "kind 99"},
        {{.kind = KILN_EPILOGUE_BIAS, .operand = 9, .type = KILN_F32},
         KILN_UNSUPPORTED,
         "operand shape 9"},
        {{.kind = KILN_EPILOGUE_BIAS, .operand = KILN_OPERAND_MATRIX, .type = KILN_F32},
         KILN_INVALID,
         "cannot take"},
        {{.kind = KILN_EPILOGUE_RESIDUAL, .operand = KILN_OPERAND_ROW, .type = KILN_F32},
         KILN_INVALID,
         "cannot take"},
        {{.kind = KILN_EPILOGUE_RELU, .operand = KILN_OPERAND_ROW, .type = KILN_F32},
         KILN_INVALID,
         "cannot take"},
        {{.kind = KILN_EPILOGUE_BIAS}, KILN_INVALID, "type of an epilogue's operand is 0"},
        {{.kind = KILN_EPILOGUE_BIAS, .type = KILN_F32, .alignment = 6}, KILN_INVALID, "is 6"},
        {{.kind = KILN_EPILOGUE_RELU, .type = KILN_F32}, KILN_INVALID, "has no operand"},
        {{.kind = KILN_EPILOGUE_RELU, .p0 = 1}, KILN_INVALID, "takes no constants"},
        {{.kind = KILN_EPILOGUE_SCALE, .operand = KILN_OPERAND_ROW, .type = KILN_F32, .p0 = 2},
         KILN_INVALID,
         "takes no constants"},
        {{.kind = KILN_EPILOGUE_CLIP, .p0 = 1, .p1 = 0}, KILN_INVALID, "clips to [1, 0]"},
        {{.kind = KILN_EPILOGUE_CLIP, .p0 = NAN, .p1 = 0}, KILN_INVALID, "clips to"},
        {{.kind = KILN_EPILOGUE_SCALE, .p0 = 2, .p1 = 1}, KILN_INVALID, "no constants but p0"},
        {{.kind = KILN_EPILOGUE_SWIGLU, .operand = KILN_OPERAND_ROW, .type = KILN_F32},
         KILN_INVALID,
         "cannot take"},
        {{.kind = KILN_EPILOGUE_SWIGLU, .p0 = -2}, KILN_INVALID, "p0 = -2 columns"},
        {{.kind = KILN_EPILOGUE_SWIGLU, .p0 = 1.5}, KILN_INVALID, "p0 = 1.5 columns"},
        {{.kind = KILN_EPILOGUE_SWIGLU, .p0 = NAN}, KILN_INVALID, "takes pieces"},
        {{.kind = KILN_EPILOGUE_SWIGLU, .p0 = 1e300}, KILN_INVALID, "takes pieces"},
        {{.kind = KILN_EPILOGUE_SWIGLU, .p0 = 64}, KILN_INVALID, "pairs of 64 columns"},
        {{.kind = KILN_EPILOGUE_SWIGLU, .p1 = 1}, KILN_INVALID, "no constants but p0"},
        {{.kind = KILN_EPILOGUE_QUANTIZE, .operand = KILN_OPERAND_MATRIX, .type = KILN_F32},
         KILN_INVALID,
         "cannot take"},
        {{.kind = KILN_EPILOGUE_QUANTIZE, .p0 = 448}, KILN_INVALID, "takes no constants"},
        {{.kind = KILN_EPILOGUE_BIAS_GRADIENT}, KILN_INVALID, "operand is 0"},
        {{.kind = KILN_EPILOGUE_BIAS_GRADIENT, .type = KILN_BF16}, KILN_INVALID, "sums into bf16"},
        {{.kind = KILN_EPILOGUE_BIAS_GRADIENT, .type = KILN_F64}, KILN_INVALID, "sums into f64"},
        {{.kind = KILN_EPILOGUE_BIAS_GRADIENT, .operand = KILN_OPERAND_COLUMN, .type = KILN_F32},
         KILN_INVALID,
         "cannot take"},
        {{.kind = KILN_EPILOGUE_BIAS_GRADIENT, .operand = KILN_OPERAND_SCALAR, .type = KILN_F32},
         KILN_INVALID,
         "cannot take"},
    };
    for (int64_t i = 0; i < COUNT(cases); i++) {
        product p;
        make_product(&p);
        p.desc.epilogue_count = 1;
        p.desc.epilogues[0] = cases[i].epilogue;
        REFUSED(&p, cases[i].status, cases[i].words);
    }
}

static void test_precision_descriptors(void **state)
{
    (void)state;
    const double nan = (double)NAN, inf = (double)INFINITY;
    const struct {
        uint32_t precision;
        double error;
        const char *words; /* NULL = fine */
    } cases[] = {
        {KILN_PRECISION_EXACT, 0, NULL},     {KILN_PRECISION_EXACT, 0.25, "max_rel_error is 0.25"},
        {KILN_PRECISION_EXACT, -1, "is -1"}, {KILN_PRECISION_EXACT, nan, "is nan"},
        {KILN_PRECISION_FAST, 0, NULL},      {KILN_PRECISION_FAST, 0.01, "without it"},
        {KILN_PRECISION_AUTO, 0, NULL},      {KILN_PRECISION_AUTO, 1, NULL},
        {KILN_PRECISION_AUTO, 1e-300, NULL}, {KILN_PRECISION_AUTO, 1.001, "from 0 to 1"},
        {KILN_PRECISION_AUTO, -0.5, "from"}, {KILN_PRECISION_AUTO, nan, "from"},
        {KILN_PRECISION_AUTO, inf, "from"},
    };
    for (int64_t i = 0; i < COUNT(cases); i++) {
        product p;
        CASE((desc->precision = cases[i].precision, desc->max_rel_error = cases[i].error),
             cases[i].words ? KILN_INVALID : KILN_OK, cases[i].words);
    }
}

static void test_grouping_descriptors(void **state)
{
    (void)state;
    static const struct {
        uint32_t grouping, flags;
        int64_t groups, batch, alignment;
        const char *words; /* NULL = fine */
    } cases[] = {
        {KILN_GROUPING_K, 0, 2, 0, 0, NULL},
        {KILN_GROUPING_K, 0, INT64_MAX, 1, 128, NULL},
        {KILN_GROUPING_CONTIGUOUS, KILN_GEMM_DYNAMIC_M, 1, 1, 1, NULL},
        {KILN_GROUPING_MASKED, 0, 3, 1, 128, NULL},
        {KILN_GROUPING_MASKED, 0, 0, 1, 0, "give both or neither"},
        {KILN_GROUPING_MASKED, 0, -3, 1, 0, "give both or neither"},
        {KILN_GROUPING_MASKED, 0, 3, 2, 0, "batch is 2"},
        {KILN_GROUPING_CONTIGUOUS, KILN_GEMM_DYNAMIC_BATCH, 3, 1, 0, "batch is dynamic, up to 1"},
        {KILN_GROUPING_K, 0, 3, 1, -1, "group_alignment is -1"},
        {KILN_GROUPING_NONE, 0, 0, 1, 128, "without a grouping it must be 0"},
        {KILN_GROUPING_NONE, 0, 0, 1, -1, "group_alignment is -1"},
    };
    const kiln_operator *gemm = kiln_operator_find(KILN_GEMM);
    for (int64_t i = 0; i < COUNT(cases); i++) {
        product p;
        make_product(&p);
        p.desc.head.flags = cases[i].flags;
        p.desc.grouping = cases[i].grouping;
        p.desc.groups = cases[i].groups;
        p.desc.batch = cases[i].batch;
        p.desc.group_alignment = cases[i].alignment;
        if (cases[i].words)
            assert_fails(gemm->canonicalise(&p.desc), KILN_INVALID, cases[i].words);
        else
            assert_ok(gemm->canonicalise(&p.desc));
    }
}

static void test_quantization_descriptors(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        kiln_quantization quantization;
        const char *words; /* NULL = fine */
    } cases[] = {
        {KILN_E4M3, {KILN_F32, 0, {1, 128}}, NULL},
        {KILN_E5M2, {KILN_UE8M0, 0, {-1, 32}}, NULL},
        {KILN_E2M1, {KILN_E4M3, 0, {1, 16}}, NULL},
        {KILN_I8, {KILN_F16, KILN_I8, {-1, -1}}, NULL},
        {KILN_U8, {KILN_BF16, KILN_U8, {INT32_MAX, 1}}, NULL},
        {KILN_I4, {KILN_TYPE_NONE, KILN_I4, {1, 1}}, NULL},
        {KILN_U4, {KILN_F32, KILN_U4, {1, 32}}, NULL},
        {KILN_E4M3, {0, 0, {1, 128}}, "neither a scale_type nor a zero_type"},
        {KILN_E4M3, {0, 0, {0, -1}}, "block[1] is -1"},
        {KILN_E4M3, {KILN_F32, 0, {0, 128}}, "block[0] is 0"},
        {KILN_E4M3, {KILN_F32, 0, {1, -2}}, "block[1] is -2"},
        {KILN_I8, {0, KILN_I8, {1, INT32_MIN}}, "block[1] is -2147483648"},
        {KILN_F32, {KILN_F32, 0, {1, 128}}, "scales and zero points are for"},
        {KILN_BF16, {KILN_F32, 0, {1, 128}}, "scales and zero points are for"},
        {KILN_I32, {KILN_F32, 0, {1, 128}}, "scales and zero points are for"},
        {KILN_UE8M0, {KILN_F32, 0, {1, 128}}, "scales and zero points are for"},
        {KILN_BOOL, {KILN_F32, 0, {1, 128}}, "scales and zero points are for"},
        {KILN_E4M3, {KILN_F64, 0, {1, 128}}, "scale_type is f64"},
        {KILN_E4M3, {KILN_E5M2, 0, {1, 128}}, "scale_type is e5m2"},
        {KILN_I8, {KILN_I8, 0, {1, 128}}, "scale_type is i8"},
        {KILN_I8, {99, 0, {1, 128}}, "is 99"},
        {KILN_I8, {KILN_F32, 98, {1, 128}}, "is 98"},
        {KILN_I8, {KILN_F32, KILN_U8, {1, 128}}, "zero_type is u8, but"},
        {KILN_I4, {KILN_F32, KILN_I8, {1, 128}}, "zero_type is i8, but"},
        {KILN_E4M3, {KILN_F32, KILN_E4M3, {1, 128}}, "zero points are for integers"},
    };
    const kiln_operator *gemm = kiln_operator_find(KILN_GEMM);
    for (int64_t i = 0; i < 2 * COUNT(cases); i++) {
        product p;
        make_product(&p);
        bool of_a = i % 2;
        *(of_a ? &p.desc.a_type : &p.desc.b_type) = cases[i / 2].type;
        *(of_a ? &p.desc.a_quantization : &p.desc.b_quantization) = cases[i / 2].quantization;
        if (cases[i / 2].words)
            assert_fails(gemm->canonicalise(&p.desc), KILN_INVALID, cases[i / 2].words);
        else
            assert_ok(gemm->canonicalise(&p.desc));
    }
}

/* What D's quantisation and the epilogues demand of one another. */
static void test_epilogues_together(void **state)
{
    (void)state;
#define KINDS(...)  \
    {               \
        __VA_ARGS__ \
    }
    static const struct {
        uint32_t kinds[4], d_type, flags;
        int64_t n;
        kiln_quantization quantization;
        const char *words; /* NULL = fine */
    } cases[] = {
        {KINDS(KILN_EPILOGUE_SWIGLU), KILN_F32, 0, 6, {0}, NULL},
        {KINDS(KILN_EPILOGUE_SWIGLU), KILN_F32, 0, 0, {0}, NULL},
        {KINDS(KILN_EPILOGUE_SWIGLU), KILN_F32, KILN_GEMM_DYNAMIC_N, 7, {0}, NULL},
        {KINDS(KILN_EPILOGUE_SWIGLU), KILN_F32, 0, 7, {0}, "n is 7"},
        {KINDS(KILN_EPILOGUE_SWIGLU, KILN_EPILOGUE_RELU, KILN_EPILOGUE_SWIGLU),
         KILN_F32,
         0,
         8,
         {0},
         "epilogue 2 is a second"},
        {KINDS(KILN_EPILOGUE_QUANTIZE), KILN_E4M3, 0, 6, {KILN_F32, 0, {1, 128}}, NULL},
        {KINDS(KILN_EPILOGUE_QUANTIZE), KILN_E2M1, 0, 6, {KILN_UE8M0, 0, {1, 32}}, NULL},
        {KINDS(KILN_EPILOGUE_SWIGLU, KILN_EPILOGUE_QUANTIZE),
         KILN_I8,
         0,
         6,
         {KILN_F32, 0, {1, -1}},
         NULL},
        {KINDS(KILN_EPILOGUE_QUANTIZE, KILN_EPILOGUE_RELU),
         KILN_I8,
         0,
         6,
         {KILN_F32, 0, {1, -1}},
         "epilogue 1 follows"},
        {KINDS(KILN_EPILOGUE_QUANTIZE, KILN_EPILOGUE_QUANTIZE),
         KILN_I8,
         0,
         6,
         {KILN_F32, 0, {1, -1}},
         "epilogue 1 follows"},
        {KINDS(KILN_EPILOGUE_QUANTIZE), KILN_E4M3, 0, 6, {0}, "d_quantization is zeroed"},
        {KINDS(KILN_EPILOGUE_RELU),
         KILN_E4M3,
         0,
         6,
         {KILN_F32, 0, {1, 128}},
         "the epilogue is missing"},
        {KINDS(0), KILN_E4M3, 0, 6, {KILN_F32, 0, {1, 128}}, "the epilogue is missing"},
        {KINDS(KILN_EPILOGUE_QUANTIZE), KILN_BF16, 0, 6, {KILN_F32, 0, {1, 128}}, "d_type is bf16"},
        {KINDS(KILN_EPILOGUE_QUANTIZE),
         KILN_E4M3,
         0,
         6,
         {KILN_BF16, 0, {1, 128}},
         "scale_type bf16"},
        {KINDS(KILN_EPILOGUE_QUANTIZE),
         KILN_I8,
         0,
         6,
         {KILN_F32, KILN_I8, {1, 128}},
         "no zero points"},
        {KINDS(KILN_EPILOGUE_QUANTIZE),
         KILN_I8,
         0,
         6,
         {KILN_TYPE_NONE, KILN_I8, {1, 128}},
         "no zero points"},
        {KINDS(KILN_EPILOGUE_QUANTIZE),
         KILN_E4M3,
         0,
         6,
         {KILN_F32, 0, {128, 128}},
         "block[0] is 128"},
        {KINDS(KILN_EPILOGUE_QUANTIZE), KILN_E4M3, 0, 6, {KILN_F32, 0, {-1, 128}}, "[0] is -1"},
        {KINDS(KILN_EPILOGUE_QUANTIZE), KILN_E4M3, 0, 6, {KILN_F32, 0, {1, 0}}, "block[1] is 0"},
    };
#undef KINDS
    const kiln_operator *gemm = kiln_operator_find(KILN_GEMM);
    for (int64_t i = 0; i < COUNT(cases); i++) {
        product p;
        make_product(&p);
        p.desc.head.flags = cases[i].flags;
        p.desc.n = cases[i].n;
        p.desc.d_type = cases[i].d_type;
        p.desc.d_quantization = cases[i].quantization;
        for (int j = 0; j < 4 && cases[i].kinds[j]; j++)
            p.desc.epilogues[p.desc.epilogue_count++].kind = cases[i].kinds[j];
        if (cases[i].words)
            assert_fails(gemm->canonicalise(&p.desc), KILN_INVALID, cases[i].words);
        else
            assert_ok(gemm->canonicalise(&p.desc));
    }
}

/* One form for what means the same, so that it has one key. */
static void test_canonical_form(void **state)
{
    (void)state;
    product p;
    make_product(&p);
    kiln_gemm_desc plain = p.desc, spelt = p.desc;
    plain.epilogue_count = spelt.epilogue_count = 2;
    plain.epilogues[0] = (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS, .type = KILN_F32};
    spelt.epilogues[0] = (kiln_epilogue){
        .kind = KILN_EPILOGUE_BIAS, .operand = KILN_OPERAND_ROW, .type = KILN_F32, .alignment = 4};
    plain.epilogues[1] = (kiln_epilogue){.kind = KILN_EPILOGUE_RESIDUAL, .type = KILN_BF16};
    spelt.epilogues[1] = (kiln_epilogue){.kind = KILN_EPILOGUE_RESIDUAL,
                                         .operand = KILN_OPERAND_MATRIX,
                                         .type = KILN_BF16,
                                         .alignment = 2};
    spelt.batch = 1;
    spelt.a_alignment = spelt.d_alignment = 4;
    spelt.precision = KILN_PRECISION_AUTO;
    spelt.max_rel_error = -0.0;
    spelt.epilogues[0].p0 = spelt.epilogues[1].p1 = -0.0;
    plain.b_type = spelt.b_type = KILN_I4;
    spelt.b_alignment = 1;
    plain.c_type = spelt.c_type = KILN_TYPE_NONE;
    spelt.c_alignment = 64;
    plain.grouping = spelt.grouping = KILN_GROUPING_MASKED;
    plain.groups = spelt.groups = 2;
    spelt.group_alignment = 1;
    const kiln_operator *gemm = kiln_operator_find(KILN_GEMM);
    assert_ok(gemm->canonicalise(&plain));
    assert_ok(gemm->canonicalise(&spelt));
    assert_memory_equal(&plain, &spelt, sizeof plain);
    assert_ok(gemm->canonicalise(&spelt));
    assert_memory_equal(&plain, &spelt, sizeof plain);
    spelt.group_alignment = 2; /* that says something */
    assert_ok(gemm->canonicalise(&spelt));
    assert_int_equal(spelt.group_alignment, 2);
    spelt.b_alignment = 2;
    assert_ok(gemm->canonicalise(&spelt));
    assert_int_equal(spelt.b_alignment, 2);
}

/* Pieces of swiglu that are half of a known N have one spelling. */
static void test_pieces(void **state)
{
    (void)state;
    static const struct {
        int64_t n;
        uint32_t flags;
        double given, wanted;
    } cases[] = {
        {8, 0, 0, 0},   {8, 0, 1, 0},  {8, 0, 2, 2}, {8, 0, 4, -1},
        {8, 0, -1, -1}, {2, 0, -1, 0}, {2, 0, 1, 0}, {8, KILN_GEMM_DYNAMIC_N, 4, 4},
    };
    const kiln_operator *gemm = kiln_operator_find(KILN_GEMM);
    for (int64_t i = 0; i < COUNT(cases); i++) {
        product p;
        make_product(&p);
        p.desc.head.flags = cases[i].flags;
        p.desc.n = cases[i].n;
        p.desc.epilogue_count = 1;
        p.desc.epilogues[0] = (kiln_epilogue){.kind = KILN_EPILOGUE_SWIGLU, .p0 = cases[i].given};
        assert_ok(gemm->canonicalise(&p.desc));
        assert_true(p.desc.epilogues[0].p0 == cases[i].wanted);
    }
}

/* What GROUPS counts must fit in i32. */
static void test_limits_of_groups(void **state)
{
    (void)state;
    const kiln_operator *gemm = kiln_operator_find(KILN_GEMM);
    for (uint32_t grouping = KILN_GROUPING_CONTIGUOUS; grouping <= KILN_GROUPING_K; grouping++)
        for (int which = 0; which < 2; which++) {
            product p;
            make_product(&p);
            p.desc.grouping = grouping;
            p.desc.groups = 2;
            int64_t *counted = which ? &p.desc.k : &p.desc.m;
            bool limited = grouping == (which ? KILN_GROUPING_K : KILN_GROUPING_MASKED);
            *counted = INT32_MAX;
            assert_ok(gemm->canonicalise(&p.desc));
            *counted = (int64_t)INT32_MAX + 1;
            if (limited)
                assert_fails(gemm->canonicalise(&p.desc), KILN_INVALID, "not be beyond 2147483647");
            else
                assert_ok(gemm->canonicalise(&p.desc));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_epilogue_descriptors),
        cmocka_unit_test(test_precision_descriptors),
        cmocka_unit_test(test_grouping_descriptors),
        cmocka_unit_test(test_limits_of_groups),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_quantization_descriptors),
        cmocka_unit_test(test_epilogues_together),
        cmocka_unit_test(test_canonical_form),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
