/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of the plugin "fake", and the plugin itself. */
#include "tests/core/fake_device_parts.h"
#include "tests/core/fixture.h"

#include <stdio.h>
#include <stdlib.h>

fake_device_counts fake_device_counted;

/* ---- Operators ---- */

typedef struct fake_plan {
    fake_instance *instance;
    fake_device *device;
    kiln_gemm_desc desc;
    int64_t count; /* of axpy; -1 = a GEMM */
} fake_plan;

/* A tensor and what scales it, as they wait in a stream. Memory is looked up when the work is done.
 */
typedef struct fake_parts {
    kiln_tensor tensors[3];
    void *memories[3];
} fake_parts;

typedef struct fake_run {
    fake_plan *plan;
    union {
        kiln_gemm_args gemm;
        acme_axpy_args axpy;
    } args;
    fake_parts parts[KILN_GEMM_SLOTS];
    void *workspace;
} fake_run;

static void take_parts(const fake_plan *plan, const kiln_tensor *tensor, fake_parts *parts)
{
    const kiln_host *host = plan->instance->host;
    const kiln_tensor *given[3] = {tensor, tensor->scale, tensor->zero_point};
    for (int i = 0; i < 3; i++) {
        if (!given[i])
            continue;
        if (given[i]->data && !given[i]->buffer)
            atomic_fetch_add(&fake_device_counted.wrong, 1); /* what use is a host address here */
        parts->tensors[i] = *given[i];
        if (given[i]->buffer && host->device_native(host->buffer_device(given[i]->buffer),
                                                    plan->instance) == plan->device)
            parts->memories[i] = host->buffer_native(given[i]->buffer);
    }
}

/* Bytes from the first element to the end of the last. */
static int64_t bytes_of(const kiln_tensor *tensor)
{
    int64_t end = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] == 0)
            return 0;
        end += (tensor->shape[i] - 1) * tensor->strides[i];
    }
    return (end * kiln_type_bits(tensor->type) + 7) / 8;
}

/* Makes `data` the address of each; false when one is not in its memory. */
static bool reach_parts(fake_device *device, fake_parts *parts)
{
    bool reached = true;
    for (int i = 0; i < 3; i++) {
        kiln_tensor *tensor = &parts->tensors[i];
        tensor->data = NULL;
        if (parts->memories[i]) {
            tensor->data = fake_device_reach(device, parts->memories[i], tensor->byte_offset,
                                             bytes_of(tensor));
            reached = reached && tensor->data;
        }
    }
    if (parts->tensors[0].scale)
        parts->tensors[0].scale = &parts->tensors[1];
    if (parts->tensors[0].zero_point)
        parts->tensors[0].zero_point = &parts->tensors[2];
    return reached;
}

static kiln_status compute(fake_run *run)
{
    fake_device *device = run->plan->device;
    kiln_tensor tensors[KILN_GEMM_SLOTS];
    for (int i = 0; i < KILN_GEMM_SLOTS; i++) {
        if (!reach_parts(device, &run->parts[i]))
            return fake_device_fail(device, KILN_FAULT,
                                    "a run was made to touch what is not its memory");
        tensors[i] = run->parts[i].tensors[0];
    }
    if (run->plan->instance->workspace) {
        char *workspace =
            fake_device_reach(device, run->workspace, 0, run->plan->instance->workspace);
        if (!workspace)
            return fake_device_fail(device, KILN_FAULT, "a run lost its workspace");
        memset(workspace, 1, (size_t)run->plan->instance->workspace);
    }
    if (run->plan->count < 0) {
        kiln_status status =
            fake_gemm(&run->plan->desc, run->args.gemm.alpha, run->args.gemm.beta, tensors);
        return status == KILN_OK ? status
                                 : fake_device_fail(device, status, "a group has too many rows");
    }
    if (isnan(run->args.axpy.alpha))
        return fake_device_fail(device, KILN_FAULT, "axpy: alpha is not a number");
    char *x = tensors[0].data, *y = tensors[1].data;
    for (int64_t i = 0; i < run->plan->count; i++)
        kiln_store_f64(KILN_F32, y, i,
                       kiln_load_f64(KILN_F32, y, i) +
                           run->args.axpy.alpha * kiln_load_f64(KILN_F32, x, i),
                       0);
    return KILN_OK;
}

