/* SPDX-License-Identifier: Apache-2.0 */
/* A growing list of instructions. */
#include "plugins/npu/assembler.h"

#include <stdlib.h>

void npu_emit(struct npu_assembler *assembler, const struct npu_instruction *instruction)
{
    if (assembler->failed)
        return;
    if (assembler->count == assembler->capacity) {
        uint32_t capacity = assembler->capacity ? 2 * assembler->capacity : 64;
        struct npu_instruction *grown = realloc(assembler->instruction, capacity * sizeof *grown);
        if (!grown) {
            assembler->failed = true;
            return;
        }
        assembler->instruction = grown;
        assembler->capacity = capacity;
    }
    assembler->instruction[assembler->count++] = *instruction;
}

void npu_emit_copy_in(struct npu_assembler *assembler, const struct npu_copy *copy)
{
    npu_emit(assembler, &(struct npu_instruction){.opcode = NPU_COPY_IN, .as.copy = *copy});
}

void npu_emit_copy_out(struct npu_assembler *assembler, const struct npu_copy *copy)
{
    npu_emit(assembler, &(struct npu_instruction){.opcode = NPU_COPY_OUT, .as.copy = *copy});
}

void npu_emit_load(struct npu_assembler *assembler, const struct npu_load *load)
{
    npu_emit(assembler, &(struct npu_instruction){.opcode = NPU_LOAD, .as.load = *load});
}

void npu_emit_multiply(struct npu_assembler *assembler, const struct npu_multiply *multiply)
{
    npu_emit(assembler,
             &(struct npu_instruction){.opcode = NPU_MULTIPLY, .as.multiply = *multiply});
}

void npu_emit_elementwise(struct npu_assembler *assembler,
                          const struct npu_elementwise *elementwise)
{
    npu_emit(assembler,
             &(struct npu_instruction){.opcode = NPU_ELEMENTWISE, .as.elementwise = *elementwise});
}

void npu_assembler_free(struct npu_assembler *assembler)
{
    free(assembler->instruction);
    memset(assembler, 0, sizeof *assembler);
}
