/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of kiln.gemm/1: packed operands. */
#include <stdio.h>
#include <stdlib.h>

#include "conformance/plugin/op/gemm_plain.h"
#include "conformance/plugin/op/op.h"

/* A plan that takes one operand packed, and that operand's blob. */
typedef struct packed_plan {
    uint32_t slot;
    conformance_gemm_case *test;
    kiln_plan *plan;
    kiln_stream *stream;            /* of a device */
    conformance_gemm_placed placed; /* the packed one's tensor is `packed` */
    conformance_guarded memory;     /* of a blob on the host */
    kiln_buffer *blob;
    kiln_tensor packed;
    int64_t bytes;
} packed_plan;

static void end_packed(packed_plan *self)
{
    kiln_stream_destroy(self->stream);
    kiln_plan_release(self->plan);
    conformance_gemm_release(&self->placed);
    kiln_buffer_release(self->blob);
    conformance_guard_release(&self->memory);
    conformance_gemm_case_free(self->test);
}

/* Memory for the blob, with guard pages where the host can have them. */
static bool make_blob(conformance_gemm_bench *bench, packed_plan *self)
{
    kiln_status status;
    if (bench->session.host) {
        if (!conformance_guard(self->bytes, 64, false, &self->memory)) {
            conformance_fail(bench->report, "no memory for a packed operand");
            return false;
        }
        status = kiln_buffer_wrap(bench->session.runtime, self->memory.data, self->bytes, NULL,
                                  NULL, &self->blob);
    } else {
        status =
            kiln_buffer_alloc(bench->session.device, KILN_SPACE_DEVICE, self->bytes, &self->blob);
    }
    if (status != KILN_OK)
        conformance_fail(bench->report, "no buffer for a packed operand: %s", kiln_last_error());
    self->packed = self->test->tensors[self->slot].tensor;
    self->packed.data = NULL;
    self->packed.buffer = self->blob;
    self->packed.byte_offset = 0;
    self->packed.layout = KILN_LAYOUT_PACKED;
    self->packed.scale = self->packed.zero_point = NULL; /* they are in the blob */
    self->packed.scale_block[0] = self->packed.scale_block[1] = 0;
    return status == KILN_OK;
}

static bool wait_for(conformance_gemm_bench *bench, packed_plan *self, const char *what,
                     kiln_status status)
{
    if (status == KILN_OK && self->stream)
        status = kiln_stream_wait(self->stream);
    if (status == KILN_OK)
        return true;
    conformance_fail(bench->report, "%s fails with %s: %s", what, kiln_status_name(status),
                     kiln_last_error());
    return false;
}

/* Makes the plan and packs. False when the backend declines, or on a failure. */
static bool begin_packed(conformance_gemm_bench *bench, const conformance_gemm_spec *plain,
                         uint32_t slot, packed_plan *self)
{
    conformance_gemm_spec spec = *plain;
    memset(self, 0, sizeof *self);
    self->slot = slot;
    spec.desc.head.flags |= slot == KILN_GEMM_A ? KILN_GEMM_PACKED_A : KILN_GEMM_PACKED_B;
    self->test = conformance_gemm_make(bench, &spec);
    self->plan = self->test ? conformance_gemm_plan(bench, &self->test->desc) : NULL;
    if (!self->plan)
        return false;
    kiln_status status = kiln_plan_pack_size(self->plan, slot, &self->bytes);
    if (status != KILN_OK || self->bytes < (int64_t)sizeof(kiln_pack_header)) {
        conformance_fail(
            bench->report, "query serves a packed %s, but pack_size gives %s and %lld bytes",
            slot == KILN_GEMM_A ? "A" : "B", kiln_status_name(status), (long long)self->bytes);
        return false;
    }
    if (!bench->session.host &&
        kiln_stream_create(bench->session.device, &self->stream) != KILN_OK) {
        conformance_fail(bench->report, "no stream: %s", kiln_last_error());
        return false;
    }
    return conformance_gemm_place(bench, self->test, &self->placed) && make_blob(bench, self) &&
           wait_for(bench, self, "packing",
                    kiln_plan_pack(self->plan, self->stream, slot, &self->placed.tensors[slot],
                                   &self->packed));
}

