/* SPDX-License-Identifier: Apache-2.0 */
/* What a child of fork may do with its parent's objects: nothing with those of a device that does
 * not survive a fork, and everything with the host's. */
#include "tests/core/fake_device.h"
#include "tests/core/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* All that the parent made. Place 0 is the host, 1 the device. */
typedef struct world {
    kiln_runtime *runtime;
    kiln_device *devices[2];
    kiln_buffer *buffers[2];
    kiln_stream *streams[2];
    kiln_event *events[2], *gates[2];
    kiln_plan *plans[2];
    kiln_tensor tensors[2][2];
    float x[4], y[4];
} world;

static acme_axpy_desc axpy = {{sizeof axpy, 0}, 4, KILN_F32, 0};

static void make_world(world *w)
{
    *w = (world){.x = {1, 2, 3, 4}, .y = {10, 10, 10, 10}};
    fake_backends_reset();
    w->runtime =
        fixture_open("plugins: [alpha, fake]\nthreads: {count: 2}\noptions: {fake: {delay_us: 1}}");
    for (int d = 0; d < 2; d++) {
        w->devices[d] = kiln_device_at(w->runtime, d);
        assert_ok(kiln_buffer_alloc(w->devices[d], KILN_SPACE_DEVICE, 64, &w->buffers[d]));
        assert_ok(kiln_stream_create(w->devices[d], &w->streams[d]));
        assert_ok(kiln_event_create(w->devices[d], &w->events[d]));
        assert_ok(kiln_gate_create(w->devices[d], &w->gates[d]));
        kiln_plan_options options = {.struct_size = sizeof options, .device = w->devices[d]};
        assert_ok(kiln_plan_create(w->runtime, ACME_AXPY, &axpy.head, &options, &w->plans[d]));
        for (int i = 0; i < 2; i++) {
            w->tensors[d][i] = kiln_vector(KILN_F32, i ? w->y : w->x, 4);
            if (d == 1) {
                w->tensors[d][i].buffer = w->buffers[d];
                w->tensors[d][i].data = NULL;
                w->tensors[d][i].byte_offset = 32 * i;
            }
        }
        acme_axpy_args args = {{sizeof args, 2, w->tensors[d]}, 1};
        assert_ok(kiln_plan_run(w->plans[d], w->streams[d], &args.head));
        assert_ok(kiln_event_record(w->events[d], w->streams[d]));
        assert_ok(kiln_stream_wait(w->streams[d]));
    }
}

static void release_world(world *w)
{
    for (int d = 0; d < 2; d++) {
        kiln_plan_release(w->plans[d]);
        kiln_event_destroy(w->gates[d]);
        kiln_event_destroy(w->events[d]);
        kiln_stream_destroy(w->streams[d]);
        kiln_buffer_release(w->buffers[d]);
    }
    kiln_runtime_close(w->runtime);
}

/* In the child there is no test to fail: it says what went wrong and where, and the parent sees the
 * status. */
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "child: line %d: %s (%s)\n", __LINE__, #condition, kiln_last_error()); \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)
#define FORKED(call) \
    EXPECT((call) == KILN_FORKED && strstr(kiln_last_error(), "fake:0 belongs to the parent"))

static kiln_status count_call(void *argument, kiln_status status)
{
    ++*(int *)argument;
    return status;
}

