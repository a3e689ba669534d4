/* SPDX-License-Identifier: Apache-2.0 */
/* What the entry gives: a table of static data. */
#define _GNU_SOURCE /* dladdr */
#include "conformance/plugin/abi/abi.h"

#include <ctype.h>
#include <dlfcn.h>
#include <string.h>

#include "conformance/plugin/state.h"

enum { MOST_INTERFACES = 64, MOST_DEVICES = 1024 };

/* The fields that a table of minor version 0 has. */
static const size_t smallest_plugin =
    offsetof(kiln_plugin, interface) + sizeof(((kiln_plugin *)0)->interface);

void conformance_abi_loads(const conformance_subject *subject, conformance_report *report)
{
    conformance_plugin plugin;
    report->cases = 1;
    conformance_load(&plugin, subject, report);
}

void conformance_abi_entry(const conformance_subject *subject, conformance_report *report)
{
    static const int64_t minors[] = {
        KILN_PLUGIN_ABI_MINOR, 0, KILN_PLUGIN_ABI_MINOR + 1, 1000, INT32_MAX, INT64_MAX};
    static conformance_state before, after;
    char text[256];
    conformance_plugin plugin;
    if (!conformance_load(&plugin, subject, report))
        return;
    for (size_t i = 0; i < sizeof minors / sizeof minors[0]; i++) {
        conformance_state_take(&before, true);
        conformance_calling(KILN_PLUGIN_SYMBOL);
        const kiln_plugin *offered = plugin.entry(minors[i]);
        conformance_calling(NULL);
        conformance_state_take(&after, true);
        report->cases++;
        const char *difference = conformance_state_difference(&before, &after, ~0u, text);
        if (difference)
            conformance_fail(report, "its entry exchanges tables only, but it changed %s",
                             difference);
        if (!offered)
            conformance_fail(report,
                             "its entry returns NULL for host minor %lld; it works with all",
                             (long long)minors[i]);
        else if (offered->struct_size != plugin.offered->struct_size ||
                 offered->interface != plugin.offered->interface)
            conformance_fail(report,
                             "its entry gives another table for host minor %lld than for %d",
                             (long long)minors[i], KILN_PLUGIN_ABI_MINOR);
    }
}

/* One line of text that a person can read. */
static bool is_line(const char *text)
{
    if (!text || !*text || strlen(text) > 1000)
        return false;
    for (; *text; text++)
        if (iscntrl((unsigned char)*text))
            return false;
    return true;
}

void conformance_abi_table(const conformance_subject *subject, conformance_report *report)
{
    conformance_plugin plugin;
    if (!conformance_load(&plugin, subject, report))
        return;
    const kiln_plugin *table = &plugin.table;
    uint64_t size = plugin.offered->struct_size;
    report->cases = 1;
    if (size < smallest_plugin || size > 65536)
        conformance_fail(report, "the struct_size of its kiln_plugin is %llu; it has %zu bytes",
                         (unsigned long long)size, sizeof *table);
    else if (table->abi_minor == KILN_PLUGIN_ABI_MINOR && size != sizeof *table)
        conformance_fail(report,
                         "it was built with ABI minor %d, in which kiln_plugin has %zu bytes, not "
                         "%llu",
                         KILN_PLUGIN_ABI_MINOR, sizeof *table, (unsigned long long)size);
    else if (table->abi_minor > 10000)
        conformance_fail(report, "its abi_minor is %llu; KILN_PLUGIN_ABI_MINOR is meant",
                         (unsigned long long)table->abi_minor);
    if (!table->name || strcmp(table->name, subject->name) != 0)
        conformance_fail(report, "it calls itself '%s', but its file %s.so",
                         table->name ? table->name : "(NULL)", subject->name);
    if (!is_line(table->version) || !is_line(table->vendor) || !is_line(table->description))
        conformance_fail(report, "version, vendor and description must each be one line of text");
    if (!table->probe || !table->open || !table->close || !table->interface)
        conformance_fail(report, "it lacks probe, open, close or interface");
}

/* ---- Static data ---- */

/* Whether an address lies within a module, as opposed to the heap or a stack. */
static bool in_module(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0;
}

static void demand_static(conformance_report *report, const void *address, const char *what)
{
    report->cases++;
    if (address && !in_module(address))
        conformance_fail(report, "%s is not static data of the plugin", what);
}

