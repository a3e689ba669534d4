/* SPDX-License-Identifier: Apache-2.0 */
/* Host tensors for a device that cannot address them: refused unless somebody allows copies; then
 * what is copied, in which bounds, and who is told. Workspaces and queued runs on a device. */
#include "tests/core/fake_device.h"
#include "tests/core/fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static kiln_runtime *runtime;

static void open_with(const char *profile)
{
    char text[512];
    snprintf(text, sizeof text, "plugins: [fake]\n%s", profile);
    runtime = fixture_open(text);
}

static int close_runtime(void **state)
{
    kiln_runtime_close(runtime);
    runtime = NULL;
    return fake_device_tear_down(state);
}

/* Staging events. */
typedef struct seen {
    pthread_mutex_t mutex;
    int64_t in, out, in_bytes, out_bytes, last_in;
} seen;

static void watch(void *context, const kiln_trace_event *event)
{
    seen *own = context;
    if (event->kind != KILN_TRACE_STAGE)
        return;
    pthread_mutex_lock(&own->mutex);
    bool in = strcmp(event->text, "to the device") == 0;
    *(in ? &own->in : &own->out) += 1;
    *(in ? &own->in_bytes : &own->out_bytes) += event->bytes;
    own->last_in = in ? event->bytes : own->last_in;
    pthread_mutex_unlock(&own->mutex);
}

/* D = A B for 2×3 by 3×2, with gaps behind the rows of D. */
typedef struct product {
    kiln_gemm_desc desc;
    kiln_gemm_args args;
    kiln_tensor tensors[4];
    float a[6], b[6], c[4], d[8];
} product;

static void make_product(product *p)
{
    *p = (product){.desc = {.head = {.struct_size = sizeof p->desc},
                            .m = 2,
                            .n = 2,
                            .k = 3,
                            .a_type = KILN_F32,
                            .b_type = KILN_F32,
                            .c_type = KILN_F32,
                            .d_type = KILN_F32},
                   .a = {1, 2, 3, 4, 5, 6},
                   .b = {1, 0, 0, 1, 1, 1},
                   .c = {10, 20, 30, 40},
                   .d = {-1, -1, -1, -1, -1, -1, -1, -1}};
    p->tensors[KILN_GEMM_A] = kiln_matrix(KILN_F32, p->a, 2, 3, 3);
    p->tensors[KILN_GEMM_B] = kiln_matrix(KILN_F32, p->b, 3, 2, 2);
    p->tensors[KILN_GEMM_C] = kiln_matrix(KILN_F32, p->c, 2, 2, 2);
    p->tensors[KILN_GEMM_D] = kiln_matrix(KILN_F32, p->d, 2, 2, 4);
    p->args = (kiln_gemm_args){{sizeof p->args, 4, p->tensors}, 1, 0};
}

static void assert_product(const product *p, float offset)
{
    const float expected[8] = {4 + offset * 10,  5 + offset * 20,  -1, -1,
                               10 + offset * 30, 11 + offset * 40, -1, -1};
    for (int i = 0; i < 8; i++)
        assert_true(p->d[i] == expected[i]);
}

static kiln_plan *create(product *p, uint32_t staging)
{
    kiln_plan_options options = {.struct_size = sizeof options, .staging = staging};
    kiln_plan *plan = NULL;
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, &p->desc.head, &options, &plan));
    return plan;
}

/* ---- Who allows it ---- */

static void test_refused_by_default(void **state)
{
    (void)state;
    product p;
    make_product(&p);
    open_with("");
    kiln_plan *plan;
    assert_fails(
        kiln_plan_create(runtime, KILN_GEMM, &p.desc.head, NULL, &plan), KILN_UNSUPPORTED,
        "the tensors are in host memory; place them on fake:0, or set staging.policy: allow");
    assert_fails(kiln_call(runtime, KILN_GEMM, &p.desc.head, NULL, &p.args.head), KILN_UNSUPPORTED,
                 "host memory");
    kiln_plan_release(create(&p, KILN_STAGING_ALLOW)); /* the call may allow it */
    close_runtime(NULL);
    open_with("staging: {policy: allow}");
    kiln_plan_options options = {.struct_size = sizeof options, .staging = KILN_STAGING_DENY};
    assert_fails(kiln_plan_create(runtime, KILN_GEMM, &p.desc.head, &options, &plan),
                 KILN_UNSUPPORTED, "host memory");
    assert_ok(kiln_call(runtime, KILN_GEMM, &p.desc.head, NULL, &p.args.head));
    assert_product(&p, 0);
}

