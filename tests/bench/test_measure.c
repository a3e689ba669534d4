/* SPDX-License-Identifier: Apache-2.0 */
/* The measuring method, by a clock and contenders that are made up: statistics, slices, rounds,
 * when a measurement is void. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "bench/measure.h"
#include "bench/session.h"
#include "bench/statistics.h"
#include "conformance/random.h"

/* ---- Statistics ---- */

static void assert_near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-12 * fabs(wanted)))
        fail_msg("%.17g instead of %.17g", value, wanted);
}

static void medians(void **state)
{
    (void)state;
    const double odd[] = {5, 1, 4}, even[] = {8, 2, 4, 6};
    assert_near(bench_median(odd, 3), 4);
    assert_near(bench_median(even, 4), 5);
    assert_near(bench_median(odd, 1), 5);
    assert_true(isnan(bench_median(odd, 0)));
    assert_true(isnan(bench_median_estimate(odd, 0).low));
}

/* Ranks by the tables of the sign test: for n values the interval reaches from the r-th smallest to
 * the r-th largest. */
static void median_intervals(void **state)
{
    (void)state;
    static const struct {
        int64_t count, rank;
    } table[] = {{1, 1},  {5, 1},  {6, 1},  {8, 1},   {9, 2},   {10, 2},
                 {12, 3}, {20, 6}, {25, 8}, {50, 18}, {100, 40}};
    double values[100];
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        int64_t count = table[t].count;
        for (int64_t i = 0; i < count; i++)
            values[i] = (double)(i * 7 % count + 1);
        if (count % 7 == 0)
            fail_msg("7 must not divide %d", (int)count);
        bench_estimate estimate = bench_median_estimate(values, count);
        assert_near(estimate.low, (double)table[t].rank);
        assert_near(estimate.high, (double)(count + 1 - table[t].rank));
        assert_near(estimate.value, (double)(count + 1) / 2);
    }
}

static void ratios_are_paired(void **state)
{
    (void)state;
    double peer[30], kiln[30];
    uint64_t random = 3;
    for (int i = 0; i < 30; i++) {
        kiln[i] = 100 + 50 * conformance_random_unit(&random);
        peer[i] = 2 * kiln[i];
    }
    /* Whatever disturbs both alike in a round must not widen the interval. */
    bench_estimate ratio = bench_ratio_estimate(peer, kiln, 30, 1);
    assert_near(ratio.value, 2);
    assert_near(ratio.low, 2);
    assert_near(ratio.high, 2);
}

static void ratio_intervals(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    double peer[COUNT], kiln[COUNT];
    uint64_t random = 5;
    for (int i = 0; i < COUNT; i++) {
        kiln[i] = 100 + 5 * conformance_random_unit(&random);
        peer[i] = 120 + 5 * conformance_random_unit(&random);
    }
    bench_estimate ratio = bench_ratio_estimate(peer, kiln, COUNT, 1);
    assert_near(ratio.value, bench_median(peer, COUNT) / bench_median(kiln, COUNT));
    assert_true(ratio.low <= ratio.value && ratio.value <= ratio.high);
    assert_true(ratio.low > 1.1 && ratio.high < 1.3 && ratio.high - ratio.low > 0.001);
    bench_estimate same = bench_ratio_estimate(peer, kiln, COUNT, 1);
    assert_true(same.low == ratio.low && same.high == ratio.high);
    bench_estimate few = bench_ratio_estimate(peer, kiln, 2, 1);
    assert_true(few.low == 0 && isinf(few.high));
}

static void differences(void **state)
{
    (void)state;
    const double a[] = {11, 22, 33, 44, 55, 66, 78}, b[] = {10, 20, 30, 40, 50, 60, 70};
    bench_estimate difference = bench_difference_estimate(a, b, 7);
    assert_near(difference.value, 4);
    assert_near(difference.low, 1);
    assert_near(difference.high, 8);
    assert_true(isnan(bench_difference_estimate(a, b, 0).value));
}

/* ---- Slices ---- */

enum { MAXIMUM_RUNS = 4096 };

/* A clock that contenders move, and what happened. */
typedef struct world {
    int64_t now_ns;
    int64_t runs;
    int64_t limit; /* of runs, after which somebody asks to stop; 0 = none */
    int64_t who[MAXIMUM_RUNS];
    int64_t calls[MAXIMUM_RUNS];
    int64_t announced;
} world;

