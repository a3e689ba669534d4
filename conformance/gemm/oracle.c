/* SPDX-License-Identifier: Apache-2.0 */
/* What a GEMM computes, by plain loops. */
#include <math.h>
#include <stdlib.h>

#include "conformance/gemm/job.h"

/* Rows of D that are made of the same B and the same steps of k. */
typedef struct gemm_part {
    int64_t group; /* or batch entry: which B, and which vectors and matrices of epilogues */
    int64_t a_lead, b_lead, d_lead;
    int64_t begin, end; /* of k */
} gemm_part;

/* ---- Sums ---- */

static void note_factor(gemm_factor *factor, double value)
{
    double size = fabs(value);
    if (!isfinite(size))
        return;
    factor->largest = fmax(factor->largest, size);
    if (size > 0)
        factor->least = fmin(factor->least, size);
}

static int64_t next_boundary(int64_t block, int64_t k, int64_t end)
{
    return block < end && (k / block + 1) * block < end ? (k / block + 1) * block : end;
}

static void cut_segments(gemm_job *job, const gemm_part *part)
{
    job->segment_count = 0;
    for (int64_t k = part->begin; k < part->end;) {
        segment *cut = &job->segments[job->segment_count++];
        cut->begin = k;
        cut->end = next_boundary(job->a.block_k, k, next_boundary(job->b.block_k, k, part->end));
        k = cut->end;
    }
}

static void load_b(gemm_job *job, const gemm_part *part)
{
    cut_segments(job, part);
    for (int64_t s = 0; s < job->segment_count; s++) {
        const segment *cut = &job->segments[s];
        for (int64_t j = 0; j < job->n; j++)
            job->b_factors[s * job->n + j] =
                (gemm_factor){0, (double)INFINITY,
                              conformance_operand_scale(&job->b, part->b_lead, j, cut->begin)};
        for (int64_t k = cut->begin; k < cut->end; k++)
            for (int64_t j = 0; j < job->n; j++) {
                double value = conformance_operand_at(&job->b, part->b_lead, j, k);
                job->op_b[k * job->n + j] = value;
                note_factor(&job->b_factors[s * job->n + j], value);
            }
    }
}

static void multiply_segment(gemm_job *job, const segment *cut)
{
    for (int64_t j = 0; j < job->n; j++)
        job->segment_sums[j] = job->segment_magnitudes[j] = 0;
    for (int64_t k = cut->begin; k < cut->end; k++) {
        double a = job->op_a[k], a_size = fabs(a);
        const double *b = job->op_b + k * job->n;
        if (job->arithmetic.wide)
            for (int64_t j = 0; j < job->n; j++)
                job->values[j] += (long double)a * (long double)b[j];
        else
            for (int64_t j = 0; j < job->n; j++)
                job->segment_sums[j] += a * b[j];
        for (int64_t j = 0; j < job->n; j++)
            job->segment_magnitudes[j] += a_size * fabs(b[j]);
    }
}

/* values = Σab of one row. */
static void multiply_row(gemm_job *job, const gemm_part *part, int64_t row)
{
    for (int64_t j = 0; j < job->n; j++) {
        job->values[j] = 0;
        job->terms[j] = (gemm_terms){0};
    }
    for (int64_t s = 0; s < job->segment_count; s++) {
        const segment *cut = &job->segments[s];
        gemm_factor a = {0, (double)INFINITY,
                         conformance_operand_scale(&job->a, part->a_lead, row, cut->begin)};
        for (int64_t k = cut->begin; k < cut->end; k++) {
            job->op_a[k] = conformance_operand_at(&job->a, part->a_lead, row, k);
            note_factor(&a, job->op_a[k]);
        }
        multiply_segment(job, cut);
        for (int64_t j = 0; j < job->n; j++) {
            const gemm_factor *b = &job->b_factors[s * job->n + j];
            if (!job->arithmetic.wide)
                job->values[j] += job->segment_sums[j] * (a.scale * b->scale);
            conformance_gemm_add_segment(&job->arithmetic, cut->end - cut->begin, &a, b,
                                         job->segment_sums[j], job->segment_magnitudes[j],
                                         &job->terms[j]);
        }
    }
}

