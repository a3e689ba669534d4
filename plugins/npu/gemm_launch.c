/* SPDX-License-Identifier: Apache-2.0 */
/* Registers and grids of launches. */
#include "plugins/npu/gemm_layout.h"

/* Axes of the grid. */
enum { ROWS, COLUMNS, BATCH };

/* A matrix whose block (i, j) begins `row_step` rows and `column_step` bytes further on. */
static void set_matrix(struct npu_launch *launch, int32_t reg,
                       const struct npu_gemm_operand *operand, int64_t row_step,
                       int64_t column_step)
{
    launch->rule[reg] = (struct npu_register_rule){
        operand->address, {row_step * operand->stride, column_step, operand->batch}, INT64_MAX};
    launch->rule[reg + 1] = npu_fixed_rule(operand->stride);
}

static int64_t double_bits(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t pieces(int64_t extent, int64_t step)
{
    return (uint32_t)((extent + step - 1) / step);
}

/* A or B. `axis` counts the blocks of its rows or columns; k is within the program. */
static void set_side(struct npu_launch *launch, const struct npu_gemm_side *side,
                     enum npu_type type, const struct npu_gemm_operand *operand, int axis)
{
    struct npu_register_rule *rule = &launch->rule[side->address];
    int64_t size = npu_type_bytes(type);
    *rule = npu_fixed_rule(operand->address);
    rule->step[BATCH] = operand->batch;
    if (!side->packed)
        rule->step[axis] = side->block * (side->k_rows ? size : operand->stride);
    else if (side->k_rows)
        rule->step[axis] = side->block * size / NPU_GRANULE * npu_pack_stride(&side->stored);
    else
        rule->step[axis] = side->block * NPU_GRANULE;
    launch->rule[side->address + 1] = npu_fixed_rule(operand->stride);
    launch->rule[side->packed_extent] = npu_packed_rule(side, type, axis);
}

static void set_epilogue(const struct npu_gemm *gemm, const struct npu_gemm_blocks *blocks,
                         const struct npu_gemm_arguments *arguments, uint32_t index,
                         struct npu_launch *launch)
{
    const struct npu_epilogue *epilogue = &gemm->epilogue[index];
    int64_t size = npu_type_bytes(epilogue->type);
    struct npu_gemm_operand operand = arguments->epilogue[index];
    bool down = epilogue->shape == NPU_OPERAND_COLUMN || epilogue->shape == NPU_OPERAND_MATRIX;
    bool right = epilogue->shape == NPU_OPERAND_ROW || epilogue->shape == NPU_OPERAND_MATRIX;
    if (epilogue->shape == NPU_OPERAND_COLUMN)
        operand.stride = size;
    set_matrix(launch, NPU_R_EPILOGUE + 2 * (int32_t)index, &operand, down ? blocks->m : 0,
               right ? blocks->n * size : 0);
}

void npu_gemm_launch(const struct npu_gemm *gemm, const struct npu_gemm_blocks *blocks,
                     const struct npu_gemm_arguments *arguments, struct npu_launch *launch)
{
    const struct npu_gemm_side a = npu_gemm_side_a(gemm, blocks), b = npu_gemm_side_b(gemm, blocks);
    memset(launch, 0, sizeof *launch);
    launch->grid[ROWS] = pieces(arguments->m, blocks->m);
    launch->grid[COLUMNS] = pieces(arguments->n, blocks->n);
    launch->grid[BATCH] = (uint32_t)arguments->batch;
    launch->count = NPU_R_GEMM_COUNT;
    set_side(launch, &a, gemm->type, &arguments->a, ROWS);
    set_side(launch, &b, gemm->type, &arguments->b, COLUMNS);
    set_matrix(launch, NPU_R_C, &arguments->c, blocks->m, blocks->n * npu_type_bytes(gemm->c_type));
    set_matrix(launch, NPU_R_D, &arguments->d, blocks->m, blocks->n * npu_type_bytes(gemm->d_type));
    launch->rule[NPU_R_M] = npu_rest_rule(arguments->m, blocks->m, ROWS);
    launch->rule[NPU_R_N] = npu_rest_rule(arguments->n, blocks->n, COLUMNS);
    launch->rule[NPU_R_K] = npu_fixed_rule(arguments->k);
    launch->rule[NPU_R_ALPHA] = npu_fixed_rule(double_bits(arguments->alpha));
    launch->rule[NPU_R_BETA] = npu_fixed_rule(double_bits(arguments->beta));
    for (uint32_t i = 0; i < gemm->epilogues; i++)
        set_epilogue(gemm, blocks, arguments, i, launch);
}
