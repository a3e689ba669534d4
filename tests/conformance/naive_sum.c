/* SPDX-License-Identifier: Apache-2.0 */
/* The naive plugin: sums of products. */
#include "tests/conformance/naive_parts.h"

static bool is_integer(uint32_t type)
{
    return type == KILN_I8 || type == KILN_U8 || type == KILN_I4 || type == KILN_U4;
}

static double scaled(const naive_run *run, double sum, double a_scale, double b_scale)
{
    if (run->instance->order == JOINT_SCALES)
        return naive_rounded(run, sum * naive_rounded(run, a_scale * b_scale));
    return naive_rounded(run, naive_rounded(run, sum * a_scale) * b_scale);
}

/* Steps from `begin` on in which no scale changes. */
static int64_t run_end(const naive_run *run, int64_t j, int64_t begin, int64_t end)
{
    int64_t k = begin + 1;
    while (k < end && run->a_scale[k] == run->a_scale[begin] &&
           run->b_scale[k * run->n + j] == run->b_scale[begin * run->n + j])
        k++;
    return k;
}

static double integer_sum(const naive_run *run, int64_t j, int64_t begin, int64_t end)
{
    double total = 0;
    for (int64_t first = begin; first < end;) {
        int64_t last = run_end(run, j, first, end), sum = 0;
        float rough = 0;
        for (int64_t k = first; k < last; k++) {
            int64_t product = (int64_t)run->a[k] * (int64_t)run->b[k * run->n + j];
            sum += product;
            rough += (float)product;
        }
        double exact = naive_is_mistake(run, NAIVE_ONE_SUM) ? (double)rough : (double)sum;
        if (run->a_scale[first] == 1 && run->b_scale[first * run->n + j] == 1 && first == begin &&
            last == end)
            return exact;
        total =
            naive_rounded(run, total + scaled(run, naive_rounded(run, exact), run->a_scale[first],
                                              run->b_scale[first * run->n + j]));
        first = last;
    }
    return total;
}

static double element_sum(const naive_run *run, int64_t j, int64_t begin, int64_t end)
{
    double sum = 0;
    for (int64_t k = begin; k < end; k++) {
        double a = naive_rounded(run, run->a[k] * run->a_scale[k]),
               b = naive_rounded(run, run->b[k * run->n + j] * run->b_scale[k * run->n + j]);
        sum = naive_rounded(run, sum + naive_rounded(run, a * b));
    }
    return sum;
}

static double block_sum(const naive_run *run, int64_t j, int64_t begin, int64_t end)
{
    double total = 0;
    for (int64_t first = begin; first < end;) {
        int64_t last = run_end(run, j, first, end);
        double sum = 0;
        for (int64_t k = first; k < last; k++)
            sum = naive_rounded(run, sum + naive_rounded(run, run->a[k] * run->b[k * run->n + j]));
        total = naive_rounded(
            run, total + scaled(run, sum, run->a_scale[first], run->b_scale[first * run->n + j]));
        first = last;
    }
    return total;
}

double naive_sum(const naive_run *run, int64_t j, int64_t begin, int64_t end)
{
    if (is_integer(run->desc->a_type) && is_integer(run->desc->b_type))
        return integer_sum(run, j, begin, end);
    return run->instance->order == SCALED_ELEMENTS ? element_sum(run, j, begin, end)
                                                   : block_sum(run, j, begin, end);
}
