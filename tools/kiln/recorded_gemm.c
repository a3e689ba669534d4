/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded call of kiln.gemm/1: its descriptor, its sizes, and how it reads in words. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kiln/plugin.h"
#include "tools/kiln/gemm_words.h"
#include "tools/kiln/recorded.h"

/* One sentence; false, so that `return refuse(…)` works. */
typedef struct complaint {
    char *text;
    size_t size;
} complaint;

static bool refuse(complaint *problem, const char *format, ...) KILN_PRINTF(2, 3);

static bool refuse(complaint *problem, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem->text, problem->size, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- The descriptor ---- */

static bool check_type(const char *name, uint32_t type, bool optional, complaint *problem)
{
    if (kiln_type_bits(type) || (optional && type == KILN_TYPE_NONE))
        return true;
    return refuse(problem, "%s is %u, a type that this version does not know", name, type);
}

static bool check_blocks(const kiln_quantization *scales, complaint *problem)
{
    for (int i = 0; i < 2; i++)
        if (scales->block[i] < -1 ||
            (scales->block[i] == 0 && (scales->scale_type || scales->zero_type)))
            return refuse(problem, "a scale for every %d x %d elements is none", scales->block[0],
                          scales->block[1]);
    return true;
}

static bool check_types(const kiln_gemm_desc *desc, complaint *problem)
{
    const kiln_quantization *scales[] = {&desc->a_quantization, &desc->b_quantization,
                                         &desc->d_quantization};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        if (!check_type("the type of scales", scales[i]->scale_type, true, problem) ||
            !check_type("the type of zero points", scales[i]->zero_type, true, problem) ||
            !check_blocks(scales[i], problem))
            return false;
    return check_type("a_type", desc->a_type, false, problem) &&
           check_type("b_type", desc->b_type, false, problem) &&
           check_type("c_type", desc->c_type, true, problem) &&
           check_type("d_type", desc->d_type, false, problem) &&
           check_type("accumulator", desc->accumulator, true, problem);
}

static bool check_epilogues(const kiln_gemm_desc *desc, complaint *problem)
{
    if (desc->epilogue_count > KILN_GEMM_MAX_EPILOGUES)
        return refuse(problem, "it has %u epilogues; %d are possible", desc->epilogue_count,
                      KILN_GEMM_MAX_EPILOGUES);
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        const kiln_epilogue *epilogue = &desc->epilogues[i];
        if (epilogue->kind == KILN_EPILOGUE_NONE || epilogue->kind > KILN_EPILOGUE_BIAS_GRADIENT ||
            epilogue->operand > KILN_OPERAND_MATRIX)
            return refuse(problem,
                          "epilogue %u has kind %u and operand shape %u, which this version does "
                          "not know",
                          i, epilogue->kind, epilogue->operand);
        if (!check_type("the type of an epilogue's operand", epilogue->type,
                        epilogue->operand == KILN_OPERAND_NONE, problem))
            return false;
    }
    return true;
}

static bool check_descriptor(kiln_gemm_desc *desc, complaint *problem)
{
    if ((desc->m | desc->n | desc->k | desc->batch | desc->groups) < 0)
        return refuse(problem, "m=%lld n=%lld k=%lld batch=%lld groups=%lld: none may be negative",
                      (long long)desc->m, (long long)desc->n, (long long)desc->k,
                      (long long)desc->batch, (long long)desc->groups);
    if (desc->batch == 0)
        desc->batch = 1;
    if (desc->grouping > KILN_GROUPING_K || desc->group_alignment < 0 ||
        (desc->grouping != KILN_GROUPING_NONE) != (desc->groups > 0))
        return refuse(problem, "grouping %u with %lld groups is not known to this version",
                      desc->grouping, (long long)desc->groups);
    return check_types(desc, problem) && check_epilogues(desc, problem);
}

/* ---- The sizes ---- */

typedef struct dimension {
    const char *name;
    uint32_t flag;
    size_t place; /* in the descriptor */
} dimension;

