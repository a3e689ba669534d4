/* SPDX-License-Identifier: Apache-2.0 */
/* The options that a plugin declares, and that it opens with every value that it allows. */
#include "conformance/plugin/abi/abi.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPTIONS = 256 };

/* ---- Declarations ---- */

/* As profiles write keys: words in lower case, joined by underscores. */
static bool is_key(const char *key)
{
    size_t length = key ? strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;
    return length > 0 && length < 64 && !key[length] && key[0] >= 'a' && key[0] <= 'z' &&
           key[length - 1] != '_' && !strstr(key, "__");
}

/* Word `index` of choices that '|' separates, NULL beyond the last. */
static const char *choice_at(const char *choices, int64_t index, size_t *length)
{
    const char *at = choices;
    for (; index > 0 && at; index--) {
        at = strchr(at, '|');
        at = at ? at + 1 : NULL;
    }
    if (at)
        *length = strcspn(at, "|");
    return at;
}

static int64_t find_choice(const char *choices, const char *word, size_t word_length)
{
    size_t length;
    const char *at;
    for (int64_t i = 0; (at = choice_at(choices, i, &length)); i++)
        if (length == word_length && strncmp(at, word, length) == 0)
            return i;
    return -1;
}

static bool read_size(const char *text, double *value)
{
    static const struct {
        const char *suffix;
        double factor;
    } units[] = {{"", 1}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}};
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || errno)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].suffix) == 0) {
            *value = (double)number * units[i].factor;
            return true;
        }
    return false;
}

static bool is_limited(const kiln_option *option)
{
    return option->minimum != 0 || option->maximum != 0;
}

static void check_number(const kiln_option *option, conformance_report *report)
{
    double value;
    char *end;
    bool read = option->type == KILN_OPTION_INTEGER
                    ? read_size(option->default_value, &value)
                    : (value = strtod(option->default_value, &end),
                       end != option->default_value && !*end && isfinite(value));
    if (!isfinite(option->minimum) || !isfinite(option->maximum) ||
        option->minimum > option->maximum)
        conformance_fail(report, "option %s: its minimum is %g and its maximum %g", option->key,
                         option->minimum, option->maximum);
    if (option->type == KILN_OPTION_INTEGER &&
        (option->minimum != floor(option->minimum) || option->maximum != floor(option->maximum)))
        conformance_fail(report, "option %s: the limits of an integer are integers", option->key);
    if (!read)
        conformance_fail(report, "option %s: its default '%s' is no number", option->key,
                         option->default_value);
    else if (is_limited(option) && (value < option->minimum || value > option->maximum))
        conformance_fail(report, "option %s: its default %s is not within [%g, %g]", option->key,
                         option->default_value, option->minimum, option->maximum);
}

static void check_choices(const kiln_option *option, conformance_report *report)
{
    size_t length;
    const char *at;
    if (!option->choices || !*option->choices) {
        conformance_fail(report, "option %s: a choice without choices", option->key);
        return;
    }
    for (int64_t i = 0; (at = choice_at(option->choices, i, &length)); i++) {
        if (length == 0 ||
            strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") <
                length)
            conformance_fail(report, "option %s: choice '%.*s' is not a word of [A-Za-z0-9_.-]",
                             option->key, (int)length, at);
        if (find_choice(option->choices, at, length) != i)
            conformance_fail(report, "option %s: choice '%.*s' stands twice", option->key,
                             (int)length, at);
    }
    if (find_choice(option->choices, option->default_value, strlen(option->default_value)) < 0)
        conformance_fail(report, "option %s: its default '%s' is none of %s", option->key,
                         option->default_value, option->choices);
}

static void check_declaration(const kiln_option *option, conformance_report *report)
{
    bool number = option->type == KILN_OPTION_INTEGER || option->type == KILN_OPTION_NUMBER;
    if (!option->help || !*option->help || strchr(option->help, '\n'))
        conformance_fail(report, "option %s: its help must be one line", option->key);
    if (option->reserved)
        conformance_fail(report, "option %s: its reserved field is %u", option->key,
                         option->reserved);
    if (option->type < KILN_OPTION_INTEGER || option->type > KILN_OPTION_CHOICE)
        conformance_fail(report, "option %s: type %u is not one of kiln_option_type", option->key,
                         option->type);
    if (!option->default_value) {
        conformance_fail(report, "option %s: it has no default", option->key);
        return;
    }
    if (!number && is_limited(option))
        conformance_fail(report, "option %s: only numbers have a minimum and a maximum",
                         option->key);
    if (option->type != KILN_OPTION_CHOICE && option->choices)
        conformance_fail(report, "option %s: only a choice has choices", option->key);
    if (number)
        check_number(option, report);
    if (option->type == KILN_OPTION_CHOICE)
        check_choices(option, report);
    if (option->type == KILN_OPTION_BOOLEAN && strcmp(option->default_value, "true") != 0 &&
        strcmp(option->default_value, "false") != 0)
        conformance_fail(report, "option %s: its default '%s' is neither true nor false",
                         option->key, option->default_value);
}

