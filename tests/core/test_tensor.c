/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions of kiln/tensor.h: every code of every small type, and rounding against the nearest
 * entry of a table. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kiln/tensor.h"

/* A floating-point type of at most 16 bits, as its standard describes it. */
typedef struct small_float {
    uint32_t type;
    int exponent_bits, mantissa_bits;
    uint32_t largest; /* code of the largest finite value */
    bool has_inf;     /* the code behind it is Inf */
    bool has_nan;
} small_float;

static const small_float small_floats[] = {
    {KILN_F16, 5, 10, 0x7bff, true, true}, {KILN_BF16, 8, 7, 0x7f7f, true, true},
    {KILN_E4M3, 4, 3, 0x7e, false, true},  {KILN_E5M2, 5, 2, 0x7b, true, true},
    {KILN_E2M1, 2, 1, 0x7, false, false},
};

enum { SMALL_FLOATS = sizeof small_floats / sizeof *small_floats };

/* The magnitude of a finite code, by halving and doubling. */
static double magnitude_of(const small_float *small, uint32_t code)
{
    int exponent = (int)(code >> small->mantissa_bits),
        bias = (1 << (small->exponent_bits - 1)) - 1;
    double value = code & ((1u << small->mantissa_bits) - 1);
    for (int i = 0; i < small->mantissa_bits; i++)
        value /= 2;
    if (exponent > 0)
        value += 1;
    else
        exponent = 1;
    for (; exponent > bias; exponent--)
        value *= 2;
    for (; exponent < bias; exponent++)
        value /= 2;
    return value;
}

static uint32_t sign_bit(const small_float *small)
{
    return 1u << (small->exponent_bits + small->mantissa_bits);
}

static uint32_t encode(const small_float *small, double value, int flags)
{
    uint16_t code = 0;
    kiln_store_f64(small->type, &code, 0, value, flags);
    return code;
}

static double decode(const small_float *small, uint32_t code)
{
    uint16_t stored = (uint16_t)code;
    return kiln_load_f64(small->type, &stored, 0);
}

static void test_every_code(void **state)
{
    (void)state;
    for (int t = 0; t < SMALL_FLOATS; t++) {
        const small_float *small = &small_floats[t];
        for (uint32_t code = 0; code < 2 * sign_bit(small); code++) {
            uint32_t magnitude = code & (sign_bit(small) - 1);
            double value = decode(small, code);
            if (magnitude <= small->largest) {
                double wanted = magnitude_of(small, magnitude);
                assert_true(value == (code == magnitude ? wanted : -wanted));
                assert_true(signbit(value) == (code != magnitude));
                assert_int_equal(encode(small, value, 0), code);
                assert_int_equal(encode(small, value, KILN_SATURATE), code);
            } else if (small->has_inf && magnitude == small->largest + 1) {
                assert_true(isinf(value) && signbit(value) == (code != magnitude));
                assert_int_equal(encode(small, value, 0), code);
                assert_int_equal(encode(small, value, KILN_SATURATE), code);
            } else {
                assert_true(isnan(value));
                assert_true(isnan(decode(small, encode(small, value, 0))));
            }
        }
        if (!small->has_nan)
            assert_int_equal(encode(small, (double)NAN, 0), 0);
    }
}

/* The code nearest to a magnitude; a tie goes to the even code. `largest + 1` is the magnitude that
 * would follow. */
