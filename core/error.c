/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes and the per-thread sentence. */
#include "core/error.h"

#include <stdio.h>

static _Thread_local char sentence[1024];
static _Thread_local char activity[512];

kiln_status kiln_fail_v(kiln_status status, const char *format, va_list arguments)
{
    /* Through a second buffer, since an argument may be the former sentence. */
    char text[sizeof sentence];
    vsnprintf(text, sizeof text, format, arguments);
    memcpy(sentence, text, strlen(text) + 1);
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

void kiln_forget_error(void)
{
    sentence[0] = '\0';
}

const char *kiln_reason(kiln_status status)
{
    return *sentence ? sentence : kiln_status_text(status);
}

void kiln_set_activity(const char *verb, const char *path)
{
    if (*verb)
        snprintf(activity, sizeof activity, "%s %s", verb, path);
    else
        activity[0] = '\0';
}

const char *kiln_activity(void)
{
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
