/* SPDX-License-Identifier: Apache-2.0 */
/* The layer of environment variables: KILN_THREADS_COUNT gives threads.count,
 * KILN_OPTIONS_ACME_CORES gives options.acme.cores. */
#define _GNU_SOURCE /* open_memstream */
#include "core/profile/internal.h"

#include <stdlib.h>
#include <string.h>

const char *kiln_environment_get(char *const *environment, const char *name)
{
    size_t length = strlen(name);
    for (; environment && *environment; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
            return (*environment)[length + 1] ? *environment + length + 1 : NULL;
    return NULL;
}

static const char *next_folder(const char *at)
{
    return strchr(at, ':') ? strchr(at, ':') + 1 : NULL;
}

/* Whether a folder stands in a list that colons separate, before `end` (NULL = anywhere). */
static bool is_listed(const char *folders, const char *end, const char *folder, size_t length)
{
    for (const char *at = folders; at && at != end; at = next_folder(at))
        if (strcspn(at, ":") == length && memcmp(at, folder, length) == 0)
            return true;
    return false;
}

/* The folders of a variable, then those that the profile gave; each once. */
static void write_plugin_path(FILE *stream, const kiln_profile *profile, const char *folders)
{
    const char *between = "[";
    for (const char *at = folders; at; at = next_folder(at)) {
        size_t length = strcspn(at, ":");
        if (!length || is_listed(folders, at, at, length))
            continue;
        fputs(between, stream);
        kiln_profile_write_quoted(stream, at, length);
        between = ", ";
    }
    for (int64_t i = 0; i < kiln_profile_list_count(profile, "plugin_path"); i++) {
        const char *folder = kiln_profile_list_at(profile, "plugin_path", i);
        if (is_listed(folders, NULL, folder, strlen(folder)))
            continue;
        fputs(between, stream);
        kiln_profile_write_quoted(stream, folder, strlen(folder));
        between = ", ";
    }
    fputs(*between == '[' ? "[]" : "]", stream);
}

/* The path that a variable without KILN_ means: the section, a dot, and the key in small letters.
 * Names of plugins have no underscore; two stand for the hyphen that a variable cannot hold. False
 * when it cannot be a section's. */
static bool path_of(const char *variable, size_t length, char *path, size_t size)
{
    size_t used = 0;
    int dots = 1; /* to be placed */
    for (size_t i = 0; i < length; i++) {
        char c = variable[i];
        bool twice = c == '_' && i + 1 < length && variable[i + 1] == '_';
        if (used + 1 >= size || (c >= 'a' && c <= 'z') || (c == '_' && !used))
            return false;
        if (c == '_' && dots && !twice) {
            c = '.';
            dots--;
            if (strncmp(path, "options", used) == 0 && used == 7)
                dots++;
        } else if (twice && dots) {
            c = '-';
            i++;
        }
        path[used++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    path[used] = '\0';
    return dots == 0;
}

static kiln_status apply_written(kiln_profile *profile, const char *path, const char *name,
                                 const char *value, bool folders)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return kiln_fail_memory("a profile");
    if (folders)
        write_plugin_path(stream, profile, value);
    else
        kiln_profile_write_quoted(stream, value, strlen(value));
    kiln_status status = fclose(stream) == 0
                             ? kiln_profile_apply_text(profile, path, name, text, name)
                             : kiln_fail_memory("a profile");
    free(text);
    return status;
}

static kiln_status apply_variable(kiln_profile *profile, const char *variable)
{
    char name[192], path[192];
    const char *value = strchr(variable, '=') + 1;
    size_t length = (size_t)(value - 1 - variable);
    if (!*value || length >= sizeof name)
        return KILN_OK;
    snprintf(name, sizeof name, "%.*s", (int)length, variable);
    if (strcmp(name, "KILN_PLUGIN_PATH") == 0)
        return apply_written(profile, "plugin_path", name, value, true);
    if (strcmp(name, "KILN_RECORD") == 0)
        return apply_written(profile, "record.file", name, value, false);
    if (!path_of(name + 5, length - 5, path, sizeof path))
        return KILN_OK;
    char section[192];
    snprintf(section, sizeof section, "%.*s", (int)strcspn(path, "."), path);
    const kiln_key *key = NULL;
    if (kiln_key_find(section, &key) != KILN_PLACE_SECTION)
        return KILN_OK; /* somebody else's */
    /* Text stands in a variable as it is; all else is written as in a profile. */
    if (kiln_key_find(path, &key) == KILN_PLACE_VALUE &&
        (key->type == KILN_KEY_TEXT || key->type == KILN_KEY_DEVICE))
        return apply_written(profile, path, name, value, false);
    return kiln_profile_apply_text(profile, path, name, value, name);
}

kiln_status kiln_profile_apply_environment(kiln_profile *profile, char *const *environment)
{
    kiln_status status = KILN_OK;
    for (; *environment && status == KILN_OK; environment++)
        if (strncmp(*environment, "KILN_", 5) == 0 && strchr(*environment, '='))
            status = apply_variable(profile, *environment);
    return status;
}
