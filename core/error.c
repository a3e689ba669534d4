/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes and the per-thread sentence. */
#include "core/error.h"

#include <stdio.h>

_Thread_local kiln_visit kiln_thread;

static _Thread_local char sentence[KILN_SENTENCE];

kiln_status kiln_fail_v(kiln_status status, const char *format, va_list arguments)
{
    /* Through a second buffer, since an argument may be the former sentence. */
    char text[sizeof sentence];
    vsnprintf(text, sizeof text, format, arguments);
    memcpy(sentence, text, strlen(text) + 1);
    kiln_thread.failures++;
    return status;
}

kiln_status kiln_fail(kiln_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    kiln_fail_v(status, format, arguments);
    va_end(arguments);
    return status;
}

kiln_status kiln_fail_memory(const char *what)
{
    return kiln_fail(KILN_NO_MEMORY,
                     "out of host memory while making %s; free memory or ask for less", what);
}

const char *kiln_last_error(void)
{
    return sentence;
}

kiln_status kiln_visit_failed(const kiln_visit *before, kiln_status status)
{
    if (status > 0)
        return kiln_fail(KILN_PLUGIN, "%s %s: it returned %d, which is no status",
                         kiln_thread.place->verb, kiln_thread.place->path, (int)status);
    if (kiln_thread.failures == before->failures)
        kiln_fail(status, "%s %s: %s; it gave no reason", kiln_thread.place->verb,
                  kiln_thread.place->path, kiln_status_text(status));
    return status;
}

/* Copies without the C library, since it may be called from a signal handler. */
static char *append(char *end, const char *limit, const char *text)
{
    while (*text && end < limit)
        *end++ = *text++;
    *end = '\0';
    return end;
}

const char *kiln_activity(void)
{
    static _Thread_local char activity[512];
    const char *limit = activity + sizeof activity - 1;
    if (!kiln_thread.place)
        return "";
    char *end = append(activity, limit, kiln_thread.place->verb);
    append(append(end, limit, " "), limit, kiln_thread.place->path);
    return activity;
}

const char *kiln_status_name(kiln_status status)
{
    switch (status) {
#define KILN_STATUS_NAME(id, number, text) \
    case KILN_##id:                        \
        return #id;
        KILN_STATUSES(KILN_STATUS_NAME)
#undef KILN_STATUS_NAME
    }
    return "UNKNOWN";
}

const char *kiln_status_text(kiln_status status)
{
    switch (status) {
#define KILN_STATUS_TEXT(id, number, text) \
    case KILN_##id:                        \
        return text;
        KILN_STATUSES(KILN_STATUS_TEXT)
#undef KILN_STATUS_TEXT
    }
    return "unknown status";
}
