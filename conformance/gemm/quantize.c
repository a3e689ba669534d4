/* SPDX-License-Identifier: Apache-2.0 */
/* What KILN_EPILOGUE_QUANTIZE may make of values that are known to a bound: a scale per block, and
 * elements that fit the scale that was found. */
#include <float.h>
#include <math.h>

#include "conformance/gemm.h"
#include "conformance/gemm/numeric.h"

static const double least_scale = 0x1p-126;

/* Two roundings of f32: of the quotient, and of its divisor's reciprocal where there is one. */
static const double scale_roundings = 0x1p-23;

/* The least power of two that is not below `value`, from 2^-126 to 2^127. */
static double power_of_two_from(double value)
{
    int exponent;
    if (value <= least_scale)
        return least_scale;
    double fraction = frexp(value, &exponent);
    return ldexp(1, exponent - (fraction == 0.5));
}

/* From the least scale of e4m3 to its largest. */
static double nearest_e4m3(double value)
{
    uint8_t code;
    kiln_store_f64(KILN_E4M3, &code, 0, fmax(value, 0x1p-9), KILN_SATURATE);
    return kiln_load_f64(KILN_E4M3, &code, 0);
}

void conformance_gemm_scale_range(const gemm_arithmetic *arithmetic, const kiln_gemm_desc *desc,
                                  int64_t count, const double *values, const double *errors,
                                  double *low, double *high)
{
    double least = 0, most = 0, largest = conformance_type_largest(desc->d_type);
    for (int64_t i = 0; i < count; i++) {
        if (isinf(errors[i]))
            most = (double)INFINITY;
        if (!isfinite(values[i]))
            continue;
        least = fmax(least, fabs(values[i]) - errors[i]);
        most = fmax(most, fabs(values[i]) + errors[i]);
    }
    if (most == 0 || isinf(most)) {
        *low = isinf(most) ? 0 : 1;
        *high = isinf(most) ? most : 1;
        return;
    }
    bool nothing = least <= (arithmetic->flushes ? arithmetic->smallest : 0); /* 1 may be right */
    least = fmax(least / largest * (1 - scale_roundings), least_scale);
    most = fmax(most / largest * (1 + scale_roundings), least_scale);
    double most_of_type = (double)FLT_MAX;
    if (desc->d_quantization.scale_type == KILN_E4M3) {
        most_of_type = 448;
        least = nearest_e4m3(least);
        most = nearest_e4m3(most);
    }
    if (desc->d_quantization.scale_type == KILN_UE8M0) {
        most_of_type = 0x1p127;
        least = power_of_two_from(fmin(least, most_of_type));
        most = power_of_two_from(fmin(most, most_of_type));
    }
    *low = nothing ? 0 : fmin(least, most_of_type);
    *high = fmin(most, most_of_type);
}

double conformance_gemm_scale_ratio(uint32_t scale_type, double low, double high, double measured)
{
    if (isinf(high) || (low == 0 && measured == 1))
        return 0;
    low = fmax(low, least_scale);
    if (!(measured >= low && measured <= high))
        return (double)INFINITY;
    if (scale_type == KILN_UE8M0 || scale_type == KILN_E4M3 || low == high)
        return 0;
    return fmin(fabs(measured - (low + high) / 2) / ((high - low) / 2), 1);
}

/* What the conversion to D makes of NaN or Inf. */
static double converted(uint32_t d_type, double value)
{
    uint64_t element = 0;
    kiln_store_f64(d_type, &element, 0, value, KILN_SATURATE);
    return kiln_load_f64(d_type, &element, 0);
}

double conformance_gemm_quantized_ratio(uint32_t d_type, double exact, double bound, double scale,
                                        double measured)
{
    if (isinf(bound) || !isfinite(scale)) /* a wrong scale has been judged by itself */
        return 0;
    if (!isfinite(exact)) {
        double wanted = converted(d_type, exact);
        return measured == wanted || (isnan(measured) && isnan(wanted)) ? 0 : (double)INFINITY;
    }
    if (!isfinite(measured))
        return (double)INFINITY;
    double largest = conformance_type_largest(d_type);
    exact = fmax(exact, scale * conformance_type_lowest(d_type));
    exact = fmin(exact, scale * largest);
    double size = fabs(exact) + bound;
    double half = scale * conformance_type_rounding(d_type, fmin(size / scale, largest));
    /* Division, perhaps by a rounded reciprocal; the same again for a scale that was rounded down.
     */
    bound += 2 * scale_roundings * size + scale * 0x1p-126;
    double error = fabs(measured * scale - exact);
    if (conformance_type_is_integer(d_type))
        error = fmax(error - half, 0);
    else
        bound += half;
    return error / bound;
}
