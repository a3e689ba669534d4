/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of the NPU model: streams, events, gates, transfers, faults. */
#include "tests/plugins/npu/npu_support.h"

#include <fenv.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plugins/npu/assembler.h"
#include "plugins/npu/device.h"

static char error[512];

struct fixture {
    struct npu_system system;
    struct npu_device *device[2];
    struct npu_stream *stream[2]; /* one on each device */
};

/* The status and sentence that a function behind a fault is called with. */
static int seen_status;
static char seen_text[256];

static void report(void *context, int status, const char *text)
{
    (void)context;
    snprintf(seen_text, sizeof seen_text, "%d: %s", status, text);
}

static int set_up(void **state)
{
    static struct fixture fixture;
    struct npu_config config;
    npu_config_defaults(&config);
    config.size[NPU_GM] = 1 << 20;
    npu_system_open(&fixture.system, report, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            npu_device_open(&fixture.system, &config, &fixture.device[i], error, sizeof error),
            NPU_OK);
        assert_int_equal(
            npu_stream_create(fixture.device[i], &fixture.stream[i], error, sizeof error), NPU_OK);
    }
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        npu_stream_destroy(f->stream[i]);
        npu_device_close(f->device[i]);
    }
    npu_system_close(&f->system);
    return 0;
}

static int64_t alloc(struct fixture *f, int device, int64_t bytes)
{
    int64_t address = 0;
    assert_int_equal(npu_global_alloc(&npu_device_machine(f->device[device])->global, bytes, 0,
                                      &address, error, sizeof error),
                     0);
    return address;
}

/* Plain bytes to or from a device. */
static void copy(struct fixture *f, int device, bool in, void *host, int64_t address, int64_t bytes)
{
    struct npu_side there = {NULL, address, {1}}, here = {host, 0, {1}};
    struct npu_transfer transfer = {.element_bytes = 1,
                                    .rank = 1,
                                    .shape = {bytes},
                                    .destination = in ? there : here,
                                    .source = in ? here : there};
    assert_int_equal(npu_enqueue_transfer(f->stream[device], &transfer, error, sizeof error),
                     NPU_OK);
}

static void wait(struct fixture *f, int device)
{
    assert_int_equal(npu_stream_wait(f->stream[device], error, sizeof error), NPU_OK);
}

/* ---- Transfers ---- */

static void transfers_keep_gaps(void **state)
{
    struct fixture *f = *state;
    int16_t source[4][3][5], expected[400], got[400];
    int64_t address = alloc(f, 0, sizeof got);
    memset(expected, 0x55, sizeof expected);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 5; k++) {
                source[i][j][k] = (int16_t)(100 * i + 10 * j + k);
                expected[3 + i * 90 + j * 20 + k * 2] = source[i][j][k];
            }
    struct npu_transfer fill = {.element_bytes = 2,
                                .rank = 1,
                                .shape = {400},
                                .destination = {NULL, address, {2}},
                                .fill = true,
                                .pattern = {0x55, 0x55}};
    assert_int_equal(npu_enqueue_transfer(f->stream[0], &fill, error, sizeof error), NPU_OK);
    struct npu_transfer in = {.element_bytes = 2,
                              .rank = 3,
                              .shape = {4, 3, 5},
                              .destination = {NULL, address + 6, {180, 40, 4}},
                              .source = {(uint8_t *)source, 0, {30, 10, 2}}};
    assert_int_equal(npu_enqueue_transfer(f->stream[0], &in, error, sizeof error), NPU_OK);
    copy(f, 0, false, got, address, sizeof got);
    wait(f, 0);
    assert_memory_equal(got, expected, sizeof got);
    struct npu_counters counters;
    npu_stream_counters(f->stream[0], &counters);
    assert_int_equal(counters.copied, 800 + 120 + 800);

    in.shape[1] = 0; /* nothing */
    in.destination.address = 1;
    assert_int_equal(npu_enqueue_transfer(f->stream[0], &in, error, sizeof error), NPU_OK);
    in.shape[1] = 3;
    assert_int_equal(npu_enqueue_transfer(f->stream[0], &in, error, sizeof error), NPU_INVALID);
    assert_non_null(strstr(error, "do not lie within one allocation"));
    in.destination.address = address + 6;
    in.destination.strides[0] = 270;
    assert_int_equal(npu_enqueue_transfer(f->stream[0], &in, error, sizeof error), NPU_INVALID);
    in.destination.strides[0] = INT64_MAX;
    assert_int_equal(npu_enqueue_transfer(f->stream[0], &in, error, sizeof error), NPU_INVALID);
    in.destination.strides[0] = -2;
    assert_int_equal(npu_enqueue_transfer(f->stream[0], &in, error, sizeof error), NPU_INVALID);
    in.rank = 9;
    assert_int_equal(npu_enqueue_transfer(f->stream[0], &in, error, sizeof error), NPU_INVALID);
    wait(f, 0); /* refusing does not fault the stream */
}