/* alpha and beta on a row of sums. */
static void scale_row(gemm_job *job, const gemm_part *part, int64_t row)
{
    for (int64_t j = 0; j < job->n; j++) {
        double c = job->beta != 0 ? conformance_view_at(&job->c, part->d_lead, row, j) : 0;
        long double value = job->alpha != 0 ? job->alpha * job->values[j] : 0;
        if (job->beta != 0)
            value += (long double)job->beta * c;
        job->errors[j] =
            conformance_gemm_sum_error(&job->arithmetic, part->end - part->begin, job->alpha,
                                       &job->terms[j], job->beta, c, value);
        job->values[j] = value;
    }
}

/* ---- Epilogues ---- */

/* The activations, -Inf giving their limit. */
static long double activation(uint32_t kind, bool wide, long double v)
{
    const long double root_half = 0.707106781186547524400844362104849039L;
    const long double root_two_over_pi = 0.797884560802865355879892119868763737L;
    if (isinf(v) && v < 0)
        return -0.0L;
    if (kind == KILN_EPILOGUE_GELU_ERF)
        return v / 2 * (wide ? erfcl(-v * root_half) : (long double)erfc((double)(-v * root_half)));
    long double exponent =
        kind == KILN_EPILOGUE_SILU ? -v : -2 * root_two_over_pi * (v + 0.044715L * v * v * v);
    return v / (1 + (wide ? expl(exponent) : (long double)exp((double)exponent)));
}

static long double apply(const kiln_epilogue *epilogue, bool wide, long double v, double x)
{
    switch (epilogue->kind) {
    case KILN_EPILOGUE_BIAS:
    case KILN_EPILOGUE_RESIDUAL:
        return v + x;
    case KILN_EPILOGUE_MULTIPLY:
    case KILN_EPILOGUE_SCALE:
        return v * x;
    case KILN_EPILOGUE_RELU:
        return v < 0 ? 0 : v;
    case KILN_EPILOGUE_CLIP:
        return v < epilogue->p0 ? epilogue->p0 : v > epilogue->p1 ? epilogue->p1 : v;
    default:
        return activation(epilogue->kind, wide, v);
    }
}

/* In a contiguous grouping columns and matrices belong to the rows, not to the groups. */
static int64_t operand_lead(const gemm_job *job, const gemm_part *part, uint32_t shape)
{
    bool by_row = shape == KILN_OPERAND_COLUMN || shape == KILN_OPERAND_MATRIX;
    return job->desc->grouping == KILN_GROUPING_CONTIGUOUS && by_row ? 0 : part->group;
}

static void apply_to_row(gemm_job *job, const gemm_part *part, int64_t row, uint32_t i,
                         int64_t width)
{
    const kiln_epilogue *epilogue = &job->desc->epilogues[i];
    int64_t lead = operand_lead(job, part, epilogue->operand);
    for (int64_t j = 0; j < width; j++) {
        double x = job->operands[i].data ? conformance_view_at(&job->operands[i], lead, row, j)
                   : epilogue->kind == KILN_EPILOGUE_SCALE ? epilogue->p0
                                                           : 0;
        long double after = apply(epilogue, job->arithmetic.wide, job->values[j], x);
        job->errors[j] = conformance_gemm_step_error(&job->arithmetic, epilogue->kind,
                                                     job->values[j], job->errors[j], x, after);
        job->values[j] = after;
    }
}

/* Piece j / size of the result comes from pieces 2 (j / size) and 2 (j / size) + 1 of the values. A
 * value is read before its place is written. */
static void swiglu_row(gemm_job *job, const kiln_epilogue *epilogue, int64_t width)
{
    int64_t size = epilogue->p0 == 0 ? 1 : epilogue->p0 < 0 ? width / 2 : (int64_t)epilogue->p0;
    for (int64_t j = 0; j < width / 2; j++) {
        int64_t at = 2 * (j / size) * size + j % size;
        long double gate = job->values[at], up = job->values[at + size];
        long double silu = activation(KILN_EPILOGUE_SILU, job->arithmetic.wide, gate),
                    after = silu * up;
        job->errors[j] = conformance_gemm_swiglu_error(&job->arithmetic, gate, job->errors[at],
                                                       silu, up, job->errors[at + size], after);
        job->values[j] = after;
    }
}

