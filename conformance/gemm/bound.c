/* SPDX-License-Identifier: Apache-2.0 */
/* Error bounds of GEMM, step by step. */
#include <float.h>
#include <math.h>

#include "conformance/gemm.h"
#include "conformance/gemm/numeric.h"

static double relative_error(const kiln_gemm_desc *desc)
{
    return desc->precision == KILN_PRECISION_FAST   ? 0.01
           : desc->precision == KILN_PRECISION_AUTO ? desc->max_rel_error
                                                    : 0;
}

gemm_arithmetic conformance_gemm_arithmetic(const kiln_gemm_desc *desc, uint32_t answer_flags)
{
    bool wide = desc->a_type == KILN_F64;
    bool integers =
        conformance_type_is_integer(desc->a_type) && conformance_type_is_integer(desc->b_type);
    bool a_scaled = desc->a_quantization.scale_type != KILN_TYPE_NONE,
         b_scaled = desc->b_quantization.scale_type != KILN_TYPE_NONE;
    bool whole = integers && !a_scaled && !b_scaled && desc->d_type == KILN_I32;
    bool flushes = answer_flags & KILN_ANSWER_FLUSHES_DENORMALS;
    gemm_arithmetic arithmetic = {
        .wide = wide,
        .exact_runs = integers,
        .flushes = flushes,
        .a_scaled = a_scaled,
        .b_scaled = b_scaled,
        .sum_unit = wide || whole ? 0x1p-53 : 0x1p-24,
        .step_unit = wide ? 0x1p-53 : 0x1p-24,
        .smallest = wide ? DBL_MIN : (double)FLT_MIN,
        .largest = wide ? DBL_MAX : (double)FLT_MAX,
        .relative = relative_error(desc),
        .convert_once = whole && desc->epilogue_count > 0,
    };
    arithmetic.tiny = flushes ? arithmetic.smallest : wide ? 0x1p-1074 : 0x1p-149;
    return arithmetic;
}

/* ---- The sum ---- */

/* Whether an operation on the way to the segment's contribution may overflow, in any order: scaled
 * elements, or a sum that is scaled by one after the other or by the product of both. */
static bool may_overflow(const gemm_arithmetic *arithmetic, const gemm_factor *a,
                         const gemm_factor *b, double size)
{
    double limit = arithmetic->largest / 1.001, /* the values have errors themselves */
        a_scale = fabs(a->scale), b_scale = fabs(b->scale);
    return size >= limit || (arithmetic->a_scaled && a->largest * a_scale >= limit) ||
           (arithmetic->b_scaled && b->largest * b_scale >= limit) || size * a_scale >= limit ||
           size * b_scale >= limit || a_scale * b_scale >= limit ||
           size * (a_scale * b_scale) >= limit;
}

/* Whether a factor of an Inf may become 0, and the product so NaN, in one order and not in another.
 */
static bool may_vanish(const gemm_arithmetic *arithmetic, const gemm_factor *a,
                       const gemm_factor *b)
{
    double smallest = arithmetic->smallest, a_scale = fabs(a->scale), b_scale = fabs(b->scale);
    if (!arithmetic->a_scaled && !arithmetic->b_scaled && !arithmetic->flushes)
        return false;
    return a->least * a_scale < smallest || b->least * b_scale < smallest ||
           a_scale * b_scale < smallest;
}

/* In units of what underflow of one operation costs: of products and partial sums, before or after
 * scales; of scaled elements, times what they meet; of the product of scales, times the sum. */
static double underflow(const gemm_arithmetic *arithmetic, int64_t steps, const gemm_factor *a,
                        const gemm_factor *b, double size)
{
    double count = (double)steps, a_scale = fabs(a->scale), b_scale = fabs(b->scale);
    double a_largest = a->largest * a_scale, b_largest = b->largest * b_scale;
    double units = 1 + a_scale + b_scale + a_scale * b_scale;
    if (arithmetic->a_scaled && arithmetic->b_scaled)
        units += size;
    if (arithmetic->exact_runs)
        return units;
    units += count * (1 + a_scale * b_scale);
    if (arithmetic->a_scaled)
        units += count * b_largest;
    if (arithmetic->b_scaled)
        units += count * a_largest;
    if (arithmetic->flushes) /* elements and scales that are taken for zero */
        units += count * (a_largest + b_largest) + size * ((arithmetic->a_scaled ? b_scale : 0) +
                                                           (arithmetic->b_scaled ? a_scale : 0));
    return units;
}

void conformance_gemm_add_segment(const gemm_arithmetic *arithmetic, int64_t steps,
                                  const gemm_factor *a, const gemm_factor *b, double sum,
                                  double magnitude, gemm_terms *terms)
{
    double scale = fabs(a->scale * b->scale), size = arithmetic->exact_runs ? fabs(sum) : magnitude;
    terms->segments++;
    terms->magnitude += magnitude * scale;
    terms->rounded += size * scale;
    if (!isfinite(magnitude)) { /* NaN or Inf among the elements: then by what else there is */
        size = (double)steps * a->largest * b->largest;
        terms->uncertain |= may_vanish(arithmetic, a, b);
    }
    terms->underflow += underflow(arithmetic, steps, a, b, size);
    terms->uncertain |= isinf(a->scale) || isinf(b->scale) || may_overflow(arithmetic, a, b, size);
}

