/* SPDX-License-Identifier: Apache-2.0 */
/* The ceiling of f64: fused multiply-add on registers. 20 accumulators cover the latency of 4 to 5
 * cycles at two instructions a cycle; with 4 + 5 inputs they fill the 32 registers. Each
 * accumulator sums a product of its own and begins anew with every unit, so that values stay finite
 * and keep changing. */
#include "bench/ceiling.h"

enum { STEPS = 4096, LANES = 8 };

#if defined(__x86_64__)
#include <immintrin.h>

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

__attribute__((target("avx512f"))) static double run_avx512(int64_t units, const void *inputs)
{
    const double *values = inputs;
    __m512d a[4], b[5], sum = _mm512_setzero_pd();
    for (int i = 0; i < 4; i++)
        a[i] = _mm512_loadu_pd(values + LANES * i);
    for (int i = 0; i < 5; i++)
        b[i] = _mm512_loadu_pd(values + LANES * (4 + i));
    for (int64_t unit = 0; unit < units; unit++) {
        __m512d accumulators[20];
#pragma GCC unroll 20
        for (int i = 0; i < 20; i++)
            accumulators[i] = a[i % 4];
        for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 20
            for (int i = 0; i < 20; i++)
                accumulators[i] = _mm512_fmadd_pd(a[i % 4], b[i / 4], accumulators[i]);
#pragma GCC unroll 20
        for (int i = 0; i < 20; i++)
            sum = _mm512_add_pd(sum, accumulators[i]);
    }
    return _mm512_reduce_add_pd(sum);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* 16 registers: 12 accumulators, 2 + 1 inputs. */
__attribute__((target("avx2,fma"))) static double run_avx2(int64_t units, const void *inputs)
{
    const double *values = inputs;
    __m256d a[2], b = _mm256_loadu_pd(values + 8), sum = _mm256_setzero_pd();
    for (int i = 0; i < 2; i++)
        a[i] = _mm256_loadu_pd(values + 4 * i);
    for (int64_t unit = 0; unit < units; unit++) {
        __m256d accumulators[12];
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            accumulators[i] = _mm256_loadu_pd(values + 4 * i);
        for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 12
            for (int i = 0; i < 12; i++)
                accumulators[i] = _mm256_fmadd_pd(a[i % 2], b, accumulators[i]);
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            sum = _mm256_add_pd(sum, accumulators[i]);
    }
    double lanes[4];
    _mm256_storeu_pd(lanes, sum);
    double total = 0;
    for (int i = 0; i < 4; i++)
        total += lanes[i];
    return total;
}
#endif

typedef double vector __attribute__((vector_size(16)));

/* Whatever the compiler makes of 16-byte vectors: SSE2, NEON, VSX. |a| < 1 keeps values finite. */
static double run_portable(int64_t units, const void *inputs)
{
    const vector *values = inputs;
    vector a = values[0], b = values[1], sum = values[2];
    for (int64_t unit = 0; unit < units; unit++) {
        vector accumulators[10];
        for (int i = 0; i < 10; i++)
            accumulators[i] = values[i];
        for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 10
            for (int i = 0; i < 10; i++)
                accumulators[i] = accumulators[i] * a + b;
        for (int i = 0; i < 10; i++)
            sum += accumulators[i];
    }
    return sum[0] + sum[1];
}

const bench_loop bench_loops_f64[] = {
#if defined(__x86_64__)
    {"avx512f vfmadd231pd, 20 accumulators", 2.0 * LANES * 20 * STEPS, has_avx512, run_avx512},
    {"avx2 vfmadd231pd, 12 accumulators", 2.0 * 4 * 12 * STEPS, has_avx2, run_avx2},
#endif
    {"16-byte vectors, 10 accumulators", 2.0 * 2 * 10 * STEPS, bench_loop_anywhere, run_portable},
    {0},
};
