/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what a GEMM case's run has left in its memory. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "conformance/gemm/result.h"
#include "conformance/lines.h"

bool conformance_gemm_fail(conformance_gemm_result *result, const char *format, ...)
{
    if (result->outcome == CONFORMANCE_FAILED)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->text, sizeof result->text, format, arguments);
    va_end(arguments);
    result->outcome = CONFORMANCE_FAILED;
    return false;
}

/* ---- What must come out ---- */

/* The case's tensors, as they were before the run. */
static kiln_status ask_oracle(const conformance_gemm_case *test, uint32_t answer_flags,
                              conformance_gemm_expected *expected, const char **reason)
{
    kiln_tensor tensors[CONFORMANCE_GEMM_TENSORS];
    for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        tensors[slot] = test->tensors[slot].tensor;
        tensors[slot].data = test->tensors[slot].before;
    }
    for (uint32_t slot = KILN_GEMM_A; slot <= KILN_GEMM_B; slot++) {
        if (tensors[slot].scale)
            tensors[slot].scale = &tensors[CONFORMANCE_GEMM_SCALE + slot];
        if (tensors[slot].zero_point)
            tensors[slot].zero_point = &tensors[CONFORMANCE_GEMM_ZERO_POINT + slot];
    }
    if (test->aliased)
        tensors[KILN_GEMM_C].data = test->tensors[KILN_GEMM_D].before;
    kiln_gemm_args args = {{sizeof args, KILN_GEMM_SLOTS, tensors}, test->alpha, test->beta};
    return conformance_gemm_oracle(&test->desc, &args, answer_flags, expected, reason);
}

static bool expect(conformance_gemm_case *test, conformance_gemm_result *result)
{
    const char *reason = "no memory";
    if (test->expected)
        return true;
    conformance_gemm_expected *expected = calloc(1, sizeof *expected);
    kiln_status status = KILN_NO_MEMORY;
    if (expected)
        status = ask_oracle(test, result->answer_flags, expected, &reason);
    if (status == KILN_OK && expected->exceeded == test->violates) {
        test->expected = expected;
        return true;
    }
    if (status == KILN_OK) {
        conformance_gemm_expected_free(expected);
        reason = "it sees other groups than the case has made";
    }
    free(expected);
    return conformance_gemm_fail(result, "the oracle failed with %s: %s", kiln_status_name(status),
                                 reason);
}

/* ---- Elements ---- */

/* Sums for the global measure. */
typedef struct global_sums {
    double products, squares;
} global_sums;

static void count_ratio(conformance_gemm_result *result, double bound, double ratio)
{
    result->elements++;
    result->unbounded += isinf(bound) != 0;
    if (ratio > result->largest_ratio)
        result->largest_ratio = ratio;
}

/* Where an element stands, for people. */
static void name_place(const conformance_gemm_expected *expected, const char *name, int64_t line,
                       int64_t column, char text[96])
{
    snprintf(text, 96, "%s[%lld, %lld, %lld]", name, (long long)(line / expected->rows),
             (long long)(line % expected->rows), (long long)column);
}

static void sum_globally(global_sums *sums, double exact, double bound, double measured)
{
    if (!isfinite(measured) || !isfinite(exact) || !(fabs(exact) >= 64 * bound))
        return;
    sums->products += exact * measured;
    sums->squares += exact * exact + measured * measured;
}

static void judge_element(const conformance_gemm_case *test, int64_t line, int64_t column,
                          double measured, global_sums *sums, conformance_gemm_result *result)
{
    const conformance_gemm_expected *expected = test->expected;
    int64_t element = line * expected->columns + column;
    double exact = expected->exact[element], bound = expected->bound[element];
    double ratio = conformance_gemm_ratio(
        test->desc.d_type, test->desc.head.flags & KILN_GEMM_SATURATE, exact, bound, measured);
    char place[96];
    count_ratio(result, bound, ratio);
    sum_globally(sums, exact, bound, measured);
    if (ratio <= 1)
        return;
    name_place(expected, "D", line, column, place);
    conformance_gemm_fail(result,
                          "%s is %.17g; exactly it is %.17g, and the bound is %.3g (ratio %.3g)",
                          place, measured, exact, bound, ratio);
}

static void judge_quantized(const conformance_gemm_case *test, int64_t line, int64_t column,
                            double measured, double scale, conformance_gemm_result *result)
{
    const conformance_gemm_expected *expected = test->expected;
    int64_t element = line * expected->columns + column;
    double exact = expected->exact[element], bound = expected->bound[element];
    double ratio =
        conformance_gemm_quantized_ratio(test->desc.d_type, exact, bound, scale, measured);
    char place[96];
    count_ratio(result, bound, ratio);
    if (ratio <= 1)
        return;
    name_place(expected, "D", line, column, place);
    conformance_gemm_fail(result,
                          "%s is %.9g with scale %.9g; the value that is quantised is %.17g, known "
                          "to %.3g (ratio %.3g)",
                          place, measured, scale, exact, bound, ratio);
}

