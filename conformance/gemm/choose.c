/* SPDX-License-Identifier: Apache-2.0 */
/* What a random case asks. It is chosen for what has gone wrong in BLAS libraries: sizes beside
 * powers of two, rows with gaps, bases off every alignment, broadcast batches, C that is D, NaN
 * where nothing may be read. */
#include <math.h>

#include "conformance/gemm/case.h"
#include "conformance/gemm/numeric.h"

enum { LARGEST_WORK = 1500000 };

/* ---- Sizes ---- */

static int64_t choose_dimension(uint64_t *random)
{
    static const int64_t edges[] = {1,  2,  3,  5,  7,  8,  13, 15, 16, 17,  31,  32,  33,
                                    37, 47, 53, 61, 63, 64, 65, 79, 97, 127, 128, 129, 130};
    return conformance_random_one_in(random, 40) ? 0 : CONFORMANCE_RANDOM_OF(random, edges);
}

static int64_t work(const conformance_gemm_case *test)
{
    int64_t times = test->desc.grouping == KILN_GROUPING_MASKED ? test->desc.groups : test->batch;
    return times * test->m * test->n * test->k;
}

static void choose_sizes(uint64_t *random, conformance_gemm_case *test)
{
    static const int64_t batches[] = {1, 1, 1, 2, 3, 5}, groups[] = {1, 2, 3, 4, 6, 9};
    static const int64_t depths[] = {144, 160, 192, 255, 256, 257, 320, 384, 512, 513, 640, 1000};
    static const int64_t deep[] = {1100, 1555, 2049, 2200};
    const kiln_gemm_desc *desc = &test->desc;
    int64_t *sizes[] = {&test->m, &test->n, &test->k};
    for (int i = 0; i < 3; i++)
        *sizes[i] = choose_dimension(random);
    if (conformance_random_one_in(random, 12))
        *sizes[conformance_random_below(random, 3)] = 200 + conformance_random_below(random, 2000);
    if ((desc->a_quantization.scale_type || desc->b_quantization.scale_type) &&
        conformance_random_one_in(random, 3))
        test->k = CONFORMANCE_RANDOM_OF(random, depths);
    if (test->features & CONFORMANCE_GEMM_DEEP) {
        test->m = 1 + conformance_random_below(random, 12);
        test->n = 1 + conformance_random_below(random, 12);
        test->k = CONFORMANCE_RANDOM_OF(random, deep);
    }
    test->batch = 1;
    if (test->desc.grouping != KILN_GROUPING_NONE)
        test->desc.groups = CONFORMANCE_RANDOM_OF(random, groups);
    else
        test->batch = CONFORMANCE_RANDOM_OF(random, batches);
    while (work(test) > LARGEST_WORK)
        *sizes[conformance_random_below(random, 3)] /= 2;
}

/* A maximum for a dimension, which becomes dynamic; or the dimension itself. */
static int64_t choose_maximum(uint64_t *random, int64_t size, uint32_t flag, kiln_gemm_desc *desc)
{
    if (!conformance_random_one_in(random, 3))
        return size;
    desc->head.flags |= flag;
    return conformance_random_one_in(random, 2)
               ? size + conformance_random_below(random, 70) + (size == 0)
               : kiln_round_up_pow2(size);
}

/* ---- Types ---- */

static bool is_quantisable(uint32_t type)
{
    return type == KILN_E4M3 || type == KILN_E5M2 || type == KILN_E2M1 ||
           conformance_type_is_integer(type);
}

static conformance_gemm_blocks choose_blocks(uint64_t *random, uint32_t type)
{
    static const uint32_t scales[] = {KILN_F32,  KILN_F16,   KILN_BF16,
                                      KILN_E4M3, KILN_UE8M0, KILN_TYPE_NONE};
    static const int32_t extents[] = {1, 1, 2, 3, 5, 16, 32, 64, 128, -1, -1};
    conformance_gemm_blocks blocks = {0};
    if (!is_quantisable(type) || conformance_random_one_in(random, 4))
        return blocks;
    blocks.scale_type = CONFORMANCE_RANDOM_OF(random, scales);
    if (conformance_type_is_integer(type) && conformance_random_one_in(random, 2))
        blocks.zero_type = type;
    blocks.across = CONFORMANCE_RANDOM_OF(random, extents);
    blocks.along_k = CONFORMANCE_RANDOM_OF(random, extents);
    return blocks;
}

