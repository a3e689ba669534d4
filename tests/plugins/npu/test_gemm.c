/* SPDX-License-Identifier: Apache-2.0 */
/* Products on the NPU model against a loop in double. */
#include "tests/plugins/npu/npu_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t run(struct npu_machine *machine, const struct npu_test_product *product)
{
    struct npu_launch launch;
    struct npu_counters counters = {0};
    struct npu_fault fault;
    npu_test_launch(product, &launch);
    npu_machine_launch(machine, product->program, &launch, &counters, &fault);
    assert_string_equal(fault.text, "");
    assert_true(counters.cycles > 0);
    return counters.cycles;
}

static void compare_random(struct npu_machine *machine, uint64_t seed, int cases)
{
    struct npu_random random = {seed};
    double worst = 0;
    for (int i = 0; i < cases; i++) {
        struct npu_test_product product;
        npu_test_random_product(&random, i % 10 ? 70 : 300, &product);
        npu_test_prepare(machine, &random, &product);
        run(machine, &product);
        double ratio = npu_test_compare(machine, &product);
        if (!(ratio <= 1))
            print_message("case %d: %s, error / bound = %g\n", i, product.program->name, ratio);
        assert_true(ratio <= 1);
        worst = ratio > worst ? ratio : worst;
        npu_test_release(machine, &product);
    }
    print_message("# seed %llu: %d products, largest error / bound %.3f\n",
                  (unsigned long long)seed, cases, worst);
}

static void random_products_agree(void **state)
{
    (void)state;
    struct npu_machine machine;
    npu_test_machine(&machine, 1 << 24, NPU_SCHEDULE_PROGRAM_ORDER);
    compare_random(&machine, 20240607, 300);
    npu_machine_close(&machine);
}

static void small_memories_suffice(void **state)
{
    (void)state;
    struct npu_machine machine;
    npu_test_small_machine(&machine, 1 << 24);
    compare_random(&machine, 70604202, 100);
    npu_machine_close(&machine);
}

static void a_wrong_element_is_found(void **state)
{
    (void)state;
    struct npu_machine machine;
    struct npu_random random = {5};
    struct npu_test_product product;
    npu_test_machine(&machine, 1 << 24, NPU_SCHEDULE_PROGRAM_ORDER);
    memset(&product, 0, sizeof product);
    product.gemm = (struct npu_gemm){.type = NPU_F16,
                                     .c_type = NPU_F32,
                                     .d_type = NPU_F16,
                                     .product = true,
                                     .m = 33,
                                     .n = 47,
                                     .k = 65};
    product.m = 33;
    product.n = 47;
    product.k = 65;
    product.alpha = 1;
    npu_test_prepare(&machine, &random, &product);
    run(&machine, &product);
    assert_true(npu_test_compare(&machine, &product) <= 1);
    uint8_t *row = npu_global_at(&machine.global, product.d.address) + 32 * product.d.stride;
    npu_test_store(NPU_F16, row, 46, npu_test_load(NPU_F16, row, 46) + 0.02);
    assert_true(npu_test_compare(&machine, &product) > 1);
    npu_test_release(&machine, &product);
    npu_machine_close(&machine);
}

/* ---- What must not change a bit ---- */

static uint8_t *copy_of(const struct npu_machine *machine, const struct npu_test_matrix *matrix)
{
    uint8_t *copy = malloc((size_t)matrix->bytes);
    assert_non_null(copy);
    return memcpy(copy, npu_global_at(&machine->global, matrix->address), (size_t)matrix->bytes);
}

static void restore(const struct npu_machine *machine, const struct npu_test_matrix *matrix)
{
    memcpy(npu_global_at(&machine->global, matrix->address), matrix->host, (size_t)matrix->bytes);
}

/* One row of the product as a product of its own. */
static struct npu_test_product row_of(const struct npu_test_product *product, int64_t row)
{
    struct npu_test_product one = *product;
    int64_t size = npu_type_bytes(product->gemm.type);
    one.m = 1;
    one.a.address += row * (product->gemm.transpose_a ? size : product->a.stride);
    one.c.address += row * product->c.stride;
    one.d.address += row * product->d.stride;
    for (uint32_t i = 0; i < product->gemm.epilogues; i++) {
        const struct npu_epilogue *epilogue = &product->gemm.epilogue[i];
        if (epilogue->shape == NPU_OPERAND_MATRIX)
            one.operand[i].address += row * product->operand[i].stride;
        if (epilogue->shape == NPU_OPERAND_COLUMN)
            one.operand[i].address += row * npu_type_bytes(epilogue->type);
    }
    return one;
}

