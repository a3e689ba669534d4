/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of `kiln run`: any text, and whatever shapes the tensors of a job that parses may have.
 * Opens no files. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "tools/kiln/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t hash(const char *text)
{
    uint32_t value = 2166136261u;
    for (; *text; text++)
        value = (value ^ (unsigned char)*text) * 16777619u;
    return value;
}

/* A tensor's name says what its file holds. */
static void invent(job_tensor *tensor)
{
    static const int64_t leading[] = {64, 1, 3, 0, 64, 2, 10, INT64_C(1) << 40};
    static const int64_t others[] = {64, 1, 3, 0, 64, 2, 10, 1024};
    static const uint32_t types[] = {KILN_F16, KILN_F32, KILN_I8, KILN_F64};
    uint32_t value = hash(tensor->name);
    tensor->type = types[value % 4];
    tensor->rank = value / 4 % 4;
    for (uint32_t i = 0; i < tensor->rank; i++)
        tensor->shape[i] = (i == 0 ? leading : others)[(value >> (5 + 3 * i)) % 8];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kiln_job job;
    kiln_yaml_error error;
    if (!job_parse("fuzz/job.yaml", (const char *)data, size, &job, &error))
        return 0;
    for (int64_t i = 0; i < job.tensor_count; i++)
        if (job.tensors[i].file)
            invent(&job.tensors[i]);
    if (job_shape_steps(&job, &error))
        for (int64_t i = 0; i < job.step_count; i++)
            if (job.steps[i].desc.m < 0 || job.steps[i].desc.n < 0 || job.steps[i].desc.k < 0)
                abort();
    job_free(&job);
    return 0;
}
