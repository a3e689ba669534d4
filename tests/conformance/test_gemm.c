/* SPDX-License-Identifier: Apache-2.0 */
/* Backends against the oracle over random GEMM descriptors, and the judge against planted errors.
 *
 * KILN_TEST_COUNT and KILN_TEST_SEED choose the cases. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "conformance/gemm.h"
#include "conformance/lines.h"

/* What a backend is expected to serve: types by name, epilogue kinds and groupings by index. A cell
 * inside that no case has passed in fails, and so does one outside that a case has passed in. */
typedef struct expectation {
    const char *backend;
    const char *types[CONFORMANCE_GEMM_TYPES + 1]; /* NULL at the end; "*" = all */
    bool kinds[CONFORMANCE_GEMM_KINDS];
    bool groupings[CONFORMANCE_GEMM_GROUPINGS];
    bool whole; /* nothing is declined within these */
} expectation;

#ifdef TEST_REF
static const expectation ref_expectation = {
    "ref", {"*"}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1}, true};
#endif
#ifdef TEST_NPU
static const expectation npu_expectation = {
    "npu", {"f16", "bf16", "i8"}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0}, {1, 0, 0, 0}, false};
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

/* ---- Cells ---- */

static bool expects_type(const expectation *expected, int type)
{
    for (int i = 0; expected->types[i]; i++)
        if (strcmp(expected->types[i], "*") == 0 ||
            strcmp(expected->types[i], conformance_gemm_types[type].name) == 0)
            return true;
    return false;
}

/* A cell, or all of those with these indices, of which -1 stands for any. */
typedef struct cell_range {
    int type, layout, kind, grouping;
} cell_range;

static bool is_in(int index, int wanted)
{
    return wanted < 0 || index == wanted;
}

static int64_t count_in(const conformance_gemm_cells *cells, cell_range range)
{
    int64_t count = 0;
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES; type++)
        for (int layout = 0; layout < CONFORMANCE_GEMM_LAYOUTS; layout++)
            for (int kind = 0; kind < CONFORMANCE_GEMM_KINDS; kind++)
                for (int grouping = 0; grouping < CONFORMANCE_GEMM_GROUPINGS; grouping++)
                    if (is_in(type, range.type) && is_in(layout, range.layout) &&
                        is_in(kind, range.kind) && is_in(grouping, range.grouping))
                        count += cells->count[type][layout][kind][grouping];
    return count;
}

static bool is_served(const expectation *expected, cell_range range)
{
    return (range.type < 0 || expects_type(expected, range.type)) &&
           (range.kind < 0 || expected->kinds[range.kind]) &&
           (range.grouping < 0 || expected->groupings[range.grouping]);
}

static const char *name_of(const char *const *names, int index)
{
    return index < 0 ? "any" : names[index];
}

static void check_range(const expectation *expected, const conformance_gemm_summary *summary,
                        cell_range range)
{
    int64_t passed = count_in(&summary->passed_cells, range);
    bool served = is_served(expected, range);
    if ((passed > 0) == served)
        return;
    fail_msg("%s, %s, %s, %s on %s: %lld cases passed, but it is expected %s",
             range.type < 0 ? "any type" : conformance_gemm_types[range.type].name,
             name_of(conformance_gemm_layouts, range.layout),
             name_of(conformance_gemm_kinds, range.kind),
             name_of(conformance_gemm_groupings, range.grouping), expected->backend,
             (long long)passed, served ? "to serve this" : "to decline this");
}

/* Every cell; or, of fewer cases, every pair that has one of these indices in it. */
static void check_cells(const expectation *expected, const conformance_gemm_summary *summary,
                        bool every)
{
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES; type++)
        for (int layout = 0; layout < CONFORMANCE_GEMM_LAYOUTS; layout++)
            for (int kind = 0; kind < CONFORMANCE_GEMM_KINDS; kind++)
                for (int grouping = 0; grouping < CONFORMANCE_GEMM_GROUPINGS; grouping++) {
                    cell_range cell = {type, layout, kind, grouping};
                    if (every || !is_served(expected, cell))
                        check_range(expected, summary, cell);
                    check_range(expected, summary, (cell_range){type, layout, -1, -1});
                    check_range(expected, summary, (cell_range){type, -1, kind, -1});
                    check_range(expected, summary, (cell_range){type, -1, -1, grouping});
                    check_range(expected, summary, (cell_range){-1, layout, kind, -1});
                    check_range(expected, summary, (cell_range){-1, layout, -1, grouping});
                    check_range(expected, summary, (cell_range){-1, -1, kind, grouping});
                }
}

