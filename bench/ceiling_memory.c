/* SPDX-License-Identifier: Apache-2.0 */
/* The ceiling of memory: reading and writing given spans, as wide as the machine can. */
#include "bench/ceiling.h"

#include <string.h>

enum { LINE = 64 };

/* Reads the spans, then writes the other. Whole lines only; what is left over is less than a line
 * of a span. Returns something of what was read. */
typedef uint64_t pass_fn(const bench_span *reads, bench_span write, uint64_t value);

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f"))) static uint64_t pass_avx512(const bench_span *reads,
                                                               bench_span write, uint64_t value)
{
    __m512i sums[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        sums[j] = _mm512_set1_epi64((long long)value);
    for (int span = 0; span < BENCH_MEMORY_SPANS; span++) {
        const unsigned char *bytes = reads[span].address;
        int64_t i = 0, end = reads[span].bytes / LINE * LINE;
        for (; i + 4 * LINE <= end; i += 4 * LINE)
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
                sums[j] = _mm512_xor_si512(sums[j], _mm512_loadu_si512(bytes + i + j * LINE));
        for (; i < end; i += LINE)
            sums[0] = _mm512_xor_si512(sums[0], _mm512_loadu_si512(bytes + i));
    }
    __m512i sum =
        _mm512_add_epi64(_mm512_add_epi64(sums[0], sums[1]), _mm512_add_epi64(sums[2], sums[3]));
    for (int64_t i = 0, end = write.bytes / LINE * LINE; i < end; i += LINE)
        _mm512_storeu_si512(write.address + i, sum);
    return (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(sum));
}

__attribute__((target("avx2"))) static uint64_t pass_avx2(const bench_span *reads, bench_span write,
                                                          uint64_t value)
{
    enum { HALF = LINE / 2 };
    __m256i sums[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        sums[j] = _mm256_set1_epi64x((long long)value);
    for (int span = 0; span < BENCH_MEMORY_SPANS; span++) {
        const __m256i *halves = (const __m256i *)reads[span].address;
        int64_t i = 0, end = reads[span].bytes / LINE * 2;
        for (; i + 4 <= end; i += 4)
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
                sums[j] = _mm256_xor_si256(sums[j], _mm256_loadu_si256(halves + i + j));
        for (; i < end; i++)
            sums[0] = _mm256_xor_si256(sums[0], _mm256_loadu_si256(halves + i));
    }
    __m256i sum =
        _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3]));
    for (int64_t i = 0, end = write.bytes / LINE * LINE; i < end; i += HALF)
        _mm256_storeu_si256((__m256i *)(write.address + i), sum);
    return (uint64_t)_mm256_extract_epi64(sum, 0);
}
#endif

static uint64_t pass_portable(const bench_span *reads, bench_span write, uint64_t value)
{
    uint64_t words[LINE / 8];
    for (int span = 0; span < BENCH_MEMORY_SPANS; span++)
        for (int64_t i = 0; i + LINE <= reads[span].bytes; i += LINE) {
            memcpy(words, reads[span].address + i, LINE);
            value += (words[0] ^ words[1] ^ words[2] ^ words[3]) +
                     (words[4] ^ words[5] ^ words[6] ^ words[7]);
        }
    for (int i = 0; i < LINE / 8; i++)
        words[i] = value;
    for (int64_t i = 0; i + LINE <= write.bytes; i += LINE)
        memcpy(write.address + i, words, LINE);
    return value;
}

static pass_fn *choose(const char **name)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        *name = "avx512f loads and stores";
        return pass_avx512;
    }
    if (__builtin_cpu_supports("avx2")) {
        *name = "avx2 loads and stores";
        return pass_avx2;
    }
#endif
    *name = "plain loads and stores";
    return pass_portable;
}

const char *bench_memory_kernel(void)
{
    const char *name;
    choose(&name);
    return name;
}

typedef struct memory_job {
    bench_memory *memory;
    pass_fn *pass;
    int64_t calls;
} memory_job;

/* Share `thread` of a span, cut at whole lines. */
static bench_span share(bench_span span, int64_t thread, int64_t threads)
{
    int64_t lines = span.bytes / LINE;
    int64_t first = lines * thread / threads, end = lines * (thread + 1) / threads;
    if (lines == 0)
        return (bench_span){span.address, 0};
    return (bench_span){span.address + first * LINE, (end - first) * LINE};
}

static void run_share(void *argument, int64_t thread)
{
    const memory_job *job = argument;
    int64_t threads = bench_team_threads(job->memory->team);
    bench_span reads[BENCH_MEMORY_SPANS];
    for (int i = 0; i < BENCH_MEMORY_SPANS; i++)
        reads[i] = share(job->memory->reads[i], thread, threads);
    bench_span write = share(job->memory->write, thread, threads);
    uint64_t value = (uint64_t)thread;
    for (int64_t call = 0; call < job->calls; call++)
        value = job->pass(reads, write, value);
    if (thread == 0)
        job->memory->sink += (double)value;
}

int64_t bench_memory_run(void *context, int64_t calls)
{
    const char *name;
    memory_job job = {context, choose(&name), calls};
    return bench_team_run(job.memory->team, run_share, &job);
}
