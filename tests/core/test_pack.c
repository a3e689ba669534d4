/* SPDX-License-Identifier: Apache-2.0 */
/* Packing operands, and back: from the host or on the device, on a stream or at once, and what is
 * refused. */
#include "tests/core/fake_device.h"
#include "tests/core/fixture.h"

#include <stdio.h>
#include <stdlib.h>

static kiln_runtime *runtime;
static kiln_device *device, *other;
static kiln_plan *plan;
static kiln_gemm_desc desc = {.head = {.struct_size = sizeof desc},
                              .m = 2,
                              .n = 3,
                              .k = 4,
                              .a_type = KILN_F32,
                              .b_type = KILN_F32,
                              .d_type = KILN_F32};

static int set_up(void **state)
{
    int status = fake_device_set_up(state);
    fake_backends_reset();
    runtime = fixture_open("plugins: [fake, alpha]\noptions: {fake: {delay_us: 300}}");
    device = kiln_device_at(runtime, 1);
    other = kiln_device_at(runtime, 2);
    kiln_plan_options options = {
        .struct_size = sizeof options, .device = device, .backend = "fake"};
    return status == 0 ? (int)kiln_plan_create(runtime, KILN_GEMM, &desc.head, &options, &plan)
                       : status;
}

static int tear_down(void **state)
{
    kiln_plan_release(plan);
    kiln_runtime_close(runtime);
    return fake_device_tear_down(state);
}

/* B as it is given: 4×3, with gaps behind its rows. */
static kiln_tensor make_b(float *memory)
{
    for (int i = 0; i < 20; i++)
        memory[i] = (float)(100 + i);
    return kiln_matrix(KILN_F32, memory, 4, 3, 5);
}

static kiln_tensor blob_on(kiln_device *where, int64_t bytes, int64_t offset)
{
    kiln_tensor packed = kiln_matrix(KILN_F32, NULL, 4, 3, 3);
    packed.layout = KILN_LAYOUT_PACKED;
    packed.byte_offset = offset;
    assert_ok(kiln_buffer_alloc(where, KILN_SPACE_DEVICE, bytes, &packed.buffer));
    return packed;
}

static kiln_tensor placed(kiln_tensor tensor, kiln_device *where)
{
    kiln_tensor there = tensor;
    there.data = NULL;
    assert_ok(kiln_buffer_alloc(where, KILN_SPACE_DEVICE, 80, &there.buffer));
    assert_ok(kiln_copy(NULL, runtime, &there, &tensor));
    return there;
}

static void assert_rows(const float *got)
{
    for (int i = 0; i < 20; i++)
        assert_true(got[i] == (i % 5 < 3 && i < 18 ? (float)(100 + i) : -7));
}

/* The source on the host or on the device, with and without a stream, to and fro; buffers are
 * released early. */
static void test_to_and_fro(void **state)
{
    (void)state;
    int64_t bytes;
    assert_ok(kiln_plan_pack_size(plan, KILN_GEMM_B, &bytes));
    kiln_stream *stream, *on_host;
    assert_ok(kiln_stream_create(device, &stream));
    assert_ok(kiln_stream_create(kiln_device_at(runtime, 0), &on_host));
    for (int way = 0; way < 6; way++) {
        kiln_stream *with = way % 3 == 0 ? NULL : way % 3 == 1 ? stream : on_host;
        float memory[20], back[20];
        kiln_tensor source = make_b(memory), sink = kiln_matrix(KILN_F32, back, 4, 3, 5),
                    packed = blob_on(device, bytes + 64, 64);
        for (int i = 0; i < 20; i++)
            back[i] = -7;
        if (way >= 3) {
            kiln_tensor there = placed(source, device), result = placed(sink, device);
            assert_ok(kiln_plan_pack(plan, with, KILN_GEMM_B, &there, &packed));
            kiln_buffer_release(there.buffer);
            assert_ok(kiln_plan_unpack(plan, with, KILN_GEMM_B, &packed, &result));
            kiln_buffer_release(packed.buffer);
            assert_ok(kiln_stream_wait(stream));
            assert_ok(kiln_copy(NULL, runtime, &sink, &result));
            kiln_buffer_release(result.buffer);
        } else {
            assert_ok(kiln_plan_pack(plan, with, KILN_GEMM_B, &source, &packed));
            assert_ok(kiln_plan_unpack(plan, with, KILN_GEMM_B, &packed, &sink));
            kiln_buffer_release(packed.buffer);
        }
        assert_rows(back);
    }
    kiln_stream_destroy(stream);
    kiln_stream_destroy(on_host);
}

