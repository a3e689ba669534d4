/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: the shapes of the steps, and all that can be checked without a backend. */
#include <stdio.h>
#include <string.h>

#include "tools/kiln/command.h"
#include "tools/kiln/gemm_words.h"
#include "tools/kiln/job.h"

/* ---- Tensors ---- */

const char *job_shape_text(const job_tensor *tensor, char text[160])
{
    int used = snprintf(text, 160, "[");
    for (uint32_t i = 0; i < tensor->rank && used < 140; i++)
        used += snprintf(text + used, 160 - (size_t)used, i ? ", %lld" : "%lld",
                         (long long)tensor->shape[i]);
    snprintf(text + used, 160 - (size_t)used, "]");
    return text;
}

kiln_tensor job_whole(const job_tensor *tensor)
{
    return kiln_tensor_host(tensor->type, NULL, tensor->rank, tensor->shape);
}

int64_t job_tensor_bytes(const job_tensor *tensor)
{
    if (tensor->rank == 0)
        return kiln_type_row_bytes(tensor->type, 1);
    int64_t bytes = kiln_type_row_bytes(tensor->type, tensor->shape[tensor->rank - 1]);
    for (uint32_t i = 0; i + 1 < tensor->rank; i++)
        bytes *= tensor->shape[i];
    return bytes;
}

bool job_tensor_is_countable(const job_tensor *tensor)
{
    int64_t product = 16; /* bytes per element, with room to spare */
    for (uint32_t i = 0; i < tensor->rank; i++) {
        /* Strides are products too, of which a zero extent makes no exception. */
        int64_t extent = tensor->shape[i] > 0 ? tensor->shape[i] : 1;
        if (__builtin_mul_overflow(product, extent, &product))
            return false;
    }
    return true;
}

int job_next_input(const job_step *step, int slot, int64_t *index)
{
    for (slot++; slot < KILN_GEMM_OPERAND + KILN_GEMM_MAX_EPILOGUES; slot++) {
        int epilogue = slot - KILN_GEMM_OPERAND;
        *index = slot == KILN_GEMM_A   ? step->a
                 : slot == KILN_GEMM_B ? step->b
                 : slot == KILN_GEMM_C ? step->c
                 : slot == KILN_GEMM_D || epilogue >= (int)step->epilogue_count
                     ? JOB_NONE
                     : step->epilogues[epilogue].operand;
        if (*index != JOB_NONE)
            return slot;
    }
    return -1;
}

static kiln_tensor flat_view(const job_tensor *tensor)
{
    kiln_tensor whole = job_whole(tensor);
    return kiln_vector(tensor->type, NULL, kiln_tensor_elements(&whole));
}

kiln_tensor job_view(const kiln_job *job, const job_step *step, uint32_t slot, int64_t index)
{
    const job_tensor *tensor = &job->tensors[index];
    kiln_tensor view = job_whole(tensor);
    uint32_t d_rank = job->tensors[step->d].rank;
    if (slot >= KILN_GEMM_OPERAND &&
        step->epilogues[slot - KILN_GEMM_OPERAND].epilogue.operand != KILN_OPERAND_MATRIX)
        return flat_view(tensor);
    if (d_rank != 3)
        return view;
    /* A matrix that serves the whole batch, or a batch of one that does. */
    if (view.rank == 2) {
        view.rank = 3;
        view.shape[2] = view.shape[1], view.shape[1] = view.shape[0];
        view.strides[2] = 1, view.strides[1] = view.strides[0];
        view.shape[0] = 1;
    }
    int64_t batch = job->tensors[step->d].shape[0];
    if (slot != KILN_GEMM_D && view.shape[0] != batch) {
        view.shape[0] = batch;
        view.strides[0] = 0;
    }
    return view;
}

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

static bool shape_of_d(kiln_job *job, job_step *step, int64_t m, int64_t n, int64_t batch,
                       kiln_yaml_error *error)
{
    job_tensor *d = &job->tensors[step->d];
    uint32_t type = job->tensors[step->a].type;
    d->type = step->type_out ? step->type_out : type == KILN_I8 ? (uint32_t)KILN_I32 : type;
    d->rank = batch == JOB_NONE ? 2 : 3;
    int64_t shape[3] = {batch, m, n};
    memcpy(d->shape, d->rank == 3 ? shape : shape + 1, d->rank * sizeof shape[0]);
    return job_tensor_is_countable(d) ||
           job_fail(error, d->node, "step '%s': d '%s' would be %lld × %lld, which is too large",
                    step->name, d->name, (long long)m, (long long)n);
}

static bool shape_matrices(kiln_job *job, job_step *step, kiln_yaml_error *error)
{
    if (!expect_matrix(job, step, "a", step->a, step->a_node, error) ||
        !expect_matrix(job, step, "b", step->b, step->b_node, error) ||
        (step->c != JOB_NONE && !expect_matrix(job, step, "c", step->c, step->c_node, error)))
        return false;
    const job_tensor *a = &job->tensors[step->a], *b = &job->tensors[step->b];
    kiln_gemm_desc *desc = &step->desc;
    int64_t batch = JOB_NONE;
    desc->m = extent(a, step->transpose_a);
    desc->k = extent(a, !step->transpose_a);
    desc->n = extent(b, !step->transpose_b);
    if (extent(b, step->transpose_b) != desc->k)
        return inner_mismatch(job, step, error);
    if (!join_batch(job, step, step->a, step->a_node, &batch, error) ||
        !join_batch(job, step, step->b, step->b_node, &batch, error) ||
        (step->c != JOB_NONE && !join_batch(job, step, step->c, step->c_node, &batch, error)))
        return false;
    desc->batch = batch == JOB_NONE ? 1 : batch;
    return shape_of_d(job, step, desc->m, desc->n, batch, error);
}

