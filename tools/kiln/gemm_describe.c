/* SPDX-License-Identifier: Apache-2.0 */
/* Tells a GEMM in words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kiln/command.h"
#include "tools/kiln/gemm_words.h"

/* As short as it can be and still be read back as the same. */
static void add_number(tool_writer *self, double value)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%g", value);
    if (strtod(digits, NULL) != value)
        snprintf(digits, sizeof digits, "%.17g", value);
    tool_write(self, "%s", digits);
}

static void add_block_extent(tool_writer *self, const char *before, int32_t extent)
{
    if (extent < 0)
        tool_write(self, "%sall", before);
    else
        tool_write(self, "%s%d", before, extent);
}

static void add_quantization(tool_writer *self, char name, const kiln_quantization *quantization)
{
    const int32_t *block = quantization->block;
    if (!quantization->scale_type && !quantization->zero_type)
        return;
    if (quantization->scale_type)
        tool_write(self, " %c_scale=%s", name, kiln_type_name(quantization->scale_type));
    if (quantization->zero_type)
        tool_write(self, " %c_zero_point", name);
    if (block[0] == (name == 'd' ? 1 : -1) && block[1] == -1)
        return;
    tool_write(self, " %c_block=", name);
    add_block_extent(self, "", block[0]);
    add_block_extent(self, "x", block[1]);
}

void gemm_describe_more(const kiln_gemm_desc *desc, char *text, size_t size)
{
    static const char *const groupings[] = {"", "contiguous", "masked", "k"};
    tool_writer self = {text, size, strlen(text)};
    add_quantization(&self, 'a', &desc->a_quantization);
    add_quantization(&self, 'b', &desc->b_quantization);
    add_quantization(&self, 'd', &desc->d_quantization);
    if (desc->grouping)
        tool_write(&self, " groups=%s:%lld", groupings[desc->grouping & 3],
                   (long long)desc->groups);
    if (desc->group_alignment)
        tool_write(&self, " group_alignment=%lld", (long long)desc->group_alignment);
    if (desc->precision == KILN_PRECISION_FAST)
        tool_write(&self, " precision=fast");
    if (desc->precision == KILN_PRECISION_AUTO) {
        tool_write(&self, " max_rel_error=");
        add_number(&self, desc->max_rel_error);
    }
}

void gemm_describe_epilogue(const kiln_epilogue *epilogue, uint32_t a_type, char *text, size_t size)
{
    static const char *const shapes[] = {"", ":scalar", "", ":column", ""};
    tool_writer self = {text, size, 0};
    uint32_t kind = epilogue->kind;
    tool_write(&self, "%s", gemm_epilogue_name(kind));
    bool numbered = kind == KILN_EPILOGUE_CLIP ||
                    (kind == KILN_EPILOGUE_SCALE && epilogue->operand == KILN_OPERAND_NONE) ||
                    (kind == KILN_EPILOGUE_SWIGLU && epilogue->p0 > 0);
    if (numbered) {
        tool_write(&self, ":");
        add_number(&self, epilogue->p0);
    } else if (kind == KILN_EPILOGUE_SWIGLU && epilogue->p0 < 0) {
        tool_write(&self, ":halves");
    }
    if (kind == KILN_EPILOGUE_CLIP) {
        tool_write(&self, ":");
        add_number(&self, epilogue->p1);
    }
    tool_write(&self, "%s", epilogue->operand < 5 ? shapes[epilogue->operand] : "");
    uint32_t ordinary = a_type == KILN_F64 ? KILN_F64 : KILN_F32;
    if (epilogue->operand != KILN_OPERAND_NONE && epilogue->type != ordinary)
        tool_write(&self, ":%s", kiln_type_name(epilogue->type));
}

const char *gemm_describe(const kiln_gemm_desc *desc, char *text, size_t size)
{
    tool_writer self = {text, size, 0};
    const uint32_t flags = desc->head.flags;
    text[0] = '\0';
    tool_write(&self, "m=%lld n=%lld k=%lld", (long long)desc->m, (long long)desc->n,
               (long long)desc->k);
    if (desc->batch > 1)
        tool_write(&self, " batch=%lld", (long long)desc->batch);
    tool_write(&self, " %s×%s→%s", kiln_type_name(desc->a_type), kiln_type_name(desc->b_type),
               kiln_type_name(desc->d_type));
    tool_write(&self, "%s%s", flags & KILN_GEMM_TRANSPOSE_A ? " transpose_a" : "",
               flags & KILN_GEMM_TRANSPOSE_B ? " transpose_b" : "");
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        tool_write(&self, " %s", gemm_epilogue_name(desc->epilogues[i].kind));
    gemm_describe_more(desc, text, size);
    return text;
}
