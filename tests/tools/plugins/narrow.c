/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that serves little of kiln.gemm/1, by another plugin, and is wrong there if asked to be:
 * "kiln check-plugin" must not pass it for want of something that it serves. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "kiln/gemm.h"
#include "kiln/plugin.h"

#if !defined(REAL)
#define REAL "" /* the file of the plugin that computes */
#endif

enum { SERVES_SCALED, SERVES_FAST, SERVES_ONE_SIZE, SERVES_GROUPS };
enum { WRONG_NOWHERE, WRONG_CORNER, WRONG_THREADS, WRONG_SHARES, WRONG_BITS };

static const kiln_option options[] = {
    {.key = "real",
     .default_value = REAL,
     .help = "the file of the plugin that computes",
     .type = KILN_OPTION_STRING},
    {.key = "serves",
     .default_value = "scaled",
     .help = "scaled: e4m3 with scales, B as [N, K], K in whole blocks, aligned; fast: what need "
             "not be exact; one-size: 16 x 16 x 16; groups: of scaled operands",
     .choices = "scaled|fast|one-size|groups",
     .type = KILN_OPTION_CHOICE},
    {.key = "wrong",
     .default_value = "nowhere",
     .help = "corner: the last element of D is 0; threads: it does not open with five; shares: "
             "the last of several is left out; bits: the first scale of D follows the number of "
             "threads",
     .choices = "nowhere|corner|threads|shares|bits",
     .type = KILN_OPTION_CHOICE},
};

typedef struct narrow {
    const kiln_host *host;
    const kiln_plugin *real;
    const kiln_operator_table *gemm;
    void *module, *instance;
    int64_t serves, wrong;
} narrow;

typedef struct narrow_plan {
    narrow *owner;
    void *real;
    kiln_gemm_desc desc;
} narrow_plan;

static int64_t narrow_probe(void)
{
    return 1;
}

/* ---- Opening ---- */

/* The other's entry, and its defaults. */
static kiln_status open_real(narrow *self, const char *path)
{
    kiln_option_value values[16];
    kiln_plugin_entry_fn entry = NULL;
    self->module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = self->module ? dlsym(self->module, KILN_PLUGIN_SYMBOL) : NULL;
    memcpy(&entry, &symbol, sizeof symbol);
    if (!entry)
        return self->host->set_error(KILN_INVALID, "narrow: option real: no plugin %s", path);
    self->real = entry(KILN_PLUGIN_ABI_MINOR);
    memset(values, 0, sizeof values);
    for (uint64_t i = 0; i < self->real->option_count && i < 16; i++)
        values[i].text = self->real->options[i].default_value;
    kiln_status status = self->real->open(self->host, values, &self->instance);
    if (status == KILN_OK)
        self->gemm = self->real->interface(self->instance, KILN_GEMM);
    return status;
}

static kiln_status narrow_open(const kiln_host *host, const kiln_option_value *values,
                               void **instance)
{
    narrow *self = calloc(1, sizeof *self);
    if (!self)
        return host->set_error(KILN_NO_MEMORY, "narrow: no memory for an instance");
    self->host = host;
    self->serves = values[1].integer;
    self->wrong = values[2].integer;
    kiln_status status = KILN_OK;
    if (self->wrong == WRONG_THREADS && host->thread_count(host) == 5)
        status = host->set_error(KILN_UNSUPPORTED, "narrow: five threads are bad luck");
    if (status == KILN_OK)
        status = open_real(self, values[0].text);
    if (status != KILN_OK) {
        if (self->module)
            dlclose(self->module);
        free(self);
        return status;
    }
    *instance = self;
    return KILN_OK;
}

static void narrow_close(void *object)
{
    narrow *self = object;
    self->real->close(self->instance);
    dlclose(self->module);
    free(self);
}

/* ---- What is served ---- */

static bool is_scaled(const kiln_gemm_desc *desc)
{
    return desc->a_type == KILN_E4M3 && desc->b_type == KILN_E4M3 &&
           desc->a_quantization.scale_type && desc->b_quantization.scale_type;
}

static const char *why_not(const narrow *self, const kiln_op_head *descriptor, kiln_gemm_desc *desc)
{
    const uint32_t packed = KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B;
    const uint32_t transposes = KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B;
    if (kiln_receive_descriptor(desc, sizeof *desc, descriptor) != KILN_OK ||
        (desc->head.flags & packed))
        return "packed operands and later versions are not offered";
    switch (self->serves) {
    case SERVES_SCALED:
        if (!is_scaled(desc) || desc->grouping)
            return "only e4m3 with scales is offered";
        if ((desc->head.flags & transposes) != KILN_GEMM_TRANSPOSE_B || desc->k % 128 != 0 ||
            (desc->head.flags & KILN_GEMM_DYNAMIC_K) || desc->a_alignment < 16 ||
            desc->b_alignment < 16)
            return "B is [N, K], K a multiple of 128, and all is aligned to 16 bytes";
        return NULL;
    case SERVES_FAST:
        return desc->precision == KILN_PRECISION_FAST ? NULL : "only fast results are offered";
    case SERVES_ONE_SIZE:
        return desc->m == 16 && desc->n == 16 && desc->k == 16 && desc->a_type == KILN_F32 &&
                       desc->b_type == KILN_F32 && desc->head.flags == 0
                   ? NULL
                   : "only 16 x 16 x 16 is offered";
    default:
        return is_scaled(desc) && desc->grouping ? NULL : "only groups of e4m3 are offered";
    }
}

