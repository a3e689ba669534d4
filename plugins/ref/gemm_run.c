/* SPDX-License-Identifier: Apache-2.0 */
/* A run: D is cut into tiles, the tiles into as many shares as there are threads. Which thread
 * computes a tile changes nothing in it. */
#include "plugins/ref/ref.h"

enum { WORK_PER_PART = 1 << 21 }; /* products that are worth waking a thread for */

typedef struct gemm_run {
    const ref_gemm_plan *plan;
    ref_operand a, b;
    ref_gemm_finish finish;
    int64_t m, n, batch;
    int64_t k; /* 0 also when alpha is: A and B are not read then */
    int64_t row_tiles, column_tiles;
    char *workspace;
    int64_t parts;
} gemm_run;

static int64_t divide_up(int64_t value, int64_t by)
{
    return (value + by - 1) / by;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The sums of one tile. */
static void multiply_tile(const gemm_run *run, int64_t batch, int64_t row, int64_t column,
                          double *blocks, double *sums)
{
    const ref_gemm_plan *plan = run->plan;
    int64_t row_panels = divide_up(smaller(plan->tile_rows, run->m - row), REF_ROWS);
    int64_t column_panels = divide_up(smaller(plan->tile_columns, run->n - column), REF_COLUMNS);
    double *a = blocks, *b = blocks + row_panels * REF_A_BLOCK;

    if (run->k == 0)
        memset(sums, 0, (size_t)(row_panels * REF_ROWS * REF_TILE) * sizeof *sums);
    for (int64_t k = 0; k < run->k; k += REF_DEPTH) {
        for (int64_t i = 0; i < row_panels; i++)
            ref_operand_load(&run->a, batch, row / REF_ROWS + i, k, a + i * REF_A_BLOCK);
        for (int64_t j = 0; j < column_panels; j++)
            ref_operand_load(&run->b, batch, column / REF_COLUMNS + j, k, b + j * REF_B_BLOCK);
        for (int64_t i = 0; i < row_panels; i++)
            for (int64_t j = 0; j < column_panels; j++)
                ref_block_multiply(plan->instance->blas, k > 0, a + i * REF_A_BLOCK,
                                   b + j * REF_B_BLOCK,
                                   sums + i * REF_ROWS * REF_TILE + j * REF_COLUMNS);
    }
}

static void compute_share(void *argument, int64_t part, int64_t parts, char *slot)
{
    const gemm_run *run = argument;
    const ref_gemm_plan *plan = run->plan;
    double *blocks = (double *)(void *)slot;
    double *sums = blocks + (plan->tile_rows + plan->tile_columns) * REF_DEPTH;
    int64_t tiles = run->batch * run->row_tiles * run->column_tiles;
    int64_t each = tiles / parts, more = tiles % parts;
    int64_t first = part * each + smaller(part, more), end = first + each + (part < more);

    for (int64_t tile = first; tile < end; tile++) {
        int64_t row = tile % run->row_tiles * plan->tile_rows;
        int64_t column = tile / run->row_tiles % run->column_tiles * plan->tile_columns;
        int64_t batch = tile / run->row_tiles / run->column_tiles;
        multiply_tile(run, batch, row, column, blocks, sums);
        for (int64_t i = 0; i < smaller(plan->tile_rows, run->m - row); i++)
            ref_gemm_finish_row(&run->finish, batch, row + i, column,
                                smaller(plan->tile_columns, run->n - column), sums + i * REF_TILE);
    }
}

static void compute_part(void *argument, int64_t part)
{
    const gemm_run *run = argument;
    compute_share(argument, part, run->parts, run->workspace + part * run->plan->slot_bytes);
}

/* The tensor of a slot, zeroed when there is none. */
static kiln_tensor tensor_of(const kiln_gemm_args *arguments, uint32_t slot)
{
    kiln_tensor absent = {0};
    return slot < arguments->head.tensor_count ? arguments->head.tensors[slot] : absent;
}

static kiln_status bind_matrix(const ref_gemm_plan *plan, const kiln_gemm_args *arguments,
                               uint32_t slot, uint32_t shape, ref_matrix *matrix)
{
    const kiln_host *host = plan->instance->host;
    kiln_tensor tensor = tensor_of(arguments, slot);
    char *data = kiln_tensor_address(host, &tensor);
    if (!data)
        return host->set_error(KILN_INVALID,
                               "ref: tensor %u of the GEMM is missing or not in host memory",
                               (unsigned)slot);
    *matrix = ref_matrix_of(&tensor, data, shape);
    return KILN_OK;
}

/* The core has seen to this for strided operands; a packed one brings its own shape. */
static kiln_status check_shape(const gemm_run *run, const char *name, const ref_operand *operand,
                               int64_t rows)
{
    bool batch = operand->batch == run->batch || operand->batch == 1;
    if (batch && operand->rows == rows && operand->depth == run->k)
        return KILN_OK;
    return run->plan->instance->host->set_error(
        KILN_INVALID,
        "operand %s has batch %lld, %lld %s and K = %lld; the others have batch %lld, %lld and K = "
        "%lld",
        name, (long long)operand->batch, (long long)operand->rows,
        *name == 'A' ? "rows" : "columns", (long long)operand->depth, (long long)run->batch,
        (long long)rows, (long long)run->k);
}

static kiln_status bind_product(gemm_run *run, const kiln_gemm_args *arguments)
{
    kiln_tensor a = tensor_of(arguments, KILN_GEMM_A), b = tensor_of(arguments, KILN_GEMM_B);
    bool transposed = run->plan->desc.head.flags & KILN_GEMM_TRANSPOSE_A;
    run->k = arguments->alpha != 0 ? a.shape[transposed ? a.rank - 2 : a.rank - 1] : 0;
    if (run->k == 0)
        return KILN_OK;
    kiln_status status = ref_gemm_operand(run->plan, KILN_GEMM_A, &a, &run->a);
    if (status == KILN_OK)
        status = check_shape(run, "A", &run->a, run->m);
    if (status == KILN_OK)
        status = ref_gemm_operand(run->plan, KILN_GEMM_B, &b, &run->b);
    return status == KILN_OK ? check_shape(run, "B", &run->b, run->n) : status;
}

static kiln_status bind(gemm_run *run, const kiln_gemm_args *arguments)
{
    const kiln_gemm_desc *desc = &run->plan->desc;
    kiln_tensor d = tensor_of(arguments, KILN_GEMM_D);
    kiln_status status =
        bind_matrix(run->plan, arguments, KILN_GEMM_D, KILN_OPERAND_MATRIX, &run->finish.d);
    if (status != KILN_OK)
        return status;
    run->m = d.shape[d.rank - 2];
    run->n = d.shape[d.rank - 1];
    run->batch = d.rank == 3 ? d.shape[0] : 1;
    run->row_tiles = divide_up(run->m, run->plan->tile_rows);
    run->column_tiles = divide_up(run->n, run->plan->tile_columns);
    run->finish.desc = desc;
    run->finish.wide = desc->a_type == KILN_F64 || desc->d_type == KILN_I32;
    run->finish.alpha = arguments->alpha;
    run->finish.beta = arguments->beta;
    status = bind_product(run, arguments);
    if (status == KILN_OK && arguments->beta != 0)
        status =
            bind_matrix(run->plan, arguments, KILN_GEMM_C, KILN_OPERAND_MATRIX, &run->finish.c);
    for (uint32_t i = 0; status == KILN_OK && i < desc->epilogue_count; i++)
        if (desc->epilogues[i].operand != KILN_OPERAND_NONE)
            status = bind_matrix(run->plan, arguments, KILN_GEMM_OPERAND + i,
                                 desc->epilogues[i].operand, &run->finish.operands[i]);
    return status;
}

/* How many shares pay, at most one per thread and per slot of the workspace. */
static int64_t worthwhile_parts(const gemm_run *run, int64_t slots)
{
    const kiln_host *host = run->plan->instance->host;
    int64_t parts = smaller(smaller(slots, host->thread_count(host)),
                            run->batch * run->row_tiles * run->column_tiles);
    double work = (double)run->batch * (double)run->m * (double)run->n * (double)(run->k + 1);
    return work < (double)WORK_PER_PART * (double)parts ? (int64_t)(work / WORK_PER_PART) + 1
                                                        : parts;
}

/* The caller's arguments may be longer than this plugin knows, but must not say anything there. */
static kiln_status check_size(const kiln_host *host, const kiln_args_head *arguments)
{
    const unsigned char *bytes = (const unsigned char *)arguments;
    if (arguments->struct_size < sizeof(kiln_gemm_args))
        return host->set_error(KILN_INVALID, "ref: the arguments' struct_size is %u, not %zu",
                               (unsigned)arguments->struct_size, sizeof(kiln_gemm_args));
    for (size_t i = sizeof(kiln_gemm_args); i < arguments->struct_size; i++)
        if (bytes[i])
            return host->set_error(
                KILN_UNSUPPORTED,
                "ref: the arguments say something at byte %zu; ref knows %zu bytes", i,
                sizeof(kiln_gemm_args));
    return KILN_OK;
}

kiln_status ref_gemm_run(void *plan, const kiln_run_context *context,
                         const kiln_args_head *arguments)
{
    gemm_run run = {.plan = plan};
    const kiln_host *host = run.plan->instance->host;
    kiln_status status = check_size(host, arguments);
    if (status == KILN_OK)
        status = bind(&run, (const kiln_gemm_args *)arguments);
    if (status != KILN_OK || run.m == 0 || run.n == 0 || run.batch == 0)
        return status;
    int64_t slots = context->workspace_bytes / run.plan->slot_bytes;
    if (!context->workspace || slots < 1)
        return host->set_error(
            KILN_INTERNAL, "ref: the workspace has %lld bytes, at least %lld are needed",
            (long long)context->workspace_bytes, (long long)run.plan->slot_bytes);
    run.workspace = context->workspace;
    if (context->parts > 0) {
        compute_share(&run, context->part, context->parts, run.workspace);
        return KILN_OK;
    }
    run.parts = worthwhile_parts(&run, slots);
    if (run.parts == 1)
        compute_part(&run, 0);
    else
        host->parallel_for(host, run.parts, compute_part, &run);
    return KILN_OK;
}
