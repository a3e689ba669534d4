/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and buffers. */
#include "core/device.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/fork.h"
#include "support/yaml.h"

static kiln_status device_new(kiln_runtime *runtime, const kiln_device_table *table,
                              kiln_device **result)
{
    kiln_device *device = calloc(1, sizeof *device);
    if (!device)
        return kiln_fail_memory("a device");
    device->runtime = runtime;
    device->table = *table;
    device->info.struct_size = sizeof device->info;
    pthread_mutex_init(&device->mutex, NULL);
    pthread_mutex_init(&device->internal_mutex, NULL);
    pthread_cond_init(&device->bridge_ended, NULL);
    *result = device;
    return KILN_OK;
}

/* Ends the text, and replaces what is not UTF-8: records of it could not be read back. */
static void settle_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    while (*text) {
        char escaped[8];
        size_t bytes = kiln_yaml_escape(text, escaped);
        if (!bytes)
            *text = '?';
        text += bytes ? bytes : 1;
    }
}

/* What a plugin, or the system, wrote of a device, made safe to read. */
static void settle_info(kiln_device_info *info)
{
    info->struct_size = sizeof *info;
    settle_text(info->name, sizeof info->name);
    settle_text(info->fingerprint, sizeof info->fingerprint);
    if (info->memory_count < 0 || info->memory_count > KILN_MAX_MEMORIES)
        info->memory_count = info->memory_count < 0 ? 0 : KILN_MAX_MEMORIES;
    for (int64_t i = 0; i < info->memory_count; i++)
        settle_text(info->memories[i].name, sizeof info->memories[i].name);
}

kiln_status kiln_device_create_host(kiln_runtime *runtime, kiln_device **result)
{
    kiln_status status = device_new(runtime, &kiln_host_device_table, result);
    if (status != KILN_OK)
        return status;
    snprintf((*result)->name, sizeof(*result)->name, "host");
    (*result)->fork_safe = true;
    status = (*result)->table.info(NULL, 0, &(*result)->info);
    settle_info(&(*result)->info);
    return status;
}

/* The functions without which a device cannot be used; the rest may be missing. */
static const char *missing_function(const kiln_device_table *table)
{
#define REQUIRED(name) \
    if (!table->name)  \
    return #name
    REQUIRED(count);
    REQUIRED(info);
    REQUIRED(open);
    REQUIRED(close);
    REQUIRED(alloc);
    REQUIRED(free);
    REQUIRED(copy);
    REQUIRED(stream_create);
    REQUIRED(stream_destroy);
    REQUIRED(stream_wait);
    REQUIRED(event_create);
    REQUIRED(event_destroy);
    REQUIRED(event_record);
    REQUIRED(event_query);
    REQUIRED(event_wait);
    REQUIRED(stream_wait_event);
#undef REQUIRED
    return NULL;
}

static kiln_status add_device(kiln_runtime *runtime, kiln_instance *instance,
                              const kiln_device_table *table, int64_t index)
{
    kiln_device *device;
    kiln_status status = device_new(runtime, table, &device);
    if (status != KILN_OK)
        return status;
    device->instance = instance;
    device->plugin_instance = instance->instance;
    device->index = index;
    snprintf(device->name, sizeof device->name, "%s:%lld", instance->name, (long long)index);
    status = table->info(instance->instance, index, &device->info);
    settle_info(&device->info);
    device->fork_safe = (device->info.flags & KILN_DEVICE_FORK_SAFE) != 0;
    kiln_device **grown = NULL;
    if (status == KILN_OK)
        grown = realloc(runtime->devices, (size_t)(runtime->device_count + 1) * sizeof *grown);
    if (!grown) {
        kiln_device_destroy(device);
        return status != KILN_OK ? status : kiln_fail_memory("the list of devices");
    }
    runtime->devices = grown;
    runtime->devices[runtime->device_count++] = device;
    return KILN_OK;
}

