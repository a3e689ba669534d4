/* SPDX-License-Identifier: Apache-2.0 */
/* Random products for the tests of the NPU model. */
#include "tests/plugins/npu/npu_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t npu_random_next(struct npu_random *random)
{
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    return random->state * UINT64_C(2685821657736338717);
}

int64_t npu_random_in(struct npu_random *random, int64_t low, int64_t high)
{
    return low + (int64_t)(npu_random_next(random) >> 11) % (high - low + 1);
}

/* Written apart from the engine's conversions, by scaling instead of moving bits. */
static double small_float(uint16_t bits, int exponent_bits, int fraction_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
    int fraction = bits & ((1 << fraction_bits) - 1);
    double value;
    if (exponent == (1 << exponent_bits) - 1)
        value = fraction ? NAN : INFINITY;
    else if (exponent)
        value = ldexp((double)(fraction + (1 << fraction_bits)), exponent - bias - fraction_bits);
    else
        value = ldexp((double)fraction, 1 - bias - fraction_bits);
    return bits >> (exponent_bits + fraction_bits) ? -value : value;
}

double npu_test_load(enum npu_type type, const uint8_t *row, int64_t index)
{
    uint16_t bits;
    float f32;
    int32_t i32;
    switch (type) {
    case NPU_F16:
    case NPU_BF16:
        memcpy(&bits, row + 2 * index, sizeof bits);
        return type == NPU_F16 ? small_float(bits, 5, 10) : small_float(bits, 8, 7);
    case NPU_F32:
        memcpy(&f32, row + 4 * index, sizeof f32);
        return f32;
    case NPU_I32:
        memcpy(&i32, row + 4 * index, sizeof i32);
        return i32;
    default:
        return (int8_t)row[index];
    }
}

void npu_test_store(enum npu_type type, uint8_t *row, int64_t index, double value)
{
    uint16_t bits;
    float f32 = (float)value;
    int32_t i32 = type == NPU_I32 || type == NPU_I8 ? (int32_t)value : 0;
    switch (type) {
    case NPU_F16:
    case NPU_BF16:
        bits = type == NPU_F16 ? npu_f32_to_f16(f32) : npu_f32_to_bf16(f32);
        memcpy(row + 2 * index, &bits, sizeof bits);
        break;
    case NPU_F32:
        memcpy(row + 4 * index, &f32, sizeof f32);
        break;
    case NPU_I32:
        memcpy(row + 4 * index, &i32, sizeof i32);
        break;
    default:
        row[index] = (uint8_t)(int8_t)i32;
        break;
    }
}

static void random_epilogue(struct npu_random *random, struct npu_epilogue *epilogue)
{
    static const enum npu_type types[] = {NPU_F32, NPU_F16, NPU_BF16};
    static const enum npu_function functions[] = {NPU_ADD,      NPU_MUL,       NPU_SCALE, NPU_RELU,
                                                  NPU_GELU_ERF, NPU_GELU_TANH, NPU_SILU,  NPU_CLIP};
    memset(epilogue, 0, sizeof *epilogue);
    epilogue->function = functions[npu_random_in(random, 0, 7)];
    epilogue->type = types[npu_random_in(random, 0, 2)];
    if (epilogue->function == NPU_ADD || epilogue->function == NPU_MUL)
        epilogue->shape =
            (enum npu_operand_shape)npu_random_in(random, NPU_OPERAND_SCALAR, NPU_OPERAND_MATRIX);
    epilogue->parameter[0] = epilogue->function == NPU_CLIP ? -0.75 : 0.625;
    epilogue->parameter[1] = 1.5;
}

