/* SPDX-License-Identifier: Apache-2.0 */
/* Products on the NPU model against a loop in double. */
#include "npu_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void run(struct npu_machine *machine, const struct npu_test_product *product)
{
    struct npu_launch launch;
    struct npu_counters counters = {0};
    struct npu_fault fault;
    npu_test_launch(product, &launch);
    npu_machine_launch(machine, product->program, &launch, &counters, &fault);
    assert_string_equal(fault.text, "");
    assert_true(counters.cycles > 0);
}

static void random_products_agree(void **state)
{
    (void)state;
    struct npu_machine machine;
    struct npu_random random = {20240607};
    double worst = 0;
    npu_test_machine(&machine, 1 << 24, NPU_SCHEDULE_PROGRAM_ORDER);
    for (int i = 0; i < 300; i++) {
        struct npu_test_product product;
        npu_test_random_product(&random, i % 10 ? 70 : 300, &product);
        npu_test_prepare(&machine, &random, &product);
        run(&machine, &product);
        double ratio = npu_test_compare(&machine, &product);
        if (!(ratio <= 1))
            print_message("case %d: %s, ratio %g, product %d c %d types %d %d %d, %u epilogues %d %d %d\n", i, product.program->name, ratio, product.gemm.product, product.gemm.read_c, product.gemm.type, product.gemm.c_type, product.gemm.d_type, product.gemm.epilogues, product.gemm.epilogue[0].function, product.gemm.epilogue[1].function, product.gemm.epilogue[2].function);
        assert_true(ratio <= 1);
        worst = ratio > worst ? ratio : worst;
        npu_test_release(&machine, &product);
    }
    print_message("# seed 20240607, largest error / bound %.3f\n", worst);
    npu_machine_close(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_products_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
