/* SPDX-License-Identifier: Apache-2.0 */
/* Planning, placing and running a GEMM through the public API. */
#include "bench/kiln_gemm.h"

#include <stdlib.h>
#include <string.h>

enum { CHECKED_PLACES = 64, MAXIMUM_CANDIDATES = 64, MAXIMUM_COUNTERS = 32 };

static bool fail(bench_kiln *self, const char *what)
{
    return bench_say(&self->message, "%s: %.400s", what, kiln_last_error());
}

static bool is_host(kiln_device *device)
{
    return device == kiln_device_at(kiln_device_runtime(device), 0);
}

static kiln_status plan_on(bench_kiln *self, const bench_target *target, kiln_device *device)
{
    kiln_plan_options options = {.struct_size = sizeof options,
                                 .device = device,
                                 .backend =
                                     target->backend && target->backend[0] ? target->backend : NULL,
                                 .staging = KILN_STAGING_DENY};
    const kiln_gemm_desc *desc = target->planned ? target->planned : &self->gemm->desc;
    self->device = device;
    return kiln_plan_create(target->runtime, KILN_GEMM, &desc->head, &options, &self->plan);
}

/* On the device asked for; without one on the default device or, where no backend serves the case
 * there, on the first that has one. The first refusal is the one worth reading. */
static bool make_plan(bench_kiln *self, const bench_target *target)
{
    kiln_device *device = kiln_device_default(target->runtime);
    bool named = target->device && target->device[0];
    if (named && kiln_device_find(target->runtime, target->device, &device) != KILN_OK)
        return fail(self, "device");
    if (plan_on(self, target, device) == KILN_OK)
        return true;
    fail(self, "plan");
    for (int64_t i = 0; !named && i < kiln_device_count(target->runtime); i++) {
        kiln_device *other = kiln_device_at(target->runtime, i);
        if (other != device && plan_on(self, target, other) == KILN_OK)
            return true;
    }
    return false;
}

/* A tensor on the device, with the contents of `source` if `copied`. */
static bool place(bench_kiln *self, kiln_tensor *tensor, const kiln_tensor *source, bool copied)
{
    *tensor = *source;
    tensor->data = NULL;
    if (kiln_buffer_alloc(self->device, KILN_SPACE_DEVICE, bench_tensor_bytes(source),
                          &tensor->buffer) != KILN_OK)
        return fail(self, "device memory");
    if (copied && kiln_copy(NULL, kiln_device_runtime(self->device), tensor, source) != KILN_OK)
        return fail(self, "copy to the device");
    return true;
}

/* Scales and zero points of A or B. */
static bool place_scales(bench_kiln *self, uint32_t slot)
{
    kiln_tensor *tensor = &self->tensors[slot];
    const kiln_tensor *scale = tensor->scale, *zero_point = tensor->zero_point;
    tensor->scale = scale ? &self->scales[slot] : NULL;
    tensor->zero_point = zero_point ? &self->zero_points[slot] : NULL;
    return (!scale || place(self, &self->scales[slot], scale, true)) &&
           (!zero_point || place(self, &self->zero_points[slot], zero_point, true));
}

static bool place_operands(bench_kiln *self, const bench_operands *operands)
{
    if (is_host(self->device)) {
        memcpy(self->tensors, operands->tensors, sizeof self->tensors);
        return true;
    }
    if (kiln_stream_create(self->device, &self->stream) != KILN_OK)
        return fail(self, "stream");
    for (uint32_t i = 0; i < KILN_GEMM_SLOTS; i++) {
        const kiln_tensor *source = &operands->tensors[i];
        bool copied = !bench_gemm_is_output(&self->gemm->desc, i);
        if (source->type != KILN_TYPE_NONE && !place(self, &self->tensors[i], source, copied))
            return false;
    }
    return place_scales(self, KILN_GEMM_A) && place_scales(self, KILN_GEMM_B);
}

