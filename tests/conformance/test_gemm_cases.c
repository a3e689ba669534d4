/* SPDX-License-Identifier: Apache-2.0 */
/* The random cases of GEMM, and the judge, tried with the naive plugin: arithmetic that rounds at
 * every step, in three orders, keeps the bounds, and every mistake is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "conformance/gemm.h"
#include "tests/conformance/naive.h"

static kiln_runtime *open_naive(const char *order, const char *mistake)
{
    char profile[256];
    kiln_runtime *runtime = NULL;
    snprintf(profile, sizeof profile,
             "schema: 1\nname: test\nplugins: [naive]\n"
             "options: {naive: {order: %s, mistake: %s}}\n",
             order, mistake);
    kiln_runtime_options options = {.struct_size = sizeof options, .profile_text = profile};
    if (kiln_runtime_open(&options, &runtime) != KILN_OK)
        fail_msg("%s", kiln_last_error());
    return runtime;
}

static int set_up(void **state)
{
    (void)state;
    return kiln_plugin_register("naive", naive_entry);
}

/* ---- What cases there are ---- */

static void test_cases_repeat(void **state)
{
    (void)state;
    for (int64_t index = 0; index < 100; index++) {
        conformance_gemm_case *one = conformance_gemm_case_create(9, index),
                              *two = conformance_gemm_case_create(9, index),
                              *other = conformance_gemm_case_create(10, index);
        assert_true(one && two && other);
        assert_memory_equal(&one->desc, &two->desc, sizeof one->desc);
        assert_true(conformance_gemm_case_hash(one) == conformance_gemm_case_hash(two));
        assert_true(conformance_gemm_case_hash(one) != conformance_gemm_case_hash(other));
        for (int i = 0; i < CONFORMANCE_GEMM_TENSORS; i++) {
            assert_int_equal(one->tensors[i].bytes, two->tensors[i].bytes);
            if (one->tensors[i].memory)
                assert_memory_equal(one->tensors[i].memory, two->tensors[i].memory,
                                    (size_t)one->tensors[i].bytes);
        }
        conformance_gemm_case_free(one);
        conformance_gemm_case_free(two);
        conformance_gemm_case_free(other);
    }
}

/* As many consecutive cases as are promised, from anywhere, hold every pair. */
static void test_cases_cover_pairs(void **state)
{
    (void)state;
    static bool layouts[CONFORMANCE_GEMM_TYPES][CONFORMANCE_GEMM_LAYOUTS],
        kinds[CONFORMANCE_GEMM_TYPES][CONFORMANCE_GEMM_KINDS],
        groupings[CONFORMANCE_GEMM_TYPES][CONFORMANCE_GEMM_GROUPINGS],
        grouped_kinds[CONFORMANCE_GEMM_GROUPINGS][CONFORMANCE_GEMM_KINDS];
    for (int64_t index = 777; index < 777 + CONFORMANCE_GEMM_PAIRS; index++) {
        conformance_gemm_case *test = conformance_gemm_case_create(1, index);
        assert_non_null(test);
        uint32_t flags = test->desc.head.flags, grouping = test->desc.grouping;
        layouts[test->type][(flags & KILN_GEMM_TRANSPOSE_A ? 2 : 0) +
                            (flags & KILN_GEMM_TRANSPOSE_B ? 1 : 0)] = true;
        groupings[test->type][grouping] = true;
        kinds[test->type][0] |= test->desc.epilogue_count == 0;
        grouped_kinds[grouping][0] |= test->desc.epilogue_count == 0;
        for (uint32_t i = 0; i < test->desc.epilogue_count; i++) {
            kinds[test->type][test->desc.epilogues[i].kind] = true;
            grouped_kinds[grouping][test->desc.epilogues[i].kind] = true;
        }
        conformance_gemm_case_free(test);
    }
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES; type++) {
        for (int i = 0; i < CONFORMANCE_GEMM_LAYOUTS; i++)
            assert_true(layouts[type][i]);
        for (int i = 0; i < CONFORMANCE_GEMM_KINDS; i++)
            assert_true(kinds[type][i]);
        for (int i = 0; i < CONFORMANCE_GEMM_GROUPINGS; i++)
            assert_true(groupings[type][i]);
    }
    for (int grouping = 0; grouping < CONFORMANCE_GEMM_GROUPINGS; grouping++)
        for (int i = 0; i < CONFORMANCE_GEMM_KINDS; i++)
            assert_true(grouped_kinds[grouping][i]);
}

/* Fewer where a build only compiles in another way. */
static int64_t enough(int64_t count)
{
    return getenv("KILN_TEST_BRIEF") ? count / 4 : count;
}

