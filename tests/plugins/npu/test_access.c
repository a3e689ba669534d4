/* SPDX-License-Identifier: Apache-2.0 */
/* The footprints of instructions on the NPU model against what its units really touch: they write
 * all of what they are said to write and nothing else, and what they write depends on nothing but
 * what they are said to read. All checks of bounds and of order rest on this. */
#include "tests/plugins/npu/npu_support.h"

#include <stdlib.h>
#include <string.h>

#include "plugins/npu/access.h"

/* Small memories, so that whole copies of them can be compared. */
struct fixture {
    struct npu_config config;
    struct npu_global global;
    struct npu_core core;
    struct npu_random random;
    uint8_t *before[NPU_MEMORIES];
    uint8_t *after[NPU_MEMORIES];
    uint8_t *mask[NPU_MEMORIES]; /* 1: read, 2: written */
};

static uint8_t *memory_of(struct fixture *f, int memory)
{
    return memory == NPU_GM ? f->global.bytes : f->core.local[memory];
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    npu_config_defaults(&f->config);
    for (int memory = 0; memory < NPU_MEMORIES; memory++)
        f->config.size[memory] = 16384;
    assert_int_equal(npu_global_open(&f->global, &f->config), 0);
    assert_int_equal(npu_core_open(&f->core, &f->global, &f->config), 0);
    f->random.state = 2718281828;
    for (int memory = 0; memory < NPU_MEMORIES; memory++) {
        f->before[memory] = malloc(16384);
        f->after[memory] = malloc(16384);
        f->mask[memory] = malloc(16384);
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    for (int memory = 0; memory < NPU_MEMORIES; memory++) {
        free(f->before[memory]);
        free(f->after[memory]);
        free(f->mask[memory]);
    }
    npu_core_close(&f->core);
    npu_global_close(&f->global);
    free(f);
    return 0;
}

static int64_t in(struct fixture *f, int64_t low, int64_t high)
{
    return npu_random_in(&f->random, low, high);
}

static struct npu_value size_in(struct fixture *f, int64_t low, int64_t high)
{
    return npu_constant(in(f, low, high));
}

static struct npu_copy random_copy(struct fixture *f, bool inward)
{
    static const enum npu_type types[] = {NPU_F16, NPU_I8, NPU_F32};
    bool fractals = in(f, 0, 1);
    struct npu_copy copy = {
        .memory = inward && in(f, 0, 1) ? NPU_L1 : NPU_UB,
        .layout = fractals ? NPU_FRACTALS : NPU_ROWS,
        .type = types[in(f, 0, 2)],
        .local = in(f, 0, 4) * 32,
        .pitch = fractals ? in(f, 32, 48) : in(f, 3, 6) * 32,
        .row_multiple = in(f, 1, 16),
        .first_row = in(f, 0, 3),
        .global = npu_constant(NPU_GM_BASE + in(f, 0, 40)),
        .stride = size_in(f, 0, 200),
        .rows = size_in(f, 1, 20),
        .columns = size_in(f, 1, 24),
    };
    return copy;
}

static struct npu_load random_load(struct fixture *f)
{
    static const enum npu_type types[] = {NPU_F16, NPU_BF16, NPU_I8};
    return (struct npu_load){
        .memory = in(f, 0, 1) ? NPU_L0A : NPU_L0B,
        .type = types[in(f, 0, 2)],
        .transpose = in(f, 0, 1),
        .source = in(f, 0, 3) * 32,
        .pitch = in(f, 64, 80),
        .destination = in(f, 0, 3) * 512,
        .k = size_in(f, 1, 50),
        .extent = size_in(f, 1, 50),
    };
}

static struct npu_multiply random_multiply(struct fixture *f)
{
    static const enum npu_type types[] = {NPU_F16, NPU_BF16, NPU_I8};
    return (struct npu_multiply){
        .type = types[in(f, 0, 2)],
        .accumulate = in(f, 0, 1),
        .a = in(f, 0, 3) * 512,
        .b = in(f, 0, 3) * 512,
        .c = in(f, 0, 3) * 512,
        .pitch = in(f, 48, 60),
        .k = size_in(f, 1, 50),
        .m = size_in(f, 1, 40),
        .n = size_in(f, 1, 40),
    };
}

static struct npu_elementwise random_elementwise(struct fixture *f)
{
    enum npu_function function = (enum npu_function)in(f, 0, NPU_FUNCTIONS - 1);
    bool exact = function == NPU_SCALE || function == NPU_BLEND;
    bool any = function == NPU_MOVE || function == NPU_CONVERT;
    struct npu_elementwise e = {
        .function = function,
        .scalar = {{NPU_NO_REGISTER, 0.5}, {NPU_NO_REGISTER, 2}},
        .rows = size_in(f, 1, 20),
        .columns = size_in(f, 1, 20),
    };
    if (function == NPU_ADD || function == NPU_MUL)
        e.spread = (enum npu_spread)in(f, 0, 2);
    struct npu_vector_operand *operands[] = {&e.destination, &e.source[0], &e.source[1]};
    for (int i = 0; i < 3; i++) {
        operands[i]->address = i * 4096 + in(f, 0, 3) * 32;
        operands[i]->pitch = in(f, 3, 5) * 32;
        operands[i]->type = any                    ? (enum npu_type)in(f, 0, NPU_TYPES - 1)
                            : exact && in(f, 0, 1) ? NPU_I32
                                                   : NPU_F32;
    }
    if (e.spread == NPU_PER_ROW)
        e.source[1].pitch = in(f, 0, 2) * 4 % 8 + (in(f, 0, 1) ? 0 : 4);
    if (e.spread == NPU_PER_ROW && e.source[1].pitch > 4)
        e.source[1].pitch = 32;
    if (function == NPU_MOVE) {
        e.source[0] = (struct npu_vector_operand){in(f, 0, 3) * 512, in(f, 20, 30),
                                                  in(f, 0, 1) ? NPU_F32 : NPU_I32};
    }
    return e;
}

static struct npu_instruction random_instruction(struct fixture *f)
{
    struct npu_instruction instruction;
    memset(&instruction, 0, sizeof instruction);
    instruction.opcode = (enum npu_opcode)in(f, NPU_COPY_IN, NPU_ELEMENTWISE);
    switch (instruction.opcode) {
    case NPU_COPY_IN:
    case NPU_COPY_OUT:
        instruction.as.copy = random_copy(f, instruction.opcode == NPU_COPY_IN);
        break;
    case NPU_LOAD:
        instruction.as.load = random_load(f);
        break;
    case NPU_MULTIPLY:
        instruction.as.multiply = random_multiply(f);
        break;
    default:
        instruction.as.elementwise = random_elementwise(f);
        break;
    }
    return instruction;
}

static void execute(struct fixture *f, const struct npu_instruction *instruction)
{
    switch (instruction->opcode) {
    case NPU_COPY_IN:
        npu_copy_in(&f->core, &instruction->as.copy, NULL);
        break;
    case NPU_COPY_OUT:
        npu_copy_out(&f->core, &instruction->as.copy, NULL);
        break;
    case NPU_LOAD:
        npu_load(&f->core, &instruction->as.load, NULL);
        break;
    case NPU_MULTIPLY:
        npu_multiply(&f->core, &instruction->as.multiply, NULL);
        break;
    default:
        npu_elementwise(&f->core, &instruction->as.elementwise, NULL);
        break;
    }
}

static void mark(struct fixture *f, const struct npu_access *access)
{
    int64_t base = access->memory == NPU_GM ? NPU_GM_BASE : 0;
    for (int64_t run = 0; run < access->runs; run++)
        for (int64_t i = 0; i < access->bytes; i++)
            f->mask[access->memory][access->address - base + run * access->stride + i] |=
                access->write ? 2 : 1;
}

static void footprints_are_true(void **state)
{
    struct fixture *f = *state;
    int seen[NPU_OPCODES] = {0};
    for (int round = 0; round < 3000; round++) {
        struct npu_instruction instruction = random_instruction(f);
        struct npu_access access[NPU_ACCESSES];
        const char *reason = "";
        char error[256] = "", text[256];
        struct npu_program *program =
            npu_program_create("one", &instruction, 1, error, sizeof error);
        assert_string_equal(error, "");
        npu_program_free(program);
        int accesses = npu_accesses(&instruction, NULL, access, &reason);
        npu_instruction_print(&instruction, text, sizeof text);
        if (accesses < 0)
            print_message("%s: %s\n", text, reason);
        assert_true(accesses > 0);
        seen[instruction.opcode]++;
        for (int memory = 0; memory < NPU_MEMORIES; memory++)
            memset(f->mask[memory], 0, 16384);
        for (int i = 0; i < accesses; i++)
            mark(f, &access[i]);
        for (int memory = 0; memory < NPU_MEMORIES; memory++) {
            for (int i = 0; i < 16384; i++)
                f->before[memory][i] = (uint8_t)npu_random_next(&f->random);
            memcpy(memory_of(f, memory), f->before[memory], 16384);
        }
        execute(f, &instruction);
        for (int memory = 0; memory < NPU_MEMORIES; memory++) {
            uint8_t *bytes = memory_of(f, memory);
            memcpy(f->after[memory], bytes, 16384);
            for (int i = 0; i < 16384; i++) {
                if (bytes[i] != f->before[memory][i] && !(f->mask[memory][i] & 2))
                    print_message("%s writes %s at %d\n", text,
                                  npu_memory_name((enum npu_memory)memory), i);
                assert_true(bytes[i] == f->before[memory][i] || (f->mask[memory][i] & 2));
                /* Another value wherever nothing is read. */
                bytes[i] = f->mask[memory][i] & 1 ? f->before[memory][i]
                                                  : (uint8_t)npu_random_next(&f->random);
            }
        }
        execute(f, &instruction);
        for (int memory = 0; memory < NPU_MEMORIES; memory++)
            for (int i = 0; i < 16384; i++)
                if (f->mask[memory][i] & 2) {
                    if (memory_of(f, memory)[i] != f->after[memory][i])
                        print_message("%s: %s at %d depends on more than is read\n", text,
                                      npu_memory_name((enum npu_memory)memory), i);
                    assert_int_equal(memory_of(f, memory)[i], f->after[memory][i]);
                }
    }
    for (int opcode = NPU_COPY_IN; opcode <= NPU_ELEMENTWISE; opcode++)
        assert_true(seen[opcode] > 400);
}

/* Against bytes marked one by one. */
static void overlaps_are_found(void **state)
{
    struct fixture *f = *state;
    int found = 0;
    for (int round = 0; round < 20000; round++) {
        struct npu_access access[2];
        int64_t lowest = -1, address = -1;
        for (int i = 0; i < 2; i++)
            access[i] = (struct npu_access){NPU_UB,      i == 0,       in(f, 0, 150),
                                            in(f, 1, 6), in(f, 0, 40), in(f, 1, 20)};
        memset(f->mask[NPU_UB], 0, 16384);
        mark(f, &access[0]);
        mark(f, &access[1]);
        for (int i = 16383; i >= 0; i--)
            if (f->mask[NPU_UB][i] == 3)
                lowest = i;
        bool overlap = npu_access_overlap(&access[0], &access[1], &address);
        assert_int_equal(overlap, lowest >= 0);
        assert_true(!overlap || f->mask[NPU_UB][address] == 3);
        found += overlap;
    }
    assert_true(found > 2000 && found < 18000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(footprints_are_true, set_up, tear_down),
        cmocka_unit_test_setup_teardown(overlaps_are_found, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
