/* SPDX-License-Identifier: Apache-2.0 */
/* Registers and grids of launches. */
#include "gemm_layout.h"

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

static void set_b(const struct npu_gemm *gemm, const struct npu_gemm_blocks *blocks,
                  const struct npu_gemm_operand *b, struct npu_launch *launch)
{
    int64_t size = npu_type_bytes(gemm->type);
    struct npu_register_rule *rule = &launch->rule[NPU_R_B];
    *rule = npu_fixed_rule(b->address);
    rule->step[BATCH] = b->batch;
    if (gemm->packed_b)
        rule->step[COLUMNS] = blocks->n * npu_round_up(gemm->k, blocks->k) * size;
    else
        rule->step[COLUMNS] = blocks->n * (gemm->transpose_b ? b->stride : size);
    launch->rule[NPU_R_B_STRIDE] = npu_fixed_rule(b->stride);
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
    int64_t size = npu_type_bytes(gemm->type), across = npu_gemm_across(gemm->type);
    memset(launch, 0, sizeof *launch);
    launch->grid[ROWS] = pieces(arguments->m, blocks->m);
    launch->grid[COLUMNS] = pieces(arguments->n, blocks->n);
    launch->grid[BATCH] = (uint32_t)arguments->batch;
    launch->count = NPU_R_GEMM_COUNT;
    launch->rule[NPU_R_A] = (struct npu_register_rule){
        arguments->a.address,
        {blocks->m * (gemm->transpose_a ? size : arguments->a.stride), 0, arguments->a.batch},
        INT64_MAX};
    launch->rule[NPU_R_A_STRIDE] = npu_fixed_rule(arguments->a.stride);
    set_b(gemm, blocks, &arguments->b, launch);
    set_matrix(launch, NPU_R_C, &arguments->c, blocks->m,
               blocks->n * npu_type_bytes(gemm->c_type));
    set_matrix(launch, NPU_R_D, &arguments->d, blocks->m,
               blocks->n * npu_type_bytes(gemm->d_type));
    launch->rule[NPU_R_M] = npu_rest_rule(arguments->m, blocks->m, ROWS);
    launch->rule[NPU_R_N] = npu_rest_rule(arguments->n, blocks->n, COLUMNS);
    launch->rule[NPU_R_COLUMNS] =
        npu_rest_rule(npu_round_up(arguments->n, across) / across, blocks->n / across, COLUMNS);
    launch->rule[NPU_R_ALPHA] = npu_fixed_rule(double_bits(arguments->alpha));
    launch->rule[NPU_R_BETA] = npu_fixed_rule(double_bits(arguments->beta));
    for (uint32_t i = 0; i < gemm->epilogues; i++)
        set_epilogue(gemm, blocks, arguments, i, launch);
}
