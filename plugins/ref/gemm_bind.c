/* SPDX-License-Identifier: Apache-2.0 */
/* From the tensors of a run to views of A and B. The core has checked types and shapes; what only
 * the plugin can know is checked here. */
#include "plugins/ref/gemm.h"

kiln_tensor ref_gemm_tensor(const kiln_gemm_args *arguments, uint32_t slot)
{
    kiln_tensor absent = {0};
    return slot < arguments->head.tensor_count ? arguments->head.tensors[slot] : absent;
}

kiln_status ref_gemm_address(const ref_gemm_plan *plan, uint32_t slot, const kiln_tensor *tensor,
                             char **data)
{
    const kiln_host *host = plan->instance->host;
    *data = kiln_tensor_address(host, tensor);
    return *data ? KILN_OK
                 : host->set_error(KILN_INVALID,
                                   "ref: tensor %u of the GEMM is missing or not in host memory",
                                   (unsigned)slot);
}

/* What is wanted of a tensor of scales or zero points. */
typedef struct grid_wanted {
    char operand;
    const char *name;
    uint32_t type; /* NONE: there must be no tensor */
    const kiln_quantization *quantization;
    int64_t stored[2]; /* shape of the operand without its entries */
    int64_t entries;
    bool rows_first;
} grid_wanted;

static kiln_status wrong_grid(const kiln_host *host, const grid_wanted *wanted,
                              const kiln_tensor *tensor)
{
    int64_t shape[2];
    ref_grid_shape(wanted->quantization, wanted->stored, shape);
    return host->set_error(
        KILN_INVALID,
        "ref: operand %c has %s of type %s, rank %u and shape […, %lld, %lld]; they must be %s of "
        "[%lld, %lld], alone or one for each of %lld entries",
        wanted->operand, wanted->name, kiln_type_name(tensor->type), (unsigned)tensor->rank,
        (long long)(tensor->rank > 1 && tensor->rank <= 3 ? tensor->shape[tensor->rank - 2] : 0),
        (long long)(tensor->rank > 0 && tensor->rank <= 3 ? tensor->shape[tensor->rank - 1] : 0),
        kiln_type_name(wanted->type), (long long)shape[0], (long long)shape[1],
        (long long)wanted->entries);
}

static kiln_status bind_grid(const ref_gemm_plan *plan, const grid_wanted *wanted,
                             const kiln_tensor *tensor, ref_grid *grid)
{
    const kiln_host *host = plan->instance->host;
    int64_t shape[2];
    memset(grid, 0, sizeof *grid);
    if (!tensor != !wanted->type)
        return host->set_error(KILN_INVALID,
                               "ref: operand %c comes %s %s, unlike the descriptor says",
                               wanted->operand, tensor ? "with" : "without", wanted->name);
    if (!tensor)
        return KILN_OK;
    ref_grid_shape(wanted->quantization, wanted->stored, shape);
    uint32_t first = tensor->rank - 2;
    if (tensor->type != wanted->type || first > 1 || tensor->shape[first] != shape[0] ||
        tensor->shape[first + 1] != shape[1] ||
        (first == 1 && tensor->shape[0] != wanted->entries && tensor->shape[0] != 1))
        return wrong_grid(host, wanted, tensor);
    const char *data = kiln_tensor_address(host, tensor);
    if (!data)
        return host->set_error(KILN_INVALID, "ref: the %s of operand %c are not in host memory",
                               wanted->name, wanted->operand);
    *grid = ref_grid_of(tensor, data, wanted->quantization, wanted->rows_first);
    return KILN_OK;
}

kiln_status ref_gemm_bind_grids(const ref_gemm_plan *plan, uint32_t slot, const kiln_tensor *tensor,
                                ref_operand *operand)
{
    bool transposed = ref_gemm_transposed(&plan->desc, slot);
    const kiln_quantization *quantization = ref_gemm_quantization(&plan->desc, slot);
    grid_wanted wanted = {
        .operand = slot == KILN_GEMM_A ? 'A' : 'B',
        .name = "scales",
        .type = quantization->scale_type,
        .quantization = quantization,
        .stored = {tensor->shape[tensor->rank - 2], tensor->shape[tensor->rank - 1]},
        .entries = operand->entries,
        .rows_first = ref_rows_first(slot, transposed)};
    kiln_status status = bind_grid(plan, &wanted, tensor->scale, &operand->scale);
    if (status != KILN_OK)
        return status;
    wanted.name = "zero points";
    wanted.type = quantization->zero_type;
    return bind_grid(plan, &wanted, tensor->zero_point, &operand->zero);
}

kiln_status ref_gemm_operand(const ref_gemm_plan *plan, uint32_t slot, const kiln_tensor *tensor,
                             ref_operand *operand)
{
    char *data;
    kiln_status status = ref_gemm_address(plan, slot, tensor, &data);
    if (status != KILN_OK)
        return status;
    if (tensor->rank != 2 && tensor->rank != 3)
        return plan->instance->host->set_error(
            KILN_INVALID, "ref: operand %c has rank %u, not 2 or 3",
            slot == KILN_GEMM_A ? 'A' : 'B', (unsigned)tensor->rank);
    if (tensor->layout == KILN_LAYOUT_PACKED)
        return ref_gemm_packed_operand(plan, slot, tensor, data, operand);
    *operand = ref_operand_strided(tensor, data, slot, ref_gemm_transposed(&plan->desc, slot));
    return ref_gemm_bind_grids(plan, slot, tensor, operand);
}
