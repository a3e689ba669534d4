/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded cache of plans. Looking up takes no lock: a slot is an atomic pointer to an entry,
 * and entries are never given back to the allocator while the cache lives, so that a reader may
 * touch one that is just being replaced. It first takes a reference, which succeeds only on an
 * entry in use, and then compares the key; an entry is reused only when its last reference is gone.
 */
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/fork.h"
#include "core/plan.h"

/* SPARES: entries beyond those in slots, for what was replaced while a call was using it. */
enum { WAYS = 4, KEY_BYTES = 768, SPARES = 64 };

struct kiln_cached_plan {
    _Atomic int64_t references; /* 0 = not in use */
    _Atomic uint64_t hash;
    _Atomic bool touched; /* since the hand of the clock last passed */
    kiln_plan *plan;
    kiln_cached_plan *next_free;
    const kiln_device *device;
    XXH128_hash_t options;
    char operator_name[64];
    size_t size;
    _Alignas(8) unsigned char descriptor[KEY_BYTES];
};

/* A key whose plan is being made, so that others wait instead of making it again. */
typedef struct building {
    uint64_t hash;
    struct building *next;
} building;

struct kiln_plan_cache {
    uint64_t mask; /* of sets */
    _Atomic(kiln_cached_plan *) *slots;
    kiln_cached_plan *entries;
    int64_t used, capacity; /* entries taken from the array so far */
    pthread_mutex_t mutex;
    pthread_cond_t built;
    kiln_cached_plan *free;
    building *under_way;
    uint64_t finished;           /* buildings, of whatever key */
    _Atomic uint64_t generation; /* process whose threads use the mutex */
};

/* A key, reduced to what is compared. The descriptor counts from behind its struct_size up to its
 * last byte that is not zero, since zero means absent. */
typedef struct cache_key {
    const char *operator_name;
    const kiln_device *device;
    XXH128_hash_t options;
    const void *descriptor;
    size_t size;
    uint64_t hash; /* of the descriptor, the device and the options */
} cache_key;

kiln_status kiln_plan_cache_create(int64_t entries, kiln_plan_cache **result)
{
    kiln_plan_cache *cache = calloc(1, sizeof *cache);
    uint64_t sets = 1;
    while ((int64_t)(sets * WAYS) < entries)
        sets *= 2;
    if (cache) {
        cache->mask = sets - 1;
        cache->capacity = (int64_t)(sets * WAYS) + SPARES;
        cache->slots = calloc(sets * WAYS, sizeof *cache->slots);
        cache->entries = calloc((size_t)cache->capacity, sizeof *cache->entries);
    }
    if (!cache || !cache->slots || !cache->entries) {
        if (cache) {
            free(cache->slots);
            free(cache->entries);
        }
        free(cache);
        return kiln_fail_memory("the cache of plans");
    }
    pthread_mutex_init(&cache->mutex, NULL);
    pthread_cond_init(&cache->built, NULL);
    cache->generation = kiln_process_generation();
    *result = cache;
    return KILN_OK;
}

void kiln_plan_cache_destroy(kiln_plan_cache *cache)
{
    if (!cache)
        return;
    for (int64_t i = 0; i < cache->used; i++)
        kiln_plan_release(cache->entries[i].plan);
    pthread_mutex_destroy(&cache->mutex);
    pthread_cond_destroy(&cache->built);
    free(cache->slots);
    free(cache->entries);
    free(cache);
}

/* What the options say, reduced to 128 bits; zero for defaults. False when such a plan is not
 * cached, or when the options are wrong, which whoever makes the plan will say. */
static bool make_options_key(const kiln_plan_options *given, XXH128_hash_t *key)
{
    static const XXH128_hash_t defaults;
    kiln_plan_options options;
    *key = defaults;
    if (!given)
        return true;
    if (kiln_check_struct(given, sizeof options, "kiln_plan_options") != KILN_OK ||
        kiln_receive_table(&options, sizeof options, given) != KILN_OK || options.parent ||
        (options.parameter_count && !options.parameters) ||
        (options.payload_size && !options.payload))
        return false;
    if (!(options.staging | options.flags | options.parameter_count | options.payload_size) &&
        !options.backend)
        return true;
    const char *backend = options.backend ? options.backend : "";
    uint64_t numbers[4] = {options.staging, options.flags, options.parameter_count,
                           options.payload_size};
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, numbers, sizeof numbers);
    XXH3_128bits_update(&state, backend, strlen(backend) + 1);
    XXH3_128bits_update(&state, options.parameters,
                        options.parameter_count * sizeof *options.parameters);
    XXH3_128bits_update(&state, options.payload, options.payload_size);
    *key = XXH3_128bits_digest(&state);
    return true;
}

