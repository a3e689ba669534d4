/* SPDX-License-Identifier: Apache-2.0 */
/* The executing units of a core: what each instruction does to memory. They check nothing: an
 * instruction comes here once its footprint was found to be in bounds. */
#ifndef NPU_UNITS_H
#define NPU_UNITS_H

#include "plugins/npu/memory.h"
#include "plugins/npu/program.h"

/* Memories of a core and scratch space of the units. */
struct npu_core {
    struct npu_global *global;
    uint8_t *local[NPU_MEMORIES]; /* 64-byte aligned */
    float *left;                  /* the cube's operands as floats */
    float *right;
};

/* 0, or -1 when memory runs out. Close also what failed to open. */
int npu_core_open(struct npu_core *core, struct npu_global *global,
                  const struct npu_config *config);
void npu_core_close(struct npu_core *core);

/* As the structs in program.h say; `registers` has NPU_REGISTERS values, or is NULL when the
   instruction names none. */
void npu_copy_in(struct npu_core *core, const struct npu_copy *copy, const int64_t *registers);
void npu_copy_out(struct npu_core *core, const struct npu_copy *copy, const int64_t *registers);
void npu_load(struct npu_core *core, const struct npu_load *load, const int64_t *registers);
void npu_multiply(struct npu_core *core, const struct npu_multiply *multiply,
                  const int64_t *registers);
void npu_elementwise(struct npu_core *core, const struct npu_elementwise *elementwise,
                     const int64_t *registers);

#endif
