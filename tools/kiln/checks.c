/* SPDX-License-Identifier: Apache-2.0 */
/* Running a job: outputs on the host, classes, digests, and the checks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kiln/run.h"

/* The column of the largest score of a row, the first of equal ones; -1 when a score is NaN. */
static int64_t row_class(const kiln_tensor *scores, int64_t row)
{
    const char *base =
        (const char *)scores->data + kiln_type_row_bytes(scores->type, row * scores->strides[0]);
    int64_t best = 0;
    double largest = -HUGE_VAL;
    for (int64_t column = 0; column < scores->shape[1]; column++) {
        double score = kiln_load_f64(scores->type, base, column);
        if (isnan(score))
            return -1;
        if (score > largest) {
            largest = score;
            best = column;
        }
    }
    return best;
}

static bool gather_classes(job_run *run, int64_t index, const kiln_tensor *scores)
{
    run_output *out = &run->outputs[index];
    int64_t rows = scores->shape[0];
    out->classes = calloc(rows > 0 ? (size_t)rows : 1, sizeof *out->classes);
    if (!out->classes) {
        tool_fail(run->common, "output '%s': no memory for %lld classes",
                  run->job->outputs[index].name, (long long)rows);
        return false;
    }
    for (int64_t row = 0; row < rows; row++)
        out->classes[row] = row_class(scores, row);
    out->tensor = kiln_vector(KILN_I64, out->classes, rows);
    return true;
}

bool run_gather_outputs(job_run *run)
{
    for (int64_t i = 0; i < run->job->output_count; i++) {
        const job_output *output = &run->job->outputs[i];
        run_output *out = &run->outputs[i];
        io_error problem;
        if (!run_host_tensor(run, output->tensor, &out->tensor) ||
            (output->classes && !gather_classes(run, i, &out->tensor)))
            return false;
        if (run->options->digest && tensor_digest(&out->tensor, out->digest, &problem) != KILN_OK) {
            tool_fail(run->common, "output '%s': %s", output->name, problem.text);
            return false;
        }
    }
    return true;
}

bool run_make_checks(job_run *run)
{
    for (int64_t i = 0; i < run->job->check_count; i++) {
        const job_check *check = &run->job->checks[i];
        run_check *out = &run->checks[i];
        kiln_tensor scores, labels;
        if (!run_host_tensor(run, check->scores, &scores) ||
            !run_host_tensor(run, check->labels, &labels))
            return false;
        out->total = scores.shape[0];
        for (int64_t row = 0; row < out->total; row++)
            out->correct +=
                (double)row_class(&scores, row) == kiln_load_f64(labels.type, labels.data, row);
        /* No cases prove nothing. */
        out->passed =
            out->total > 0 && (double)out->correct >= check->at_least * (double)out->total;
    }
    return true;
}

bool run_passed(const job_run *run)
{
    for (int64_t i = 0; i < run->job->check_count; i++)
        if (!run->checks[i].passed)
            return false;
    for (int64_t i = 0; run->options->compare && i < run->job->step_count; i++)
        if (!run->steps[i].comparison.passed)
            return false;
    return true;
}

run_totals run_sum(const job_run *run)
{
    run_totals sum = {.counts_cycles = false};
    for (int64_t i = 0; i < run->job->step_count; i++) {
        const run_step *step = &run->steps[i];
        sum.fallbacks += step->fallback;
        sum.staged_bytes += step->staged_bytes;
        sum.copied_bytes += step->copied_bytes;
        sum.cycles += step->cycles;
        sum.time_ns += step->time_ns;
        sum.counts_cycles |= step->counts_cycles;
    }
    return sum;
}