static int use_device(void *argument)
{
    world *w = argument;
    kiln_device *device = w->devices[1];
    kiln_buffer *buffer;
    kiln_stream *stream;
    kiln_event *event;
    kiln_plan *plan;
    kiln_counter counter;
    int64_t count;
    int calls = 0;
    acme_axpy_args args = {{sizeof args, 2, w->tensors[1]}, 1};
    kiln_plan_options options = {.struct_size = sizeof options, .device = device};
    acme_axpy_desc other = axpy;
    other.reserved = 1;
    FORKED(kiln_buffer_alloc(device, KILN_SPACE_DEVICE, 64, &buffer));
    FORKED(kiln_stream_create(device, &stream));
    FORKED(kiln_event_create(device, &event));
    FORKED(kiln_gate_create(device, &event));
    FORKED(kiln_stream_wait(w->streams[1]));
    FORKED(kiln_stream_enqueue(w->streams[1], count_call, &calls));
    FORKED(kiln_stream_counters(w->streams[1], &counter, 1, &count));
    FORKED(kiln_event_record(w->events[1], w->streams[1]));
    FORKED(kiln_event_wait(w->events[1]));
    FORKED(kiln_event_query(w->events[1]));
    FORKED(kiln_stream_wait_event(w->streams[1], w->events[1]));
    FORKED(kiln_stream_wait_event(w->streams[0], w->events[1]));
    FORKED(kiln_stream_wait_event(w->streams[1], w->events[0]));
    FORKED(kiln_gate_complete(w->gates[1], KILN_OK, NULL));
    FORKED(kiln_gate_reset(w->gates[1]));
    FORKED(kiln_copy(NULL, w->runtime, &w->tensors[0][0], &w->tensors[1][0]));
    FORKED(kiln_copy(w->streams[1], w->runtime, &w->tensors[0][0], &w->tensors[1][0]));
    FORKED(kiln_fill(NULL, w->runtime, &w->tensors[1][0], 1));
    FORKED(kiln_fill(w->streams[1], w->runtime, &w->tensors[1][0], 1));
    FORKED(kiln_plan_run(w->plans[1], NULL, &args.head));
    FORKED(kiln_plan_run(w->plans[1], w->streams[1], &args.head));
    FORKED(kiln_plan_create(w->runtime, ACME_AXPY, &other.head, &options, &plan));
    FORKED(kiln_call(w->runtime, ACME_AXPY, &axpy.head, NULL, &args.head));
    FORKED(kiln_call(w->runtime, ACME_AXPY, &other.head, NULL, &args.head));
    EXPECT(calls == 0);
    release_world(w);
    return 0;
}

static void test_device_objects_are_the_parents(void **state)
{
    (void)state;
    fixture_needs_fork();
    world w;
    make_world(&w);
    assert_int_equal(fixture_in_child(use_device, &w), 0);
    acme_axpy_args args = {{sizeof args, 2, w.tensors[1]}, 1};
    assert_ok(kiln_plan_run(w.plans[1], NULL, &args.head)); /* the parent notices nothing */
    release_world(&w);
}

static int use_host(void *argument)
{
    world *w = argument;
    int calls = 0;
    acme_axpy_args args = {{sizeof args, 2, w->tensors[0]}, 1};
    EXPECT(w->y[3] == 14);
    EXPECT(kiln_event_query(w->events[0]) == KILN_OK);
    EXPECT(kiln_event_wait(w->events[0]) == KILN_OK);
    EXPECT(kiln_plan_run(w->plans[0], NULL, &args.head) == KILN_OK && w->y[3] == 18);
    EXPECT(kiln_plan_run(w->plans[0], w->streams[0], &args.head) == KILN_OK);
    EXPECT(kiln_stream_enqueue(w->streams[0], count_call, &calls) == KILN_OK);
    EXPECT(kiln_event_record(w->events[0], w->streams[0]) == KILN_OK);
    EXPECT(kiln_event_wait(w->events[0]) == KILN_OK);
    EXPECT(kiln_stream_wait(w->streams[0]) == KILN_OK && w->y[3] == 22 && calls == 1);
    EXPECT(kiln_stream_wait_event(w->streams[0], w->gates[0]) == KILN_OK);
    EXPECT(kiln_event_query(w->gates[0]) == KILN_NOT_READY);
    EXPECT(kiln_gate_complete(w->gates[0], KILN_OK, NULL) == KILN_OK);
    EXPECT(kiln_stream_wait(w->streams[0]) == KILN_OK);
    EXPECT(kiln_call(w->runtime, ACME_AXPY, &axpy.head, NULL, &args.head) == KILN_OK &&
           w->y[3] == 26);
    EXPECT(kiln_copy(NULL, w->runtime, &w->tensors[0][1], &w->tensors[0][0]) == KILN_OK &&
           w->y[3] == 4);
    EXPECT(kiln_copy(w->streams[0], w->runtime, &w->tensors[0][1], &w->tensors[0][0]) == KILN_OK);
    EXPECT(kiln_fill(w->streams[0], w->runtime, &w->tensors[0][0], 3) == KILN_OK);
    EXPECT(kiln_stream_wait(w->streams[0]) == KILN_OK && w->x[0] == 3);
    release_world(w);
    return 0;
}

static void test_host_objects_go_on(void **state)
{
    (void)state;
    fixture_needs_fork();
    world w;
    make_world(&w);
    assert_int_equal(fixture_in_child(use_host, &w), 0);
    assert_true(w.y[3] == 14);
    release_world(&w);
}

