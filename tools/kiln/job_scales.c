/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: scales and zero points, and which elements share one. */
#include <stdio.h>
#include <string.h>

#include "tools/kiln/gemm_words.h"
#include "tools/kiln/job.h"

bool job_is_quantized(const job_tensor *tensor)
{
    return tensor->scale != JOB_NONE || tensor->zero_point != JOB_NONE;
}

/* The matrix of scales of one tensor: how many there are along each dimension of the tensor. */
typedef struct grid {
    int64_t leading, rows, columns; /* leading 1: one for all */
} grid;

static grid extents(const job_tensor *tensor)
{
    return (grid){tensor->rank == 3 ? tensor->shape[0] : 1, tensor->shape[tensor->rank - 2],
                  tensor->shape[tensor->rank - 1]};
}

static int64_t blocks(int64_t extent, int64_t block)
{
    return block < 1 ? 1 : extent / block + (extent % block != 0);
}

static bool is_single(const job_tensor *tensor)
{
    kiln_tensor whole = job_whole(tensor);
    return kiln_tensor_elements(&whole) == 1;
}

void job_scale_counts(const kiln_job *job, const job_tensor *tensor, int64_t *rows,
                      int64_t *columns)
{
    const job_tensor *scale = tensor->scale == JOB_NONE ? NULL : &job->tensors[tensor->scale];
    *rows = *columns = 0;
    if (tensor->rank < 2)
        return;
    grid whole = extents(tensor);
    if (tensor->block_told) {
        *rows = blocks(whole.rows, tensor->block[0]);
        *columns = blocks(whole.columns, tensor->block[1]);
    } else if (scale && scale->rank == 1 && !is_single(scale)) {
        bool across = scale->shape[0] == whole.columns;
        *rows = across ? 1 : scale->shape[0];
        *columns = across ? scale->shape[0] : 1;
    } else if (scale && scale->rank > 1 && !is_single(scale)) {
        *rows = extents(scale).rows;
        *columns = extents(scale).columns;
    }
}

static bool misfit(const job_tensor *tensor, const job_tensor *scale, const kiln_yaml_node *node,
                   const char *key, const char *hint, kiln_yaml_error *error)
{
    char shape[160], scale_shape[160];
    return job_fail(error, node, "%s '%s' is %s, which does not fit '%s' %s: %s", key, scale->name,
                    job_shape_text(scale, scale_shape), tensor->name, job_shape_text(tensor, shape),
                    hint);
}

/* A vector stands for the one dimension that it fits. */
static bool vector_grid(const job_tensor *tensor, int64_t count, grid *found)
{
    grid whole = extents(tensor);
    bool rows = count == blocks(whole.rows, tensor->block[0] ? tensor->block[0] : 1) &&
                (!tensor->block[1] || tensor->block[1] == -1),
         columns = count == blocks(whole.columns, tensor->block[1] ? tensor->block[1] : 1) &&
                   (!tensor->block[0] || tensor->block[0] == -1),
         leading = tensor->rank == 3 && count == whole.leading;
    *found = (grid){leading ? count : 1, rows ? count : 1, columns ? count : 1};
    return rows + columns + leading == 1;
}

static bool find_grid(const job_tensor *tensor, const job_tensor *scale, const kiln_yaml_node *node,
                      const char *key, grid *found, kiln_yaml_error *error)
{
    if (is_single(scale)) {
        *found = (grid){1, 1, 1};
        return true;
    }
    if (scale->rank == 1)
        return vector_grid(tensor, scale->shape[0], found) ||
               misfit(tensor, scale, node, key,
                      "a vector has one for each row, one for each column or one for each group; "
                      "shape it [n, 1], [1, n] or [n, 1, 1] where several would do",
                      error);
    if (scale->rank != 2 && scale->rank != 3)
        return misfit(tensor, scale, node, key, "a matrix is wanted, with one for each block",
                      error);
    *found = extents(scale);
    if (scale->rank == 3 && scale->shape[0] == 0)
        return misfit(tensor, scale, node, key, "it is empty", error);
    return found->leading == 1 || (tensor->rank == 3 && found->leading == tensor->shape[0]) ||
           misfit(tensor, scale, node, key, "the leading dimensions differ", error);
}

/* The power of two that makes `count` blocks, 0 when none does. Of two or more blocks it is the
 * only one: the next makes at most half as many, rounded up. */
static int32_t power_of_two(int64_t extent, int64_t count)
{
    int64_t block = 1;
    while (block < extent && blocks(extent, block) > count)
        block *= 2;
    return block <= INT32_MAX && blocks(extent, block) == count ? (int32_t)block : 0;
}

/* How many elements share one of `count`. What people quantise by is one, all or a power of two;
 * any other block may be one of several that make as many, such as 96 and 128 of 192. */
static bool find_block(int64_t extent, int64_t count, int32_t *block)
{
    if (*block)
        return count == blocks(extent, *block);
    *block = count == 1 ? -1 : power_of_two(extent, count);
    return *block != 0;
}