kiln_status kiln_device_create_all(kiln_runtime *runtime, kiln_instance *instance)
{
    const void *offered = instance->plugin.interface(instance->instance, KILN_DEVICE);
    if (!offered)
        return KILN_OK;
    kiln_device_table table;
    if (kiln_receive_table(&table, sizeof table, offered) != KILN_OK)
        return kiln_fail(KILN_PLUGIN,
                         "plugin %s: the struct_size of its " KILN_DEVICE " table is too small",
                         instance->name);
    const char *missing = missing_function(&table);
    if (missing)
        return kiln_fail(KILN_PLUGIN,
                         "plugin %s: its " KILN_DEVICE " table lacks %s, which every device needs",
                         instance->name, missing);
    int64_t count = 0;
    kiln_status status = table.count(instance->instance, &count);
    if (status == KILN_OK && (count < 0 || count > 1024))
        status = kiln_fail(KILN_PLUGIN,
                           "plugin %s says that it has %lld devices; 0 to 1024 are possible",
                           instance->name, (long long)count);
    for (int64_t i = 0; status == KILN_OK && i < count; i++)
        status = add_device(runtime, instance, &table, i);
    return status;
}

void kiln_device_destroy(kiln_device *device)
{
    if (!device)
        return;
    bool ours =
        device->opened && (device->fork_safe || device->generation == kiln_process_generation());
    if (ours) {
        kiln_staging_free_all(device);
        kiln_stream_destroy(device->internal);
        for (int64_t i = 0; i < device->bridge_count; i++)
            device->table.stream_destroy(device->native, device->bridge_streams[i].native);
        device->table.close(device->native);
    } else if (device->opened) {
        device->instance->open = false; /* its threads are the parent's: closing it could hang */
    }
    free(device->bridge_streams);
    pthread_mutex_destroy(&device->mutex);
    pthread_mutex_destroy(&device->internal_mutex);
    pthread_cond_destroy(&device->bridge_ended);
    free(device);
}

kiln_status kiln_device_check_process(const kiln_device *device)
{
    if (device->fork_safe || device->runtime->generation == kiln_process_generation())
        return KILN_OK;
    return kiln_fail(KILN_FORKED,
                     "device %s belongs to the parent of this process; open a runtime in the child",
                     device->name);
}

kiln_status kiln_device_ready(kiln_device *device)
{
    kiln_status status = kiln_device_check_process(device);
    if (status != KILN_OK || atomic_load(&device->opened))
        return status;
    pthread_mutex_lock(&device->mutex);
    if (!atomic_load(&device->opened)) {
        status =
            device->table.open(device->plugin_instance, device->index, device, &device->native);
        device->generation = kiln_process_generation();
        atomic_store(&device->opened, status == KILN_OK);
    }
    pthread_mutex_unlock(&device->mutex);
    return status;
}

kiln_status kiln_device_lock(kiln_device *device, kiln_stream **stream)
{
    kiln_status status = kiln_device_ready(device);
    if (status != KILN_OK)
        return status;
    pthread_mutex_lock(&device->internal_mutex);
    if (!device->internal)
        status = kiln_stream_create(device, &device->internal);
    if (status != KILN_OK) {
        pthread_mutex_unlock(&device->internal_mutex);
        return status;
    }
    *stream = device->internal;
    return KILN_OK;
}

kiln_status kiln_device_finish(kiln_device *device, kiln_status status)
{
    char sentence[KILN_SENTENCE] = "";
    if (status != KILN_OK)
        snprintf(sentence, sizeof sentence, "%s", kiln_last_error());
    kiln_status fault = kiln_stream_wait(device->internal);
    if (fault != KILN_OK && fault != KILN_CAPACITY) {
        kiln_stream_destroy(device->internal); /* sets the same sentence again */
        device->internal = NULL;
    }
    pthread_mutex_unlock(&device->internal_mutex);
    if (status != KILN_OK && (fault == KILN_OK || fault == KILN_CAPACITY))
        return kiln_fail(status, "%s", sentence);
    return fault;
}

int64_t kiln_device_count(const kiln_runtime *runtime)
{
    return runtime->device_count;
}

kiln_device *kiln_device_at(kiln_runtime *runtime, int64_t index)
{
    return index >= 0 && index < runtime->device_count ? runtime->devices[index] : NULL;
}

kiln_status kiln_device_find(kiln_runtime *runtime, const char *name, kiln_device **device)
{
    char known[256] = "";
    for (int64_t i = 0; i < runtime->device_count; i++) {
        if (strcmp(runtime->devices[i]->name, name) == 0) {
            *device = runtime->devices[i];
            return KILN_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                 runtime->devices[i]->name);
    }
    return kiln_fail(KILN_NOT_FOUND, "there is no device '%s'; the profile's plugins offer: %s",
                     name, known);
}

