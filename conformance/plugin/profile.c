/* SPDX-License-Identifier: Apache-2.0 */
/* Writes profiles. Names of files are quoted: any character may be in them. */
#include "conformance/plugin/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Text as a double-quoted scalar. */
static void write_quoted(FILE *stream, const char *text, size_t length)
{
    fputc('"', stream);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte < 0x20 || byte == 0x7f)
            fprintf(stream, "\\x%02x", byte);
        else
            fprintf(stream, byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
    }
    fputc('"', stream);
}

static void write_name(FILE *stream, const char *before, const char *name, const char *behind)
{
    fputs(before, stream);
    write_quoted(stream, name, strlen(name));
    fputs(behind, stream);
}

char *conformance_profile(const conformance_subject *subject, const char *options, int64_t threads,
                          bool on_disk)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    fprintf(stream, "schema: 1\nthreads: {count: %lld}\n", (long long)threads);
    write_name(stream, "plugins: [", subject->name, "]\n");
    const char *slash = on_disk ? strrchr(subject->path, '/') : NULL;
    if (slash) {
        fputs("plugin_path: [", stream);
        write_quoted(stream, subject->path,
                     slash > subject->path ? (size_t)(slash - subject->path) : 1);
        fputs("]\n", stream);
    }
    if (*options) {
        write_name(stream, "options: {", subject->name, ": ");
        fprintf(stream, "%s}\n", options);
    }
    if (fclose(stream) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
