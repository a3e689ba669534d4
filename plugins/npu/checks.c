/* SPDX-License-Identifier: Apache-2.0 */
/* Finding faults and describing them. */
#include "plugins/npu/block.h"

#include <stdarg.h>
#include <stdio.h>

static void describe(const struct npu_block *block, uint32_t index, char *text, size_t size)
{
    const struct npu_instruction *instruction = &block->program->instruction[index];
    char body[128];
    npu_instruction_print(instruction, body, sizeof body);
    snprintf(text, size, "instruction %u (%s: %s)", index,
             npu_pipe_name(npu_instruction_pipe(instruction)), body);
}

/* Always false, so that checks can return it. */
static bool __attribute__((format(printf, 7, 8)))
fail(struct npu_block *block, enum npu_fault_kind kind, uint32_t index, uint32_t other,
     enum npu_memory memory, int64_t address, const char *format, ...)
{
    struct npu_fault *fault = block->fault;
    fault->kind = kind;
    fault->instruction = index;
    fault->other = other;
    fault->memory = memory;
    fault->address = address;
    const uint32_t *grid = block->launch->grid;
    fault->block[0] = (uint32_t)(block->number % grid[0]);
    fault->block[1] = (uint32_t)(block->number / grid[0] % grid[1]);
    fault->block[2] = (uint32_t)(block->number / grid[0] / grid[1]);
    char where[200];
    describe(block, index, where, sizeof where);
    int length =
        snprintf(fault->text, sizeof fault->text, "program %s, block (%u, %u, %u), %s ",
                 block->program->name, fault->block[0], fault->block[1], fault->block[2], where);
    va_list arguments;
    va_start(arguments, format);
    if (length > 0 && (size_t)length < sizeof fault->text)
        vsnprintf(fault->text + length, sizeof fault->text - (size_t)length, format, arguments);
    va_end(arguments);
    return false;
}

static bool check_place(struct npu_block *block, uint32_t index, const struct npu_access *access)
{
    const struct npu_config *config = &block->machine->config;
    const char *name = npu_memory_name(access->memory);
    long long begin = access->address, end = npu_access_end(access);
    if (access->memory == NPU_GM) {
        if (npu_global_holds(&block->machine->global, begin, end))
            return true;
        return fail(block, NPU_FAULT_BOUNDS, index, NPU_NO_INSTRUCTION, NPU_GM, begin,
                    "%s GM from %#llx to %#llx, which does not lie within one allocation",
                    access->write ? "writes" : "reads", begin, end);
    }
    if (end > config->size[access->memory])
        return fail(block, NPU_FAULT_BOUNDS, index, NPU_NO_INSTRUCTION, access->memory, begin,
                    "%s %s from %#llx to %#llx, beyond its size of %#llx bytes",
                    access->write ? "writes" : "reads", name, begin, end,
                    (long long)config->size[access->memory]);
    if (begin % config->alignment[access->memory])
        return fail(block, NPU_FAULT_ALIGNMENT, index, NPU_NO_INSTRUCTION, access->memory, begin,
                    "addresses %s at %#llx, which is not a multiple of %u", name, begin,
                    config->alignment[access->memory]);
    return true;
}

bool npu_check_footprint(struct npu_block *block, uint32_t index,
                         struct npu_access access[NPU_ACCESSES], int *accesses)
{
    const char *reason = "";
    *accesses =
        npu_accesses(&block->program->instruction[index], block->registers, access, &reason);
    if (*accesses < 0)
        return fail(block, NPU_FAULT_OPERAND, index, NPU_NO_INSTRUCTION, NPU_GM, 0,
                    "cannot be executed: %s", reason);
    for (int i = 0; i < *accesses; i++)
        if (!check_place(block, index, &access[i]))
            return false;
    return true;
}