static void a_row_alone_has_the_same_bits(void **state)
{
    (void)state;
    struct npu_machine machine;
    struct npu_random random = {31};
    npu_test_machine(&machine, 1 << 24, NPU_SCHEDULE_PROGRAM_ORDER);
    for (int i = 0; i < 60; i++) {
        struct npu_test_product product;
        npu_test_random_product(&random, 150, &product);
        npu_test_prepare(&machine, &random, &product);
        run(&machine, &product);
        uint8_t *whole = copy_of(&machine, &product.d);
        restore(&machine, &product.d);
        for (int64_t row = 0; row < product.m; row += 1 + product.m / 4) {
            struct npu_test_product one = row_of(&product, row);
            run(&machine, &one);
            assert_memory_equal(npu_global_at(&machine.global, one.d.address),
                                whole + row * product.d.stride,
                                (size_t)(product.n * npu_type_bytes(product.d.type)));
        }
        free(whole);
        npu_test_release(&machine, &product);
    }
    npu_machine_close(&machine);
}

/* Packs a matrix, destroys it, unpacks it and wants it back; returns where the packed form is. */
static int64_t packed(struct npu_machine *machine, const struct npu_test_matrix *matrix)
{
    struct npu_pack pack = {matrix->type, matrix->rows, matrix->columns};
    struct npu_gemm_operand plain = {matrix->address, matrix->stride, 0}, blob = {0};
    struct npu_launch launch;
    struct npu_fault fault;
    char error[256] = "";
    npu_global_alloc(&machine->global, npu_pack_bytes(&pack), 0, &blob.address, error,
                     sizeof error);
    assert_string_equal(error, "");
    npu_pack_launch(&machine->config, &pack, &plain, &blob, 1, &launch);
    for (int unpack = 0; unpack < 2; unpack++) {
        struct npu_counters counters = {0};
        struct npu_program *program =
            npu_pack_program(&machine->config, pack.type, unpack, error, sizeof error);
        assert_non_null(program);
        npu_machine_launch(machine, program, &launch, &counters, &fault);
        assert_string_equal(fault.text, "");
        npu_program_free(program);
        for (int64_t row = 0; row < matrix->rows && !unpack; row++)
            memset(npu_global_at(&machine->global, matrix->address + row * matrix->stride), 0,
                   (size_t)(matrix->columns * npu_type_bytes(matrix->type)));
    }
    assert_memory_equal(npu_global_at(&machine->global, matrix->address), matrix->host,
                        (size_t)matrix->bytes); /* the gaps too */
    return blob.address;
}

/* Runs a variant of a product, whose program it builds, and wants the bytes that D had before. */
static void same_bits(struct npu_machine *machine, struct npu_test_product *variant)
{
    char error[256] = "";
    uint8_t *expected = copy_of(machine, &variant->d);
    restore(machine, &variant->d);
    variant->program =
        npu_gemm_program(&machine->config, &variant->gemm, &variant->blocks, error, sizeof error);
    assert_string_equal(error, "");
    run(machine, variant);
    assert_memory_equal(npu_global_at(&machine->global, variant->d.address), expected,
                        (size_t)variant->d.bytes);
    npu_program_free(variant->program);
    free(expected);
}

static void blocks_and_packing_change_no_bits(void **state)
{
    (void)state;
    struct npu_machine machine, small;
    struct npu_random random = {77};
    char error[256] = "";
    npu_test_machine(&machine, 1 << 24, NPU_SCHEDULE_PROGRAM_ORDER);
    npu_test_small_machine(&small, 1 << 16);
    for (int i = 0; i < 60; i++) {
        struct npu_test_product product;
        npu_test_random_product(&random, i % 6 ? 90 : 300, &product);
        npu_test_prepare(&machine, &random, &product);
        run(&machine, &product);

        struct npu_test_product variant = product;
        npu_gemm_choose_blocks(&small.config, &product.gemm, &variant.blocks, error, sizeof error);
        assert_string_equal(error, "");
        same_bits(&machine, &variant);

        variant = product;
        variant.gemm.m = product.m; /* packed operands are there as a whole */
        variant.gemm.k = product.k;
        variant.gemm.dynamic_k = false;
        same_bits(&machine, &variant);
        variant.gemm.packed_b = true;
        variant.b.address = packed(&machine, &product.b);
        same_bits(&machine, &variant);
        variant.gemm.packed_a = true;
        variant.a.address = packed(&machine, &product.a);
        same_bits(&machine, &variant);
        npu_gemm_choose_blocks(&small.config, &variant.gemm, &variant.blocks, error, sizeof error);
        same_bits(&machine, &variant);

        npu_global_free(&machine.global, variant.a.address);
        npu_global_free(&machine.global, variant.b.address);
        npu_test_release(&machine, &product);
    }
    npu_machine_close(&small);
    npu_machine_close(&machine);
}

