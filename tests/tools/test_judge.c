/* SPDX-License-Identifier: Apache-2.0 */
/* Judging what a step makes: what is right passes, and each way of being wrong is seen, and where.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "tools/kiln/judge.h"

enum { ROWS = 3, COLUMNS = 4, SCALES = 2, D = 5, D_SCALE = 6 };

/* A quantised D of i8 with a scale for every two columns, as the oracle has it. */
typedef struct fixture {
    int8_t elements[ROWS * COLUMNS], other_elements[ROWS * COLUMNS];
    float scales[ROWS * SCALES], other_scales[ROWS * SCALES];
    double exact[ROWS * COLUMNS], bound[ROWS * COLUMNS];
    double low[ROWS * SCALES], high[ROWS * SCALES];
    bool written[ROWS];
    judged judge;
} fixture;

static void set_values(judged_values *values, int8_t *elements, float *scales)
{
    values->tensor = kiln_matrix(KILN_I8, elements, ROWS, COLUMNS, COLUMNS);
    values->scales = kiln_matrix(KILN_F32, scales, ROWS, SCALES, SCALES);
    values->block = 2;
}

static void make(fixture *self)
{
    memset(self, 0, sizeof *self);
    for (int at = 0; at < ROWS * SCALES; at++) {
        float scale = 0.25f * (float)(1 + at);
        self->scales[at] = self->other_scales[at] = scale;
        self->low[at] = self->high[at] = (double)scale;
        for (int i = 0; i < 2; i++) {
            int8_t stored = (int8_t)(i ? -127 : 10 * at);
            self->elements[2 * at + i] = self->other_elements[2 * at + i] = stored;
            self->exact[2 * at + i] = (double)scale * stored;
            self->bound[2 * at + i] = 1e-6;
        }
    }
    memset(self->written, true, sizeof self->written);
    set_values(&self->judge.result, self->elements, self->scales);
    self->judge.index = D;
    self->judge.scales = D_SCALE;
    self->judge.exact = self->exact;
    self->judge.bound = self->bound;
    self->judge.scale_low = self->low;
    self->judge.scale_high = self->high;
    self->judge.written = self->written;
    self->judge.tolerance = -1;
}

static run_comparison judge(const fixture *self)
{
    run_comparison found = {.passed = false};
    judge_begin(&found, self->judge.bound != NULL);
    judge_tensor(&self->judge, &found);
    judge_end(self->judge.tolerance, &found);
    assert_true(found.compared);
    return found;
}

/* It fails there. */
static void fails(const fixture *self, int64_t tensor, int64_t row, int64_t column)
{
    run_comparison found = judge(self);
    assert_false(found.passed);
    assert_true(found.why[0]);
    assert_int_equal(found.worst_of, tensor);
    assert_int_equal(found.worst[1], row);
    assert_int_equal(found.worst[2], column);
}

static void test_what_is_right(void **state)
{
    (void)state;
    fixture self;
    make(&self);
    run_comparison found = judge(&self);
    assert_true(found.passed);
    assert_int_equal(found.elements, ROWS * COLUMNS);
    assert_int_equal(found.unbounded, 0);
    assert_true(found.max_difference == 0);
    /* Half a step is what rounding may take, and one is too much. */
    self.exact[9] += 0.4999 * (double)self.scales[4];
    assert_true(judge(&self).passed);
    self.exact[9] += (double)self.scales[4];
    fails(&self, D, 2, 1);
}

static void test_a_wrong_element(void **state)
{
    (void)state;
    fixture self;
    make(&self);
    self.elements[6] += 2;
    fails(&self, D, 1, 2);
}

static void test_a_wrong_scale(void **state)
{
    (void)state;
    fixture self;
    make(&self);
    self.scales[3] *= 1.5f;
    self.exact[6] = 1.5 * self.exact[6]; /* the elements are right by it */
    self.exact[7] = 1.5 * self.exact[7];
    fails(&self, D_SCALE, 1, 1);
}

