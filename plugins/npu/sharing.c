/* SPDX-License-Identifier: Apache-2.0 */
/* Bitmaps over global memory. */
#include "plugins/npu/sharing.h"

#include "plugins/npu/memory.h"

int npu_sharing_open(struct npu_sharing *sharing, const struct npu_config *config)
{
    sharing->bytes = npu_round_up(config->size[NPU_GM], 64) / 8;
    sharing->read = npu_pages_alloc(sharing->bytes);
    sharing->written = npu_pages_alloc(sharing->bytes);
    return sharing->read && sharing->written ? 0 : -1;
}

void npu_sharing_close(struct npu_sharing *sharing)
{
    npu_pages_free(sharing->read, sharing->bytes);
    npu_pages_free(sharing->written, sharing->bytes);
    memset(sharing, 0, sizeof *sharing);
}

/* The bits of [begin, end) that fall into word `word`. */
static uint64_t word_mask(int64_t word, int64_t begin, int64_t end)
{
    uint64_t mask = UINT64_MAX;
    if (begin > word * 64)
        mask &= UINT64_MAX << (begin - word * 64);
    if (end < word * 64 + 64)
        mask &= UINT64_MAX >> (word * 64 + 64 - end);
    return mask;
}

static int64_t first_bit(uint64_t word)
{
    int64_t bit = 0;
    while (!(word >> bit & 1))
        bit++;
    return bit;
}

static bool find_bit(const uint64_t *bits, int64_t begin, int64_t end, int64_t *found)
{
    for (int64_t word = begin / 64; word * 64 < end; word++) {
        uint64_t hit = bits[word] & word_mask(word, begin, end);
        if (hit) {
            *found = word * 64 + first_bit(hit);
            return true;
        }
    }
    return false;
}

static void change_bits(uint64_t *bits, const struct npu_access *access, bool set)
{
    for (int64_t run = 0; run < access->runs; run++) {
        int64_t begin = access->address - NPU_GM_BASE + run * access->stride;
        int64_t end = begin + access->bytes;
        for (int64_t word = begin / 64; word * 64 < end; word++) {
            uint64_t mask = word_mask(word, begin, end);
            bits[word] = set ? bits[word] | mask : bits[word] & ~mask;
        }
    }
}

bool npu_sharing_conflicts(const struct npu_sharing *sharing, const struct npu_access *access,
                           int64_t *address)
{
    for (int64_t run = 0; run < access->runs; run++) {
        int64_t begin = access->address - NPU_GM_BASE + run * access->stride;
        int64_t end = begin + access->bytes;
        int64_t found;
        if (find_bit(sharing->written, begin, end, &found) ||
            (access->write && find_bit(sharing->read, begin, end, &found))) {
            *address = NPU_GM_BASE + found;
            return true;
        }
    }
    return false;
}

void npu_sharing_note(struct npu_sharing *sharing, const struct npu_access *access)
{
    change_bits(access->write ? sharing->written : sharing->read, access, true);
}

void npu_sharing_forget(struct npu_sharing *sharing, const struct npu_access *access)
{
    change_bits(access->write ? sharing->written : sharing->read, access, false);
}
