/* SPDX-License-Identifier: Apache-2.0 */
/* kiln info: what there is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kiln/command.h"
#include "tools/kiln/info_json.h"
#include "tools/kiln/table.h"

enum { OPTION_PRINT_CONFIG = TOOL_OPTION_OWN, OPTION_SCHEMA, OPTION_REFERENCE };

static const struct option options[] = {
    TOOL_COMMON_OPTIONS,
    {"print-config", no_argument, NULL, OPTION_PRINT_CONFIG},
    {"schema", no_argument, NULL, OPTION_SCHEMA},
    {"reference", no_argument, NULL, OPTION_REFERENCE},
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "usage: kiln info [OPTION…]\n"
    "\n"
    "Shows the profile in use and where it came from, the plugins that were found and why any is\n"
    "not open, and the devices with their memories.\n"
    "\n"
    "Options:\n"
    "  --print-config       every configuration value and where it came from\n"
    "  --schema             the JSON schema of profiles\n"
    "  --reference          a reference of the profile's keys, as Markdown\n" TOOL_COMMON_HELP;

static const char *or_dash(const char *text)
{
    return text && text[0] ? text : "-";
}

/* ---- Text ---- */

static void print_head(kiln_runtime *runtime)
{
    char name[128];
    const char *origin = info_profile(runtime, name);
    printf("kiln     %s\n", kiln_version());
    printf("profile  %s, from %s\n", name[0] ? name : "(none)", origin);
    printf("threads  %lld\n", (long long)kiln_thread_count(runtime));
    printf("default  %s\n", kiln_device_name(kiln_device_default(runtime)));
}

static void print_plugins(const kiln_runtime *runtime)
{
    int64_t count = kiln_plugin_count(runtime);
    puts("\nplugins");
    if (count == 0) {
        puts("  none was found: name their folders in KILN_PLUGIN_PATH, or as plugin_path in the "
             "profile");
        return;
    }
    tool_table *table = tool_table_new("name|version|vendor|state|operators|path");
    for (int64_t i = 0; i < count; i++) {
        kiln_plugin_info plugin = {.struct_size = sizeof plugin};
        if (kiln_plugin_at(runtime, i, &plugin) != KILN_OK)
            continue;
        tool_table_cell(table, "%s", or_dash(plugin.name));
        tool_table_cell(table, "%s", or_dash(plugin.version));
        tool_table_cell(table, "%s", or_dash(plugin.vendor));
        tool_table_cell(table, "%s", or_dash(plugin.state));
        tool_table_cell(table, "%s", or_dash(plugin.operators));
        tool_table_cell(table, "%s", or_dash(plugin.path));
    }
    tool_table_print(table, 2, stdout);
    for (int64_t i = 0; i < count; i++) {
        kiln_plugin_info plugin = {.struct_size = sizeof plugin};
        if (kiln_plugin_at(runtime, i, &plugin) == KILN_OK && plugin.reason && plugin.reason[0])
            printf("  %s is %s: %s\n", or_dash(plugin.name), or_dash(plugin.state), plugin.reason);
    }
}

static void print_memories(const kiln_device_info *info)
{
    if (info->memory_count <= 0)
        return;
    tool_table *table = tool_table_new("memory|>size|>instances|>line|>bandwidth");
    for (int64_t i = 0; i < info->memory_count && i < KILN_MAX_MEMORIES; i++) {
        const kiln_memory_info *memory = &info->memories[i];
        char size[32], rate[32];
        tool_table_cell(table, "%.16s", memory->name);
        tool_table_cell(table, "%s", memory->bytes ? tool_bytes_text(memory->bytes, size) : "-");
        tool_table_cell(table, "%lld", (long long)memory->instances);
        tool_table_cell(table, "%lld B", (long long)memory->line);
        tool_table_cell(table, "%s%s",
                        memory->bytes_per_second ? tool_bytes_text(memory->bytes_per_second, rate)
                                                 : "",
                        memory->bytes_per_second ? "/s" : "");
    }
    tool_table_print(table, 4, stdout);
}

