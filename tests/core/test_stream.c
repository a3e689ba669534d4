/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and gates of the host and of a device: order, faults that stay, functions that
 * are called in any case, threads that wait. */
#include "tests/core/fake_device.h"
#include "tests/core/fixture.h"

#include <stdio.h>
#include <stdlib.h>

static kiln_runtime *runtime;
static kiln_device *devices[3]; /* host, fake:0, fake:1 */

static void open_devices(const char *options)
{
    runtime = fake_device_open(options, devices);
}

static int close_devices(void **state)
{
    kiln_runtime_close(runtime);
    runtime = NULL;
    return fake_device_tear_down(state);
}

static kiln_stream *new_stream(kiln_device *device)
{
    kiln_stream *stream = NULL;
    assert_ok(kiln_stream_create(device, &stream));
    assert_ptr_equal(kiln_stream_device(stream), device);
    return stream;
}

static kiln_event *new_event(kiln_device *device)
{
    kiln_event *event = NULL;
    assert_ok(kiln_event_create(device, &event));
    return event;
}

static kiln_event *new_gate(kiln_device *device)
{
    kiln_event *gate = NULL;
    assert_ok(kiln_gate_create(device, &gate));
    return gate;
}

/* What a function on a stream saw. */
typedef struct call {
    _Atomic int calls;
    _Atomic int status;
    char sentence[200];
    kiln_status answer;
    int64_t sleep_us;
    int expected_before; /* calls of `before` by then */
    struct call *before;
    _Atomic int out_of_order;
} call;

static kiln_status note(void *argument, kiln_status status)
{
    call *seen = argument;
    fixture_sleep_us(seen->sleep_us);
    if (seen->before && atomic_load(&seen->before->calls) < seen->expected_before)
        atomic_store(&seen->out_of_order, 1);
    if (status != KILN_OK)
        snprintf(seen->sentence, sizeof seen->sentence, "%s", kiln_last_error());
    atomic_store(&seen->status, status);
    atomic_fetch_add(&seen->calls, 1);
    if (seen->answer < 0) {
        float number; /* a failure with a sentence of its own */
        kiln_convert(99, &number, KILN_F32, &number, 1, 0);
    }
    return seen->answer;
}

/* ---- Order ---- */

static void test_order_in_a_stream(void **state)
{
    (void)state;
    open_devices("");
    for (int d = 0; d < 2; d++) {
        kiln_stream *stream = new_stream(devices[d]);
        call calls[300];
        memset(calls, 0, sizeof calls);
        for (int i = 0; i < 300; i++) {
            calls[i].before = i ? &calls[i - 1] : NULL;
            calls[i].expected_before = 1;
            calls[i].sleep_us = i % 50 == 0 ? 500 : 0;
            assert_ok(kiln_stream_enqueue(stream, note, &calls[i]));
        }
        assert_ok(kiln_stream_wait(stream));
        for (int i = 0; i < 300; i++) {
            assert_int_equal(calls[i].calls, 1);
            assert_int_equal(calls[i].out_of_order, 0);
            assert_int_equal(calls[i].status, KILN_OK);
        }
        assert_fails(kiln_stream_enqueue(stream, NULL, NULL), KILN_INVALID, "must not be NULL");
        kiln_stream_destroy(stream);
    }
    kiln_stream_destroy(NULL);
}

static void test_destroy_waits(void **state)
{
    (void)state;
    open_devices("");
    for (int d = 0; d < 2; d++) {
        kiln_stream *stream = new_stream(devices[d]);
        call slow = {.sleep_us = 3000};
        assert_ok(kiln_stream_enqueue(stream, note, &slow));
        kiln_stream_destroy(stream);
        assert_int_equal(slow.calls, 1);
    }
}

