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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_to_and_fro, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
