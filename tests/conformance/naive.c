/* SPDX-License-Identifier: Apache-2.0 */
/* The naive plugin. It shares nothing with the oracle but Kiln's headers. */
#include "tests/conformance/naive.h"

#include <stdlib.h>

#include "kiln/gemm.h"

#define NAIVE_NAME(id, name) name,
const char *const naive_mistake_names[] = {NAIVE_MISTAKES(NAIVE_NAME)};
#undef NAIVE_NAME

#define NAIVE_CHOICE(id, name) "|" name
static const kiln_option options[] = {
    {.key = "order",
     .default_value = "scaled-elements",
     .help = "what is scaled",
     .choices = "scaled-elements|scaled-sums|joint-scales",
     .type = KILN_OPTION_CHOICE},
    {.key = "mistake",
     .default_value = "none",
     .help = "what to do wrong",
     .choices = &(NAIVE_MISTAKES(NAIVE_CHOICE))[1],
     .type = KILN_OPTION_CHOICE},
};
#undef NAIVE_CHOICE

enum { SCALED_ELEMENTS, SCALED_SUMS, JOINT_SCALES };

typedef struct naive_instance {
    const kiln_host *host;
    int order, mistake;
} naive_instance;

typedef struct naive_plan {
    naive_instance *instance;
    kiln_gemm_desc desc;
} naive_plan;

/* A run. `lead` is the batch entry, or the group. */
typedef struct naive_run {
    const naive_instance *instance;
    const kiln_gemm_desc *desc;
    const kiln_tensor *tensors;
    bool wide;
    int64_t m, n, k, leads;
    double alpha, beta;
    double *a, *b, *a_scale, *b_scale, *values; /* K, K × N, K, K × N, N */
    bool exceeded;
} naive_run;

static bool is_mistake(const naive_run *run, int mistake)
{
    return run->instance->mistake == mistake;
}

/* One rounding of the arithmetic: of f32 values, sums, products and quotients in f64 are exact
 * enough that rounding them again does no harm. */
static double rounded(const naive_run *run, double value)
{
    return run->wide ? value : (double)(float)value;
}

/* ---- Elements ---- */

static char *place(const naive_run *run, const kiln_tensor *tensor, int64_t lead, uint32_t own,
                   int64_t row, int64_t column, int64_t *index)
{
    int64_t bits = kiln_type_bits(tensor->type), element = 0;
    if (tensor->rank > own)
        element += lead * tensor->strides[0];
    if (own == 2)
        element += row * tensor->strides[tensor->rank - 2];
    *index = column * tensor->strides[tensor->rank - 1];
    return kiln_tensor_address(run->instance->host, tensor) + element * bits / 8;
}

static double load(const naive_run *run, const kiln_tensor *tensor, int64_t lead, uint32_t own,
                   int64_t row, int64_t column)
{
    int64_t index;
    const char *memory = place(run, tensor, lead, own, row, column, &index);
    return kiln_load_f64(tensor->type, memory, index);
}

static void store(const naive_run *run, const kiln_tensor *tensor, int64_t lead, uint32_t own,
                  int64_t row, int64_t column, double value, int flags)
{
    int64_t index;
    char *memory = place(run, tensor, lead, own, row, column, &index);
    kiln_store_f64(tensor->type, memory, index, value, flags);
}

/* Block of element `at`. */
static int64_t block(int64_t at, int64_t size)
{
    return size > 0 ? at / size : 0;
}

/* Element (row, column) of A or B as stored, without its zero point, and its scale. */
static double load_quantized(const naive_run *run, uint32_t slot, int64_t lead, int64_t row,
                             int64_t column, double *scale)
{
    const kiln_tensor *tensor = &run->tensors[slot];
    int64_t down = block(row, tensor->scale_block[0]),
            right = block(column, tensor->scale_block[1]);
    double value = load(run, tensor, lead, 2, row, column);
    *scale = 1;
    if (slot == KILN_GEMM_A && is_mistake(run, NAIVE_WRONG_SCALE))
        down = right = 0;
    if (tensor->scale)
        *scale = load(run, tensor->scale, lead, 2, down, right);
    if (tensor->zero_point && !(slot == KILN_GEMM_B && is_mistake(run, NAIVE_NO_ZERO_POINT)))
        value -= load(run, tensor->zero_point, lead, 2, down, right);
    return value;
}

