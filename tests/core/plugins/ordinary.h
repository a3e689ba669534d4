/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a plugin in which nothing is odd. */
#ifndef TESTS_CORE_PLUGINS_ORDINARY_H
#define TESTS_CORE_PLUGINS_ORDINARY_H

#include "kiln/gemm.h"
#include "kiln/plugin.h"

static inline int64_t ordinary_probe(void)
{
    return 1;
}

static inline kiln_status ordinary_open(const kiln_host *host, const kiln_option_value *options,
                                        void **instance)
{
    (void)options;
    *instance = (void *)host;
    return KILN_OK;
}

static inline void ordinary_close(void *instance)
{
    (void)instance;
}

static inline const void *ordinary_interface(void *instance, const char *name)
{
    (void)instance, (void)name;
    return NULL;
}

/* The fields of a kiln_plugin from `interfaces` on, but for the functions. */
#define ORDINARY_TEXTS(id)                                                                \
    .abi_minor = KILN_PLUGIN_ABI_MINOR, .name = #id, .version = "1.0", .vendor = "tests", \
    .description = "a test's"

#endif
