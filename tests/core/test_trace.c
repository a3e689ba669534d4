/* SPDX-License-Identifier: Apache-2.0 */
/* What a listener hears, and that it can be set and taken away while others are at work. */
#include "tests/core/fake_device.h"
#include "tests/core/fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALPHA, BETA, GAMMA };

static int set_up(void **state)
{
    fake_backends_reset();
    return fake_device_set_up(state);
}

static int tear_down(void **state)
{
    return fake_backends_tear_down(state) | fake_device_tear_down(state);
}

/* The events so far, one line each: "kind status operator backend device bytes text". */
typedef struct notebook {
    pthread_mutex_t mutex;
    char text[8192];
    int64_t events, wrong;
} notebook;

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"?", "plan", "run", "copy", "stage", "fallback", "fault"};
    return names[kind < 7 ? kind : 0];
}

static void note(void *context, const kiln_trace_event *event)
{
    notebook *book = context;
    pthread_mutex_lock(&book->mutex);
    size_t used = strlen(book->text);
    snprintf(book->text + used, sizeof book->text - used, "%s %s %s %s %s %lld %s\n",
             kind_name(event->kind), kiln_status_name((kiln_status)event->status),
             event->operator_name ? event->operator_name : "-",
             event->backend ? event->backend : "-", event->device ? event->device : "-",
             (long long)event->bytes, event->text ? event->text : "-");
    book->events++;
    book->wrong += event->struct_size != sizeof *event || event->begin_ns <= 0 ||
                   event->end_ns < event->begin_ns;
    pthread_mutex_unlock(&book->mutex);
}

static void clear(notebook *book)
{
    pthread_mutex_lock(&book->mutex);
    book->text[0] = '\0';
    book->events = 0;
    pthread_mutex_unlock(&book->mutex);
}

static void test_what_is_told(void **state)
{
    (void)state;
    notebook book = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    kiln_runtime *runtime = fixture_open("plugins: ['*']\noperators: {acme.axpy/1: [alpha, beta]}");
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    acme_axpy_desc desc = {{sizeof desc, 0}, 4, KILN_F32, 0};
    kiln_tensor tensors[] = {kiln_vector(KILN_F32, x, 4), kiln_vector(KILN_F32, y, 4)};
    acme_axpy_args args = {{sizeof args, 2, tensors}, 1};
    assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head)); /* nobody listens */
    assert_ok(kiln_trace_set(runtime, note, &book));
    assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL,
                        &args.head)); /* the plan is there already */
    assert_string_equal(book.text, "run OK acme.axpy/1 alpha host 0 alpha-1\n");
    clear(&book);
    fake_backends[ALPHA].refuses = true;
    fake_backends[ALPHA].reason = "it is full";
    desc.reserved = 1;
    kiln_plan *plan;
    assert_ok(kiln_plan_create(runtime, ACME_AXPY, &desc.head, NULL, &plan));
    assert_string_equal(book.text,
                        "plan OK acme.axpy/1 beta host 0 after alpha declined: it is full\n"
                        "fallback OK acme.axpy/1 beta host 0 after alpha declined: it is full\n");
    clear(&book);
    fake_backends[BETA].run_status = KILN_CAPACITY;
    assert_int_equal(kiln_plan_run(plan, NULL, &args.head), KILN_CAPACITY);
    assert_string_equal(book.text, "run CAPACITY acme.axpy/1 beta host 0 beta-1\n");
    kiln_plan_release(plan);
    clear(&book);

    kiln_device *device;
    kiln_buffer *buffer;
    kiln_stream *stream;
    assert_ok(kiln_device_find(runtime, "fake:1", &device));
    assert_ok(kiln_buffer_alloc(device, KILN_SPACE_DEVICE, 16, &buffer));
    assert_ok(kiln_stream_create(device, &stream));
    kiln_tensor remote[] = {tensors[0], tensors[0]};
    remote[0].buffer = remote[1].buffer = buffer;
    remote[0].data = remote[1].data = NULL;
    assert_ok(kiln_copy(stream, runtime, &remote[0], &tensors[0]));
    assert_ok(kiln_copy(NULL, runtime, &tensors[1], &tensors[0]));
    assert_says(book.text, "copy OK - - fake:1 16 -\n");
    assert_says(book.text, "copy OK - - host 16 -\n");
    clear(&book);
    kiln_plan_options options = {
        .struct_size = sizeof options, .device = device, .backend = "fake"};
    assert_ok(kiln_plan_create(runtime, ACME_AXPY, &desc.head, &options, &plan));
    args.head.tensors = remote;
    args.alpha = (double)NAN;
    assert_ok(kiln_plan_run(plan, stream, &args.head));
    assert_int_equal(kiln_stream_wait(stream), KILN_FAULT);
    assert_says(book.text, "run OK acme.axpy/1 fake fake:1 0 fake\n"); /* it was queued */
    assert_says(book.text, "fault FAULT - - fake:1 0 axpy: alpha is not a number\n");
    kiln_plan_release(plan);
    kiln_stream_destroy(stream);
    kiln_buffer_release(buffer);
    assert_ok(kiln_trace_set(runtime, NULL, NULL));
    clear(&book);
    args.head.tensors = tensors;
    fake_backends[ALPHA].refuses = false;
    desc.reserved = 0;
    assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head));
    assert_int_equal(book.events, 0);
    assert_int_equal(book.wrong, 0);
    kiln_runtime_close(runtime);
}