static void load_operand(const naive_run *run, uint32_t slot, int64_t lead, int64_t across,
                         int64_t begin, int64_t end, int64_t step, double *values, double *scales)
{
    bool k_is_row = slot == KILN_GEMM_A ? run->desc->head.flags & KILN_GEMM_TRANSPOSE_A
                                        : !(run->desc->head.flags & KILN_GEMM_TRANSPOSE_B);
    for (int64_t k = begin; k < end; k++)
        values[k * step] = load_quantized(run, slot, lead, k_is_row ? k : across,
                                          k_is_row ? across : k, &scales[k * step]);
}

/* ---- Sums ---- */

static bool is_integer(uint32_t type)
{
    return type == KILN_I8 || type == KILN_U8 || type == KILN_I4 || type == KILN_U4;
}

static double scaled(const naive_run *run, double sum, double a_scale, double b_scale)
{
    if (run->instance->order == JOINT_SCALES)
        return rounded(run, sum * rounded(run, a_scale * b_scale));
    return rounded(run, rounded(run, sum * a_scale) * b_scale);
}

/* Steps from `begin` on in which no scale changes. */
static int64_t run_end(const naive_run *run, int64_t j, int64_t begin, int64_t end)
{
    int64_t k = begin + 1;
    while (k < end && run->a_scale[k] == run->a_scale[begin] &&
           run->b_scale[k * run->n + j] == run->b_scale[begin * run->n + j])
        k++;
    return k;
}

static double integer_sum(const naive_run *run, int64_t j, int64_t begin, int64_t end)
{
    double total = 0;
    for (int64_t first = begin; first < end;) {
        int64_t last = run_end(run, j, first, end), sum = 0;
        float rough = 0;
        for (int64_t k = first; k < last; k++) {
            int64_t product = (int64_t)run->a[k] * (int64_t)run->b[k * run->n + j];
            sum += product;
            rough += (float)product;
        }
        double exact = is_mistake(run, NAIVE_ONE_SUM) ? (double)rough : (double)sum;
        if (run->a_scale[first] == 1 && run->b_scale[first * run->n + j] == 1 && first == begin &&
            last == end)
            return exact;
        total = rounded(run, total + scaled(run, rounded(run, exact), run->a_scale[first],
                                            run->b_scale[first * run->n + j]));
        first = last;
    }
    return total;
}

static double element_sum(const naive_run *run, int64_t j, int64_t begin, int64_t end)
{
    double sum = 0;
    for (int64_t k = begin; k < end; k++) {
        double a = rounded(run, run->a[k] * run->a_scale[k]),
               b = rounded(run, run->b[k * run->n + j] * run->b_scale[k * run->n + j]);
        sum = rounded(run, sum + rounded(run, a * b));
    }
    return sum;
}

static double block_sum(const naive_run *run, int64_t j, int64_t begin, int64_t end)
{
    double total = 0;
    for (int64_t first = begin; first < end;) {
        int64_t last = run_end(run, j, first, end);
        double sum = 0;
        for (int64_t k = first; k < last; k++)
            sum = rounded(run, sum + rounded(run, run->a[k] * run->b[k * run->n + j]));
        total = rounded(
            run, total + scaled(run, sum, run->a_scale[first], run->b_scale[first * run->n + j]));
        first = last;
    }
    return total;
}

static double sum_of(const naive_run *run, int64_t j, int64_t begin, int64_t end)
{
    if (is_integer(run->desc->a_type) && is_integer(run->desc->b_type))
        return integer_sum(run, j, begin, end);
    return run->instance->order == SCALED_ELEMENTS ? element_sum(run, j, begin, end)
                                                   : block_sum(run, j, begin, end);
}

/* ---- Epilogues ---- */

static double silu(double v)
{
    return v == -(double)INFINITY ? -0.0 : v / (1 + exp(-v));
}

static double activation(uint32_t kind, double v)
{
    if (kind == KILN_EPILOGUE_SILU)
        return silu(v);
    if (v == -(double)INFINITY)
        return -0.0;
    if (kind == KILN_EPILOGUE_GELU_ERF)
        return v / 2 * erfc(-v / sqrt(2.0));
    double inner = 0.79788456080286535588 * (v + 0.044715 * v * v * v);
    return v / (1 + exp(-2 * inner));
}