static void test_staged_to_the_default_device(void **state)
{
    (void)state;
    open_with("staging: {policy: allow}\ndevices: {default: 'fake:1'}");
    product p;
    make_product(&p);
    kiln_plan *plan = create(&p, KILN_STAGING_PROFILE);
    kiln_plan_info info = {.struct_size = sizeof info};
    assert_ok(kiln_plan_get_info(plan, &info));
    assert_string_equal(info.device, "fake:1");
    assert_int_equal(info.staged, 1);
    assert_says(info.reason, "with staging");
    assert_fails(kiln_plan_run_part(plan, 0, 1, &p.args.head), KILN_UNSUPPORTED,
                 "cannot be run in parts");
    kiln_plan_release(plan);
}

/* ---- What is copied ---- */

static void test_staged_results_and_bytes(void **state)
{
    (void)state;
    open_with("staging: {policy: allow}");
    product p;
    seen own = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    assert_ok(kiln_trace_set(runtime, watch, &own));
    make_product(&p);
    kiln_plan *plan = create(&p, KILN_STAGING_PROFILE);
    assert_ok(kiln_plan_run(plan, NULL, &p.args.head));
    assert_product(&p, 0);       /* and the gaps are as they were */
    assert_int_equal(own.in, 2); /* A and B; C is not read */
    assert_int_equal(own.in_bytes, 48);
    assert_int_equal(own.out, 1);
    assert_int_equal(own.out_bytes, 16);
    make_product(&p);
    p.args.beta = 1;
    assert_ok(kiln_plan_run(plan, NULL, &p.args.head));
    assert_product(&p, 1);
    assert_int_equal(own.in, 5);
    assert_int_equal(own.out, 2);
    p.tensors[KILN_GEMM_C] = p.tensors[KILN_GEMM_D]; /* in place */
    p.args.beta = 2;
    assert_ok(kiln_plan_run(plan, NULL, &p.args.head));
    assert_true(p.d[0] == 4 + 2 * 14 && p.d[2] == -1);
    p.args.beta = 0; /* C is not even looked at */
    p.tensors[KILN_GEMM_C].shape[0] = -7;
    p.tensors[KILN_GEMM_C].data = (void *)1;
    assert_ok(kiln_plan_run(plan, NULL, &p.args.head));
    assert_product(&p, 0);
    kiln_plan_release(plan);
    assert_ok(kiln_trace_set(runtime, NULL, NULL));
}

/* Without K neither A nor B is there, but their shapes are. */
static void test_staged_without_k(void **state)
{
    (void)state;
    open_with("staging: {policy: allow}");
    product p;
    make_product(&p);
    p.desc.k = p.tensors[KILN_GEMM_A].shape[1] = p.tensors[KILN_GEMM_B].shape[0] = 0;
    p.tensors[KILN_GEMM_A].data = p.tensors[KILN_GEMM_B].data = NULL;
    p.args.beta = 1;
    assert_ok(kiln_call(runtime, KILN_GEMM, &p.desc.head, NULL, &p.args.head));
    assert_true(p.d[0] == 10 && p.d[1] == 20 && p.d[4] == 30 && p.d[5] == 40);
}

