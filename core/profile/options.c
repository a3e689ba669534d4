/* SPDX-License-Identifier: Apache-2.0 */
/* The section `options.<plugin>`, which only the plugin's own declaration can judge. */
#include "core/profile/internal.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 256 };

/* The bounds of an integer option as integers: INT64 cannot hold every double. */
static int64_t bound(double limit)
{
    return limit >= 0x1p63 ? INT64_MAX : limit < -0x1p63 ? INT64_MIN : (int64_t)limit;
}

static bool convert(const kiln_option *option, const char *path, const kiln_yaml_node *node,
                    kiln_option_value *value, kiln_yaml_error *error)
{
    bool limited = option->minimum != 0 || option->maximum != 0, truth;
    kiln_option_value made = {.text = node->text};
    switch (option->type) {
    case KILN_OPTION_INTEGER:
        if (!kiln_yaml_integer(node, path, limited ? bound(option->minimum) : INT64_MIN,
                               limited ? bound(option->maximum) : INT64_MAX, true, &made.integer,
                               error))
            return false;
        made.number = (double)made.integer;
        break;
    case KILN_OPTION_NUMBER:
        if (!kiln_yaml_number(node, path, limited ? option->minimum : -DBL_MAX,
                              limited ? option->maximum : DBL_MAX, &made.number, error))
            return false;
        break;
    case KILN_OPTION_BOOLEAN:
        if (!kiln_yaml_boolean(node, path, &truth, error))
            return false;
        made.integer = truth;
        break;
    case KILN_OPTION_CHOICE:
        if (!kiln_key_choice(node, path, option->choices, &made.integer, error))
            return false;
        break;
    default: /* text, which has been checked to be there */
        break;
    }
    *value = made;
    return true;
}

/* Defaults take their place among the values, where a layer gave none. */
static kiln_status add_default(kiln_profile *profile, const kiln_plugin *plugin,
                               const kiln_option *option, const char *path)
{
    if (kiln_profile_find(profile, path))
        return KILN_OK;
    char name[192];
    snprintf(name, sizeof name, "default of %s", path);
    const char *text =
        option->default_value && *option->default_value ? option->default_value : "''";
    kiln_status status = kiln_profile_apply_text(profile, path, name, text, "built-in");
    if (status == KILN_PARSE)
        return kiln_fail(KILN_PLUGIN, "plugin %s: %s", plugin->name, kiln_last_error());
    return status;
}

static kiln_status check_declaration(const kiln_plugin *plugin, const kiln_option *option)
{
    const char *fault = NULL;
    if (!option->key || !*option->key || strlen(option->key) > 63 || strpbrk(option->key, ".: \n"))
        fault = "its key is missing, longer than 63 bytes, or has '.', ':' or space in it";
    else if (option->type < KILN_OPTION_INTEGER || option->type > KILN_OPTION_CHOICE)
        fault = "its type is unknown";
    else if (option->type == KILN_OPTION_CHOICE && !option->choices)
        fault = "it is a choice without choices";
    if (!fault)
        return KILN_OK;
    return kiln_fail(KILN_PLUGIN, "plugin %s declares option %lld ('%.63s') wrongly: %s",
                     plugin->name, (long long)(option - plugin->options),
                     option->key ? option->key : "", fault);
}

/* Values under options.<plugin> that the plugin does not declare. */
static kiln_status refuse_unknown(const kiln_profile *profile, const kiln_plugin *plugin)
{
    const char *names[MAX_OPTIONS];
    for (uint64_t i = 0; i < plugin->option_count; i++)
        names[i] = plugin->options[i].key;
    char prefix[64];
    size_t length = (size_t)snprintf(prefix, sizeof prefix, "options.%.31s.", plugin->name);
    for (size_t i = 0; i < profile->count; i++) {
        const kiln_profile_value *value = &profile->values[i];
        if (strncmp(value->path, prefix, length) != 0)
            continue;
        uint64_t known = 0;
        while (known < plugin->option_count && strcmp(names[known], value->path + length) != 0)
            known++;
        if (known == plugin->option_count) {
            char what[64];
            kiln_yaml_error error;
            snprintf(what, sizeof what, "option of plugin %.31s", plugin->name);
            kiln_yaml_fail_unknown(value->blame, what, value->path + length, names,
                                   plugin->option_count, &error);
            return kiln_profile_fail(KILN_YAML_MALFORMED, &error);
        }
    }
    return KILN_OK;
}

kiln_status kiln_profile_plugin_options(kiln_profile *profile, const kiln_plugin *plugin,
                                        kiln_option_value *values)
{
    if (plugin->option_count && !plugin->options)
        return kiln_fail(KILN_PLUGIN, "plugin %s declares %llu options but no array of them",
                         plugin->name, (unsigned long long)plugin->option_count);
    if (plugin->option_count > MAX_OPTIONS)
        return kiln_fail(KILN_PLUGIN, "plugin %s declares %llu options; at most %d are allowed",
                         plugin->name, (unsigned long long)plugin->option_count, MAX_OPTIONS);
    kiln_status status = KILN_OK;
    for (uint64_t i = 0; i < plugin->option_count && status == KILN_OK; i++)
        status = check_declaration(plugin, &plugin->options[i]);
    if (status == KILN_OK)
        status = refuse_unknown(profile, plugin);
    for (uint64_t i = 0; i < plugin->option_count && status == KILN_OK; i++) {
        const kiln_option *option = &plugin->options[i];
        char path[128];
        snprintf(path, sizeof path, "options.%.31s.%.63s", plugin->name, option->key);
        status = add_default(profile, plugin, option, path);
        if (status != KILN_OK)
            return status;
        kiln_profile_value *value = kiln_profile_find(profile, path);
        kiln_yaml_error error;
        if (option->help)
            value->help = option->help;
        if (!convert(option, path, value->node, &values[i], &error))
            status = strcmp(value->origin, "built-in") == 0
                         ? kiln_fail(KILN_PLUGIN, "plugin %s: %s", plugin->name, error.text)
                         : kiln_profile_fail(KILN_YAML_MALFORMED, &error);
    }
    return status;
}
