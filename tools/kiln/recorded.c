/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a record of calls, line by line. */
#include "tools/kiln/recorded.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Where in the file we are. */
typedef struct reader {
    recorded_calls *calls;
    int64_t line, capacity;
} reader;

/* Adds a located error; false, so that `return wrong(…)` works. What a hostile line made of it
 * cannot command the terminal. */
static bool wrong(reader *self, const char *format, ...) KILN_PRINTF(2, 3);

static bool wrong(reader *self, const char *format, ...)
{
    recorded_calls *calls = self->calls;
    if (calls->error_count++ >= RECORDED_MAXIMUM_ERRORS)
        return false;
    va_list arguments;
    va_start(arguments, format);
    char *what = tool_text_v(format, arguments);
    va_end(arguments);
    char *text = self->line ? tool_text("%s:%lld: %s", calls->name, (long long)self->line, what)
                            : tool_text("%s: %s", calls->name, what);
    free(what);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    calls->errors[calls->error_count - 1] = text;
    return false;
}

/* ---- The members of a line ---- */

/* Text that fits; `optional` text may be absent, and is "" then. */
static bool take_text(reader *self, const json_t *line, const char *key, bool optional, char *text,
                      size_t size)
{
    const json_t *value = json_object_get(line, key);
    text[0] = '\0';
    if (!value && optional)
        return true;
    if (!json_is_string(value))
        return wrong(self, "\"%s\" is missing, or no text", key);
    if (json_string_length(value) >= size || (!optional && json_string_length(value) == 0))
        return wrong(self, "\"%s\" has %zu bytes; %s to %zu are possible", key,
                     json_string_length(value), optional ? "0" : "1", size - 1);
    memcpy(text, json_string_value(value), json_string_length(value) + 1);
    return true;
}

static bool take_count(reader *self, const json_t *value, const char *key, int64_t *count)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return wrong(self, "\"%s\" is missing, or no whole number from 0 on", key);
    *count = json_integer_value(value);
    return true;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_descriptor(reader *self, const json_t *line, recorded_call *call)
{
    const json_t *value = json_object_get(line, "descriptor");
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    if (!text || length % 2 || length / 2 < sizeof(kiln_op_head) ||
        length / 2 > RECORDED_MAXIMUM_DESCRIPTOR)
        return wrong(self,
                     "\"descriptor\" is missing, or not the hexadecimal digits of %zu to %d bytes",
                     sizeof(kiln_op_head), RECORDED_MAXIMUM_DESCRIPTOR);
    unsigned char *bytes = tool_allocate(length / 2, 1);
    call->descriptor = bytes;
    call->descriptor_size = length / 2;
    for (size_t i = 0; i < length / 2; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return wrong(self, "\"descriptor\" has '%c%c' where hexadecimal digits are wanted",
                         text[2 * i], text[2 * i + 1]);
        bytes[i] = (unsigned char)(16 * high + low);
    }
    kiln_op_head head;
    memcpy(&head, bytes, sizeof head);
    if (head.struct_size != call->descriptor_size)
        return wrong(self, "the descriptor says that it has %u bytes, but there are %zu",
                     head.struct_size, call->descriptor_size);
    return true;
}

static int compare_sizes(const void *a, const void *b)
{
    return strcmp(((const recorded_size *)a)->name, ((const recorded_size *)b)->name);
}

static bool take_sizes(reader *self, const json_t *line, recorded_call *call)
{
    json_t *sizes = json_object_get(line, "sizes"), *value;
    const char *name;
    if (!sizes)
        return true;
    if (!json_is_object(sizes) || json_object_size(sizes) > RECORDED_MAXIMUM_SIZES)
        return wrong(self, "\"sizes\" is no object of at most %d numbers", RECORDED_MAXIMUM_SIZES);
    json_object_foreach(sizes, name, value)
    {
        recorded_size *size = &call->sizes[call->size_count];
        if (!*name || strlen(name) >= sizeof size->name)
            return wrong(self,
                         "\"sizes\" has the name '%.40s', of which 1 to %zu bytes are possible",
                         name, sizeof size->name - 1);
        if (!take_count(self, value, name, &size->value))
            return false;
        memcpy(size->name, name, strlen(name) + 1);
        call->size_count++;
    }
    qsort(call->sizes, (size_t)call->size_count, sizeof *call->sizes, compare_sizes);
    return true;
}

