/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: the shapes of the steps, and all that can be checked without a backend. */
#include <stdio.h>
#include <string.h>

#include "tools/kiln/command.h"
#include "tools/kiln/gemm_words.h"
#include "tools/kiln/job.h"

/* ---- Matrices ---- */

static bool expect_matrix(const kiln_job *job, const job_step *step, const char *key, int64_t index,
                          const kiln_yaml_node *node, kiln_yaml_error *error)
{
    const job_tensor *tensor = &job->tensors[index];
    char shape[160];
    if (tensor->rank == 2 || tensor->rank == 3)
        return true;
    return job_fail(error, node, "step '%s': %s '%s' is %s; a matrix is wanted, or a batch of them",
                    step->name, key, tensor->name, job_shape_text(tensor, shape));
}

static int64_t extent(const job_tensor *tensor, bool last)
{
    return tensor->shape[tensor->rank - (last ? 1 : 2)];
}

/* One batch for all: that of those with a leading dimension other than 1. */
static bool join_batch(const kiln_job *job, const job_step *step, int64_t index,
                       const kiln_yaml_node *node, int64_t *batch, kiln_yaml_error *error)
{
    const job_tensor *tensor = &job->tensors[index];
    if (tensor->rank != 3)
        return true;
    if (*batch == JOB_NONE || *batch == 1) {
        *batch = tensor->shape[0];
        return true;
    }
    return tensor->shape[0] == *batch || tensor->shape[0] == 1 ||
           job_fail(error, node, "step '%s': '%s' has a batch of %lld, the others one of %lld",
                    step->name, tensor->name, (long long)tensor->shape[0], (long long)*batch);
}

/* With groups: A, B and C have them first where the grouping wants that, or are one for all. */
static bool check_leading(const kiln_job *job, const job_step *step, uint32_t slot, int64_t index,
                          const kiln_yaml_node *node, kiln_yaml_error *error)
{
    const job_tensor *tensor = &job->tensors[index];
    int64_t groups = job_leading(job, step, slot);
    char shape[160];
    if (tensor->rank == 2 || tensor->shape[0] == 1 || tensor->shape[0] == groups)
        return true;
    if (groups == 0)
        return job_fail(error, node,
                        "step '%s': '%s' is %s; in this grouping it is one matrix for all groups",
                        step->name, tensor->name, job_shape_text(tensor, shape));
    return job_fail(error, node, "step '%s': '%s' is %s; there are %lld groups", step->name,
                    tensor->name, job_shape_text(tensor, shape), (long long)groups);
}

static bool inner_mismatch(const kiln_job *job, const job_step *step, kiln_yaml_error *error)
{
    const job_tensor *a = &job->tensors[step->a], *b = &job->tensors[step->b];
    char a_shape[160], b_shape[160];
    bool helps = extent(a, !step->transpose_a) == extent(b, !step->transpose_b);
    return job_fail(
        error, step->b_node,
        "step '%s': the inner dimensions differ: a '%s' %s%s gives K = %lld, b '%s' %s%s gives "
        "K = %lld%s%s",
        step->name, a->name, job_shape_text(a, a_shape), step->transpose_a ? " transposed" : "",
        (long long)extent(a, !step->transpose_a), b->name, job_shape_text(b, b_shape),
        step->transpose_b ? " transposed" : "", (long long)extent(b, step->transpose_b),
        helps ? "; it would fit with transpose_b: " : "",
        helps ? (step->transpose_b ? "false" : "true") : "");
}

/* Columns that epilogue `index` sees: half of N behind swiglu. */
static int64_t columns_at(const job_step *step, uint32_t index)
{
    int64_t columns = step->desc.n;
    for (uint32_t i = 0; i < index; i++)
        columns /= step->epilogues[i].epilogue.kind == KILN_EPILOGUE_SWIGLU ? 2 : 1;
    return columns;
}

