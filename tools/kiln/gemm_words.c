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
    "  type=TYPE            f64, f32, f16, bf16, i8, … of A, B and D (D of integers is i32)\n"
    "  a= b= c= d=TYPE      of one matrix only\n"
    "  transpose_a          A is stored [K, M]\n"
    "  transpose_b          B is stored [N, K]\n"
    "  alpha=X beta=Y       D = epilogues(alpha op(A) op(B) + beta C)\n"
    "  epilogues=LIST       in order, separated by commas: bias, relu, gelu_erf,\n"
    "                       gelu_tanh, silu, residual, multiply, scale, scale:X,\n"
    "                       clip:LOW:HIGH, swiglu, swiglu:halves, swiglu:COLUMNS,\n"
    "                       quantize, bias_gradient; operands take :scalar, :row or\n"
    "                       :column and a type, as in bias:column:f16\n"
    "  a_scale=TYPE b_…     A or B is quantised: type of its scales\n"
    "  a_zero_point b_…     it has zero points, of its own type\n"
    "  a_block=RxC b_…      rows and columns that share one, each a number or all\n"
    "  d_scale=TYPE         D is quantised: type of its scales (f32, e4m3, ue8m0)\n"
    "  d_block=1xC          columns that share one (default all)\n"
    "  groups=KIND:COUNT    contiguous, masked or k: products that go together\n"
    "  group_alignment=N    groups begin at multiples of N rows (or steps of k)\n"
    "  precision=NAME       exact; fast; or auto, which is what max_rel_error= asks for\n"
    "  max_rel_error=X      how far results may be off for speed, from 0 to 1\n"
    "  dynamic=LIST         dimensions whose value is a maximum: m,n,k,batch\n"
    "  alignment=BYTES      what addresses and strides are multiples of\n"
    "  accumulator=TYPE     type of the sum\n"
    "  saturate             results beyond D's range become its largest value\n"
    "  device=NAME          where the tensors live: host, npu:0, …\n"
    "  backend=NAME         only this plugin\n";

bool gemm_fail(gemm_problem *problem, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem->text, sizeof problem->text, format, arguments);
    va_end(arguments);
    return false;
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
    return gemm_fail(problem, "%s=%.40s: a whole number from %d to %lld is wanted", name, value,
                     (int)minimum, 1LL << 48);
}

static bool read_type(gemm_words *words, const char *name, const char *value, gemm_problem *problem)
{
    uint32_t type = kiln_type_from_name(value);
    if (!type)
        return gemm_fail(problem, "%s=%s: no such type; types are f64, f32, f16, bf16, i8, i32, …",
                         name, value);
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
        return gemm_fail(problem, "%s=%s: true or false is wanted", name, value);
    return true;
}

static bool read_factor(gemm_words *words, const char *name, const char *value,
                        gemm_problem *problem)
{
    if (tool_read_number(value, name[0] == 'a' ? &words->alpha : &words->beta))
        return true;
    return gemm_fail(problem, "%s=%s: a number is wanted", name, value);
}

/* The descriptor's word on the scales of A, B or D. */
static kiln_quantization *quantization_of(gemm_words *words, const char *name)
{
    return name[0] == 'a'   ? &words->desc.a_quantization
           : name[0] == 'b' ? &words->desc.b_quantization
                            : &words->desc.d_quantization;
}

static bool read_scale(gemm_words *words, const char *name, const char *value,
                       gemm_problem *problem)
{
    uint32_t type = kiln_type_from_name(value);
    if (!type)
        return gemm_fail(problem, "%s=%s: no such type; scales are %s", name, value,
                         name[0] == 'd' ? "f32, e4m3 or ue8m0" : "f32, f16, bf16, e4m3 or ue8m0");
    quantization_of(words, name)->scale_type = type;
    return true;
}

/* Its type is the matrix's own, which may be told later: until then just something. */
static bool read_zero_point(gemm_words *words, const char *name, const char *value,
                            gemm_problem *problem)
{
    if (strcmp(value, "true") == 0)
        quantization_of(words, name)->zero_type = KILN_I8;
    else if (strcmp(value, "false") != 0)
        return gemm_fail(problem, "%s=%s: true or false is wanted", name, value);
    return true;
}

static bool read_block_extent(const char *text, int32_t *extent)
{
    int64_t value = -1;
    if (strcmp(text, "all") != 0 && !tool_read_integer(text, 1, INT32_MAX, &value))
        return false;
    *extent = (int32_t)value;
    return true;
}

