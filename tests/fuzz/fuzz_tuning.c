/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: tuning records. Any file; its records are found by their keys, and are the same when
 * they are written to another file and read again. */
#include <sys/mman.h>

#include "core/tuning.c"
#include "tests/fuzz/must.h"

static int64_t warnings;

static void count_warning(void *context, int level, const char *message)
{
    (void)context;
    must(level == KILN_LOG_WARNING && strstr(message, "not a tuning record"));
    warnings++;
}

/* An empty file in memory, made once, and its name. */
static int new_file(int *file, char path[32])
{
    if (*file < 0)
        *file = memfd_create("fuzz", MFD_CLOEXEC);
    must(*file >= 0 && ftruncate(*file, 0) == 0);
    snprintf(path, 32, "/proc/self/fd/%d", *file);
    return *file;
}

static kiln_tuning *read_records(const char *path)
{
    kiln_runtime runtime = {.log = count_warning, .log_level = KILN_LOG_WARNING};
    kiln_tuning *tuning;
    must(kiln_tuning_open(&runtime, path, true, &tuning) == KILN_OK);
    return tuning;
}

static bool same_key(const tuning_record *a, const tuning_record *b)
{
    return a->size == b->size && memcmp(a->descriptor, b->descriptor, a->size) == 0 &&
           strcmp(a->operator_name, b->operator_name) == 0 && strcmp(a->backend, b->backend) == 0 &&
           strcmp(a->fingerprint, b->fingerprint) == 0;
}

static bool same(const tuning_record *a, const tuning_record *b)
{
    return same_key(a, b) && a->measured_ns == b->measured_ns && a->count == b->count &&
           memcmp(a->parameters, b->parameters, (size_t)a->count * sizeof a->parameters[0]) == 0;
}

/* Of several records of one key the last in the file is found, the first of the list. */
static void look_up(kiln_tuning *tuning, const tuning_record *record)
{
    const tuning_record *newest = tuning->records;
    while (!same_key(newest, record))
        newest = newest->next;
    kiln_parameter found[KILN_TUNING_PARAMETERS];
    int64_t ns = -1, count = kiln_tuning_find(tuning, record->operator_name, record->descriptor,
                                              record->size, record->fingerprint, record->backend,
                                              found, KILN_TUNING_PARAMETERS, &ns);
    must(count == newest->count && ns == newest->measured_ns && ns >= 0);
    must(memcmp(found, newest->parameters, (size_t)count * sizeof found[0]) == 0);
}

static void write_records(kiln_tuning *tuning, const tuning_record *record)
{
    if (!record)
        return;
    write_records(tuning, record->next);
    must(append_to_file(tuning, record) == KILN_OK);
}

static int64_t count_lines(const uint8_t *bytes, size_t size)
{
    int64_t lines = size > 0 && bytes[size - 1] != '\n';
    for (size_t i = 0; i < size; i++)
        lines += bytes[i] == '\n';
    return lines;
}

/* Up to here: more take long and tell no more. */
static size_t few_lines(const uint8_t *bytes, size_t size)
{
    size_t lines = 0, end = 0;
    while (end < size && lines < 4)
        lines += bytes[end++] == '\n';
    return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static int input = -1, output = -1;
    char from[32], to[32];
    int64_t count = 0;
    size = few_lines(bytes, size);
    must(pwrite(new_file(&input, from), bytes, size, 0) == (ssize_t)size);
    warnings = 0;
    kiln_tuning *tuning = read_records(from);
    for (const tuning_record *record = tuning->records; record; record = record->next, count++)
        look_up(tuning, record);
    must(count + warnings == count_lines(bytes, size));
    if (count) {
        new_file(&output, to);
        kiln_tuning writer = {.path = to};
        write_records(&writer, tuning->records);
        warnings = 0;
        kiln_tuning *again = read_records(to);
        const tuning_record *other = again->records;
        for (const tuning_record *record = tuning->records; record; record = record->next) {
            must(other && same(record, other));
            other = other->next;
        }
        must(!other && warnings == 0);
        kiln_tuning_close(again);
    }
    kiln_tuning_close(tuning);
    return 0;
}