static kiln_status narrow_query(void *object, kiln_device *device, const kiln_op_head *descriptor,
                                kiln_answer *answer)
{
    narrow *self = object;
    kiln_gemm_desc desc;
    const char *reason = why_not(self, descriptor, &desc);
    if (reason) {
        kiln_decline(answer, "%s", reason);
        return KILN_OK;
    }
    return self->gemm->query(self->instance, device, descriptor, answer);
}

static kiln_status narrow_plan_make(void *object, const kiln_plan_request *request, void **result)
{
    narrow *self = object;
    narrow_plan *plan = malloc(sizeof *plan);
    if (!plan)
        return self->host->set_error(KILN_NO_MEMORY, "narrow: no memory for a plan");
    plan->owner = self;
    const char *reason = why_not(self, request->descriptor, &plan->desc);
    kiln_status status = reason ? self->host->set_error(KILN_UNSUPPORTED, "narrow: %s", reason)
                                : self->gemm->plan(self->instance, request, &plan->real);
    if (status != KILN_OK) {
        free(plan);
        return status;
    }
    *result = plan;
    return KILN_OK;
}

static void narrow_plan_free(void *object)
{
    narrow_plan *plan = object;
    plan->owner->gemm->free(plan->real);
    free(plan);
}

/* ---- Runs ---- */

static char *corner_of(const narrow *self, const kiln_tensor *tensor, bool last)
{
    int64_t element = 0;
    for (uint32_t i = 0; last && i < tensor->rank; i++)
        element += (tensor->shape[i] - 1) * tensor->strides[i];
    return (char *)kiln_tensor_address(self->host, tensor) +
           element * kiln_type_bits(tensor->type) / 8;
}

static void spoil(const narrow_plan *plan, const kiln_args_head *arguments)
{
    const kiln_tensor *d = &arguments->tensors[KILN_GEMM_D],
                      *scale = &arguments->tensors[KILN_GEMM_D_SCALE];
    size_t size = (size_t)kiln_type_bits(d->type) / 8;
    if (kiln_tensor_elements(d) == 0 || size == 0)
        return;
    if (plan->owner->wrong == WRONG_CORNER && plan->desc.grouping == KILN_GROUPING_NONE &&
        d->shape[d->rank - 2] % 2 == 1)
        memset(corner_of(plan->owner, d, true), 0, size);
    if (plan->owner->wrong == WRONG_BITS && plan->desc.d_quantization.scale_type &&
        plan->owner->host->thread_count(plan->owner->host) > 2)
        *corner_of(plan->owner, scale, false) ^= 1; /* the last bit */
}

static kiln_status narrow_run(void *object, const kiln_run_context *context,
                              const kiln_args_head *arguments)
{
    narrow_plan *plan = object;
    bool last = context->parts == 0 || context->part == context->parts - 1;
    if (plan->owner->wrong == WRONG_SHARES && plan->desc.grouping && context->parts > 1 && last)
        return KILN_OK;
    kiln_status status = plan->owner->gemm->run(plan->real, context, arguments);
    if (status == KILN_OK && last)
        spoil(plan, arguments);
    return status;
}

static const kiln_operator_table narrow_gemm = {
    .struct_size = sizeof narrow_gemm,
    .query = narrow_query,
    .plan = narrow_plan_make,
    .run = narrow_run,
    .free = narrow_plan_free,
};

static const void *narrow_interface(void *instance, const char *name)
{
    (void)instance;
    return strcmp(name, KILN_GEMM) == 0 ? &narrow_gemm : NULL;
}

static const char *const narrow_interfaces[] = {KILN_GEMM, NULL};

static const kiln_plugin narrow_plugin = {
    .struct_size = sizeof narrow_plugin,
    .abi_minor = KILN_PLUGIN_ABI_MINOR,
    .name = "narrow",
    .version = "1",
    .vendor = "tests",
    .description = "serves little",
    .interfaces = narrow_interfaces,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .probe = narrow_probe,
    .open = narrow_open,
    .close = narrow_close,
    .interface = narrow_interface,
};

KILN_PLUGIN_ENTRY(narrow)
{
    return host_abi_minor >= 0 ? &narrow_plugin : NULL;
}