/* Whether two instructions conflict, and which of their accesses do. */
static bool find_conflict(const struct npu_block *block, uint32_t index, uint32_t other,
                          struct npu_access *here, struct npu_access *there, int64_t *address)
{
    struct npu_access a[NPU_ACCESSES], b[NPU_ACCESSES];
    const char *reason;
    int an = npu_accesses(&block->program->instruction[index], block->registers, a, &reason);
    int bn = npu_accesses(&block->program->instruction[other], block->registers, b, &reason);
    for (int i = 0; i < an; i++)
        for (int j = 0; j < bn; j++)
            if (a[i].memory == b[j].memory && (a[i].write || b[j].write) &&
                npu_access_overlap(&a[i], &b[j], address)) {
                *here = a[i];
                *there = b[j];
                return true;
            }
    return false;
}

static bool fail_race(struct npu_block *block, uint32_t index, uint32_t other)
{
    struct npu_access here = {0}, there = {0};
    int64_t address = 0;
    char text[200];
    find_conflict(block, index, other, &here, &there, &address);
    describe(block, other, text, sizeof text);
    return fail(block, NPU_FAULT_RACE, index, other, here.memory, address,
                "%s %s at %#llx, which %s %s, and nothing orders the two: a wait_flag is missing "
                "between them",
                here.write ? "writes" : "reads", npu_memory_name(here.memory), (long long)address,
                text, there.write ? "writes" : "reads");
}

/* The program may have meant an instruction of another pipe to come first that was not executed
   yet; it is then the race that must be named. */
static bool fail_unwritten(struct npu_block *block, uint32_t index, enum npu_memory memory,
                           int64_t address)
{
    enum npu_pipe pipe = npu_instruction_pipe(&block->program->instruction[index]);
    for (uint32_t other = 0; other < index; other++) {
        struct npu_access here, there;
        int64_t common;
        if (npu_instruction_pipe(&block->program->instruction[other]) != pipe &&
            find_conflict(block, index, other, &here, &there, &common) && there.write &&
            here.memory == memory)
            return fail_race(block, index, other);
    }
    return fail(block, NPU_FAULT_UNWRITTEN, index, NPU_NO_INSTRUCTION, memory, address,
                "reads %s at %#llx, which nothing has written", npu_memory_name(memory),
                (long long)address);
}

/* GM within the block: MTE2 reads it and MTE3 writes it, so that an instruction of one can conflict
   only with those of the other that were executed but are not known to be finished. */
static void visit_global(const struct npu_block *block, enum npu_pipe pipe,
                         const struct npu_access *access, struct npu_clock *newest)
{
    enum npu_pipe other = pipe == NPU_MTE2 ? NPU_MTE3 : NPU_MTE2;
    for (uint32_t clock = block->done[other]; clock > block->known[pipe].of[other]; clock--) {
        struct npu_access there;
        int64_t address;
        uint32_t index = block->program->queue[other][clock - 1];
        if (npu_global_access(&block->program->instruction[index], block->registers, &there) &&
            npu_access_overlap(access, &there, &address)) {
            newest->of[other] = clock;
            return;
        }
    }
}

/* GM between blocks. Which block and instruction it was is found by going through them again. */
static bool check_other_blocks(struct npu_block *block, uint32_t index,
                               const struct npu_access *access)
{
    int64_t address;
    if (!npu_sharing_conflicts(&block->machine->sharing, access, &address))
        return true;
    const struct npu_program *program = block->program;
    for (uint64_t number = 0; number < block->number; number++) {
        int64_t registers[NPU_REGISTERS];
        npu_block_registers(block->launch, number, registers);
        for (uint32_t other = 0; other < program->count; other++) {
            struct npu_access there;
            if (!npu_global_access(&program->instruction[other], registers, &there) ||
                !(access->write || there.write) || !npu_access_overlap(access, &there, &address))
                continue;
            char text[200];
            describe(block, other, text, sizeof text);
            return fail(block, NPU_FAULT_BLOCKS_OVERLAP, index, other, NPU_GM, address,
                        "%s GM at %#llx, which %s %s in block %llu of the grid, and blocks are not "
                        "ordered",
                        access->write ? "writes" : "reads", (long long)address, text,
                        there.write ? "writes" : "reads", (unsigned long long)number);
        }
    }
    return fail(block, NPU_FAULT_BLOCKS_OVERLAP, index, NPU_NO_INSTRUCTION, NPU_GM, address,
                "touches GM at %#llx, as another block does", (long long)address);
}

