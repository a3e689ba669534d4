/* SPDX-License-Identifier: Apache-2.0 */
/* Element types of the model and their conversions. Roundings are to nearest, ties to even; the
   caller's thread must be in the default floating-point environment. */
#ifndef NPU_NUMERIC_H
#define NPU_NUMERIC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum npu_type { NPU_F16, NPU_BF16, NPU_I8, NPU_F32, NPU_I32, NPU_TYPES };

static inline int64_t npu_type_bytes(enum npu_type type)
{
    static const int8_t bytes[NPU_TYPES] = {
        [NPU_F16] = 2, [NPU_BF16] = 2, [NPU_I8] = 1, [NPU_F32] = 4, [NPU_I32] = 4,
    };
    return bytes[type];
}

static inline int64_t npu_round_up(int64_t value, int64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static inline uint32_t npu_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float npu_f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Exact. Selects instead of branches, so that loops over it become vector code. */
static inline float npu_f16_to_f32(uint16_t half)
{
    uint32_t magnitude = half & 0x7fffu;
    uint32_t moved = magnitude << 13;
    uint32_t normal = moved + (magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u);
    /* A subnormal m * 2^-24 is the fraction of (1 + m / 2^10) * 2^-14. */
    float subnormal = npu_f32_from_bits(moved + 0x38800000u) - 0x1p-14f;
    uint32_t bits = magnitude < 0x400u ? npu_f32_bits(subnormal) : normal;
    return npu_f32_from_bits(bits | (uint32_t)(half & 0x8000u) << 16);
}

static inline uint16_t npu_f32_to_f16(float value)
{
    uint32_t bits = npu_f32_bits(value);
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t half;
    if (magnitude > 0x7f800000u)
        half = 0x7e00u | (magnitude >> 13 & 0x1ffu);
    else if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
        half = 0x7c00u;
    else if (magnitude < 0x38800000u) /* the spacing of floats at 0.5 is that of subnormal halves */
        half = npu_f32_bits(npu_f32_from_bits(magnitude) + 0.5f) - 0x3f000000u;
    else
        half = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    return (uint16_t)(half | (bits >> 16 & 0x8000u));
}

static inline float npu_bf16_to_f32(uint16_t value)
{
    return npu_f32_from_bits((uint32_t)value << 16);
}

static inline uint16_t npu_f32_to_bf16(float value)
{
    uint32_t bits = npu_f32_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#endif
