/* SPDX-License-Identifier: Apache-2.0 */
/* Cycles. Each pipe has a time at which it is free; an instruction starts then, or when the flag it
 * waits for is set, and lasts as long as the cost model says. */
#ifndef NPU_TIMELINE_H
#define NPU_TIMELINE_H

#include "plugins/npu/access.h"

struct npu_timeline {
    uint64_t free_at[NPU_PIPES];
    uint64_t set_at[NPU_PIPES][NPU_PIPES][NPU_FLAGS];
};

/* What streams count. */
struct npu_counters {
    uint64_t cycles; /* of launches, from the first instruction to the last */
    uint64_t launches;
    uint64_t blocks;
    uint64_t instructions[NPU_PIPES];
    uint64_t busy[NPU_PIPES];           /* cycles in which the pipe executed */
    uint64_t moved[NPU_TRANSFER_PIPES]; /* bytes, as the instructions name them, without padding */
    uint64_t copied;                    /* bytes of copies and fills outside programs */
};

/* How long a transfer, multiplication or vector instruction lasts; `access` is its footprint, empty
   when it does nothing: it then takes as long as a flag. */
uint64_t npu_duration(const struct npu_config *config, const struct npu_instruction *instruction,
                      const struct npu_access *access, int accesses);

/* Runs an instruction on a pipe: from when it is free, for `duration` cycles. */
void npu_timeline_run(struct npu_timeline *timeline, enum npu_pipe pipe, uint64_t duration,
                      struct npu_counters *counters);
void npu_timeline_set(struct npu_timeline *timeline, const struct npu_flag *flag,
                      const struct npu_config *config, struct npu_counters *counters);
void npu_timeline_wait(struct npu_timeline *timeline, const struct npu_flag *flag,
                       const struct npu_config *config, struct npu_counters *counters);
void npu_timeline_barrier(struct npu_timeline *timeline, const struct npu_config *config,
                          struct npu_counters *counters);

/* When the last pipe is done. */
uint64_t npu_timeline_end(const struct npu_timeline *timeline);

#endif