kiln_quantization conformance_gemm_quantization(const conformance_gemm_blocks *blocks,
                                                bool k_is_row)
{
    kiln_quantization quantization = {.scale_type = blocks->scale_type,
                                      .zero_type = blocks->zero_type};
    quantization.block[!k_is_row] = blocks->along_k;
    quantization.block[k_is_row] = blocks->across;
    return quantization;
}

/* As the type says, or now and then with other blocks. */
static kiln_quantization choose_quantization(uint64_t *random, conformance_gemm_blocks blocks,
                                             bool k_is_row)
{
    static const int32_t extents[] = {1, 2, 3, 7, 16, 32, 64, -1};
    if (!blocks.scale_type && !blocks.zero_type)
        return (kiln_quantization){0};
    if (conformance_random_one_in(random, 6))
        blocks.across = CONFORMANCE_RANDOM_OF(random, extents);
    if (conformance_random_one_in(random, 6))
        blocks.along_k = CONFORMANCE_RANDOM_OF(random, extents);
    return conformance_gemm_quantization(&blocks, k_is_row);
}

static void choose_types(uint64_t *random, conformance_gemm_case *test)
{
    static const uint32_t any[] = {KILN_F32,  KILN_F16, KILN_BF16, KILN_E4M3, KILN_E5M2,
                                   KILN_E2M1, KILN_I8,  KILN_U8,   KILN_I4,   KILN_U4};
    const conformance_gemm_type *type = &conformance_gemm_types[test->type];
    kiln_gemm_desc *desc = &test->desc;
    conformance_gemm_blocks a_blocks = type->a_blocks, b_blocks = type->b_blocks;
    desc->a_type = type->a;
    desc->b_type = type->b;
    if (!type->a) {
        desc->a_type = CONFORMANCE_RANDOM_OF(random, any);
        desc->b_type = CONFORMANCE_RANDOM_OF(random, any);
        a_blocks = choose_blocks(random, desc->a_type);
        b_blocks = choose_blocks(random, desc->b_type);
    }
    desc->a_quantization =
        choose_quantization(random, a_blocks, desc->head.flags & KILN_GEMM_TRANSPOSE_A);
    desc->b_quantization =
        choose_quantization(random, b_blocks, !(desc->head.flags & KILN_GEMM_TRANSPOSE_B));
}

/* A type that C or D may have. */
static uint32_t choose_output_type(uint64_t *random, const kiln_gemm_desc *desc)
{
    uint32_t own = kiln_type_bits(desc->a_type) >= 16 ? desc->a_type : (uint32_t)KILN_BF16;
    bool whole = conformance_type_is_integer(desc->a_type) &&
                 conformance_type_is_integer(desc->b_type) && !desc->a_quantization.scale_type &&
                 !desc->b_quantization.scale_type;
    uint32_t choices[] = {own,      own,       KILN_F32, KILN_F32, KILN_F16,  KILN_BF16,
                          KILN_F32, KILN_BF16, KILN_I8,  KILN_U8,  KILN_E4M3, KILN_E5M2};
    if (whole)
        choices[0] = choices[1] = KILN_I32;
    return CONFORMANCE_RANDOM_OF(random, choices);
}