static kiln_status run_queued(void *argument, kiln_status status)
{
    fake_run *run = argument;
    if (status == KILN_OK)
        status = compute(run);
    free(run);
    return status;
}

static kiln_status operator_run(void *native, const kiln_run_context *context,
                                const kiln_args_head *arguments)
{
    fake_plan *plan = native;
    const kiln_host *host = plan->instance->host;
    fake_run *run = calloc(1, sizeof *run);
    if (!run || !context->stream || (plan->instance->workspace && !context->workspace))
        atomic_fetch_add(&fake_device_counted.wrong, 1);
    if (!run)
        return host->set_error(KILN_NO_MEMORY, "no memory for a run");
    atomic_fetch_add(&fake_device_counted.runs, 1);
    if (plan->desc.a_alignment && arguments->tensors[0].strides[0] * 4 % plan->desc.a_alignment)
        atomic_fetch_add(&fake_device_counted.wrong, 1);
    if (context->workspace != plan->device->last_workspace)
        atomic_fetch_add(&fake_device_counted.workspaces, 1);
    plan->device->last_workspace = run->workspace = context->workspace;
    run->plan = plan;
    memcpy(&run->args, arguments, plan->count < 0 ? sizeof run->args.gemm : sizeof run->args.axpy);
    for (uint32_t i = 0; i < arguments->tensor_count && i < KILN_GEMM_SLOTS; i++)
        take_parts(plan, &arguments->tensors[i], &run->parts[i]);
    return fake_device_enqueue(plan->device, host->stream_native(context->stream), run_queued, run);
}

static kiln_status operator_query(void *instance, kiln_device *device,
                                  const kiln_op_head *descriptor, kiln_answer *answer)
{
    fake_instance *self = instance;
    if (self->host->device_index(device, instance) < 0) {
        snprintf(answer->reason, sizeof answer->reason, "fake computes in its own memory only");
        return KILN_OK;
    }
    (void)descriptor;
    answer->support = KILN_SUPPORT_NATIVE;
    answer->flags = KILN_ANSWER_REPRODUCIBLE;
    answer->workspace_bytes = self->workspace;
    snprintf(answer->kernel, sizeof answer->kernel, "fake");
    return KILN_OK;
}

static kiln_status make_plan(void *instance, const kiln_plan_request *request, int64_t count,
                             void **result)
{
    fake_instance *self = instance;
    fake_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return self->host->set_error(KILN_NO_MEMORY, "no memory for a plan");
    *plan = (fake_plan){.instance = self,
                        .device = self->host->device_native(request->device, instance),
                        .count = count};
    if (!plan->device)
        atomic_fetch_add(&fake_device_counted.wrong, 1);
    if (count < 0)
        plan->desc = *(const kiln_gemm_desc *)request->descriptor;
    *result = plan;
    return KILN_OK;
}

static kiln_status plan_gemm(void *instance, const kiln_plan_request *request, void **plan)
{
    return make_plan(instance, request, -1, plan);
}

static kiln_status plan_axpy(void *instance, const kiln_plan_request *request, void **plan)
{
    return make_plan(instance, request, ((const acme_axpy_desc *)request->descriptor)->count, plan);
}

/* ---- Packed operands: a header, and the elements, scales and zero points behind one another as
 * f32, each negated, so that what was not unpacked is seen ---- */

typedef struct fake_packing {
    fake_device *device;
    fake_parts strided;
    void *packed;
    int64_t packed_offset;
    bool unpack;
} fake_packing;

static void pack_elements(const fake_packing *packing, char *blob)
{
    int64_t dense = (int64_t)sizeof(kiln_pack_header) / 4;
    for (int i = 0; i < 3; i++) {
        const kiln_tensor *part = &packing->strided.tensors[i];
        if (!part->data)
            continue;
        for (int64_t r = 0; r < part->shape[0]; r++)
            for (int64_t c = 0; c < part->shape[1]; c++, dense++) {
                int64_t index = r * part->strides[0] + c * part->strides[1];
                if (packing->unpack)
                    kiln_store_f64(part->type, part->data, index,
                                   -kiln_load_f64(KILN_F32, blob, dense), 0);
                else
                    kiln_store_f64(KILN_F32, blob, dense,
                                   -kiln_load_f64(part->type, part->data, index), 0);
            }
    }
}

