/* SPDX-License-Identifier: Apache-2.0 */
/* From a search path to open instances. Order of search: registered plugins, KILN_PLUGIN_PATH, the
 * profile's plugin_path, the folder of the installation; the first plugin of a name wins and the
 * others are listed as shadowed. */
#include "core/loader.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/device.h"
#include "core/module.h"

static kiln_status add_instance(kiln_runtime *runtime, const char *name, const char *path,
                                kiln_instance **result)
{
    kiln_instance **grown =
        realloc(runtime->instances, (size_t)(runtime->instance_count + 1) * sizeof *grown);
    if (grown)
        runtime->instances = grown;
    kiln_instance *instance = calloc(1, sizeof *instance);
    char *copy = strdup(path);
    if (!grown || !instance || !copy) {
        free(instance);
        free(copy);
        return kiln_fail_memory("the list of plugins");
    }
    snprintf(instance->name, sizeof instance->name, "%.31s", name);
    instance->path = copy;
    instance->state = "not in profile";
    snprintf(instance->reason, sizeof instance->reason,
             "add it to plugins: in the profile to use it");
    runtime->instances[runtime->instance_count++] = instance;
    *result = instance;
    return KILN_OK;
}

static const kiln_instance *first_of_name(const kiln_runtime *runtime, const char *name)
{
    for (int64_t i = 0; i < runtime->instance_count; i++)
        if (strcmp(runtime->instances[i]->name, name) == 0)
            return runtime->instances[i];
    return NULL;
}

static kiln_status add_found(kiln_runtime *runtime, const char *name, const char *path)
{
    for (int64_t i = 0; i < runtime->instance_count; i++)
        if (strcmp(runtime->instances[i]->path, path) == 0 &&
            strcmp(runtime->instances[i]->name, name) == 0)
            return KILN_OK; /* its folder was named twice */
    const kiln_instance *former = first_of_name(runtime, name);
    kiln_instance *instance = NULL;
    kiln_status status = add_instance(runtime, name, path, &instance);
    if (status == KILN_OK && former) {
        instance->state = "shadowed";
        snprintf(instance->reason, sizeof instance->reason, "by %.240s", former->path);
    }
    return status;
}

/* A file or folder that others may write could be anybody's code. `kind` is S_IFREG or S_IFDIR. */
static bool is_safe(kiln_runtime *runtime, const char *path, mode_t kind)
{
    struct stat status;
    const char *problem = NULL;
    if (stat(path, &status) != 0)
        problem = strerror(errno);
    else if ((status.st_mode & S_IFMT) != kind)
        problem = kind == S_IFREG ? "not a regular file" : "not a folder";
    else if (status.st_mode & S_IWOTH)
        problem = "may be written by everybody";
    else if (status.st_uid != 0 && status.st_uid != geteuid())
        problem = "belongs to another user";
    if (problem) {
        kiln_fail(KILN_PERMISSION,
                  "%s: %s; plugins are taken only from files and folders that root or you own and "
                  "nobody else may write",
                  path, problem);
        return false;
    }
    if (status.st_mode & S_IWGRP)
        kiln_runtime_log(runtime, KILN_LOG_WARNING, "%s may be written by its group", path);
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The plugin's name of a file "NAME.so"; false for other files. */
static bool plugin_name(const char *file, char *name, size_t size)
{
    size_t length = strlen(file);
    if (length <= 3 || length - 3 >= size || strcmp(file + length - 3, ".so") != 0)
        return false;
    memcpy(name, file, length - 3);
    name[length - 3] = '\0';
    return *name >= 'a' && *name <= 'z' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length - 3;
}

/* The names of the plugin files in a folder, sorted, since the order of readdir means nothing. */
static kiln_status list_folder(DIR *directory, char ***files, size_t *count)
{
    char name[32];
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (!plugin_name(entry->d_name, name, sizeof name))
            continue;
        char **grown = realloc(*files, (*count + 1) * sizeof *grown);
        if (!grown)
            return kiln_fail_memory("the list of plugin files");
        *files = grown;
        if (!((*files)[*count] = strdup(entry->d_name)))
            return kiln_fail_memory("the list of plugin files");
        ++*count;
    }
    if (*count > 0)
        qsort(*files, *count, sizeof **files, by_name);
    return KILN_OK;
}

static kiln_status search_folder(kiln_runtime *runtime, const char *folder)
{
    char *absolute = realpath(folder, NULL);
    DIR *directory = absolute ? opendir(absolute) : NULL;
    if (!directory) {
        kiln_runtime_log(runtime, KILN_LOG_DEBUG, "plugin folder %s: %s", folder, strerror(errno));
        free(absolute);
        return KILN_OK;
    }
    char **files = NULL, name[32], path[4096];
    size_t count = 0;
    kiln_status status = list_folder(directory, &files, &count);
    bool safe = count == 0 || is_safe(runtime, absolute, S_IFDIR);
    if (!safe)
        kiln_runtime_log(runtime, KILN_LOG_WARNING, "%s", kiln_last_error());
    for (size_t i = 0; i < count; i++) {
        if (status == KILN_OK && safe && plugin_name(files[i], name, sizeof name)) {
            snprintf(path, sizeof path, "%s/%s", absolute, files[i]);
            status = add_found(runtime, name, path);
        }
        free(files[i]);
    }
    free(files);
    closedir(directory);
    free(absolute);
    return status;
}