static void print_row(const conformance_gemm_summary *summary, const char *name, cell_range range)
{
    print_message("#   %-16s", name);
    for (int kind = 0; kind < CONFORMANCE_GEMM_KINDS; kind++) {
        range.kind = kind;
        print_message(" %6lld", (long long)count_in(&summary->passed_cells, range));
    }
    print_message("\n");
}

static void print_cells(const conformance_gemm_summary *summary)
{
    print_message("# passed by types, and by layout and grouping, for the epilogues");
    for (int kind = 0; kind < CONFORMANCE_GEMM_KINDS; kind++)
        print_message(" %s", conformance_gemm_kinds[kind]);
    print_message("\n");
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES; type++)
        print_row(summary, conformance_gemm_types[type].name, (cell_range){type, -1, -1, -1});
    for (int layout = 0; layout < CONFORMANCE_GEMM_LAYOUTS; layout++)
        print_row(summary, conformance_gemm_layouts[layout], (cell_range){-1, layout, -1, -1});
    for (int grouping = 0; grouping < CONFORMANCE_GEMM_GROUPINGS; grouping++)
        print_row(summary, conformance_gemm_groupings[grouping],
                  (cell_range){-1, -1, -1, grouping});
    int64_t empty = 0;
    for (int i = 0; i < CONFORMANCE_GEMM_CELLS; i++)
        empty += (&summary->passed_cells.count[0][0][0][0])[i] == 0;
    print_message("# %lld of %d cells have passed\n", (long long)(CONFORMANCE_GEMM_CELLS - empty),
                  CONFORMANCE_GEMM_CELLS);
}

/* ---- Sweeps ---- */

static void print_summary(const char *backend, const conformance_gemm_summary *summary)
{
    print_message("# %s: %lld passed, %lld declined, %lld failed; %lld elements, %lld without a "
                  "bound; largest measured/bound %.4f (case %lld), largest 1 - 2 sum(xy) / "
                  "sum(x^2 + y^2) %.2e; vectors %016llx\n",
                  backend, (long long)summary->passed, (long long)summary->declined,
                  (long long)summary->failed, (long long)summary->elements,
                  (long long)summary->unbounded, summary->largest_ratio,
                  (long long)summary->largest_ratio_index, summary->largest_global,
                  (unsigned long long)summary->vectors);
    print_cells(summary);
    if (summary->declined)
        print_message("# last declined: %s\n", summary->last_decline);
}

/* Of a backend that serves little, as many cases again among what it is expected to serve. */
static conformance_gemm_filter served_filter(const expectation *expected)
{
    conformance_gemm_filter filter = {.groupings = 0};
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES; type++)
        filter.types |= (uint32_t)expects_type(expected, type) << type;
    for (int grouping = 0; grouping < CONFORMANCE_GEMM_GROUPINGS; grouping++)
        filter.groupings |= (uint32_t)expected->groupings[grouping] << grouping;
    return filter;
}