void npu_test_random_product(struct npu_random *random, int64_t most,
                             struct npu_test_product *product)
{
    static const enum npu_type inputs[] = {NPU_F16, NPU_BF16, NPU_I8};
    static const enum npu_type outputs[] = {NPU_F32, NPU_F16, NPU_BF16, NPU_I32, NPU_I8};
    static const double factors[] = {1, 1, 0.5, -1.25};
    struct npu_gemm *gemm = &product->gemm;
    memset(product, 0, sizeof *product);
    gemm->type = inputs[npu_random_in(random, 0, 2)];
    gemm->c_type = outputs[npu_random_in(random, 0, 4)];
    gemm->d_type = outputs[npu_random_in(random, 0, 4)];
    gemm->transpose_a = npu_random_in(random, 0, 1);
    gemm->transpose_b = npu_random_in(random, 0, 1);
    gemm->product = npu_random_in(random, 0, 9) > 0;
    gemm->read_c = npu_random_in(random, 0, 1);
    gemm->dynamic_k = npu_random_in(random, 0, 3) == 0;
    gemm->m = npu_random_in(random, 1, most);
    gemm->n = npu_random_in(random, 1, most);
    gemm->k = npu_random_in(random, 1, most);
    gemm->epilogues = (uint32_t)npu_random_in(random, 0, 3);
    for (uint32_t i = 0; i < gemm->epilogues; i++)
        random_epilogue(random, &gemm->epilogue[i]);
    product->m = npu_random_in(random, 1, gemm->m);
    product->n = gemm->n;
    product->k = gemm->dynamic_k ? npu_random_in(random, 1, gemm->k) : gemm->k;
    product->alpha = factors[npu_random_in(random, 0, 3)];
    product->beta = factors[npu_random_in(random, 0, 3)];
}

static void make_matrix(struct npu_machine *machine, struct npu_random *random,
                        struct npu_test_matrix *matrix, enum npu_type type, int64_t rows,
                        int64_t columns)
{
    char error[256];
    int64_t size = npu_type_bytes(type), odd = npu_random_in(random, 0, 3) * size;
    matrix->type = type;
    matrix->rows = rows;
    matrix->columns = columns;
    matrix->stride = (columns + npu_random_in(random, 0, 5)) * size;
    matrix->bytes = matrix->stride * (rows - 1) + columns * size;
    matrix->host = malloc((size_t)(matrix->bytes + odd));
    assert_non_null(matrix->host);
    assert_int_equal(npu_global_alloc(&machine->global, matrix->bytes + odd, 0, &matrix->address,
                                      error, sizeof error),
                     0);
    matrix->address += odd;
    for (int64_t i = 0; i < matrix->bytes; i++)
        matrix->host[i] = (uint8_t)npu_random_next(random);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            bool integer = type == NPU_I8 || type == NPU_I32;
            double value = integer ? (double)npu_random_in(random, -128, 127)
                                   : (double)npu_random_in(random, -1000, 1000) / 1000;
            npu_test_store(type, matrix->host + i * matrix->stride, j, value);
        }
    memcpy(npu_global_at(&machine->global, matrix->address), matrix->host, (size_t)matrix->bytes);
}

void npu_test_prepare(struct npu_machine *machine, struct npu_random *random,
                      struct npu_test_product *product)
{
    const struct npu_gemm *gemm = &product->gemm;
    char error[256] = "";
    int64_t m = product->m, n = product->n, k = product->k;
    bool ta = gemm->transpose_a, tb = gemm->transpose_b;
    make_matrix(machine, random, &product->a, gemm->type, ta ? k : m, ta ? m : k);
    make_matrix(machine, random, &product->b, gemm->type, tb ? n : k, tb ? k : n);
    make_matrix(machine, random, &product->c, gemm->c_type, m, n);
    make_matrix(machine, random, &product->d, gemm->d_type, m, n);
    for (uint32_t i = 0; i < gemm->epilogues; i++) {
        const struct npu_epilogue *epilogue = &gemm->epilogue[i];
        bool matrix = epilogue->shape == NPU_OPERAND_MATRIX;
        int64_t count = epilogue->shape == NPU_OPERAND_ROW      ? n
                        : epilogue->shape == NPU_OPERAND_COLUMN ? m
                                                                : 1;
        if (epilogue->shape != NPU_OPERAND_NONE)
            make_matrix(machine, random, &product->operand[i], epilogue->type, matrix ? m : 1,
                        matrix ? n : count);
    }
    if (npu_gemm_choose_blocks(&machine->config, gemm, &product->blocks, error, sizeof error) == 0)
        product->program =
            npu_gemm_program(&machine->config, gemm, &product->blocks, error, sizeof error);
    assert_string_equal(error, "");
    assert_non_null(product->program);
}

