/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin npu through Kiln's public interface. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kiln/gemm.h"
#include "kiln/plugin.h"

static kiln_runtime *open_with(const char *options)
{
    char profile[256];
    kiln_runtime *runtime = NULL;
    snprintf(profile, sizeof profile, "schema: 1\nname: test\nplugins: [npu]\n%s", options);
    kiln_runtime_options open = {.struct_size = sizeof open, .profile_text = profile};
    if (kiln_runtime_open(&open, &runtime) != KILN_OK)
        return NULL;
    return runtime;
}

static kiln_runtime *open_runtime(void)
{
    kiln_runtime *runtime = open_with("");
    if (!runtime)
        fail_msg("%s", kiln_last_error());
    return runtime;
}

static kiln_device *find(kiln_runtime *runtime, const char *name)
{
    kiln_device *device = NULL;
    if (kiln_device_find(runtime, name, &device) != KILN_OK)
        fail_msg("%s", kiln_last_error());
    return device;
}

static void good(kiln_status status)
{
    if (status != KILN_OK)
        fail_msg("%s: %s", kiln_status_name(status), kiln_last_error());
}

/* A matrix on a device, with values from a small linear congruential sequence. */
static kiln_tensor matrix(kiln_device *device, uint32_t type, int64_t rows, int64_t columns,
                          uint32_t seed)
{
    kiln_tensor host = kiln_matrix(type, NULL, rows, columns, columns), made = host;
    int64_t bytes = rows * columns * kiln_type_bits(type) / 8;
    host.data = malloc((size_t)bytes);
    assert_non_null(host.data);
    for (int64_t i = 0; i < rows * columns; i++) {
        seed = seed * 1664525u + 1013904223u;
        double value =
            type == KILN_I8 ? (double)(int8_t)(seed >> 24) : (double)(int32_t)seed * 0x1p-31;
        kiln_store_f64(type, host.data, i, value, 0);
    }
    good(kiln_buffer_alloc(device, KILN_SPACE_DEVICE, bytes, &made.buffer));
    good(kiln_copy(NULL, kiln_device_runtime(device), &made, &host));
    free(host.data);
    return made;
}

static uint8_t *fetch(const kiln_tensor *tensor)
{
    kiln_tensor host = kiln_tensor_host(tensor->type, NULL, tensor->rank, tensor->shape);
    host.data = malloc((size_t)(kiln_tensor_elements(tensor) * kiln_type_bits(tensor->type) / 8));
    assert_non_null(host.data);
    good(kiln_copy(NULL, kiln_device_runtime(kiln_buffer_device(tensor->buffer)), &host, tensor));
    return host.data;
}

static kiln_gemm_desc describe(uint32_t type, int64_t m, int64_t n, int64_t k, uint32_t flags)
{
    kiln_gemm_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.head = (kiln_op_head){sizeof desc, flags};
    desc.m = m;
    desc.n = n;
    desc.k = k;
    desc.batch = 1;
    desc.a_type = desc.b_type = type;
    desc.d_type = type == KILN_I8 ? KILN_I32 : KILN_F32;
    return desc;
}

static kiln_status plan_with(kiln_device *device, const kiln_gemm_desc *desc,
                             const kiln_parameter *parameters, uint64_t count, kiln_plan **plan)
{
    kiln_plan_options options = {.struct_size = sizeof options,
                                 .device = device,
                                 .backend = "npu",
                                 .parameters = parameters,
                                 .parameter_count = count};
    return kiln_plan_create(kiln_device_runtime(device), KILN_GEMM, &desc->head, &options, plan);
}

static kiln_plan *plan_of(kiln_device *device, const kiln_gemm_desc *desc)
{
    kiln_plan *plan = NULL;
    good(plan_with(device, desc, NULL, 0, &plan));
    return plan;
}

static kiln_status run(kiln_plan *plan, kiln_stream *stream, const kiln_tensor *a,
                       const kiln_tensor *b, const kiln_tensor *d)
{
    kiln_tensor tensors[4] = {*a, *b, {0}, *d};
    kiln_gemm_args arguments = {{sizeof arguments, 4, tensors}, 1, 0};
    return kiln_plan_run(plan, stream, &arguments.head);
}

