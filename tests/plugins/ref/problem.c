/* SPDX-License-Identifier: Apache-2.0 */
/* Random GEMMs and the ways to run them. */
#include "tests/plugins/ref/problem.h"

problem problem_of(uint32_t a_type, uint32_t b_type, uint32_t d_type, int64_t m, int64_t n,
                   int64_t k)
{
    problem p = {.m = m, .n = n, .k = k, .count = 1, .alpha = 0.75, .seed = 1};
    p.desc.head.struct_size = sizeof p.desc;
    p.desc.a_type = a_type;
    p.desc.b_type = b_type;
    p.desc.d_type = d_type;
    p.desc.m = m;
    p.desc.n = n;
    p.desc.k = k;
    p.desc.batch = 1;
    return p;
}

kiln_epilogue *problem_add(problem *p, uint32_t kind, uint32_t operand, uint32_t type)
{
    kiln_epilogue *epilogue = &p->desc.epilogues[p->desc.epilogue_count++];
    *epilogue = (kiln_epilogue){.kind = kind, .operand = operand, .type = type};
    return epilogue;
}

const kiln_epilogue *problem_find(const problem *p, uint32_t kind)
{
    for (uint32_t i = 0; i < p->desc.epilogue_count; i++)
        if (p->desc.epilogues[i].kind == kind)
            return &p->desc.epilogues[i];
    return NULL;
}

/* ---- Tensors ---- */

static double draw(problem *p)
{
    p->seed = p->seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(p->seed ^ p->seed >> 31) * 0x1p-63;
}

static double draw_element(problem *p, uint32_t type)
{
    double value = draw(p);
    switch (type) {
    case KILN_I8:
        return value * 128;
    case KILN_U8:
        return (value + 1) * 128;
    case KILN_I4:
        return value * 8;
    case KILN_U4:
        return (value + 1) * 8;
    case KILN_I32:
        return value * 100000;
    case KILN_E2M1:
        return value * 6;
    default:
        return value * 2;
    }
}

/* A tensor of `index`, `gap` elements behind each row and each matrix, all 0xff. */
static kiln_tensor allocate(problem *p, int index, uint32_t type, uint32_t rank,
                            const int64_t *shape, int64_t gap)
{
    kiln_tensor tensor = kiln_tensor_host(type, NULL, rank, shape);
    int64_t unit = kiln_type_bits(type) < 8 ? 2 : 1, stride = 1;
    for (uint32_t i = rank; i-- > 0;) {
        tensor.strides[i] = stride;
        stride *= shape[i] > 0 ? shape[i] : 1;
        if (i > 0)
            stride = (stride + unit - 1) / unit * unit + gap * unit;
    }
    p->bytes[index] = (size_t)((stride * kiln_type_bits(type) + 7) / 8 + 16);
    p->memory[index] = test_malloc(p->bytes[index]);
    memset(p->memory[index], 0xff, p->bytes[index]);
    tensor.data = p->memory[index];
    return tensor;
}

static void fill(problem *p, const kiln_tensor *tensor, bool positive)
{
    int64_t shape[3] = {1, 1, 1}, strides[3] = {0, 0, 0};
    for (uint32_t i = 0; i < tensor->rank; i++) {
        shape[3 - tensor->rank + i] = tensor->shape[i];
        strides[3 - tensor->rank + i] = tensor->strides[i];
    }
    for (int64_t i = 0; i < shape[0]; i++)
        for (int64_t j = 0; j < shape[1]; j++)
            for (int64_t l = 0; l < shape[2]; l++) {
                double value = draw_element(p, tensor->type);
                kiln_store_f64(tensor->type, tensor->data,
                               i * strides[0] + j * strides[1] + l * strides[2],
                               positive ? fabs(value) + 0.125 : value, 0);
            }
}

/* A [rows, columns] matrix, or one for each entry when `each`. */
static kiln_tensor matrix(problem *p, int index, uint32_t type, bool each, int64_t rows,
                          int64_t columns, int64_t gap)
{
    int64_t shape[3] = {p->count, rows, columns};
    return allocate(p, index, type, each ? 3 : 2, each ? shape : shape + 1, gap);
}

static int64_t blocks(int64_t extent, int32_t block)
{
    return block < 0 ? extent > 0 : (extent + block - 1) / block;
}

