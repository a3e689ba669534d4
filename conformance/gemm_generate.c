/* SPDX-License-Identifier: Apache-2.0 */
/* Random GEMM cases. What is tried is chosen for what has gone wrong in BLAS libraries: sizes
 * beside powers of two, rows with gaps, bases off every alignment, broadcast batches, C that is D,
 * NaN where nothing may be read. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "conformance/conformance.h"
#include "conformance/lines.h"

const uint32_t conformance_gemm_types[] = {KILN_F64, KILN_F32, KILN_F16, KILN_BF16, KILN_I8};
const char *const conformance_gemm_layouts[] = {"nn", "nt", "tn", "tt"};
const char *const conformance_gemm_kinds[] = {"none",      "bias", "relu",     "gelu-erf",
                                              "gelu-tanh", "silu", "residual", "multiply",
                                              "scale",     "clip"};

enum { GUARD_BYTES = 64, LARGEST_WORK = 2000000 };

/* ---- Random numbers: splitmix64 ---- */

typedef struct random_state {
    uint64_t state;
} random_state;

static uint64_t next(random_state *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* In [0, count). */
static int64_t below(random_state *random, int64_t count)
{
    return (int64_t)(next(random) % (uint64_t)count);
}

static bool one_in(random_state *random, int64_t count)
{
    return below(random, count) == 0;
}

/* In [-1, 1). */
static double uniform(random_state *random)
{
    return (double)(int64_t)next(random) * 0x1p-63;
}

/* ---- Choices ---- */

static int64_t choose_dimension(random_state *random)
{
    static const int64_t edges[] = {1,  2,  3,  5,  7,  8,  13, 15, 16, 17,  31,  32,  33,
                                    37, 47, 53, 61, 63, 64, 65, 79, 97, 127, 128, 129, 130};
    return one_in(random, 40) ? 0 : edges[below(random, (int64_t)(sizeof edges / sizeof *edges))];
}

static void choose_sizes(random_state *random, conformance_gemm_case *test)
{
    int64_t *sizes[] = {&test->m, &test->n, &test->k};
    for (int i = 0; i < 3; i++)
        *sizes[i] = choose_dimension(random);
    if (one_in(random, 12))
        *sizes[below(random, 3)] = 200 + below(random, 2000);
    static const int64_t batches[] = {1, 1, 1, 2, 3, 5};
    test->batch = batches[below(random, 6)];
    while (test->batch * test->m * test->n * test->k > LARGEST_WORK)
        *sizes[below(random, 3)] /= 2;
}

/* A maximum for a dimension, which becomes dynamic; or the dimension itself. */
static int64_t choose_maximum(random_state *random, int64_t size, uint32_t flag,
                              kiln_gemm_desc *desc)
{
    if (!one_in(random, 3))
        return size;
    desc->head.flags |= flag;
    return one_in(random, 2) ? size + below(random, 70) + (size == 0) : kiln_round_up_pow2(size);
}

static double choose_factor(random_state *random)
{
    static const double simple[] = {0, 1, 1, 1, -1};
    int64_t choice = below(random, 8);
    return choice < 5   ? simple[choice]
           : choice < 7 ? 2 * uniform(random)
                        : uniform(random) * 0x1p-8;
}

/* A type that C or D may have beside A. */
static uint32_t choose_output_type(random_state *random, uint32_t a_type)
{
    uint32_t choices[] = {a_type,    a_type,  KILN_F32, KILN_F16,
                          KILN_BF16, KILN_I8, KILN_F32, KILN_F32};
    if (a_type == KILN_I8)
        choices[0] = choices[1] = KILN_I32;
    return choices[below(random, 8)];
}

static uint32_t choose_operand_type(random_state *random, uint32_t a_type)
{
    static const uint32_t narrow[] = {KILN_F32, KILN_F16, KILN_BF16};
    return a_type == KILN_F64 && one_in(random, 2) ? (uint32_t)KILN_F64 : narrow[below(random, 3)];
}

static void choose_epilogue(random_state *random, uint32_t kind, uint32_t a_type,
                            kiln_epilogue *epilogue)
{
    epilogue->kind = kind;
    switch (kind) {
    case KILN_EPILOGUE_BIAS:
        epilogue->operand = (uint32_t)(KILN_OPERAND_SCALAR + below(random, 3));
        break;
    case KILN_EPILOGUE_SCALE:
        epilogue->operand = (uint32_t)below(random, 4);
        if (epilogue->operand == KILN_OPERAND_NONE)
            epilogue->p0 = 2 * uniform(random);
        break;
    case KILN_EPILOGUE_RESIDUAL:
    case KILN_EPILOGUE_MULTIPLY:
        epilogue->operand = KILN_OPERAND_MATRIX;
        break;
    case KILN_EPILOGUE_CLIP:
        epilogue->p0 = 4 * uniform(random);
        epilogue->p1 = epilogue->p0 + 4 + 4 * uniform(random);
        if (one_in(random, 6))
            epilogue->p0 = -(double)INFINITY;
        else if (one_in(random, 6))
            epilogue->p1 = (double)INFINITY;
        break;
    default:
        break;
    }
    if (epilogue->operand != KILN_OPERAND_NONE)
        epilogue->type = choose_operand_type(random, a_type);
}

/* ---- Memory ---- */

/* Gives a slot memory for `rows` × `columns` (a vector when rank is 1, `columns` long) with gaps
 * and an offset. With a batch the tensor has one more dimension, whose stride is 0 for one in three
 * inputs. */
static bool make_tensor(random_state *random, conformance_gemm_case *test, uint32_t slot,
                        uint32_t type, uint32_t rank, int64_t rows, int64_t columns, bool batched)
{
    conformance_tensor *made = &test->tensors[slot];
    int64_t size = kiln_type_bits(type) / 8, batch = batched ? test->batch : 1;
    int64_t row_stride = (columns > 0 ? columns : 1) + (one_in(random, 2) ? below(random, 18) : 0);
    int64_t entry = rank == 2 ? rows * row_stride : columns;
    int64_t batch_stride = entry + (one_in(random, 2) ? below(random, 40) : 0);
    if (slot != KILN_GEMM_D && one_in(random, 3))
        batch_stride = 0;
    int64_t offset = one_in(random, 2)   ? 0
                     : one_in(random, 3) ? below(random, 70)
                                         : below(random, 20) * size;
    made->bytes =
        (offset + ((batch > 0 ? batch - 1 : 0) * batch_stride + entry) * size + GUARD_BYTES + 63) /
        64 * 64;
    made->memory = aligned_alloc(64, (size_t)made->bytes);
    made->before = malloc((size_t)made->bytes);
    if (!made->memory || !made->before)
        return false;
    memset(made->memory, 0xff, (size_t)made->bytes);

    kiln_tensor *tensor = &made->tensor;
    tensor->data = made->memory;
    tensor->byte_offset = offset;
    tensor->type = type;
    tensor->rank = rank + batched;
    tensor->shape[rank - 1 + batched] = columns;
    tensor->strides[rank - 1 + batched] = 1;
    if (rank == 2) {
        tensor->shape[batched] = rows;
        tensor->strides[batched] = row_stride;
    }
    if (batched) {
        tensor->shape[0] = batch;
        tensor->strides[0] = batch_stride;
    }
    return true;
}

static double choose_value(random_state *random, uint32_t type, double scale)
{
    if (type == KILN_I8)
        return (double)(below(random, 256) - 128);
    if (type == KILN_I32)
        return (double)(below(random, 2000001) - 1000000);
    return uniform(random) * scale;
}

/* What is planted among ordinary values. */
enum { PLANT_NOTHING, PLANT_SPECIALS, PLANT_DENORMALS };

static double choose_planted(random_state *random, uint32_t type, int plant)
{
    static const double specials[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 0, -0.0};
    if (plant == PLANT_SPECIALS)
        return specials[below(random, 5)];
    return uniform(random) * (type == KILN_F64 ? 0x1p-1025 : type == KILN_F16 ? 0x1p-16 : 0x1p-128);
}

static void fill(random_state *random, conformance_tensor *made, double scale, int plant)
{
    const kiln_tensor *tensor = &made->tensor;
    int64_t rarity = plant == PLANT_SPECIALS ? 100 : 3;
    for (int64_t line = 0; line < conformance_line_count(tensor); line++)
        for (int64_t j = 0; j < conformance_line_elements(tensor); j++) {
            bool planted = plant != PLANT_NOTHING && one_in(random, rarity);
            double value = planted ? choose_planted(random, tensor->type, plant)
                                   : choose_value(random, tensor->type, scale);
            kiln_store_f64(tensor->type, conformance_line(tensor, made->memory, line), j, value,
                           KILN_SATURATE);
        }
}

/* ---- The case ---- */

static void choose_descriptor(random_state *random, conformance_gemm_case *test)
{
    kiln_gemm_desc *desc = &test->desc;
    int64_t cell = test->index;
    uint32_t type = conformance_gemm_types[cell % CONFORMANCE_GEMM_TYPES];
    cell /= CONFORMANCE_GEMM_TYPES;
    desc->head.struct_size = sizeof *desc;
    desc->head.flags = (uint32_t)(cell % CONFORMANCE_GEMM_LAYOUTS / 2) * KILN_GEMM_TRANSPOSE_A |
                       (uint32_t)(cell % 2) * KILN_GEMM_TRANSPOSE_B;
    cell /= CONFORMANCE_GEMM_LAYOUTS;
    uint32_t kind = (uint32_t)(cell % CONFORMANCE_GEMM_KINDS);

    choose_sizes(random, test);
    desc->m = choose_maximum(random, test->m, KILN_GEMM_DYNAMIC_M, desc);
    desc->n = choose_maximum(random, test->n, KILN_GEMM_DYNAMIC_N, desc);
    desc->k = choose_maximum(random, test->k, KILN_GEMM_DYNAMIC_K, desc);
    desc->batch = choose_maximum(random, test->batch, KILN_GEMM_DYNAMIC_BATCH, desc);
    if ((desc->head.flags & KILN_GEMM_DYNAMIC_BATCH) && one_in(random, 20))
        test->batch = 0;
    desc->a_type = desc->b_type = type;
    desc->c_type = one_in(random, 3) ? (uint32_t)KILN_TYPE_NONE : choose_output_type(random, type);
    desc->d_type = choose_output_type(random, type);
    /* An operand is packed whole: at its maxima. */
    if (one_in(random, 4)) {
        desc->head.flags |= KILN_GEMM_PACKED_B;
        desc->n = test->n;
        desc->k = test->k;
    }
    if (one_in(random, 12)) {
        desc->head.flags |= KILN_GEMM_PACKED_A;
        desc->m = test->m;
        desc->k = test->k;
    }
    if (one_in(random, 3))
        desc->head.flags |= KILN_GEMM_SATURATE;

    desc->epilogue_count = kind == 0 ? 0 : (uint32_t)(1 + below(random, KILN_GEMM_MAX_EPILOGUES));
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        choose_epilogue(random, (uint32_t)(KILN_EPILOGUE_BIAS + below(random, KILN_EPILOGUE_CLIP)),
                        type, &desc->epilogues[i]);
    if (kind > 0) {
        kiln_epilogue *asked = &desc->epilogues[below(random, desc->epilogue_count)];
        memset(asked, 0, sizeof *asked);
        choose_epilogue(random, kind, type, asked);
    }
    test->alpha = choose_factor(random);
    test->beta = desc->c_type == KILN_TYPE_NONE ? 0 : choose_factor(random);
}

/* A matrix may have the batch before it; vectors are shared by the batch. */
static bool make_operand(random_state *random, conformance_gemm_case *test, uint32_t i,
                         bool batched)
{
    kiln_epilogue *epilogue = &test->desc.epilogues[i];
    uint32_t slot = KILN_GEMM_OPERAND + i, shape = epilogue->operand;
    if (shape == KILN_OPERAND_NONE)
        return true;
    int64_t length = shape == KILN_OPERAND_SCALAR   ? 1
                     : shape == KILN_OPERAND_COLUMN ? test->m
                                                    : test->n;
    bool made = shape == KILN_OPERAND_MATRIX
                    ? make_tensor(random, test, slot, epilogue->type, 2, test->m, length,
                                  batched && one_in(random, 2))
                    : make_tensor(random, test, slot, epilogue->type, 1, 1, length, false);
    if (made)
        epilogue->alignment = kiln_tensor_alignment(&test->tensors[slot].tensor);
    return made;
}

static bool make_tensors(random_state *random, conformance_gemm_case *test)
{
    kiln_gemm_desc *desc = &test->desc;
    bool transpose_a = desc->head.flags & KILN_GEMM_TRANSPOSE_A,
         transpose_b = desc->head.flags & KILN_GEMM_TRANSPOSE_B;
    bool batched = test->batch != 1 || one_in(random, 3);
    conformance_tensor *tensors = test->tensors;
    bool made =
        make_tensor(random, test, KILN_GEMM_A, desc->a_type, 2, transpose_a ? test->k : test->m,
                    transpose_a ? test->m : test->k, batched) &&
        make_tensor(random, test, KILN_GEMM_B, desc->b_type, 2, transpose_b ? test->n : test->k,
                    transpose_b ? test->k : test->n, batched) &&
        make_tensor(random, test, KILN_GEMM_D, desc->d_type, 2, test->m, test->n, batched);
    test->aliased = desc->c_type == desc->d_type && one_in(random, 2);
    if (test->aliased)
        tensors[KILN_GEMM_C].tensor = tensors[KILN_GEMM_D].tensor;
    else if (desc->c_type != KILN_TYPE_NONE)
        made = made &&
               make_tensor(random, test, KILN_GEMM_C, desc->c_type, 2, test->m, test->n, batched);
    for (uint32_t i = 0; made && i < desc->epilogue_count; i++)
        made = make_operand(random, test, i, batched);
    /* A packed operand's base is the blob's. */
    if (!(desc->head.flags & KILN_GEMM_PACKED_A))
        desc->a_alignment = kiln_tensor_alignment(&tensors[KILN_GEMM_A].tensor);
    if (!(desc->head.flags & KILN_GEMM_PACKED_B))
        desc->b_alignment = kiln_tensor_alignment(&tensors[KILN_GEMM_B].tensor);
    if (desc->c_type != KILN_TYPE_NONE)
        desc->c_alignment = kiln_tensor_alignment(&tensors[KILN_GEMM_C].tensor);
    desc->d_alignment = kiln_tensor_alignment(&tensors[KILN_GEMM_D].tensor);
    return made;
}

/* Values for everything that may be read; what may not stays 0xff, which is NaN in the
 * floating-point types. */
static void fill_tensors(random_state *random, conformance_gemm_case *test)
{
    static const double scales[] = {1, 1, 1, 0x1p-10, 64, 4096};
    static const int plants[] = {PLANT_NOTHING, PLANT_NOTHING, PLANT_NOTHING, PLANT_SPECIALS,
                                 PLANT_DENORMALS};
    double scale = scales[below(random, 6)];
    int plant = plants[below(random, 5)];
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        conformance_tensor *made = &test->tensors[slot];
        bool factor =
            slot < KILN_GEMM_OPERAND
                ? slot != KILN_GEMM_C && slot != KILN_GEMM_D
                : test->desc.epilogues[slot - KILN_GEMM_OPERAND].kind >= KILN_EPILOGUE_MULTIPLY;
        bool unread = (slot == KILN_GEMM_C && test->beta == 0) ||
                      ((slot == KILN_GEMM_A || slot == KILN_GEMM_B) && test->alpha == 0 &&
                       one_in(random, 2)) ||
                      (slot == KILN_GEMM_D && !(test->aliased && test->beta != 0));
        if (!made->memory)
            continue;
        if (!unread)
            fill(random, made, slot >= KILN_GEMM_OPERAND && factor ? 1.5 : scale,
                 one_in(random, 2) ? plant : PLANT_NOTHING);
        memcpy(made->before, made->memory, (size_t)made->bytes);
    }
}

