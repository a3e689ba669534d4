/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a GEMM in words. */
#define _GNU_SOURCE /* strsep */
#include "tools/kiln/gemm_words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/yaml.h"
#include "tools/kiln/command.h"

const char gemm_words_help[] =
    "  m=M n=N k=K          op(A) is M×K, op(B) K×N, D M×N\n"
    "  batch=COUNT          that many GEMMs of this shape\n"
    "  type=TYPE            f64, f32, f16, bf16, i8, … of A, B and D (D of i8 is i32)\n"
    "  a= b= c= d=TYPE      of one matrix only\n"
    "  transpose_a          A is stored [K, M]\n"
    "  transpose_b          B is stored [N, K]\n"
    "  alpha=X beta=Y       D = epilogues(alpha op(A) op(B) + beta C)\n"
    "  epilogues=LIST       in order, separated by commas: bias, relu, gelu_erf,\n"
    "                       gelu_tanh, silu, residual, multiply, scale, scale:X,\n"
    "                       clip:LOW:HIGH; operands take :scalar, :row or :column\n"
    "                       and a type, as in bias:column:f16\n"
    "  dynamic=LIST         dimensions whose value is a maximum: m,n,k,batch\n"
    "  alignment=BYTES      what addresses and strides are multiples of\n"
    "  accumulator=TYPE     type of the sum\n"
    "  saturate             results beyond D's range become its largest value\n"
    "  device=NAME          where the tensors live: host, npu:0, …\n"
    "  backend=NAME         only this plugin\n";

static bool fail(gemm_problem *problem, const char *format, ...) KILN_PRINTF(2, 3);

