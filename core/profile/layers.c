/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a configuration, weakest first: built-in values, the system's file, the user's
 * file, the profile, the environment, the caller's settings. */
#define _GNU_SOURCE /* open_memstream, environ */
#include "core/profile/internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef KILN_SYSCONF_DIR
#define KILN_SYSCONF_DIR "/etc/kiln"
#endif
#ifndef KILN_PROFILE_DIR
#define KILN_PROFILE_DIR "/usr/share/kiln/profiles"
#endif

enum { MAX_PATH = 4096, MAX_FILES = 256 };

/* Where profiles are searched, the first folder first. */
typedef struct folders {
    char paths[KILN_PROFILE_MAX_FOLDERS][MAX_PATH];
    size_t count;
} folders;

static void add_folder(folders *search, const char *folder, size_t length, const char *rest)
{
    if (length && length + strlen(rest) < MAX_PATH && search->count < KILN_PROFILE_MAX_FOLDERS)
        snprintf(search->paths[search->count++], MAX_PATH, "%.*s%s", (int)length, folder, rest);
}

static folders *find_folders(const kiln_profile_sources *sources)
{
    folders *search = calloc(1, sizeof *search);
    const char *list = kiln_environment_get(sources->environment, "KILN_PROFILE_PATH");
    if (!search)
        return NULL;
    if (list) {
        for (const char *at = list; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL)
            add_folder(search, at, strcspn(at, ":"), "");
        return search;
    }
    if (sources->home)
        add_folder(search, sources->home, strlen(sources->home), "/.config/kiln/profiles");
    if (sources->system_folder)
        add_folder(search, sources->system_folder, strlen(sources->system_folder), "/profiles");
    if (sources->installed_folder)
        add_folder(search, sources->installed_folder, strlen(sources->installed_folder), "");
    return search;
}

/* ---- Files ---- */

/* Every document says which version of the format it is. */
static kiln_status apply_document(kiln_profile *profile, const kiln_yaml_node *root)
{
    if (root->kind == KILN_YAML_MAPPING && !kiln_yaml_get(root, "schema")) {
        kiln_yaml_error error;
        kiln_yaml_fail(&error, root, "the key 'schema' is missing; begin with 'schema: 1'");
        return kiln_profile_fail(KILN_YAML_MALFORMED, &error);
    }
    return kiln_profile_apply(profile, "", root, NULL);
}

static kiln_status read_file(kiln_profile *profile, const char *path, const kiln_yaml_node **root)
{
    kiln_yaml *tree;
    kiln_yaml_error error;
    kiln_yaml_status read = kiln_yaml_read(path, &tree, &error);
    if (read != KILN_YAML_OK)
        return kiln_profile_fail(read, &error);
    *root = kiln_yaml_root(tree);
    return kiln_profile_adopt(profile, tree);
}

static kiln_status apply_file(kiln_profile *profile, const char *path)
{
    const kiln_yaml_node *root = NULL;
    kiln_status status = read_file(profile, path, &root);
    return status == KILN_OK ? apply_document(profile, root) : status;
}

