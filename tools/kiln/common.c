/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands share: common options, messages, small memory, opening a runtime. */
#define _GNU_SOURCE /* vasprintf */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/yaml.h"
#include "tools/kiln/command.h"

/* ---- Memory ---- */

static void *or_exit(void *memory)
{
    if (memory)
        return memory;
    fputs("kiln: memory is exhausted\n", stderr);
    exit(TOOL_FAILED);
}

void *tool_allocate(size_t count, size_t size)
{
    return or_exit(calloc(count ? count : 1, size ? size : 1));
}

void *tool_grow(void *memory, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return or_exit(NULL);
    return or_exit(realloc(memory, bytes ? bytes : 1));
}

char *tool_text_v(const char *format, va_list arguments)
{
    char *text = NULL;
    return or_exit(vasprintf(&text, format, arguments) < 0 ? NULL : text);
}

void tool_write(tool_writer *self, const char *format, ...)
{
    va_list arguments;
    if (self->used >= self->size)
        return;
    va_start(arguments, format);
    int length = vsnprintf(self->text + self->used, self->size - self->used, format, arguments);
    va_end(arguments);
    self->used += length > 0 ? (size_t)length : 0;
}

char *tool_text(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = tool_text_v(format, arguments);
    va_end(arguments);
    return text;
}

/* ---- Messages ---- */

static void print_message(const char *command, const char *format, va_list arguments)
{
    fprintf(stderr, "%s: ", command);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

int tool_fail(const tool_common *common, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_message(common->command, format, arguments);
    va_end(arguments);
    return TOOL_FAILED;
}

int tool_usage(const tool_common *common, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_message(common->command, format, arguments);
    va_end(arguments);
    fprintf(stderr, "Try '%s --help'.\n", common->command);
    return TOOL_USAGE;
}

int tool_print_json(const tool_common *common, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(object);
    if (!text)
        return tool_fail(common, "cannot print JSON: memory is exhausted, or a name is not UTF-8");
    puts(text);
    free(text);
    return TOOL_OK;
}

const char *tool_bytes_text(int64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(text, 32, value == floor(value) ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

const char *tool_time_text(int64_t nanoseconds, char text[32])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double value = (double)nanoseconds;
    size_t unit = 0;
    while (value >= 1000 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1000;
        unit++;
    }
    snprintf(text, 32,
             unit == 0    ? "%.0f %s"
             : value < 10 ? "%.2f %s"
                          : "%.1f %s",
             value, units[unit]);
    return text;
}

int64_t tool_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- Numbers ---- */

bool tool_read_integer(const char *text, int64_t minimum, int64_t maximum, int64_t *value)
{
    char *end;
    if (!text[0] || !strchr("-0123456789", text[0]))
        return false;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno || *end || end == text || number < minimum || number > maximum)
        return false;
    *value = number;
    return true;
}

bool tool_take_integer(const tool_common *common, const char *name, int64_t minimum,
                       int64_t maximum, int64_t *value)
{
    if (tool_read_integer(optarg, minimum, maximum, value))
        return true;
    tool_usage(common, "--%s takes a whole number from %lld to %lld, not '%s'", name,
               (long long)minimum, (long long)maximum, optarg);
    return false;
}

bool tool_read_number(const char *text, double *value)
{
    char *end;
    if (!text[0] || !strchr("+-.0123456789", text[0]))
        return false;
    double number = strtod(text, &end);
    if (*end || end == text || !isfinite(number))
        return false;
    *value = number;
    return true;
}

/* ---- Options ---- */

static bool take_setting(tool_common *common, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        tool_usage(common, "--set takes PATH=VALUE, such as threads.count=2, not '%s'", text);
        return false;
    }
    *equals = '\0';
    common->settings =
        tool_grow(common->settings, common->setting_count + 1, sizeof *common->settings);
    common->settings[common->setting_count++] = (kiln_setting){text, equals + 1};
    return true;
}

static const char *nearest_option(const char *word, const struct option *options)
{
    const char *names[64];
    size_t count = 0;
    for (; options[count].name && count < 64; count++)
        names[count] = options[count].name;
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(word, "="), word);
    return kiln_yaml_nearest(text, names, count);
}

static int wrong_option(tool_common *common, int argc, char **argv, const struct option *options)
{
    const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
    /* A letter that is none may stand anywhere in its word. */
    if (strncmp(word, "--", 2) != 0) {
        tool_usage(common, "unknown option '-%c'", optopt);
        return '?';
    }
    for (const struct option *option = options; option->name; option++)
        if (optopt && option->val == optopt && !option->has_arg) {
            tool_usage(common, "option '--%s' takes no value", option->name);
            return '?';
        }
    const char *near = nearest_option(word + 2, options);
    tool_usage(common, "unknown option '%s'%s%s%s", word, near ? " (did you mean '--" : "",
               near ? near : "", near ? "'?)" : "");
    return '?';
}

int tool_next_option(tool_common *common, int argc, char **argv, const struct option *options)
{
    opterr = 0;
    for (;;) {
        int option = getopt_long(argc, argv, ":h", options, NULL);
        switch (option) {
        case TOOL_OPTION_PROFILE:
            common->profile = optarg;
            break;
        case TOOL_OPTION_SET:
            if (!take_setting(common, optarg))
                return '?';
            break;
        case TOOL_OPTION_ISOLATED:
            common->isolated = true;
            break;
        case TOOL_OPTION_JSON:
            common->json = true;
            break;
        case ':':
            tool_usage(common, "option '%s' needs a value", argv[optind - 1]);
            return '?';
        case '?':
            return wrong_option(common, argc, argv, options);
        default:
            return option;
        }
    }
}

void tool_common_free(tool_common *common)
{
    free(common->settings);
    common->settings = NULL;
    common->setting_count = 0;
}

/* ---- Runtime ---- */

static void print_log(void *context, int level, const char *message)
{
    const tool_common *common = context;
    if (level <= KILN_LOG_WARNING)
        fprintf(stderr, "%s: %s%s\n", common->command, level == KILN_LOG_WARNING ? "warning: " : "",
                message);
}

bool tool_runtime_open(const tool_common *common, kiln_runtime **runtime)
{
    kiln_runtime_options options = {
        .struct_size = sizeof options,
        .flags = common->isolated ? KILN_RUNTIME_ISOLATED : 0,
        .profile = common->profile,
        .settings = common->settings,
        .setting_count = common->setting_count,
        .log = print_log,
        .log_context = (void *)common,
    };
    if (kiln_runtime_open(&options, runtime) == KILN_OK)
        return true;
    tool_fail(common, "%s", kiln_last_error());
    return false;
}