static void add_to_gradient(gemm_job *job, const gemm_part *part, uint32_t i)
{
    const conformance_gemm_gradient *gradient = &job->expected->gradients[i];
    gradient_sums *sums = &job->gradients[i];
    int64_t row = gradient->rows > 1 ? part->group : 0;
    sums->counts[row]++;
    for (int64_t j = 0; j < gradient->columns; j++) {
        int64_t at = row * gradient->columns + j;
        sums->values[at] += job->values[j];
        if (isfinite(job->values[j]))
            sums->magnitudes[at] += (double)fabsl(job->values[j]);
        sums->errors[at] += job->errors[j];
    }
}

static void quantize_row(gemm_job *job, int64_t line, double *exact, double *bound)
{
    conformance_gemm_expected *expected = job->expected;
    int64_t width = expected->columns, block = job->desc->d_quantization.block[1] > 0
                                                   ? job->desc->d_quantization.block[1]
                                                   : width;
    for (int64_t j = 0; j < width; j++) {
        exact[j] = (double)job->values[j];
        bound[j] = job->errors[j] + (isfinite(exact[j]) ? 0x1p-53 * fabs(exact[j]) : 0);
    }
    for (int64_t s = 0; s < expected->scale_columns; s++) {
        int64_t first = s * block, count = width - first < block ? width - first : block;
        int64_t at = line * expected->scale_columns + s;
        conformance_gemm_scale_range(&job->arithmetic, job->desc, count, exact + first,
                                     bound + first, &expected->scale_low[at],
                                     &expected->scale_high[at]);
    }
}

static void finish_row(gemm_job *job, const gemm_part *part, int64_t row)
{
    const kiln_gemm_desc *desc = job->desc;
    conformance_gemm_expected *expected = job->expected;
    bool saturate = desc->head.flags & KILN_GEMM_SATURATE;
    int64_t width = job->n, line = part->d_lead * job->m + row;
    double *exact = expected->exact + line * expected->columns,
           *bound = expected->bound + line * expected->columns;
    expected->written[line] = true;
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        uint32_t kind = desc->epilogues[i].kind;
        if (kind == KILN_EPILOGUE_QUANTIZE) {
            quantize_row(job, line, exact, bound);
            return;
        }
        if (kind == KILN_EPILOGUE_BIAS_GRADIENT) {
            add_to_gradient(job, part, i);
        } else if (kind == KILN_EPILOGUE_SWIGLU) {
            swiglu_row(job, &desc->epilogues[i], width);
            width /= 2;
        } else {
            apply_to_row(job, part, row, i, width);
        }
    }
    for (int64_t j = 0; j < width; j++) {
        exact[j] = conformance_gemm_clamped(desc->d_type, saturate, job->values[j]);
        bound[j] =
            conformance_gemm_output_bound(&job->arithmetic, desc->d_type, exact[j], job->errors[j]);
    }
}

static void finish_gradients(gemm_job *job)
{
    for (uint32_t i = 0; i < job->desc->epilogue_count; i++) {
        conformance_gemm_gradient *gradient = &job->expected->gradients[i];
        const gradient_sums *sums = &job->gradients[i];
        for (int64_t at = 0; at < gradient->rows * gradient->columns; at++) {
            gradient->exact[at] = (double)sums->values[at];
            gradient->bound[at] = conformance_gemm_gradient_error(
                &job->arithmetic, sums->counts[at / gradient->columns], sums->values[at],
                sums->magnitudes[at], sums->errors[at]);
        }
    }
}

/* ---- Parts ---- */

static void compute_part(gemm_job *job, const gemm_part *part)
{
    bool loaded = false;
    job->segment_count = 0;
    for (int64_t i = 0; i < job->m; i++) {
        if (!job->is_row[i])
            continue;
        if (!loaded && job->alpha != 0 && job->n > 0)
            load_b(job, part);
        loaded = true;
        multiply_row(job, part, i);
        scale_row(job, part, i);
        finish_row(job, part, i);
    }
}

