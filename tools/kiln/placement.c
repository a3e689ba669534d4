/* SPDX-License-Identifier: Apache-2.0 */
/* Running a job: tensors on devices. */
#include <stdlib.h>
#include <string.h>

#include "tools/kiln/run.h"

static int64_t device_index(const job_run *run, const kiln_device *device)
{
    int64_t index = 0;
    while (index + 1 < run->device_count && kiln_device_at(run->runtime, index) != device)
        index++;
    return index;
}

kiln_buffer **run_buffer(const job_run *run, int64_t tensor, const kiln_device *device)
{
    return &run->buffers[tensor * run->device_count + device_index(run, device)];
}

bool run_stream(job_run *run, kiln_device *device, kiln_stream **stream)
{
    kiln_stream **own = &run->streams[device_index(run, device)];
    if (!*own && kiln_stream_create(device, own) != KILN_OK) {
        tool_fail(run->common, "%s", kiln_last_error());
        return false;
    }
    *stream = *own;
    return true;
}

bool run_allocate(job_run *run, int64_t tensor, kiln_device *device, kiln_buffer **buffer)
{
    const job_tensor *shape = &run->job->tensors[tensor];
    if (kiln_buffer_alloc(device, KILN_SPACE_DEVICE, job_tensor_bytes(shape), buffer) == KILN_OK)
        return true;
    tool_fail(run->common, "tensor '%s' on %s: %s", shape->name, kiln_device_name(device),
              kiln_last_error());
    return false;
}

/* ---- From files ---- */

/* A contiguous copy of the rows that the job takes; NULL with a message. */
static void *gather_rows(const job_run *run, const job_tensor *tensor, const kiln_tensor *source)
{
    kiln_tensor whole = job_whole(tensor), from = *source, to;
    int64_t bytes = job_tensor_bytes(tensor);
    void *memory = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (!memory) {
        tool_fail(run->common, "tensor '%s': no memory for its %lld rows", tensor->name,
                  (long long)tensor->shape[0]);
        return NULL;
    }
    whole.data = memory;
    to = whole;
    to.shape[0] = from.shape[0] = 1;
    for (int64_t row = 0; row < tensor->shape[0]; row++) {
        from.byte_offset =
            source->byte_offset +
            kiln_type_row_bytes(tensor->type, tensor->row_list[row] * source->strides[0]);
        to.byte_offset = kiln_type_row_bytes(tensor->type, row * whole.strides[0]);
        if (kiln_copy(NULL, run->runtime, &to, &from) != KILN_OK) {
            tool_fail(run->common, "tensor '%s': %s", tensor->name, kiln_last_error());
            free(memory);
            return NULL;
        }
    }
    return memory;
}

static bool load_file(job_run *run, int64_t index, const kiln_tensor *destination)
{
    const job_tensor *tensor = &run->job->tensors[index];
    kiln_tensor source;
    io_error problem;
    void *rows = NULL;
    tool_progress("reading %s", tensor->name);
    if (tensor_file_get(tensor->source, tensor->entry, &source, &problem) != KILN_OK) {
        tool_fail(run->common, "tensor '%s': %s", tensor->name, problem.text);
        return false;
    }
    source = job_file_view(tensor, &source);
    if (tensor->row_list) {
        rows = gather_rows(run, tensor, &source);
        if (!rows)
            return false;
        source = job_whole(tensor);
        source.data = rows;
    }
    kiln_status status = kiln_copy(NULL, run->runtime, destination, &source);
    free(rows);
    if (status != KILN_OK)
        tool_fail(run->common, "tensor '%s' to %s: %s", tensor->name,
                  kiln_device_name(kiln_buffer_device(destination->buffer)), kiln_last_error());
    return status == KILN_OK;
}

/* ---- Between devices ---- */

static kiln_buffer *anywhere(const job_run *run, int64_t tensor)
{
    for (int64_t i = 0; i < run->device_count; i++)
        if (run->buffers[tensor * run->device_count + i])
            return run->buffers[tensor * run->device_count + i];
    return NULL;
}

static bool copy_across(job_run *run, int64_t index, kiln_buffer *from,
                        const kiln_tensor *destination)
{
    kiln_tensor source = job_whole(&run->job->tensors[index]);
    source.buffer = from;
    if (kiln_copy(NULL, run->runtime, destination, &source) == KILN_OK)
        return true;
    tool_fail(run->common, "tensor '%s' from %s to %s: %s", run->job->tensors[index].name,
              kiln_device_name(kiln_buffer_device(from)),
              kiln_device_name(kiln_buffer_device(destination->buffer)), kiln_last_error());
    return false;
}

/* A tensor that a comparison has already brought here costs the step as much as if it had not. */
static void count_move(job_run *run, int64_t index, const kiln_device *device, int64_t *moved)
{
    const job_tensor *tensor = &run->job->tensors[index];
    bool *used = &run->used[index * run->device_count + device_index(run, device)];
    if (!*used && (tensor->producer != JOB_NONE || device != kiln_device_default(run->runtime)))
        *moved += job_tensor_bytes(tensor);
    *used = true;
}

bool run_place(job_run *run, int64_t tensor, kiln_device *device, int64_t *moved)
{
    kiln_buffer **place = run_buffer(run, tensor, device), *from = anywhere(run, tensor);
    if (moved)
        count_move(run, tensor, device, moved);
    if (*place)
        return true;
    kiln_tensor destination = job_whole(&run->job->tensors[tensor]);
    if (!run_allocate(run, tensor, device, &destination.buffer))
        return false;
    bool good =
        from ? copy_across(run, tensor, from, &destination) : load_file(run, tensor, &destination);
    if (!good) {
        kiln_buffer_release(destination.buffer);
        return false;
    }
    *place = destination.buffer;
    return true;
}

/* Rows that a grouping leaves out are not written: they are 0 rather than what memory held. */
bool run_allocate_result(job_run *run, const job_step *step, int64_t tensor, kiln_device *device,
                         kiln_buffer **buffer)
{
    if (!run_allocate(run, tensor, device, buffer))
        return false;
    if (!step->grouping || run_zero(run->runtime, *buffer) == KILN_OK)
        return true;
    tool_fail(run->common, "tensor '%s' on %s: %s", run->job->tensors[tensor].name,
              kiln_device_name(device), kiln_last_error());
    kiln_buffer_release(*buffer);
    *buffer = NULL;
    return false;
}

bool run_make(job_run *run, const job_step *step, kiln_device *device, kiln_buffer *made[JOB_SLOTS])
{
    int64_t index;
    memset(made, 0, JOB_SLOTS * sizeof *made);
    for (int slot = job_next_output(run->job, step, -1, &index); slot >= 0;
         slot = job_next_output(run->job, step, slot, &index)) {
        kiln_buffer **place = run_buffer(run, index, device);
        run->used[index * run->device_count + device_index(run, device)] = true;
        if (!run_allocate_result(run, step, index, device, place))
            return false;
        made[slot] = *place;
    }
    return true;
}

bool run_host_tensor(job_run *run, int64_t tensor, kiln_tensor *view)
{
    kiln_device *host = kiln_device_at(run->runtime, 0);
    if (!run_place(run, tensor, host, NULL))
        return false;
    *view = job_whole(&run->job->tensors[tensor]);
    view->data = kiln_buffer_host(*run_buffer(run, tensor, host));
    return true;
}
