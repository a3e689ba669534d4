/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges and rounding of element types. */
#include <float.h>
#include <math.h>

#include "conformance/gemm/numeric.h"

typedef struct type_limits {
    double low, high;
    int mantissa_bits; /* without the hidden one; -1 of integers */
    int least;         /* exponent of the smallest normal number */
} type_limits;

static type_limits limits_of(uint32_t type)
{
    switch (type) {
    case KILN_F64:
        return (type_limits){-DBL_MAX, DBL_MAX, 52, -1022};
    case KILN_F32:
        return (type_limits){-FLT_MAX, FLT_MAX, 23, -126};
    case KILN_F16:
        return (type_limits){-65504, 65504, 10, -14};
    case KILN_BF16:
        return (type_limits){-0x1.fep127, 0x1.fep127, 7, -126};
    case KILN_E4M3:
        return (type_limits){-448, 448, 3, -6};
    case KILN_E5M2:
        return (type_limits){-57344, 57344, 2, -14};
    case KILN_E2M1:
        return (type_limits){-6, 6, 1, 0};
    case KILN_I4:
        return (type_limits){-8, 7, -1, 0};
    case KILN_U4:
        return (type_limits){0, 15, -1, 0};
    case KILN_I8:
        return (type_limits){INT8_MIN, INT8_MAX, -1, 0};
    case KILN_U8:
        return (type_limits){0, UINT8_MAX, -1, 0};
    default:
        return (type_limits){INT32_MIN, INT32_MAX, -1, 0};
    }
}

double conformance_type_largest(uint32_t type)
{
    return limits_of(type).high;
}

double conformance_type_lowest(uint32_t type)
{
    return limits_of(type).low;
}

bool conformance_type_is_integer(uint32_t type)
{
    return limits_of(type).mantissa_bits < 0;
}

double conformance_type_rounding(uint32_t type, double magnitude)
{
    type_limits limits = limits_of(type);
    int exponent;
    if (limits.mantissa_bits < 0)
        return 0.5;
    frexp(magnitude, &exponent); /* of a number in [1/2, 1) */
    exponent = magnitude == 0 || exponent - 1 < limits.least ? limits.least : exponent - 1;
    return ldexp(1, exponent - limits.mantissa_bits - 1);
}
