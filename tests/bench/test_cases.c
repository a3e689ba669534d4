/* SPDX-License-Identifier: Apache-2.0 */
/* Many cases from few words: lists, repeated words, what is wrong. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "bench/cases.h"

static void assert_cases(const char *const *words, int64_t count, const char *list,
                         const char *const *wanted, int64_t wanted_count)
{
    bench_cases cases;
    bench_message message;
    if (!bench_cases_expand(words, count, list, &cases, &message))
        fail_msg("%s", message.text);
    assert_int_equal(cases.count, wanted_count);
    for (int64_t i = 0; i < wanted_count; i++)
        assert_string_equal(cases.texts[i], wanted[i]);
    bench_cases_free(&cases);
}

static void cases_from_words(void **state)
{
    (void)state;
    static const char *const one[] = {"m=1", "n=2", "k=3", "type=f32", "epilogues=bias,relu"};
    static const char *const one_text[] = {"m=1 n=2 k=3 type=f32 epilogues=bias,relu"};
    assert_cases(one, 5, NULL, one_text, 1);
    static const char *const again[] = {"m=1", "n=2", "transpose_b", "m=5", "n=6,7", "n=8"};
    static const char *const again_texts[] = {"m=1 n=2 transpose_b", "m=5 n=6 transpose_b",
                                              "m=5 n=7 transpose_b", "m=5 n=8 transpose_b"};
    assert_cases(again, 6, NULL, again_texts, 4);
    static const char *const product[] = {"m=1,2", "type=f32,f16", "m=1"};
    static const char *const product_texts[] = {"m=1 type=f32", "m=1 type=f16", "m=2 type=f32",
                                                "m=2 type=f16"};
    assert_cases(product, 3, NULL, product_texts, 4); /* the third group says what the first said */
}

static void cases_from_lists(void **state)
{
    (void)state;
    bench_cases cases;
    bench_message message;
    static const char *const words[] = {"m=4", "type=f16"};
    assert_true(bench_cases_expand(words, 2, "model", &cases, &message));
    assert_int_equal(cases.count, 9);
    assert_string_equal(cases.texts[0], "m=4 n=2112 k=7168 type=f16 transpose_b");
    bench_cases_free(&cases);
    assert_true(bench_cases_expand(NULL, 0, "model", &cases, &message));
    assert_int_equal(cases.count, 27);
    bench_cases_free(&cases);
    assert_true(bench_cases_expand(NULL, 0, "small", &cases, &message));
    assert_true(cases.count >= 8);
    bench_cases_free(&cases);
}

static void wrong_cases(void **state)
{
    (void)state;
    bench_cases cases;
    bench_message message;
    static const char *const empty[] = {"m=1,,2"}, *const open_end[] = {"n=3,"},
                             *const spaced[] = {"m=1 n=2"};
    assert_false(bench_cases_expand(NULL, 0, "huge", &cases, &message));
    assert_string_equal(message.text, "there is no list 'huge'; there are: small, model");
    assert_false(bench_cases_expand(empty, 1, NULL, &cases, &message));
    assert_string_equal(message.text, "'m=1,,2': a value of the list is missing");
    assert_false(bench_cases_expand(open_end, 1, NULL, &cases, &message));
    assert_false(bench_cases_expand(spaced, 1, NULL, &cases, &message));
    assert_int_equal(cases.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_from_words),
        cmocka_unit_test(cases_from_lists),
        cmocka_unit_test(wrong_cases),
    };
    return cmocka_run_group_tests_name("bench/cases", tests, NULL, NULL);
}
