/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of a GEMM and what it costs. */
#include "bench/gemm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/random.h"

enum { ALIGNMENT = 4096, CODES = 4096 };

/* Of a matrix: their bits, and a few of them added up, can still be counted. */
static const int64_t MAXIMUM_ELEMENTS = INT64_C(1) << 56;

bool bench_say(bench_message *message, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(message->text, sizeof message->text, format, list);
    va_end(list);
    return false;
}

int64_t bench_tensor_bytes(const kiln_tensor *tensor)
{
    if (tensor->type == KILN_TYPE_NONE)
        return 0;
    return kiln_type_row_bytes(tensor->type, kiln_tensor_elements(tensor));
}

double bench_gemm_operations(const bench_gemm *gemm)
{
    const kiln_gemm_desc *desc = &gemm->desc;
    return 2.0 * (double)desc->m * (double)desc->n * (double)desc->k *
           (double)(desc->batch ? desc->batch : 1);
}

/* Columns of D: halved by each swiglu. */
static int64_t output_columns(const kiln_gemm_desc *desc)
{
    int64_t columns = desc->n;
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        columns /= desc->epilogues[i].kind == KILN_EPILOGUE_SWIGLU ? 2 : 1;
    return columns;
}

static kiln_tensor matrix(const kiln_gemm_desc *desc, uint32_t type, int64_t rows, int64_t columns)
{
    int64_t shape[3] = {desc->batch, rows, columns};
    return desc->batch > 1 ? kiln_tensor_host(type, NULL, 3, shape)
                           : kiln_tensor_host(type, NULL, 2, shape + 1);
}

/* The operand of an epilogue; `columns` is the width of the value that it meets. */
static kiln_tensor epilogue_operand(const kiln_gemm_desc *desc, const kiln_epilogue *epilogue,
                                    int64_t columns)
{
    switch (epilogue->operand) {
    case KILN_OPERAND_SCALAR:
        return kiln_vector(epilogue->type, NULL, 1);
    case KILN_OPERAND_ROW:
        return kiln_vector(epilogue->type, NULL, columns);
    case KILN_OPERAND_COLUMN:
        return kiln_vector(epilogue->type, NULL, desc->m);
    default:
        return kiln_matrix(epilogue->type, NULL, desc->m, columns, columns);
    }
}

bool bench_gemm_countable(const bench_gemm *gemm, bench_message *message)
{
    const kiln_gemm_desc *desc = &gemm->desc;
    const struct {
        const char *name;
        int64_t rows, columns;
    } matrices[] = {{"A", desc->m, desc->k}, {"B", desc->k, desc->n}, {"D", desc->m, desc->n}};
    int64_t batch = desc->batch > 1 ? desc->batch : 1;
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        int64_t count;
        if (__builtin_mul_overflow(matrices[i].rows, matrices[i].columns, &count) ||
            __builtin_mul_overflow(count, batch, &count) || count > MAXIMUM_ELEMENTS)
            return bench_say(message,
                             "%s has %lld times %lld elements, batch %lld: more than 2^56; choose "
                             "a smaller shape",
                             matrices[i].name, (long long)matrices[i].rows,
                             (long long)matrices[i].columns, (long long)batch);
    }
    return true;
}

/* Types and shapes of all operands; no memory yet. */
static void describe(const bench_gemm *gemm, bench_operands *operands)
{
    const kiln_gemm_desc *desc = &gemm->desc;
    bool at = desc->head.flags & KILN_GEMM_TRANSPOSE_A,
         bt = desc->head.flags & KILN_GEMM_TRANSPOSE_B;
    memset(operands, 0, sizeof *operands);
    operands->tensors[KILN_GEMM_A] =
        matrix(desc, desc->a_type, at ? desc->k : desc->m, at ? desc->m : desc->k);
    operands->tensors[KILN_GEMM_B] =
        matrix(desc, desc->b_type, bt ? desc->n : desc->k, bt ? desc->k : desc->n);
    if (desc->c_type != KILN_TYPE_NONE)
        operands->tensors[KILN_GEMM_C] = matrix(desc, desc->c_type, desc->m, desc->n);
    operands->tensors[KILN_GEMM_D] = matrix(desc, desc->d_type, desc->m, output_columns(desc));
    int64_t columns = desc->n;
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        const kiln_epilogue *epilogue = &desc->epilogues[i];
        columns /= epilogue->kind == KILN_EPILOGUE_SWIGLU ? 2 : 1;
        if (epilogue->operand != KILN_OPERAND_NONE)
            operands->tensors[KILN_GEMM_OPERAND + i] = epilogue_operand(desc, epilogue, columns);
    }
}

