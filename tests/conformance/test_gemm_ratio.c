/* SPDX-License-Identifier: Apache-2.0 */
/* What the judge of GEMM makes of one element. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "conformance/gemm.h"

static const double inf = (double)INFINITY, nan_value = (double)NAN;

static double element_ratio(uint32_t type, double exact, double scale, double measured)
{
    return conformance_gemm_quantized_ratio(type, exact, 1e-6 * fabs(exact), scale, measured);
}

static void test_quantized_elements(void **state)
{
    (void)state;
    assert_true(element_ratio(KILN_E4M3, -3, 3.0 / 448, -448) < 0.01);
    assert_true(element_ratio(KILN_E4M3, -3, 3.0 / 448, -416) > 1);
    assert_true(element_ratio(KILN_E4M3, -3, 3.0 / 448, 448) > 1);
    assert_true(element_ratio(KILN_E4M3, 1.0625, 1, 1) <= 1); /* half way */
    assert_true(element_ratio(KILN_E4M3, 1.0625, 1, 1.125) <= 1);
    assert_true(element_ratio(KILN_E4M3, 1.0624, 1, 1.125) > 1);
    assert_true(element_ratio(KILN_E4M3, 3.0000001, 3.0 / 448, 448) < 0.01); /* s was rounded */
    assert_true(element_ratio(KILN_I8, 3, 0.5, 6) == 0);
    assert_true(element_ratio(KILN_I8, 3, 0.5, 7) > 1);
    assert_true(element_ratio(KILN_I8, 3.2, 0.5, 7) > 1);
    assert_true(element_ratio(KILN_E2M1, 5, 1, 4) <= 1);
    assert_true(element_ratio(KILN_E2M1, 5, 1, 6) <= 1);
    assert_true(element_ratio(KILN_E2M1, 5.1, 1, 4) > 1);
    assert_true(element_ratio(KILN_U8, -3, 1, 0) == 0);
    assert_true(element_ratio(KILN_U8, -3, 1, 3) > 1);
    assert_true(element_ratio(KILN_E4M3, nan_value, 1, nan_value) == 0);
    assert_true(element_ratio(KILN_E4M3, nan_value, 1, 0) == inf);
    assert_true(element_ratio(KILN_E4M3, 1, 1, nan_value) == inf);
    assert_true(element_ratio(KILN_I8, nan_value, 1, 0) == 0);
    assert_true(element_ratio(KILN_E5M2, -inf, 1, -inf) == 0);
    assert_true(element_ratio(KILN_E4M3, inf, 1, 448) == 0); /* as KILN_SATURATE converts it */
}

static void test_ratio(void **state)
{
    (void)state;
    assert_true(conformance_gemm_ratio(KILN_F32, false, 1, 0.5, 1.25) == 0.5);
    assert_true(conformance_gemm_ratio(KILN_F32, false, 1, 0.5, 2) == 2);
    assert_true(conformance_gemm_ratio(KILN_F32, false, nan_value, 0, nan_value) == 0);
    assert_true(conformance_gemm_ratio(KILN_F32, false, nan_value, 0, 1) == inf);
    assert_true(conformance_gemm_ratio(KILN_F32, false, 1, 0.5, nan_value) == inf);
    assert_true(conformance_gemm_ratio(KILN_F32, false, inf, 0, inf) == 0);
    assert_true(conformance_gemm_ratio(KILN_F32, false, inf, 0, -inf) == inf);
    assert_true(conformance_gemm_ratio(KILN_F32, false, inf, 0, 3e38) == inf);
    /* 65536 would follow the largest f16. */
    assert_true(conformance_gemm_ratio(KILN_F16, false, 65500, 36, inf) == 0);
    assert_true(conformance_gemm_ratio(KILN_F16, false, 65500, 35, inf) == inf);
    assert_true(conformance_gemm_ratio(KILN_F16, false, 65500, 36, -inf) == inf);
    assert_true(conformance_gemm_ratio(KILN_F16, true, 65504, 36, inf) == inf);
    assert_true(conformance_gemm_ratio(KILN_F16, true, inf, 0, inf) == 0);
    /* 480 would follow the largest e4m3, which has NaN there. */
    assert_true(conformance_gemm_ratio(KILN_E4M3, false, 470, 16, nan_value) == 0);
    assert_true(conformance_gemm_ratio(KILN_E4M3, false, 450, 16, nan_value) == inf);
    assert_true(conformance_gemm_ratio(KILN_E4M3, true, 448, 40, nan_value) == inf);
    assert_true(conformance_gemm_ratio(KILN_F32, false, 1, inf, 7) == 0);
    assert_true(conformance_gemm_ratio(KILN_I32, false, 1.5, 0.5, 2) == 0);
    assert_true(conformance_gemm_ratio(KILN_I32, false, 2, 0.5, 3) == inf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantized_elements),
        cmocka_unit_test(test_ratio),
    };
    return cmocka_run_group_tests_name("gemm ratio", tests, NULL, NULL);
}
