/* SPDX-License-Identifier: Apache-2.0 */
/* Writing programs: instructions are given in the order in which a single unit would execute them,
 * and npu_synchronize adds the flags that keep that meaning when the pipes run at once. */
#ifndef NPU_ASSEMBLER_H
#define NPU_ASSEMBLER_H

#include "plugins/npu/program.h"

/* Begins zeroed. */
struct npu_assembler {
    struct npu_instruction *instruction;
    uint32_t count;
    uint32_t capacity;
    bool failed; /* memory ran out; what follows is ignored */
};

void npu_emit(struct npu_assembler *assembler, const struct npu_instruction *instruction);
void npu_emit_copy_in(struct npu_assembler *assembler, const struct npu_copy *copy);
void npu_emit_copy_out(struct npu_assembler *assembler, const struct npu_copy *copy);
void npu_emit_load(struct npu_assembler *assembler, const struct npu_load *load);
void npu_emit_multiply(struct npu_assembler *assembler, const struct npu_multiply *multiply);
void npu_emit_elementwise(struct npu_assembler *assembler,
                          const struct npu_elementwise *elementwise);
void npu_assembler_free(struct npu_assembler *assembler);

/* Rewrites a program without flags and barriers into one with them. Each pair of set_flag and
   wait_flag orders two instructions that conflict and that nothing else orders, so none can be
   left out. Where all event ids between two pipes are in use, the flag is set later than it could
   be, and in the last resort a barrier is put in.

   `registers` describes a typical block: extents at their largest, addresses in GM such that
   operands overlap where they may overlap in a launch. 0, or -1 with one sentence in error (size
   bytes). */
int npu_synchronize(struct npu_assembler *assembler, const struct npu_config *config,
                    const int64_t *registers, char *error, size_t size);

#endif
