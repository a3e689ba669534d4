/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a GEMM goes: the parts add up, and on a model each is what it is said to be. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/gap.h"

/* A session on one plugin; skips the test where that is not built. */
typedef struct world {
    kiln_runtime *runtime;
    bench_report report;
    bench_session session;
} world;

static bool has_plugin(kiln_runtime *runtime, const char *name)
{
    for (int64_t i = 0; i < kiln_plugin_count(runtime); i++) {
        kiln_plugin_info info = {.struct_size = sizeof info};
        if (kiln_plugin_at(runtime, i, &info) == KILN_OK && strcmp(info.name, name) == 0 &&
            strcmp(info.state, "open") == 0)
            return true;
    }
    return false;
}

static void open_world(world *self, const char *profile, const char *backend)
{
    static const kiln_setting threads = {"threads.count", "1"};
    kiln_runtime_options options = {.struct_size = sizeof options,
                                    .profile_text = profile,
                                    .settings = &threads,
                                    .setting_count = 1};
    bench_message message;
    memset(self, 0, sizeof *self);
    bool open = kiln_runtime_open(&options, &self->runtime) == KILN_OK;
    if (!open || !has_plugin(self->runtime, backend)) {
        kiln_runtime_close(self->runtime);
        skip();
    }
    self->session.runtime = self->runtime;
    self->session.report = &self->report;
    self->session.attempts = 1;
    self->session.method = (bench_method){.slice_ns = 200000,
                                          .rounds = 1,
                                          .minimum_rounds = 1,
                                          .budget_ns = INT64_C(1000000000),
                                          .seed = 3};
    if (!bench_session_start(&self->session, &message))
        fail_msg("%s", message.text);
}

static void close_world(world *self)
{
    bench_session_end(&self->session);
    bench_report_free(&self->report);
    kiln_runtime_close(self->runtime);
}

static bench_gemm some_gemm(uint32_t type, int64_t m, int64_t n, int64_t k)
{
    return (bench_gemm){.desc = {.head = {sizeof(kiln_gemm_desc), 0},
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .batch = 1,
                                 .a_type = type,
                                 .b_type = type,
                                 .d_type = type},
                        .alpha = 1,
                        .seed = 1};
}

static void measure(world *self, const bench_gemm *gemm, const char *backend, bench_gap *gap)
{
    bench_target target = {.runtime = self->runtime, .backend = backend};
    bench_message message;
    if (!bench_gap_measure(&self->session, gemm, &target, gap, &message))
        fail_msg("%s", message.text);
}

static void assert_near(double value, double wanted, double scale)
{
    if (!(fabs(value - wanted) <= 1e-9 * scale))
        fail_msg("%.17g instead of %.17g", value, wanted);
}

/* With a single round every median is that round's number. */
static void test_parts_add_up(void **state)
{
    (void)state;
    world self;
    static const int64_t shapes[][3] = {{33, 20, 40}, {1, 512, 300}, {64, 64, 64}};
    open_world(&self, "schema: 1\nplugins: [ref]", "ref");
    for (int i = 0; i < 3; i++) {
        bench_gemm gemm = some_gemm(KILN_F32, shapes[i][0], shapes[i][1], shapes[i][2]);
        bench_gap gap;
        measure(&self, &gemm, "ref", &gap);
        assert_int_equal(gap.rounds, 1);
        assert_false(gap.model);
        assert_true(gap.operations == 2.0 * (double)(shapes[i][0] * shapes[i][1] * shapes[i][2]));
        assert_true(gap.run.value > 0 && gap.compute.value > 0 && gap.memory.value > 0);
        assert_near(gap.gap.value, gap.run.value - gap.compute.value, gap.run.value);
        double sum = 0, beyond = gap.memory.value - gap.compute.value;
        for (int part = 0; part <= BENCH_PART_REST; part++)
            sum += gap.parts[part].amount.value;
        assert_near(sum, gap.gap.value, gap.run.value);
        assert_near(gap.parts[BENCH_PART_BANDWIDTH].amount.value, beyond > 0 ? beyond : 0,
                    gap.run.value);
        assert_false(isnan(gap.parts[BENCH_PART_DIRECT].amount.value));
        bool whole = shapes[i][0] == 64;
        assert_int_equal(gap.parts[BENCH_PART_TAILS].amount.value == 0, whole);
        assert_int_equal(strncmp(gap.parts[BENCH_PART_TAILS].remark, "none", 4) == 0, whole);
    }
    close_world(&self);
}