static kiln_status search_all(kiln_runtime *runtime)
{
    kiln_status status = KILN_OK;
    kiln_plugin_entry_fn entry;
    const char *name;
    for (int64_t i = 0; status == KILN_OK && (name = kiln_registered_at(i, &entry)); i++)
        status = add_found(runtime, name, "built in");
    int64_t count = kiln_profile_list_count(runtime->profile, "plugin_path");
    for (int64_t i = 0; status == KILN_OK && i < count; i++)
        status = search_folder(runtime, kiln_profile_list_at(runtime->profile, "plugin_path", i));
    return status == KILN_OK ? search_folder(runtime, KILN_PLUGIN_DIR) : status;
}

/* ---- Opening one ---- */

static kiln_status get_entry(kiln_runtime *runtime, const kiln_instance *instance,
                             kiln_plugin_entry_fn *entry)
{
    const char *name;
    if (strcmp(instance->path, "built in") == 0) {
        for (int64_t i = 0; (name = kiln_registered_at(i, entry)); i++)
            if (strcmp(name, instance->name) == 0)
                return KILN_OK;
        return kiln_fail(KILN_NOT_FOUND, "plugin %s is registered no more", instance->name);
    }
    if (!is_safe(runtime, instance->path, S_IFREG))
        return KILN_PERMISSION;
    return kiln_module_entry(instance->path, entry);
}

/* What every plugin must have; the rest may be absent. */
static kiln_status check_plugin(const kiln_instance *instance, const kiln_plugin *plugin)
{
    if (!plugin->name || strcmp(plugin->name, instance->name) != 0)
        return kiln_fail(KILN_PLUGIN, "%s calls itself '%s'; the file must bear the plugin's name",
                         instance->path, plugin->name ? plugin->name : "");
    if (!plugin->version || !plugin->vendor || !plugin->description || !plugin->probe ||
        !plugin->open || !plugin->close || !plugin->interface || !plugin->interfaces)
        return kiln_fail(KILN_PLUGIN,
                         "%s lacks its version, vendor, description, interfaces, probe, open, "
                         "close or interface",
                         instance->path);
    if (plugin->option_count > 256 || (plugin->option_count && !plugin->options))
        return kiln_fail(KILN_PLUGIN, "%s declares %llu options; at most 256 are possible",
                         instance->path, (unsigned long long)plugin->option_count);
    return KILN_OK;
}

static kiln_status join_interfaces(kiln_instance *instance)
{
    size_t size = 1;
    for (const char *const *name = instance->plugin.interfaces; *name; name++)
        size += strlen(*name) + 2;
    instance->interfaces = malloc(size);
    if (!instance->interfaces)
        return kiln_fail_memory("the list of a plugin's interfaces");
    instance->interfaces[0] = '\0';
    for (const char *const *name = instance->plugin.interfaces; *name; name++) {
        strcat(instance->interfaces, *instance->interfaces ? ", " : "");
        strcat(instance->interfaces, *name);
    }
    return KILN_OK;
}

static kiln_status describe(kiln_runtime *runtime, kiln_instance *instance)
{
    kiln_plugin_entry_fn entry;
    kiln_place place = {"loading plugin", instance->path};
    kiln_visit before = kiln_enter(&place);
    kiln_status status = get_entry(runtime, instance, &entry);
    const kiln_plugin *offered = status == KILN_OK ? entry(KILN_PLUGIN_ABI_MINOR) : NULL;
    kiln_leave(&before);
    if (status != KILN_OK)
        return status;
    if (!offered)
        return kiln_fail(KILN_PLUGIN, "%s does not work with ABI %d.%d of this library",
                         instance->path, KILN_PLUGIN_ABI_MAJOR, KILN_PLUGIN_ABI_MINOR);
    if (kiln_receive_table(&instance->plugin, sizeof instance->plugin, offered) != KILN_OK)
        return kiln_fail(KILN_PLUGIN, "%s: the struct_size of its kiln_plugin is too small",
                         instance->path);
    status = check_plugin(instance, &instance->plugin);
    return status == KILN_OK ? join_interfaces(instance) : status;
}

static void close_instance(kiln_instance *instance)
{
    if (!instance->open)
        return;
    kiln_place place = {"closing plugin", instance->path};
    kiln_visit before = kiln_enter(&place);
    instance->plugin.close(instance->instance);
    kiln_leave(&before);
    instance->open = false;
}

