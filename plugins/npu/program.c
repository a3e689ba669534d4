/* SPDX-License-Identifier: Apache-2.0 */
/* Checking instructions and sorting them into queues. */
#include "plugins/npu/program.h"

#include <stdio.h>
#include <stdlib.h>

enum npu_pipe npu_instruction_pipe(const struct npu_instruction *instruction)
{
    switch (instruction->opcode) {
    case NPU_COPY_IN:
        return NPU_MTE2;
    case NPU_COPY_OUT:
        return NPU_MTE3;
    case NPU_LOAD:
        return NPU_MTE1;
    case NPU_MULTIPLY:
        return NPU_CUBE;
    case NPU_SET_FLAG:
        return instruction->as.flag.source;
    case NPU_WAIT_FLAG:
        return instruction->as.flag.destination;
    default:
        return NPU_VECTOR;
    }
}

static bool is_pitch(int64_t pitch)
{
    return pitch >= 0 && pitch <= INT64_C(1) << 32;
}

static bool is_register(int32_t reg)
{
    return reg >= NPU_NO_REGISTER && reg < NPU_REGISTERS;
}

static const char *check_copy(const struct npu_copy *copy, bool in)
{
    if (copy->memory != NPU_UB && !(in && copy->memory == NPU_L1))
        return in ? "the destination must be L1 or UB" : "the source must be UB";
    if (copy->type >= NPU_TYPES || copy->layout > NPU_FRACTALS)
        return "unknown type or layout";
    if (!is_pitch(copy->pitch))
        return "the pitch is not from 0 to 2^32";
    if (in && copy->layout == NPU_FRACTALS &&
        (copy->row_multiple < 1 || copy->row_multiple > 65536))
        return "row_multiple is not from 1 to 65536";
    if (!is_register(copy->global.reg) || !is_register(copy->stride.reg) ||
        !is_register(copy->rows.reg) || !is_register(copy->columns.reg))
        return "no such register";
    return NULL;
}

static bool is_cube_type(enum npu_type type)
{
    return type == NPU_F16 || type == NPU_BF16 || type == NPU_I8;
}

static const char *check_load(const struct npu_load *load)
{
    if (load->memory != NPU_L0A && load->memory != NPU_L0B)
        return "the destination must be L0A or L0B";
    if (!is_cube_type(load->type))
        return "the type must be f16, bf16 or i8";
    if (!is_pitch(load->pitch) || !is_register(load->extent.reg) || !is_register(load->k.reg))
        return "the pitch is not from 0 to 2^32, or no such register";
    return NULL;
}

static const char *check_multiply(const struct npu_multiply *multiply)
{
    if (!is_cube_type(multiply->type))
        return "the type must be f16, bf16 or i8";
    if (!is_pitch(multiply->pitch) || !is_register(multiply->m.reg) ||
        !is_register(multiply->n.reg) || !is_register(multiply->k.reg))
        return "the pitch is not from 0 to 2^32, or no such register";
    return NULL;
}

static bool has_arithmetic_type(const struct npu_elementwise *e, enum npu_type type)
{
    bool exact = e->function == NPU_SCALE || e->function == NPU_BLEND;
    return type == NPU_F32 || (exact && type == NPU_I32);
}

static const char *check_elementwise(const struct npu_elementwise *e)
{
    int sources = npu_vector_sources(e->function);
    if (e->function >= NPU_FUNCTIONS || e->spread > NPU_PER_ROW)
        return "unknown function or spread";
    if (e->spread != NPU_EACH && e->function != NPU_ADD && e->function != NPU_MUL)
        return "only add and mul spread an operand";
    if (!is_register(e->rows.reg) || !is_register(e->columns.reg) ||
        !is_register(e->scalar[0].reg) || !is_register(e->scalar[1].reg))
        return "no such register";
    for (int i = -1; i < sources; i++) {
        const struct npu_vector_operand *operand = i < 0 ? &e->destination : &e->source[i];
        if (!is_pitch(operand->pitch) || operand->type >= NPU_TYPES)
            return "the pitch is not from 0 to 2^32, or the type is unknown";
        if (e->function != NPU_MOVE && e->function != NPU_CONVERT &&
            !has_arithmetic_type(e, operand->type))
            return "the function does not take operands of this type";
    }
    if (e->function == NPU_MOVE && e->source[0].type != NPU_F32 && e->source[0].type != NPU_I32)
        return "accumulators are f32 or i32";
    return NULL;
}

static const char *check_flag(const struct npu_flag *flag)
{
    if (flag->source >= NPU_PIPES || flag->destination >= NPU_PIPES)
        return "no such pipe";
    if (flag->source == flag->destination)
        return "a pipe is in order and needs no flag to itself";
    return flag->id < NPU_FLAGS ? NULL : "no such event id";
}

/* Why an instruction is not well formed, or NULL. */
static const char *check_instruction(const struct npu_instruction *instruction)
{
    switch (instruction->opcode) {
    case NPU_COPY_IN:
        return check_copy(&instruction->as.copy, true);
    case NPU_COPY_OUT:
        return check_copy(&instruction->as.copy, false);
    case NPU_LOAD:
        return check_load(&instruction->as.load);
    case NPU_MULTIPLY:
        return check_multiply(&instruction->as.multiply);
    case NPU_ELEMENTWISE:
        return check_elementwise(&instruction->as.elementwise);
    case NPU_SET_FLAG:
    case NPU_WAIT_FLAG:
        return check_flag(&instruction->as.flag);
    case NPU_BARRIER:
        return NULL;
    default:
        return "unknown opcode";
    }
}

static void sort_into_queues(struct npu_program *program)
{
    for (uint32_t i = 0; i < program->count; i++) {
        const struct npu_instruction *instruction = &program->instruction[i];
        bool every = instruction->opcode == NPU_BARRIER;
        for (int pipe = 0; pipe < NPU_PIPES; pipe++)
            if (every || (int)npu_instruction_pipe(instruction) == pipe)
                program->queue[pipe][program->queued[pipe]++] = i;
    }
}

struct npu_program *npu_program_create(const char *name, const struct npu_instruction *instruction,
                                       uint32_t count, char *error, size_t size)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *reason = check_instruction(&instruction[i]);
        if (reason) {
            snprintf(error, size, "program %s, instruction %u: %s", name, i, reason);
            return NULL;
        }
    }
    struct npu_program *program = calloc(1, sizeof *program);
    bool whole = program != NULL;
    if (program) {
        snprintf(program->name, sizeof program->name, "%s", name);
        program->count = count;
        program->instruction = malloc((count ? count : 1) * sizeof *instruction);
        whole = program->instruction != NULL;
        for (int pipe = 0; pipe < NPU_PIPES; pipe++) {
            program->queue[pipe] = malloc((count ? count : 1) * sizeof *program->queue[pipe]);
            whole = whole && program->queue[pipe];
        }
    }
    if (!whole) {
        snprintf(error, size, "no memory for program %s of %u instructions", name, count);
        npu_program_free(program);
        return NULL;
    }
    if (count)
        memcpy(program->instruction, instruction, count * sizeof *instruction);
    sort_into_queues(program);
    return program;
}

void npu_program_free(struct npu_program *program)
{
    if (!program)
        return;
    for (int pipe = 0; pipe < NPU_PIPES; pipe++)
        free(program->queue[pipe]);
    free(program->instruction);
    free(program);
}
