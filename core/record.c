/* SPDX-License-Identifier: Apache-2.0 */
#include "core/record.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "core/json.h"

enum { MAX_RECORDED = 100000 };

typedef struct recorded_plan {
    char *line; /* JSON without its end: the count follows */
    int64_t number;
    _Atomic int64_t runs;
} recorded_plan;

struct kiln_record {
    char *path;
    pthread_rwlock_t lock; /* written to add a plan */
    recorded_plan **plans; /* pointers, so that counting goes on while the array grows */
    int64_t count;
    void *by_line; /* tsearch's tree of the same: equal plans, made at once or in turn, are one */
};

static int compare_lines(const void *a, const void *b)
{
    return strcmp(((const recorded_plan *)a)->line, ((const recorded_plan *)b)->line);
}

kiln_status kiln_record_create(const char *path, kiln_record **result)
{
    *result = NULL;
    if (!*path)
        return KILN_OK;
    kiln_record *record = calloc(1, sizeof *record);
    if (record)
        record->path = strdup(path);
    if (!record || !record->path) {
        free(record);
        return kiln_fail_memory("the record of calls");
    }
    pthread_rwlock_init(&record->lock, NULL);
    *result = record;
    return KILN_OK;
}

/* {"record":1,"operator":…,"backend":…,"device":…,"text":…,"descriptor":"…hex…","runs": */
static char *describe(const kiln_plan *plan)
{
    kiln_line line = {0};
    char text[256] = "";
    if (plan->known)
        plan->known->describe(plan->descriptor, text, sizeof text);
    kiln_line_text(&line, "{\"record\":1,\"operator\":");
    kiln_line_string(&line, plan->operator_name);
    kiln_line_text(&line, ",\"backend\":");
    kiln_line_string(&line, plan->instance->name);
    kiln_line_text(&line, ",\"device\":");
    kiln_line_string(&line, plan->device->name);
    kiln_line_text(&line, ",\"text\":");
    kiln_line_string(&line, text);
    kiln_line_text(&line, ",\"descriptor\":");
    kiln_line_hex(&line, plan->descriptor, plan->descriptor_size);
    kiln_line_text(&line, ",\"runs\":");
    if (!line.failed)
        return line.text;
    free(line.text);
    return NULL;
}

/* The plan of that line, added where it is new; NULL when there is no room. The lock is held. */
static recorded_plan *add(kiln_record *record, recorded_plan *fresh)
{
    recorded_plan **known = tfind(fresh, &record->by_line, compare_lines);
    if (known || record->count == MAX_RECORDED)
        return known ? *known : NULL;
    recorded_plan **grown =
        realloc(record->plans, (size_t)(record->count + 1) * sizeof *record->plans);
    if (!grown)
        return NULL;
    record->plans = grown;
    if (!tsearch(fresh, &record->by_line, compare_lines))
        return NULL;
    fresh->number = record->count;
    return record->plans[record->count++] = fresh;
}

int64_t kiln_record_plan(kiln_record *record, const kiln_plan *plan)
{
    if (!record)
        return -1;
    recorded_plan *fresh = calloc(1, sizeof *fresh);
    if (!fresh || !(fresh->line = describe(plan))) {
        free(fresh);
        return -1;
    }
    pthread_rwlock_wrlock(&record->lock);
    recorded_plan *added = add(record, fresh);
    pthread_rwlock_unlock(&record->lock);
    if (added != fresh) {
        free(fresh->line);
        free(fresh);
    }
    return added ? added->number : -1;
}

void kiln_record_run(kiln_record *record, int64_t number)
{
    pthread_rwlock_rdlock(&record->lock);
    atomic_fetch_add_explicit(&record->plans[number]->runs, 1, memory_order_relaxed);
    pthread_rwlock_unlock(&record->lock);
}

kiln_status kiln_record_close(kiln_record *record, bool write)
{
    if (!record)
        return KILN_OK;
    kiln_line all = {0};
    for (int64_t i = 0; i < record->count; i++) {
        kiln_line_text(&all, record->plans[i]->line);
        kiln_line_integer(&all, atomic_load(&record->plans[i]->runs));
        kiln_line_text(&all, "}\n");
        tdelete(record->plans[i], &record->by_line, compare_lines);
        free(record->plans[i]->line);
        free(record->plans[i]);
    }
    kiln_status status = KILN_OK;
    if (all.failed)
        status = kiln_fail_memory("the record of calls");
    else if (write && all.size > 0 && !kiln_line_append(&all, record->path))
        status = kiln_fail(
            KILN_IO,
            "the record of calls cannot be written to %s: %s; set record.file to a file that can",
            record->path, strerror(errno));
    free(all.text);
    pthread_rwlock_destroy(&record->lock);
    free(record->plans);
    free(record->path);
    free(record);
    return status;
}
