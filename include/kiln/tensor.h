/* SPDX-License-Identifier: Apache-2.0 */
/* Element types, their conversions, and the tensor. Needs nothing but the C library and its libm;
 * everything here is inline, so that a plugin uses it without linking libkiln. */
#ifndef KILN_TENSOR_H
#define KILN_TENSOR_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#define KILN_STATIC_ASSERT(condition, text) static_assert(condition, text)
extern "C" {
#else
#define KILN_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* One row per element type: identifier, number, name in files and messages, bits, kind (f float, s
 * signed, u unsigned, b bool). Numbers are never reused.
 *
 * f16 is IEEE binary16, bf16 the upper half of binary32. e4m3 and e5m2 are those of OCP's 8-bit
 * Floating Point Specification: e4m3 has no infinities, 0x7f and 0xff are NaN, the largest value is
 * 448; e5m2 is like an IEEE type. e2m1 and ue8m0 are those of OCP's Microscaling Formats
 * Specification: e2m1 has neither infinities nor NaN, the largest value is 6; ue8m0 is a scale,
 * 2^(code-127), 0xff is NaN.
 *
 * Types of fewer than 8 bits pack the innermost dimension, low bits first; every row starts on a
 * byte. */
#define KILN_TYPES(X)            \
    X(F64, 1, "f64", 64, 'f')    \
    X(F32, 2, "f32", 32, 'f')    \
    X(F16, 3, "f16", 16, 'f')    \
    X(BF16, 4, "bf16", 16, 'f')  \
    X(E4M3, 5, "e4m3", 8, 'f')   \
    X(E5M2, 6, "e5m2", 8, 'f')   \
    X(E2M1, 7, "e2m1", 4, 'f')   \
    X(UE8M0, 8, "ue8m0", 8, 'f') \
    X(I64, 9, "i64", 64, 's')    \
    X(U64, 10, "u64", 64, 'u')   \
    X(I32, 11, "i32", 32, 's')   \
    X(U32, 12, "u32", 32, 'u')   \
    X(I16, 13, "i16", 16, 's')   \
    X(U16, 14, "u16", 16, 'u')   \
    X(I8, 15, "i8", 8, 's')      \
    X(U8, 16, "u8", 8, 'u')      \
    X(I4, 17, "i4", 4, 's')      \
    X(U4, 18, "u4", 4, 'u')      \
    X(BOOL, 19, "bool", 8, 'b')

typedef enum kiln_type {
    KILN_TYPE_NONE = 0,
#define KILN_TYPE_ENUM(id, number, name, bits, kind) KILN_##id = number,
    KILN_TYPES(KILN_TYPE_ENUM)
#undef KILN_TYPE_ENUM
        KILN_TYPE_COUNT
} kiln_type;

/* Bits of one element; 0 for KILN_TYPE_NONE and for numbers that this header does not know. */
static inline int kiln_type_bits(uint32_t type)
{
    switch (type) {
#define KILN_TYPE_CASE(id, number, name, bits, kind) \
    case number:                                     \
        return bits;
        KILN_TYPES(KILN_TYPE_CASE)
#undef KILN_TYPE_CASE
    default:
        return 0;
    }
}

/* "f16" and the like; "none" or "unknown" otherwise. Static storage. */
static inline const char *kiln_type_name(uint32_t type)
{
    switch (type) {
    case KILN_TYPE_NONE:
        return "none";
#define KILN_TYPE_CASE(id, number, name, bits, kind) \
    case number:                                     \
        return name;
        KILN_TYPES(KILN_TYPE_CASE)
#undef KILN_TYPE_CASE
    default:
        return "unknown";
    }
}

/* The type of a name as kiln_type_name() writes it; KILN_TYPE_NONE when there is none. */
static inline kiln_type kiln_type_from_name(const char *text)
{
#define KILN_TYPE_MATCH(id, number, name, bits, kind) \
    if (strcmp(text, name) == 0)                      \
        return KILN_##id;
    KILN_TYPES(KILN_TYPE_MATCH)
#undef KILN_TYPE_MATCH
    return KILN_TYPE_NONE;
}