static void each_packed(const conformance_subject *subject, conformance_report *report,
                        size_t size_count,
                        void (*function)(conformance_gemm_bench *bench, packed_plan *self,
                                         const conformance_gemm_spec *spec))
{
    static const int64_t sizes[][3] = {{5, 7, 10}, {1, 1, 2}, {33, 17, 40}, {70, 90, 34}};
    conformance_gemm_bench bench;
    packed_plan self;
    if (conformance_bench_begin(subject, NULL, report, &bench))
        for (int i = 0; i < bench.type_count; i++)
            for (size_t k = 0; k < size_count; k++)
                for (uint32_t variant = 0; variant < 4; variant++) {
                    conformance_gemm_spec spec = conformance_gemm_plain(
                        &bench.types[i], sizes[k][0], sizes[k][1], sizes[k][2]);
                    uint32_t slot = variant & 1 ? KILN_GEMM_A : KILN_GEMM_B;
                    spec.desc.head.flags ^=
                        variant & 2 ? KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B : 0;
                    if (conformance_bench_failed(&bench))
                        continue;
                    if (begin_packed(&bench, &spec, slot, &self))
                        function(&bench, &self, &spec);
                    end_packed(&self);
                }
    conformance_bench_end(&bench);
}

/* ---- Exact ---- */

/* Where an operand is unpacked to: elements, scales and zero points, in memory like that which they
 * came from. */
typedef struct unpacked {
    uint32_t slots[3];
    kiln_tensor tensors[3];
    kiln_buffer *buffers[3];
    uint8_t *memory[3];
} unpacked;

static void end_unpacked(unpacked *self)
{
    for (int i = 0; i < 3; i++) {
        kiln_buffer_release(self->buffers[i]);
        free(self->memory[i]);
    }
}

static bool begin_unpacked(conformance_gemm_bench *bench, const packed_plan *plan, unpacked *self)
{
    *self = (unpacked){.slots = {plan->slot, CONFORMANCE_GEMM_SCALE + plan->slot,
                                 CONFORMANCE_GEMM_ZERO_POINT + plan->slot}};
    for (int i = 0; i < 3; i++) {
        const conformance_tensor *made = &plan->test->tensors[self->slots[i]];
        kiln_tensor *tensor = &self->tensors[i];
        *tensor = made->tensor;
        if (!made->memory)
            continue;
        self->memory[i] = malloc((size_t)made->bytes);
        if (!self->memory[i])
            return false;
        memset(self->memory[i], 0xff, (size_t)made->bytes);
        tensor->data = self->memory[i];
        if (bench->session.host)
            continue;
        if (kiln_buffer_alloc(bench->session.device, KILN_SPACE_DEVICE, made->bytes,
                              &self->buffers[i]) != KILN_OK ||
            !conformance_copy_bytes(&bench->session, self->buffers[i], self->memory[i], made->bytes,
                                    true))
            return false;
        tensor->buffer = self->buffers[i];
        tensor->data = NULL;
    }
    if (self->tensors[0].scale)
        self->tensors[0].scale = &self->tensors[1];
    if (self->tensors[0].zero_point)
        self->tensors[0].zero_point = &self->tensors[2];
    return true;
}

/* Every byte, gaps included. */
static bool came_back(conformance_gemm_bench *bench, const packed_plan *plan, unpacked *self, int i)
{
    const conformance_tensor *made = &plan->test->tensors[self->slots[i]];
    if (!made->memory)
        return true;
    if (self->buffers[i])
        conformance_copy_bytes(&bench->session, self->buffers[i], self->memory[i], made->bytes,
                               false);
    return memcmp(self->memory[i], made->before, (size_t)made->bytes) == 0;
}

static void check_header(conformance_gemm_bench *bench, const packed_plan *self)
{
    kiln_pack_header header;
    uint8_t *head = malloc((size_t)self->bytes);
    if (!head || !conformance_copy_bytes(&bench->session, self->blob, head, self->bytes, false)) {
        conformance_fail(bench->report, "no memory for a blob");
    } else {
        memcpy(&header, head, sizeof header);
        if (memcmp(header.magic, "KILNPACK", 8) != 0 || header.bytes > self->bytes ||
            header.operand != self->slot ||
            header.type != self->test->tensors[self->slot].tensor.type)
            conformance_fail(bench->report,
                             "a packed operand does not begin with a kiln_pack_header that says "
                             "what it is");
    }
    free(head);
}

