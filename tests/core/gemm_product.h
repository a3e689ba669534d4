/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of GEMM's checks share: a product in memory with room around it, both ways of
 * checking it. */
#ifndef TESTS_CORE_GEMM_PRODUCT_H
#define TESTS_CORE_GEMM_PRODUCT_H

#include <stdio.h>
#include <stdlib.h>

#include "core/ops/gemm.h"
#include "tests/core/fixture.h"

static kiln_runtime *runtime;
static kiln_device *home;
static kiln_device elsewhere; /* a device whose memory the host cannot address */

static inline int open_all(void **state)
{
    (void)state;
    runtime = fixture_open(NULL);
    home = kiln_device_at(runtime, 0);
    elsewhere.runtime = runtime;
    snprintf(elsewhere.name, sizeof elsewhere.name, "elsewhere:0");
    return 0;
}

static inline int close_all(void **state)
{
    (void)state;
    kiln_runtime_close(runtime);
    return 0;
}

/* A product of 3×4 by 4×5 in f32, in memory with room around it. */
typedef struct product {
    kiln_gemm_desc desc;
    kiln_gemm_args args;
    kiln_tensor tensors[KILN_GEMM_SLOTS];
    kiln_device *home;
    kiln_tensor scales[4]; /* of A and B, and their zero points */
    _Alignas(64) float memory[4][256];
    _Alignas(64) float side[KILN_GEMM_SLOTS + 4][64]; /* of slots, and then of scales */
} product;

static inline void make_product(product *p)
{
    memset(p, 0, sizeof *p);
    p->home = home;
    p->desc = (kiln_gemm_desc){.head = {.struct_size = sizeof p->desc},
                               .m = 3,
                               .n = 5,
                               .k = 4,
                               .a_type = KILN_F32,
                               .b_type = KILN_F32,
                               .c_type = KILN_F32,
                               .d_type = KILN_F32};
    p->tensors[KILN_GEMM_A] = kiln_matrix(KILN_F32, p->memory[0], 3, 4, 4);
    p->tensors[KILN_GEMM_B] = kiln_matrix(KILN_F32, p->memory[1], 4, 5, 5);
    p->tensors[KILN_GEMM_C] = kiln_matrix(KILN_F32, p->memory[2], 3, 5, 5);
    p->tensors[KILN_GEMM_D] = kiln_matrix(KILN_F32, p->memory[3], 3, 5, 5);
    p->args = (kiln_gemm_args){{sizeof p->args, 4, p->tensors}, 1, 1};
}

/* Whether the descriptor and the arguments pass. With `closely` the short check is left out. */
static inline kiln_status check(product *p, bool closely, bool *empty)
{
    _Alignas(8) unsigned char prepared[KILN_OPERATOR_PREPARED] = {0};
    kiln_gemm_desc canonical = p->desc;
    const kiln_operator *gemm = kiln_operator_find(KILN_GEMM);
    kiln_status status = gemm->canonicalise(&canonical);
    if (status != KILN_OK)
        return status;
    if (!closely)
        gemm->prepare(&canonical, p->home, prepared);
    *empty = false;
    return gemm->check(&canonical, prepared, p->home, &p->args.head, empty);
}

static inline kiln_status check_both(product *p)
{
    bool empty, closely_empty;
    kiln_status status = check(p, false, &empty), closely = check(p, true, &closely_empty);
    assert_int_equal(status, closely);
    if (status == KILN_OK)
        assert_int_equal(empty, closely_empty);
    return status;
}

#define ACCEPTED(p)               assert_ok(check_both(p))
#define REFUSED(p, status, words) assert_fails(check_both(p), status, words)

/* Makes a product, changes one thing of it, and says how it must be refused. */
#define CASE_OF(make, change, status, words)                                    \
    do {                                                                        \
        make(&p);                                                               \
        kiln_tensor *a = &p.tensors[KILN_GEMM_A], *b = &p.tensors[KILN_GEMM_B], \
                    *c = &p.tensors[KILN_GEMM_C], *d = &p.tensors[KILN_GEMM_D]; \
        kiln_gemm_desc *desc = &p.desc;                                         \
        kiln_gemm_args *args = &p.args;                                         \
        (void)a, (void)b, (void)c, (void)d, (void)desc, (void)args;             \
        change;                                                                 \
        if ((status) == KILN_OK)                                                \
            ACCEPTED(&p);                                                       \
        else                                                                    \
            REFUSED(&p, status, words);                                         \
    } while (0)
#define CASE(change, status, words) CASE_OF(make_product, change, status, words)

/* A tensor in memory of its own for a slot behind D, which the run is then given. */
static inline kiln_tensor *give_slot(product *p, uint32_t slot, uint32_t type, uint32_t rank,
                                     const int64_t *shape)
{
    p->tensors[slot] = kiln_tensor_host(type, p->side[slot], rank, shape);
    if (p->args.head.tensor_count <= slot)
        p->args.head.tensor_count = slot + 1;
    return &p->tensors[slot];
}

static inline void set_batch(kiln_tensor *tensor, int64_t batch, int64_t stride)
{
    tensor->rank = 3;
    tensor->shape[2] = tensor->shape[1];
    tensor->strides[2] = tensor->strides[1];
    tensor->shape[1] = tensor->shape[0];
    tensor->strides[1] = tensor->strides[0];
    tensor->shape[0] = batch;
    tensor->strides[0] = stride;
}

static inline void make_batch(product *p)
{
    make_product(p);
    p->desc.batch = 2;
    for (int i = 0; i < 4; i++)
        set_batch(&p->tensors[i], 2, 100);
}

#endif
