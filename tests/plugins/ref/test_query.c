/* SPDX-License-Identifier: Apache-2.0 */
/* Which descriptors the reference plugin serves, and the sentence for each that it declines. The
 * core refuses most of the latter itself, so the plugin is asked without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "plugins/ref/gemm.h"

static int64_t thread_count(const kiln_host *host)
{
    (void)host;
    return 3;
}

static int64_t is_host = 1;

static int64_t device_is_host(const kiln_device *device)
{
    (void)device;
    return is_host;
}

static kiln_status set_error(kiln_status status, const char *format, ...)
{
    (void)format;
    return status;
}

static const kiln_host host = {.struct_size = sizeof host,
                               .thread_count = thread_count,
                               .device_is_host = device_is_host,
                               .set_error = set_error};
static ref_instance instance = {.host = &host, .kernel = "none"};

static kiln_answer ask(const kiln_gemm_desc *desc)
{
    kiln_answer answer = {.struct_size = sizeof answer};
    assert_int_equal(ref_gemm_query(&instance, NULL, &desc->head, &answer), KILN_OK);
    return answer;
}

static kiln_gemm_desc descriptor(uint32_t type)
{
    kiln_gemm_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.head.struct_size = sizeof desc;
    desc.m = desc.n = desc.k = 64;
    desc.batch = 1;
    desc.a_type = desc.b_type = type;
    desc.d_type = KILN_F32;
    return desc;
}

/* ---- Declined ---- */

static void expect_declined(const kiln_gemm_desc *desc, const char *words)
{
    kiln_answer answer = ask(desc);
    if (answer.support != KILN_SUPPORT_NO || !strstr(answer.reason, words))
        fail_msg("support %d, '%s' does not speak of '%s'", answer.support, answer.reason, words);
}

#define DECLINED(type, change, words) \
    desc = descriptor(type);          \
    change;                           \
    expect_declined(&desc, words)

static void test_declined_types(void **state)
{
    (void)state;
    kiln_gemm_desc desc;
    DECLINED(KILN_I16, (void)0, "a_type = i16");
    DECLINED(KILN_F16, desc.b_type = KILN_UE8M0, "b_type = ue8m0");
    DECLINED(KILN_F16, desc.b_type = KILN_F64, "b_type = f64 with a_type = f16");
    DECLINED(KILN_F64, desc.b_type = KILN_F32, "b_type = f32 with a_type = f64");
    DECLINED(KILN_F16, desc.c_type = KILN_F64, "c_type = f64");
    DECLINED(KILN_F16, desc.c_type = KILN_E2M1, "c_type = e2m1");
    DECLINED(KILN_I8, desc.c_type = KILN_I4, "c_type = i4");
    DECLINED(KILN_F16, desc.d_type = KILN_I32, "d_type = i32 is not offered with a_type = f16");
    DECLINED(KILN_F16, desc.d_type = KILN_F64, "d_type = f64");
    DECLINED(KILN_F16, desc.d_type = KILN_U4, "d_type = u4");
    DECLINED(KILN_F16, desc.d_type = KILN_E2M1, "d_type = e2m1 is offered with");
    DECLINED(KILN_I8, (desc.d_type = KILN_I32, desc.b_type = KILN_F16), "d_type = i32");
    DECLINED(KILN_F16, desc.accumulator = KILN_F16, "accumulator = f16");
    DECLINED(KILN_F64, desc.accumulator = KILN_F32, "accumulator = f32");
    DECLINED(KILN_I8, desc.accumulator = KILN_F32, "ref accumulates in i32");
    DECLINED(KILN_I8, desc.k = 131072, "beyond k = 131071");
    DECLINED(KILN_U8, desc.k = 40000, "beyond k = 33025");
}