void conformance_abi_static_data(const conformance_subject *subject, conformance_report *report)
{
    conformance_plugin plugin;
    if (!conformance_load(&plugin, subject, report))
        return;
    const kiln_plugin *table = &plugin.table;
    demand_static(report, plugin.offered, "its kiln_plugin");
    demand_static(report, table->name, "its name");
    demand_static(report, table->version, "its version");
    demand_static(report, table->vendor, "its vendor");
    demand_static(report, table->description, "its description");
    demand_static(report, table->interfaces, "its list of interfaces");
    demand_static(report, table->options, "its list of options");
    for (int64_t i = 0; table->interfaces && i < MOST_INTERFACES && table->interfaces[i]; i++)
        demand_static(report, table->interfaces[i], "the name of an interface");
    for (uint64_t i = 0; table->options && i < table->option_count && i < 256; i++) {
        demand_static(report, table->options[i].key, "the key of an option");
        demand_static(report, table->options[i].help, "the help of an option");
        demand_static(report, table->options[i].default_value, "the default of an option");
        demand_static(report, table->options[i].choices, "the choices of an option");
    }
}

/* ---- Interfaces ---- */

/* NAME/MAJOR with a name of at least two words: "kiln.gemm/1". */
static bool is_interface_name(const char *name)
{
    size_t words = 0;
    const char *at = name;
    do {
        size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789-_");
        if (length == 0 || at[0] < 'a' || at[0] > 'z')
            return false;
        words++;
        at += length;
    } while (*at == '.' && at++);
    size_t digits = *at == '/' ? strspn(at + 1, "0123456789") : 0;
    return words >= 2 && digits > 0 && digits < 6 && at[1] != '0' && !at[1 + digits] &&
           strlen(name) < 64;
}

void conformance_abi_interfaces(const conformance_subject *subject, conformance_report *report)
{
    static const char *const known[] = {KILN_DEVICE, "kiln.gemm/1"};
    conformance_plugin plugin;
    if (!conformance_load(&plugin, subject, report))
        return;
    const char *const *names = plugin.table.interfaces;
    if (!names || !names[0]) {
        conformance_fail(report, "it lists no interface, and so it offers nothing");
        return;
    }
    int64_t i = 0;
    for (; i < MOST_INTERFACES && names[i]; i++) {
        report->cases++;
        if (!is_interface_name(names[i]))
            conformance_fail(report, "interface '%.80s' does not read like acme.sort/1", names[i]);
        for (int64_t j = 0; j < i; j++)
            if (strcmp(names[i], names[j]) == 0)
                conformance_fail(report, "interface %.80s is listed twice", names[i]);
        bool ours =
            strncmp(names[i], "kiln.", 5) != 0 || plugin.table.abi_minor > KILN_PLUGIN_ABI_MINOR;
        for (size_t j = 0; j < sizeof known / sizeof known[0]; j++)
            ours |= strcmp(names[i], known[j]) == 0;
        if (!ours)
            conformance_fail(report,
                             "interface %.80s is none of Kiln's; kiln. is for those of its headers",
                             names[i]);
    }
    if (i == MOST_INTERFACES)
        conformance_fail(report, "its list of interfaces has no NULL at its end, or more than %d",
                         MOST_INTERFACES);
}

/* ---- Probe ---- */

void conformance_abi_probe(const conformance_subject *subject, conformance_report *report)
{
    static conformance_state before, after;
    char text[256];
    int64_t first = 0;
    conformance_plugin plugin;
    if (!conformance_load(&plugin, subject, report))
        return;
    if (!plugin.table.probe) {
        conformance_fail(report, "it lacks probe");
        return;
    }
    for (int i = 0; i < 3; i++) {
        conformance_state_take(&before, true);
        int64_t count = CONFORMANCE_CALL("probe", plugin.table.probe());
        conformance_state_take(&after, true);
        report->cases++;
        const char *difference = conformance_state_difference(&before, &after, ~0u, text);
        if (difference)
            conformance_fail(report, "probe touches nothing, but it changed %s", difference);
        if (count < 0 || count > MOST_DEVICES)
            conformance_fail(report, "probe returns %lld; it is a number of devices",
                             (long long)count);
        if (i > 0 && count != first)
            conformance_fail(report, "probe returns %lld and then %lld", (long long)first,
                             (long long)count);
        first = count;
    }
}
