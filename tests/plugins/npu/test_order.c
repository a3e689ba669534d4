/* SPDX-License-Identifier: Apache-2.0 */
/* Happens-before on the NPU model: generated programs contain no flag too many and none too few,
 * and what is missing is found whatever the order of execution. */
#include "tests/plugins/npu/npu_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/npu/assembler.h"

static const enum npu_schedule schedules[] = {NPU_SCHEDULE_PROGRAM_ORDER, NPU_SCHEDULE_REVERSED,
                                              NPU_SCHEDULE_ROUND_ROBIN};

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
        struct npu_program *pair = without(product->program, i, matching_set(product->program, i));
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

static void remove_waits(struct npu_machine *machine, uint64_t seed, uint32_t least)
{
    struct npu_random random = {seed};
    uint32_t waits = 0, products = 0;
    for (; waits < least; products++) {
        struct npu_test_product product;
        npu_test_random_product(&random, products % 4 ? 60 : 400, &product);
        if (products % 4 == 0) {
            /* Many slices and blocks of K, as little work as possible beside. */
            product.gemm.m = product.m = 20;
            product.gemm.n = product.n = 40;
        }
        product.k = product.gemm.k; /* nothing of the program is idle */
        npu_test_prepare(machine, &random, &product);
        waits += remove_each_wait(machine, &product);
        npu_test_release(machine, &product);
    }
    print_message("# seed %llu: %u wait_flags of %u programs taken out in turn, all reported\n",
                  (unsigned long long)seed, waits, products);
}

static void every_wait_is_needed(void **state)
{
    (void)state;
    struct npu_machine machine;
    npu_test_machine(&machine, 1 << 24, NPU_SCHEDULE_PROGRAM_ORDER);
    remove_waits(&machine, 4711, 1000);
    npu_machine_close(&machine);
}

static void every_wait_is_needed_in_long_programs(void **state)
{
    (void)state;
    struct npu_machine machine;
    npu_test_small_machine(&machine, 1 << 24);
    remove_waits(&machine, 1147, 1000);
    npu_machine_close(&machine);
}

/* ---- The insertion of flags ---- */

/* UB to UB on the vector unit: 8 floats. */
static void vector_copy(struct npu_assembler *code, int64_t to, int64_t from)
{
    struct npu_elementwise e = {.function = NPU_RELU,
                                .destination = {to, 0, NPU_F32},
                                .source = {{from, 0, NPU_F32}},
                                .scalar = {{NPU_NO_REGISTER, 0}, {NPU_NO_REGISTER, 0}},
                                .rows = npu_constant(1),
                                .columns = npu_constant(8)};
    npu_emit_elementwise(code, &e);
}

static void copy_in(struct npu_assembler *code, int64_t to, int64_t address)
{
    struct npu_copy copy = {.memory = NPU_UB,
                            .type = NPU_F32,
                            .local = to,
                            .global = npu_constant(address),
                            .rows = npu_constant(1),
                            .columns = npu_constant(8),
                            .stride = npu_constant(0)};
    npu_emit_copy_in(code, &copy);
}

static uint32_t count_opcode(const struct npu_assembler *code, enum npu_opcode opcode)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < code->count; i++)
        count += code->instruction[i].opcode == opcode;
    return count;
}

/* Runs what was assembled, then again without each wait_flag or barrier in turn. */
static void check_assembled(const struct npu_assembler *code)
{
    struct npu_machine machine;
    struct npu_launch launch = {.grid = {1, 1, 1}};
    struct npu_fault fault;
    char error[256] = "";
    int64_t address;
    npu_test_machine(&machine, 1 << 20, NPU_SCHEDULE_PROGRAM_ORDER);
    assert_int_equal(npu_global_alloc(&machine.global, 4096, 0, &address, error, sizeof error), 0);
    struct npu_program *program =
        npu_program_create("assembled", code->instruction, code->count, error, sizeof error);
    assert_non_null(program);
    assert_int_equal(launch_kind(&machine, program, &launch, &fault), NPU_FAULT_NONE);
    for (uint32_t i = 0; i < code->count; i++) {
        enum npu_opcode opcode = code->instruction[i].opcode;
        if (opcode != NPU_WAIT_FLAG && opcode != NPU_BARRIER)
            continue;
        struct npu_program *shorter = without(
            program, i, opcode == NPU_BARRIER ? NPU_NO_INSTRUCTION : matching_set(program, i));
        assert_int_equal(launch_kind(&machine, shorter, &launch, &fault), NPU_FAULT_RACE);
        npu_program_free(shorter);
    }
    npu_program_free(program);
    npu_machine_close(&machine);
}

