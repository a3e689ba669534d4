/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction set of the model. MODEL.md describes layouts and costs. */
#ifndef NPU_PROGRAM_H
#define NPU_PROGRAM_H

#include "plugins/npu/config.h"
#include "plugins/npu/numeric.h"

#include <stdbool.h>

#define NPU_REGISTERS   32
#define NPU_NO_REGISTER (-1)

/* An address, extent or stride: registers[reg] + offset, or offset alone; at most `most`, unless
   that is 0. An instruction one of whose extents is 0 or less does nothing. */
struct npu_value {
    int32_t reg; /* NPU_NO_REGISTER: the value is offset */
    int64_t offset;
    int64_t most;
};

/* A factor: the double whose bits registers[reg] holds, or value. */
struct npu_scalar {
    int32_t reg; /* NPU_NO_REGISTER: use value */
    double value;
};

enum npu_opcode {
    NPU_COPY_IN,     /* MTE2: GM to L1 or UB */
    NPU_COPY_OUT,    /* MTE3: UB to GM */
    NPU_LOAD,        /* MTE1: L1 to L0A or L0B */
    NPU_MULTIPLY,    /* M: L0C (+)= L0A * L0B */
    NPU_ELEMENTWISE, /* V: on UB; moving accumulators from L0C */
    NPU_SET_FLAG,    /* on the source pipe */
    NPU_WAIT_FLAG,   /* on the destination pipe */
    NPU_BARRIER,     /* on every pipe */
    NPU_OPCODES
};

/* Layout of a matrix in L1 or UB. */
enum npu_layout {
    NPU_ROWS,    /* row after row, pitch = bytes from one row to the next */
    NPU_FRACTALS /* columns of 32 bytes, each with all its rows; pitch = rows per such column */
};

/* COPY_IN and COPY_OUT. The side in GM is `rows` rows of `columns` elements, `stride` bytes apart,
   at any byte address. COPY_IN fills up with zeros: rows to 32 bytes and, in fractals, the number
   of rows to a multiple of row_multiple. COPY_OUT writes nothing but the elements named. */
struct npu_copy {
    enum npu_memory memory; /* local side: L1 or UB (COPY_IN), UB (COPY_OUT) */
    enum npu_layout layout; /* of the local side */
    enum npu_type type;
    int64_t local;        /* byte address in memory */
    int64_t pitch;        /* see enum npu_layout */
    int64_t row_multiple; /* COPY_IN to fractals: at least 1 */
    int64_t first_row;    /* the block begins at global + first_row * stride */
    struct npu_value global;
    struct npu_value stride;
    struct npu_value rows;
    struct npu_value columns;
};

/* LOAD: takes `k` elements along the reduced dimension for `extent` rows of A or columns of B,
   rounded up to 16, from fractals in L1, and lays them down as fractals of 16 by 32 bytes in which
   k runs along the 32 bytes; fractals follow each other along k, then along the extent. Without
   transpose the rows in L1 are the rows of A (columns of B); with it they are k. */
struct npu_load {
    enum npu_memory memory; /* L0A or L0B */
    enum npu_type type;
    bool transpose;
    int64_t source; /* L1 address of the first fractal row */
    int64_t pitch;  /* rows per column of fractals in L1 */
    int64_t destination;
    struct npu_value k; /* rounded up to 32 bytes of elements */
    struct npu_value extent;
};

/* MULTIPLY: C[m,n] (+)= sum over k, ascending, of A[m,k] * B[k,n]; m and n are rounded up to 16, k
   to 32 bytes of elements. C lies in 16-column panels of `pitch` rows, 64 bytes a row: f32, or i32
   for NPU_I8. */
struct npu_multiply {
    enum npu_type type; /* NPU_F16, NPU_BF16 or NPU_I8 */
    bool accumulate;    /* false: starts from 0 */
    int64_t a;          /* addresses in L0A, L0B, L0C */
    int64_t b;
    int64_t c;
    int64_t pitch;
    struct npu_value k;
    struct npu_value m;
    struct npu_value n;
};

enum npu_function {
    NPU_FILL,      /* destination = scalar[0] */
    NPU_MOVE,      /* destination = accumulators; source[0] lies in L0C, pitch in rows */
    NPU_CONVERT,   /* destination = source[0], of another type */
    NPU_ADD,       /* source[0] + source[1] */
    NPU_MUL,       /* source[0] * source[1] */
    NPU_SCALE,     /* source[0] * scalar[0] */
    NPU_BLEND,     /* source[0] * scalar[0] + source[1] * scalar[1] */
    NPU_RELU,      /* max(source[0], 0), NaN stays NaN */
    NPU_GELU_ERF,  /* x/2 (1 + erf(x / sqrt 2)), -Inf gives -0 */
    NPU_GELU_TANH, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), -Inf gives -0 */
    NPU_SILU,      /* x / (1 + exp(-x)), -Inf gives -0 */
    NPU_CLIP,      /* min(max(source[0], scalar[0]), scalar[1]), NaN stays NaN */
    NPU_FUNCTIONS
};

