/* SPDX-License-Identifier: Apache-2.0 */
/* A run: D is cut into tiles, the tiles into as many shares as there are threads. Which thread
 * computes a tile changes nothing in it. Where an epilogue sums over rows, a share is whole columns
 * of tiles, so that these sums too have one order. */
#include "plugins/ref/gemm.h"

enum { WORK_PER_PART = 1 << 21 }; /* products that are worth waking a thread for */

typedef struct gemm_run {
    const ref_gemm_plan *plan;
    int64_t m, n; /* of op(A) op(B) */
    int64_t k;
    int64_t count; /* entries or groups */
    ref_gemm_groups groups;
    ref_gemm_product product;
    ref_gemm_finish finish;
    int64_t column_tiles;
    char *slots;
    int64_t parts;
} gemm_run;

/* ---- Tiles and shares ---- */

/* One row of the tile's sums, from its blocks. */
static void gather_row(const ref_gemm_slot *slot, int64_t row, int64_t columns)
{
    int64_t panels = ref_divide_up(columns, REF_COLUMNS);
    const double *block = slot->sums + row / REF_ROWS * panels * REF_SUMS;
    for (int64_t j = 0; j < columns; j += REF_COLUMNS)
        memcpy(slot->values + j, block + j / REF_COLUMNS * REF_SUMS + row % REF_ROWS * REF_COLUMNS,
               (size_t)ref_smaller(REF_COLUMNS, columns - j) * sizeof(double));
}

static void compute_tile(const gemm_run *run, int64_t row_tile, int64_t column_tile,
                         const ref_gemm_slot *slot)
{
    int64_t width = run->plan->layout.tile_columns, column = column_tile * width;
    int64_t columns = ref_smaller(width, run->n - column);
    ref_gemm_place place = ref_gemm_groups_place(&run->groups, row_tile);
    ref_gemm_multiply(&run->product, &place, column, columns, slot);
    for (int64_t i = 0; i < place.rows.count; i++) {
        gather_row(slot, i, columns);
        ref_gemm_finish_row(&run->finish, place.entry, ref_row(&place.rows, i), column, columns,
                            slot);
    }
}

/* All rows of a column of tiles, with the sums over them. */
static void compute_column(const gemm_run *run, int64_t column_tile, const ref_gemm_slot *slot)
{
    int64_t width = run->plan->layout.tile_columns, column = column_tile * width;
    int64_t columns = ref_smaller(width, run->n - column);
    ref_gemm_gradients_clear(&run->finish, true, slot);
    for (int64_t entry = 0; entry < run->count; entry++) {
        ref_gemm_gradients_clear(&run->finish, false, slot);
        for (int64_t tile = ref_gemm_groups_first(&run->groups, entry);
             tile < ref_gemm_groups_first(&run->groups, entry + 1); tile++)
            compute_tile(run, tile, column_tile, slot);
        ref_gemm_gradients_store(&run->finish, false, entry, column, columns, slot);
    }
    ref_gemm_gradients_store(&run->finish, true, 0, column, columns, slot);
}

/* What is shared out: columns of tiles where there are sums over rows, else tiles. */
static int64_t unit_count(const gemm_run *run)
{
    return run->plan->layout.gradients
               ? run->column_tiles
               : run->column_tiles * ref_gemm_groups_first(&run->groups, run->count);
}

static void compute_share(const gemm_run *run, int64_t part, int64_t parts, char *memory)
{
    ref_gemm_slot slot = ref_gemm_slot_at(&run->plan->layout, memory);
    int64_t units = unit_count(run), each = units / parts, more = units % parts;
    int64_t first = part * each + ref_smaller(part, more), end = first + each + (part < more);
    int64_t row_tiles = ref_gemm_groups_first(&run->groups, run->count);
    for (int64_t unit = first; unit < end; unit++)
        if (run->plan->layout.gradients)
            compute_column(run, unit, &slot);
        else
            compute_tile(run, unit % row_tiles, unit / row_tiles, &slot);
}

static void compute_part(void *argument, int64_t part)
{
    const gemm_run *run = argument;
    compute_share(run, part, run->parts, run->slots + part * run->plan->layout.slot_bytes);
}

/* How many shares pay, at most one per thread and per slot of the workspace. */
static int64_t worthwhile_parts(const gemm_run *run, int64_t slots)
{
    const kiln_host *host = run->plan->instance->host;
    int64_t parts = ref_smaller(ref_smaller(slots, host->thread_count(host)), unit_count(run));
    double entries = run->plan->desc.grouping ? 1 : (double)run->count;
    double work = entries * (double)run->m * (double)run->n * (double)(run->k + 1);
    if (parts < 1)
        return 1;
    return work < (double)WORK_PER_PART * (double)parts ? (int64_t)(work / WORK_PER_PART) + 1
                                                        : parts;
}