static void devices_are_described(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime();
    assert_int_equal(kiln_device_count(runtime), 3); /* the host and two models */
    kiln_device_info info = {.struct_size = sizeof info};
    good(kiln_device_get_info(find(runtime, "npu:1"), &info));
    assert_true(info.flags & KILN_DEVICE_MODEL);
    assert_false(info.flags & KILN_DEVICE_HOST_ADDRESSABLE);
    assert_non_null(strstr(info.name, "model"));
    assert_int_equal(info.memory_count, 6);
    assert_string_equal(info.memories[1].name, "L1");
    assert_int_equal(info.memories[1].bytes, 1 << 20);
    assert_int_equal(info.matrix_shape[2], 16);
    kiln_runtime_close(runtime);
}

static void options_shape_the_model(void **state)
{
    (void)state;
    kiln_runtime *one = open_runtime();
    kiln_runtime *other = open_with("options: {npu: {devices: 1, ub_bytes: 64KiB, cores: 4}}\n");
    assert_non_null(other);
    assert_int_equal(kiln_device_count(other), 2);
    kiln_device_info first = {.struct_size = sizeof first}, second = first;
    good(kiln_device_get_info(find(one, "npu:0"), &first));
    good(kiln_device_get_info(find(other, "npu:0"), &second));
    assert_int_equal(first.memories[5].bytes, 192 * 1024);
    assert_int_equal(second.memories[5].bytes, 64 * 1024);
    assert_int_equal(second.compute_units, 4);
    assert_string_not_equal(first.fingerprint, second.fingerprint);
    kiln_runtime_close(other);
    kiln_runtime_close(one);
    assert_null(open_with("options: {npu: {cores: 65}}\n"));
    assert_non_null(strstr(kiln_last_error(), "options.npu.cores"));
    /* What only the plugin can check: it does not open, and says why. */
    other = open_with("options: {npu: {l1_alignment: 48}}\n");
    assert_non_null(other);
    assert_int_equal(kiln_device_count(other), 1);
    kiln_plugin_info info = {.struct_size = sizeof info};
    for (int64_t i = 0; i < kiln_plugin_count(other); i++) {
        good(kiln_plugin_at(other, i, &info));
        if (strcmp(info.name, "npu") == 0)
            break;
    }
    assert_string_equal(info.name, "npu");
    assert_non_null(info.reason);
    assert_non_null(strstr(info.reason, "alignment of L1 is 48"));
    kiln_runtime_close(other);
}

static void two_devices_hold_different_memory(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime();
    kiln_tensor made[2];
    uint8_t *first[2];
    for (uint32_t i = 0; i < 2; i++)
        made[i] = matrix(find(runtime, i ? "npu:1" : "npu:0"), KILN_F16, 40, 50, i + 1);
    for (int i = 0; i < 2; i++)
        first[i] = fetch(&made[i]);
    assert_memory_not_equal(first[0], first[1], 4000);
    good(kiln_copy(NULL, runtime, &made[1], &made[0])); /* from device to device */
    free(first[1]);
    first[1] = fetch(&made[1]);
    assert_memory_equal(first[0], first[1], 4000);
    for (int i = 0; i < 2; i++) {
        free(first[i]);
        kiln_buffer_release(made[i].buffer);
    }
    kiln_runtime_close(runtime);
}

static void memory_runs_out_with_a_sentence(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_with("options: {npu: {memory_bytes: 1MiB}}\n");
    assert_non_null(runtime);
    kiln_buffer *buffer = NULL;
    assert_int_equal(kiln_buffer_alloc(find(runtime, "npu:0"), KILN_SPACE_DEVICE, 2 << 20, &buffer),
                     KILN_NO_MEMORY);
    assert_non_null(strstr(kiln_last_error(), "global memory is exhausted: 2097152 bytes"));
    assert_int_equal(kiln_buffer_alloc(find(runtime, "npu:0"), KILN_SPACE_HOST, 1, &buffer),
                     KILN_UNSUPPORTED);
    kiln_runtime_close(runtime);
}