double conformance_gemm_sum_error(const gemm_arithmetic *arithmetic, int64_t k, double alpha,
                                  const gemm_terms *terms, double beta, double c, long double value)
{
    if (terms->uncertain)
        return (double)INFINITY;
    if (!isfinite(value))
        return 0;
    double depth = (double)k + 1;
    if (arithmetic->exact_runs)
        depth = (double)(terms->segments > 1 ? terms->segments : 1);
    double roundings =
        (depth + 3 + 2 * arithmetic->a_scaled + 2 * arithmetic->b_scaled) * arithmetic->sum_unit;
    double added = fabs(beta * c), size = fabs(alpha) * terms->rounded + added;
    double error = roundings / (1 - roundings) * size;
    error += arithmetic->tiny * (fabs(alpha) * (terms->underflow + 1) + fabs(beta) + 4);
    error += arithmetic->relative * (fabs(alpha) * terms->magnitude + added);
    if (arithmetic->convert_once)
        error += arithmetic->step_unit * (size + error);
    return fmax(size, terms->rounded) + error < arithmetic->largest ? error : (double)INFINITY;
}

/* ---- Epilogues ---- */

/* An upper limit of |slope| of the activations; erf-gelu has 1.129, tanh-gelu 1.130, silu 1.100. */
static const double activation_slope = 1.131;

/* Roundings of an activation, relative to its argument, whose magnitude it never exceeds. */
static const double activation_roundings = 8;

static double activation_error(const gemm_arithmetic *arithmetic, double argument, double error)
{
    return activation_slope * error +
           activation_roundings * arithmetic->step_unit * (argument + error) + arithmetic->tiny;
}

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
        error = activation_error(arithmetic, argument, error);
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

double conformance_gemm_swiglu_error(const gemm_arithmetic *arithmetic, long double gate,
                                     double gate_error, long double silu, long double up,
                                     double up_error, long double after)
{
    double argument = (double)fabsl(gate), factor = (double)fabsl(silu), x = (double)fabsl(up),
           size = (double)fabsl(after);
    if (isinf(gate_error) || isinf(up_error))
        return (double)INFINITY;
    double error = isfinite(argument) ? activation_error(arithmetic, argument, gate_error) : 0;
    if ((isinf(factor) && x <= up_error && up_error > 0) ||
        (isinf(x) && factor <= error && error > 0))
        return (double)INFINITY;
    if (!isfinite(size))
        return 0;
    error = factor * up_error + x * error + error * up_error;
    error += 2 * arithmetic->step_unit * (size + error) + arithmetic->tiny * (1 + factor + x);
    return size + error < arithmetic->largest ? error : (double)INFINITY;
}

double conformance_gemm_gradient_error(const gemm_arithmetic *arithmetic, int64_t count,
                                       long double sum, double magnitude, double error)
{
    if (isinf(error))
        return error;
    double roundings = ((double)count + 1) * arithmetic->step_unit;
    double bound = error + roundings / (1 - roundings) * (magnitude + error) +
                   arithmetic->tiny * ((double)count + 1) + 0x1p-53 * (double)fabsl(sum);
    if (!(magnitude + (isfinite(sum) ? bound : error) < arithmetic->largest))
        return (double)INFINITY;
    return isfinite(sum) ? bound : 0;
}

/* ---- D ---- */

/* NaN that the type cannot hold is 0, and an Inf that it cannot hold its largest value, or NaN in
 * e4m3 without saturation. */
double conformance_gemm_clamped(uint32_t d_type, bool saturate, long double value)
{
    double low = conformance_type_lowest(d_type), high = conformance_type_largest(d_type);
    bool always = conformance_type_is_integer(d_type) || d_type == KILN_E2M1;
    if (isnan(value))
        return always ? 0 : (double)NAN;
    if (isinf(value) && d_type == KILN_E4M3 && !saturate)
        return (double)NAN;
    if (!always && !(saturate && (isfinite(value) || d_type == KILN_E4M3)))
        return (double)value;
    return (double)(value < low ? low : value > high ? high : value);
}

double conformance_gemm_output_bound(const gemm_arithmetic *arithmetic, uint32_t d_type,
                                     double value, double error)
{
    if (isinf(error))
        return error;
    if (!isfinite(value))
        return 0;
    double bound = error + conformance_type_rounding(d_type, fabs(value) + error);
    if (arithmetic->flushes && !conformance_type_is_integer(d_type))
        bound += arithmetic->tiny;
    return bound + 0x1p-53 * fabs(value); /* the oracle's own rounding */
}

/* Whether rounding may take a finite value beyond the largest: its bound reaches what would follow
 * that. */
static bool may_leave(uint32_t d_type, double exact, double bound)
{
    double high = conformance_type_largest(d_type);
    return fabs(exact) - high + bound >= 2 * conformance_type_rounding(d_type, high);
}

double conformance_gemm_ratio(uint32_t d_type, bool saturate, double exact, double bound,
                              double measured)
{
    if (isinf(bound))
        return 0;
    bool integer = conformance_type_is_integer(d_type);
    bool leaves = !saturate && !integer && isfinite(exact) && may_leave(d_type, exact, bound);
    if (isnan(exact) || isnan(measured))
        return (isnan(exact) && isnan(measured)) ||
                       (d_type == KILN_E4M3 && isnan(measured) && leaves)
                   ? 0
                   : (double)INFINITY;
    if (isinf(exact) || isinf(measured))
        return exact == measured || (isinf(measured) && leaves && (exact > 0) == (measured > 0))
                   ? 0
                   : (double)INFINITY;
    double error = fabs(measured - exact);
    /* What rounding to an integer costs is no news: judge what goes beyond it. */
    if (integer) {
        error = fmax(error - 0.5, 0);
        bound -= 0.5;
    }
    return bound > 0 ? error / bound : error > 0 ? (double)INFINITY : 0;
}
