/* SPDX-License-Identifier: Apache-2.0 */
/* The NPU model's parts: numbers, memory, instructions, faults, flags, cycles. */
#include "tests/plugins/npu/npu_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/npu/assembler.h"

static char error[512];

/* ---- Numbers ---- */

/* The nearest value among the codes of a 16-bit type; of two equally near the even code. */
static void conversions_round_to_nearest_even(void **state)
{
    (void)state;
    struct npu_random random = {99};
    for (uint32_t code = 0; code < 0x8000; code++) {
        uint8_t bytes[2] = {(uint8_t)code, (uint8_t)(code >> 8)};
        double f16 = npu_test_load(NPU_F16, bytes, 0), bf16 = npu_test_load(NPU_BF16, bytes, 0);
        if (!isnan(f16)) {
            assert_true(npu_f16_to_f32((uint16_t)code) == f16);
            assert_int_equal(npu_f32_to_f16((float)f16), code);
            assert_int_equal(npu_f32_to_f16((float)-f16), code | 0x8000);
        } else {
            assert_true(isnan(npu_f16_to_f32((uint16_t)code)));
        }
        if (!isnan(bf16))
            assert_int_equal(npu_f32_to_bf16((float)bf16), code);
        /* Half way to the next code, and one float to either side. */
        if (code < 0x7bff) {
            bytes[0] = (uint8_t)(code + 1);
            bytes[1] = (uint8_t)((code + 1) >> 8);
            float middle = (float)((f16 + npu_test_load(NPU_F16, bytes, 0)) / 2);
            assert_int_equal(npu_f32_to_f16(middle), code + (code & 1));
            assert_int_equal(npu_f32_to_f16(nextafterf(middle, 0)), code);
            assert_int_equal(npu_f32_to_f16(nextafterf(middle, INFINITY)), code + 1);
        }
    }
    assert_int_equal(npu_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(npu_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(npu_f32_to_bf16(3.4e38f), 0x7f80);
    assert_int_equal(npu_f32_to_bf16(0x1.01p0f), 0x3f80); /* a tie, to even */
    assert_int_equal(npu_f32_to_bf16(0x1.03p0f), 0x3f82);
    assert_true((npu_f32_to_f16(NAN) & 0x7fff) > 0x7c00);
    assert_true((npu_f32_to_bf16(NAN) & 0x7fff) > 0x7f80);
    (void)random;
}

/* ---- Global memory ---- */

static void allocation_is_first_fit(void **state)
{
    (void)state;
    struct npu_config config;
    struct npu_global global;
    int64_t a, b, c, d;
    npu_config_defaults(&config);
    config.size[NPU_GM] = 1 << 16;
    assert_int_equal(npu_global_open(&global, &config), 0);
    assert_int_equal(npu_global_alloc(&global, 1000, 0, &a, error, sizeof error), 0);
    assert_int_equal(npu_global_alloc(&global, 0, 0, &b, error, sizeof error), 0);
    assert_int_equal(npu_global_alloc(&global, 10, 4096, &c, error, sizeof error), 0);
    assert_int_equal(a, NPU_GM_BASE);
    assert_int_equal(b, NPU_GM_BASE + 1024);
    assert_int_equal(c, NPU_GM_BASE + 4096);
    assert_true(npu_global_holds(&global, a, a + 1000));
    assert_false(npu_global_holds(&global, a, a + 1001));
    assert_false(npu_global_holds(&global, a - 1, a + 1));
    npu_global_free(&global, a);
    assert_false(npu_global_holds(&global, a, a + 1));
    assert_int_equal(npu_global_alloc(&global, 1025, 0, &d, error, sizeof error), 0);
    assert_int_equal(d, NPU_GM_BASE + 1536);
    assert_int_equal(npu_global_alloc(&global, 1024, 0, &a, error, sizeof error), 0);
    assert_int_equal(a, NPU_GM_BASE);
    assert_int_equal(npu_global_alloc(&global, 62000, 0, &d, error, sizeof error), -1);
    assert_non_null(strstr(error, "62000 bytes asked for, 60928 free in one piece of 65536"));
    assert_int_equal(npu_global_alloc(&global, INT64_MAX, 0, &d, error, sizeof error), -1);
    assert_int_equal(npu_global_alloc(&global, -1, 0, &d, error, sizeof error), -1);
    assert_int_equal(npu_global_alloc(&global, 1, 24, &d, error, sizeof error), -1);
    npu_global_close(&global);
}

static void configurations_are_checked(void **state)
{
    (void)state;
    struct npu_config config;
    npu_config_defaults(&config);
    assert_int_equal(npu_config_check(&config, error, sizeof error), 0);
    config.size[NPU_UB] = 100;
    assert_int_equal(npu_config_check(&config, error, sizeof error), -1);
    assert_non_null(strstr(error, "size of UB is 100"));
    npu_config_defaults(&config);
    config.alignment[NPU_L1] = 48;
    assert_int_equal(npu_config_check(&config, error, sizeof error), -1);
    assert_non_null(strstr(error, "alignment of L1 is 48"));
    npu_config_defaults(&config);
    config.cores = 0;
    assert_int_equal(npu_config_check(&config, error, sizeof error), -1);
    npu_config_defaults(&config);
    config.vector_bytes = 0;
    assert_int_equal(npu_config_check(&config, error, sizeof error), -1);
}

/* ---- Hand-written programs ---- */

/* A machine with 4 KiB of GM allocated at `buffer`, and instructions to run on it. */
struct fixture {
    struct npu_machine machine;
    struct npu_assembler code;
    int64_t buffer;
    struct npu_launch launch;
    struct npu_counters counters;
    struct npu_fault fault;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    npu_test_machine(&f->machine, 1 << 20, NPU_SCHEDULE_PROGRAM_ORDER);
    assert_int_equal(npu_global_alloc(&f->machine.global, 4096, 0, &f->buffer, error, sizeof error),
                     0);
    f->launch = (struct npu_launch){.grid = {1, 1, 1}};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    npu_assembler_free(&f->code);
    npu_machine_close(&f->machine);
    free(f);
    return 0;
}

static enum npu_fault_kind run(struct fixture *f)
{
    struct npu_program *program =
        npu_program_create("test", f->code.instruction, f->code.count, error, sizeof error);
    assert_non_null(program);
    memset(&f->counters, 0, sizeof f->counters);
    npu_machine_launch(&f->machine, program, &f->launch, &f->counters, &f->fault);
    npu_program_free(program);
    return f->fault.kind;
}

static void flag(struct fixture *f, enum npu_opcode opcode, enum npu_pipe source,
                 enum npu_pipe destination, uint32_t id)
{
    npu_emit(&f->code,
             &(struct npu_instruction){.opcode = opcode, .as.flag = {source, destination, id}});
}

/* `count` bytes between GM at `offset` into the buffer and UB at `local`. */
static void copy(struct fixture *f, bool in, int64_t local, int64_t offset, int64_t count)
{
    struct npu_copy copy = {.memory = NPU_UB,
                            .type = NPU_I8,
                            .local = local,
                            .global = npu_constant(f->buffer + offset),
                            .rows = npu_constant(1),
                            .columns = npu_constant(count),
                            .stride = npu_constant(0)};
    if (in)
        npu_emit_copy_in(&f->code, &copy);
    else
        npu_emit_copy_out(&f->code, &copy);
}

/* UB[to] = UB[from] * 2, `count` floats. */
static void twice(struct fixture *f, int64_t to, int64_t from, int64_t count)
{
    struct npu_elementwise e = {.function = NPU_SCALE,
                                .destination = {to, 0, NPU_F32},
                                .source = {{from, 0, NPU_F32}},
                                .scalar = {{NPU_NO_REGISTER, 2}, {NPU_NO_REGISTER, 0}},
                                .rows = npu_constant(1),
                                .columns = npu_constant(count)};
    npu_emit_elementwise(&f->code, &e);
}

static void flags_order_pipes(void **state)
{
    struct fixture *f = *state;
    float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    memcpy(npu_global_at(&f->machine.global, f->buffer), values, sizeof values);
    copy(f, true, 0, 0, 32);
    flag(f, NPU_SET_FLAG, NPU_MTE2, NPU_VECTOR, 0);
    flag(f, NPU_WAIT_FLAG, NPU_MTE2, NPU_VECTOR, 0);
    twice(f, 32, 0, 8);
    flag(f, NPU_SET_FLAG, NPU_VECTOR, NPU_MTE3, 0);
    flag(f, NPU_WAIT_FLAG, NPU_VECTOR, NPU_MTE3, 0);
    copy(f, false, 32, 1001, 32);
    assert_int_equal(run(f), NPU_FAULT_NONE);
    memcpy(values, npu_global_at(&f->machine.global, f->buffer + 1001), sizeof values);
    for (int i = 0; i < 8; i++)
        assert_true(values[i] == 2.0f * (float)(i + 1));
    /* copy: latency + 32 bytes; flags; one vector step; copy. */
    const struct npu_config *c = &f->machine.config;
    uint64_t transfer = c->transfer[NPU_MTE2].latency + 1;
    assert_int_equal(f->counters.cycles,
                     c->block_cycles + 2 * transfer + 4 * c->flag_cycles + c->vector_startup + 1);
    assert_int_equal(f->counters.moved[NPU_MTE2], 32);
    assert_int_equal(f->counters.moved[NPU_MTE3], 32);
    assert_int_equal(f->counters.instructions[NPU_VECTOR], 3);
}

static void barriers_order_pipes(void **state)
{
    struct fixture *f = *state;
    const struct npu_instruction barrier = {.opcode = NPU_BARRIER};
    copy(f, true, 0, 0, 32);
    npu_emit(&f->code, &barrier);
    twice(f, 0, 0, 8);
    npu_emit(&f->code, &barrier);
    copy(f, false, 0, 0, 32);
    assert_int_equal(run(f), NPU_FAULT_NONE);
}

static void races_are_faults(void **state)
{
    struct fixture *f = *state;
    static const enum npu_schedule schedules[] = {NPU_SCHEDULE_PROGRAM_ORDER, NPU_SCHEDULE_REVERSED,
                                                  NPU_SCHEDULE_ROUND_ROBIN};
    for (int s = 0; s < 3; s++) {
        f->machine.config.schedule = schedules[s];
        f->code.count = 0; /* read after write */
        copy(f, true, 0, 0, 32);
        twice(f, 64, 0, 8);
        assert_int_equal(run(f), NPU_FAULT_RACE);
        assert_int_equal(f->fault.memory, NPU_UB);
        assert_non_null(strstr(f->fault.text, "a wait_flag is missing between them"));
        assert_non_null(strstr(f->fault.text, "instruction 0 (MTE2: copy_in.i8"));
        assert_non_null(strstr(f->fault.text, "instruction 1 (V: scale"));
        f->code.count = 0; /* write after read, in the last granule */
        copy(f, true, 0, 0, 64);
        flag(f, NPU_SET_FLAG, NPU_MTE2, NPU_VECTOR, 3);
        flag(f, NPU_WAIT_FLAG, NPU_MTE2, NPU_VECTOR, 3);
        twice(f, 64, 0, 16);
        copy(f, true, 32, 0, 8);
        assert_int_equal(run(f), NPU_FAULT_RACE);
        assert_int_equal(f->fault.address, 32);
        f->code.count = 0; /* write after write */
        copy(f, true, 0, 0, 32);
        npu_emit_elementwise(&f->code, &(struct npu_elementwise){
                                           .function = NPU_FILL,
                                           .destination = {0, 0, NPU_F32},
                                           .scalar = {{NPU_NO_REGISTER, 0}, {NPU_NO_REGISTER, 0}},
                                           .rows = npu_constant(1),
                                           .columns = npu_constant(1)});
        assert_int_equal(run(f), NPU_FAULT_RACE);
        f->code.count = 0; /* in GM: stored and read again */
        copy(f, true, 0, 0, 32);
        flag(f, NPU_SET_FLAG, NPU_MTE2, NPU_MTE3, 0);
        flag(f, NPU_WAIT_FLAG, NPU_MTE2, NPU_MTE3, 0);
        copy(f, false, 0, 512, 32);
        copy(f, true, 64, 540, 10);
        assert_int_equal(run(f), NPU_FAULT_RACE);
        assert_int_equal(f->fault.memory, NPU_GM);
        assert_int_equal(f->fault.address, f->buffer + 540);
    }
}

static void unwritten_memory_is_not_read(void **state)
{
    struct fixture *f = *state;
    twice(f, 64, 0, 8);
    assert_int_equal(run(f), NPU_FAULT_UNWRITTEN);
    f->code.count = 0; /* the vector unit wrote 5 floats, 6 are read */
    copy(f, true, 0, 0, 32);
    flag(f, NPU_SET_FLAG, NPU_MTE2, NPU_VECTOR, 0);
    flag(f, NPU_WAIT_FLAG, NPU_MTE2, NPU_VECTOR, 0);
    twice(f, 64, 0, 5);
    twice(f, 96, 64, 6);
    assert_int_equal(run(f), NPU_FAULT_UNWRITTEN);
    assert_int_equal(f->fault.instruction, 4);
    assert_int_equal(f->fault.address, 64);
}

static void bounds_and_alignment_are_checked(void **state)
{
    struct fixture *f = *state;
    int64_t end = f->machine.config.size[NPU_UB];
    copy(f, true, end - 32, 0, 33);
    assert_int_equal(run(f), NPU_FAULT_BOUNDS);
    assert_non_null(strstr(f->fault.text, "beyond its size"));
    f->code.count = 0;
    copy(f, true, 0, 4090, 7);
    assert_int_equal(run(f), NPU_FAULT_BOUNDS);
    assert_non_null(strstr(f->fault.text, "does not lie within one allocation"));
    f->code.count = 0;
    copy(f, true, 0, -1, 7);
    assert_int_equal(run(f), NPU_FAULT_BOUNDS);
    f->code.count = 0;
    copy(f, true, 16, 0, 7);
    assert_int_equal(run(f), NPU_FAULT_ALIGNMENT);
    f->code.count = 0;
    copy(f, true, 0, 0, 1 << 25);
    assert_int_equal(run(f), NPU_FAULT_OPERAND);
    f->code.count = 0;
    copy(f, true, 0, 0, 8);
    f->code.instruction[0].as.copy.rows = npu_constant(2);
    f->code.instruction[0].as.copy.stride = npu_constant(-8);
    f->code.instruction[0].as.copy.pitch = 32;
    assert_int_equal(run(f), NPU_FAULT_OPERAND);
    f->code.instruction[0].as.copy.stride = npu_constant(INT64_MAX);
    assert_int_equal(run(f), NPU_FAULT_OPERAND);
    f->code.instruction[0].as.copy.stride = npu_constant(8);
    f->code.instruction[0].as.copy.pitch = 16;
    assert_int_equal(run(f), NPU_FAULT_OPERAND);
    f->code.instruction[0].as.copy.pitch = 48;
    assert_int_equal(run(f), NPU_FAULT_OPERAND);
    f->code.instruction[0].as.copy.pitch = 64;
    assert_int_equal(run(f), NPU_FAULT_NONE);
    f->code.instruction[0].as.copy.local = INT64_MIN;
    assert_int_equal(run(f), NPU_FAULT_OPERAND);
}

static void flags_must_match(void **state)
{
    struct fixture *f = *state;
    flag(f, NPU_WAIT_FLAG, NPU_MTE2, NPU_VECTOR, 0);
    assert_int_equal(run(f), NPU_FAULT_DEADLOCK);
    f->code.count = 0; /* each waits for the other */
    flag(f, NPU_WAIT_FLAG, NPU_VECTOR, NPU_MTE2, 0);
    flag(f, NPU_SET_FLAG, NPU_MTE2, NPU_VECTOR, 0);
    flag(f, NPU_WAIT_FLAG, NPU_MTE2, NPU_VECTOR, 0);
    flag(f, NPU_SET_FLAG, NPU_VECTOR, NPU_MTE2, 0);
    assert_int_equal(run(f), NPU_FAULT_DEADLOCK);
    assert_int_equal(f->fault.instruction, 0);
    f->code.count = 0; /* a barrier that one pipe never reaches */
    npu_emit(&f->code, &(struct npu_instruction){.opcode = NPU_BARRIER});
    flag(f, NPU_SET_FLAG, NPU_MTE2, NPU_VECTOR, 0);
    f->code.instruction[f->code.count++] = f->code.instruction[1];
    f->code.instruction[1] = f->code.instruction[0];
    f->code.instruction[0] =
        (struct npu_instruction){.opcode = NPU_WAIT_FLAG, .as.flag = {NPU_MTE2, NPU_VECTOR, 0}};
    assert_int_equal(run(f), NPU_FAULT_DEADLOCK);
    f->code.count = 0;
    flag(f, NPU_SET_FLAG, NPU_MTE2, NPU_VECTOR, 0);
    assert_int_equal(run(f), NPU_FAULT_LEFT_SET);
    flag(f, NPU_SET_FLAG, NPU_MTE2, NPU_VECTOR, 0);
    assert_int_equal(run(f), NPU_FAULT_SET_TWICE);
    /* The second setting may come before the first wait: a fault even if by luck it does not. */
    flag(f, NPU_WAIT_FLAG, NPU_MTE2, NPU_VECTOR, 0);
    flag(f, NPU_WAIT_FLAG, NPU_MTE2, NPU_VECTOR, 0);
    for (int s = 0; s < 3; s++) {
        f->machine.config.schedule = (enum npu_schedule)s;
        assert_int_equal(run(f), NPU_FAULT_SET_TWICE);
    }
    f->machine.config.schedule = NPU_SCHEDULE_PROGRAM_ORDER;
    struct npu_instruction second = f->code.instruction[1];
    f->code.instruction[1] = f->code.instruction[2];
    f->code.instruction[2] = second;
    assert_int_equal(run(f), NPU_FAULT_SET_TWICE);
    assert_non_null(strstr(f->fault.text, "may set the flag before instruction 1"));
}

static void blocks_must_not_overlap(void **state)
{
    struct fixture *f = *state;
    copy(f, true, 0, 0, 40);
    npu_emit(&f->code, &(struct npu_instruction){.opcode = NPU_BARRIER});
    copy(f, false, 0, 0, 40);
    f->code.instruction[2].as.copy.global = npu_register(0);
    f->launch.grid[0] = 3;
    f->launch.grid[1] = 2;
    f->launch.count = 1;
    f->launch.rule[0] = (struct npu_register_rule){f->buffer + 100, {40, 120, 0}, INT64_MAX};
    assert_int_equal(run(f), NPU_FAULT_NONE);
    assert_int_equal(f->counters.blocks, 6);
    f->launch.rule[0].step[1] = 119; /* one byte written twice */
    assert_int_equal(run(f), NPU_FAULT_BLOCKS_OVERLAP);
    assert_int_equal(f->fault.address, f->buffer + 219);
    assert_int_equal(f->fault.block[1], 1);
    assert_non_null(strstr(f->fault.text, "in block 2 of the grid"));
    f->launch.rule[0].step[1] = 120;
    f->launch.rule[0].base = f->buffer + 39; /* written here, read by the others */
    assert_int_equal(run(f), NPU_FAULT_BLOCKS_OVERLAP);
    f->launch.rule[0].base = f->buffer + 40;
    assert_int_equal(run(f), NPU_FAULT_NONE); /* and nothing was remembered */
}

static void cores_share_the_blocks(void **state)
{
    struct fixture *f = *state;
    copy(f, true, 0, 0, 40);
    f->launch.grid[0] = 7;
    assert_int_equal(run(f), NPU_FAULT_NONE);
    uint64_t one = f->counters.cycles;
    f->machine.config.cores = 3;
    assert_int_equal(run(f), NPU_FAULT_NONE);
    assert_int_equal(f->counters.cycles * 7, one * 3);
}

static void malformed_programs_are_refused(void **state)
{
    (void)state;
    struct npu_instruction bad[] = {
        {.opcode = NPU_OPCODES},
        {.opcode = NPU_SET_FLAG, .as.flag = {NPU_MTE2, NPU_MTE2, 0}},
        {.opcode = NPU_SET_FLAG, .as.flag = {NPU_MTE2, NPU_MTE3, NPU_FLAGS}},
        {.opcode = NPU_COPY_OUT, .as.copy = {.memory = NPU_L1}},
        {.opcode = NPU_COPY_IN, .as.copy = {.memory = NPU_UB, .rows = {NPU_REGISTERS, 0, 0}}},
        {.opcode = NPU_COPY_IN, .as.copy = {.memory = NPU_UB, .pitch = INT64_MAX}},
        {.opcode = NPU_LOAD, .as.load = {.memory = NPU_L0A, .type = NPU_F16, .pitch = -1}},
        {.opcode = NPU_LOAD, .as.load = {.memory = NPU_L0C, .type = NPU_F16}},
        {.opcode = NPU_MULTIPLY, .as.multiply = {.type = NPU_F32}},
        {.opcode = NPU_ELEMENTWISE, .as.elementwise = {.function = NPU_FUNCTIONS}},
        {.opcode = NPU_ELEMENTWISE,
         .as.elementwise = {.function = NPU_ADD, .destination = {0, 0, NPU_F16}}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_null(npu_program_create("bad", &bad[i], 1, error, sizeof error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversions_round_to_nearest_even),
        cmocka_unit_test(allocation_is_first_fit),
        cmocka_unit_test(configurations_are_checked),
        cmocka_unit_test_setup_teardown(flags_order_pipes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(barriers_order_pipes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(races_are_faults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unwritten_memory_is_not_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bounds_and_alignment_are_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(flags_must_match, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blocks_must_not_overlap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cores_share_the_blocks, set_up, tear_down),
        cmocka_unit_test(malformed_programs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
