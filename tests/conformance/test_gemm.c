/* SPDX-License-Identifier: Apache-2.0 */
/* Backends against the oracle over random GEMM descriptors, and the checker against planted errors.
 *
 * KILN_TEST_COUNT and KILN_TEST_SEED choose the cases. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "conformance/conformance.h"

/* What a backend is expected to serve: which types and epilogue kinds, in the order of the
 * conformance tables. A cell inside that no case has passed in fails, and so does one outside that
 * a case has passed in. */
typedef struct expectation {
    const char *backend;
    bool types[CONFORMANCE_GEMM_TYPES];
    bool kinds[CONFORMANCE_GEMM_KINDS];
} expectation;

#ifdef TEST_REF
static const expectation ref_expectation = {"ref", {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
#endif
#ifdef TEST_NPU
static const expectation npu_expectation = {"npu", {0, 0, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
#endif

static int64_t number_from_environment(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 0) : otherwise;
}

static kiln_runtime *open_runtime(const char *backend)
{
    char profile[128];
    kiln_runtime *runtime = NULL;
    snprintf(profile, sizeof profile, "schema: 1\nname: test\nplugins: [%s]\n", backend);
    kiln_runtime_options options = {.struct_size = sizeof options, .profile_text = profile};
    if (kiln_runtime_open(&options, &runtime) != KILN_OK)
        fail_msg("%s", kiln_last_error());
    return runtime;
}

static int64_t count_of(const conformance_gemm_cells *cells, int type, int layout, int kind)
{
    return cells->count[type][layout][kind][KILN_GROUPING_NONE];
}

static void print_cells(const conformance_gemm_summary *summary)
{
    print_message("# passed (declined) by type and layout, for the epilogues");
    for (int kind = 0; kind < CONFORMANCE_GEMM_KINDS; kind++)
        print_message(" %s", conformance_gemm_kinds[kind]);
    print_message("\n");
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES; type++)
        for (int layout = 0; layout < CONFORMANCE_GEMM_LAYOUTS; layout++) {
            print_message("#   %-4s %s", kiln_type_name(conformance_gemm_types[type]),
                          conformance_gemm_layouts[layout]);
            for (int kind = 0; kind < CONFORMANCE_GEMM_KINDS; kind++) {
                int64_t declined = count_of(&summary->declined_cells, type, layout, kind);
                print_message("  %4lld",
                              (long long)count_of(&summary->passed_cells, type, layout, kind));
                if (declined)
                    print_message(" (%lld)", (long long)declined);
            }
            print_message("\n");
        }
}

static void check_cells(const expectation *expected, const conformance_gemm_summary *summary)
{
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES; type++)
        for (int layout = 0; layout < CONFORMANCE_GEMM_LAYOUTS; layout++)
            for (int kind = 0; kind < CONFORMANCE_GEMM_KINDS; kind++) {
                bool served = expected->types[type] && expected->kinds[kind];
                int64_t passed = count_of(&summary->passed_cells, type, layout, kind);
                if ((passed > 0) != served)
                    fail_msg("%s, %s, %s on %s: %lld cases passed, but it is expected %s",
                             kiln_type_name(conformance_gemm_types[type]),
                             conformance_gemm_layouts[layout], conformance_gemm_kinds[kind],
                             expected->backend, (long long)passed,
                             served ? "to serve this" : "to decline this");
            }
}

static void sweep(const expectation *expected)
{
    int64_t count = number_from_environment("KILN_TEST_COUNT", 400);
    int64_t seed = number_from_environment("KILN_TEST_SEED", 1);
    kiln_runtime *runtime = open_runtime(expected->backend);
    conformance_gemm_summary summary = {0};
    print_message("# %s: KILN_TEST_SEED=%lld KILN_TEST_COUNT=%lld\n", expected->backend,
                  (long long)seed, (long long)count);
    assert_int_equal(
        conformance_gemm_sweep(runtime, expected->backend, (uint64_t)seed, 0, count, &summary),
        KILN_OK);
    print_message("# %s: %lld passed, %lld declined, %lld failed; %lld elements, %lld without a "
                  "bound; largest "
                  "measured/bound %.4f (case %lld), largest 1 - 2 sum(xy) / sum(x^2 + y^2) %.2e\n",
                  expected->backend, (long long)summary.passed, (long long)summary.declined,
                  (long long)summary.failed, (long long)summary.elements,
                  (long long)summary.unbounded, summary.largest_ratio,
                  (long long)summary.largest_ratio_index, summary.largest_global);
    print_cells(&summary);
    if (summary.declined)
        print_message("# last declined: %s\n", summary.last_decline);
    if (summary.failed)
        fail_msg("%s", summary.first_failure);
    check_cells(expected, &summary);
    assert_true(summary.largest_ratio <= 1);
    assert_true(summary.largest_ratio > 0.01); /* something was measured */
    assert_true(summary.unbounded * 1000 <= summary.elements);
    kiln_runtime_close(runtime);
}

#ifdef TEST_NPU
static void test_npu(void **state)
{
    (void)state;
    sweep(&npu_expectation);
}
#endif

/* ---- The oracle by itself ---- */

/* Computes a 2 × 2 GEMM with K = 2 in f64 and one epilogue. */
static void ask(uint32_t flags, double alpha, double beta, const kiln_epilogue *epilogue,
                double exact[4], double bound[4])
{
    double a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, c[] = {100, 200, 300, 400};
    kiln_gemm_desc desc = {.head = {sizeof desc, flags}, .m = 2, .n = 2, .k = 2, .batch = 1};
    desc.a_type = desc.b_type = desc.c_type = desc.d_type = KILN_F64;
    if (epilogue) {
        desc.epilogues[0] = *epilogue;
        desc.epilogue_count = 1;
    }
    kiln_tensor tensors[4] = {kiln_matrix(KILN_F64, a, 2, 2, 2), kiln_matrix(KILN_F64, b, 2, 2, 2),
                              kiln_matrix(KILN_F64, c, 2, 2, 2),
                              kiln_matrix(KILN_F64, NULL, 2, 2, 2)};
    kiln_gemm_args args = {{sizeof args, 4, tensors}, alpha, beta};
    const char *reason = "";
    assert_int_equal(conformance_gemm_oracle(&desc, &args, 0, exact, bound, &reason), KILN_OK);
}

static void expect(const double got[4], double a, double b, double c, double d)
{
    const double wanted[] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        if (!(fabs(got[i] - wanted[i]) <= 1e-12 * fabs(wanted[i])))
            fail_msg("element %d is %.17g instead of %.17g", i, got[i], wanted[i]);
}

static void test_oracle_values(void **state)
{
    (void)state;
    double exact[4], bound[4];
    ask(0, 1, 0, NULL, exact, bound);
    expect(exact, 19, 22, 43, 50);
    ask(KILN_GEMM_TRANSPOSE_B, 1, 0, NULL, exact, bound);
    expect(exact, 17, 23, 39, 53);
    ask(KILN_GEMM_TRANSPOSE_A, 1, 0, NULL, exact, bound);
    expect(exact, 26, 30, 38, 44);
    ask(KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B, 1, 0, NULL, exact, bound);
    expect(exact, 23, 31, 34, 46);
    ask(0, -2, 0.5, NULL, exact, bound);
    expect(exact, 12, 56, 64, 100);
    ask(0, 0, 1, NULL, exact, bound);
    expect(exact, 100, 200, 300, 400);

    /* alpha makes 1, 22/19, 43/19 and 50/19 of the sums; the values were computed with mpmath. */
    kiln_epilogue activation = {.kind = KILN_EPILOGUE_GELU_ERF};
    ask(0, -1.0 / 19, 0, &activation, exact, bound);
    expect(exact, -0.15865525393145705141, -0.14294615536169259807, -0.026734636376871197802,
           -0.011182778775266215976);
    activation.kind = KILN_EPILOGUE_GELU_TANH;
    ask(0, 1.0 / 19, 0, &activation, exact, bound);
    expect(exact, 0.84119199060827670478, 1.0147454225675381714, 2.2367364253882760076,
           2.6208657017178949095);
    activation.kind = KILN_EPILOGUE_SILU;
    ask(0, -1.0 / 19, 0, &activation, exact, bound);
    expect(exact, -0.26894142136999512075, -0.27679477491642369764, -0.21323591172695988684,
           -0.17666710232784757519);
    kiln_epilogue clip = {.kind = KILN_EPILOGUE_CLIP, .p0 = 20, .p1 = 45};
    ask(0, 1, 0, &clip, exact, bound);
    expect(exact, 20, 22, 43, 45);
    kiln_epilogue relu = {.kind = KILN_EPILOGUE_RELU};
    ask(0, -1, 0.15, &relu, exact, bound);
    expect(exact, 0, 8, 2, 10);
}

/* The bound is the documented formula: K + 4 roundings of f32 and one of D. */
static void test_bound_formula(void **state)
{
    (void)state;
    enum { DEPTH = 100 };
    float a[DEPTH], b[DEPTH], c = 3, d = 0;
    double exact, bound;
    const char *reason;
    for (int k = 0; k < DEPTH; k++) {
        a[k] = 1;
        b[k] = k % 2 ? 2 : -2;
    }
    kiln_gemm_desc desc = {.head = {sizeof desc, 0}, .m = 1, .n = 1, .k = DEPTH, .batch = 1};
    desc.a_type = desc.b_type = desc.c_type = desc.d_type = KILN_F32;
    kiln_tensor tensors[4] = {
        kiln_matrix(KILN_F32, a, 1, DEPTH, DEPTH), kiln_matrix(KILN_F32, b, DEPTH, 1, 1),
        kiln_matrix(KILN_F32, &c, 1, 1, 1), kiln_matrix(KILN_F32, &d, 1, 1, 1)};
    kiln_gemm_args args = {{sizeof args, 4, tensors}, 0.5, 2};
    assert_int_equal(conformance_gemm_oracle(&desc, &args, 0, &exact, &bound, &reason), KILN_OK);
    double u = 0x1p-24, wanted = 104 * u / (1 - 104 * u) * (0.5 * 200 + 2 * 3) + u * 6;
    assert_true(exact == 6);
    assert_true(bound >= wanted && bound <= wanted * 1.001);
    desc.d_type = KILN_BF16;
    tensors[KILN_GEMM_D].type = KILN_BF16;
    assert_int_equal(conformance_gemm_oracle(&desc, &args, 0, &exact, &bound, &reason), KILN_OK);
    wanted += (0x1p-8 - u) * 6;
    assert_true(bound >= wanted && bound <= wanted * 1.01);
    desc.grouping = KILN_GROUPING_MASKED;
    assert_int_equal(conformance_gemm_oracle(&desc, &args, 0, &exact, &bound, &reason),
                     KILN_UNSUPPORTED);
}

static void test_ratio(void **state)
{
    (void)state;
    const double inf = (double)INFINITY, nan = (double)NAN;
    assert_true(conformance_gemm_ratio(KILN_F32, false, 1, 0.5, 1.25) == 0.5);
    assert_true(conformance_gemm_ratio(KILN_F32, false, 1, 0.5, 2) == 2);
    assert_true(conformance_gemm_ratio(KILN_F32, false, nan, 0, nan) == 0);
    assert_true(conformance_gemm_ratio(KILN_F32, false, nan, 0, 1) == inf);
    assert_true(conformance_gemm_ratio(KILN_F32, false, 1, 0.5, nan) == inf);
    assert_true(conformance_gemm_ratio(KILN_F32, false, inf, 0, inf) == 0);
    assert_true(conformance_gemm_ratio(KILN_F32, false, inf, 0, -inf) == inf);
    assert_true(conformance_gemm_ratio(KILN_F32, false, inf, 0, 3e38) == inf);
    assert_true(conformance_gemm_ratio(KILN_F16, false, 65500, 32, inf) == 0);
    assert_true(conformance_gemm_ratio(KILN_F16, false, 65500, 32, -inf) == inf);
    assert_true(conformance_gemm_ratio(KILN_F16, false, 65000, 32, inf) == inf);
    assert_true(conformance_gemm_ratio(KILN_F16, true, 65504, 32, inf) == inf);
    assert_true(conformance_gemm_ratio(KILN_F16, true, inf, 0, inf) == 0);
    assert_true(conformance_gemm_ratio(KILN_F32, false, 1, inf, 7) == 0);
    assert_true(conformance_gemm_ratio(KILN_I32, false, 1.5, 0.5, 2) == 0);
    assert_true(conformance_gemm_ratio(KILN_I32, false, 2, 0.5, 3) == inf);
}

static void test_cases_repeat(void **state)
{
    (void)state;
    for (int64_t index = 0; index < 50; index++) {
        conformance_gemm_case *one = conformance_gemm_case_create(9, index),
                              *two = conformance_gemm_case_create(9, index);
        assert_non_null(one);
        assert_non_null(two);
        assert_memory_equal(&one->desc, &two->desc, sizeof one->desc);
        for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
            assert_int_equal(one->tensors[slot].bytes, two->tensors[slot].bytes);
            if (one->tensors[slot].memory)
                assert_memory_equal(one->tensors[slot].memory, two->tensors[slot].memory,
                                    (size_t)one->tensors[slot].bytes);
        }
        conformance_gemm_case_free(one);
        conformance_gemm_case_free(two);
    }
}

