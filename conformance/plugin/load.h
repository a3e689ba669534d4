/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin inside the process of a check: loaded by hand, and opened by a runtime in such a way
 * that the check knows the instance and may call its functions directly. */
#ifndef KILN_CONFORMANCE_PLUGIN_LOAD_H
#define KILN_CONFORMANCE_PLUGIN_LOAD_H

#include "conformance/plugin.h"
#include "kiln/plugin.h"

/* ---- Which function of the plugin is running, for the sentence about a crash ---- */

/* `function` is static text ("query"); NULL = none. */
void conformance_calling(const char *function);

/* The value of an expression that calls into the plugin. */
#define CONFORMANCE_CALL(function, expression) \
    (conformance_calling(function), conformance_called((int64_t)(intptr_t)(expression)))

/* The same for what returns nothing. */
#define CONFORMANCE_CALL_VOID(function, expression) \
    do {                                            \
        conformance_calling(function);              \
        (expression);                               \
        conformance_calling(NULL);                  \
    } while (0)

static inline int64_t conformance_called(int64_t value)
{
    conformance_calling(NULL);
    return value;
}

/* Called around every call of probe, open, close and interface, and around those between
 * conformance_enter and conformance_leave. */
typedef struct conformance_watch {
    void (*before)(void *argument, const char *function);
    void (*after)(void *argument, const char *function);
    void *argument;
} conformance_watch;

/* ---- Loading and opening ---- */

/* What the file offers. */
typedef struct conformance_plugin {
    const conformance_subject *subject;
    conformance_report *report;
    void *module;               /* dlopen's */
    kiln_plugin_entry_fn entry; /* NULL when the file has none */
    const kiln_plugin *offered; /* as the entry gave it */
    kiln_plugin table;          /* as this library knows it */
    int64_t threads;            /* of the process, once it was loaded */
    /* For what is opened from now on: */
    bool newer_host;   /* its host table is longer and of a later minor version */
    bool guard_closed; /* what it was given is inaccessible after close, not just unmapped */
    const conformance_watch *watch; /* NULL = nobody */
} conformance_plugin;

/* Loads the file and asks its entry. On failure the report says why, and false is returned. */
bool conformance_load(conformance_plugin *plugin, const conformance_subject *subject,
                      conformance_report *report);

/* One runtime with this plugin alone, and what the plugin gave and was given. The host table and
 * the option values are the plugin's own copies, in pages that it can only read, and that nobody
 * can touch after close. */
typedef struct conformance_instance {
    const conformance_plugin *plugin;
    kiln_runtime *runtime;
    const kiln_host *host; /* as the plugin has it */
    void *instance;
    struct conformance_visit *visit;
} conformance_instance;

/* Opens a runtime for a plugin that was loaded. `options` is YAML of options.<name>; NULL = the
 * subject's. On failure the report says why (a plugin without hardware here: NOT_APPLICABLE), and
 * false is returned. */
bool conformance_open(conformance_instance *instance, const conformance_plugin *plugin,
                      const char *options);

/* The same without touching the report: KILN_OK, or why not in `reason`. "no hardware" is
 * KILN_NOT_FOUND. */
kiln_status conformance_try_open(conformance_instance *instance, const conformance_plugin *plugin,
                                 const char *options, char *reason, size_t reason_size);

void conformance_close(conformance_instance *instance);

/* Whether a plugin is open in a runtime: as conformance_try_open. */
kiln_status conformance_plugin_state(const kiln_runtime *runtime, const char *name, char *reason,
                                     size_t reason_size);

/* How often the plugin called this instance's host->set_error, on any thread. */
int64_t conformance_errors_set(const conformance_instance *instance);

/* Loads and opens with the subject's options: for checks that need no more. */
bool conformance_load_and_open(conformance_plugin *plugin, conformance_instance *instance,
                               const conformance_subject *subject, conformance_report *report);

/* Around a call of one of the plugin's functions, which `function` names. */
void conformance_enter(const conformance_plugin *plugin, const char *function);
void conformance_leave(const conformance_plugin *plugin, const char *function);

/* The table of an interface as this library knows it, NULL fields where the plugin's is shorter.
 * False when the plugin does not offer it, or its table is too small. */
bool conformance_operator(const conformance_instance *instance, const char *name,
                          kiln_operator_table *table);

/* Number of the plugin's devices, and one of them. */
int64_t conformance_device_count(const conformance_instance *instance);
kiln_device *conformance_device(const conformance_instance *instance, int64_t index);

#endif
