/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of kiln.gemm/1: scales and zero points of A and B. */
#include <math.h>

#include "conformance/plugin/op/gemm_plain.h"
#include "conformance/plugin/op/op.h"

static bool is_quantised(const conformance_gemm_blocks *blocks)
{
    return blocks->scale_type || blocks->zero_type;
}

/* A size beside whole blocks; `way` from 0 to 3. */
static int64_t beside(int32_t block, int way, int64_t otherwise)
{
    const int64_t sizes[] = {block, block + 1, block - 1, 2 * (int64_t)block + 3};
    return block > 1 ? sizes[way] : otherwise + way;
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static void try_blocks(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    int32_t along = larger(types->a_blocks.along_k, types->b_blocks.along_k);
    for (int way = 0; way < 4; way++) {
        conformance_gemm_spec spec = conformance_gemm_plain(types, 9, 10, beside(along, way, 60));
        conformance_gemm_try(bench, "scales by blocks along K", &spec);
        spec = conformance_gemm_plain(types, beside(types->a_blocks.across, way, 5),
                                      beside(types->b_blocks.across, way, 6), 40);
        conformance_gemm_try(bench, "scales by blocks of rows and columns", &spec);
        spec.desc.head.flags ^= KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B;
        conformance_gemm_try(bench, "scales of transposed operands", &spec);
    }
}

static void try_places(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    int32_t along = larger(types->a_blocks.along_k, types->b_blocks.along_k);
    for (uint32_t slot = CONFORMANCE_GEMM_SCALE; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        conformance_gemm_spec spec = conformance_gemm_plain(types, 9, 10, beside(along, 3, 60));
        spec.gap[slot] = 6;
        conformance_gemm_try(bench, "rows of scales or zero points that are apart", &spec);
        spec.gap[slot] = 0;
        spec.offset[slot] = 8;
        conformance_gemm_try(bench, "scales or zero points that begin elsewhere", &spec);
    }
    for (int shared = 0; shared < 4; shared++) {
        conformance_gemm_spec spec = conformance_gemm_plain(types, 9, 10, beside(along, 1, 60));
        spec.batch = spec.desc.batch = 3;
        spec.shared[KILN_GEMM_A] = shared & 1;
        spec.shared[KILN_GEMM_B] = shared & 2;
        conformance_gemm_try(bench, "scales of a batch", &spec);
    }
}

/* One scale that is no ordinary number: what it belongs to follows, and nothing else does. */
static void try_special(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    for (uint32_t slot = KILN_GEMM_A; slot <= KILN_GEMM_B; slot++) {
        const conformance_gemm_blocks *blocks =
            slot == KILN_GEMM_A ? &types->a_blocks : &types->b_blocks;
        const double values[] = {(double)NAN, 0};
        for (int i = 0; blocks->scale_type && i < (blocks->scale_type == KILN_UE8M0 ? 1 : 2); i++) {
            conformance_gemm_spec spec = conformance_gemm_plain(types, 9, 10, 40);
            conformance_gemm_case *test = conformance_gemm_make(bench, &spec);
            if (!test)
                return;
            conformance_gemm_set(test, CONFORMANCE_GEMM_SCALE + slot, 0, 0, values[i]);
            conformance_gemm_try_case(bench, i == 0 ? "a scale that is NaN" : "a scale that is 0",
                                      test);
        }
    }
}

static void try_scales(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    if (!is_quantised(&types->a_blocks) && !is_quantised(&types->b_blocks))
        return;
    try_blocks(bench, types);
    if (!conformance_bench_failed(bench))
        try_places(bench, types);
    if (!conformance_bench_failed(bench))
        try_special(bench, types);
}

void conformance_op_gemm_scales(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_scales);
}
