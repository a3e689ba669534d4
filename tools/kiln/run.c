/* SPDX-License-Identifier: Apache-2.0 */
/* kiln run: runs a job, or one GEMM. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kiln/run.h"

static const struct option options_table[] = {
    TOOL_COMMON_OPTIONS,
    RUN_OPTIONS,
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "usage: kiln run [OPTION…] JOB.yaml\n"
    "       kiln run gemm --a A.npy --b B.npy --out D.npy [OPTION…]\n"
    "\n"
    "Runs the steps of a job on the backends that the profile names, with tensors from .npy, .npz\n"
    "and .safetensors files placed on its device, and says of every step where it ran and what\n"
    "that cost. The whole job is checked before anything runs; outputs are written when all steps\n"
    "have run, all or none. The job's format is in kiln-run(1); 'kiln run gemm --help' is about\n"
    "the second form.\n"
    "\n"
    "Options:\n" RUN_HELP TOOL_COMMON_HELP;

/* ---- Running ---- */

static job_run *new_run(const tool_common *common, const run_options *options,
                        kiln_runtime *runtime, kiln_job *job)
{
    job_run *run = tool_allocate(1, sizeof *run);
    run->common = common;
    run->options = options;
    run->runtime = runtime;
    run->job = job;
    run->device_count = kiln_device_count(runtime);
    run->streams = tool_allocate((size_t)run->device_count, sizeof *run->streams);
    run->buffers =
        tool_allocate((size_t)(run->device_count * job->tensor_count), sizeof *run->buffers);
    run->used = tool_allocate((size_t)(run->device_count * job->tensor_count), sizeof *run->used);
    run->steps = tool_allocate((size_t)job->step_count, sizeof *run->steps);
    run->outputs = tool_allocate((size_t)job->output_count, sizeof *run->outputs);
    run->checks = tool_allocate((size_t)job->check_count, sizeof *run->checks);
    return run;
}

static void free_run(job_run *run)
{
    for (int64_t i = 0; i < run->device_count; i++)
        kiln_stream_destroy(run->streams[i]);
    for (int64_t i = 0; i < run->device_count * run->job->tensor_count; i++)
        kiln_buffer_release(run->buffers[i]);
    for (int64_t i = 0; i < run->job->step_count; i++) {
        if (run->steps[i].plan)
            kiln_plan_release(run->steps[i].plan);
        if (run->steps[i].other)
            kiln_plan_release(run->steps[i].other);
    }
    for (int64_t i = 0; i < run->job->output_count; i++) {
        free(run->outputs[i].shown);
        free(run->outputs[i].path);
        free(run->outputs[i].classes);
    }
    free(run->streams);
    free(run->buffers);
    free(run->used);
    free(run->steps);
    free(run->outputs);
    free(run->checks);
    free(run);
}

/* Outputs are written whether or not comparisons and checks passed: who has to find out why they
 * failed wants to see them. */
static bool run_everything(job_run *run)
{
    if (!run_check_outputs(run) || !run_plan(run))
        return false;
    if (run->options->dry_run)
        return true;
    return run_steps(run) && run_gather_outputs(run) && run_make_checks(run) &&
           run_write_outputs(run);
}

int run_job(const tool_common *common, const run_options *options, kiln_runtime *runtime,
            kiln_job *job)
{
    job_run *run = new_run(common, options, runtime, job);
    int code = TOOL_OK;
    tool_progress_begin(common);
    bool good = run_everything(run);
    tool_progress_end();
    if (tool_interrupted() && !good) {
        tool_fail(common, "stopped by a signal; nothing was written");
        code = 128 + tool_interrupted();
    } else if (!good) {
        code = TOOL_FAILED;
    } else {
        if (common->json)
            code = run_report_json(run);
        else
            run_report(run);
        if (code == TOOL_OK && !options->dry_run && !run_passed(run))
            code = TOOL_FAILED;
    }
    free_run(run);
    return code;
}

static int resolve_and_run(const tool_common *common, const run_options *options, kiln_job *job)
{
    kiln_yaml_error error;
    kiln_runtime *runtime;
    if (!job_resolve(job, &error))
        return tool_fail(common, "%s", error.text);
    if (!tool_runtime_open(common, &runtime))
        return TOOL_FAILED;
    int code = run_job(common, options, runtime, job);
    kiln_runtime_close(runtime);
    return code;
}

/* ---- The command ---- */

bool run_take_option(const tool_common *common, run_options *options, int option, const char *value)
{
    switch (option) {
    case RUN_OPTION_COMPARE:
        options->compare = value;
        return true;
    case RUN_OPTION_OUT_DIR:
        options->out_dir = value;
        /* Joined to a name, nothing at all would mean the root. */
        return value[0] || (tool_usage(common, "--out-dir takes a folder"), false);
    case RUN_OPTION_DIGEST:
        options->digest = true;
        return true;
    case RUN_OPTION_DRY_RUN:
        options->dry_run = true;
        return true;
    default:
        if (tool_read_number(value, &options->tolerance) && options->tolerance >= 0)
            return true;
        tool_usage(common, "--tolerance takes a number from 0 on, not '%s'", value);
        return false;
    }
}

bool run_check_options(const tool_common *common, const run_options *options)
{
    if (options->tolerance >= 0 && !options->compare) {
        tool_usage(common, "--tolerance is about --compare, which is missing");
        return false;
    }
    return true;
}

static int read_job_command(tool_common *common, run_options *options, int argc, char **argv,
                            kiln_job *job)
{
    int option;
    kiln_yaml_error error;
    while ((option = tool_next_option(common, argc, argv, options_table)) != -1) {
        if (option == '?')
            return TOOL_USAGE;
        if (option == TOOL_OPTION_HELP)
            return fputs(help, stdout), RUN_HELPED;
        if (!run_take_option(common, options, option, optarg))
            return TOOL_USAGE;
    }
    if (argc - optind != 1)
        return tool_usage(common, argc == optind ? "name a job file" : "takes one job file, not %d",
                          argc - optind);
    if (!run_check_options(common, options))
        return TOOL_USAGE;
    return job_read(argv[optind], job, &error) ? TOOL_OK : tool_fail(common, "%s", error.text);
}

int kiln_run_main(int argc, char **argv)
{
    bool gemm = argc > 1 && strcmp(argv[1], "gemm") == 0;
    tool_common common = {.command = gemm ? "kiln run gemm" : "kiln run"};
    run_options options = {.tolerance = -1};
    kiln_job job;
    memset(&job, 0, sizeof job);
    tool_catch_interrupts();
    int code = gemm ? run_gemm_read(&common, &options, argc - 1, argv + 1, &job)
                    : read_job_command(&common, &options, argc, argv, &job);
    if (code == TOOL_OK)
        code = resolve_and_run(&common, &options, &job);
    job_free(&job);
    tool_common_free(&common);
    return code == RUN_HELPED ? TOOL_OK : code;
}
