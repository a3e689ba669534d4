/* SPDX-License-Identifier: Apache-2.0 */
/* kiln check-plugin: the checks of a plugin, each in a process of its own. */
#include "tools/kiln/check_plugin.h"

#include <fnmatch.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance/hash.h"
#include "conformance/plugin/load.h"
#include "support/yaml.h"
#include "tools/io/digest.h"

enum {
    OPTION_LEVEL = TOOL_OPTION_OWN,
    OPTION_SEED,
    OPTION_CASES,
    OPTION_SKIP,
    OPTION_ONLY,
    OPTION_LIST,
    OPTION_OPTION,
    OPTION_JUNIT,
    OPTION_TIME_LIMIT
};

static const struct option options[] = {
    {"help", no_argument, NULL, TOOL_OPTION_HELP},
    {"json", no_argument, NULL, TOOL_OPTION_JSON},
    {"level", required_argument, NULL, OPTION_LEVEL},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"cases", required_argument, NULL, OPTION_CASES},
    {"skip", required_argument, NULL, OPTION_SKIP},
    {"only", required_argument, NULL, OPTION_ONLY},
    {"list", no_argument, NULL, OPTION_LIST},
    {"option", required_argument, NULL, OPTION_OPTION},
    {"junit", required_argument, NULL, OPTION_JUNIT},
    {"time-limit", required_argument, NULL, OPTION_TIME_LIMIT},
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "usage: kiln check-plugin [OPTION…] FILE.so\n"
    "       kiln check-plugin --list [--level LEVEL]\n"
    "\n"
    "Checks that a plugin keeps the contract of <kiln/plugin.h>. Each check runs in a process of\n"
    "its own, so that a plugin that crashes, hangs or exits fails that check and no more. Prints\n"
    "TAP; the last lines are the verdict.\n"
    "\n"
    "Options:\n"
    "  --level LEVEL        how far: abi, device, op or stress, each with those before it\n"
    "                       (stress)\n"
    "  --seed N             of what is drawn at random (1)\n"
    "  --cases N            random cases of an operator (1000); of what is served at least 200\n"
    "  --option KEY=VALUE   an option of the plugin, as in options.NAME of a profile; may be\n"
    "                       repeated\n"
    "  --only PATTERN       only checks of this name, where * stands for anything; may be "
    "repeated\n"
    "  --skip FILE          checks that are known to fail, one a line, each with a reason; one "
    "that\n"
    "                       does not fail is an error\n"
    "  --junit FILE         write a report in JUnit's XML, too\n"
    "  --time-limit S       seconds that a check may take, in place of its own limit\n"
    "  --list               print the checks and what each demands, and check nothing\n"
    "  --json               print JSON in place of TAP\n"
    "  -h, --help           print this text\n"
    "\n"
    "Exit codes: 0 all passed, 1 some failed, 2 wrong usage.\n";

/* ---- The checks ---- */

static const struct {
    const conformance_check *checks;
    const size_t *count;
} levels[] = {
    {conformance_abi_checks, &conformance_abi_check_count},
    {conformance_device_checks, &conformance_device_check_count},
    {conformance_op_checks, &conformance_op_check_count},
    {conformance_stress_checks, &conformance_stress_check_count},
};

enum { LEVELS = sizeof levels / sizeof levels[0] };

static bool is_selected(const plugin_session *self, const conformance_check *check)
{
    if (check->level > self->level)
        return false;
    bool selected = self->only_count == 0;
    for (size_t i = 0; i < self->only_count && !selected; i++)
        selected = fnmatch(self->only[i], check->name, 0) == 0;
    return selected;
}

/* The next check after `check` (NULL = the first) that satisfies, or any when `all`. */
static const conformance_check *next_check(const plugin_session *self, size_t *level, size_t *index,
                                           bool all)
{
    for (; *level < LEVELS; ++*level, *index = 0)
        while (*index < *levels[*level].count) {
            const conformance_check *check = &levels[*level].checks[(*index)++];
            if (all || is_selected(self, check))
                return check;
        }
    return NULL;
}

static const conformance_check *find_check(const plugin_session *self, const char *name)
{
    size_t level = 0, index = 0;
    const conformance_check *check;
    while ((check = next_check(self, &level, &index, true)) && strcmp(check->name, name) != 0)
        ;
    return check;
}

static void list_checks(const plugin_session *self)
{
    size_t level = 0, index = 0;
    const conformance_check *check;
    while ((check = next_check(self, &level, &index, false)))
        printf("%-32s %s\n", check->name, check->what);
}