static void test_events_within_a_device(void **state)
{
    (void)state;
    open_devices("");
    for (int d = 0; d < 2; d++) {
        kiln_stream *producer = new_stream(devices[d]), *consumer = new_stream(devices[d]);
        kiln_event *event = new_event(devices[d]), *gate = new_gate(devices[d]);
        assert_ok(kiln_event_query(event)); /* never recorded: reached */
        assert_ok(kiln_event_wait(event));
        assert_ok(kiln_stream_wait_event(consumer, event));
        for (int round = 0; round < 3; round++) {
            call first = {.sleep_us = 3000}, second = {.before = &first, .expected_before = 1};
            assert_ok(kiln_stream_wait_event(producer, gate));
            assert_ok(kiln_stream_enqueue(producer, note, &first));
            assert_ok(kiln_event_record(event, producer));
            assert_int_equal(kiln_event_query(event), KILN_NOT_READY);
            assert_ok(kiln_stream_wait_event(consumer, event));
            assert_ok(kiln_stream_enqueue(consumer, note, &second));
            assert_ok(kiln_gate_complete(gate, KILN_OK, NULL));
            assert_ok(kiln_event_wait(event));
            assert_int_equal(first.calls, 1);
            assert_ok(kiln_event_query(event));
            assert_ok(kiln_stream_wait(consumer));
            assert_int_equal(second.out_of_order, 0);
            assert_ok(kiln_gate_reset(gate));
        }
        kiln_event_destroy(event);
        kiln_event_destroy(gate);
        kiln_stream_destroy(producer);
        kiln_stream_destroy(consumer);
    }
    kiln_event_destroy(NULL);
}

/* Events may be destroyed while commands that name them are queued. */
static void test_events_destroyed_early(void **state)
{
    (void)state;
    open_devices("");
    for (int d = 0; d < 2; d++) {
        kiln_stream *producer = new_stream(devices[d]), *consumer = new_stream(devices[d]);
        kiln_event *event = new_event(devices[d]);
        call first = {.sleep_us = 3000}, second = {.before = &first, .expected_before = 1};
        assert_ok(kiln_stream_enqueue(producer, note, &first));
        assert_ok(kiln_event_record(event, producer));
        assert_ok(kiln_stream_wait_event(consumer, event));
        kiln_event_destroy(event);
        assert_ok(kiln_stream_enqueue(consumer, note, &second));
        assert_ok(kiln_stream_wait(consumer));
        assert_int_equal(second.out_of_order, 0);
        kiln_stream_destroy(producer);
        kiln_stream_destroy(consumer);
    }
}

/* ---- Gates ---- */

static void test_gates(void **state)
{
    (void)state;
    open_devices("");
    for (int d = 0; d < 2; d++) {
        kiln_stream *stream = new_stream(devices[d]);
        kiln_event *gate = new_gate(devices[d]), *event = new_event(devices[d]);
        for (int round = 0; round < 3; round++) {
            call behind = {0};
            assert_int_equal(kiln_event_query(gate), KILN_NOT_READY);
            assert_ok(kiln_stream_wait_event(stream, gate));
            assert_ok(kiln_stream_enqueue(stream, note, &behind));
            fixture_sleep_us(2000);
            assert_int_equal(behind.calls, 0);
            assert_ok(kiln_gate_complete(gate, KILN_OK, NULL));
            assert_ok(kiln_event_wait(gate));
            assert_ok(kiln_stream_wait(stream));
            assert_int_equal(behind.calls, 1);
            assert_ok(kiln_gate_reset(gate));
        }
        assert_fails(kiln_event_record(gate, stream), KILN_INVALID, "a gate cannot be recorded");
        assert_fails(kiln_gate_complete(event, KILN_OK, NULL), KILN_INVALID,
                     "made by kiln_gate_create");
        assert_fails(kiln_gate_reset(event), KILN_INVALID, "made by kiln_gate_create");
        assert_ok(kiln_gate_complete(gate, KILN_OK, NULL));
        kiln_event_destroy(gate);
        kiln_event_destroy(event);
        kiln_stream_destroy(stream);
    }
}