static void make_operand(problem *p, uint32_t slot, uint32_t type,
                         const kiln_quantization *quantization, bool each, int64_t rows,
                         int64_t columns)
{
    kiln_tensor *tensor = &p->tensors[slot];
    *tensor = matrix(p, (int)slot, type, each, rows, columns, 3);
    fill(p, tensor, false);
    const uint32_t types[] = {quantization->scale_type, quantization->zero_type};
    for (int i = 0; i < 2; i++) {
        int grid = 2 * i + (int)slot;
        if (!types[i])
            continue;
        p->grids[grid] = matrix(p, KILN_GEMM_SLOTS + grid, types[i], each && !p->shared_scales,
                                blocks(rows, quantization->block[0]),
                                blocks(columns, quantization->block[1]), 1);
        fill(p, &p->grids[grid], i == 0);
        *(i ? &tensor->zero_point : &tensor->scale) = &p->grids[grid];
        for (int j = 0; j < 2; j++)
            tensor->scale_block[j] = quantization->block[j] < 0 ? 0 : quantization->block[j];
    }
}

static void make_epilogue(problem *p, uint32_t index, bool each, int64_t columns)
{
    const kiln_epilogue *epilogue = &p->desc.epilogues[index];
    int slot = KILN_GEMM_OPERAND + (int)index;
    bool contiguous = p->desc.grouping == KILN_GROUPING_CONTIGUOUS;
    int64_t shape[2] = {p->count, epilogue->operand == KILN_OPERAND_ROW      ? columns
                                  : epilogue->operand == KILN_OPERAND_COLUMN ? p->m
                                                                             : 1};
    bool one = p->shared_vectors || (contiguous && epilogue->operand == KILN_OPERAND_COLUMN);
    if (epilogue->operand == KILN_OPERAND_NONE)
        return;
    p->tensors[slot] =
        epilogue->operand == KILN_OPERAND_MATRIX
            ? matrix(p, slot, epilogue->type, each, p->m, columns, 2)
            : allocate(p, slot, epilogue->type, one ? 1 : 2, one ? shape + 1 : shape, 2);
    if (epilogue->kind != KILN_EPILOGUE_BIAS_GRADIENT)
        fill(p, &p->tensors[slot], false);
}

static void make_groups(problem *p)
{
    if (p->desc.grouping == KILN_GROUPING_NONE)
        return;
    int64_t length = p->desc.grouping == KILN_GROUPING_CONTIGUOUS ? p->m : p->count;
    p->tensors[KILN_GEMM_GROUPS] = allocate(p, KILN_GEMM_GROUPS, KILN_I32, 1, &length, 0);
    int32_t *groups = p->tensors[KILN_GEMM_GROUPS].data;
    for (int64_t i = 0; i < length; i++)
        if (p->desc.grouping == KILN_GROUPING_CONTIGUOUS)
            groups[i] = (int32_t)floor((draw(p) + 1) / 2 * (double)(p->count + 1)) - 1;
        else if (p->desc.grouping == KILN_GROUPING_MASKED)
            groups[i] = i == 1 ? 0 : (int32_t)((draw(p) + 1) / 2 * (double)(p->m + 1));
        else { /* the second group is empty, and what lies behind the last belongs to none */
            int64_t end = i == 1 ? groups[0] : p->k * (i + 1) / (p->count + 1) + i % 3;
            groups[i] = (int32_t)(end < p->k ? end : p->k);
        }
}

void problem_make(problem *p)
{
    const uint32_t flags = p->desc.head.flags;
    uint32_t grouping = p->desc.grouping;
    bool transpose_a = flags & KILN_GEMM_TRANSPOSE_A, transpose_b = flags & KILN_GEMM_TRANSPOSE_B;
    bool many = p->count > 1 || grouping != KILN_GROUPING_NONE;
    bool contiguous = grouping == KILN_GROUPING_CONTIGUOUS, by_k = grouping == KILN_GROUPING_K;
    int64_t columns = p->n;
    if (grouping)
        p->desc.groups = p->count;
    else
        p->desc.batch = p->count;
    make_operand(p, KILN_GEMM_A, p->desc.a_type, &p->desc.a_quantization,
                 many && !contiguous && !by_k, transpose_a ? p->k : p->m,
                 transpose_a ? p->m : p->k);
    make_operand(p, KILN_GEMM_B, p->desc.b_type, &p->desc.b_quantization, many && !by_k,
                 transpose_b ? p->n : p->k, transpose_b ? p->k : p->n);
    if (p->desc.c_type) {
        p->tensors[KILN_GEMM_C] =
            matrix(p, KILN_GEMM_C, p->desc.c_type, many && !contiguous, p->m, p->n, 1);
        fill(p, &p->tensors[KILN_GEMM_C], false);
    }
    for (uint32_t i = 0; i < p->desc.epilogue_count; i++) {
        if (p->desc.epilogues[i].kind == KILN_EPILOGUE_SWIGLU)
            columns /= 2;
        make_epilogue(p, i, many && !contiguous, columns);
    }
    p->tensors[KILN_GEMM_D] =
        matrix(p, KILN_GEMM_D, p->desc.d_type, many && !contiguous, p->m, columns, 5);
    if (problem_find(p, KILN_EPILOGUE_QUANTIZE))
        p->tensors[KILN_GEMM_D_SCALE] =
            matrix(p, KILN_GEMM_D_SCALE, p->desc.d_quantization.scale_type, many && !contiguous,
                   p->m, blocks(columns, p->desc.d_quantization.block[1]), 1);
    make_groups(p);
}

