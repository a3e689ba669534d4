/* SPDX-License-Identifier: Apache-2.0 */
/* What a measurement stands on, without any timing: operands, the check of results, conversions,
 * ceiling loops, the team. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench/ceiling.h"
#include "bench/convert.h"
#include "bench/gemm.h"
#include "bench/peer.h"

/* ---- Operands and the check of results ---- */

static bench_gemm some_gemm(uint32_t type, uint32_t d_type, uint32_t flags, double beta)
{
    bench_gemm gemm = {.alpha = type == KILN_I8 ? 1 : 1.25, .beta = beta, .seed = 7};
    gemm.desc = (kiln_gemm_desc){.head = {sizeof gemm.desc, flags},
                                 .m = 13,
                                 .n = 11,
                                 .k = 37,
                                 .batch = 2,
                                 .a_type = type,
                                 .b_type = type,
                                 .d_type = d_type};
    if (beta != 0)
        gemm.desc.c_type = d_type;
    return gemm;
}

/* The plainest loop, in double, by its own indexing. */
static void multiply(const bench_gemm *gemm, const bench_operands *operands)
{
    const kiln_gemm_desc *desc = &gemm->desc;
    const kiln_tensor *t = operands->tensors;
    bool ta = desc->head.flags & KILN_GEMM_TRANSPOSE_A,
         tb = desc->head.flags & KILN_GEMM_TRANSPOSE_B;
    int64_t m = desc->m, n = desc->n, k = desc->k;
    for (int64_t b = 0; b < desc->batch; b++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t l = 0; l < k; l++)
                    sum += kiln_load_f64(t[0].type, t[0].data,
                                         b * m * k + (ta ? l * m + i : i * k + l)) *
                           kiln_load_f64(t[1].type, t[1].data,
                                         b * k * n + (tb ? j * k + l : l * n + j));
                double value = gemm->alpha * sum;
                if (gemm->beta != 0)
                    value += gemm->beta * kiln_load_f64(t[2].type, t[2].data, (b * m + i) * n + j);
                kiln_store_f64(t[3].type, t[3].data, (b * m + i) * n + j, value, 0);
            }
}

/* Right results pass; one wrong element, anywhere, does not. */
static void prove_check(const bench_gemm *gemm)
{
    bench_operands operands;
    bench_message message = {""};
    if (!bench_operands_make(gemm, &operands, &message))
        fail_msg("%s", message.text);
    multiply(gemm, &operands);
    if (!bench_gemm_check(gemm, &operands, 0, &message))
        fail_msg("%s", message.text);
    const kiln_tensor *d = &operands.tensors[KILN_GEMM_D];
    for (int64_t i = 0; i < kiln_tensor_elements(d); i += 17) {
        double right = kiln_load_f64(d->type, d->data, i);
        kiln_store_f64(d->type, d->data, i,
                       d->type == KILN_I32 ? right + 1 : right + 1 + fabs(right) / 8, 0);
        assert_false(bench_gemm_check(gemm, &operands, 0, &message));
        assert_non_null(strstr(message.text, "wrong result at batch"));
        kiln_store_f64(d->type, d->data, i, NAN, 0);
        assert_true(d->type == KILN_I32 || !bench_gemm_check(gemm, &operands, 0, &message));
        kiln_store_f64(d->type, d->data, i, right, 0);
    }
    assert_true(bench_gemm_check(gemm, &operands, 0, &message));
    bench_operands_free(&operands);
}

