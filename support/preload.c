/* SPDX-License-Identifier: Apache-2.0 */
/* Static builds only: makes known, before main, the plugins that libtool's -dlpreopen linked into
 * this program. */
#include <ltdl.h>
#include <string.h>

#include "kiln/plugin.h"

#define ENTRY_SUFFIX "_LTX_" KILN_PLUGIN_SYMBOL

/* libtool writes this table, of all symbols of the preopened modules, for every program with
 * -dlpreopen. */
extern const lt_dlsymlist lt__PROGRAM__LTX_preloaded_symbols[];

void kiln_preload(void);

__attribute__((constructor)) void kiln_preload(void)
{
    for (const lt_dlsymlist *symbol = lt__PROGRAM__LTX_preloaded_symbols; symbol->name; symbol++) {
        const char *suffix = strstr(symbol->name, ENTRY_SUFFIX);
        char name[32];
        kiln_plugin_entry_fn entry;
        if (!suffix || suffix[sizeof ENTRY_SUFFIX - 1] ||
            suffix - symbol->name >= (ptrdiff_t)sizeof name)
            continue;
        memcpy(name, symbol->name, (size_t)(suffix - symbol->name));
        name[suffix - symbol->name] = '\0';
        memcpy(&entry, &symbol->address, sizeof entry);
        kiln_plugin_register(name, entry);
    }
}
