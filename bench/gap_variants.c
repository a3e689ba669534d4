/* SPDX-License-Identifier: Apache-2.0 */
/* The GEMM that is asked about, and the changes of it that are measured beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gap_internal.h"

enum { GUESSED_BLOCK = 64 };

/* ---- Variants ---- */

static bool open_variant(gap_variant *self, const bench_gemm *gemm, const bench_target *target,
                         bench_message *message)
{
    self->gemm = *gemm;
    self->target = *target;
    if (!bench_operands_make(&self->gemm, &self->operands, message))
        return false;
    self->made = true;
    self->open = bench_kiln_open(&self->kiln, &self->target, &self->gemm, &self->operands);
    if (!self->open)
        *message = self->kiln.message;
    return self->open;
}

static void close_variant(gap_variant *self)
{
    if (self->open)
        bench_kiln_close(&self->kiln);
    if (self->made)
        bench_operands_free(&self->operands);
    memset(self, 0, sizeof *self);
}

bool gap_open_plain(gap_measurement *self, const bench_gemm *gemm, const bench_target *target,
                    bench_message *message)
{
    return open_variant(&self->plain, gemm, target, message);
}

void gap_close(gap_measurement *self)
{
    close_variant(&self->packed);
    close_variant(&self->rounded);
    close_variant(&self->tiny);
    close_variant(&self->plain);
    free(self->context.workspace);
}

/* The same backend and device as the plain one's. */
static bench_target same_place(const gap_measurement *self)
{
    const bench_target *target = &self->plain.target;
    return (bench_target){.runtime = target->runtime,
                          .backend = self->gap->backend,
                          .device = kiln_device_name(self->plain.kiln.device)};
}

/* Both operands packed where that is offered, else one. */
void gap_open_packed(gap_measurement *self)
{
    static const uint32_t choices[] = {KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B, KILN_GEMM_PACKED_B,
                                       KILN_GEMM_PACKED_A};
    static const char *const names[] = {"A and B", "B", "A"};
    bench_part *part = &self->gap->parts[BENCH_PART_PACKING];
    bench_target target = same_place(self);
    bench_message message, first = {""};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        bench_gemm gemm = self->plain.gemm;
        gemm.desc.head.flags |= choices[i];
        if (open_variant(&self->packed, &gemm, &target, &message)) {
            snprintf(part->remark, sizeof part->remark, "with %s packed beforehand", names[i]);
            return;
        }
        close_variant(&self->packed);
        first = i == 0 ? message : first;
    }
    snprintf(part->remark, sizeof part->remark, "no packed operands: %.200s", first.text);
}

static int64_t round_up(int64_t value, int64_t step)
{
    return (value + step - 1) / step * step;
}

/* The device's matrix unit says in which steps it works; where it does not, 64 is a guess. */
static void find_block(gap_measurement *self)
{
    kiln_device_info info = {.struct_size = sizeof info};
    bool told = kiln_device_get_info(self->plain.kiln.device, &info) == KILN_OK &&
                info.matrix_shape[0] > 0 && info.matrix_shape[1] > 0 && info.matrix_shape[2] > 0;
    self->gap->block_told = told;
    for (int i = 0; i < 3; i++)
        self->gap->block[i] = told ? info.matrix_shape[i] : GUESSED_BLOCK;
}

bool gap_rounded_is_packed(const gap_measurement *self)
{
    return self->rounded.open &&
           self->rounded.gemm.desc.head.flags != self->plain.gemm.desc.head.flags;
}

/* Packed as the packed one is, so that packing, which a small shape feels more, is counted once. */
static bool open_rounded_gemm(gap_measurement *self, bench_gemm *gemm, bench_message *message)
{
    bench_target target = same_place(self);
    if (self->packed.open) {
        bench_gemm packed = *gemm;
        packed.desc.head.flags = self->packed.gemm.desc.head.flags;
        if (open_variant(&self->rounded, &packed, &target, message))
            return true;
        close_variant(&self->rounded);
    }
    return open_variant(&self->rounded, gemm, &target, message);
}

void gap_open_rounded(gap_measurement *self)
{
    bench_part *part = &self->gap->parts[BENCH_PART_TAILS];
    find_block(self);
    const int64_t *block = self->gap->block;
    const char *guess = self->gap->block_told ? "" : ", a guess: the device names no block";
    bench_gemm gemm = self->plain.gemm;
    bench_message message;
    gemm.desc.m = round_up(gemm.desc.m, block[0]);
    gemm.desc.n = round_up(gemm.desc.n, block[1]);
    gemm.desc.k = round_up(gemm.desc.k, block[2]);
    self->share = bench_gemm_operations(&gemm) / bench_gemm_operations(&self->plain.gemm);
    if (memcmp(&gemm.desc, &self->plain.gemm.desc, sizeof gemm.desc) == 0) {
        part->amount = (bench_estimate){0, 0, 0};
        snprintf(part->remark, sizeof part->remark,
                 "none: m, n and k are multiples of %lld, %lld and %lld%s", (long long)block[0],
                 (long long)block[1], (long long)block[2], guess);
    } else if (open_rounded_gemm(self, &gemm, &message)) {
        bool packed = gap_rounded_is_packed(self);
        snprintf(part->remark, sizeof part->remark,
                 "beyond the rate of m=%lld n=%lld k=%lld%s, multiples of the block%s",
                 (long long)gemm.desc.m, (long long)gemm.desc.n, (long long)gemm.desc.k,
                 packed ? ", both packed" : "", guess);
    } else {
        close_variant(&self->rounded);
        snprintf(part->remark, sizeof part->remark, "the shape rounded up: %.200s", message.text);
    }
}