static void results_are_checked(void **state)
{
    (void)state;
    static const struct {
        uint32_t type, d_type;
    } types[] = {{KILN_F32, KILN_F32}, {KILN_F64, KILN_F64},   {KILN_F16, KILN_F16},
                 {KILN_F16, KILN_F32}, {KILN_BF16, KILN_BF16}, {KILN_BF16, KILN_F32},
                 {KILN_I8, KILN_I32}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (uint32_t flags = 0; flags < 4; flags++) {
            bench_gemm gemm = some_gemm(types[t].type, types[t].d_type, flags,
                                        flags == 2 && types[t].type != KILN_I8);
            prove_check(&gemm);
        }
}

static void corners_are_always_checked(void **state)
{
    (void)state;
    bench_gemm gemm = some_gemm(KILN_F32, KILN_F32, 0, 0);
    bench_operands operands;
    bench_message message;
    assert_true(bench_operands_make(&gemm, &operands, &message));
    multiply(&gemm, &operands);
    float *d = operands.tensors[KILN_GEMM_D].data;
    int64_t last = kiln_tensor_elements(&operands.tensors[KILN_GEMM_D]) - 1;
    for (int64_t i = 0; i <= last; i += last) {
        d[i] += 1;
        assert_false(bench_gemm_check(&gemm, &operands, 1, &message));
        d[i] -= 1;
    }
    bench_operands_free(&operands);
}

static void epilogues_are_checked(void **state)
{
    (void)state;
    bench_gemm gemm = some_gemm(KILN_F32, KILN_F32, 0, 0);
    gemm.desc.n = 12;
    gemm.desc.epilogue_count = 3;
    gemm.desc.epilogues[0] =
        (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS, .operand = KILN_OPERAND_ROW, .type = KILN_F32};
    gemm.desc.epilogues[1] = (kiln_epilogue){.kind = KILN_EPILOGUE_SWIGLU};
    gemm.desc.epilogues[2] = (kiln_epilogue){.kind = KILN_EPILOGUE_SCALE, .p0 = -3};
    bench_operands operands, linear;
    bench_message message;
    bench_gemm plain = gemm;
    plain.desc.epilogue_count = 0;
    assert_true(bench_operands_make(&gemm, &operands, &message));
    assert_true(bench_operands_make(&plain, &linear, &message));
    multiply(&plain, &linear);
    const float *sums = linear.tensors[KILN_GEMM_D].data,
                *bias = operands.tensors[KILN_GEMM_OPERAND].data;
    float *d = operands.tensors[KILN_GEMM_D].data;
    assert_int_equal(kiln_tensor_elements(&operands.tensors[KILN_GEMM_D]), 2 * 13 * 6);
    for (int64_t i = 0; i < 2 * 13 * 6; i++) {
        float gate = sums[2 * i] + bias[2 * i % 12], up = sums[2 * i + 1] + bias[(2 * i + 1) % 12];
        d[i] = gate / (1 + expf(-gate)) * up * -3;
    }
    if (!bench_gemm_check(&gemm, &operands, 0, &message))
        fail_msg("%s", message.text);
    d[77] *= 1.001f;
    assert_false(bench_gemm_check(&gemm, &operands, 0, &message));
    bench_operands_free(&operands);
    bench_operands_free(&linear);
}

/* Both sides of a comparison make their own operands: they must be the same, random, and not zero.
 */
static void operands_are_random_and_repeatable(void **state)
{
    (void)state;
    static const uint32_t types[] = {KILN_F32, KILN_F64, KILN_F16, KILN_BF16, KILN_I8};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        bench_gemm gemm = some_gemm(types[t], types[t] == KILN_I8 ? KILN_I32 : types[t], 0, 0);
        bench_operands one, two;
        bench_message message;
        assert_true(bench_operands_make(&gemm, &one, &message));
        assert_true(bench_operands_make(&gemm, &two, &message));
        for (int slot = KILN_GEMM_A; slot <= KILN_GEMM_B; slot++) {
            const kiln_tensor *tensor = &one.tensors[slot];
            int64_t count = kiln_tensor_elements(tensor), zeros = 0, positive = 0;
            assert_memory_equal(tensor->data, two.tensors[slot].data,
                                (size_t)bench_tensor_bytes(tensor));
            for (int64_t i = 0; i < count; i++) {
                double value = kiln_load_f64(tensor->type, tensor->data, i);
                assert_true(fabs(value) <= (types[t] == KILN_I8 ? 127 : 1));
                zeros += value == 0;
                positive += value > 0;
            }
            assert_true(zeros < count / 16 && positive > count / 3 && positive < count * 2 / 3);
        }
        bench_operands_free(&one);
        bench_operands_free(&two);
    }
}