/* The descriptor's bytes up to the last that is not zero, in words. */
static size_t trimmed_size(const unsigned char *bytes, size_t size)
{
    uint64_t words[4];
    while (size >= 8 + sizeof words) {
        memcpy(words, bytes + size - sizeof words, sizeof words);
        if (words[0] | words[1] | words[2] | words[3])
            break;
        size -= sizeof words;
    }
    return size;
}

/* False when the plan cannot be cached. */
static bool make_key(const kiln_plan_key *key, cache_key *made)
{
    size_t size = key->descriptor->struct_size, own = sizeof key->descriptor->struct_size;
    if (!key->operator_name || size < sizeof(kiln_op_head) || size > KILN_MAX_DESCRIPTOR ||
        !make_options_key(key->options, &made->options))
        return false;
    made->operator_name = key->operator_name;
    made->device = key->device;
    made->descriptor = (const unsigned char *)key->descriptor + own;
    made->size = trimmed_size(made->descriptor, size - own);
    made->hash = XXH3_64bits_withSeed(made->descriptor, made->size,
                                      (uint64_t)(uintptr_t)key->device ^ made->options.low64);
    return made->size <= KEY_BYTES;
}

static bool is_key_of(const kiln_cached_plan *entry, const cache_key *key)
{
    return entry->size == key->size && entry->device == key->device &&
           entry->options.low64 == key->options.low64 &&
           entry->options.high64 == key->options.high64 &&
           memcmp(entry->descriptor, key->descriptor, key->size) == 0 &&
           strcmp(entry->operator_name, key->operator_name) == 0;
}

/* In a child of fork another thread of the parent may have held the mutex. */
static void check_process(kiln_plan_cache *cache)
{
    static pthread_mutex_t adoption = PTHREAD_MUTEX_INITIALIZER;
    uint64_t generation = kiln_process_generation();
    if (atomic_load_explicit(&cache->generation, memory_order_acquire) == generation)
        return;
    pthread_mutex_lock(&adoption);
    if (atomic_load(&cache->generation) != generation) {
        pthread_mutex_init(&cache->mutex, NULL);
        pthread_cond_init(&cache->built, NULL);
        cache->under_way = NULL;
        atomic_store(&cache->generation, generation);
    }
    pthread_mutex_unlock(&adoption);
}

