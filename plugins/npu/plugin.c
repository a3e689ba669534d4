/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of the plugin npu, its options and its instances. */
#include "plugins/npu/glue.h"

#include <stdlib.h>

enum option {
    OPTION_DEVICES,
    OPTION_CORES,
    OPTION_MEMORY,
    OPTION_L1,
    OPTION_L0A,
    OPTION_L0B,
    OPTION_L0C,
    OPTION_UB,
    OPTION_MEMORY_ALIGNMENT,
    OPTION_L1_ALIGNMENT,
    OPTION_L0_ALIGNMENT,
    OPTION_UB_ALIGNMENT,
    OPTION_MTE1_LATENCY,
    OPTION_MTE1_BANDWIDTH,
    OPTION_MTE2_LATENCY,
    OPTION_MTE2_BANDWIDTH,
    OPTION_MTE3_LATENCY,
    OPTION_MTE3_BANDWIDTH,
    OPTION_CUBE_STARTUP,
    OPTION_CUBE_FRACTAL,
    OPTION_VECTOR_STARTUP,
    OPTION_VECTOR_BYTES,
    OPTION_VECTOR_STEPS,
    OPTION_FLAG,
    OPTION_BARRIER,
    OPTION_BLOCK,
    OPTION_COUNT
};

static const kiln_option options[] = {
    [OPTION_DEVICES] = {"devices", "2", "devices of the model", NULL, 1, 16, KILN_OPTION_INTEGER,
                        0},
    [OPTION_CORES] = {"cores", "1", "cores of a device, which share its grids", NULL, 1,
                      NPU_CORES_MAX, KILN_OPTION_INTEGER, 0},
    [OPTION_MEMORY] = {"memory_bytes", "1GiB",
                       "global memory of a device; host memory is used only where it is touched",
                       NULL, 65536, 1099511627776.0, KILN_OPTION_INTEGER, 0},
    [OPTION_L1] = {"l1_bytes", "1MiB", "staging buffer of the cube unit", NULL, 1024, 67108864,
                   KILN_OPTION_INTEGER, 0},
    [OPTION_L0A] = {"l0a_bytes", "64KiB", "left operands of the cube unit", NULL, 1024, 67108864,
                    KILN_OPTION_INTEGER, 0},
    [OPTION_L0B] = {"l0b_bytes", "64KiB", "right operands of the cube unit", NULL, 1024, 67108864,
                    KILN_OPTION_INTEGER, 0},
    [OPTION_L0C] = {"l0c_bytes", "512KiB", "accumulators of the cube unit", NULL, 1024, 67108864,
                    KILN_OPTION_INTEGER, 0},
    [OPTION_UB] = {"ub_bytes", "192KiB", "unified buffer of the vector unit", NULL, 1024, 67108864,
                   KILN_OPTION_INTEGER, 0},
    [OPTION_MEMORY_ALIGNMENT] = {"memory_alignment", "512",
                                 "of allocations in global memory, a power of two", NULL, 32, 65536,
                                 KILN_OPTION_INTEGER, 0},
    [OPTION_L1_ALIGNMENT] = {"l1_alignment", "32", "of addresses in L1, a power of two", NULL, 32,
                             512, KILN_OPTION_INTEGER, 0},
    [OPTION_L0_ALIGNMENT] = {"l0_alignment", "512",
                             "of addresses in L0A, L0B and L0C, a power of two", NULL, 32, 512,
                             KILN_OPTION_INTEGER, 0},
    [OPTION_UB_ALIGNMENT] = {"ub_alignment", "32", "of addresses in UB, a power of two", NULL, 32,
                             512, KILN_OPTION_INTEGER, 0},
    [OPTION_MTE1_LATENCY] = {"mte1_latency", "16",
                             "cycles before the first byte of a transfer from L1 to L0", NULL, 0,
                             1e6, KILN_OPTION_INTEGER, 0},
    [OPTION_MTE1_BANDWIDTH] = {"mte1_bytes_per_cycle", "256", "bytes per cycle from L1 to L0", NULL,
                               1, 1e6, KILN_OPTION_INTEGER, 0},
    [OPTION_MTE2_LATENCY] = {"mte2_latency", "200",
                             "cycles before the first byte from global memory", NULL, 0, 1e6,
                             KILN_OPTION_INTEGER, 0},
    [OPTION_MTE2_BANDWIDTH] = {"mte2_bytes_per_cycle", "128", "bytes per cycle from global memory",
                               NULL, 1, 1e6, KILN_OPTION_INTEGER, 0},
    [OPTION_MTE3_LATENCY] = {"mte3_latency", "200", "cycles before the first byte to global memory",
                             NULL, 0, 1e6, KILN_OPTION_INTEGER, 0},
    [OPTION_MTE3_BANDWIDTH] = {"mte3_bytes_per_cycle", "128", "bytes per cycle to global memory",
                               NULL, 1, 1e6, KILN_OPTION_INTEGER, 0},
    [OPTION_CUBE_STARTUP] = {"cube_startup", "16", "cycles per multiplication", NULL, 0, 1e6,
                             KILN_OPTION_INTEGER, 0},
    [OPTION_CUBE_FRACTAL] = {"cube_fractal_cycles", "1",
                             "cycles for 16 x 16 x 16 products (i8: 16 x 32 x 16)", NULL, 1, 1e6,
                             KILN_OPTION_INTEGER, 0},
    [OPTION_VECTOR_STARTUP] = {"vector_startup", "16", "cycles per vector instruction", NULL, 0,
                               1e6, KILN_OPTION_INTEGER, 0},
    [OPTION_VECTOR_BYTES] = {"vector_bytes", "256",
                             "bytes of the widest operand per cycle of the vector unit", NULL, 1,
                             1e6, KILN_OPTION_INTEGER, 0},
    [OPTION_VECTOR_STEPS] = {"vector_function_steps", "8",
                             "passes over the data that gelu and silu take", NULL, 1, 1e6,
                             KILN_OPTION_INTEGER, 0},
    [OPTION_FLAG] = {"flag_cycles", "2", "cycles of set_flag and wait_flag", NULL, 0, 1e6,
                     KILN_OPTION_INTEGER, 0},
    [OPTION_BARRIER] = {"barrier_cycles", "16", "cycles of a barrier of all pipes", NULL, 0, 1e6,
                        KILN_OPTION_INTEGER, 0},
    [OPTION_BLOCK] = {"block_cycles", "64", "cycles to start a block on a core", NULL, 0, 1e6,
                      KILN_OPTION_INTEGER, 0},
};