static bool take_line(reader *self, const json_t *line, recorded_call *call)
{
    int64_t version = 0;
    if (!json_is_object(line))
        return wrong(self, "a line of a record is a JSON object");
    if (!take_count(self, json_object_get(line, "record"), "record", &version))
        return false;
    if (version != 1)
        return wrong(self, "record %lld is not known to this version, which reads record 1",
                     (long long)version);
    if (!take_text(self, line, "operator", false, call->operator_name,
                   sizeof call->operator_name) ||
        !take_text(self, line, "backend", true, call->backend, sizeof call->backend) ||
        !take_text(self, line, "device", true, call->device, sizeof call->device) ||
        !take_text(self, line, "home", true, call->home, sizeof call->home) ||
        !take_count(self, json_object_get(line, "runs"), "runs", &call->runs) ||
        !take_sizes(self, line, call) || !take_descriptor(self, line, call))
        return false;
    if (!strchr(call->operator_name, '/'))
        return wrong(self, "'%s' is no operator; operators have names such as %s",
                     call->operator_name, KILN_GEMM);
    if (!call->home[0])
        memcpy(call->home, call->device, sizeof call->home);
    return true;
}

/* ---- Lines ---- */

static void add_line(reader *self, const char *text, size_t size)
{
    recorded_calls *calls = self->calls;
    json_error_t error;
    size_t blank = 0;
    while (blank < size && isspace((unsigned char)text[blank]))
        blank++;
    if (blank == size)
        return;
    calls->lines++;
    json_t *line = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!line) {
        wrong(self, "not JSON, at column %d: %s", error.column, error.text);
        return;
    }
    if (calls->count == self->capacity) {
        self->capacity = self->capacity ? 2 * self->capacity : 64;
        calls->calls = tool_grow(calls->calls, (size_t)self->capacity, sizeof *calls->calls);
    }
    recorded_call *call = &calls->calls[calls->count];
    memset(call, 0, sizeof *call);
    call->line = self->line;
    if (take_line(self, line, call))
        calls->count++;
    else
        free(call->descriptor);
    json_decref(line);
}

/* Reads up to the end of a line into `text`. False at the end of the file; *size is beyond the
 * limit when the line is, which is then read to its end all the same. */
static bool next_line(FILE *file, char *text, size_t *size)
{
    int c;
    *size = 0;
    while ((c = getc_unlocked(file)) != EOF && c != '\n') {
        if (*size < RECORDED_MAXIMUM_LINE)
            text[*size] = (char)c;
        *size += *size <= RECORDED_MAXIMUM_LINE;
    }
    return c != EOF || *size > 0;
}

/* ---- Lines that are equal ---- */

static int compare_bytes(const void *a, size_t a_size, const void *b, size_t b_size)
{
    if (a_size != b_size)
        return a_size < b_size ? -1 : 1;
    return memcmp(a, b, a_size);
}

/* By all that a call is, but how often it came and where it stands. */
static int compare_calls(const recorded_call *a, const recorded_call *b)
{
    int order = strcmp(a->operator_name, b->operator_name);
    order = order ? order : strcmp(a->backend, b->backend);
    order = order ? order : strcmp(a->device, b->device);
    order = order ? order : strcmp(a->home, b->home);
    order =
        order ? order
              : compare_bytes(a->descriptor, a->descriptor_size, b->descriptor, b->descriptor_size);
    if (order || a->size_count != b->size_count)
        return order ? order : a->size_count < b->size_count ? -1 : 1;
    for (int64_t i = 0; i < a->size_count; i++) {
        order = strcmp(a->sizes[i].name, b->sizes[i].name);
        if (order || a->sizes[i].value != b->sizes[i].value)
            return order ? order : a->sizes[i].value < b->sizes[i].value ? -1 : 1;
    }
    return 0;
}

