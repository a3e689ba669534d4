/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers, copies and fills on a device whose memory the host cannot address: every direction,
 * strides, gaps, sub-byte types, references of work under way. */
#include "tests/core/fake_device.h"
#include "tests/core/fixture.h"

#include <stdio.h>
#include <stdlib.h>

static kiln_runtime *runtime;
static kiln_device *host, *first, *second;

static void open_devices(const char *options)
{
    kiln_device *devices[3];
    runtime = fake_device_open(options, devices);
    host = devices[0];
    first = devices[1];
    second = devices[2];
    assert_non_null(second);
}

static int close_devices(void **state)
{
    kiln_runtime_close(runtime);
    runtime = NULL;
    return fake_device_tear_down(state);
}

static kiln_buffer *allocate(kiln_device *device, int64_t bytes)
{
    kiln_buffer *buffer = NULL;
    assert_ok(kiln_buffer_alloc(device, KILN_SPACE_DEVICE, bytes, &buffer));
    return buffer;
}

/* ---- Buffers ---- */

static void test_buffers(void **state)
{
    (void)state;
    open_devices("");
    kiln_buffer *buffer = allocate(first, 100), *twin = allocate(second, 100);
    assert_ptr_equal(kiln_buffer_device(buffer), first);
    assert_int_equal(kiln_buffer_bytes(buffer), 100);
    assert_null(kiln_buffer_host(buffer));
    assert_int_equal(fake_device_counted.memories, 2);
    kiln_buffer_retain(buffer);
    kiln_buffer_release(buffer);
    assert_int_equal(fake_device_counted.memories, 2);
    kiln_buffer_release(buffer);
    kiln_buffer_release(twin);
    kiln_buffer_release(NULL);
    assert_int_equal(fake_device_counted.memories, 0);
    assert_ok(kiln_buffer_alloc(first, KILN_SPACE_PINNED, 0, &buffer));
    kiln_buffer_release(buffer);
    buffer = NULL;
    assert_fails(kiln_buffer_alloc(first, KILN_SPACE_DEVICE, -1, &buffer), KILN_INVALID,
                 "-1 bytes");
    assert_fails(kiln_buffer_alloc(first, KILN_SPACE_SHARED, 1, &buffer), KILN_UNSUPPORTED,
                 "space 3");
    assert_fails(kiln_buffer_alloc(first, 64, 1, &buffer), KILN_UNSUPPORTED, "space 64");
    assert_fails(kiln_buffer_alloc(first, KILN_SPACE_DEVICE, INT64_MAX, &buffer), KILN_NO_MEMORY,
                 "full");
    assert_fails(kiln_buffer_alloc(host, KILN_SPACE_DEVICE, INT64_MAX, &buffer), KILN_NO_MEMORY,
                 "9223372036854775807");
    assert_null(buffer);
    assert_ok(kiln_buffer_alloc(host, KILN_SPACE_HOST, 0, &buffer));
    assert_int_equal((uintptr_t)kiln_buffer_host(buffer) % 64, 0);
    kiln_buffer_release(buffer);
}

static void count_release(void *context)
{
    ++*(int *)context;
}

static void test_wrapped_memory(void **state)
{
    (void)state;
    open_devices("");
    char memory[16];
    int released = 0;
    kiln_buffer *buffer = NULL;
    assert_ok(kiln_buffer_wrap(runtime, memory, sizeof memory, count_release, &released, &buffer));
    assert_ptr_equal(kiln_buffer_host(buffer), memory);
    assert_ptr_equal(kiln_buffer_device(buffer), host);
    kiln_buffer_retain(buffer);
    kiln_buffer_release(buffer);
    assert_int_equal(released, 0);
    kiln_buffer_release(buffer);
    assert_int_equal(released, 1);
    assert_fails(kiln_buffer_wrap(runtime, NULL, 1, NULL, NULL, &buffer), KILN_INVALID,
                 "wrap 1 bytes");
    assert_fails(kiln_buffer_wrap(runtime, memory, -1, NULL, NULL, &buffer), KILN_INVALID,
                 "wrap -1 bytes");
    assert_ok(kiln_buffer_wrap(runtime, NULL, 0, NULL, NULL, &buffer));
    kiln_buffer_release(buffer);
}

