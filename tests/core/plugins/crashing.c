/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that crashes when it is probed. */
#include "tests/core/plugins/ordinary.h"

static int64_t probe(void)
{
    char *volatile nowhere = (char *)8;
    *nowhere = 1;
    return 1;
}

static const char *const interfaces[] = {NULL};

static const kiln_plugin plugin = {
    .struct_size = sizeof plugin,
    ORDINARY_TEXTS(crashing),
    .interfaces = interfaces,
    .probe = probe,
    .open = ordinary_open,
    .close = ordinary_close,
    .interface = ordinary_interface,
};

KILN_PLUGIN_ENTRY(crashing)
{
    return host_abi_minor >= 0 ? &plugin : NULL;
}