#ifdef TEST_REF
static void test_ref(void **state)
{
    (void)state;
    sweep(&ref_expectation);
}

static void test_absent_backend(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("ref");
    conformance_gemm_summary summary = {0};
    assert_int_equal(conformance_gemm_sweep(runtime, "nobody", 1, 0, 1, &summary), KILN_NOT_FOUND);
    kiln_runtime_close(runtime);
}

/* ---- Planted errors ---- */

/* The address of element `element` of D, as the oracle counts, and its place in the line. */
static uint8_t *line_of(const conformance_gemm_case *test, int64_t element)
{
    const kiln_tensor *d = &test->tensors[KILN_GEMM_D].tensor;
    int64_t row = element / test->n % test->m, batch = element / test->n / test->m;
    int64_t offset = row * d->strides[d->rank - 2] + (d->rank == 3 ? batch * d->strides[0] : 0);
    return test->tensors[KILN_GEMM_D].memory + d->byte_offset +
           offset * (kiln_type_bits(d->type) / 8);
}

/* Moves one element by `bounds` times its bound, as near as D's type allows, judges, and puts it
 * back. Returns the outcome; -1 when no element can be moved so that its distance is on the wanted
 * side of the bound. */
static int judge_moved(conformance_gemm_case *test, conformance_gemm_result *result, double bounds)
{
    uint32_t type = test->desc.d_type;
    int64_t elements = kiln_tensor_elements(&test->tensors[KILN_GEMM_D].tensor);
    for (int64_t element = elements / 2; element < elements; element++)
        for (int sign = -1; sign <= 1; sign += 2) {
            double exact = test->exact[element], bound = test->bound[element];
            uint8_t *line = line_of(test, element);
            int64_t column = element % test->n;
            double before = kiln_load_f64(type, line, column);
            kiln_store_f64(type, line, column, exact + sign * bounds * bound, KILN_SATURATE);
            double moved = kiln_load_f64(type, line, column), distance = fabs(moved - exact);
            bool wanted = isfinite(exact) && isfinite(bound) && moved != before &&
                          (bounds > 1 ? distance > bound * 1.001 : distance < bound * 0.999);
            if (wanted) {
                conformance_gemm_judge(test, result);
                int outcome = (int)result->outcome;
                result->outcome = CONFORMANCE_PASSED;
                kiln_store_f64(type, line, column, before, 0);
                return outcome;
            }
            kiln_store_f64(type, line, column, before, 0);
        }
    return -1;
}

