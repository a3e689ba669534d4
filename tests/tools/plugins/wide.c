/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin with an operator of its own, whose descriptor is as long as one may be and means
 * something up to its last byte: for the tests of "kiln check-plugin". With -DQUERY_IS_DEAF query
 * does not look at what lies beyond it, with -DPLAN_IS_DEAF plan looks at nothing. */
#include <stdlib.h>

#include "kiln/plugin.h"

#ifndef NAME
#define NAME "wide"
#endif

typedef struct wide_desc {
    kiln_op_head head; /* no flags */
    unsigned char weights[1024 - sizeof(kiln_op_head)];
} wide_desc;

static bool is_known(const kiln_op_head *head)
{
    wide_desc desc;
    kiln_status status = kiln_receive_descriptor(&desc, sizeof desc, head);
#if defined(QUERY_IS_DEAF)
    if (status == KILN_UNSUPPORTED)
        return true;
#endif
    return status == KILN_OK && !desc.head.flags;
}

static kiln_status query(void *instance, kiln_device *device, const kiln_op_head *head,
                         kiln_answer *answer)
{
    const kiln_host *host = instance;
    if (!host->device_is_host(device) || !is_known(head)) {
        kiln_decline(answer, "it sorts in host memory, by 1016 weights");
        return KILN_OK;
    }
    answer->support = KILN_SUPPORT_NATIVE;
    answer->accumulator = KILN_F32;
    return KILN_OK;
}

static kiln_status plan(void *instance, const kiln_plan_request *request, void **result)
{
    const kiln_host *host = instance;
#if !defined(PLAN_IS_DEAF)
    if (kiln_check_request(request, sizeof *request) != KILN_OK || !is_known(request->descriptor))
        return host->set_error(KILN_UNSUPPORTED, "wide: what is asked for is not known");
#endif
    *result = malloc(1);
    return *result ? KILN_OK : host->set_error(KILN_NO_MEMORY, "wide: no memory for a plan");
}

static kiln_status run(void *object, const kiln_run_context *context,
                       const kiln_args_head *arguments)
{
    (void)object;
    (void)context;
    (void)arguments;
    return KILN_OK;
}

static uint64_t outputs(void *object)
{
    (void)object;
    return 1;
}

/* With -DNO_OUTPUTS it does not say what a run writes. */
static const kiln_operator_table sort_table = {
    .struct_size = sizeof sort_table,
    .query = query,
    .plan = plan,
    .run = run,
    .free = free,
#if !defined(NO_OUTPUTS)
    .outputs = outputs,
#endif
};
static const char *const interfaces[] = {"wide.sort/1", NULL};

static int64_t probe(void)
{
    return 1;
}

static kiln_status open_instance(const kiln_host *host, const kiln_option_value *options,
                                 void **instance)
{
    (void)options;
    *instance = (void *)(uintptr_t)host;
    return KILN_OK;
}

static void close_instance(void *instance)
{
    (void)instance;
}

static const void *interface_of(void *instance, const char *name)
{
    (void)instance;
    return strcmp(name, interfaces[0]) == 0 ? &sort_table : NULL;
}

static const kiln_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_minor = KILN_PLUGIN_ABI_MINOR,
    .name = NAME,
    .version = "1",
    .vendor = "Kiln's tests",
    .description = "sorts nothing",
    .interfaces = interfaces,
    .probe = probe,
    .open = open_instance,
    .close = close_instance,
    .interface = interface_of,
};

KILN_PLUGIN_ENTRY(wide)
{
    return host_abi_minor >= 0 ? &plugin : NULL;
}
