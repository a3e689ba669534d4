/* SPDX-License-Identifier: Apache-2.0 */
/* What a GEMM writes beside plain rows: pairs of columns made one (swiglu), results quantised with
 * scales of their own, sums over rows (bias gradients); in batches and in groups. */
#include "tests/plugins/ref/problem.h"

static problem make(uint32_t type, uint32_t d_type, int64_t m, int64_t n, int64_t k,
                    uint32_t grouping, int64_t count)
{
    problem p = problem_of(type, type, d_type, m, n, k);
    p.desc.grouping = grouping;
    p.count = count;
    p.alpha = 0.3;
    return p;
}

static void quantise(problem *p, uint32_t scale_type, int32_t block)
{
    p->desc.d_quantization = (kiln_quantization){scale_type, 0, {1, block}};
    problem_add(p, KILN_EPILOGUE_QUANTIZE, KILN_OPERAND_NONE, KILN_TYPE_NONE);
}

static void check(problem *p, const char *what)
{
    char text[200];
    snprintf(text, sizeof text, "%s, grouping %u, %d x %d, D %s", what, p->desc.grouping, (int)p->m,
             (int)p->n, kiln_type_name(p->desc.d_type));
    problem_make(p);
    problem_check(p, text, KILN_OK);
    problem_free(p);
}

/* ---- Pairs of columns ---- */

static void test_swiglu(void **state)
{
    (void)state;
    static const int64_t widths[] = {2, 64, 66, 128, 130, 300};
    for (uint32_t grouping = 0; grouping <= 3; grouping++)
        for (int i = 0; i < 6; i++) {
            problem p = make(KILN_BF16, KILN_F32, 20, widths[i], 60, grouping, 3);
            problem_add(&p, KILN_EPILOGUE_BIAS, KILN_OPERAND_ROW, KILN_F32); /* of N */
            problem_add(&p, KILN_EPILOGUE_SWIGLU, KILN_OPERAND_NONE, KILN_TYPE_NONE);
            problem_add(&p, KILN_EPILOGUE_RESIDUAL, KILN_OPERAND_MATRIX, KILN_BF16); /* of N/2 */
            problem_add(&p, KILN_EPILOGUE_SCALE, KILN_OPERAND_ROW, KILN_F32);
            p.desc.c_type = KILN_BF16;
            p.beta = 0.5;
            check(&p, "swiglu");
        }
}

/* The maximum of a dynamic N may be odd. */
static void test_swiglu_of_dynamic_width(void **state)
{
    (void)state;
    problem p = make(KILN_F32, KILN_F32, 5, 70, 20, KILN_GROUPING_NONE, 1);
    p.desc.head.flags |= KILN_GEMM_DYNAMIC_N;
    p.desc.n = 128;
    problem_add(&p, KILN_EPILOGUE_SWIGLU, KILN_OPERAND_NONE, KILN_TYPE_NONE);
    problem_make(&p);
    kiln_runtime *runtime = problem_runtime("1", "auto");
    kiln_plan *plan = problem_plan(runtime, &p.desc);
    problem_run(plan, &p, KILN_OK);
    problem_check_values(&p, "dynamic N");
    kiln_plan_release(plan);
    problem_free(&p);
    kiln_runtime_close(runtime);
}

/* ---- Quantised results ---- */

static const uint32_t quantised_types[] = {KILN_E4M3, KILN_E5M2, KILN_E2M1, KILN_I8, KILN_U8};

static void test_quantise(void **state)
{
    (void)state;
    static const int32_t blocks[] = {1, 2, 16, 32, 48, 64, 100, 128, 129, 200, 256, 1000, -1};
    static const int64_t widths[] = {1, 3, 64, 129, 400, 513};
    for (int t = 0; t < 5; t++)
        for (int b = 0; b < 13; b++) {
            problem p = make(KILN_BF16, quantised_types[t], 21, widths[(t + b) % 6], 40,
                             KILN_GROUPING_NONE, 1 + b % 2);
            problem_add(&p, KILN_EPILOGUE_SILU, KILN_OPERAND_NONE, KILN_TYPE_NONE);
            quantise(&p, t % 2 != b % 2 ? KILN_F32 : KILN_UE8M0, blocks[b]);
            check(&p, "quantise");
        }
}