static uint32_t nearest(const small_float *small, double magnitude)
{
    uint32_t low = 0, high = small->largest + 1;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (magnitude_of(small, middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    double below = magnitude - magnitude_of(small, low),
           above = magnitude_of(small, low + 1) - magnitude;
    return below < above || (below == above && low % 2 == 0) ? low : low + 1;
}

static void check_rounding(const small_float *small, double magnitude)
{
    uint32_t code = nearest(small, magnitude), sign = sign_bit(small);
    uint32_t saturated = code > small->largest ? small->largest : code, plain = code;
    if (code > small->largest)
        plain = small->has_inf ? small->largest + 1 : small->has_nan ? sign - 1 : small->largest;
    assert_int_equal(encode(small, magnitude, 0) & (sign - 1), plain);
    assert_int_equal(encode(small, magnitude, KILN_SATURATE), saturated);
    assert_int_equal(encode(small, -magnitude, KILN_SATURATE), saturated | sign);
    if (plain != sign - 1 || !small->has_nan)
        assert_int_equal(encode(small, -magnitude, 0), plain | sign);
}

/* Around every value and every midpoint, and beyond the largest. */
static void test_every_midpoint(void **state)
{
    (void)state;
    for (int t = 0; t < SMALL_FLOATS; t++) {
        const small_float *small = &small_floats[t];
        for (uint32_t code = 0; code <= small->largest; code++) {
            double value = magnitude_of(small, code), following = magnitude_of(small, code + 1);
            double middle = value + (following - value) / 2;
            check_rounding(small, nextafter(value, INFINITY));
            check_rounding(small, nextafter(middle, 0));
            check_rounding(small, middle);
            check_rounding(small, nextafter(middle, INFINITY));
            check_rounding(small, nextafter(following, 0));
        }
        double beyond = magnitude_of(small, small->largest) * 4;
        check_rounding(small, beyond);
        check_rounding(small, 0x1.fffffffffffffp1023);
        check_rounding(small, 0x1p-1074);
        uint32_t infinity = encode(small, INFINITY, KILN_SATURATE);
        assert_int_equal(infinity, small->has_inf ? small->largest + 1 : small->largest);
    }
}

static void test_random_rounding(void **state)
{
    (void)state;
    uint64_t random = 12345;
    for (int i = 0; i < 300000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        double fraction = 1 + (double)(random >> 12) * 0x1p-52;
        const small_float *small = &small_floats[i % SMALL_FLOATS];
        int range = 2 << small->exponent_bits;
        check_rounding(small, ldexp(fraction, (int)(random >> 33) % range - range / 2));
    }
}

/* The shortcuts through f32 agree with the conversions through f64. */
static void test_f32_shortcuts(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x10000; code++) {
        double half = decode(&small_floats[0], code), brain = decode(&small_floats[1], code);
        assert_true((double)kiln_f32_from_f16((uint16_t)code) == half || isnan(half));
        assert_true((double)kiln_f32_from_bf16((uint16_t)code) == brain || isnan(brain));
        for (uint32_t low = 0; low < 0x10000; low += low % 0x8000 < 2 ? 1 : 0x7ffd) {
            uint32_t bits = code << 16 | low;
            float value;
            memcpy(&value, &bits, sizeof value);
            assert_int_equal(kiln_bf16_from_f32(value), kiln_bf16_from_f64((double)value, 0));
            assert_int_equal(kiln_f16_from_f32(value), kiln_f16_from_f64((double)value, 0));
        }
    }
}

static void test_ue8m0(void **state)
{
    (void)state;
    uint8_t code;
    double power = 0x1p-127;
    for (int i = 0; i < 255; i++, power *= 2) {
        code = (uint8_t)i;
        assert_true(kiln_load_f64(KILN_UE8M0, &code, 0) == power);
        assert_int_equal(kiln_ue8m0_from_f64(power), i);
        assert_int_equal(kiln_ue8m0_from_f64(nextafter(power, 0)), i);
        assert_int_equal(kiln_ue8m0_from_f64(nextafter(power, INFINITY)), i == 254 ? 0xff : i + 1);
    }
    code = 0xff;
    assert_true(isnan(kiln_load_f64(KILN_UE8M0, &code, 0)));
    assert_int_equal(kiln_ue8m0_from_f64(0), 0);
    assert_int_equal(kiln_ue8m0_from_f64(-1), 0xff);
    assert_int_equal(kiln_ue8m0_from_f64(NAN), 0xff);
    assert_int_equal(kiln_ue8m0_from_f64(INFINITY), 0xff);
}

static double stored(uint32_t type, double value, int flags)
{
    uint64_t element = 0;
    kiln_store_f64(type, &element, 0, value, flags);
    return kiln_load_f64(type, &element, 0);
}

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        double low, high;
    } ranges[] = {{KILN_I8, -128, 127},
                  {KILN_U8, 0, 255},
                  {KILN_I16, -32768, 32767},
                  {KILN_U16, 0, 65535},
                  {KILN_I32, -0x1p31, 0x1p31 - 1},
                  {KILN_U32, 0, 0x1p32 - 1},
                  {KILN_I64, -0x1p63, 0x1p63},
                  {KILN_U64, 0, 0x1p64},
                  {KILN_I4, -8, 7},
                  {KILN_U4, 0, 15}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        uint32_t type = ranges[i].type;
        double low = ranges[i].low, high = ranges[i].high;
        assert_true(stored(type, low, 0) == low && stored(type, high, 0) == high);
        assert_true(stored(type, 1e30, 0) == high && stored(type, -1e30, 0) == low);
        assert_true(stored(type, INFINITY, 0) == high && stored(type, -INFINITY, 0) == low);
        assert_true(stored(type, NAN, 0) == 0);
        assert_true(stored(type, 0.5, 0) == 0 && stored(type, 1.5, 0) == 2 &&
                    stored(type, 2.5, 0) == 2);
        assert_true(stored(type, 2.5000001, 0) == 3 && stored(type, 1.4999, 0) == 1);
        if (low < 0)
            assert_true(stored(type, -0.5, 0) == 0 && stored(type, -1.5, 0) == -2 &&
                        stored(type, -2.5, 0) == -2);
    }
    assert_true(stored(KILN_BOOL, 0, 0) == 0 && stored(KILN_BOOL, -3, 0) == 1 &&
                stored(KILN_BOOL, NAN, 0) == 1);
    for (int code = 0; code < 256; code++) {
        uint8_t byte = (uint8_t)code;
        assert_true(kiln_load_f64(KILN_U8, &byte, 0) == code);
        assert_true(kiln_load_f64(KILN_I8, &byte, 0) == (code < 128 ? code : code - 256));
        assert_true(kiln_load_f64(KILN_U4, &byte, 0) == code % 16 &&
                    kiln_load_f64(KILN_U4, &byte, 1) == code / 16);
        assert_true(kiln_load_f64(KILN_I4, &byte, 1) == (code < 128 ? code / 16 : code / 16 - 16));
    }
    int64_t most = 0;
    kiln_store_f64(KILN_I64, &most, 0, 1e300, 0);
    assert_true(most == INT64_MAX);
}

