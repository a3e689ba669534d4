/* SPDX-License-Identifier: Apache-2.0 */
/* Happens-before: vector clocks of the pipes and what was last done to each granule of local
 * memory. Two instructions are ordered when they are in one queue, or when a chain of flags and
 * barriers leads from one to the other; nothing else orders them, least of all the order in which
 * the model happens to execute them. */
#ifndef NPU_ORDER_H
#define NPU_ORDER_H

#include "plugins/npu/access.h"

/* clock.of[p] = how many entries of pipe p's queue are known to have finished. */
struct npu_clock {
    uint32_t of[NPU_PIPES];
};

static inline void npu_clock_join(struct npu_clock *clock, const struct npu_clock *other)
{
    for (int pipe = 0; pipe < NPU_PIPES; pipe++)
        if (clock->of[pipe] < other->of[pipe])
            clock->of[pipe] = other->of[pipe];
}

struct npu_granule {
    uint32_t block;   /* the block that the rest is about; any other: nothing was done yet */
    uint32_t written; /* bit i: byte i was written */
    uint32_t write_pipe;
    uint32_t write_clock; /* 0 = never */
    uint32_t read_clock[NPU_PIPES];
};

/* The granules of all local memories of a core. */
struct npu_shadow {
    struct npu_granule *granule[NPU_MEMORIES];
    int64_t granules[NPU_MEMORIES];
    uint32_t block;
};

/* 0, or -1 when memory runs out. Close also what failed to open. */
int npu_shadow_open(struct npu_shadow *shadow, const struct npu_config *config);
void npu_shadow_close(struct npu_shadow *shadow);

/* Forgets everything: local memories hold nothing at the start of a block. */
void npu_shadow_begin_block(struct npu_shadow *shadow);

/* Notes that entry number `clock` of a pipe's queue does `access`, which lies within its memory.
   Raises newest->of[p] to the newest entry of each other pipe that conflicts: it wrote what is
   accessed, or read what is written. Returns false when bytes are read that nothing has written,
   and then sets *address to the first such granule. */
bool npu_shadow_visit(struct npu_shadow *shadow, enum npu_pipe pipe, uint32_t clock,
                      const struct npu_access *access, struct npu_clock *newest, int64_t *address);

#endif
