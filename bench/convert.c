/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between f32 and the 16-bit floats, with AVX2 and F16C where the machine has them. */
#include "bench/convert.h"

#include <stdbool.h>

#include "kiln/tensor.h"

static void widen_plain(float *destination, uint32_t type, const uint16_t *source, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        destination[i] =
            type == KILN_BF16 ? kiln_f32_from_bf16(source[i]) : kiln_f32_from_f16(source[i]);
}

static void narrow_plain(uint32_t type, uint16_t *destination, const float *source, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        destination[i] =
            type == KILN_BF16 ? kiln_bf16_from_f32(source[i]) : kiln_f16_from_f32(source[i]);
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

/* AVX2 by the compiler's own check, which asks the system too; F16C, whose name not all compilers
 * know there, by leaf 1. */
static bool has_vectors(void)
{
    unsigned eax, ebx, ecx, edx;
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) &&
           (ecx & bit_F16C);
}

/* Both return how many values they did: a multiple of 8. */
__attribute__((target("avx2,f16c"))) static int64_t
widen_avx2(float *destination, uint32_t type, const uint16_t *source, int64_t count)
{
    int64_t done = 0;
    for (; done + 8 <= count; done += 8) {
        __m128i codes = _mm_loadu_si128((const __m128i *)(source + done));
        __m256 values =
            type == KILN_F16
                ? _mm256_cvtph_ps(codes)
                : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16));
        _mm256_storeu_ps(destination + done, values);
    }
    return done;
}

/* bf16: adds half a unit, less one when the kept part is even, and cuts; NaN becomes the quiet one.
 */
__attribute__((target("avx2,f16c"))) static __m128i bf16_avx2(__m256 values)
{
    __m256i bits = _mm256_castps_si256(values);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
    __m256i codes = _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), _mm256_set1_epi32(0x7fc0), nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
}

__attribute__((target("avx2,f16c"))) static int64_t
narrow_avx2(uint32_t type, uint16_t *destination, const float *source, int64_t count)
{
    int64_t done = 0;
    for (; done + 8 <= count; done += 8) {
        __m256 values = _mm256_loadu_ps(source + done);
        __m128i codes = type == KILN_F16
                            ? _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
                            : bf16_avx2(values);
        _mm_storeu_si128((__m128i *)(destination + done), codes);
    }
    return done;
}
#else
static bool has_vectors(void)
{
    return false;
}

static int64_t widen_avx2(float *destination, uint32_t type, const uint16_t *source, int64_t count)
{
    (void)destination, (void)type, (void)source, (void)count;
    return 0;
}

static int64_t narrow_avx2(uint32_t type, uint16_t *destination, const float *source, int64_t count)
{
    (void)destination, (void)type, (void)source, (void)count;
    return 0;
}
#endif

void bench_widen(float *destination, uint32_t type, const void *source, int64_t count)
{
    const uint16_t *codes = source;
    int64_t done = has_vectors() ? widen_avx2(destination, type, codes, count) : 0;
    widen_plain(destination + done, type, codes + done, count - done);
}

void bench_narrow(uint32_t type, void *destination, const float *source, int64_t count)
{
    uint16_t *codes = destination;
    int64_t done = has_vectors() ? narrow_avx2(type, codes, source, count) : 0;
    narrow_plain(type, codes + done, source + done, count - done);
}