static kiln_status apply_file_if_there(kiln_profile *profile, const char *folder, const char *rest)
{
    char path[MAX_PATH];
    if (!folder || (size_t)snprintf(path, sizeof path, "%s%s", folder, rest) >= sizeof path)
        return KILN_OK;
    if (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return KILN_OK;
    return apply_file(profile, path);
}

/* ---- Profiles by name ---- */

/* The file of a profile in a folder, if it is there. */
static bool profile_file(const char *folder, const char *name, char path[MAX_PATH])
{
    return (size_t)snprintf(path, MAX_PATH, "%s/%s.yaml", folder, name) < MAX_PATH &&
           access(path, F_OK) == 0;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
}

/* Names of the profiles in a folder, sorted; at most MAX_FILES. */
static size_t list_profiles(const char *folder, char *names[MAX_FILES])
{
    size_t count = 0;
    DIR *open = opendir(folder);
    if (!open)
        return 0;
    for (struct dirent *entry; count < MAX_FILES && (entry = readdir(open));) {
        size_t length = strlen(entry->d_name);
        if (length <= 5 || entry->d_name[0] == '.' ||
            strcmp(entry->d_name + length - 5, ".yaml") != 0)
            continue;
        names[count] = strndup(entry->d_name, length - 5);
        if (names[count])
            count++;
    }
    closedir(open);
    qsort(names, count, sizeof names[0], compare_names);
    return count;
}

static kiln_status profile_not_found(const folders *search, const char *name, const char *origin)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return kiln_fail_memory("a profile");
    const char *near = NULL;
    char *nearest = NULL;
    for (size_t i = 0; i < search->count; i++) {
        char *names[MAX_FILES];
        size_t count = list_profiles(search->paths[i], names);
        fprintf(stream, "%s %s (", i ? "," : "", search->paths[i]);
        for (size_t j = 0; j < count; j++)
            fprintf(stream, "%s%s", j ? ", " : "", names[j]);
        fputs(count ? ")" : "none)", stream);
        near = nearest ? NULL : kiln_yaml_nearest(name, (const char *const *)names, count);
        if (near)
            nearest = strdup(near);
        free_names(names, count);
    }
    kiln_status status = KILN_NO_MEMORY;
    if (fclose(stream) == 0)
        status = kiln_fail(KILN_NOT_FOUND, "%sno profile '%s'%s%s%s; profiles by folder:%s", origin,
                           name, nearest ? " (did you mean '" : "", nearest ? nearest : "",
                           nearest ? "'?)" : "", search->count ? text : " no folder is searched");
    free(nearest);
    free(text);
    return status;
}

/* `origin` stands before the sentence: "" or "KILN_PROFILE: ". */
static kiln_status apply_named(kiln_profile *profile, const folders *search, const char *name,
                               const char *origin)
{
    size_t length = strlen(name);
    if (strchr(name, '/') || (length > 5 && strcmp(name + length - 5, ".yaml") == 0))
        return apply_file(profile, name);
    char path[MAX_PATH];
    for (size_t i = 0; i < search->count; i++)
        if (profile_file(search->paths[i], name, path))
            return apply_file(profile, path);
    return profile_not_found(search, name, origin);
}

/* ---- The profile that matches the machine ---- */

typedef struct choice {
    char *words; /* the machine's; NULL until they are needed */
    const kiln_yaml_node *best;
    size_t most;
    bool tied;
} choice;

static kiln_status weigh_profile(kiln_profile *profile, const char *path, const char *machine_root,
                                 choice *chosen)
{
    const kiln_yaml_node *root = NULL;
    kiln_status status = read_file(profile, path, &root);
    if (status != KILN_OK)
        return status;
    const kiln_key *key = NULL;
    kiln_key_find("match", &key);
    kiln_yaml_error error;
    int64_t unused;
    const kiln_yaml_node *match = kiln_yaml_get(root, "match");
    if (!match)
        return KILN_OK;
    if (!kiln_key_check(key, "match", match, &unused, &error))
        return kiln_profile_fail(KILN_YAML_MALFORMED, &error);
    if (!match->count || match->count < chosen->most)
        return KILN_OK;
    if (!chosen->words)
        status = kiln_machine_words(machine_root, &chosen->words);
    if (status != KILN_OK)
        return status;
    for (size_t i = 0; i < match->count; i++)
        if (!kiln_machine_has(chosen->words, match->items[i]->text))
            return KILN_OK;
    chosen->tied = chosen->best && match->count == chosen->most;
    chosen->most = match->count;
    chosen->best = root;
    return KILN_OK;
}

static kiln_status weigh_folder(kiln_profile *profile, const folders *search, size_t index,
                                const char *machine_root, choice *chosen)
{
    char *names[MAX_FILES], path[MAX_PATH];
    size_t count = list_profiles(search->paths[index], names);
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        bool shadowed = false;
        for (size_t j = 0; j < index; j++)
            shadowed = shadowed || profile_file(search->paths[j], names[i], path);
        if (!shadowed && profile_file(search->paths[index], names[i], path))
            status = weigh_profile(profile, path, machine_root, chosen);
    }
    free_names(names, count);
    return status;
}

static kiln_status apply_matching(kiln_profile *profile, const folders *search,
                                  const char *machine_root)
{
    choice chosen = {NULL, NULL, 0, false};
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < search->count && status == KILN_OK; i++)
        status = weigh_folder(profile, search, i, machine_root, &chosen);
    free(chosen.words);
    if (status == KILN_OK && chosen.best && !chosen.tied)
        status = apply_document(profile, chosen.best);
    return status;
}