static void equal_addresses_of_two_devices(void **state)
{
    struct fixture *f = *state;
    char text[2][16] = {"first", "second"}, got[2][16];
    int64_t address[2] = {alloc(f, 0, 16), alloc(f, 1, 16)};
    assert_int_equal(address[0], address[1]);
    for (int i = 0; i < 2; i++)
        copy(f, i, true, text[i], address[i], 16);
    for (int i = 0; i < 2; i++)
        copy(f, i, false, got[i], address[i], 16);
    for (int i = 0; i < 2; i++) {
        wait(f, i);
        assert_string_equal(got[i], text[i]);
    }
}

/* ---- Host functions ---- */

/* Counts calls without a fault. */
static int count_up(void *argument, int status)
{
    *(int *)argument += status == 0;
    return 0;
}

static int give_up(void *argument, int status)
{
    (void)argument;
    (void)status;
    return -12;
}

static int see_status(void *argument, int status)
{
    (void)argument;
    seen_status = status;
    return 0;
}

static int note_rounding(void *argument, int status)
{
    (void)status;
    *(int *)argument = fegetround();
    return 0;
}

static int wait_for_itself(void *argument, int status)
{
    static int count;
    struct npu_stream *stream = argument;
    status = npu_stream_wait(stream, error, sizeof error);
    for (int i = 0; i < NPU_QUEUE_DEPTH && status == NPU_INVALID; i++)
        if (npu_enqueue_host(stream, count_up, &count, error, sizeof error) != NPU_OK)
            return i == NPU_QUEUE_DEPTH - 1 ? 0 : -1;
    return -1;
}

static void host_functions_run_in_order(void **state)
{
    struct fixture *f = *state;
    static int count, rounding;
    count = 0;
    for (int i = 0; i < 5 * NPU_QUEUE_DEPTH; i++) /* more than the queue holds */
        assert_int_equal(npu_enqueue_host(f->stream[0], count_up, &count, error, sizeof error),
                         NPU_OK);
    wait(f, 0);
    assert_int_equal(count, 5 * NPU_QUEUE_DEPTH);
    npu_enqueue_host(f->stream[0], note_rounding, &rounding, error, sizeof error);
    wait(f, 0);
    assert_int_equal(rounding, FE_TONEAREST);
}

/* A host function can neither wait for its own stream nor fill its queue and wait for room. */
static void host_functions_cannot_hang(void **state)
{
    struct fixture *f = *state;
    npu_enqueue_host(f->stream[0], wait_for_itself, f->stream[0], error, sizeof error);
    wait(f, 0);
}

/* ---- Faults ---- */