static void test_refused(void **state)
{
    (void)state;
    int64_t bytes = -1;
    float memory[20];
    kiln_tensor source = make_b(memory), bad;
    assert_ok(kiln_plan_pack_size(plan, KILN_GEMM_B, &bytes));
    kiln_tensor packed = blob_on(device, bytes, 0), small = blob_on(device, bytes - 1, 0),
                far = blob_on(other, bytes, 0);
    kiln_tensor near = blob_on(kiln_device_at(runtime, 0), bytes, 0),
                remote = placed(source, other);
#define REFUSED(change, operand, from, to, status, words)                           \
    do {                                                                            \
        bad = source;                                                               \
        change;                                                                     \
        assert_fails(kiln_plan_pack(plan, NULL, operand, from, to), status, words); \
    } while (0)
    REFUSED((void)0, KILN_GEMM_A, &source, &packed, KILN_INVALID, "A has shape");
    REFUSED((void)0, KILN_GEMM_C, &source, &packed, KILN_INVALID, "operand 2 cannot be packed");
    REFUSED(bad.shape[1] = 4, KILN_GEMM_B, &bad, &packed, KILN_INVALID, "B has shape");
    REFUSED(bad.rank = 9, KILN_GEMM_B, &bad, &packed, KILN_INVALID, "B has shape");
    REFUSED(bad.strides[0] = 2, KILN_GEMM_B, &bad, &packed, KILN_INVALID, "row stride 2");
    REFUSED(bad.data = NULL, KILN_GEMM_B, &bad, &packed, KILN_INVALID, "neither");
    REFUSED(bad = packed, KILN_GEMM_B, &bad, &packed, KILN_INVALID, "KILN_LAYOUT_PACKED");
    REFUSED((void)0, KILN_GEMM_B, &source, &small, KILN_INVALID, "kiln_plan_pack_size");
    REFUSED((void)0, KILN_GEMM_B, &source, &far, KILN_INVALID, "must be in memory of fake:0");
    REFUSED((void)0, KILN_GEMM_B, &source, &near, KILN_INVALID, "must be in memory of fake:0");
    REFUSED((void)0, KILN_GEMM_B, &remote, &packed, KILN_INVALID,
            "the strided tensor is on fake:1");
    REFUSED((bad = packed, bad.byte_offset = 1), KILN_GEMM_B, &source, &bad, KILN_INVALID,
            "kiln_plan_pack_size");
    REFUSED((bad = packed, bad.byte_offset = -1), KILN_GEMM_B, &source, &bad, KILN_INVALID,
            "must be in memory");
    /* What is no blob faults when it is unpacked, and the core's own stream is replaced. */
    assert_fails(kiln_plan_unpack(plan, NULL, KILN_GEMM_B, &packed, &source), KILN_FAULT,
                 "no packed operand");
    assert_ok(kiln_plan_pack(plan, NULL, KILN_GEMM_B, &source, &packed));
    assert_ok(kiln_plan_unpack(plan, NULL, KILN_GEMM_B, &packed, &source));
    /* A backend that packs nothing. */
    kiln_plan_options options = {.struct_size = sizeof options, .backend = "alpha"};
    kiln_plan *plain;
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, &desc.head, &options, &plain));
    assert_fails(kiln_plan_pack_size(plain, KILN_GEMM_B, &bytes), KILN_UNSUPPORTED,
                 "backend alpha packs no operands");
    assert_fails(kiln_plan_pack(plain, NULL, KILN_GEMM_B, &source, &near), KILN_UNSUPPORTED,
                 "alpha does not pack");
    assert_fails(kiln_plan_unpack(plain, NULL, KILN_GEMM_B, &near, &source), KILN_UNSUPPORTED,
                 "alpha does not unpack");
    kiln_plan_release(plain);
    kiln_buffer *buffers[] = {packed.buffer, small.buffer, far.buffer, near.buffer, remote.buffer};
    for (int i = 0; i < 5; i++)
        kiln_buffer_release(buffers[i]);
}