static void test_planted_elements(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("ref");
    int found[CONFORMANCE_GEMM_TYPES] = {0}, allowed[CONFORMANCE_GEMM_TYPES] = {0};
    for (int64_t index = 0; index < 200; index++) {
        conformance_gemm_case *test = conformance_gemm_case_create(3, index);
        conformance_gemm_result result;
        assert_non_null(test);
        conformance_gemm_execute(runtime, "ref", test, &result);
        conformance_gemm_judge(test, &result);
        assert_int_equal(result.outcome, CONFORMANCE_PASSED);
        int beyond = judge_moved(test, &result, 1.6), within = judge_moved(test, &result, 0.6);
        if (beyond >= 0)
            assert_int_equal(beyond, CONFORMANCE_FAILED);
        if (within >= 0)
            assert_int_equal(within, CONFORMANCE_PASSED);
        found[index % CONFORMANCE_GEMM_TYPES] += beyond >= 0;
        allowed[index % CONFORMANCE_GEMM_TYPES] += within >= 0;
        conformance_gemm_case_free(test);
    }
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES; type++) {
        print_message("# %s: %d planted errors found, %d deviations within the bound allowed\n",
                      kiln_type_name(conformance_gemm_types[type]), found[type], allowed[type]);
        assert_true(found[type] >= 20);
        assert_true(allowed[type] >= 5);
    }
    kiln_runtime_close(runtime);
}