/* A sweep of what a filter lets through has that and nothing else, and says which inputs it had. */
static void test_filters(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_naive("scaled-elements", "none");
    uint64_t before = 0;
    for (int feature = 0; feature < CONFORMANCE_GEMM_FEATURES; feature++) {
        conformance_gemm_filter filter = {.features = 1u << feature,
                                          .without = CONFORMANCE_GEMM_PACKED};
        conformance_gemm_summary summary = {0};
        if (feature == 4) /* packed */
            continue;
        assert_int_equal(
            conformance_gemm_sweep_of(runtime, "naive", &filter, 1, 0, enough(20), &summary),
            KILN_OK);
        if (summary.failed)
            fail_msg("%s", summary.first_failure);
        assert_int_equal(summary.passed, enough(20));
        assert_int_equal(summary.features[feature], enough(20));
        assert_int_equal(summary.features[4], 0);
        assert_true(summary.vectors && summary.vectors != before);
        before = summary.vectors;
    }
    conformance_gemm_filter narrow = {
        .types = 1u << 8, .layouts = 2, .groupings = 4, .kinds = 1u << KILN_EPILOGUE_QUANTIZE};
    conformance_gemm_summary once = {0}, again = {0}, other = {0};
    assert_int_equal(conformance_gemm_sweep_of(runtime, "naive", &narrow, 1, 0, 6, &once), KILN_OK);
    assert_int_equal(conformance_gemm_sweep_of(runtime, "naive", &narrow, 1, 0, 6, &again),
                     KILN_OK);
    assert_int_equal(conformance_gemm_sweep_of(runtime, "naive", &narrow, 2, 0, 6, &other),
                     KILN_OK);
    assert_int_equal(once.passed + once.declined, 6);
    assert_int_equal(once.passed_cells.count[8][1][KILN_EPILOGUE_QUANTIZE][2], once.passed);
    assert_true(once.vectors == again.vectors && once.vectors != other.vectors);
    conformance_gemm_filter nothing = {.features = CONFORMANCE_GEMM_SPECIALS,
                                       .without = CONFORMANCE_GEMM_SPECIALS};
    assert_int_equal(conformance_gemm_sweep_of(runtime, "naive", &nothing, 1, 0, 1, &once),
                     KILN_INVALID);
    assert_int_equal(conformance_gemm_sweep(runtime, "nobody", 1, 0, 1, &once), KILN_NOT_FOUND);
    kiln_runtime_close(runtime);
}

/* ---- Arithmetic ---- */

/* Cases `first` and so on, of those that are not packed. */
static void sweep_order(const char *order, const conformance_gemm_filter *filter, int64_t count)
{
    kiln_runtime *runtime = open_naive(order, "none");
    conformance_gemm_summary summary = {0};
    assert_int_equal(conformance_gemm_sweep_of(runtime, "naive", filter, 1, 0, count, &summary),
                     KILN_OK);
    if (summary.failed)
        fail_msg("%s", summary.first_failure);
    print_message("# %s: %lld passed; %lld elements, %lld without a bound; largest measured/bound "
                  "%.4f\n",
                  order, (long long)summary.passed, (long long)summary.elements,
                  (long long)summary.unbounded, summary.largest_ratio);
    assert_int_equal(summary.passed, count);
    kiln_runtime_close(runtime);
}

static void test_orders(void **state)
{
    (void)state;
    static const char *const orders[] = {"scaled-elements", "scaled-sums", "joint-scales"};
    conformance_gemm_filter filter = {.without = CONFORMANCE_GEMM_PACKED};
    for (int i = 0; i < 3; i++) {
        filter.features = 0;
        sweep_order(orders[i], &filter, enough(250));
        filter.features = CONFORMANCE_GEMM_EXTREME;
        sweep_order(orders[i], &filter, enough(40));
        filter.features = CONFORMANCE_GEMM_SPECIALS;
        sweep_order(orders[i], &filter, enough(40));
    }
}

/* ---- Mistakes ---- */

/* Cases that show a mistake: how many of how many at least. */
typedef struct mistake_case {
    int mistake;
    uint32_t kinds, groupings, features;
} mistake_case;