/* ---- Copies ---- */

/* A tensor over `memory` with the strides that are given, or contiguous. */
static kiln_tensor view(uint32_t type, void *memory, uint32_t rank, const int64_t *shape,
                        const int64_t *strides)
{
    kiln_tensor tensor = kiln_tensor_host(type, memory, rank, shape);
    for (uint32_t i = 0; strides && i < rank; i++)
        tensor.strides[i] = strides[i];
    return tensor;
}

static kiln_tensor in_buffer(kiln_tensor tensor, kiln_buffer *buffer, int64_t offset)
{
    tensor.buffer = buffer;
    tensor.data = NULL;
    tensor.byte_offset = offset;
    return tensor;
}

static void test_every_direction(void **state)
{
    (void)state;
    open_devices("");
    int64_t shape[] = {3, 4};
    int32_t from[12], to[12];
    kiln_buffer *a = allocate(first, 64), *b = allocate(first, 64), *c = allocate(second, 64),
                *d = allocate(host, 64);
    kiln_tensor source = view(KILN_I32, from, 2, shape, NULL),
                sink = view(KILN_I32, to, 2, shape, NULL);
    kiln_tensor way[] = {in_buffer(source, d, 16), in_buffer(source, a, 4), in_buffer(source, b, 8),
                         in_buffer(source, c, 12), sink};
    for (int i = 0; i < 12; i++)
        from[i] = 1000 + i;
    memset(to, 0, sizeof to);
    const kiln_tensor *at = &source;
    for (int64_t i = 0; i < COUNT(way); i++) {
        assert_ok(kiln_copy(NULL, runtime, &way[i], at));
        at = &way[i];
    }
    assert_memory_equal(from, to, sizeof from);
    kiln_buffer_release(a);
    kiln_buffer_release(b);
    kiln_buffer_release(c);
    kiln_buffer_release(d);
}

/* Shapes and strides at random, through one device or two, against a plain loop; no other byte may
 * change. */
static void copy_at_random(bool streamed)
{
    enum { ROOM = 6000 };
    static unsigned char start[ROOM], target[ROOM], expected[ROOM];
    static const uint32_t types[] = {KILN_U8, KILN_F16, KILN_F32, KILN_F64};
    uint32_t type = types[fixture_random(0, 3)], rank = (uint32_t)fixture_random(0, 8);
    int64_t size = kiln_type_bits(type) / 8, shape[8], strides[3][8], elements = 1;
    for (uint32_t i = 0; i < rank; i++) {
        shape[i] = fixture_random(fixture_random(0, 30) > 0, elements > 40 ? 1 : 4);
        elements *= shape[i] > 0 ? shape[i] : 1;
    }
    for (int side = 0; side < 3; side++) {
        int64_t stride = 1;
        for (uint32_t i = rank; i-- > 0;) {
            strides[side][i] = shape[i] == 1 && fixture_random(0, 5) == 0 ? INT64_MAX / 2 : stride;
            stride *= (shape[i] > 0 ? shape[i] : 1) + (fixture_random(0, 3) == 0);
        }
        if (stride * size > ROOM - 50)
            return; /* too many gaps */
    }
    for (int i = 0; i < ROOM; i++) {
        start[i] = (unsigned char)fixture_random(0, 255);
        target[i] = expected[i] = (unsigned char)fixture_random(0, 255);
    }
    kiln_buffer *near = allocate(first, ROOM),
                *far = allocate(fixture_random(0, 1) ? first : second, ROOM);
    int64_t offset = fixture_random(0, 40);
    kiln_tensor from = view(type, start, rank, shape, strides[0]),
                onto = view(type, target, rank, shape, strides[2]);
    kiln_tensor one = in_buffer(view(type, NULL, rank, shape, strides[1]), near, offset);
    kiln_tensor two = in_buffer(view(type, NULL, rank, shape, strides[0]), far, offset + 7);
    kiln_stream *stream = NULL;
    if (streamed && kiln_buffer_device(far) == first)
        assert_ok(kiln_stream_create(first, &stream));
    assert_ok(kiln_copy(stream, runtime, &one, &from));
    assert_ok(kiln_copy(stream, runtime, &two, &one));
    assert_ok(kiln_copy(stream, runtime, &onto, &two));
    if (stream)
        assert_ok(kiln_stream_wait(stream));
    kiln_stream_destroy(stream);
    for (int64_t i = 0; i < elements; i++) {
        int64_t rest = i, f = 0, t = 0;
        bool empty = false;
        for (uint32_t k = rank; k-- > 0;) {
            empty = empty || shape[k] == 0;
            int64_t index = shape[k] ? rest % shape[k] : 0;
            rest /= shape[k] ? shape[k] : 1;
            f += index ? index * strides[0][k] : 0;
            t += index ? index * strides[2][k] : 0;
        }
        if (!empty)
            memcpy(expected + t * size, start + f * size, (size_t)size);
    }
    assert_memory_equal(target, expected, ROOM);
    kiln_buffer_release(near);
    kiln_buffer_release(far);
}

