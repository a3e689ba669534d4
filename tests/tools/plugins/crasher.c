/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that crashes when it is probed: the program must say which one it was. */
#include "kiln/plugin.h"

static int64_t crasher_probe(void)
{
    __builtin_trap();
}

static kiln_status crasher_open(const kiln_host *host, const kiln_option_value *options,
                                void **instance)
{
    (void)options;
    (void)instance;
    return host->set_error(KILN_UNSUPPORTED, "nobody comes here: probe crashed");
}

static void crasher_close(void *instance)
{
    (void)instance;
}

static const void *crasher_interface(void *instance, const char *name)
{
    (void)instance;
    (void)name;
    return NULL;
}

static const char *const crasher_interfaces[] = {"kiln.gemm/1", NULL};

static const kiln_plugin crasher_plugin = {
    .struct_size = sizeof crasher_plugin,
    .abi_minor = KILN_PLUGIN_ABI_MINOR,
    .name = "crasher",
    .version = "1",
    .vendor = "tests",
    .description = "crashes in probe",
    .interfaces = crasher_interfaces,
    .probe = crasher_probe,
    .open = crasher_open,
    .close = crasher_close,
    .interface = crasher_interface,
};

KILN_PLUGIN_ENTRY(crasher)
{
    return host_abi_minor >= 0 ? &crasher_plugin : NULL;
}