/* Bytes that `count` consecutive elements of one row occupy (sub-byte types round up to whole
 * bytes). */
static inline int64_t kiln_type_row_bytes(uint32_t type, int64_t count)
{
    int bits = kiln_type_bits(type);
    return bits >= 8 ? count * (bits / 8) : (count * bits + 7) / 8;
}

/* Conversion flags. Without KILN_SATURATE, finite values beyond the largest become Inf (f32, f16,
 * bf16, e5m2) or NaN (e4m3). Integers and e2m1 always saturate, having nothing else; NaN becomes
 * integer 0 and e2m1 +0. */
enum { KILN_SATURATE = 1 };

/* The bits of `value` in a small float with the given fields, rounded once, to nearest even.
 * `largest` is the code of the largest finite value and `overflow` the code beyond it (both without
 * sign); `nan` is the code of NaN. */
static inline uint32_t kiln_float_encode(double value, int exponent_bits, int mantissa_bits,
                                         uint32_t largest, uint32_t overflow, uint32_t nan)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = (uint32_t)(bits >> 63) << (exponent_bits + mantissa_bits);
    uint64_t magnitude = bits & 0x7fffffffffffffffu;
    if (magnitude > 0x7ff0000000000000u)
        return nan;
    if (magnitude == 0x7ff0000000000000u)
        return sign | overflow;
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(magnitude >> 52) - 1023;
    uint64_t mantissa = (magnitude & 0xfffffffffffffu) | (magnitude >> 52 ? 0x10000000000000u : 0);
    /* Below the smallest normal the unit in the last place stays fixed: drop more bits instead. */
    int drop = 52 - mantissa_bits + (exponent < 1 - bias ? 1 - bias - exponent : 0);
    if (drop > 54)
        return sign;
    uint64_t kept = mantissa >> drop, half = (uint64_t)1 << (drop - 1),
             rest = mantissa & (2 * half - 1);
    kept += rest > half || (rest == half && (kept & 1));
    /* For normals the hidden bit adds one to the exponent field; a carry out of the mantissa does
     * the same. */
    uint64_t code = kept;
    if (exponent >= 1 - bias)
        code += (uint64_t)(exponent + bias - 1) << mantissa_bits;
    return sign | (code > largest ? overflow : (uint32_t)code);
}

/* The value of a code without NaN or Inf: the caller sorts those out first. */
static inline double kiln_float_decode(uint32_t code, int exponent_bits, int mantissa_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    uint32_t field = (code >> mantissa_bits) & ((1u << exponent_bits) - 1);
    uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
    double magnitude =
        field ? ldexp((double)(mantissa | (1u << mantissa_bits)), (int)field - bias - mantissa_bits)
              : ldexp((double)mantissa, 1 - bias - mantissa_bits);
    return (code >> (exponent_bits + mantissa_bits)) & 1 ? -magnitude : magnitude;
}

static inline uint16_t kiln_f16_from_f64(double value, int flags)
{
    uint32_t overflow = (flags & KILN_SATURATE) && !isinf(value) ? 0x7bff : 0x7c00;
    return (uint16_t)kiln_float_encode(value, 5, 10, 0x7bff, overflow, 0x7e00);
}

static inline uint16_t kiln_bf16_from_f64(double value, int flags)
{
    uint32_t overflow = (flags & KILN_SATURATE) && !isinf(value) ? 0x7f7f : 0x7f80;
    return (uint16_t)kiln_float_encode(value, 8, 7, 0x7f7f, overflow, 0x7fc0);
}

static inline uint8_t kiln_e4m3_from_f64(double value, int flags)
{
    return (uint8_t)kiln_float_encode(value, 4, 3, 0x7e, flags & KILN_SATURATE ? 0x7e : 0x7f, 0x7f);
}

static inline uint8_t kiln_e5m2_from_f64(double value, int flags)
{
    uint32_t overflow = (flags & KILN_SATURATE) && !isinf(value) ? 0x7b : 0x7c;
    return (uint8_t)kiln_float_encode(value, 5, 2, 0x7b, overflow, 0x7e);
}

