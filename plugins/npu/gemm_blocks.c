/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting a matrix product into blocks, and where the pieces of a block lie. */
#include "plugins/npu/gemm_layout.h"

#include <stdio.h>

#define BLOCK_MAX   128 /* rows and columns; more gain nothing on memories of this class */
#define SLICES      2   /* slices of L0 in a block of L1 */
#define COUNT_LIMIT (INT64_C(1) << 20)

/* Matrices other than A and B that pass through UB: the widest, and whether one is not f32. */
static int64_t widest_matrix(const struct npu_gemm *gemm, int64_t columns, bool *convert)
{
    int64_t widest = 0;
    *convert = false;
    for (uint32_t i = 0; i < gemm->epilogues + 1; i++) {
        bool is_c = i == gemm->epilogues;
        enum npu_type type = is_c ? gemm->c_type : gemm->epilogue[i].type;
        if (!is_c && gemm->epilogue[i].shape != NPU_OPERAND_MATRIX)
            continue;
        int64_t row = npu_round_up(columns * npu_type_bytes(type), NPU_GRANULE);
        widest = row > widest ? row : widest;
        *convert = *convert || type != NPU_F32;
    }
    int64_t out = npu_round_up(columns * npu_type_bytes(gemm->d_type), NPU_GRANULE);
    return out > widest ? out : widest;
}

/* Hands out `bytes` from *end on, at a place that suits every instruction. */
static int64_t take(int64_t *end, int64_t bytes, uint32_t alignment)
{
    int64_t place = npu_round_up(*end, alignment);
    *end = place + bytes;
    return place;
}

void npu_gemm_layout(const struct npu_config *config, const struct npu_gemm *gemm,
                     const struct npu_gemm_blocks *blocks, struct npu_gemm_layout *layout)
{
    int64_t size = npu_type_bytes(gemm->type);
    const uint32_t *alignment = config->alignment;
    bool convert;
    memset(layout, 0, sizeof *layout);
    for (int i = 0; i < 2; i++) {
        layout->l1_a[i] = take(&layout->l1_end, blocks->m * blocks->k * size, alignment[NPU_L1]);
        layout->l1_b[i] = take(&layout->l1_end, blocks->n * blocks->k * size, alignment[NPU_L1]);
        layout->l0a[i] =
            take(&layout->l0a_end, blocks->m * blocks->depth * size, alignment[NPU_L0A]);
        layout->l0b[i] =
            take(&layout->l0b_end, blocks->n * blocks->depth * size, alignment[NPU_L0B]);
    }
    layout->l0c_end = blocks->m * blocks->n * 4;
    int64_t vector = (blocks->m > blocks->n ? blocks->m : blocks->n) * 4;
    int64_t matrix = blocks->m * widest_matrix(gemm, blocks->n, &convert);
    layout->values = take(&layout->ub_end, blocks->m * blocks->n * 4, alignment[NPU_UB]);
    layout->matrix = take(&layout->ub_end, matrix, alignment[NPU_UB]);
    layout->matrix_f32 =
        take(&layout->ub_end, convert ? blocks->m * blocks->n * 4 : 0, alignment[NPU_UB]);
    layout->vector = take(&layout->ub_end, vector, alignment[NPU_UB]);
    layout->vector_f32 = take(&layout->ub_end, vector, alignment[NPU_UB]);
}

static bool fits(const struct npu_config *config, const struct npu_gemm *gemm,
                 const struct npu_gemm_blocks *blocks, enum npu_memory *full, int64_t *needed)
{
    struct npu_gemm_layout layout;
    npu_gemm_layout(config, gemm, blocks, &layout);
    const struct {
        enum npu_memory memory;
        int64_t end;
    } ends[] = {{NPU_UB, layout.ub_end},
                {NPU_L0C, layout.l0c_end},
                {NPU_L0A, layout.l0a_end},
                {NPU_L0B, layout.l0b_end},
                {NPU_L1, layout.l1_end}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i].end > config->size[ends[i].memory]) {
            *full = ends[i].memory;
            *needed = ends[i].end;
            return false;
        }
    return true;
}

int npu_gemm_check_blocks(const struct npu_config *config, const struct npu_gemm *gemm,
                          const struct npu_gemm_blocks *blocks, char *error, size_t size)
{
    int64_t across = npu_across(gemm->type), needed;
    enum npu_memory full;
    if (blocks->m < across || blocks->n < across || blocks->depth < across || blocks->m % across ||
        blocks->n % across || blocks->depth % across || blocks->k < blocks->depth ||
        blocks->k % blocks->depth || blocks->m > 4096 || blocks->n > 4096 || blocks->k > 65536) {
        snprintf(
            error, size,
            "blocks of %lld x %lld x %lld with slices of %lld cannot be used: each extent must "
            "be a multiple of %lld, and the block's depth one of the slice's",
            (long long)blocks->m, (long long)blocks->n, (long long)blocks->k,
            (long long)blocks->depth, (long long)across);
        return -1;
    }
    if (!fits(config, gemm, blocks, &full, &needed)) {
        snprintf(error, size, "blocks of %lld x %lld x %lld need %lld bytes of %s, which has %lld",
                 (long long)blocks->m, (long long)blocks->n, (long long)blocks->k,
                 (long long)needed, npu_memory_name(full), (long long)config->size[full]);
        return -1;
    }
    /* A slice takes about eight instructions and a block of L1 as many. */
    int64_t slices = gemm->k / blocks->depth + 1;
    if (gemm->k > (1 << 24) || slices * 16 > COUNT_LIMIT) {
        snprintf(error, size, "K = %lld would take a program of more than %lld instructions",
                 (long long)gemm->k, (long long)COUNT_LIMIT);
        return -1;
    }
    return 0;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int npu_gemm_choose_blocks(const struct npu_config *config, const struct npu_gemm *gemm,
                           struct npu_gemm_blocks *blocks, char *error, size_t size)
{
    int64_t across = npu_across(gemm->type), needed;
    int64_t depth = npu_round_up(gemm->k > 0 ? gemm->k : 1, across);
    enum npu_memory full;
    *blocks = (struct npu_gemm_blocks){
        npu_round_up(smaller(gemm->m > 0 ? gemm->m : 1, BLOCK_MAX), across),
        npu_round_up(smaller(gemm->n > 0 ? gemm->n : 1, BLOCK_MAX), across), across, across};
    /* D's block first, with the smallest depth: it decides how often A and B are read. */
    while (!fits(config, gemm, blocks, &full, &needed)) {
        int64_t *larger = blocks->m > blocks->n ? &blocks->m : &blocks->n;
        if (*larger <= across) {
            snprintf(error, size,
                     "the smallest block needs %lld bytes of %s, which has %lld: the memory is too "
                     "small for this product",
                     (long long)needed, npu_memory_name(full), (long long)config->size[full]);
            return -1;
        }
        *larger -= across;
    }
    /* Then the deepest slice, and as many of them as a block of L1 holds. */
    struct npu_gemm_blocks next = *blocks;
    while (next.depth < depth && next.depth < 4096) {
        next.depth += across;
        next.k = next.depth;
        if (!fits(config, gemm, &next, &full, &needed))
            break;
        *blocks = next;
    }
    next = *blocks;
    while (next.k < smaller(depth, SLICES * next.depth)) {
        next.k += next.depth;
        if (!fits(config, gemm, &next, &full, &needed))
            break;
        *blocks = next;
    }
    return npu_gemm_check_blocks(config, gemm, blocks, error, size);
}