static double operand(const naive_run *run, uint32_t i, int64_t lead, int64_t row, int64_t column)
{
    const kiln_epilogue *epilogue = &run->desc->epilogues[i];
    const kiln_tensor *tensor = &run->tensors[KILN_GEMM_OPERAND + i];
    if (is_mistake(run, NAIVE_BROADCAST_VECTOR) && epilogue->operand != KILN_OPERAND_MATRIX)
        lead = 0;
    switch (epilogue->operand) {
    case KILN_OPERAND_MATRIX:
        return load(run, tensor, lead, 2, row, column);
    case KILN_OPERAND_NONE:
        return rounded(run, epilogue->p0);
    default:
        return load(run, tensor, lead, 1, 0,
                    epilogue->operand == KILN_OPERAND_ROW      ? column
                    : epilogue->operand == KILN_OPERAND_COLUMN ? row
                                                               : 0);
    }
}

static double apply(const naive_run *run, uint32_t i, double v, double x)
{
    const kiln_epilogue *epilogue = &run->desc->epilogues[i];
    double p1 = rounded(run, epilogue->p1);
    switch (epilogue->kind) {
    case KILN_EPILOGUE_BIAS:
    case KILN_EPILOGUE_RESIDUAL:
        return rounded(run, v + x);
    case KILN_EPILOGUE_MULTIPLY:
    case KILN_EPILOGUE_SCALE:
        return rounded(run, v * x);
    case KILN_EPILOGUE_RELU:
        return v < 0 ? 0 : v;
    case KILN_EPILOGUE_CLIP:
        return v < x ? x : v > p1 ? p1 : v;
    default:
        return rounded(run, activation(epilogue->kind, v));
    }
}

static void add_values(const naive_run *run, const kiln_tensor *tensor, int64_t lead, int64_t width)
{
    for (int64_t j = 0; j < width; j++)
        store(run, tensor, lead, 1, 0, j, load(run, tensor, lead, 1, 0, j) + run->values[j], 0);
}

static void add_gradient(const naive_run *run, uint32_t i, int64_t lead, int64_t width)
{
    const kiln_tensor *tensor = &run->tensors[KILN_GEMM_OPERAND + i];
    add_values(run, tensor, lead, width);
    if (is_mistake(run, NAIVE_GRADIENT_SHARED) && tensor->rank == 2 && lead > 0)
        add_values(run, tensor, 0, width);
}

static double largest_of(uint32_t type)
{
    switch (type) {
    case KILN_E4M3:
        return 448;
    case KILN_E5M2:
        return 57344;
    case KILN_E2M1:
        return 6;
    case KILN_I4:
        return 7;
    case KILN_U4:
        return 15;
    case KILN_U8:
        return 255;
    default:
        return 127;
    }
}

static double scale_of(const naive_run *run, int64_t first, int64_t last)
{
    double largest = 0;
    for (int64_t j = first; j < last; j++)
        if (isfinite(run->values[j]) && fabs(run->values[j]) > largest)
            largest = fabs(run->values[j]);
    if (largest == 0)
        return 1;
    double scale = (double)(float)(largest / largest_of(run->desc->d_type));
    uint32_t type = run->desc->d_quantization.scale_type;
    double least = type == KILN_E4M3 ? 0x1p-9 : 0x1p-126;
    if (type == KILN_UE8M0)
        scale = kiln_f64_from_ue8m0(kiln_ue8m0_from_f64(scale));
    if (scale < least)
        scale = least;
    if (type == KILN_E4M3)
        scale = kiln_f64_from_e4m3(kiln_e4m3_from_f64(scale, KILN_SATURATE));
    if (is_mistake(run, NAIVE_SCALE_CODE))
        scale *= type == KILN_UE8M0 ? 2 : type == KILN_E4M3 ? 1.125 : 1.00001;
    return scale;
}

static void quantize(const naive_run *run, int64_t lead, int64_t row, int64_t width)
{
    int64_t size = run->desc->d_quantization.block[1];
    const kiln_tensor *d = &run->tensors[KILN_GEMM_D];
    if (size < 0)
        size = width;
    for (int64_t first = 0; first < width; first += size) {
        int64_t last = first + size < width ? first + size : width;
        double scale = scale_of(run, first, last);
        store(run, &run->tensors[KILN_GEMM_D_SCALE], lead, 2, row, first / size, scale, 0);
        for (int64_t j = first; j < last; j++) {
            double value = rounded(run, run->values[j] / scale);
            if (is_mistake(run, NAIVE_UNSCALED_D))
                value = run->values[j];
            store(run, d, lead, 2, row, j, value, KILN_SATURATE);
        }
    }
}