typedef struct worker {
    world *world;
    int64_t id;
    int64_t call_ns;
    bool times_itself;
    int64_t fails_at; /* its run of this number; 0 = never */
    int64_t runs;
} worker;

static int64_t clock_now(void *context)
{
    return ((world *)context)->now_ns;
}

static bool asks_to_stop(void *context)
{
    const world *self = context;
    return self->limit && self->runs >= self->limit;
}

static void announce(void *context, int64_t round, int64_t rounds)
{
    (void)round;
    (void)rounds;
    ((world *)context)->announced++;
}

static int64_t work(void *context, int64_t calls)
{
    worker *self = context;
    world *log = self->world;
    if (++self->runs == self->fails_at)
        return -1;
    assert_true(log->runs < MAXIMUM_RUNS);
    log->who[log->runs] = self->id;
    log->calls[log->runs++] = calls;
    if (self->times_itself) {
        log->now_ns += 1000000; /* messages: they must not count */
        return calls * self->call_ns;
    }
    log->now_ns += calls * self->call_ns;
    return 0;
}

enum { WORKERS = 3, ROUNDS = 12 };

typedef struct fixture {
    world world;
    worker workers[WORKERS];
    bench_contender contenders[WORKERS];
    double samples[WORKERS][ROUNDS];
    bench_method method;
} fixture;

static void set_up(fixture *self, int64_t first_ns, int64_t second_ns, int64_t third_ns)
{
    const int64_t times[WORKERS] = {first_ns, second_ns, third_ns};
    memset(self, 0, sizeof *self);
    for (int i = 0; i < WORKERS; i++) {
        self->workers[i] = (worker){.world = &self->world, .id = i, .call_ns = times[i]};
        self->contenders[i] = (bench_contender){.name = "worker",
                                                .run = work,
                                                .context = &self->workers[i],
                                                .operations = 1,
                                                .samples = self->samples[i]};
    }
    self->method = (bench_method){.slice_ns = 1000000,
                                  .rounds = ROUNDS,
                                  .minimum_rounds = 4,
                                  .budget_ns = 1000000000,
                                  .seed = 1,
                                  .now = clock_now,
                                  .stop = asks_to_stop,
                                  .progress = announce,
                                  .context = &self->world};
}

static bench_outcome measure(fixture *self, int64_t *rounds, int64_t *failed)
{
    return bench_measure(&self->method, self->contenders, WORKERS, rounds, failed);
}

static void slices_are_equal(void **state)
{
    (void)state;
    fixture self;
    int64_t rounds, failed;
    set_up(&self, 100, 2500, 40000);
    self.contenders[1].operations = 5;
    assert_int_equal(measure(&self, &rounds, &failed), BENCH_DONE);
    assert_int_equal(rounds, ROUNDS);
    assert_int_equal(failed, -1);
    assert_int_equal(self.contenders[0].calls, 10000);
    assert_int_equal(self.contenders[1].calls, 400);
    assert_int_equal(self.contenders[2].calls, 25);
    for (int i = 0; i < ROUNDS; i++) {
        assert_near(self.samples[0][i], 100);
        assert_near(self.samples[1][i], 500); /* per operation: a call does five */
        assert_near(self.samples[2][i], 40000);
    }
    assert_int_equal(self.world.announced, ROUNDS);
}

/* One call longer than a slice: all slices grow with it, up to ten times. */
static void slices_stretch(void **state)
{
    (void)state;
    fixture self;
    int64_t rounds, failed;
    set_up(&self, 1000, 3000000, 1000);
    assert_int_equal(measure(&self, &rounds, &failed), BENCH_DONE);
    assert_int_equal(self.contenders[1].calls, 1);
    assert_int_equal(self.contenders[0].calls, 3000);
    set_up(&self, 1000, 50000000, 1000);
    assert_int_equal(measure(&self, &rounds, &failed), BENCH_DONE);
    assert_int_equal(self.contenders[1].calls, 1);
    assert_int_equal(self.contenders[0].calls, 10000);
}

/* Every round has each contender once, and the order is not always the same. */
static void rounds_are_shuffled(void **state)
{
    (void)state;
    fixture self;
    int64_t rounds, failed, order[ROUNDS * WORKERS], count = 0;
    set_up(&self, 50000, 50000, 50000);
    assert_int_equal(measure(&self, &rounds, &failed), BENCH_DONE);
    for (int64_t i = 0; i < self.world.runs; i++)
        if (self.world.calls[i] ==
            20) /* timed: the warming part before has 1 call, calibration at most 8 */
            order[count++] = self.world.who[i];
    assert_int_equal(count, ROUNDS * WORKERS);
    bool differs = false;
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t *now = order + round * WORKERS;
        assert_int_equal((1 << now[0]) | (1 << now[1]) | (1 << now[2]), 7);
        differs |= memcmp(now, order, WORKERS * sizeof *order) != 0;
    }
    assert_true(differs);
}