/* What epilogues demand of the others and of the columns. */
static bool check_order(const job_step *step, kiln_yaml_error *error)
{
    bool swiglu = false;
    for (uint32_t i = 0; i < step->epilogue_count; i++) {
        const job_epilogue *epilogue = &step->epilogues[i];
        if (epilogue->epilogue.kind == KILN_EPILOGUE_QUANTIZE && i + 1 < step->epilogue_count)
            return job_fail(error, epilogue->node, "step '%s': quantize must be the last epilogue",
                            step->name);
        if (epilogue->epilogue.kind != KILN_EPILOGUE_SWIGLU)
            continue;
        if (swiglu)
            return job_fail(error, epilogue->node, "step '%s': swiglu can be there only once",
                            step->name);
        swiglu = true;
        int64_t pair = epilogue->epilogue.p0 > 0 ? 2 * (int64_t)epilogue->epilogue.p0 : 2;
        if (step->desc.n % pair)
            return job_fail(error, epilogue->node,
                            "step '%s': swiglu pairs columns, %lld to a pair, but there are %lld",
                            step->name, (long long)pair, (long long)step->desc.n);
    }
    return true;
}

/* A tensor that the step makes. */
static bool shape_result(const job_step *step, job_tensor *result, uint32_t type, int64_t leading,
                         int64_t rows, int64_t columns, kiln_yaml_error *error)
{
    bool leads = leading != JOB_NONE;
    int64_t shape[3] = {leading, rows, columns};
    char text[160];
    result->type = type;
    result->rank = leads ? 3 : 2;
    memcpy(result->shape, leads ? shape : shape + 1, result->rank * sizeof shape[0]);
    if (job_tensor_is_countable(result))
        return true;
    return job_fail(error, result->node, "step '%s': '%s' would be %s, which is too large",
                    step->name, result->name, job_shape_text(result, text));
}

/* What a quantised D and its scales may be. */
static bool check_d_types(const job_step *step, const job_tensor *d, kiln_yaml_error *error)
{
    if (!step->type_out)
        return job_fail(error, d->node,
                        "step '%s': d '%s' is quantised, and needs a type for that, such as e4m3 "
                        "or i8",
                        step->name, d->name);
    if (!job_is_quantizable(step->type_out))
        return job_fail(error, d->node,
                        "step '%s': d '%s' is %s, which is not quantised; e4m3, e5m2, e2m1, i8, "
                        "u8, i4 or u4 is wanted",
                        step->name, d->name, kiln_type_name(step->type_out));
    return step->d_scale_type == KILN_TYPE_NONE || step->d_scale_type == KILN_F32 ||
           step->d_scale_type == KILN_E4M3 || step->d_scale_type == KILN_UE8M0 ||
           job_fail(error, d->scale_node,
                    "step '%s': the scales of d '%s' are %s; f32, e4m3 or ue8m0 is wanted",
                    step->name, d->name, kiln_type_name(step->d_scale_type));
}

static bool shape_of_d(kiln_job *job, job_step *step, int64_t batch, kiln_yaml_error *error)
{
    kiln_gemm_desc *desc = &step->desc;
    job_tensor *d = &job->tensors[step->d];
    int64_t columns = columns_at(step, step->epilogue_count);
    uint32_t type = step->type_out ? step->type_out : gemm_default_type(desc);
    if (!shape_result(step, d, type, batch, desc->m, columns, error))
        return false;
    if (step->d_scale == JOB_NONE)
        return true;
    if (!check_d_types(step, d, error))
        return false;
    int32_t block = d->block[1];
    int64_t scales = block < 1 ? 1 : columns / block + (columns % block != 0);
    return shape_result(step, &job->tensors[step->d_scale],
                        step->d_scale_type ? step->d_scale_type : (uint32_t)KILN_F32, batch,
                        desc->m, scales, error);
}

/* ---- Groups ---- */

