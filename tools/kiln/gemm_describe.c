/* SPDX-License-Identifier: Apache-2.0 */
/* Tells a GEMM in words. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kiln/gemm_words.h"

typedef struct writer {
    char *text;
    size_t size, used;
} writer;

static void add(writer *self, const char *format, ...) KILN_PRINTF(2, 3);

static void add(writer *self, const char *format, ...)
{
    va_list arguments;
    if (self->used >= self->size)
        return;
    va_start(arguments, format);
    int length = vsnprintf(self->text + self->used, self->size - self->used, format, arguments);
    va_end(arguments);
    self->used += length > 0 ? (size_t)length : 0;
}

/* As short as it can be and still be read back as the same. */
static void add_number(writer *self, double value)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%g", value);
    if (strtod(digits, NULL) != value)
        snprintf(digits, sizeof digits, "%.17g", value);
    add(self, "%s", digits);
}

static void add_block_extent(writer *self, const char *before, int32_t extent)
{
    if (extent < 0)
        add(self, "%sall", before);
    else
        add(self, "%s%d", before, extent);
}

static void add_quantization(writer *self, char name, const kiln_quantization *quantization)
{
    const int32_t *block = quantization->block;
    if (!quantization->scale_type && !quantization->zero_type)
        return;
    if (quantization->scale_type)
        add(self, " %c_scale=%s", name, kiln_type_name(quantization->scale_type));
    if (quantization->zero_type)
        add(self, " %c_zero_point", name);
    if (block[0] == (name == 'd' ? 1 : -1) && block[1] == -1)
        return;
    add(self, " %c_block=", name);
    add_block_extent(self, "", block[0]);
    add_block_extent(self, "x", block[1]);
}

void gemm_describe_more(const kiln_gemm_desc *desc, char *text, size_t size)
{
    static const char *const groupings[] = {"", "contiguous", "masked", "k"};
    writer self = {text, size, strlen(text)};
    add_quantization(&self, 'a', &desc->a_quantization);
    add_quantization(&self, 'b', &desc->b_quantization);
    add_quantization(&self, 'd', &desc->d_quantization);
    if (desc->grouping)
        add(&self, " groups=%s:%lld", groupings[desc->grouping & 3], (long long)desc->groups);
    if (desc->group_alignment)
        add(&self, " group_alignment=%lld", (long long)desc->group_alignment);
    if (desc->precision == KILN_PRECISION_FAST)
        add(&self, " precision=fast");
    if (desc->precision == KILN_PRECISION_AUTO) {
        add(&self, " max_rel_error=");
        add_number(&self, desc->max_rel_error);
    }
}

void gemm_describe_epilogue(const kiln_epilogue *epilogue, uint32_t a_type, char *text, size_t size)
{
    static const char *const shapes[] = {"", ":scalar", "", ":column", ""};
    writer self = {text, size, 0};
    uint32_t kind = epilogue->kind;
    add(&self, "%s", gemm_epilogue_name(kind));
    bool numbered = kind == KILN_EPILOGUE_CLIP ||
                    (kind == KILN_EPILOGUE_SCALE && epilogue->operand == KILN_OPERAND_NONE) ||
                    (kind == KILN_EPILOGUE_SWIGLU && epilogue->p0 > 0);
    if (numbered) {
        add(&self, ":");
        add_number(&self, epilogue->p0);
    } else if (kind == KILN_EPILOGUE_SWIGLU && epilogue->p0 < 0) {
        add(&self, ":halves");
    }
    if (kind == KILN_EPILOGUE_CLIP) {
        add(&self, ":");
        add_number(&self, epilogue->p1);
    }
    add(&self, "%s", epilogue->operand < 5 ? shapes[epilogue->operand] : "");
    uint32_t ordinary = a_type == KILN_F64 ? KILN_F64 : KILN_F32;
    if (epilogue->operand != KILN_OPERAND_NONE && epilogue->type != ordinary)
        add(&self, ":%s", kiln_type_name(epilogue->type));
}

const char *gemm_describe(const kiln_gemm_desc *desc, char *text, size_t size)
{
    writer self = {text, size, 0};
    const uint32_t flags = desc->head.flags;
    text[0] = '\0';
    add(&self, "m=%lld n=%lld k=%lld", (long long)desc->m, (long long)desc->n, (long long)desc->k);
    if (desc->batch > 1)
        add(&self, " batch=%lld", (long long)desc->batch);
    add(&self, " %s×%s→%s", kiln_type_name(desc->a_type), kiln_type_name(desc->b_type),
        kiln_type_name(desc->d_type));
    add(&self, "%s%s", flags & KILN_GEMM_TRANSPOSE_A ? " transpose_a" : "",
        flags & KILN_GEMM_TRANSPOSE_B ? " transpose_b" : "");
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        add(&self, " %s", gemm_epilogue_name(desc->epilogues[i].kind));
    gemm_describe_more(desc, text, size);
    return text;
}
