/* SPDX-License-Identifier: Apache-2.0 */
/* One block of a launch under way, as execution and checks share it. */
#ifndef NPU_BLOCK_H
#define NPU_BLOCK_H

#include "plugins/npu/machine.h"

struct npu_flag_state {
    bool set;
    struct npu_clock at_set; /* what the source pipe knew */
    uint32_t set_by;         /* instruction */
    uint32_t waited_by;      /* the last instruction that waited */
    uint32_t waited_at;      /* its place in the destination's queue; 0 = none yet */
};

struct npu_block {
    struct npu_machine *machine;
    const struct npu_program *program;
    const struct npu_launch *launch;
    uint64_t number; /* in the grid, x fastest */
    int64_t registers[NPU_REGISTERS];
    uint32_t done[NPU_PIPES];          /* entries of each queue that were executed */
    struct npu_clock known[NPU_PIPES]; /* what each pipe knows of the others */
    struct npu_flag_state flag[NPU_PIPES][NPU_PIPES][NPU_FLAGS];
    struct npu_timeline timeline;
    struct npu_counters *counters;
    struct npu_fault *fault;
};

uint64_t npu_grid_blocks(const struct npu_launch *launch);

/* Registers of block `number`. */
void npu_block_registers(const struct npu_launch *launch, uint64_t number, int64_t *registers);

/* The checks return false after filling in block->fault. `instruction` and `other` are indices into
   the program. */

/* Extents, alignment and bounds of an instruction, whose footprint goes to access. */
bool npu_check_footprint(struct npu_block *block, uint32_t instruction,
                         struct npu_access access[NPU_ACCESSES], int *accesses);

/* That all it conflicts with happened before: in this block and, for GM, in no other. */
bool npu_check_order(struct npu_block *block, uint32_t instruction, const struct npu_access *access,
                     int accesses);

bool npu_check_set(struct npu_block *block, uint32_t instruction);

/* That the block ended with all queues empty and all flags waited for. */
bool npu_check_end(struct npu_block *block);

#endif
