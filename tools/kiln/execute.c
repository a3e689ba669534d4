/* SPDX-License-Identifier: Apache-2.0 */
/* Running a job: its steps. */
#include <stdatomic.h>
#include <string.h>

#include "tools/kiln/run.h"

/* ---- One run of one plan ---- */

bool run_plan_once(job_run *run, const job_step *step, kiln_plan *plan, kiln_device *device,
                   kiln_buffer *const made[JOB_SLOTS], int64_t *time_ns)
{
    kiln_tensor tensors[JOB_SLOTS];
    kiln_gemm_args args = {{sizeof args, KILN_GEMM_SLOTS, tensors}, step->alpha, step->beta};
    kiln_stream *stream;
    int64_t index;
    memset(tensors, 0, sizeof tensors);
    for (int slot = job_next_input(run->job, step, -1, &index); slot >= 0;
         slot = job_next_input(run->job, step, slot, &index)) {
        tensors[slot] = job_view(run->job, step, (uint32_t)slot, index);
        tensors[slot].buffer = *run_buffer(run, index, device);
    }
    for (int slot = job_next_output(run->job, step, -1, &index); slot >= 0;
         slot = job_next_output(run->job, step, slot, &index)) {
        tensors[slot] = job_view(run->job, step, (uint32_t)slot, index);
        tensors[slot].buffer = made[slot];
    }
    job_attach_scales(run->job, step, tensors);
    if (!run_stream(run, device, &stream))
        return false;
    int64_t begin = tool_now_ns();
    if (kiln_plan_run(plan, stream, &args.head) != KILN_OK || kiln_stream_wait(stream) != KILN_OK) {
        tool_fail(run->common, "step '%s': %s", step->name, kiln_last_error());
        return false;
    }
    *time_ns = tool_now_ns() - begin;
    return true;
}

static bool place_inputs(job_run *run, const job_step *step, kiln_device *device, int64_t *moved)
{
    int64_t index;
    for (int slot = job_next_input(run->job, step, -1, &index); slot >= 0;
         slot = job_next_input(run->job, step, slot, &index))
        if (!run_place(run, index, device, moved))
            return false;
    return true;
}

/* ---- Counting ---- */

/* The stream's count of cycles so far; false when its device counts none. */
static bool read_cycles(kiln_stream *stream, int64_t *cycles)
{
    kiln_counter counters[16];
    int64_t count = 0;
    if (kiln_stream_counters(stream, counters, 16, &count) != KILN_OK)
        return false;
    for (int64_t i = 0; i < count && i < 16; i++)
        if (strcmp(counters[i].name, "cycles") == 0) {
            *cycles = counters[i].value;
            return true;
        }
    return false;
}

static void count_staging(void *context, const kiln_trace_event *event)
{
    job_run *run = context;
    if (event->kind == KILN_TRACE_STAGE)
        atomic_fetch_add(&run->staged_bytes, event->bytes);
}

/* ---- Steps ---- */

static bool run_one(job_run *run, int64_t index)
{
    const job_step *step = &run->job->steps[index];
    run_step *out = &run->steps[index];
    kiln_stream *stream;
    kiln_buffer *made[JOB_SLOTS];
    int64_t before = 0, after = 0, staged = atomic_load(&run->staged_bytes);
    if (!place_inputs(run, step, out->device, &out->copied_bytes) ||
        !run_make(run, step, out->device, made) || !run_stream(run, out->device, &stream))
        return false;
    tool_progress("step %lld of %lld, %s on %s", (long long)index + 1,
                  (long long)run->job->step_count, step->name, out->info.backend);
    bool counts = read_cycles(stream, &before);
    if (!run_plan_once(run, step, out->plan, out->device, made, &out->time_ns))
        return false;
    out->counts_cycles = counts && read_cycles(stream, &after);
    out->cycles = after - before;
    out->staged_bytes = atomic_load(&run->staged_bytes) - staged;
    return true;
}

bool run_steps(job_run *run)
{
    if (kiln_trace_set(run->runtime, count_staging, run) != KILN_OK) {
        tool_fail(run->common, "%s", kiln_last_error());
        return false;
    }
    bool good = true;
    for (int64_t i = 0; good && i < run->job->step_count; i++)
        good = !tool_interrupted() && run_one(run, i) &&
               (!run->options->compare || run_compare(run, i));
    kiln_trace_set(run->runtime, NULL, NULL);
    return good && !tool_interrupted();
}