/* A promise of alignment holds for the copy, too: its rows are padded. */
static void test_promised_alignment_is_kept(void **state)
{
    (void)state;
    open_with("staging: {policy: allow}");
    _Alignas(64) float a[32] = {0}, b[48], d[32];
    product p;
    make_product(&p);
    p.desc.a_alignment = p.desc.b_alignment = p.desc.d_alignment = 64;
    memcpy(a, p.a, 12);
    memcpy(a + 16, p.a + 3, 12);
    for (int i = 0; i < 3; i++)
        memcpy(b + 16 * i, p.b + 2 * i, 8);
    p.tensors[KILN_GEMM_A] = kiln_matrix(KILN_F32, a, 2, 3, 16);
    p.tensors[KILN_GEMM_B] = kiln_matrix(KILN_F32, b, 3, 2, 16);
    p.tensors[KILN_GEMM_D] = kiln_matrix(KILN_F32, d, 2, 2, 16);
    seen own = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    assert_ok(kiln_trace_set(runtime, watch, &own));
    assert_ok(kiln_call(runtime, KILN_GEMM, &p.desc.head, NULL, &p.args.head));
    assert_true(d[0] == 4 && d[1] == 5 && d[16] == 10 && d[17] == 11);
    assert_int_equal(own.in_bytes, 48); /* without the padding */
    assert_ok(kiln_trace_set(runtime, NULL, NULL));
}

/* Two groups of three rows, of which one and two count, in e4m3 and i8 with scales and zero points;
 * i8 results, their scales, and the sums over the rows. */
typedef struct grouped {
    kiln_gemm_desc desc;
    kiln_gemm_args args;
    kiln_tensor tensors[KILN_GEMM_SLOTS], a_scale, b_scale, b_zero;
    uint8_t a[12];
    int8_t b[8], b_zeros[2], d[24];
    float a_scales[12], b_scales[1], sums[2], d_scales[12];
    int32_t counts[2];
} grouped;

static void make_grouped(grouped *p)
{
    *p = (grouped){.desc = {.head = {.struct_size = sizeof p->desc},
                            .m = 3,
                            .n = 2,
                            .k = 2,
                            .a_type = KILN_E4M3,
                            .b_type = KILN_I8,
                            .d_type = KILN_I8,
                            .grouping = KILN_GROUPING_MASKED,
                            .groups = 2,
                            .a_quantization = {KILN_F32, KILN_TYPE_NONE, {1, 1}},
                            .b_quantization = {KILN_F32, KILN_I8, {-1, 1}},
                            .d_quantization = {KILN_F32, KILN_TYPE_NONE, {1, 1}},
                            .epilogue_count = 2,
                            .epilogues = {{.kind = KILN_EPILOGUE_BIAS_GRADIENT, .type = KILN_F32},
                                          {.kind = KILN_EPILOGUE_QUANTIZE}}},
                   .b = {4, 5, 6, 7, 8, 9, 10, 11},
                   .b_zeros = {3, 2},
                   .b_scales = {2},
                   .sums = {-1, -1},
                   .counts = {1, 2}};
    memset(p->d, -1, sizeof p->d);
    for (int i = 0; i < 12; i++) {
        p->a[i] = kiln_e4m3_from_f64(1, 0);
        p->a_scales[i] = (float)(i % 5 + 1);
        p->d_scales[i] = -1;
    }
    p->tensors[KILN_GEMM_A] = kiln_tensor_host(KILN_E4M3, p->a, 3, (const int64_t[]){2, 3, 2});
    p->tensors[KILN_GEMM_B] = kiln_tensor_host(KILN_I8, p->b, 3, (const int64_t[]){2, 2, 2});
    p->tensors[KILN_GEMM_D] = kiln_tensor_host(KILN_I8, p->d, 3, (const int64_t[]){2, 3, 2});
    p->tensors[KILN_GEMM_D].strides[0] = 12; /* with gaps */
    p->tensors[KILN_GEMM_D].strides[1] = 4;
    p->a_scale = kiln_tensor_host(KILN_F32, p->a_scales, 3, (const int64_t[]){2, 3, 2});
    p->b_scale = kiln_matrix(KILN_F32, p->b_scales, 1, 2, 1);
    p->b_scale.strides[1] = 0; /* the same for both columns */
    p->b_zero = kiln_matrix(KILN_I8, p->b_zeros, 1, 2, 2);
    p->tensors[KILN_GEMM_A].scale = &p->a_scale;
    p->tensors[KILN_GEMM_B].scale = &p->b_scale;
    p->tensors[KILN_GEMM_B].zero_point = &p->b_zero;
    p->tensors[KILN_GEMM_A].scale_block[0] = p->tensors[KILN_GEMM_A].scale_block[1] = 1;
    p->tensors[KILN_GEMM_B].scale_block[1] = 1;
    p->tensors[KILN_GEMM_OPERAND] = kiln_vector(KILN_F32, p->sums, 2);
    p->tensors[KILN_GEMM_GROUPS] = kiln_vector(KILN_I32, p->counts, 2);
    kiln_tensor *scale = &p->tensors[KILN_GEMM_D_SCALE]; /* columns contiguous */
    *scale = kiln_tensor_host(KILN_F32, p->d_scales, 3, (const int64_t[]){2, 3, 2});
    scale->strides[1] = 1;
    scale->strides[2] = 3;
    p->args = (kiln_gemm_args){{sizeof p->args, KILN_GEMM_SLOTS, p->tensors}, 1, 0};
}