static void check_exact(conformance_gemm_bench *bench, packed_plan *self,
                        const conformance_gemm_spec *spec)
{
    static const char *const parts[] = {"operand", "the scales of operand",
                                        "the zero points of operand"};
    unpacked back;
    (void)spec;
    check_header(bench, self);
    if (!begin_unpacked(bench, self, &back))
        conformance_fail(bench->report, "no memory to unpack into");
    else if (wait_for(bench, self, "unpacking",
                      kiln_plan_unpack(self->plan, self->stream, self->slot, &self->packed,
                                       &back.tensors[0])))
        for (int i = 0; i < 3; i++)
            if (!came_back(bench, self, &back, i))
                conformance_fail(bench->report,
                                 "%s, %s, m %lld n %lld k %lld: %s %s comes back different from "
                                 "packing and unpacking",
                                 kiln_type_name(self->test->desc.a_type),
                                 self->test->desc.head.flags & 3 ? "transposed" : "plain",
                                 (long long)self->test->m, (long long)self->test->n,
                                 (long long)self->test->k, parts[i],
                                 self->slot == KILN_GEMM_A ? "A" : "B");
    end_unpacked(&back);
}

void conformance_op_gemm_pack_exact(const conformance_subject *subject, conformance_report *report)
{
    each_packed(subject, report, 4, check_exact);
}

/* ---- Packed as plain ---- */

/* Runs both ways on the same values; the same bits where both promise the order of sums. */
static void check_plain(conformance_gemm_bench *bench, packed_plan *self,
                        const conformance_gemm_spec *spec)
{
    conformance_gemm_case *test = self->test;
    conformance_tensor *d = &test->tensors[KILN_GEMM_D];
    uint8_t *plain = malloc((size_t)d->bytes);
    conformance_gemm_result result;
    kiln_plan_info info = {.struct_size = sizeof info};
    if (!plain) {
        conformance_fail(bench->report, "no memory for a result");
        return;
    }
    if (kiln_plan_get_info(self->plan, &info) != KILN_OK)
        conformance_fail(bench->report, "a plan tells nothing of itself: %s", kiln_last_error());
    kiln_gemm_desc packed_desc = test->desc;
    test->desc.head.flags = spec->desc.head.flags;
    conformance_gemm_execute(bench->session.runtime, bench->session.name, test, &result);
    if (result.outcome == CONFORMANCE_PASSED) {
        memcpy(plain, d->memory, (size_t)d->bytes);
        memcpy(d->memory, d->before, (size_t)d->bytes);
        test->desc = packed_desc;
        kiln_tensor tensors[CONFORMANCE_GEMM_TENSORS];
        memcpy(tensors, self->placed.tensors, sizeof tensors);
        tensors[self->slot] = self->packed;
        kiln_gemm_args args = {{sizeof args, KILN_GEMM_SLOTS, tensors}, 1, 0};
        if (wait_for(bench, self, "a run with a packed operand",
                     kiln_plan_run(self->plan, self->stream, &args.head))) {
            if (!bench->session.host)
                conformance_copy_bytes(&bench->session, self->placed.buffers[KILN_GEMM_D],
                                       d->memory, d->bytes, false);
            if ((result.answer_flags & info.flags & KILN_ANSWER_REPRODUCIBLE) &&
                memcmp(d->memory, plain, (size_t)d->bytes) != 0)
                conformance_fail(bench->report,
                                 "%s, m %lld n %lld k %lld: a packed %s gives other bits than a "
                                 "plain one, though the answer promises the same",
                                 kiln_type_name(test->desc.a_type), (long long)test->m,
                                 (long long)test->n, (long long)test->k,
                                 self->slot == KILN_GEMM_A ? "A" : "B");
            result.answer_flags = info.flags;
            conformance_gemm_judge(test, &result);
            bench->report->judged++;
        }
    }
    if (result.outcome == CONFORMANCE_FAILED)
        conformance_fail(bench->report, "with packed %s: %s", self->slot == KILN_GEMM_A ? "A" : "B",
                         result.text);
    free(plain);
}

void conformance_op_gemm_pack_plain(const conformance_subject *subject, conformance_report *report)
{
    each_packed(subject, report, 4, check_plain);
}

/* ---- Blobs that are not to be taken ---- */

typedef struct corruption {
    const char *what;
    size_t at, bytes; /* of the header; inverted */
} corruption;

#define FIELD(name)                                                                    \
    {                                                                                  \
#name, offsetof(kiln_pack_header, name), sizeof(((kiln_pack_header *)0)->name) \
    }

static const corruption corruptions[] = {FIELD(magic),    FIELD(version),  FIELD(header_bytes),
                                         FIELD(backend),  FIELD(format),   FIELD(type),
                                         FIELD(operand),  FIELD(shape[0]), FIELD(shape[1]),
                                         FIELD(shape[2]), FIELD(bytes)};

