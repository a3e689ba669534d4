/* SPDX-License-Identifier: Apache-2.0 */
/* kiln_convert, and the conversions of kiln/tensor.h beneath it: every code of the small types,
 * rounding to nearest even checked by comparing with both neighbours, integers beyond 2^53,
 * saturation. */
#include "tests/core/fixture.h"

#include <math.h>
#include <stdlib.h>

static double one_to_f64(uint32_t type, uint32_t code)
{
    double value = 0;
    assert_ok(kiln_convert(KILN_F64, &value, type, &code, 1, 0));
    return value;
}

static uint32_t one_from_f64(uint32_t type, double value, int flags)
{
    uint32_t code = 0;
    assert_ok(kiln_convert(type, &code, KILN_F64, &value, 1, flags));
    return code;
}

/* ---- Small floats: every code ---- */

typedef struct small_float {
    uint32_t type;
    uint32_t codes;   /* without the sign */
    uint32_t largest; /* code of the largest finite value */
    bool infinite;
} small_float;

static const small_float small_floats[] = {
    {KILN_F16, 0x8000, 0x7bff, true}, {KILN_BF16, 0x8000, 0x7f7f, true},
    {KILN_E4M3, 0x80, 0x7e, false},   {KILN_E5M2, 0x80, 0x7b, true},
    {KILN_E2M1, 0x8, 0x7, false},
};

static void test_every_code_survives(void **state)
{
    (void)state;
    for (int64_t i = 0; i < COUNT(small_floats); i++) {
        const small_float *type = &small_floats[i];
        for (uint32_t code = 0; code < 2 * type->codes; code++) {
            double value = one_to_f64(type->type, code);
            if (isnan(value))
                assert_true(isnan(one_to_f64(type->type, one_from_f64(type->type, value, 0))));
            else
                assert_int_equal(one_from_f64(type->type, value, 0), code);
        }
    }
}

/* Between neighbours: the middle goes to the even code, and the least step beside it to the nearer
 * one. */
static void test_rounding_to_nearest_even(void **state)
{
    (void)state;
    for (int64_t i = 0; i < COUNT(small_floats); i++) {
        const small_float *type = &small_floats[i];
        double before = 0;
        for (uint32_t code = 1; code <= type->largest; code++) {
            double value = one_to_f64(type->type, code), middle = (before + value) / 2;
            assert_true(value > before);
            uint32_t even = code & 1 ? code - 1 : code;
            for (int negative = 0; negative < 2; negative++) {
                double sign = negative ? -1 : 1;
                uint32_t bit = negative ? type->codes : 0;
                assert_int_equal(one_from_f64(type->type, sign * middle, 0), even | bit);
                assert_int_equal(one_from_f64(type->type, sign * nextafter(middle, 0), 0),
                                 (code - 1) | bit);
                assert_int_equal(one_from_f64(type->type, sign * nextafter(middle, INFINITY), 0),
                                 code | bit);
            }
            before = value;
        }
    }
}

static void test_overflow_and_saturation(void **state)
{
    (void)state;
    for (int64_t i = 0; i < COUNT(small_floats); i++) {
        const small_float *type = &small_floats[i];
        double most = one_to_f64(type->type, type->largest);
        double step = most - one_to_f64(type->type, type->largest - 1);
        assert_int_equal(one_from_f64(type->type, nextafter(most + step / 2, 0), 0), type->largest);
        double beyond[] = {nextafter(most + step / 2, INFINITY), 1e300, -1e300};
        for (int64_t k = 0; k < COUNT(beyond); k++) {
            double sign = beyond[k] < 0 ? -1 : 1;
            double free_result = one_to_f64(type->type, one_from_f64(type->type, beyond[k], 0));
            if (type->type == KILN_E2M1)
                assert_true(free_result == sign * most);
            else if (type->infinite)
                assert_true(free_result == sign * INFINITY);
            else
                assert_true(isnan(free_result));
            assert_true(one_to_f64(type->type, one_from_f64(type->type, beyond[k],
                                                            KILN_SATURATE)) == sign * most);
        }
        double infinity = one_to_f64(type->type, one_from_f64(type->type, INFINITY, KILN_SATURATE));
        if (type->infinite)
            assert_true(infinity == INFINITY);
        else
            assert_true(infinity == most);
        double nan = one_to_f64(type->type, one_from_f64(type->type, (double)NAN, 0));
        if (type->type == KILN_E2M1)
            assert_true(nan == 0 && !signbit(nan));
        else
            assert_true(isnan(nan));
    }
}

static void test_scales_round_up(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0xff; code++) {
        double value = one_to_f64(KILN_UE8M0, code);
        assert_true(value == ldexp(1, (int)code - 127));
        assert_int_equal(one_from_f64(KILN_UE8M0, value, 0), code);
        assert_int_equal(one_from_f64(KILN_UE8M0, nextafter(value, INFINITY), 0),
                         code == 0xfe ? 0xff : code + 1);
    }
    assert_true(isnan(one_to_f64(KILN_UE8M0, 0xff)));
    assert_int_equal(one_from_f64(KILN_UE8M0, 0, 0), 0);
    assert_int_equal(one_from_f64(KILN_UE8M0, 1e-300, 0), 0);
    assert_int_equal(one_from_f64(KILN_UE8M0, -1, 0), 0xff);
    assert_int_equal(one_from_f64(KILN_UE8M0, (double)NAN, 0), 0xff);
}