/* The smallest shape with the same types and steps: what the frame does for a run does not depend
 * on sizes, and a few nanoseconds are lost in the variation of a long run. */
static bool open_tiny(gap_measurement *self, bench_message *message)
{
    bench_gemm gemm = self->plain.gemm;
    bench_target target = same_place(self);
    kiln_gemm_desc *desc = &gemm.desc;
    desc->m = desc->k = 1;
    desc->n = 1;
    desc->a_alignment = desc->b_alignment = desc->c_alignment = desc->d_alignment = 0;
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        desc->epilogues[i].alignment = 0;
        if (desc->epilogues[i].kind == KILN_EPILOGUE_SWIGLU)
            desc->n = 2 * kiln_gemm_piece(&desc->epilogues[i], 1);
    }
    return open_variant(&self->tiny, &gemm, &target, message);
}

/* ---- Entries ---- */

/* The backend's function alone, as the core calls it. */
int64_t gap_run_native(void *context, int64_t calls)
{
    gap_measurement *self = context;
    for (int64_t call = 0; call < calls; call++)
        if (self->native.table->run(self->native.plan, &self->context,
                                    &self->tiny.kiln.args.head) != KILN_OK) {
            bench_say(&self->message, "the backend's function: %.400s", kiln_last_error());
            return -1;
        }
    return 0;
}

int64_t gap_run_direct(void *context, int64_t calls)
{
    gap_measurement *self = context;
    for (int64_t call = 0; call < calls; call++)
        if (kiln_call(self->session->runtime, KILN_GEMM, &self->tiny.gemm.desc.head, NULL,
                      &self->tiny.kiln.args.head) != KILN_OK) {
            bench_say(&self->message, "direct call: %.400s", kiln_last_error());
            return -1;
        }
    return 0;
}

/* The native function needs what the core would give it. */
static bool can_run_native(gap_measurement *self, bench_part *part)
{
    int64_t bytes = self->tiny.kiln.info.workspace_bytes;
    self->native.struct_size = sizeof self->native;
    self->context =
        (kiln_run_context){.struct_size = sizeof self->context, .workspace_bytes = bytes};
    if (kiln_plan_get_native(self->tiny.kiln.plan, &self->native) != KILN_OK) {
        snprintf(part->remark, sizeof part->remark, "%.250s", kiln_last_error());
        return false;
    }
    if (bytes > 0)
        self->context.workspace = aligned_alloc(4096, ((size_t)bytes + 4096) / 4096 * 4096);
    if (bytes > 0 && !self->context.workspace) {
        snprintf(part->remark, sizeof part->remark, "no memory for a workspace of %lld bytes",
                 (long long)bytes);
        return false;
    }
    snprintf(part->remark, sizeof part->remark,
             "kiln_plan_run beyond the backend's own function, for m=%lld n=%lld k=%lld of the "
             "same types",
             (long long)self->tiny.gemm.desc.m, (long long)self->tiny.gemm.desc.n,
             (long long)self->tiny.gemm.desc.k);
    return true;
}

/* Direct calls take the profile's choice, which must be the same backend to be compared. */
static bool can_call_directly(gap_measurement *self, bench_part *part)
{
    kiln_plan_info info = {.struct_size = sizeof info};
    kiln_plan *plan;
    if (kiln_plan_create(self->session->runtime, KILN_GEMM, &self->tiny.gemm.desc.head, NULL,
                         &plan) != KILN_OK) {
        snprintf(part->remark, sizeof part->remark, "%.250s", kiln_last_error());
        return false;
    }
    bool same =
        kiln_plan_get_info(plan, &info) == KILN_OK && strcmp(info.backend, self->gap->backend) == 0;
    if (same)
        snprintf(part->remark, sizeof part->remark, "kiln_call beyond kiln_plan_run, for the same");
    else
        snprintf(part->remark, sizeof part->remark, "direct calls of this go to %s", info.backend);
    kiln_plan_release(plan);
    return same;
}

/* Whether the ways into the backend are compared. */
void gap_open_entries(gap_measurement *self)
{
    bench_part *native = &self->gap->parts[BENCH_PART_OVERHEAD],
               *direct = &self->gap->parts[BENCH_PART_DIRECT];
    bench_message message = {"told of runs on the host only: elsewhere the host's part hides "
                             "behind the device"};
    if (self->plain.kiln.stream || !open_tiny(self, &message)) {
        snprintf(native->remark, sizeof native->remark, "%.250s", message.text);
        snprintf(direct->remark, sizeof direct->remark, "%.250s", message.text);
        return;
    }
    self->has_native = can_run_native(self, native);
    self->has_direct = can_call_directly(self, direct);
}
