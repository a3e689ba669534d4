/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes an instruction reads and writes. The hazard checks, the insertion of flags, the
 * bounds checks and the cost model all see an instruction through this one function. */
#ifndef NPU_ACCESS_H
#define NPU_ACCESS_H

#include "plugins/npu/program.h"

/* `runs` runs of `bytes` bytes, `stride` bytes from one to the next. In local memories at least the
   bytes touched; in GM exactly these. */
struct npu_access {
    enum npu_memory memory;
    bool write;
    int64_t address; /* local: from the start of the memory; GM: model address */
    int64_t runs;
    int64_t stride;
    int64_t bytes;
};

#define NPU_ACCESSES 4

/* Fills in the accesses of an instruction, reads first, and returns how many; 0 for flags, barriers
   and what has an empty extent. -1, with *reason set to static text, when extents, strides or
   pitches cannot be. */
int npu_accesses(const struct npu_instruction *instruction, const int64_t *registers,
                 struct npu_access access[NPU_ACCESSES], const char **reason);

/* The access to GM of a transfer; false for everything else and for what npu_accesses refuses. */
bool npu_global_access(const struct npu_instruction *instruction, const int64_t *registers,
                       struct npu_access *access);

/* Whether two accesses of one memory touch a common byte; sets *address to one. */
bool npu_access_overlap(const struct npu_access *a, const struct npu_access *b, int64_t *address);

/* One past the last byte. */
static inline int64_t npu_access_end(const struct npu_access *access)
{
    return access->address + (access->runs - 1) * access->stride + access->bytes;
}

static inline int64_t npu_access_bytes(const struct npu_access *access)
{
    return access->runs * access->bytes;
}

#endif