static void faults_stay_with_their_stream(void **state)
{
    struct fixture *f = *state;
    struct npu_stream *other;
    struct npu_event *event;
    static int count;
    count = 0;
    assert_int_equal(npu_stream_create(f->device[0], &other, error, sizeof error), NPU_OK);
    assert_int_equal(npu_event_create(&f->system, &event, error, sizeof error), NPU_OK);
    npu_enqueue_host(f->stream[0], give_up, NULL, error, sizeof error);
    npu_enqueue_host(f->stream[0], count_up, &count, error, sizeof error);
    npu_enqueue_host(f->stream[0], see_status, NULL, error, sizeof error);
    npu_enqueue_record(f->stream[0], event, error, sizeof error);
    npu_enqueue_host(other, count_up, &count, error, sizeof error);
    assert_int_equal(npu_stream_wait(other, error, sizeof error), NPU_OK);
    for (int i = 0; i < 2; i++) {
        error[0] = 0;
        assert_int_equal(npu_stream_wait(f->stream[0], error, sizeof error), -12);
        assert_non_null(strstr(error, "status -12"));
    }
    assert_int_equal(count, 1);
    assert_int_equal(seen_status, -12);
    assert_string_equal(seen_text, "-12: a function on the stream returned status -12");
    assert_int_equal(npu_event_wait(event, error, sizeof error), -12);
    assert_int_equal(npu_event_query(event, error, sizeof error), -12);
    /* Who waits for the event gets the fault too. */
    npu_enqueue_wait(f->stream[1], event, error, sizeof error);
    npu_enqueue_host(f->stream[1], count_up, &count, error, sizeof error);
    assert_int_equal(npu_stream_wait(f->stream[1], error, sizeof error), -12);
    assert_int_equal(count, 1);
    npu_event_destroy(event);
    npu_stream_destroy(other);
}

static void programs_fault_with_their_sentence(void **state)
{
    struct fixture *f = *state;
    struct npu_instruction wait_flag = {.opcode = NPU_WAIT_FLAG,
                                        .as.flag = {NPU_MTE2, NPU_VECTOR, 0}};
    struct npu_launch launch = {.grid = {1, 1, 1}};
    struct npu_program *program = npu_program_create("stuck", &wait_flag, 1, error, sizeof error);
    assert_non_null(program);
    assert_int_equal(npu_enqueue_launch(f->stream[0], program, &launch, error, sizeof error),
                     NPU_OK);
    assert_int_equal(npu_stream_wait(f->stream[0], error, sizeof error), NPU_FAULT);
    assert_non_null(strstr(error, "program stuck, block (0, 0, 0), instruction 0 (V: wait_flag"));
    npu_program_free(program);
}

/* ---- Events ---- */

static void gates_hold_streams(void **state)
{
    struct fixture *f = *state;
    struct npu_event *gate;
    static int count;
    count = 0;
    assert_int_equal(npu_gate_create(&f->system, &gate, error, sizeof error), NPU_OK);
    assert_int_equal(npu_event_query(gate, error, sizeof error), NPU_NOT_READY);
    npu_enqueue_wait(f->stream[0], gate, error, sizeof error);
    npu_enqueue_host(f->stream[0], count_up, &count, error, sizeof error);
    usleep(1000);
    assert_int_equal(count, 0);
    assert_int_equal(npu_enqueue_record(f->stream[1], gate, error, sizeof error), NPU_INVALID);
    assert_int_equal(npu_gate_reset(gate, error, sizeof error), NPU_INVALID);
    assert_int_equal(npu_gate_complete(gate, 0, NULL, error, sizeof error), NPU_OK);
    assert_int_equal(npu_gate_complete(gate, 0, NULL, error, sizeof error), NPU_INVALID);
    wait(f, 0);
    assert_int_equal(count, 1);
    assert_int_equal(npu_gate_reset(gate, error, sizeof error), NPU_OK);
    assert_int_equal(npu_event_query(gate, error, sizeof error), NPU_NOT_READY);
    npu_enqueue_wait(f->stream[0], gate, error, sizeof error);
    npu_enqueue_host(f->stream[0], count_up, &count, error, sizeof error);
    usleep(1000);
    assert_int_equal(count, 1);
    assert_int_equal(npu_gate_complete(gate, 0, NULL, error, sizeof error), NPU_OK);
    wait(f, 0);
    assert_int_equal(count, 2);
    npu_event_destroy(gate);
    count = 1;

    assert_int_equal(npu_gate_create(&f->system, &gate, error, sizeof error), NPU_OK);
    npu_enqueue_wait(f->stream[0], gate, error, sizeof error);
    npu_enqueue_host(f->stream[0], count_up, &count, error, sizeof error);
    assert_int_equal(npu_gate_complete(gate, -12, "the other side gave up", error, sizeof error),
                     NPU_OK);
    npu_event_destroy(gate); /* the queued wait keeps it */
    assert_int_equal(npu_stream_wait(f->stream[0], error, sizeof error), -12);
    assert_string_equal(error, "the other side gave up");
    assert_int_equal(count, 1);
}

