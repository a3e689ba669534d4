/* SPDX-License-Identifier: Apache-2.0 */
/* Promised bits of everything that is served. The cases are those of the random sweep, in a form
 * that the plugin serves: equal seeds give equal values, in every session. */
#include "conformance/plugin/stress/bits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "conformance/gemm/case.h"
#include "conformance/hash.h"
#include "conformance/lines.h"

/* ---- What is served ---- */

static void add_case(const conformance_session *session, conformance_bits_cases *all,
                     const conformance_plain_types *form, int type, uint32_t epilogue,
                     uint32_t d_type)
{
    char reason[256];
    if (all->count == CONFORMANCE_BITS_CASES)
        return;
    conformance_bits_case *next = &all->cases[all->count];
    memset(next, 0, sizeof *next);
    next->form = *form;
    next->index = conformance_gemm_index(0, type, form->grouping);
    next->wish = (conformance_gemm_wish){.form = form,
                                         .ease = CONFORMANCE_EASE_ALL | CONFORMANCE_EASE_VALUES,
                                         .m = 70,
                                         .n = 66,
                                         .k = 301,
                                         .epilogue = epilogue,
                                         .d_type = d_type};
    conformance_gemm_case *test =
        conformance_gemm_near(session, all->seed, next->index, &next->wish, reason);
    all->count += test != NULL;
    conformance_gemm_case_free(test);
}

void conformance_bits_find(const conformance_session *session, uint64_t seed,
                           conformance_bits_cases *all)
{
    bool found[CONFORMANCE_GEMM_GROUPINGS] = {false};
    char reason[256];
    all->count = 0;
    all->seed = seed;
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES - 1; type++)
        for (uint32_t grouping = 0; grouping < CONFORMANCE_GEMM_GROUPINGS; grouping++) {
            conformance_plain_types form = conformance_plain_row(type);
            form.grouping = grouping;
            if (!conformance_plain_find(session, &form, reason))
                continue;
            bool twice = form.fast_too;
            form.fast_too = false; /* each case is of one kernel */
            add_case(session, all, &form, type, KILN_EPILOGUE_NONE, 0);
            if (twice) {
                conformance_plain_types fast = form;
                fast.precision = KILN_PRECISION_FAST;
                add_case(session, all, &fast, type, KILN_EPILOGUE_NONE, 0);
            }
            if (grouping != KILN_GROUPING_NONE && found[grouping])
                continue;
            found[grouping] = true;
            add_case(session, all, &form, type, KILN_EPILOGUE_SWIGLU, 0);
            add_case(session, all, &form, type, KILN_EPILOGUE_BIAS_GRADIENT, 0);
            add_case(session, all, &form, type, KILN_EPILOGUE_QUANTIZE,
                     type % 2 ? KILN_I8 : KILN_E4M3);
        }
}

/* ---- Outputs ---- */

/* Group of the case that a row belongs to, or any: false for rows that a run leaves alone, or may
 * overwrite with anything. */
static bool is_written(const conformance_gemm_case *test, int64_t leading, int64_t row)
{
    switch (test->desc.grouping) {
    case KILN_GROUPING_CONTIGUOUS:
        return conformance_case_group_of(test, row) >= 0;
    case KILN_GROUPING_MASKED:
        return row < conformance_case_groups_at(test, leading);
    default:
        return true;
    }
}

/* The elements of one line of an output, and nothing between them. */
static uint64_t hash_line(const conformance_tensor *made, int64_t line, uint64_t hash)
{
    const kiln_tensor *tensor = &made->tensor;
    const uint8_t *memory = conformance_line(tensor, made->memory, line);
    for (int64_t j = 0; j < conformance_line_elements(tensor); j++) {
        double value = kiln_load_f64(tensor->type, memory, conformance_line_index(tensor, j));
        if (isnan(value)) /* which one is nobody's promise */
            value = (double)NAN;
        hash = conformance_hash(hash, &value, sizeof value);
    }
    return hash;
}

/* Of the first `rows` of every matrix of D or D_SCALE. */
static uint64_t hash_rows(const conformance_gemm_case *test, uint32_t slot, int64_t rows)
{
    const conformance_tensor *made = &test->tensors[slot];
    uint64_t hash = 0;
    for (int64_t line = 0; made->memory && line < conformance_line_count(&made->tensor); line++) {
        int64_t row = line % test->m;
        if (row < rows && is_written(test, line / test->m, row))
            hash = hash_line(made, line, hash);
    }
    return hash;
}

static uint64_t hash_gradient(const conformance_gemm_case *test)
{
    const conformance_tensor *made = &test->tensors[KILN_GEMM_OPERAND];
    uint64_t hash = 0;
    if (test->desc.epilogues[0].kind == KILN_EPILOGUE_BIAS_GRADIENT)
        for (int64_t line = 0; line < conformance_line_count(&made->tensor); line++)
            hash = hash_line(made, line, hash);
    return hash;
}

