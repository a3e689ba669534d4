/* SPDX-License-Identifier: Apache-2.0 */
/* Random GEMM cases: making, naming and spoiling them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "conformance/gemm/case.h"

conformance_gemm_case *conformance_gemm_case_create(uint64_t seed, int64_t index)
{
    conformance_gemm_case *test = calloc(1, sizeof *test);
    uint64_t random = conformance_case_random(seed, index);
    if (!test)
        return NULL;
    test->seed = seed;
    test->index = index;
    conformance_case_choose(&random, test);
    if (!conformance_case_make_tensors(&random, test)) {
        conformance_gemm_case_free(test);
        return NULL;
    }
    conformance_case_fill(&random, test);
    return test;
}

void conformance_gemm_case_free(conformance_gemm_case *test)
{
    if (!test)
        return;
    for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        free(test->tensors[slot].memory);
        free(test->tensors[slot].before);
    }
    if (test->expected)
        conformance_gemm_expected_free(test->expected);
    free(test->expected);
    free(test);
}

/* ---- In words ---- */

typedef struct text_room {
    char *text;
    size_t size;
} text_room;

static void append(text_room *room, const char *format, ...) KILN_PRINTF(2, 3);
static void append(text_room *room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(room->text, room->size, format, arguments);
    va_end(arguments);
    size_t step = written < 0                    ? 0
                  : (size_t)written < room->size ? (size_t)written
                                                 : room->size - (room->size > 0);
    room->text += step;
    room->size -= step;
}

static void append_operand(text_room *room, const char *name, uint32_t type,
                           const kiln_quantization *quantization, bool packed)
{
    append(room, ", %s %s%s", name, kiln_type_name(type), packed ? " packed" : "");
    if (quantization->scale_type || quantization->zero_type)
        append(room, " by %dx%d %s%s", quantization->block[0], quantization->block[1],
               kiln_type_name(quantization->scale_type), quantization->zero_type ? " zero" : "");
}

static void append_epilogues(text_room *room, const conformance_gemm_case *test)
{
    static const char *const shapes[] = {"", ".scalar", ".row", ".column", ".matrix"};
    for (uint32_t i = 0; i < test->desc.epilogue_count; i++) {
        const kiln_epilogue *epilogue = &test->desc.epilogues[i];
        append(room, "%s%s%s", i ? " " : ", then ", conformance_gemm_kinds[epilogue->kind],
               shapes[epilogue->operand]);
        if (epilogue->kind == KILN_EPILOGUE_SWIGLU && epilogue->p0 != 0)
            append(room, ".%g", epilogue->p0);
        uint32_t own = epilogue->operand == KILN_OPERAND_MATRIX ? 2 : 1;
        if (epilogue->operand && test->tensors[KILN_GEMM_OPERAND + i].tensor.rank > own)
            append(room, "s");
    }
}

void conformance_gemm_case_describe(const conformance_gemm_case *test, char *text, size_t size)
{
    const kiln_gemm_desc *desc = &test->desc;
    uint32_t flags = desc->head.flags;
    text_room room = {text, size};
    append(&room, "seed %llu case %lld: %s %s, M %lld N %lld K %lld",
           (unsigned long long)test->seed, (long long)test->index,
           conformance_gemm_types[test->type].name,
           conformance_gemm_layouts[(flags & KILN_GEMM_TRANSPOSE_A ? 2 : 0) +
                                    (flags & KILN_GEMM_TRANSPOSE_B ? 1 : 0)],
           (long long)test->m, (long long)test->n, (long long)test->k);
    if (desc->grouping != KILN_GROUPING_NONE)
        append(&room, ", %lld groups %s", (long long)desc->groups,
               conformance_gemm_groupings[desc->grouping]);
    else if (test->tensors[KILN_GEMM_D].tensor.rank == 3)
        append(&room, ", batch %lld", (long long)test->batch);
    append(&room, ", alpha %.9g beta %.9g", test->alpha, test->beta);
    append_operand(&room, "A", desc->a_type, &desc->a_quantization, flags & KILN_GEMM_PACKED_A);
    append_operand(&room, "B", desc->b_type, &desc->b_quantization, flags & KILN_GEMM_PACKED_B);
    if (desc->c_type != KILN_TYPE_NONE)
        append(&room, ", C %s%s", kiln_type_name(desc->c_type), test->aliased ? " = D" : "");
    append_operand(&room, "D", desc->d_type, &desc->d_quantization, false);
    append(&room, "%s", flags & KILN_GEMM_SATURATE ? " saturating" : "");
    append_epilogues(&room, test);
    if (desc->precision != KILN_PRECISION_EXACT)
        append(&room, ", precision %s %.3g",
               desc->precision == KILN_PRECISION_FAST ? "fast" : "auto", desc->max_rel_error);
    append(&room, "%s%s%s", test->violates ? ", groups beyond their limits" : "",
           test->streamed ? ", on a stream" : "", test->wrapped ? ", in wrapped buffers" : "");
}

