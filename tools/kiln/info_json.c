/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of kiln info. */
#define _GNU_SOURCE /* strnlen */
#include "tools/kiln/info_json.h"

#include <stdio.h>
#include <string.h>

const char *info_profile(const kiln_runtime *runtime, char name[128])
{
    int64_t count = kiln_setting_count(runtime);
    name[0] = '\0';
    for (int64_t i = 0; i < count; i++) {
        kiln_setting_info info = {.struct_size = sizeof info};
        if (kiln_setting_at(runtime, i, &info) != KILN_OK || strcmp(info.path, "name") != 0)
            continue;
        /* Values are YAML: a text may stand in quotes. */
        size_t length = strlen(info.value);
        bool quoted = length >= 2 && info.value[0] == '"' && info.value[length - 1] == '"';
        snprintf(name, 128, "%.*s", (int)(quoted ? length - 2 : length), info.value + quoted);
        return info.origin;
    }
    return "built-in";
}

json_t *info_config_json(const kiln_runtime *runtime)
{
    json_t *list = json_array();
    int64_t count = kiln_setting_count(runtime);
    for (int64_t i = 0; i < count; i++) {
        kiln_setting_info setting = {.struct_size = sizeof setting};
        if (kiln_setting_at(runtime, i, &setting) == KILN_OK)
            json_array_append_new(list, json_pack("{s:s, s:s*, s:s*, s:s*}", "path", setting.path,
                                                  "value", setting.value, "origin", setting.origin,
                                                  "help", setting.help));
    }
    return list;
}

json_t *info_profile_json(const kiln_runtime *runtime)
{
    char name[128];
    const char *origin = info_profile(runtime, name);
    return json_pack("{s:s, s:s}", "name", name, "origin", origin);
}

json_t *info_plugin_json(const kiln_runtime *runtime, int64_t index)
{
    kiln_plugin_info plugin = {.struct_size = sizeof plugin};
    if (kiln_plugin_at(runtime, index, &plugin) != KILN_OK)
        return json_null();
    return json_pack("{s:s*, s:s*, s:s*, s:s*, s:s*, s:s*, s:s*, s:s*, s:I}", "name", plugin.name,
                     "version", plugin.version, "vendor", plugin.vendor, "description",
                     plugin.description, "path", plugin.path, "state", plugin.state, "reason",
                     plugin.reason, "operators", plugin.operators, "abi_minor",
                     (json_int_t)plugin.abi_minor);
}

static json_t *memories_json(const kiln_device_info *info)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < info->memory_count && i < KILN_MAX_MEMORIES; i++) {
        const kiln_memory_info *memory = &info->memories[i];
        json_array_append_new(list, json_pack("{s:s#, s:I, s:I, s:I, s:I}", "name", memory->name,
                                              (int)strnlen(memory->name, sizeof memory->name),
                                              "bytes", (json_int_t)memory->bytes, "instances",
                                              (json_int_t)memory->instances, "line",
                                              (json_int_t)memory->line, "bytes_per_second",
                                              (json_int_t)memory->bytes_per_second));
    }
    return list;
}

static json_t *spaces_json(uint64_t spaces)
{
    static const char *const names[] = {"device", "host", "pinned", "shared"};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (spaces >> i & 1)
            json_array_append_new(list, json_string(names[i]));
    return list;
}

json_t *info_device_json(kiln_device *device)
{
    kiln_device_info info = {.struct_size = sizeof info};
    if (kiln_device_get_info(device, &info) != KILN_OK)
        return json_pack("{s:s, s:s}", "name", kiln_device_name(device), "error",
                         kiln_last_error());
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:[I,I,I], s:I, s:o, s:b, s:b, s:o}", "name",
                     kiln_device_name(device), "description", info.name, "fingerprint",
                     info.fingerprint, "memory_bytes", (json_int_t)info.memory_bytes,
                     "compute_units", (json_int_t)info.compute_units, "vector_bytes",
                     (json_int_t)info.vector_bytes, "matrix_shape",
                     (json_int_t)info.matrix_shape[0], (json_int_t)info.matrix_shape[1],
                     (json_int_t)info.matrix_shape[2], "copy_bytes_per_second",
                     (json_int_t)info.copy_bytes_per_second, "spaces", spaces_json(info.spaces),
                     "host_addressable", (info.flags & KILN_DEVICE_HOST_ADDRESSABLE) != 0, "model",
                     (info.flags & KILN_DEVICE_MODEL) != 0, "memories", memories_json(&info));
}

json_t *info_json(kiln_runtime *runtime)
{
    json_t *plugins = json_array(), *devices = json_array();
    int64_t plugin_count = kiln_plugin_count(runtime), device_count = kiln_device_count(runtime);
    for (int64_t i = 0; i < plugin_count; i++)
        json_array_append_new(plugins, info_plugin_json(runtime, i));
    for (int64_t i = 0; i < device_count; i++)
        json_array_append_new(devices, info_device_json(kiln_device_at(runtime, i)));
    return json_pack("{s:s, s:o, s:I, s:s, s:o, s:o}", "kiln", kiln_version(), "profile",
                     info_profile_json(runtime), "threads", (json_int_t)kiln_thread_count(runtime),
                     "default_device", kiln_device_name(kiln_device_default(runtime)), "plugins",
                     plugins, "devices", devices);
}