/* Puts an operand, packed, in its own place. */
static bool pack(bench_kiln *self, uint32_t slot)
{
    static const char *const names[BENCH_PACKED_SLOTS] = {"packed A", "packed B"};
    kiln_tensor source = self->tensors[slot], packed = source;
    int64_t bytes;
    if (kiln_plan_pack_size(self->plan, slot, &bytes) != KILN_OK)
        return fail(self, names[slot]);
    self->packed_bytes[slot] = bytes;
    packed.layout = KILN_LAYOUT_PACKED;
    packed.buffer = NULL;
    packed.data = NULL;
    packed.scale = packed.zero_point = NULL; /* they are in the blob */
    packed.scale_block[0] = packed.scale_block[1] = 0;
    if (is_host(self->device))
        packed.data = self->packed_host[slot] =
            aligned_alloc(4096, ((size_t)bytes + 4096) / 4096 * 4096);
    else if (kiln_buffer_alloc(self->device, KILN_SPACE_DEVICE, bytes, &packed.buffer) != KILN_OK)
        return fail(self, "device memory");
    if (!packed.data && !packed.buffer)
        return bench_say(&self->message, "memory is exhausted: %lld bytes for %s", (long long)bytes,
                         names[slot]);
    kiln_status status = kiln_plan_pack(self->plan, NULL, slot, &source, &packed);
    self->tensors[slot] = packed;
    kiln_buffer_release(source.buffer);
    return status == KILN_OK || fail(self, names[slot]);
}

static bool pack_operands(bench_kiln *self)
{
    const uint32_t flags = self->gemm->desc.head.flags;
    return (!(flags & KILN_GEMM_PACKED_A) || pack(self, KILN_GEMM_A)) &&
           (!(flags & KILN_GEMM_PACKED_B) || pack(self, KILN_GEMM_B));
}

static bool fetch(bench_kiln *self, bench_operands *operands, uint32_t slot)
{
    return !self->stream || !operands->tensors[slot].data ||
           kiln_copy(NULL, kiln_device_runtime(self->device), &operands->tensors[slot],
                     &self->tensors[slot]) == KILN_OK ||
           fail(self, "copy from the device");
}

/* One run, whose result comes back to the host and is checked there. */
static bool prove(bench_kiln *self, bench_operands *operands)
{
    return bench_kiln_run(self, 1) >= 0 && fetch(self, operands, KILN_GEMM_D) &&
           fetch(self, operands, KILN_GEMM_D_SCALE) &&
           bench_gemm_check(self->gemm, operands, CHECKED_PLACES, &self->message);
}

static bool start(bench_kiln *self, bench_operands *operands)
{
    kiln_device_info device = {.struct_size = sizeof device};
    self->info.struct_size = sizeof self->info;
    if (kiln_plan_get_info(self->plan, &self->info) != KILN_OK ||
        kiln_device_get_info(self->device, &device) != KILN_OK)
        return fail(self, "plan");
    self->model = device.flags & KILN_DEVICE_MODEL;
    if (!place_operands(self, operands) || !pack_operands(self))
        return false;
    self->args = (kiln_gemm_args){
        {sizeof self->args, bench_gemm_tensor_count(&self->gemm->desc), self->tensors},
        self->gemm->alpha,
        self->gemm->beta};
    return prove(self, operands);
}

bool bench_kiln_open(bench_kiln *self, const bench_target *target, const bench_gemm *gemm,
                     bench_operands *operands)
{
    memset(self, 0, sizeof *self);
    self->gemm = gemm;
    if (make_plan(self, target) && start(self, operands))
        return true;
    bench_kiln_close(self);
    return false;
}

void bench_kiln_close(bench_kiln *self)
{
    kiln_stream_destroy(self->stream);
    for (int i = 0; i < KILN_GEMM_SLOTS; i++)
        kiln_buffer_release(self->tensors[i].buffer);
    for (int i = 0; i < BENCH_QUANTIZED_SLOTS; i++) {
        kiln_buffer_release(self->scales[i].buffer);
        kiln_buffer_release(self->zero_points[i].buffer);
    }
    memset(self->tensors, 0, sizeof self->tensors);
    memset(self->scales, 0, sizeof self->scales);
    memset(self->zero_points, 0, sizeof self->zero_points);
    for (int i = 0; i < BENCH_PACKED_SLOTS; i++)
        free(self->packed_host[i]);
    memset(self->packed_host, 0, sizeof self->packed_host);
    kiln_plan_release(self->plan);
    self->stream = NULL;
    self->plan = NULL;
}

