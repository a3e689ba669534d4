/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of a GEMM and what it costs. */
#include "bench/gemm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/fill.h"

enum { ALIGNMENT = 4096 };

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
    if (tensor->rank == 0)
        return kiln_type_row_bytes(tensor->type, 1);
    int64_t bytes = kiln_type_row_bytes(tensor->type, tensor->shape[tensor->rank - 1]);
    for (uint32_t i = 0; i + 1 < tensor->rank; i++)
        bytes *= tensor->shape[i];
    return bytes;
}

double bench_gemm_operations(const bench_gemm *gemm)
{
    const kiln_gemm_desc *desc = &gemm->desc;
    double products = (double)(desc->batch ? desc->batch : 1);
    if (desc->grouping == KILN_GROUPING_MASKED)
        products = (double)desc->groups;
    return 2.0 * (double)desc->m * (double)desc->n * (double)desc->k * products;
}

static bool quantizes(const kiln_gemm_desc *desc)
{
    return desc->epilogue_count > 0 &&
           desc->epilogues[desc->epilogue_count - 1].kind == KILN_EPILOGUE_QUANTIZE;
}

uint32_t bench_gemm_tensor_count(const kiln_gemm_desc *desc)
{
    return desc->grouping || quantizes(desc) ? (uint32_t)KILN_GEMM_SLOTS
                                             : KILN_GEMM_OPERAND + desc->epilogue_count;
}

bool bench_gemm_is_output(const kiln_gemm_desc *desc, uint32_t slot)
{
    return slot == KILN_GEMM_D || slot == KILN_GEMM_D_SCALE ||
           (slot >= KILN_GEMM_OPERAND && slot < KILN_GEMM_OPERAND + desc->epilogue_count &&
            desc->epilogues[slot - KILN_GEMM_OPERAND].kind == KILN_EPILOGUE_BIAS_GRADIENT);
}

/* Columns of D: halved by each swiglu. */
static int64_t output_columns(const kiln_gemm_desc *desc)
{
    int64_t columns = desc->n;
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        columns /= desc->epilogues[i].kind == KILN_EPILOGUE_SWIGLU ? 2 : 1;
    return columns;
}

/* Extent of a slot's leading dimension; 0 = it has none. */
static int64_t leading(const kiln_gemm_desc *desc, uint32_t slot)
{
    bool grouped = desc->grouping == KILN_GROUPING_MASKED ||
                   (desc->grouping == KILN_GROUPING_CONTIGUOUS && slot == KILN_GEMM_B) ||
                   (desc->grouping == KILN_GROUPING_K && slot >= KILN_GEMM_C);
    return grouped ? desc->groups : desc->batch > 1 ? desc->batch : 0;
}

static kiln_tensor matrix(const kiln_gemm_desc *desc, uint32_t slot, uint32_t type, int64_t rows,
                          int64_t columns)
{
    int64_t shape[3] = {leading(desc, slot), rows, columns};
    return shape[0] ? kiln_tensor_host(type, NULL, 3, shape)
                    : kiln_tensor_host(type, NULL, 2, shape + 1);
}

static int64_t blocks(int64_t extent, int32_t block)
{
    return block < 1 ? 1 : (extent + block - 1) / block;
}