static void release_matrix(struct npu_machine *machine, struct npu_test_matrix *matrix)
{
    /* The allocation begins at the multiple of its alignment below the odd address. */
    if (matrix->host)
        npu_global_free(&machine->global,
                        matrix->address & ~(int64_t)(machine->config.alignment[NPU_GM] - 1));
    free(matrix->host);
}

void npu_test_release(struct npu_machine *machine, struct npu_test_product *product)
{
    release_matrix(machine, &product->a);
    release_matrix(machine, &product->b);
    release_matrix(machine, &product->c);
    release_matrix(machine, &product->d);
    for (uint32_t i = 0; i < NPU_EPILOGUES; i++)
        release_matrix(machine, &product->operand[i]);
    npu_program_free(product->program);
}

static struct npu_gemm_operand operand_of(const struct npu_test_matrix *matrix)
{
    return (struct npu_gemm_operand){matrix->address, matrix->stride, 0};
}

void npu_test_launch(const struct npu_test_product *product, struct npu_launch *launch)
{
    struct npu_gemm_arguments arguments = {
        .m = product->m,
        .n = product->n,
        .k = product->k,
        .batch = 1,
        .alpha = product->alpha,
        .beta = product->beta,
        .a = operand_of(&product->a),
        .b = operand_of(&product->b),
        .c = operand_of(&product->c),
        .d = operand_of(&product->d),
    };
    for (uint32_t i = 0; i < product->gemm.epilogues; i++)
        arguments.epilogue[i] = operand_of(&product->operand[i]);
    npu_gemm_launch(&product->gemm, &product->blocks, &arguments, launch);
}

static double element(const struct npu_test_matrix *matrix, int64_t row, int64_t column)
{
    return npu_test_load(matrix->type, matrix->host + row * matrix->stride, column);
}

/* A value and how far from it a result may be. */
struct bounded {
    double value;
    double bound;
};

static const double u = 0x1p-24; /* unit roundoff of f32 */

static double unary_exact(enum npu_function function, double x)
{
    switch (function) {
    case NPU_GELU_ERF:
        return x / 2 * (1 + erf(x / sqrt(2)));
    case NPU_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    default:
        return x / (1 + exp(-x));
    }
}

/* None of the functions is steeper than 1.2; what they themselves round is within 8 units of the
   larger of argument and result. */
static struct bounded apply(const struct npu_test_product *product, uint32_t index,
                            struct bounded in, int64_t i, int64_t j)
{
    const struct npu_epilogue *epilogue = &product->gemm.epilogue[index];
    const struct npu_test_matrix *matrix = &product->operand[index];
    double x = 0, low = epilogue->parameter[0], high = epilogue->parameter[1];
    if (epilogue->shape != NPU_OPERAND_NONE)
        x = element(matrix, epilogue->shape == NPU_OPERAND_MATRIX ? i : 0,
                    epilogue->shape == NPU_OPERAND_COLUMN   ? i
                    : epilogue->shape == NPU_OPERAND_SCALAR ? 0
                                                            : j);
    struct bounded out = in;
    switch (epilogue->function) {
    case NPU_ADD:
        out.value += x;
        break;
    case NPU_MUL:
        out.value *= x;
        out.bound *= fabs(x);
        break;
    case NPU_SCALE:
        out.value *= low;
        out.bound *= fabs(low);
        break;
    case NPU_RELU:
        out.value = in.value > 0 ? in.value : 0;
        return out;
    case NPU_CLIP:
        out.value = in.value < low ? low : in.value > high ? high : in.value;
        return out;
    default:
        out.value = unary_exact(epilogue->function, in.value);
        out.bound = 1.2 * in.bound + 8 * u * fabs(in.value);
        break;
    }
    out.bound += 2 * u * (fabs(out.value) + fabs(x)) + 0x1p-149;
    return out;
}

