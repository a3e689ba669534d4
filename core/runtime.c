/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing runtimes, and what can be asked of one. */
#include "core/runtime.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/device.h"
#include "core/fork.h"
#include "core/loader.h"
#include "core/plan.h"
#include "core/pool.h"
#include "core/record.h"
#include "core/tuning.h"

const char *kiln_version(void)
{
    return KILN_VERSION;
}

void kiln_runtime_log(const kiln_runtime *runtime, int level, const char *format, ...)
{
    if (!runtime->log || level > runtime->log_level)
        return;
    char message[1100];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    for (char *c = message; *c; c++) /* one line, and nothing that a terminal would obey */
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
    runtime->log(runtime->log_context, level, message);
}

static int log_level(const char *name)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    for (int level = KILN_LOG_ERROR; level <= KILN_LOG_DEBUG; level++)
        if (strcmp(names[level], name) == 0)
            return level;
    return KILN_LOG_WARNING;
}

kiln_status kiln_check_struct(const void *object, size_t known, const char *name)
{
    uint64_t size;
    memcpy(&size, object, sizeof size);
    if (size < sizeof size || size > KILN_MAX_STRUCT)
        return kiln_fail(KILN_INVALID, "%s.struct_size is %llu; set it to sizeof", name,
                         (unsigned long long)size);
    const unsigned char *bytes = object;
    for (uint64_t i = known; i < size; i++)
        if (bytes[i])
            return kiln_fail(KILN_UNSUPPORTED, "%s holds fields that this version does not know",
                             name);
    return KILN_OK;
}

/* Copies the options into `whole`, which comes zeroed. */
static kiln_status take_options(const kiln_runtime_options *options, kiln_runtime_options *whole)
{
    if (!options)
        return KILN_OK;
    kiln_status status = kiln_check_struct(options, sizeof *options, "kiln_runtime_options");
    if (status != KILN_OK)
        return status;
    kiln_receive_table(whole, sizeof *whole, options);
    if (whole->flags & ~(uint64_t)KILN_RUNTIME_ISOLATED)
        return kiln_fail(KILN_UNSUPPORTED, "kiln_runtime_options.flags %#llx is not known",
                         (unsigned long long)whole->flags);
    if (whole->setting_count && !whole->settings)
        return kiln_fail(KILN_INVALID,
                         "kiln_runtime_options.setting_count is %llu, but settings is NULL",
                         (unsigned long long)whole->setting_count);
    return KILN_OK;
}

/* The parts, in the order in which they need each other. */
static kiln_status open_parts(kiln_runtime *runtime, const kiln_runtime_options *options)
{
    kiln_status status = kiln_profile_load(options, &runtime->profile);
    if (status != KILN_OK)
        return status;
    const kiln_profile *profile = runtime->profile;
    runtime->log_level = log_level(kiln_profile_text(profile, "log.level"));
    runtime->staging_allowed = strcmp(kiln_profile_text(profile, "staging.policy"), "allow") == 0;
    status = kiln_pool_create(profile, options, &runtime->pool);
    if (status == KILN_OK)
        status = kiln_plan_cache_create(kiln_profile_integer(profile, "plans.cache_entries"),
                                        &runtime->plans);
    if (status == KILN_OK)
        status = kiln_record_create(kiln_profile_text(profile, "record.file"), KILN_RECORD_MAXIMUM,
                                    &runtime->record);
    if (status == KILN_OK)
        status = kiln_tuning_open(runtime, kiln_profile_text(profile, "tuning.file"),
                                  kiln_profile_boolean(profile, "tuning.use"), &runtime->tuning);
    if (status != KILN_OK)
        return status;
    runtime->devices = malloc(sizeof *runtime->devices);
    if (!runtime->devices)
        return kiln_fail_memory("the list of devices");
    status = kiln_device_create_host(runtime, &runtime->devices[0]);
    if (status == KILN_OK) {
        runtime->device_count = 1;
        status = kiln_device_ready(runtime->devices[0]);
    }
    if (status == KILN_OK)
        status = kiln_loader_open_all(runtime);
    kiln_device *ignored;
    const char *name = kiln_profile_text(profile, "devices.default");
    if (status == KILN_OK && *name && kiln_device_find(runtime, name, &ignored) != KILN_OK) {
        char sentence[512];
        snprintf(sentence, sizeof sentence, "%s", kiln_last_error());
        status = kiln_fail(KILN_NOT_FOUND, "%s: devices.default: %s",
                           kiln_profile_origin(profile, "devices.default"), sentence);
    }
    return status;
}

