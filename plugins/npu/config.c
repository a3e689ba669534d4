/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults and validation of the model's parameters. */
#include "plugins/npu/config.h"

#include <stdio.h>
#include <string.h>

void npu_config_defaults(struct npu_config *config)
{
    memset(config, 0, sizeof *config);
    config->size[NPU_GM] = INT64_C(1) << 30;
    config->size[NPU_L1] = 1024 * 1024;
    config->size[NPU_L0A] = 64 * 1024;
    config->size[NPU_L0B] = 64 * 1024;
    config->size[NPU_L0C] = 512 * 1024;
    config->size[NPU_UB] = 192 * 1024;
    config->alignment[NPU_GM] = 512;
    config->alignment[NPU_L1] = 32;
    config->alignment[NPU_L0A] = 512;
    config->alignment[NPU_L0B] = 512;
    config->alignment[NPU_L0C] = 512;
    config->alignment[NPU_UB] = 32;
    config->cores = 1;
    config->transfer[NPU_MTE1] = (struct npu_transfer_cost){16, 256};
    config->transfer[NPU_MTE2] = (struct npu_transfer_cost){200, 128};
    config->transfer[NPU_MTE3] = (struct npu_transfer_cost){200, 128};
    config->cube_startup = 16;
    config->cube_fractal_cycles = 1;
    config->vector_startup = 16;
    config->vector_bytes = 256;
    config->vector_function_steps = 8;
    config->flag_cycles = 2;
    config->barrier_cycles = 16;
    config->block_cycles = 64;
    config->schedule = NPU_SCHEDULE_PROGRAM_ORDER;
}

static int check_memory(const struct npu_config *config, enum npu_memory memory, char *error,
                        size_t size)
{
    const char *name = npu_memory_name(memory);
    int64_t bytes = config->size[memory];
    int64_t most = memory == NPU_GM ? INT64_C(1) << 40 : INT64_C(1) << 26;
    uint32_t alignment = config->alignment[memory];
    /* Programs address fractals in the middle of a buffer. */
    uint32_t coarsest = memory == NPU_GM ? 65536 : NPU_FRACTAL_BYTES;
    if (alignment < NPU_GRANULE || alignment > coarsest || (alignment & (alignment - 1))) {
        snprintf(error, size, "alignment of %s is %u; it must be a power of two from %d to %u",
                 name, alignment, NPU_GRANULE, coarsest);
        return -1;
    }
    if (bytes < 1024 || bytes > most || bytes % alignment) {
        snprintf(error, size,
                 "size of %s is %lld bytes; it must be a multiple of its alignment %u "
                 "between 1024 and %lld",
                 name, (long long)bytes, alignment, (long long)most);
        return -1;
    }
    return 0;
}

int npu_config_check(const struct npu_config *config, char *error, size_t size)
{
    const struct {
        const char *name;
        uint32_t value;
    } positive[] = {
        {"bytes per cycle of MTE1", config->transfer[NPU_MTE1].bytes_per_cycle},
        {"bytes per cycle of MTE2", config->transfer[NPU_MTE2].bytes_per_cycle},
        {"bytes per cycle of MTE3", config->transfer[NPU_MTE3].bytes_per_cycle},
        {"cycles per fractal", config->cube_fractal_cycles},
        {"bytes per cycle of the vector unit", config->vector_bytes},
        {"steps of a vector function", config->vector_function_steps},
    };
    for (int memory = 0; memory < NPU_MEMORIES; memory++)
        if (check_memory(config, (enum npu_memory)memory, error, size))
            return -1;
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        if (!positive[i].value) {
            snprintf(error, size, "%s is 0; it must be at least 1", positive[i].name);
            return -1;
        }
    if (config->cores < 1 || config->cores > NPU_CORES_MAX) {
        snprintf(error, size, "the number of cores is %u; it must be from 1 to %d", config->cores,
                 NPU_CORES_MAX);
        return -1;
    }
    return 0;
}

const char *npu_memory_name(enum npu_memory memory)
{
    static const char *const names[NPU_MEMORIES] = {
        [NPU_GM] = "GM",   [NPU_L1] = "L1",   [NPU_L0A] = "L0A",
        [NPU_L0B] = "L0B", [NPU_L0C] = "L0C", [NPU_UB] = "UB",
    };
    return names[memory];
}

const char *npu_pipe_name(enum npu_pipe pipe)
{
    static const char *const names[NPU_PIPES] = {
        [NPU_MTE1] = "MTE1", [NPU_MTE2] = "MTE2", [NPU_MTE3] = "MTE3",
        [NPU_CUBE] = "M",    [NPU_VECTOR] = "V",
    };
    return names[pipe];
}
