/* SPDX-License-Identifier: Apache-2.0 */
/* The table of keys, and what each type of value may be. */
#define _GNU_SOURCE /* strsep */
#include "core/profile/internal.h"

#include <stdlib.h>
#include <string.h>

#define MIB (INT64_C(1) << 20)
#define TIB (INT64_C(1) << 40)

const kiln_key kiln_keys[] = {
    {"schema", KILN_KEY_INTEGER, 1, 1, NULL, "1",
     "version of this format; every profile and configuration file must say it"},
    {"name", KILN_KEY_TEXT, 0, 0, NULL, "''", "what people call the profile"},
    {"description", KILN_KEY_TEXT, 0, 0, NULL, "''", "what the profile is for, in one line"},
    {"match", KILN_KEY_LIST, 0, 0, NULL, "[]",
     "words that a machine must all have for the profile to be chosen when none is named: its "
     "architecture (uname -m), "
     "features of its processor (/proc/cpuinfo), or pci:VVVV:DDDD; the most words win; with none, "
     "or among equals, no profile is "
     "chosen"},
    {"plugins", KILN_KEY_PLUGINS, 0, 0, NULL, "['*']",
     "plugins to open, in the order in which they are preferred; '*' is all others that are found"},
    {"plugin_path", KILN_KEY_LIST, 0, 0, NULL, "[]",
     "folders to search for plugins before the installed one; the folders of the variable "
     "KILN_PLUGIN_PATH, separated by "
     "colons, come before these"},
    {"operators", KILN_KEY_OPERATORS, 0, 0, NULL, NULL,
     "per operator (such as kiln.gemm/1), the plugins that may serve it, in order: a list, or a "
     "mapping of `backends` (that "
     "list), `types` (a list per element type, which stands in its place) and `deny` (plugins "
     "never to be taken). The entry "
     "`default` says what an operator's own entry does not"},
    {"devices.default", KILN_KEY_DEVICE, 0, 0, NULL, "host",
     "device where tensors are placed when nothing else is said: host, or PLUGIN:INDEX such as "
     "acme:0"},
    {"options", KILN_KEY_OPTIONS, 0, 0, NULL, NULL,
     "per plugin, the options that it declares; `kiln info --print-config` lists them"},
    {"staging.policy", KILN_KEY_CHOICE, 0, 0, "deny|allow", "deny",
     "whether host tensors may be copied to a device and back when an operator runs there"},
    {"staging.pool_bytes", KILN_KEY_SIZE, MIB, TIB, NULL, "256MiB",
     "device memory that such copies may take at a time"},
    {"threads.count", KILN_KEY_INTEGER, 0, 4096, NULL, "0",
     "compute threads, the caller among them; 0 = as many as the process may use processors"},
    {"threads.spin_us", KILN_KEY_INTEGER, 0, 1000000, NULL, "50",
     "microseconds that an idle thread looks for work before it sleeps"},
    {"threads.affinity", KILN_KEY_BOOLEAN, 0, 0, NULL, "false",
     "whether each compute thread is bound to one processor"},
    {"plans.cache_entries", KILN_KEY_INTEGER, 1, 1000000, NULL, "1024",
     "plans that the runtime keeps for calls without a plan of their own"},
    {"tuning.file", KILN_KEY_TEXT, 0, 0, NULL, "''",
     "file of tuning records, read when a runtime opens and appended to; empty = none"},
    {"tuning.use", KILN_KEY_BOOLEAN, 0, 0, NULL, "true",
     "whether plans take the parameters of tuning records"},
    {"record.file", KILN_KEY_TEXT, 0, 0, NULL, "''",
     "file to which every plan is written when the runtime closes, with the sizes that it ran "
     "with, and how often; also the variable KILN_RECORD; empty = none"},
    {"log.level", KILN_KEY_CHOICE, 0, 0, "error|warning|info|debug", "warning",
     "least severe messages that are logged"},
    {"collective.transport", KILN_KEY_NAMES, 0, 0, NULL, "[]",
     "transports that collectives may use, in order"},
};
const size_t kiln_key_count = sizeof kiln_keys / sizeof kiln_keys[0];

/* Where `text` continues after `prefix` and a dot; NULL when it does not. */
static const char *after(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 && text[length] == '.' ? text + length + 1 : NULL;
}

kiln_key_place kiln_key_find(const char *path, const kiln_key **key)
{
    if (!*path)
        return KILN_PLACE_SECTION;
    for (size_t i = 0; i < kiln_key_count; i++) {
        const kiln_key *row = &kiln_keys[i];
        bool open = row->type == KILN_KEY_OPERATORS || row->type == KILN_KEY_OPTIONS;
        const char *rest = after(path, row->path);
        if (after(row->path, path) || (open && strcmp(row->path, path) == 0))
            return KILN_PLACE_SECTION;
        if (open && rest && row->type == KILN_KEY_OPTIONS && !strchr(rest, '.'))
            return KILN_PLACE_SECTION;
        if (open ? rest != NULL : strcmp(row->path, path) == 0) {
            *key = row;
            return KILN_PLACE_VALUE;
        }
    }
    return KILN_PLACE_NONE;
}

