/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of the reference plugin, its options and its instances. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>

#include "plugins/ref/gemm.h"

enum { BLAS_AUTO = 0, BLAS_OFF = 1 };

static const kiln_option options[] = {
    {.key = "blas",
     .default_value = "auto",
     .help = "auto: multiply with OpenBLAS when it passes a check at start; off: in plain C",
     .choices = "auto|off",
     .type = KILN_OPTION_CHOICE},
};

static const char *const interfaces[] = {KILN_GEMM, NULL};

static const kiln_operator_table gemm_table = {
    .struct_size = sizeof gemm_table,
    .query = ref_gemm_query,
    .plan = ref_gemm_plan_create,
    .run = ref_gemm_run,
    .free = ref_gemm_plan_free,
    .pack_size = ref_gemm_pack_size,
    .pack = ref_gemm_pack,
    .unpack = ref_gemm_unpack,
};

/* "OpenBLAS 0.3.21 SkylakeX": name and version are the first two words of the configuration. */
static void name_blas(char *text, size_t size)
{
    const char *config = openblas_get_config();
    int words = (int)strcspn(config, " ");
    if (config[words])
        words += 1 + (int)strcspn(config + words + 1, " ");
    snprintf(text, size, "%.*s %s", words, config, openblas_get_corename());
}

static int64_t probe(void)
{
    return 1;
}

static kiln_status open_instance(const kiln_host *host, const kiln_option_value *values,
                                 void **instance)
{
    ref_instance *ref = calloc(1, sizeof *ref);
    if (!ref)
        return host->set_error(KILN_NO_MEMORY, "ref: no memory for an instance");
    char blas[48];
    name_blas(blas, sizeof blas);
    bool wanted = values[0].integer == BLAS_AUTO;
    ref->host = host;
    ref->blas = wanted && ref_block_check();
    if (ref->blas)
        snprintf(ref->kernel, sizeof ref->kernel, "dgemm-block (%s)", blas);
    else
        snprintf(ref->kernel, sizeof ref->kernel, "plain-c-block");
    if (wanted && !ref->blas) {
        snprintf(ref->remark, sizeof ref->remark,
                 "%s failed the check at start, so blocks are multiplied in plain C", blas);
        host->log(host, KILN_LOG_WARNING, "ref: %s", ref->remark);
    }
    *instance = ref;
    return KILN_OK;
}

static void close_instance(void *instance)
{
    free(instance);
}

static const void *interface_of(void *instance, const char *name)
{
    (void)instance;
    return strcmp(name, KILN_GEMM) == 0 ? &gemm_table : NULL;
}

static const kiln_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_minor = KILN_PLUGIN_ABI_MINOR,
    .name = "ref",
    .version = "0.1.0",
    .vendor = "Kiln",
    .description = "reference operators in host memory, in double over OpenBLAS",
    .interfaces = interfaces,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .probe = probe,
    .open = open_instance,
    .close = close_instance,
    .interface = interface_of,
};

KILN_PLUGIN_ENTRY(ref)
{
    return host_abi_minor >= 0 ? &plugin : NULL;
}