static const char *const interfaces[] = {KILN_DEVICE, KILN_GEMM, NULL};

static void configure(const kiln_option_value *values, struct npu_config *config)
{
    npu_config_defaults(config);
    config->size[NPU_GM] = values[OPTION_MEMORY].integer;
    config->size[NPU_L1] = values[OPTION_L1].integer;
    config->size[NPU_L0A] = values[OPTION_L0A].integer;
    config->size[NPU_L0B] = values[OPTION_L0B].integer;
    config->size[NPU_L0C] = values[OPTION_L0C].integer;
    config->size[NPU_UB] = values[OPTION_UB].integer;
    config->alignment[NPU_GM] = (uint32_t)values[OPTION_MEMORY_ALIGNMENT].integer;
    config->alignment[NPU_L1] = (uint32_t)values[OPTION_L1_ALIGNMENT].integer;
    config->alignment[NPU_L0A] = (uint32_t)values[OPTION_L0_ALIGNMENT].integer;
    config->alignment[NPU_L0B] = (uint32_t)values[OPTION_L0_ALIGNMENT].integer;
    config->alignment[NPU_L0C] = (uint32_t)values[OPTION_L0_ALIGNMENT].integer;
    config->alignment[NPU_UB] = (uint32_t)values[OPTION_UB_ALIGNMENT].integer;
    config->cores = (uint32_t)values[OPTION_CORES].integer;
    config->transfer[NPU_MTE1].latency = (uint32_t)values[OPTION_MTE1_LATENCY].integer;
    config->transfer[NPU_MTE1].bytes_per_cycle = (uint32_t)values[OPTION_MTE1_BANDWIDTH].integer;
    config->transfer[NPU_MTE2].latency = (uint32_t)values[OPTION_MTE2_LATENCY].integer;
    config->transfer[NPU_MTE2].bytes_per_cycle = (uint32_t)values[OPTION_MTE2_BANDWIDTH].integer;
    config->transfer[NPU_MTE3].latency = (uint32_t)values[OPTION_MTE3_LATENCY].integer;
    config->transfer[NPU_MTE3].bytes_per_cycle = (uint32_t)values[OPTION_MTE3_BANDWIDTH].integer;
    config->cube_startup = (uint32_t)values[OPTION_CUBE_STARTUP].integer;
    config->cube_fractal_cycles = (uint32_t)values[OPTION_CUBE_FRACTAL].integer;
    config->vector_startup = (uint32_t)values[OPTION_VECTOR_STARTUP].integer;
    config->vector_bytes = (uint32_t)values[OPTION_VECTOR_BYTES].integer;
    config->vector_function_steps = (uint32_t)values[OPTION_VECTOR_STEPS].integer;
    config->flag_cycles = (uint32_t)values[OPTION_FLAG].integer;
    config->barrier_cycles = (uint32_t)values[OPTION_BARRIER].integer;
    config->block_cycles = (uint32_t)values[OPTION_BLOCK].integer;
}

static int64_t probe(void)
{
    return 1; /* a model needs no hardware */
}

/* The sentence of a fault, for a function on a stream. */
static void report(void *context, int status, const char *text)
{
    const struct npu_instance *instance = context;
    instance->host->set_error((kiln_status)status, "%s", text);
}

static const char *reason(void *context)
{
    return ((const struct npu_instance *)context)->host->last_error();
}

static kiln_status open_instance(const kiln_host *host, const kiln_option_value *values,
                                 void **result)
{
    char error[256];
    struct npu_instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return host->set_error(KILN_NO_MEMORY, "npu: no memory for an instance");
    configure(values, &instance->config);
    if (npu_config_check(&instance->config, error, sizeof error)) {
        free(instance);
        return host->set_error(KILN_INVALID, "npu: %s; see options.npu in the profile", error);
    }
    instance->host = host;
    instance->devices = values[OPTION_DEVICES].integer;
    npu_system_open(&instance->system, report, reason, instance);
    *result = instance;
    return KILN_OK;
}

static void close_instance(void *object)
{
    struct npu_instance *instance = object;
    npu_system_close(&instance->system);
    free(instance);
}

static const void *interface_of(void *instance, const char *name)
{
    (void)instance;
    if (strcmp(name, KILN_DEVICE) == 0)
        return &npu_device_table;
    return strcmp(name, KILN_GEMM) == 0 ? &npu_gemm_table : NULL;
}

static const kiln_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_minor = KILN_PLUGIN_ABI_MINOR,
    .name = "npu",
    .version = NPU_VERSION,
    .vendor = "Kiln",
    .description = "software model of a tile NPU of the Da Vinci class",
    .interfaces = interfaces,
    .options = options,
    .option_count = OPTION_COUNT,
    .probe = probe,
    .open = open_instance,
    .close = close_instance,
    .interface = interface_of,
};

KILN_PLUGIN_ENTRY(npu)
{
    return host_abi_minor >= 0 ? &plugin : NULL;
}
