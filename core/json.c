/* SPDX-License-Identifier: Apache-2.0 */
#include "core/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "support/yaml.h"

static void append(kiln_line *line, const char *bytes, size_t size)
{
    if (line->failed)
        return;
    if (line->size + size + 1 > line->capacity) {
        size_t capacity = 2 * (line->size + size + 1);
        char *grown = realloc(line->text, capacity);
        if (!grown) {
            line->failed = true;
            return;
        }
        line->text = grown;
        line->capacity = capacity;
    }
    memcpy(line->text + line->size, bytes, size);
    line->size += size;
    line->text[line->size] = '\0';
}

void kiln_line_text(kiln_line *line, const char *text)
{
    append(line, text, strlen(text));
}

void kiln_line_string(kiln_line *line, const char *text)
{
    append(line, "\"", 1);
    while (*text) {
        char escaped[8];
        size_t size = kiln_yaml_escape(text, escaped);
        kiln_line_text(line, size ? escaped : "\\ufffd");
        text += size ? size : 1;
    }
    append(line, "\"", 1);
}

void kiln_line_hex(kiln_line *line, const void *bytes, size_t size)
{
    append(line, "\"", 1);
    for (size_t i = 0; i < size; i++) {
        char pair[3];
        snprintf(pair, sizeof pair, "%02x", ((const unsigned char *)bytes)[i]);
        append(line, pair, 2);
    }
    append(line, "\"", 1);
}

void kiln_line_integer(kiln_line *line, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    kiln_line_text(line, digits);
}

/* Whether a file ends in the middle of a line, because a process was killed while it wrote. */
static bool ends_within_line(int file)
{
    char last;
    off_t size = lseek(file, 0, SEEK_END);
    return size > 0 && pread(file, &last, 1, size - 1) == 1 && last != '\n';
}

bool kiln_line_append(const kiln_line *line, const char *path)
{
    enum { FLAGS = O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK }; /* a FIFO must not block */
    int file = open(path, O_RDWR | FLAGS, 0644);
    if (file < 0)
        file = open(path, O_WRONLY | FLAGS, 0644);
    if (file < 0)
        return false;
    bool cut = ends_within_line(file);
    struct iovec parts[2] = {{"\n", cut}, {line->text, line->size}};
    ssize_t written;
    do
        written = writev(file, parts, 2);
    while (written < 0 && errno == EINTR);
    bool whole = written == (ssize_t)(cut + line->size);
    int error = written < 0 ? errno : whole ? 0 : ENOSPC;
    if (close(file) != 0 && whole) {
        whole = false;
        error = errno;
    }
    errno = error;
    return whole;
}
