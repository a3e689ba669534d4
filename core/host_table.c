/* SPDX-License-Identifier: Apache-2.0 */
/* The table of what the core offers to plugins. */
#include <stdio.h>

#include "core/device.h"
#include "core/pool.h"

static kiln_status host_set_error(kiln_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    kiln_fail_v(status, format, arguments);
    va_end(arguments);
    return status;
}

static void host_log(const kiln_host *host, int level, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    kiln_runtime_log(host->runtime, level, "%s", text);
}

static int64_t device_index(const kiln_device *device, const void *instance)
{
    return device->instance && device->plugin_instance == instance ? device->index : -1;
}

static void *device_native(const kiln_device *device, const void *instance)
{
    return device->instance && device->plugin_instance == instance ? device->native : NULL;
}

static void *stream_native(const kiln_stream *stream)
{
    return stream->native;
}

static void *event_native(const kiln_event *event)
{
    return event->native;
}

static void *buffer_native(const kiln_buffer *buffer)
{
    return buffer->memory;
}

static int64_t device_is_host(const kiln_device *device)
{
    return kiln_device_is_host(device);
}

static int64_t thread_count(const kiln_host *host)
{
    return kiln_pool_threads(host->runtime->pool);
}

static void parallel_for(const kiln_host *host, int64_t parts,
                         void (*task)(void *argument, int64_t part), void *argument)
{
    kiln_pool_run(host->runtime->pool, parts, task, argument);
}

void kiln_host_table_fill(kiln_host *host, kiln_runtime *runtime)
{
    *host = (kiln_host){
        .struct_size = sizeof *host,
        .abi_minor = KILN_PLUGIN_ABI_MINOR,
        .runtime = runtime,
        .set_error = host_set_error,
        .last_error = kiln_last_error,
        .log = host_log,
        .device_index = device_index,
        .device_native = device_native,
        .stream_native = stream_native,
        .event_native = event_native,
        .buffer_native = buffer_native,
        .buffer_host = kiln_buffer_host,
        .buffer_device = kiln_buffer_device,
        .stream_device = kiln_stream_device,
        .device_is_host = device_is_host,
        .thread_count = thread_count,
        .parallel_for = parallel_for,
        .device_find = kiln_device_find,
        .device_info = kiln_device_get_info,
        .buffer_alloc = kiln_buffer_alloc,
        .buffer_retain = kiln_buffer_retain,
        .buffer_release = kiln_buffer_release,
        .buffer_bytes = kiln_buffer_bytes,
        .copy = kiln_copy,
        .stream_create = kiln_stream_create,
        .stream_destroy = kiln_stream_destroy,
        .stream_wait = kiln_stream_wait,
        .stream_enqueue = kiln_stream_enqueue,
        .event_create = kiln_event_create,
        .event_destroy = kiln_event_destroy,
        .event_record = kiln_event_record,
        .event_wait = kiln_event_wait,
        .event_query = kiln_event_query,
        .stream_wait_event = kiln_stream_wait_event,
        .gate_create = kiln_gate_create,
        .gate_complete = kiln_gate_complete,
        .gate_reset = kiln_gate_reset,
        .plan_create = kiln_plan_create,
        .plan_release = kiln_plan_release,
        .plan_run = kiln_plan_run,
    };
}
