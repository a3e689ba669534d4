/* SPDX-License-Identifier: Apache-2.0 */
/* kiln.gemm/1: what the core knows of it. */
#include <stdio.h>

#include "core/ops/gemm.h"

static uint32_t gemm_principal_type(const void *descriptor)
{
    return ((const kiln_gemm_desc *)descriptor)->a_type;
}

static uint64_t gemm_outputs(const void *descriptor)
{
    const kiln_gemm_desc *desc = descriptor;
    uint64_t outputs = 1u << KILN_GEMM_D;
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        if (desc->epilogues[i].kind == KILN_EPILOGUE_BIAS_GRADIENT)
            outputs |= 1u << (KILN_GEMM_OPERAND + i);
        if (desc->epilogues[i].kind == KILN_EPILOGUE_QUANTIZE)
            outputs |= 1u << KILN_GEMM_D_SCALE;
    }
    return outputs;
}

static uint64_t gemm_inputs(const void *descriptor, const kiln_args_head *arguments)
{
    const kiln_gemm_desc *desc = descriptor;
    const kiln_gemm_args *args = (const kiln_gemm_args *)arguments;
    const kiln_tensor *a = &arguments->tensors[KILN_GEMM_A];
    uint64_t inputs = 0;
    if (kiln_gemm_factor(desc, args->alpha) != 0 &&
        a->shape[a->rank - (desc->head.flags & KILN_GEMM_TRANSPOSE_A ? 2 : 1)] > 0)
        inputs |= 1u << KILN_GEMM_A | 1u << KILN_GEMM_B;
    if (kiln_gemm_factor(desc, args->beta) != 0)
        inputs |= 1u << KILN_GEMM_C;
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        if (desc->epilogues[i].operand != KILN_OPERAND_NONE &&
            desc->epilogues[i].kind != KILN_EPILOGUE_BIAS_GRADIENT)
            inputs |= 1u << (KILN_GEMM_OPERAND + i);
    if (desc->grouping != KILN_GROUPING_NONE)
        inputs |= 1u << KILN_GEMM_GROUPS;
    /* Rows that a grouping leaves out keep what they hold. */
    if (desc->grouping == KILN_GROUPING_CONTIGUOUS || desc->grouping == KILN_GROUPING_MASKED)
        inputs |= gemm_outputs(desc) & (1u << KILN_GEMM_D | 1u << KILN_GEMM_D_SCALE);
    return inputs;
}

/* Fixed dimensions are the descriptor's: with swiglu and groupings D's shape is another. */
static int64_t gemm_sizes(const void *descriptor, const kiln_args_head *arguments,
                          kiln_size sizes[KILN_OPERATOR_SIZES])
{
    const kiln_gemm_desc *desc = descriptor;
    const uint32_t flags = desc->head.flags;
    const kiln_tensor *a = &arguments->tensors[KILN_GEMM_A], *d = &arguments->tensors[KILN_GEMM_D];
    const int64_t *a_end = a->shape + a->rank, *d_end = d->shape + d->rank;
    int64_t columns = d_end[-1];
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        columns *= desc->epilogues[i].kind == KILN_EPILOGUE_SWIGLU ? 2 : 1;
    sizes[0] = (kiln_size){"m", flags & KILN_GEMM_DYNAMIC_M ? d_end[-2] : desc->m};
    sizes[1] = (kiln_size){"n", flags & KILN_GEMM_DYNAMIC_N ? columns : desc->n};
    sizes[2] = (kiln_size){"k", flags & KILN_GEMM_DYNAMIC_K
                                    ? a_end[flags & KILN_GEMM_TRANSPOSE_A ? -2 : -1]
                                    : desc->k};
    sizes[3] = (kiln_size){"batch", !(flags & KILN_GEMM_DYNAMIC_BATCH) ? desc->batch
                                    : d->rank == 3                     ? d->shape[0]
                                                                       : 1};
    return 4;
}

/* "e4m3", "i4(f16 1x32, i4)" */
static void describe_operand(uint32_t type, const kiln_quantization *quantization, char *text,
                             size_t size)
{
    const char *name = kiln_type_name(type);
    char blocks[2][16];
    for (int i = 0; i < 2; i++)
        snprintf(blocks[i], sizeof blocks[i], "%d", quantization->block[i]);
    bool zero = quantization->zero_type != KILN_TYPE_NONE;
    if (!quantization->scale_type && !zero)
        snprintf(text, size, "%s", name);
    else
        snprintf(text, size, "%s(%s %sx%s%s)", name, kiln_type_name(quantization->scale_type),
                 quantization->block[0] == -1 ? "all" : blocks[0],
                 quantization->block[1] == -1 ? "all" : blocks[1], zero ? ", zero points" : "");
}

static void gemm_describe_text(const void *descriptor, char *text, size_t size)
{
    static const char *const groupings[] = {"", "contiguous ", "masked ", "k-"};
    const kiln_gemm_desc *desc = descriptor;
    const uint32_t flags = desc->head.flags;
    char a[64], b[64], d[64], groups[64] = "", precision[48] = "";
    describe_operand(desc->a_type, &desc->a_quantization, a, sizeof a);
    describe_operand(desc->b_type, &desc->b_quantization, b, sizeof b);
    describe_operand(desc->d_type, &desc->d_quantization, d, sizeof d);
    if (desc->grouping != KILN_GROUPING_NONE)
        snprintf(groups, sizeof groups, ", %lld %sgroups", (long long)desc->groups,
                 groupings[desc->grouping]);
    if (desc->precision == KILN_PRECISION_FAST)
        snprintf(precision, sizeof precision, ", fast");
    else if (desc->precision == KILN_PRECISION_AUTO)
        snprintf(precision, sizeof precision, ", max_rel_error %g", desc->max_rel_error);
    snprintf(text, size, "m%s%lld n%s%lld k%s%lld batch%s%lld %s%s*%s%s->%s, %u epilogue%s%s%s",
             flags & KILN_GEMM_DYNAMIC_M ? "<=" : "=", (long long)desc->m,
             flags & KILN_GEMM_DYNAMIC_N ? "<=" : "=", (long long)desc->n,
             flags & KILN_GEMM_DYNAMIC_K ? "<=" : "=", (long long)desc->k,
             flags & KILN_GEMM_DYNAMIC_BATCH ? "<=" : "=", (long long)desc->batch, a,
             flags & KILN_GEMM_TRANSPOSE_A ? "^T" : "", b,
             flags & KILN_GEMM_TRANSPOSE_B ? "^T" : "", d, desc->epilogue_count,
             desc->epilogue_count == 1 ? "" : "s", groups, precision);
}

const kiln_operator kiln_gemm_operator = {
    .name = KILN_GEMM,
    .descriptor_size = sizeof(kiln_gemm_desc),
    .canonicalise = kiln_gemm_canonicalise,
    .principal_type = gemm_principal_type,
    .outputs = gemm_outputs,
    .inputs = gemm_inputs,
    .prepare = kiln_gemm_prepare,
    .check = kiln_gemm_check,
    .check_packed = kiln_gemm_check_packed,
    .sizes = gemm_sizes,
    .describe = gemm_describe_text,
};