/* ---- All layers ---- */

static kiln_status apply_defaults(kiln_profile *profile)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < kiln_key_count && status == KILN_OK; i++)
        if (kiln_keys[i].default_value)
            status = kiln_profile_apply_text(profile, kiln_keys[i].path, "built-in",
                                             kiln_keys[i].default_value, "built-in");
    return status;
}

static kiln_status apply_profile(kiln_profile *profile, const kiln_runtime_options *options,
                                 const kiln_profile_sources *sources, bool isolated)
{
    if (options->profile_text) {
        const kiln_yaml_node *root = NULL;
        kiln_status status =
            kiln_profile_parse(profile, "profile_text", options->profile_text, &root);
        return status == KILN_OK ? apply_document(profile, root) : status;
    }
    folders *search = find_folders(sources);
    if (!search)
        return kiln_fail_memory("a profile");
    const char *variable = kiln_environment_get(sources->environment, "KILN_PROFILE");
    kiln_status status = KILN_OK;
    if (options->profile)
        status = apply_named(profile, search, options->profile, "");
    else if (variable)
        status = apply_named(profile, search, variable, "KILN_PROFILE: ");
    else if (!isolated)
        status = apply_matching(profile, search, sources->machine_root);
    free(search);
    return status;
}

static kiln_status apply_settings(kiln_profile *profile, const kiln_runtime_options *options)
{
    kiln_status status = KILN_OK;
    for (uint64_t i = 0; i < options->setting_count && status == KILN_OK; i++) {
        const kiln_setting *setting = &options->settings[i];
        if (!setting->path || !setting->value)
            return kiln_fail(KILN_INVALID, "setting %llu has no path or no value",
                             (unsigned long long)i);
        char name[160];
        snprintf(name, sizeof name, "setting %.128s", setting->path);
        status = kiln_profile_apply_text(profile, setting->path, name, setting->value, "caller");
    }
    return status;
}

static kiln_status apply_layers(kiln_profile *profile, const kiln_runtime_options *options,
                                const kiln_profile_sources *sources, bool isolated)
{
    kiln_status status = apply_defaults(profile);
    if (status == KILN_OK)
        status = apply_file_if_there(profile, sources->system_folder, "/kiln.yaml");
    if (status == KILN_OK)
        status = apply_file_if_there(profile, sources->home, "/.config/kiln/kiln.yaml");
    if (status == KILN_OK)
        status = apply_profile(profile, options, sources, isolated);
    if (status == KILN_OK && sources->environment)
        status = kiln_profile_apply_environment(profile, sources->environment);
    return status == KILN_OK ? apply_settings(profile, options) : status;
}

kiln_status kiln_profile_load_from(const kiln_runtime_options *options,
                                   const kiln_profile_sources *sources, kiln_profile **profile)
{
    static const kiln_runtime_options none = {.struct_size = sizeof none};
    kiln_profile_sources allowed = *sources;
    options = options ? options : &none;
    if (options->profile && options->profile_text)
        return kiln_fail(KILN_INVALID, "both profile and profile_text are given; give one of them");
    bool isolated = options->flags & KILN_RUNTIME_ISOLATED;
    if (isolated) /* a profile that the caller names is still read, but only from where Kiln was
                     installed */
        allowed = (kiln_profile_sources){.installed_folder = sources->installed_folder};
    kiln_profile *made = calloc(1, sizeof *made);
    if (!made)
        return kiln_fail_memory("a profile");
    kiln_status status = apply_layers(made, options, &allowed, isolated);
    if (status == KILN_OK)
        *profile = made;
    else
        kiln_profile_free(made);
    return status;
}

kiln_status kiln_profile_load(const kiln_runtime_options *options, kiln_profile **profile)
{
    kiln_profile_sources sources = {.system_folder = KILN_SYSCONF_DIR,
                                    .installed_folder = KILN_PROFILE_DIR,
                                    .machine_root = ""};
    if (!getauxval(AT_SECURE)) { /* a setuid program does not take its user's word */
        sources.environment = environ;
        sources.home = kiln_environment_get(environ, "HOME");
    }
    return kiln_profile_load_from(options, &sources, profile);
}