/* f32 to f16 and bf16 have short cuts of their own: they must agree with the way through f64. */
static void test_short_cuts_agree(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 200000; i++) {
        uint32_t bits = (uint32_t)fixture_random(0, UINT32_MAX);
        float value;
        memcpy(&value, &bits, sizeof value);
        uint16_t bf16 = kiln_bf16_from_f32(value), f16 = kiln_f16_from_f32(value);
        if (isnan(value)) {
            assert_true(isnan(kiln_f32_from_bf16(bf16)) && isnan(kiln_f32_from_f16(f16)));
            continue;
        }
        assert_int_equal(bf16, one_from_f64(KILN_BF16, value, 0));
        assert_int_equal(f16, one_from_f64(KILN_F16, value, 0));
    }
    for (uint32_t code = 0; code < 0x10000; code++) {
        float value = kiln_f32_from_f16((uint16_t)code);
        double slow = (code & 0x7c00) == 0x7c00 ? (code & 0x3ff    ? (double)NAN
                                                   : code & 0x8000 ? -INFINITY
                                                                   : INFINITY)
                                                : kiln_float_decode(code, 5, 10);
        assert_true(isnan(slow) ? isnan(value)
                                : value == slow && !signbit(value) == !signbit(slow));
    }
}

/* ---- Integers ---- */

/* What a type can hold. */
static __int128 least(uint32_t type)
{
    return type == KILN_I64   ? INT64_MIN
           : type == KILN_I32 ? INT32_MIN
           : type == KILN_I16 ? INT16_MIN
           : type == KILN_I8  ? INT8_MIN
           : type == KILN_I4  ? -8
                              : 0;
}

static __int128 most(uint32_t type)
{
    return type == KILN_I64   ? INT64_MAX
           : type == KILN_U64 ? (__int128)UINT64_MAX
           : type == KILN_I4  ? 7
           : type == KILN_U4  ? 15
           : least(type) < 0  ? -least(type) - 1
                              : ((__int128)1 << kiln_type_bits(type)) - 1;
}

static __int128 load_integer(uint32_t type, const void *memory)
{
    if (type == KILN_I64) {
        int64_t value;
        memcpy(&value, memory, sizeof value);
        return value;
    }
    if (type == KILN_U64) {
        uint64_t value;
        memcpy(&value, memory, sizeof value);
        return value;
    }
    return (__int128)kiln_load_f64(type, memory, 0);
}

static void test_integers_exact_or_saturated(void **state)
{
    static const uint32_t types[] = {KILN_I64, KILN_U64, KILN_I32, KILN_U32, KILN_I16,
                                     KILN_U16, KILN_I8,  KILN_U8,  KILN_I4,  KILN_U4};
    (void)state;
    for (int64_t from = 0; from < COUNT(types); from++)
        for (int64_t to = 0; to < COUNT(types); to++)
            for (int64_t i = 0; i < 400; i++) {
                /* A random number of random bits, so that all magnitudes occur; limits now and
                 * then. */
                uint64_t source = (uint64_t)fixture_random(0, INT64_MAX) << 1 ^
                                  (uint64_t)fixture_random(0, INT64_MAX);
                source >>= fixture_random(0, 63);
                source = i == 0   ? UINT64_MAX
                         : i == 1 ? (uint64_t)INT64_MAX
                         : i == 2 ? (uint64_t)INT64_MIN
                         : i == 3 ? 0
                                  : source;
                source = i % 2 ? source : ~source;
                uint64_t result = 0;
                assert_ok(kiln_convert(types[to], &result, types[from], &source, 1, 0));
                __int128 value = load_integer(types[from], &source), low = least(types[to]),
                         high = most(types[to]);
                value = value < low ? low : value > high ? high : value;
                if (load_integer(types[to], &result) != value)
                    fail_msg("%s %#llx becomes %s %#llx", kiln_type_name(types[from]),
                             (unsigned long long)source, kiln_type_name(types[to]),
                             (unsigned long long)result);
            }
}

