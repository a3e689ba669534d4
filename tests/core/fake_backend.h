/* SPDX-License-Identifier: Apache-2.0 */
/* Three backends on host memory, "alpha", "beta" and "gamma", linked into the test, that do as they
 * are told. They offer kiln.gemm/1 (f32 and f64, batches, transposes, no epilogues) and
 * acme.axpy/1, y = y + alpha x. */
#ifndef TESTS_CORE_FAKE_BACKEND_H
#define TESTS_CORE_FAKE_BACKEND_H

#include <stdatomic.h>

#include "kiln/gemm.h"
#include "kiln/plugin.h"

#define ACME_AXPY "acme.axpy/1"

typedef struct acme_axpy_desc {
    kiln_op_head head;
    int64_t count;
    uint32_t type; /* f32 */
    uint32_t reserved;
} acme_axpy_desc;

/* Tensors: x, y. */
typedef struct acme_axpy_args {
    kiln_args_head head;
    double alpha;
} acme_axpy_args;

enum { FAKE_BACKENDS = 3, FAKE_PARAMETERS = 8 };

typedef struct fake_backend {
    /* What it is told. Zeroed: it accepts everything. */
    bool refuses;             /* query says no, with `reason` */
    kiln_status query_status; /* or fails */
    kiln_status plan_status;
    kiln_status run_status;
    bool silent; /* failures come without a sentence */
    bool unreproducible;
    bool without_outputs; /* the table of acme.axpy/1 lacks `outputs` */
    int32_t support;      /* 0 = native */
    int64_t workspace_bytes, workspace_alignment;
    int64_t plan_us; /* how long planning takes */
    const char *reason;

    /* What happened. */
    _Atomic int64_t queries, plans, made, frees, runs, schedules; /* made: plans without failure */
    _Atomic int64_t wrong;                      /* calls that broke the contract */
    _Atomic int64_t part, parts;                /* of the last run */
    kiln_parameter parameters[FAKE_PARAMETERS]; /* of the last plan */
    int64_t parameter_count;
    uint64_t payload_size;
} fake_backend;

extern fake_backend fake_backends[FAKE_BACKENDS];

/* Makes the three known to runtimes that are opened later, and lets them accept everything. Their
 * one option, `limit`, is the number in the names of their kernels: "alpha-7". */
void fake_backends_reset(void);

/* A test around which the backends are reset, and checked: nobody called them against the contract,
 * and every plan was freed. */
#define FAKE_BACKEND_TEST(name) \
    cmocka_unit_test_setup_teardown(name, fake_backends_set_up, fake_backends_tear_down)
int fake_backends_set_up(void **state);
int fake_backends_tear_down(void **state);

/* The product, also batched, with scales and zero points, beta*C, masked groups, bias gradients of
 * rank 1 in f32, and quantised results whose scales are 2. All KILN_GEMM_SLOTS tensors, and what
 * scales them, are given with `data` as the address of their first element. CAPACITY when a count
 * was beyond M. */
kiln_status fake_gemm(const kiln_gemm_desc *desc, double alpha, double beta,
                      const kiln_tensor *tensors);

#endif
