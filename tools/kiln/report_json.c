/* SPDX-License-Identifier: Apache-2.0 */
/* Running a job: the report, as JSON. */
#include <math.h>
#include <string.h>

#include "tools/kiln/gemm_words.h"
#include "tools/kiln/info_json.h"
#include "tools/kiln/run.h"

/* JSON has neither Inf nor NaN: those are null. */
static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *comparison_json(const job_run *run, const run_comparison *found)
{
    const char *with = run->options->compare;
    if (!found->compared)
        return json_pack("{s:s, s:b, s:b, s:s}", "with", with, "compared", 0, "passed", 0, "reason",
                         found->why);
    return json_pack(
        "{s:s, s:b, s:b, s:s, s:o, s:o, s:o, s:o, s:[I,I,I], s:s, s:o, s:o}", "with", with,
        "compared", 1, "passed", found->passed, "reason", found->why, "max_difference",
        number_json(found->max_difference), "max_relative", number_json(found->max_relative),
        "bound_ratio", found->bound_ratio >= 0 ? number_json(found->bound_ratio) : json_null(),
        "unbounded", found->unbounded >= 0 ? json_integer(found->unbounded) : json_null(), "worst",
        (json_int_t)found->worst[0], (json_int_t)found->worst[1], (json_int_t)found->worst[2],
        "worst_of", run->job->tensors[found->worst_of].name, "worst_result",
        number_json(found->worst_result), "worst_reference", number_json(found->worst_reference));
}

static json_t *step_json(const job_run *run, int64_t index)
{
    const run_step *step = &run->steps[index];
    char shape[256];
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:b, s:b}", "name",
                  run->job->steps[index].name, "operator", step->info.operator_name, "shape",
                  gemm_describe(&run->job->steps[index].desc, shape, sizeof shape), "backend",
                  step->info.backend, "device", step->info.device, "kernel", step->info.kernel,
                  "reason", step->reason, "estimated_ns", (json_int_t)step->info.estimated_ns,
                  "workspace_bytes", (json_int_t)step->info.workspace_bytes, "staged",
                  step->info.staged != 0, "fallback", step->fallback);
    if (run->options->dry_run)
        return object;
    json_object_set_new(object, "time_ns", json_integer(step->time_ns));
    json_object_set_new(object, "cycles",
                        step->counts_cycles ? json_integer(step->cycles) : json_null());
    json_object_set_new(object, "staged_bytes", json_integer(step->staged_bytes));
    json_object_set_new(object, "copied_bytes", json_integer(step->copied_bytes));
    if (run->options->compare)
        json_object_set_new(object, "comparison", comparison_json(run, &step->comparison));
    return object;
}

/* Steps by backend: {"npu": 3}. */
static json_t *backends_json(const job_run *run)
{
    json_t *counts = json_object();
    for (int64_t i = 0; i < run->job->step_count; i++) {
        const char *backend = run->steps[i].info.backend;
        json_int_t before = json_integer_value(json_object_get(counts, backend));
        json_object_set_new(counts, backend, json_integer(before + 1));
    }
    return counts;
}

/* NaN-free maximum over the steps that were compared; null when one was not. */
static json_t *largest_difference_json(const job_run *run)
{
    double largest = 0;
    for (int64_t i = 0; i < run->job->step_count; i++) {
        if (!run->steps[i].comparison.compared)
            return json_null();
        largest = fmax(largest, run->steps[i].comparison.max_difference);
    }
    return number_json(largest);
}

static json_t *totals_json(const job_run *run)
{
    run_totals sum = run_sum(run);
    json_t *object =
        json_pack("{s:I, s:o, s:I}", "steps", (json_int_t)run->job->step_count, "steps_by_backend",
                  backends_json(run), "fallbacks", (json_int_t)sum.fallbacks);
    if (run->options->dry_run)
        return object;
    json_object_set_new(object, "staged_bytes", json_integer(sum.staged_bytes));
    json_object_set_new(object, "copied_bytes", json_integer(sum.copied_bytes));
    json_object_set_new(object, "cycles",
                        sum.counts_cycles ? json_integer(sum.cycles) : json_null());
    json_object_set_new(object, "time_ns", json_integer(sum.time_ns));
    if (run->options->compare)
        json_object_set_new(object, "max_difference", largest_difference_json(run));
    return object;
}

static json_t *outputs_json(const job_run *run)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < run->job->output_count; i++) {
        const run_output *output = &run->outputs[i];
        json_t *shape = json_array();
        for (uint32_t d = 0; d < output->tensor.rank; d++)
            json_array_append_new(shape, json_integer(output->tensor.shape[d]));
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:o, s:s*}", "name", run->job->outputs[i].name, "file",
                            output->shown, "type", kiln_type_name(output->tensor.type), "shape",
                            shape, "digest", output->digest[0] ? output->digest : NULL));
    }
    return list;
}

static json_t *checks_json(const job_run *run)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < run->job->check_count; i++) {
        const run_check *check = &run->checks[i];
        double share = check->total ? (double)check->correct / (double)check->total : 0;
        json_array_append_new(list,
                              json_pack("{s:s, s:f, s:I, s:I, s:f, s:b}", "kind", "accuracy",
                                        "accuracy", share, "correct", (json_int_t)check->correct,
                                        "total", (json_int_t)check->total, "at_least",
                                        run->job->checks[i].at_least, "passed", check->passed));
    }
    return list;
}

int run_report_json(const job_run *run)
{
    json_t *steps = json_array();
    for (int64_t i = 0; i < run->job->step_count; i++)
        json_array_append_new(steps, step_json(run, i));
    json_t *object =
        json_pack("{s:s, s:s, s:o, s:b, s:o, s:o}", "kiln", kiln_version(), "job", run->job->name,
                  "profile", info_profile_json(run->runtime), "dry_run", run->options->dry_run,
                  "steps", steps, "totals", totals_json(run));
    if (!run->options->dry_run) {
        json_object_set_new(object, "outputs", outputs_json(run));
        json_object_set_new(object, "checks", checks_json(run));
        json_object_set_new(object, "passed", json_boolean(run_passed(run)));
    }
    return tool_print_json(run->common, object);
}
