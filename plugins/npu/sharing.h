/* SPDX-License-Identifier: Apache-2.0 */
/* Global memory within a launch. The blocks of a grid are not ordered among each other, so no block
 * may touch a byte that another writes. One bit per byte remembers what earlier blocks did. */
#ifndef NPU_SHARING_H
#define NPU_SHARING_H

#include "plugins/npu/access.h"

struct npu_sharing {
    uint64_t *read; /* bit i: the byte at NPU_GM_BASE + i */
    uint64_t *written;
    int64_t bytes; /* of each bitmap */
};

/* 0, or -1 when memory runs out. Close also what failed to open. */
int npu_sharing_open(struct npu_sharing *sharing, const struct npu_config *config);
void npu_sharing_close(struct npu_sharing *sharing);

/* Whether an access to GM conflicts with one that was noted; sets *address to such a byte. */
bool npu_sharing_conflicts(const struct npu_sharing *sharing, const struct npu_access *access,
                           int64_t *address);

/* Notes an access to GM, and forgets it again. */
void npu_sharing_note(struct npu_sharing *sharing, const struct npu_access *access);
void npu_sharing_forget(struct npu_sharing *sharing, const struct npu_access *access);

#endif
