/* SPDX-License-Identifier: Apache-2.0 */
/* What a program did wrong. */
#ifndef NPU_FAULT_H
#define NPU_FAULT_H

#include "plugins/npu/access.h"

enum npu_fault_kind {
    NPU_FAULT_NONE,
    NPU_FAULT_RACE,          /* two accesses of one place, one a write, not ordered */
    NPU_FAULT_UNWRITTEN,     /* local memory is read that nothing wrote */
    NPU_FAULT_BOUNDS,        /* beyond a memory, or outside every allocation in GM */
    NPU_FAULT_ALIGNMENT,     /* a local address is not a multiple of the memory's alignment */
    NPU_FAULT_OPERAND,       /* an extent, stride or pitch that cannot be */
    NPU_FAULT_SET_TWICE,     /* set_flag may come while the flag is still set */
    NPU_FAULT_LEFT_SET,      /* a flag nobody waited for */
    NPU_FAULT_DEADLOCK,      /* a wait_flag that nothing will set */
    NPU_FAULT_BLOCKS_OVERLAP /* a block of the grid touches what another writes */
};

#define NPU_NO_INSTRUCTION UINT32_MAX

struct npu_fault {
    enum npu_fault_kind kind;
    uint32_t block[3];
    uint32_t instruction; /* the one that failed */
    uint32_t other;       /* the one it is in conflict with, or NPU_NO_INSTRUCTION */
    enum npu_memory memory;
    int64_t address;
    char text[512]; /* one sentence */
};

#endif