static void test_swiglu_and_quantise(void **state)
{
    (void)state;
    static const int32_t blocks[] = {16, 32, 33, 64, 128, 200, -1};
    for (uint32_t grouping = 0; grouping <= 3; grouping++)
        for (int b = 0; b < 7; b++) {
            problem p = make(KILN_F16, quantised_types[b % 5], 30, 602, 40, grouping, 3);
            problem_add(&p, KILN_EPILOGUE_SWIGLU, KILN_OPERAND_NONE, KILN_TYPE_NONE);
            quantise(&p, b % 2 ? KILN_F32 : KILN_UE8M0, blocks[b]);
            check(&p, "swiglu and quantise");
        }
}

/* The scale of a row whose values are known: a GEMM of one step. */
static void check_scale(uint32_t d_type, uint32_t scale_type, const float *values, int64_t count,
                        double scale, const double *quantised)
{
    kiln_runtime *runtime = problem_runtime("1", "auto");
    problem p = make(KILN_F32, d_type, 1, count, 1, KILN_GROUPING_NONE, 1);
    p.alpha = 1;
    quantise(&p, scale_type, -1);
    problem_make(&p);
    *(float *)p.tensors[KILN_GEMM_A].data = 1;
    memcpy(p.tensors[KILN_GEMM_B].data, values, (size_t)count * sizeof(float));
    kiln_plan *plan = problem_plan(runtime, &p.desc);
    problem_run(plan, &p, KILN_OK);
    double found = kiln_load_f64(scale_type, p.tensors[KILN_GEMM_D_SCALE].data, 0);
    if (found != scale)
        fail_msg("%s: the scale is %a, not %a", kiln_type_name(d_type), found, scale);
    for (int64_t j = 0; j < count; j++) {
        double v = kiln_load_f64(d_type, p.tensors[KILN_GEMM_D].data, j);
        if (v != quantised[j] && !(isnan(v) && isnan(quantised[j])))
            fail_msg("%s: element %d is %g, not %g", kiln_type_name(d_type), (int)j, v,
                     quantised[j]);
    }
    kiln_plan_release(plan);
    problem_free(&p);
    kiln_runtime_close(runtime);
}

static void test_rules_of_scales(void **state)
{
    (void)state;
    const float nan = (float)NAN, infinity = (float)INFINITY;
    check_scale(KILN_E4M3, KILN_F32, (float[]){896, -448, 3, 0}, 4, 2,
                (double[]){448, -224, 1.5, 0});
    check_scale(KILN_E4M3, KILN_UE8M0, (float[]){449, -448}, 2, 2, (double[]){224, -224});
    check_scale(KILN_E4M3, KILN_UE8M0, (float[]){448, -1}, 2, 1, (double[]){448, -1});
    check_scale(KILN_I8, KILN_F32, (float[]){-254, 127, 1, 3}, 4, 2, (double[]){-127, 64, 0, 2});
    check_scale(KILN_U8, KILN_F32, (float[]){510, -510}, 2, 2, (double[]){255, 0});
    check_scale(KILN_E2M1, KILN_F32, (float[]){-12, 5, 1}, 3, 2, (double[]){-6, 2, 0.5});
    check_scale(KILN_E5M2, KILN_F32, (float[]){57344, 1}, 2, 1, (double[]){57344, 1});
    /* Nothing to scale, and next to nothing. */
    check_scale(KILN_E4M3, KILN_F32, (float[]){0, -0.0f}, 2, 1, (double[]){0, 0});
    check_scale(KILN_I8, KILN_UE8M0, (float[]){0x1p-140f, 0}, 2, 0x1p-126, (double[]){0, 0});
    check_scale(KILN_I8, KILN_F32, (float[]){0x1p-126f, 0}, 2, 0x1p-126, (double[]){1, 0});
    /* NaN and Inf do not count. */
    check_scale(KILN_I8, KILN_F32, (float[]){nan, 254, infinity, -infinity}, 4, 2,
                (double[]){0, 127, 127, -128});
    check_scale(KILN_E4M3, KILN_F32, (float[]){nan, nan}, 2, 1, (double[]){NAN, NAN});
    check_scale(KILN_E5M2, KILN_F32, (float[]){nan, 57344 * 2}, 2, 2, (double[]){NAN, 57344});
}