static void choose_outputs(uint64_t *random, kiln_gemm_desc *desc, bool quantizes)
{
    static const uint32_t quantized[] = {KILN_E4M3, KILN_E4M3, KILN_E4M3, KILN_I8, KILN_I8,
                                         KILN_E2M1, KILN_E2M1, KILN_E5M2, KILN_U8};
    static const int32_t blocks[] = {128, 128, 128, 64, 32, 16, 5, 1, -1};
    static const uint32_t scales[] = {KILN_F32, KILN_F32, KILN_UE8M0, KILN_UE8M0, KILN_E4M3};
    desc->d_type = choose_output_type(random, desc);
    if (quantizes) {
        desc->d_type = CONFORMANCE_RANDOM_OF(random, quantized);
        desc->d_quantization.scale_type = CONFORMANCE_RANDOM_OF(random, scales);
        desc->d_quantization.block[0] = 1;
        desc->d_quantization.block[1] = CONFORMANCE_RANDOM_OF(random, blocks);
    }
    if (!conformance_random_one_in(random, 3))
        desc->c_type =
            conformance_random_one_in(random, 3) && !(quantizes && kiln_type_bits(desc->d_type) < 8)
                ? desc->d_type
                : choose_output_type(random, desc);
}

/* ---- Epilogues ---- */

static uint32_t choose_operand_type(uint64_t *random, uint32_t a_type)
{
    static const uint32_t narrow[] = {KILN_F32, KILN_F16, KILN_BF16};
    return a_type == KILN_F64 && conformance_random_one_in(random, 2)
               ? (uint32_t)KILN_F64
               : CONFORMANCE_RANDOM_OF(random, narrow);
}

static kiln_epilogue choose_epilogue(uint64_t *random, uint32_t kind, uint32_t a_type)
{
    static const double pieces[] = {0, 0, 0, -1, -1, 1, 2, 3, 16, 64};
    kiln_epilogue epilogue = {.kind = kind};
    switch (kind) {
    case KILN_EPILOGUE_BIAS:
        epilogue.operand = (uint32_t)(KILN_OPERAND_SCALAR + conformance_random_below(random, 3));
        break;
    case KILN_EPILOGUE_SCALE:
        epilogue.operand = (uint32_t)conformance_random_below(random, 4);
        if (epilogue.operand == KILN_OPERAND_NONE)
            epilogue.p0 = 2 * conformance_random_unit(random);
        break;
    case KILN_EPILOGUE_RESIDUAL:
    case KILN_EPILOGUE_MULTIPLY:
        epilogue.operand = KILN_OPERAND_MATRIX;
        break;
    case KILN_EPILOGUE_SWIGLU:
        epilogue.p0 = CONFORMANCE_RANDOM_OF(random, pieces);
        break;
    case KILN_EPILOGUE_CLIP:
        epilogue.p0 = 4 * conformance_random_unit(random);
        epilogue.p1 = epilogue.p0 + 4 + 4 * conformance_random_unit(random);
        if (conformance_random_one_in(random, 6))
            epilogue.p0 = -(double)INFINITY;
        else if (conformance_random_one_in(random, 6))
            epilogue.p1 = (double)INFINITY;
        break;
    case KILN_EPILOGUE_BIAS_GRADIENT:
        epilogue.operand = KILN_OPERAND_ROW;
        epilogue.type = a_type == KILN_F64 ? KILN_F64 : KILN_F32;
        return epilogue;
    default:
        break;
    }
    if (epilogue.operand != KILN_OPERAND_NONE)
        epilogue.type = choose_operand_type(random, a_type);
    return epilogue;
}

bool conformance_gemm_occurs(const kiln_gemm_desc *desc, uint32_t kind)
{
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        if (desc->epilogues[i].kind == kind)
            return true;
    return kind == KILN_EPILOGUE_NONE && desc->epilogue_count == 0;
}

