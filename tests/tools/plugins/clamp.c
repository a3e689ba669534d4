/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that multiplies plain f32 matrices and is wrong where the result overflows: it gives the
 * largest number in place of Inf. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kiln/gemm.h"
#include "kiln/plugin.h"

static int64_t clamp_probe(void)
{
    return 1;
}

static kiln_status clamp_open(const kiln_host *host, const kiln_option_value *options,
                              void **instance)
{
    (void)options;
    *instance = (void *)host;
    return KILN_OK;
}

static void clamp_close(void *instance)
{
    (void)instance;
}

static bool serves(const kiln_host *host, kiln_device *device, const kiln_op_head *descriptor)
{
    kiln_gemm_desc desc;
    return host->device_is_host(device) &&
           kiln_receive_descriptor(&desc, sizeof desc, descriptor) == KILN_OK &&
           desc.head.flags == 0 && desc.a_type == KILN_F32 && desc.b_type == KILN_F32 &&
           desc.d_type == KILN_F32 && desc.c_type == KILN_TYPE_NONE && desc.batch == 1 &&
           desc.epilogue_count == 0 && desc.grouping == KILN_GROUPING_NONE;
}

static kiln_status clamp_query(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                               kiln_answer *answer)
{
    if (serves(instance, device, descriptor)) {
        answer->support = KILN_SUPPORT_NATIVE;
        answer->accumulator = KILN_F32;
        strcpy(answer->kernel, "clamp");
    } else {
        strcpy(answer->reason, "not a plain product of f32 matrices");
    }
    return KILN_OK;
}

static kiln_status clamp_plan(void *instance, const kiln_plan_request *request, void **plan)
{
    const kiln_host *host = instance;
    if (!serves(host, request->device, request->descriptor))
        return host->set_error(KILN_UNSUPPORTED, "clamp: not a plain product of f32 matrices");
    *plan = instance;
    return KILN_OK;
}

static void clamp_free(void *plan)
{
    (void)plan;
}

static kiln_status clamp_run(void *plan, const kiln_run_context *context,
                             const kiln_args_head *head)
{
    const kiln_host *host = plan;
    const kiln_gemm_args *args = (const kiln_gemm_args *)head;
    const kiln_tensor *a = &head->tensors[KILN_GEMM_A], *b = &head->tensors[KILN_GEMM_B],
                      *d = &head->tensors[KILN_GEMM_D];
    const float *a_data = (const float *)kiln_tensor_address(host, a),
                *b_data = (const float *)kiln_tensor_address(host, b);
    float *d_data = (float *)kiln_tensor_address(host, d);
    for (int64_t i = 0; context->part == 0 && i < d->shape[0]; i++)
        for (int64_t j = 0; j < d->shape[1]; j++) {
            double sum = 0;
            for (int64_t k = 0; k < a->shape[1]; k++)
                sum +=
                    (double)a_data[i * a->strides[0] + k] * (double)b_data[k * b->strides[0] + j];
            d_data[i * d->strides[0] + j] =
                (float)fmax(-(double)FLT_MAX, fmin((double)FLT_MAX, args->alpha * sum));
        }
    return KILN_OK;
}

static const kiln_operator_table clamp_gemm = {
    .struct_size = sizeof clamp_gemm,
    .query = clamp_query,
    .plan = clamp_plan,
    .run = clamp_run,
    .free = clamp_free,
};

static const void *clamp_interface(void *instance, const char *name)
{
    (void)instance;
    return strcmp(name, "kiln.gemm/1") == 0 ? &clamp_gemm : NULL;
}

static const char *const clamp_interfaces[] = {"kiln.gemm/1", NULL};

static const kiln_plugin clamp_plugin = {
    .struct_size = sizeof clamp_plugin,
    .abi_minor = KILN_PLUGIN_ABI_MINOR,
    .name = "clamp",
    .version = "1",
    .vendor = "tests",
    .description = "gives the largest number in place of Inf",
    .interfaces = clamp_interfaces,
    .probe = clamp_probe,
    .open = clamp_open,
    .close = clamp_close,
    .interface = clamp_interface,
};

KILN_PLUGIN_ENTRY(clamp)
{
    return host_abi_minor >= 0 ? &clamp_plugin : NULL;
}
