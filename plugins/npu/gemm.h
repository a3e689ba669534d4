/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products as programs: D = epilogues(alpha op(A) op(B) + beta C). One program computes one
 * block of D; a launch runs it over the grid of blocks, for any M and N up to those it was made
 * for, and any K where it was made so: other values need no program of their own. */
#ifndef NPU_GEMM_H
#define NPU_GEMM_H

#include "plugins/npu/machine.h"

#define NPU_EPILOGUES 8

enum npu_operand_shape {
    NPU_OPERAND_NONE,
    NPU_OPERAND_SCALAR, /* one value */
    NPU_OPERAND_ROW,    /* N values, the same for every row */
    NPU_OPERAND_COLUMN, /* M values, one per row */
    NPU_OPERAND_MATRIX  /* M by N */
};

struct npu_epilogue {
    enum npu_function function; /* ADD, MUL: with operand; SCALE, CLIP: with parameter; RELU, ... */
    enum npu_operand_shape shape;
    enum npu_type type; /* of the operand: f32, f16, bf16 */
    double parameter[2];
};

/* What a program is made from. */
struct npu_gemm {
    enum npu_type type; /* of A and B: f16, bf16, i8 */
    enum npu_type c_type;
    enum npu_type d_type;
    bool transpose_a; /* A is stored K by M */
    bool transpose_b; /* B is stored N by K */
    bool packed_a;    /* A was packed as it is stored, m by k; not with dynamic_k */
    bool packed_b;    /* the same of B, k by n */
    bool dynamic_k;   /* k is the largest; a launch gives the actual one, at least 1 */
    bool saturate;    /* f16 and bf16 results stay finite where they were */
    bool product;     /* false: A and B are not read and their product counts as absent */
    bool read_c;      /* false: C is not read and counts as absent */
    int64_t m;        /* the largest */
    int64_t n;        /* the largest */
    int64_t k;
    uint32_t epilogues;
    struct npu_epilogue epilogue[NPU_EPILOGUES];
};

/* Extents of the pieces that the work is cut into, in elements. */
struct npu_gemm_blocks {
    int64_t m;     /* rows of D per program */
    int64_t n;     /* columns of D per program */
    int64_t k;     /* depth of a block in L1 */
    int64_t depth; /* depth of a slice in L0A and L0B; k is a multiple */
};

/* Where an operand lies in GM. Steps and strides in bytes. */
struct npu_gemm_operand {
    int64_t address;
    int64_t stride; /* from one row to the next */
    int64_t batch;  /* from one matrix of the batch to the next; 0 = shared */
};

struct npu_gemm_arguments {
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t batch;
    double alpha;
    double beta;
    struct npu_gemm_operand a, b, c, d;
    struct npu_gemm_operand epilogue[NPU_EPILOGUES];
};

/* Chooses the largest blocks that fit the memories twice over, not beyond what M, N and K need. The
   result does not depend on product and read_c. 0, or -1 with one sentence in error. */
int npu_gemm_choose_blocks(const struct npu_config *config, const struct npu_gemm *gemm,
                           struct npu_gemm_blocks *blocks, char *error, size_t size);

/* Why blocks cannot be used (multiples, or a memory that is too small), or 0. */
int npu_gemm_check_blocks(const struct npu_config *config, const struct npu_gemm *gemm,
                          const struct npu_gemm_blocks *blocks, char *error, size_t size);

/* The program for one block of D. NULL with one sentence in error. */
struct npu_program *npu_gemm_program(const struct npu_config *config, const struct npu_gemm *gemm,
                                     const struct npu_gemm_blocks *blocks, char *error,
                                     size_t size);

/* The launch that computes all of D; m, n and batch at least 1, m and n at most the program's. */
void npu_gemm_launch(const struct npu_gemm *gemm, const struct npu_gemm_blocks *blocks,
                     const struct npu_gemm_arguments *arguments, struct npu_launch *launch);

/* ---- Operands in the layout that L1 wants, so that they are read in long pieces ---- */

/* A stored matrix. Packed it is its columns of 32 bytes, each with all its rows and these filled up
   to a multiple of NPU_PACK_ROWS, zeros where the matrix has nothing: fractals, as in L1. */
struct npu_pack {
    enum npu_type type;
    int64_t rows;
    int64_t columns;
};

#define NPU_PACK_ROWS 32

/* Bytes of one packed matrix; -1 when they cannot be counted. */
int64_t npu_pack_bytes(const struct npu_pack *pack);

/* The program that packs one piece of any matrix, or undoes it. NULL with one sentence in error. */
struct npu_program *npu_pack_program(const struct npu_config *config, enum npu_type type,
                                     bool unpack, char *error, size_t size);

/* The launch that packs or unpacks `batch` matrices; rows and columns at least 1. The stride of
   `packed` is not used. */
void npu_pack_launch(const struct npu_config *config, const struct npu_pack *pack,
                     const struct npu_gemm_operand *plain, const struct npu_gemm_operand *packed,
                     int64_t batch, struct npu_launch *launch);

#endif