/* None; or up to 8, of which one is the kind that is asked for. */
static void choose_epilogues(uint64_t *random, kiln_gemm_desc *desc, uint32_t asked)
{
    static const uint32_t kinds[] = {
        KILN_EPILOGUE_BIAS,      KILN_EPILOGUE_RELU,         KILN_EPILOGUE_GELU_ERF,
        KILN_EPILOGUE_GELU_TANH, KILN_EPILOGUE_SILU,         KILN_EPILOGUE_RESIDUAL,
        KILN_EPILOGUE_MULTIPLY,  KILN_EPILOGUE_SCALE,        KILN_EPILOGUE_CLIP,
        KILN_EPILOGUE_SWIGLU,    KILN_EPILOGUE_BIAS_GRADIENT};
    if (asked == KILN_EPILOGUE_NONE)
        return;
    int64_t most = conformance_random_one_in(random, 2) ? 3 : KILN_GEMM_MAX_EPILOGUES;
    uint32_t count = (uint32_t)(1 + conformance_random_below(random, most));
    bool quantizes = asked == KILN_EPILOGUE_QUANTIZE || conformance_random_one_in(random, 12);
    /* Where the kind that is asked for stands: quantising comes last. */
    uint32_t last = count - 1, at = (uint32_t)conformance_random_below(random, count);
    if (quantizes && asked != KILN_EPILOGUE_QUANTIZE && at == last)
        quantizes = false;
    bool pairs = asked == KILN_EPILOGUE_SWIGLU;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t kind = CONFORMANCE_RANDOM_OF(random, kinds);
        if (kind == KILN_EPILOGUE_SWIGLU && pairs)
            kind = KILN_EPILOGUE_RELU;
        pairs |= kind == KILN_EPILOGUE_SWIGLU;
        if (i == last && quantizes)
            kind = KILN_EPILOGUE_QUANTIZE;
        else if (i == at && asked != KILN_EPILOGUE_QUANTIZE)
            kind = asked;
        desc->epilogues[i] = choose_epilogue(random, kind, desc->a_type);
    }
    desc->epilogue_count = count;
}

/* ---- Factors ---- */

static double choose_factor(uint64_t *random)
{
    static const double simple[] = {0, 1, 1, 1, -1};
    int64_t choice = conformance_random_below(random, 8);
    if (conformance_random_one_in(random, 50))
        return 0x1p-200; /* 0 in f32 */
    return choice < 5   ? simple[choice]
           : choice < 7 ? 2 * conformance_random_unit(random)
                        : conformance_random_unit(random) * 0x1p-8;
}

static double typical_size(uint32_t type, double spread)
{
    switch (type) {
    case KILN_I8:
    case KILN_U8:
        return 100;
    case KILN_I4:
    case KILN_U4:
    case KILN_E2M1:
        return 5;
    case KILN_E4M3:
    case KILN_E5M2:
        return fmin(spread, 16) / 2;
    default:
        return spread / 2;
    }
}

/* Mostly, so that sums fall within D's range: otherwise little would be seen of narrow types. */
static double fit_factor(uint64_t *random, const conformance_gemm_case *test, double alpha)
{
    const kiln_gemm_desc *desc = &test->desc;
    double wanted = conformance_type_largest(desc->d_type) / 4;
    double typical = sqrt((double)test->k) * typical_size(desc->a_type, test->spread) *
                     typical_size(desc->b_type, test->spread);
    if (desc->d_quantization.scale_type || typical <= wanted ||
        conformance_random_one_in(random, 4))
        return alpha;
    int exponent;
    frexp(typical / wanted, &exponent);
    return ldexp(alpha, -exponent);
}

/* ---- The case ---- */

uint64_t conformance_case_random(uint64_t seed, int64_t index)
{
    uint64_t random = seed;
    return conformance_random(&random) + (uint64_t)index;
}