/* Results of f64 may be beyond what any scale can hold. */
static void test_scale_of_enormous_values(void **state)
{
    (void)state;
    static const uint32_t scale_types[] = {KILN_F32, KILN_UE8M0};
    kiln_runtime *runtime = problem_runtime("1", "auto");
    for (int i = 0; i < 2; i++) {
        problem p = make(KILN_F64, KILN_I8, 1, 2, 1, KILN_GROUPING_NONE, 1);
        quantise(&p, scale_types[i], -1);
        problem_make(&p);
        *(double *)p.tensors[KILN_GEMM_A].data = 1;
        ((double *)p.tensors[KILN_GEMM_B].data)[0] = 1e300;
        ((double *)p.tensors[KILN_GEMM_B].data)[1] = -1e300;
        kiln_plan *plan = problem_plan(runtime, &p.desc);
        problem_run(plan, &p, KILN_OK);
        assert_true(isfinite(kiln_load_f64(scale_types[i], p.tensors[KILN_GEMM_D_SCALE].data, 0)));
        assert_int_equal(((int8_t *)p.tensors[KILN_GEMM_D].data)[0], 127);
        assert_int_equal(((int8_t *)p.tensors[KILN_GEMM_D].data)[1], -128);
        kiln_plan_release(plan);
        problem_free(&p);
    }
    kiln_runtime_close(runtime);
}

/* Scales that lie column by column. */
static void test_scales_by_columns(void **state)
{
    (void)state;
    kiln_runtime *runtime = problem_runtime("2", "auto");
    problem p = make(KILN_F32, KILN_E4M3, 40, 300, 30, KILN_GROUPING_NONE, 1);
    quantise(&p, KILN_F32, 32);
    problem_make(&p);
    kiln_plan *plan = problem_plan(runtime, &p.desc);
    problem_run(plan, &p, KILN_OK);
    kiln_tensor row_major = p.tensors[KILN_GEMM_D_SCALE];
    float *turned = test_malloc(40 * 10 * sizeof(float));
    p.tensors[KILN_GEMM_D_SCALE].data = turned;
    p.tensors[KILN_GEMM_D_SCALE].strides[0] = 1;
    p.tensors[KILN_GEMM_D_SCALE].strides[1] = 40;
    kiln_gemm_args args = problem_args(&p);
    assert_int_equal(kiln_plan_run(plan, NULL, &args.head), KILN_OK);
    for (int64_t i = 0; i < 40; i++)
        for (int64_t j = 0; j < 10; j++)
            assert_true(turned[j * 40 + i] ==
                        ((float *)row_major.data)[i * row_major.strides[0] + j]);
    test_free(turned);
    kiln_plan_release(plan);
    problem_free(&p);
    kiln_runtime_close(runtime);
}

/* ---- Sums over rows ---- */

static void test_gradients(void **state)
{
    (void)state;
    static const uint32_t types[] = {KILN_F64, KILN_F32, KILN_BF16};
    for (uint32_t grouping = 0; grouping <= 3; grouping++)
        for (int t = 0; t < 3; t++)
            for (int shared = 0; shared < 2; shared++) {
                uint32_t sum_type = types[t] == KILN_F64 ? KILN_F64 : KILN_F32;
                problem p = make(types[t], types[t], 140, 330, 50, grouping, 3);
                p.shared_vectors = shared;
                problem_add(&p, KILN_EPILOGUE_BIAS_GRADIENT, KILN_OPERAND_ROW, sum_type);
                problem_add(&p, KILN_EPILOGUE_RELU, KILN_OPERAND_NONE, KILN_TYPE_NONE);
                problem_add(&p, KILN_EPILOGUE_SWIGLU, KILN_OPERAND_NONE, KILN_TYPE_NONE);
                problem_add(&p, KILN_EPILOGUE_BIAS_GRADIENT, KILN_OPERAND_ROW, sum_type);
                check(&p, "bias gradient");
            }
}

