/* SPDX-License-Identifier: Apache-2.0 */
/* libltdl binds lazily, so that an undefined function would kill the first call instead of failing
 * the load, and it loses the dynamic linker's message. Its loader for shared objects is therefore
 * replaced by one that calls dlopen(RTLD_NOW | RTLD_LOCAL) and keeps dlerror's words (PulseAudio
 * does the same). libltdl is not thread-safe: one lock guards all of it. */
#include "core/module.h"

#include <dlfcn.h>
#include <ltdl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <libltdl/lt_dlloader.h>

#include "core/error.h"

typedef struct module {
    char *path;
    kiln_plugin_entry_fn entry;
    struct module *next;
} module;

typedef struct registration {
    char name[32];
    kiln_plugin_entry_fn entry;
} registration;

enum { MAX_REGISTRATIONS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialised;
static module *modules;
static registration registrations[MAX_REGISTRATIONS];
static int64_t registration_count;
static char last_words[512]; /* of the dynamic linker */

static void watch_fork(void);
static _Thread_local bool holding, held_for_fork;

void kiln_loader_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_fork);
    pthread_mutex_lock(&lock);
    holding = true;
}

void kiln_loader_unlock(void)
{
    holding = false;
    pthread_mutex_unlock(&lock);
}

static void keep_words(const char *words)
{
    snprintf(last_words, sizeof last_words, "%s",
             words ? words : "the dynamic linker gave no reason");
}

static lt_module open_now(lt_user_data data, const char *path, lt_dladvise advise)
{
    (void)data, (void)advise;
    void *handle = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!handle)
        keep_words(path ? dlerror() : "no path");
    return handle;
}

static int close_never(lt_user_data data, lt_module handle)
{
    (void)data, (void)handle;
    return 0;
}

static void *find_symbol(lt_user_data data, lt_module handle, const char *name)
{
    (void)data;
    return dlsym(handle, name);
}

/* So that a child of fork does not find the lock taken by a thread that it does not have. A plugin
 * may itself fork while it opens: then it is this thread that holds it. */
static void before_fork(void)
{
    held_for_fork = !holding;
    if (held_for_fork)
        kiln_loader_lock();
}

static void after_fork(void)
{
    if (held_for_fork)
        kiln_loader_unlock();
}

static void watch_fork(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

static kiln_status initialise(void)
{
    static lt_dlvtable loader = {
        .name = "kiln", .sym_prefix = NULL, .priority = LT_DLLOADER_PREPEND};
    if (initialised)
        return KILN_OK;
    if (lt_dlinit() != 0)
        return kiln_fail(KILN_PLUGIN, "libltdl cannot be initialised: %s", lt_dlerror());
    free(lt_dlloader_remove("lt_dlopen"));
    loader.module_open = open_now;
    loader.module_close = close_never;
    loader.find_sym = find_symbol;
    if (lt_dlloader_add(&loader) != 0)
        return kiln_fail(KILN_PLUGIN, "libltdl refuses the loader: %s", lt_dlerror());
    initialised = true;
    return KILN_OK;
}

/* The dynamic linker's words mostly begin with the path. */
static kiln_status not_loaded(const char *path, const char *words)
{
    bool named = strncmp(words, path, strlen(path)) == 0;
    return kiln_fail(KILN_PLUGIN, "cannot be loaded: %s%s%s", named ? "" : path, named ? "" : ": ",
                     words);
}

static kiln_status load(const char *path, kiln_plugin_entry_fn *entry)
{
    last_words[0] = '\0';
    lt_dlhandle handle = lt_dlopen(path);
    if (!handle)
        return not_loaded(path, *last_words ? last_words : lt_dlerror());
    void *symbol = lt_dlsym(handle, KILN_PLUGIN_SYMBOL);
    if (!symbol) {
        lt_dlclose(handle);
        return kiln_fail(KILN_PLUGIN,
                         "%s is no plugin for this ABI: it does not export " KILN_PLUGIN_SYMBOL,
                         path);
    }
    memcpy(entry, &symbol, sizeof symbol);
    return KILN_OK;
}

kiln_status kiln_module_entry(const char *path, kiln_plugin_entry_fn *entry)
{
    for (const module *known = modules; known; known = known->next)
        if (strcmp(known->path, path) == 0) {
            *entry = known->entry;
            return KILN_OK;
        }
    module *fresh = calloc(1, sizeof *fresh);
    char *copy = strdup(path);
    kiln_status status = fresh && copy ? initialise() : kiln_fail_memory("a plugin's module");
    if (status == KILN_OK)
        status = load(path, entry);
    if (status != KILN_OK) {
        free(fresh);
        free(copy);
        return status;
    }
    fresh->path = copy;
    fresh->entry = *entry;
    fresh->next = modules;
    modules = fresh;
    return KILN_OK;
}

kiln_status kiln_plugin_register(const char *name, kiln_plugin_entry_fn entry)
{
    size_t length = name ? strlen(name) : 0;
    if (!length || !entry || length >= sizeof registrations[0].name || *name < 'a' || *name > 'z' ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != length)
        return kiln_fail(KILN_INVALID,
                         "a plugin is registered with its entry and under a name of at most 31 of "
                         "[a-z0-9-] that begins with a letter");
    kiln_status status = KILN_OK;
    kiln_loader_lock();
    for (int64_t i = 0; i < registration_count; i++)
        if (strcmp(registrations[i].name, name) == 0 && registrations[i].entry != entry)
            status = kiln_fail(KILN_INVALID, "a plugin '%s' is registered already", name);
        else if (strcmp(registrations[i].name, name) == 0)
            status = KILN_NOT_READY; /* the same again: nothing to do */
    if (status == KILN_OK && registration_count == MAX_REGISTRATIONS)
        status =
            kiln_fail(KILN_CAPACITY, "at most %d plugins can be registered", MAX_REGISTRATIONS);
    if (status == KILN_OK) {
        snprintf(registrations[registration_count].name, sizeof registrations[0].name, "%s", name);
        registrations[registration_count++].entry = entry;
    }
    kiln_loader_unlock();
    return status == KILN_NOT_READY ? KILN_OK : status;
}

const char *kiln_registered_at(int64_t index, kiln_plugin_entry_fn *entry)
{
    if (index >= registration_count)
        return NULL;
    *entry = registrations[index].entry;
    return registrations[index].name;
}