/* ---- Running ---- */

static plugin_session *current; /* for interrupted(), which has no argument */

static void hide_progress(plugin_session *self)
{
    if (self->shown)
        fputs("\r\033[K", stderr);
    self->shown = false;
}

/* Asked often while a check runs; says on a terminal which one it is, once it takes long. */
static bool interrupted(void)
{
    plugin_session *self = current;
    int64_t seconds = (tool_now_ns() - self->began_ns) / 1000000000;
    if (self->running && seconds >= 2 && isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K%s: %s (%lld s)", self->common.command, self->running,
                (long long)seconds);
        fflush(stderr);
        self->shown = true;
    }
    return tool_interrupted() != 0;
}

/* What a plugin says of itself, as three lines. Runs as a check does: the program never loads it.
 */
static void describe(const conformance_subject *subject, conformance_report *report)
{
    conformance_plugin plugin;
    if (!conformance_load(&plugin, subject, report))
        return;
    snprintf(report->text, sizeof report->text, "%llu\n%.120s\n%.120s",
             (unsigned long long)plugin.table.abi_minor,
             plugin.table.version ? plugin.table.version : "?",
             plugin.table.vendor ? plugin.table.vendor : "?");
}

static void ask_description(plugin_session *self)
{
    static const conformance_check check = {"abi.describe", CONFORMANCE_LEVEL_ABI, "", describe, 0};
    conformance_report report;
    conformance_run_check(&check, &self->subject, &report);
    self->abi_minor = -1;
    snprintf(self->version, sizeof self->version, "?");
    snprintf(self->vendor, sizeof self->vendor, "?");
    if (report.verdict != CONFORMANCE_CHECK_PASSED)
        return;
    char *rest = report.text, *minor = strsep(&rest, "\n"), *version = strsep(&rest, "\n");
    self->abi_minor = strtoll(minor, NULL, 10);
    snprintf(self->version, sizeof self->version, "%s", version ? version : "?");
    snprintf(self->vendor, sizeof self->vendor, "%s", rest ? rest : "?");
}

static void count_result(plugin_session *self, plugin_result *result)
{
    plugin_skip *skip = plugin_skips_find(&self->skips, result->check->name);
    if (result->report.verdict == CONFORMANCE_CHECK_FAILED && skip) {
        skip->used = true;
        result->skip = skip;
        self->skipped++;
    } else if (result->report.verdict == CONFORMANCE_CHECK_FAILED) {
        self->failed++;
    } else if (result->report.verdict == CONFORMANCE_CHECK_NOT_APPLICABLE) {
        self->not_applicable++;
    } else {
        self->passed++;
    }
    if (skip && !skip->used)
        skip->unused_because = result->report.verdict == CONFORMANCE_CHECK_PASSED
                                   ? "the check passes"
                                   : "the check does not apply to this plugin";
    self->vectors =
        conformance_hash(self->vectors, result->check->name, strlen(result->check->name) + 1);
    self->vectors =
        conformance_hash(self->vectors, &result->report.vectors, sizeof result->report.vectors);
}

/* A plugin that cannot be loaded, or opened, would fail every other check for the same reason, and
 * one that hangs would do so for hours. */
static void block_others(plugin_session *self, const plugin_result *result)
{
    static const char *const needed[] = {"abi.loads", "abi.opens"};
    bool failed = result->report.verdict == CONFORMANCE_CHECK_FAILED && !result->skip;
    for (size_t i = 0; failed && !self->blocked_by && i < sizeof needed / sizeof needed[0]; i++)
        if (strcmp(result->check->name, needed[i]) == 0)
            self->blocked_by = needed[i];
}

/* What prints in one check prints in many: one failure says so for all. */
static void note_output(plugin_session *self, const plugin_result *result)
{
    if (result->report.verdict == CONFORMANCE_CHECK_FAILED &&
        strcmp(result->check->name, "abi.silent") == 0)
        self->subject.known_to_print = true;
}

static void run_unless_blocked(plugin_session *self, plugin_result *result)
{
    if (!self->blocked_by) {
        conformance_run_check(result->check, &self->subject, &result->report);
        return;
    }
    result->report.verdict = CONFORMANCE_CHECK_NOT_APPLICABLE;
    snprintf(result->report.text, sizeof result->report.text, "not tried, since %s fails",
             self->blocked_by);
}