static int compare_for_merging(const void *a, const void *b)
{
    const recorded_call *left = a, *right = b;
    int order = compare_calls(left, right);
    return order ? order : (left->line > right->line) - (left->line < right->line);
}

static int compare_lines(const void *a, const void *b)
{
    const recorded_call *left = a, *right = b;
    return (left->line > right->line) - (left->line < right->line);
}

/* Makes one of lines that differ in their counts alone. False when too many are left. */
static bool merge(reader *self)
{
    recorded_calls *calls = self->calls;
    int64_t kept = 0;
    if (calls->count == 0)
        return true;
    qsort(calls->calls, (size_t)calls->count, sizeof *calls->calls, compare_for_merging);
    for (int64_t i = 1; i < calls->count; i++) {
        recorded_call *call = &calls->calls[i], *first = &calls->calls[kept];
        if (compare_calls(first, call) != 0) {
            calls->calls[++kept] = *call;
            continue;
        }
        self->line = call->line;
        if (__builtin_add_overflow(first->runs, call->runs, &first->runs)) {
            first->runs = INT64_MAX;
            wrong(self, "with this line, \"runs\" of equal calls add up to more than 2^63");
        }
        free(call->descriptor);
    }
    calls->count = kept + 1;
    qsort(calls->calls, (size_t)calls->count, sizeof *calls->calls, compare_lines);
    self->line = 0;
    return calls->count <= RECORDED_MAXIMUM_CALLS ||
           wrong(self, "has more than %d calls that differ; split it", RECORDED_MAXIMUM_CALLS);
}

/* ---- Files ---- */

bool recorded_read_stream(FILE *file, const char *name, recorded_calls *calls)
{
    reader self = {.calls = calls};
    size_t size;
    memset(calls, 0, sizeof *calls);
    calls->name = tool_text("%s", name);
    char *text = tool_grow(NULL, RECORDED_MAXIMUM_LINE, 1);
    while (next_line(file, text, &size)) {
        self.line++;
        if (size > RECORDED_MAXIMUM_LINE)
            wrong(&self, "the line is longer than %d bytes", RECORDED_MAXIMUM_LINE);
        else
            add_line(&self, text, size);
        if (calls->count == 2 * RECORDED_MAXIMUM_CALLS && !merge(&self))
            break;
    }
    if (ferror(file)) {
        self.line = 0;
        wrong(&self, "cannot be read: %s", strerror(errno));
    }
    free(text);
    merge(&self);
    return calls->error_count == 0;
}

bool recorded_read(const char *path, recorded_calls *calls)
{
    FILE *file = fopen(path, "re");
    if (file) {
        bool good = recorded_read_stream(file, path, calls);
        fclose(file);
        return good;
    }
    memset(calls, 0, sizeof *calls);
    reader self = {.calls = calls};
    calls->name = tool_text("%s", path);
    return wrong(&self, "cannot be read: %s", strerror(errno));
}

void recorded_free(recorded_calls *calls)
{
    for (int64_t i = 0; i < calls->count; i++)
        free(calls->calls[i].descriptor);
    for (int64_t i = 0; i < calls->error_count && i < RECORDED_MAXIMUM_ERRORS; i++)
        free(calls->errors[i]);
    free(calls->calls);
    free(calls->name);
    memset(calls, 0, sizeof *calls);
}

void recorded_tell(const tool_common *common, const recorded_calls *calls)
{
    for (int64_t i = 0; i < calls->error_count && i < RECORDED_MAXIMUM_ERRORS; i++)
        tool_fail(common, "%s", calls->errors[i]);
    if (calls->error_count > RECORDED_MAXIMUM_ERRORS)
        tool_fail(common, "%s: %lld errors more", calls->name,
                  (long long)(calls->error_count - RECORDED_MAXIMUM_ERRORS));
}