static inline uint8_t kiln_e2m1_from_f64(double value)
{
    return (uint8_t)kiln_float_encode(value, 2, 1, 0x7, 0x7, 0);
}

/* The least power of two that is not below `value`, so that a scale never overflows what it scales.
 * Zero gives 2^-127, the smallest; negative values, NaN and values above 2^127 give NaN. */
static inline uint8_t kiln_ue8m0_from_f64(double value)
{
    int exponent;
    if (!(value >= 0) || value > 0x1p127)
        return 0xff;
    double fraction = frexp(value, &exponent);
    exponent -= fraction == 0.5;
    return (uint8_t)(value < 0x1p-127 ? 0 : exponent + 127);
}

static inline float kiln_f32_from_bf16(uint16_t code)
{
    uint32_t bits = (uint32_t)code << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t kiln_bf16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static inline float kiln_f32_from_f16(uint16_t code)
{
    uint32_t sign = (uint32_t)(code & 0x8000) << 16, magnitude = code & 0x7fff, bits;
    float value;
    if (magnitude < 0x400) { /* zero and subnormals: an exact product */
        value = (float)magnitude * 0x1p-24f;
        return sign ? -value : value;
    }
    bits = sign | (magnitude << 13);
    bits += magnitude >= 0x7c00 ? 0x70000000u : 0x38000000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t kiln_f16_from_f32(float value)
{
    return kiln_f16_from_f64(value, 0);
}

static inline double kiln_f64_from_e4m3(uint8_t code)
{
    return (code & 0x7f) == 0x7f ? (double)NAN : kiln_float_decode(code, 4, 3);
}

static inline double kiln_f64_from_e5m2(uint8_t code)
{
    if ((code & 0x7c) == 0x7c)
        return code & 3 ? (double)NAN : code & 0x80 ? -(double)INFINITY : (double)INFINITY;
    return kiln_float_decode(code, 5, 2);
}

static inline double kiln_f64_from_e2m1(uint8_t code)
{
    return kiln_float_decode(code & 0xf, 2, 1);
}

static inline double kiln_f64_from_ue8m0(uint8_t code)
{
    return code == 0xff ? (double)NAN : ldexp(1.0, (int)code - 127);
}

/* Element `index` of a row that starts at `row`, as a double. Exact but for i64 and u64 beyond
 * 2^53. `row` needs no alignment. Unknown types give NaN. */
static inline double kiln_load_f64(uint32_t type, const void *row, int64_t index)
{
    const uint8_t *bytes = (const uint8_t *)row;
#define KILN_LOAD(ctype) \
    ctype element;       \
    memcpy(&element, bytes + index * (int64_t)sizeof element, sizeof element)
    switch (type) {
    case KILN_F64: {
        KILN_LOAD(double);
        return element;
    }
    case KILN_F32: {
        KILN_LOAD(float);
        return element;
    }
    case KILN_F16: {
        KILN_LOAD(uint16_t);
        return kiln_f32_from_f16(element);
    }
    case KILN_BF16: {
        KILN_LOAD(uint16_t);
        return kiln_f32_from_bf16(element);
    }
    case KILN_E4M3:
        return kiln_f64_from_e4m3(bytes[index]);
    case KILN_E5M2:
        return kiln_f64_from_e5m2(bytes[index]);
    case KILN_E2M1:
        return kiln_f64_from_e2m1((uint8_t)(bytes[index / 2] >> (index % 2 * 4)));
    case KILN_UE8M0:
        return kiln_f64_from_ue8m0(bytes[index]);
    case KILN_I64: {
        KILN_LOAD(int64_t);
        return (double)element;
    }
    case KILN_U64: {
        KILN_LOAD(uint64_t);
        return (double)element;
    }
    case KILN_I32: {
        KILN_LOAD(int32_t);
        return element;
    }
    case KILN_U32: {
        KILN_LOAD(uint32_t);
        return element;
    }
    case KILN_I16: {
        KILN_LOAD(int16_t);
        return element;
    }
    case KILN_U16: {
        KILN_LOAD(uint16_t);
        return element;
    }
    case KILN_I8:
        return (int8_t)bytes[index];
    case KILN_U8:
        return bytes[index];
    case KILN_I4: {
        int nibble = bytes[index / 2] >> (index % 2 * 4) & 0xf;
        return nibble < 8 ? nibble : nibble - 16;
    }
    case KILN_U4:
        return bytes[index / 2] >> (index % 2 * 4) & 0xf;
    case KILN_BOOL:
        return bytes[index] != 0;
    default:
        return (double)NAN;
    }
#undef KILN_LOAD
}

/* `value` rounded to the nearest even integer and clamped to [low, high]; NaN gives 0. */
static inline double kiln_round_clamped(double value, double low, double high)
{
    if (isnan(value))
        return 0;
    value = nearbyint(value);
    return value < low ? low : value > high ? high : value;
}

/* Stores `value` as element `index` of a row that starts at `row`, rounded once to nearest even.
 * Flags: KILN_SATURATE. Unknown types store nothing. A sub-byte store rewrites its whole byte: two
 * threads must not share one. */
static inline void kiln_store_f64(uint32_t type, void *row, int64_t index, double value, int flags)
{
    uint8_t *bytes = (uint8_t *)row;
#define KILN_STORE(ctype, expression)    \
    ctype element = (ctype)(expression); \
    memcpy(bytes + index * (int64_t)sizeof element, &element, sizeof element)
    switch (type) {
    case KILN_F64: {
        KILN_STORE(double, value);
        break;
    }
    case KILN_F32: {
        bool clamp = (flags & KILN_SATURATE) && isfinite(value) && fabs(value) > 0x1.fffffep127;
        KILN_STORE(float, clamp ? copysign(0x1.fffffep127, value) : value);
        break;
    }
    case KILN_F16: {
        KILN_STORE(uint16_t, kiln_f16_from_f64(value, flags));
        break;
    }
    case KILN_BF16: {
        KILN_STORE(uint16_t, kiln_bf16_from_f64(value, flags));
        break;
    }
    case KILN_E4M3:
        bytes[index] = kiln_e4m3_from_f64(value, flags);
        break;
    case KILN_E5M2:
        bytes[index] = kiln_e5m2_from_f64(value, flags);
        break;
    case KILN_UE8M0:
        bytes[index] = kiln_ue8m0_from_f64(value);
        break;
    case KILN_I64: {
        double whole = kiln_round_clamped(value, -0x1p63, 0x1p63);
        KILN_STORE(int64_t, whole >= 0x1p63 ? INT64_MAX : (int64_t)whole);
        break;
    }
    case KILN_U64: {
        double whole = kiln_round_clamped(value, 0, 0x1p64);
        KILN_STORE(uint64_t, whole >= 0x1p64 ? UINT64_MAX : (uint64_t)whole);
        break;
    }
    case KILN_I32: {
        KILN_STORE(int32_t, kiln_round_clamped(value, INT32_MIN, INT32_MAX));
        break;
    }
    case KILN_U32: {
        KILN_STORE(uint32_t, kiln_round_clamped(value, 0, UINT32_MAX));
        break;
    }
    case KILN_I16: {
        KILN_STORE(int16_t, kiln_round_clamped(value, INT16_MIN, INT16_MAX));
        break;
    }
    case KILN_U16: {
        KILN_STORE(uint16_t, kiln_round_clamped(value, 0, UINT16_MAX));
        break;
    }
    case KILN_I8:
        bytes[index] = (uint8_t)(int8_t)kiln_round_clamped(value, INT8_MIN, INT8_MAX);
        break;
    case KILN_U8:
        bytes[index] = (uint8_t)kiln_round_clamped(value, 0, UINT8_MAX);
        break;
    case KILN_E2M1:
    case KILN_I4:
    case KILN_U4: {
        unsigned nibble = type == KILN_E2M1 ? kiln_e2m1_from_f64(value)
                          : type == KILN_I4 ? (unsigned)(int)kiln_round_clamped(value, -8, 7)
                                            : (unsigned)kiln_round_clamped(value, 0, 15);
        int shift = (int)(index % 2) * 4;
        bytes[index / 2] =
            (uint8_t)((bytes[index / 2] & ~(0xf << shift)) | (nibble & 0xf) << shift);
        break;
    }
    case KILN_BOOL:
        bytes[index] = value != 0; /* NaN is true */
        break;
    default:
        break;
    }
#undef KILN_STORE
}

enum { KILN_MAX_RANK = 8 };

/* How a tensor's bytes are to be read. */
enum {
    KILN_LAYOUT_STRIDED = 0, /* by shape and strides */
    KILN_LAYOUT_PACKED =
        1 /* an opaque blob that one backend made; it begins with a kiln_pack_header */
};

typedef struct kiln_buffer kiln_buffer;
typedef struct kiln_tensor kiln_tensor;

/* A view of memory. Plain data, owning nothing: copy it freely. Frozen, since tensors stand in
 * arrays.
 *
 * Either `buffer` (device or host memory; the buffer knows its device) or, when that is NULL,
 * `data`, a host pointer. Element [i0, i1, …] lies at byte_offset + (i0*strides[0] + i1*strides[1]
 * + …) elements. Strides may be 0 (broadcast inputs), never negative. The innermost stride of a
 * matrix is 1 unless an operator says otherwise.
 *
 * `scale` holds the scales of a quantised type: one for each block of scale_block[0] ×
 * scale_block[1] elements of the two innermost dimensions (0 = the whole extent), and zero_point
 * likewise what is subtracted before scaling; NULL = 1 and 0. Pointers so that a tensor can scale a
 * tensor; they are read during the call and copied with the arguments. */
struct kiln_tensor {
    kiln_buffer *buffer;
    void *data;
    int64_t byte_offset;
    uint32_t type; /* kiln_type */
    uint32_t rank; /* 0 (a scalar) to 8 */
    int64_t shape[KILN_MAX_RANK];
    int64_t strides[KILN_MAX_RANK]; /* in elements */
    const kiln_tensor *scale;
    int64_t scale_block[2];
    uint32_t layout;
    uint32_t flags; /* none defined: 0 */
    const kiln_tensor *zero_point;
    uint64_t reserved; /* 0 */
};

KILN_STATIC_ASSERT(sizeof(kiln_tensor) == 208, "kiln_tensor is frozen");

/* A row-major tensor over host memory, contiguous but that rows of fewer than 8 bits an element
 * start on a byte. The memory stays the caller's. */
static inline kiln_tensor kiln_tensor_host(uint32_t type, void *data, uint32_t rank,
                                           const int64_t *shape)
{
    kiln_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    tensor.data = data;
    tensor.type = type;
    tensor.rank = rank;
    /* Unsigned, so without overflow: whoever takes the tensor refuses a shape beyond counting. */
    uint64_t stride = 1;
    int bits = kiln_type_bits(type);
    for (uint32_t i = rank; i-- > 0;) {
        uint64_t extent = shape[i] > 0 ? (uint64_t)shape[i] : 1;
        tensor.shape[i] = shape[i];
        tensor.strides[i] = (int64_t)stride;
        if (i == rank - 1 && bits > 0 && bits < 8)
            extent = (extent * (uint64_t)bits + 7) / 8 * 8 / (uint64_t)bits;
        stride *= extent;
    }
    return tensor;
}

/* A rows × columns matrix over host memory, `row_stride` elements from one row to the next. */
static inline kiln_tensor kiln_matrix(uint32_t type, void *data, int64_t rows, int64_t columns,
                                      int64_t row_stride)
{
    int64_t shape[2] = {rows, columns};
    kiln_tensor tensor = kiln_tensor_host(type, data, 2, shape);
    tensor.strides[0] = row_stride;
    return tensor;
}

/* A vector of `count` consecutive elements over host memory. */
static inline kiln_tensor kiln_vector(uint32_t type, void *data, int64_t count)
{
    return kiln_tensor_host(type, data, 1, &count);
}

/* Number of elements: the product of the shape, 1 for a scalar. */
static inline int64_t kiln_tensor_elements(const kiln_tensor *tensor)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i];
    return count;
}

#ifdef __cplusplus
}
#endif
#endif