static int64_t clamp(double value, int64_t low, int64_t high)
{
    return value < (double)low ? low : value > (double)high ? high : (int64_t)value;
}

/* What GROUPS says of a part: which rows. */
static void read_rows(gemm_job *job, const gemm_part *part)
{
    bool *exceeded = &job->expected->exceeded;
    if (job->desc->grouping == KILN_GROUPING_CONTIGUOUS)
        for (int64_t i = 0; i < job->m; i++) {
            double index = conformance_view_at(&job->groups, 0, 0, i);
            job->is_row[i] = index == (double)part->group;
            *exceeded |= index < -1 || index >= (double)job->desc->groups;
        }
    if (job->desc->grouping == KILN_GROUPING_MASKED) {
        double count = conformance_view_at(&job->groups, 0, 0, part->group);
        for (int64_t i = 0; i < job->m; i++)
            job->is_row[i] = (double)i < count;
        *exceeded |= count < 0 || count > (double)job->m;
    }
}

/* Where a group's steps of k end, clamped to what the one before it leaves. */
static int64_t read_end(gemm_job *job, int64_t group, int64_t least)
{
    double end = conformance_view_at(&job->groups, 0, 0, group);
    int64_t found = clamp(end, least, job->k);
    job->expected->exceeded |= (double)found != end;
    return found;
}

/* Padding up to the next multiple of group_alignment behind a row that is written. */
static void find_loose(gemm_job *job)
{
    conformance_gemm_expected *expected = job->expected;
    int64_t unit = job->desc->group_alignment, lines = expected->batch * expected->rows;
    if (unit <= 1 || job->desc->grouping == KILN_GROUPING_K)
        return;
    for (int64_t line = 0; line < lines; line++) {
        int64_t place = line % expected->rows % unit;
        bool behind = place > 0 && (expected->written[line - 1] || expected->loose[line - 1]);
        expected->loose[line] = behind && !expected->written[line];
    }
}

static void compute(gemm_job *job)
{
    uint32_t grouping = job->desc->grouping;
    int64_t parts = grouping == KILN_GROUPING_NONE ? job->batch : job->desc->groups;
    int64_t begin = 0;
    for (int64_t i = 0; i < job->m; i++)
        job->is_row[i] = true;
    for (int64_t g = 0; g < parts; g++) {
        gemm_part part = {.group = g, .a_lead = g, .b_lead = g, .d_lead = g, .end = job->k};
        if (grouping == KILN_GROUPING_CONTIGUOUS)
            part.a_lead = part.d_lead = 0;
        if (grouping == KILN_GROUPING_K) {
            part.a_lead = part.b_lead = 0;
            part.begin = begin;
            part.end = begin = read_end(job, g, begin);
        }
        read_rows(job, &part);
        compute_part(job, &part);
    }
    finish_gradients(job);
    find_loose(job);
}

void conformance_gemm_expected_free(conformance_gemm_expected *expected)
{
    free(expected->exact);
    free(expected->bound);
    free(expected->written);
    free(expected->loose);
    free(expected->scale_low);
    free(expected->scale_high);
    for (uint32_t i = 0; i < KILN_GEMM_MAX_EPILOGUES; i++) {
        free(expected->gradients[i].exact);
        free(expected->gradients[i].bound);
    }
    memset(expected, 0, sizeof *expected);
}

kiln_status conformance_gemm_oracle(const kiln_gemm_desc *desc, const kiln_gemm_args *args,
                                    uint32_t answer_flags, conformance_gemm_expected *expected,
                                    const char **reason)
{
    gemm_job job = {.desc = desc, .expected = expected};
    memset(expected, 0, sizeof *expected);
    job.arithmetic = conformance_gemm_arithmetic(desc, answer_flags);
    kiln_status status = conformance_job_bind(&job, args, reason);
    if (status == KILN_OK && !conformance_job_make(&job)) {
        *reason = "no memory for the oracle";
        status = KILN_NO_MEMORY;
    }
    if (status == KILN_OK)
        compute(&job);
    conformance_job_free(&job);
    if (status != KILN_OK)
        conformance_gemm_expected_free(expected);
    return status;
}
