/* SPDX-License-Identifier: Apache-2.0 */
/* The footprint of each instruction. */
#include "plugins/npu/access.h"

#define EXTENT_MAX  (INT64_C(1) << 24)
#define DEPTH_MAX   65536 /* sums of i8 products in one go stay within i32 */
#define STRIDE_MAX  (INT64_C(1) << 38)
#define ADDRESS_MAX (INT64_C(1) << 61)

#define L0C_ROW_BYTES 64 /* 16 accumulators of 4 bytes */

static const char bad_extent[] = "an extent is more than 2^24";
static const char bad_depth[] = "k is more than 65536";
static const char bad_stride[] = "a stride in GM is not from 0 to 2^38";
static const char bad_address[] = "an address is not from 0 to 2^61";
static const char small_pitch[] = "the pitch is smaller than what lies within it";
static const char odd_pitch[] = "the pitch is not a multiple of 32 bytes";

static bool in_range(int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most;
}

static int64_t granules(int64_t bytes)
{
    return (bytes + NPU_GRANULE - 1) / NPU_GRANULE;
}

/* A matrix stored row after row. */
static struct npu_access rows_access(enum npu_memory memory, bool write, int64_t address,
                                     int64_t rows, int64_t pitch, int64_t bytes)
{
    return (struct npu_access){memory, write, address, rows, pitch, bytes};
}

/* Columns of 32 bytes: `columns` of them, `rows` rows each. */
static struct npu_access fractal_access(enum npu_memory memory, bool write, int64_t address,
                                        int64_t columns, int64_t pitch, int64_t rows)
{
    return (struct npu_access){
        memory, write, address, columns, pitch * NPU_GRANULE, rows * NPU_GRANULE};
}

static int copy_accesses(const struct npu_copy *copy, bool in, const int64_t *registers,
                         struct npu_access *access, const char **reason)
{
    int64_t rows = npu_value_of(copy->rows, registers);
    int64_t columns = npu_value_of(copy->columns, registers);
    int64_t stride = npu_value_of(copy->stride, registers);
    if (rows <= 0 || columns <= 0)
        return 0;
    if (rows > EXTENT_MAX || columns > EXTENT_MAX) {
        *reason = bad_extent;
        return -1;
    }
    if (!in_range(copy->first_row, 0, EXTENT_MAX)) {
        *reason = bad_extent;
        return -1;
    }
    if ((rows > 1 || copy->first_row) && !in_range(stride, 0, STRIDE_MAX)) {
        *reason = bad_stride;
        return -1;
    }
    int64_t bytes = columns * npu_type_bytes(copy->type);
    struct npu_access local;
    if (copy->layout == NPU_ROWS) {
        int64_t row = in ? npu_round_up(bytes, NPU_GRANULE) : bytes;
        if (rows > 1 && (copy->pitch < row || copy->pitch % NPU_GRANULE)) {
            *reason = copy->pitch < row ? small_pitch : odd_pitch;
            return -1;
        }
        local = rows_access(copy->memory, in, copy->local, rows, copy->pitch, row);
    } else {
        int64_t padded = in ? npu_round_up(rows, copy->row_multiple) : rows;
        if (padded > copy->pitch) {
            *reason = small_pitch;
            return -1;
        }
        local = fractal_access(copy->memory, in, copy->local, granules(bytes), copy->pitch, padded);
    }
    struct npu_access global = rows_access(NPU_GM, !in, npu_copy_address(copy, registers), rows,
                                           rows > 1 ? stride : 0, bytes);
    access[0] = in ? global : local;
    access[1] = in ? local : global;
    return 2;
}

static int load_accesses(const struct npu_load *load, const int64_t *registers,
                         struct npu_access *access, const char **reason)
{
    int64_t extent = npu_value_of(load->extent, registers);
    int64_t k = npu_value_of(load->k, registers);
    if (extent <= 0 || k <= 0)
        return 0;
    if (extent > EXTENT_MAX || k > DEPTH_MAX) {
        *reason = extent > EXTENT_MAX ? bad_extent : bad_depth;
        return -1;
    }
    extent = npu_round_up(extent, NPU_FRACTAL_ROWS);
    k = npu_round_up(k, npu_across(load->type));
    int64_t size = npu_type_bytes(load->type);
    int64_t across = load->transpose ? extent : k;
    int64_t down = load->transpose ? k : extent;
    if (down > load->pitch) {
        *reason = small_pitch;
        return -1;
    }
    access[0] =
        fractal_access(NPU_L1, false, load->source, granules(across * size), load->pitch, down);
    access[1] = rows_access(load->memory, true, load->destination, 1, 0, extent * k * size);
    return 2;
}

static int multiply_accesses(const struct npu_multiply *multiply, const int64_t *registers,
                             struct npu_access *access, const char **reason)
{
    int64_t m = npu_value_of(multiply->m, registers);
    int64_t n = npu_value_of(multiply->n, registers);
    int64_t k = npu_value_of(multiply->k, registers);
    if (m <= 0 || n <= 0 || k <= 0)
        return 0;
    if (m > EXTENT_MAX || n > EXTENT_MAX || k > DEPTH_MAX) {
        *reason = k > DEPTH_MAX ? bad_depth : bad_extent;
        return -1;
    }
    m = npu_round_up(m, NPU_FRACTAL_ROWS);
    n = npu_round_up(n, NPU_FRACTAL_ROWS);
    if (m > multiply->pitch) {
        *reason = small_pitch;
        return -1;
    }
    int64_t depth = npu_round_up(k * npu_type_bytes(multiply->type), NPU_GRANULE);
    int count = 0;
    struct npu_access c = {
        NPU_L0C,          false, multiply->c, n / NPU_FRACTAL_ROWS, multiply->pitch * L0C_ROW_BYTES,
        m * L0C_ROW_BYTES};
    access[count++] = rows_access(NPU_L0A, false, multiply->a, 1, 0, m * depth);
    access[count++] = rows_access(NPU_L0B, false, multiply->b, 1, 0, n * depth);
    if (multiply->accumulate)
        access[count++] = c;
    c.write = true;
    access[count++] = c;
    return count;
}

