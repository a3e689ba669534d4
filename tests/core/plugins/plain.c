/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin in which nothing is odd. */
#include "tests/core/plugins/ordinary.h"

static const char *const interfaces[] = {"acme.nothing/1", NULL};

static const kiln_plugin plugin = {
    .struct_size = sizeof plugin,
    ORDINARY_TEXTS(plain),
    .interfaces = interfaces,
    .probe = ordinary_probe,
    .open = ordinary_open,
    .close = ordinary_close,
    .interface = ordinary_interface,
};

KILN_PLUGIN_ENTRY(plain)
{
    return host_abi_minor >= 0 ? &plugin : NULL;
}