static void store_row(const naive_run *run, int64_t lead, int64_t row, int64_t width)
{
    const kiln_tensor *d = &run->tensors[KILN_GEMM_D];
    int flags = run->desc->head.flags & KILN_GEMM_SATURATE ? KILN_SATURATE : 0;
    for (int64_t j = 0; j < width; j++) {
        store(run, d, lead, 2, row, j, run->values[j], flags);
        double stored = load(run, d, lead, 2, row, j);
        if (is_mistake(run, NAIVE_ROUNDED_DOWN) && fabs(stored) > fabs(run->values[j]) &&
            kiln_type_bits(d->type) == 16)
            store(run, d, lead, 2, row, j,
                  run->values[j] * (1 - (d->type == KILN_F16 ? 0x1p-11 : 0x1p-8)), flags);
    }
}

/* Vectors and scalars go by group; columns and matrices of a contiguous grouping go by row. */
static int64_t operand_lead(const naive_run *run, uint32_t i, int64_t group)
{
    uint32_t shape = run->desc->epilogues[i].operand;
    bool by_row = shape == KILN_OPERAND_MATRIX || shape == KILN_OPERAND_COLUMN;
    return run->desc->grouping == KILN_GROUPING_CONTIGUOUS && by_row ? 0 : group;
}

static void finish_row(naive_run *run, int64_t group, int64_t d_lead, int64_t row, bool last)
{
    const kiln_gemm_desc *desc = run->desc;
    int64_t width = run->n;
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        uint32_t kind = desc->epilogues[i].kind;
        int64_t lead = operand_lead(run, i, group);
        if (kind == KILN_EPILOGUE_QUANTIZE) {
            quantize(run, d_lead, row, width);
            return;
        }
        if (kind == KILN_EPILOGUE_BIAS_GRADIENT) {
            if (!(last && is_mistake(run, NAIVE_GRADIENT_MISSES)))
                add_gradient(run, i, lead, width);
            continue;
        }
        if (kind == KILN_EPILOGUE_SWIGLU) {
            bool swapped = is_mistake(run, NAIVE_SWAPPED_PAIR);
            width /= 2;
            int64_t piece = desc->epilogues[i].p0 < 0 ? width : (int64_t)desc->epilogues[i].p0;
            piece += piece == 0;
            for (int64_t j = 0; j < width; j++) {
                const double *pair = run->values + j + j / piece * piece;
                run->values[j] = rounded(run, rounded(run, silu(pair[swapped ? piece : 0])) *
                                                  pair[swapped ? 0 : piece]);
            }
            continue;
        }
        for (int64_t j = 0; j < width; j++)
            run->values[j] = apply(run, i, run->values[j], operand(run, i, lead, row, j));
    }
    store_row(run, d_lead, row, width);
}

/* ---- Rows ---- */

/* Where the rows and steps of a group are. */
typedef struct naive_group {
    int64_t group, a_lead, b_lead, d_lead, begin, end;
} naive_group;

static void start_row(naive_run *run, const naive_group *group, int64_t row)
{
    bool whole = run->desc->d_type == KILN_I32;
    double alpha = whole ? run->alpha : rounded(run, run->alpha),
           beta = whole ? run->beta : rounded(run, run->beta);
    if (run->alpha != 0)
        load_operand(run, KILN_GEMM_A, group->a_lead, row, group->begin, group->end, 1, run->a,
                     run->a_scale);
    for (int64_t j = 0; j < run->n; j++) {
        double value = 0;
        if (run->alpha != 0)
            value = sum_of(run, j, group->begin, group->end) * alpha;
        if (!whole)
            value = rounded(run, value);
        if (run->beta != 0) {
            double c = load(run, &run->tensors[KILN_GEMM_C], group->d_lead, 2, row, j);
            value = whole ? value + c * beta
                          : rounded(run, value + rounded(run, rounded(run, c) * beta));
        }
        run->values[j] = run->desc->epilogue_count ? rounded(run, value) : value;
    }
}

