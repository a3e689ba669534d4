/* SPDX-License-Identifier: Apache-2.0 */
/* Happens-before on the NPU model: generated programs contain no flag too many and none too few,
 * and what is missing is found whatever the order of execution. */
#include "npu_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum npu_schedule schedules[] = {
    NPU_SCHEDULE_PROGRAM_ORDER, NPU_SCHEDULE_REVERSED, NPU_SCHEDULE_ROUND_ROBIN};

/* The program without instruction `skip` and, unless it is NPU_NO_INSTRUCTION, without `also`. */
static struct npu_program *without(const struct npu_program *program, uint32_t skip, uint32_t also)
{
    char error[256] = "";
    uint32_t count = 0;
    struct npu_instruction *kept = malloc(program->count * sizeof *kept);
    assert_non_null(kept);
    for (uint32_t i = 0; i < program->count; i++)
        if (i != skip && i != also)
            kept[count++] = program->instruction[i];
    struct npu_program *shorter =
        npu_program_create(program->name, kept, count, error, sizeof error);
    assert_non_null(shorter);
    free(kept);
    return shorter;
}

/* The set_flag that a wait_flag waits for: of equal flags, the one of equal rank. */
static uint32_t matching_set(const struct npu_program *program, uint32_t wait)
{
    const struct npu_flag *flag = &program->instruction[wait].as.flag;
    uint32_t rank = 0;
    for (uint32_t i = 0; i < wait; i++)
        rank += program->instruction[i].opcode == NPU_WAIT_FLAG &&
                memcmp(&program->instruction[i].as.flag, flag, sizeof *flag) == 0;
    for (uint32_t i = 0; i < program->count; i++)
        if (program->instruction[i].opcode == NPU_SET_FLAG &&
            memcmp(&program->instruction[i].as.flag, flag, sizeof *flag) == 0 && rank-- == 0)
            return i;
    fail_msg("wait_flag without set_flag");
    return NPU_NO_INSTRUCTION;
}

static enum npu_fault_kind launch_kind(struct npu_machine *machine,
                                       const struct npu_program *program,
                                       const struct npu_launch *launch, struct npu_fault *fault)
{
    struct npu_counters counters = {0};
    npu_machine_launch(machine, program, launch, &counters, fault);
    return fault->kind;
}

/* Takes out every wait_flag in turn, alone and with its set_flag, under every schedule. Returns how
   many there were. */
static uint32_t remove_each_wait(struct npu_machine *machine,
                                 const struct npu_test_product *product)
{
    struct npu_launch launch;
    struct npu_fault fault;
    uint32_t waits = 0;
    npu_test_launch(product, &launch);
    for (size_t s = 0; s < sizeof schedules / sizeof *schedules; s++) {
        machine->config.schedule = schedules[s];
        assert_int_equal(launch_kind(machine, product->program, &launch, &fault), NPU_FAULT_NONE);
    }
    for (uint32_t i = 0; i < product->program->count; i++) {
        if (product->program->instruction[i].opcode != NPU_WAIT_FLAG)
            continue;
        struct npu_program *alone = without(product->program, i, NPU_NO_INSTRUCTION);
        struct npu_program *pair =
            without(product->program, i, matching_set(product->program, i));
        for (size_t s = 0; s < sizeof schedules / sizeof *schedules; s++) {
            machine->config.schedule = schedules[s];
            enum npu_fault_kind first = launch_kind(machine, alone, &launch, &fault);
            enum npu_fault_kind second = launch_kind(machine, pair, &launch, &fault);
            /* In the order of the program it is always the race that shows first. */
            if (s == 0) {
                assert_int_equal(first, NPU_FAULT_RACE);
                assert_int_equal(second, NPU_FAULT_RACE);
                assert_non_null(strstr(fault.text, "a wait_flag is missing between them"));
            }
            assert_int_not_equal(first, NPU_FAULT_NONE);
            assert_int_not_equal(second, NPU_FAULT_NONE);
        }
        npu_program_free(alone);
        npu_program_free(pair);
        waits++;
    }
    return waits;
}

static void every_wait_is_needed(void **state)
{
    (void)state;
    struct npu_machine machine;
    struct npu_random random = {4711};
    uint32_t waits = 0, products = 0;
    npu_test_machine(&machine, 1 << 24, NPU_SCHEDULE_PROGRAM_ORDER);
    for (; waits < 1000; products++) {
        struct npu_test_product product;
        npu_test_random_product(&random, products % 4 ? 60 : 700, &product);
        if (products % 4 == 0) {
            /* Many slices and blocks of K, as little work as possible beside. */
            product.gemm.m = product.m = 20;
            product.gemm.n = product.n = 40;
        }
        npu_test_prepare(&machine, &random, &product);
        waits += remove_each_wait(&machine, &product);
        npu_test_release(&machine, &product);
    }
    print_message("# seed 4711: %u wait_flags of %u programs taken out in turn, all reported\n",
                  waits, products);
    npu_machine_close(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wait_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