/* The scales of one row of D, then its elements by them. */
static void judge_quantized_line(const conformance_gemm_case *test, int64_t line,
                                 conformance_gemm_result *result)
{
    const conformance_gemm_expected *expected = test->expected;
    const conformance_tensor *d = &test->tensors[KILN_GEMM_D],
                             *scales = &test->tensors[KILN_GEMM_D_SCALE];
    int64_t block = test->desc.d_quantization.block[1];
    const uint8_t *d_line = conformance_line(&d->tensor, d->memory, line),
                  *scale_line = conformance_line(&scales->tensor, scales->memory, line);
    double scale = 1;
    for (int64_t j = 0; j < expected->columns; j++) {
        int64_t s = block > 0 ? j / block : 0, at = line * expected->scale_columns + s;
        if (j == (block > 0 ? s * block : 0)) {
            double low = expected->scale_low[at], high = expected->scale_high[at];
            char place[96];
            scale = kiln_load_f64(scales->tensor.type, scale_line,
                                  conformance_line_index(&scales->tensor, s));
            double ratio = conformance_gemm_scale_ratio(scales->tensor.type, low, high, scale);
            count_ratio(result, high, ratio);
            if (ratio > 1) {
                name_place(expected, "D_SCALE", line, s, place);
                conformance_gemm_fail(result, "%s is %.9g; it must be from %.9g to %.9g%s", place,
                                      scale, low, high, low == 0 ? ", or 1" : "");
            }
        }
        judge_quantized(test, line, j, kiln_load_f64(d->tensor.type, d_line, j), scale, result);
    }
}

static void judge_d(const conformance_gemm_case *test, conformance_gemm_result *result)
{
    const conformance_gemm_expected *expected = test->expected;
    const conformance_tensor *d = &test->tensors[KILN_GEMM_D];
    global_sums sums = {0, 0};
    for (int64_t line = 0; line < conformance_line_count(&d->tensor); line++) {
        if (!expected->written[line])
            continue;
        if (expected->scale_columns > 0) {
            judge_quantized_line(test, line, result);
            continue;
        }
        const uint8_t *memory = conformance_line(&d->tensor, d->memory, line);
        for (int64_t j = 0; j < expected->columns; j++)
            judge_element(test, line, j, kiln_load_f64(d->tensor.type, memory, j), &sums, result);
    }
    result->global = sums.squares > 0 ? 1 - 2 * sums.products / sums.squares : 0;
}

static void judge_gradient(const conformance_gemm_case *test, uint32_t i,
                           conformance_gemm_result *result)
{
    const conformance_gemm_gradient *gradient = &test->expected->gradients[i];
    const conformance_tensor *operand = &test->tensors[KILN_GEMM_OPERAND + i];
    for (int64_t row = 0; gradient->columns > 0 && row < gradient->rows; row++) {
        const uint8_t *memory = conformance_line(&operand->tensor, operand->memory, row);
        for (int64_t j = 0; j < gradient->columns; j++) {
            int64_t at = row * gradient->columns + j;
            double exact = gradient->exact[at], bound = gradient->bound[at],
                   measured = kiln_load_f64(operand->tensor.type, memory, j);
            double ratio =
                conformance_gemm_ratio(operand->tensor.type, false, exact, bound, measured);
            count_ratio(result, bound, ratio);
            if (ratio > 1)
                conformance_gemm_fail(result,
                                      "the bias gradient of epilogue %u at [%lld, %lld] is %.17g; "
                                      "exactly it is %.17g, and the bound is %.3g (ratio %.3g)",
                                      (unsigned)i, (long long)row, (long long)j, measured, exact,
                                      bound, ratio);
        }
    }
}

/* ---- Bytes ---- */

/* Nothing of an output but its elements may have changed; where `expected` is given, of its lines
 * only those that it speaks of. */
static bool check_output(const conformance_tensor *made, const conformance_gemm_expected *expected,
                         const char *name, conformance_gemm_result *result)
{
    uint8_t *allowed = malloc((size_t)made->bytes);
    if (!allowed)
        return conformance_gemm_fail(result, "no memory to compare bytes");
    memcpy(allowed, made->before, (size_t)made->bytes);
    for (int64_t line = 0; line < conformance_line_count(&made->tensor); line++)
        if (!expected || expected->written[line] || expected->loose[line])
            conformance_line_copy(&made->tensor, allowed, made->memory, line);
    int64_t at = 0;
    while (at < made->bytes && allowed[at] == made->memory[at])
        at++;
    free(allowed);
    return at == made->bytes ||
           conformance_gemm_fail(result,
                                 "byte %lld of the memory of %s, which is no element to write, has "
                                 "been written to",
                                 (long long)(at - made->tensor.byte_offset), name);
}

static void check_bytes(const conformance_gemm_case *test, conformance_gemm_result *result)
{
    const conformance_gemm_expected *expected = test->expected;
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        const conformance_tensor *made = &test->tensors[slot];
        bool gradient = slot >= KILN_GEMM_OPERAND && slot < KILN_GEMM_GROUPS &&
                        expected->gradients[slot - KILN_GEMM_OPERAND].rows > 0;
        if (!made->memory)
            continue;
        if (slot == KILN_GEMM_D || slot == KILN_GEMM_D_SCALE)
            check_output(made, expected, slot == KILN_GEMM_D ? "D" : "D_SCALE", result);
        else if (gradient)
            check_output(made, NULL, "a bias gradient", result);
        else if (memcmp(made->memory, made->before, (size_t)made->bytes) != 0)
            conformance_gemm_fail(result, "input tensor %u has been written to", (unsigned)slot);
    }
}

void conformance_gemm_judge(conformance_gemm_case *test, conformance_gemm_result *result)
{
    if (result->outcome == CONFORMANCE_DECLINED || !expect(test, result))
        return;
    result->elements = result->unbounded = 0;
    result->largest_ratio = 0;
    judge_d(test, result);
    for (uint32_t i = 0; i < test->desc.epilogue_count; i++)
        judge_gradient(test, i, result);
    check_bytes(test, result);
}