/* Scales and zero points of A or B. */
static void quantize(const kiln_gemm_desc *desc, bench_operands *operands, uint32_t slot)
{
    const kiln_quantization *said = slot ? &desc->b_quantization : &desc->a_quantization;
    kiln_tensor *tensor = &operands->tensors[slot];
    if (!said->scale_type && !said->zero_type)
        return;
    int64_t rows = blocks(tensor->shape[tensor->rank - 2], said->block[0]),
            columns = blocks(tensor->shape[tensor->rank - 1], said->block[1]);
    for (int i = 0; i < 2; i++)
        tensor->scale_block[i] = said->block[i] < 1 ? 0 : said->block[i];
    if (said->scale_type) {
        operands->scales[slot] = matrix(desc, slot, said->scale_type, rows, columns);
        tensor->scale = &operands->scales[slot];
    }
    if (said->zero_type) {
        operands->zero_points[slot] = matrix(desc, slot, said->zero_type, rows, columns);
        tensor->zero_point = &operands->zero_points[slot];
    }
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
    if (desc->grouping && desc->groups < 1)
        return bench_say(message, "a grouping without groups is nothing to be measured");
    batch = desc->groups > batch ? desc->groups : batch;
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
    kiln_tensor *tensors = operands->tensors;
    int64_t columns = output_columns(desc);
    memset(operands, 0, sizeof *operands);
    tensors[KILN_GEMM_A] =
        matrix(desc, KILN_GEMM_A, desc->a_type, at ? desc->k : desc->m, at ? desc->m : desc->k);
    tensors[KILN_GEMM_B] =
        matrix(desc, KILN_GEMM_B, desc->b_type, bt ? desc->n : desc->k, bt ? desc->k : desc->n);
    quantize(desc, operands, KILN_GEMM_A);
    quantize(desc, operands, KILN_GEMM_B);
    if (desc->c_type != KILN_TYPE_NONE)
        tensors[KILN_GEMM_C] = matrix(desc, KILN_GEMM_C, desc->c_type, desc->m, desc->n);
    tensors[KILN_GEMM_D] = matrix(desc, KILN_GEMM_D, desc->d_type, desc->m, columns);
    if (quantizes(desc))
        tensors[KILN_GEMM_D_SCALE] =
            matrix(desc, KILN_GEMM_D, desc->d_quantization.scale_type, desc->m,
                   blocks(columns, desc->d_quantization.block[1]));
    if (desc->grouping)
        tensors[KILN_GEMM_GROUPS] = kiln_vector(
            KILN_I32, NULL, desc->grouping == KILN_GROUPING_CONTIGUOUS ? desc->m : desc->groups);
    columns = desc->n;
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        const kiln_epilogue *epilogue = &desc->epilogues[i];
        columns /= epilogue->kind == KILN_EPILOGUE_SWIGLU ? 2 : 1;
        if (epilogue->operand != KILN_OPERAND_NONE)
            tensors[KILN_GEMM_OPERAND + i] = epilogue_operand(desc, epilogue, columns);
    }
}

/* All tensors, the slots first. */
enum { ALL_TENSORS = KILN_GEMM_SLOTS + 2 * BENCH_QUANTIZED_SLOTS };

static kiln_tensor *tensor_at(bench_operands *operands, int index)
{
    if (index < KILN_GEMM_SLOTS)
        return &operands->tensors[index];
    index -= KILN_GEMM_SLOTS;
    return index < BENCH_QUANTIZED_SLOTS ? &operands->scales[index]
                                         : &operands->zero_points[index - BENCH_QUANTIZED_SLOTS];
}

double bench_gemm_bytes(const bench_gemm *gemm)
{
    bench_operands operands;
    describe(gemm, &operands);
    double bytes = 0;
    for (int i = 0; i < ALL_TENSORS; i++)
        bytes += (double)bench_tensor_bytes(tensor_at(&operands, i));
    return bytes;
}

static void fill(const kiln_gemm_desc *desc, int index, const kiln_tensor *tensor, uint64_t seed)
{
    if (index == KILN_GEMM_GROUPS)
        bench_fill_groups(desc, tensor);
    else if (index >= KILN_GEMM_SLOTS && index < KILN_GEMM_SLOTS + BENCH_QUANTIZED_SLOTS)
        bench_fill_scales(tensor, seed);
    else if (index >= KILN_GEMM_SLOTS || !bench_gemm_is_output(desc, (uint32_t)index))
        bench_fill(tensor, seed);
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
    for (int i = 0; i < ALL_TENSORS; i++) {
        kiln_tensor *tensor = tensor_at(operands, i);
        if (tensor->type == KILN_TYPE_NONE)
            continue;
        size_t size = (size_t)bench_tensor_bytes(tensor);
        tensor->data = aligned_alloc(ALIGNMENT, (size + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
        if (!tensor->data) {
            bench_operands_free(operands);
            return bench_say(message, "memory is exhausted: %zu bytes for operand %d", size, i);
        }
        fill(&gemm->desc, i, tensor, gemm->seed + (uint64_t)i * 0x51ed2701);
    }
    return true;
}

void bench_operands_free(bench_operands *operands)
{
    for (int i = 0; i < ALL_TENSORS; i++)
        free(tensor_at(operands, i)->data);
    memset(operands, 0, sizeof *operands);
}
