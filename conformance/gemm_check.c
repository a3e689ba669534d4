/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a GEMM case on one backend and judges what it wrote. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "conformance/conformance.h"
#include "conformance/lines.h"

/* A case on its way through a backend. */
typedef struct gemm_trial {
    kiln_runtime *runtime;
    kiln_device *device;
    bool host; /* the device is the host */
    conformance_gemm_case *test;
    conformance_gemm_result *result;
    kiln_plan *plan;
    kiln_stream *stream;
    kiln_tensor tensors[CONFORMANCE_GEMM_TENSORS]; /* where the backend finds them */
    kiln_buffer *buffers[CONFORMANCE_GEMM_TENSORS];
    kiln_buffer *blobs[2]; /* packed A and B */
} gemm_trial;

/* Records a failure, keeping the first; returns false, so that `return fail(…)` reads well. */
static bool fail(conformance_gemm_result *result, const char *format, ...) KILN_PRINTF(2, 3);
static bool fail(conformance_gemm_result *result, const char *format, ...)
{
    if (result->outcome == CONFORMANCE_FAILED)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->text, sizeof result->text, format, arguments);
    va_end(arguments);
    result->outcome = CONFORMANCE_FAILED;
    return false;
}

static bool succeeded(gemm_trial *trial, kiln_status status, const char *what)
{
    return status == KILN_OK || fail(trial->result, "%s failed with %s: %s", what,
                                     kiln_status_name(status), kiln_last_error());
}

static kiln_tensor bytes_of(kiln_buffer *buffer, void *memory, int64_t bytes)
{
    kiln_tensor tensor = kiln_vector(KILN_U8, memory, bytes);
    tensor.buffer = buffer;
    return tensor;
}

static bool copy_bytes(gemm_trial *trial, uint32_t slot, bool to_device)
{
    conformance_tensor *made = &trial->test->tensors[slot];
    kiln_tensor device = bytes_of(trial->buffers[slot], NULL, made->bytes);
    kiln_tensor memory = bytes_of(NULL, made->memory, made->bytes);
    return succeeded(trial,
                     kiln_copy(NULL, trial->runtime, to_device ? &device : &memory,
                               to_device ? &memory : &device),
                     "kiln_copy");
}

/* Brings a tensor with all the bytes around it to where the backend wants it. */
static bool place(gemm_trial *trial, uint32_t slot)
{
    conformance_tensor *made = &trial->test->tensors[slot];
    trial->tensors[slot] = made->tensor;
    if (!made->memory || (trial->host && !trial->test->wrapped))
        return true;
    kiln_status status = trial->host ? kiln_buffer_wrap(trial->runtime, made->memory, made->bytes,
                                                        NULL, NULL, &trial->buffers[slot])
                                     : kiln_buffer_alloc(trial->device, KILN_SPACE_DEVICE,
                                                         made->bytes, &trial->buffers[slot]);
    if (!succeeded(trial, status, "making a buffer"))
        return false;
    trial->tensors[slot].buffer = trial->buffers[slot];
    trial->tensors[slot].data = NULL;
    return trial->host || copy_bytes(trial, slot, true);
}

static bool make_plan(gemm_trial *trial, const char *backend)
{
    kiln_plan_options options = {.struct_size = sizeof options,
                                 .device = trial->device,
                                 .backend = backend,
                                 .staging = KILN_STAGING_DENY};
    kiln_plan_info info = {.struct_size = sizeof info};
    kiln_status status = kiln_plan_create(trial->runtime, KILN_GEMM, &trial->test->desc.head,
                                          &options, &trial->plan);
    if (status == KILN_UNSUPPORTED) {
        snprintf(trial->result->text, sizeof trial->result->text, "%s", kiln_last_error());
        trial->result->outcome = CONFORMANCE_DECLINED;
        return false;
    }
    if (!succeeded(trial, status, "kiln_plan_create") ||
        !succeeded(trial, kiln_plan_get_info(trial->plan, &info), "kiln_plan_get_info"))
        return false;
    if (strcmp(info.backend, backend) != 0 || info.staged)
        return fail(trial->result, "asked for backend %s, answered by %s%s", backend, info.backend,
                    info.staged ? " through staging" : "");
    trial->result->answer_flags = info.flags;
    return true;
}

