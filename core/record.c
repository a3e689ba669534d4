/* SPDX-License-Identifier: Apache-2.0 */
/* Plans are kept in a tree by their line. The sizes of their runs are kept in a hash table that
 * only grows, so that a reader takes no lock: a slot is written once, when its entry is complete.
 */
#include "core/record.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/fork.h"
#include "core/json.h"

/* The runs of one plan that had the same sizes. */
typedef struct recorded_sizes {
    const kiln_recorded_plan *plan;
    struct recorded_sizes *next; /* of the same plan, in the order in which they came */
    uint64_t hash;
    _Atomic int64_t runs;
    int64_t count;
    kiln_size sizes[];
} recorded_sizes;

struct kiln_recorded_plan {
    char *line;           /* JSON without its end: sizes and count follow */
    _Atomic int64_t runs; /* whose sizes are not told apart */
    recorded_sizes *first, **last;
};

struct kiln_record {
    char *path;
    uint64_t generation; /* of the process that counts */
    int64_t maximum;
    pthread_mutex_t mutex; /* held to add */
    int64_t used;          /* plans and sizes */
    _Atomic bool full;
    kiln_recorded_plan **plans; /* in the order in which they came */
    int64_t plan_count;
    void *by_line; /* tsearch's tree of the same: equal plans, made at once or in turn, are one */
    uint64_t mask;
    _Atomic(recorded_sizes *) *slots;
};

static int compare_lines(const void *a, const void *b)
{
    return strcmp(((const kiln_recorded_plan *)a)->line, ((const kiln_recorded_plan *)b)->line);
}

kiln_status kiln_record_create(const char *path, int64_t maximum, kiln_record **result)
{
    *result = NULL;
    if (!*path)
        return KILN_OK;
    kiln_record *record = calloc(1, sizeof *record);
    uint64_t slots = 2; /* never more than half of them are taken */
    while ((int64_t)(slots / 2) < maximum)
        slots *= 2;
    if (record) {
        record->path = strdup(path);
        record->slots = calloc(slots, sizeof *record->slots);
    }
    if (!record || !record->path || !record->slots) {
        if (record) {
            free(record->path);
            free(record->slots);
        }
        free(record);
        return kiln_fail_memory("the record of calls");
    }
    record->generation = kiln_process_generation();
    record->maximum = maximum;
    record->mask = slots - 1;
    pthread_mutex_init(&record->mutex, NULL);
    *result = record;
    return KILN_OK;
}

/* Says, once, that nothing more can be added. */
static __attribute__((cold, noinline)) void tell_full(kiln_record *record, const kiln_plan *plan)
{
    if (atomic_exchange(&record->full, true))
        return;
    kiln_runtime_log(
        plan->runtime, KILN_LOG_WARNING,
        "the record of calls for %s is full with %lld plans and sizes: runs of further "
        "sizes are counted with their plan, and further plans are left out",
        record->path, (long long)record->maximum);
}

/* ---- Plans ---- */

/* {"record":1,"operator":…,"backend":…,"device":…,"text":…,"descriptor":"…hex…"; "home", where the
 * tensors live, is told of staged plans: elsewhere it is the device. */
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
    if (plan->staged) {
        kiln_line_text(&line, ",\"home\":");
        kiln_line_string(&line, plan->home->name);
    }
    kiln_line_text(&line, ",\"text\":");
    kiln_line_string(&line, text);
    kiln_line_text(&line, ",\"descriptor\":");
    kiln_line_hex(&line, plan->descriptor, plan->descriptor_size);
    if (!line.failed)
        return line.text;
    free(line.text);
    return NULL;
}

/* The plan of that line, added where it is new; NULL when there is no room. The mutex is held. */
static kiln_recorded_plan *add_plan(kiln_record *record, kiln_recorded_plan *fresh)
{
    kiln_recorded_plan **known = tfind(fresh, &record->by_line, compare_lines);
    if (known || record->used == record->maximum)
        return known ? *known : NULL;
    kiln_recorded_plan **grown =
        realloc(record->plans, (size_t)(record->plan_count + 1) * sizeof *record->plans);
    if (!grown)
        return NULL;
    record->plans = grown;
    if (!tsearch(fresh, &record->by_line, compare_lines))
        return NULL;
    record->used++;
    return record->plans[record->plan_count++] = fresh;
}

kiln_recorded_plan *kiln_record_plan(kiln_record *record, const kiln_plan *plan)
{
    if (!record || record->generation != kiln_process_generation())
        return NULL;
    kiln_recorded_plan *fresh = calloc(1, sizeof *fresh);
    if (!fresh || !(fresh->line = describe(plan))) {
        free(fresh);
        return NULL;
    }
    fresh->last = &fresh->first;
    pthread_mutex_lock(&record->mutex);
    kiln_recorded_plan *added = add_plan(record, fresh);
    bool full = !added && record->used == record->maximum;
    pthread_mutex_unlock(&record->mutex);
    if (added != fresh) {
        free(fresh->line);
        free(fresh);
    }
    if (full)
        tell_full(record, plan);
    return added;
}

/* ---- Runs ---- */

typedef struct sizes_key {
    const kiln_recorded_plan *plan;
    uint64_t hash;
    int64_t count;
    kiln_size sizes[KILN_OPERATOR_SIZES];
} sizes_key;