static void sweep(const expectation *expected)
{
    int64_t count = number_from_environment("KILN_TEST_COUNT", 2000);
    uint64_t seed = (uint64_t)number_from_environment("KILN_TEST_SEED", 1);
    kiln_runtime *runtime = open_runtime(expected->backend);
    static conformance_gemm_summary summary;
    conformance_gemm_filter served = served_filter(expected);
    memset(&summary, 0, sizeof summary);
    print_message("# %s: KILN_TEST_SEED=%lld KILN_TEST_COUNT=%lld\n", expected->backend,
                  (long long)seed, (long long)count);
    assert_int_equal(conformance_gemm_sweep(runtime, expected->backend, seed, 0, count, &summary),
                     KILN_OK);
    if (expected->whole)
        assert_int_equal(summary.declined, 0);
    else
        assert_int_equal(conformance_gemm_sweep_of(runtime, expected->backend, &served, seed + 1, 0,
                                                   count, &summary),
                         KILN_OK);
    print_summary(expected->backend, &summary);
    if (summary.failed)
        fail_msg("%s", summary.first_failure);
    if (count >= CONFORMANCE_GEMM_PAIRS)
        check_cells(expected, &summary, count >= CONFORMANCE_GEMM_CELLS);
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

/* Groups beyond their limits: the run says so and is right all the same. */
static void test_ref_violations(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("ref");
    int64_t tried[CONFORMANCE_GEMM_GROUPINGS] = {0};
    for (int64_t index = 0; index < 400; index++) {
        conformance_gemm_case *test = conformance_gemm_case_create(2, index);
        conformance_gemm_result result;
        assert_non_null(test);
        if (conformance_gemm_case_violate(test, (uint64_t)index)) {
            conformance_gemm_execute(runtime, "ref", test, &result);
            conformance_gemm_judge(test, &result);
            if (result.outcome != CONFORMANCE_PASSED)
                fail_msg("case %lld: %s", (long long)index, result.text);
            tried[test->desc.grouping]++;
        }
        conformance_gemm_case_free(test);
    }
    for (int grouping = KILN_GROUPING_CONTIGUOUS; grouping <= KILN_GROUPING_K; grouping++)
        assert_true(tried[grouping] >= 50);
    kiln_runtime_close(runtime);
}

/* ---- Planted errors ---- */

/* A case that ref has passed; its outcome so far. */
static conformance_gemm_case *pass_case(kiln_runtime *runtime, uint64_t seed, int64_t index,
                                        conformance_gemm_result *result)
{
    conformance_gemm_case *test = conformance_gemm_case_create(seed, index);
    assert_non_null(test);
    conformance_gemm_execute(runtime, "ref", test, result);
    conformance_gemm_judge(test, result);
    if (result->outcome != CONFORMANCE_PASSED)
        fail_msg("case %lld: %s", (long long)index, result->text);
    return test;
}

/* Judges again what has been changed. */
static int judge_again(conformance_gemm_case *test, conformance_gemm_result *result)
{
    conformance_gemm_judge(test, result);
    int outcome = (int)result->outcome;
    result->outcome = CONFORMANCE_PASSED;
    return outcome;
}

/* An element of an output, by the number of its line. */
typedef struct output_place {
    uint32_t type;
    uint8_t *line;
    int64_t index;
    double exact, bound;
} output_place;

static double load(const output_place *place)
{
    return kiln_load_f64(place->type, place->line, place->index);
}

/* Moves an element by `bounds` times its bound, as near as its type allows, judges, and puts it
 * back. Returns the outcome; -1 when it cannot be moved so that its distance is on the wanted side
 * of the bound. */
static int judge_moved(conformance_gemm_case *test, conformance_gemm_result *result,
                       const output_place *place, double bounds)
{
    double exact = place->exact, bound = place->bound, before = load(place);
    if (!isfinite(exact) || !isfinite(bound))
        return -1;
    kiln_store_f64(place->type, place->line, place->index, exact + bounds * bound, KILN_SATURATE);
    double moved = load(place), distance = fabs(moved - exact);
    bool wanted =
        moved != before && (fabs(bounds) > 1 ? distance > bound * 1.001 : distance < bound * 0.999);
    int outcome = wanted ? judge_again(test, result) : -1;
    kiln_store_f64(place->type, place->line, place->index, before, KILN_SATURATE);
    return outcome;
}

static output_place place_of_d(const conformance_gemm_case *test, int64_t line, int64_t column)
{
    const conformance_tensor *d = &test->tensors[KILN_GEMM_D];
    int64_t element = line * test->d_columns + column;
    return (output_place){d->tensor.type, conformance_line(&d->tensor, d->memory, line), column,
                          test->expected->exact[element], test->expected->bound[element]};
}

/* From the middle on, the first element of D that can be moved so; the outcome. */
static int judge_moved_d(conformance_gemm_case *test, conformance_gemm_result *result,
                         double bounds)
{
    int64_t lines = conformance_line_count(&test->tensors[KILN_GEMM_D].tensor);
    for (int64_t line = lines / 2; line < lines; line++)
        for (int64_t column = 0; test->expected->written[line] && column < test->d_columns;
             column++) {
            output_place place = place_of_d(test, line, column);
            for (int sign = -1; sign <= 1; sign += 2) {
                int outcome = judge_moved(test, result, &place, sign * bounds);
                if (outcome >= 0)
                    return outcome;
            }
        }
    return -1;
}

static void test_planted_elements(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("ref");
    int found[CONFORMANCE_GEMM_TYPES] = {0}, allowed[CONFORMANCE_GEMM_TYPES] = {0};
    for (int64_t index = 0; index < 600; index++) {
        conformance_gemm_result result;
        conformance_gemm_case *test = pass_case(runtime, 3, index, &result);
        if (test->expected->scale_columns == 0) {
            int beyond = judge_moved_d(test, &result, 1.6),
                within = judge_moved_d(test, &result, 0.6);
            if (beyond >= 0)
                assert_int_equal(beyond, CONFORMANCE_FAILED);
            if (within >= 0)
                assert_int_equal(within, CONFORMANCE_PASSED);
            found[test->type] += beyond >= 0;
            allowed[test->type] += within >= 0;
        }
        conformance_gemm_case_free(test);
    }
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES; type++) {
        print_message("# %s: %d planted errors found, %d deviations within the bound allowed\n",
                      conformance_gemm_types[type].name, found[type], allowed[type]);
        assert_true(found[type] >= 8);
        assert_true(allowed[type] >= 2);
    }
    kiln_runtime_close(runtime);
}