static void run_one(plugin_session *self, const conformance_check *check)
{
    self->results = tool_grow(self->results, self->result_count + 1, sizeof *self->results);
    plugin_result *result = &self->results[self->result_count];
    memset(result, 0, sizeof *result);
    result->check = check;
    self->running = check->name;
    self->began_ns = tool_now_ns();
    run_unless_blocked(self, result);
    result->seconds = (double)(tool_now_ns() - self->began_ns) * 1e-9;
    self->running = NULL;
    hide_progress(self);
    if (tool_interrupted())
        return;
    self->result_count++;
    count_result(self, result);
    block_others(self, result);
    note_output(self, result);
    if (!self->common.json) {
        plugin_print_tap(result, self->result_count);
        fflush(stdout);
    }
}

/* Skips that no check used: of a check that is not there, not in the level, or does not fail. Those
 * of checks that --only leaves out say nothing. */
static void judge_skips(plugin_session *self)
{
    for (size_t i = 0; i < self->skips.count; i++) {
        plugin_skip *skip = &self->skips.items[i];
        const conformance_check *check = find_check(self, skip->name);
        if (!check)
            skip->unused_because = "there is no such check";
        else if (check->level > self->level)
            skip->unused_because = "the check is not in the level";
        self->unused_skips += !skip->used && skip->unused_because;
    }
}

static int run_all(plugin_session *self)
{
    size_t level = 0, index = 0;
    const conformance_check *check;
    current = self;
    self->subject.interrupted = interrupted;
    ask_description(self);
    if (!self->common.json)
        puts("TAP version 13");
    while (!tool_interrupted() && (check = next_check(self, &level, &index, false)))
        run_one(self, check);
    if (!tool_interrupted() && self->only_count == 0 && !self->blocked_by)
        plugin_ask_operators(self);
    if (tool_interrupted()) {
        if (!self->common.json)
            printf("Bail out! stopped by signal %d\n", tool_interrupted());
        tool_fail(&self->common, "stopped by signal %d; the process of the check was ended",
                  tool_interrupted());
        return 128 + tool_interrupted();
    }
    judge_skips(self);
    int code = plugin_is_refused(self) ? TOOL_FAILED : TOOL_OK;
    if (self->junit && !plugin_write_junit(self))
        code = TOOL_FAILED;
    if (self->common.json)
        return tool_print_json(&self->common, plugin_json(self)) == TOOL_OK ? code : TOOL_FAILED;
    plugin_print_end(self);
    return code;
}

/* ---- Reading the command line ---- */

static bool read_level(plugin_session *self, const char *text)
{
    for (conformance_level level = CONFORMANCE_LEVEL_ABI; level <= CONFORMANCE_LEVEL_STRESS;
         level++)
        if (strcmp(text, plugin_level_name(level)) == 0) {
            self->level = level;
            return true;
        }
    tool_usage(&self->common, "--level is abi, device, op or stress, not '%s'", text);
    return false;
}

/* A value as it may stand in YAML flow: what is not plain gets quotes. */
static char *quoted(const char *value)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-/";
    if (*value && !value[strspn(value, plain)])
        return tool_text("%s", value);
    char *text = tool_allocate(2 * strlen(value) + 3, 1), *end = text;
    *end++ = '\'';
    for (; *value; value++) {
        if (*value == '\'')
            *end++ = '\'';
        *end++ = *value;
    }
    *end++ = '\'';
    return text;
}

/* Adds to the flow mapping that subject.options is, "" at first. */
static bool add_option(plugin_session *self, const char *text)
{
    const char *equals = strchr(text, '=');
    size_t key = equals ? (size_t)(equals - text) : 0;
    if (!key || strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-") != key) {
        tool_usage(&self->common, "--option takes KEY=VALUE, such as devices=2, not '%s'", text);
        return false;
    }
    const char *former = self->subject.options;
    char *value = quoted(equals + 1);
    char *joined = tool_text("%.*s%s%.*s: %s}", *former ? (int)strlen(former) - 1 : 1,
                             *former ? former : "{", *former ? ", " : "", (int)key, text, value);
    if (*former)
        free((char *)former);
    free(value);
    self->subject.options = joined;
    return true;
}

