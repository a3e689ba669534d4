/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/fake_backend.h"
#include "tests/core/fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

fake_backend fake_backends[FAKE_BACKENDS];

typedef struct fake_instance {
    fake_backend *backend;
    const kiln_host *host;
    const char *name;
    int64_t limit;
} fake_instance;

typedef struct fake_plan {
    fake_instance *instance;
    kiln_gemm_desc desc;
    int64_t count; /* of axpy */
    bool axpy;
} fake_plan;

static kiln_status say(const fake_instance *self, kiln_status status, const char *what)
{
    return self->backend->silent ? status
                                 : self->host->set_error(status, "%s cannot %s", self->name, what);
}

static kiln_status query(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                         kiln_answer *answer)
{
    fake_instance *self = instance;
    fake_backend *backend = self->backend;
    atomic_fetch_add(&backend->queries, 1);
    if (answer->struct_size != sizeof *answer || answer->support ||
        !self->host->device_is_host(device) || !descriptor->struct_size)
        atomic_fetch_add(&backend->wrong, 1);
    if (backend->query_status != KILN_OK)
        return say(self, backend->query_status, "answer");
    answer->support = backend->refuses   ? KILN_SUPPORT_NO
                      : backend->support ? backend->support
                                         : KILN_SUPPORT_NATIVE;
    answer->flags = backend->unreproducible ? 0 : KILN_ANSWER_REPRODUCIBLE;
    answer->accumulator = KILN_F64;
    answer->estimated_ns = 1000;
    answer->workspace_bytes = backend->workspace_bytes;
    answer->workspace_alignment = backend->workspace_alignment;
    snprintf(answer->kernel, sizeof answer->kernel, "%s-%lld", self->name, (long long)self->limit);
    snprintf(answer->reason, sizeof answer->reason, "%s", backend->reason ? backend->reason : "");
    return KILN_OK;
}

static kiln_status make_plan(fake_instance *self, const kiln_plan_request *request, bool axpy,
                             void **result)
{
    fake_backend *backend = self->backend;
    atomic_fetch_add(&backend->plans, 1);
    if (backend->plan_us)
        usleep((useconds_t)backend->plan_us);
    if (backend->plan_status != KILN_OK)
        return say(self, backend->plan_status, "prepare");
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    backend->parameter_count = (int64_t)request->parameter_count;
    for (int64_t i = 0; i < backend->parameter_count && i < FAKE_PARAMETERS; i++)
        backend->parameters[i] = request->parameters[i];
    backend->payload_size = request->payload_size;
    pthread_mutex_unlock(&mutex);
    fake_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return say(self, KILN_NO_MEMORY, "allocate");
    *plan = (fake_plan){.instance = self, .axpy = axpy};
    if (axpy)
        plan->count = ((const acme_axpy_desc *)request->descriptor)->count;
    else
        plan->desc = *(const kiln_gemm_desc *)request->descriptor;
    atomic_fetch_add(&backend->made, 1);
    *result = plan;
    return KILN_OK;
}

static kiln_status plan_gemm(void *instance, const kiln_plan_request *request, void **plan)
{
    return make_plan(instance, request, false, plan);
}

static kiln_status plan_axpy(void *instance, const kiln_plan_request *request, void **plan)
{
    return make_plan(instance, request, true, plan);
}

static void use_workspace(fake_backend *backend, const kiln_run_context *context)
{
    if (backend->workspace_bytes == 0)
        return;
    if (!context->workspace || (uintptr_t)context->workspace % 64 ||
        context->workspace_bytes < backend->workspace_bytes) {
        atomic_fetch_add(&backend->wrong, 1);
        return;
    }
    /* Whoever shares it at the same time is found out. */
    unsigned char *bytes = context->workspace, mark = (unsigned char)(uintptr_t)&mark;
    memset(bytes, mark, (size_t)backend->workspace_bytes);
    usleep(10);
    for (int64_t i = 0; i < backend->workspace_bytes; i++)
        if (bytes[i] != mark) {
            atomic_fetch_add(&backend->wrong, 1);
            return;
        }
}

static kiln_status run(void *native, const kiln_run_context *context,
                       const kiln_args_head *arguments)
{
    fake_plan *plan = native;
    fake_instance *self = plan->instance;
    fake_backend *backend = self->backend;
    const kiln_tensor *tensors = arguments->tensors;
    atomic_fetch_add(&backend->runs, 1);
    backend->part = context->part;
    backend->parts = context->parts;
    if (context->stream)
        atomic_fetch_add(&backend->wrong, 1); /* a host run gets none */
    use_workspace(backend, context);
    if (backend->run_status != KILN_OK)
        return say(self, backend->run_status, "run");
    if (context->part != 0 || arguments->tensor_count == 0)
        return KILN_OK; /* the first share is the whole */
    if (plan->axpy) {
        char *x = kiln_tensor_address(self->host, &tensors[0]),
             *y = kiln_tensor_address(self->host, &tensors[1]);
        for (int64_t i = 0; i < plan->count; i++)
            kiln_store_f64(KILN_F32, y, i,
                           kiln_load_f64(KILN_F32, y, i) +
                               ((const acme_axpy_args *)arguments)->alpha *
                                   kiln_load_f64(KILN_F32, x, i),
                           0);
        return KILN_OK;
    }
    const kiln_gemm_args *args = (const kiln_gemm_args *)arguments;
    kiln_tensor plain[KILN_GEMM_SLOTS] = {{.data = NULL}};
    for (uint32_t i = 0; i < arguments->tensor_count && i < KILN_GEMM_SLOTS; i++) {
        plain[i] = tensors[i];
        plain[i].data = kiln_tensor_address(self->host, &tensors[i]);
    }
    return fake_gemm(&plan->desc, args->alpha, args->beta, plain);
}

