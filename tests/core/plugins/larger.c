/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that was built with another minor version: its own tables are longer than this
 * library's, and the descriptor of a GEMM that it knows is shorter. */
#include "tests/core/plugins/ordinary.h"

#include <stdlib.h>

/* A GEMM descriptor before there were epilogues. */
typedef struct older_gemm_desc {
    unsigned char bytes[offsetof(kiln_gemm_desc, epilogues)];
} older_gemm_desc;

static const kiln_host *host;

static kiln_status query(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                         kiln_answer *answer)
{
    (void)instance, (void)device;
    older_gemm_desc desc;
    kiln_status status = kiln_receive_descriptor(&desc, sizeof desc, descriptor);
    if (status != KILN_OK)
        return host->set_error(status, "larger: the descriptor holds something beyond %zu bytes",
                               sizeof desc);
    answer->support = KILN_SUPPORT_NATIVE;
    return KILN_OK;
}

static kiln_status plan(void *instance, const kiln_plan_request *request, void **result)
{
    (void)instance, (void)request;
    *result = malloc(1);
    return *result ? KILN_OK : KILN_NO_MEMORY;
}

static kiln_status run(void *native, const kiln_run_context *context,
                       const kiln_args_head *arguments)
{
    (void)native, (void)context, (void)arguments;
    return KILN_OK;
}

static const struct {
    kiln_operator_table table;
    void *beyond[8];
} gemm = {{.struct_size = sizeof gemm, .query = query, .plan = plan, .run = run, .free = free},
          {(void *)1, (void *)2}};

static kiln_status open(const kiln_host *given, const kiln_option_value *options, void **instance)
{
    host = given;
    return ordinary_open(given, options, instance);
}

static const void *interface(void *instance, const char *name)
{
    (void)instance;
    return strcmp(name, KILN_GEMM) == 0 ? &gemm : NULL;
}

static const char *const interfaces[] = {KILN_GEMM, NULL};

static const struct {
    kiln_plugin plugin;
    void *beyond[8];
} plugin = {{
                .struct_size = sizeof plugin,
                .abi_minor = KILN_PLUGIN_ABI_MINOR + 3,
                .name = "larger",
                .version = "4.0",
                .vendor = "tests",
                .description = "of a later minor",
                .interfaces = interfaces,
                .probe = ordinary_probe,
                .open = open,
                .close = ordinary_close,
                .interface = interface,
            },
            {(void *)3, (void *)4}};

KILN_PLUGIN_ENTRY(larger)
{
    return host_abi_minor >= 0 ? &plugin.plugin : NULL;
}