static void test_gradient_and_quantise(void **state)
{
    (void)state;
    for (int32_t block = -1; block < 300; block += 101) {
        problem p = make(KILN_F32, KILN_I8, 33, 500, 20, KILN_GROUPING_MASKED, 3);
        problem_add(&p, KILN_EPILOGUE_BIAS_GRADIENT, KILN_OPERAND_ROW, KILN_F32);
        quantise(&p, KILN_F32, block);
        check(&p, "bias gradient and quantise");
    }
}

/* Sums of no rows are 0: M is 0, or no group has a row. */
static void test_gradients_of_nothing(void **state)
{
    (void)state;
    kiln_runtime *runtime = problem_runtime("2", "auto");
    for (uint32_t grouping = 0; grouping <= 3; grouping++)
        for (int64_t m = 0; m <= 10; m += 10)
            for (int shared = 0; shared < 2; shared++) {
                problem p = make(KILN_F32, KILN_F32, m, 200, 30, grouping, 3);
                if (m > 0 && grouping != KILN_GROUPING_CONTIGUOUS &&
                    grouping != KILN_GROUPING_MASKED)
                    continue;
                p.shared_vectors = shared;
                problem_add(&p, KILN_EPILOGUE_BIAS_GRADIENT, KILN_OPERAND_ROW, KILN_F32);
                problem_make(&p);
                for (int64_t i = 0; m > 0 && i < p.tensors[KILN_GEMM_GROUPS].shape[0]; i++)
                    ((int32_t *)p.tensors[KILN_GEMM_GROUPS].data)[i] =
                        grouping == KILN_GROUPING_CONTIGUOUS ? -1 : 0;
                kiln_plan *plan = problem_plan(runtime, &p.desc);
                const kiln_tensor *sums = &p.tensors[KILN_GEMM_OPERAND];
                kiln_gemm_args args = problem_args(&p);
                for (int parts = 0; parts < 3; parts += 2) {
                    if (parts == 0)
                        problem_run(plan, &p, KILN_OK);
                    else
                        memset(sums->data, 0xff, p.bytes[KILN_GEMM_OPERAND]);
                    for (int64_t part = 0; part < parts; part++)
                        assert_int_equal(kiln_plan_run_part(plan, part, parts, &args.head),
                                         KILN_OK);
                    for (int64_t entry = 0; entry < (shared ? 1 : 3); entry++)
                        for (int64_t j = 0; j < p.n; j++)
                            assert_true(
                                ((float *)sums
                                     ->data)[entry * sums->strides[0] * (sums->rank - 1) + j] == 0);
                }
                kiln_plan_release(plan);
                problem_free(&p);
            }
    kiln_runtime_close(runtime);
}

/* In an empty batch there is one sum of nothing, or no sum at all. */
static void test_gradients_of_an_empty_batch(void **state)
{
    (void)state;
    kiln_runtime *runtime = problem_runtime("1", "auto");
    for (int shared = 0; shared < 2; shared++) {
        problem p = make(KILN_F32, KILN_F32, 5, 70, 30, KILN_GROUPING_NONE, 3);
        p.shared_vectors = shared;
        p.desc.head.flags = KILN_GEMM_DYNAMIC_BATCH;
        problem_add(&p, KILN_EPILOGUE_BIAS_GRADIENT, KILN_OPERAND_ROW, KILN_F32);
        problem_make(&p);
        kiln_plan *plan = problem_plan(runtime, &p.desc);
        for (int slot = 0; slot < KILN_GEMM_SLOTS; slot++)
            if (p.tensors[slot].rank == 3 || (slot == KILN_GEMM_OPERAND && !shared))
                p.tensors[slot].shape[0] = 0;
        problem_run(plan, &p, KILN_OK);
        for (int64_t j = 0; j < p.n; j++)
            if (shared)
                assert_true(((float *)p.memory[KILN_GEMM_OPERAND])[j] == 0);
            else
                assert_int_equal(((uint32_t *)p.memory[KILN_GEMM_OPERAND])[j], 0xffffffff);
        kiln_plan_release(plan);
        problem_free(&p);
    }
    kiln_runtime_close(runtime);
}