static const dimension dimensions[] = {
    {"m", KILN_GEMM_DYNAMIC_M, offsetof(kiln_gemm_desc, m)},
    {"n", KILN_GEMM_DYNAMIC_N, offsetof(kiln_gemm_desc, n)},
    {"k", KILN_GEMM_DYNAMIC_K, offsetof(kiln_gemm_desc, k)},
    {"batch", KILN_GEMM_DYNAMIC_BATCH, offsetof(kiln_gemm_desc, batch)},
};

enum { DIMENSIONS = sizeof dimensions / sizeof *dimensions };

static bool take_size(const recorded_call *call, const dimension *which, kiln_gemm_desc *desc,
                      complaint *problem)
{
    int64_t *planned = (int64_t *)(void *)((char *)desc + which->place);
    bool dynamic = desc->head.flags & which->flag;
    for (int64_t i = 0; i < call->size_count; i++) {
        int64_t value = call->sizes[i].value;
        if (strcmp(call->sizes[i].name, which->name) != 0)
            continue;
        if (dynamic ? value > *planned : value != *planned)
            return refuse(problem, "%s is %lld, but the plan was made for %s%lld", which->name,
                          (long long)value, dynamic ? "at most " : "", (long long)*planned);
        *planned = value;
        return true;
    }
    return !dynamic || refuse(problem, "%s is dynamic, and its size is not told", which->name);
}

static bool take_sizes(const recorded_call *call, kiln_gemm_desc *desc, complaint *problem)
{
    int64_t known = 0;
    for (int64_t i = 0; i < call->size_count; i++)
        for (int j = 0; j < DIMENSIONS; j++)
            known += strcmp(call->sizes[i].name, dimensions[j].name) == 0;
    if (known != call->size_count)
        return refuse(problem, "it has sizes that this version does not know");
    for (int i = 0; i < DIMENSIONS; i++)
        if (!take_size(call, &dimensions[i], desc, problem))
            return false;
    return true;
}

/* ---- Alignments ---- */

/* What a contiguous matrix with rows of `columns` elements can promise, not more than was. */
static uint32_t keepable(uint32_t promise, uint32_t type, int64_t columns)
{
    /* Bytes of a row: only the low bits of the product count. */
    uint64_t bits = (uint64_t)kiln_type_bits(type), row = (uint64_t)columns * (bits / 8);
    if (bits > 0 && bits < 8)
        row = (uint64_t)columns / (8 / bits) + ((uint64_t)columns % (8 / bits) != 0);
    uint32_t possible = (uint32_t)((row | 64) & (~(row | 64) + 1));
    return promise < possible ? promise : possible;
}

static void lower_promises(const kiln_gemm_desc *actual, kiln_gemm_desc *desc)
{
    const uint32_t flags = actual->head.flags;
    desc->a_alignment = keepable(desc->a_alignment, desc->a_type,
                                 flags & KILN_GEMM_TRANSPOSE_A ? actual->m : actual->k);
    desc->b_alignment = keepable(desc->b_alignment, desc->b_type,
                                 flags & KILN_GEMM_TRANSPOSE_B ? actual->k : actual->n);
    desc->c_alignment = keepable(desc->c_alignment, desc->c_type, actual->n);
    int64_t columns = actual->n;
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        kiln_epilogue *epilogue = &desc->epilogues[i];
        columns /= epilogue->kind == KILN_EPILOGUE_SWIGLU ? 2 : 1;
        epilogue->alignment = keepable(epilogue->alignment, epilogue->type,
                                       epilogue->operand == KILN_OPERAND_MATRIX ? columns : 0);
    }
    desc->d_alignment = keepable(desc->d_alignment, desc->d_type, columns);
}