static void own_clocks_count(void **state)
{
    (void)state;
    fixture self;
    int64_t rounds, failed;
    set_up(&self, 100, 100, 100);
    self.workers[2].times_itself = true;
    assert_int_equal(measure(&self, &rounds, &failed), BENCH_DONE);
    assert_int_equal(self.contenders[2].calls, 10000);
    for (int i = 0; i < ROUNDS; i++)
        assert_near(self.samples[2][i], 100);
}

static void budgets_end_measurements(void **state)
{
    (void)state;
    fixture self;
    int64_t rounds, failed;
    set_up(&self, 100, 100, 100);
    self.method.budget_ns = 20000000; /* a round takes 3 slices of 1 ms, and their warming */
    assert_int_equal(measure(&self, &rounds, &failed), BENCH_DONE);
    assert_in_range(rounds, 6, 7);
    set_up(&self, 100, 100, 100);
    self.method.budget_ns = 1;
    assert_int_equal(measure(&self, &rounds, &failed), BENCH_DONE);
    assert_int_equal(rounds, 4);
}

static void interruption_keeps_whole_rounds(void **state)
{
    (void)state;
    fixture self;
    int64_t rounds, failed, calibration;
    set_up(&self, 50000, 50000, 50000);
    self.method.rounds = 0;
    assert_int_equal(measure(&self, &rounds, &failed), BENCH_DONE);
    calibration = self.world.runs;
    set_up(&self, 50000, 50000, 50000);
    self.world.limit =
        calibration + 2 * (2 * WORKERS) + 2; /* a slice is two runs; in the third round */
    assert_int_equal(measure(&self, &rounds, &failed), BENCH_STOPPED);
    assert_int_equal(rounds, 2);
    assert_int_equal(self.world.runs, self.world.limit);
    set_up(&self, 50000, 50000, 50000);
    self.world.limit = 1;
    assert_int_equal(measure(&self, &rounds, &failed), BENCH_STOPPED);
    assert_int_equal(rounds, 0);
}

static void failures_name_the_contender(void **state)
{
    (void)state;
    fixture self;
    int64_t rounds, failed;
    for (int64_t at = 1; at < 20; at += 6) { /* while calibrating, and in a round */
        set_up(&self, 50000, 50000, 50000);
        self.workers[1].fails_at = at;
        assert_int_equal(measure(&self, &rounds, &failed), BENCH_FAILED);
        assert_int_equal(failed, 1);
        assert_true(rounds < ROUNDS);
    }
}

/* ---- Validity ---- */

static const char *judge(double ceiling_pct, double self_ratio)
{
    static char reason[192];
    bench_judge(ceiling_pct, self_ratio, reason, sizeof reason);
    return reason;
}

static void checks_decide(void **state)
{
    (void)state;
    assert_string_equal(judge(100, 1), "");
    assert_string_equal(judge(99.01, 1.0099), "");
    assert_string_equal(judge(100.99, 0.9901), "");
    assert_non_null(strstr(judge(101.1, 1), "101.10 %"));
    assert_non_null(strstr(judge(98.9, 1), "ceiling"));
    assert_non_null(strstr(judge(100, 1.011), "1.011"));
    assert_non_null(strstr(judge(100, 0.989), "Kiln against itself"));
    assert_string_equal(judge(NAN, 1), ""); /* devices without a ceiling */
    assert_non_null(strstr(judge(NAN, 1.5), "not quiet"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians),
        cmocka_unit_test(median_intervals),
        cmocka_unit_test(ratios_are_paired),
        cmocka_unit_test(ratio_intervals),
        cmocka_unit_test(differences),
        cmocka_unit_test(slices_are_equal),
        cmocka_unit_test(slices_stretch),
        cmocka_unit_test(rounds_are_shuffled),
        cmocka_unit_test(own_clocks_count),
        cmocka_unit_test(budgets_end_measurements),
        cmocka_unit_test(interruption_keeps_whole_rounds),
        cmocka_unit_test(failures_name_the_contender),
        cmocka_unit_test(checks_decide),
    };
    return cmocka_run_group_tests_name("bench/measure", tests, NULL, NULL);
}
