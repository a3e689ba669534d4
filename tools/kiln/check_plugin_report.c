/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks of a plugin found: TAP, JSON, JUnit's XML, and the verdict. */
#include "tools/kiln/check_plugin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kiln/plugin.h"

const char *plugin_result_name(const plugin_result *result)
{
    if (result->skip)
        return "skipped";
    return result->report.verdict == CONFORMANCE_CHECK_PASSED   ? "passed"
           : result->report.verdict == CONFORMANCE_CHECK_FAILED ? "failed"
                                                                : "not applicable";
}

/* What the checks of operators came to. */
typedef struct operators {
    bool looked_at; /* one of these checks has passed */
    bool judged;    /* and has compared a result with what it must be */
    bool skipped;   /* one of them is known to fail */
} operators;

static operators operators_of(const plugin_session *session)
{
    operators found = {false, false, false};
    for (size_t i = 0; i < session->result_count; i++) {
        const plugin_result *result = &session->results[i];
        if (result->check->level != CONFORMANCE_LEVEL_OP)
            continue;
        found.skipped |= result->skip != NULL;
        if (result->report.verdict != CONFORMANCE_CHECK_PASSED)
            continue;
        found.looked_at = true;
        found.judged |= result->report.judged > 0;
    }
    return found;
}

/* Operators that say yes to everything and compute nothing pass checks as well. */
static bool computes_nothing(const plugin_session *session)
{
    operators found = operators_of(session);
    return session->only_count == 0 && found.looked_at && !found.judged;
}

bool plugin_is_refused(const plugin_session *session)
{
    return session->failed || session->unused_skips || computes_nothing(session);
}

/* The highest level up to the one asked for of which something applies: a plugin without operators
 * has no certificate for them. */
static conformance_level level_of(const plugin_session *session)
{
    bool none = session->level >= CONFORMANCE_LEVEL_OP && !operators_of(session).looked_at;
    return none ? CONFORMANCE_LEVEL_DEVICE : session->level;
}

/* Valid until the next call. */
static const char *verdict_text(const plugin_session *session)
{
    static char text[1536];
    if (session->failed || session->unused_skips)
        return "not certified";
    if (computes_nothing(session))
        return "not certified: no check of level op could compare a computed result";
    if (session->only_count)
        return "the selected checks pass; a part is no certificate";
    conformance_level level = level_of(session);
    snprintf(text, sizeof text, "certified at level %s%s: %lld passed, %lld not applicable%s",
             plugin_level_name(level), session->skipped ? ", but for what was skipped" : "",
             (long long)session->passed, (long long)session->not_applicable,
             level == session->level         ? ""
             : operators_of(session).skipped ? "; of the levels above, what applies was skipped"
                                             : "; it has no operator that the levels above know");
    char *unseen = plugin_operators_unseen(session);
    size_t used = strlen(text);
    if (*unseen && session->level >= CONFORMANCE_LEVEL_OP)
        snprintf(text + used, sizeof text - used, "; results of %s were not looked at", unseen);
    free(unseen);
    return text;
}

/* ---- TAP ---- */

static void print_quoted(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\\n", stdout);
        else if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else
            putchar(*text);
    }
    putchar('"');
}

/* One line, without the # that would begin a directive. */
static void print_remark(const char *text)
{
    for (; *text; text++)
        putchar(*text == '\n' ? ' ' : *text == '#' ? '*' : *text);
}

void plugin_print_tap(const plugin_result *result, size_t number)
{
    const conformance_report *report = &result->report;
    bool bad = report->verdict == CONFORMANCE_CHECK_FAILED && !result->skip;
    printf("%s %zu - %s", bad ? "not ok" : "ok", number, result->check->name);
    if (result->skip) {
        fputs(" # SKIP ", stdout);
        print_remark(result->skip->reason);
    } else if (report->verdict == CONFORMANCE_CHECK_NOT_APPLICABLE) {
        fputs(" # SKIP not applicable: ", stdout);
        print_remark(report->text);
    }
    putchar('\n');
    if (!bad)
        return;
    fputs("  ---\n  message: ", stdout);
    print_quoted(report->text);
    fputs("\n  demands: ", stdout);
    print_quoted(result->check->what);
    printf("\n  cases: %lld\n  seconds: %.2f\n  ...\n", (long long)report->cases, result->seconds);
}