static void test_rows_that_do_not_count(void **state)
{
    (void)state;
    fixture self;
    make(&self);
    self.written[1] = false;
    self.elements[6] += 2;
    self.scales[2] = NAN;
    run_comparison found = judge(&self);
    assert_true(found.passed);
    assert_int_equal(found.elements, (ROWS - 1) * COLUMNS);
    self.elements[3] += 2;
    fails(&self, D, 0, 3);
}

/* Both of two backends must be right. */
static void test_the_other_backend(void **state)
{
    (void)state;
    fixture self;
    make(&self);
    set_values(&self.judge.reference, self.other_elements, self.other_scales);
    assert_true(judge(&self).passed);
    self.other_elements[0] += 2;
    fails(&self, D, 0, 0);
    make(&self);
    set_values(&self.judge.reference, self.other_elements, self.other_scales);
    self.other_scales[5] *= 2;
    self.other_elements[11] = -63;
    run_comparison found = judge(&self);
    assert_false(found.passed);
}

/* What the elements mean is compared, not what is stored. */
static void test_a_tolerance(void **state)
{
    (void)state;
    fixture self;
    make(&self);
    set_values(&self.judge.reference, self.other_elements, self.other_scales);
    self.judge.exact = self.judge.bound = self.judge.scale_low = self.judge.scale_high = NULL;
    self.judge.tolerance = 0;
    for (int i = 0; i < 2; i++) {
        self.other_scales[i] *= 2;
        self.other_elements[2 * i] = (int8_t)(self.elements[2 * i] / 2);
        self.other_elements[2 * i + 1] = self.elements[2 * i + 1] = -100;
        self.other_elements[2 * i + 1] /= 2;
    }
    run_comparison found = judge(&self);
    assert_true(found.passed);
    assert_int_equal(found.unbounded, -1);
    self.other_elements[4] += 1;
    fails(&self, D, 1, 0);
    self.judge.tolerance = 0.01;
    assert_true(judge(&self).passed);
}

/* Plain results, without scales: a tensor of rank 1, and one after another. */
static void test_several_tensors(void **state)
{
    (void)state;
    float sums[] = {1, 2, 3};
    double exact[] = {1, 2, 3}, bound[] = {0.1, 0.1, 0.1};
    fixture self;
    make(&self);
    judged gradient = {.index = 9, .exact = exact, .bound = bound, .tolerance = -1};
    gradient.result.tensor = kiln_vector(KILN_F32, sums, 3);
    for (int wrong = 0; wrong < 2; wrong++) {
        run_comparison found = {.passed = false};
        sums[1] = wrong ? 2.5f : 2;
        judge_begin(&found, true);
        judge_tensor(&self.judge, &found);
        judge_tensor(&gradient, &found);
        judge_end(-1, &found);
        assert_int_equal(found.passed, !wrong);
        assert_int_equal(found.elements, ROWS * COLUMNS + 3);
        if (wrong) {
            assert_int_equal(found.worst_of, 9);
            assert_int_equal(found.worst[2], 1);
        }
    }
}

/* Elements of 4 bits, of which three make a row, begin on a byte. */
static void test_small_elements(void **state)
{
    (void)state;
    uint8_t stored[] = {0x42, 0x01, 0x24, 0x06}; /* 1 2 0.5, 2 1 4 */
    double exact[] = {1, 2, 0.5, 2, 1, 4}, bound[6] = {0};
    const int64_t shape[] = {2, 3};
    judged judge = {.exact = exact, .bound = bound, .tolerance = 0};
    judge.result.tensor = kiln_tensor_host(KILN_E2M1, stored, 2, shape);
    run_comparison found = {.passed = false};
    judge_begin(&found, true);
    judge_tensor(&judge, &found);
    judge_end(0, &found);
    assert_true(found.passed);
    assert_true(found.max_difference == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_right),     cmocka_unit_test(test_a_wrong_element),
        cmocka_unit_test(test_a_wrong_scale),     cmocka_unit_test(test_rows_that_do_not_count),
        cmocka_unit_test(test_the_other_backend), cmocka_unit_test(test_a_tolerance),
        cmocka_unit_test(test_several_tensors),   cmocka_unit_test(test_small_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