bool kiln_is_plugin_name(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return *text >= 'a' && *text <= 'z' && !text[length] && length < 32;
}

static bool is_plugin_name_or_star(const char *text)
{
    return kiln_is_plugin_name(text) || strcmp(text, "*") == 0;
}

static bool is_not_empty(const char *text)
{
    return *text != '\0';
}

static bool is_device_name(const char *text)
{
    const char *colon = strchr(text, ':');
    if (!colon)
        return strcmp(text, "host") == 0;
    char plugin[32];
    size_t length = (size_t)(colon - text), digits = strspn(colon + 1, "0123456789");
    if (length >= sizeof plugin || !digits || digits > 4 || colon[1 + digits])
        return false;
    memcpy(plugin, text, length);
    plugin[length] = '\0';
    return kiln_is_plugin_name(plugin);
}

bool kiln_key_names(const kiln_yaml_node *node, const char *what, bool (*fits)(const char *text),
                    const char *expectation, kiln_yaml_error *error)
{
    if (!kiln_yaml_expect(node, what, KILN_YAML_SEQUENCE, error))
        return false;
    if (node->count > KILN_PROFILE_MAX_LIST)
        return kiln_yaml_fail(error, node, "%s: more than %d entries", what, KILN_PROFILE_MAX_LIST);
    for (size_t i = 0; i < node->count; i++) {
        const char *text;
        if (!kiln_yaml_text(node->items[i], what, &text, error))
            return false;
        if (!fits(text))
            return kiln_yaml_fail(error, node->items[i], "%s: '%.80s' is not %s", what, text,
                                  expectation);
        for (size_t j = 0; j < i; j++)
            if (strcmp(text, node->items[j]->text) == 0)
                return kiln_yaml_fail(error, node->items[i], "%s: '%.80s' is listed twice", what,
                                      text);
    }
    return true;
}

bool kiln_key_choice(const kiln_yaml_node *node, const char *what, const char *choices,
                     int64_t *index, kiln_yaml_error *error)
{
    char copy[512], *rest = copy;
    const char *names[KILN_PROFILE_MAX_CHOICES];
    size_t count = 0, chosen;
    snprintf(copy, sizeof copy, "%s", choices);
    while (rest && count < KILN_PROFILE_MAX_CHOICES)
        names[count++] = strsep(&rest, "|");
    if (!kiln_yaml_choice(node, what, names, count, &chosen, error))
        return false;
    *index = (int64_t)chosen;
    return true;
}

static bool check_device(const char *path, const kiln_yaml_node *node, kiln_yaml_error *error)
{
    const char *text;
    if (!kiln_yaml_text(node, path, &text, error))
        return false;
    return is_device_name(text) ||
           kiln_yaml_fail(error, node,
                          "%s: expected host or PLUGIN:INDEX such as acme:0, found '%.80s'", path,
                          text);
}

/* Which option a plugin declares, and of what type, is not known here. */
static bool check_option(const char *path, const kiln_yaml_node *node, kiln_yaml_error *error)
{
    char plugin[32];
    const char *name = strchr(path, '.') + 1, *text;
    size_t length = strcspn(name, ".");
    snprintf(plugin, sizeof plugin, "%.*s", length < sizeof plugin ? (int)length : 0, name);
    if (!kiln_is_plugin_name(plugin))
        return kiln_yaml_fail(error, node, "%s: '%.*s' is not a plugin's name", path, (int)length,
                              name);
    return kiln_yaml_text(node, path, &text, error);
}

bool kiln_key_check(const kiln_key *key, const char *path, const kiln_yaml_node *node,
                    int64_t *integer, kiln_yaml_error *error)
{
    const char *text;
    bool truth;
    switch (key->type) {
    case KILN_KEY_INTEGER:
    case KILN_KEY_SIZE:
        return kiln_yaml_integer(node, path, key->minimum, key->maximum, key->type == KILN_KEY_SIZE,
                                 integer, error);
    case KILN_KEY_BOOLEAN:
        if (!kiln_yaml_boolean(node, path, &truth, error))
            return false;
        *integer = truth;
        return true;
    case KILN_KEY_TEXT:
        return kiln_yaml_text(node, path, &text, error);
    case KILN_KEY_CHOICE:
        return kiln_key_choice(node, path, key->choices, integer, error);
    case KILN_KEY_DEVICE:
        return check_device(path, node, error);
    case KILN_KEY_LIST:
        return kiln_key_names(node, path, is_not_empty, "allowed: it is empty", error);
    case KILN_KEY_NAMES:
        return kiln_key_names(node, path, kiln_is_plugin_name, "a plugin's name", error);
    case KILN_KEY_PLUGINS:
        return kiln_key_names(node, path, is_plugin_name_or_star, "a plugin's name or '*'", error);
    case KILN_KEY_OPERATORS:
        return kiln_operator_check(path, node, error);
    case KILN_KEY_OPTIONS:
        return check_option(path, node, error);
    }
    return false;
}