static kiln_status remember_open(kiln_runtime *runtime, kiln_instance *instance)
{
    kiln_instance **grown =
        realloc(runtime->open, (size_t)(runtime->open_count + 1) * sizeof *grown);
    if (!grown)
        return kiln_fail_memory("the list of open plugins");
    runtime->open = grown;
    runtime->open[runtime->open_count++] = instance;
    return KILN_OK;
}

static kiln_status start(kiln_runtime *runtime, kiln_instance *instance)
{
    int64_t devices = runtime->device_count;
    kiln_host_table_fill(&instance->host, runtime);
    kiln_place place = {"opening plugin", instance->path};
    kiln_visit before = kiln_enter(&place);
    kiln_status status =
        instance->plugin.open(&instance->host, instance->options, &instance->instance);
    status = kiln_leave_with(&before, status);
    if (status != KILN_OK)
        return status;
    instance->open = true;
    place = (kiln_place){"asking for the devices of plugin", instance->path};
    before = kiln_enter(&place);
    status = kiln_leave_with(&before, kiln_device_create_all(runtime, instance));
    if (status == KILN_OK)
        status = remember_open(runtime, instance);
    if (status == KILN_OK) {
        instance->state = "open";
        instance->reason[0] = '\0';
        return KILN_OK;
    }
    while (runtime->device_count > devices)
        kiln_device_destroy(runtime->devices[--runtime->device_count]);
    close_instance(instance);
    return status;
}

static kiln_status set_failed(kiln_runtime *runtime, kiln_instance *instance)
{
    instance->state = "failed";
    snprintf(instance->reason, sizeof instance->reason, "%.511s", kiln_last_error());
    kiln_runtime_log(runtime, KILN_LOG_WARNING, "plugin %s: %s", instance->name, instance->reason);
    return KILN_OK;
}

/* A plugin that is broken is only listed. An option that the profile gets wrong is the
 * user's to mend, and ends the opening of the runtime. */
static kiln_status open_instance(kiln_runtime *runtime, kiln_instance *instance)
{
    if (strcmp(instance->state, "not in profile") != 0)
        return KILN_OK;
    kiln_status status = describe(runtime, instance);
    if (status != KILN_OK)
        return set_failed(runtime, instance);
    instance->options = calloc(instance->plugin.option_count + 1, sizeof *instance->options);
    if (!instance->options)
        return kiln_fail_memory("a plugin's options");
    status = kiln_profile_plugin_options(runtime->profile, &instance->plugin, instance->options);
    if (status == KILN_PLUGIN)
        return set_failed(runtime, instance);
    if (status != KILN_OK)
        return status;
    kiln_place place = {"probing plugin", instance->path};
    kiln_visit before = kiln_enter(&place);
    int64_t found = instance->plugin.probe();
    kiln_leave(&before);
    if (found <= 0) {
        instance->state = "no hardware";
        snprintf(instance->reason, sizeof instance->reason, "its probe found no device");
        return KILN_OK;
    }
    status = start(runtime, instance);
    return status == KILN_OK ? KILN_OK : set_failed(runtime, instance);
}

static kiln_status open_named(kiln_runtime *runtime, const char *name)
{
    for (int64_t i = 0; i < runtime->instance_count; i++)
        if (strcmp(runtime->instances[i]->name, name) == 0)
            return open_instance(
                runtime, runtime->instances[i]); /* the first of a name: the others are shadowed */
    kiln_runtime_log(runtime, KILN_LOG_INFO, "the profile names plugin %s, which was not found",
                     name);
    kiln_instance *missing;
    kiln_status status = add_instance(runtime, name, "", &missing);
    if (status == KILN_OK) {
        missing->state = "not found";
        snprintf(missing->reason, sizeof missing->reason,
                 "the profile names it, but no %.31s.so is in KILN_PLUGIN_PATH, plugin_path or the "
                 "folder of the installation",
                 name);
    }
    return status;
}

kiln_status kiln_loader_open_all(kiln_runtime *runtime)
{
    kiln_loader_lock();
    kiln_status status = search_all(runtime);
    int64_t count = kiln_profile_list_count(runtime->profile, "plugins");
    for (int64_t i = 0; status == KILN_OK && i < count; i++) {
        const char *name = kiln_profile_list_at(runtime->profile, "plugins", i);
        if (strcmp(name, "*") != 0) {
            status = open_named(runtime, name);
            continue;
        }
        for (int64_t k = 0; status == KILN_OK && k < runtime->instance_count; k++)
            status = open_instance(runtime, runtime->instances[k]);
    }
    kiln_loader_unlock();
    return status;
}

void kiln_loader_close_all(kiln_runtime *runtime)
{
    kiln_loader_lock();
    for (int64_t i = runtime->instance_count; i-- > 0;) {
        kiln_instance *instance = runtime->instances[i];
        close_instance(instance);
        free(instance->path);
        free(instance->interfaces);
        free(instance->options);
        free(instance);
    }
    free(runtime->instances);
    free(runtime->open);
    kiln_loader_unlock();
}