bool npu_check_order(struct npu_block *block, uint32_t index, const struct npu_access *access,
                     int accesses)
{
    enum npu_pipe pipe = npu_instruction_pipe(&block->program->instruction[index]);
    struct npu_clock newest = {{0}};
    int unwritten = -1;
    int64_t address = 0;
    for (int i = 0; i < accesses; i++) {
        if (access[i].memory == NPU_GM)
            visit_global(block, pipe, &access[i], &newest);
        else if (!npu_shadow_visit(&block->machine->shadow, pipe, block->done[pipe] + 1, &access[i],
                                   &newest, &address) &&
                 unwritten < 0)
            unwritten = i;
    }
    for (int other = 0; other < NPU_PIPES; other++)
        if (newest.of[other] > block->known[pipe].of[other])
            return fail_race(block, index, block->program->queue[other][newest.of[other] - 1]);
    if (unwritten >= 0)
        return fail_unwritten(block, index, access[unwritten].memory, address);
    for (int i = 0; i < accesses; i++)
        if (access[i].memory == NPU_GM && !check_other_blocks(block, index, &access[i]))
            return false;
    return true;
}

bool npu_check_set(struct npu_block *block, uint32_t index)
{
    const struct npu_flag *flag = &block->program->instruction[index].as.flag;
    const struct npu_flag_state *state = &block->flag[flag->source][flag->destination][flag->id];
    if (state->set)
        return fail(block, NPU_FAULT_SET_TWICE, index, state->set_by, NPU_GM, 0,
                    "sets a flag that instruction %u has set and nothing has waited for",
                    state->set_by);
    if (state->waited_at > block->known[flag->source].of[flag->destination])
        return fail(block, NPU_FAULT_SET_TWICE, index, state->waited_by, NPU_GM, 0,
                    "may set the flag before instruction %u has waited for the last setting, "
                    "since nothing orders the two",
                    state->waited_by);
    return true;
}

/* The first instruction that stands at the head of a queue for ever. */
static bool check_finished(struct npu_block *block)
{
    const struct npu_program *program = block->program;
    uint32_t first = NPU_NO_INSTRUCTION;
    for (int pipe = 0; pipe < NPU_PIPES; pipe++) {
        if (block->done[pipe] == program->queued[pipe])
            continue;
        uint32_t head = program->queue[pipe][block->done[pipe]];
        if (head < first && program->instruction[head].opcode == NPU_WAIT_FLAG)
            first = head;
    }
    return first == NPU_NO_INSTRUCTION ||
           fail(block, NPU_FAULT_DEADLOCK, first, NPU_NO_INSTRUCTION, NPU_GM, 0,
                "waits for a flag that nothing will set: a set_flag is missing, or stands behind "
                "something that itself waits");
}

bool npu_check_end(struct npu_block *block)
{
    if (!check_finished(block))
        return false;
    uint32_t first = NPU_NO_INSTRUCTION;
    for (int source = 0; source < NPU_PIPES; source++)
        for (int destination = 0; destination < NPU_PIPES; destination++)
            for (int id = 0; id < NPU_FLAGS; id++) {
                const struct npu_flag_state *state = &block->flag[source][destination][id];
                if (state->set && state->set_by < first)
                    first = state->set_by;
            }
    return first == NPU_NO_INSTRUCTION ||
           fail(block, NPU_FAULT_LEFT_SET, first, NPU_NO_INSTRUCTION, NPU_GM, 0,
                "sets a flag that is still set at the end: a wait_flag is missing");
}
