/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin itself: what it is, its option, and which operators it offers. */
#include "plugin.h"

#include <stdlib.h>

static const kiln_option options[] = {
    {.key = "rows_per_part",
     .type = KILN_OPTION_INTEGER,
     .default_value = "16",
     .minimum = 1,
     .maximum = 4096,
     .help = "rows of a GEMM's result that one thread takes at a time"},
};

static const char *const interfaces[] = {"kiln.gemm/1", ACME_AXPY, NULL};

/* We compute on the host, which is always there. */
static int64_t acme_probe(void)
{
    return 1;
}

static kiln_status acme_open(const kiln_host *host, const kiln_option_value *values,
                             void **instance)
{
    acme_instance *acme = malloc(sizeof *acme);
    if (!acme)
        return host->set_error(KILN_NO_MEMORY, "acme: out of memory while opening");
    acme->host = host;
    acme->rows_per_part = values[0].integer; /* in the order of `options` */
    *instance = acme;
    return KILN_OK;
}

static void acme_close(void *instance)
{
    free(instance);
}

static const void *acme_interface(void *instance, const char *name)
{
    (void)instance;
    if (strcmp(name, "kiln.gemm/1") == 0)
        return &acme_gemm_table;
    return strcmp(name, ACME_AXPY) == 0 ? &acme_axpy_table : NULL;
}

static const kiln_plugin acme = {
    .struct_size = sizeof acme,
    .abi_minor = KILN_PLUGIN_ABI_MINOR,
    .name = "acme",
    .version = "1.0",
    .vendor = "Acme Accelerators",
    .description = "example of a plugin built outside of Kiln's tree",
    .interfaces = interfaces,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .probe = acme_probe,
    .open = acme_open,
    .close = acme_close,
    .interface = acme_interface,
};

KILN_PLUGIN_ENTRY(acme)
{
    (void)host_abi_minor; /* every minor of this major will do */
    return &acme;
}