static void test_wide_floats(void **state)
{
    (void)state;
    assert_true(stored(KILN_F64, 0.1, 0) == 0.1);
    assert_true(stored(KILN_F32, 0.1, 0) == (double)0.1f);
    assert_true(isinf(stored(KILN_F32, 1e300, 0)));
    assert_true(stored(KILN_F32, 1e300, KILN_SATURATE) == 0x1.fffffep127);
    assert_true(stored(KILN_F32, -1e300, KILN_SATURATE) == -0x1.fffffep127);
    assert_true(isinf(stored(KILN_F32, INFINITY, KILN_SATURATE)));
    assert_true(isnan(stored(KILN_F32, NAN, KILN_SATURATE)));
}

/* Elements of four bits share bytes without touching each other, low bits first. */
static void test_packed_nibbles(void **state)
{
    (void)state;
    static const uint32_t types[] = {KILN_E2M1, KILN_I4, KILN_U4};
    for (int t = 0; t < 3; t++) {
        uint8_t bytes[4] = {0xff, 0xff, 0xff, 0xff};
        for (int64_t i = 1; i < 7; i++)
            kiln_store_f64(types[t], bytes, i, (double)(i % 4), 0);
        assert_int_equal(bytes[0] & 0x0f, 0x0f);
        assert_int_equal(bytes[3] & 0xf0, 0xf0);
        for (int64_t i = 1; i < 7; i++)
            assert_true(kiln_load_f64(types[t], bytes, i) == (double)(i % 4));
    }
    uint8_t byte = 0;
    kiln_store_f64(KILN_U4, &byte, 0, 3, 0);
    kiln_store_f64(KILN_U4, &byte, 1, 12, 0);
    assert_int_equal(byte, 0xc3);
}

static void test_type_table(void **state)
{
    (void)state;
    int known = 0;
    for (uint32_t type = 0; type < 64; type++) {
        if (!kiln_type_bits(type))
            continue;
        known++;
        assert_int_equal(kiln_type_from_name(kiln_type_name(type)), type);
    }
    assert_int_equal(known, 19);
    assert_int_equal(KILN_TYPE_COUNT, 20);
    assert_int_equal(kiln_type_from_name("f8"), KILN_TYPE_NONE);
    assert_string_equal(kiln_type_name(KILN_TYPE_NONE), "none");
    assert_string_equal(kiln_type_name(63), "unknown");
    assert_int_equal(kiln_type_row_bytes(KILN_I4, 3), 2);
    assert_int_equal(kiln_type_row_bytes(KILN_F16, 3), 6);
    assert_true(isnan(kiln_load_f64(63, NULL, 0)));
}

static void test_tensors(void **state)
{
    (void)state;
    int64_t shape[] = {2, 0, 3};
    float memory[12];
    kiln_tensor tensor = kiln_tensor_host(KILN_F32, memory, 3, shape);
    assert_int_equal(tensor.strides[2], 1);
    assert_int_equal(tensor.strides[1], 3);
    assert_int_equal(tensor.strides[0], 3);
    assert_int_equal(kiln_tensor_elements(&tensor), 0);
    tensor = kiln_matrix(KILN_F32, memory, 2, 3, 5);
    assert_int_equal(tensor.rank, 2);
    assert_int_equal(tensor.strides[0], 5);
    assert_int_equal(kiln_tensor_elements(&tensor), 6);
    tensor = kiln_tensor_host(KILN_F32, memory, 0, NULL);
    assert_int_equal(kiln_tensor_elements(&tensor), 1);
    tensor = kiln_vector(KILN_F32, memory, 12);
    assert_ptr_equal(tensor.data, memory);
    assert_int_equal(kiln_tensor_elements(&tensor), 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code),      cmocka_unit_test(test_every_midpoint),
        cmocka_unit_test(test_random_rounding), cmocka_unit_test(test_f32_shortcuts),
        cmocka_unit_test(test_ue8m0),           cmocka_unit_test(test_integers),
        cmocka_unit_test(test_wide_floats),     cmocka_unit_test(test_packed_nibbles),
        cmocka_unit_test(test_type_table),      cmocka_unit_test(test_tensors),
    };
    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