/* ---- Binding tensors ---- */

static kiln_status bind_matrix(const ref_gemm_plan *plan, const kiln_gemm_args *arguments,
                               uint32_t slot, uint32_t shape, ref_matrix *matrix)
{
    kiln_tensor tensor = ref_gemm_tensor(arguments, slot);
    char *data;
    kiln_status status = ref_gemm_address(plan, slot, &tensor, &data);
    if (status == KILN_OK)
        *matrix = ref_matrix_of(&tensor, data, shape);
    return status;
}

/* Sizes, and everything that needs no memory. */
static void measure(gemm_run *run, const kiln_gemm_args *arguments)
{
    const kiln_gemm_desc *desc = &run->plan->desc;
    kiln_tensor a = ref_gemm_tensor(arguments, KILN_GEMM_A),
                d = ref_gemm_tensor(arguments, KILN_GEMM_D);
    bool transposed = ref_gemm_transposed(desc, KILN_GEMM_A);
    run->m = d.shape[d.rank - 2];
    run->n = d.shape[d.rank - 1] * (ref_gemm_find(desc, KILN_EPILOGUE_SWIGLU) ? 2 : 1);
    run->k = a.shape[transposed ? a.rank - 2 : a.rank - 1];
    run->count = desc->grouping ? desc->groups : d.rank == 3 ? d.shape[0] : 1;
    run->column_tiles = ref_divide_up(run->n, run->plan->layout.tile_columns);
    run->groups = (ref_gemm_groups){.grouping = desc->grouping,
                                    .count = run->count,
                                    .rows = run->m,
                                    .depth = run->k,
                                    .tile_rows = run->plan->layout.tile_rows};
    run->finish.desc = desc;
    run->finish.wide = desc->a_type == KILN_F64 || desc->d_type == KILN_I32;
    run->finish.alpha = kiln_gemm_factor(desc, arguments->alpha);
    run->finish.beta = kiln_gemm_factor(desc, arguments->beta);
    run->finish.tile_columns = run->plan->layout.tile_columns;
}

/* The core has seen to this for strided operands; a packed one brings its own shape. */
static kiln_status check_shape(const gemm_run *run, const char *name, const ref_operand *operand,
                               int64_t rows)
{
    bool entries = operand->entries == run->count || operand->entries == 1;
    if (entries && operand->rows == rows && operand->depth == run->k)
        return KILN_OK;
    return run->plan->instance->host->set_error(
        KILN_INVALID,
        "operand %s has batch %lld, %lld %s and K = %lld; the others have batch %lld, %lld and K = "
        "%lld",
        name, (long long)operand->entries, (long long)operand->rows,
        *name == 'A' ? "rows" : "columns", (long long)operand->depth, (long long)run->count,
        (long long)rows, (long long)run->k);
}

static kiln_status bind_product(gemm_run *run, const kiln_gemm_args *arguments)
{
    ref_gemm_product *product = &run->product;
    kiln_tensor a = ref_gemm_tensor(arguments, KILN_GEMM_A),
                b = ref_gemm_tensor(arguments, KILN_GEMM_B);
    product->blas = run->plan->instance->blas;
    product->none = run->finish.alpha == 0 || run->k == 0;
    product->exact_runs = run->plan->layout.exact_runs;
    if (product->none)
        return KILN_OK;
    kiln_status status = ref_gemm_operand(run->plan, KILN_GEMM_A, &a, &product->a);
    if (status == KILN_OK)
        status = check_shape(run, "A", &product->a, run->m);
    if (status == KILN_OK)
        status = ref_gemm_operand(run->plan, KILN_GEMM_B, &b, &product->b);
    if (status == KILN_OK)
        status = check_shape(run, "B", &product->b, run->n);
    if (status == KILN_OK && product->exact_runs) {
        product->a_scale = product->a.scale;
        product->b_scale = product->b.scale;
        product->a.scale.data = product->b.scale.data = NULL;
    }
    return status;
}