static void choose_maxima(uint64_t *random, conformance_gemm_case *test)
{
    kiln_gemm_desc *desc = &test->desc;
    desc->m = choose_maximum(random, test->m, KILN_GEMM_DYNAMIC_M, desc);
    desc->n = choose_maximum(random, test->n, KILN_GEMM_DYNAMIC_N, desc);
    desc->k = choose_maximum(random, test->k, KILN_GEMM_DYNAMIC_K, desc);
    desc->batch = test->batch;
    if (desc->grouping == KILN_GROUPING_NONE)
        desc->batch = choose_maximum(random, test->batch, KILN_GEMM_DYNAMIC_BATCH, desc);
    if ((desc->head.flags & KILN_GEMM_DYNAMIC_BATCH) && conformance_random_one_in(random, 20))
        test->batch = 0;
    /* An operand is packed whole: at its maxima. */
    if (conformance_random_one_in(random, 4)) {
        desc->head.flags |= KILN_GEMM_PACKED_B;
        desc->n = test->n;
        desc->k = test->k;
    }
    if (conformance_random_one_in(random, 12)) {
        desc->head.flags |= KILN_GEMM_PACKED_A;
        desc->m = test->m;
        desc->k = test->k;
    }
    if (conformance_gemm_occurs(desc, KILN_EPILOGUE_SWIGLU))
        desc->n += desc->n % 2;
}

static void choose_precision(uint64_t *random, kiln_gemm_desc *desc)
{
    static const double errors[] = {0, 0x1p-20, 0x1p-10, 0.25};
    if (conformance_random_one_in(random, 16)) {
        desc->precision = KILN_PRECISION_FAST;
    } else if (conformance_random_one_in(random, 16)) {
        desc->precision = KILN_PRECISION_AUTO;
        desc->max_rel_error = CONFORMANCE_RANDOM_OF(random, errors);
    }
}

static void choose_group_alignment(uint64_t *random, kiln_gemm_desc *desc)
{
    static const int64_t alignments[] = {1, 2, 4, 8, 16, 128};
    if (desc->grouping != KILN_GROUPING_NONE && conformance_random_one_in(random, 3))
        desc->group_alignment = CONFORMANCE_RANDOM_OF(random, alignments);
}

/* `n`, or more: pairs of pieces of swiglu. */
static int64_t whole_pairs(const kiln_gemm_desc *desc, int64_t n)
{
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        if (desc->epilogues[i].kind == KILN_EPILOGUE_SWIGLU) {
            int64_t pair = desc->epilogues[i].p0 > 0 ? 2 * (int64_t)desc->epilogues[i].p0 : 2;
            return (n + pair - 1) / pair * pair;
        }
    return n;
}

static uint32_t features_of(const conformance_gemm_case *test)
{
    const kiln_gemm_desc *desc = &test->desc;
    uint32_t flags = desc->head.flags, dynamic = KILN_GEMM_DYNAMIC_M | KILN_GEMM_DYNAMIC_N |
                                                 KILN_GEMM_DYNAMIC_K | KILN_GEMM_DYNAMIC_BATCH;
    bool empty = test->m == 0 || test->n == 0 || test->k == 0 || test->batch == 0;
    return (empty ? CONFORMANCE_GEMM_ZERO_SIZE : 0u) |
           (flags & dynamic ? CONFORMANCE_GEMM_DYNAMIC : 0u) |
           (flags & (KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B) ? CONFORMANCE_GEMM_PACKED : 0u) |
           (test->aliased ? CONFORMANCE_GEMM_ALIASED : 0u) |
           (test->streamed ? CONFORMANCE_GEMM_STREAMED : 0u) |
           (test->wrapped ? CONFORMANCE_GEMM_WRAPPED : 0u) |
           (desc->precision != KILN_PRECISION_EXACT ? CONFORMANCE_GEMM_APPROXIMATE : 0u) |
           (desc->c_type && !test->aliased && kiln_gemm_factor(desc, test->beta) == 0
                ? CONFORMANCE_GEMM_UNREAD_C
                : 0u) |
           (kiln_gemm_factor(desc, test->alpha) == 0 ? CONFORMANCE_GEMM_UNREAD_AB : 0u) |
           (flags & KILN_GEMM_SATURATE ? CONFORMANCE_GEMM_SATURATING : 0u) |
           (test->batch > 1 ? CONFORMANCE_GEMM_BATCHED : 0u);
}

