/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `kiln check-plugin` share. */
#ifndef KILN_TOOLS_CHECK_PLUGIN_H
#define KILN_TOOLS_CHECK_PLUGIN_H

#include <stdio.h>

#include "conformance/plugin.h"
#include "tools/kiln/command.h"

/* A line of the skip file: a check that is known to fail, and why. */
typedef struct plugin_skip {
    char *name;
    char *reason;
    int line;
    bool used;
    const char *unused_because; /* set when `used` is false */
} plugin_skip;

typedef struct plugin_skips {
    const char *file; /* NULL = none */
    plugin_skip *items;
    size_t count;
} plugin_skips;

/* Reads lines "CHECK REASON"; empty ones and those that begin with # say nothing. Prints what is
 * wrong and returns false. */
bool plugin_skips_read(const tool_common *common, const char *file, plugin_skips *skips);
void plugin_skips_free(plugin_skips *skips);
plugin_skip *plugin_skips_find(plugin_skips *skips, const char *name);

/* One check and its end. */
typedef struct plugin_result {
    const conformance_check *check;
    conformance_report report;
    const plugin_skip *skip; /* it failed as foreseen */
    double seconds;
} plugin_result;

/* A session: what was asked, and what came of it. */
typedef struct plugin_session {
    tool_common common;
    conformance_subject subject;
    conformance_level level;
    plugin_skips skips;
    const char *junit;
    const char **only; /* patterns; none = all */
    size_t only_count;
    char version[128], vendor[128];
    int64_t abi_minor; /* -1 = it could not be loaded */
    bool operators_known;
    char operators[1024]; /* that it offers, a line each; or why they are not known */
    char file_hash[40];
    plugin_result *results;
    size_t result_count;
    int64_t passed, failed, skipped, not_applicable, unused_skips;
    uint64_t vectors;
    const char *blocked_by; /* a check without which the others are in vain; NULL = none */
    const char *running;    /* name of the check under way */
    int64_t began_ns;
    bool shown; /* a line of progress is on the terminal */
} plugin_session;

static inline const char *plugin_level_name(conformance_level level)
{
    static const char *const names[] = {"?", "abi", "device", "op", "stress"};
    return names[level];
}

/* Whether the plugin has no certificate: a check failed or a skip was not needed; or operators were
 * looked at, but no result of theirs could be compared with what it must be. */
bool plugin_is_refused(const plugin_session *session);

/* "passed", "failed", "skipped" or "not applicable". */
const char *plugin_result_name(const plugin_result *result);

/* ---- Operators that the plugin offers ---- */

/* Asks the plugin, in a process of its own. */
void plugin_ask_operators(plugin_session *session);

/* "kiln.gemm/1: results compared; acme.axpy/1: query and plan tried, never run"; free() it. */
char *plugin_operators_text(const plugin_session *session);

/* The same as an array of objects with `name` and `found`. */
json_t *plugin_operators_json(const plugin_session *session);

/* Names of those of which no result was compared, separated by commas; free() it. */
char *plugin_operators_unseen(const plugin_session *session);

/* ---- Reports ---- */

void plugin_print_tap(const plugin_result *result, size_t number);
void plugin_print_end(const plugin_session *session);
json_t *plugin_json(const plugin_session *session);

/* Writes the file whole or not at all; prints why not and returns false. */
bool plugin_write_junit(const plugin_session *session);

#endif