static void test_strided_copies(void **state)
{
    (void)state;
    open_devices("");
    for (int i = 0; i < 300; i++)
        copy_at_random(i % 2);
}

/* The gaps between rows are not touched on the device either. */
static void test_gaps_on_the_device_survive(void **state)
{
    (void)state;
    open_devices("");
    unsigned char pattern[60], rows[20], back[60];
    for (int i = 0; i < 60; i++)
        pattern[i] = (unsigned char)i;
    memset(rows, 0xee, sizeof rows);
    kiln_buffer *buffer = allocate(first, 60);
    int64_t all[] = {60}, shape[] = {4, 5}, strides[] = {13, 1};
    kiln_tensor whole = in_buffer(view(KILN_U8, NULL, 1, all, NULL), buffer, 0);
    kiln_tensor part = in_buffer(view(KILN_U8, NULL, 2, shape, strides), buffer, 3);
    kiln_tensor source = view(KILN_U8, pattern, 1, all, NULL),
                small = view(KILN_U8, rows, 2, shape, NULL),
                sink = view(KILN_U8, back, 1, all, NULL);
    assert_ok(kiln_copy(NULL, runtime, &whole, &source));
    assert_ok(kiln_copy(NULL, runtime, &part, &small));
    assert_ok(kiln_copy(NULL, runtime, &sink, &whole));
    for (int i = 0; i < 60; i++)
        assert_int_equal(back[i], i >= 3 && (i - 3) % 13 < 5 && (i - 3) / 13 < 4 ? 0xee : i);
    kiln_buffer_release(buffer);
}

static void test_sub_byte_copies(void **state)
{
    (void)state;
    open_devices("");
    unsigned char from[12], to[12];
    for (int i = 0; i < 12; i++)
        from[i] = (unsigned char)(0x10 + i);
    memset(to, 0, sizeof to);
    int64_t shape[] = {3, 5}, wide[] = {8, 1}, odd[] = {5, 1}, apart[] = {16, 2};
    kiln_buffer *near = allocate(first, 64), *far = allocate(second, 64);
    kiln_tensor source = view(KILN_I4, from, 2, shape, wide),
                sink = view(KILN_I4, to, 2, shape, wide);
    kiln_tensor one = in_buffer(view(KILN_I4, NULL, 2, shape, NULL), near, 1),
                two = in_buffer(view(KILN_I4, NULL, 2, shape, wide), far, 0);
    assert_ok(kiln_copy(NULL, runtime, &one, &source));
    assert_ok(kiln_copy(NULL, runtime, &two, &one));
    assert_ok(kiln_copy(NULL, runtime, &sink, &two));
    for (int i = 0; i < 12; i++)
        assert_int_equal(to[i], i % 4 < 3 ? from[i] : 0); /* rows of whole bytes; the gap stays */
    kiln_tensor wrong = view(KILN_I4, to, 2, shape, odd);
    assert_fails(kiln_copy(NULL, runtime, &wrong, &source), KILN_INVALID, "start on a byte");
    wrong = view(KILN_I4, to, 2, shape, apart);
    assert_fails(kiln_copy(NULL, runtime, &source, &wrong), KILN_INVALID, "contiguous");
    kiln_buffer_release(near);
    kiln_buffer_release(far);
}