static bool find_blocks(job_tensor *tensor, const job_tensor *scale, const kiln_yaml_node *node,
                        const char *key, const grid *found, kiln_yaml_error *error)
{
    grid whole = extents(tensor);
    char hint[240];
    bool known = tensor->block[0] != 0; /* told, or found by the scale */
    if (find_block(whole.rows, found->rows, &tensor->block[0]) &&
        find_block(whole.columns, found->columns, &tensor->block[1]))
        return true;
    if (known)
        snprintf(hint, sizeof hint, "by its %s, [%lld, %lld] is wanted",
                 tensor->block_told ? "block" : "scale",
                 (long long)blocks(whole.rows, tensor->block[0]),
                 (long long)blocks(whole.columns, tensor->block[1]));
    else
        snprintf(hint, sizeof hint,
                 "say which elements share one, as in %s%s%s, unless it is one, all or a power of "
                 "two",
                 tensor->node ? "block: [1, 96]" : "--", tensor->node ? "" : tensor->name,
                 tensor->node ? "" : "-block 1x96");
    return misfit(tensor, scale, node, key, hint, error);
}

bool job_is_quantizable(uint32_t type)
{
    return gemm_is_integer(type) || type == KILN_E4M3 || type == KILN_E5M2 || type == KILN_E2M1;
}

static bool check_types(const kiln_job *job, const job_tensor *tensor, kiln_yaml_error *error)
{
    const kiln_yaml_node *node = tensor->scale_node ? tensor->scale_node : tensor->zero_point_node;
    if (!job_is_quantizable(tensor->type))
        return job_fail(error, node,
                        "'%s' is %s; scales and zero points are for e4m3, e5m2, e2m1, i8, u8, i4 "
                        "and u4",
                        tensor->name, kiln_type_name(tensor->type));
    if (tensor->scale != JOB_NONE) {
        uint32_t type = job->tensors[tensor->scale].type;
        if (type != KILN_F32 && type != KILN_F16 && type != KILN_BF16 && type != KILN_E4M3 &&
            type != KILN_UE8M0)
            return job_fail(error, node,
                            "scale '%s' is %s; f32, f16, bf16, e4m3 or ue8m0 is wanted",
                            job->tensors[tensor->scale].name, kiln_type_name(type));
    }
    if (tensor->zero_point == JOB_NONE)
        return true;
    uint32_t type = job->tensors[tensor->zero_point].type;
    return (type == tensor->type && gemm_is_integer(type)) ||
           job_fail(error, tensor->zero_point_node,
                    "zero_point '%s' is %s, but '%s' is %s; zero points are for integers, and of "
                    "the same type",
                    job->tensors[tensor->zero_point].name, kiln_type_name(type), tensor->name,
                    kiln_type_name(tensor->type));
}

static bool fit_one(const kiln_job *job, job_tensor *tensor, bool zero_point, bool single,
                    kiln_yaml_error *error)
{
    int64_t index = zero_point ? tensor->zero_point : tensor->scale;
    const kiln_yaml_node *node = zero_point ? tensor->zero_point_node : tensor->scale_node;
    const char *key = zero_point ? "zero_point" : "scale";
    const job_tensor *scale = index == JOB_NONE ? NULL : &job->tensors[index];
    grid found = {1, 1, 1};
    if (!scale || is_single(scale) != single)
        return true;
    if (single && tensor->block[0])
        return true;
    return find_grid(tensor, scale, node, key, &found, error) &&
           find_blocks(tensor, scale, node, key, &found, error);
}

/* Zero points of 4 bits that a row has must be there, one beside the other. */
static bool check_single(const kiln_job *job, const job_tensor *tensor, kiln_yaml_error *error)
{
    const job_tensor *zero =
        tensor->zero_point == JOB_NONE ? NULL : &job->tensors[tensor->zero_point];
    grid whole = extents(tensor);
    int64_t columns = blocks(whole.columns, tensor->block[1]);
    if (!zero || kiln_type_bits(zero->type) >= 8 || !is_single(zero) || columns <= 1)
        return true;
    return job_fail(error, tensor->zero_point_node,
                    "zero_point '%s' is a single %s, which cannot serve the %lld blocks that '%s' "
                    "has in a row; write it down for each block, as [%lld, %lld]",
                    zero->name, kiln_type_name(zero->type), (long long)columns, tensor->name,
                    (long long)blocks(whole.rows, tensor->block[0]), (long long)columns);
}

/* A single scale or zero point serves all blocks of the other. */
bool job_fit_scales(const kiln_job *job, job_tensor *tensor, kiln_yaml_error *error)
{
    char shape[160];
    if (!job_is_quantized(tensor))
        return true;
    if (!check_types(job, tensor, error))
        return false;
    if (tensor->rank != 2 && tensor->rank != 3)
        return job_fail(error, tensor->node,
                        "'%s' is %s; a scale or zero_point is for a matrix, or a batch of them",
                        tensor->name, job_shape_text(tensor, shape));
    for (int single = 0; single < 2; single++)
        for (int zero_point = 0; zero_point < 2; zero_point++)
            if (!fit_one(job, tensor, zero_point, single, error))
                return false;
    return check_single(job, tensor, error);
}

kiln_quantization job_quantization(const kiln_job *job, const job_tensor *tensor)
{
    kiln_quantization quantization;
    memset(&quantization, 0, sizeof quantization);
    if (!job_is_quantized(tensor))
        return quantization;
    if (tensor->scale != JOB_NONE)
        quantization.scale_type = job->tensors[tensor->scale].type;
    if (tensor->zero_point != JOB_NONE)
        quantization.zero_type = job->tensors[tensor->zero_point].type;
    memcpy(quantization.block, tensor->block, sizeof tensor->block);
    return quantization;
}