/* What the rows that count give, and that all others are as they were. */
static void assert_grouped(const grouped *p)
{
    float sums[2] = {0, 0};
    for (int g = 0; g < 2; g++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 4; j++) {
                float value = 0;
                bool counts = i < p->counts[g] && j < 2;
                for (int l = 0; l < 2 && counts; l++)
                    value += p->a_scales[g * 6 + i * 2 + l] *
                             (float)(p->b[g * 4 + l * 2 + j] - p->b_zeros[j]) * 2;
                assert_int_equal(p->d[g * 12 + i * 4 + j], counts ? (int)value / 2 : -1);
                if (j < 2) {
                    assert_true(p->d_scales[g * 6 + j * 3 + i] == (counts ? 2 : -1));
                    sums[j] += value;
                }
            }
    assert_true(p->sums[0] == sums[0] && p->sums[1] == sums[1]);
}

static void test_staged_groups_and_scales(void **state)
{
    (void)state;
    open_with("staging: {policy: allow}");
    grouped p;
    seen own = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    assert_ok(kiln_trace_set(runtime, watch, &own));
    make_grouped(&p);
    assert_ok(kiln_call(runtime, KILN_GEMM, &p.desc.head, NULL, &p.args.head));
    assert_grouped(&p);
    /* A, B and what scales them, GROUPS, and D and D_SCALE for the rows that are left out; back
     * come D, the sums, D_SCALE. */
    assert_int_equal(own.in, 8);
    assert_int_equal(own.out, 3);
    assert_ok(kiln_trace_set(runtime, NULL, NULL));
    /* On a stream everything is copied with the arguments. */
    kiln_stream *stream;
    assert_ok(kiln_stream_create(kiln_device_at(runtime, 0), &stream));
    make_grouped(&p);
    assert_ok(kiln_call(runtime, KILN_GEMM, &p.desc.head, stream, &p.args.head));
    memset(p.tensors, -1, sizeof p.tensors);
    memset(&p.a_scale, -1, sizeof p.a_scale);
    memset(&p.b_scale, -1, sizeof p.b_scale);
    memset(&p.b_zero, -1, sizeof p.b_zero);
    assert_ok(kiln_stream_wait(stream));
    assert_grouped(&p);
    kiln_stream_destroy(stream);
    /* Beyond its capacity a run does what lies within, and says so. */
    make_grouped(&p);
    p.counts[0] = 4;
    assert_fails(kiln_call(runtime, KILN_GEMM, &p.desc.head, NULL, &p.args.head), KILN_CAPACITY,
                 "too many rows");
    assert_grouped(&p);
    /* With alpha 0 nobody reads A and B, nor what scales them. */
    make_grouped(&p);
    p.args.alpha = 0;
    own = (seen){.mutex = PTHREAD_MUTEX_INITIALIZER};
    assert_ok(kiln_trace_set(runtime, watch, &own));
    assert_ok(kiln_call(runtime, KILN_GEMM, &p.desc.head, NULL, &p.args.head));
    assert_int_equal(own.in, 3);
    assert_true(p.d[0] == 0 && p.d[4] == -1 && p.sums[0] == 0 && p.d_scales[0] == 2);
    assert_ok(kiln_trace_set(runtime, NULL, NULL));
}