double bench_gemm_bytes(const bench_gemm *gemm)
{
    bench_operands operands;
    describe(gemm, &operands);
    double bytes = 0;
    for (int i = 0; i < KILN_GEMM_SLOTS; i++)
        bytes += (double)bench_tensor_bytes(&operands.tensors[i]);
    return bytes;
}

/* Uniform in [-1, 1), for integers in [-127, 127]; never the same twice in a row, never all zero.
 * Narrow types take their codes from a table of random ones, since rounding each value singly would
 * take longer than many a measurement. */
static void fill(const kiln_tensor *tensor, uint64_t seed)
{
    int64_t count = kiln_tensor_elements(tensor);
    if (tensor->type == KILN_F32) {
        float *values = tensor->data;
        for (int64_t i = 0; i < count; i++)
            values[i] = (float)((int32_t)(bench_random(&seed) >> 32)) * 0x1p-31f;
        return;
    }
    int bits = kiln_type_bits(tensor->type);
    if (bits != 16 && bits != 8) {
        for (int64_t i = 0; i < count; i++)
            kiln_store_f64(tensor->type, tensor->data, i, bench_random_unit(&seed), 0);
        return;
    }
    uint16_t codes[CODES];
    double range = tensor->type == KILN_I8 || tensor->type == KILN_U8 ? 127 : 1;
    memset(codes, 0, sizeof codes);
    for (int i = 0; i < CODES; i++)
        kiln_store_f64(tensor->type, &codes[i], 0, bench_random_unit(&seed) * range, 0);
    uint8_t *bytes = tensor->data;
    for (int64_t i = 0; i < count; i++)
        memcpy(bytes + i * (bits / 8), &codes[bench_random(&seed) % CODES], (size_t)bits / 8);
}

/* Bytes that the system could give without swapping; a large number when it does not say. */
static double available_memory(void)
{
    double kibibytes = 1e18;
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file)
        return kibibytes;
    char line[128];
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf", &kibibytes) == 1)
            break;
    fclose(file);
    return kibibytes * 1024;
}

bool bench_operands_make(const bench_gemm *gemm, bench_operands *operands, bench_message *message)
{
    if (!bench_gemm_countable(gemm, message))
        return false;
    describe(gemm, operands);
    double bytes = bench_gemm_bytes(gemm), available = available_memory();
    if (bytes > 0.9 * available)
        return bench_say(
            message,
            "the operands need %.2f GiB, but %.2f GiB are available: choose a smaller shape",
            bytes / 0x1p30, available / 0x1p30);
    for (int i = 0; i < KILN_GEMM_SLOTS; i++) {
        kiln_tensor *tensor = &operands->tensors[i];
        if (tensor->type == KILN_TYPE_NONE)
            continue;
        size_t size = (size_t)bench_tensor_bytes(tensor);
        tensor->data = aligned_alloc(ALIGNMENT, (size + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
        if (!tensor->data) {
            bench_operands_free(operands);
            return bench_say(message, "memory is exhausted: %zu bytes for operand %d", size, i);
        }
        if (i != KILN_GEMM_D)
            fill(tensor, gemm->seed + (uint64_t)i * 0x51ed2701);
    }
    return true;
}

void bench_operands_free(bench_operands *operands)
{
    for (int i = 0; i < KILN_GEMM_SLOTS; i++)
        free(operands->tensors[i].data);
    memset(operands, 0, sizeof *operands);
}