static void cycles_depend_on_the_program_alone(void **state)
{
    (void)state;
    struct npu_machine machine;
    struct npu_random random = {12};
    npu_test_machine(&machine, 1 << 24, NPU_SCHEDULE_PROGRAM_ORDER);
    for (int i = 0; i < 30; i++) {
        struct npu_test_product product;
        npu_test_random_product(&random, 200, &product);
        npu_test_prepare(&machine, &random, &product);
        uint64_t cycles = run(&machine, &product);
        memset(npu_global_at(&machine.global, product.a.address), 0, (size_t)product.a.bytes);
        for (int s = 0; s < 3; s++) {
            machine.config.schedule = (enum npu_schedule)s;
            assert_int_equal(run(&machine, &product), cycles);
        }
        machine.config.schedule = NPU_SCHEDULE_PROGRAM_ORDER;
        npu_test_release(&machine, &product);
    }
    npu_machine_close(&machine);
}

/* ---- Special values ---- */

static float output(const struct npu_machine *machine, const struct npu_test_product *product,
                    int64_t row, int64_t column)
{
    return (float)npu_test_load(
        product->gemm.d_type,
        npu_global_at(&machine->global, product->d.address) + row * product->d.stride, column);
}

static void special_values_come_through(void **state)
{
    (void)state;
    static const enum npu_function functions[] = {NPU_RELU, NPU_CLIP, NPU_GELU_ERF, NPU_GELU_TANH,
                                                  NPU_SILU};
    static const double at_minus_infinity[] = {0, -0.75, -0.0, -0.0, -0.0};
    static const double at_infinity[] = {INFINITY, 1.5, INFINITY, INFINITY, INFINITY};
    struct npu_machine machine;
    struct npu_random random = {8};
    npu_test_machine(&machine, 1 << 20, NPU_SCHEDULE_PROGRAM_ORDER);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        struct npu_test_product product;
        memset(&product, 0, sizeof product);
        product.gemm = (struct npu_gemm){
            .type = NPU_BF16,
            .c_type = NPU_F32,
            .d_type = NPU_F32,
            .product = true,
            .m = 3,
            .n = 5,
            .k = 7,
            .epilogues = 1,
            .epilogue = {{functions[i], NPU_OPERAND_NONE, NPU_F32, {-0.75, 1.5}}}};
        product.m = 3;
        product.n = 5;
        product.k = 7;
        product.alpha = 1;
        npu_test_prepare(&machine, &random, &product);
        /* Row 0 of A: NaN; row 1: infinity times column 0's 1 and column 1's -1. */
        uint8_t *a = npu_global_at(&machine.global, product.a.address);
        uint8_t *b = npu_global_at(&machine.global, product.b.address);
        npu_test_store(NPU_BF16, a, 6, NAN);
        npu_test_store(NPU_BF16, a + product.a.stride, 6, INFINITY);
        npu_test_store(NPU_BF16, b + 6 * product.b.stride, 0, 1);
        npu_test_store(NPU_BF16, b + 6 * product.b.stride, 1, -1);
        npu_test_store(NPU_BF16, b + 6 * product.b.stride, 2, 0);
        run(&machine, &product);
        for (int64_t j = 0; j < 5; j++)
            assert_true(isnan(output(&machine, &product, 0, j)));
        assert_true(output(&machine, &product, 1, 0) == at_infinity[i]);
        assert_true(output(&machine, &product, 1, 1) == at_minus_infinity[i]);
        assert_true(!signbit(output(&machine, &product, 1, 1)) == !signbit(at_minus_infinity[i]));
        assert_true(isnan(output(&machine, &product, 1, 2)));
        for (int64_t j = 0; j < 5; j++)
            assert_true(isfinite(output(&machine, &product, 2, j)));
        npu_test_release(&machine, &product);
    }
    npu_machine_close(&machine);
}