void problem_free(problem *p)
{
    for (int i = 0; i < PROBLEM_TENSORS; i++)
        if (p->memory[i])
            test_free(p->memory[i]);
}

/* ---- Groups ---- */

int32_t problem_row_group(const problem *p, int64_t row)
{
    int32_t group = ((const int32_t *)p->tensors[KILN_GEMM_GROUPS].data)[row];
    return group >= 0 && group < p->count ? group : -1;
}

int64_t problem_rows(const problem *p, int64_t entry)
{
    if (p->desc.grouping != KILN_GROUPING_MASKED)
        return p->m;
    int64_t rows = ((const int32_t *)p->tensors[KILN_GEMM_GROUPS].data)[entry];
    return rows < 0 ? 0 : rows > p->m ? p->m : rows;
}

void problem_steps(const problem *p, int64_t entry, int64_t *begin, int64_t *end)
{
    const int32_t *ends = p->tensors[KILN_GEMM_GROUPS].data;
    int64_t before = 0;
    *begin = 0;
    *end = p->k;
    for (int64_t i = 0; p->desc.grouping == KILN_GROUPING_K && i <= entry; i++) {
        *begin = before;
        *end = before = ends[i] < before ? before : ends[i] > p->k ? p->k : ends[i];
    }
}

/* ---- Running ---- */

kiln_gemm_args problem_args(const problem *p)
{
    return (kiln_gemm_args){
        {sizeof(kiln_gemm_args), KILN_GEMM_SLOTS, p->tensors}, p->alpha, p->beta};
}

kiln_runtime *problem_runtime(const char *threads, const char *blas)
{
    kiln_setting settings[] = {{"threads.count", threads}, {"options.ref.blas", blas}};
    kiln_runtime_options options = {.struct_size = sizeof options,
                                    .profile_text = "schema: 1\nname: test\nplugins: [ref]\n",
                                    .settings = settings,
                                    .setting_count = 2};
    kiln_runtime *runtime = NULL;
    if (kiln_runtime_open(&options, &runtime) != KILN_OK)
        fail_msg("%s", kiln_last_error());
    return runtime;
}

kiln_plan *problem_plan(kiln_runtime *runtime, const kiln_gemm_desc *desc)
{
    kiln_plan_options options = {.struct_size = sizeof options, .backend = "ref"};
    kiln_plan *plan = NULL;
    if (kiln_plan_create(runtime, KILN_GEMM, &desc->head, &options, &plan) != KILN_OK)
        fail_msg("%s", kiln_last_error());
    return plan;
}

static bool is_output(const problem *p, int slot)
{
    int epilogue = slot - KILN_GEMM_OPERAND;
    if (slot == KILN_GEMM_D || slot == KILN_GEMM_D_SCALE)
        return true;
    return epilogue >= 0 && epilogue < (int)p->desc.epilogue_count &&
           p->desc.epilogues[epilogue].kind == KILN_EPILOGUE_BIAS_GRADIENT;
}

static void clear_outputs(problem *p)
{
    for (int i = 0; i < KILN_GEMM_SLOTS; i++)
        if (p->memory[i] && is_output(p, i))
            memset(p->memory[i], 0xff, p->bytes[i]);
}

static void expect(kiln_status status, kiln_status expected)
{
    if (status != expected)
        fail_msg("%s instead of %s: %s", kiln_status_name(status), kiln_status_name(expected),
                 kiln_last_error());
}

void problem_run(kiln_plan *plan, problem *p, kiln_status expected)
{
    kiln_gemm_args args = problem_args(p);
    clear_outputs(p);
    expect(kiln_plan_run(plan, NULL, &args.head), expected);
}

outputs problem_outputs(const problem *p)
{
    outputs o = {{0}};
    for (int i = 0; i < KILN_GEMM_SLOTS; i++)
        if (p->memory[i] && is_output(p, i)) {
            o.bytes[i] = test_malloc(p->bytes[i]);
            memcpy(o.bytes[i], p->memory[i], p->bytes[i]);
        }
    return o;
}