static void too_large_is_refused(void **state)
{
    (void)state;
    bench_gemm gemm = some_gemm(KILN_F32, KILN_F32, 0, 0);
    bench_operands operands;
    bench_message message;
    gemm.desc.m = gemm.desc.k = INT64_C(1) << 24;
    assert_false(bench_operands_make(&gemm, &operands, &message));
    assert_non_null(strstr(message.text, "GiB are available"));
    assert_true(bench_gemm_countable(&gemm, &message));
    static const int64_t beyond[][4] = {
        {999999999999, 999999999999, 9, 0},
        {1, 1, INT64_MAX, 0},
        {INT64_C(1) << 28, 1, INT64_C(1) << 28, 2},
        {INT64_C(1) << 21, INT64_C(1) << 21, INT64_C(1) << 21, INT64_C(1) << 21},
    };
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        gemm.desc.m = beyond[i][0];
        gemm.desc.n = beyond[i][1];
        gemm.desc.k = beyond[i][2];
        gemm.desc.batch = beyond[i][3];
        assert_false(bench_gemm_countable(&gemm, &message));
        assert_non_null(strstr(message.text, "choose a smaller shape"));
    }
}

static void costs(void **state)
{
    (void)state;
    bench_gemm gemm = some_gemm(KILN_F16, KILN_F32, 0, 1);
    assert_true(bench_gemm_operations(&gemm) == 2.0 * 13 * 11 * 37 * 2);
    assert_true(bench_gemm_bytes(&gemm) == 2 * (13 * 37 * 2 + 37 * 11 * 2 + 2 * 13 * 11 * 4));
}

/* ---- Conversions ---- */

static void widening_is_exact(void **state)
{
    (void)state;
    enum { COUNT = 65536 };
    static uint16_t codes[COUNT];
    static float wide[COUNT];
    for (int i = 0; i < COUNT; i++)
        codes[i] = (uint16_t)i;
    for (int t = 0; t < 2; t++) {
        uint32_t type = t ? KILN_F16 : KILN_BF16;
        bench_widen(wide, type, codes, COUNT - 3); /* a tail that vectors do not cover */
        for (int i = 0; i < COUNT - 3; i++) {
            double wanted = kiln_load_f64(type, codes, i);
            if (isnan(wanted) ? !isnan(wide[i]) : (double)wide[i] != wanted)
                fail_msg("%s code %04x gives %g, not %g", kiln_type_name(type), (unsigned)i,
                         (double)wide[i], wanted);
        }
    }
}

static void narrowing_rounds_to_even(void **state)
{
    (void)state;
    enum { COUNT = 1 << 20 };
    float *wide = malloc(COUNT * sizeof *wide);
    uint16_t *codes = malloc(COUNT * sizeof *codes);
    assert_non_null(wide);
    assert_non_null(codes);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t bits = i << 12 | (i & 1 ? 0x800 : 0); /* all signs and exponents, ties included */
        memcpy(&wide[i], &bits, sizeof bits);
    }
    for (int t = 0; t < 2; t++) {
        uint32_t type = t ? KILN_F16 : KILN_BF16;
        bench_narrow(type, codes, wide, COUNT - 1);
        for (int i = 0; i < COUNT - 1; i++) {
            uint16_t wanted = type == KILN_F16 ? kiln_f16_from_f64((double)wide[i], 0)
                                               : kiln_bf16_from_f64((double)wide[i], 0);
            bool nan = isnan(wide[i]) && isnan(kiln_load_f64(type, &codes[i], 0));
            if (!nan && codes[i] != wanted)
                fail_msg("%a as %s is %04x, not %04x", (double)wide[i], kiln_type_name(type),
                         codes[i], wanted);
        }
    }
    free(codes);
    free(wide);
}

/* ---- Teams and ceilings ---- */

typedef struct roll {
    _Atomic int64_t calls;
    int64_t seen[4];
} roll;

static void sign(void *argument, int64_t thread)
{
    roll *self = argument;
    self->seen[thread]++;
    atomic_fetch_add(&self->calls, 1);
}

static void every_thread_runs_once(void **state)
{
    (void)state;
    for (int64_t threads = 1; threads <= 4; threads++) {
        roll self = {0, {0}};
        bench_team *team = bench_team_create(threads);
        assert_non_null(team);
        assert_int_equal(bench_team_threads(team), threads);
        for (int i = 0; i < 100; i++)
            assert_true(bench_team_run(team, sign, &self) >= 1);
        assert_int_equal(self.calls, 100 * threads);
        for (int64_t i = 0; i < threads; i++)
            assert_int_equal(self.seen[i], 100);
        bench_team_destroy(team);
    }
}