/* A NaN where a number belongs, and a number where a NaN belongs. */
static void test_planted_nan(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("ref");
    int planted = 0;
    for (int64_t index = 0; index < 60; index++) {
        conformance_gemm_case *test = conformance_gemm_case_create(4, index);
        conformance_gemm_result result;
        conformance_gemm_execute(runtime, "ref", test, &result);
        conformance_gemm_judge(test, &result);
        assert_int_equal(result.outcome, CONFORMANCE_PASSED);
        bool floating = test->desc.d_type <= KILN_BF16;
        if (floating && result.elements > 0 && !isinf(test->bound[0])) {
            kiln_store_f64(test->desc.d_type, line_of(test, 0), 0,
                           isnan(test->exact[0]) ? 1 : (double)NAN, 0);
            conformance_gemm_judge(test, &result);
            assert_int_equal(result.outcome, CONFORMANCE_FAILED);
            planted++;
        }
        conformance_gemm_case_free(test);
    }
    assert_true(planted >= 20);
    kiln_runtime_close(runtime);
}

/* A byte beside D's elements, and one in an input. */
static void test_planted_bytes(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("ref");
    for (int64_t index = 0; index < 20; index++) {
        conformance_gemm_case *test = conformance_gemm_case_create(5, index);
        conformance_gemm_result result;
        conformance_gemm_execute(runtime, "ref", test, &result);
        conformance_gemm_judge(test, &result);
        assert_int_equal(result.outcome, CONFORMANCE_PASSED);
        conformance_tensor *d = &test->tensors[KILN_GEMM_D], *b = &test->tensors[KILN_GEMM_B];
        d->memory[d->bytes - 1] ^= 1;
        conformance_gemm_judge(test, &result);
        assert_int_equal(result.outcome, CONFORMANCE_FAILED);
        d->memory[d->bytes - 1] ^= 1;
        result.outcome = CONFORMANCE_PASSED;
        b->memory[b->bytes / 2] ^= 1;
        conformance_gemm_judge(test, &result);
        assert_int_equal(result.outcome, CONFORMANCE_FAILED);
        conformance_gemm_case_free(test);
    }
    kiln_runtime_close(runtime);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle_values),
        cmocka_unit_test(test_bound_formula),
        cmocka_unit_test(test_ratio),
        cmocka_unit_test(test_cases_repeat),
#ifdef TEST_REF
        cmocka_unit_test(test_absent_backend),
        cmocka_unit_test(test_planted_elements),
        cmocka_unit_test(test_planted_nan),
        cmocka_unit_test(test_planted_bytes),
        cmocka_unit_test(test_ref),
#endif
#ifdef TEST_NPU
        cmocka_unit_test(test_npu),
#endif
    };
    return cmocka_run_group_tests_name("gemm", tests, NULL, NULL);
}