/* How many groups there are, and that GROUPS has one number for each of what it counts. */
static bool count_groups(const kiln_job *job, job_step *step, kiln_yaml_error *error)
{
    const job_tensor *groups = &job->tensors[step->groups], *b = &job->tensors[step->b];
    kiln_gemm_desc *desc = &step->desc;
    char shape[160];
    if (groups->rank != 1 || groups->type != KILN_I32)
        return job_fail(error, step->groups_node,
                        "step '%s': groups '%s' is %s %s; a vector of i32 is wanted", step->name,
                        groups->name, kiln_type_name(groups->type), job_shape_text(groups, shape));
    desc->groups = groups->shape[0];
    if (step->grouping == KILN_GROUPING_CONTIGUOUS) {
        if (groups->shape[0] != desc->m)
            return job_fail(error, step->groups_node,
                            "step '%s': groups '%s' is %s; the group of each of the %lld rows is "
                            "wanted",
                            step->name, groups->name, job_shape_text(groups, shape),
                            (long long)desc->m);
        if (b->rank != 3)
            return job_fail(error, step->b_node,
                            "step '%s': b '%s' is %s; one matrix for each group is wanted, "
                            "[groups, rows, columns]",
                            step->name, b->name, job_shape_text(b, shape));
        desc->groups = b->shape[0];
    }
    return desc->groups > 0 ||
           job_fail(error, step->groups_node, "step '%s': there are no groups: '%s' is empty",
                    step->name,
                    step->grouping == KILN_GROUPING_CONTIGUOUS ? b->name : groups->name);
}

static bool join_leading(const kiln_job *job, job_step *step, int64_t *batch,
                         kiln_yaml_error *error)
{
    const struct {
        int64_t index;
        const kiln_yaml_node *node;
        uint32_t slot;
    } inputs[] = {{step->a, step->a_node, KILN_GEMM_A},
                  {step->b, step->b_node, KILN_GEMM_B},
                  {step->c, step->c_node, KILN_GEMM_C}};
    *batch = JOB_NONE;
    step->desc.batch = 1;
    if (step->grouping && !count_groups(job, step, error))
        return false;
    for (int i = 0; i < 3; i++)
        if (inputs[i].index != JOB_NONE &&
            !(step->grouping
                  ? check_leading(job, step, inputs[i].slot, inputs[i].index, inputs[i].node, error)
                  : join_batch(job, step, inputs[i].index, inputs[i].node, batch, error)))
            return false;
    if (step->grouping == KILN_GROUPING_MASKED || step->grouping == KILN_GROUPING_K)
        *batch = step->desc.groups;
    else if (!step->grouping && *batch != JOB_NONE)
        step->desc.batch = *batch;
    return true;
}

static void describe_inputs(const kiln_job *job, job_step *step)
{
    const job_tensor *a = &job->tensors[step->a], *b = &job->tensors[step->b];
    kiln_gemm_desc *desc = &step->desc;
    desc->m = extent(a, step->transpose_a);
    desc->k = extent(a, !step->transpose_a);
    desc->n = extent(b, !step->transpose_b);
    desc->a_type = a->type;
    desc->b_type = b->type;
    desc->a_quantization = job_quantization(job, a);
    desc->b_quantization = job_quantization(job, b);
    desc->grouping = step->grouping;
}

/* What only A and B may have. */
static bool refuse_scales(const kiln_job *job, const job_step *step, const char *key, int64_t index,
                          const kiln_yaml_node *node, kiln_yaml_error *error)
{
    return !job_is_quantized(&job->tensors[index]) ||
           job_fail(error, node, "step '%s': %s '%s' has scales, which only a and b may have",
                    step->name, key, job->tensors[index].name);
}

static bool shape_matrices(kiln_job *job, job_step *step, kiln_yaml_error *error)
{
    int64_t batch;
    if (!expect_matrix(job, step, "a", step->a, step->a_node, error) ||
        !expect_matrix(job, step, "b", step->b, step->b_node, error) ||
        (step->c != JOB_NONE && (!expect_matrix(job, step, "c", step->c, step->c_node, error) ||
                                 !refuse_scales(job, step, "c", step->c, step->c_node, error))))
        return false;
    describe_inputs(job, step);
    if (extent(&job->tensors[step->b], step->transpose_b) != step->desc.k)
        return inner_mismatch(job, step, error);
    return check_order(step, error) && join_leading(job, step, &batch, error) &&
           shape_of_d(job, step, batch, error);
}

/* Whether the tensor is [M, columns], with or without D's leading dimension. */
static bool like_d(const kiln_job *job, const job_step *step, const job_tensor *tensor,
                   int64_t columns)
{
    const job_tensor *d = &job->tensors[step->d];
    return (tensor->rank == 2 || tensor->rank == 3) && extent(tensor, false) == step->desc.m &&
           extent(tensor, true) == columns &&
           (tensor->rank == 2 || (d->rank == 3 && tensor->shape[0] == d->shape[0]) ||
            tensor->shape[0] == 1);
}

