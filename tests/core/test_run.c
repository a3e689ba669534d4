/* SPDX-License-Identifier: Apache-2.0 */
/* Running plans on host memory: a vendor's own operator, streams, shares, workspaces. */
#include "tests/core/fake_backend.h"
#include "tests/core/fixture.h"

#include <stdio.h>
#include <stdlib.h>

enum { ALPHA, BETA, GAMMA };

/* ---- A vendor's own operator ---- */

static void test_vendor_operator(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    float x[10], y[10];
    for (int i = 0; i < 10; i++) {
        x[i] = (float)i;
        y[i] = 100;
    }
    acme_axpy_desc desc = {{sizeof desc, 0}, 10, KILN_F32, 0};
    kiln_tensor tensors[] = {kiln_vector(KILN_F32, x, 10), kiln_vector(KILN_F32, y, 10)};
    acme_axpy_args args = {{sizeof args, 2, tensors}, 0.5};
    assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head));
    for (int i = 0; i < 10; i++)
        assert_true(y[i] == 100 + 0.5f * (float)i);
    kiln_plan *plan;
    assert_ok(kiln_plan_create(runtime, ACME_AXPY, &desc.head, NULL, &plan));
    assert_ok(kiln_plan_schedule(plan, NULL, &args.head));
    assert_int_equal(fake_backends[ALPHA].schedules, 1);
    kiln_stream *stream;
    assert_ok(kiln_stream_create(kiln_device_at(runtime, 0), &stream));
    assert_ok(kiln_plan_run(plan, stream, &args.head));
    args.alpha = 1e9; /* the arguments were copied */
    memset(tensors, 0, sizeof tensors);
    assert_ok(kiln_stream_wait(stream));
    assert_true(y[9] == 109);
    assert_int_equal(fake_backends[ALPHA].runs, 2);
    kiln_args_head wrong = {sizeof wrong, 33, tensors};
    assert_fails(kiln_plan_run(plan, NULL, &wrong), KILN_INVALID, "33 tensors");
    assert_fails(kiln_plan_schedule(plan, NULL, &wrong), KILN_INVALID, "33 tensors");
    assert_fails(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &wrong), KILN_INVALID,
                 "33 tensors");
    wrong = (kiln_args_head){sizeof wrong, 2, NULL};
    assert_fails(kiln_plan_run(plan, NULL, &wrong), KILN_INVALID, "2 tensors");
    wrong = (kiln_args_head){8, 0, NULL};
    assert_fails(kiln_plan_run(plan, NULL, &wrong), KILN_INVALID, "8 bytes");
    wrong = (kiln_args_head){0xfffffff0u, 0, NULL};
    assert_fails(kiln_plan_run(plan, stream, &wrong), KILN_INVALID, "bytes");
    kiln_stream_destroy(stream);
    kiln_plan_release(plan);
    kiln_runtime_close(runtime);
}

static void test_failing_run(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    acme_axpy_desc desc = {{sizeof desc, 0}, 0, KILN_F32, 0};
    acme_axpy_args args = {.head = {sizeof args, 0, NULL}};
    kiln_plan *plan;
    assert_ok(kiln_plan_create(runtime, ACME_AXPY, &desc.head, NULL, &plan));
    kiln_stream *stream;
    assert_ok(kiln_stream_create(kiln_device_at(runtime, 0), &stream));
    for (int faults = 0; faults < 2; faults++) {
        kiln_status status = faults ? KILN_IO : KILN_CAPACITY;
        fake_backends[ALPHA].run_status = status;
        assert_fails(kiln_plan_run(plan, NULL, &args.head), status, "alpha cannot run");
        assert_ok(kiln_plan_run(plan, stream, &args.head));
        assert_fails(kiln_stream_wait(stream), status, "alpha cannot run");
        fake_backends[ALPHA].run_status = KILN_OK;
        int64_t runs = fake_backends[ALPHA].runs;
        assert_ok(kiln_plan_run(plan, stream, &args.head));
        /* A capacity that was exceeded is said once; behind a fault nothing runs. */
        if (faults)
            assert_fails(kiln_stream_wait(stream), status, "alpha cannot run");
        else
            assert_ok(kiln_stream_wait(stream));
        assert_int_equal(fake_backends[ALPHA].runs, faults ? runs : runs + 1);
    }
    kiln_stream_destroy(stream);
    kiln_plan_release(plan);
    kiln_runtime_close(runtime);
}

/* ---- Shares, workspaces ---- */

static void test_run_in_parts(void **state)
{
    (void)state;
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    acme_axpy_desc desc = {{sizeof desc, 0}, 0, KILN_F32, 0};
    acme_axpy_args args = {.head = {sizeof args, 0, NULL}};
    kiln_plan *plan;
    assert_ok(kiln_plan_create(runtime, ACME_AXPY, &desc.head, NULL, &plan));
    assert_ok(kiln_plan_run_part(plan, 2, 3, &args.head));
    assert_int_equal(fake_backends[ALPHA].part, 2);
    assert_int_equal(fake_backends[ALPHA].parts, 3);
    assert_ok(kiln_plan_run(plan, NULL, &args.head));
    assert_int_equal(fake_backends[ALPHA].parts, 0);
    static const int64_t wrong[][2] = {{0, 0}, {-1, 2}, {2, 2}, {0, -1}};
    for (int64_t i = 0; i < COUNT(wrong); i++)
        assert_fails(kiln_plan_run_part(plan, wrong[i][0], wrong[i][1], &args.head), KILN_INVALID,
                     "part");
    kiln_plan_release(plan);
    kiln_runtime_close(runtime);
}

typedef struct sharing {
    kiln_plan *plan;
    _Atomic int64_t failures;
} sharing;

static void run_often(void *argument, int64_t index)
{
    sharing *shared = argument;
    acme_axpy_args args = {.head = {sizeof args, 0, NULL}};
    for (int64_t i = 0; i < 20; i++)
        if ((index % 2 ? kiln_plan_run(shared->plan, NULL, &args.head)
                       : kiln_plan_run_part(shared->plan, 0, 1, &args.head)))
            atomic_fetch_add(&shared->failures, 1);
}

/* Concurrent runs of one plan never share a workspace; small ones and large ones. */
static void test_workspaces_are_not_shared(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 100, 5000, 5 << 20};
    kiln_runtime *runtime = fixture_open("plugins: [alpha]");
    for (int64_t i = 0; i < COUNT(sizes); i++) {
        fake_backends[ALPHA].workspace_bytes = sizes[i];
        acme_axpy_desc desc = {{sizeof desc, 0}, 0, KILN_F32, (uint32_t)i};
        sharing shared = {0};
        assert_ok(kiln_plan_create(runtime, ACME_AXPY, &desc.head, NULL, &shared.plan));
        fixture_threads(6, run_often, &shared);
        assert_int_equal(shared.failures, 0);
        kiln_plan_release(shared.plan);
    }
    kiln_runtime_close(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_BACKEND_TEST(test_vendor_operator),
        FAKE_BACKEND_TEST(test_failing_run),
        FAKE_BACKEND_TEST(test_run_in_parts),
        FAKE_BACKEND_TEST(test_workspaces_are_not_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
