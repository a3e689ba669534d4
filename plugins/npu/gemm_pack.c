/* SPDX-License-Identifier: Apache-2.0 */
/* Packing. UB is the place where rows become columns of 32 bytes: a piece of the matrix comes in as
 * fractals and goes out as they lie. */
#include "plugins/npu/assembler.h"
#include "plugins/npu/gemm_layout.h"

#include <stdio.h>

/* Registers of the programs in this file. */
enum pack_register {
    R_PLAIN,
    R_PLAIN_STRIDE,
    R_PACKED,
    R_PACKED_STRIDE,
    R_ROWS,         /* of this piece */
    R_ELEMENTS,     /* in each of its rows */
    R_COLUMNS,      /* its columns of 32 bytes */
    R_COLUMN_BYTES, /* in each of them */
    R_PACK_COUNT
};

/* Axes of the grid. */
enum { ROWS, COLUMNS, BATCH };

/* A piece has as many columns of 32 bytes as fit in UB, at most this many. */
#define PIECE_ROWS    (4 * NPU_PACK_ROWS)
#define PIECE_COLUMNS 32

static int64_t piece_columns(const struct npu_config *config)
{
    int64_t columns = config->size[NPU_UB] / (PIECE_ROWS * NPU_GRANULE);
    return columns < PIECE_COLUMNS ? columns : PIECE_COLUMNS;
}

int64_t npu_pack_bytes(const struct npu_pack *pack)
{
    const int64_t most = INT64_C(1) << 56;
    int64_t bytes;
    if (pack->rows > most || pack->columns > most ||
        __builtin_mul_overflow(npu_pack_stride(pack), npu_pack_columns(pack), &bytes))
        return -1;
    return bytes;
}

/* The matrix as it is stored: strided rows in GM, fractals in UB. */
static struct npu_copy plain_copy(enum npu_type type)
{
    return (struct npu_copy){
        .memory = NPU_UB,
        .layout = NPU_FRACTALS,
        .type = type,
        .pitch = PIECE_ROWS,
        .row_multiple = NPU_PACK_ROWS,
        .global = npu_register(R_PLAIN),
        .stride = npu_register(R_PLAIN_STRIDE),
        .rows = npu_register(R_ROWS),
        .columns = npu_register(R_ELEMENTS),
    };
}

/* The same piece packed. */
static struct npu_copy packed_copy(void)
{
    return (struct npu_copy){
        .memory = NPU_UB,
        .layout = NPU_ROWS,
        .type = NPU_I8,
        .pitch = PIECE_ROWS * NPU_GRANULE,
        .global = npu_register(R_PACKED),
        .stride = npu_register(R_PACKED_STRIDE),
        .rows = npu_register(R_COLUMNS),
        .columns = npu_register(R_COLUMN_BYTES),
    };
}

struct npu_program *npu_pack_program(const struct npu_config *config, enum npu_type type,
                                     bool unpack, char *error, size_t size)
{
    struct npu_assembler out = {0};
    struct npu_program *program = NULL;
    int64_t columns = piece_columns(config);
    const struct npu_copy plain = plain_copy(type), packed = packed_copy();
    const int64_t registers[NPU_REGISTERS] = {
        [R_PLAIN] = NPU_GM_BASE,
        [R_PLAIN_STRIDE] = 1 << 20,
        [R_PACKED] = NPU_GM_BASE + (INT64_C(1) << 40),
        [R_PACKED_STRIDE] = PIECE_ROWS * NPU_GRANULE,
        [R_ROWS] = PIECE_ROWS,
        [R_ELEMENTS] = columns * npu_across(type),
        [R_COLUMNS] = columns,
        [R_COLUMN_BYTES] = PIECE_ROWS * NPU_GRANULE,
    };
    if (columns < 1) {
        snprintf(error, size, "packing needs %d bytes of UB, which has %lld",
                 PIECE_ROWS * NPU_GRANULE, (long long)config->size[NPU_UB]);
        return NULL;
    }
    npu_emit_copy_in(&out, unpack ? &packed : &plain);
    npu_emit_copy_out(&out, unpack ? &plain : &packed);
    if (!npu_synchronize(&out, config, registers, error, size))
        program =
            npu_program_create(unpack ? "unpack" : "pack", out.instruction, out.count, error, size);
    npu_assembler_free(&out);
    return program;
}

void npu_pack_launch(const struct npu_config *config, const struct npu_pack *pack,
                     const struct npu_gemm_operand *plain, const struct npu_gemm_operand *packed,
                     int64_t batch, struct npu_launch *launch)
{
    int64_t columns = piece_columns(config), elements = columns * npu_across(pack->type);
    int64_t stride = npu_pack_stride(pack);
    memset(launch, 0, sizeof *launch);
    launch->grid[ROWS] = (uint32_t)((pack->rows + PIECE_ROWS - 1) / PIECE_ROWS);
    launch->grid[COLUMNS] = (uint32_t)((npu_pack_columns(pack) + columns - 1) / columns);
    launch->grid[BATCH] = (uint32_t)batch;
    launch->count = R_PACK_COUNT;
    launch->rule[R_PLAIN] = (struct npu_register_rule){
        plain->address,
        {PIECE_ROWS * plain->stride, columns * NPU_GRANULE, plain->batch},
        INT64_MAX};
    launch->rule[R_PLAIN_STRIDE] = npu_fixed_rule(plain->stride);
    launch->rule[R_PACKED] = (struct npu_register_rule){
        packed->address, {PIECE_ROWS * NPU_GRANULE, columns * stride, packed->batch}, INT64_MAX};
    launch->rule[R_PACKED_STRIDE] = npu_fixed_rule(stride);
    launch->rule[R_ROWS] = npu_rest_rule(pack->rows, PIECE_ROWS, ROWS);
    launch->rule[R_ELEMENTS] = npu_rest_rule(pack->columns, elements, COLUMNS);
    launch->rule[R_COLUMNS] = npu_rest_rule(npu_pack_columns(pack), columns, COLUMNS);
    launch->rule[R_COLUMN_BYTES] = npu_rest_rule(stride, PIECE_ROWS * NPU_GRANULE, ROWS);
}
