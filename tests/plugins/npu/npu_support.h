/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the NPU model share: random products, run on a machine and checked against a
 * loop in double. */
#ifndef NPU_SUPPORT_H
#define NPU_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugins/npu/gemm.h"

/* xorshift64*; the seed is printed by whoever chooses it. */
struct npu_random {
    uint64_t state;
};

uint64_t npu_random_next(struct npu_random *random);
/* Uniform in [low, high]. */
int64_t npu_random_in(struct npu_random *random, int64_t low, int64_t high);

/* Element `index` of a row, and storing one. */
double npu_test_load(enum npu_type type, const uint8_t *row, int64_t index);
void npu_test_store(enum npu_type type, uint8_t *row, int64_t index, double value);

/* One matrix of a product in GM, and the same bytes on the host. */
struct npu_test_matrix {
    enum npu_type type;
    int64_t rows, columns, stride, bytes; /* bytes: of the allocation */
    int64_t address;
    uint8_t *host;
};

/* A whole product: descriptor, operands and programs. */
struct npu_test_product {
    struct npu_gemm gemm;
    struct npu_gemm_blocks blocks;
    int64_t m, n, k;
    double alpha, beta;
    struct npu_test_matrix a, b, c, d, operand[NPU_EPILOGUES];
    struct npu_program *program;
};

/* Chooses types, extents up to `most`, strides, transposes and epilogues at random. */
void npu_test_random_product(struct npu_random *random, int64_t most,
                             struct npu_test_product *product);

/* Allocates and fills the operands, at odd addresses, and builds the program. */
void npu_test_prepare(struct npu_machine *machine, struct npu_random *random,
                      struct npu_test_product *product);
void npu_test_release(struct npu_machine *machine, struct npu_test_product *product);

/* The launch that computes the product. */
void npu_test_launch(const struct npu_test_product *product, struct npu_launch *launch);

/* Compares D in GM with the loop in double: the largest |error| / bound. Also that the bytes
   between the rows of D are as before. */
double npu_test_compare(const struct npu_machine *machine, const struct npu_test_product *product);

/* A machine with `memory` bytes of GM, else by default; asserts that it opens. */
void npu_test_machine(struct npu_machine *machine, int64_t memory, enum npu_schedule schedule);

/* The same with local memories so small that even small products take many blocks and slices. */
void npu_test_small_machine(struct npu_machine *machine, int64_t memory);

#endif
