/* SPDX-License-Identifier: Apache-2.0 */
/* The cost model. */
#include "plugins/npu/timeline.h"

static uint64_t divide_up(uint64_t value, uint64_t divisor)
{
    return (value + divisor - 1) / divisor;
}

/* Every run takes whole bursts of 32 bytes. */
static uint64_t burst_bytes(const struct npu_access *access)
{
    return (uint64_t)access->runs * (uint64_t)npu_round_up(access->bytes, NPU_GRANULE);
}

static uint64_t transfer_cycles(const struct npu_transfer_cost *cost, uint64_t bytes)
{
    return cost->latency + divide_up(bytes, cost->bytes_per_cycle);
}

static bool is_stepwise(enum npu_function function)
{
    return function == NPU_GELU_ERF || function == NPU_GELU_TANH || function == NPU_SILU ||
           function == NPU_BLEND;
}

static uint64_t vector_cycles(const struct npu_config *config, const struct npu_elementwise *e,
                              const struct npu_access *access, int accesses)
{
    uint64_t widest = 0;
    for (int i = 0; i < accesses; i++)
        if (widest < burst_bytes(&access[i]))
            widest = burst_bytes(&access[i]);
    uint64_t steps = is_stepwise(e->function) ? config->vector_function_steps : 1;
    return config->vector_startup + steps * divide_up(widest, config->vector_bytes);
}

uint64_t npu_duration(const struct npu_config *config, const struct npu_instruction *instruction,
                      const struct npu_access *access, int accesses)
{
    if (accesses == 0)
        return config->flag_cycles;
    switch (instruction->opcode) {
    case NPU_COPY_IN:
        return transfer_cycles(&config->transfer[NPU_MTE2], burst_bytes(&access[0]));
    case NPU_COPY_OUT:
        return transfer_cycles(&config->transfer[NPU_MTE3], burst_bytes(&access[1]));
    case NPU_LOAD:
        return transfer_cycles(&config->transfer[NPU_MTE1], burst_bytes(&access[1]));
    case NPU_MULTIPLY: /* every fractal of A with one of each panel of 16 columns */
        return config->cube_startup + config->cube_fractal_cycles *
                                          (uint64_t)(access[0].bytes / NPU_FRACTAL_BYTES) *
                                          (uint64_t)access[accesses - 1].runs;
    default:
        return vector_cycles(config, &instruction->as.elementwise, access, accesses);
    }
}

void npu_timeline_run(struct npu_timeline *timeline, enum npu_pipe pipe, uint64_t duration,
                      struct npu_counters *counters)
{
    timeline->free_at[pipe] += duration;
    counters->busy[pipe] += duration;
    counters->instructions[pipe]++;
}

void npu_timeline_set(struct npu_timeline *timeline, const struct npu_flag *flag,
                      const struct npu_config *config, struct npu_counters *counters)
{
    npu_timeline_run(timeline, flag->source, config->flag_cycles, counters);
    timeline->set_at[flag->source][flag->destination][flag->id] = timeline->free_at[flag->source];
}

void npu_timeline_wait(struct npu_timeline *timeline, const struct npu_flag *flag,
                       const struct npu_config *config, struct npu_counters *counters)
{
    uint64_t set_at = timeline->set_at[flag->source][flag->destination][flag->id];
    if (timeline->free_at[flag->destination] < set_at)
        timeline->free_at[flag->destination] = set_at;
    npu_timeline_run(timeline, flag->destination, config->flag_cycles, counters);
}

void npu_timeline_barrier(struct npu_timeline *timeline, const struct npu_config *config,
                          struct npu_counters *counters)
{
    uint64_t end = npu_timeline_end(timeline);
    for (int pipe = 0; pipe < NPU_PIPES; pipe++) {
        timeline->free_at[pipe] = end;
        npu_timeline_run(timeline, (enum npu_pipe)pipe, config->barrier_cycles, counters);
    }
}

uint64_t npu_timeline_end(const struct npu_timeline *timeline)
{
    uint64_t end = 0;
    for (int pipe = 0; pipe < NPU_PIPES; pipe++)
        if (end < timeline->free_at[pipe])
            end = timeline->free_at[pipe];
    return end;
}