static void test_refused_copies(void **state)
{
    (void)state;
    open_devices("");
    float memory[64];
    int64_t shape[] = {4, 4}, other[] = {4, 5};
    kiln_buffer *near = allocate(first, 64), *far = allocate(second, 64);
    kiln_stream *on_host, *on_first;
    assert_ok(kiln_stream_create(host, &on_host));
    assert_ok(kiln_stream_create(first, &on_first));
    kiln_tensor good = view(KILN_F32, memory, 2, shape, NULL), device = in_buffer(good, near, 0),
                remote = in_buffer(good, far, 0), bad;
#define REFUSED(change, stream, to, from, status, words)                   \
    do {                                                                   \
        bad = good;                                                        \
        change;                                                            \
        assert_fails(kiln_copy(stream, runtime, to, from), status, words); \
    } while (0)
    REFUSED(bad.rank = 9, NULL, &bad, &good, KILN_INVALID, "rank 9");
    REFUSED(bad.rank = 1, NULL, &bad, &good, KILN_INVALID, "the ranks must be equal");
    REFUSED(bad.type = KILN_F64, NULL, &good, &bad, KILN_INVALID, "from f64 to f32");
    REFUSED(bad.type = 0, NULL, &good, &bad, KILN_INVALID, "type 0");
    REFUSED(bad = view(KILN_F32, memory, 2, other, NULL), NULL, &good, &bad, KILN_INVALID,
            "dimension 1 is 5");
    REFUSED(bad.shape[0] = -1, NULL, &good, &bad, KILN_INVALID, "size -1");
    REFUSED(bad.strides[0] = -4, NULL, &good, &bad, KILN_INVALID, "stride -4");
    REFUSED(bad.strides[0] = INT64_MAX, NULL, &good, &bad, KILN_INVALID, "2^63");
    REFUSED(bad.byte_offset = -1, NULL, &good, &bad, KILN_INVALID, "offset -1");
    REFUSED(bad.data = NULL, NULL, &good, &bad, KILN_INVALID, "neither a buffer nor an address");
    REFUSED(bad.flags = 1, NULL, &good, &bad, KILN_UNSUPPORTED, "flags");
    REFUSED(bad.layout = KILN_LAYOUT_PACKED, NULL, &good, &bad, KILN_UNSUPPORTED, "packed");
    REFUSED(bad.layout = 2, NULL, &good, &bad, KILN_UNSUPPORTED, "layout");
    REFUSED(bad = in_buffer(good, near, 4), NULL, &good, &bad, KILN_INVALID,
            "the buffer has 64 bytes");
    REFUSED(bad = in_buffer(good, near, INT64_MAX - 1), NULL, &good, &bad, KILN_INVALID, "2^63");
    REFUSED((bad = in_buffer(good, near, 0), bad.type = KILN_I4, bad.rank = 1,
             bad.shape[0] = ((int64_t)1 << 61) - 1, bad.strides[0] = 1),
            NULL, &bad, &bad, KILN_INVALID, "end at byte 1152921504606846976");
    REFUSED((void)0, on_host, &device, &good, KILN_INVALID, "use a stream of fake:0");
    REFUSED((void)0, on_first, &remote, &good, KILN_INVALID, "must belong to one of the two");
    REFUSED((void)0, on_first, &remote, &device, KILN_UNSUPPORTED, "copy without a stream");
    REFUSED((void)0, on_first, &bad, &good, KILN_INVALID, "must belong to one of the two");
    kiln_stream_destroy(on_host);
    kiln_stream_destroy(on_first);
    kiln_buffer_release(near);
    kiln_buffer_release(far);
    assert_int_equal(fake_device_counted.copies, 0);
}