static void test_gate_that_fails(void **state)
{
    (void)state;
    open_devices("");
    for (int d = 0; d < 2; d++) {
        kiln_stream *stream = new_stream(devices[d]);
        kiln_event *gate = new_gate(devices[d]);
        call behind = {0};
        assert_ok(kiln_stream_wait_event(stream, gate));
        assert_ok(kiln_stream_enqueue(stream, note, &behind));
        assert_ok(kiln_gate_complete(gate, KILN_PEER, "rank 3 is gone"));
        assert_fails(kiln_event_wait(gate), KILN_PEER, "rank 3 is gone");
        assert_fails(kiln_stream_wait(stream), KILN_PEER, "rank 3 is gone");
        assert_int_equal(behind.calls, 1); /* called, with the fault */
        assert_int_equal(behind.status, KILN_PEER);
        assert_string_equal(behind.sentence, "rank 3 is gone");
        kiln_event_destroy(gate);
        kiln_stream_destroy(stream);
    }
}

/* ---- Faults ---- */

static void test_faults_stay(void **state)
{
    (void)state;
    open_devices("");
    for (int d = 0; d < 2; d++) {
        kiln_stream *stream = new_stream(devices[d]), *other = new_stream(devices[d]);
        kiln_event *before = new_event(devices[d]), *after = new_event(devices[d]),
                   *never = new_gate(devices[d]);
        call good = {0}, bad = {.answer = KILN_UNSUPPORTED}, behind = {.answer = KILN_IO},
             follower = {0};
        assert_ok(kiln_stream_enqueue(stream, note, &good));
        assert_ok(kiln_event_record(before, stream));
        assert_ok(kiln_stream_enqueue(stream, note, &bad));
        assert_ok(kiln_stream_enqueue(stream, note, &behind));
        assert_ok(kiln_stream_wait_event(stream, never)); /* skipped: nobody completes it */
        float from = 5, to = 1;
        kiln_tensor source = kiln_vector(KILN_F32, &from, 1), sink = kiln_vector(KILN_F32, &to, 1);
        kiln_buffer *buffer;
        assert_ok(kiln_buffer_alloc(devices[d], KILN_SPACE_DEVICE, 4, &buffer));
        kiln_tensor device = source;
        device.buffer = buffer;
        device.data = NULL;
        assert_ok(kiln_copy(NULL, runtime, &device, &source));
        assert_ok(kiln_copy(stream, runtime, &sink, &device)); /* skipped, too */
        assert_ok(kiln_event_record(after, stream));
        assert_ok(kiln_stream_wait_event(other, after));
        assert_ok(kiln_stream_enqueue(other, note, &follower));
        for (int i = 0; i < 3; i++)
            assert_fails(kiln_stream_wait(stream), KILN_UNSUPPORTED, "type 99");
        assert_ok(kiln_event_wait(before));
        assert_fails(kiln_event_wait(after), KILN_UNSUPPORTED, "type 99");
        assert_fails(kiln_event_query(after), KILN_UNSUPPORTED, "type 99");
        assert_fails(kiln_stream_wait(other), KILN_UNSUPPORTED, "type 99");
        assert_int_equal(good.status, KILN_OK);
        assert_int_equal(behind.calls, 1);
        assert_int_equal(behind.status, KILN_UNSUPPORTED);
        assert_says(behind.sentence, "type 99");
        assert_int_equal(follower.status, KILN_UNSUPPORTED);
        assert_true(to == 1);
        assert_ok(kiln_copy(NULL, runtime, &sink, &device)); /* the device itself goes on */
        assert_true(to == 5);
        assert_ok(kiln_gate_complete(never, KILN_OK, NULL));
        kiln_buffer_release(buffer);
        kiln_event_destroy(before);
        kiln_event_destroy(after);
        kiln_event_destroy(never);
        kiln_stream_destroy(stream);
        kiln_stream_destroy(other);
    }
}

static kiln_status say_nothing(void *argument, kiln_status status)
{
    return status == KILN_OK ? *(kiln_status *)argument : status;
}