/* Takes a reference if the entry is in use. */
static bool pin_entry(kiln_cached_plan *entry)
{
    int64_t references = atomic_load_explicit(&entry->references, memory_order_relaxed);
    while (references > 0)
        if (atomic_compare_exchange_weak_explicit(&entry->references, &references, references + 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
    return false;
}

void kiln_plan_unpin(kiln_plan_cache *cache, kiln_cached_plan *entry)
{
    if (atomic_fetch_sub_explicit(&entry->references, 1, memory_order_acq_rel) != 1)
        return;
    kiln_plan_release(entry->plan);
    entry->plan = NULL;
    check_process(cache);
    pthread_mutex_lock(&cache->mutex);
    entry->next_free = cache->free;
    cache->free = entry;
    pthread_mutex_unlock(&cache->mutex);
}

static kiln_cached_plan *look_up(kiln_plan_cache *cache, const cache_key *key)
{
    _Atomic(kiln_cached_plan *) *set = cache->slots + (key->hash & cache->mask) * WAYS;
    for (int way = 0; way < WAYS; way++) {
        kiln_cached_plan *entry = atomic_load_explicit(&set[way], memory_order_acquire);
        if (!entry || atomic_load_explicit(&entry->hash, memory_order_relaxed) != key->hash ||
            !pin_entry(entry))
            continue;
        if (is_key_of(entry, key)) {
            if (!atomic_load_explicit(&entry->touched, memory_order_relaxed))
                atomic_store_explicit(&entry->touched, true, memory_order_relaxed);
            return entry;
        }
        kiln_plan_unpin(cache, entry);
    }
    return NULL;
}

/* Takes an entry out of its slot; its last user recycles it. With the mutex held. */
static kiln_cached_plan *evict(_Atomic(kiln_cached_plan *) *slot)
{
    return atomic_exchange(slot, NULL);
}

void kiln_plan_cache_clear(kiln_plan_cache *cache)
{
    check_process(cache);
    for (uint64_t i = 0; i < (cache->mask + 1) * WAYS; i++) {
        pthread_mutex_lock(&cache->mutex);
        kiln_cached_plan *entry = evict(&cache->slots[i]);
        pthread_mutex_unlock(&cache->mutex);
        if (entry)
            kiln_plan_unpin(cache, entry);
    }
}

/* A slot of the set for a new entry: an empty one, else the first that was not used since the clock
 * last passed. */
static _Atomic(kiln_cached_plan *) *choose_slot(kiln_plan_cache *cache, uint64_t hash,
                                                kiln_cached_plan **evicted)
{
    _Atomic(kiln_cached_plan *) *set = cache->slots + (hash & cache->mask) * WAYS;
    for (int way = 0; way < WAYS; way++)
        if (!atomic_load(&set[way]))
            return &set[way];
    for (int round = 0; round < 2; round++)
        for (int way = 0; way < WAYS; way++) {
            kiln_cached_plan *entry = atomic_load(&set[way]);
            if (!atomic_exchange(&entry->touched, false)) {
                *evicted = evict(&set[way]);
                return &set[way];
            }
        }
    *evicted = evict(&set[0]);
    return &set[0];
}

/* Puts a plan into the cache, pinned once for the caller; NULL when no entry is free. Takes
 * over the reference to the plan. */
static kiln_cached_plan *insert(kiln_plan_cache *cache, const cache_key *key, kiln_plan *plan)
{
    kiln_cached_plan *evicted = NULL;
    pthread_mutex_lock(&cache->mutex);
    kiln_cached_plan *entry = cache->free;
    if (entry)
        cache->free = entry->next_free;
    else if (cache->used < cache->capacity)
        entry = &cache->entries[cache->used++];
    if (entry) {
        entry->plan = plan;
        entry->device = key->device;
        entry->options = key->options;
        strcpy(entry->operator_name, key->operator_name);
        entry->size = key->size;
        memcpy(entry->descriptor, key->descriptor, key->size);
        atomic_store_explicit(&entry->hash, key->hash, memory_order_relaxed);
        atomic_store_explicit(&entry->touched, true, memory_order_relaxed);
        atomic_store_explicit(&entry->references, 2,
                              memory_order_release); /* the slot's and the caller's */
        atomic_store(choose_slot(cache, key->hash, &evicted), entry);
    }
    pthread_mutex_unlock(&cache->mutex);
    if (evicted)
        kiln_plan_unpin(cache, evicted);
    return entry;
}

static bool is_under_way(const kiln_plan_cache *cache, uint64_t hash)
{
    for (const building *one = cache->under_way; one; one = one->next)
        if (one->hash == hash)
            return true;
    return false;
}

/* Waits until nobody makes the key, then finds it or announces `mine`. */
static kiln_cached_plan *find_or_announce(kiln_plan_cache *cache, const cache_key *key,
                                          building *mine)
{
    pthread_mutex_lock(&cache->mutex);
    for (;;) {
        while (is_under_way(cache, key->hash))
            pthread_cond_wait(&cache->built, &cache->mutex);
        uint64_t finished = cache->finished;
        pthread_mutex_unlock(&cache->mutex);
        kiln_cached_plan *entry = look_up(cache, key);
        if (entry)
            return entry;
        pthread_mutex_lock(&cache->mutex);
        /* What was finished since our look may have been this key. */
        if (finished == cache->finished && !is_under_way(cache, key->hash)) {
            mine->next = cache->under_way;
            cache->under_way = mine;
            pthread_mutex_unlock(&cache->mutex);
            return NULL;
        }
    }
}

static void retract(kiln_plan_cache *cache, building *mine)
{
    pthread_mutex_lock(&cache->mutex);
    building **link = &cache->under_way;
    while (*link != mine)
        link = &(*link)->next;
    *link = mine->next;
    cache->finished++;
    pthread_cond_broadcast(&cache->built);
    pthread_mutex_unlock(&cache->mutex);
}

static kiln_status build(kiln_runtime *runtime, const kiln_plan_key *key, kiln_plan **plan)
{
    kiln_request request;
    kiln_plan_options options = {.struct_size = sizeof options, .device = key->device};
    kiln_status status = kiln_request_make(runtime, key->operator_name, key->descriptor,
                                           key->options ? key->options : &options, &request);
    return status == KILN_OK ? kiln_plan_build(&request, plan) : status;
}

kiln_status kiln_plan_find(kiln_runtime *runtime, const kiln_plan_key *key, kiln_plan **plan,
                           kiln_cached_plan **pin)
{
    kiln_plan_cache *cache = runtime->plans;
    cache_key made;
    *pin = NULL;
    if (!make_key(key, &made))
        return build(runtime, key, plan);
    kiln_cached_plan *entry = look_up(cache, &made);
    if (!entry) {
        check_process(cache);
        building mine = {.hash = made.hash};
        entry = find_or_announce(cache, &made, &mine);
        if (!entry) {
            kiln_plan *fresh;
            kiln_status status = build(runtime, key, &fresh);
            if (status == KILN_OK)
                entry = insert(cache, &made, fresh);
            retract(cache, &mine);
            if (status != KILN_OK)
                return status;
            if (!entry) {
                *plan = fresh;
                return KILN_OK;
            }
        }
    }
    *plan = entry->plan;
    *pin = entry;
    return KILN_OK;
}