/* Both ways, with the blob at byte `offset` of the memory that `strided` is in. */
static void try_places(kiln_plan *packing, const kiln_tensor *strided, kiln_tensor packed,
                       int64_t offset, const char *refusal)
{
    packed.byte_offset = offset;
    if (refusal) {
        assert_fails(kiln_plan_pack(packing, NULL, KILN_GEMM_B, strided, &packed), KILN_INVALID,
                     refusal);
        assert_fails(kiln_plan_unpack(packing, NULL, KILN_GEMM_B, &packed, strided), KILN_INVALID,
                     refusal);
        return;
    }
    assert_ok(kiln_plan_pack(packing, NULL, KILN_GEMM_B, strided, &packed));
    assert_ok(kiln_plan_unpack(packing, NULL, KILN_GEMM_B, &packed, strided));
}

/* The blob just before B, over it, and just behind it: in one buffer, and, where the host can
 * address that, through an address beside the buffer. */
static void test_overlap(void **state)
{
    (void)state;
    enum { ROWS = 72 }; /* bytes from B's first element to the end of its last */
    static const char refusal[] = "overlaps the strided tensor";
    kiln_runtime *reached = fixture_open("plugins: [fake]\noptions: {fake: {addressable: true}}");
    for (int addressed = 0; addressed < 2; addressed++) {
        kiln_device *where = kiln_device_at(addressed ? reached : runtime, 1);
        kiln_plan_options options = {
            .struct_size = sizeof options, .device = where, .backend = "fake"};
        kiln_plan *packing;
        int64_t bytes;
        assert_ok(kiln_plan_create(addressed ? reached : runtime, KILN_GEMM, &desc.head, &options,
                                   &packing));
        assert_ok(kiln_plan_pack_size(packing, KILN_GEMM_B, &bytes));
        kiln_tensor packed = blob_on(where, 3 * bytes, 0),
                    strided = kiln_matrix(KILN_F32, NULL, 4, 3, 5);
        strided.byte_offset = bytes;
        strided.buffer = packed.buffer;
        if (addressed) {
            strided.buffer = NULL;
            strided.data = kiln_buffer_host(packed.buffer);
            assert_non_null(strided.data);
        }
        try_places(packing, &strided, packed, 0, NULL);
        try_places(packing, &strided, packed, 1, refusal);
        try_places(packing, &strided, packed, bytes, refusal);
        try_places(packing, &strided, packed, bytes + ROWS - 1, refusal);
        try_places(packing, &strided, packed, bytes + ROWS, NULL);
        kiln_buffer_release(packed.buffer);
        kiln_plan_release(packing);
    }
    kiln_runtime_close(reached);
}

/* ---- Quantised operands: scales and zero points go into the blob, and come back from it ---- */

/* B is i4 [4, 3] with gaps, f16 scales [4, 2] and i4 zero points [4, 2], all of them in gaps. */
typedef struct quantized {
    kiln_tensor tensor, scale, zero_point;
    uint8_t elements[12], zeros[8];
    uint16_t scales[20];
} quantized;

