/* SPDX-License-Identifier: Apache-2.0 */
/* The naive plugin. It shares nothing with the oracle but Kiln's headers. */
#include <stdlib.h>

#include "tests/conformance/naive_parts.h"

#define NAIVE_NAME(id, name) name,
const char *const naive_mistake_names[] = {NAIVE_MISTAKES(NAIVE_NAME)};
#undef NAIVE_NAME

#define NAIVE_CHOICE(id, name) "|" name
static const kiln_option options[] = {
    {.key = "order",
     .default_value = "scaled-elements",
     .help = "what is scaled",
     .choices = "scaled-elements|scaled-sums|joint-scales",
     .type = KILN_OPTION_CHOICE},
    {.key = "mistake",
     .default_value = "none",
     .help = "what to do wrong",
     .choices = &(NAIVE_MISTAKES(NAIVE_CHOICE))[1],
     .type = KILN_OPTION_CHOICE},
};
#undef NAIVE_CHOICE

typedef struct naive_plan {
    naive_instance *instance;
    kiln_gemm_desc desc;
} naive_plan;

static kiln_status query(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                         kiln_answer *answer)
{
    kiln_gemm_desc desc;
    naive_instance *naive = instance;
    kiln_status status = kiln_receive_descriptor(&desc, sizeof desc, descriptor);
    if (status != KILN_OK)
        return status;
    if (!naive->host->device_is_host(device) ||
        (desc.head.flags & (KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B))) {
        kiln_decline(answer, "naive packs nothing and works on the host");
        return KILN_OK;
    }
    answer->support = KILN_SUPPORT_EMULATED;
    answer->flags = KILN_ANSWER_REPRODUCIBLE;
    answer->workspace_bytes =
        (int64_t)sizeof(double) * (2 * desc.k * desc.n + 2 * desc.k + desc.n + 8);
    return KILN_OK;
}

static kiln_status plan_create(void *instance, const kiln_plan_request *request, void **result)
{
    naive_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return KILN_NO_MEMORY;
    plan->instance = instance;
    *result = plan;
    return kiln_receive_descriptor(&plan->desc, sizeof plan->desc, request->descriptor);
}

static kiln_status run_plan(void *native, const kiln_run_context *context,
                            const kiln_args_head *arguments)
{
    const naive_plan *plan = native;
    const kiln_gemm_args *args = (const kiln_gemm_args *)arguments;
    const kiln_tensor *a = &arguments->tensors[KILN_GEMM_A], *d = &arguments->tensors[KILN_GEMM_D];
    bool transposed = plan->desc.head.flags & KILN_GEMM_TRANSPOSE_A;
    naive_run run = {.instance = plan->instance,
                     .desc = &plan->desc,
                     .tensors = arguments->tensors,
                     .wide = plan->desc.a_type == KILN_F64,
                     .m = d->shape[d->rank - 2],
                     .n = d->shape[d->rank - 1],
                     .k = a->shape[transposed ? a->rank - 2 : a->rank - 1],
                     .leads = d->rank == 3 ? d->shape[0] : 1,
                     .alpha = kiln_gemm_factor(&plan->desc, args->alpha),
                     .beta = kiln_gemm_factor(&plan->desc, args->beta)};
    if (context->part > 0)
        return KILN_OK;
    if (plan->desc.grouping != KILN_GROUPING_NONE)
        run.leads = plan->desc.groups;
    for (uint32_t i = 0; i < plan->desc.epilogue_count; i++)
        run.n *= plan->desc.epilogues[i].kind == KILN_EPILOGUE_SWIGLU ? 2 : 1;
    run.a = context->workspace;
    run.a_scale = run.a + run.k;
    run.b = run.a_scale + run.k;
    run.b_scale = run.b + run.k * run.n;
    run.values = run.b_scale + run.k * run.n;
    naive_compute(&run);
    if (!run.exceeded || naive_is_mistake(&run, NAIVE_SILENT))
        return KILN_OK;
    return plan->instance->host->set_error(KILN_CAPACITY, "naive: groups beyond their limits");
}

static const kiln_operator_table gemm_table = {
    .struct_size = sizeof gemm_table,
    .query = query,
    .plan = plan_create,
    .run = run_plan,
    .free = free,
};

static int64_t probe(void)
{
    return 1;
}

static kiln_status open_instance(const kiln_host *host, const kiln_option_value *values,
                                 void **instance)
{
    naive_instance *naive = calloc(1, sizeof *naive);
    if (!naive)
        return KILN_NO_MEMORY;
    naive->host = host;
    naive->order = (int)values[0].integer;
    naive->mistake = (int)values[1].integer;
    *instance = naive;
    return KILN_OK;
}

static const void *interface_of(void *instance, const char *name)
{
    (void)instance;
    return strcmp(name, KILN_GEMM) == 0 ? &gemm_table : NULL;
}

static const char *const interfaces[] = {KILN_GEMM, NULL};

static const kiln_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_minor = KILN_PLUGIN_ABI_MINOR,
    .name = "naive",
    .version = "1",
    .vendor = "Kiln's tests",
    .description = "GEMM operation by operation",
    .interfaces = interfaces,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .probe = probe,
    .open = open_instance,
    .close = free,
    .interface = interface_of,
};

const kiln_plugin *naive_entry(int64_t host_abi_minor)
{
    return host_abi_minor >= 0 ? &plugin : NULL;
}