static bool check_c(const kiln_job *job, const job_step *step, kiln_yaml_error *error)
{
    if (step->c == JOB_NONE || like_d(job, step, &job->tensors[step->c], step->desc.n))
        return true;
    char shape[160];
    return job_fail(error, step->c_node, "step '%s': c '%s' is %s, but the result is [%lld, %lld]",
                    step->name, job->tensors[step->c].name,
                    job_shape_text(&job->tensors[step->c], shape), (long long)step->desc.m,
                    (long long)step->desc.n);
}

/* ---- Epilogues ---- */

/* `leading`: of vectors that there is one of for each batch entry or group. */
static kiln_operand_shape vector_shape(const job_step *step, const job_tensor *x, int64_t columns,
                                       int64_t leading)
{
    bool row = x->rank == 1 || (x->rank == 2 && x->shape[0] == 1);
    int64_t last = x->rank ? x->shape[x->rank - 1] : 1;
    if (row && last == columns)
        return KILN_OPERAND_ROW;
    if (x->rank == 2 && x->shape[1] == 1 && x->shape[0] == step->desc.m)
        return KILN_OPERAND_COLUMN;
    if (x->rank == 0 || (row && last == 1))
        return KILN_OPERAND_SCALAR;
    if (x->rank != 2 || leading < 2 || x->shape[0] != leading)
        return KILN_OPERAND_NONE;
    return last == columns ? KILN_OPERAND_ROW : last == 1 ? KILN_OPERAND_SCALAR : KILN_OPERAND_NONE;
}

/* What a bias gradient makes: [columns], or one for each batch entry or group. */
static bool shape_gradient(kiln_job *job, const job_step *step, job_epilogue *epilogue,
                           int64_t columns, int64_t leading, kiln_yaml_error *error)
{
    job_tensor *x = &job->tensors[epilogue->operand];
    if (epilogue->each && leading == 0)
        return job_fail(error, epilogue->node,
                        "step '%s': each: there is neither a batch nor a grouping; leave it out",
                        step->name);
    epilogue->epilogue.operand = KILN_OPERAND_ROW;
    epilogue->epilogue.type = x->type = step->desc.a_type == KILN_F64 ? KILN_F64 : KILN_F32;
    x->rank = epilogue->each ? 2 : 1;
    x->shape[0] = epilogue->each ? leading : columns;
    x->shape[1] = epilogue->each ? columns : 0;
    return job_tensor_is_countable(x) ||
           job_fail(error, epilogue->node, "step '%s': '%s' would be too large", step->name,
                    x->name);
}

static bool epilogue_misfit(const job_step *step, const job_epilogue *epilogue, const job_tensor *x,
                            int64_t columns, int64_t leading, kiln_yaml_error *error)
{
    const char *name = gemm_epilogue_name(epilogue->epilogue.kind);
    long long m = step->desc.m, n = columns;
    char shape[160], each[64] = "";
    if (gemm_epilogue_takes_matrix(epilogue->epilogue.kind))
        return job_fail(error, epilogue->node,
                        "step '%s': %s '%s' is %s, but the result is [%lld, %lld]", step->name,
                        name, x->name, job_shape_text(x, shape), m, n);
    if (leading > 1)
        snprintf(each, sizeof each, " [%lld, %lld] (a row per %s),", (long long)leading, n,
                 step->grouping ? "group" : "batch entry");
    return job_fail(error, epilogue->node,
                    "step '%s': %s '%s' is %s; [%lld] is wanted (one per column),%s [%lld, 1] (one "
                    "per row) or [1]",
                    step->name, name, x->name, job_shape_text(x, shape), n, each, m);
}

