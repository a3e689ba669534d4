/* SPDX-License-Identifier: Apache-2.0 */
/* Running a job: the report, as text. */
#include <math.h>
#include <stdio.h>

#include "tools/kiln/gemm_words.h"
#include "tools/kiln/info_json.h"
#include "tools/kiln/run.h"
#include "tools/kiln/table.h"

static void print_head(const job_run *run)
{
    char name[128];
    info_profile(run->runtime, name);
    printf("job %s, profile %s\n\n", run->job->name, name[0] ? name : "(none)");
}

static void step_cells(const job_run *run, int64_t index, tool_table *table)
{
    const run_step *step = &run->steps[index];
    bool ran = !run->options->dry_run;
    char shape[256], text[32];
    tool_table_cell(table, "%s", run->job->steps[index].name);
    tool_table_cell(table, "%s", step->info.operator_name);
    tool_table_cell(table, "%s",
                    ran ? "" : gemm_describe(&run->job->steps[index].desc, shape, sizeof shape));
    tool_table_cell(table, "%s", step->info.backend);
    tool_table_cell(table, "%s", step->info.device);
    tool_table_cell(table, "%s", step->info.kernel);
    tool_table_cell(table, "%s", ran ? tool_time_text(step->time_ns, text) : "");
    if (step->counts_cycles)
        tool_table_cell(table, "%lld", (long long)step->cycles);
    else
        tool_table_cell(table, "%s", ran ? "-" : "");
    tool_table_cell(table, "%s", ran ? tool_bytes_text(step->staged_bytes, text) : "");
    tool_table_cell(table, "%s", ran ? tool_bytes_text(step->copied_bytes, text) : "");
    tool_table_cell(table, "%s", step->fallback ? "YES" : "no");
}

static void print_steps(const job_run *run)
{
    tool_table *table = tool_table_new(
        "step|operator|shape|backend|device|kernel|>time|>cycles|>staged|>copied|fallback");
    for (int64_t i = 0; i < run->job->step_count; i++)
        step_cells(run, i, table);
    tool_table_print(table, 0, stdout);
}

static void print_totals(const job_run *run)
{
    run_totals sum = run_sum(run);
    char text[32];
    printf("\n%lld step%s, fallbacks = %lld", (long long)run->job->step_count,
           run->job->step_count == 1 ? "" : "s", (long long)sum.fallbacks);
    if (run->options->dry_run) {
        puts("; dry run: nothing was run, nothing was written");
        return;
    }
    printf(", staged = %s", tool_bytes_text(sum.staged_bytes, text));
    printf(", copied = %s", tool_bytes_text(sum.copied_bytes, text));
    if (sum.counts_cycles)
        printf(", cycles = %lld", (long long)sum.cycles);
    printf(", time = %s\n", tool_time_text(sum.time_ns, text));
}

/* Why a step is not where the profile wanted it, and whose times mean nothing. */
static void print_remarks(const job_run *run)
{
    for (int64_t i = 0; i < run->job->step_count; i++)
        if (run->steps[i].fallback)
            printf("step '%s' fell back: %s\n", run->job->steps[i].name, run->steps[i].reason);
    for (int64_t i = 0; i < run->device_count; i++) {
        kiln_device *device = kiln_device_at(run->runtime, i);
        kiln_device_info info = {.struct_size = sizeof info};
        if (run->streams[i] && kiln_device_get_info(device, &info) == KILN_OK &&
            info.flags & KILN_DEVICE_MODEL)
            printf("%s is a software model: its cycles are the model's, its times say nothing "
                   "about hardware\n",
                   kiln_device_name(device));
    }
}

static void comparison_cells(const job_run *run, int64_t index, tool_table *table)
{
    const run_comparison *found = &run->steps[index].comparison;
    tool_table_cell(table, "%s", run->job->steps[index].name);
    if (!found->compared) {
        for (int column = 0; column < 7; column++)
            tool_table_cell(table, "%s", "");
        tool_table_cell(table, "NOT COMPARED: %s", found->why);
        return;
    }
    tool_table_cell(table, "%.3g", found->max_difference);
    tool_table_cell(table, "%.3g", found->max_relative);
    const job_tensor *worst = &run->job->tensors[found->worst_of];
    bool is_d = found->worst_of == run->job->steps[index].d;
    if (worst->rank == 3 && worst->shape[0] > 1)
        tool_table_cell(table, "%s[%lld, %lld, %lld]", is_d ? "" : worst->name,
                        (long long)found->worst[0], (long long)found->worst[1],
                        (long long)found->worst[2]);
    else
        tool_table_cell(table, "%s[%lld, %lld]", is_d ? "" : worst->name,
                        (long long)found->worst[1], (long long)found->worst[2]);
    tool_table_cell(table, "%.9g", found->worst_result);
    tool_table_cell(table, "%.9g", found->worst_reference);
    if (found->bound_ratio >= 0)
        tool_table_cell(table, "%.3f", found->bound_ratio);
    else
        tool_table_cell(table, "%s", "");
    if (found->unbounded >= 0)
        tool_table_cell(table, "%lld", (long long)found->unbounded);
    else
        tool_table_cell(table, "%s", "");
    tool_table_cell(table, "%s%s", found->passed ? "passed" : "FAILED: ", found->why);
}

static void print_comparisons(const job_run *run)
{
    printf("\ncompared with %s\n", run->options->compare);
    tool_table *table = tool_table_new(
        "step|>max difference|>max relative|worst at|>result|>reference|>error/bound|"
        ">unbounded|");
    for (int64_t i = 0; i < run->job->step_count; i++)
        comparison_cells(run, i, table);
    tool_table_print(table, 0, stdout);
}

static void print_outputs(const job_run *run)
{
    puts("\noutputs");
    tool_table *table = tool_table_new("name|type|shape|digest|file");
    for (int64_t i = 0; i < run->job->output_count; i++) {
        const kiln_tensor *tensor = &run->outputs[i].tensor;
        job_tensor shape = {.rank = tensor->rank};
        char text[160];
        for (uint32_t d = 0; d < tensor->rank; d++)
            shape.shape[d] = tensor->shape[d];
        tool_table_cell(table, "%s", run->job->outputs[i].name);
        tool_table_cell(table, "%s", kiln_type_name(tensor->type));
        tool_table_cell(table, "%s", job_shape_text(&shape, text));
        tool_table_cell(table, "%s", run->outputs[i].digest);
        tool_table_cell(table, "%s", run->outputs[i].shown);
    }
    tool_table_print(table, 0, stdout);
}

static void print_checks(const job_run *run)
{
    putchar('\n');
    for (int64_t i = 0; i < run->job->check_count; i++) {
        const run_check *check = &run->checks[i];
        double share = check->total ? 100.0 * (double)check->correct / (double)check->total : 0;
        printf("accuracy %.1f %% (%lld of %lld), wanted %.1f %%: %s\n", share,
               (long long)check->correct, (long long)check->total,
               100 * run->job->checks[i].at_least, check->passed ? "passed" : "FAILED");
    }
}

void run_report(const job_run *run)
{
    print_head(run);
    print_steps(run);
    print_totals(run);
    print_remarks(run);
    if (run->options->dry_run)
        return;
    if (run->options->compare)
        print_comparisons(run);
    if (run->job->output_count > 0)
        print_outputs(run);
    if (run->job->check_count > 0)
        print_checks(run);
}