/* Nothing is copied, however many there are of it. */
static void test_empty_tensors(void **state)
{
    (void)state;
    open_devices("");
    int64_t shape[] = {(int64_t)1 << 40, 0, 3};
    kiln_buffer *buffer = allocate(first, 0);
    kiln_tensor nothing = view(KILN_F32, NULL, 3, shape, NULL),
                device = in_buffer(nothing, buffer, 0);
    assert_ok(kiln_copy(NULL, runtime, &device, &nothing));
    assert_ok(kiln_copy(NULL, runtime, &nothing, &device));
    assert_ok(kiln_copy(NULL, runtime, &nothing, &nothing));
    assert_ok(kiln_fill(NULL, runtime, &nothing, 1));
    assert_ok(kiln_fill(NULL, runtime, &device, 1));
    kiln_buffer_release(buffer);
}

/* ---- Fills ---- */

static void test_fills(void **state)
{
    (void)state;
    open_devices("");
    static const uint32_t types[] = {KILN_F64, KILN_F32, KILN_BF16, KILN_E4M3,
                                     KILN_I64, KILN_U8,  KILN_I4,   KILN_BOOL};
    kiln_stream *stream, *on_host;
    assert_ok(kiln_stream_create(first, &stream));
    assert_ok(kiln_stream_create(host, &on_host));
    for (int64_t i = 0; i < COUNT(types); i++)
        for (int place = 0; place < 4; place++) { /* host or device, without and with a stream */
            _Alignas(8) unsigned char memory[800], expected[800];
            int64_t shape[] = {3, 6}, strides[] = {10, 1}, all[] = {800};
            memset(memory, 0x3c, sizeof memory);
            kiln_buffer *buffer = allocate(place < 2 ? host : first, sizeof memory);
            kiln_tensor part = in_buffer(view(types[i], NULL, 2, shape, strides), buffer, 8);
            kiln_tensor whole = in_buffer(view(KILN_U8, NULL, 1, all, NULL), buffer, 0),
                        sink = view(KILN_U8, memory, 1, all, NULL);
            assert_ok(kiln_copy(NULL, runtime, &whole, &sink));
            assert_ok(kiln_fill(place == 1   ? on_host
                                : place == 3 ? stream
                                             : NULL,
                                runtime, &part, -3.3));
            assert_ok(kiln_stream_wait(stream));
            assert_ok(kiln_stream_wait(on_host));
            assert_ok(kiln_copy(NULL, runtime, &sink, &whole));
            memset(expected, 0x3c, sizeof expected);
            for (int64_t r = 0; r < 3; r++)
                for (int64_t c = 0; c < 6; c++)
                    kiln_store_f64(types[i], expected + 8, r * 10 + c, -3.3, 0);
            assert_memory_equal(memory, expected, sizeof memory);
            kiln_buffer_release(buffer);
        }
    float value = 0;
    int64_t one[] = {1}, odd[] = {3};
    kiln_tensor scalar = view(KILN_F32, &value, 0, one, NULL),
                nibbles = view(KILN_I4, &value, 1, odd, NULL), bad = scalar;
    assert_ok(kiln_fill(NULL, runtime, &scalar, 4));
    assert_true(value == 4);
    assert_fails(kiln_fill(NULL, runtime, &nibbles, 1), KILN_INVALID, "whole bytes");
    assert_fails(kiln_fill(stream, runtime, &scalar, 1), KILN_INVALID,
                 "must belong to the tensor's device");
    bad.layout = KILN_LAYOUT_PACKED;
    assert_fails(kiln_fill(NULL, runtime, &bad, 1), KILN_UNSUPPORTED, "packed");
    bad = scalar;
    bad.data = NULL;
    assert_fails(kiln_fill(NULL, runtime, &bad, 1), KILN_INVALID, "neither");
    kiln_stream_destroy(stream);
    kiln_stream_destroy(on_host);
}

static void test_device_without_fill(void **state)
{
    (void)state;
    open_devices("omit: fill");
    int64_t shape[] = {4};
    kiln_buffer *buffer = allocate(first, 16);
    kiln_tensor tensor = in_buffer(view(KILN_F32, NULL, 1, shape, NULL), buffer, 0);
    kiln_stream *stream;
    assert_ok(kiln_stream_create(first, &stream));
    assert_fails(kiln_fill(NULL, runtime, &tensor, 1), KILN_UNSUPPORTED,
                 "fake:0 does not offer fill");
    assert_fails(kiln_fill(stream, runtime, &tensor, 1), KILN_UNSUPPORTED,
                 "fake:0 does not offer fill");
    kiln_stream_destroy(stream);
    kiln_buffer_release(buffer);
}

