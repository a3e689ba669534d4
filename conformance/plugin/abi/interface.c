/* SPDX-License-Identifier: Apache-2.0 */
/* The tables that a plugin gives for its interfaces. */
#define _GNU_SOURCE /* dladdr */
#include "conformance/plugin/abi/abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "kiln/gemm.h"

typedef struct table_function {
    const char *name;
    size_t offset;
} table_function;

#define OPERATOR(name)                             \
    {                                              \
#name, offsetof(kiln_operator_table, name) \
    }
#define DEVICE(name)                             \
    {                                            \
#name, offsetof(kiln_device_table, name) \
    }

static const table_function operator_functions[] = {OPERATOR(query), OPERATOR(plan), OPERATOR(run),
                                                    OPERATOR(free)};
static const table_function optional_operator_functions[] = {OPERATOR(space),   OPERATOR(pack_size),
                                                             OPERATOR(pack),    OPERATOR(unpack),
                                                             OPERATOR(outputs), OPERATOR(schedule)};
static const table_function device_functions[] = {
    DEVICE(count),          DEVICE(info),        DEVICE(open),         DEVICE(close),
    DEVICE(alloc),          DEVICE(free),        DEVICE(copy),         DEVICE(stream_create),
    DEVICE(stream_destroy), DEVICE(stream_wait), DEVICE(event_create), DEVICE(event_destroy),
    DEVICE(event_record),   DEVICE(event_query), DEVICE(event_wait),   DEVICE(stream_wait_event)};

enum {
    OPERATOR_FUNCTIONS = sizeof operator_functions / sizeof operator_functions[0],
    OPTIONAL_OPERATOR_FUNCTIONS =
        sizeof optional_operator_functions / sizeof optional_operator_functions[0],
    DEVICE_FUNCTIONS = sizeof device_functions / sizeof device_functions[0],
    KNOWN_OPERATOR_FLAGS = KILN_OPERATOR_ANY_DEVICE
};

/* Each interface that is listed, with its table, NULL when it is not offered. */
static void for_each(const conformance_subject *subject, conformance_report *report,
                     void (*visit)(const conformance_instance *instance, const char *name,
                                   const void *table, conformance_report *report))
{
    conformance_plugin plugin;
    conformance_instance instance;
    if (!conformance_load_and_open(&plugin, &instance, subject, report))
        return;
    for (int64_t i = 0; plugin.table.interfaces[i]; i++) {
        const char *name = plugin.table.interfaces[i];
        conformance_calling("interface");
        const void *table = plugin.table.interface(instance.instance, name);
        conformance_calling(NULL);
        report->cases++;
        visit(&instance, name, table, report);
    }
    conformance_close(&instance);
}

/* ---- Names ---- */

static void visit_name(const conformance_instance *instance, const char *name, const void *table,
                       conformance_report *report)
{
    char copy[80];
    snprintf(copy, sizeof copy, "%s", name); /* equal text at another address */
    conformance_calling("interface");
    const void *again = instance->plugin->table.interface(instance->instance, copy);
    conformance_calling(NULL);
    if (!table && instance->plugin->table.option_count == 0)
        conformance_fail(report,
                         "interface() gives NULL for %s, which it lists, and there is no option "
                         "that could have switched it off",
                         name);
    else if (!table)
        report->declined++;
    if (again != table)
        conformance_fail(report,
                         "interface() gives another table when it is asked for %s again: it must "
                         "live as long as the instance",
                         name);
}

void conformance_abi_interface_names(const conformance_subject *subject, conformance_report *report)
{
    for_each(subject, report, visit_name);
    if (report->verdict == CONFORMANCE_CHECK_PASSED && report->cases == report->declined)
        conformance_fail(report, "interface() gives NULL for all that it lists");
}

static bool is_listed(const conformance_plugin *plugin, const char *name)
{
    for (int64_t i = 0; plugin->table.interfaces[i]; i++)
        if (strcmp(plugin->table.interfaces[i], name) == 0)
            return true;
    return false;
}

static void demand_unknown(const conformance_instance *instance, const char *name,
                           conformance_report *report)
{
    if (is_listed(instance->plugin, name))
        return;
    report->cases++;
    conformance_calling("interface");
    const void *table = instance->plugin->table.interface(instance->instance, name);
    conformance_calling(NULL);
    if (table)
        conformance_fail(report, "interface() gives a table for '%s', which it does not list",
                         name);
}

