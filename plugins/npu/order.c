/* SPDX-License-Identifier: Apache-2.0 */
/* Shadow state of local memory. */
#include "plugins/npu/order.h"

#include <stdlib.h>

int npu_shadow_open(struct npu_shadow *shadow, const struct npu_config *config)
{
    memset(shadow, 0, sizeof *shadow);
    for (int memory = NPU_L1; memory < NPU_MEMORIES; memory++) {
        shadow->granules[memory] = config->size[memory] / NPU_GRANULE;
        shadow->granule[memory] =
            calloc((size_t)shadow->granules[memory], sizeof *shadow->granule[memory]);
        if (!shadow->granule[memory])
            return -1;
    }
    return 0;
}

void npu_shadow_close(struct npu_shadow *shadow)
{
    for (int memory = 0; memory < NPU_MEMORIES; memory++)
        free(shadow->granule[memory]);
    memset(shadow, 0, sizeof *shadow);
}

void npu_shadow_begin_block(struct npu_shadow *shadow)
{
    if (++shadow->block)
        return;
    for (int memory = NPU_L1; memory < NPU_MEMORIES; memory++)
        memset(shadow->granule[memory], 0,
               (size_t)shadow->granules[memory] * sizeof *shadow->granule[memory]);
    shadow->block = 1;
}

/* Bits of the bytes of granule `index` that lie in [begin, end). */
static uint32_t byte_mask(int64_t index, int64_t begin, int64_t end)
{
    int64_t first = begin - index * NPU_GRANULE;
    int64_t last = end - index * NPU_GRANULE;
    uint32_t mask = UINT32_MAX;
    if (first > 0)
        mask &= UINT32_MAX << first;
    if (last < NPU_GRANULE)
        mask &= UINT32_MAX >> (NPU_GRANULE - last);
    return mask;
}

static void keep_newest(struct npu_clock *newest, uint32_t pipe, uint32_t clock)
{
    if (newest->of[pipe] < clock)
        newest->of[pipe] = clock;
}

static void visit_write(struct npu_granule *granule, enum npu_pipe pipe, uint32_t clock,
                        uint32_t mask, struct npu_clock *newest)
{
    for (uint32_t other = 0; other < NPU_PIPES; other++)
        if (other != pipe)
            keep_newest(newest, other, granule->read_clock[other]);
    granule->written |= mask;
    granule->write_pipe = pipe;
    granule->write_clock = clock;
}

bool npu_shadow_visit(struct npu_shadow *shadow, enum npu_pipe pipe, uint32_t clock,
                      const struct npu_access *access, struct npu_clock *newest, int64_t *address)
{
    struct npu_granule *granules = shadow->granule[access->memory];
    bool whole = true;
    for (int64_t run = 0; run < access->runs; run++) {
        int64_t begin = access->address + run * access->stride;
        int64_t end = begin + access->bytes;
        for (int64_t i = begin / NPU_GRANULE; i * NPU_GRANULE < end; i++) {
            struct npu_granule *granule = &granules[i];
            uint32_t mask = byte_mask(i, begin, end);
            if (granule->block != shadow->block)
                *granule = (struct npu_granule){.block = shadow->block};
            if (granule->write_clock && granule->write_pipe != pipe)
                keep_newest(newest, granule->write_pipe, granule->write_clock);
            if (access->write) {
                visit_write(granule, pipe, clock, mask, newest);
            } else {
                granule->read_clock[pipe] = clock;
                if ((granule->written & mask) != mask && whole) {
                    whole = false;
                    *address = i * NPU_GRANULE;
                }
            }
        }
    }
    return whole;
}
