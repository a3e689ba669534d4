/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a GEMM case on one backend. */
#include <stdio.h>
#include <stdlib.h>

#include "conformance/planning.h"
#include "conformance/gemm/result.h"

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

static bool succeeded(gemm_trial *trial, kiln_status status, const char *what)
{
    return status == KILN_OK || conformance_gemm_fail(trial->result, "%s failed with %s: %s", what,
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

/* Scales and zero points of A and B, where they have been placed. */
static void attach_scales(gemm_trial *trial)
{
    for (uint32_t slot = KILN_GEMM_A; slot <= KILN_GEMM_B; slot++) {
        kiln_tensor *tensor = &trial->tensors[slot];
        if (tensor->scale)
            tensor->scale = &trial->tensors[CONFORMANCE_GEMM_SCALE + slot];
        if (tensor->zero_point)
            tensor->zero_point = &trial->tensors[CONFORMANCE_GEMM_ZERO_POINT + slot];
    }
}

static bool make_plan(gemm_trial *trial, const char *backend)
{
    kiln_plan_options options = {.struct_size = sizeof options,
                                 .device = trial->device,
                                 .backend = backend,
                                 .staging = KILN_STAGING_DENY};
    kiln_plan_info info = {.struct_size = sizeof info};
    kiln_status status = conformance_plan_create(trial->runtime, KILN_GEMM, &trial->test->desc.head,
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
        return conformance_gemm_fail(trial->result, "asked for backend %s, answered by %s%s",
                                     backend, info.backend, info.staged ? " through staging" : "");
    trial->result->answer_flags = info.flags;
    return true;
}

/* Memory like that of one of the case's tensors, to unpack into. */
static bool make_destination(gemm_trial *trial, uint32_t slot, kiln_tensor *destination)
{
    const conformance_tensor *made = &trial->test->tensors[slot];
    *destination = made->tensor;
    destination->data = aligned_alloc(64, (size_t)made->bytes);
    if (!destination->data)
        return conformance_gemm_fail(trial->result, "no memory to unpack into");
    memset(destination->data, 0xff, (size_t)made->bytes);
    return true;
}

static bool check_destination(gemm_trial *trial, uint32_t slot, const char *what,
                              const kiln_tensor *destination)
{
    const conformance_tensor *made = &trial->test->tensors[slot];
    return !destination->data ||
           memcmp(destination->data, made->before, (size_t)made->bytes) == 0 ||
           conformance_gemm_fail(trial->result, "%s come back different from packing and unpacking",
                                 what);
}

/* A destination cannot be broadcast. */
static bool is_broadcast(const conformance_tensor *made)
{
    for (uint32_t d = 0; made->memory && d < made->tensor.rank; d++)
        if (made->tensor.strides[d] == 0 && made->tensor.shape[d] > 1)
            return true;
    return false;
}

/* Unpacks a blob over memory like the source's and wants the source back, gaps included. */
static bool check_unpacked(gemm_trial *trial, uint32_t slot, const kiln_tensor *packed)
{
    const uint32_t slots[3] = {slot, CONFORMANCE_GEMM_SCALE + slot,
                               CONFORMANCE_GEMM_ZERO_POINT + slot};
    static const char *const names[2][3] = {{"elements of A", "scales of A", "zero points of A"},
                                            {"elements of B", "scales of B", "zero points of B"}};
    const conformance_tensor *tensors = trial->test->tensors;
    kiln_tensor destinations[3] = {{.buffer = NULL}};
    bool good = true;
    for (int i = 0; i < 3; i++)
        if (is_broadcast(&tensors[slots[i]]))
            return true;
    for (int i = 0; good && i < 3; i++)
        if (tensors[slots[i]].memory)
            good = make_destination(trial, slots[i], &destinations[i]);
    if (destinations[0].scale)
        destinations[0].scale = &destinations[1];
    if (destinations[0].zero_point)
        destinations[0].zero_point = &destinations[2];
    if (good)
        good = succeeded(
            trial, kiln_plan_unpack(trial->plan, trial->stream, slot, packed, &destinations[0]),
            "unpacking");
    if (good && trial->stream)
        good = succeeded(trial, kiln_stream_wait(trial->stream), "waiting for unpacking");
    for (int i = 0; i < 3; i++) {
        good = good &&
               check_destination(trial, slots[i], names[slot == KILN_GEMM_B][i], &destinations[i]);
        free(destinations[i].data);
    }
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
    packed.scale = packed.zero_point = NULL; /* they are in the blob */
    packed.scale_block[0] = packed.scale_block[1] = 0;
    if (!succeeded(trial,
                   kiln_plan_pack(trial->plan, trial->stream, slot, &trial->tensors[slot], &packed),
                   "packing") ||
        !check_unpacked(trial, slot, &packed))
        return false;
    trial->tensors[slot] = packed;
    return true;
}

/* One run that has been waited for; *what is the call that `status` is of. */
static kiln_status run_once(gemm_trial *trial, const kiln_gemm_args *args, const char **what)
{
    kiln_status status = kiln_plan_run(trial->plan, trial->stream, &args->head);
    *what = "kiln_plan_run";
    if (status != KILN_OK || !trial->stream)
        return status;
    *what = "kiln_stream_wait";
    return kiln_stream_wait(trial->stream);
}

/* Of a run whose groups are beyond their limits; on a stream the wait says so. */
static bool exceeds(gemm_trial *trial, const kiln_gemm_args *args, const char *which)
{
    const char *what;
    kiln_status status = run_once(trial, args, &what);
    return (status == KILN_CAPACITY && (!trial->stream || strcmp(what, "kiln_stream_wait") == 0)) ||
           conformance_gemm_fail(trial->result,
                                 "groups are beyond their limits, but %s%s returned %s instead of "
                                 "%s",
                                 what, which, kiln_status_name(status),
                                 status == KILN_CAPACITY ? "KILN_OK: the next wait is to say so"
                                                         : "KILN_CAPACITY");
}

/* Puts back what stood in the outputs before the first run, where the backend finds them. */
static bool restore_outputs(gemm_trial *trial)
{
    conformance_gemm_case *test = trial->test;
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        conformance_tensor *made = &test->tensors[slot];
        uint32_t epilogue = slot - KILN_GEMM_OPERAND;
        bool gradient = slot >= KILN_GEMM_OPERAND && epilogue < test->desc.epilogue_count &&
                        test->desc.epilogues[epilogue].kind == KILN_EPILOGUE_BIAS_GRADIENT;
        if (!made->memory || (slot != KILN_GEMM_D && slot != KILN_GEMM_D_SCALE && !gradient))
            continue;
        memcpy(made->memory, made->before, (size_t)made->bytes);
        if (!trial->host && !copy_bytes(trial, slot, true))
            return false;
    }
    return true;
}

/* Where groups are beyond their limits the stream says so once, and goes on: what is judged then is
 * the second run. */
static bool run_and_wait(gemm_trial *trial, const kiln_gemm_args *args)
{
    const char *what;
    if (!trial->test->violates) {
        kiln_status status = run_once(trial, args, &what);
        return succeeded(trial, status, what);
    }
    return exceeds(trial, args, "") &&
           (!trial->stream ||
            (succeeded(trial, kiln_stream_wait(trial->stream),
                       "waiting again for a stream that has said KILN_CAPACITY") &&
             restore_outputs(trial) &&
             exceeds(trial, args, ", for the second run on the stream,")));
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
    attach_scales(trial);
    if (test->aliased)
        trial->tensors[KILN_GEMM_C] = trial->tensors[KILN_GEMM_D];
    if (((flags & KILN_GEMM_PACKED_A) && !pack(trial, KILN_GEMM_A)) ||
        ((flags & KILN_GEMM_PACKED_B) && !pack(trial, KILN_GEMM_B)))
        return false;
    kiln_gemm_args args = {{sizeof args, KILN_GEMM_SLOTS, trial->tensors}, test->alpha, test->beta};
    if (!run_and_wait(trial, &args))
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
    conformance_gemm_execute_on(runtime, NULL, backend, test, result);
}

void conformance_gemm_execute_on(kiln_runtime *runtime, kiln_device *device, const char *backend,
                                 conformance_gemm_case *test, conformance_gemm_result *result)
{
    gemm_trial trial = {.runtime = runtime,
                        .device = device ? device : device_of(runtime, backend),
                        .test = test,
                        .result = result};
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
