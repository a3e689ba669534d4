/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin is registered with the library in the way of one that is linked in, with an `open` and
 * a `close` around its own: so a runtime opens it, and the check learns what the runtime gave it
 * and what it made. */
#include "conformance/plugin/load.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "conformance/plugin/profile.h"
#include "conformance/plugin/state.h"

enum { VISITS = 16, BEYOND_HOST = 64 };

/* One instance, from open to close. */
typedef struct conformance_visit {
    bool used;
    void *instance;
    kiln_status (*set_error)(kiln_status status, const char *format, ...);
    void *pages; /* host table and option values as the plugin sees them */
    size_t pages_size;
    bool guard;
    _Atomic int64_t errors;
} conformance_visit;

static conformance_visit visits[VISITS];
static pthread_mutex_t visits_lock = PTHREAD_MUTEX_INITIALIZER;
static conformance_visit *visiting; /* under the library's loader lock, and on one thread */
static const conformance_plugin *loaded;
static kiln_plugin proxy;

/* ---- Functions of the host table that know their instance ---- */

static kiln_status set_error_of(conformance_visit *visit, kiln_status status, const char *format,
                                va_list arguments)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    atomic_fetch_add(&visit->errors, 1);
    return visit->set_error(status, "%s", text);
}

#define SET_ERROR(slot)                                                              \
    static kiln_status set_error_##slot(kiln_status status, const char *format, ...) \
    {                                                                                \
        va_list arguments;                                                           \
        va_start(arguments, format);                                                 \
        set_error_of(&visits[slot], status, format, arguments);                      \
        va_end(arguments);                                                           \
        return status;                                                               \
    }
SET_ERROR(0)
SET_ERROR(1)
SET_ERROR(2)
SET_ERROR(3)
SET_ERROR(4)
SET_ERROR(5)
SET_ERROR(6)
SET_ERROR(7)
SET_ERROR(8)
SET_ERROR(9)
SET_ERROR(10)
SET_ERROR(11)
SET_ERROR(12)
SET_ERROR(13)
SET_ERROR(14)
SET_ERROR(15)

static kiln_status (*const set_errors[VISITS])(kiln_status status, const char *format, ...) = {
    set_error_0,  set_error_1,  set_error_2,  set_error_3,  set_error_4,  set_error_5,
    set_error_6,  set_error_7,  set_error_8,  set_error_9,  set_error_10, set_error_11,
    set_error_12, set_error_13, set_error_14, set_error_15,
};