/* Every M up to the maximum with one plan and one packed weight, which another plan packed: the
   bits of a row never change. */
static void one_plan_and_one_weight_serve_every_m(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 15, 16, 17, 127, 128, 129, 500};
    static const uint32_t types[] = {KILN_F16, KILN_BF16, KILN_I8};
    enum { N = 70, K = 90, MOST = 500 };
    kiln_runtime *runtime = open_runtime();
    kiln_device *device = find(runtime, "npu:0");
    for (int t = 0; t < 3; t++) {
        kiln_gemm_desc strided = describe(types[t], 1, N, K, 0);
        kiln_gemm_desc packed =
            describe(types[t], MOST, N, K, KILN_GEMM_DYNAMIC_M | KILN_GEMM_PACKED_B);
        kiln_plan *small = plan_of(device, &strided), *plan = plan_of(device, &packed);
        kiln_tensor a = matrix(device, types[t], MOST, K, 11),
                    b = matrix(device, types[t], K, N, 12);
        kiln_tensor d = matrix(device, strided.d_type, MOST, N, 13), blob = b;
        int64_t bytes;
        good(kiln_plan_pack_size(small, KILN_GEMM_B, &bytes));
        good(kiln_buffer_alloc(device, KILN_SPACE_DEVICE, bytes, &blob.buffer));
        blob.layout = KILN_LAYOUT_PACKED;
        good(kiln_plan_pack(small, NULL, KILN_GEMM_B, &b, &blob));

        int64_t row_bytes = N * 4;
        uint8_t *rows = malloc((size_t)(MOST * row_bytes));
        assert_non_null(rows);
        kiln_tensor one = d, left = a;
        one.shape[0] = left.shape[0] = 1;
        for (int64_t i = 0; i < MOST; i += 100) { /* alone, strided */
            left.byte_offset = i * K * kiln_type_bits(types[t]) / 8;
            good(run(small, NULL, &left, &b, &one));
            uint8_t *got = fetch(&one);
            memcpy(rows + i * row_bytes, got, (size_t)row_bytes);
            free(got);
        }
        left.byte_offset = 0;
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            left.shape[0] = one.shape[0] = sizes[s];
            good(run(plan, NULL, &left, &blob, &one));
            uint8_t *got = fetch(&one);
            for (int64_t i = 0; i < sizes[s]; i += 100)
                assert_memory_equal(got + i * row_bytes, rows + i * row_bytes, (size_t)row_bytes);
            free(got);
        }
        left.shape[0] = one.shape[0] = MOST + 1;
        assert_int_equal(run(plan, NULL, &left, &blob, &one), KILN_INVALID);

        kiln_tensor back = matrix(device, types[t], K, N, 99);
        good(kiln_plan_unpack(plan, NULL, KILN_GEMM_B, &blob, &back));
        uint8_t *was = fetch(&b), *is = fetch(&back);
        assert_memory_equal(was, is, (size_t)(K * N * kiln_type_bits(types[t]) / 8));
        free(was);
        free(is);
        free(rows);
        kiln_buffer *buffers[] = {a.buffer, b.buffer, d.buffer, blob.buffer, back.buffer};
        for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
            kiln_buffer_release(buffers[i]);
        kiln_plan_release(small);
        kiln_plan_release(plan);
    }
    kiln_runtime_close(runtime);
}