/* Rows, of which `is_row` says whether they belong. */
static bool is_row_of(const naive_run *run, const naive_group *group, int64_t row)
{
    const kiln_tensor *groups = &run->tensors[KILN_GEMM_GROUPS];
    if (run->desc->grouping == KILN_GROUPING_CONTIGUOUS)
        return load(run, groups, 0, 1, 0, row) == (double)group->group;
    if (run->desc->grouping == KILN_GROUPING_MASKED)
        return (double)row <
               load(run, groups, 0, 1, 0, group->group) + is_mistake(run, NAIVE_ROW_TOO_MANY);
    return true;
}

static void write_zeros(const naive_run *run, int64_t lead, int64_t row)
{
    const kiln_tensor *d = &run->tensors[KILN_GEMM_D];
    for (int64_t j = 0; j < d->shape[d->rank - 1]; j++)
        store(run, d, lead, 2, row, j, 0, 0);
}

static void compute_group(naive_run *run, const naive_group *group)
{
    int64_t last = -1;
    for (int64_t i = 0; i < run->m; i++)
        if (is_row_of(run, group, i))
            last = i;
    if (run->alpha != 0 && last >= 0)
        for (int64_t j = 0; j < run->n; j++)
            load_operand(run, KILN_GEMM_B, group->b_lead, j, group->begin, group->end, run->n,
                         run->b + j, run->b_scale + j);
    for (int64_t i = 0; i < run->m; i++) {
        if (is_row_of(run, group, i)) {
            start_row(run, group, i);
            finish_row(run, group->group, group->d_lead, i, i == last);
        } else if (is_mistake(run, NAIVE_WRITES_PADDING) &&
                   run->desc->grouping == KILN_GROUPING_MASKED) {
            write_zeros(run, group->d_lead, i);
        }
    }
}

static int64_t clamped(double value, int64_t low, int64_t high)
{
    return value < (double)low ? low : value > (double)high ? high : (int64_t)value;
}

static void note_exceeded(naive_run *run)
{
    const kiln_tensor *groups = &run->tensors[KILN_GEMM_GROUPS];
    double before = 0;
    if (run->desc->grouping == KILN_GROUPING_NONE)
        return;
    for (int64_t i = 0; i < groups->shape[groups->rank - 1]; i++) {
        double value = load(run, groups, 0, 1, 0, i);
        if (run->desc->grouping == KILN_GROUPING_CONTIGUOUS)
            run->exceeded |= value < -1 || value >= (double)run->desc->groups;
        else if (run->desc->grouping == KILN_GROUPING_MASKED)
            run->exceeded |= value < 0 || value > (double)run->m;
        else
            run->exceeded |= value < before || value > (double)run->k;
        before = value;
    }
}

static void compute(naive_run *run)
{
    uint32_t grouping = run->desc->grouping;
    bool late = is_mistake(run, NAIVE_STEP_TOO_MANY), before = is_mistake(run, NAIVE_WRONG_GROUP);
    int64_t end = 0;
    note_exceeded(run);
    for (int64_t g = 0; g < run->leads; g++) {
        int64_t other = before && g > 0 ? g - 1 : g;
        naive_group group = {g, g, other, g, 0, run->k};
        if (grouping == KILN_GROUPING_CONTIGUOUS)
            group.a_lead = group.d_lead = 0;
        if (grouping == KILN_GROUPING_K) {
            const kiln_tensor *groups = &run->tensors[KILN_GEMM_GROUPS];
            group.a_lead = group.b_lead = 0;
            group.begin = end;
            end = clamped(load(run, groups, 0, 1, 0, g), group.begin, run->k);
            group.end = end < run->k ? end + late : end;
        }
        compute_group(run, &group);
    }
    if (is_mistake(run, NAIVE_WRITES_PADDING) && grouping == KILN_GROUPING_CONTIGUOUS)
        for (int64_t i = 0; i < run->m; i++)
            if (load(run, &run->tensors[KILN_GEMM_GROUPS], 0, 1, 0, i) < 0)
                write_zeros(run, 0, i);
}

static void clear_gradients(const naive_run *run)
{
    for (uint32_t i = 0; i < run->desc->epilogue_count; i++) {
        const kiln_tensor *tensor = &run->tensors[KILN_GEMM_OPERAND + i];
        int64_t rows = tensor->rank == 2 ? tensor->shape[0] : 1;
        if (run->desc->epilogues[i].kind == KILN_EPILOGUE_BIAS_GRADIENT)
            for (int64_t row = 0; row < rows; row++)
                for (int64_t j = 0; j < tensor->shape[tensor->rank - 1]; j++)
                    store(run, tensor, row, 1, 0, j, 0, 0);
    }
}