static void make_quantized(quantized *q, bool zeroed)
{
    memset(q, zeroed ? 0 : 0x11, sizeof *q);
    q->tensor = kiln_matrix(KILN_I4, q->elements, 4, 3, 6);
    q->scale = kiln_matrix(KILN_F16, q->scales, 4, 2, 5);
    q->zero_point = kiln_matrix(KILN_I4, q->zeros, 4, 2, 4);
    q->tensor.scale = &q->scale;
    q->tensor.zero_point = &q->zero_point;
    q->tensor.scale_block[0] = 1;
    q->tensor.scale_block[1] = 2;
    for (int r = 0; r < 4 && !zeroed; r++) {
        for (int c = 0; c < 3; c++)
            kiln_store_f64(KILN_I4, q->elements, r * 6 + c, r + c - 3, 0);
        for (int c = 0; c < 2; c++) {
            kiln_store_f64(KILN_F16, q->scales, r * 5 + c, r * 2 + c + 0.5, 0);
            kiln_store_f64(KILN_I4, q->zeros, r * 4 + c, c - r, 0);
        }
    }
}

static void assert_same(const quantized *got, const quantized *wanted)
{
    for (int r = 0; r < 4; r++) {
        for (int c = 0; c < 3; c++)
            assert_true(kiln_load_f64(KILN_I4, got->elements, r * 6 + c) ==
                        kiln_load_f64(KILN_I4, wanted->elements, r * 6 + c));
        for (int c = 0; c < 2; c++) {
            assert_true(kiln_load_f64(KILN_F16, got->scales, r * 5 + c) ==
                        kiln_load_f64(KILN_F16, wanted->scales, r * 5 + c));
            assert_true(kiln_load_f64(KILN_I4, got->zeros, r * 4 + c) ==
                        kiln_load_f64(KILN_I4, wanted->zeros, r * 4 + c));
        }
        for (int gap = 2; gap < 5; gap++)
            assert_int_equal(got->scales[r * 5 + gap], 0);
        assert_int_equal(got->elements[r * 3 + 2] | got->zeros[r * 2 + 1], 0);
    }
}

static kiln_plan *quantized_plan(void)
{
    kiln_gemm_desc wanted = desc;
    kiln_plan_options options = {
        .struct_size = sizeof options, .device = device, .backend = "fake"};
    kiln_plan *made;
    wanted.b_type = KILN_I4;
    wanted.b_quantization = (kiln_quantization){KILN_F16, KILN_I4, {1, 2}};
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, &wanted.head, &options, &made));
    return made;
}

/* A copy whose three tensors live on the device. */
static void place(quantized *there, const quantized *here, kiln_device *where)
{
    *there = *here;
    there->tensor = placed(here->tensor, where);
    there->scale = placed(here->scale, where);
    there->zero_point = placed(here->zero_point, where);
    there->tensor.scale = &there->scale;
    there->tensor.zero_point = &there->zero_point;
}

static void release(quantized *there)
{
    kiln_buffer_release(there->tensor.buffer);
    kiln_buffer_release(there->scale.buffer);
    kiln_buffer_release(there->zero_point.buffer);
}

static void fetch(quantized *here, const quantized *there)
{
    assert_ok(kiln_copy(NULL, runtime, &here->tensor, &there->tensor));
    assert_ok(kiln_copy(NULL, runtime, &here->scale, &there->scale));
    assert_ok(kiln_copy(NULL, runtime, &here->zero_point, &there->zero_point));
}

static void test_scales_to_and_fro(void **state)
{
    (void)state;
    int64_t bytes;
    kiln_plan *quantizing = quantized_plan();
    kiln_stream *stream;
    assert_ok(kiln_plan_pack_size(quantizing, KILN_GEMM_B, &bytes));
    assert_ok(kiln_stream_create(device, &stream));
    for (int way = 0; way < 4; way++) {
        kiln_stream *with = way % 2 ? stream : NULL;
        quantized source, sink, there, result;
        make_quantized(&source, false);
        make_quantized(&sink, true);
        kiln_tensor packed = blob_on(device, bytes, 0);
        packed.type = KILN_I4;
        if (way >= 2) { /* on the device; buffers are released while the work waits */
            place(&there, &source, device);
            place(&result, &sink, device);
            assert_ok(kiln_plan_pack(quantizing, with, KILN_GEMM_B, &there.tensor, &packed));
            release(&there);
            assert_ok(kiln_plan_unpack(quantizing, with, KILN_GEMM_B, &packed, &result.tensor));
            quantized kept = result;
            kiln_buffer_retain(kept.tensor.buffer);
            kiln_buffer_retain(kept.scale.buffer);
            kiln_buffer_retain(kept.zero_point.buffer);
            release(&result);
            kiln_buffer_release(packed.buffer);
            assert_ok(kiln_stream_wait(stream));
            fetch(&sink, &kept);
            release(&kept);
        } else {
            assert_ok(kiln_plan_pack(quantizing, with, KILN_GEMM_B, &source.tensor, &packed));
            assert_ok(kiln_plan_unpack(quantizing, with, KILN_GEMM_B, &packed, &sink.tensor));
            kiln_buffer_release(packed.buffer);
        }
        assert_same(&sink, &source);
    }
    kiln_stream_destroy(stream);
    kiln_plan_release(quantizing);
}

