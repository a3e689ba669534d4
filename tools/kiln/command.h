/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands of `kiln` share: their entries, the options that all of them take, messages,
 * interruption. */
#ifndef KILN_TOOLS_COMMAND_H
#define KILN_TOOLS_COMMAND_H

#include <getopt.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kiln/kiln.h"

/* Exit codes of every subcommand. Interrupted by a signal: 128 + its number. */
enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

/* One entry per subcommand; argv[0] is the subcommand's name. Each returns the exit code. */
int kiln_info_main(int argc, char **argv);
int kiln_explain_main(int argc, char **argv);
int kiln_run_main(int argc, char **argv);
int kiln_bench_main(int argc, char **argv);
int kiln_check_plugin_main(int argc, char **argv);

/* ---- Options ---- */

/* What the common options said. Text is argv's. */
typedef struct tool_common {
    const char *command; /* "kiln info", for messages */
    const char *profile; /* NULL = by precedence */
    kiln_setting *settings;
    uint64_t setting_count;
    bool isolated;
    bool json;
} tool_common;

/* Values of the common options in a getopt_long table; a subcommand's own values begin at
 * TOOL_OPTION_OWN. */
enum {
    TOOL_OPTION_HELP = 'h',
    TOOL_OPTION_PROFILE = 0x100,
    TOOL_OPTION_SET,
    TOOL_OPTION_ISOLATED,
    TOOL_OPTION_JSON,
    TOOL_OPTION_OWN = 0x200
};

/* Rows for a subcommand's getopt_long table. */
#define TOOL_COMMON_OPTIONS                                        \
    {"help", no_argument, NULL, TOOL_OPTION_HELP},                 \
        {"profile", required_argument, NULL, TOOL_OPTION_PROFILE}, \
        {"set", required_argument, NULL, TOOL_OPTION_SET},         \
        {"isolated", no_argument, NULL, TOOL_OPTION_ISOLATED},     \
    {                                                              \
        "json", no_argument, NULL, TOOL_OPTION_JSON                \
    }

/* The same, for help texts. */
#define TOOL_COMMON_HELP                                                       \
    "  --profile NAME|FILE  device profile: a name (\"ref\") or a YAML file\n" \
    "  --set PATH=VALUE     set one configuration value; may be repeated\n"    \
    "  --isolated           read no configuration files and no environment\n"  \
    "  --json               print JSON\n"                                      \
    "  -h, --help           print this text\n"

/* Next option as getopt_long gives it, -1 at the end of the options. Common options but --help are
 * taken into `common` and passed over. Returns '?' after having printed what is wrong: the
 * subcommand then returns TOOL_USAGE. Words and options may be mixed; words stand from argv[optind]
 * on at the end. */
int tool_next_option(tool_common *common, int argc, char **argv, const struct option *options);

/* Releases what tool_next_option() allocated. */
void tool_common_free(tool_common *common);

/* Opens a runtime by the common options; warnings go to standard error. Prints why not and returns
 * false on failure. */
bool tool_runtime_open(const tool_common *common, kiln_runtime **runtime);

/* A whole number within [minimum, maximum] or a finite number; false when `text` is something else.
 */
bool tool_read_integer(const char *text, int64_t minimum, int64_t maximum, int64_t *value);
bool tool_read_number(const char *text, double *value);

/* The argument of the option `name` that getopt has just read, as a whole number; prints what is
 * wanted and returns false when it is something else. */
bool tool_take_integer(const tool_common *common, const char *name, int64_t minimum,
                       int64_t maximum, int64_t *value);

/* ---- Messages ---- */

/* Print "COMMAND: sentence" on standard error and return TOOL_FAILED or TOOL_USAGE. tool_usage()
 * adds where the help is. */
int tool_fail(const tool_common *common, const char *format, ...) KILN_PRINTF(2, 3);
int tool_usage(const tool_common *common, const char *format, ...) KILN_PRINTF(2, 3);

/* Prints an object on standard output and releases it. Returns TOOL_OK, or TOOL_FAILED when memory
 * is exhausted. */
int tool_print_json(const tool_common *common, json_t *object);

/* Text for a number of bytes ("12.5 MiB") or nanoseconds ("3.4 ms"), in `text`, which is returned.
 */
const char *tool_bytes_text(int64_t bytes, char text[32]);
const char *tool_time_text(int64_t nanoseconds, char text[32]);

/* ---- Text in an array: what there is no room for is cut off ---- */

typedef struct tool_writer {
    char *text;
    size_t size, used;
} tool_writer;

void tool_write(tool_writer *self, const char *format, ...) KILN_PRINTF(2, 3);

/* ---- Memory: small things only; exhaustion ends the program with a message ---- */

void *tool_allocate(size_t count, size_t size); /* zeroed */
void *tool_grow(void *memory, size_t count, size_t size);
char *tool_text(const char *format, ...) KILN_PRINTF(1, 2);
char *tool_text_v(const char *format, va_list arguments) KILN_PRINTF(1, 0);

/* ---- Signals ---- */

/* SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT name the plugin at fault and end the program with
 * TOOL_FAILED. */
void tool_catch_crashes(void);

/* The first SIGINT or SIGTERM asks to stop, and the second one kills. For subcommands that ask
 * tool_interrupted(); the others are killed by the first. */
void tool_catch_interrupts(void);

/* The signal that asked to stop; 0 = none. */
int tool_interrupted(void);

/* ---- Time and progress ---- */

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t tool_now_ns(void);

/* Shows on standard error what is going on, once it has taken two seconds, when that is a terminal.
 * One at a time; begin and end on one thread. `format` gives what is going on now. */
void tool_progress_begin(const tool_common *common);
void tool_progress(const char *format, ...) KILN_PRINTF(1, 2);
void tool_progress_end(void);

#endif