/* ---- The plugin ---- */

static kiln_status query(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                         kiln_answer *answer)
{
    kiln_gemm_desc desc;
    naive_instance *naive = instance;
    kiln_status status = kiln_receive_descriptor(&desc, sizeof desc, descriptor);
    if (status != KILN_OK)
        return status;
    if (!naive->host->device_is_host(device) ||
        (desc.head.flags & (KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B))) {
        kiln_decline(answer, "naive packs nothing and works on the host");
        return KILN_OK;
    }
    answer->support = KILN_SUPPORT_EMULATED;
    answer->flags = KILN_ANSWER_REPRODUCIBLE;
    answer->workspace_bytes =
        (int64_t)sizeof(double) * (2 * desc.k * desc.n + 2 * desc.k + desc.n + 8);
    return KILN_OK;
}

static kiln_status plan_create(void *instance, const kiln_plan_request *request, void **result)
{
    naive_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return KILN_NO_MEMORY;
    plan->instance = instance;
    *result = plan;
    return kiln_receive_descriptor(&plan->desc, sizeof plan->desc, request->descriptor);
}

static kiln_status run_plan(void *native, const kiln_run_context *context,
                            const kiln_args_head *arguments)
{
    const naive_plan *plan = native;
    const kiln_gemm_args *args = (const kiln_gemm_args *)arguments;
    const kiln_tensor *a = &arguments->tensors[KILN_GEMM_A], *d = &arguments->tensors[KILN_GEMM_D];
    bool transposed = plan->desc.head.flags & KILN_GEMM_TRANSPOSE_A;
    naive_run run = {.instance = plan->instance,
                     .desc = &plan->desc,
                     .tensors = arguments->tensors,
                     .wide = plan->desc.a_type == KILN_F64,
                     .m = d->shape[d->rank - 2],
                     .n = d->shape[d->rank - 1],
                     .k = a->shape[transposed ? a->rank - 2 : a->rank - 1],
                     .leads = d->rank == 3 ? d->shape[0] : 1,
                     .alpha = kiln_gemm_factor(&plan->desc, args->alpha),
                     .beta = kiln_gemm_factor(&plan->desc, args->beta)};
    if (context->part > 0)
        return KILN_OK;
    if (plan->desc.grouping != KILN_GROUPING_NONE)
        run.leads = plan->desc.groups;
    for (uint32_t i = 0; i < plan->desc.epilogue_count; i++)
        run.n *= plan->desc.epilogues[i].kind == KILN_EPILOGUE_SWIGLU ? 2 : 1;
    run.a = context->workspace;
    run.a_scale = run.a + run.k;
    run.b = run.a_scale + run.k;
    run.b_scale = run.b + run.k * run.n;
    run.values = run.b_scale + run.k * run.n;
    clear_gradients(&run);
    compute(&run);
    if (!run.exceeded || is_mistake(&run, NAIVE_SILENT))
        return KILN_OK;
    return plan->instance->host->set_error(KILN_CAPACITY, "naive: groups beyond their limits");
}

static const kiln_operator_table gemm_table = {
    .struct_size = sizeof gemm_table,
    .query = query,
    .plan = plan_create,
    .run = run_plan,
    .free = free,
};

static int64_t probe(void)
{
    return 1;
}

static kiln_status open_instance(const kiln_host *host, const kiln_option_value *values,
                                 void **instance)
{
    naive_instance *naive = calloc(1, sizeof *naive);
    if (!naive)
        return KILN_NO_MEMORY;
    naive->host = host;
    naive->order = (int)values[0].integer;
    naive->mistake = (int)values[1].integer;
    *instance = naive;
    return KILN_OK;
}

static const void *interface_of(void *instance, const char *name)
{
    (void)instance;
    return strcmp(name, KILN_GEMM) == 0 ? &gemm_table : NULL;
}

static const char *const interfaces[] = {KILN_GEMM, NULL};

static const kiln_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_minor = KILN_PLUGIN_ABI_MINOR,
    .name = "naive",
    .version = "1",
    .vendor = "Kiln's tests",
    .description = "GEMM operation by operation",
    .interfaces = interfaces,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .probe = probe,
    .open = open_instance,
    .close = free,
    .interface = interface_of,
};

const kiln_plugin *naive_entry(int64_t host_abi_minor)
{
    return host_abi_minor >= 0 ? &plugin : NULL;
}