static void test_declined_quantizations(void **state)
{
    (void)state;
    kiln_gemm_desc desc;
#define QUANTISED(type, which, scale, zero, rows, columns, words)                             \
    DECLINED(type,                                                                            \
             desc.which##_quantization = ((kiln_quantization){scale, zero, {rows, columns}}), \
             words)
    QUANTISED(KILN_I8, a, KILN_E5M2, 0, 1, 1, "a_quantization.scale_type = e5m2");
    QUANTISED(KILN_I8, b, KILN_F64, 0, 1, 1, "b_quantization.scale_type = f64");
    QUANTISED(KILN_F16, b, KILN_F32, 0, 1, 1, "b_quantization.scale_type = f32 with b_type = f16");
    QUANTISED(KILN_I8, a, 0, KILN_U8, 1, 1, "a_quantization.zero_type = u8 with a_type = i8");
    QUANTISED(KILN_E4M3, a, 0, KILN_E4M3, 1, 1, "a_quantization.zero_type = e4m3");
    QUANTISED(KILN_I8, b, KILN_F32, 0, 0, 1, "b_quantization.block[0] = 0");
    QUANTISED(KILN_I8, b, KILN_F32, 0, 1, -2, "b_quantization.block[1] = -2");
    QUANTISED(KILN_I8, a, 0, 0, 0, 5, "a_quantization.block[1] = 5: there is neither");
    QUANTISED(KILN_I8, d, KILN_F32, 0, 1, 5, "d_quantization.scale_type = f32 is offered with");
    QUANTISED(KILN_I8, d, 0, KILN_I8, 1, 5, "d_quantization.zero_type = i8 is offered with");
    QUANTISED(KILN_I8, d, 0, 0, 1, 5, "d_quantization.block[0] = 1: there is neither");
#undef QUANTISED
    DECLINED(
        KILN_I8,
        (desc.d_type = KILN_I32, desc.a_quantization = (kiln_quantization){KILN_F32, 0, {1, 1}}),
        "b_type = i8 and scales");
#define OUTPUT(type, scale, zero, rows, columns, words)                                 \
    DECLINED(KILN_F16,                                                                  \
             (desc.d_type = type, desc.epilogue_count = 1,                              \
              desc.epilogues[0].kind = KILN_EPILOGUE_QUANTIZE,                          \
              desc.d_quantization = (kiln_quantization){scale, zero, {rows, columns}}), \
             words)
    OUTPUT(KILN_BF16, KILN_F32, 0, 1, 128, "d_type = bf16: ref quantises to");
    OUTPUT(KILN_I8, KILN_BF16, 0, 1, 128, "d_quantization.scale_type = bf16");
    OUTPUT(KILN_I8, 0, 0, 0, 0, "d_quantization.scale_type = none");
    OUTPUT(KILN_I8, KILN_F32, KILN_I8, 1, 128, "d_quantization.zero_type = i8");
    OUTPUT(KILN_I8, KILN_F32, 0, 128, 128, "d_quantization.block[0] = 128");
    OUTPUT(KILN_I8, KILN_F32, 0, 1, 0, "d_quantization.block[1] = 0");
#undef OUTPUT
}

static void test_declined_modes(void **state)
{
    (void)state;
    kiln_gemm_desc desc;
    DECLINED(KILN_F16, desc.head.flags = 1 << 20, "flags = 0x100000");
    DECLINED(KILN_F16, desc.precision = 3, "precision = 3");
    DECLINED(KILN_F16, desc.max_rel_error = 0.25, "max_rel_error = 0.25 with precision = 0");
    DECLINED(KILN_F16, (desc.precision = KILN_PRECISION_FAST, desc.max_rel_error = 0.25),
             "max_rel_error = 0.25 with precision = 1");
    DECLINED(KILN_F16, (desc.precision = KILN_PRECISION_AUTO, desc.max_rel_error = 1.5),
             "max_rel_error = 1.5");
    DECLINED(KILN_F16, (desc.grouping = 4, desc.groups = 2), "grouping = 4");
    DECLINED(KILN_F16, desc.groups = 2, "groups = 2 with grouping = 0");
    DECLINED(KILN_F16, desc.grouping = KILN_GROUPING_K, "groups = 0 with grouping = 3");
    DECLINED(KILN_F16, (desc.grouping = 2, desc.groups = 2, desc.batch = 2), "batch = 2");
    DECLINED(KILN_F16, (desc.grouping = KILN_GROUPING_MASKED, desc.groups = (int64_t)1 << 60),
             "would not fit in 64 bits");
    DECLINED(KILN_F16,
             (desc.grouping = KILN_GROUPING_CONTIGUOUS, desc.groups = 2, desc.m = INT64_MAX),
             "would not fit in 64 bits");
    DECLINED(KILN_F16,
             (desc.d_type = KILN_I8, desc.epilogue_count = 1, desc.n = INT64_MAX,
              desc.epilogues[0].kind = KILN_EPILOGUE_QUANTIZE,
              desc.d_quantization = (kiln_quantization){KILN_F32, 0, {1, -1}}),
             "would not fit in 64 bits");
    DECLINED(KILN_F16, desc.epilogue_count = 9, "epilogue_count = 9");
    is_host = 0;
    DECLINED(KILN_F16, (void)0, "host memory only");
    is_host = 1;
    struct {
        kiln_gemm_desc desc;
        uint64_t more;
    } longer = {descriptor(KILN_F16), 1};
    longer.desc.head.struct_size = sizeof longer;
    expect_declined(&longer.desc, "beyond the");
}