/* A capacity that was exceeded is no fault: what is behind it is done, and one wait says it. */
static void test_capacity(void **state)
{
    (void)state;
    open_devices("");
    for (int d = 0; d < 2; d++) {
        kiln_stream *stream = new_stream(devices[d]), *other = new_stream(devices[d]);
        kiln_event *after = new_event(devices[d]);
        call full = {.answer = KILN_CAPACITY}, behind = {0}, bad = {.answer = KILN_IO};
        assert_ok(kiln_stream_enqueue(stream, note, &full));
        assert_ok(kiln_stream_enqueue(stream, note, &full));
        assert_ok(kiln_stream_enqueue(stream, note, &behind));
        assert_ok(kiln_event_record(after, stream));
        assert_ok(kiln_stream_wait_event(other, after));
        assert_ok(kiln_event_wait(after));
        assert_ok(kiln_stream_wait(other));
        assert_fails(kiln_stream_wait(stream), KILN_CAPACITY, "type 99");
        assert_ok(kiln_stream_wait(stream));
        assert_int_equal(behind.status, KILN_OK);
        assert_int_equal(behind.calls, 1);
        assert_ok(kiln_stream_enqueue(stream, note, &full));
        assert_fails(kiln_stream_wait(stream), KILN_CAPACITY, "type 99");
        assert_ok(kiln_stream_enqueue(stream, note, &full));
        assert_ok(kiln_stream_enqueue(stream, note, &bad));
        for (int i = 0; i < 2; i++)
            assert_fails(kiln_stream_wait(stream), KILN_IO, "type 99"); /* a fault says more */
        kiln_event_destroy(after);
        kiln_stream_destroy(other);
        kiln_stream_destroy(stream);
    }
}

/* A function need not have a sentence. */
static void test_capacity_without_words(void **state)
{
    (void)state;
    open_devices("");
    kiln_stream *stream = new_stream(kiln_device_at(runtime, 0));
    kiln_status full = KILN_CAPACITY;
    assert_ok(kiln_stream_enqueue(stream, say_nothing, &full));
    assert_fails(kiln_stream_wait(stream), KILN_CAPACITY, "it gave no reason");
    assert_ok(kiln_stream_wait(stream));
    kiln_stream_destroy(stream);
}

/* A device that was made to touch memory beyond an allocation: this copy alone fails, the core's
 * own stream is replaced. */
static void test_fault_of_the_cores_own_stream(void **state)
{
    (void)state;
    open_devices("");
    float values[4] = {1, 2, 3, 4};
    acme_axpy_desc desc = {{sizeof desc, 0}, 4, KILN_F32, 0};
    kiln_buffer *buffers[2];
    kiln_tensor tensors[2], source = kiln_vector(KILN_F32, values, 4);
    for (int i = 0; i < 2; i++) {
        assert_ok(kiln_buffer_alloc(devices[1], KILN_SPACE_DEVICE, 16, &buffers[i]));
        tensors[i] = source;
        tensors[i].buffer = buffers[i];
        tensors[i].data = NULL;
        assert_ok(kiln_copy(NULL, runtime, &tensors[i], &source));
    }
    acme_axpy_args args = {{sizeof args, 2, tensors}, (double)NAN};
    for (int i = 0; i < 3; i++) {
        args.alpha = (double)NAN;
        assert_fails(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head), KILN_FAULT,
                     "alpha is not a number");
        args.alpha = 1;
        assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head));
    }
    assert_ok(kiln_copy(NULL, runtime, &source, &tensors[1]));
    assert_true(values[0] == 4 && values[3] == 16);
    kiln_buffer_release(buffers[0]);
    kiln_buffer_release(buffers[1]);
}

static void test_what_a_device_lacks(void **state)
{
    (void)state;
    open_devices("omit: gate_create");
    kiln_event *gate = NULL;
    assert_fails(kiln_gate_create(devices[1], &gate), KILN_UNSUPPORTED,
                 "fake:0 does not offer gates");
    assert_null(gate);
    close_devices(NULL);
    open_devices("omit: stream_enqueue");
    kiln_stream *stream = new_stream(devices[1]);
    call never = {0};
    assert_fails(kiln_stream_enqueue(stream, note, &never), KILN_UNSUPPORTED,
                 "functions on streams");
    kiln_stream_destroy(stream);
    close_devices(NULL);
    open_devices("omit: gate_reset");
    gate = new_gate(devices[1]);
    assert_fails(kiln_gate_reset(gate), KILN_UNSUPPORTED, "that can be reset");
    kiln_event_destroy(gate);
    close_devices(NULL);
    open_devices("omit: stream_counters");
    stream = new_stream(devices[1]);
    int64_t count = 9;
    assert_ok(kiln_stream_counters(stream, NULL, 0, &count));
    assert_int_equal(count, 0);
    kiln_stream_destroy(stream);
}