static int64_t blob_bytes(const fake_parts *strided)
{
    int64_t bytes = (int64_t)sizeof(kiln_pack_header);
    for (int i = 0; i < 3; i++)
        if (strided->memories[i])
            bytes += 4 * kiln_tensor_elements(&strided->tensors[i]);
    return bytes;
}

static kiln_status pack_queued(void *argument, kiln_status status)
{
    fake_packing *packing = argument;
    char *blob = fake_device_reach(packing->device, packing->packed, packing->packed_offset,
                                   blob_bytes(&packing->strided));
    bool reached = reach_parts(packing->device, &packing->strided);
    if (status == KILN_OK && (!blob || !reached))
        status = fake_device_fail(packing->device, KILN_FAULT, "packing beyond a memory");
    if (status == KILN_OK && packing->unpack && memcmp(blob, "KILNPACK", 8) != 0)
        status = fake_device_fail(packing->device, KILN_FAULT, "this is no packed operand");
    if (status == KILN_OK) {
        memcpy(blob, "KILNPACK", 8);
        pack_elements(packing, blob);
    }
    free(packing);
    return status;
}

static kiln_status queue_packing(void *native, const kiln_run_context *context,
                                 const kiln_tensor *strided, const kiln_tensor *packed, bool unpack)
{
    fake_plan *plan = native;
    const kiln_host *host = plan->instance->host;
    fake_packing *packing = calloc(1, sizeof *packing);
    if (!packing)
        return host->set_error(KILN_NO_MEMORY, "no memory to pack");
    *packing = (fake_packing){.device = plan->device,
                              .packed = host->buffer_native(packed->buffer),
                              .packed_offset = packed->byte_offset,
                              .unpack = unpack};
    take_parts(plan, strided, &packing->strided);
    kiln_quantization said = kiln_tensor_quantization(strided);
    if (memcmp(&said, &plan->desc.b_quantization, sizeof said) != 0 || packed->scale ||
        packed->zero_point)
        atomic_fetch_add(&fake_device_counted.wrong, 1);
    return fake_device_enqueue(plan->device, host->stream_native(context->stream), pack_queued,
                               packing);
}

static kiln_status pack(void *plan, const kiln_run_context *context, uint32_t operand,
                        const kiln_tensor *source, const kiln_tensor *packed)
{
    (void)operand;
    return queue_packing(plan, context, source, packed, false);
}

static kiln_status unpack(void *plan, const kiln_run_context *context, uint32_t operand,
                          const kiln_tensor *packed, const kiln_tensor *destination)
{
    (void)operand;
    return queue_packing(plan, context, destination, packed, true);
}

/* Only B: at most one scale and one zero point for every element. */
static kiln_status pack_size(void *native, uint32_t operand, int64_t *bytes)
{
    fake_plan *plan = native;
    if (operand != KILN_GEMM_B)
        return plan->instance->host->set_error(KILN_UNSUPPORTED, "fake packs B only");
    *bytes = (int64_t)sizeof(kiln_pack_header) + 12 * plan->desc.n * plan->desc.k;
    return KILN_OK;
}

static uint64_t axpy_outputs(void *plan)
{
    (void)plan;
    return 1u << 1;
}

static const kiln_operator_table gemm_table = {.struct_size = sizeof gemm_table,
                                               .query = operator_query,
                                               .plan = plan_gemm,
                                               .run = operator_run,
                                               .free = free,
                                               .pack_size = pack_size,
                                               .pack = pack,
                                               .unpack = unpack};
static const kiln_operator_table axpy_table = {.struct_size = sizeof axpy_table,
                                               .query = operator_query,
                                               .plan = plan_axpy,
                                               .run = operator_run,
                                               .free = free,
                                               .outputs = axpy_outputs};