static void print_device(kiln_device *device)
{
    kiln_device_info info = {.struct_size = sizeof info};
    if (kiln_device_get_info(device, &info) != KILN_OK) {
        printf("  %s: %s\n", kiln_device_name(device), kiln_last_error());
        return;
    }
    char text[32];
    printf("  %s  %s%s\n", kiln_device_name(device), info.name,
           info.flags & KILN_DEVICE_MODEL ? ", a software model" : "");
    printf("    %lld compute unit%s", (long long)info.compute_units,
           info.compute_units == 1 ? "" : "s");
    if (info.vector_bytes)
        printf(", vectors of %lld B", (long long)info.vector_bytes);
    if (info.matrix_shape[0])
        printf(", matrix unit %lld×%lld×%lld", (long long)info.matrix_shape[0],
               (long long)info.matrix_shape[1], (long long)info.matrix_shape[2]);
    if (info.memory_bytes)
        printf(", %s of memory", tool_bytes_text(info.memory_bytes, text));
    printf(", %s\n", info.flags & KILN_DEVICE_HOST_ADDRESSABLE ? "addressable by the host"
                                                               : "not addressable by the host");
    if (info.fingerprint[0])
        printf("    fingerprint %s\n", info.fingerprint);
    print_memories(&info);
}

static int print_info(kiln_runtime *runtime)
{
    print_head(runtime);
    print_plugins(runtime);
    puts("\ndevices");
    for (int64_t i = 0; i < kiln_device_count(runtime); i++)
        print_device(kiln_device_at(runtime, i));
    return TOOL_OK;
}

static int print_config(const kiln_runtime *runtime)
{
    tool_table *table = tool_table_new("path|value|from");
    for (int64_t i = 0; i < kiln_setting_count(runtime); i++) {
        kiln_setting_info setting = {.struct_size = sizeof setting};
        if (kiln_setting_at(runtime, i, &setting) != KILN_OK)
            continue;
        tool_table_cell(table, "%s", setting.path);
        tool_table_cell(table, "%s", or_dash(setting.value));
        tool_table_cell(table, "%s", or_dash(setting.origin));
    }
    tool_table_print(table, 0, stdout);
    return TOOL_OK;
}

/* ---- The command ---- */

static int print_static(const tool_common *common, const char *text)
{
    if (!text)
        return tool_fail(common, "memory is exhausted");
    fputs(text, stdout);
    if (text[0] && text[strlen(text) - 1] != '\n')
        putchar('\n');
    return TOOL_OK;
}

static int with_runtime(const tool_common *common, bool config)
{
    kiln_runtime *runtime;
    if (!tool_runtime_open(common, &runtime))
        return TOOL_FAILED;
    int code;
    if (common->json)
        code = tool_print_json(common, config ? info_config_json(runtime) : info_json(runtime));
    else
        code = config ? print_config(runtime) : print_info(runtime);
    kiln_runtime_close(runtime);
    return code;
}

int kiln_info_main(int argc, char **argv)
{
    tool_common common = {.command = "kiln info"};
    int what = 0, option, code;
    while ((option = tool_next_option(&common, argc, argv, options)) != -1) {
        if (option == '?' || option == TOOL_OPTION_HELP) {
            tool_common_free(&common);
            return option == '?' ? TOOL_USAGE : (fputs(help, stdout), TOOL_OK);
        }
        if (what && what != option) {
            code =
                tool_usage(&common, "--print-config, --schema and --reference exclude each other");
            tool_common_free(&common);
            return code;
        }
        what = option;
    }
    if (optind < argc)
        code = tool_usage(&common, "takes no words, not '%s'", argv[optind]);
    else if (what == OPTION_SCHEMA)
        code = print_static(&common, kiln_profile_schema());
    else if (what == OPTION_REFERENCE)
        code = print_static(&common, kiln_profile_reference());
    else
        code = with_runtime(&common, what == OPTION_PRINT_CONFIG);
    tool_common_free(&common);
    return code;
}