/* Cycles of a GEMM as it is. */
static double cycles_of(world *self, const bench_gemm *gemm, const char *backend)
{
    bench_target target = {.runtime = self->runtime, .backend = backend};
    bench_operands operands;
    bench_message message;
    bench_kiln kiln;
    if (!bench_operands_make(gemm, &operands, &message))
        fail_msg("%s", message.text);
    if (!bench_kiln_open(&kiln, &target, gemm, &operands))
        fail_msg("%s", kiln.message.text);
    double cycles = bench_kiln_cycles(&kiln, 1);
    bench_kiln_close(&kiln);
    bench_operands_free(&operands);
    return cycles;
}

/* A model's cycles do not vary: each part can be found again by hand. */
static void test_parts_of_a_model(void **state)
{
    (void)state;
    world self;
    open_world(&self, "schema: 1\nplugins: [npu]", "npu");
    bench_gemm gemm = some_gemm(KILN_F16, 33, 70, 50);
    bench_gap gap;
    measure(&self, &gemm, "npu", &gap);
    assert_true(gap.model);
    assert_true(gap.block_told);
    bench_gemm packed = gemm, rounded = gemm;
    packed.desc.head.flags |= KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B;
    rounded.desc.head.flags = packed.desc.head.flags;
    int64_t *sizes[] = {&rounded.desc.m, &rounded.desc.n, &rounded.desc.k};
    for (int i = 0; i < 3; i++) {
        assert_true(gap.block[i] > 1);
        *sizes[i] = (*sizes[i] + gap.block[i] - 1) / gap.block[i] * gap.block[i];
    }
    double plain_cycles = cycles_of(&self, &gemm, "npu"),
           packed_cycles = cycles_of(&self, &packed, "npu"),
           rounded_cycles = cycles_of(&self, &rounded, "npu"),
           share = bench_gemm_operations(&gemm) / bench_gemm_operations(&rounded);
    assert_true(gap.run.value == plain_cycles);
    assert_true(share < 1);
    assert_near(gap.parts[BENCH_PART_PACKING].amount.value, plain_cycles - packed_cycles,
                plain_cycles);
    assert_near(gap.parts[BENCH_PART_TAILS].amount.value, packed_cycles - rounded_cycles * share,
                plain_cycles);
    assert_true(isnan(gap.compute.value) && isnan(gap.memory.value) && isnan(gap.gap.value));
    static const bench_part_kind untold[] = {BENCH_PART_BANDWIDTH, BENCH_PART_OVERHEAD,
                                             BENCH_PART_REST, BENCH_PART_DIRECT};
    for (int i = 0; i < 4; i++) {
        assert_true(isnan(gap.parts[untold[i]].amount.value));
        assert_true(gap.parts[untold[i]].remark[0]);
    }
    close_world(&self);
}

static void test_what_nobody_serves(void **state)
{
    (void)state;
    world self;
    open_world(&self, "schema: 1\nplugins: [ref]", "ref");
    bench_gemm gemm = some_gemm(KILN_I64, 4, 4, 4);
    bench_target target = {.runtime = self.runtime, .backend = "ref"};
    bench_message message = {""};
    bench_gap gap;
    assert_false(bench_gap_measure(&self.session, &gemm, &target, &gap, &message));
    assert_non_null(strstr(message.text, "i64"));
    close_world(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_parts_of_a_model),
        cmocka_unit_test(test_what_nobody_serves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