/* The sum has one order: the same bits whatever D's width, so whatever the tiles. */
static void test_gradient_of_a_column(void **state)
{
    (void)state;
    kiln_runtime *runtime = problem_runtime("2", "auto");
    problem p = make(KILN_F32, KILN_F32, 300, 200, 30, KILN_GROUPING_NONE, 2);
    p.shared_vectors = true;
    p.desc.head.flags = KILN_GEMM_DYNAMIC_N;
    problem_add(&p, KILN_EPILOGUE_BIAS_GRADIENT, KILN_OPERAND_ROW, KILN_F32);
    problem_make(&p);
    kiln_plan *plan = problem_plan(runtime, &p.desc);
    problem_run(plan, &p, KILN_OK);
    outputs o = problem_outputs(&p);
    for (int64_t n = 1; n < 200; n += 33) {
        p.tensors[KILN_GEMM_B].shape[2] = p.tensors[KILN_GEMM_D].shape[2] =
            p.tensors[KILN_GEMM_OPERAND].shape[0] = n;
        problem_run(plan, &p, KILN_OK);
        assert_memory_equal(p.memory[KILN_GEMM_OPERAND], o.bytes[KILN_GEMM_OPERAND],
                            (size_t)n * sizeof(float));
    }
    outputs_free(&o);
    kiln_plan_release(plan);
    problem_free(&p);
    kiln_runtime_close(runtime);
}

/* ---- Vectors and matrices of each entry, or shared ---- */

static void test_operands_of_a_batch(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++)
        for (int64_t count = 1; count <= 4; count += 3) {
            problem p = make(KILN_F16, KILN_F16, 20, 70, 30, KILN_GROUPING_NONE, count);
            p.shared_vectors = shared;
            for (uint32_t operand = KILN_OPERAND_SCALAR; operand <= KILN_OPERAND_COLUMN;
                 operand++) {
                problem_add(&p, KILN_EPILOGUE_BIAS, operand, KILN_F32);
                problem_add(&p, KILN_EPILOGUE_SCALE, operand, KILN_BF16);
            }
            check(&p, "operands");
        }
}

/* The row stride of a matrix of one row says nothing. */
static void test_stride_of_a_single_row(void **state)
{
    (void)state;
    problem p = make(KILN_F32, KILN_F32, 1, 4, 1, KILN_GROUPING_NONE, 1);
    problem_make(&p);
    p.tensors[KILN_GEMM_A].strides[0] = p.tensors[KILN_GEMM_B].strides[0] = (int64_t)1 << 59;
    problem_check(&p, "a single row", KILN_OK);
    problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swiglu),
        cmocka_unit_test(test_swiglu_of_dynamic_width),
        cmocka_unit_test(test_quantise),
        cmocka_unit_test(test_swiglu_and_quantise),
        cmocka_unit_test(test_rules_of_scales),
        cmocka_unit_test(test_scale_of_enormous_values),
        cmocka_unit_test(test_scales_by_columns),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_gradient_and_quantise),
        cmocka_unit_test(test_gradients_of_nothing),
        cmocka_unit_test(test_gradients_of_an_empty_batch),
        cmocka_unit_test(test_gradient_of_a_column),
        cmocka_unit_test(test_operands_of_a_batch),
        cmocka_unit_test(test_stride_of_a_single_row),
    };
    return cmocka_run_group_tests_name("ref: outputs", tests, NULL, NULL);
}