/* The operands of epilogues: all, or only what is written into when nothing else is. */
static kiln_status bind_epilogues(gemm_run *run, const kiln_gemm_args *arguments, bool gradients)
{
    const kiln_gemm_desc *desc = &run->plan->desc;
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; status == KILN_OK && i < desc->epilogue_count; i++)
        if (desc->epilogues[i].operand != KILN_OPERAND_NONE &&
            (!gradients || desc->epilogues[i].kind == KILN_EPILOGUE_BIAS_GRADIENT))
            status = bind_matrix(run->plan, arguments, KILN_GEMM_OPERAND + i,
                                 desc->epilogues[i].operand, &run->finish.operands[i]);
    return status;
}

static kiln_status bind_groups(gemm_run *run, const kiln_gemm_args *arguments, char *workspace)
{
    kiln_tensor tensor = ref_gemm_tensor(arguments, KILN_GEMM_GROUPS);
    char *data = NULL;
    kiln_status status = KILN_OK;
    if (run->groups.grouping != KILN_GROUPING_NONE)
        status = ref_gemm_address(run->plan, KILN_GEMM_GROUPS, &tensor, &data);
    if (status == KILN_OK)
        ref_gemm_groups_read(&run->groups, &tensor, data, workspace);
    return status;
}

static kiln_status bind(gemm_run *run, const kiln_gemm_args *arguments)
{
    const ref_gemm_plan *plan = run->plan;
    ref_gemm_finish *finish = &run->finish;
    kiln_status status = bind_matrix(plan, arguments, KILN_GEMM_D, KILN_OPERAND_MATRIX, &finish->d);
    if (status == KILN_OK)
        status = bind_product(run, arguments);
    if (status == KILN_OK && finish->beta != 0)
        status = bind_matrix(plan, arguments, KILN_GEMM_C, KILN_OPERAND_MATRIX, &finish->c);
    if (status == KILN_OK && ref_gemm_find(&plan->desc, KILN_EPILOGUE_QUANTIZE))
        status =
            bind_matrix(plan, arguments, KILN_GEMM_D_SCALE, KILN_OPERAND_MATRIX, &finish->d_scale);
    return status == KILN_OK ? bind_epilogues(run, arguments, false) : status;
}

/* ---- The run ---- */

/* Without rows the sums over rows are 0, and nothing else is written or read. */
static kiln_status run_without_rows(gemm_run *run, const kiln_run_context *context,
                                    const kiln_gemm_args *arguments)
{
    if (run->n == 0 || !run->plan->layout.gradients || (context->parts > 0 && context->part > 0))
        return KILN_OK;
    run->groups.rows = 0;
    run->groups.grouping = KILN_GROUPING_NONE;
    kiln_status status = bind_epilogues(run, arguments, true);
    if (status == KILN_OK)
        compute_share(run, 0, 1, run->slots);
    return status;
}

static kiln_status run_all(gemm_run *run, const kiln_run_context *context, int64_t slots)
{
    const kiln_host *host = run->plan->instance->host;
    if (context->parts > 0) {
        compute_share(run, context->part, context->parts, run->slots);
        return ref_gemm_groups_status(&run->groups, host);
    }
    run->parts = worthwhile_parts(run, slots);
    if (run->parts == 1)
        compute_part(run, 0);
    else
        host->parallel_for(host, run->parts, compute_part, run);
    return ref_gemm_groups_status(&run->groups, host);
}

kiln_status ref_gemm_run(void *plan, const kiln_run_context *context,
                         const kiln_args_head *arguments)
{
    gemm_run run = {.plan = plan};
    const kiln_host *host = run.plan->instance->host;
    const ref_gemm_layout *layout = &run.plan->layout;
    const kiln_gemm_args *args = (const kiln_gemm_args *)arguments;
    kiln_status status = kiln_check_arguments(arguments, sizeof(kiln_gemm_args));
    if (status != KILN_OK)
        return host->set_error(status,
                               "ref: the arguments' struct_size is %u; ref knows %zu bytes, and "
                               "nothing may be said behind them",
                               (unsigned)arguments->struct_size, sizeof(kiln_gemm_args));
    int64_t slots = (context->workspace_bytes - layout->groups_bytes) / layout->slot_bytes;
    if (!context->workspace || slots < 1)
        return host->set_error(KILN_INTERNAL,
                               "ref: the workspace has %lld bytes, at least %lld are needed",
                               (long long)context->workspace_bytes,
                               (long long)(layout->groups_bytes + layout->slot_bytes));
    run.slots = (char *)context->workspace + layout->groups_bytes;
    measure(&run, args);
    if (run.m == 0 || run.n == 0 || run.count == 0)
        return run_without_rows(&run, context, args);
    status = bind(&run, args);
    if (status == KILN_OK)
        status = bind_groups(&run, args, context->workspace);
    return status == KILN_OK ? run_all(&run, context, slots) : status;
}