static struct bounded exact(const struct npu_test_product *product, int64_t i, int64_t j)
{
    const struct npu_gemm *gemm = &product->gemm;
    double sum = 0, magnitude = 0, c = 0;
    for (int64_t k = 0; gemm->product && k < product->k; k++) {
        double a = element(&product->a, gemm->transpose_a ? k : i, gemm->transpose_a ? i : k);
        double b = element(&product->b, gemm->transpose_b ? j : k, gemm->transpose_b ? k : j);
        sum += a * b;
        magnitude += fabs(a * b);
    }
    if (gemm->read_c)
        c = product->beta * element(&product->c, i, j);
    struct bounded out = {product->alpha * sum + c,
                          (double)(product->k + 4) * u *
                              (fabs(product->alpha) * magnitude + fabs(c))};
    if (gemm->type == NPU_I8 && gemm->d_type == NPU_I32 && !gemm->epilogues)
        out.bound = 0;
    for (uint32_t e = 0; e < gemm->epilogues; e++)
        out = apply(product, e, out, i, j);
    return out;
}

/* Rounding to the type of D. */
static struct bounded rounded(enum npu_type type, struct bounded in)
{
    double most = type == NPU_I8 ? 127 : 2147483647;
    switch (type) {
    case NPU_F16:
        in.bound += 0x1p-11 * fabs(in.value) + 0x1p-24;
        in.value = fabs(in.value) >= 65520 ? copysign(INFINITY, in.value) : in.value;
        break;
    case NPU_BF16:
        in.bound += 0x1p-8 * fabs(in.value);
        break;
    case NPU_F32:
        in.bound += u * fabs(in.value);
        break;
    default:
        in.value = in.value > most ? most : in.value < -most - 1 ? -most - 1 : in.value;
        in.bound += 0.5;
        break;
    }
    return in;
}

double npu_test_compare(const struct npu_machine *machine, const struct npu_test_product *product)
{
    const struct npu_test_matrix *d = &product->d;
    const uint8_t *bytes = npu_global_at(&machine->global, d->address);
    int64_t row_bytes = d->columns * npu_type_bytes(d->type);
    double worst = 0;
    for (int64_t i = 0; i < d->rows; i++) {
        for (int64_t j = 0; j < d->columns; j++) {
            struct bounded want = rounded(d->type, exact(product, i, j));
            double got = npu_test_load(d->type, bytes + i * d->stride, j);
            double ratio = got == want.value ? 0 : fabs(got - want.value) / want.bound;
            if (!(ratio <= worst))
                worst = ratio;
        }
        if (i + 1 < d->rows)
            assert_memory_equal(bytes + i * d->stride + row_bytes,
                                d->host + i * d->stride + row_bytes,
                                (size_t)(d->stride - row_bytes));
    }
    return worst;
}

static void open_machine(struct npu_machine *machine, const struct npu_config *config)
{
    char error[256] = "";
    npu_machine_open(machine, config, error, sizeof error);
    assert_string_equal(error, "");
}

void npu_test_machine(struct npu_machine *machine, int64_t memory, enum npu_schedule schedule)
{
    struct npu_config config;
    npu_config_defaults(&config);
    config.size[NPU_GM] = memory;
    config.schedule = schedule;
    open_machine(machine, &config);
}

void npu_test_small_machine(struct npu_machine *machine, int64_t memory)
{
    struct npu_config config;
    npu_config_defaults(&config);
    config.size[NPU_GM] = memory;
    config.size[NPU_L1] = 16384;
    config.size[NPU_L0A] = config.size[NPU_L0B] = 4096;
    config.size[NPU_L0C] = 8192;
    config.size[NPU_UB] = 16384;
    config.alignment[NPU_L1] = 512;
    config.alignment[NPU_UB] = 128;
    open_machine(machine, &config);
}