/* Loops that this machine runs give finite sums that depend on inputs: the work is done. */
static void ceiling_loops_compute(void **state)
{
    (void)state;
    static const bench_loop *const kinds[] = {bench_loops_f32, bench_loops_f64, bench_loops_bf16,
                                              bench_loops_int8};
    bench_team *team = bench_team_create(1);
    static bench_ceiling one, two;
    for (int kind = 0; kind < BENCH_CEILING_KINDS; kind++) {
        bench_ceiling_init(&one, (bench_ceiling_kind)kind, team, 1);
        bench_ceiling_init(&two, (bench_ceiling_kind)kind, team, 2);
        assert_non_null(one.loop);
        assert_true(one.operations == one.loop->operations && one.operations > 0);
        assert_true(bench_ceiling_run(&one, 3) > 0);
        for (const bench_loop *loop = kinds[one.kind]; loop->name; loop++) {
            if (!loop->supported())
                continue;
            double sum = loop->run(2, one.inputs);
            assert_true(isfinite(sum));
            if (one.kind == two.kind && sum == loop->run(2, two.inputs))
                fail_msg("%s does not depend on its inputs", loop->name);
        }
    }
    bench_team_destroy(team);
}

/* Whole lines of the span that is written change, and nothing outside it; spans of any size and
 * place are read. */
static void memory_loop_stays_inside(void **state)
{
    (void)state;
    enum { SIZE = 8192, LINE = 64 };
    unsigned char *source = malloc(SIZE), *target = malloc(SIZE);
    assert_non_null(source);
    assert_non_null(target);
    memset(source, 0x5a, SIZE);
    static const int64_t sizes[] = {0, 1, 63, 64, 65, 640, 4097, 8000};
    for (int64_t threads = 1; threads <= 3; threads++) {
        bench_team *team = bench_team_create(threads);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            memset(target, 0xee, SIZE);
            bench_memory memory = {.team = team};
            memory.reads[0] = (bench_span){source + 3, sizes[i]};
            memory.reads[1] = (bench_span){source, 64 * (int64_t)i};
            memory.write = (bench_span){target + 5, sizes[i]};
            assert_true(bench_memory_run(&memory, 2) > 0);
            int64_t written = sizes[i] / LINE * LINE, unchanged = 0;
            for (int64_t j = 0; j < SIZE; j++) {
                bool inside = j >= 5 && j < 5 + written;
                if (!inside)
                    assert_int_equal(target[j], 0xee);
                unchanged += inside && target[j] == 0xee;
            }
            assert_true(written == 0 || unchanged < written / 2);
        }
        bench_team_destroy(team);
    }
    free(target);
    free(source);
}

/* ---- Peers ---- */

static void peers_are_complete(void **state)
{
    (void)state;
    assert_null(bench_peer_find("nosuch"));
    assert_non_null(bench_peer_at(0));
    for (int i = 0; bench_peer_at(i); i++) {
        const bench_peer *peer = bench_peer_at(i);
        assert_ptr_equal(bench_peer_find(peer->name), peer);
        assert_non_null(peer->remedy);
        assert_true(peer->core_variable || !peer->cores);
        assert_true(peer->open && peer->accepts && peer->prepare && peer->run && peer->release);
        bench_identity identity;
        bench_message message = {""};
        assert_false(peer->open("/nonexistent/library.so", 1, &identity, &message));
        assert_non_null(strstr(message.text, "/nonexistent/library.so"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_checked),
        cmocka_unit_test(corners_are_always_checked),
        cmocka_unit_test(epilogues_are_checked),
        cmocka_unit_test(operands_are_random_and_repeatable),
        cmocka_unit_test(too_large_is_refused),
        cmocka_unit_test(costs),
        cmocka_unit_test(widening_is_exact),
        cmocka_unit_test(narrowing_rounds_to_even),
        cmocka_unit_test(every_thread_runs_once),
        cmocka_unit_test(ceiling_loops_compute),
        cmocka_unit_test(memory_loop_stays_inside),
        cmocka_unit_test(peers_are_complete),
    };
    return cmocka_run_group_tests_name("bench/kernels", tests, NULL, NULL);
}
