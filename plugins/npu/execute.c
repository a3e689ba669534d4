/* SPDX-License-Identifier: Apache-2.0 */
/* Executing a program: blocks one after another, within a block any pipe that can go on. */
#include "plugins/npu/block.h"

#include <stdio.h>

int npu_machine_open(struct npu_machine *machine, const struct npu_config *config, char *error,
                     size_t size)
{
    memset(machine, 0, sizeof *machine);
    if (npu_config_check(config, error, size))
        return -1;
    machine->config = *config;
    if (npu_global_open(&machine->global, config) ||
        npu_core_open(&machine->core, &machine->global, config) ||
        npu_shadow_open(&machine->shadow, config) || npu_sharing_open(&machine->sharing, config)) {
        npu_machine_close(machine);
        snprintf(error, size, "no host memory for a device with %lld bytes of global memory",
                 (long long)config->size[NPU_GM]);
        return -1;
    }
    return 0;
}

void npu_machine_close(struct npu_machine *machine)
{
    npu_sharing_close(&machine->sharing);
    npu_shadow_close(&machine->shadow);
    npu_core_close(&machine->core);
    npu_global_close(&machine->global);
}

uint64_t npu_grid_blocks(const struct npu_launch *launch)
{
    return (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
}

void npu_block_registers(const struct npu_launch *launch, uint64_t number, int64_t *registers)
{
    uint64_t index[3] = {number % launch->grid[0], number / launch->grid[0] % launch->grid[1],
                         number / launch->grid[0] / launch->grid[1]};
    memset(registers, 0, NPU_REGISTERS * sizeof *registers);
    for (uint32_t i = 0; i < launch->count && i < NPU_REGISTERS; i++) {
        const struct npu_register_rule *rule = &launch->rule[i];
        /* Unsigned, so that nonsense wraps and is refused as an address or extent. */
        uint64_t value = (uint64_t)rule->base;
        for (int axis = 0; axis < 3; axis++)
            value += index[axis] * (uint64_t)rule->step[axis];
        registers[i] = (int64_t)value < rule->limit ? (int64_t)value : rule->limit;
    }
}

static void tick(struct npu_block *block, enum npu_pipe pipe)
{
    block->known[pipe].of[pipe] = ++block->done[pipe];
}

static void count_moved(struct npu_counters *counters, enum npu_pipe pipe,
                        const struct npu_access *access)
{
    if (pipe < NPU_TRANSFER_PIPES)
        counters->moved[pipe] += (uint64_t)npu_access_bytes(&access[pipe == NPU_MTE2 ? 0 : 1]);
}

static void run_unit(struct npu_core *core, const struct npu_instruction *instruction,
                     const int64_t *registers)
{
    switch (instruction->opcode) {
    case NPU_COPY_IN:
        npu_copy_in(core, &instruction->as.copy, registers);
        break;
    case NPU_COPY_OUT:
        npu_copy_out(core, &instruction->as.copy, registers);
        break;
    case NPU_LOAD:
        npu_load(core, &instruction->as.load, registers);
        break;
    case NPU_MULTIPLY:
        npu_multiply(core, &instruction->as.multiply, registers);
        break;
    default:
        npu_elementwise(core, &instruction->as.elementwise, registers);
        break;
    }
}

static bool execute_data(struct npu_block *block, uint32_t index)
{
    const struct npu_instruction *instruction = &block->program->instruction[index];
    enum npu_pipe pipe = npu_instruction_pipe(instruction);
    struct npu_access access[NPU_ACCESSES];
    int accesses;
    if (!npu_check_footprint(block, index, access, &accesses) ||
        !npu_check_order(block, index, access, accesses))
        return false;
    if (accesses > 0) {
        run_unit(&block->machine->core, instruction, block->registers);
        count_moved(block->counters, pipe, access);
    }
    npu_timeline_run(&block->timeline, pipe,
                     npu_duration(&block->machine->config, instruction, access, accesses),
                     block->counters);
    tick(block, pipe);
    return true;
}

static bool execute_set(struct npu_block *block, uint32_t index)
{
    const struct npu_flag *flag = &block->program->instruction[index].as.flag;
    struct npu_flag_state *state = &block->flag[flag->source][flag->destination][flag->id];
    if (!npu_check_set(block, index))
        return false;
    npu_timeline_set(&block->timeline, flag, &block->machine->config, block->counters);
    tick(block, flag->source);
    state->set = true;
    state->set_by = index;
    state->at_set = block->known[flag->source];
    return true;
}

static void execute_wait(struct npu_block *block, uint32_t index)
{
    const struct npu_flag *flag = &block->program->instruction[index].as.flag;
    struct npu_flag_state *state = &block->flag[flag->source][flag->destination][flag->id];
    npu_timeline_wait(&block->timeline, flag, &block->machine->config, block->counters);
    tick(block, flag->destination);
    npu_clock_join(&block->known[flag->destination], &state->at_set);
    state->set = false;
    state->waited_by = index;
    state->waited_at = block->done[flag->destination];
}

static void execute_barrier(struct npu_block *block)
{
    struct npu_clock all = {{0}};
    npu_timeline_barrier(&block->timeline, &block->machine->config, block->counters);
    for (int pipe = 0; pipe < NPU_PIPES; pipe++) {
        tick(block, (enum npu_pipe)pipe);
        npu_clock_join(&all, &block->known[pipe]);
    }
    for (int pipe = 0; pipe < NPU_PIPES; pipe++)
        block->known[pipe] = all;
}

/* The instruction at the head of a queue, or NPU_NO_INSTRUCTION. */
static uint32_t head_of(const struct npu_block *block, int pipe)
{
    const struct npu_program *program = block->program;
    return block->done[pipe] < program->queued[pipe] ? program->queue[pipe][block->done[pipe]]
                                                     : NPU_NO_INSTRUCTION;
}

static bool can_go_on(const struct npu_block *block, uint32_t index)
{
    const struct npu_instruction *instruction = &block->program->instruction[index];
    if (instruction->opcode == NPU_WAIT_FLAG) {
        const struct npu_flag *flag = &instruction->as.flag;
        return block->flag[flag->source][flag->destination][flag->id].set;
    }
    if (instruction->opcode == NPU_BARRIER)
        for (int pipe = 0; pipe < NPU_PIPES; pipe++)
            if (head_of(block, pipe) != index)
                return false;
    return true;
}

/* The next instruction to execute; NPU_NO_INSTRUCTION when every pipe is finished or stuck. */
static uint32_t choose(const struct npu_block *block, int *turn)
{
    enum npu_schedule schedule = block->machine->config.schedule;
    uint32_t chosen = NPU_NO_INSTRUCTION;
    for (int i = 1; i <= NPU_PIPES; i++) {
        int pipe = (*turn + i) % NPU_PIPES;
        uint32_t head = head_of(block, pipe);
        if (head == NPU_NO_INSTRUCTION || !can_go_on(block, head))
            continue;
        if (schedule == NPU_SCHEDULE_ROUND_ROBIN) {
            *turn = pipe;
            return head;
        }
        if (chosen == NPU_NO_INSTRUCTION ||
            (schedule == NPU_SCHEDULE_PROGRAM_ORDER ? head < chosen : head > chosen))
            chosen = head;
    }
    return chosen;
}

static bool run_block(struct npu_block *block)
{
    int turn = 0;
    uint32_t index;
    npu_shadow_begin_block(&block->machine->shadow);
    while ((index = choose(block, &turn)) != NPU_NO_INSTRUCTION) {
        bool good = true;
        switch (block->program->instruction[index].opcode) {
        case NPU_SET_FLAG:
            good = execute_set(block, index);
            break;
        case NPU_WAIT_FLAG:
            execute_wait(block, index);
            break;
        case NPU_BARRIER:
            execute_barrier(block);
            break;
        default:
            good = execute_data(block, index);
            break;
        }
        if (!good)
            return false;
    }
    return npu_check_end(block);
}

/* Notes, or forgets, what a block does to global memory. */
static void share_block(struct npu_sharing *sharing, const struct npu_program *program,
                        const int64_t *registers, bool forget)
{
    static const enum npu_pipe pipes[] = {NPU_MTE2, NPU_MTE3};
    for (size_t p = 0; p < sizeof pipes / sizeof *pipes; p++)
        for (uint32_t i = 0; i < program->queued[pipes[p]]; i++) {
            struct npu_access access;
            uint32_t index = program->queue[pipes[p]][i];
            if (!npu_global_access(&program->instruction[index], registers, &access))
                continue;
            if (forget)
                npu_sharing_forget(sharing, &access);
            else
                npu_sharing_note(sharing, &access);
        }
}

/* Each block goes to the core that is free first. */
static void place_block(uint64_t *core_free_at, uint32_t cores, uint64_t cycles)
{
    uint32_t first = 0;
    for (uint32_t core = 1; core < cores; core++)
        if (core_free_at[core] < core_free_at[first])
            first = core;
    core_free_at[first] += cycles;
}

int npu_machine_launch(struct npu_machine *machine, const struct npu_program *program,
                       const struct npu_launch *launch, struct npu_counters *counters,
                       struct npu_fault *fault)
{
    uint64_t core_free_at[NPU_CORES_MAX] = {0};
    uint64_t blocks = npu_grid_blocks(launch), number = 0, makespan = 0;
    memset(fault, 0, sizeof *fault);
    for (; number < blocks; number++) {
        struct npu_block block;
        memset(&block, 0, sizeof block);
        block.machine = machine;
        block.program = program;
        block.launch = launch;
        block.number = number;
        block.counters = counters;
        block.fault = fault;
        npu_block_registers(launch, number, block.registers);
        if (!run_block(&block))
            break;
        place_block(core_free_at, machine->config.cores,
                    machine->config.block_cycles + npu_timeline_end(&block.timeline));
        if (blocks > 1)
            share_block(&machine->sharing, program, block.registers, false);
    }
    for (uint64_t noted = 0; blocks > 1 && noted < number; noted++) {
        int64_t registers[NPU_REGISTERS];
        npu_block_registers(launch, noted, registers);
        share_block(&machine->sharing, program, registers, true);
    }
    for (uint32_t core = 0; core < machine->config.cores; core++)
        if (makespan < core_free_at[core])
            makespan = core_free_at[core];
    counters->launches++;
    counters->blocks += number;
    counters->cycles += makespan;
    return fault->kind == NPU_FAULT_NONE ? 0 : -1;
}
