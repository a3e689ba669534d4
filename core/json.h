/* SPDX-License-Identifier: Apache-2.0 */
/* Writing lines of JSON, for records. */
#ifndef KILN_CORE_JSON_H
#define KILN_CORE_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

/* A growing line. After a failed allocation `failed` is set and everything else does nothing. */
typedef struct kiln_line {
    char *text;
    size_t size, capacity;
    bool failed;
} kiln_line;

void kiln_line_text(kiln_line *line, const char *text); /* as it stands */
/* Quoted and escaped, so that YAML readers take it as well; bytes that are not UTF-8 become U+FFFD.
 */
void kiln_line_string(kiln_line *line, const char *text);
void kiln_line_hex(kiln_line *line, const void *bytes, size_t size); /* quoted hexadecimal */
void kiln_line_integer(kiln_line *line, int64_t value);

/* Appends the line to a file in one write, so that lines of several processes do not mix, and on a
 * line of its own even if the last one was cut short; false, with errno, when it could not be
 * written. */
bool kiln_line_append(const kiln_line *line, const char *path);

#endif