/* Sums of no rows are 0, though D has no elements. */
static void test_staged_without_rows(void **state)
{
    (void)state;
    open_with("staging: {policy: allow}");
    grouped p;
    make_grouped(&p);
    p.desc.m = 0;
    static const int slots[] = {KILN_GEMM_A, KILN_GEMM_D, KILN_GEMM_D_SCALE};
    for (int i = 0; i < 3; i++) {
        p.tensors[slots[i]].shape[1] = 0;
        p.tensors[slots[i]].data = NULL;
    }
    p.a_scale.shape[1] = 0;
    p.a_scale.data = NULL;
    p.counts[0] = p.counts[1] = 0;
    assert_ok(kiln_call(runtime, KILN_GEMM, &p.desc.head, NULL, &p.args.head));
    assert_true(p.sums[0] == 0 && p.sums[1] == 0);
}

/* y is read and written: it must go there and come back. */
static void test_vendor_operator_in_place(void **state)
{
    (void)state;
    open_with("staging: {policy: allow}");
    float x[3] = {1, 2, 3}, y[3] = {100, 100, 100};
    acme_axpy_desc desc = {{sizeof desc, 0}, 3, KILN_F32, 0};
    kiln_tensor tensors[] = {kiln_vector(KILN_F32, x, 3), kiln_vector(KILN_F32, y, 3)};
    acme_axpy_args args = {{sizeof args, 2, tensors}, 2};
    assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head));
    assert_true(y[0] == 102 && y[1] == 104 && y[2] == 106);
    tensors[0].rank = 9;
    assert_fails(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head), KILN_INVALID,
                 "rank 9");
    tensors[0].rank = 1;
    tensors[1].layout = KILN_LAYOUT_PACKED;
    assert_fails(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head), KILN_UNSUPPORTED,
                 "packed");
    tensors[1].layout = KILN_LAYOUT_STRIDED;
    args.alpha = (double)NAN;
    assert_fails(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head), KILN_FAULT, "alpha");
    args.alpha = 1;
    assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head));
    assert_true(y[2] == 109);
}

/* An operator that does not say what it writes cannot be staged: its results would be lost. */
static void test_vendor_operator_without_outputs(void **state)
{
    (void)state;
    open_with("staging: {policy: allow}\noptions: {fake: {omit: outputs}}");
    float x[3] = {1, 2, 3}, y[3] = {100, 100, 100};
    acme_axpy_desc desc = {{sizeof desc, 0}, 3, KILN_F32, 0};
    kiln_tensor tensors[] = {kiln_vector(KILN_F32, x, 3), kiln_vector(KILN_F32, y, 3)};
    acme_axpy_args args = {{sizeof args, 2, tensors}, 2};
    assert_fails(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head), KILN_UNSUPPORTED,
                 "does not say which of them it writes");
}

/* ---- Bounds ---- */

static void test_the_pool_is_bounded(void **state)
{
    (void)state;
    open_with("staging: {policy: allow, pool_bytes: 1MiB}");
    int64_t large = 300000; /* 1.2 MB */
    float *x = calloc((size_t)large, sizeof *x), *y = calloc((size_t)large, sizeof *y);
    assert_true(x && y);
    acme_axpy_desc desc = {{sizeof desc, 0}, 1, KILN_F32, 0};
    kiln_tensor tensors[] = {kiln_vector(KILN_F32, x, large), kiln_vector(KILN_F32, y, 1)};
    acme_axpy_args args = {{sizeof args, 2, tensors}, 2};
    assert_fails(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head), KILN_NO_MEMORY,
                 "raise staging.pool_bytes");
    tensors[0].shape[0] = 200000; /* fits alone, but not both */
    tensors[1].shape[0] = 200000;
    assert_fails(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head), KILN_NO_MEMORY,
                 "of the pool's 1048576 bytes are in ");
    /* Sizes that change all the time: idle blocks make room. */
    for (int64_t size = 100000; size > 1000; size -= 7000) {
        tensors[0].shape[0] = tensors[1].shape[0] = size;
        assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head));
        tensors[1].shape[0] = 3;
        assert_ok(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head));
    }
    /* A view that is small in memory and huge in shape. */
    tensors[0] = kiln_matrix(KILN_F32, x, (int64_t)1 << 40, (int64_t)1 << 40, 0);
    tensors[0].strides[1] = 0;
    assert_fails(kiln_call(runtime, ACME_AXPY, &desc.head, NULL, &args.head), KILN_INVALID, "2^60");
    free(x);
    free(y);
}