static void hash_outputs(const conformance_gemm_case *test,
                         uint64_t hashes[CONFORMANCE_BITS_OUTPUTS])
{
    hashes[0] = hash_rows(test, KILN_GEMM_D, test->m);
    hashes[1] = hash_rows(test, KILN_GEMM_D_SCALE, test->m);
    hashes[2] = hash_gradient(test);
}

/* ---- Runs ---- */

static conformance_gemm_case *make(conformance_gemm_bench *bench, const conformance_bits_cases *all,
                                   const conformance_bits_case *self)
{
    char reason[256];
    conformance_gemm_wish wish = self->wish;
    wish.form = &self->form;
    conformance_gemm_case *test =
        conformance_gemm_near(&bench->session, all->seed, self->index, &wish, reason);
    bench->report->cases++;
    if (!test && reason[0] == '\0') {
        conformance_fail(bench->report, "no memory for a case");
    } else if (!test) {
        bench->report->declined++;
        snprintf(bench->last_decline, sizeof bench->last_decline, "%s", reason);
    } else {
        uint64_t hash = conformance_gemm_case_hash(test);
        bench->report->vectors = conformance_hash(bench->report->vectors, &hash, sizeof hash);
    }
    return test;
}

static void expect_same(conformance_gemm_bench *bench, const conformance_gemm_case *test,
                        const char *what, const uint64_t first[CONFORMANCE_BITS_OUTPUTS],
                        const uint64_t now[CONFORMANCE_BITS_OUTPUTS])
{
    static const char *const outputs[] = {"D", "D_SCALE", "the bias gradient"};
    char text[400];
    conformance_gemm_case_describe(test, text, sizeof text);
    const char *words = strchr(text, ':');
    for (int i = 0; i < CONFORMANCE_BITS_OUTPUTS; i++)
        if (first[i] != now[i])
            conformance_fail(bench->report,
                             "%s has other bits %s, though the answer promises the same:%s",
                             outputs[i], what, words ? words + 1 : text);
}

void conformance_bits_compare(conformance_gemm_bench *bench, conformance_bits_cases *all,
                              const char *what)
{
    for (int i = 0; i < all->count && !conformance_bench_failed(bench); i++) {
        conformance_bits_case *self = &all->cases[i];
        conformance_gemm_case *test = make(bench, all, self);
        uint64_t now[CONFORMANCE_BITS_OUTPUTS];
        if (conformance_bits_run(bench, test)) {
            hash_outputs(test, now);
            if (self->known)
                expect_same(bench, test, what, self->first, now);
            else
                memcpy(self->first, now, sizeof now);
            self->known = true;
        }
        conformance_gemm_case_free(test);
    }
}

/* ---- Elsewhere ---- */

/* Moves the elements of every tensor on by some bytes; the descriptor promises no more than is so
 * then. False when memory is exhausted. */
static bool move_tensors(conformance_gemm_case *test, int64_t elements)
{
    uint32_t *promises[] = {&test->desc.a_alignment, &test->desc.b_alignment,
                            &test->desc.c_alignment, &test->desc.d_alignment};
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        conformance_tensor *made = &test->tensors[slot];
        if (!made->memory)
            continue;
        int64_t bits = kiln_type_bits(made->tensor.type), by = elements * (bits < 8 ? 1 : bits / 8);
        int64_t bytes = (made->bytes + by + 63) / 64 * 64;
        uint8_t *memory = aligned_alloc(64, (size_t)bytes), *before = malloc((size_t)bytes);
        if (!memory || !before) {
            free(memory);
            free(before);
            return false;
        }
        memset(before, 0xff, (size_t)bytes);
        memcpy(before + by, made->before, (size_t)made->bytes);
        memcpy(memory, before, (size_t)bytes);
        free(made->memory);
        free(made->before);
        made->memory = memory;
        made->before = before;
        made->bytes = bytes;
        made->tensor.data = memory;
        made->tensor.byte_offset += by;
        uint32_t given = kiln_tensor_alignment(&made->tensor);
        if (slot < KILN_GEMM_OPERAND)
            *promises[slot] = given;
        else if (slot - KILN_GEMM_OPERAND < test->desc.epilogue_count)
            test->desc.epilogues[slot - KILN_GEMM_OPERAND].alignment = given;
    }
    return true;
}