/* Elements and scales of a quantised D, one code off. */
static void test_planted_codes(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("ref");
    int elements = 0, scales[2] = {0, 0};
    for (int64_t index = KILN_EPILOGUE_QUANTIZE; index < 2000; index += CONFORMANCE_GEMM_KINDS) {
        conformance_gemm_result result;
        conformance_gemm_case *test = pass_case(runtime, 6, index, &result);
        conformance_tensor *d = &test->tensors[KILN_GEMM_D],
                           *scale = &test->tensors[KILN_GEMM_D_SCALE];
        bool usable = test->m > 0 && test->d_columns > 0 && test->batch > 0 &&
                      test->expected->written[0] && test->expected->scale_low[0] > 0 &&
                      test->expected->scale_high[0] < (double)INFINITY &&
                      test->desc.precision == KILN_PRECISION_EXACT;
        if (usable && d->tensor.type != KILN_E2M1 &&
            fabs(test->expected->exact[0]) >= 100 * test->expected->bound[0]) {
            uint8_t *line = conformance_line(&d->tensor, d->memory, 0);
            line[0] ^= 2; /* two codes off */
            assert_int_equal(judge_again(test, &result), CONFORMANCE_FAILED);
            line[0] ^= 2;
            elements++;
        }
        if (usable) {
            uint32_t scale_type = scale->tensor.type;
            bool power = scale_type == KILN_UE8M0;
            uint8_t *line = conformance_line(&scale->tensor, scale->memory, 0);
            double right = kiln_load_f64(scale->tensor.type, line, 0),
                   high = test->expected->scale_high[0];
            kiln_store_f64(scale_type, line, 0, power ? 2 * high : high * 1.000001, 0);
            line[0] += scale_type == KILN_E4M3; /* the next code */
            assert_int_equal(judge_again(test, &result), CONFORMANCE_FAILED);
            kiln_store_f64(scale->tensor.type, line, 0, right, 0);
            scales[power]++;
        }
        conformance_gemm_case_free(test);
    }
    print_message("# %d elements, %d scales of f32 and %d of ue8m0 one code off found\n", elements,
                  scales[0], scales[1]);
    assert_true(elements >= 20 && scales[0] >= 15 && scales[1] >= 15);
    kiln_runtime_close(runtime);
}