/* Unpacks a blob over memory like the source's and wants the source back, gaps included. */
static bool check_unpacked(gemm_trial *trial, uint32_t slot, const kiln_tensor *packed)
{
    conformance_tensor *made = &trial->test->tensors[slot];
    if (made->tensor.rank == 3 && made->tensor.strides[0] == 0)
        return true; /* a destination cannot be broadcast */
    uint8_t *memory = aligned_alloc(64, (size_t)made->bytes);
    if (!memory)
        return fail(trial->result, "no memory to unpack into");
    memset(memory, 0xff, (size_t)made->bytes);
    kiln_tensor destination = made->tensor;
    destination.data = memory;
    bool good =
        succeeded(trial, kiln_plan_unpack(trial->plan, trial->stream, slot, packed, &destination),
                  "unpacking");
    if (good && trial->stream)
        good = succeeded(trial, kiln_stream_wait(trial->stream), "waiting for unpacking");
    if (good && memcmp(memory, made->before, (size_t)made->bytes) != 0)
        good = fail(trial->result, "operand %u comes back different from packing and unpacking",
                    (unsigned)slot);
    free(memory);
    return good;
}

/* Replaces operand A or B by its packed form. */
static bool pack(gemm_trial *trial, uint32_t slot)
{
    int64_t bytes;
    kiln_tensor packed = trial->test->tensors[slot].tensor;
    if (!succeeded(trial, kiln_plan_pack_size(trial->plan, slot, &bytes), "kiln_plan_pack_size") ||
        !succeeded(trial,
                   kiln_buffer_alloc(trial->device, KILN_SPACE_DEVICE, bytes, &trial->blobs[slot]),
                   "making a buffer"))
        return false;
    packed.buffer = trial->blobs[slot];
    packed.data = NULL;
    packed.byte_offset = 0;
    packed.layout = KILN_LAYOUT_PACKED;
    if (!succeeded(trial,
                   kiln_plan_pack(trial->plan, trial->stream, slot, &trial->tensors[slot], &packed),
                   "packing") ||
        !check_unpacked(trial, slot, &packed))
        return false;
    trial->tensors[slot] = packed;
    return true;
}

static bool run(gemm_trial *trial)
{
    conformance_gemm_case *test = trial->test;
    uint32_t flags = test->desc.head.flags;
    if (test->streamed &&
        !succeeded(trial, kiln_stream_create(trial->device, &trial->stream), "kiln_stream_create"))
        return false;
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++)
        if (!place(trial, slot))
            return false;
    if (test->aliased)
        trial->tensors[KILN_GEMM_C] = trial->tensors[KILN_GEMM_D];
    if (((flags & KILN_GEMM_PACKED_A) && !pack(trial, KILN_GEMM_A)) ||
        ((flags & KILN_GEMM_PACKED_B) && !pack(trial, KILN_GEMM_B)))
        return false;
    kiln_gemm_args args = {
        {sizeof args, CONFORMANCE_GEMM_TENSORS, trial->tensors}, test->alpha, test->beta};
    if (!succeeded(trial, kiln_plan_run(trial->plan, trial->stream, &args.head), "kiln_plan_run"))
        return false;
    if (trial->stream && !succeeded(trial, kiln_stream_wait(trial->stream), "kiln_stream_wait"))
        return false;
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++)
        if (trial->buffers[slot] && !trial->host && !copy_bytes(trial, slot, false))
            return false;
    return true;
}

/* The first device of a plugin; the host for a plugin without devices. */
static kiln_device *device_of(kiln_runtime *runtime, const char *backend)
{
    char name[48];
    kiln_device *device;
    snprintf(name, sizeof name, "%s:0", backend);
    return kiln_device_find(runtime, name, &device) == KILN_OK ? device
                                                               : kiln_device_at(runtime, 0);
}

void conformance_gemm_execute(kiln_runtime *runtime, const char *backend,
                              conformance_gemm_case *test, conformance_gemm_result *result)
{
    gemm_trial trial = {
        .runtime = runtime, .device = device_of(runtime, backend), .test = test, .result = result};
    trial.host = trial.device == kiln_device_at(runtime, 0);
    memset(result, 0, sizeof *result);
    if (make_plan(&trial, backend))
        run(&trial);
    kiln_stream_destroy(trial.stream);
    kiln_plan_release(trial.plan);
    for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++)
        kiln_buffer_release(trial.buffers[slot]);
    kiln_buffer_release(trial.blobs[0]);
    kiln_buffer_release(trial.blobs[1]);
}

/* ---- Judging ---- */