static void find_mistake(const mistake_case *shown)
{
    const char *name = naive_mistake_names[shown->mistake];
    kiln_runtime *runtime = open_naive("scaled-elements", name);
    conformance_gemm_filter filter = {.kinds = shown->kinds,
                                      .groupings = shown->groupings,
                                      .features = shown->features,
                                      .without = CONFORMANCE_GEMM_PACKED |
                                                 CONFORMANCE_GEMM_ZERO_SIZE |
                                                 CONFORMANCE_GEMM_APPROXIMATE};
    conformance_gemm_summary summary = {0};
    for (uint64_t seed = 1; seed <= 10 && summary.failed < 3; seed++)
        assert_int_equal(
            conformance_gemm_sweep_of(runtime, "naive", &filter, seed, 0, 30, &summary), KILN_OK);
    print_message("# %s: %lld of %lld cases fail\n", name, (long long)summary.failed,
                  (long long)(summary.failed + summary.passed));
    assert_true(summary.failed >= 3);
    kiln_runtime_close(runtime);
}

static void test_mistakes(void **state)
{
    (void)state;
    enum { CONTIGUOUS = 2, MASKED = 4, BY_K = 8 };
    const mistake_case shown[] = {
        {NAIVE_SWAPPED_PAIR, 1u << KILN_EPILOGUE_SWIGLU, 0, 0},
        {NAIVE_WRONG_GROUP, 0, CONTIGUOUS, 0},
        {NAIVE_WRONG_GROUP, 0, MASKED, 0},
        {NAIVE_WRONG_SCALE, 0, 0, 0},
        {NAIVE_NO_ZERO_POINT, 0, 0, 0},
        {NAIVE_SCALE_CODE, 1u << KILN_EPILOGUE_QUANTIZE, 0, 0},
        {NAIVE_UNSCALED_D, 1u << KILN_EPILOGUE_QUANTIZE, 0, 0},
        {NAIVE_ROUNDED_DOWN, 0, 0, 0},
        {NAIVE_GRADIENT_MISSES, 1u << KILN_EPILOGUE_BIAS_GRADIENT, 0, 0},
        {NAIVE_GRADIENT_SHARED, 1u << KILN_EPILOGUE_BIAS_GRADIENT, MASKED | BY_K, 0},
        {NAIVE_WRITES_PADDING, 0, CONTIGUOUS, 0},
        {NAIVE_WRITES_PADDING, 0, MASKED, 0},
        {NAIVE_ROW_TOO_MANY, 0, MASKED, 0},
        {NAIVE_STEP_TOO_MANY, 0, BY_K, 0},
        {NAIVE_ONE_SUM, 0, 0, CONFORMANCE_GEMM_DEEP},
        {NAIVE_BROADCAST_VECTOR, 1u << KILN_EPILOGUE_BIAS, CONTIGUOUS | MASKED | BY_K, 0},
    };
    bool tried[NAIVE_MISTAKE_COUNT] = {[NAIVE_NONE] = true, [NAIVE_SILENT] = true};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        find_mistake(&shown[i]);
        tried[shown[i].mistake] = true;
    }
    for (int i = 0; i < NAIVE_MISTAKE_COUNT; i++)
        assert_true(tried[i]);
}

/* ---- Groups beyond their limits ---- */

/* Runs violating cases; returns how many fail of how many there are. */
static int64_t run_violations(const char *mistake, int64_t *count)
{
    kiln_runtime *runtime = open_naive("scaled-elements", mistake);
    int64_t failed = 0;
    *count = 0;
    for (int64_t index = 0; index < 400; index++) {
        conformance_gemm_case *test = conformance_gemm_case_create(2, index);
        conformance_gemm_result result;
        assert_non_null(test);
        if (conformance_gemm_case_violate(test, (uint64_t)index)) {
            conformance_gemm_execute(runtime, "naive", test, &result);
            conformance_gemm_judge(test, &result);
            if (result.outcome == CONFORMANCE_FAILED && strcmp(mistake, "none") == 0)
                fail_msg("case %lld: %s", (long long)index, result.text);
            *count += result.outcome != CONFORMANCE_DECLINED;
            failed += result.outcome == CONFORMANCE_FAILED;
        }
        conformance_gemm_case_free(test);
    }
    kiln_runtime_close(runtime);
    return failed;
}

static void test_violations(void **state)
{
    (void)state;
    int64_t count;
    run_violations("none", &count);
    assert_true(count >= 100);
    assert_true(run_violations("silent", &count) == count);
    assert_true(run_violations("wrong-group", &count) >= 20); /* the rest is judged as always */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases_repeat), cmocka_unit_test(test_cases_cover_pairs),
        cmocka_unit_test(test_filters),      cmocka_unit_test(test_orders),
        cmocka_unit_test(test_mistakes),     cmocka_unit_test(test_violations),
    };
    return cmocka_run_group_tests_name("gemm cases", tests, set_up, NULL);
}