/* 64-bit integers have more bits than a double: going through one would round twice. */
static void test_wide_integers_round_once(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 100000; i++) {
        /* Close to the middle between two neighbouring f32. */
        uint64_t wide = (uint64_t)fixture_random(1 << 23, (1 << 24) - 1) << fixture_random(1, 39);
        uint64_t half = wide & (~wide + 1);
        wide += (half >> 1) + (uint64_t)fixture_random(-2, 2);
        int64_t value = (int64_t)wide;
        value = i % 2 ? value : -value;
        float got, expected = (float)value; /* the compiler's conversion rounds once */
        assert_ok(kiln_convert(KILN_F32, &got, KILN_I64, &value, 1, 0));
        assert_true(got == expected);
        uint64_t positive = wide << (i % 3 == 0);
        expected = (float)positive;
        assert_ok(kiln_convert(KILN_F32, &got, KILN_U64, &positive, 1, 0));
        assert_true(got == expected);
    }
    int64_t above_middle = ((int64_t)1 << 60) + ((int64_t)1 << 52) + 1; /* bf16 has 8 bits */
    assert_true(one_to_f64(KILN_BF16, 0) == 0);
    uint16_t bf16 = 0;
    assert_ok(kiln_convert(KILN_BF16, &bf16, KILN_I64, &above_middle, 1, 0));
    assert_true(kiln_f32_from_bf16(bf16) == 0x1p60f + 0x1p53f);
    double exact;
    int64_t tie = ((int64_t)1 << 54) + 2; /* to f64 there is one rounding anyway */
    assert_ok(kiln_convert(KILN_F64, &exact, KILN_I64, &tie, 1, 0));
    assert_true(exact == 0x1p54);
}

static void test_floats_to_integers(void **state)
{
    (void)state;
    static const struct {
        double value;
        uint32_t type;
        int64_t expected;
    } cases[] = {
        {2.5, KILN_I32, 2},          {3.5, KILN_I32, 4},           {-2.5, KILN_I32, -2},
        {1e30, KILN_I64, INT64_MAX}, {-1e30, KILN_I64, INT64_MIN}, {-1, KILN_U32, 0},
        {1e30, KILN_U8, 255},        {-129, KILN_I8, -128},        {NAN, KILN_I64, 0},
        {INFINITY, KILN_I16, 32767}, {-INFINITY, KILN_U64, 0},     {0x1p63, KILN_I64, INT64_MAX},
        {7.5, KILN_I4, 7},           {-8.6, KILN_I4, -8},          {15.5, KILN_U4, 15},
        {0.5, KILN_U4, 0},           {NAN, KILN_BOOL, 1},          {0.1, KILN_BOOL, 1},
        {-0.0, KILN_BOOL, 0},
    };
    for (int64_t i = 0; i < COUNT(cases); i++) {
        uint64_t result = 0;
        assert_ok(kiln_convert(cases[i].type, &result, KILN_F64, &cases[i].value, 1, 0));
        __int128 got = cases[i].type == KILN_BOOL ? (__int128)(uint8_t)result
                                                  : load_integer(cases[i].type, &result);
        assert_true(got == cases[i].expected);
    }
    uint64_t wide = 0;
    double beyond = 0x1p64;
    assert_ok(kiln_convert(KILN_U64, &wide, KILN_F64, &beyond, 1, 0));
    assert_true(wide == UINT64_MAX);
    /* f32 saturates only when told to. */
    float narrow;
    double large = 1e39;
    assert_ok(kiln_convert(KILN_F32, &narrow, KILN_F64, &large, 1, 0));
    assert_true(isinf(narrow));
    assert_ok(kiln_convert(KILN_F32, &narrow, KILN_F64, &large, 1, KILN_SATURATE));
    assert_true(narrow == 0x1.fffffep127f);
}

/* ---- Rows ---- */

static void test_rows_of_packed_elements(void **state)
{
    (void)state;
    int8_t bytes[7] = {-8, 7, 3, -1, 0, 5, 100}, back[7];
    uint8_t packed[5] = {0, 0, 0, 0xf0, 0xa5};
    assert_ok(kiln_convert(KILN_I4, packed, KILN_I8, bytes, 7, 0));
    assert_int_equal(packed[0], 0x78); /* low bits first */
    assert_int_equal(packed[3], 0xf7); /* the nibble behind the row stays */
    assert_int_equal(packed[4], 0xa5);
    assert_ok(kiln_convert(KILN_I8, back, KILN_I4, packed, 7, 0));
    bytes[6] = 7;
    assert_memory_equal(bytes, back, 7);
    assert_ok(kiln_convert(KILN_I8, back, KILN_I4, NULL, 0, 0));
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    float value = 1;
    assert_fails(kiln_convert(KILN_TYPE_NONE, &value, KILN_F32, &value, 1, 0), KILN_INVALID,
                 "type 0");
    assert_fails(kiln_convert(KILN_F32, &value, 99, &value, 1, 0), KILN_INVALID, "type 99");
    assert_fails(kiln_convert(KILN_F32, &value, KILN_F32, &value, -1, 0), KILN_INVALID, "count -1");
    assert_fails(kiln_convert(KILN_F32, &value, KILN_F32, &value, 1, 2), KILN_UNSUPPORTED, "0x2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_survives),
        cmocka_unit_test(test_rounding_to_nearest_even),
        cmocka_unit_test(test_overflow_and_saturation),
        cmocka_unit_test(test_scales_round_up),
        cmocka_unit_test(test_short_cuts_agree),
        cmocka_unit_test(test_integers_exact_or_saturated),
        cmocka_unit_test(test_wide_integers_round_once),
        cmocka_unit_test(test_floats_to_integers),
        cmocka_unit_test(test_rows_of_packed_elements),
        cmocka_unit_test(test_wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