/* The run or the unpacking of what now stands in the blob must fail and leave its output alone. */
static void expect_refusal(conformance_gemm_bench *bench, packed_plan *self, const char *what)
{
    const conformance_tensor *d = &self->test->tensors[KILN_GEMM_D],
                             *made = &self->test->tensors[self->slot];
    uint8_t *out = malloc((size_t)(d->bytes + made->bytes));
    kiln_tensor tensors[CONFORMANCE_GEMM_TENSORS];
    memcpy(tensors, self->placed.tensors, sizeof tensors);
    tensors[self->slot] = self->packed;
    for (int unpack = 0; out && unpack < 2; unpack++) {
        const conformance_tensor *target = unpack ? made : d;
        uint32_t slot = unpack ? self->slot : (uint32_t)KILN_GEMM_D;
        kiln_tensor destination = self->placed.tensors[slot];
        memset(out, 0xff, (size_t)target->bytes);
        if (bench->session.host)
            destination.data = out;
        else
            conformance_copy_bytes(&bench->session, self->placed.buffers[slot], out, target->bytes,
                                   true);
        tensors[KILN_GEMM_D] = unpack ? self->placed.tensors[KILN_GEMM_D] : destination;
        kiln_gemm_args args = {{sizeof args, KILN_GEMM_SLOTS, tensors}, 1, 0};
        kiln_stream *stream = NULL; /* of its own: a fault stays */
        if (!bench->session.host)
            kiln_stream_create(bench->session.device, &stream);
        kiln_status status =
            unpack ? kiln_plan_unpack(self->plan, stream, self->slot, &self->packed, &destination)
                   : kiln_plan_run(self->plan, stream, &args.head);
        if (status == KILN_OK && stream)
            status = kiln_stream_wait(stream);
        kiln_stream_destroy(stream);
        if (!bench->session.host)
            conformance_copy_bytes(&bench->session, self->placed.buffers[slot], out, target->bytes,
                                   false);
        bool touched = false;
        for (int64_t i = 0; i < target->bytes; i++)
            touched |= out[i] != 0xff;
        if (status == KILN_OK)
            conformance_fail(bench->report, "%s takes a packed %s with %s",
                             unpack ? "unpack" : "run", self->slot == KILN_GEMM_A ? "A" : "B",
                             what);
        else if (touched)
            conformance_fail(
                bench->report, "%s refuses a packed %s with %s, but has written its output",
                unpack ? "unpack" : "run", self->slot == KILN_GEMM_A ? "A" : "B", what);
        bench->report->cases++;
    }
    free(out);
}

static void check_blobs(conformance_gemm_bench *bench, packed_plan *self,
                        const conformance_gemm_spec *spec)
{
    (void)spec;
    uint8_t *good = malloc((size_t)self->bytes), *bad = malloc((size_t)self->bytes);
    if (!good || !bad ||
        !conformance_copy_bytes(&bench->session, self->blob, good, self->bytes, false)) {
        conformance_fail(bench->report, "no memory for a blob");
    } else {
        for (size_t i = 0; i < sizeof corruptions / sizeof *corruptions; i++) {
            const corruption *how = &corruptions[i];
            char what[64];
            memcpy(bad, good, (size_t)self->bytes);
            for (size_t k = 0; k < how->bytes; k++)
                bad[how->at + k] ^= 0x55;
            conformance_copy_bytes(&bench->session, self->blob, bad, self->bytes, true);
            snprintf(what, sizeof what, "a wrong %s", how->what);
            expect_refusal(bench, self, what);
        }
        /* One that another backend made. */
        memcpy(bad, good, (size_t)self->bytes);
        memset(bad + offsetof(kiln_pack_header, backend), 0, 32);
        memcpy(bad + offsetof(kiln_pack_header, backend), "somebody-else", 13);
        conformance_copy_bytes(&bench->session, self->blob, bad, self->bytes, true);
        expect_refusal(bench, self, "another backend's name");
        memset(bad, 0, (size_t)self->bytes);
        conformance_copy_bytes(&bench->session, self->blob, bad, self->bytes, true);
        expect_refusal(bench, self, "nothing but zeros");
        conformance_copy_bytes(&bench->session, self->blob, good, self->bytes, true);
    }
    free(good);
    free(bad);
}

void conformance_op_gemm_blobs(const conformance_subject *subject, conformance_report *report)
{
    each_packed(subject, report, 1, check_blobs);
}