/* ---- While others are at work ---- */

typedef struct listening {
    kiln_runtime *runtime;
    _Atomic int64_t heard[4]; /* by listener; a listener that was taken away must be silent */
    _Atomic int64_t late, stop;
} listening;

typedef struct listener {
    listening *all;
    int64_t index;
    _Atomic bool gone;
} listener;

static void hear(void *context, const kiln_trace_event *event)
{
    listener *own = context;
    if (atomic_load(&own->gone) || event->struct_size != sizeof *event)
        atomic_fetch_add(&own->all->late, 1);
    atomic_fetch_add(&own->all->heard[own->index], 1);
}

static void call_or_change(void *argument, int64_t index)
{
    listening *all = argument;
    if (index > 0) {
        acme_axpy_desc desc = {{sizeof desc, 0}, 0, KILN_F32, 0};
        acme_axpy_args args = {.head = {sizeof args, 0, NULL}};
        while (!atomic_load(&all->stop))
            kiln_call(all->runtime, ACME_AXPY, &desc.head, NULL, &args.head);
        return;
    }
    int64_t naps = 0; /* at least 20 s of them */
    for (int64_t i = 0; i < 300; i++) {
        listener own = {.all = all, .index = i % 4};
        kiln_trace_set(all->runtime, hear, &own);
        do /* at its first turn until it has heard something, however late the others get to run */
            fixture_sleep_us(50);
        while (atomic_load(&all->heard[i % 4]) == 0 && ++naps < 400000);
        if (i % 3 == 0)
            kiln_trace_set(all->runtime, hear, &own); /* the same again */
        kiln_trace_set(all->runtime, NULL, NULL);
        atomic_store(&own.gone, true); /* nobody may call it now, so it may go */
    }
    atomic_store(&all->stop, 1);
}

static void test_set_and_taken_away_at_work(void **state)
{
    (void)state;
    listening all = {.runtime = fixture_open("plugins: [alpha]")};
    fixture_threads(4, call_or_change, &all);
    assert_int_equal(all.late, 0);
    for (int i = 0; i < 4; i++)
        assert_true(all.heard[i] > 0);
    kiln_runtime_close(all.runtime);
}

/* A listener may itself use the runtime. */
static void call_inside(void *context, const kiln_trace_event *event)
{
    kiln_runtime *runtime = context;
    float x = 1, y = 0;
    kiln_tensor from = kiln_vector(KILN_F32, &x, 1), to = kiln_vector(KILN_F32, &y, 1);
    if (event->kind == KILN_TRACE_RUN)
        kiln_copy(NULL, runtime, &to, &from);
}

static void test_listener_that_calls(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    acme_axpy_desc desc = {{sizeof desc, 0}, 0, KILN_F32, 0};
    acme_axpy_args args = {.head = {sizeof args, 0, NULL}};
    assert_ok(kiln_trace_set(runtime, call_inside, runtime));
    assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head));
    assert_ok(kiln_trace_set(runtime, NULL, NULL));
    kiln_runtime_close(runtime);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_told),
        TEST(test_set_and_taken_away_at_work),
        TEST(test_listener_that_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
