/* SPDX-License-Identifier: Apache-2.0 */
/* One device of the model without its thread: memories, checks, and launching programs. */
#ifndef NPU_MACHINE_H
#define NPU_MACHINE_H

#include "plugins/npu/fault.h"
#include "plugins/npu/memory.h"
#include "plugins/npu/order.h"
#include "plugins/npu/sharing.h"
#include "plugins/npu/timeline.h"
#include "plugins/npu/units.h"

struct npu_machine {
    struct npu_config config;
    struct npu_global global;
    struct npu_core core;
    struct npu_shadow shadow;
    struct npu_sharing sharing;
};

/* Register r of block (x, y, z) holds the smaller of base + x step[0] + y step[1] + z step[2] and
   limit. */
struct npu_register_rule {
    int64_t base;
    int64_t step[3];
    int64_t limit;
};

/* A program over a grid of blocks. Registers from `count` on hold 0. */
struct npu_launch {
    uint32_t grid[3]; /* a 0 anywhere: nothing to do */
    uint32_t count;
    struct npu_register_rule rule[NPU_REGISTERS];
};

/* 0, or -1 with one sentence in error (size bytes). */
int npu_machine_open(struct npu_machine *machine, const struct npu_config *config, char *error,
                     size_t size);
void npu_machine_close(struct npu_machine *machine);

/* Runs a program; adds to *counters. 0, or -1 with *fault filled in: what was executed before the
   fault has changed memory then. Neither allocates nor waits. One thread at a time. */
int npu_machine_launch(struct npu_machine *machine, const struct npu_program *program,
                       const struct npu_launch *launch, struct npu_counters *counters,
                       struct npu_fault *fault);

#endif
