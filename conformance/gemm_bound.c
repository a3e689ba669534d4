/* SPDX-License-Identifier: Apache-2.0 */
/* Error bounds of GEMM, step by step. */
#include <float.h>
#include <math.h>

#include "conformance/conformance.h"
#include "conformance/gemm_numeric.h"

/* Range and relative rounding of a type, and what rounding may cost beside: the smallest denormal,
 * or half of one. */
typedef struct type_limits {
    double low, high, unit, tiny;
} type_limits;

static type_limits limits_of(uint32_t type)
{
    switch (type) {
    case KILN_F64:
        return (type_limits){-DBL_MAX, DBL_MAX, 0x1p-53, 0x1p-1074};
    case KILN_F32:
        return (type_limits){-FLT_MAX, FLT_MAX, 0x1p-24, 0x1p-149};
    case KILN_F16:
        return (type_limits){-65504, 65504, 0x1p-11, 0x1p-24};
    case KILN_BF16:
        return (type_limits){-0x1.fep127, 0x1.fep127, 0x1p-8, 0x1p-133};
    case KILN_I8:
        return (type_limits){INT8_MIN, INT8_MAX, 0, 0.5};
    default:
        return (type_limits){INT32_MIN, INT32_MAX, 0, 0.5};
    }
}

static bool is_integer(uint32_t type)
{
    return type == KILN_I8 || type == KILN_I32;
}

gemm_arithmetic conformance_gemm_arithmetic(const kiln_gemm_desc *desc, uint32_t answer_flags)
{
    bool wide = desc->a_type == KILN_F64;
    bool whole = desc->a_type == KILN_I8 && desc->d_type == KILN_I32;
    bool flushes = answer_flags & KILN_ANSWER_FLUSHES_DENORMALS;
    type_limits step = limits_of(wide ? KILN_F64 : KILN_F32);
    gemm_arithmetic arithmetic = {
        .exact_sum = desc->a_type == KILN_I8,
        .flushes = flushes,
        .sum_unit = wide || whole ? 0x1p-53 : 0x1p-24,
        .step_unit = step.unit,
        .tiny = flushes ? (wide ? DBL_MIN : (double)FLT_MIN) : step.tiny,
        .largest = step.high,
        .convert_once = whole && desc->epilogue_count > 0,
    };
    return arithmetic;
}

double conformance_gemm_sum_error(const gemm_arithmetic *arithmetic, int64_t k, double alpha,
                                  double magnitude, double spread, double beta, double c)
{
    double roundings = (arithmetic->exact_sum ? 4 : (double)k + 4) * arithmetic->sum_unit;
    double size = fabs(alpha) * magnitude + fabs(beta * c);
    double error = roundings / (1 - roundings) * size;
    error += arithmetic->tiny * (fabs(alpha) * ((double)k + 1) + fabs(beta) + 4);
    if (arithmetic->flushes)
        error += arithmetic->tiny * fabs(alpha) * spread;
    if (arithmetic->convert_once)
        error += arithmetic->step_unit * (size + error);
    return fmax(size, magnitude) + error < arithmetic->largest ? error : (double)INFINITY;
}

/* An upper limit of |slope| of the activations; erf-gelu has 1.129, tanh-gelu 1.130, silu 1.100. */
static const double activation_slope = 1.131;

/* Roundings of an activation, relative to its argument, whose magnitude it never exceeds. */
static const double activation_roundings = 8;

double conformance_gemm_step_error(const gemm_arithmetic *arithmetic, uint32_t kind,
                                   long double before, double error, double x, long double after)
{
    double unit = arithmetic->step_unit, tiny = arithmetic->tiny;
    double size = (double)fabsl(after), argument = (double)fabsl(before);
    bool product = kind == KILN_EPILOGUE_MULTIPLY || kind == KILN_EPILOGUE_SCALE;

    if (isinf(error))
        return error;
    /* Inf times what may be zero, and may have either sign. */
    if (product && isinf(x) && argument <= error)
        return error > 0 ? (double)INFINITY : 0;
    if (isinf(after) || isnan(after))
        return 0;
    if (!isfinite((double)before) || !isfinite(x))
        return unit * size;
    switch (kind) {
    case KILN_EPILOGUE_BIAS:
    case KILN_EPILOGUE_RESIDUAL:
        error += unit * (size + error) + tiny;
        break;
    case KILN_EPILOGUE_CLIP:
        error += unit * size + tiny;
        break;
    case KILN_EPILOGUE_GELU_ERF:
    case KILN_EPILOGUE_GELU_TANH:
    case KILN_EPILOGUE_SILU:
        error = activation_slope * error + activation_roundings * unit * (argument + error) + tiny;
        break;
    case KILN_EPILOGUE_MULTIPLY:
    case KILN_EPILOGUE_SCALE:
        error =
            fabs(x) * error + 2 * unit * (size + fabs(x) * error) + tiny * (1 + argument + fabs(x));
        break;
    default: /* relu: exact, slope at most 1 */
        break;
    }
    return size + error < arithmetic->largest ? error : (double)INFINITY;
}

double conformance_gemm_clamped(uint32_t d_type, bool saturate, long double value)
{
    type_limits limits = limits_of(d_type);
    if (is_integer(d_type) ? isnan(value) : !(saturate && isfinite(value)))
        return is_integer(d_type) ? 0 : (double)value;
    return (double)(value < limits.low ? limits.low : value > limits.high ? limits.high : value);
}

double conformance_gemm_output_bound(const gemm_arithmetic *arithmetic, uint32_t d_type,
                                     double value, double error)
{
    type_limits limits = limits_of(d_type);
    if (isinf(error))
        return error;
    if (!isfinite(value))
        return 0;
    double bound = error + limits.unit * (fabs(value) + error) + limits.tiny;
    if (arithmetic->flushes && !is_integer(d_type))
        bound += arithmetic->tiny;
    return bound + 0x1p-53 * fabs(value); /* the oracle's own rounding */
}

double conformance_gemm_ratio(uint32_t d_type, bool saturate, double exact, double bound,
                              double measured)
{
    if (isinf(bound))
        return 0;
    if (isnan(exact) || isnan(measured))
        return isnan(exact) && isnan(measured) ? 0 : (double)INFINITY;
    if (isinf(exact) || isinf(measured)) {
        bool rounds = !saturate && isinf(measured) &&
                      fabs(exact) + bound > limits_of(d_type).high && (exact > 0) == (measured > 0);
        return exact == measured || rounds ? 0 : (double)INFINITY;
    }
    double error = fabs(measured - exact);
    /* What rounding to an integer costs is no news: judge what goes beyond it. */
    if (is_integer(d_type)) {
        error = fmax(error - 0.5, 0);
        bound -= 0.5;
    }
    return bound > 0 ? error / bound : error > 0 ? (double)INFINITY : 0;
}