static void test_declined_epilogues(void **state)
{
    (void)state;
    kiln_gemm_desc desc;
#define EPILOGUES(first, second, words)                                          \
    DECLINED(KILN_F16,                                                           \
             (desc.epilogue_count = 2, desc.epilogues[0] = (kiln_epilogue)first, \
              desc.epilogues[1] = (kiln_epilogue)second),                        \
             words)
#define RELU {.kind = KILN_EPILOGUE_RELU}
#define KIND(number, shape, of)                      \
    {                                                \
        .kind = number, .operand = shape, .type = of \
    }
    EPILOGUES(RELU, KIND(13, 0, 0), "epilogues[1].kind = 13");
    EPILOGUES(RELU, KIND(0, 0, 0), "epilogues[1].kind = 0");
    EPILOGUES(RELU, KIND(KILN_EPILOGUE_BIAS, 5, KILN_F32), "epilogues[1].operand = 5");
    EPILOGUES(RELU, KIND(KILN_EPILOGUE_BIAS, KILN_OPERAND_MATRIX, KILN_F32),
              "epilogues[1].operand = 4");
    EPILOGUES(RELU, KIND(KILN_EPILOGUE_BIAS, KILN_OPERAND_ROW, KILN_F64), "type = f64");
    EPILOGUES(RELU, KIND(KILN_EPILOGUE_BIAS, KILN_OPERAND_ROW, KILN_I8), "type = i8");
    EPILOGUES(RELU, KIND(KILN_EPILOGUE_BIAS_GRADIENT, KILN_OPERAND_ROW, KILN_BF16),
              "the gradient is f32");
    EPILOGUES(RELU, KIND(KILN_EPILOGUE_BIAS_GRADIENT, KILN_OPERAND_COLUMN, KILN_F32),
              "epilogues[1].operand = 3");
    EPILOGUES(KIND(KILN_EPILOGUE_SWIGLU, 0, 0), KIND(KILN_EPILOGUE_SWIGLU, 0, 0),
              "only one may be SWIGLU");
    EPILOGUES(KIND(KILN_EPILOGUE_QUANTIZE, 0, 0), RELU, "QUANTIZE must be the last");
#undef EPILOGUES
#undef RELU
#undef KIND
    DECLINED(KILN_F16,
             (desc.n = 7, desc.epilogue_count = 1, desc.epilogues[0].kind = KILN_EPILOGUE_SWIGLU),
             "n = 7");
}

static void test_too_small(void **state)
{
    (void)state;
    kiln_answer answer = {.struct_size = sizeof answer};
    kiln_op_head head = {.struct_size = 4};
    assert_int_equal(ref_gemm_query(&instance, NULL, &head, &answer), KILN_INVALID);
}

/* ---- Served ---- */

