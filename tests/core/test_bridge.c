/* SPDX-License-Identifier: Apache-2.0 */
/* Waits of one device's stream for another device's event: in both directions, many at once, in
 * adverse order, with faults, and whatever ends first. */
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
    return stream;
}

static kiln_event *new_event(kiln_device *device, bool gate)
{
    kiln_event *event = NULL;
    assert_ok(gate ? kiln_gate_create(device, &event) : kiln_event_create(device, &event));
    return event;
}

typedef struct step {
    _Atomic int *clock;
    int at; /* what the clock said */
    int64_t sleep_us;
    kiln_status status, answer;
    char sentence[100];
} step;

static kiln_status take_step(void *argument, kiln_status status)
{
    step *own = argument;
    fixture_sleep_us(own->sleep_us);
    own->at = atomic_fetch_add(own->clock, 1) + 1;
    own->status = status;
    if (status != KILN_OK)
        snprintf(own->sentence, sizeof own->sentence, "%s", kiln_last_error());
    return own->answer;
}

static void test_every_pair(void **state)
{
    (void)state;
    open_devices("");
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++)
            for (int round = 0; round < 5; round++) {
                _Atomic int clock = 0;
                step first = {.clock = &clock, .sleep_us = 2000}, second = {.clock = &clock};
                kiln_stream *producer = new_stream(devices[from]),
                            *consumer = new_stream(devices[to]);
                kiln_event *event = new_event(devices[from], false);
                assert_ok(kiln_stream_enqueue(producer, take_step, &first));
                assert_ok(kiln_event_record(event, producer));
                assert_ok(kiln_stream_wait_event(consumer, event));
                kiln_event_destroy(event);
                assert_ok(kiln_stream_enqueue(consumer, take_step, &second));
                assert_ok(kiln_stream_wait(consumer));
                assert_int_equal(first.at, 1);
                assert_int_equal(second.at, 2);
                kiln_stream_destroy(producer);
                kiln_stream_destroy(consumer);
            }
}

/* Waits that are asked for in one order and become free in the other: none may wait for another. */
static void test_adverse_order(void **state)
{
    (void)state;
    enum { MANY = 40 };
    open_devices("");
    for (int round = 0; round < 3; round++) {
        kiln_event *gates[MANY];
        kiln_stream *consumers[MANY];
        _Atomic int clock = 0;
        step steps[MANY];
        for (int i = 0; i < MANY; i++) {
            gates[i] = new_event(devices[0], true);
            consumers[i] = new_stream(devices[1 + i % 2]);
            steps[i] = (step){.clock = &clock};
            assert_ok(kiln_stream_wait_event(consumers[i], gates[i]));
            assert_ok(kiln_stream_enqueue(consumers[i], take_step, &steps[i]));
        }
        for (int i = MANY; i-- > 0;) {
            assert_ok(kiln_gate_complete(gates[i], KILN_OK, NULL));
            assert_ok(kiln_stream_wait(consumers[i]));
            assert_int_equal(steps[i].at, MANY - i);
        }
        for (int i = 0; i < MANY; i++) {
            kiln_event_destroy(gates[i]);
            kiln_stream_destroy(consumers[i]);
        }
    }
}

/* Event 1 completes only after the bridge of event 2 has been crossed. */
static void test_bridges_that_depend_on_each_other(void **state)
{
    (void)state;
    open_devices("");
    kiln_stream *a = new_stream(devices[1]), *b = new_stream(devices[2]),
                *c = new_stream(devices[1]);
    kiln_event *gate = new_event(devices[1], true), *one = new_event(devices[1], false),
               *two = new_event(devices[2], false);
    _Atomic int clock = 0;
    step last = {.clock = &clock};
    assert_ok(kiln_stream_wait_event(c, two)); /* not recorded yet: returns at once */
    assert_ok(kiln_stream_wait_event(b, gate));
    assert_ok(kiln_event_record(two, b));
    assert_ok(kiln_stream_wait_event(a, two)); /* bridge from 2 to 1 */
    assert_ok(kiln_event_record(one, a));
    assert_ok(kiln_stream_wait_event(b, one)); /* bridge from 1 to 2, free only after the other */
    assert_ok(kiln_stream_enqueue(b, take_step, &last));
    fixture_sleep_us(2000);
    assert_int_equal(clock, 0);
    assert_ok(kiln_gate_complete(gate, KILN_OK, NULL));
    assert_ok(kiln_stream_wait(b));
    assert_int_equal(last.at, 1);
    kiln_stream_destroy(a);
    kiln_stream_destroy(b);
    kiln_stream_destroy(c);
    kiln_event_destroy(gate);
    kiln_event_destroy(one);
    kiln_event_destroy(two);
}

