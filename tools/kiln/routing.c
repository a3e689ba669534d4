/* SPDX-License-Identifier: Apache-2.0 */
/* Running a job: which backend on which device serves each step. */
#include <stdio.h>
#include <string.h>

#include "tools/kiln/run.h"

typedef struct route {
    kiln_plan *plan;
    kiln_device *device;
    bool elsewhere; /* not on the device that was tried first */
} route;

static kiln_status try_device(const job_run *run, const job_step *step, const char *backend,
                              kiln_device *device, route *found)
{
    kiln_plan_options options = {
        .struct_size = sizeof options,
        .device = device,
        .backend = backend,
    };
    found->device = device;
    return kiln_plan_create(run->runtime, KILN_GEMM, &step->desc.head, &options, &found->plan);
}

/* Adds what kept the step from a device, once for devices that are alike. */
static void add_reason(char *why, size_t size, const kiln_device *device)
{
    size_t used = strlen(why);
    if (!strstr(why, kiln_last_error()))
        snprintf(why + used, size - used, "%son %s: %s", used ? "; " : "", kiln_device_name(device),
                 kiln_last_error());
}

/* Tries `first`, then, unless it is `only` that one, every other device: the run copies tensors to
 * wherever they are needed, so a backend on another device will do. `why` says what kept the step
 * from the devices before the one that was found, or from all of them. */
static bool find_route(const job_run *run, const job_step *step, const char *backend,
                       kiln_device *first, bool only, route *found, char why[1024])
{
    kiln_status status = try_device(run, step, backend, first, found);
    found->elsewhere = false;
    why[0] = '\0';
    if (status == KILN_OK)
        return true;
    add_reason(why, 1024, first);
    if (only || status != KILN_UNSUPPORTED)
        return false;
    found->elsewhere = true;
    for (int64_t i = 0; i < run->device_count; i++) {
        kiln_device *device = kiln_device_at(run->runtime, i);
        if (device == first)
            continue;
        if (try_device(run, step, backend, device, found) == KILN_OK)
            return true;
        add_reason(why, 1024, device);
    }
    return false;
}

static bool plan_step(const job_run *run, const job_step *step, run_step *out)
{
    kiln_device *first = kiln_device_default(run->runtime);
    kiln_yaml_error error;
    char why[1024];
    route found;
    if (step->device && kiln_device_find(run->runtime, step->device, &first) != KILN_OK) {
        job_fail(&error, step->node, "step '%s': %s", step->name, kiln_last_error());
        tool_fail(run->common, "%s", error.text);
        return false;
    }
    if (!find_route(run, step, step->backend, first, step->device != NULL, &found, why)) {
        job_fail(&error, step->node, "step '%s': %s", step->name, why);
        tool_fail(run->common, "%s", error.text);
        return false;
    }
    out->plan = found.plan;
    out->device = found.device;
    out->info.struct_size = sizeof out->info;
    if (kiln_plan_get_info(out->plan, &out->info) != KILN_OK) {
        tool_fail(run->common, "step '%s': %s", step->name, kiln_last_error());
        return false;
    }
    bool moved = found.elsewhere && !step->backend;
    out->fallback = out->info.fallback || moved;
    snprintf(out->reason, sizeof out->reason, "%s", moved ? why : out->info.reason);
    return true;
}

/* Finds who computes the same step for comparison. A backend that is the step's own is told later,
 * step by step: other steps may have run elsewhere. */
static bool plan_comparison(const job_run *run, const job_step *step, run_step *out)
{
    const char *backend = run->options->compare;
    char why[1024];
    route found;
    out->comparison.bound_ratio = -1;
    if (!backend || strcmp(backend, "oracle") == 0)
        return true;
    if (strcmp(backend, out->info.backend) == 0)
        return true;
    if (!find_route(run, step, backend, out->device, false, &found, why)) {
        tool_fail(run->common, "--compare %s: step '%s': %s", backend, step->name, why);
        return false;
    }
    out->other = found.plan;
    out->other_device = found.device;
    return true;
}

bool run_plan(job_run *run)
{
    for (int64_t i = 0; i < run->job->step_count; i++) {
        const job_step *step = &run->job->steps[i];
        tool_progress("planning step %lld of %lld, %s", (long long)i + 1,
                      (long long)run->job->step_count, step->name);
        if (!plan_step(run, step, &run->steps[i]) || !plan_comparison(run, step, &run->steps[i]))
            return false;
        if (tool_interrupted())
            return false;
    }
    return true;
}