int64_t bench_kiln_run(void *context, int64_t calls)
{
    bench_kiln *self = context;
    for (int64_t call = 0; call < calls; call++)
        if (kiln_plan_run(self->plan, self->stream, &self->args.head) != KILN_OK) {
            fail(self, "run");
            return -1;
        }
    if (self->stream && kiln_stream_wait(self->stream) != KILN_OK) {
        fail(self, "run");
        return -1;
    }
    return 0;
}

void bench_kiln_spans(const bench_kiln *self, bench_team *team, bench_memory *memory)
{
    memset(memory, 0, sizeof *memory);
    memory->team = team;
    for (int slot = KILN_GEMM_A; slot <= KILN_GEMM_C; slot++) {
        const kiln_tensor *tensor = &self->tensors[slot];
        bool packed = slot < BENCH_PACKED_SLOTS && self->packed_bytes[slot] > 0;
        memory->reads[slot] = (bench_span){tensor->data, packed ? self->packed_bytes[slot]
                                                                : bench_tensor_bytes(tensor)};
    }
    const kiln_tensor *d = &self->tensors[KILN_GEMM_D];
    memory->write = (bench_span){d->data, bench_tensor_bytes(d)};
}

/* The stream's "cycles" so far; negative when it does not count them. */
static int64_t cycles(bench_kiln *self)
{
    kiln_counter counters[MAXIMUM_COUNTERS];
    int64_t count = 0;
    if (!self->stream ||
        kiln_stream_counters(self->stream, counters, MAXIMUM_COUNTERS, &count) != KILN_OK)
        return -1;
    for (int64_t i = 0; i < count && i < MAXIMUM_COUNTERS; i++)
        if (strcmp(counters[i].name, "cycles") == 0)
            return counters[i].value;
    return -1;
}

double bench_kiln_cycles(bench_kiln *self, int64_t calls)
{
    int64_t before = cycles(self);
    if (before < 0 || bench_kiln_run(self, calls) < 0) {
        if (before < 0)
            bench_say(&self->message, "device %s does not count cycles",
                      kiln_device_name(self->device));
        return -1;
    }
    return (double)(cycles(self) - before) / (double)calls;
}

/* Adds what one device's backends answer. */
static bool ask_device(kiln_device *device, const kiln_gemm_desc *desc, bench_place *places,
                       int64_t capacity, int64_t *found)
{
    kiln_candidate candidates[MAXIMUM_CANDIDATES];
    kiln_plan_options options = {
        .struct_size = sizeof options, .device = device, .staging = KILN_STAGING_DENY};
    int64_t count = 0;
    if (kiln_explain(kiln_device_runtime(device), KILN_GEMM, &desc->head, &options, candidates,
                     MAXIMUM_CANDIDATES, &count) != KILN_OK)
        return false;
    for (int64_t i = 0; i < count && i < MAXIMUM_CANDIDATES; i++) {
        const char *name = kiln_device_name(device);
        if (candidates[i].support == KILN_SUPPORT_NO || candidates[i].staged)
            continue;
        if (*found < capacity) {
            memcpy(places[*found].backend, candidates[i].backend, sizeof places->backend);
            memset(places[*found].device, 0, sizeof places->device);
            memcpy(places[*found].device, name, strnlen(name, sizeof places->device - 1));
        }
        ++*found;
    }
    return true;
}

int64_t bench_places(kiln_runtime *runtime, const kiln_gemm_desc *desc, bench_place *places,
                     int64_t capacity, bench_message *message)
{
    int64_t found = 0;
    for (int64_t i = 0; i < kiln_device_count(runtime); i++)
        if (!ask_device(kiln_device_at(runtime, i), desc, places, capacity, &found)) {
            bench_say(message, "%.500s", kiln_last_error());
            return -1;
        }
    return found;
}