kiln_device *kiln_device_default(kiln_runtime *runtime)
{
    kiln_device *device = runtime->devices[0];
    const char *name = kiln_profile_text(runtime->profile, "devices.default");
    if (*name)
        kiln_device_find(runtime, name, &device);
    return device;
}

const char *kiln_device_name(const kiln_device *device)
{
    return device->name;
}

kiln_runtime *kiln_device_runtime(const kiln_device *device)
{
    return device->runtime;
}

kiln_status kiln_device_get_info(kiln_device *device, kiln_device_info *info)
{
    uint64_t size = info->struct_size;
    if (size < sizeof size)
        return kiln_fail(KILN_INVALID, "kiln_device_info.struct_size is %llu; set it to sizeof",
                         (unsigned long long)size);
    memcpy(info, &device->info, size < sizeof *info ? (size_t)size : sizeof *info);
    info->struct_size = size;
    return KILN_OK;
}

kiln_status kiln_buffer_alloc(kiln_device *device, uint32_t space, int64_t bytes,
                              kiln_buffer **result)
{
    if (bytes < 0)
        return kiln_fail(KILN_INVALID, "buffer of %lld bytes: the size must not be negative",
                         (long long)bytes);
    if (space > 63 || !(device->info.spaces >> space & 1))
        return kiln_fail(
            KILN_UNSUPPORTED,
            "device %s offers no memory of space %u; kiln_device_info.spaces tells which",
            device->name, space);
    kiln_status status = kiln_device_ready(device);
    if (status != KILN_OK)
        return status;
    kiln_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return kiln_fail_memory("a buffer");
    status = device->table.alloc(device->native, space, bytes, 64, &buffer->memory, &buffer->host);
    if (status != KILN_OK) {
        free(buffer);
        return status;
    }
    atomic_store(&buffer->references, 1);
    buffer->device = device;
    buffer->bytes = bytes;
    *result = buffer;
    return KILN_OK;
}

kiln_status kiln_buffer_wrap(kiln_runtime *runtime, void *memory, int64_t bytes,
                             void (*release)(void *context), void *context, kiln_buffer **result)
{
    if (bytes < 0 || (!memory && bytes > 0))
        return kiln_fail(
            KILN_INVALID,
            "cannot wrap %lld bytes at %p: give an address and a size that is not negative",
            (long long)bytes, memory);
    kiln_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return kiln_fail_memory("a buffer");
    atomic_store(&buffer->references, 1);
    buffer->device = runtime->devices[0];
    buffer->bytes = bytes;
    buffer->host = memory;
    buffer->release = release;
    buffer->context = context;
    *result = buffer;
    return KILN_OK;
}

void kiln_buffer_retain(kiln_buffer *buffer)
{
    atomic_fetch_add_explicit(&buffer->references, 1, memory_order_relaxed);
}

void kiln_buffer_release(kiln_buffer *buffer)
{
    if (!buffer || atomic_fetch_sub_explicit(&buffer->references, 1, memory_order_acq_rel) != 1)
        return;
    kiln_device *device = buffer->device;
    /* In a child process the memory of a device that does not survive fork is the parent's. */
    if (buffer->memory && (device->fork_safe || device->generation == kiln_process_generation()))
        device->table.free(device->native, buffer->memory);
    if (buffer->release)
        buffer->release(buffer->context);
    free(buffer);
}

kiln_device *kiln_buffer_device(const kiln_buffer *buffer)
{
    return buffer->device;
}

int64_t kiln_buffer_bytes(const kiln_buffer *buffer)
{
    return buffer->bytes;
}

void *kiln_buffer_host(const kiln_buffer *buffer)
{
    return buffer->host;
}