conformance_gemm_case *conformance_gemm_case_create(uint64_t seed, int64_t index)
{
    conformance_gemm_case *test = calloc(1, sizeof *test);
    random_state random = {seed};
    random.state = next(&random) + (uint64_t)index;
    if (!test)
        return NULL;
    test->seed = seed;
    test->index = index;
    choose_descriptor(&random, test);
    test->wrapped = one_in(&random, 4);
    test->streamed = one_in(&random, 3);
    if (!make_tensors(&random, test)) {
        conformance_gemm_case_free(test);
        return NULL;
    }
    fill_tensors(&random, test);
    return test;
}

void conformance_gemm_case_free(conformance_gemm_case *test)
{
    if (!test)
        return;
    for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        free(test->tensors[slot].memory);
        free(test->tensors[slot].before);
    }
    free(test->exact);
    free(test->bound);
    free(test);
}

static void append(char **text, size_t *size, const char *format, ...) KILN_PRINTF(3, 4);
static void append(char **text, size_t *size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(*text, *size, format, arguments);
    va_end(arguments);
    size_t step = written < 0 ? 0 : (size_t)written < *size ? (size_t)written : *size - 1;
    *text += step;
    *size -= step;
}

void conformance_gemm_case_describe(const conformance_gemm_case *test, char *text, size_t size)
{
    static const char *const shapes[] = {"", ".scalar", ".row", ".column", ".matrix"};
    const kiln_gemm_desc *desc = &test->desc;
    uint32_t flags = desc->head.flags;
    append(&text, &size, "seed %llu case %lld: %s %s, M %lld N %lld K %lld",
           (unsigned long long)test->seed, (long long)test->index, kiln_type_name(desc->a_type),
           conformance_gemm_layouts[(flags & KILN_GEMM_TRANSPOSE_A ? 2 : 0) +
                                    (flags & KILN_GEMM_TRANSPOSE_B ? 1 : 0)],
           (long long)test->m, (long long)test->n, (long long)test->k);
    if (test->tensors[KILN_GEMM_D].tensor.rank == 3)
        append(&text, &size, ", batch %lld", (long long)test->batch);
    append(&text, &size, ", alpha %.9g beta %.9g", test->alpha, test->beta);
    if (desc->c_type != KILN_TYPE_NONE)
        append(&text, &size, ", C %s%s", kiln_type_name(desc->c_type), test->aliased ? " = D" : "");
    append(&text, &size, ", D %s%s%s%s", kiln_type_name(desc->d_type),
           flags & KILN_GEMM_SATURATE ? " saturating" : "",
           flags & KILN_GEMM_PACKED_A ? ", A packed" : "",
           flags & KILN_GEMM_PACKED_B ? ", B packed" : "");
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        append(&text, &size, "%s%s%s", i ? " " : ", then ",
               conformance_gemm_kinds[desc->epilogues[i].kind], shapes[desc->epilogues[i].operand]);
}