/* The access of one operand on the vector unit; `rows` and `columns` as that operand has them. */
static const char *operand_access(const struct npu_vector_operand *operand, bool write,
                                  int64_t rows, int64_t columns, struct npu_access *access)
{
    int64_t bytes = columns * npu_type_bytes(operand->type);
    *access = rows_access(NPU_UB, write, operand->address, rows, operand->pitch, bytes);
    if (rows == 1)
        return NULL;
    if (operand->pitch < bytes)
        return small_pitch;
    return operand->pitch % NPU_GRANULE ? odd_pitch : NULL;
}

/* One value per row: packed closely, spaced out, or one for all. */
static const char *per_row_access(const struct npu_vector_operand *operand, int64_t rows,
                                  struct npu_access *access)
{
    int64_t size = npu_type_bytes(operand->type);
    if (operand->pitch == 0 || operand->pitch == size)
        return operand_access(operand, false, 1, operand->pitch ? rows : 1, access);
    return operand_access(operand, false, rows, 1, access);
}

static int elementwise_accesses(const struct npu_elementwise *e, const int64_t *registers,
                                struct npu_access *access, const char **reason)
{
    int64_t rows = npu_value_of(e->rows, registers);
    int64_t columns = npu_value_of(e->columns, registers);
    if (rows <= 0 || columns <= 0)
        return 0;
    if (rows > EXTENT_MAX || columns > EXTENT_MAX) {
        *reason = bad_extent;
        return -1;
    }
    int count = 0;
    int sources = npu_vector_sources(e->function);
    const char *wrong = NULL;
    if (e->function == NPU_MOVE) {
        int64_t panels = (columns + NPU_FRACTAL_ROWS - 1) / NPU_FRACTAL_ROWS;
        access[count++] = (struct npu_access){NPU_L0C,
                                              false,
                                              e->source[0].address,
                                              panels,
                                              e->source[0].pitch * L0C_ROW_BYTES,
                                              rows * L0C_ROW_BYTES};
        wrong = rows > e->source[0].pitch ? small_pitch : NULL;
    } else if (sources > 0) {
        wrong = operand_access(&e->source[0], false, rows, columns, &access[count++]);
    }
    if (!wrong && sources > 1) {
        if (e->spread == NPU_PER_ROW)
            wrong = per_row_access(&e->source[1], rows, &access[count++]);
        else
            wrong = operand_access(&e->source[1], false, e->spread == NPU_EACH ? rows : 1, columns,
                                   &access[count++]);
    }
    if (!wrong)
        wrong = operand_access(&e->destination, true, rows, columns, &access[count++]);
    *reason = wrong;
    return wrong ? -1 : count;
}

int npu_accesses(const struct npu_instruction *instruction, const int64_t *registers,
                 struct npu_access access[NPU_ACCESSES], const char **reason)
{
    int count = 0;
    switch (instruction->opcode) {
    case NPU_COPY_IN:
    case NPU_COPY_OUT:
        count = copy_accesses(&instruction->as.copy, instruction->opcode == NPU_COPY_IN, registers,
                              access, reason);
        break;
    case NPU_LOAD:
        count = load_accesses(&instruction->as.load, registers, access, reason);
        break;
    case NPU_MULTIPLY:
        count = multiply_accesses(&instruction->as.multiply, registers, access, reason);
        break;
    case NPU_ELEMENTWISE:
        count = elementwise_accesses(&instruction->as.elementwise, registers, access, reason);
        break;
    default:
        break;
    }
    for (int i = 0; i < count; i++) {
        if (!in_range(access[i].address, 0, ADDRESS_MAX)) {
            *reason = bad_address;
            return -1;
        }
        if (!in_range(access[i].stride, 0, STRIDE_MAX)) {
            *reason = bad_stride;
            return -1;
        }
    }
    return count;
}

bool npu_global_access(const struct npu_instruction *instruction, const int64_t *registers,
                       struct npu_access *access)
{
    struct npu_access all[NPU_ACCESSES];
    const char *reason;
    enum npu_opcode opcode = instruction->opcode;
    if (opcode != NPU_COPY_IN && opcode != NPU_COPY_OUT)
        return false;
    if (npu_accesses(instruction, registers, all, &reason) <= 0)
        return false;
    *access = all[opcode == NPU_COPY_IN ? 0 : 1];
    return true;
}

bool npu_access_overlap(const struct npu_access *a, const struct npu_access *b, int64_t *address)
{
    for (int64_t i = 0; i < a->runs; i++) {
        int64_t begin = a->address + i * a->stride;
        int64_t end = begin + a->bytes;
        /* The first run of b that ends beyond `begin`. */
        int64_t j = 0;
        int64_t gap = begin - b->address - b->bytes;
        if (gap >= 0) {
            if (b->runs == 1 || b->stride == 0)
                continue;
            j = gap / b->stride + 1;
        }
        int64_t other = b->address + j * b->stride;
        if (j < b->runs && other < end) {
            *address = other > begin ? other : begin;
            return true;
        }
    }
    return false;
}