static void hash_key(sizes_key *key)
{
    int64_t values[KILN_OPERATOR_SIZES];
    for (int64_t i = 0; i < key->count; i++)
        values[i] = key->sizes[i].value;
    key->hash = XXH3_64bits_withSeed(values, (size_t)key->count * sizeof *values,
                                     (XXH64_hash_t)(uintptr_t)key->plan);
}

static bool is_same(const recorded_sizes *entry, const sizes_key *key)
{
    if (entry->hash != key->hash || entry->plan != key->plan || entry->count != key->count)
        return false;
    for (int64_t i = 0; i < key->count; i++)
        if (entry->sizes[i].value != key->sizes[i].value)
            return false;
    return true;
}

/* The entry of a key, or NULL and the slot where it belongs. */
static recorded_sizes *look_up(const kiln_record *record, const sizes_key *key, uint64_t *slot)
{
    for (uint64_t i = key->hash & record->mask;; i = (i + 1) & record->mask) {
        recorded_sizes *entry = atomic_load_explicit(&record->slots[i], memory_order_acquire);
        if (!entry || is_same(entry, key)) {
            *slot = i;
            return entry;
        }
    }
}

/* NULL when there is no room. The mutex is held. */
static recorded_sizes *add_sizes(kiln_record *record, kiln_recorded_plan *plan,
                                 const sizes_key *key)
{
    uint64_t slot;
    recorded_sizes *entry = look_up(record, key, &slot);
    if (entry || record->used == record->maximum)
        return entry;
    size_t bytes = (size_t)key->count * sizeof *key->sizes;
    entry = calloc(1, sizeof *entry + bytes);
    if (!entry)
        return NULL;
    entry->plan = plan;
    entry->hash = key->hash;
    entry->count = key->count;
    memcpy(entry->sizes, key->sizes, bytes);
    *plan->last = entry;
    plan->last = &entry->next;
    record->used++;
    atomic_store_explicit(&record->slots[slot], entry, memory_order_release);
    return entry;
}

static __attribute__((noinline)) recorded_sizes *
add_unknown(kiln_record *record, const kiln_plan *plan, const sizes_key *key)
{
    if (atomic_load_explicit(&record->full, memory_order_relaxed))
        return NULL;
    pthread_mutex_lock(&record->mutex);
    recorded_sizes *entry = add_sizes(record, plan->recorded, key);
    bool full = !entry && record->used == record->maximum;
    pthread_mutex_unlock(&record->mutex);
    if (full)
        tell_full(record, plan);
    return entry;
}

void kiln_record_run(const kiln_plan *plan, const kiln_args_head *arguments)
{
    kiln_record *record = plan->runtime->record;
    /* Some other thread of the parent may have held the mutex when it forked. */
    if (record->generation != kiln_process_generation())
        return;
    _Atomic int64_t *runs = &plan->recorded->runs;
    if (plan->known) {
        sizes_key key = {.plan = plan->recorded};
        uint64_t slot;
        key.count = plan->known->sizes(plan->descriptor, arguments, key.sizes);
        hash_key(&key);
        recorded_sizes *entry = look_up(record, &key, &slot);
        if (!entry)
            entry = add_unknown(record, plan, &key);
        if (entry)
            runs = &entry->runs;
    }
    atomic_fetch_add_explicit(runs, 1, memory_order_relaxed);
}

/* ---- The file ---- */

static void write_line(kiln_line *all, const kiln_recorded_plan *plan, const recorded_sizes *entry)
{
    kiln_line_text(all, plan->line);
    for (int64_t i = 0; entry && i < entry->count; i++) {
        kiln_line_text(all, i ? "," : ",\"sizes\":{");
        kiln_line_string(all, entry->sizes[i].name);
        kiln_line_text(all, ":");
        kiln_line_integer(all, entry->sizes[i].value);
    }
    kiln_line_text(all, entry ? "},\"runs\":" : ",\"runs\":");
    kiln_line_integer(all, atomic_load(entry ? &entry->runs : &plan->runs));
    kiln_line_text(all, "}\n");
}

/* A plan that never ran has a line too: it was asked for. */
static void write_plan(kiln_line *all, const kiln_recorded_plan *plan)
{
    for (const recorded_sizes *entry = plan->first; entry; entry = entry->next)
        write_line(all, plan, entry);
    if (!plan->first || atomic_load(&plan->runs) > 0)
        write_line(all, plan, NULL);
}

static void free_plan(kiln_record *record, kiln_recorded_plan *plan)
{
    tdelete(plan, &record->by_line, compare_lines);
    for (recorded_sizes *entry = plan->first, *next; entry; entry = next) {
        next = entry->next;
        free(entry);
    }
    free(plan->line);
    free(plan);
}

kiln_status kiln_record_close(kiln_record *record, bool write)
{
    if (!record)
        return KILN_OK;
    kiln_line all = {0};
    for (int64_t i = 0; i < record->plan_count; i++) {
        if (write)
            write_plan(&all, record->plans[i]);
        free_plan(record, record->plans[i]);
    }
    kiln_status status = KILN_OK;
    if (all.failed)
        status = kiln_fail_memory("the record of calls");
    else if (all.size > 0 && !kiln_line_append(&all, record->path))
        status = kiln_fail(
            KILN_IO,
            "the record of calls cannot be written to %s: %s; set record.file to a file that can",
            record->path, strerror(errno));
    free(all.text);
    pthread_mutex_destroy(&record->mutex);
    free(record->slots);
    free(record->plans);
    free(record->path);
    free(record);
    return status;
}