static void a_blob_describes_itself(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime();
    kiln_device *device = find(runtime, "npu:0");
    kiln_gemm_desc desc = describe(KILN_F16, 8, 40, 50, KILN_GEMM_PACKED_B | KILN_GEMM_TRANSPOSE_B);
    kiln_plan *plan = plan_of(device, &desc);
    kiln_tensor b = matrix(device, KILN_F16, 40, 50, 1), blob = b;
    int64_t bytes;
    good(kiln_plan_pack_size(plan, KILN_GEMM_B, &bytes));
    good(kiln_buffer_alloc(device, KILN_SPACE_DEVICE, bytes, &blob.buffer));
    blob.layout = KILN_LAYOUT_PACKED;
    good(kiln_plan_pack(plan, NULL, KILN_GEMM_B, &b, &blob));
    kiln_tensor raw = kiln_vector(KILN_U8, NULL, bytes);
    raw.buffer = blob.buffer;
    uint8_t *got = fetch(&raw);
    kiln_pack_header header;
    memcpy(&header, got, sizeof header);
    free(got);
    assert_memory_equal(header.magic, "KILNPACK", 8);
    assert_int_equal(header.version, 1);
    assert_string_equal(header.backend, "npu");
    assert_string_equal(header.format, "npu-fractal-1");
    assert_int_equal(header.type, KILN_F16);
    assert_int_equal(header.operand, KILN_GEMM_B);
    assert_int_equal(header.shape[1], 40);
    assert_int_equal(header.shape[2], 50);
    assert_int_equal(header.bytes, bytes);
    assert_int_equal(bytes, header.header_bytes + 4 * 64 * 32); /* 50 f16 = 4 columns of 64 rows */
    assert_int_equal(kiln_plan_pack_size(plan, KILN_GEMM_D, &bytes), KILN_UNSUPPORTED);
    kiln_buffer_release(b.buffer);
    kiln_buffer_release(blob.buffer);
    kiln_plan_release(plan);
    kiln_runtime_close(runtime);
}

/* A blob that is none faults the stream, with a sentence, for good; other streams go on. */
static void foreign_blobs_fault_the_stream(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime();
    kiln_device *device = find(runtime, "npu:0");
    kiln_gemm_desc packed = describe(KILN_F16, 8, 16, 16, KILN_GEMM_PACKED_B);
    kiln_gemm_desc strided = describe(KILN_F16, 8, 16, 16, 0);
    kiln_plan *plan = plan_of(device, &packed), *plain = plan_of(device, &strided);
    kiln_tensor a = matrix(device, KILN_F16, 8, 16, 1), b = matrix(device, KILN_F16, 16, 16, 2);
    kiln_tensor d = matrix(device, KILN_F32, 8, 16, 3), blob = matrix(device, KILN_F16, 64, 64, 4);
    blob.shape[0] = blob.shape[1] = 16;
    blob.layout = KILN_LAYOUT_PACKED;
    kiln_stream *stream, *other;
    good(kiln_stream_create(device, &stream));
    good(kiln_stream_create(device, &other));
    good(run(plan, stream, &a, &blob, &d));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kiln_stream_wait(stream), KILN_INVALID);
        assert_non_null(strstr(kiln_last_error(), "packed operand B is not a blob of npu"));
    }
    good(run(plain, other, &a, &b, &d));
    good(kiln_stream_wait(other));
    blob.shape[1] = 17;
    assert_int_equal(run(plan, other, &a, &blob, &d), KILN_INVALID);
    good(kiln_stream_wait(other));
    kiln_stream_destroy(stream);
    kiln_stream_destroy(other);
    kiln_buffer *buffers[] = {a.buffer, b.buffer, d.buffer, blob.buffer};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        kiln_buffer_release(buffers[i]);
    kiln_plan_release(plan);
    kiln_plan_release(plain);
    kiln_runtime_close(runtime);
}

static int64_t counter(kiln_stream *stream, const char *name)
{
    kiln_counter counters[32];
    int64_t count = 0;
    good(kiln_stream_counters(stream, counters, 32, &count));
    assert_true(count <= 32);
    for (int64_t i = 0; i < count; i++)
        if (strcmp(counters[i].name, name) == 0)
            return counters[i].value;
    fail_msg("there is no counter %s", name);
    return -1;
}