bool gemm_block_read(const char *text, int32_t block[2])
{
    char copy[32], *rest = copy;
    int32_t read[2];
    snprintf(copy, sizeof copy, "%s", text);
    char *rows = strsep(&rest, "x");
    if (strlen(text) >= sizeof copy || !rest || !read_block_extent(rows, &read[0]) ||
        !read_block_extent(rest, &read[1]))
        return false;
    memcpy(block, read, sizeof read);
    return true;
}

static bool read_block(gemm_words *words, const char *name, const char *value,
                       gemm_problem *problem)
{
    return gemm_block_read(value, quantization_of(words, name)->block) ||
           gemm_fail(problem,
                     "%s=%.40s: the rows and columns that share a scale are wanted, each a number "
                     "or all, as in 1x128",
                     name, value);
}

uint32_t gemm_grouping_kind(const char *text, size_t length)
{
    static const char *const kinds[] = {"", "contiguous", "masked", "k"};
    for (uint32_t kind = 1; kind < 4; kind++)
        if (strlen(kinds[kind]) == length && strncmp(kinds[kind], text, length) == 0)
            return kind;
    return KILN_GROUPING_NONE;
}

static bool read_groups(gemm_words *words, const char *name, const char *value,
                        gemm_problem *problem)
{
    const char *colon = strchr(value, ':');
    uint32_t kind = colon ? gemm_grouping_kind(value, (size_t)(colon - value)) : 0;
    words->desc.grouping = kind;
    return (kind && tool_read_integer(colon + 1, 1, INT64_C(1) << 48, &words->desc.groups)) ||
           gemm_fail(problem,
                     "%s=%.40s: contiguous:COUNT, masked:COUNT or k:COUNT is wanted, as in "
                     "contiguous:8, with a whole number from 1 to %lld",
                     name, value, 1LL << 48);
}

static bool read_group_alignment(gemm_words *words, const char *name, const char *value,
                                 gemm_problem *problem)
{
    return tool_read_integer(value, 1, INT64_C(1) << 40, &words->desc.group_alignment) ||
           gemm_fail(problem, "%s=%.40s: a whole number from 1 to %lld is wanted", name, value,
                     1LL << 40);
}

bool gemm_precision_read(const char *text, uint32_t *precision)
{
    static const char *const names[] = {"exact", "fast", "auto"};
    for (uint32_t i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *precision = i;
            return true;
        }
    return false;
}

static bool read_precision(gemm_words *words, const char *name, const char *value,
                           gemm_problem *problem)
{
    return gemm_precision_read(value, &words->desc.precision) ||
           gemm_fail(problem, "%s=%.40s: exact, fast or auto is wanted", name, value);
}

static bool read_max_rel_error(gemm_words *words, const char *name, const char *value,
                               gemm_problem *problem)
{
    double *limit = &words->desc.max_rel_error;
    return (tool_read_number(value, limit) && *limit >= 0 && *limit <= 1) ||
           gemm_fail(problem, "%s=%.40s: a number from 0 to 1 is wanted", name, value);
}

static bool read_alignment(gemm_words *words, const char *name, const char *value,
                           gemm_problem *problem)
{
    int64_t alignment;
    if (!tool_read_integer(value, 1, 4096, &alignment) || (alignment & (alignment - 1)))
        return gemm_fail(problem, "%s=%s: a power of two from 1 to 4096 is wanted", name, value);
    words->desc.a_alignment = words->desc.b_alignment = words->desc.c_alignment =
        words->desc.d_alignment = (uint32_t)alignment;
    return true;
}

static bool read_epilogues(gemm_words *words, const char *name, const char *value,
                           gemm_problem *problem)
{
    char copy[512];
    if (strlen(value) >= sizeof copy)
        return gemm_fail(problem, "%s: the list is too long", name);
    memcpy(copy, value, strlen(value) + 1);
    char *rest = copy;
    for (char *text = strsep(&rest, ","); text; text = strsep(&rest, ",")) {
        if (words->desc.epilogue_count == KILN_GEMM_MAX_EPILOGUES)
            return gemm_fail(problem, "%s: at most %d are possible", name, KILN_GEMM_MAX_EPILOGUES);
        if (!gemm_epilogue_read(text, &words->desc.epilogues[words->desc.epilogue_count], problem))
            return false;
        words->desc.epilogue_count++;
    }
    return true;
}