static bool ask_oracle(conformance_gemm_case *test, conformance_gemm_result *result)
{
    kiln_tensor tensors[CONFORMANCE_GEMM_TENSORS];
    size_t elements =
        (size_t)kiln_tensor_elements(&test->tensors[KILN_GEMM_D].tensor) + 1; /* never zero bytes */
    const char *reason = "no memory";
    if (test->exact)
        return true;
    for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        tensors[slot] = test->tensors[slot].tensor;
        tensors[slot].data = test->tensors[slot].before;
    }
    if (test->aliased)
        tensors[KILN_GEMM_C].data = test->tensors[KILN_GEMM_D].before;
    kiln_gemm_args args = {
        {sizeof args, CONFORMANCE_GEMM_TENSORS, tensors}, test->alpha, test->beta};
    test->exact = calloc(elements, sizeof(double));
    test->bound = calloc(elements, sizeof(double));
    kiln_status status = KILN_NO_MEMORY;
    if (test->exact && test->bound)
        status = conformance_gemm_oracle(&test->desc, &args, result->answer_flags, test->exact,
                                         test->bound, &reason);
    if (status == KILN_OK)
        return true;
    free(test->exact);
    free(test->bound);
    test->exact = test->bound = NULL;
    return fail(result, "the oracle failed with %s: %s", kiln_status_name(status), reason);
}

/* Nothing but D's elements may have changed. */
static bool check_bytes(const conformance_gemm_case *test, conformance_gemm_result *result)
{
    for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        const conformance_tensor *made = &test->tensors[slot];
        if (made->memory && slot != KILN_GEMM_D &&
            memcmp(made->memory, made->before, (size_t)made->bytes) != 0)
            return fail(result, "input tensor %d has been written to", slot);
    }
    const conformance_tensor *d = &test->tensors[KILN_GEMM_D];
    uint8_t *allowed = malloc((size_t)d->bytes);
    if (!allowed)
        return fail(result, "no memory to compare bytes");
    memcpy(allowed, d->before, (size_t)d->bytes);
    size_t line_bytes =
        (size_t)(conformance_line_elements(&d->tensor) * kiln_type_bits(d->tensor.type) / 8);
    for (int64_t line = 0; line < conformance_line_count(&d->tensor); line++)
        memcpy(conformance_line(&d->tensor, allowed, line),
               conformance_line(&d->tensor, d->memory, line), line_bytes);
    int64_t at = 0;
    while (at < d->bytes && allowed[at] == d->memory[at])
        at++;
    free(allowed);
    return at == d->bytes ||
           fail(result, "byte %lld of D's memory, which is no element, has been written to",
                (long long)(at - d->tensor.byte_offset));
}

/* Sums for the global measure. */
typedef struct global_sums {
    double products, squares;
} global_sums;

static void judge_element(const conformance_gemm_case *test, int64_t element, double measured,
                          global_sums *sums, conformance_gemm_result *result)
{
    double exact = test->exact[element], bound = test->bound[element];
    double ratio = conformance_gemm_ratio(
        test->desc.d_type, test->desc.head.flags & KILN_GEMM_SATURATE, exact, bound, measured);
    result->elements++;
    result->unbounded += isinf(bound) != 0;
    if (isfinite(measured) && fabs(exact) >= 64 * bound && isfinite(exact)) {
        sums->products += exact * measured;
        sums->squares += exact * exact + measured * measured;
    }
    if (ratio > result->largest_ratio)
        result->largest_ratio = ratio;
    if (ratio > 1)
        fail(
            result,
            "D[%lld, %lld, %lld] is %.17g; exactly it is %.17g, and the bound is %.3g (ratio %.3g)",
            (long long)(element / test->n / test->m), (long long)(element / test->n % test->m),
            (long long)(element % test->n), measured, exact, bound, ratio);
}

void conformance_gemm_judge(conformance_gemm_case *test, conformance_gemm_result *result)
{
    const conformance_tensor *d = &test->tensors[KILN_GEMM_D];
    global_sums sums = {0, 0};
    if (result->outcome == CONFORMANCE_DECLINED || !ask_oracle(test, result))
        return;
    result->elements = result->unbounded = 0;
    result->largest_ratio = 0;
    for (int64_t line = 0; line < conformance_line_count(&d->tensor); line++)
        for (int64_t j = 0; j < test->n; j++)
            judge_element(
                test, line * test->n + j,
                kiln_load_f64(d->tensor.type, conformance_line(&d->tensor, d->memory, line), j),
                &sums, result);
    result->global = sums.squares > 0 ? 1 - 2 * sums.products / sums.squares : 0;
    check_bytes(test, result);
}