static void print_unused(const plugin_session *session, size_t *number)
{
    for (size_t i = 0; i < session->skips.count; i++) {
        const plugin_skip *skip = &session->skips.items[i];
        if (skip->used || !skip->unused_because)
            continue;
        printf("not ok %zu - skip of %s\n  ---\n  message: ", ++*number, skip->name);
        char *text = tool_text("%s:%d: %s; take the line out", session->skips.file, skip->line,
                               skip->unused_because);
        print_quoted(text);
        fputs("\n  ...\n", stdout);
        free(text);
    }
}

void plugin_print_end(const plugin_session *session)
{
    size_t number = session->result_count;
    print_unused(session, &number);
    printf("1..%zu\n", number);
    fputs("# plugin   ", stdout);
    print_remark(session->subject.name);
    putchar(' ');
    print_remark(session->version);
    fputs(", by ", stdout);
    print_remark(session->vendor);
    printf("\n# file     %s\n# hash     xxh3-128 %s\n", session->subject.path, session->file_hash);
    printf("# abi      %d.%d; the plugin's is ", KILN_PLUGIN_ABI_MAJOR, KILN_PLUGIN_ABI_MINOR);
    if (session->abi_minor < 0)
        puts("unknown, since it cannot be loaded");
    else
        printf("%d.%lld\n", KILN_PLUGIN_ABI_MAJOR, (long long)session->abi_minor);
    printf("# level    %s, seed %llu, %lld cases\n", plugin_level_name(session->level),
           (unsigned long long)session->subject.seed, (long long)session->subject.cases);
    if (*session->subject.options)
        printf("# options  %s\n", session->subject.options);
    printf("# vectors  %016llx\n", (unsigned long long)session->vectors);
    printf("# checks   %lld passed, %lld failed, %lld skipped, %lld not applicable",
           (long long)session->passed, (long long)session->failed, (long long)session->skipped,
           (long long)session->not_applicable);
    if (session->unused_skips)
        printf("; %lld skip%s not used", (long long)session->unused_skips,
               session->unused_skips == 1 ? "" : "s");
    if (session->only_count == 0) {
        char *offered = plugin_operators_text(session);
        fputs("\n# operators ", stdout);
        print_remark(offered);
        free(offered);
    }
    fputs("\n# verdict  ", stdout);
    print_remark(verdict_text(session));
    putchar('\n');
}

/* ---- JSON ---- */

static json_t *result_json(const plugin_result *result)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:f}", "name", result->check->name, "result",
        plugin_result_name(result), "demands", result->check->what, "text", result->report.text,
        "cases", (json_int_t)result->report.cases, "declined", (json_int_t)result->report.declined,
        "judged", (json_int_t)result->report.judged, "seconds", result->seconds);
    if (object && result->skip)
        json_object_set_new(object, "skip", json_string(result->skip->reason));
    return object;
}

static json_t *unused_json(const plugin_session *session)
{
    json_t *list = json_array();
    for (size_t i = 0; i < session->skips.count; i++)
        if (!session->skips.items[i].used && session->skips.items[i].unused_because)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s}", "name", session->skips.items[i].name,
                                            "because", session->skips.items[i].unused_because));
    return list;
}

json_t *plugin_json(const plugin_session *session)
{
    char vectors[17];
    json_t *checks = json_array();
    for (size_t i = 0; i < session->result_count; i++)
        json_array_append_new(checks, result_json(&session->results[i]));
    snprintf(vectors, sizeof vectors, "%016llx", (unsigned long long)session->vectors);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:I, s:I, s:s, s:I, s:I, s:I, s:I, "
        "s:o, s:o, s:o, s:b, s:s}",
        "plugin", session->subject.name, "version", session->version, "vendor", session->vendor,
        "file", session->subject.path, "xxh3_128", session->file_hash, "abi_major",
        (json_int_t)KILN_PLUGIN_ABI_MAJOR, "abi_minor", (json_int_t)KILN_PLUGIN_ABI_MINOR,
        "plugin_abi_minor", (json_int_t)session->abi_minor, "level",
        plugin_level_name(session->level), "options", session->subject.options, "seed",
        (json_int_t)session->subject.seed, "cases", (json_int_t)session->subject.cases, "vectors",
        vectors, "passed", (json_int_t)session->passed, "failed", (json_int_t)session->failed,
        "skipped", (json_int_t)session->skipped, "not_applicable",
        (json_int_t)session->not_applicable, "checks", checks, "unused_skips", unused_json(session),
        "operators", plugin_operators_json(session), "certified",
        !plugin_is_refused(session) && session->only_count == 0, "verdict", verdict_text(session));
}

/* ---- JUnit ---- */

static void write_escaped(FILE *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\n':
            fputs("&#10;", out);
            break;
        default:
            if ((unsigned char)*text >= 0x20)
                putc(*text, out);
        }
}