/* Whether the tensor is [M, N], with or without D's batch. */
static bool like_d(const kiln_job *job, const job_step *step, const job_tensor *tensor)
{
    const job_tensor *d = &job->tensors[step->d];
    return (tensor->rank == 2 || tensor->rank == 3) && extent(tensor, false) == step->desc.m &&
           extent(tensor, true) == step->desc.n &&
           (tensor->rank == 2 || (d->rank == 3 && tensor->shape[0] == d->shape[0]) ||
            tensor->shape[0] == 1);
}

static bool check_c(const kiln_job *job, const job_step *step, kiln_yaml_error *error)
{
    if (step->c == JOB_NONE || like_d(job, step, &job->tensors[step->c]))
        return true;
    char shape[160], d_shape[160];
    return job_fail(error, step->c_node, "step '%s': c '%s' is %s, but the result is %s",
                    step->name, job->tensors[step->c].name,
                    job_shape_text(&job->tensors[step->c], shape),
                    job_shape_text(&job->tensors[step->d], d_shape));
}

/* ---- Epilogues ---- */

static kiln_operand_shape vector_shape(const job_step *step, const job_tensor *x)
{
    bool row = x->rank == 1 || (x->rank == 2 && x->shape[0] == 1);
    int64_t last = x->rank ? x->shape[x->rank - 1] : 1;
    if (row && last == step->desc.n)
        return KILN_OPERAND_ROW;
    if (x->rank == 2 && x->shape[1] == 1 && x->shape[0] == step->desc.m)
        return KILN_OPERAND_COLUMN;
    if (x->rank == 0 || (row && last == 1))
        return KILN_OPERAND_SCALAR;
    return KILN_OPERAND_NONE;
}

static bool shape_epilogue(const kiln_job *job, job_step *step, job_epilogue *epilogue,
                           kiln_yaml_error *error)
{
    if (epilogue->operand == JOB_NONE)
        return true;
    const job_tensor *x = &job->tensors[epilogue->operand];
    kiln_epilogue *out = &epilogue->epilogue;
    char shape[160];
    bool matrix = out->kind == KILN_EPILOGUE_RESIDUAL || out->kind == KILN_EPILOGUE_MULTIPLY;
    out->type = x->type;
    if (matrix)
        out->operand = like_d(job, step, x) ? KILN_OPERAND_MATRIX : KILN_OPERAND_NONE;
    else
        out->operand = vector_shape(step, x);
    if (out->operand)
        return true;
    long long m = step->desc.m, n = step->desc.n;
    if (matrix)
        return job_fail(error, epilogue->node,
                        "step '%s': %s '%s' is %s, but the result is [%lld, %lld]", step->name,
                        gemm_epilogue_name(out->kind), x->name, job_shape_text(x, shape), m, n);
    return job_fail(error, epilogue->node,
                    "step '%s': %s '%s' is %s; [%lld] is wanted (one per column), [%lld, 1] (one "
                    "per row) or [1]",
                    step->name, gemm_epilogue_name(out->kind), x->name, job_shape_text(x, shape), n,
                    m);
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
    desc->head.struct_size = sizeof *desc;
    desc->head.flags = (step->transpose_a ? KILN_GEMM_TRANSPOSE_A : 0) |
                       (step->transpose_b ? KILN_GEMM_TRANSPOSE_B : 0);
    if (desc->batch == 0) { /* an empty batch is a dynamic one of which no member comes */
        desc->batch = 1;
        desc->head.flags |= KILN_GEMM_DYNAMIC_BATCH;
    }
    desc->a_type = job->tensors[step->a].type;
    desc->b_type = job->tensors[step->b].type;
    desc->c_type = step->c == JOB_NONE ? 0 : job->tensors[step->c].type;
    desc->d_type = job->tensors[step->d].type;
    desc->a_alignment = view_alignment(job, step, KILN_GEMM_A, step->a);
    desc->b_alignment = view_alignment(job, step, KILN_GEMM_B, step->b);
    desc->c_alignment = view_alignment(job, step, KILN_GEMM_C, step->c);
    desc->d_alignment = view_alignment(job, step, KILN_GEMM_D, step->d);
    desc->epilogue_count = step->epilogue_count;
    for (uint32_t i = 0; i < step->epilogue_count; i++) {
        desc->epilogues[i] = step->epilogues[i].epilogue;
        desc->epilogues[i].alignment =
            view_alignment(job, step, KILN_GEMM_OPERAND + i, step->epilogues[i].operand);
    }
}

bool job_shape_steps(kiln_job *job, kiln_yaml_error *error)
{
    for (int64_t i = 0; i < job->step_count; i++) {
        job_step *step = &job->steps[i];
        if (!shape_matrices(job, step, error) || !check_c(job, step, error))
            return false;
        for (uint32_t e = 0; e < step->epilogue_count; e++)
            if (!shape_epilogue(job, step, &step->epilogues[e], error))
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
    if (scores->rank == 2 && scores->shape[1] > 0)
        return true;
    return job_fail(error, node,
                    "scores '%s' are %s; one row per case with one column per class is wanted",
                    scores->name, job_shape_text(scores, shape));
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
