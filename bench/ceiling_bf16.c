/* SPDX-License-Identifier: Apache-2.0 */
/* The ceiling of bf16: pairs of bf16 products summed into f32. The instruction's latency of up to 6
 * cycles asks for at least 12 to 16 accumulators; there are 20. Tile registers (AMX) are not used.
 */
#include "bench/ceiling.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stddef.h>
#include <string.h>

enum { STEPS = 4096, PRODUCTS = 32 };

static bool has_avx512_bf16(void)
{
    return __builtin_cpu_supports("avx512bf16");
}

__attribute__((target("avx512f,avx512bf16"))) static double run_avx512_bf16(int64_t units,
                                                                            const void *inputs)
{
    const char *bytes = inputs;
    __m512bh a[4], b[5];
    __m512 start = _mm512_cvtepi32_ps(_mm512_loadu_si512(bytes)), sum = _mm512_setzero_ps();
    for (size_t i = 0; i < 4; i++)
        memcpy(&a[i], bytes + 64 * i, 64);
    for (size_t i = 0; i < 5; i++)
        memcpy(&b[i], bytes + 64 * (4 + i), 64);
    for (int64_t unit = 0; unit < units; unit++) {
        __m512 accumulators[20];
#pragma GCC unroll 20
        for (int i = 0; i < 20; i++)
            accumulators[i] = start;
        for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 20
            for (int i = 0; i < 20; i++)
                accumulators[i] = _mm512_dpbf16_ps(accumulators[i], a[i % 4], b[i / 4]);
#pragma GCC unroll 20
        for (int i = 0; i < 20; i++)
            sum = _mm512_add_ps(sum, accumulators[i]);
    }
    return (double)_mm512_reduce_add_ps(sum);
}
#endif

const bench_loop bench_loops_bf16[] = {
#if defined(__x86_64__)
    {"avx512_bf16 vdpbf16ps, 20 accumulators", 2.0 * PRODUCTS * 20 * STEPS, has_avx512_bf16,
     run_avx512_bf16},
#endif
    {0},
};