static bool take_option(plugin_session *self, int option, const char **skip_file)
{
    int64_t seed, seconds;
    switch (option) {
    case OPTION_LEVEL:
        return read_level(self, optarg);
    case OPTION_SEED:
        if (!tool_take_integer(&self->common, "seed", 0, INT64_MAX, &seed))
            return false;
        self->subject.seed = (uint64_t)seed;
        return true;
    case OPTION_CASES:
        return tool_take_integer(&self->common, "cases", 1, INT64_MAX, &self->subject.cases);
    case OPTION_SKIP:
        *skip_file = optarg;
        return true;
    case OPTION_ONLY:
        self->only = tool_grow(self->only, self->only_count + 1, sizeof *self->only);
        self->only[self->only_count++] = optarg;
        return true;
    case OPTION_OPTION:
        return add_option(self, optarg);
    case OPTION_JUNIT:
        self->junit = optarg;
        return true;
    case OPTION_TIME_LIMIT:
        if (!tool_take_integer(&self->common, "time-limit", 1, 1000000, &seconds))
            return false;
        self->subject.time_limit_s = (int)seconds;
        return true;
    default:
        return false;
    }
}

/* The path without links in its folder, but with the file's own name, which is the plugin's. */
static bool take_file(plugin_session *self, const char *path, char **name)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    char *folder = slash == path ? tool_text("/")
                   : slash       ? tool_text("%.*s", (int)(slash - path), path)
                                 : tool_text("."),
         *real = realpath(folder, NULL);
    char *whole = real ? tool_text("%s/%s", strcmp(real, "/") == 0 ? "" : real, file) : NULL;
    free(folder);
    free(real);
    if (!whole || !*file || access(whole, R_OK) != 0) {
        tool_usage(&self->common, "%s: there is no such file, or it cannot be read", path);
        free(whole);
        return false;
    }
    size_t length = strlen(file);
    if (length > 3 && strcmp(file + length - 3, ".so") == 0)
        length -= 3;
    *name = tool_text("%.*s", (int)length, file);
    self->subject.path = whole;
    self->subject.name = *name;
    return true;
}

/* A pattern that selects nothing is a slip of the pen. */
static bool check_patterns(const plugin_session *self)
{
    for (size_t i = 0; i < self->only_count; i++) {
        size_t level = 0, index = 0;
        const conformance_check *check;
        while ((check = next_check(self, &level, &index, true)) &&
               (check->level > self->level || fnmatch(self->only[i], check->name, 0) != 0))
            ;
        if (!check) {
            tool_usage(&self->common, "--only %s: level %s has no such check; see --list",
                       self->only[i], plugin_level_name(self->level));
            return false;
        }
    }
    return true;
}

static int check_file(plugin_session *self, const char *path)
{
    char *name = NULL;
    if (!take_file(self, path, &name))
        return TOOL_USAGE;
    if (!file_digest(self->subject.path, self->file_hash))
        snprintf(self->file_hash, sizeof self->file_hash, "?");
    int code = run_all(self);
    free(name);
    free((char *)self->subject.path);
    return code;
}

static int command(plugin_session *self, int argc, char **argv)
{
    const char *skip_file = NULL;
    bool list = false;
    int option;
    while ((option = tool_next_option(&self->common, argc, argv, options)) != -1) {
        if (option == TOOL_OPTION_HELP) {
            fputs(help, stdout);
            return TOOL_OK;
        }
        if (option == OPTION_LIST)
            list = true;
        else if (option == '?' || !take_option(self, option, &skip_file))
            return TOOL_USAGE;
    }
    if (!check_patterns(self))
        return TOOL_USAGE;
    if (list && argc > optind)
        return tool_usage(&self->common, "--list takes no file '%s'", argv[optind]);
    if (list) {
        list_checks(self);
        return TOOL_OK;
    }
    if (argc - optind != 1)
        return tool_usage(&self->common, argc == optind
                                             ? "name the plugin's file, such as ./acme.so"
                                             : "one plugin at a time");
    if (skip_file && !plugin_skips_read(&self->common, skip_file, &self->skips))
        return TOOL_USAGE;
    return check_file(self, argv[optind]);
}

int kiln_check_plugin_main(int argc, char **argv)
{
    plugin_session self = {
        .common = {.command = "kiln check-plugin"},
        .subject = {.options = "", .seed = 1, .cases = 1000},
        .level = CONFORMANCE_LEVEL_STRESS,
    };
    tool_catch_interrupts();
    int code = command(&self, argc, argv);
    if (*self.subject.options)
        free((char *)self.subject.options);
    free(self.only);
    free(self.results);
    plugin_skips_free(&self.skips);
    tool_common_free(&self.common);
    return code;
}