/* A device whose memory the host may dereference. */
static void test_addressable_device(void **state)
{
    (void)state;
    open_devices("addressable: true");
    int64_t shape[] = {4};
    float from[4] = {1, 2, 3, 4};
    kiln_buffer *buffer = allocate(first, 16);
    kiln_tensor source = view(KILN_F32, from, 1, shape, NULL),
                device = in_buffer(source, buffer, 0);
    assert_ok(kiln_copy(NULL, runtime, &device, &source));
    assert_memory_equal(kiln_buffer_host(buffer), from, sizeof from);
    kiln_buffer_release(buffer);
}

/* ---- What work under way holds ---- */

/* Buffers that are released while copies wait in a slow stream live until those are done. More of
 * them than the core keeps records for. */
static void test_buffers_outlive_queued_work(void **state)
{
    (void)state;
    open_devices("delay_us: 300");
    kiln_stream *stream;
    assert_ok(kiln_stream_create(first, &stream));
    int64_t shape[] = {16};
    int32_t from[16], to[150][16];
    for (int i = 0; i < 16; i++)
        from[i] = i;
    memset(to, 0, sizeof to);
    for (int i = 0; i < 150; i++) {
        kiln_buffer *buffer = allocate(first, 64);
        kiln_tensor source = view(KILN_I32, from, 1, shape, NULL),
                    device = in_buffer(source, buffer, 0),
                    sink = view(KILN_I32, to[i], 1, shape, NULL);
        assert_ok(kiln_copy(stream, runtime, &device, &source));
        assert_ok(kiln_copy(stream, runtime, &sink, &device));
        kiln_buffer_release(buffer);
    }
    assert_true(fake_device_counted.memories > 0);
    assert_ok(kiln_stream_wait(stream));
    assert_int_equal(fake_device_counted.memories, 0); /* and not longer */
    for (int i = 0; i < 150; i++)
        assert_memory_equal(to[i], from, sizeof from);
    kiln_stream_destroy(stream);
}

static void test_a_stream_that_is_destroyed_waits(void **state)
{
    (void)state;
    open_devices("delay_us: 2000");
    int released = 0;
    int64_t shape[] = {4};
    float from[4] = {1, 2, 3, 4}, to[4] = {0};
    for (int place = 0; place < 2; place++) {
        kiln_stream *stream;
        kiln_buffer *wrapped, *buffer = allocate(place ? first : host, 16);
        assert_ok(kiln_stream_create(place ? first : host, &stream));
        assert_ok(kiln_buffer_wrap(runtime, from, sizeof from, count_release, &released, &wrapped));
        kiln_tensor source = in_buffer(view(KILN_F32, NULL, 1, shape, NULL), wrapped, 0),
                    device = in_buffer(source, buffer, 0);
        kiln_tensor sink = view(KILN_F32, to, 1, shape, NULL);
        assert_ok(kiln_copy(stream, runtime, &device, &source));
        assert_ok(kiln_copy(stream, runtime, &sink, &device));
        kiln_buffer_release(wrapped);
        kiln_buffer_release(buffer);
        kiln_stream_destroy(stream);
        assert_int_equal(released, place + 1);
        assert_memory_equal(from, to, sizeof from);
        memset(to, 0, sizeof to);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_device_set_up, close_devices)
    const struct CMUnitTest tests[] = {
        TEST(test_buffers),
        TEST(test_wrapped_memory),
        TEST(test_every_direction),
        TEST(test_strided_copies),
        TEST(test_gaps_on_the_device_survive),
        TEST(test_sub_byte_copies),
        TEST(test_refused_copies),
        TEST(test_empty_tensors),
        TEST(test_fills),
        TEST(test_device_without_fill),
        TEST(test_addressable_device),
        TEST(test_buffers_outlive_queued_work),
        TEST(test_a_stream_that_is_destroyed_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