static kiln_status malformed(const kiln_tensor *tensor, const char *what)
{
    if (tensor->rank > KILN_MAX_RANK)
        return kiln_fail(KILN_INVALID, "%s: rank %u; at most %d are possible", what, tensor->rank,
                         KILN_MAX_RANK);
    if (!kiln_type_bits(tensor->type))
        return kiln_fail(KILN_INVALID, "%s: type %u is not one of kiln_type", what, tensor->type);
    if (tensor->flags || tensor->reserved || tensor->layout > KILN_LAYOUT_PACKED)
        return kiln_fail(
            KILN_UNSUPPORTED,
            "%s: flags, layout or reserved fields hold values that this version does not know",
            what);
    if (tensor->byte_offset < 0)
        return kiln_fail(KILN_INVALID, "%s: byte offset %lld is negative", what,
                         (long long)tensor->byte_offset);
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] < 0 || tensor->strides[i] < 0)
            return kiln_fail(
                KILN_INVALID,
                "%s: dimension %u has size %lld and stride %lld; neither may be negative", what, i,
                (long long)tensor->shape[i], (long long)tensor->strides[i]);
    return KILN_OK;
}

kiln_status kiln_tensor_extent(const kiln_tensor *tensor, const char *what, int64_t *begin,
                               int64_t *end)
{
    kiln_status status = malformed(tensor, what);
    if (status != KILN_OK)
        return status;
    int64_t last = 0, bits = kiln_type_bits(tensor->type);
    bool empty = false, overflow = false;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        int64_t span;
        empty = empty || tensor->shape[i] == 0;
        if (tensor->shape[i] > 0) {
            overflow =
                overflow || __builtin_mul_overflow(tensor->shape[i] - 1, tensor->strides[i], &span);
            overflow = overflow || __builtin_add_overflow(last, span, &last);
        }
    }
    int64_t total = 0;
    overflow = overflow || __builtin_add_overflow(last, 1, &last) ||
               __builtin_mul_overflow(last, bits, &total);
    overflow = overflow ||
               __builtin_add_overflow(total / 8 + (total % 8 != 0), tensor->byte_offset, &total);
    if (overflow)
        return kiln_fail(KILN_INVALID, "%s: shape and strides reach beyond 2^63 bytes", what);
    *begin = tensor->byte_offset;
    *end = empty ? *begin : total;
    if (tensor->buffer && *end > tensor->buffer->bytes)
        return kiln_fail(KILN_INVALID,
                         "%s: its elements end at byte %lld, but the buffer has %lld bytes", what,
                         (long long)*end, (long long)tensor->buffer->bytes);
    if (!tensor->buffer && !tensor->data && !empty)
        return kiln_fail(KILN_INVALID, "%s: it has neither a buffer nor an address", what);
    return KILN_OK;
}

/* The power of two, at most 64, that the strides of all rows in bytes are multiples of. */
static int64_t row_alignment(const kiln_tensor *tensor)
{
    uint64_t strides = 64, bits = (uint64_t)kiln_type_bits(tensor->type);
    for (uint32_t i = 0; i + 1 < tensor->rank; i++)
        if (tensor->shape[i] > 1)
            strides |= (uint64_t)tensor->strides[i] * bits / 8;
    return tensor->rank > 1 ? (int64_t)(strides & (~strides + 1)) : 1;
}

kiln_status kiln_tensor_compact(const kiln_tensor *tensor, const char *what, kiln_tensor *compact,
                                int64_t *bytes)
{
    int64_t begin, end, size = 0, bits = kiln_type_bits(tensor->type);
    kiln_status status = kiln_tensor_extent(tensor, what, &begin, &end);
    if (status != KILN_OK)
        return status;
    *compact = (kiln_tensor){.type = tensor->type, .rank = tensor->rank};
    int64_t unit = row_alignment(tensor);
    uint32_t last = tensor->rank ? tensor->rank - 1 : 0;
    bool empty = false, large = false;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        int64_t count = tensor->shape[i] > 0 ? tensor->shape[i] : 1;
        empty = empty || tensor->shape[i] == 0;
        compact->shape[i] = tensor->shape[i];
        compact->strides[i] = i == last ? 1 : bits < 8 ? size * (8 / bits) : size / (bits / 8);
        large = large || __builtin_mul_overflow(count, i == last ? bits : size, &size);
        if (i == last)
            size = (size / 8 + (size % 8 != 0) + unit - 1) / unit * unit;
        large = large || size > INT64_MAX / 8;
        if (large)
            return kiln_fail(KILN_INVALID, "%s: its shape takes more than 2^60 bytes", what);
    }
    *bytes = empty ? 0 : tensor->rank ? size : (bits + 7) / 8;
    return KILN_OK;
}