/* Work was queued when the process forked: it is the parent's, and nobody waits for it for ever. */
static int use_busy_stream(void *argument)
{
    world *w = argument;
    EXPECT(kiln_event_query(w->events[0]) == KILN_FORKED);
    EXPECT(kiln_event_wait(w->events[0]) == KILN_FORKED &&
           strstr(kiln_last_error(), "the parent's work"));
    EXPECT(kiln_stream_wait(w->streams[0]) == KILN_FORKED &&
           strstr(kiln_last_error(), "the parent's work"));
    acme_axpy_args args = {{sizeof args, 2, w->tensors[0]}, 1};
    for (int i = 0; i < 200; i++) /* more than the records that the parent left */
        EXPECT(kiln_plan_run(w->plans[0], w->streams[0], &args.head) == KILN_OK);
    EXPECT(kiln_stream_wait(w->streams[0]) == KILN_FORKED);
    kiln_stream *fresh;
    EXPECT(kiln_stream_create(w->devices[0], &fresh) == KILN_OK);
    EXPECT(kiln_plan_run(w->plans[0], fresh, &args.head) == KILN_OK);
    EXPECT(kiln_event_record(w->events[0], fresh) == KILN_OK);
    EXPECT(kiln_event_wait(w->events[0]) == KILN_OK);
    EXPECT(kiln_stream_wait(fresh) == KILN_OK && w->y[3] == 18);
    kiln_stream_destroy(fresh);
    release_world(w);
    return 0;
}

static void test_queued_work_is_the_parents(void **state)
{
    (void)state;
    fixture_needs_fork();
    world w;
    make_world(&w);
    acme_axpy_args args = {{sizeof args, 2, w.tensors[0]}, 1};
    assert_ok(kiln_stream_wait_event(w.streams[0], w.gates[0]));
    for (int i = 0; i < 40; i++)
        assert_ok(kiln_plan_run(w.plans[0], w.streams[0], &args.head));
    assert_ok(kiln_event_record(w.events[0], w.streams[0]));
    assert_int_equal(fixture_in_child(use_busy_stream, &w), 0);
    assert_ok(kiln_gate_complete(w.gates[0], KILN_OK, NULL));
    assert_ok(kiln_stream_wait(w.streams[0]));
    assert_true(w.y[3] == 14 + 40 * 4);
    release_world(&w);
}

/* A bridge is under way: the child must not wait for it when it closes. */
static int close_only(void *argument)
{
    release_world(argument);
    return 0;
}

static void test_child_closes_while_a_bridge_is_under_way(void **state)
{
    (void)state;
    fixture_needs_fork();
    world w;
    make_world(&w);
    assert_ok(kiln_stream_wait_event(w.streams[1], w.gates[0]));
    assert_ok(kiln_stream_wait_event(w.streams[0], w.gates[1]));
    assert_int_equal(fixture_in_child(close_only, &w), 0);
    assert_ok(kiln_gate_complete(w.gates[0], KILN_OK, NULL));
    assert_ok(kiln_gate_complete(w.gates[1], KILN_OK, NULL));
    assert_ok(kiln_stream_wait(w.streams[0]));
    assert_ok(kiln_stream_wait(w.streams[1]));
    release_world(&w);
}

/* The child opens a runtime of its own and has the device, too. */
static int open_anew(void *argument)
{
    (void)argument;
    kiln_runtime *runtime = NULL;
    EXPECT(fixture_try_open("plugins: [alpha, fake]", KILN_RUNTIME_ISOLATED, &runtime) == KILN_OK);
    kiln_device *device = kiln_device_at(runtime, 1);
    float x[4] = {1, 2, 3, 4}, y[4];
    kiln_buffer *buffer;
    EXPECT(kiln_buffer_alloc(device, KILN_SPACE_DEVICE, 16, &buffer) == KILN_OK);
    kiln_tensor source = kiln_vector(KILN_F32, x, 4), sink = kiln_vector(KILN_F32, y, 4),
                remote = source;
    remote.buffer = buffer;
    remote.data = NULL;
    EXPECT(kiln_copy(NULL, runtime, &remote, &source) == KILN_OK &&
           kiln_copy(NULL, runtime, &sink, &remote) == KILN_OK);
    EXPECT(memcmp(x, y, sizeof x) == 0);
    kiln_buffer_release(buffer);
    kiln_runtime_close(runtime);
    return 0;
}

static void test_child_opens_its_own(void **state)
{
    (void)state;
    fixture_needs_fork();
    world w;
    make_world(&w);
    assert_int_equal(fixture_in_child(open_anew, &w), 0);
    release_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_DEVICE_TEST(test_device_objects_are_the_parents),
        FAKE_DEVICE_TEST(test_host_objects_go_on),
        FAKE_DEVICE_TEST(test_queued_work_is_the_parents),
        FAKE_DEVICE_TEST(test_child_closes_while_a_bridge_is_under_way),
        FAKE_DEVICE_TEST(test_child_opens_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