/* How source[1] of ADD and MUL stands to the elements of the destination. */
enum npu_spread {
    NPU_EACH,       /* one value for each element */
    NPU_PER_COLUMN, /* one row, used for every row */
    NPU_PER_ROW     /* one value per row, `pitch` bytes apart; pitch 0: one value for all */
};

struct npu_vector_operand {
    int64_t address;
    int64_t pitch; /* bytes from one row to the next; MOVE's source: rows per panel in L0C */
    enum npu_type type;
};

/* ELEMENTWISE: rows * columns elements, row by row. Operands and arithmetic are f32, except: MOVE
   and CONVERT take and give any type, rounding to nearest even (16-bit floats by way of f32) and
   saturating where integers come out; SCALE and BLEND take and give f32 and i32, and BLEND always,
   SCALE where one of them is i32, computes in f64 and rounds once. The destination may be one of
   the sources; other overlap is undefined. */
struct npu_elementwise {
    enum npu_function function;
    enum npu_spread spread;
    bool saturate; /* CONVERT to f16 and bf16: finite values stay finite */
    struct npu_vector_operand destination;
    struct npu_vector_operand source[2];
    struct npu_scalar scalar[2];
    struct npu_value rows;
    struct npu_value columns;
};

struct npu_flag {
    enum npu_pipe source;
    enum npu_pipe destination;
    uint32_t id; /* below NPU_FLAGS */
};

struct npu_instruction {
    enum npu_opcode opcode;
    union {
        struct npu_copy copy;
        struct npu_load load;
        struct npu_multiply multiply;
        struct npu_elementwise elementwise;
        struct npu_flag flag;
    } as;
};

/* Instructions, checked, and sorted into queues. Immutable: any number of devices may run it. */
struct npu_program {
    char name[64];
    uint32_t count;
    struct npu_instruction *instruction;
    uint32_t queued[NPU_PIPES];
    uint32_t *queue[NPU_PIPES]; /* indices into instruction; a barrier stands in every queue */
};

/* Copies the instructions. NULL, with one sentence in error (size bytes), when one of them is not
   well formed or memory runs out. Free with npu_program_free. */
struct npu_program *npu_program_create(const char *name, const struct npu_instruction *instruction,
                                       uint32_t count, char *error, size_t size);
void npu_program_free(struct npu_program *program);

/* Writes the text of one instruction, as listings and faults show it; cut off at size. */
void npu_instruction_print(const struct npu_instruction *instruction, char *text, size_t size);

/* The pipe that executes an instruction other than NPU_BARRIER. */
enum npu_pipe npu_instruction_pipe(const struct npu_instruction *instruction);

/* Matrices that a vector function reads: 0 to 2. */
static inline int npu_vector_sources(enum npu_function function)
{
    if (function == NPU_FILL)
        return 0;
    return function == NPU_ADD || function == NPU_MUL || function == NPU_BLEND ? 2 : 1;
}

static inline int64_t npu_value_of(struct npu_value value, const int64_t *registers)
{
    /* Unsigned, so that nonsense wraps and is refused as an address or extent. */
    uint64_t base = value.reg < 0 ? 0 : (uint64_t)registers[value.reg];
    int64_t sum = (int64_t)(base + (uint64_t)value.offset);
    return value.most && sum > value.most ? value.most : sum;
}

/* Where a transfer begins in GM. */
static inline int64_t npu_copy_address(const struct npu_copy *copy, const int64_t *registers)
{
    return (int64_t)((uint64_t)npu_value_of(copy->global, registers) +
                     (uint64_t)copy->first_row * (uint64_t)npu_value_of(copy->stride, registers));
}

static inline double npu_scalar_of(struct npu_scalar scalar, const int64_t *registers)
{
    double value = scalar.value;
    if (scalar.reg >= 0)
        memcpy(&value, &registers[scalar.reg], sizeof value);
    return value;
}

static inline struct npu_value npu_constant(int64_t value)
{
    return (struct npu_value){NPU_NO_REGISTER, value, 0};
}

/* Elements along k in 32 bytes, of a type that the cube unit multiplies. */
static inline int64_t npu_across(enum npu_type type)
{
    return NPU_GRANULE / npu_type_bytes(type);
}

static inline struct npu_value npu_register(int32_t reg)
{
    return (struct npu_value){reg, 0, 0};
}

#endif