static bool read_dynamic(gemm_words *words, const char *name, const char *value,
                         gemm_problem *problem)
{
    static const struct {
        const char *name;
        uint32_t flag;
    } dimensions[] = {{"m", KILN_GEMM_DYNAMIC_M},
                      {"n", KILN_GEMM_DYNAMIC_N},
                      {"k", KILN_GEMM_DYNAMIC_K},
                      {"batch", KILN_GEMM_DYNAMIC_BATCH}};
    for (const char *text = value;; text++) {
        size_t length = strcspn(text, ",");
        uint32_t flag = 0;
        for (int i = 0; i < 4; i++)
            if (strlen(dimensions[i].name) == length &&
                strncmp(text, dimensions[i].name, length) == 0)
                flag = dimensions[i].flag;
        if (!flag)
            return gemm_fail(problem, "%s=%.40s: a list of m, n, k and batch is wanted, not '%.*s'",
                             name, value, length < 40 ? (int)length : 40, text);
        words->desc.head.flags |= flag;
        text += length;
        if (!*text)
            return true;
    }
}

static bool read_name(gemm_words *words, const char *name, const char *value, gemm_problem *problem)
{
    bool device = strcmp(name, "device") == 0;
    char *place = device ? words->device : words->backend;
    size_t size = device ? sizeof words->device : sizeof words->backend;
    if (!value[0] || strlen(value) >= size)
        return gemm_fail(problem, "%s=%s: no such %s", name, value, name);
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
    {"a_scale", read_scale, false},
    {"b_scale", read_scale, false},
    {"d_scale", read_scale, false},
    {"a_zero_point", read_zero_point, true},
    {"b_zero_point", read_zero_point, true},
    {"a_block", read_block, false},
    {"b_block", read_block, false},
    {"d_block", read_block, false},
    {"groups", read_groups, false},
    {"group_alignment", read_group_alignment, false},
    {"precision", read_precision, false},
    {"max_rel_error", read_max_rel_error, false},
    {"device", read_name, false},
    {"backend", read_name, false},
};

enum { WORDS = sizeof word_table / sizeof word_table[0] };

static size_t find_word(const char *name)
{
    size_t index = 0;
    while (index < WORDS && strcmp(name, word_table[index].name) != 0)
        index++;
    return index;
}

static bool is_given(const gemm_words *words, const char *name)
{
    return words->seen & (UINT64_C(1) << find_word(name));
}

static bool unknown_word(const char *name, gemm_problem *problem)
{
    const char *names[WORDS];
    for (size_t i = 0; i < WORDS; i++)
        names[i] = word_table[i].name;
    const char *near = kiln_yaml_nearest(name, names, WORDS);
    return gemm_fail(problem, "unknown word '%s'%s%s%s", name, near ? " (did you mean '" : "",
                     near ? near : "", near ? "'?)" : "");
}

