/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that crashes when it is probed: the program must say which one it was. */
#include "kiln/plugin.h"

static int64_t probe(void)
{
    __builtin_trap();
}

static const kiln_plugin crasher_plugin = {
    .struct_size = sizeof crasher_plugin,
    .abi_minor = KILN_PLUGIN_ABI_MINOR,
    .name = "crasher",
    .version = "1",
    .vendor = "tests",
    .description = "crashes in probe",
    .probe = probe,
};

KILN_PLUGIN_ENTRY(crasher)
{
    return host_abi_minor >= 0 ? &crasher_plugin : NULL;
}