static kiln_status schedule(void *native, const kiln_run_context *context,
                            const kiln_args_head *arguments)
{
    (void)context, (void)arguments;
    atomic_fetch_add(&((fake_plan *)native)->instance->backend->schedules, 1);
    return KILN_OK;
}

static void free_plan(void *native)
{
    atomic_fetch_add(&((fake_plan *)native)->instance->backend->frees, 1);
    free(native);
}

static uint64_t outputs(void *plan)
{
    (void)plan;
    return 1u << 1;
}

static const kiln_operator_table gemm_table = {.struct_size = sizeof gemm_table,
                                               .query = query,
                                               .plan = plan_gemm,
                                               .run = run,
                                               .free = free_plan};
static const kiln_operator_table axpy_table = {.struct_size = sizeof axpy_table,
                                               .query = query,
                                               .plan = plan_axpy,
                                               .run = run,
                                               .free = free_plan,
                                               .outputs = outputs,
                                               .schedule = schedule};
static const kiln_operator_table axpy_table_without_outputs = {.struct_size = sizeof axpy_table,
                                                               .query = query,
                                                               .plan = plan_axpy,
                                                               .run = run,
                                                               .free = free_plan};

/* ---- The three plugins ---- */

static kiln_status open_backend(int index, const char *name, const kiln_host *host,
                                const kiln_option_value *options, void **instance)
{
    fake_instance *self = calloc(1, sizeof *self);
    if (!self)
        return host->set_error(KILN_NO_MEMORY, "no memory for %s", name);
    *self = (fake_instance){&fake_backends[index], host, name, options[0].integer};
    *instance = self;
    return KILN_OK;
}

static const void *interface(void *instance, const char *name)
{
    const fake_instance *self = instance;
    if (strcmp(name, KILN_GEMM) == 0)
        return &gemm_table;
    if (strcmp(name, ACME_AXPY) == 0)
        return self->backend->without_outputs ? &axpy_table_without_outputs : &axpy_table;
    return NULL;
}

static int64_t probe(void)
{
    return 1;
}

static const char *const interfaces[] = {KILN_GEMM, ACME_AXPY, NULL};
static const kiln_option options_of_all[] = {{.key = "limit",
                                              .default_value = "1",
                                              .help = "a number",
                                              .type = KILN_OPTION_INTEGER,
                                              .minimum = 0,
                                              .maximum = 1000}};

#define FAKE_PLUGIN(index, id)                                                            \
    static kiln_status open_##id(const kiln_host *host, const kiln_option_value *options, \
                                 void **instance)                                         \
    {                                                                                     \
        return open_backend(index, #id, host, options, instance);                         \
    }                                                                                     \
    static const kiln_plugin plugin_##id = {.struct_size = sizeof plugin_##id,            \
                                            .abi_minor = KILN_PLUGIN_ABI_MINOR,           \
                                            .name = #id,                                  \
                                            .version = "1",                               \
                                            .vendor = "tests",                            \
                                            .description = "does as it is told",          \
                                            .interfaces = interfaces,                     \
                                            .options = options_of_all,                    \
                                            .option_count = 1,                            \
                                            .probe = probe,                               \
                                            .open = open_##id,                            \
                                            .close = free,                                \
                                            .interface = interface};                      \
    static const kiln_plugin *entry_##id(int64_t host_abi_minor)                          \
    {                                                                                     \
        (void)host_abi_minor;                                                             \
        return &plugin_##id;                                                              \
    }

FAKE_PLUGIN(0, alpha)
FAKE_PLUGIN(1, beta)
FAKE_PLUGIN(2, gamma)

void fake_backends_reset(void)
{
    memset(fake_backends, 0, sizeof fake_backends);
    kiln_plugin_register("alpha", entry_alpha);
    kiln_plugin_register("beta", entry_beta);
    kiln_plugin_register("gamma", entry_gamma);
}

int fake_backends_set_up(void **state)
{
    (void)state;
    fake_backends_reset();
    return 0;
}

int fake_backends_tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < FAKE_BACKENDS; i++)
        if (fake_backends[i].wrong || fake_backends[i].made != fake_backends[i].frees) {
            print_error("backend %d: %lld wrong calls, %lld plans made, %lld freed\n", i,
                        (long long)fake_backends[i].wrong, (long long)fake_backends[i].made,
                        (long long)fake_backends[i].frees);
            return -1;
        }
    return 0;
}
