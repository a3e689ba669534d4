/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of kiln.gemm/1: sizes, layouts, places in memory and factors, each by itself. */
#include "conformance/plugin/op/gemm_plain.h"
#include "conformance/plugin/op/op.h"

/* ---- Layouts and sizes ---- */

static void try_layouts(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {2, 3, 1},    {5, 1, 7},  {1, 9, 8},
                                       {17, 13, 19}, {16, 24, 32}, {33, 7, 65}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t transposes = 0; transposes < 4; transposes++) {
            conformance_gemm_spec spec =
                conformance_gemm_plain(types, sizes[i][0], sizes[i][1], sizes[i][2]);
            spec.desc.head.flags = (transposes & 1 ? KILN_GEMM_TRANSPOSE_A : 0) |
                                   (transposes & 2 ? KILN_GEMM_TRANSPOSE_B : 0);
            conformance_gemm_try(bench, "a layout", &spec);
        }
}

void conformance_op_gemm_layouts(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_layouts);
}

static void try_tails(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    static const int64_t extents[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,   11,  13,  15,
                                      16, 17, 23, 31, 33, 47, 63, 65, 100, 127, 129, 255};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        for (int which = 0; which < 3; which++) {
            int64_t size[3] = {4, 8, 16};
            size[which] = extents[i];
            conformance_gemm_spec spec = conformance_gemm_plain(types, size[0], size[1], size[2]);
            conformance_gemm_try(bench, "a size beside those that hardware likes", &spec);
        }
}

void conformance_op_gemm_tails(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_tails);
}

static void try_zero_sizes(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    for (int empty = 1; empty < 16; empty++) {
        conformance_gemm_spec spec = conformance_gemm_plain(types, 5, 6, 7);
        if (empty & 1)
            spec.desc.m = spec.m = 0;
        if (empty & 2)
            spec.desc.n = spec.n = 0;
        if (empty & 4)
            spec.desc.k = spec.k = 0;
        if (empty & 8) {
            spec.desc.head.flags |= KILN_GEMM_DYNAMIC_BATCH;
            spec.batch = 0;
        }
        conformance_gemm_try(bench, "an empty size", &spec);
    }
    /* Without steps beta C is left. */
    conformance_gemm_spec spec = conformance_gemm_plain(types, 5, 6, 0);
    spec.desc.c_type = types->d;
    spec.beta = 1;
    conformance_gemm_try(bench, "K = 0 with C", &spec);
}

void conformance_op_gemm_zero_sizes(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_zero_sizes);
}

/* Every size up to the maximum, with one plan: the cache keeps it. */
static void try_dynamic(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    static const uint32_t flags[] = {KILN_GEMM_DYNAMIC_M, KILN_GEMM_DYNAMIC_N, KILN_GEMM_DYNAMIC_K,
                                     KILN_GEMM_DYNAMIC_BATCH};
    static const int64_t limits[] = {33, 18, 40, 4};
    for (int which = 0; which < 4; which++)
        for (int64_t size = 0; size <= limits[which]; size++) {
            conformance_gemm_spec spec = conformance_gemm_plain(types, 3, 5, 9);
            int64_t *maxima[] = {&spec.desc.m, &spec.desc.n, &spec.desc.k, &spec.desc.batch};
            int64_t *sizes[] = {&spec.m, &spec.n, &spec.k, &spec.batch};
            spec.desc.head.flags |= flags[which];
            spec.batched = which == 3;
            *maxima[which] = conformance_gemm_size(limits[which], which == 3   ? 1
                                                                  : which == 0 ? types->unit_m
                                                                               : types->unit);
            *sizes[which] = size;
            conformance_gemm_try(bench, "a dynamic size", &spec);
        }
}

void conformance_op_gemm_dynamic(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_dynamic);
}

/* ---- Places in memory ---- */

static void try_strides(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    static const uint32_t slots[] = {KILN_GEMM_A, KILN_GEMM_B, KILN_GEMM_C, KILN_GEMM_OPERAND};
    static const int64_t gaps[] = {1, 2, 8, 13, 100};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        for (size_t k = 0; k < sizeof gaps / sizeof *gaps; k++)
            for (uint32_t transposes = 0; transposes < 4; transposes += 3) {
                conformance_gemm_spec spec = conformance_gemm_plain(types, 9, 10, 12);
                spec.desc.head.flags ^= transposes;
                if (slots[i] == KILN_GEMM_C) {
                    spec.desc.c_type = types->d;
                    spec.beta = 1;
                }
                if (slots[i] == KILN_GEMM_OPERAND)
                    conformance_gemm_add(&spec, KILN_EPILOGUE_RESIDUAL, KILN_OPERAND_MATRIX);
                spec.gap[slots[i]] = gaps[k];
                conformance_gemm_try(bench, "rows that are apart", &spec);
            }
}

