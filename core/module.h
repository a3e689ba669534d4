/* SPDX-License-Identifier: Apache-2.0 */
/* Shared objects, through libltdl, with a loader of our own beneath it. Every function needs the
 * loader's lock. */
#ifndef KILN_CORE_MODULE_H
#define KILN_CORE_MODULE_H

#include "kiln/plugin.h"

void kiln_loader_lock(void);
void kiln_loader_unlock(void);

/* The entry of a shared object, loaded at its first use and kept for the life of the process.
 * PLUGIN with the dynamic linker's own words when it cannot be loaded or lacks the entry. */
kiln_status kiln_module_entry(const char *path, kiln_plugin_entry_fn *entry);

/* Plugins made known by kiln_plugin_register; NULL beyond the last. */
const char *kiln_registered_at(int64_t index, kiln_plugin_entry_fn *entry);

#endif