static void test_planted_gradients(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("ref");
    int found = 0;
    for (int64_t index = KILN_EPILOGUE_BIAS_GRADIENT; index < 800;
         index += CONFORMANCE_GEMM_KINDS) {
        conformance_gemm_result result;
        conformance_gemm_case *test = pass_case(runtime, 7, index, &result);
        for (uint32_t i = 0; i < test->desc.epilogue_count; i++) {
            const conformance_gemm_gradient *gradient = &test->expected->gradients[i];
            const conformance_tensor *made = &test->tensors[KILN_GEMM_OPERAND + i];
            if (gradient->rows * gradient->columns == 0)
                continue;
            output_place place = {made->tensor.type,
                                  conformance_line(&made->tensor, made->memory, gradient->rows - 1),
                                  gradient->columns - 1,
                                  gradient->exact[gradient->rows * gradient->columns - 1],
                                  gradient->bound[gradient->rows * gradient->columns - 1]};
            int outcome = judge_moved(test, &result, &place, 1.6);
            if (outcome >= 0)
                assert_int_equal(outcome, CONFORMANCE_FAILED);
            found += outcome >= 0;
        }
        conformance_gemm_case_free(test);
    }
    assert_true(found >= 20);
    kiln_runtime_close(runtime);
}

/* A NaN where a number belongs, and a number where a NaN belongs. */
static void test_planted_nan(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("ref");
    int planted = 0;
    for (int64_t index = 0; index < 150; index++) {
        conformance_gemm_result result;
        conformance_gemm_case *test = pass_case(runtime, 4, index, &result);
        bool floating = test->desc.d_type <= KILN_BF16;
        if (floating && result.elements > 0 && test->expected->written[0] && test->d_columns > 0) {
            output_place place = place_of_d(test, 0, 0);
            if (!isinf(place.bound)) {
                kiln_store_f64(place.type, place.line, 0, isnan(place.exact) ? 1 : (double)NAN, 0);
                assert_int_equal(judge_again(test, &result), CONFORMANCE_FAILED);
                planted++;
            }
        }
        conformance_gemm_case_free(test);
    }
    assert_true(planted >= 20);
    kiln_runtime_close(runtime);
}

/* A byte beside D's elements, one in an input, and one of a row that a grouping leaves out. */
static void test_planted_bytes(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime("ref");
    int padding = 0;
    for (int64_t index = 0; index < 100; index++) {
        conformance_gemm_result result;
        conformance_gemm_case *test = pass_case(runtime, 5, index, &result);
        conformance_tensor *d = &test->tensors[KILN_GEMM_D], *b = &test->tensors[KILN_GEMM_B];
        d->memory[d->bytes - 1] ^= 1;
        assert_int_equal(judge_again(test, &result), CONFORMANCE_FAILED);
        d->memory[d->bytes - 1] ^= 1;
        b->memory[b->bytes / 2] ^= 1;
        assert_int_equal(judge_again(test, &result), CONFORMANCE_FAILED);
        b->memory[b->bytes / 2] ^= 1;
        for (int64_t line = 0; line < conformance_line_count(&d->tensor); line++)
            if (!test->expected->written[line] && !test->expected->loose[line]) {
                conformance_line(&d->tensor, d->memory, line)[0] ^= 1;
                assert_int_equal(judge_again(test, &result), CONFORMANCE_FAILED);
                padding++;
                break;
            }
        conformance_gemm_case_free(test);
    }
    assert_true(padding >= 15);
    kiln_runtime_close(runtime);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef TEST_REF
        cmocka_unit_test(test_absent_backend),
        cmocka_unit_test(test_ref_violations),
        cmocka_unit_test(test_planted_elements),
        cmocka_unit_test(test_planted_codes),
        cmocka_unit_test(test_planted_gradients),
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
