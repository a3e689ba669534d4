/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that calls a function which nobody defines. */
#include "tests/core/plugins/ordinary.h"

int64_t acme_function_that_nobody_defines(void);

static int64_t probe(void)
{
    return acme_function_that_nobody_defines();
}

static const char *const interfaces[] = {NULL};

static const kiln_plugin plugin = {
    .struct_size = sizeof plugin,
    ORDINARY_TEXTS(undefined),
    .interfaces = interfaces,
    .probe = probe,
    .open = ordinary_open,
    .close = ordinary_close,
    .interface = ordinary_interface,
};

KILN_PLUGIN_ENTRY(undefined)
{
    return host_abi_minor >= 0 ? &plugin : NULL;
}
