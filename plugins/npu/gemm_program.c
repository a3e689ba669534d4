/* SPDX-License-Identifier: Apache-2.0 */
/* The program that computes one block of D. It is written as one unit would execute it, with two
 * buffers of everything that comes in; npu_synchronize lets the pipes run ahead of each other. */
#include "plugins/npu/assembler.h"
#include "plugins/npu/gemm_layout.h"

#include <stdio.h>

struct builder {
    struct npu_assembler out;
    const struct npu_gemm *gemm;
    const struct npu_gemm_blocks *blocks;
    struct npu_gemm_layout layout;
    enum npu_type value_type; /* of what lies in UB at layout.values */
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What there is of k from `k` on, at most `most`. Where K is dynamic a launch may end before: then
   this is 0 or less, and instructions do nothing. */
static struct npu_value depth_from(const struct builder *b, int64_t k, int64_t most)
{
    if (b->gemm->dynamic_k)
        return (struct npu_value){NPU_R_K, -k, most};
    return npu_constant(smaller(b->gemm->k - k, most));
}

/* A block of A or B. Both ways the missing end of k becomes zero, in A as in B, so that it adds
   nothing. */
static void copy_operand(struct builder *b, const struct npu_gemm_side *side, int64_t k,
                         int64_t local)
{
    struct npu_value depth = depth_from(b, k, b->blocks->k);
    struct npu_copy copy = {
        .memory = NPU_L1,
        .layout = NPU_FRACTALS,
        .type = b->gemm->type,
        .local = local,
        .pitch = side->k_rows ? b->blocks->k : side->block,
        .row_multiple = side->k_rows ? npu_across(b->gemm->type) : NPU_FRACTAL_ROWS,
        .first_row = side->k_rows ? k : 0,
        .global = {side->address, side->k_rows ? 0 : k * npu_type_bytes(b->gemm->type), 0},
        .stride = npu_register(side->address + 1),
        .rows = side->k_rows ? depth : npu_register(side->extent),
        .columns = side->k_rows ? npu_register(side->extent) : depth,
    };
    npu_emit_copy_in(&b->out, &copy);
}

/* A block of a packed operand: pieces of columns of 32 bytes, as they are to lie in L1. Here K is
   the actual one. */
static void copy_packed(struct builder *b, const struct npu_gemm_side *side, int64_t k,
                        int64_t local)
{
    int64_t depth = smaller(b->gemm->k - k, b->blocks->k);
    int64_t granules =
        npu_round_up(depth * npu_type_bytes(b->gemm->type), NPU_GRANULE) / NPU_GRANULE;
    int64_t rows = npu_round_up(depth, npu_across(b->gemm->type));
    int64_t stride = npu_pack_stride(&side->stored);
    int64_t skipped = k * npu_type_bytes(b->gemm->type) / NPU_GRANULE * stride;
    struct npu_copy copy = {
        .memory = NPU_L1,
        .layout = NPU_ROWS,
        .type = NPU_I8,
        .local = local,
        .pitch = (side->k_rows ? b->blocks->k : side->block) * NPU_GRANULE,
        .global = {side->address, side->k_rows ? k * NPU_GRANULE : skipped, 0},
        .stride = npu_constant(stride),
        .rows = side->k_rows ? npu_register(side->packed_extent) : npu_constant(granules),
        .columns =
            side->k_rows ? npu_constant(rows * NPU_GRANULE) : npu_register(side->packed_extent),
    };
    npu_emit_copy_in(&b->out, &copy);
}

static void load_slice(struct builder *b, const struct npu_gemm_side *side, enum npu_memory memory,
                       int64_t source, int64_t slice, struct npu_value depth, int64_t destination)
{
    int64_t pitch = side->k_rows ? b->blocks->k : side->block;
    struct npu_load load = {
        .memory = memory,
        .type = b->gemm->type,
        .transpose = side->k_rows,
        .source = source + (side->k_rows ? slice * NPU_GRANULE
                                         : slice * npu_type_bytes(b->gemm->type) * pitch),
        .pitch = pitch,
        .destination = destination,
        .k = depth,
        .extent = npu_register(side->extent),
    };
    npu_emit_load(&b->out, &load);
}

static void multiply_slice(struct builder *b, int buffer, struct npu_value depth, bool first)
{
    struct npu_multiply multiply = {
        .type = b->gemm->type,
        .accumulate = !first,
        .a = b->layout.l0a[buffer],
        .b = b->layout.l0b[buffer],
        .c = 0,
        .pitch = b->blocks->m,
        .k = depth,
        .m = npu_register(NPU_R_M),
        .n = npu_register(NPU_R_N),
    };
    npu_emit_multiply(&b->out, &multiply);
}

static void emit_product(struct builder *b)
{
    const struct npu_gemm_blocks *blocks = b->blocks;
    const struct npu_gemm_layout *layout = &b->layout;
    const struct npu_gemm_side sides[2] = {npu_gemm_side_a(b->gemm, blocks),
                                           npu_gemm_side_b(b->gemm, blocks)};
    int64_t slices = 0;
    for (int64_t k = 0; k < b->gemm->k; k += blocks->k) {
        int buffer = (int)(k / blocks->k % 2);
        const int64_t l1[2] = {layout->l1_a[buffer], layout->l1_b[buffer]};
        for (int i = 0; i < 2; i++) {
            if (sides[i].packed)
                copy_packed(b, &sides[i], k, l1[i]);
            else
                copy_operand(b, &sides[i], k, l1[i]);
        }
        int64_t end = smaller(blocks->k, b->gemm->k - k);
        for (int64_t slice = 0; slice < end; slice += blocks->depth, slices++) {
            struct npu_value depth = depth_from(b, k + slice, blocks->depth);
            int l0 = (int)(slices % 2);
            load_slice(b, &sides[0], NPU_L0A, l1[0], slice, depth, layout->l0a[l0]);
            load_slice(b, &sides[1], NPU_L0B, l1[1], slice, depth, layout->l0b[l0]);
            multiply_slice(b, l0, depth, slices == 0);
        }
    }
}

/* ---- On the vector unit ---- */

static struct npu_vector_operand values(const struct builder *b)
{
    return (struct npu_vector_operand){b->layout.values, b->blocks->n * 4, b->value_type};
}

/* A vector instruction on the whole block; the caller fills in what else it needs. */
static struct npu_elementwise on_block(const struct builder *b, enum npu_function function)
{
    struct npu_vector_operand operand = values(b);
    return (struct npu_elementwise){
        .function = function,
        .destination = operand,
        .source = {operand, operand},
        .scalar = {{NPU_NO_REGISTER, 0}, {NPU_NO_REGISTER, 0}},
        .rows = npu_register(NPU_R_M),
        .columns = npu_register(NPU_R_N),
    };
}

static void move_product(struct builder *b)
{
    bool integer = b->gemm->type == NPU_I8;
    b->value_type = integer && b->gemm->d_type == NPU_I32 ? NPU_I32 : NPU_F32;
    struct npu_elementwise move = on_block(b, NPU_MOVE);
    move.source[0] = (struct npu_vector_operand){0, b->blocks->m, integer ? NPU_I32 : NPU_F32};
    npu_emit_elementwise(&b->out, &move);
}

static void convert(struct builder *b, struct npu_vector_operand from, struct npu_vector_operand to,
                    struct npu_value rows, struct npu_value columns, bool saturate)
{
    struct npu_elementwise e = on_block(b, NPU_CONVERT);
    e.destination = to;
    e.source[0] = from;
    e.rows = rows;
    e.columns = columns;
    e.saturate = saturate;
    npu_emit_elementwise(&b->out, &e);
}

/* Brings a block of a matrix into UB and returns where it lies, as f32, or i32 if `keep_i32`. */
static struct npu_vector_operand fetch_matrix(struct builder *b, int32_t address,
                                              enum npu_type type, bool keep_i32)
{
    struct npu_vector_operand raw = {
        b->layout.matrix, npu_round_up(b->blocks->n * npu_type_bytes(type), NPU_GRANULE), type};
    struct npu_copy copy = {
        .memory = NPU_UB,
        .layout = NPU_ROWS,
        .type = type,
        .local = raw.address,
        .pitch = raw.pitch,
        .global = npu_register(address),
        .stride = npu_register(address + 1),
        .rows = npu_register(NPU_R_M),
        .columns = npu_register(NPU_R_N),
    };
    npu_emit_copy_in(&b->out, &copy);
    if (type == NPU_F32 || (type == NPU_I32 && keep_i32))
        return raw;
    struct npu_vector_operand wide = {b->layout.matrix_f32, b->blocks->n * 4, NPU_F32};
    convert(b, raw, wide, copy.rows, copy.columns, false);
    return wide;
}

/* The same for `count` consecutive values. */
static struct npu_vector_operand fetch_vector(struct builder *b, int32_t address,
                                              enum npu_type type, struct npu_value count)
{
    struct npu_vector_operand raw = {b->layout.vector, 0, type};
    struct npu_copy copy = {
        .memory = NPU_UB,
        .layout = NPU_ROWS,
        .type = type,
        .local = raw.address,
        .global = npu_register(address),
        .stride = npu_constant(0),
        .rows = npu_constant(1),
        .columns = count,
    };
    npu_emit_copy_in(&b->out, &copy);
    if (type == NPU_F32)
        return raw;
    struct npu_vector_operand wide = {b->layout.vector_f32, 0, NPU_F32};
    convert(b, raw, wide, npu_constant(1), count, false);
    return wide;
}

static void scale(struct builder *b, struct npu_vector_operand from, struct npu_vector_operand to,
                  struct npu_scalar factor)
{
    struct npu_elementwise e = on_block(b, NPU_SCALE);
    e.source[0] = from;
    e.destination = to;
    e.scalar[0] = factor;
    npu_emit_elementwise(&b->out, &e);
}

static const struct npu_scalar alpha = {NPU_R_ALPHA, 0};
static const struct npu_scalar beta = {NPU_R_BETA, 0};

/* alpha product + beta C in f32. */
static void combine(struct builder *b)
{
    if (b->gemm->product)
        scale(b, values(b), values(b), alpha);
    if (!b->gemm->read_c)
        return;
    struct npu_vector_operand c = fetch_matrix(b, NPU_R_C, b->gemm->c_type, false);
    if (!b->gemm->product) {
        scale(b, c, values(b), beta);
        return;
    }
    scale(b, c, c, beta);
    struct npu_elementwise add = on_block(b, NPU_ADD);
    add.source[1] = c;
    npu_emit_elementwise(&b->out, &add);
}

/* The same in f64 with one rounding, to i32 where no epilogue needs f32. */
static void combine_exactly(struct builder *b)
{
    struct npu_vector_operand product = values(b);
    struct npu_vector_operand c = product;
    if (b->gemm->read_c)
        c = fetch_matrix(b, NPU_R_C, b->gemm->c_type, true);
    b->value_type = b->gemm->epilogues ? NPU_F32 : NPU_I32;
    if (!b->gemm->product || !b->gemm->read_c) {
        scale(b, b->gemm->product ? product : c, values(b), b->gemm->product ? alpha : beta);
        return;
    }
    struct npu_elementwise blend = on_block(b, NPU_BLEND);
    blend.source[0] = product;
    blend.source[1] = c;
    blend.scalar[0] = alpha;
    blend.scalar[1] = beta;
    npu_emit_elementwise(&b->out, &blend);
}

static void emit_epilogue(struct builder *b, uint32_t index)
{
    const struct npu_epilogue *epilogue = &b->gemm->epilogue[index];
    int32_t address = NPU_R_EPILOGUE + 2 * (int32_t)index;
    struct npu_elementwise e = on_block(b, epilogue->function);
    for (int i = 0; i < 2; i++)
        e.scalar[i].value = epilogue->parameter[i];
    switch (epilogue->shape) {
    case NPU_OPERAND_MATRIX:
        e.source[1] = fetch_matrix(b, address, epilogue->type, false);
        break;
    case NPU_OPERAND_ROW:
        e.source[1] = fetch_vector(b, address, epilogue->type, npu_register(NPU_R_N));
        e.spread = NPU_PER_COLUMN;
        break;
    case NPU_OPERAND_COLUMN:
        e.source[1] = fetch_vector(b, address, epilogue->type, npu_register(NPU_R_M));
        e.source[1].pitch = npu_type_bytes(NPU_F32);
        e.spread = NPU_PER_ROW;
        break;
    case NPU_OPERAND_SCALAR:
        e.source[1] = fetch_vector(b, address, epilogue->type, npu_constant(1));
        e.spread = NPU_PER_ROW;
        break;
    default:
        break;
    }
    npu_emit_elementwise(&b->out, &e);
}

static void store(struct builder *b)
{
    enum npu_type type = b->gemm->d_type;
    struct npu_vector_operand from = values(b);
    if (type != b->value_type) {
        struct npu_vector_operand to = {
            b->layout.matrix, npu_round_up(b->blocks->n * npu_type_bytes(type), NPU_GRANULE), type};
        convert(b, from, to, npu_register(NPU_R_M), npu_register(NPU_R_N), b->gemm->saturate);
        from = to;
    }
    struct npu_copy copy = {
        .memory = NPU_UB,
        .layout = NPU_ROWS,
        .type = type,
        .local = from.address,
        .pitch = from.pitch,
        .global = npu_register(NPU_R_D),
        .stride = npu_register(NPU_R_D_STRIDE),
        .rows = npu_register(NPU_R_M),
        .columns = npu_register(NPU_R_N),
    };
    npu_emit_copy_out(&b->out, &copy);
}

static void emit_block(struct builder *b)
{
    bool any = b->gemm->product || b->gemm->read_c;
    b->value_type = NPU_F32;
    if (b->gemm->product) {
        emit_product(b);
        move_product(b);
    }
    if (!any) {
        struct npu_elementwise fill = on_block(b, NPU_FILL);
        npu_emit_elementwise(&b->out, &fill);
    } else if (b->gemm->d_type == NPU_I32) {
        combine_exactly(b);
    } else {
        combine(b);
    }
    for (uint32_t i = 0; i < b->gemm->epilogues; i++)
        emit_epilogue(b, i);
    store(b);
}

/* A full block. Operands are far apart in GM, save that D may be C. */
static void typical_registers(const struct builder *b, int64_t *registers)
{
    const struct npu_gemm_side sides[2] = {npu_gemm_side_a(b->gemm, b->blocks),
                                           npu_gemm_side_b(b->gemm, b->blocks)};
    memset(registers, 0, NPU_REGISTERS * sizeof *registers);
    for (int32_t i = 0; i < NPU_R_GEMM_COUNT; i++)
        registers[i] = NPU_GM_BASE + ((int64_t)i << 40);
    for (int32_t i = 0; i < NPU_EPILOGUES; i++)
        registers[NPU_R_EPILOGUE + 2 * i + 1] = 1 << 14;
    registers[NPU_R_A_STRIDE] = registers[NPU_R_B_STRIDE] = 1 << 14;
    registers[NPU_R_C_STRIDE] = registers[NPU_R_D_STRIDE] = 1 << 14;
    registers[NPU_R_D] = registers[NPU_R_C];
    registers[NPU_R_M] = smaller(b->gemm->m, b->blocks->m);
    registers[NPU_R_N] = smaller(b->gemm->n, b->blocks->n);
    registers[NPU_R_K] = b->gemm->k;
    for (int i = 0; i < 2; i++) {
        struct npu_register_rule rule = npu_packed_rule(&sides[i], b->gemm->type, 0);
        registers[sides[i].packed_extent] = smaller(rule.base, rule.limit);
    }
}

struct npu_program *npu_gemm_program(const struct npu_config *config, const struct npu_gemm *gemm,
                                     const struct npu_gemm_blocks *blocks, char *error, size_t size)
{
    static const char *const type_names[NPU_TYPES] = {"f16", "bf16", "i8", "f32", "i32"};
    struct builder b = {.gemm = gemm, .blocks = blocks};
    struct npu_program *program = NULL;
    int64_t registers[NPU_REGISTERS];
    char name[64];
    if (npu_gemm_check_blocks(config, gemm, blocks, error, size))
        return NULL;
    npu_gemm_layout(config, gemm, blocks, &b.layout);
    emit_block(&b);
    typical_registers(&b, registers);
    snprintf(name, sizeof name, "gemm_%s_%s%s%s%s_%lldx%lldx%lld", type_names[gemm->type],
             gemm->packed_a ? "p" : "", gemm->transpose_a ? "t" : "n", gemm->packed_b ? "p" : "",
             gemm->transpose_b ? "t" : "n", (long long)blocks->m, (long long)blocks->n,
             (long long)blocks->k);
    if (!npu_synchronize(&b.out, config, registers, error, size))
        program = npu_program_create(name, b.out.instruction, b.out.count, error, size);
    npu_assembler_free(&b.out);
    return program;
}