/* ---- What the plugin is given ---- */

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Copies of the host table and of the option values, which the plugin may only read. */
static bool give(conformance_visit *visit, const kiln_host *host, const kiln_option_value *options,
                 const kiln_host **given, const kiln_option_value **values)
{
    size_t count = (size_t)loaded->table.option_count;
    size_t host_bytes = round_up(sizeof *host + BEYOND_HOST, 64);
    size_t bytes = host_bytes + count * sizeof *options;
    for (size_t i = 0; i < count; i++)
        bytes += options[i].text ? strlen(options[i].text) + 1 : 0;
    visit->pages_size = round_up(bytes, 4096);
    visit->pages =
        mmap(NULL, visit->pages_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (visit->pages == MAP_FAILED)
        return false;
    kiln_host *own = visit->pages;
    *own = *host;
    visit->set_error = host->set_error;
    own->set_error = set_errors[visit - visits];
    if (loaded->newer_host) {
        own->struct_size = sizeof *own + BEYOND_HOST;
        own->abi_minor = 1000;
        memset(own + 1, 0x5a, BEYOND_HOST);
    }
    kiln_option_value *copies = (kiln_option_value *)((char *)visit->pages + host_bytes);
    char *text = (char *)(copies + count);
    for (size_t i = 0; i < count; i++) {
        copies[i] = options[i];
        if (options[i].text) {
            size_t size = strlen(options[i].text) + 1;
            copies[i].text = memcpy(text, options[i].text, size);
            text += size;
        }
    }
    mprotect(visit->pages, visit->pages_size, PROT_READ);
    *given = own;
    *values = copies;
    return true;
}

static void take_back(conformance_visit *visit)
{
    if (!visit->pages || visit->pages == MAP_FAILED)
        return;
    if (visit->guard)
        mprotect(visit->pages, visit->pages_size, PROT_NONE);
    else
        munmap(visit->pages, visit->pages_size);
    visit->pages = NULL;
}

void conformance_enter(const conformance_plugin *plugin, const char *function)
{
    if (plugin->watch)
        plugin->watch->before(plugin->watch->argument, function);
    conformance_calling(function);
}

void conformance_leave(const conformance_plugin *plugin, const char *function)
{
    conformance_calling(NULL);
    if (plugin->watch)
        plugin->watch->after(plugin->watch->argument, function);
}

static kiln_status proxy_open(const kiln_host *host, const kiln_option_value *options,
                              void **instance)
{
    const kiln_host *given;
    const kiln_option_value *values;
    conformance_visit *visit = visiting;
    if (!give(visit, host, options, &given, &values))
        return host->set_error(KILN_NO_MEMORY, "the check has no memory for a host table");
    conformance_enter(loaded, "open");
    kiln_status status = loaded->table.open(given, values, &visit->instance);
    conformance_leave(loaded, "open");
    if (status == KILN_OK)
        *instance = visit->instance;
    else
        take_back(visit);
    return status;
}

static void proxy_close(void *instance)
{
    conformance_enter(loaded, "close");
    loaded->table.close(instance);
    conformance_leave(loaded, "close");
    take_back(visiting);
}

static int64_t proxy_probe(void)
{
    conformance_enter(loaded, "probe");
    int64_t count = loaded->table.probe();
    conformance_leave(loaded, "probe");
    return count;
}

static const void *proxy_interface(void *instance, const char *name)
{
    conformance_enter(loaded, "interface");
    const void *table = loaded->table.interface(instance, name);
    conformance_leave(loaded, "interface");
    return table;
}

static const kiln_plugin *proxy_entry(int64_t host_abi_minor)
{
    (void)host_abi_minor;
    return &proxy;
}

/* ---- Loading ---- */

bool conformance_load(conformance_plugin *plugin, const conformance_subject *subject,
                      conformance_report *report)
{
    memset(plugin, 0, sizeof *plugin);
    plugin->subject = subject;
    plugin->report = report;
    conformance_calling("the code that runs when it is loaded");
    plugin->module = dlopen(subject->path, RTLD_NOW | RTLD_LOCAL);
    conformance_calling(NULL);
    if (!plugin->module) {
        const char *words = dlerror();
        conformance_fail(report, "cannot be loaded: %s", words ? words : "no reason was given");
        return false;
    }
    plugin->threads = conformance_thread_count();
    void *symbol = dlsym(plugin->module, KILN_PLUGIN_SYMBOL);
    memcpy(&plugin->entry, &symbol, sizeof symbol);
    if (!plugin->entry) {
        conformance_fail(report, "does not export %s", KILN_PLUGIN_SYMBOL);
        return false;
    }
    conformance_calling(KILN_PLUGIN_SYMBOL);
    plugin->offered = plugin->entry(KILN_PLUGIN_ABI_MINOR);
    conformance_calling(NULL);
    if (!plugin->offered) {
        conformance_fail(report, "its entry returns NULL for host minor %d", KILN_PLUGIN_ABI_MINOR);
        return false;
    }
    if (kiln_receive_table(&plugin->table, sizeof plugin->table, plugin->offered) != KILN_OK) {
        conformance_fail(report, "the struct_size of its kiln_plugin is %llu",
                         (unsigned long long)plugin->offered->struct_size);
        return false;
    }
    return true;
}

/* ---- Opening ---- */

static conformance_visit *visit_new(void)
{
    conformance_visit *found = NULL;
    pthread_mutex_lock(&visits_lock);
    for (int i = 0; i < VISITS && !found; i++)
        if (!visits[i].used) {
            found = &visits[i];
            memset(found, 0, sizeof *found);
            found->used = true;
        }
    pthread_mutex_unlock(&visits_lock);
    return found;
}

static void visit_end(conformance_visit *visit)
{
    pthread_mutex_lock(&visits_lock);
    visit->used = false;
    pthread_mutex_unlock(&visits_lock);
}

static kiln_status register_proxy(const conformance_plugin *plugin)
{
    proxy = plugin->table;
    loaded = plugin;
    /* What it lacks, the runtime finds; the check's own functions must not hide it. */
    if (proxy.open)
        proxy.open = proxy_open;
    if (proxy.close)
        proxy.close = proxy_close;
    if (proxy.probe)
        proxy.probe = proxy_probe;
    if (proxy.interface)
        proxy.interface = proxy_interface;
    return kiln_plugin_register(plugin->subject->name, proxy_entry);
}

kiln_status conformance_plugin_state(const kiln_runtime *runtime, const char *name, char *reason,
                                     size_t reason_size)
{
    for (int64_t i = 0; i < kiln_plugin_count(runtime); i++) {
        kiln_plugin_info info = {.struct_size = sizeof info};
        if (kiln_plugin_at(runtime, i, &info) != KILN_OK || strcmp(info.name, name) != 0 ||
            strcmp(info.state, "shadowed") == 0)
            continue;
        if (strcmp(info.state, "open") == 0)
            return KILN_OK;
        bool absent = strcmp(info.state, "no hardware") == 0;
        snprintf(reason, reason_size, "%s: %s", info.state, info.reason ? info.reason : "");
        return absent ? KILN_NOT_FOUND : KILN_PLUGIN;
    }
    snprintf(reason, reason_size, "the runtime does not list it");
    return KILN_PLUGIN;
}

kiln_status conformance_try_open(conformance_instance *instance, const conformance_plugin *plugin,
                                 const char *options, char *reason, size_t reason_size)
{
    memset(instance, 0, sizeof *instance);
    char *profile = conformance_profile(plugin->subject,
                                        options ? options : plugin->subject->options, 2, false);
    conformance_visit *visit = visit_new();
    kiln_status status = register_proxy(plugin);
    if (!profile || !visit || status != KILN_OK) {
        snprintf(reason, reason_size, "%s",
                 status != KILN_OK ? kiln_last_error() : "the check has no memory");
        free(profile);
        if (visit)
            visit_end(visit);
        return KILN_INTERNAL;
    }
    kiln_runtime_options made = {
        .struct_size = sizeof made, .flags = KILN_RUNTIME_ISOLATED, .profile_text = profile};
    visit->guard = plugin->guard_closed;
    visiting = visit;
    status = kiln_runtime_open(&made, &instance->runtime);
    free(profile);
    if (status != KILN_OK)
        snprintf(reason, reason_size, "%s", kiln_last_error());
    else
        status =
            conformance_plugin_state(instance->runtime, plugin->subject->name, reason, reason_size);
    instance->plugin = plugin;
    instance->instance = visit->instance;
    instance->host = visit->pages;
    instance->visit = visit;
    if (status == KILN_OK)
        return KILN_OK;
    kiln_runtime_close(instance->runtime);
    visit_end(visit);
    return status;
}

bool conformance_open(conformance_instance *instance, const conformance_plugin *plugin,
                      const char *options)
{
    char reason[640];
    kiln_status status = conformance_try_open(instance, plugin, options, reason, sizeof reason);
    if (status == KILN_OK)
        return true;
    if (status == KILN_NOT_FOUND)
        conformance_skip(plugin->report, "cannot be opened: %s", reason);
    else
        conformance_fail(plugin->report, "cannot be opened%s%s: %s",
                         options ? " with options " : "", options ? options : "", reason);
    return false;
}

void conformance_close(conformance_instance *instance)
{
    visiting = instance->visit;
    kiln_runtime_close(instance->runtime);
    visit_end(instance->visit);
    instance->runtime = NULL;
}

int64_t conformance_errors_set(const conformance_instance *instance)
{
    return atomic_load(&instance->visit->errors);
}

bool conformance_load_and_open(conformance_plugin *plugin, conformance_instance *instance,
                               const conformance_subject *subject, conformance_report *report)
{
    return conformance_load(plugin, subject, report) && conformance_open(instance, plugin, NULL);
}

/* ---- Interfaces and devices ---- */

bool conformance_operator(const conformance_instance *instance, const char *name,
                          kiln_operator_table *table)
{
    conformance_enter(instance->plugin, "interface");
    const void *offered = instance->plugin->table.interface(instance->instance, name);
    conformance_leave(instance->plugin, "interface");
    return offered && strcmp(name, KILN_DEVICE) != 0 &&
           kiln_receive_table(table, sizeof *table, offered) == KILN_OK;
}

/* The host is the runtime's first device; all others are this plugin's. */
int64_t conformance_device_count(const conformance_instance *instance)
{
    return kiln_device_count(instance->runtime) - 1;
}

kiln_device *conformance_device(const conformance_instance *instance, int64_t index)
{
    return kiln_device_at(instance->runtime, index + 1);
}