void conformance_op_gemm_strides(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_strides);
}

static void try_gaps(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    static const int64_t columns[] = {1, 5, 8, 16, 17};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        for (int64_t gap = 1; gap <= 33; gap += 8) {
            conformance_gemm_spec spec = conformance_gemm_plain(types, 7, columns[i], 9);
            spec.gap[KILN_GEMM_D] = gap;
            conformance_gemm_try(bench, "rows of D that are apart", &spec);
        }
}

void conformance_op_gemm_gaps(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_gaps);
}

/* One tensor after the other at every byte, and all of them at once. Where the descriptor's
 * alignment would be refused, so is the plan. */
static void try_offsets(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    for (int64_t offset = 1; offset < 64; offset += offset < 9 ? 1 : 11)
        for (uint32_t which = 0; which < 5; which++) {
            conformance_gemm_spec spec = conformance_gemm_plain(types, 5, 8, 16);
            spec.desc.c_type = types->d;
            spec.beta = 1;
            for (uint32_t slot = 0; slot < KILN_GEMM_OPERAND; slot++)
                if (which == slot || which == KILN_GEMM_OPERAND)
                    spec.offset[slot] = offset;
            conformance_gemm_try(bench, "a base off alignment", &spec);
        }
}

void conformance_op_gemm_offsets(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_offsets);
}

/* Promises that the descriptor makes, kept no better than promised. */
static void try_alignments(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    for (uint32_t alignment = 8; alignment <= 64; alignment *= 2) {
        int64_t elements = (int64_t)alignment * 8 / kiln_type_bits(types->a);
        conformance_gemm_spec spec = conformance_gemm_plain(types, 5, 128, 128);
        uint32_t *promises[] = {&spec.desc.a_alignment, &spec.desc.b_alignment,
                                &spec.desc.d_alignment};
        static const uint32_t slots[] = {KILN_GEMM_A, KILN_GEMM_B, KILN_GEMM_D};
        for (int i = 0; i < 3; i++) {
            *promises[i] = alignment;
            spec.offset[slots[i]] = alignment;
        }
        conformance_gemm_try(bench, "an alignment that is promised", &spec);
        spec.gap[KILN_GEMM_A] = elements;
        conformance_gemm_try(bench, "an alignment that is promised, with rows apart", &spec);
    }
}

void conformance_op_gemm_alignments(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_alignments);
}

static void try_batches(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    bool served = false;
    for (int64_t batch = 4; batch > 0; batch--)
        /* One matrix alone does not make the check apply. */
        for (int shared = 0; shared < 4 && (batch > 1 || served); shared++) {
            conformance_gemm_spec spec = conformance_gemm_plain(types, 5, 6, 7);
            spec.batch = spec.desc.batch = batch;
            spec.batched = true;
            spec.shared[KILN_GEMM_A] = shared & 1;
            spec.shared[KILN_GEMM_B] = shared & 2;
            served |= conformance_gemm_try(bench, "a batch", &spec) == CONFORMANCE_PASSED;
        }
    conformance_gemm_spec spec = conformance_gemm_plain(types, 5, 6, 7);
    spec.batch = spec.desc.batch = 3;
    spec.desc.c_type = types->d;
    spec.beta = 1;
    conformance_gemm_try(bench, "a batch with C", &spec);
    spec.shared[KILN_GEMM_C] = true;
    conformance_gemm_try(bench, "a batch that shares C", &spec);
}

void conformance_op_gemm_batches(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_batches);
}

/* ---- Factors and C ---- */

static void try_factors(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    static const double factors[] = {1, -1, 0.5, -2.75, 0x1p-12, 3.0000001};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        conformance_gemm_spec spec = conformance_gemm_plain(types, 6, 9, 10);
        spec.alpha = factors[i];
        conformance_gemm_try(bench, "alpha", &spec);
        spec.desc.c_type = types->d;
        for (size_t k = 0; k < sizeof factors / sizeof *factors; k++) {
            spec.beta = factors[k];
            conformance_gemm_try(bench, "alpha and beta", &spec);
        }
    }
}

void conformance_op_gemm_factors(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_factors);
}

static void try_alias(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    static const int64_t sizes[][3] = {{1, 1, 2}, {19, 21, 8}, {64, 70, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        conformance_gemm_spec spec =
            conformance_gemm_plain(types, sizes[i][0], sizes[i][1], sizes[i][2]);
        spec.desc.c_type = types->d;
        spec.beta = 1;
        spec.aliased = true;
        conformance_gemm_try(bench, "C that is D", &spec);
    }
}

void conformance_op_gemm_alias(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_alias);
}