bool recorded_gemm_read(const recorded_call *call, recorded_gemm *gemm, char *text, size_t size)
{
    complaint problem = {text, size};
    memset(gemm, 0, sizeof *gemm);
    if (strcmp(call->operator_name, KILN_GEMM) != 0)
        return refuse(&problem, "'%s' is not %s", call->operator_name, KILN_GEMM);
    if (kiln_receive_descriptor(&gemm->planned, sizeof gemm->planned, call->descriptor) != KILN_OK)
        return refuse(&problem, "its descriptor has fields that this version does not know");
    if (!check_descriptor(&gemm->planned, &problem))
        return false;
    gemm->actual = gemm->planned;
    gemm->sizes_told = call->size_count > 0;
    if (gemm->sizes_told && !take_sizes(call, &gemm->actual, &problem))
        return false;
    for (int i = 0; i < DIMENSIONS; i++)
        gemm->actual.head.flags &= ~dimensions[i].flag;
    gemm->sizes_told |= gemm->actual.head.flags == gemm->planned.head.flags;
    lower_promises(&gemm->actual, &gemm->planned);
    lower_promises(&gemm->actual, &gemm->actual);
    return true;
}

/* ---- Words ---- */

static void add_epilogues(tool_writer *self, const kiln_gemm_desc *desc)
{
    char text[96];
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        gemm_describe_epilogue(&desc->epilogues[i], desc->a_type, text, sizeof text);
        tool_write(self, "%s%s", i ? "," : " epilogues=", text);
    }
}

/* In bytes, whatever the promise. */
static uint32_t bytes_promised(uint32_t alignment, uint32_t type)
{
    return alignment ? alignment : (uint32_t)(kiln_type_bits(type) + 7) / 8;
}

/* Nothing where the words' own default is the same, one word where one says it. */
static void add_alignment(tool_writer *self, const kiln_gemm_desc *desc)
{
    kiln_gemm_desc most = *desc;
    most.a_alignment = most.b_alignment = most.c_alignment = most.d_alignment = 64;
    lower_promises(desc, &most);
    uint32_t a = bytes_promised(desc->a_alignment, desc->a_type),
             b = bytes_promised(desc->b_alignment, desc->b_type),
             d = bytes_promised(desc->d_alignment, desc->d_type),
             c = desc->c_type ? bytes_promised(desc->c_alignment, desc->c_type) : d;
    bool ordinary = a == most.a_alignment && b == most.b_alignment && d == most.d_alignment &&
                    (!desc->c_type || c == most.c_alignment);
    if (ordinary)
        return;
    if (a == b && b == d && c == d)
        tool_write(self, " alignment=%u", a);
    else
        tool_write(self, " [aligned: a %u b %u c %u d %u]", a, b, c, d);
}

const char *recorded_gemm_words(const kiln_gemm_desc *desc, char *text, size_t size)
{
    tool_writer self = {text, size, 0};
    const uint32_t flags = desc->head.flags;
    for (int i = 0; i < DIMENSIONS; i++) {
        int64_t value = *(const int64_t *)(const void *)((const char *)desc + dimensions[i].place);
        bool dynamic = flags & dimensions[i].flag, batch = i == DIMENSIONS - 1;
        if (!batch || value != 1 || dynamic)
            tool_write(&self, "%s%s%s%lld", i ? " " : "", dimensions[i].name, dynamic ? "<=" : "=",
                       (long long)value);
    }
    tool_write(&self, "%s%s", flags & KILN_GEMM_TRANSPOSE_A ? " transpose_a" : "",
               flags & KILN_GEMM_TRANSPOSE_B ? " transpose_b" : "");
    tool_write(&self, "%s", desc->c_type ? " beta=1" : "");
    if (desc->c_type && desc->c_type != desc->d_type)
        tool_write(&self, " c=%s", kiln_type_name(desc->c_type));
    add_epilogues(&self, desc);
    if (desc->accumulator)
        tool_write(&self, " accumulator=%s", kiln_type_name(desc->accumulator));
    tool_write(&self, "%s", flags & KILN_GEMM_SATURATE ? " saturate" : "");
    add_alignment(&self, desc);
    if (flags & (KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B))
        tool_write(&self, " [packed:%s%s]", flags & KILN_GEMM_PACKED_A ? " a" : "",
                   flags & KILN_GEMM_PACKED_B ? " b" : "");
    gemm_describe_more(desc, text, size);
    return text;
}
