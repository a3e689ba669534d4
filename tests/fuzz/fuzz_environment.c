/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: profile settings from the environment and from the command line. Each line is a
 * variable, NAME=VALUE without the KILN_ before it; a line that begins with "--set " is a setting,
 * PATH=VALUE. A NUL stands for a line's end in a value. */
#include "tests/fuzz/profile.h"

enum { MAX_VARIABLES = 8 };

static const char *value_of(char *const *environment, const char *name)
{
    const char *value = NULL;
    for (; *environment; environment++) {
        size_t length = strlen(name);
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=' &&
            (*environment)[length + 1])
            value = *environment + length + 1;
    }
    return value;
}

/* Text stands in a variable as it is. */
static void compare_text(const kiln_profile *profile, char *const *environment, const char *name,
                         const char *path)
{
    const char *value = value_of(environment, name);
    if (value)
        must(strcmp(kiln_profile_setting_get(profile, path), value) == 0);
}

/* Every folder between colons, in order, each once. */
static void compare_folders(const kiln_profile *profile, char *const *environment)
{
    const char *at = value_of(environment, "KILN_PLUGIN_PATH");
    int64_t count = 0;
    for (; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
        size_t length = strcspn(at, ":");
        int64_t found = 0;
        const char *folder = "";
        for (; length && found < kiln_profile_list_count(profile, "plugin_path"); found++) {
            folder = kiln_profile_list_at(profile, "plugin_path", found);
            if (strlen(folder) == length && memcmp(folder, at, length) == 0)
                break;
        }
        must(!length || found < kiln_profile_list_count(profile, "plugin_path"));
        if (length && found >= count)
            must(found == count++);
    }
}

/* Any text is taken but what is not UTF-8, and not too many folders. */
static void check_refusal(char *const *environment, const char *sentence)
{
    static const char *const any[] = {"KILN_TUNING_FILE:", "KILN_RECORD:", "KILN_PLUGIN_PATH:"};
    must(*sentence);
    for (; *environment; environment++) /* a name with a colon reads like a place */
        if (strcspn(*environment, ":") < strcspn(*environment, "="))
            return;
    for (size_t i = 0; i < 3; i++)
        if (strncmp(sentence, any[i], strlen(any[i])) == 0)
            must(strstr(sentence, "UTF-8") || strstr(sentence, "more than 64 entries"));
}

static kiln_status apply_setting(kiln_profile *profile, char *line)
{
    char *equals = strchr(line, '=');
    if (!equals)
        return KILN_OK;
    *equals = '\0';
    return kiln_profile_apply_text(profile, line, "setting", equals + 1, "caller");
}

/* Splits the text into variables, and settings that are given at once. */
static kiln_status read_lines(kiln_profile *profile, char *text, size_t size, char **environment)
{
    kiln_status status = KILN_OK;
    int count = 0;
    char *end = text + size, *line = text;
    for (char *next; line < end && count < MAX_VARIABLES && status == KILN_OK; line = next) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        next = stop + 1;
        *stop = '\0';
        for (char *c = line; c < stop; c++)
            *c = *c ? *c : '\n';
        if (strncmp(line, "--set ", 6) == 0) {
            status = apply_setting(profile, line + 6);
            continue;
        }
        environment[count] = malloc((size_t)(stop - line) + 6);
        must(environment[count]);
        memcpy(environment[count], "KILN_", 5);
        memcpy(environment[count++] + 5, line, (size_t)(stop - line) + 1);
    }
    environment[count] = NULL;
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = text_of(bytes, size), *environment[MAX_VARIABLES + 1] = {NULL};
    kiln_profile *profile = new_profile();
    kiln_status status = read_lines(profile, text, size, environment);
    if (status == KILN_OK)
        status = kiln_profile_apply_environment(profile, environment);
    if (status == KILN_OK) {
        compare_text(profile, environment, "KILN_TUNING_FILE", "tuning.file");
        compare_text(profile, environment, "KILN_DEVICES_DEFAULT", "devices.default");
        compare_folders(profile, environment);
        give_back(profile);
    } else {
        check_refusal(environment, kiln_last_error());
    }
    for (int i = 0; environment[i]; i++)
        free(environment[i]);
    kiln_profile_free(profile);
    free(text);
    return 0;
}
