/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing and running the ceiling loops of arithmetic. */
#include "bench/ceiling.h"

#include <math.h>
#include <string.h>

#include "kiln/tensor.h"
#include "bench/measure.h"
#include "conformance/random.h"

enum { TRIAL_NS = 1000000, TRIALS = 10 };

/* Loops stand in order, the widest first: a later one must be this much faster, lest noise decide.
 */
static const double advantage = 1.2;

static const struct {
    const char *name;
    uint32_t type; /* of the inputs */
    const bench_loop *loops;
} kinds[BENCH_CEILING_KINDS] = {
    [BENCH_CEILING_F32] = {"f32", KILN_F32, bench_loops_f32},
    [BENCH_CEILING_F64] = {"f64", KILN_F64, bench_loops_f64},
    [BENCH_CEILING_BF16] = {"bf16", KILN_BF16, bench_loops_bf16},
    [BENCH_CEILING_INT8] = {"int8", KILN_I8, bench_loops_int8},
};

/* Where the sums go: a store that the compiler must do. */
static volatile double sink;

const char *bench_ceiling_name(bench_ceiling_kind kind)
{
    return kinds[kind].name;
}

bool bench_loop_anywhere(void)
{
    return true;
}

/* Random finite values of the type that the kind's loops read. */
static void fill_inputs(bench_ceiling *ceiling, bench_ceiling_kind kind, uint64_t seed)
{
    uint32_t type = kinds[kind].type;
    double range = type == KILN_I8 ? 127 : 1;
    int64_t count = BENCH_CEILING_INPUT * 8 / kiln_type_bits(type);
    for (int64_t i = 0; i < count; i++)
        kiln_store_f64(type, ceiling->inputs, i, conformance_random_unit(&seed) * range, 0);
}

/* Operations per nanosecond of one loop on this thread, in one trial. */
static double trial(const bench_loop *loop, const void *inputs)
{
    for (int64_t units = 1;; units *= 2) {
        int64_t begin = bench_now(NULL);
        sink = loop->run(units, inputs);
        int64_t elapsed = bench_now(NULL) - begin;
        if (elapsed >= TRIAL_NS)
            return (double)units * loop->operations / (double)elapsed;
    }
}

/* The best rate of a few trials, since disturbance only slows. */
static double best_rate(const bench_loop *loop, const void *inputs)
{
    double best = 0;
    for (int i = 0; i < TRIALS; i++)
        best = fmax(best, trial(loop, inputs));
    return best;
}

/* Sets the kind's fastest loop; returns its rate, 0 when none runs here. */
static double choose_loop(bench_ceiling *ceiling, bench_ceiling_kind kind, uint64_t seed)
{
    double best = 0;
    fill_inputs(ceiling, kind, seed);
    for (const bench_loop *loop = kinds[kind].loops; loop->name; loop++) {
        double rate = loop->supported() ? best_rate(loop, ceiling->inputs) : 0;
        if (rate > best * advantage) {
            best = rate;
            ceiling->loop = loop;
            ceiling->kind = kind;
        }
    }
    return best;
}

void bench_ceiling_init(bench_ceiling *ceiling, bench_ceiling_kind kind, bench_team *team,
                        uint64_t seed)
{
    memset(ceiling, 0, sizeof *ceiling);
    ceiling->team = team;
    double rate = choose_loop(ceiling, kind, seed);
    if (kind == BENCH_CEILING_BF16) {
        bench_ceiling converted;
        memset(&converted, 0, sizeof converted);
        if (choose_loop(&converted, BENCH_CEILING_F32, seed) > rate * advantage)
            *ceiling = converted;
        ceiling->team = team;
    }
    ceiling->operations = ceiling->loop->operations * (double)bench_team_threads(team);
}

typedef struct ceiling_job {
    const bench_ceiling *ceiling;
    int64_t calls;
} ceiling_job;

static void run_share(void *argument, int64_t thread)
{
    const ceiling_job *job = argument;
    double sum = job->ceiling->loop->run(job->calls, job->ceiling->inputs);
    if (thread == 0)
        sink = sum;
}

int64_t bench_ceiling_run(void *context, int64_t calls)
{
    const bench_ceiling *ceiling = context;
    ceiling_job job = {ceiling, calls};
    return bench_team_run(ceiling->team, run_share, &job);
}
