/* SPDX-License-Identifier: Apache-2.0 */
/* The ceiling of int8: quads of u8·s8 products summed into i32. Sums wrap, as the instructions do.
 */
#include "bench/ceiling.h"

enum { STEPS = 4096 };

#if defined(__x86_64__)
#include <immintrin.h>

/* Integer sums of intrinsics would overflow; the value does not matter. */
static double lane_sum(const int32_t *lanes, int count)
{
    double total = 0;
    for (int i = 0; i < count; i++)
        total += lanes[i];
    return total;
}

static bool has_avx512_vnni(void)
{
    return __builtin_cpu_supports("avx512vnni");
}

__attribute__((target("avx512f,avx512vnni"))) static double run_avx512_vnni(int64_t units,
                                                                            const void *inputs)
{
    const char *bytes = inputs;
    __m512i a[4], b[5], sum = _mm512_setzero_si512();
    for (int i = 0; i < 4; i++)
        a[i] = _mm512_loadu_si512(bytes + 64 * i);
    for (int i = 0; i < 5; i++)
        b[i] = _mm512_loadu_si512(bytes + 64 * (4 + i));
    for (int64_t unit = 0; unit < units; unit++) {
        __m512i accumulators[20];
#pragma GCC unroll 20
        for (int i = 0; i < 20; i++)
            accumulators[i] = a[i % 4];
        for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 20
            for (int i = 0; i < 20; i++)
                accumulators[i] = _mm512_dpbusd_epi32(accumulators[i], a[i % 4], b[i / 4]);
#pragma GCC unroll 20
        for (int i = 0; i < 20; i++)
            sum = _mm512_add_epi32(sum, accumulators[i]);
    }
    int32_t lanes[16];
    _mm512_storeu_si512(lanes, sum);
    return lane_sum(lanes, 16);
}

#if __GNUC__ >= 11 || __clang_major__ >= 12
#include <cpuid.h>
#define HAVE_AVX_VNNI 1

/* Not every compiler's __builtin_cpu_supports() knows the name: leaf 7, subleaf 1, EAX bit 4. */
static bool has_avx_vnni(void)
{
    unsigned eax, ebx, ecx, edx;
    return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) &&
           (eax >> 4 & 1);
}

__attribute__((target("avx2,avxvnni"))) static double run_avx_vnni(int64_t units,
                                                                   const void *inputs)
{
    const __m256i *values = inputs;
    __m256i a[2], b = _mm256_loadu_si256(values + 2), sum = _mm256_setzero_si256();
    for (int i = 0; i < 2; i++)
        a[i] = _mm256_loadu_si256(values + i);
    for (int64_t unit = 0; unit < units; unit++) {
        __m256i accumulators[12];
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            accumulators[i] = _mm256_loadu_si256(values + i);
        for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 12
            for (int i = 0; i < 12; i++)
                accumulators[i] = _mm256_dpbusd_avx_epi32(accumulators[i], a[i % 2], b);
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            sum = _mm256_add_epi32(sum, accumulators[i]);
    }
    int32_t lanes[8];
    _mm256_storeu_si256((__m256i *)lanes, sum);
    return lane_sum(lanes, 8);
}
#endif

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

/* Without a dot product: multiply to pairs in i16, pair up to i32, add. */
__attribute__((target("avx2"))) static double run_avx2(int64_t units, const void *inputs)
{
    const __m256i *values = inputs;
    __m256i a[2], b = _mm256_loadu_si256(values + 2), ones = _mm256_set1_epi16(1),
                  sum = _mm256_setzero_si256();
    for (int i = 0; i < 2; i++)
        a[i] = _mm256_loadu_si256(values + i);
    for (int64_t unit = 0; unit < units; unit++) {
        __m256i accumulators[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            accumulators[i] = _mm256_loadu_si256(values + i);
        for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) {
                __asm__("" : "+x"(b)); /* else equal products would be computed once */
                __m256i pairs = _mm256_maddubs_epi16(a[i % 2], b);
                accumulators[i] = _mm256_add_epi32(accumulators[i], _mm256_madd_epi16(pairs, ones));
            }
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            sum = _mm256_add_epi32(sum, accumulators[i]);
    }
    int32_t lanes[8];
    _mm256_storeu_si256((__m256i *)lanes, sum);
    return lane_sum(lanes, 8);
}
#endif

typedef uint32_t vector __attribute__((vector_size(16)));

/* Widened to i32: what a machine without byte products does. */
static double run_portable(int64_t units, const void *inputs)
{
    const vector *values = inputs;
    vector a = values[0] >> 24, b = values[1] >> 24, sum = values[2];
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

const bench_loop bench_loops_int8[] = {
#if defined(__x86_64__)
    {"avx512_vnni vpdpbusd, 20 accumulators", 2.0 * 64 * 20 * STEPS, has_avx512_vnni,
     run_avx512_vnni},
#if defined(HAVE_AVX_VNNI)
    {"avx_vnni vpdpbusd, 12 accumulators", 2.0 * 32 * 12 * STEPS, has_avx_vnni, run_avx_vnni},
#endif
    {"avx2 vpmaddubsw vpmaddwd vpaddd", 2.0 * 32 * 8 * STEPS, has_avx2, run_avx2},
#endif
    {"16-byte vectors, widened to i32", 2.0 * 4 * 10 * STEPS, bench_loop_anywhere, run_portable},
    {0},
};
