/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the epilogues of a GEMM in words. */
#define _GNU_SOURCE /* strsep */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "support/yaml.h"
#include "tools/kiln/command.h"
#include "tools/kiln/gemm_words.h"

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
    {"swiglu", KILN_EPILOGUE_SWIGLU, KILN_OPERAND_NONE, 1},
    {"quantize", KILN_EPILOGUE_QUANTIZE, KILN_OPERAND_NONE, 0},
    {"bias_gradient", KILN_EPILOGUE_BIAS_GRADIENT, KILN_OPERAND_ROW, 0},
};

enum { EPILOGUE_KINDS = sizeof epilogue_kinds / sizeof epilogue_kinds[0] };

const char *const *gemm_epilogue_names(size_t *count)
{
    static const char *const names[] = {"bias", "relu",     "gelu_erf", "gelu_tanh",
                                        "silu", "residual", "multiply", "scale",
                                        "clip", "swiglu",   "quantize", "bias_gradient"};
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
    return kind == KILN_EPILOGUE_BIAS || kind == KILN_EPILOGUE_SCALE ||
           kind == KILN_EPILOGUE_BIAS_GRADIENT || gemm_epilogue_takes_matrix(kind);
}

bool gemm_epilogue_takes_matrix(uint32_t kind)
{
    return kind == KILN_EPILOGUE_RESIDUAL || kind == KILN_EPILOGUE_MULTIPLY;
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
    if (kind->kind == KILN_EPILOGUE_SWIGLU && *numbers == 0 && strcmp(part, "halves") == 0) {
        (*numbers)++;
        epilogue->p0 = -1;
        return true;
    }
    if (*numbers < kind->numbers && tool_read_number(part, &number)) {
        *((*numbers)++ == 0 ? &epilogue->p0 : &epilogue->p1) = number;
        return true;
    }
    bool operand = kind->operand != KILN_OPERAND_NONE;
    if (operand && kiln_type_from_name(part) != KILN_TYPE_NONE) {
        epilogue->type = kiln_type_from_name(part);
        return true;
    }
    if (operand && kind->operand != KILN_OPERAND_MATRIX &&
        kind->kind != KILN_EPILOGUE_BIAS_GRADIENT && operand_shape(part) &&
        operand_shape(part) != KILN_OPERAND_MATRIX) {
        epilogue->operand = operand_shape(part);
        return true;
    }
    return gemm_fail(problem, "epilogue '%s' does not take ':%s'", kind->name, part);
}

static bool epilogue_check(const epilogue_kind *kind, int numbers, kiln_epilogue *epilogue,
                           gemm_problem *problem)
{
    if (kind->kind == KILN_EPILOGUE_SCALE && numbers == 1)
        epilogue->operand = KILN_OPERAND_NONE;
    if (kind->kind == KILN_EPILOGUE_CLIP && numbers != 2)
        return gemm_fail(problem, "epilogue clip takes two numbers, as in clip:0:6");
    if (kind->kind == KILN_EPILOGUE_CLIP && epilogue->p0 > epilogue->p1)
        return gemm_fail(problem, "epilogue clip:%g:%g: the lower limit is above the upper one",
                         epilogue->p0, epilogue->p1);
    if (kind->kind != KILN_EPILOGUE_SWIGLU || epilogue->p0 == -1 || numbers == 0)
        return true;
    if (!(epilogue->p0 >= 1 && epilogue->p0 <= INT32_MAX) ||
        epilogue->p0 != (double)(int32_t)epilogue->p0)
        return gemm_fail(problem, "epilogue swiglu:%g: halves or the columns of a piece are wanted",
                         epilogue->p0);
    if (epilogue->p0 == 1) /* means the same */
        epilogue->p0 = 0;
    return true;
}

bool gemm_epilogue_read(const char *text, kiln_epilogue *epilogue, gemm_problem *problem)
{
    char copy[96];
    if (strlen(text) >= sizeof copy)
        return gemm_fail(problem, "'%.80s…' is no epilogue", text);
    memcpy(copy, text, strlen(text) + 1);
    char *rest = copy, *name = strsep(&rest, ":");
    const epilogue_kind *kind = NULL;
    for (size_t i = 0; i < EPILOGUE_KINDS; i++)
        if (strcmp(name, epilogue_kinds[i].name) == 0)
            kind = &epilogue_kinds[i];
    if (!kind) {
        size_t count;
        const char *near = kiln_yaml_nearest(name, gemm_epilogue_names(&count), EPILOGUE_KINDS);
        return gemm_fail(problem, "unknown epilogue '%s'%s%s%s", name,
                         near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
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
