/* SPDX-License-Identifier: Apache-2.0 */
/* The operators that a plugin offers, and how far the checks went with each: those that Kiln does
 * not know are never run. */
#include <stdlib.h>
#include <string.h>

#include "conformance/plugin/load.h"
#include "tools/kiln/check_plugin.h"

/* ---- In the process of a check ---- */

/* A line each, of what is offered with the options; the last is "others" where there is no room. */
static void list_operators(const conformance_subject *subject, conformance_report *report)
{
    static const char others[] = "others\n";
    conformance_plugin plugin;
    conformance_instance instance;
    kiln_operator_table table;
    char text[sizeof report->text] = "";
    size_t used = 0;
    if (!conformance_load_and_open(&plugin, &instance, subject, report))
        return;
    for (int64_t i = 0; plugin.table.interfaces[i]; i++) {
        const char *name = plugin.table.interfaces[i];
        if (!conformance_operator(&instance, name, &table))
            continue;
        if (used + strlen(name) + 1 + sizeof others > sizeof text) {
            strcpy(text + used, others);
            break;
        }
        used += (size_t)sprintf(text + used, "%s\n", name);
    }
    conformance_close(&instance);
    strcpy(report->text, text);
}

/* ---- In the program ---- */

void plugin_ask_operators(plugin_session *session)
{
    static const conformance_check check = {"abi.operators", CONFORMANCE_LEVEL_ABI, "",
                                            list_operators, 0};
    conformance_report report;
    conformance_run_check(&check, &session->subject, &report);
    snprintf(session->operators, sizeof session->operators, "%s", report.text);
    session->operators_known = report.verdict == CONFORMANCE_CHECK_PASSED;
}

/* What the names of checks of an operator of Kiln's begin with: "op.gemm." of "kiln.gemm/1". False
 * for others. */
static bool prefix_of(const char *operator_name, char prefix[64])
{
    static const char ours[] = "kiln.";
    if (strncmp(operator_name, ours, sizeof ours - 1) != 0)
        return false;
    const char *rest = operator_name + sizeof ours - 1;
    size_t length = strcspn(rest, "/");
    snprintf(prefix, 64, "op.%.*s.", length < 40 ? (int)length : 40, rest);
    return true;
}

static bool is_compared(const plugin_session *session, const char *operator_name)
{
    char prefix[64];
    if (!prefix_of(operator_name, prefix))
        return false;
    for (size_t i = 0; i < session->result_count; i++) {
        const plugin_result *result = &session->results[i];
        if (result->check->level == CONFORMANCE_LEVEL_OP && result->report.judged > 0 &&
            result->report.verdict != CONFORMANCE_CHECK_NOT_APPLICABLE &&
            strncmp(result->check->name, prefix, strlen(prefix)) == 0)
            return true;
    }
    return false;
}

/* Checks of levels op and stress run an operator of Kiln's; no check runs another. */
static const char *found_of(const plugin_session *session, const char *operator_name)
{
    char prefix[64];
    if (is_compared(session, operator_name))
        return "results compared";
    return session->level >= CONFORMANCE_LEVEL_OP && prefix_of(operator_name, prefix)
               ? "no result compared"
               : "query and plan tried, never run";
}

/* Calls visit(argument, name, found) for each operator. */
static void for_each(const plugin_session *session,
                     void (*visit)(void *argument, const char *name, const char *found),
                     void *argument)
{
    char *copy = tool_text("%s", session->operators_known ? session->operators : ""), *rest = copy;
    for (char *name; (name = strsep(&rest, "\n"));)
        if (*name)
            visit(argument, name, found_of(session, name));
    free(copy);
}

static void add_text(void *argument, const char *name, const char *found)
{
    char **text = argument;
    char *longer = tool_text("%s%s%s: %s", *text, **text ? "; " : "", name, found);
    free(*text);
    *text = longer;
}

char *plugin_operators_text(const plugin_session *session)
{
    if (!session->operators_known)
        return tool_text("not known%s%s", *session->operators ? ": " : "", session->operators);
    char *text = tool_text("%s", "");
    for_each(session, add_text, &text);
    if (*text)
        return text;
    free(text);
    return tool_text("none");
}

static void add_json(void *argument, const char *name, const char *found)
{
    json_array_append_new(argument, json_pack("{s:s, s:s}", "name", name, "found", found));
}

json_t *plugin_operators_json(const plugin_session *session)
{
    json_t *list = json_array();
    for_each(session, add_json, list);
    return list;
}

typedef struct unseen {
    const plugin_session *session;
    char *names;
} unseen;

static void add_unseen(void *argument, const char *name, const char *found)
{
    unseen *self = argument;
    (void)found;
    if (is_compared(self->session, name))
        return;
    char *longer = tool_text("%s%s%s", self->names, *self->names ? ", " : "", name);
    free(self->names);
    self->names = longer;
}

char *plugin_operators_unseen(const plugin_session *session)
{
    unseen self = {session, tool_text("%s", "")};
    for_each(session, add_unseen, &self);
    return self.names;
}