/* More transfers are awaited, each by itself, than there are event ids: later ones must wait for
   their id, which is known to be free only once the vector unit has signalled back. */
static void ids_run_out(void **state)
{
    (void)state;
    struct npu_assembler code = {0};
    struct npu_config config;
    int64_t registers[NPU_REGISTERS] = {0};
    char error[256] = "";
    npu_config_defaults(&config);
    for (int64_t i = 0; i < 20; i++)
        copy_in(&code, i * 32, NPU_GM_BASE + i * 32);
    for (int64_t i = 0; i < 20; i++)
        vector_copy(&code, 2048 + i * 32, i * 32);
    assert_int_equal(npu_synchronize(&code, &config, registers, error, sizeof error), 0);
    assert_int_equal(count_opcode(&code, NPU_SET_FLAG), count_opcode(&code, NPU_WAIT_FLAG));
    assert_true(count_opcode(&code, NPU_BARRIER) > 0);
    check_assembled(&code);
    npu_assembler_free(&code);
}

/* The ninth transfer finds no free id, but behind the tenth, which waits for the vector unit, one
   is known to be free: the flag is set there. */
static void flags_are_set_later_when_ids_are_short(void **state)
{
    (void)state;
    struct npu_assembler code = {0};
    struct npu_config config;
    int64_t registers[NPU_REGISTERS] = {0};
    char error[256] = "";
    npu_config_defaults(&config);
    for (int64_t i = 0; i < 9; i++)
        copy_in(&code, i * 32, NPU_GM_BASE + i * 32);
    for (int64_t i = 0; i < 8; i++)
        vector_copy(&code, 2048 + i * 32, i * 32);
    copy_in(&code, 0, NPU_GM_BASE);
    vector_copy(&code, 4096, 8 * 32);
    assert_int_equal(npu_synchronize(&code, &config, registers, error, sizeof error), 0);
    assert_int_equal(count_opcode(&code, NPU_BARRIER), 0);
    assert_int_equal(count_opcode(&code, NPU_WAIT_FLAG), 10);
    check_assembled(&code);
    npu_assembler_free(&code);
}

/* With a way back, the ids go round and no barrier is needed. */
static void ids_are_used_again(void **state)
{
    (void)state;
    struct npu_assembler code = {0};
    struct npu_config config;
    int64_t registers[NPU_REGISTERS] = {0};
    char error[256] = "";
    npu_config_defaults(&config);
    for (int64_t i = 0; i < 40; i++) {
        copy_in(&code, i % 2 * 32, NPU_GM_BASE + i * 32);
        vector_copy(&code, 2048, i % 2 * 32);
    }
    assert_int_equal(npu_synchronize(&code, &config, registers, error, sizeof error), 0);
    assert_int_equal(count_opcode(&code, NPU_WAIT_FLAG), 40 + 38);
    assert_int_equal(count_opcode(&code, NPU_BARRIER), 0);
    check_assembled(&code);
    npu_assembler_free(&code);
}

static void what_cannot_be_ordered_is_refused(void **state)
{
    (void)state;
    struct npu_assembler code = {0};
    struct npu_config config;
    int64_t registers[NPU_REGISTERS] = {0};
    char error[256] = "";
    npu_config_defaults(&config);
    vector_copy(&code, 0, 32);
    assert_int_equal(npu_synchronize(&code, &config, registers, error, sizeof error), -1);
    assert_non_null(strstr(error, "nothing has written"));
    code.count = 0;
    copy_in(&code, config.size[NPU_UB], NPU_GM_BASE);
    assert_int_equal(npu_synchronize(&code, &config, registers, error, sizeof error), -1);
    assert_non_null(strstr(error, "beyond a local memory"));
    npu_assembler_free(&code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wait_is_needed),
        cmocka_unit_test(every_wait_is_needed_in_long_programs),
        cmocka_unit_test(ids_run_out),
        cmocka_unit_test(flags_are_set_later_when_ids_are_short),
        cmocka_unit_test(ids_are_used_again),
        cmocka_unit_test(what_cannot_be_ordered_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