/* 1e6 into f16: infinity, or the largest half; infinity stays what it is. */
static void saturation_is_an_option(void **state)
{
    (void)state;
    struct npu_machine machine;
    struct npu_random random = {9};
    npu_test_machine(&machine, 1 << 20, NPU_SCHEDULE_PROGRAM_ORDER);
    for (int saturate = 0; saturate < 2; saturate++) {
        struct npu_test_product product;
        memset(&product, 0, sizeof product);
        product.gemm = (struct npu_gemm){.type = NPU_F16,
                                         .c_type = NPU_F32,
                                         .d_type = NPU_F16,
                                         .read_c = true,
                                         .saturate = saturate,
                                         .m = 1,
                                         .n = 3,
                                         .k = 1};
        product.m = 1;
        product.n = 3;
        product.k = 1;
        product.beta = 1;
        npu_test_prepare(&machine, &random, &product);
        uint8_t *c = npu_global_at(&machine.global, product.c.address);
        npu_test_store(NPU_F32, c, 0, 1e6);
        npu_test_store(NPU_F32, c, 1, -1e6);
        npu_test_store(NPU_F32, c, 2, -INFINITY);
        run(&machine, &product);
        assert_true(output(&machine, &product, 0, 0) == (saturate ? 65504.0f : INFINITY));
        assert_true(output(&machine, &product, 0, 1) == (saturate ? -65504.0f : -INFINITY));
        assert_true(output(&machine, &product, 0, 2) == -INFINITY);
        npu_test_release(&machine, &product);
    }
    npu_machine_close(&machine);
}

static void equal_addresses_are_different_memory(void **state)
{
    (void)state;
    struct npu_machine machine[2];
    struct npu_test_product product[2];
    for (int i = 0; i < 2; i++) {
        struct npu_random same = {123};
        npu_test_machine(&machine[i], 1 << 22, NPU_SCHEDULE_PROGRAM_ORDER);
        npu_test_random_product(&same, 90, &product[i]);
        product[i].gemm.product = true;
        npu_test_prepare(&machine[i], &same, &product[i]);
    }
    struct npu_test_matrix *b = &product[1].b;
    for (int64_t row = 0; row < b->rows; row++)
        for (int64_t column = 0; column < b->columns; column++)
            npu_test_store(b->type, b->host + row * b->stride, column, (double)(row % 5 - 2));
    restore(&machine[1], b);
    assert_int_equal(product[0].a.address, product[1].a.address);
    assert_int_equal(product[0].b.address, product[1].b.address);
    assert_int_equal(product[0].d.address, product[1].d.address);
    for (int i = 0; i < 2; i++)
        run(&machine[i], &product[i]);
    for (int i = 0; i < 2; i++) {
        assert_true(npu_test_compare(&machine[i], &product[i]) <= 1);
        npu_test_release(&machine[i], &product[i]);
        npu_machine_close(&machine[i]);
    }
}

static void memories_that_are_too_small_are_named(void **state)
{
    (void)state;
    struct npu_config config;
    struct npu_gemm gemm = {.type = NPU_F16,
                            .c_type = NPU_F32,
                            .d_type = NPU_F32,
                            .product = true,
                            .m = 64,
                            .n = 64,
                            .k = 64};
    struct npu_gemm_blocks blocks;
    char error[256] = "";
    npu_config_defaults(&config);
    config.size[NPU_UB] = 1024;
    assert_int_equal(npu_gemm_choose_blocks(&config, &gemm, &blocks, error, sizeof error), -1);
    assert_non_null(strstr(error, "bytes of UB, which has 1024"));
    npu_config_defaults(&config);
    gemm.k = INT64_C(1) << 40;
    assert_int_equal(npu_gemm_choose_blocks(&config, &gemm, &blocks, error, sizeof error), -1);
    assert_non_null(strstr(error, "would take a program"));
    gemm.k = 64;
    blocks = (struct npu_gemm_blocks){128, 128, 100, 50};
    assert_null(npu_gemm_program(&config, &gemm, &blocks, error, sizeof error));
    assert_non_null(strstr(error, "must be a multiple of 16"));
    blocks = (struct npu_gemm_blocks){1024, 1024, 64, 64};
    assert_null(npu_gemm_program(&config, &gemm, &blocks, error, sizeof error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_products_agree),
        cmocka_unit_test(small_memories_suffice),
        cmocka_unit_test(a_wrong_element_is_found),
        cmocka_unit_test(a_row_alone_has_the_same_bits),
        cmocka_unit_test(blocks_and_packing_change_no_bits),
        cmocka_unit_test(cycles_depend_on_the_program_alone),
        cmocka_unit_test(special_values_come_through),
        cmocka_unit_test(saturation_is_an_option),
        cmocka_unit_test(equal_addresses_are_different_memory),
        cmocka_unit_test(memories_that_are_too_small_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