/* What is special about values and memory. */
static uint32_t choose_features(uint64_t *random, const kiln_gemm_desc *desc)
{
    static const uint32_t plants[] = {0, 0, 0, CONFORMANCE_GEMM_SPECIALS,
                                      CONFORMANCE_GEMM_DENORMALS};
    uint32_t features = CONFORMANCE_RANDOM_OF(random, plants);
    if (!conformance_random_one_in(random, 4))
        features |= CONFORMANCE_GEMM_GAPS;
    if ((desc->a_quantization.scale_type || desc->b_quantization.scale_type) &&
        conformance_random_one_in(random, 200))
        features |= CONFORMANCE_GEMM_EXTREME;
    return features;
}

void conformance_case_choose(uint64_t *random, conformance_gemm_case *test)
{
    static const double spreads[] = {1, 1, 1, 0x1p-10, 64, 4096};
    kiln_gemm_desc *desc = &test->desc;
    uint64_t index = (uint64_t)test->index, layout = index % CONFORMANCE_GEMM_LAYOUTS;
    test->type = (int)(index % CONFORMANCE_GEMM_TYPES);
    desc->head.struct_size = sizeof *desc;
    desc->head.flags = (uint32_t)(layout / 2) * KILN_GEMM_TRANSPOSE_A |
                       (uint32_t)(layout % 2) * KILN_GEMM_TRANSPOSE_B;
    desc->grouping = (uint32_t)(index / CONFORMANCE_GEMM_LAYOUTS % CONFORMANCE_GEMM_GROUPINGS);
    test->spread = CONFORMANCE_RANDOM_OF(random, spreads);

    choose_types(random, test);
    choose_epilogues(random, desc, (uint32_t)(index % CONFORMANCE_GEMM_KINDS));
    bool pairs = conformance_gemm_occurs(desc, KILN_EPILOGUE_SWIGLU);
    if (conformance_type_is_integer(desc->a_type) && conformance_type_is_integer(desc->b_type) &&
        conformance_random_one_in(random, 8))
        test->features = CONFORMANCE_GEMM_DEEP;
    choose_sizes(random, test);
    test->n = whole_pairs(desc, test->n);
    test->d_columns = pairs ? test->n / 2 : test->n;
    choose_maxima(random, test);
    choose_outputs(random, desc, conformance_gemm_occurs(desc, KILN_EPILOGUE_QUANTIZE));
    choose_precision(random, desc);
    choose_group_alignment(random, desc);
    if (conformance_random_one_in(random, 3))
        desc->head.flags |= KILN_GEMM_SATURATE;
    test->alpha = fit_factor(random, test, choose_factor(random));
    test->beta = desc->c_type == KILN_TYPE_NONE ? 0 : choose_factor(random);
    test->aliased = desc->c_type == desc->d_type && !pairs && conformance_random_one_in(random, 2);
    test->wrapped = conformance_random_one_in(random, 4);
    test->streamed = conformance_random_one_in(random, 3);
    test->features |= choose_features(random, desc) | features_of(test);
}

bool conformance_case_matches(const conformance_gemm_case *test,
                              const conformance_gemm_filter *filter)
{
    uint32_t layout = (test->desc.head.flags & KILN_GEMM_TRANSPOSE_A ? 2 : 0) +
                      (test->desc.head.flags & KILN_GEMM_TRANSPOSE_B ? 1 : 0);
    bool kind = filter->kinds == 0;
    for (uint32_t i = 0; i < CONFORMANCE_GEMM_KINDS; i++)
        kind |= (filter->kinds >> i & 1) &&
                (i == KILN_EPILOGUE_NONE ? test->desc.epilogue_count == 0
                                         : conformance_gemm_occurs(&test->desc, i));
    return kind && (!filter->types || filter->types >> test->type & 1) &&
           (!filter->layouts || filter->layouts >> layout & 1) &&
           (!filter->groupings || filter->groupings >> test->desc.grouping & 1) &&
           (test->features & filter->features) == filter->features &&
           !(test->features & filter->without);
}