static bool shape_epilogue(kiln_job *job, job_step *step, uint32_t index, kiln_yaml_error *error)
{
    job_epilogue *epilogue = &step->epilogues[index];
    kiln_epilogue *out = &epilogue->epilogue;
    int64_t columns = columns_at(step, index),
            leading = job_leading(job, step, KILN_GEMM_OPERAND + index);
    if (epilogue->operand == JOB_NONE)
        return true;
    if (out->kind == KILN_EPILOGUE_BIAS_GRADIENT)
        return shape_gradient(job, step, epilogue, columns, leading, error);
    const job_tensor *x = &job->tensors[epilogue->operand];
    if (!refuse_scales(job, step, gemm_epilogue_name(out->kind), epilogue->operand, epilogue->node,
                       error))
        return false;
    out->type = x->type;
    if (gemm_epilogue_takes_matrix(out->kind))
        out->operand = like_d(job, step, x, columns) ? KILN_OPERAND_MATRIX : KILN_OPERAND_NONE;
    else
        out->operand = vector_shape(step, x, columns, leading);
    return out->operand || epilogue_misfit(step, epilogue, x, columns, leading, error);
}

/* ---- Descriptors ---- */

static uint32_t view_alignment(const kiln_job *job, const job_step *step, uint32_t slot,
                               int64_t index)
{
    if (index == JOB_NONE)
        return 0;
    kiln_tensor view = job_view(job, step, slot, index);
    return kiln_tensor_alignment(&view);
}

static void fill_desc(const kiln_job *job, job_step *step)
{
    kiln_gemm_desc *desc = &step->desc;
    const job_tensor *d = &job->tensors[step->d];
    desc->head.struct_size = sizeof *desc;
    desc->head.flags = (step->transpose_a ? KILN_GEMM_TRANSPOSE_A : 0) |
                       (step->transpose_b ? KILN_GEMM_TRANSPOSE_B : 0);
    if (desc->batch == 0) { /* an empty batch is a dynamic one of which no member comes */
        desc->batch = 1;
        desc->head.flags |= KILN_GEMM_DYNAMIC_BATCH;
    }
    desc->c_type = step->c == JOB_NONE ? 0 : job->tensors[step->c].type;
    desc->d_type = d->type;
    desc->a_alignment = view_alignment(job, step, KILN_GEMM_A, step->a);
    desc->b_alignment = view_alignment(job, step, KILN_GEMM_B, step->b);
    desc->c_alignment = view_alignment(job, step, KILN_GEMM_C, step->c);
    desc->d_alignment = view_alignment(job, step, KILN_GEMM_D, step->d);
    desc->precision = step->precision;
    desc->max_rel_error = step->max_rel_error;
    desc->group_alignment = step->group_alignment;
    if (step->d_scale != JOB_NONE) {
        desc->d_quantization = job_quantization(job, d);
        desc->d_quantization.zero_type = KILN_TYPE_NONE;
    }
    desc->epilogue_count = step->epilogue_count;
    for (uint32_t i = 0; i < step->epilogue_count; i++) {
        desc->epilogues[i] = step->epilogues[i].epilogue;
        desc->epilogues[i].alignment =
            view_alignment(job, step, KILN_GEMM_OPERAND + i, step->epilogues[i].operand);
    }
}

bool job_shape_steps(kiln_job *job, kiln_yaml_error *error)
{
    for (int64_t i = 0; i < job->tensor_count; i++)
        if (job->tensors[i].producer == JOB_NONE && !job_fit_scales(job, &job->tensors[i], error))
            return false;
    for (int64_t i = 0; i < job->step_count; i++) {
        job_step *step = &job->steps[i];
        memset(&step->desc, 0, sizeof step->desc);
        if (!shape_matrices(job, step, error) || !check_c(job, step, error))
            return false;
        for (uint32_t e = 0; e < step->epilogue_count; e++)
            if (!shape_epilogue(job, step, e, error))
                return false;
        fill_desc(job, step);
    }
    return true;
}

/* ---- Outputs and checks ---- */

static bool has_suffix(const char *text, const char *suffix)
{
    size_t length = strlen(text), tail = strlen(suffix);
    return length > tail && strcmp(text + length - tail, suffix) == 0;
}

static bool fits_npy(uint32_t type)
{
    static const uint32_t types[] = {KILN_F64, KILN_F32, KILN_F16, KILN_I64, KILN_U64, KILN_I32,
                                     KILN_U32, KILN_I16, KILN_U16, KILN_I8,  KILN_U8,  KILN_BOOL};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i] == type)
            return true;
    return false;
}