static void test_scales_refused(void **state)
{
    (void)state;
    int64_t bytes;
    kiln_plan *quantizing = quantized_plan();
    assert_ok(kiln_plan_pack_size(quantizing, KILN_GEMM_B, &bytes));
    quantized source, there;
    make_quantized(&source, false);
    place(&there, &source, device);
    kiln_tensor packed = blob_on(device, bytes, 0);
    packed.type = KILN_I4;
#define PACK(from, status, words) \
    assert_fails(kiln_plan_pack(quantizing, NULL, KILN_GEMM_B, from, &packed), status, words)
    there.tensor.scale = &source.scale;
    PACK(&there.tensor, KILN_INVALID,
         "its scales are on host, but the strided tensor is on fake:0");
    there.tensor.scale = &there.scale;
    there.tensor.zero_point = &source.zero_point;
    PACK(&there.tensor, KILN_INVALID, "its zero points are on host");
    there.tensor.zero_point = &there.zero_point;
    there.scale.byte_offset = 60;
    PACK(&there.tensor, KILN_INVALID, "the scales of B");
    there.scale.byte_offset = 0;
    kiln_buffer *own = there.zero_point.buffer;
    there.zero_point.buffer = packed.buffer;
    PACK(&there.tensor, KILN_INVALID, "overlaps its zero points");
    there.zero_point.buffer = own;
    /* What is unpacked must not share memory. */
#define UNPACK(words)                                                                     \
    assert_fails(kiln_plan_unpack(quantizing, NULL, KILN_GEMM_B, &packed, &there.tensor), \
                 KILN_INVALID, words)
    int64_t stride = there.scale.strides[0];
    there.scale.strides[0] = 0;
    UNPACK("cannot unpack into its scales: its stride 0 is 0");
    there.scale.strides[0] = stride;
    own = there.zero_point.buffer;
    there.zero_point.buffer = there.tensor.buffer;
    UNPACK("overlaps its zero points");
    there.zero_point.buffer = own;
    source.tensor.scale = NULL;
    PACK(&source.tensor, KILN_INVALID, "B lacks scales");
    assert_fails(kiln_plan_unpack(quantizing, NULL, KILN_GEMM_B, &packed, &source.tensor),
                 KILN_INVALID, "B lacks scales");
    source.tensor.scale = &source.scale;
    packed.scale = &there.scale;
    PACK(&source.tensor, KILN_INVALID, "they are in the blob");
    packed.scale = NULL;
    assert_ok(kiln_plan_pack(quantizing, NULL, KILN_GEMM_B, &source.tensor, &packed));
    float memory[20]; /* and a plan without scales takes none */
    kiln_tensor plain = make_b(memory);
    packed.type = KILN_F32;
    plain.scale = &source.scale;
    assert_fails(kiln_plan_pack(plan, NULL, KILN_GEMM_B, &plain, &packed), KILN_INVALID,
                 "B has scales");
    release(&there);
    kiln_buffer_release(packed.buffer);
    kiln_plan_release(quantizing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_to_and_fro, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_overlap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_scales_to_and_fro, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_scales_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