void conformance_abi_interface_unknown(const conformance_subject *subject,
                                       conformance_report *report)
{
    static const char *const names[] = {"",
                                        "/",
                                        "kiln",
                                        "kiln.gemm",
                                        "kiln.gemm/",
                                        "kiln.gemm/1",
                                        "kiln.device/1",
                                        "kiln.nothing/1",
                                        "nobody.knows-this/7"};
    conformance_plugin plugin;
    conformance_instance instance;
    char text[128];
    if (!conformance_load_and_open(&plugin, &instance, subject, report))
        return;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        demand_unknown(&instance, names[i], report);
    for (int64_t i = 0; plugin.table.interfaces[i]; i++) {
        const char *name = plugin.table.interfaces[i];
        int length = (int)strlen(name);
        snprintf(text, sizeof text, "%.100s0", name); /* a later major version */
        demand_unknown(&instance, text, report);
        snprintf(text, sizeof text, "%.100s/1", name);
        demand_unknown(&instance, text, report);
        snprintf(text, sizeof text, "%.*s2", length > 1 && length < 100 ? length - 1 : 0, name);
        demand_unknown(&instance, text, report);
        snprintf(text, sizeof text, "%.*s", length > 1 && length < 100 ? length - 1 : 0, name);
        demand_unknown(&instance, text, report);
        snprintf(text, sizeof text, "x%.100s", name);
        demand_unknown(&instance, text, report);
    }
    conformance_close(&instance);
}

/* ---- Tables ---- */

static const void *function_at(const void *table, uint64_t size, size_t offset)
{
    void *function = NULL;
    if (offset + sizeof function <= size)
        memcpy(&function, (const char *)table + offset, sizeof function);
    return function;
}

static bool is_code(const void *function)
{
    Dl_info info;
    return dladdr(function, &info) != 0;
}

static void visit_table(const conformance_instance *instance, const char *name, const void *table,
                        conformance_report *report)
{
    if (!table)
        return;
    bool device = strcmp(name, KILN_DEVICE) == 0;
    uint64_t size, least = device ? offsetof(kiln_device_table, stream_enqueue)
                                  : offsetof(kiln_operator_table, space);
    memcpy(&size, table, sizeof size);
    if (size < least || size > 65536 || size % sizeof(void *) != 0) {
        conformance_fail(report, "the struct_size of its table of %s is %llu", name,
                         (unsigned long long)size);
        return;
    }
    size_t known = device ? sizeof(kiln_device_table) : sizeof(kiln_operator_table);
    /* A vendor's own operator may have functions behind those that all have. */
    bool own = !device && strcmp(name, KILN_GEMM) != 0;
    if (instance->plugin->table.abi_minor == KILN_PLUGIN_ABI_MINOR && size > known && !own)
        conformance_fail(report,
                         "its table of %s has %llu bytes, but in ABI minor %d, with which it was "
                         "built, %zu",
                         name, (unsigned long long)size, KILN_PLUGIN_ABI_MINOR, known);
    const kiln_operator_table *operator= table;
    if (!device && instance->plugin->table.abi_minor == KILN_PLUGIN_ABI_MINOR &&
        (operator->flags & ~(uint64_t) KNOWN_OPERATOR_FLAGS))
        conformance_fail(report, "the flags of its table of %s are 0x%llx, of which 0x%x are known",
                         name, (unsigned long long)operator->flags, KNOWN_OPERATOR_FLAGS);
}

void conformance_abi_interface_tables(const conformance_subject *subject,
                                      conformance_report *report)
{
    for_each(subject, report, visit_table);
}

static void demand_function(const char *interface, const void *table, uint64_t size,
                            const table_function *function, bool required,
                            conformance_report *report)
{
    const void *address = function_at(table, size, function->offset);
    if (!address && required)
        conformance_fail(report, "its table of %s lacks %s", interface, function->name);
    else if (address && !is_code(address))
        conformance_fail(report, "%s in its table of %s points to no code", function->name,
                         interface);
}

static void visit_functions(const conformance_instance *instance, const char *name,
                            const void *table, conformance_report *report)
{
    uint64_t size;
    (void)instance;
    if (!table)
        return;
    memcpy(&size, table, sizeof size);
    if (strcmp(name, KILN_DEVICE) == 0) {
        for (int i = 0; i < DEVICE_FUNCTIONS; i++)
            demand_function(name, table, size, &device_functions[i], true, report);
        return;
    }
    for (int i = 0; i < OPERATOR_FUNCTIONS; i++)
        demand_function(name, table, size, &operator_functions[i], true, report);
    for (int i = 0; i < OPTIONAL_OPERATOR_FUNCTIONS; i++)
        demand_function(name, table, size, &optional_operator_functions[i], false, report);
    if (strcmp(name, KILN_GEMM) != 0 &&
        !function_at(table, size, offsetof(kiln_operator_table, outputs)))
        conformance_fail(report,
                         "its table of %s lacks outputs: Kiln does not know this operator and must "
                         "be told which tensors a run writes",
                         name);
    const void *pack_size = function_at(table, size, offsetof(kiln_operator_table, pack_size)),
               *pack = function_at(table, size, offsetof(kiln_operator_table, pack)),
               *unpack = function_at(table, size, offsetof(kiln_operator_table, unpack));
    if (!pack_size != !pack || !pack != !unpack)
        conformance_fail(report,
                         "its table of %s has a part of pack_size, pack and unpack; they come "
                         "together",
                         name);
}

void conformance_abi_required_functions(const conformance_subject *subject,
                                        conformance_report *report)
{
    for_each(subject, report, visit_functions);
}