static bool check_scores(const kiln_job *job, int64_t index, const kiln_yaml_node *node,
                         kiln_yaml_error *error)
{
    const job_tensor *scores = &job->tensors[index];
    char shape[160];
    if (job_is_quantized(scores))
        return job_fail(error, node, "scores '%s' have scales; choose a type for them such as f32",
                        scores->name);
    if (scores->rank == 2 && scores->shape[1] > 0)
        return true;
    return job_fail(error, node,
                    "scores '%s' are %s; one row per case with one column per class is wanted",
                    scores->name, job_shape_text(scores, shape));
}

/* What .safetensors cannot hold, although no other file could. */
static bool check_safetensors(const job_output *output, const job_tensor *tensor, uint32_t type,
                              kiln_yaml_error *error)
{
    bool empty = false;
    char shape[160];
    for (uint32_t i = 0; i < tensor->rank; i++)
        empty = empty || tensor->shape[i] == 0;
    if (strcmp(output->name, "__metadata__") == 0)
        return job_fail(error, output->node,
                        "output '%s': %s cannot hold a tensor of that name; choose another one",
                        output->name, output->file);
    if (type == KILN_I4 || type == KILN_U4)
        return job_fail(error, output->node,
                        "output '%s' is %s, which no tensor file can hold; choose i8 or u8 as its "
                        "type",
                        output->name, kiln_type_name(type));
    if (kiln_type_bits(type) >= 8 || empty ||
        (tensor->rank > 0 && tensor->shape[tensor->rank - 1] % 2 == 0))
        return true;
    return job_fail(error, output->node,
                    "output '%s' is %s %s, but %s holds two elements in a byte and cannot hold an "
                    "odd number of columns; choose a type of 8 bits for it, such as e4m3, or pad b "
                    "so that their number is even",
                    output->name, kiln_type_name(type), job_shape_text(tensor, shape),
                    output->file);
}

static bool check_output(const kiln_job *job, const job_output *output, kiln_yaml_error *error)
{
    bool npy = has_suffix(output->file, ".npy") || has_suffix(output->file, ".npz");
    uint32_t type = output->classes ? (uint32_t)KILN_I64 : job->tensors[output->tensor].type;
    if (output->classes && !check_scores(job, output->tensor, output->node, error))
        return false;
    if (!npy && !has_suffix(output->file, ".safetensors"))
        return job_fail(error, output->node,
                        "output '%s': %s must end in .npy, .npz or .safetensors", output->name,
                        output->file);
    if ((!npy || type == KILN_I4 || type == KILN_U4) &&
        !check_safetensors(output, &job->tensors[output->tensor], type, error))
        return false;
    if (npy && !fits_npy(type))
        return job_fail(error, output->node,
                        "output '%s' is %s, which %s cannot hold; name a .safetensors file",
                        output->name, kiln_type_name(type), output->file);
    for (const job_output *other = job->outputs; other < output; other++)
        if (strcmp(other->file, output->file) == 0 && has_suffix(output->file, ".npy"))
            return job_fail(error, output->node, "outputs '%s' and '%s' both go to %s", other->name,
                            output->name, output->file);
    return true;
}

static bool check_check(const kiln_job *job, const job_check *check, kiln_yaml_error *error)
{
    const job_tensor *scores = &job->tensors[check->scores], *labels = &job->tensors[check->labels];
    char shape[160];
    if (!check_scores(job, check->scores, check->node, error))
        return false;
    if (labels->rank == 1 && labels->shape[0] == scores->shape[0])
        return true;
    return job_fail(
        error, check->node, "labels '%s' are %s; one for each of the %lld rows of '%s' is wanted",
        labels->name, job_shape_text(labels, shape), (long long)scores->shape[0], scores->name);
}

bool job_resolve(kiln_job *job, kiln_yaml_error *error)
{
    if (!job_open_files(job, error) || !job_shape_steps(job, error))
        return false;
    for (int64_t i = 0; i < job->output_count; i++)
        if (!check_output(job, &job->outputs[i], error))
            return false;
    for (int64_t i = 0; i < job->check_count; i++)
        if (!check_check(job, &job->checks[i], error))
            return false;
    return true;
}