static int64_t fake_probe(void)
{
    return 1;
}

static kiln_status fake_open(const kiln_host *host, const kiln_option_value *options,
                             void **instance)
{
    fake_instance *self = calloc(1, sizeof *self);
    if (!self)
        return host->set_error(KILN_NO_MEMORY, "no memory for fake");
    *self = (fake_instance){.host = host,
                            .devices = options[0].integer,
                            .delay_us = options[1].integer,
                            .workspace = options[4].integer,
                            .addressable = options[3].integer != 0,
                            .table = fake_device_table};
#define OMIT(name)                           \
    if (strcmp(options[2].text, #name) == 0) \
        self->table.name = NULL;
    OMIT(fill)
    OMIT(stream_enqueue)
    OMIT(stream_counters)
    OMIT(gate_create)
    OMIT(gate_reset)
#undef OMIT
    self->axpy = axpy_table;
    if (strcmp(options[2].text, "outputs") == 0)
        self->axpy.outputs = NULL;
    atomic_fetch_add(&fake_device_counted.instances, 1);
    *instance = self;
    return KILN_OK;
}

static void fake_close(void *instance)
{
    atomic_fetch_sub(&fake_device_counted.instances, 1);
    free(instance);
}

static const void *fake_interface(void *instance, const char *name)
{
    const fake_instance *self = instance;
    return strcmp(name, KILN_DEVICE) == 0 ? (const void *)&self->table
           : strcmp(name, KILN_GEMM) == 0 ? (const void *)&gemm_table
           : strcmp(name, ACME_AXPY) == 0 ? (const void *)&self->axpy
                                          : NULL;
}

static const char *const fake_interfaces[] = {KILN_DEVICE, KILN_GEMM, ACME_AXPY, NULL};
static const kiln_option fake_options[] = {
    {.key = "devices",
     .default_value = "2",
     .type = KILN_OPTION_INTEGER,
     .minimum = 0,
     .maximum = 8},
    {.key = "delay_us", .default_value = "0", .type = KILN_OPTION_INTEGER},
    {.key = "omit", .default_value = "", .type = KILN_OPTION_STRING},
    {.key = "addressable", .default_value = "false", .type = KILN_OPTION_BOOLEAN},
    {.key = "workspace", .default_value = "0", .type = KILN_OPTION_INTEGER},
};
static const kiln_plugin fake_plugin = {.struct_size = sizeof fake_plugin,
                                        .abi_minor = KILN_PLUGIN_ABI_MINOR,
                                        .name = "fake",
                                        .version = "1",
                                        .vendor = "tests",
                                        .description = "a device for tests",
                                        .interfaces = fake_interfaces,
                                        .options = fake_options,
                                        .option_count = sizeof fake_options / sizeof *fake_options,
                                        .probe = fake_probe,
                                        .open = fake_open,
                                        .close = fake_close,
                                        .interface = fake_interface};

static const kiln_plugin *fake_entry(int64_t host_abi_minor)
{
    (void)host_abi_minor;
    return &fake_plugin;
}

int fake_device_set_up(void **state)
{
    (void)state;
    memset(&fake_device_counted, 0, sizeof fake_device_counted);
    return kiln_plugin_register("fake", fake_entry);
}

int fake_device_tear_down(void **state)
{
    (void)state;
    const fake_device_counts *c = &fake_device_counted;
    if (!c->instances && !c->devices && !c->memories && !c->streams && !c->events && !c->wrong)
        return 0;
    print_error("alive: %lld instances, %lld devices, %lld memories, %lld streams, %lld events; "
                "%lld wrong calls\n",
                (long long)c->instances, (long long)c->devices, (long long)c->memories,
                (long long)c->streams, (long long)c->events, (long long)c->wrong);
    return -1;
}

kiln_runtime *fake_device_open(const char *options, kiln_device *devices[3])
{
    char profile[256];
    snprintf(profile, sizeof profile, "plugins: [fake]\noptions: {fake: {%s}}", options);
    kiln_runtime *runtime = fixture_open(profile);
    for (int i = 0; i < 3; i++)
        devices[i] = kiln_device_at(runtime, i);
    return runtime;
}