bool gemm_words_read(gemm_words *words, const char *word, gemm_problem *problem)
{
    char name[32];
    size_t length = strcspn(word, "=");
    if (length >= sizeof name)
        return gemm_fail(problem, "unknown word '%.*s…'", 24, word);
    memcpy(name, word, length);
    name[length] = '\0';
    size_t index = find_word(name);
    if (index == WORDS)
        return unknown_word(name, problem);
    if (!word[length] && !word_table[index].is_switch)
        return gemm_fail(problem, "'%s' needs a value: %s=…", name, name);
    if (words->seen & (UINT64_C(1) << index))
        return gemm_fail(problem, "'%s' is given twice", name);
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

bool gemm_is_integer(uint32_t type)
{
    return type == KILN_I8 || type == KILN_U8 || type == KILN_I4 || type == KILN_U4;
}

uint32_t gemm_default_type(const kiln_gemm_desc *desc)
{
    bool scaled = desc->a_quantization.scale_type || desc->b_quantization.scale_type,
         a_is_integer = gemm_is_integer(desc->a_type), b_is_integer = gemm_is_integer(desc->b_type);
    if (a_is_integer && b_is_integer && !scaled)
        return KILN_I32;
    if (kiln_type_bits(desc->a_type) > 8)
        return desc->a_type;
    if (kiln_type_bits(desc->b_type) > 8)
        return desc->b_type;
    return scaled || a_is_integer || b_is_integer ? (uint32_t)KILN_F32 : desc->a_type;
}

/* Elements share what they have; blocks are whole matrices, or rows of D, unless told. */
static bool complete_quantization(kiln_quantization *quantization, char name, uint32_t type,
                                  gemm_problem *problem)
{
    if (quantization->zero_type)
        quantization->zero_type = type;
    bool used = quantization->scale_type || quantization->zero_type;
    if (!used && quantization->block[0] && name == 'd')
        return gemm_fail(problem, "d_block= says what shares a scale, but d_scale= is missing");
    if (!used && quantization->block[0])
        return gemm_fail(problem,
                         "%c_block= says what shares a scale, but neither %c_scale= nor "
                         "%c_zero_point is there",
                         name, name, name);
    if (used && !quantization->block[0]) {
        quantization->block[0] = name == 'd' ? 1 : -1;
        quantization->block[1] = -1;
    }
    return true;
}

/* A D with scales is quantised, by the last epilogue, and the other way round. */
static bool complete_d_quantization(kiln_gemm_desc *desc, gemm_problem *problem)
{
    uint32_t count = desc->epilogue_count;
    bool quantizes = count > 0 && desc->epilogues[count - 1].kind == KILN_EPILOGUE_QUANTIZE;
    if (quantizes && !desc->d_quantization.scale_type)
        desc->d_quantization.scale_type = KILN_F32;
    if (!quantizes && desc->d_quantization.scale_type) {
        if (count == KILN_GEMM_MAX_EPILOGUES)
            return gemm_fail(problem, "d_scale= is one epilogue more than the %d that are possible",
                             KILN_GEMM_MAX_EPILOGUES);
        desc->epilogues[desc->epilogue_count++].kind = KILN_EPILOGUE_QUANTIZE;
    }
    return complete_quantization(&desc->d_quantization, 'd', desc->d_type, problem);
}

static void complete_types(gemm_words *words)
{
    kiln_gemm_desc *desc = &words->desc;
    if (!desc->a_type)
        desc->a_type = words->type;
    if (!desc->b_type)
        desc->b_type = words->type ? words->type : desc->a_type;
    if (!desc->d_type)
        desc->d_type = gemm_default_type(desc);
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
    int64_t d_columns = desc->n;
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        d_columns /= desc->epilogues[i].kind == KILN_EPILOGUE_SWIGLU ? 2 : 1;
    desc->a_alignment = row_alignment(desc->a_alignment, desc->a_type, a_columns);
    desc->b_alignment = row_alignment(desc->b_alignment, desc->b_type, b_columns);
    desc->c_alignment = desc->c_type ? row_alignment(desc->c_alignment, desc->c_type, desc->n) : 0;
    desc->d_alignment = row_alignment(desc->d_alignment, desc->d_type, d_columns);
}

/* A max_rel_error alone asks for as much speed as it allows. */
static bool complete_precision(gemm_words *words, gemm_problem *problem)
{
    bool limited = is_given(words, "max_rel_error");
    if (limited && !is_given(words, "precision"))
        words->desc.precision = KILN_PRECISION_AUTO;
    if (limited == (words->desc.precision == KILN_PRECISION_AUTO))
        return true;
    return gemm_fail(problem, limited ? "max_rel_error= is for precision=auto; leave one out"
                                      : "precision=auto needs max_rel_error=");
}

bool gemm_words_finish(gemm_words *words, gemm_problem *problem)
{
    kiln_gemm_desc *desc = &words->desc;
    for (size_t i = 0; i < 3; i++)
        if (!(words->seen & (UINT64_C(1) << i)))
            return gemm_fail(problem, "%s= is missing", word_table[i].name);
    if (!words->type && !desc->a_type)
        return gemm_fail(problem, "type= is missing");
    if (!is_given(words, "alpha"))
        words->alpha = 1;
    desc->head.struct_size = sizeof *desc;
    complete_types(words);
    if (!complete_quantization(&desc->a_quantization, 'a', desc->a_type, problem) ||
        !complete_quantization(&desc->b_quantization, 'b', desc->b_type, problem) ||
        !complete_d_quantization(desc, problem) || !complete_precision(words, problem))
        return false;
    if (is_given(words, "group_alignment") && !desc->grouping)
        return gemm_fail(problem, "group_alignment= is about groups=, which is missing");
    complete_alignments(desc);
    return true;
}