static bool fail(gemm_problem *problem, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem->text, sizeof problem->text, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- Epilogues ---- */

typedef struct epilogue_kind {
    const char *name;
    kiln_epilogue_kind kind;
    kiln_operand_shape operand; /* unless it is told otherwise */
    int numbers;                /* that may follow */
} epilogue_kind;

static const epilogue_kind epilogue_kinds[] = {
    {"bias", KILN_EPILOGUE_BIAS, KILN_OPERAND_ROW, 0},
    {"relu", KILN_EPILOGUE_RELU, KILN_OPERAND_NONE, 0},
    {"gelu_erf", KILN_EPILOGUE_GELU_ERF, KILN_OPERAND_NONE, 0},
    {"gelu_tanh", KILN_EPILOGUE_GELU_TANH, KILN_OPERAND_NONE, 0},
    {"silu", KILN_EPILOGUE_SILU, KILN_OPERAND_NONE, 0},
    {"residual", KILN_EPILOGUE_RESIDUAL, KILN_OPERAND_MATRIX, 0},
    {"multiply", KILN_EPILOGUE_MULTIPLY, KILN_OPERAND_MATRIX, 0},
    {"scale", KILN_EPILOGUE_SCALE, KILN_OPERAND_ROW, 1},
    {"clip", KILN_EPILOGUE_CLIP, KILN_OPERAND_NONE, 2},
};

enum { EPILOGUE_KINDS = sizeof epilogue_kinds / sizeof epilogue_kinds[0] };

const char *const *gemm_epilogue_names(size_t *count)
{
    static const char *const names[] = {"bias",     "relu",     "gelu_erf", "gelu_tanh", "silu",
                                        "residual", "multiply", "scale",    "clip"};
    _Static_assert(sizeof names / sizeof names[0] == EPILOGUE_KINDS, "one name per kind");
    *count = EPILOGUE_KINDS;
    return names;
}

const char *gemm_epilogue_name(uint32_t kind)
{
    for (size_t i = 0; i < EPILOGUE_KINDS; i++)
        if ((uint32_t)epilogue_kinds[i].kind == kind)
            return epilogue_kinds[i].name;
    return "unknown";
}

kiln_epilogue_kind gemm_epilogue_kind(const char *name)
{
    for (size_t i = 0; i < EPILOGUE_KINDS; i++)
        if (strcmp(name, epilogue_kinds[i].name) == 0)
            return epilogue_kinds[i].kind;
    return KILN_EPILOGUE_NONE;
}

bool gemm_epilogue_takes_operand(uint32_t kind)
{
    return kind == KILN_EPILOGUE_BIAS || kind == KILN_EPILOGUE_RESIDUAL ||
           kind == KILN_EPILOGUE_MULTIPLY || kind == KILN_EPILOGUE_SCALE;
}

static kiln_operand_shape operand_shape(const char *name)
{
    static const char *const names[] = {"", "scalar", "row", "column", "matrix"};
    for (int i = 1; i < 5; i++)
        if (strcmp(name, names[i]) == 0)
            return (kiln_operand_shape)i;
    return KILN_OPERAND_NONE;
}

/* One part behind a colon: a number, the operand's shape or its type. */
static bool epilogue_part(const char *part, const epilogue_kind *kind, int *numbers,
                          kiln_epilogue *epilogue, gemm_problem *problem)
{
    double number;
    if (*numbers < kind->numbers && tool_read_number(part, &number)) {
        *((*numbers)++ == 0 ? &epilogue->p0 : &epilogue->p1) = number;
        return true;
    }
    bool operand = kind->operand != KILN_OPERAND_NONE;
    if (operand && kiln_type_from_name(part) != KILN_TYPE_NONE) {
        epilogue->type = kiln_type_from_name(part);
        return true;
    }
    if (operand && kind->operand != KILN_OPERAND_MATRIX && operand_shape(part) &&
        operand_shape(part) != KILN_OPERAND_MATRIX) {
        epilogue->operand = operand_shape(part);
        return true;
    }
    return fail(problem, "epilogue '%s' does not take ':%s'", kind->name, part);
}

static bool epilogue_check(const epilogue_kind *kind, int numbers, kiln_epilogue *epilogue,
                           gemm_problem *problem)
{
    if (kind->kind == KILN_EPILOGUE_SCALE && numbers == 1)
        epilogue->operand = KILN_OPERAND_NONE;
    if (kind->kind == KILN_EPILOGUE_CLIP && numbers != 2)
        return fail(problem, "epilogue clip takes two numbers, as in clip:0:6");
    if (kind->kind == KILN_EPILOGUE_CLIP && epilogue->p0 > epilogue->p1)
        return fail(problem, "epilogue clip:%g:%g: the lower limit is above the upper one",
                    epilogue->p0, epilogue->p1);
    return true;
}

bool gemm_epilogue_read(const char *text, kiln_epilogue *epilogue, gemm_problem *problem)
{
    char copy[96];
    if (strlen(text) >= sizeof copy)
        return fail(problem, "'%.80s…' is no epilogue", text);
    memcpy(copy, text, strlen(text) + 1);
    char *rest = copy, *name = strsep(&rest, ":");
    const epilogue_kind *kind = NULL;
    for (size_t i = 0; i < EPILOGUE_KINDS; i++)
        if (strcmp(name, epilogue_kinds[i].name) == 0)
            kind = &epilogue_kinds[i];
    if (!kind) {
        size_t count;
        const char *near = kiln_yaml_nearest(name, gemm_epilogue_names(&count), EPILOGUE_KINDS);
        return fail(problem, "unknown epilogue '%s'%s%s%s", name, near ? " (did you mean '" : "",
                    near ? near : "", near ? "'?)" : "");
    }
    kiln_epilogue read = {.kind = kind->kind, .operand = kind->operand};
    int numbers = 0;
    for (char *part = strsep(&rest, ":"); part; part = strsep(&rest, ":"))
        if (!epilogue_part(part, kind, &numbers, &read, problem))
            return false;
    if (!epilogue_check(kind, numbers, &read, problem))
        return false;
    *epilogue = read;
    return true;
}

/* ---- Words ---- */

typedef bool (*word_reader)(gemm_words *words, const char *name, const char *value,
                            gemm_problem *problem);

static bool read_size(gemm_words *words, const char *name, const char *value, gemm_problem *problem)
{
    int64_t *size = strcmp(name, "m") == 0   ? &words->desc.m
                    : strcmp(name, "n") == 0 ? &words->desc.n
                    : strcmp(name, "k") == 0 ? &words->desc.k
                                             : &words->desc.batch;
    int64_t minimum = strcmp(name, "batch") == 0;
    if (tool_read_integer(value, minimum, INT64_C(1) << 48, size))
        return true;
    return fail(problem, "%s=%s: a whole number from %d on is wanted", name, value, (int)minimum);
}

static bool read_type(gemm_words *words, const char *name, const char *value, gemm_problem *problem)
{
    uint32_t type = kiln_type_from_name(value);
    if (!type)
        return fail(problem, "%s=%s: no such type; types are f64, f32, f16, bf16, i8, i32, …", name,
                    value);
    if (strcmp(name, "type") == 0)
        words->type = type;
    else if (strcmp(name, "accumulator") == 0)
        words->desc.accumulator = type;
    else
        *(name[0] == 'a'   ? &words->desc.a_type
          : name[0] == 'b' ? &words->desc.b_type
          : name[0] == 'c' ? &words->desc.c_type
                           : &words->desc.d_type) = type;
    return true;
}

static bool read_switch(gemm_words *words, const char *name, const char *value,
                        gemm_problem *problem)
{
    uint32_t flag = strcmp(name, "transpose_a") == 0   ? KILN_GEMM_TRANSPOSE_A
                    : strcmp(name, "transpose_b") == 0 ? KILN_GEMM_TRANSPOSE_B
                                                       : KILN_GEMM_SATURATE;
    if (strcmp(value, "true") == 0)
        words->desc.head.flags |= flag;
    else if (strcmp(value, "false") != 0)
        return fail(problem, "%s=%s: true or false is wanted", name, value);
    return true;
}

static bool read_factor(gemm_words *words, const char *name, const char *value,
                        gemm_problem *problem)
{
    if (tool_read_number(value, name[0] == 'a' ? &words->alpha : &words->beta))
        return true;
    return fail(problem, "%s=%s: a number is wanted", name, value);
}

static bool read_alignment(gemm_words *words, const char *name, const char *value,
                           gemm_problem *problem)
{
    int64_t alignment;
    if (!tool_read_integer(value, 1, 4096, &alignment) || (alignment & (alignment - 1)))
        return fail(problem, "%s=%s: a power of two from 1 to 4096 is wanted", name, value);
    words->desc.a_alignment = words->desc.b_alignment = words->desc.c_alignment =
        words->desc.d_alignment = (uint32_t)alignment;
    return true;
}

static bool read_epilogues(gemm_words *words, const char *name, const char *value,
                           gemm_problem *problem)
{
    char copy[512];
    if (strlen(value) >= sizeof copy)
        return fail(problem, "%s: the list is too long", name);
    memcpy(copy, value, strlen(value) + 1);
    char *rest = copy;
    for (char *text = strsep(&rest, ","); text; text = strsep(&rest, ",")) {
        if (words->desc.epilogue_count == KILN_GEMM_MAX_EPILOGUES)
            return fail(problem, "%s: at most %d are possible", name, KILN_GEMM_MAX_EPILOGUES);
        if (!gemm_epilogue_read(text, &words->desc.epilogues[words->desc.epilogue_count], problem))
            return false;
        words->desc.epilogue_count++;
    }
    return true;
}

static bool read_dynamic(gemm_words *words, const char *name, const char *value,
                         gemm_problem *problem)
{
    char copy[64];
    snprintf(copy, sizeof copy, "%s", value);
    char *rest = copy;
    for (char *text = strsep(&rest, ","); text; text = strsep(&rest, ",")) {
        uint32_t flag = strcmp(text, "m") == 0       ? KILN_GEMM_DYNAMIC_M
                        : strcmp(text, "n") == 0     ? KILN_GEMM_DYNAMIC_N
                        : strcmp(text, "k") == 0     ? KILN_GEMM_DYNAMIC_K
                        : strcmp(text, "batch") == 0 ? KILN_GEMM_DYNAMIC_BATCH
                                                     : 0;
        if (!flag)
            return fail(problem, "%s=%s: a list of m, n, k and batch is wanted", name, value);
        words->desc.head.flags |= flag;
    }
    return true;
}

static bool read_name(gemm_words *words, const char *name, const char *value, gemm_problem *problem)
{
    bool device = strcmp(name, "device") == 0;
    char *place = device ? words->device : words->backend;
    size_t size = device ? sizeof words->device : sizeof words->backend;
    if (!value[0] || strlen(value) >= size)
        return fail(problem, "%s=%s: no such %s", name, value, name);
    memcpy(place, value, strlen(value) + 1);
    return true;
}

static const struct {
    const char *name;
    word_reader read;
    bool is_switch;
} word_table[] = {
    {"m", read_size, false},
    {"n", read_size, false},
    {"k", read_size, false},
    {"batch", read_size, false},
    {"type", read_type, false},
    {"a", read_type, false},
    {"b", read_type, false},
    {"c", read_type, false},
    {"d", read_type, false},
    {"accumulator", read_type, false},
    {"transpose_a", read_switch, true},
    {"transpose_b", read_switch, true},
    {"saturate", read_switch, true},
    {"alpha", read_factor, false},
    {"beta", read_factor, false},
    {"alignment", read_alignment, false},
    {"epilogues", read_epilogues, false},
    {"dynamic", read_dynamic, false},
    {"device", read_name, false},
    {"backend", read_name, false},
};

enum { WORDS = sizeof word_table / sizeof word_table[0], WORD_ALPHA = 13 };

static size_t find_word(const char *name)
{
    size_t index = 0;
    while (index < WORDS && strcmp(name, word_table[index].name) != 0)
        index++;
    return index;
}

static bool unknown_word(const char *name, gemm_problem *problem)
{
    const char *names[WORDS];
    for (size_t i = 0; i < WORDS; i++)
        names[i] = word_table[i].name;
    const char *near = kiln_yaml_nearest(name, names, WORDS);
    return fail(problem, "unknown word '%s'%s%s%s", name, near ? " (did you mean '" : "",
                near ? near : "", near ? "'?)" : "");
}

bool gemm_words_read(gemm_words *words, const char *word, gemm_problem *problem)
{
    char name[32];
    size_t length = strcspn(word, "=");
    if (length >= sizeof name)
        return fail(problem, "unknown word '%.*s…'", 24, word);
    memcpy(name, word, length);
    name[length] = '\0';
    size_t index = find_word(name);
    if (index == WORDS)
        return unknown_word(name, problem);
    if (!word[length] && !word_table[index].is_switch)
        return fail(problem, "'%s' needs a value: %s=…", name, name);
    if (words->seen & (UINT64_C(1) << index))
        return fail(problem, "'%s' is given twice", name);
    words->seen |= UINT64_C(1) << index;
    const char *value = word[length] ? word + length + 1 : "true";
    return word_table[index].read(words, name, value, problem);
}

/* ---- Completion ---- */

static uint32_t row_alignment(uint32_t given, uint32_t type, int64_t columns)
{
    uint64_t bits = (uint64_t)kiln_type_row_bytes(type, columns) | 64;
    return given ? given : (uint32_t)(bits & (~bits + 1));
}

static void complete_types(gemm_words *words)
{
    kiln_gemm_desc *desc = &words->desc;
    if (!desc->a_type)
        desc->a_type = words->type;
    if (!desc->b_type)
        desc->b_type = words->type ? words->type : desc->a_type;
    if (!desc->d_type)
        desc->d_type = desc->a_type == KILN_I8 ? KILN_I32 : desc->a_type;
    if (!desc->c_type && words->beta != 0)
        desc->c_type = desc->d_type;
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        if (desc->epilogues[i].operand && !desc->epilogues[i].type)
            desc->epilogues[i].type = desc->a_type == KILN_F64 ? KILN_F64 : KILN_F32;
}

static void complete_alignments(kiln_gemm_desc *desc)
{
    int64_t a_columns = desc->head.flags & KILN_GEMM_TRANSPOSE_A ? desc->m : desc->k;
    int64_t b_columns = desc->head.flags & KILN_GEMM_TRANSPOSE_B ? desc->k : desc->n;
    desc->a_alignment = row_alignment(desc->a_alignment, desc->a_type, a_columns);
    desc->b_alignment = row_alignment(desc->b_alignment, desc->b_type, b_columns);
    desc->c_alignment = desc->c_type ? row_alignment(desc->c_alignment, desc->c_type, desc->n) : 0;
    desc->d_alignment = row_alignment(desc->d_alignment, desc->d_type, desc->n);
}

bool gemm_words_finish(gemm_words *words, gemm_problem *problem)
{
    for (size_t i = 0; i < 3; i++)
        if (!(words->seen & (UINT64_C(1) << i)))
            return fail(problem, "%s= is missing", word_table[i].name);
    if (!words->type && !words->desc.a_type)
        return fail(problem, "type= is missing");
    if (!(words->seen & (UINT64_C(1) << WORD_ALPHA)))
        words->alpha = 1;
    words->desc.head.struct_size = sizeof words->desc;
    complete_types(words);
    complete_alignments(&words->desc);
    return true;
}

const char *gemm_describe(const kiln_gemm_desc *desc, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "m=%lld n=%lld k=%lld", (long long)desc->m,
                                   (long long)desc->n, (long long)desc->k);
    if (desc->batch > 1 && used < size)
        used += (size_t)snprintf(text + used, size - used, " batch=%lld", (long long)desc->batch);
    if (used < size)
        used +=
            (size_t)snprintf(text + used, size - used, " %s×%s→%s", kiln_type_name(desc->a_type),
                             kiln_type_name(desc->b_type), kiln_type_name(desc->d_type));
    if (desc->head.flags & KILN_GEMM_TRANSPOSE_A && used < size)
        used += (size_t)snprintf(text + used, size - used, " transpose_a");
    if (desc->head.flags & KILN_GEMM_TRANSPOSE_B && used < size)
        used += (size_t)snprintf(text + used, size - used, " transpose_b");
    for (uint32_t i = 0; i < desc->epilogue_count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, " %s",
                                 gemm_epilogue_name(desc->epilogues[i].kind));
    return text;
}