static void events_order_streams_of_two_devices(void **state)
{
    struct fixture *f = *state;
    struct npu_event *event, *gate;
    char sent[64] = "from the first device", got[64] = "";
    int64_t there = alloc(f, 0, 64), here = alloc(f, 1, 64);
    char middle[64] = "";
    assert_int_equal(npu_event_create(&f->system, &event, error, sizeof error), NPU_OK);
    assert_int_equal(npu_event_wait(event, error, sizeof error), NPU_OK); /* never recorded */
    assert_int_equal(npu_gate_create(&f->system, &gate, error, sizeof error), NPU_OK);
    npu_enqueue_wait(f->stream[0], gate, error, sizeof error);
    copy(f, 0, true, sent, there, 64);
    copy(f, 0, false, middle, there, 64);
    npu_enqueue_record(f->stream[0], event, error, sizeof error);
    npu_enqueue_wait(f->stream[1], event, error, sizeof error);
    copy(f, 1, true, middle, here, 64);
    copy(f, 1, false, got, here, 64);
    assert_int_equal(npu_event_query(event, error, sizeof error), NPU_NOT_READY);
    npu_gate_complete(gate, 0, NULL, error, sizeof error);
    wait(f, 1);
    assert_string_equal(got, sent);
    assert_int_equal(npu_event_query(event, error, sizeof error), NPU_OK);
    npu_event_destroy(event);
    npu_event_destroy(gate);
}

/* Recorded on two streams, of which the second gets there first: each waiter waits for what was the
   last recording when it asked. */
static void recordings_may_finish_out_of_order(void **state)
{
    struct fixture *f = *state;
    struct npu_event *event, *gate;
    struct npu_stream *waiter;
    static int count;
    count = 0;
    assert_int_equal(npu_event_create(&f->system, &event, error, sizeof error), NPU_OK);
    assert_int_equal(npu_gate_create(&f->system, &gate, error, sizeof error), NPU_OK);
    assert_int_equal(npu_stream_create(f->device[1], &waiter, error, sizeof error), NPU_OK);
    npu_enqueue_wait(f->stream[0], gate, error, sizeof error);
    npu_enqueue_record(f->stream[0], event, error, sizeof error);
    npu_enqueue_wait(waiter, event, error, sizeof error);
    npu_enqueue_host(waiter, count_up, &count, error, sizeof error);
    npu_enqueue_record(f->stream[1], event, error, sizeof error);
    assert_int_equal(npu_event_wait(event, error, sizeof error), NPU_OK); /* the second */
    wait(f, 1);
    usleep(1000);
    assert_int_equal(count, 0); /* the first is still to come */
    npu_gate_complete(gate, 0, NULL, error, sizeof error);
    assert_int_equal(npu_stream_wait(waiter, error, sizeof error), NPU_OK);
    assert_int_equal(count, 1);
    npu_stream_destroy(waiter);
    npu_event_destroy(event);
    npu_event_destroy(gate);
}

static void opening_and_closing_leaves_nothing(void **state)
{
    (void)state;
    struct npu_config config;
    struct npu_system system;
    int count = 0;
    npu_config_defaults(&config);
    npu_system_open(&system, NULL, NULL, NULL);
    for (int i = 0; i < 100; i++) {
        struct npu_device *device;
        struct npu_stream *stream;
        assert_int_equal(npu_device_open(&system, &config, &device, error, sizeof error), NPU_OK);
        assert_int_equal(npu_stream_create(device, &stream, error, sizeof error), NPU_OK);
        npu_enqueue_host(stream, count_up, &count, error, sizeof error);
        npu_stream_destroy(stream);
        npu_device_close(device);
    }
    config.cores = 1000;
    struct npu_device *device;
    assert_int_equal(npu_device_open(&system, &config, &device, error, sizeof error), NPU_INVALID);
    npu_system_close(&system);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(transfers_keep_gaps),
        TEST(equal_addresses_of_two_devices),
        TEST(host_functions_run_in_order),
        TEST(host_functions_cannot_hang),
        TEST(faults_stay_with_their_stream),
        TEST(programs_fault_with_their_sentence),
        TEST(gates_hold_streams),
        TEST(events_order_streams_of_two_devices),
        TEST(recordings_may_finish_out_of_order),
        cmocka_unit_test(opening_and_closing_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