static void write_attribute(FILE *out, const char *name, const char *text)
{
    fprintf(out, " %s=\"", name);
    write_escaped(out, text);
    putc('"', out);
}

static void write_property(FILE *out, const char *name, const char *text)
{
    fputs("    <property", out);
    write_attribute(out, "name", name);
    write_attribute(out, "value", text);
    fputs("/>\n", out);
}

static void write_end(FILE *out, const char *element, const char *message)
{
    fprintf(out, ">\n      <%s", element);
    write_attribute(out, "message", message);
    fputs("/>\n    </testcase>\n", out);
}

static void write_case(FILE *out, const plugin_session *session, const plugin_result *result)
{
    char *name = tool_text("%s.%s", session->subject.name, plugin_level_name(result->check->level));
    fputs("    <testcase", out);
    write_attribute(out, "classname", name);
    write_attribute(out, "name", result->check->name);
    fprintf(out, " time=\"%.3f\"", result->seconds);
    if (result->skip)
        write_end(out, "skipped", result->skip->reason);
    else if (result->report.verdict == CONFORMANCE_CHECK_FAILED)
        write_end(out, "failure", result->report.text);
    else if (result->report.verdict == CONFORMANCE_CHECK_NOT_APPLICABLE)
        write_end(out, "skipped", result->report.text);
    else
        fputs("/>\n", out);
    free(name);
}

static void write_unused(FILE *out, const plugin_session *session)
{
    for (size_t i = 0; i < session->skips.count; i++) {
        const plugin_skip *skip = &session->skips.items[i];
        if (skip->used || !skip->unused_because)
            continue;
        char *name = tool_text("skip of %s", skip->name);
        fputs("    <testcase classname=\"skips\"", out);
        write_attribute(out, "name", name);
        write_end(out, "failure", skip->unused_because);
        free(name);
    }
}

static void write_junit(FILE *out, const plugin_session *session)
{
    double seconds = 0;
    char text[40];
    for (size_t i = 0; i < session->result_count; i++)
        seconds += session->results[i].seconds;
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite", out);
    write_attribute(out, "name", "kiln check-plugin");
    fprintf(out,
            " tests=\"%lld\" failures=\"%lld\" errors=\"0\" skipped=\"%lld\" time=\"%.3f\">\n"
            "   <properties>\n",
            (long long)session->result_count + (long long)session->unused_skips,
            (long long)(session->failed + session->unused_skips),
            (long long)(session->skipped + session->not_applicable), seconds);
    write_property(out, "plugin", session->subject.name);
    write_property(out, "version", session->version);
    write_property(out, "file", session->subject.path);
    write_property(out, "xxh3_128", session->file_hash);
    write_property(out, "level", plugin_level_name(session->level));
    snprintf(text, sizeof text, "%d.%d", KILN_PLUGIN_ABI_MAJOR, KILN_PLUGIN_ABI_MINOR);
    write_property(out, "abi", text);
    snprintf(text, sizeof text, "%llu", (unsigned long long)session->subject.seed);
    write_property(out, "seed", text);
    snprintf(text, sizeof text, "%lld", (long long)session->subject.cases);
    write_property(out, "cases", text);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)session->vectors);
    write_property(out, "vectors", text);
    char *offered = plugin_operators_text(session);
    if (session->only_count == 0)
        write_property(out, "operators", offered);
    free(offered);
    write_property(out, "verdict", verdict_text(session));
    fputs("   </properties>\n", out);
    for (size_t i = 0; i < session->result_count; i++)
        write_case(out, session, &session->results[i]);
    write_unused(out, session);
    fputs("  </testsuite>\n</testsuites>\n", out);
}

bool plugin_write_junit(const plugin_session *session)
{
    char *temporary = tool_text("%s.XXXXXX", session->junit);
    int descriptor = mkstemp(temporary);
    FILE *out = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    bool whole = out != NULL;
    if (whole) {
        mode_t mask = umask(0);
        umask(mask);
        fchmod(descriptor, 0666 & ~mask);
        write_junit(out, session);
        whole = fflush(out) == 0 && !ferror(out) && fsync(descriptor) == 0;
        int problem = errno;
        whole = fclose(out) == 0 && whole;
        errno = whole ? 0 : errno ? errno : problem;
    } else if (descriptor >= 0) {
        close(descriptor);
    }
    whole = whole && rename(temporary, session->junit) == 0;
    if (!whole) {
        tool_fail(&session->common, "--junit %s: %s", session->junit, strerror(errno));
        if (descriptor >= 0)
            unlink(temporary);
    }
    free(temporary);
    return whole;
}
