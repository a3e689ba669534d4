/* SPDX-License-Identifier: Apache-2.0 */
/* Calls both operators of the plugin and checks the results; exits with 1 when anything is wrong.
 */
#include <kiln/gemm.h>
#include <stdio.h>

#include "acme.h"

enum { COUNT = 1000, M = 33, N = 17, K = 65 };

static float x[COUNT], y[COUNT], a[M][K], b[K][N], d[M][N];

static int failed(const char *what)
{
    fprintf(stderr, "use-acme: %s: %s\n", what, kiln_last_error());
    return 1;
}

static int use_axpy(kiln_runtime *runtime)
{
    acme_axpy_desc desc = {{sizeof desc, 0}, COUNT};
    kiln_tensor tensors[] = {kiln_vector(KILN_F32, x, COUNT), kiln_vector(KILN_F32, y, COUNT)};
    acme_axpy_args args = {{sizeof args, ACME_AXPY_SLOTS, tensors}, 2.0};
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)i;
        y[i] = 1;
    }
    if (kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head) != KILN_OK)
        return failed(ACME_AXPY);
    for (int i = 0; i < COUNT; i++)
        if (y[i] != 2 * (float)i + 1) {
            fprintf(stderr, "use-acme: y[%d] is %g\n", i, y[i]);
            return 1;
        }
    return 0;
}

static int use_gemm(kiln_runtime *runtime)
{
    kiln_tensor tensor_a = kiln_matrix(KILN_F32, a, M, K, K),
                tensor_b = kiln_matrix(KILN_F32, b, K, N, N),
                tensor_d = kiln_matrix(KILN_F32, d, M, N, N),
                tensors[4] = {tensor_a, tensor_b, {0}, tensor_d};
    kiln_gemm_args args = {{sizeof args, 4, tensors}, 1, 0};
    kiln_gemm_desc desc;
    kiln_plan *plan;
    kiln_plan_info info = {.struct_size = sizeof info};
    for (int i = 0; i < M * K; i++)
        a[i / K][i % K] = (float)(i % 7 - 3);
    for (int i = 0; i < K * N; i++)
        b[i / N][i % N] = (float)(i % 5 - 2);
    kiln_gemm_describe(&desc, 0, &tensor_a, &tensor_b, NULL, &tensor_d);
    if (kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan) != KILN_OK)
        return failed(KILN_GEMM);
    kiln_plan_get_info(plan, &info);
    printf("%s runs on %s (%s)\n", KILN_GEMM, info.backend, info.kernel);
    int wrong = strcmp(info.backend, "acme") != 0 || info.fallback;
    if (kiln_plan_run(plan, NULL, &args.head) != KILN_OK)
        wrong = failed(KILN_GEMM);
    for (int i = 0; !wrong && i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0; /* small integers: exact in any order */
            for (int p = 0; p < K; p++)
                sum += a[i][p] * b[p][j];
            wrong |= d[i][j] != sum;
        }
    kiln_plan_release(plan);
    if (wrong)
        fprintf(stderr, "use-acme: %s was not computed rightly by acme\n", KILN_GEMM);
    return wrong;
}

int main(void)
{
    kiln_runtime *runtime;
    if (kiln_runtime_open(NULL, &runtime) != KILN_OK)
        return failed("kiln_runtime_open");
    int wrong = use_axpy(runtime) | use_gemm(runtime);
    kiln_runtime_close(runtime);
    if (!wrong)
        printf("both operators of acme work\n");
    return wrong;
}