static void test_blocks_are_used_again(void **state)
{
    (void)state;
    open_with("staging: {policy: allow}");
    product p;
    make_product(&p);
    kiln_plan *plan = create(&p, KILN_STAGING_PROFILE);
    assert_ok(kiln_plan_run(plan, NULL, &p.args.head));
    int64_t alive = fake_device_counted.memories;
    for (int i = 0; i < 20; i++)
        assert_ok(kiln_plan_run(plan, NULL, &p.args.head));
    assert_int_equal(fake_device_counted.memories, alive);
    kiln_plan_release(plan);
}

/* ---- On streams and in threads ---- */

static void test_staged_runs_on_a_host_stream(void **state)
{
    (void)state;
    open_with("staging: {policy: allow}\noptions: {fake: {delay_us: 200}}");
    product p[20];
    kiln_stream *stream, *wrong;
    assert_ok(kiln_stream_create(kiln_device_at(runtime, 0), &stream));
    assert_ok(kiln_stream_create(kiln_device_at(runtime, 1), &wrong));
    for (int i = 0; i < 20; i++) {
        make_product(&p[i]);
        kiln_plan *plan = create(&p[i], KILN_STAGING_PROFILE);
        if (i == 0)
            assert_fails(kiln_plan_run(plan, wrong, &p[i].args.head), KILN_INVALID,
                         "use a stream of that device");
        assert_ok(kiln_plan_run(plan, stream, &p[i].args.head));
        kiln_plan_release(plan);
    }
    assert_ok(kiln_stream_wait(stream));
    for (int i = 0; i < 20; i++)
        assert_product(&p[i], 0);
    kiln_stream_destroy(stream);
    kiln_stream_destroy(wrong);
}

static void stage_often(void *argument, int64_t index)
{
    (void)index;
    product p;
    for (int i = 0; i < 30; i++) {
        make_product(&p);
        if (kiln_call(runtime, KILN_GEMM, &p.desc.head, NULL, &p.args.head) != KILN_OK ||
            p.d[5] != 11)
            atomic_fetch_add((_Atomic int64_t *)argument, 1);
    }
}

static void test_staged_runs_from_many_threads(void **state)
{
    (void)state;
    _Atomic int64_t failures = 0;
    open_with("staging: {policy: allow}");
    fixture_threads(6, stage_often, &failures);
    assert_int_equal(failures, 0);
}

/* ---- Runs on the device itself ---- */

/* More queued runs than a stream keeps records for; plan, workspace and buffers are released while
 * they wait. */
