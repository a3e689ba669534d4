/* SPDX-License-Identifier: Apache-2.0 */
/* kiln.device/1 on the model. */
#include "plugins/npu/glue.h"

#include <stdio.h>
#include <stdlib.h>

_Static_assert((int)KILN_INVALID == (int)NPU_INVALID && (int)KILN_NO_MEMORY == (int)NPU_NO_MEMORY &&
                   (int)KILN_FAULT == (int)NPU_FAULT && (int)KILN_NOT_READY == (int)NPU_NOT_READY &&
                   (int)KILN_CAPACITY == (int)NPU_CAPACITY,
               "statuses of the engine are kiln_status");
_Static_assert(KILN_MAX_RANK == NPU_RANK, "transfers have Kiln's ranks");

/* An engine's status with its sentence, as a function of the table returns it. */
static kiln_status result(const struct npu_handle *handle, int status, const char *error)
{
    if (status == NPU_OK || status == NPU_NOT_READY)
        return (kiln_status)status;
    return handle->instance->host->set_error((kiln_status)status, "npu: %s", error);
}

static kiln_status device_count(void *object, int64_t *count)
{
    *count = ((struct npu_instance *)object)->devices;
    return KILN_OK;
}

/* FNV-1a of every parameter of the model. */
static uint64_t hash_of(const struct npu_config *config)
{
    const unsigned char *bytes = (const unsigned char *)config;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof *config; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

void npu_fingerprint(const struct npu_config *config, char *text, size_t size)
{
    snprintf(text, size, "npu model %s, %u cores, L1 %lld, UB %lld, parameters %016llx",
             NPU_VERSION, config->cores, (long long)config->size[NPU_L1],
             (long long)config->size[NPU_UB], (unsigned long long)hash_of(config));
}

static kiln_status device_info(void *object, int64_t index, kiln_device_info *info)
{
    const struct npu_instance *instance = object;
    const struct npu_config *config = &instance->config;
    kiln_device_info made = {
        .struct_size = info->struct_size,
        .memory_bytes = config->size[NPU_GM],
        .compute_units = config->cores,
        .vector_bytes = config->vector_bytes,
        .matrix_shape = {NPU_FRACTAL_ROWS, NPU_FRACTAL_ROWS, NPU_FRACTAL_ROWS},
        .spaces = 1u << KILN_SPACE_DEVICE,
        .flags = KILN_DEVICE_MODEL,
        .memory_count = NPU_MEMORIES,
    };
    if (index < 0 || index >= instance->devices)
        return instance->host->set_error(KILN_NOT_FOUND, "npu: there is no device %lld of %lld",
                                         (long long)index, (long long)instance->devices);
    snprintf(made.name, sizeof made.name, "tile NPU of the Da Vinci class (model)");
    npu_fingerprint(config, made.fingerprint, sizeof made.fingerprint);
    for (int memory = 0; memory < NPU_MEMORIES; memory++) {
        kiln_memory_info *entry = &made.memories[memory];
        snprintf(entry->name, sizeof entry->name, "%s", npu_memory_name((enum npu_memory)memory));
        entry->bytes = config->size[memory];
        entry->instances = memory == NPU_GM ? 1 : config->cores;
        entry->line = config->alignment[memory];
    }
    memcpy(info, &made, info->struct_size < sizeof made ? info->struct_size : sizeof made);
    return KILN_OK;
}

static kiln_status device_open(void *object, int64_t index, kiln_device *core, void **device)
{
    struct npu_instance *instance = object;
    char error[NPU_TEXT];
    struct npu_handle *handle = calloc(1, sizeof *handle);
    (void)index; /* all alike */
    (void)core;
    if (!handle)
        return instance->host->set_error(KILN_NO_MEMORY, "npu: no memory for a device");
    handle->instance = instance;
    int status =
        npu_device_open(&instance->system, &instance->config, &handle->engine, error, sizeof error);
    if (status != NPU_OK) {
        kiln_status failure = result(handle, status, error);
        free(handle);
        return failure;
    }
    *device = handle;
    return KILN_OK;
}

static void device_close(void *device)
{
    struct npu_handle *handle = device;
    npu_device_close(handle->engine);
    free(handle);
}

/* ---- Memory ---- */

static kiln_status device_alloc(void *device, uint32_t space, int64_t bytes, int64_t alignment,
                                void **memory, void **host)
{
    struct npu_handle *handle = device;
    char error[NPU_TEXT];
    int64_t address;
    if (space != KILN_SPACE_DEVICE)
        return result(handle, KILN_UNSUPPORTED, "the model has device memory only");
    if (npu_global_alloc(&npu_device_machine(handle->engine)->global, bytes, alignment, &address,
                         error, sizeof error))
        return result(handle, KILN_NO_MEMORY, error);
    *memory = (void *)(intptr_t)address;
    *host = NULL;
    return KILN_OK;
}

static void device_free(void *device, void *memory)
{
    struct npu_handle *handle = device;
    npu_global_free(&npu_device_machine(handle->engine)->global, npu_memory_address(memory));
}

static struct npu_side side_of(const kiln_copy_side *side)
{
    struct npu_side made = {0};
    if (side->memory)
        made.address = npu_memory_address(side->memory) + side->byte_offset;
    else if (side->host)
        made.host = (uint8_t *)side->host + side->byte_offset;
    memcpy(made.strides, side->strides, sizeof made.strides);
    return made;
}

static kiln_status enqueue_transfer(const struct npu_handle *handle, void *stream,
                                    const struct npu_transfer *transfer)
{
    char error[NPU_TEXT];
    int status = npu_enqueue_transfer(stream, transfer, error, sizeof error);
    return result(handle, status, error);
}

/* A request of a later version may ask for more than is known here. */
static kiln_status check_request(const struct npu_handle *handle, const void *request, size_t known)
{
    return result(handle, kiln_check_request(request, known),
                  "the request says something beyond what npu knows");
}

static kiln_status device_copy(void *device, void *stream, const kiln_copy_request *request)
{
    kiln_status status = check_request(device, request, sizeof *request);
    if (status != KILN_OK)
        return status;
    struct npu_transfer transfer = {
        .element_bytes = request->element_bytes,
        .rank = request->rank,
        .destination = side_of(&request->destination),
        .source = side_of(&request->source),
    };
    memcpy(transfer.shape, request->shape, sizeof transfer.shape);
    return enqueue_transfer(device, stream, &transfer);
}

static kiln_status device_fill(void *device, void *stream, const kiln_fill_request *request)
{
    kiln_status status = check_request(device, request, sizeof *request);
    if (status != KILN_OK)
        return status;
    struct npu_transfer transfer = {
        .element_bytes = request->element_bytes,
        .rank = request->rank,
        .destination = side_of(&request->destination),
        .fill = true,
    };
    memcpy(transfer.shape, request->shape, sizeof transfer.shape);
    memcpy(transfer.pattern, request->pattern, sizeof transfer.pattern);
    return enqueue_transfer(device, stream, &transfer);
}

/* ---- Streams ---- */

static kiln_status stream_create(void *device, void **stream)
{
    struct npu_handle *handle = device;
    char error[NPU_TEXT];
    struct npu_stream *made;
    int status = npu_stream_create(handle->engine, &made, error, sizeof error);
    if (status == NPU_OK)
        *stream = made;
    return result(handle, status, error);
}

static void stream_destroy(void *device, void *stream)
{
    (void)device;
    npu_stream_destroy(stream);
}

static kiln_status stream_wait(void *device, void *stream)
{
    char error[NPU_TEXT];
    return result(device, npu_stream_wait(stream, error, sizeof error), error);
}

static kiln_status stream_enqueue(void *device, void *stream, kiln_stream_fn function,
                                  void *argument)
{
    char error[NPU_TEXT];
    /* kiln_status has negative members, so that it is an int in a function's type. */
    npu_host_function plain = (npu_host_function)function;
    return result(device, npu_enqueue_host(stream, plain, argument, error, sizeof error), error);
}

static void put(kiln_counter *counters, int64_t capacity, int64_t *count, const char *name,
                const char *pipe, const char *unit, uint64_t value)
{
    int64_t index = (*count)++;
    if (index >= capacity)
        return;
    kiln_counter *counter = &counters[index];
    memset(counter, 0, sizeof *counter);
    snprintf(counter->name, sizeof counter->name, "%s%s%s", pipe, *pipe ? "_" : "", name);
    snprintf(counter->unit, sizeof counter->unit, "%s", unit);
    counter->value = (int64_t)value;
}

static kiln_status stream_counters(void *device, void *stream, kiln_counter *counters,
                                   int64_t capacity, int64_t *count)
{
    static const char *const pipes[NPU_PIPES] = {[NPU_MTE1] = "mte1",
                                                 [NPU_MTE2] = "mte2",
                                                 [NPU_MTE3] = "mte3",
                                                 [NPU_CUBE] = "cube",
                                                 [NPU_VECTOR] = "vector"};
    struct npu_counters have;
    int64_t n = 0;
    (void)device;
    npu_stream_counters(stream, &have);
    put(counters, capacity, &n, "cycles", "", "cycles", have.cycles);
    put(counters, capacity, &n, "launches", "", "", have.launches);
    put(counters, capacity, &n, "blocks", "", "", have.blocks);
    put(counters, capacity, &n, "copied", "", "bytes", have.copied);
    for (int pipe = 0; pipe < NPU_TRANSFER_PIPES; pipe++)
        put(counters, capacity, &n, "bytes", pipes[pipe], "bytes", have.moved[pipe]);
    for (int pipe = 0; pipe < NPU_PIPES; pipe++)
        put(counters, capacity, &n, "busy", pipes[pipe], "cycles", have.busy[pipe]);
    for (int pipe = 0; pipe < NPU_PIPES; pipe++)
        put(counters, capacity, &n, "instructions", pipes[pipe], "", have.instructions[pipe]);
    *count = n;
    return KILN_OK;
}

/* ---- Events ---- */

static kiln_status event_create(void *device, void **event)
{
    struct npu_handle *handle = device;
    char error[NPU_TEXT];
    struct npu_event *made;
    int status = npu_event_create(&handle->instance->system, &made, error, sizeof error);
    if (status == NPU_OK)
        *event = made;
    return result(handle, status, error);
}

static void event_destroy(void *device, void *event)
{
    (void)device;
    npu_event_destroy(event);
}

static kiln_status event_record(void *device, void *event, void *stream)
{
    char error[NPU_TEXT];
    return result(device, npu_enqueue_record(stream, event, error, sizeof error), error);
}

static kiln_status event_query(void *device, void *event)
{
    char error[NPU_TEXT];
    return result(device, npu_event_query(event, error, sizeof error), error);
}

static kiln_status event_wait(void *device, void *event)
{
    char error[NPU_TEXT];
    return result(device, npu_event_wait(event, error, sizeof error), error);
}

static kiln_status stream_wait_event(void *device, void *stream, void *event)
{
    char error[NPU_TEXT];
    return result(device, npu_enqueue_wait(stream, event, error, sizeof error), error);
}

static kiln_status gate_create(void *device, void **gate)
{
    struct npu_handle *handle = device;
    char error[NPU_TEXT];
    struct npu_event *made;
    int status = npu_gate_create(&handle->instance->system, &made, error, sizeof error);
    if (status == NPU_OK)
        *gate = made;
    return result(handle, status, error);
}

static kiln_status gate_complete(void *device, void *gate, kiln_status status, const char *sentence)
{
    char error[NPU_TEXT];
    return result(device, npu_gate_complete(gate, status, sentence, error, sizeof error), error);
}

static kiln_status gate_reset(void *device, void *gate)
{
    char error[NPU_TEXT];
    return result(device, npu_gate_reset(gate, error, sizeof error), error);
}

const kiln_device_table npu_device_table = {
    .struct_size = sizeof npu_device_table,
    .count = device_count,
    .info = device_info,
    .open = device_open,
    .close = device_close,
    .alloc = device_alloc,
    .free = device_free,
    .copy = device_copy,
    .fill = device_fill,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_wait = stream_wait,
    .stream_enqueue = stream_enqueue,
    .stream_counters = stream_counters,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_wait = event_wait,
    .stream_wait_event = stream_wait_event,
    .gate_create = gate_create,
    .gate_complete = gate_complete,
    .gate_reset = gate_reset,
};