/* Back and forth between two devices, more often than a stream keeps records. */
static void test_ping_pong(void **state)
{
    (void)state;
    open_devices("");
    enum { TURNS = 100 };
    kiln_stream *streams[2] = {new_stream(devices[1]), new_stream(devices[2])};
    kiln_event *event = NULL;
    _Atomic int clock = 0;
    step steps[TURNS];
    for (int i = 0; i < TURNS; i++) {
        kiln_stream *own = streams[i % 2];
        steps[i] = (step){.clock = &clock};
        if (event)
            assert_ok(kiln_stream_wait_event(own, event));
        kiln_event_destroy(event);
        event = new_event(devices[1 + i % 2], false);
        assert_ok(kiln_stream_enqueue(own, take_step, &steps[i]));
        assert_ok(kiln_event_record(event, own));
    }
    assert_ok(kiln_event_wait(event));
    for (int i = 0; i < TURNS; i++)
        assert_int_equal(steps[i].at, i + 1);
    kiln_event_destroy(event);
    kiln_stream_destroy(streams[0]);
    kiln_stream_destroy(streams[1]);
}

/* ---- Faults ---- */

static void test_a_fault_crosses(void **state)
{
    (void)state;
    open_devices("");
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++) {
            if (from == to)
                continue;
            _Atomic int clock = 0;
            kiln_stream *producer = new_stream(devices[from]), *consumer = new_stream(devices[to]);
            kiln_event *gate = new_event(devices[from], true),
                       *event = new_event(devices[from], false);
            step behind = {.clock = &clock}, afterwards = {.clock = &clock};
            assert_ok(kiln_stream_wait_event(producer, gate));
            assert_ok(kiln_event_record(event, producer));
            assert_ok(kiln_stream_wait_event(consumer, event));
            assert_ok(kiln_stream_enqueue(consumer, take_step, &behind));
            assert_ok(kiln_gate_complete(gate, KILN_PEER, "the line went dead"));
            assert_fails(kiln_stream_wait(consumer), KILN_PEER, "the line went dead");
            assert_fails(kiln_stream_wait(producer), KILN_PEER, "the line went dead");
            assert_int_equal(behind.status, KILN_PEER);
            assert_string_equal(behind.sentence, "the line went dead");
            /* The next bridge between the two is sound. */
            kiln_stream *sound = new_stream(devices[to]), *source = new_stream(devices[from]);
            assert_ok(kiln_event_record(event, source));
            assert_ok(kiln_stream_wait_event(sound, event));
            assert_ok(kiln_stream_enqueue(sound, take_step, &afterwards));
            assert_ok(kiln_stream_wait(sound));
            assert_int_equal(afterwards.status, KILN_OK);
            kiln_stream_destroy(sound);
            kiln_stream_destroy(source);
            kiln_stream_destroy(producer);
            kiln_stream_destroy(consumer);
            kiln_event_destroy(gate);
            kiln_event_destroy(event);
        }
}

/* The waiting stream faults for a reason of its own, is waited for and destroyed, and only then is
 * the bridge crossed. */
static void test_waiting_stream_goes_first(void **state)
{
    (void)state;
    open_devices("");
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++) {
            if (from == to)
                continue;
            _Atomic int clock = 0;
            kiln_stream *consumer = new_stream(devices[to]);
            kiln_event *gate = new_event(devices[from], true);
            step bad = {.clock = &clock, .answer = KILN_FAULT};
            assert_ok(kiln_stream_enqueue(consumer, take_step, &bad));
            assert_ok(kiln_stream_wait_event(consumer, gate));
            assert_int_equal(kiln_stream_wait(consumer), KILN_FAULT); /* it skips the wait */
            kiln_stream_destroy(consumer);
            fixture_sleep_us(500);
            assert_ok(kiln_gate_complete(gate, KILN_OK, NULL));
            kiln_event_destroy(gate);
        }
}