kiln_status kiln_runtime_open(const kiln_runtime_options *options, kiln_runtime **result)
{
    kiln_runtime_options whole = {.struct_size = sizeof whole};
    kiln_status status = take_options(options, &whole);
    if (status != KILN_OK)
        return status;
    kiln_runtime *runtime = calloc(1, sizeof *runtime);
    if (!runtime)
        return kiln_fail_memory("a runtime");
    runtime->flags = whole.flags;
    runtime->log = whole.log;
    runtime->log_context = whole.log_context;
    runtime->log_level = KILN_LOG_WARNING;
    runtime->generation = kiln_process_generation();
    pthread_rwlock_init(&runtime->trace_lock, NULL);
    status = open_parts(runtime, &whole);
    if (status != KILN_OK) {
        char sentence[1024];
        snprintf(sentence, sizeof sentence, "%s", kiln_last_error());
        kiln_runtime_close(runtime);
        return kiln_fail(status, "%s", sentence);
    }
    *result = runtime;
    return KILN_OK;
}

void kiln_runtime_close(kiln_runtime *runtime)
{
    if (!runtime)
        return;
    for (int64_t i = 0; i < runtime->device_count; i++)
        kiln_device_end_bridges(runtime->devices[i]);
    kiln_plan_cache_destroy(runtime->plans);
    /* A child of fork has the parent's counts, which the parent writes. */
    bool ours = runtime->generation == kiln_process_generation();
    if (kiln_record_close(runtime->record, ours) != KILN_OK)
        kiln_runtime_log(runtime, KILN_LOG_ERROR, "%s", kiln_last_error());
    for (int64_t i = runtime->device_count; i-- > 0;)
        kiln_device_destroy(runtime->devices[i]);
    free(runtime->devices);
    kiln_loader_close_all(runtime);
    kiln_tuning_close(runtime->tuning);
    kiln_pool_destroy(runtime->pool);
    kiln_profile_free(runtime->profile);
    pthread_rwlock_destroy(&runtime->trace_lock);
    free(runtime);
}

kiln_instance *kiln_runtime_instance(const kiln_runtime *runtime, const char *name,
                                     const kiln_instance **found)
{
    for (int64_t i = 0; i < runtime->instance_count; i++) {
        kiln_instance *instance = runtime->instances[i];
        if (strcmp(instance->name, name) != 0)
            continue;
        if (instance->open)
            return instance;
        if (found && !*found)
            *found = instance;
    }
    return NULL;
}

int64_t kiln_setting_count(const kiln_runtime *runtime)
{
    return kiln_profile_setting_count(runtime->profile);
}

kiln_status kiln_setting_at(const kiln_runtime *runtime, int64_t index, kiln_setting_info *info)
{
    return kiln_profile_setting_at(runtime->profile, index, info);
}

const char *kiln_setting_get(const kiln_runtime *runtime, const char *path)
{
    return kiln_profile_setting_get(runtime->profile, path);
}

int64_t kiln_plugin_count(const kiln_runtime *runtime)
{
    return runtime->instance_count;
}

kiln_status kiln_plugin_at(const kiln_runtime *runtime, int64_t index, kiln_plugin_info *info)
{
    uint64_t size = info->struct_size;
    if (size < sizeof size)
        return kiln_fail(KILN_INVALID, "kiln_plugin_info.struct_size is %llu; set it to sizeof",
                         (unsigned long long)size);
    if (index < 0 || index >= runtime->instance_count)
        return kiln_fail(KILN_NOT_FOUND, "there is no plugin %lld; %lld were found",
                         (long long)index, (long long)runtime->instance_count);
    const kiln_instance *instance = runtime->instances[index];
    const kiln_plugin *plugin = &instance->plugin;
    kiln_plugin_info whole = {
        .name = instance->name,
        .version = plugin->version ? plugin->version : "",
        .vendor = plugin->vendor ? plugin->vendor : "",
        .description = plugin->description ? plugin->description : "",
        .path = instance->path,
        .state = instance->state,
        .reason = instance->reason,
        .operators = instance->interfaces ? instance->interfaces : "",
        .abi_minor = plugin->abi_minor,
    };
    memcpy(info, &whole, size < sizeof whole ? (size_t)size : sizeof whole);
    info->struct_size = size;
    return KILN_OK;
}

int64_t kiln_thread_count(const kiln_runtime *runtime)
{
    return kiln_pool_threads(runtime->pool);
}

void kiln_parallel_for(kiln_runtime *runtime, int64_t parts,
                       void (*task)(void *argument, int64_t part), void *argument)
{
    kiln_pool_run(runtime->pool, parts, task, argument);
}