static void test_counters_and_wrong_pairs(void **state)
{
    (void)state;
    open_devices("");
    kiln_stream *stream = new_stream(devices[1]), *other = new_stream(devices[2]);
    kiln_event *event = new_event(devices[1]);
    kiln_counter counters[3];
    int64_t count = 0;
    memset(counters, 0x55, sizeof counters);
    assert_ok(kiln_stream_counters(stream, counters, 1, &count));
    assert_int_equal(count, 2);
    assert_string_equal(counters[0].name, "ticks");
    assert_int_equal(counters[1].value, 0x5555555555555555);
    assert_ok(kiln_stream_counters(stream, counters, 3, &count));
    assert_int_equal(counters[1].value, 101);
    assert_fails(kiln_event_record(event, other), KILN_INVALID, "must belong to one device");
    kiln_runtime *stranger = fixture_open(NULL);
    kiln_event *strange = new_event(kiln_device_at(stranger, 0));
    assert_fails(kiln_stream_wait_event(stream, strange), KILN_INVALID, "different runtimes");
    kiln_event_destroy(strange);
    kiln_runtime_close(stranger);
    kiln_event_destroy(event);
    kiln_stream_destroy(stream);
    kiln_stream_destroy(other);
}

/* ---- Threads ---- */

typedef struct waiters {
    kiln_stream *stream;
    _Atomic int64_t stop, failures;
} waiters;

static void feed_or_wait(void *argument, int64_t index)
{
    waiters *shared = argument;
    if (index > 0) {
        while (!atomic_load(&shared->stop))
            if (kiln_stream_wait(shared->stream) != KILN_OK)
                atomic_fetch_add(&shared->failures, 1);
        return;
    }
    int64_t shape[] = {4};
    float from[4] = {1, 2, 3, 4}, to[4];
    for (int i = 0; i < 300; i++) {
        kiln_buffer *buffer;
        if (kiln_buffer_alloc(kiln_stream_device(shared->stream), KILN_SPACE_DEVICE, 16, &buffer) !=
            KILN_OK) {
            atomic_fetch_add(&shared->failures, 1);
            continue;
        }
        kiln_tensor source = kiln_tensor_host(KILN_F32, from, 1, shape),
                    sink = kiln_tensor_host(KILN_F32, to, 1, shape), device = source;
        device.buffer = buffer;
        device.data = NULL;
        if (kiln_copy(shared->stream, runtime, &device, &source) != KILN_OK ||
            kiln_copy(shared->stream, runtime, &sink, &device) != KILN_OK)
            atomic_fetch_add(&shared->failures, 1);
        kiln_buffer_release(buffer);
    }
    if (kiln_stream_wait(shared->stream) != KILN_OK || memcmp(from, to, sizeof from) != 0)
        atomic_fetch_add(&shared->failures, 1);
    atomic_store(&shared->stop, 1);
}

/* One thread feeds a stream, others wait for it. */
static void test_several_threads_wait(void **state)
{
    (void)state;
    open_devices("");
    for (int d = 0; d < 2; d++) {
        waiters shared = {.stream = new_stream(devices[d])};
        fixture_threads(4, feed_or_wait, &shared);
        assert_int_equal(shared.failures, 0);
        kiln_stream_destroy(shared.stream);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_device_set_up, close_devices)
    const struct CMUnitTest tests[] = {
        TEST(test_order_in_a_stream),
        TEST(test_destroy_waits),
        TEST(test_events_within_a_device),
        TEST(test_events_destroyed_early),
        TEST(test_gates),
        TEST(test_gate_that_fails),
        TEST(test_faults_stay),
        TEST(test_capacity),
        TEST(test_capacity_without_words),
        TEST(test_fault_of_the_cores_own_stream),
        TEST(test_what_a_device_lacks),
        TEST(test_counters_and_wrong_pairs),
        TEST(test_several_threads_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