static void cycles_are_counted_and_repeat(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime();
    kiln_device *device = find(runtime, "npu:1");
    kiln_gemm_desc desc = describe(KILN_BF16, 200, 130, 300, 0);
    kiln_plan *plan = plan_of(device, &desc);
    kiln_tensor a = matrix(device, KILN_BF16, 200, 300, 1),
                b = matrix(device, KILN_BF16, 300, 130, 2);
    kiln_tensor d = matrix(device, KILN_F32, 200, 130, 3);
    kiln_stream *stream;
    good(kiln_stream_create(device, &stream));
    assert_int_equal(counter(stream, "cycles"), 0);
    good(run(plan, stream, &a, &b, &d));
    good(kiln_stream_wait(stream));
    int64_t once = counter(stream, "cycles");
    assert_true(once > 0);
    good(run(plan, stream, &a, &b, &d));
    good(kiln_stream_wait(stream));
    assert_int_equal(counter(stream, "cycles"), 2 * once);
    assert_int_equal(counter(stream, "launches"), 2);
    assert_int_equal(counter(stream, "mte3_bytes"), 2 * 200 * 130 * 4);
    kiln_stream_destroy(stream);
    kiln_buffer *buffers[] = {a.buffer, b.buffer, d.buffer};
    for (size_t i = 0; i < 3; i++)
        kiln_buffer_release(buffers[i]);
    kiln_plan_release(plan);
    kiln_runtime_close(runtime);
}

static void tuning_changes_no_bits(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime();
    kiln_device *device = find(runtime, "npu:0");
    kiln_gemm_desc desc = describe(KILN_F16, 100, 120, 140, KILN_GEMM_TRANSPOSE_A);
    const kiln_parameter small[] = {
        {"block_m", 32}, {"block_n", 48}, {"block_k", 64}, {"slice", 32}};
    const kiln_parameter odd[] = {{"block_m", 33}}, unknown[] = {{"tile", 16}};
    kiln_plan *plans[2] = {plan_of(device, &desc), NULL}, *refused = NULL;
    good(plan_with(device, &desc, small, 4, &plans[1]));
    assert_int_equal(plan_with(device, &desc, odd, 1, &refused), KILN_INVALID);
    assert_non_null(strstr(kiln_last_error(), "must be a multiple of 16"));
    assert_int_equal(plan_with(device, &desc, unknown, 1, &refused), KILN_INVALID);
    kiln_tensor a = matrix(device, KILN_F16, 140, 100, 1),
                b = matrix(device, KILN_F16, 140, 120, 2);
    kiln_tensor d = matrix(device, KILN_F32, 100, 120, 3);
    uint8_t *got[2];
    for (int i = 0; i < 2; i++) {
        good(run(plans[i], NULL, &a, &b, &d));
        got[i] = fetch(&d);
        kiln_plan_release(plans[i]);
    }
    assert_memory_equal(got[0], got[1], 100 * 120 * 4);
    free(got[0]);
    free(got[1]);
    kiln_buffer *buffers[] = {a.buffer, b.buffer, d.buffer};
    for (size_t i = 0; i < 3; i++)
        kiln_buffer_release(buffers[i]);
    kiln_runtime_close(runtime);
}

