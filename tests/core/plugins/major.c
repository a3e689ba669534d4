/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin of a future ABI major: its entry has another name. */
#include <stddef.h>

__attribute__((visibility("default"))) const void *kiln_plugin_v2(long host_abi_minor);
const void *kiln_plugin_v2(long host_abi_minor)
{
    (void)host_abi_minor;
    return NULL;
}