void conformance_bits_move(conformance_gemm_bench *bench, conformance_bits_cases *all)
{
    for (int64_t by = 1; by <= 4; by *= 4)
        for (int i = 0; i < all->count && !conformance_bench_failed(bench); i++) {
            conformance_bits_case *self = &all->cases[i];
            conformance_gemm_case *test = self->known ? make(bench, all, self) : NULL;
            uint64_t now[CONFORMANCE_BITS_OUTPUTS];
            if (test && !move_tensors(test, by)) {
                conformance_fail(bench->report, "no memory for a case");
            } else if (test && conformance_gemm_ask(&bench->session, &test->desc).support ==
                                   KILN_SUPPORT_NO) {
                bench->report->declined++; /* it wants its alignment */
            } else if (conformance_bits_run(bench, test)) {
                hash_outputs(test, now);
                expect_same(bench, test, "at other addresses", self->first, now);
            }
            conformance_gemm_case_free(test);
        }
}

/* ---- Without the other rows ---- */

static void shrink_tensor(conformance_gemm_case *test, uint32_t slot, uint32_t from_last,
                          int64_t extent)
{
    kiln_tensor *tensor = &test->tensors[slot].tensor;
    if (test->tensors[slot].memory)
        tensor->shape[tensor->rank - 1 - from_last] = extent;
}

/* Leaves the first `rows` rows of op(A) and D. */
static void shrink(conformance_gemm_case *test, int64_t rows)
{
    bool transposed = test->desc.head.flags & KILN_GEMM_TRANSPOSE_A;
    uint32_t dimension = transposed ? 0 : 1; /* of M, from the last */
    int32_t block = test->desc.a_quantization.block[transposed];
    int64_t blocks = block > 0 ? (rows + block - 1) / block : 1;
    test->m = test->desc.m = rows;
    shrink_tensor(test, KILN_GEMM_A, dimension, rows);
    shrink_tensor(test, CONFORMANCE_GEMM_SCALE + KILN_GEMM_A, dimension, blocks);
    shrink_tensor(test, CONFORMANCE_GEMM_ZERO_POINT + KILN_GEMM_A, dimension, blocks);
    shrink_tensor(test, KILN_GEMM_D, 1, rows);
    shrink_tensor(test, KILN_GEMM_D_SCALE, 1, rows);
    if (test->desc.grouping == KILN_GROUPING_CONTIGUOUS)
        shrink_tensor(test, KILN_GEMM_GROUPS, 0, rows);
    conformance_tensor *groups = &test->tensors[KILN_GEMM_GROUPS];
    for (int64_t g = 0; test->desc.grouping == KILN_GROUPING_MASKED && g < test->desc.groups; g++)
        if (conformance_case_groups_at(test, g) > rows)
            for (int i = 0; i < 2; i++)
                kiln_store_f64(groups->tensor.type,
                               (i ? groups->before : groups->memory) + groups->tensor.byte_offset,
                               g, (double)rows, 0);
}

static void compare_rows(conformance_gemm_bench *bench, const conformance_gemm_case *whole,
                         conformance_gemm_case *part, int64_t rows)
{
    uint64_t first[CONFORMANCE_BITS_OUTPUTS] = {hash_rows(whole, KILN_GEMM_D, rows),
                                                hash_rows(whole, KILN_GEMM_D_SCALE, rows), 0};
    shrink(part, rows);
    if (conformance_gemm_ask(&bench->session, &part->desc).support == KILN_SUPPORT_NO) {
        bench->report->declined++;
        return;
    }
    if (conformance_bits_run(bench, part)) {
        /* A gradient is another sum then. */
        uint64_t now[CONFORMANCE_BITS_OUTPUTS] = {hash_rows(part, KILN_GEMM_D, rows),
                                                  hash_rows(part, KILN_GEMM_D_SCALE, rows), 0};
        expect_same(bench, part, "without the rows behind", first, now);
    }
}

void conformance_bits_shrink(conformance_gemm_bench *bench, conformance_bits_cases *all)
{
    static const int64_t heights[] = {1, 33};
    for (int i = 0; i < all->count && !conformance_bench_failed(bench); i++) {
        const conformance_bits_case *self = &all->cases[i];
        conformance_gemm_case *whole = make(bench, all, self);
        bool promised = conformance_bits_run(bench, whole);
        for (size_t k = 0; promised && k < sizeof heights / sizeof *heights; k++) {
            int64_t rows = conformance_gemm_size(heights[k], self->form.unit_m);
            if (rows >= whole->m || conformance_bench_failed(bench))
                continue;
            conformance_gemm_case *part = make(bench, all, self);
            if (part)
                compare_rows(bench, whole, part, rows);
            conformance_gemm_case_free(part);
        }
        conformance_gemm_case_free(whole);
    }
}

/* ---- Without the other groups ---- */

/* Leaves one matrix of a tensor that has the groups as leading dimension. */
static void take_group(conformance_gemm_case *test, uint32_t slot, int64_t group)
{
    kiln_tensor *tensor = &test->tensors[slot].tensor;
    if (!test->tensors[slot].memory || tensor->rank != 3)
        return;
    tensor->byte_offset += group * tensor->strides[0] * kiln_type_bits(tensor->type) / 8;
    tensor->rank = 2;
    for (int i = 0; i < 2; i++) {
        tensor->shape[i] = tensor->shape[i + 1];
        tensor->strides[i] = tensor->strides[i + 1];
    }
}