/* The runtime is closed as soon as the last stream was waited for, though the bridge's own thread
 * may still be busy. */
static void test_close_behind_the_last_wait(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        open_devices("");
        int from = round % 3, to = (round + 1 + round / 3 % 2) % 3;
        _Atomic int clock = 0;
        step first = {.clock = &clock};
        kiln_stream *producer = new_stream(devices[from]), *consumer = new_stream(devices[to]);
        kiln_event *event = new_event(devices[from], false);
        assert_ok(kiln_stream_enqueue(producer, take_step, &first));
        assert_ok(kiln_event_record(event, producer));
        assert_ok(kiln_stream_wait_event(consumer, event));
        kiln_event_destroy(event);
        assert_ok(kiln_stream_wait(consumer));
        kiln_stream_destroy(consumer);
        kiln_stream_destroy(producer);
        kiln_runtime_close(runtime);
        runtime = NULL;
        assert_int_equal(fake_device_counted.streams, 0);
        assert_int_equal(fake_device_counted.events, 0);
    }
}

static void test_what_a_bridge_needs(void **state)
{
    (void)state;
    static const char *const omitted[] = {"gate_create", "stream_enqueue"};
    for (int i = 0; i < 2; i++) {
        char options[40];
        snprintf(options, sizeof options, "omit: %s", omitted[i]);
        open_devices(options);
        kiln_stream *consumer = new_stream(devices[1]), *producer = new_stream(devices[2]);
        kiln_event *event = new_event(devices[2], false);
        assert_ok(kiln_event_record(event, producer));
        assert_fails(kiln_stream_wait_event(consumer, event), KILN_UNSUPPORTED,
                     i ? "fake:1 does not offer functions" : "fake:0 does not offer gates");
        assert_ok(kiln_stream_wait(consumer));
        kiln_event_destroy(event);
        kiln_stream_destroy(consumer);
        kiln_stream_destroy(producer);
        close_devices(NULL);
    }
}

/* ---- Threads ---- */

typedef struct crossing_threads {
    _Atomic int64_t failures;
} crossing_threads;

static void cross_often(void *argument, int64_t index)
{
    crossing_threads *shared = argument;
    for (int i = 0; i < 60; i++) {
        _Atomic int clock = 0;
        step first = {.clock = &clock}, second = {.clock = &clock};
        int from = (int)(index + i) % 3, to = (from + 1 + i % 2) % 3;
        kiln_stream *producer = NULL, *consumer = NULL;
        kiln_event *event = NULL;
        if (kiln_stream_create(devices[from], &producer) ||
            kiln_stream_create(devices[to], &consumer) ||
            kiln_event_create(devices[from], &event) ||
            kiln_stream_enqueue(producer, take_step, &first) ||
            kiln_event_record(event, producer) || kiln_stream_wait_event(consumer, event) ||
            kiln_stream_enqueue(consumer, take_step, &second) || kiln_stream_wait(consumer) ||
            second.at != 2)
            atomic_fetch_add(&shared->failures, 1);
        kiln_event_destroy(event);
        kiln_stream_destroy(consumer);
        kiln_stream_destroy(producer);
    }
}

static void test_bridges_from_many_threads(void **state)
{
    (void)state;
    open_devices("");
    crossing_threads shared = {0};
    fixture_threads(6, cross_often, &shared);
    assert_int_equal(shared.failures, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_device_set_up, close_devices)
    const struct CMUnitTest tests[] = {
        TEST(test_every_pair),
        TEST(test_adverse_order),
        TEST(test_bridges_that_depend_on_each_other),
        TEST(test_ping_pong),
        TEST(test_a_fault_crosses),
        TEST(test_waiting_stream_goes_first),
        TEST(test_close_behind_the_last_wait),
        TEST(test_what_a_bridge_needs),
        TEST(test_bridges_from_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