/* ---- As a number ---- */

static uint64_t hash_tensor(const conformance_tensor *made, uint64_t hash)
{
    const kiln_tensor *tensor = &made->tensor;
    int64_t form[] = {tensor->type,           tensor->rank,           tensor->byte_offset,
                      tensor->scale_block[0], tensor->scale_block[1], made->bytes};
    hash = XXH3_64bits_withSeed(form, sizeof form, hash);
    hash = XXH3_64bits_withSeed(tensor->shape, sizeof tensor->shape, hash);
    hash = XXH3_64bits_withSeed(tensor->strides, sizeof tensor->strides, hash);
    return made->before ? XXH3_64bits_withSeed(made->before, (size_t)made->bytes, hash) : hash;
}

uint64_t conformance_gemm_case_hash(const conformance_gemm_case *test)
{
    double factors[] = {test->alpha, test->beta};
    uint64_t hash = XXH3_64bits(&test->desc, sizeof test->desc);
    hash = XXH3_64bits_withSeed(factors, sizeof factors, hash);
    for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++)
        hash = hash_tensor(&test->tensors[slot], hash);
    return hash ? hash : 1;
}

/* ---- Beyond the limits of groups ---- */

static void spoil(conformance_gemm_case *test, int64_t index, int64_t value)
{
    conformance_tensor *groups = &test->tensors[KILN_GEMM_GROUPS];
    uint8_t *places[] = {groups->memory, groups->before};
    for (int i = 0; i < 2; i++)
        kiln_store_f64(groups->tensor.type, places[i] + groups->tensor.byte_offset, index,
                       (double)value, 0);
    test->violates = true;
}

bool conformance_gemm_case_violate(conformance_gemm_case *test, uint64_t choice)
{
    int64_t m = test->m, k = test->k, groups = test->desc.groups;
    bool computes =
        m > 0 && test->n > 0 && k > 0 && kiln_gemm_factor(&test->desc, test->alpha) != 0;
    uint64_t where = choice / 4;
    if (!computes || test->desc.grouping == KILN_GROUPING_NONE)
        return false;
    if (test->desc.grouping == KILN_GROUPING_CONTIGUOUS) {
        const int64_t indices[] = {groups, INT32_MAX, -2, INT32_MIN};
        spoil(test, (int64_t)(where % (uint64_t)m), indices[choice % 4]);
    } else if (test->desc.grouping == KILN_GROUPING_MASKED) {
        const int64_t counts[] = {m + 1, INT32_MAX, -1, INT32_MIN};
        spoil(test, (int64_t)(where % (uint64_t)groups), counts[choice % 4]);
    } else {
        const int64_t ends[] = {k + 1, INT32_MAX, -1, k};
        int64_t group = (int64_t)(where % (uint64_t)groups);
        bool decreases = choice % 4 < 3 ||
                         (group + 1 < groups && conformance_case_groups_at(test, group + 1) < k);
        spoil(test, group, decreases ? ends[choice % 4] : -1);
    }
    return true;
}