static void test_queued_runs_hold_what_they_need(void **state)
{
    (void)state;
    open_with("options: {fake: {delay_us: 200, workspace: 4096}}");
    kiln_device *device = kiln_device_at(runtime, 1);
    enum { RUNS = 150 };
    float x[4] = {1, 1, 1, 1}, y[4] = {0};
    kiln_stream *stream;
    kiln_buffer *sum;
    assert_ok(kiln_stream_create(device, &stream));
    assert_ok(kiln_buffer_alloc(device, KILN_SPACE_DEVICE, 16, &sum));
    kiln_tensor source = kiln_vector(KILN_F32, x, 4), sink = kiln_vector(KILN_F32, y, 4),
                tensors[2] = {source, source};
    tensors[1].buffer = sum;
    tensors[1].data = NULL;
    assert_ok(kiln_copy(stream, runtime, &tensors[1], &sink));
    for (int i = 0; i < RUNS; i++) {
        acme_axpy_desc desc = {{sizeof desc, 0}, 4, KILN_F32, (uint32_t)i % 5};
        kiln_plan_options options = {
            .struct_size = sizeof options, .device = device, .parent = &options};
        kiln_plan *plan;
        kiln_buffer *one;
        assert_ok(kiln_plan_create(runtime, ACME_AXPY, &desc.head, &options, &plan));
        assert_ok(kiln_buffer_alloc(device, KILN_SPACE_DEVICE, 16, &one));
        tensors[0].buffer = one;
        tensors[0].data = NULL;
        assert_ok(kiln_copy(stream, runtime, &tensors[0], &source));
        acme_axpy_args args = {{sizeof args, 2, tensors}, 1};
        assert_ok(kiln_plan_run(plan, stream, &args.head));
        kiln_buffer_release(one);
        kiln_plan_release(plan);
    }
    assert_int_equal(fake_device_counted.workspaces, 1); /* the stream's own, again and again */
    tensors[1].buffer = sum;
    assert_ok(kiln_copy(stream, runtime, &sink, &tensors[1]));
    assert_ok(kiln_stream_wait(stream));
    for (int i = 0; i < 4; i++)
        assert_true(y[i] == RUNS);
    kiln_buffer_release(sum);
    kiln_stream_destroy(stream);
}

static void test_tensors_on_the_wrong_device(void **state)
{
    (void)state;
    open_with("");
    product p;
    make_product(&p);
    kiln_plan_options options = {.struct_size = sizeof options,
                                 .device = kiln_device_at(runtime, 1)};
    kiln_plan *plan;
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, &p.desc.head, &options, &plan));
    assert_fails(kiln_plan_run(plan, NULL, &p.args.head), KILN_INVALID,
                 "D lives on host, but the plan was made for fake:0");
    kiln_buffer *buffers[4];
    for (int i = 0; i < 4; i++) {
        kiln_tensor host = p.tensors[i];
        assert_ok(kiln_buffer_alloc(kiln_device_at(runtime, i == KILN_GEMM_B ? 2 : 1),
                                    KILN_SPACE_DEVICE, 64, &buffers[i]));
        p.tensors[i].buffer = buffers[i];
        p.tensors[i].data = NULL;
        assert_ok(kiln_copy(NULL, runtime, &p.tensors[i], &host));
    }
    assert_fails(kiln_plan_run(plan, NULL, &p.args.head), KILN_INVALID, "B lives on fake:1");
    kiln_buffer *moved;
    assert_ok(kiln_buffer_alloc(kiln_device_at(runtime, 1), KILN_SPACE_DEVICE, 64, &moved));
    kiln_tensor remote = p.tensors[KILN_GEMM_B], sink = kiln_matrix(KILN_F32, p.d, 2, 2, 4);
    p.tensors[KILN_GEMM_B].buffer = moved;
    assert_ok(kiln_copy(NULL, runtime, &p.tensors[KILN_GEMM_B], &remote));
    assert_ok(kiln_plan_run(plan, NULL, &p.args.head));
    assert_ok(kiln_copy(NULL, runtime, &sink, &p.tensors[KILN_GEMM_D]));
    assert_product(&p, 0);
    for (int i = 0; i < 4; i++)
        kiln_buffer_release(buffers[i]);
    kiln_buffer_release(moved);
    kiln_plan_release(plan);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_device_set_up, close_runtime)
    const struct CMUnitTest tests[] = {
        TEST(test_refused_by_default),
        TEST(test_staged_to_the_default_device),
        TEST(test_staged_results_and_bytes),
        TEST(test_staged_without_k),
        TEST(test_promised_alignment_is_kept),
        TEST(test_staged_groups_and_scales),
        TEST(test_staged_without_rows),
        TEST(test_vendor_operator_in_place),
        TEST(test_vendor_operator_without_outputs),
        TEST(test_the_pool_is_bounded),
        TEST(test_blocks_are_used_again),
        TEST(test_staged_runs_on_a_host_stream),
        TEST(test_staged_runs_from_many_threads),
        TEST(test_queued_runs_hold_what_they_need),
        TEST(test_tensors_on_the_wrong_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
