/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of the model: memories, pipes, costs. MODEL.md explains what each means. */
#ifndef NPU_CONFIG_H
#define NPU_CONFIG_H

#include <stddef.h>
#include <stdint.h>

enum npu_memory {
    NPU_GM,  /* global memory, shared by the cores of a device */
    NPU_L1,  /* staging buffer of the cube unit */
    NPU_L0A, /* left operand of the cube unit */
    NPU_L0B, /* right operand of the cube unit */
    NPU_L0C, /* accumulators of the cube unit */
    NPU_UB,  /* unified buffer, the memory of the vector unit */
    NPU_MEMORIES
};

/* The in-order queues. Each finishes an instruction before it begins the next. */
enum npu_pipe {
    NPU_MTE1,   /* L1 to L0A and L0B */
    NPU_MTE2,   /* GM to L1 and UB */
    NPU_MTE3,   /* UB to GM */
    NPU_CUBE,   /* matrix unit, "M" in listings */
    NPU_VECTOR, /* vector unit, "V" in listings */
    NPU_PIPES
};

#define NPU_TRANSFER_PIPES 3  /* MTE1, MTE2 and MTE3 come first in enum npu_pipe */
#define NPU_FLAGS          8  /* event ids per (source pipe, destination pipe) */
#define NPU_GRANULE        32 /* bytes: unit of local addresses, DMA bursts and hazard checks */
#define NPU_FRACTAL_ROWS   16
#define NPU_FRACTAL_BYTES  512 /* 16 rows of 32 bytes */
#define NPU_CORES_MAX      64

/* Model addresses of global memory start here on every device, so that the same number means
   different bytes on two devices. */
#define NPU_GM_BASE INT64_C(0x100000000)

/* Which of several instructions that are ready the model executes first. Results, cycles and
   whether a launch faults do not depend on it; only which of several faults is named does. */
enum npu_schedule {
    NPU_SCHEDULE_PROGRAM_ORDER, /* the one that stands first in the program */
    NPU_SCHEDULE_REVERSED,      /* the one that stands last */
    NPU_SCHEDULE_ROUND_ROBIN    /* the next pipe in turn */
};

struct npu_transfer_cost {
    uint32_t latency;         /* cycles before the first byte */
    uint32_t bytes_per_cycle; /* after that */
};

struct npu_config {
    int64_t size[NPU_MEMORIES];       /* bytes */
    uint32_t alignment[NPU_MEMORIES]; /* bytes; of allocations in GM, of addresses elsewhere */
    uint32_t cores;                   /* 1 to NPU_CORES_MAX */
    struct npu_transfer_cost transfer[NPU_TRANSFER_PIPES];
    uint32_t cube_startup;          /* cycles per cube instruction */
    uint32_t cube_fractal_cycles;   /* per pair of 512-byte fractals multiplied */
    uint32_t vector_startup;        /* cycles per vector instruction */
    uint32_t vector_bytes;          /* bytes of the widest operand handled per cycle */
    uint32_t vector_function_steps; /* passes over the data that gelu and silu take */
    uint32_t flag_cycles;           /* set_flag and wait_flag */
    uint32_t barrier_cycles;
    uint32_t block_cycles; /* starting one block on a core */
    enum npu_schedule schedule;
};

/* Fills in sizes of the 910B class, 1 GiB of GM and one core. */
void npu_config_defaults(struct npu_config *config);

/* Returns 0, or -1 with one sentence in error (size bytes) that names the parameter at fault. */
int npu_config_check(const struct npu_config *config, char *error, size_t size);

/* "L1", "MTE2", ...; valid for values of the enumerations. */
const char *npu_memory_name(enum npu_memory memory);
const char *npu_pipe_name(enum npu_pipe pipe);

#endif