void conformance_abi_options(const conformance_subject *subject, conformance_report *report)
{
    conformance_plugin plugin;
    if (!conformance_load(&plugin, subject, report))
        return;
    const kiln_option *options = plugin.table.options;
    uint64_t count = plugin.table.option_count;
    if (count > MOST_OPTIONS || (count > 0 && !options)) {
        conformance_fail(report, "it declares %llu options; at most %d are possible, in an array",
                         (unsigned long long)count, MOST_OPTIONS);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        report->cases++;
        if (!is_key(options[i].key)) {
            conformance_fail(report,
                             "option %llu: its key '%.64s' is not spelled like rows_per_part",
                             (unsigned long long)i, options[i].key ? options[i].key : "(NULL)");
            return;
        }
        for (uint64_t j = 0; j < i; j++)
            if (strcmp(options[i].key, options[j].key) == 0)
                conformance_fail(report, "option %s is declared twice", options[i].key);
        check_declaration(&options[i], report);
    }
}

/* ---- Values ---- */

/* Opens with one value of one option. It may be refused, by itself or since it does not go with the
 * others' defaults, but with words. */
static void try_value(const conformance_plugin *plugin, const kiln_option *option,
                      const char *value)
{
    char options[512], reason[640];
    conformance_instance instance;
    snprintf(options, sizeof options, "{%s: %.256s}", option->key, value);
    plugin->report->cases++;
    kiln_status status = conformance_try_open(&instance, plugin, options, reason, sizeof reason);
    if (status == KILN_OK) {
        conformance_exercise(&instance);
        conformance_close(&instance);
        return;
    }
    plugin->report->declined++;
    if (strstr(reason, "it gave no reason"))
        conformance_fail(plugin->report, "open with %s = %s fails, and gives no reason",
                         option->key, value);
    else if (option->default_value && strcmp(value, option->default_value) == 0)
        conformance_fail(plugin->report, "cannot be opened with the default %s = %s: %s",
                         option->key, value, reason);
}

static void try_values(const conformance_plugin *plugin, const kiln_option *option)
{
    char text[300];
    size_t length;
    const char *choice;
    bool integer = option->type == KILN_OPTION_INTEGER;
    if (option->default_value && *option->default_value)
        try_value(plugin, option, option->default_value);
    if ((integer || option->type == KILN_OPTION_NUMBER) && is_limited(option)) {
        snprintf(text, sizeof text, integer ? "%.0f" : "%.17g", option->minimum);
        try_value(plugin, option, text);
        snprintf(text, sizeof text, integer ? "%.0f" : "%.17g", option->maximum);
        try_value(plugin, option, text);
    }
    if (option->type == KILN_OPTION_BOOLEAN) {
        try_value(plugin, option, "false");
        try_value(plugin, option, "true");
    }
    if (option->type == KILN_OPTION_CHOICE && option->choices)
        for (int64_t i = 0; i < 64 && (choice = choice_at(option->choices, i, &length)); i++) {
            snprintf(text, sizeof text, "'%.*s'", (int)(length < 256 ? length : 256), choice);
            try_value(plugin, option, text);
        }
}

void conformance_abi_option_values(const conformance_subject *subject, conformance_report *report)
{
    conformance_plugin plugin;
    conformance_instance instance;
    if (!conformance_load(&plugin, subject, report))
        return;
    /* Whether it can be opened at all is another check's question. */
    if (!conformance_open(&instance, &plugin, ""))
        return;
    conformance_close(&instance);
    if (!plugin.table.option_count) {
        conformance_skip(report, "it declares no options");
        return;
    }
    for (uint64_t i = 0; plugin.table.options && i < plugin.table.option_count && i < MOST_OPTIONS;
         i++)
        try_values(&plugin, &plugin.table.options[i]);
}