static void test_served(void **state)
{
    (void)state;
    static const uint32_t types[] = {KILN_F32,  KILN_F16, KILN_BF16, KILN_E4M3, KILN_E5M2,
                                     KILN_E2M1, KILN_I8,  KILN_U8,   KILN_I4,   KILN_U4};
    static const uint32_t results[] = {KILN_F32,  KILN_F16, KILN_BF16, KILN_E4M3,
                                       KILN_E5M2, KILN_I8,  KILN_U8};
    for (int a = 0; a < 10; a++)
        for (int b = 0; b < 10; b++)
            for (int d = 0; d < 7; d++)
                for (uint32_t precision = 0; precision <= KILN_PRECISION_AUTO; precision++) {
                    kiln_gemm_desc desc = descriptor(types[a]);
                    desc.b_type = types[b];
                    desc.c_type = desc.d_type = results[d];
                    desc.precision = precision;
                    desc.max_rel_error = precision == KILN_PRECISION_AUTO ? 0.5 : 0;
                    kiln_answer answer = ask(&desc);
                    if (answer.support != KILN_SUPPORT_NATIVE)
                        fail_msg("%s", answer.reason);
                    assert_int_equal(answer.flags, KILN_ANSWER_REPRODUCIBLE);
                    assert_int_equal(answer.accumulator, a > 5 && b > 5 ? KILN_I32 : KILN_F64);
                }
}

/* The workspace holds what one thread needs, three times, and what the groups need, once. */
static void test_workspace(void **state)
{
    (void)state;
    for (uint32_t grouping = 0; grouping <= 3; grouping++) {
        kiln_gemm_desc desc = descriptor(KILN_F16);
        ref_gemm_layout layout;
        desc.m = 1000;
        desc.grouping = grouping;
        desc.groups = grouping ? 10 : 0;
        assert_true(ref_gemm_layout_of(&desc, &layout));
        assert_int_equal(layout.slot_bytes % 64, 0);
        assert_int_equal(layout.groups_bytes % 64, 0);
        assert_int_equal(ask(&desc).workspace_bytes, layout.groups_bytes + 3 * layout.slot_bytes);
        int64_t least = grouping == KILN_GROUPING_NONE         ? 0
                        : grouping == KILN_GROUPING_CONTIGUOUS ? 22 * 8 + 1000 * 12
                                                               : 22 * 8;
        assert_in_range(layout.groups_bytes, least, least + 64);
    }
}

/* Tiles are whole panels and whole blocks of scales, and no larger than need be. */
static void test_tiles(void **state)
{
    (void)state;
    static const int32_t blocks[] = {1, 16, 32, 48, 64, 100, 128, 200, 256, 4096, -1};
    for (int i = 0; i < 11; i++)
        for (uint32_t swiglu = 0; swiglu < 2; swiglu++)
            for (int64_t n = 2; n < 10000; n = n * 5 / 2 * 2) {
                kiln_gemm_desc desc = descriptor(KILN_F16);
                ref_gemm_layout layout;
                desc.m = 1000;
                desc.n = n;
                desc.d_type = KILN_I8;
                desc.epilogues[0].kind = KILN_EPILOGUE_SWIGLU;
                desc.epilogues[swiglu].kind = KILN_EPILOGUE_QUANTIZE;
                desc.epilogue_count = swiglu + 1;
                desc.d_quantization = (kiln_quantization){KILN_F32, 0, {1, blocks[i]}};
                assert_true(ref_gemm_layout_of(&desc, &layout));
                assert_int_equal(layout.tile_columns % REF_COLUMNS, 0);
                assert_int_equal(layout.tile_rows % REF_ROWS, 0);
                assert_true(layout.tile_columns < n + REF_COLUMNS);
                if (layout.tile_columns < n) {
                    assert_int_equal(layout.tile_columns % (blocks[i] * (swiglu + 1)), 0);
                    assert_int_not_equal(blocks[i], -1);
                }
                assert_true(layout.tile_rows == REF_ROWS ||
                            layout.tile_rows * layout.tile_columns <= 128 * 128);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_declined_types), cmocka_unit_test(test_declined_quantizations),
        cmocka_unit_test(test_declined_modes), cmocka_unit_test(test_declined_epilogues),
        cmocka_unit_test(test_too_small),      cmocka_unit_test(test_served),
        cmocka_unit_test(test_workspace),      cmocka_unit_test(test_tiles),
    };
    return cmocka_run_group_tests_name("ref: what is served", tests, NULL, NULL);
}
