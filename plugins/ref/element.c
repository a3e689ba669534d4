/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of every type that a GEMM has, as double. kiln_load_f64 gives the same values one by
 * one; here stand the loops, without its ldexp. */
#include <math.h>

#include "plugins/ref/ref.h"

static float from_e4m3(uint8_t code)
{
    uint32_t magnitude = code & 0x7f, bits = (magnitude << 20) + 0x3c000000u;
    float value;
    if (magnitude == 0x7f)
        return (float)NAN;
    memcpy(&value, &bits, sizeof value);
    if (magnitude < 8) /* zero and subnormals: an exact product */
        value = (float)magnitude * 0x1p-9f;
    return code & 0x80 ? -value : value;
}

/* e5m2 is the upper half of f16. */
static float from_e5m2(uint8_t code)
{
    return kiln_f32_from_f16((uint16_t)(code << 8));
}

static double from_e2m1(int code)
{
    static const double values[] = {0,    0.5,  1,  1.5,  2,  3,  4,  6,
                                    -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
    return values[code];
}

static double from_i4(int code)
{
    return (code ^ 8) - 8;
}

static int nibble(const char *data, int64_t index)
{
    return (unsigned char)data[index / 2] >> (index % 2 * 4) & 0xf;
}

/* The loop for neighbours stands by itself because it becomes vector code. */
void ref_elements_load(uint32_t type, const char *data, int64_t first, int64_t stride,
                       int64_t count, double *values, int64_t step)
{
#define CONVERT(ctype, convert, from, to)                                                \
    for (int64_t i = 0; i < count; i++) {                                                \
        ctype element;                                                                   \
        memcpy(&element, source + i * (from) * (int64_t)sizeof element, sizeof element); \
        values[i * (to)] = (double)convert(element);                                     \
    }
#define LOAD(ctype, convert)                                        \
    {                                                               \
        const char *source = data + first * (int64_t)sizeof(ctype); \
        if (stride == 1 && step == 1)                               \
            CONVERT(ctype, convert, 1, 1)                           \
        else                                                        \
            CONVERT(ctype, convert, stride, step)                   \
    }                                                               \
    break
#define LOAD_NIBBLES(convert)                                                 \
    for (int64_t i = 0; i < count; i++)                                       \
        values[i * step] = (double)convert(nibble(data, first + i * stride)); \
    break
    switch (type) {
    case KILN_F64:
        LOAD(double, );
    case KILN_F32:
        LOAD(float, );
    case KILN_F16:
        LOAD(uint16_t, kiln_f32_from_f16);
    case KILN_BF16:
        LOAD(uint16_t, kiln_f32_from_bf16);
    case KILN_E4M3:
        LOAD(uint8_t, from_e4m3);
    case KILN_E5M2:
        LOAD(uint8_t, from_e5m2);
    case KILN_UE8M0:
        LOAD(uint8_t, kiln_f64_from_ue8m0);
    case KILN_I8:
        LOAD(int8_t, );
    case KILN_U8:
        LOAD(uint8_t, );
    case KILN_I32:
        LOAD(int32_t, );
    case KILN_E2M1:
        LOAD_NIBBLES(from_e2m1);
    case KILN_I4:
        LOAD_NIBBLES(from_i4);
    case KILN_U4:
        LOAD_NIBBLES();
    default: /* query declined it */
        break;
    }
#undef LOAD_NIBBLES
#undef LOAD
#undef CONVERT
}

void ref_element_copy(uint32_t type, char *to, int64_t to_index, const char *from,
                      int64_t from_index)
{
    int64_t size = kiln_type_bits(type) / 8;
    if (size > 0) {
        memcpy(to + to_index * size, from + from_index * size, (size_t)size);
        return;
    }
    int shift = (int)(to_index % 2) * 4;
    char *byte = to + to_index / 2;
    *byte = (char)((*byte & ~(0xf << shift)) | nibble(from, from_index) << shift);
}