/* All rows, times the B of one group. */
static void ungroup(conformance_gemm_case *test, int64_t group)
{
    conformance_tensor *groups = &test->tensors[KILN_GEMM_GROUPS];
    test->desc.grouping = KILN_GROUPING_NONE;
    test->desc.groups = test->desc.group_alignment = 0;
    take_group(test, KILN_GEMM_B, group);
    take_group(test, CONFORMANCE_GEMM_SCALE + KILN_GEMM_B, group);
    take_group(test, CONFORMANCE_GEMM_ZERO_POINT + KILN_GEMM_B, group);
    free(groups->memory);
    free(groups->before);
    memset(groups, 0, sizeof *groups);
}

/* Of the rows of D that `grouped` says belong to a group. */
static uint64_t hash_group(const conformance_gemm_case *grouped, const conformance_gemm_case *test,
                           int64_t group)
{
    uint64_t hash = 0;
    for (int64_t row = 0; row < grouped->m; row++)
        if (conformance_case_group_of(grouped, row) == group)
            hash = hash_line(&test->tensors[KILN_GEMM_D], row, hash);
    return hash;
}

static void compare_group(conformance_gemm_bench *bench, const conformance_gemm_case *grouped,
                          conformance_gemm_case *part, int64_t group)
{
    uint64_t first[CONFORMANCE_BITS_OUTPUTS] = {hash_group(grouped, grouped, group), 0, 0};
    ungroup(part, group);
    if (conformance_gemm_ask(&bench->session, &part->desc).support == KILN_SUPPORT_NO) {
        bench->report->declined++;
    } else if (conformance_bits_run(bench, part)) {
        uint64_t now[CONFORMANCE_BITS_OUTPUTS] = {hash_group(grouped, part, group), 0, 0};
        expect_same(bench, grouped, "without the other groups", first, now);
    }
}

void conformance_bits_ungroup(conformance_gemm_bench *bench, conformance_bits_cases *all)
{
    for (int i = 0; i < all->count && !conformance_bench_failed(bench); i++) {
        const conformance_bits_case *self = &all->cases[i];
        /* Less precision may be had for one of them alone. */
        if (self->form.grouping != KILN_GROUPING_CONTIGUOUS ||
            self->form.precision != KILN_PRECISION_EXACT ||
            self->wish.epilogue != KILN_EPILOGUE_NONE)
            continue;
        conformance_gemm_case *grouped = make(bench, all, self);
        bool promised = conformance_bits_run(bench, grouped);
        for (int64_t group = 0; promised && group < grouped->desc.groups; group++) {
            conformance_gemm_case *part =
                conformance_bench_failed(bench) ? NULL : make(bench, all, self);
            if (part)
                compare_group(bench, grouped, part, group);
            conformance_gemm_case_free(part);
        }
        conformance_gemm_case_free(grouped);
    }
}

/* ---- Shares ---- */

static void share(conformance_gemm_bench *bench, conformance_gemm_case *test,
                  const uint64_t first[CONFORMANCE_BITS_OUTPUTS])
{
    kiln_plan *plan = conformance_gemm_plan(bench, &test->desc);
    kiln_tensor tensors[CONFORMANCE_GEMM_TENSORS];
    uint64_t now[CONFORMANCE_BITS_OUTPUTS];
    for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++)
        tensors[slot] = test->tensors[slot].tensor;
    kiln_gemm_args args = {{sizeof args, KILN_GEMM_SLOTS, tensors}, test->alpha, test->beta};
    for (int64_t count = 1; plan && count < 7 && !conformance_bench_failed(bench); count += 2) {
        kiln_status status = KILN_OK;
        for (int64_t part = 0; status == KILN_OK && part < count; part++)
            status = kiln_plan_run_part(plan, part, count, &args.head);
        if (status != KILN_OK) {
            conformance_fail(bench->report, "a share fails: %s", kiln_last_error());
        } else {
            hash_outputs(test, now);
            expect_same(bench, test, "in another number of shares", first, now);
        }
    }
    kiln_plan_release(plan);
}

void conformance_bits_share(conformance_gemm_bench *bench, conformance_bits_cases *all)
{
    for (int i = 0; i < all->count && !conformance_bench_failed(bench); i++) {
        conformance_gemm_case *test = make(bench, all, &all->cases[i]);
        uint64_t first[CONFORMANCE_BITS_OUTPUTS];
        if (conformance_bits_run(bench, test)) {
            hash_outputs(test, first);
            share(bench, test, first);
        }
        conformance_gemm_case_free(test);
    }
}