void problem_same(const problem *p, const outputs *expected, const char *what)
{
    for (int i = 0; i < KILN_GEMM_SLOTS; i++)
        for (size_t j = 0; expected->bytes[i] && j < p->bytes[i]; j++)
            if (expected->bytes[i][j] != p->memory[i][j])
                fail_msg("%s: byte %zu of tensor %d differs", what, j, i);
}

void outputs_free(outputs *o)
{
    for (int i = 0; i < PROBLEM_TENSORS; i++)
        if (o->bytes[i])
            test_free(o->bytes[i]);
}

/* Packs `slot` into a new blob, unpacks it over nothing, and compares. */
static char *pack(kiln_plan *plan, problem *p, uint32_t slot, kiln_tensor *packed)
{
    const int memories[] = {(int)slot, KILN_GEMM_SLOTS + (int)slot,
                            KILN_GEMM_SLOTS + 2 + (int)slot};
    char *before[3] = {NULL};
    int64_t bytes;
    expect(kiln_plan_pack_size(plan, slot, &bytes), KILN_OK);
    char *blob = test_malloc((size_t)bytes);
    memset(blob, 0xff, (size_t)bytes);
    *packed = p->tensors[slot];
    packed->data = blob;
    packed->layout = KILN_LAYOUT_PACKED;
    packed->scale = packed->zero_point = NULL;
    packed->scale_block[0] = packed->scale_block[1] = 0;
    expect(kiln_plan_pack(plan, NULL, slot, &p->tensors[slot], packed), KILN_OK);
    for (int i = 0; i < 3; i++)
        if (p->memory[memories[i]]) {
            before[i] = test_malloc(p->bytes[memories[i]]);
            memcpy(before[i], p->memory[memories[i]], p->bytes[memories[i]]);
            memset(p->memory[memories[i]], 0xff, p->bytes[memories[i]]);
        }
    expect(kiln_plan_unpack(plan, NULL, slot, packed, &p->tensors[slot]), KILN_OK);
    for (int i = 0; i < 3; i++)
        if (before[i]) {
            assert_memory_equal(p->memory[memories[i]], before[i], p->bytes[memories[i]]);
            test_free(before[i]);
        }
    return blob;
}

static void run_packed(kiln_runtime *runtime, problem *p, kiln_status status)
{
    problem packed = *p;
    char *blobs[2] = {NULL};
    packed.desc.head.flags |= KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B;
    packed.desc.head.flags &= ~(uint32_t)KILN_GEMM_DYNAMIC_M; /* what is packed is of one size */
    packed.desc.m = p->m;
    kiln_plan *plan = problem_plan(runtime, &packed.desc);
    for (uint32_t slot = KILN_GEMM_A; slot <= KILN_GEMM_B; slot++)
        blobs[slot] = pack(plan, p, slot, &packed.tensors[slot]);
    problem_run(plan, &packed, status);
    for (int i = 0; i < 2; i++)
        test_free(blobs[i]);
    kiln_plan_release(plan);
}

static void run_parts(kiln_plan *plan, problem *p, int64_t parts, kiln_status status)
{
    kiln_gemm_args args = problem_args(p);
    clear_outputs(p);
    for (int64_t part = parts; part-- > 0;)
        expect(kiln_plan_run_part(plan, part, parts, &args.head), status);
}

void problem_check(problem *p, const char *what, kiln_status status)
{
    char text[300];
    kiln_runtime *one = problem_runtime("1", "auto"), *two = problem_runtime("2", "auto"),
                 *plain = problem_runtime("1", "off");
    kiln_plan *plan = problem_plan(one, &p->desc), *threaded = problem_plan(two, &p->desc),
              *off = problem_plan(plain, &p->desc);
    problem_run(plan, p, status);
    problem_check_values(p, what);
    outputs o = problem_outputs(p);
    problem_run(threaded, p, status);
    snprintf(text, sizeof text, "%s, two threads", what);
    problem_same(p, &o, text);
    for (int64_t parts = 1; parts <= 4; parts += parts == 1 ? 1 : 2) {
        run_parts(threaded, p, parts, status);
        snprintf(text, sizeof text, "%s, %d parts", what, (int)parts);
        problem_same(p, &o, text);
    }
    run_packed(two, p, status);
    snprintf(text, sizeof text, "%s, packed", what);
    problem_same(p, &o, text);
    problem_run(off, p, status);
    snprintf(text, sizeof text, "%s, plain C", what);
    problem_check_values(p, text);
    outputs_free(&o);
    kiln_plan_release(plan);
    kiln_plan_release(threaded);
    kiln_plan_release(off);
    kiln_runtime_close(one);
    kiln_runtime_close(two);
    kiln_runtime_close(plain);
}
