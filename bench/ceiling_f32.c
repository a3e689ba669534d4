/* SPDX-License-Identifier: Apache-2.0 */
/* The ceiling of f32: fused multiply-add on registers. 20 accumulators cover the latency of 4 to 5
 * cycles at two instructions a cycle; with 4 + 5 inputs they fill the 32 registers. Each
 * accumulator sums a product of its own and begins anew with every unit, so that values stay finite
 * and keep changing. */
#include "bench/ceiling.h"

enum { STEPS = 4096, LANES = 16 };

#if defined(__x86_64__)
#include <immintrin.h>

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

__attribute__((target("avx512f"))) static double run_avx512(int64_t units, const void *inputs)
{
    const float *values = inputs;
    __m512 a[4], b[5], sum = _mm512_setzero_ps();
    for (int i = 0; i < 4; i++)
        a[i] = _mm512_loadu_ps(values + LANES * i);
    for (int i = 0; i < 5; i++)
        b[i] = _mm512_loadu_ps(values + LANES * (4 + i));
    for (int64_t unit = 0; unit < units; unit++) {
        __m512 accumulators[20];
#pragma GCC unroll 20
        for (int i = 0; i < 20; i++)
            accumulators[i] = a[i % 4];
        for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 20
            for (int i = 0; i < 20; i++)
                accumulators[i] = _mm512_fmadd_ps(a[i % 4], b[i / 4], accumulators[i]);
#pragma GCC unroll 20
        for (int i = 0; i < 20; i++)
            sum = _mm512_add_ps(sum, accumulators[i]);
    }
    return (double)_mm512_reduce_add_ps(sum);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* 16 registers: 12 accumulators, 2 + 1 inputs. */
__attribute__((target("avx2,fma"))) static double run_avx2(int64_t units, const void *inputs)
{
    const float *values = inputs;
    __m256 a[2], b = _mm256_loadu_ps(values + 16), sum = _mm256_setzero_ps();
    for (int i = 0; i < 2; i++)
        a[i] = _mm256_loadu_ps(values + 8 * i);
    for (int64_t unit = 0; unit < units; unit++) {
        __m256 accumulators[12];
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            accumulators[i] = _mm256_loadu_ps(values + 8 * i);
        for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 12
            for (int i = 0; i < 12; i++)
                accumulators[i] = _mm256_fmadd_ps(a[i % 2], b, accumulators[i]);
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            sum = _mm256_add_ps(sum, accumulators[i]);
    }
    float lanes[8];
    _mm256_storeu_ps(lanes, sum);
    double total = 0;
    for (int i = 0; i < 8; i++)
        total += (double)lanes[i];
    return total;
}
#endif

typedef float vector __attribute__((vector_size(16)));

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
    return (double)sum[0] + (double)sum[1] + (double)sum[2] + (double)sum[3];
}

const bench_loop bench_loops_f32[] = {
#if defined(__x86_64__)
    {"avx512f vfmadd231ps, 20 accumulators", 2.0 * LANES * 20 * STEPS, has_avx512, run_avx512},
    {"avx2 vfmadd231ps, 12 accumulators", 2.0 * 8 * 12 * STEPS, has_avx2, run_avx2},
#endif
    {"16-byte vectors, 10 accumulators", 2.0 * 4 * 10 * STEPS, bench_loop_anywhere, run_portable},
    {0},
};
