/* SPDX-License-Identifier: Apache-2.0 */
/* The ceiling of memory: reading and writing given spans, as wide as the machine can. */
#include "bench/ceiling.h"

#include <string.h>

enum { LINE = 64, BLOCK = 4096 };

typedef uint64_t vector __attribute__((vector_size(64), aligned(1), may_alias));

/* Reads whole lines; what is left over is less than a line of a span and is not worth reading. */
static inline __attribute__((always_inline)) uint64_t read_lines(const unsigned char *bytes,
                                                                 int64_t lines)
{
    vector sums[4];
    memset(sums, 0, sizeof sums);
    const vector *line = (const vector *)bytes;
    int64_t i = 0;
    for (; i + 4 <= lines; i += 4)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            sums[j] ^= line[i + j];
    for (; i < lines; i++)
        sums[0] ^= line[i];
    sums[0] ^= sums[1] ^ sums[2] ^ sums[3];
    uint64_t sum = 0;
    for (int j = 0; j < 8; j++)
        sum ^= sums[0][j];
    return sum;
}

static inline __attribute__((always_inline)) void write_lines(unsigned char *bytes, int64_t lines,
                                                              uint64_t value)
{
    vector *line = (vector *)bytes;
    vector filled = {value,     value + 1, value + 2, value + 3,
                     value + 4, value + 5, value + 6, value + 7};
    for (int64_t i = 0; i < lines; i++)
        line[i] = filled;
}

/* Reads block after block and writes in between in proportion, so that both directions are busy at
 * once. */
static inline __attribute__((always_inline)) uint64_t pass(const bench_span *reads, int64_t count,
                                                           bench_span write, uint64_t value)
{
    int64_t total = 0, done = 0, written = 0, write_total = write.bytes / LINE;
    for (int64_t i = 0; i < count; i++)
        total += reads[i].bytes / LINE;
    for (int64_t i = 0; i < count; i++) {
        int64_t lines = reads[i].bytes / LINE;
        for (int64_t at = 0; at < lines; at += BLOCK / LINE) {
            int64_t now = lines - at < BLOCK / LINE ? lines - at : BLOCK / LINE;
            value ^= read_lines(reads[i].address + at * LINE, now);
            done += now;
            int64_t until = (int64_t)((double)write_total * ((double)done / (double)total));
            write_lines(write.address + written * LINE, until - written, value);
            written = until;
        }
    }
    write_lines(write.address + written * LINE, write_total - written, value);
    return value;
}

typedef uint64_t pass_fn(const bench_span *reads, int64_t count, bench_span write, uint64_t value);

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static uint64_t
pass_avx512(const bench_span *reads, int64_t count, bench_span write, uint64_t value)
{
    return pass(reads, count, write, value);
}

__attribute__((target("avx2"))) static uint64_t pass_avx2(const bench_span *reads, int64_t count,
                                                          bench_span write, uint64_t value)
{
    return pass(reads, count, write, value);
}
#endif

static uint64_t pass_portable(const bench_span *reads, int64_t count, bench_span write,
                              uint64_t value)
{
    return pass(reads, count, write, value);
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
        value = job->pass(reads, BENCH_MEMORY_SPANS, write, value);
    if (thread == 0)
        job->memory->sink += (double)value;
}

int64_t bench_memory_run(void *context, int64_t calls)
{
    const char *name;
    memory_job job = {context, choose(&name), calls};
    return bench_team_run(job.memory->team, run_share, &job);
}