static void what_is_declined_has_a_reason(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime();
    kiln_device *device = find(runtime, "npu:0");
    struct {
        kiln_gemm_desc desc;
        const char *reason;
    } cases[] = {
        {describe(KILN_F32, 4, 4, 4, 0), "a_type = f32: the cube unit multiplies f16, bf16 and i8"},
        {describe(KILN_F16, 4, 4, 4, 0), "b_type = bf16 with a_type = f16"},
        {describe(KILN_F16, 4, 4, 4, 0), "d_type = e4m3"},
        {describe(KILN_I8, 4, 4, 131072, 0), "may overflow i32 beyond k = 131071"},
        {describe(KILN_F16, 4, 4, 4, 0), "accumulator = f64"},
        {describe(KILN_F16, 4, 4, 4, 0), "epilogues[0].kind = 10 is not offered"},
        {describe(KILN_F16, 4, 4, 4, 0), "groups nothing"},
        {describe(KILN_F16, 4, 4, INT64_C(1) << 40, 0), "would take a program of more than"},
    };
    cases[1].desc.b_type = KILN_BF16;
    cases[2].desc.d_type = KILN_E4M3;
    cases[4].desc.accumulator = KILN_F64;
    cases[5].desc.epilogue_count = 1;
    cases[5].desc.epilogues[0].kind = KILN_EPILOGUE_SWIGLU;
    cases[6].desc.grouping = KILN_GROUPING_MASKED;
    cases[6].desc.groups = 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kiln_plan *plan = NULL;
        assert_int_equal(plan_with(device, &cases[i].desc, NULL, 0, &plan), KILN_UNSUPPORTED);
        if (!strstr(kiln_last_error(), cases[i].reason))
            fail_msg("'%s' is not in '%s'", cases[i].reason, kiln_last_error());
    }
    kiln_plan *plan = NULL;
    kiln_gemm_desc served = describe(KILN_F16, 4, 4, 4, 0);
    assert_int_equal(plan_with(kiln_device_at(runtime, 0), &served, NULL, 0, &plan),
                     KILN_UNSUPPORTED);
    assert_non_null(strstr(kiln_last_error(), "place them on npu:0"));
    kiln_runtime_close(runtime);
}

/* Across devices the core bridges with gates and functions on streams. */
static void devices_wait_for_each_other(void **state)
{
    (void)state;
    kiln_runtime *runtime = open_runtime();
    kiln_device *devices[2] = {find(runtime, "npu:0"), find(runtime, "npu:1")};
    kiln_stream *streams[2];
    kiln_event *event, *gate;
    kiln_tensor source = matrix(devices[0], KILN_F32, 10, 10, 1);
    kiln_tensor target = matrix(devices[1], KILN_F32, 10, 10, 2);
    kiln_tensor middle = kiln_matrix(KILN_F32, calloc(100, 4), 10, 10, 10);
    for (int i = 0; i < 2; i++)
        good(kiln_stream_create(devices[i], &streams[i]));
    good(kiln_event_create(devices[0], &event));
    good(kiln_gate_create(devices[0], &gate));
    good(kiln_stream_wait_event(streams[0], gate));
    good(kiln_copy(streams[0], runtime, &middle, &source));
    good(kiln_event_record(event, streams[0]));
    good(kiln_stream_wait_event(streams[1], event));
    good(kiln_copy(streams[1], runtime, &target, &middle));
    assert_int_equal(kiln_event_query(event), KILN_NOT_READY);
    good(kiln_gate_complete(gate, KILN_OK, NULL));
    good(kiln_stream_wait(streams[1]));
    uint8_t *sent = fetch(&source), *got = fetch(&target);
    assert_memory_equal(sent, got, 400);
    free(sent);
    free(got);
    good(kiln_gate_reset(gate));
    good(kiln_stream_wait_event(streams[1], event)); /* a wait that is over */
    good(kiln_stream_wait_event(streams[1], gate));
    good(kiln_gate_complete(gate, KILN_CANCELLED, "called off"));
    assert_int_equal(kiln_stream_wait(streams[1]), KILN_CANCELLED);
    assert_non_null(strstr(kiln_last_error(), "called off"));
    for (int i = 0; i < 2; i++)
        kiln_stream_destroy(streams[i]);
    kiln_event_destroy(event);
    kiln_event_destroy(gate);
    kiln_buffer_release(source.buffer);
    kiln_buffer_release(target.buffer);
    free(middle.data);
    kiln_runtime_close(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_described),
        cmocka_unit_test(options_shape_the_model),
        cmocka_unit_test(two_devices_hold_different_memory),
        cmocka_unit_test(memory_runs_out_with_a_sentence),
        cmocka_unit_test(one_plan_and_one_weight_serve_every_m),
        cmocka_unit_test(a_blob_describes_itself),
        cmocka_unit_test(foreign_blobs_fault_the_stream),
        cmocka_unit_test(cycles_are_counted_and_repeat),
        cmocka_unit_test(tuning_changes_no_bits),
        cmocka_unit_test(what_is_declined_has_a_reason),
        cmocka_unit_test(devices_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
