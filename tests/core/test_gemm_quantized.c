/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised operands and results: scales and zero points of A and B, elements of fewer than 8 bits,
 * their packing, swiglu, and the scales that a run finds for D. */
#include "tests/core/gemm_product.h"

enum { A_SCALES, B_SCALES, A_ZEROS, B_ZEROS };

static void give_scales(product *p, int which, uint32_t type, int64_t rows, int64_t columns)
{
    kiln_tensor *operand = &p->tensors[which % 2];
    const kiln_quantization *said = which % 2 ? &p->desc.b_quantization : &p->desc.a_quantization;
    p->scales[which] = kiln_tensor_host(type, p->side[KILN_GEMM_SLOTS + which], 2,
                                        (const int64_t[]){rows, columns});
    *(which < A_ZEROS ? &operand->scale : &operand->zero_point) = &p->scales[which];
    for (int i = 0; i < 2; i++)
        operand->scale_block[i] = said->block[i] == -1 ? 0 : said->block[i];
}

/* A is e4m3 [3, 4] with ue8m0 scales per row and two steps of k; B is i4 [5, 4], transposed, with
 * f16 scales and zero points per row and three steps. */
static void make_quantized(product *p)
{
    make_product(p);
    p->desc.head.flags = KILN_GEMM_TRANSPOSE_B;
    p->desc.a_type = KILN_E4M3;
    p->desc.a_quantization = (kiln_quantization){KILN_UE8M0, KILN_TYPE_NONE, {1, 2}};
    p->desc.b_type = KILN_I4;
    p->desc.b_quantization = (kiln_quantization){KILN_F16, KILN_I4, {1, 3}};
    p->tensors[KILN_GEMM_A] = kiln_matrix(KILN_E4M3, p->memory[0], 3, 4, 4);
    p->tensors[KILN_GEMM_B] = kiln_matrix(KILN_I4, p->memory[1], 5, 4, 4);
    give_scales(p, A_SCALES, KILN_UE8M0, 3, 2);
    give_scales(p, B_SCALES, KILN_F16, 5, 2);
    give_scales(p, B_ZEROS, KILN_I4, 5, 2);
}

/* ---- Scales and zero points ---- */

static void test_scales(void **state)
{
    (void)state;
    product p;
    kiln_buffer far = {.device = &elsewhere, .bytes = 4096},
                small = {.device = home, .bytes = 5, .host = p.side[KILN_GEMM_SLOTS]};
    kiln_tensor *of_a = &p.scales[A_SCALES], *of_b = &p.scales[B_SCALES], *zeros = &p.scales[3];
#define SCALES(change, status, words) CASE_OF(make_quantized, change, status, words)
    SCALES((void)0, KILN_OK, "");
    /* There or not, as the descriptor says. */
    SCALES(a->scale = NULL, KILN_INVALID, "A lacks scales");
    SCALES(a->zero_point = zeros, KILN_INVALID, "A has zero points");
    SCALES(b->scale = NULL, KILN_INVALID, "B lacks scales");
    SCALES(b->zero_point = NULL, KILN_INVALID, "B lacks zero points");
    SCALES((b->scale = NULL, b->zero_point = NULL), KILN_INVALID, "B lacks scales");
    SCALES((b->scale = NULL, desc->b_quantization.scale_type = 0), KILN_OK, "");
    SCALES((b->zero_point = NULL, desc->b_quantization.zero_type = 0), KILN_OK, "");
    SCALES(c->scale = of_a, KILN_INVALID, "C has scales");
    SCALES((c->scale = of_a, args->beta = 0), KILN_OK, "");
    SCALES(d->zero_point = of_a, KILN_INVALID, "D has zero points");
    SCALES(of_a->scale = of_b, KILN_INVALID, "the scales of A has scales");
    /* Blocks. */
    SCALES(a->scale_block[1] = 4, KILN_INVALID, "scale_block of A is {1, 4}");
    SCALES(a->scale_block[0] = 0, KILN_INVALID, "scale_block of A is {0, 2}");
    SCALES(b->scale_block[1] = -1, KILN_INVALID, "scale_block of B is {1, -1}");
    SCALES(b->scale_block[1] = ((int64_t)1 << 32) + 3, KILN_INVALID, "scale_block of B");
    SCALES((a->scale_block[0] = 0, desc->a_quantization.block[0] = -1, of_a->shape[0] = 1), KILN_OK,
           "");
    SCALES((a->scale_block[0] = 0, desc->a_quantization.block[0] = -1), KILN_INVALID,
           "the scales of A has shape [3, 2] of rank 2; it must be [1, 2]");
    SCALES((a->scale_block[1] = desc->a_quantization.block[1] = INT32_MAX, of_a->shape[1] = 1),
           KILN_OK, "");
    /* Types and shapes. */
    SCALES(of_a->type = KILN_F32, KILN_INVALID, "the scales of A has type f32");
    SCALES(zeros->type = KILN_I8, KILN_INVALID, "the zero points of B has type i8");
    SCALES(of_b->shape[0] = 4, KILN_INVALID, "the scales of B has shape");
    SCALES(of_b->shape[1] = 1, KILN_INVALID, "the scales of B has shape");
    SCALES(zeros->shape[1] = 3, KILN_INVALID, "the zero points of B has shape");
    SCALES(zeros->rank = 1, KILN_INVALID, "of rank 1");
    SCALES(zeros->rank = 0, KILN_INVALID, "of rank 0");
    SCALES(zeros->rank = 9, KILN_INVALID, "of rank 9");
    SCALES(set_batch(of_a, 1, 77), KILN_OK, "");
    SCALES(set_batch(of_a, 2, 77), KILN_INVALID, "the scales of A has shape [2, 3, 2]");
    /* Any strides that are not negative: transposed, the same for all. */
    SCALES((of_a->strides[0] = 1, of_a->strides[1] = 3), KILN_OK, "");
    SCALES((of_b->strides[0] = of_b->strides[1] = 0), KILN_OK, "");
    SCALES(of_a->strides[1] = -1, KILN_INVALID, "stride -1");
    SCALES(of_a->strides[0] = INT64_MAX / 2, KILN_INVALID, "2^63");
    SCALES(of_b->strides[0] = INT64_MAX, KILN_INVALID, "2^63");
    SCALES(zeros->strides[1] = 2, KILN_INVALID, "start on a byte");
    SCALES(zeros->strides[0] = 3, KILN_INVALID, "start on a byte");
    SCALES((zeros->strides[0] = 0), KILN_OK, "");
    /* Places. */
    SCALES(of_a->data = NULL, KILN_INVALID, "the scales of A has neither");
    SCALES(of_b->byte_offset = -2, KILN_INVALID, "byte offset -2");
    SCALES(of_b->byte_offset = 1, KILN_INVALID, "the scales of B are not multiples of 2");
    SCALES(of_a->byte_offset = 1, KILN_OK, "");
    SCALES(zeros->buffer = &far, KILN_INVALID, "the zero points of B lives on elsewhere:0");
    SCALES(of_a->buffer = &small, KILN_INVALID, "the buffer has 5 bytes");
    SCALES(of_a->layout = KILN_LAYOUT_PACKED, KILN_UNSUPPORTED, "the scales of A has a layout");
    SCALES(of_a->flags = 1, KILN_UNSUPPORTED, "the scales of A has a layout");
    SCALES(of_a->reserved = 1, KILN_UNSUPPORTED, "the scales of A has a layout");
    SCALES(of_a->data = d->data, KILN_INVALID, "D overlaps the scales of A");
    SCALES(zeros->data = (char *)d->data + 56, KILN_INVALID, "D overlaps the zero points of B");
    SCALES(zeros->data = (char *)d->data + 60, KILN_OK, "");
    /* Without K nobody looks. */
    SCALES((desc->k = a->shape[1] = b->shape[1] = 0, a->scale = NULL, b->zero_point = NULL),
           KILN_OK, "");
    /* A product that is not quantised takes no scales. */
    CASE(a->scale = d, KILN_INVALID, "A has scales");
    CASE(b->scale = d, KILN_INVALID, "B has scales");
    CASE(b->zero_point = d, KILN_INVALID, "B has zero points");
    CASE(d->scale = a, KILN_INVALID, "D has scales");
}

/* In batches and groups: with the operand's leading dimension, or one for all. */
static void test_scales_by_group(void **state)
{
    (void)state;
    for (uint32_t grouping = KILN_GROUPING_NONE; grouping <= KILN_GROUPING_K; grouping++)
        for (int which = A_SCALES; which <= B_ZEROS; which++)
            for (int64_t leading = 0; leading < 5; leading++) {
                product p;
                make_quantized(&p);
                if (which == A_ZEROS)
                    continue;
                p.desc.grouping = grouping;
                p.desc.groups = grouping ? 3 : 0;
                p.desc.batch = grouping ? 1 : 3;
                const int64_t counts[] = {0, 3, 3, 3}; /* M, groups, groups */
                if (grouping)
                    give_slot(&p, KILN_GEMM_GROUPS, KILN_I32, 1, &counts[grouping]);
                bool of_b = which % 2, groups[4] = {true, true, true, true};
                if (grouping == KILN_GROUPING_CONTIGUOUS)
                    groups[0] = groups[2] = groups[3] = false;
                if (grouping == KILN_GROUPING_K)
                    groups[0] = groups[1] = false;
                for (int slot = 0; slot < 4; slot++)
                    if (groups[slot])
                        set_batch(&p.tensors[slot], 3, 20);
                ACCEPTED(&p); /* one for all */
                set_batch(&p.scales[which], leading, 6);
                if (leading == (groups[of_b] ? 3 : 1))
                    ACCEPTED(&p);
                else
                    REFUSED(&p, KILN_INVALID, "has shape");
            }
}

/* The short check takes no quantised or grouped run: the full one would refuse each of these. */
static void test_short_check_keeps_away(void **state)
{
    (void)state;
    product p;
    CASE_OF(make_quantized,
            (desc->b_type = b->type = KILN_I8, desc->b_quantization.zero_type = KILN_I8,
             p.scales[3].type = KILN_I8, args->beta = 0),
            KILN_OK, "");
    CASE_OF(make_quantized,
            (desc->b_type = b->type = KILN_I8, desc->b_quantization = (kiln_quantization){0},
             b->scale = b->zero_point = NULL, args->beta = 0, a->scale = NULL),
            KILN_INVALID, "A lacks scales");
    CASE((args->beta = 0, desc->b_type = KILN_I8, *b = kiln_matrix(KILN_I8, p.memory[1], 4, 5, 5),
          desc->b_quantization = (kiln_quantization){KILN_F32, KILN_TYPE_NONE, {-1, 1}}),
         KILN_INVALID, "B lacks scales");
    CASE((args->beta = 0, desc->grouping = KILN_GROUPING_CONTIGUOUS, desc->groups = 1),
         KILN_INVALID, "GROUPS is missing");
}

/* ---- Elements of fewer than 8 bits ---- */

static void make_nibbles(product *p)
{
    make_product(p);
    for (int slot = KILN_GEMM_A; slot <= KILN_GEMM_D; slot++) {
        kiln_tensor *tensor = &p->tensors[slot];
        *tensor = kiln_tensor_host(KILN_I4, p->memory[slot], 2, tensor->shape);
    }
    p->desc.a_type = p->desc.b_type = p->desc.c_type = p->desc.d_type = KILN_I4;
}

static void test_nibbles(void **state)
{
    (void)state;
    product p; /* rows of D have 5 elements in 3 bytes, so that the row stride is 6 */
    kiln_buffer nine = {.device = home, .bytes = 9, .host = p.memory[3]};
#define NIBBLES(change, status, words) CASE_OF(make_nibbles, change, status, words)
    NIBBLES((void)0, KILN_OK, "");
    NIBBLES(d->strides[0] = 5, KILN_INVALID, "start on a byte");
    NIBBLES(d->strides[0] = 7, KILN_INVALID, "start on a byte");
    NIBBLES(b->strides[0] = 5, KILN_INVALID, "B has column stride 1 and row stride 5");
    NIBBLES(c->strides[0] = 9, KILN_INVALID, "start on a byte");
    NIBBLES(a->strides[0] = 3, KILN_INVALID, "row stride at least the row");
    NIBBLES(a->strides[1] = 2, KILN_INVALID, "column stride must be 1");
    NIBBLES((desc->m = a->shape[0] = c->shape[0] = d->shape[0] = 1, d->strides[0] = 5), KILN_OK,
            ""); /* of one row it says nothing */
    NIBBLES(d->byte_offset = 1, KILN_OK, "");
    NIBBLES((d->buffer = &nine), KILN_OK, "");
    NIBBLES((d->buffer = &nine, d->byte_offset = 1), KILN_INVALID, "the buffer has 9 bytes");
    NIBBLES((d->buffer = &nine, d->strides[0] = 8), KILN_INVALID, "the buffer has 9 bytes");
    NIBBLES(d->strides[0] = INT64_MAX / 2 - 1, KILN_INVALID, "2^63");
    NIBBLES((c->data = d->data), KILN_OK, "");
    NIBBLES(a->data = (char *)d->data + 8, KILN_INVALID, "D overlaps A");
    NIBBLES(a->data = (char *)d->data + 9, KILN_OK, "");
    /* Alignments are of bytes. */
    NIBBLES(desc->a_alignment = 1, KILN_OK, "");
    NIBBLES(desc->a_alignment = 2, KILN_OK, "");
    NIBBLES(desc->a_alignment = 4, KILN_INVALID, "A are not multiples of 4");
    NIBBLES((desc->a_alignment = 4, a->strides[0] = 8), KILN_OK, "");
    NIBBLES((desc->a_alignment = 2, a->byte_offset = 1), KILN_INVALID, "A are not multiples of 2");
    /* Batches start on bytes, too. */
    make_nibbles(&p);
    p.desc.batch = 2;
    for (int slot = 0; slot < 4; slot++)
        set_batch(&p.tensors[slot], 2, 40);
    ACCEPTED(&p);
    p.tensors[KILN_GEMM_A].strides[0] = 41;
    REFUSED(&p, KILN_INVALID, "start on a byte");
    p.tensors[KILN_GEMM_A].strides[0] = 0;
    ACCEPTED(&p);
    p.tensors[KILN_GEMM_D].strides[0] = 16;
    REFUSED(&p, KILN_INVALID, "batch stride of D is 16");
    p.tensors[KILN_GEMM_D].strides[0] = 18;
    ACCEPTED(&p);
}

/* What kiln_gemm() makes of such tensors is accepted as it stands. */
static void test_described_from_tensors(void **state)
{
    (void)state;
    product p;
    for (int kind = 0; kind < 3; kind++) {
        if (kind == 0)
            make_quantized(&p);
        else if (kind == 1)
            make_nibbles(&p);
        else
            make_product(&p);
        kiln_gemm_describe(&p.desc, p.desc.head.flags, &p.tensors[0], &p.tensors[1], &p.tensors[2],
                           &p.tensors[3]);
        ACCEPTED(&p);
    }
    make_product(&p); /* scales on what has none, blocks beyond counting */
    p.tensors[KILN_GEMM_A].scale = &p.tensors[KILN_GEMM_B];
    kiln_gemm_describe(&p.desc, 0, &p.tensors[0], &p.tensors[1], NULL, &p.tensors[3]);
    REFUSED(&p, KILN_INVALID, "a_type is f32");
    make_quantized(&p);
    p.tensors[KILN_GEMM_A].scale_block[1] = (int64_t)1 << 40;
    kiln_gemm_describe(&p.desc, p.desc.head.flags, &p.tensors[0], &p.tensors[1], NULL,
                       &p.tensors[3]);
    REFUSED(&p, KILN_INVALID, "a_quantization.block[1]");
}

/* ---- Packed operands ---- */

static void make_blob(product *p)
{
    make_quantized(p);
    p->desc.head.flags |= KILN_GEMM_PACKED_B;
    p->tensors[KILN_GEMM_B].layout = KILN_LAYOUT_PACKED;
    p->tensors[KILN_GEMM_B].scale = p->tensors[KILN_GEMM_B].zero_point = NULL;
}

static void test_blobs_hold_their_scales(void **state)
{
    (void)state;
    product p;
    CASE_OF(make_blob, (void)0, KILN_OK, "");
    CASE_OF(make_blob, b->scale = &p.scales[B_SCALES], KILN_INVALID, "leave the pointers NULL");
    CASE_OF(make_blob, b->zero_point = &p.scales[B_ZEROS], KILN_INVALID, "they are in the blob");
    CASE_OF(make_blob, b->flags = 1, KILN_UNSUPPORTED, "B has a layout, flags");
    CASE_OF(make_blob, set_batch(b, 1, 0), KILN_OK, "");
    CASE_OF(make_blob, set_batch(b, 2, 0), KILN_INVALID, "B has shape");
    CASE_OF(make_blob, a->scale = NULL, KILN_INVALID, "A lacks scales");
    /* Groups have blobs of as many matrices; a batch may share one. */
    for (int64_t leading = 1; leading < 4; leading++) {
        make_blob(&p);
        p.desc.grouping = KILN_GROUPING_CONTIGUOUS;
        p.desc.groups = 2;
        give_slot(&p, KILN_GEMM_GROUPS, KILN_I32, 1, (const int64_t[]){3});
        REFUSED(&p, KILN_INVALID, "B has shape [5, 4]");
        set_batch(&p.tensors[KILN_GEMM_B], leading, 0);
        if (leading == 2)
            ACCEPTED(&p);
        else
            REFUSED(&p, KILN_INVALID, "B has shape");
    }
}

#define PACKING(change, status, words)                                                           \
    do {                                                                                         \
        make_quantized(&p);                                                                      \
        kiln_tensor strided = p.tensors[KILN_GEMM_B], packed = strided;                          \
        packed.layout = KILN_LAYOUT_PACKED;                                                      \
        packed.scale = packed.zero_point = NULL;                                                 \
        change;                                                                                  \
        kiln_gemm_desc canonical = p.desc;                                                       \
        assert_ok(gemm->canonicalise(&canonical));                                               \
        if ((status) == KILN_OK)                                                                 \
            assert_ok(gemm->check_packed(&canonical, KILN_GEMM_B, &strided, &packed));           \
        else                                                                                     \
            assert_fails(gemm->check_packed(&canonical, KILN_GEMM_B, &strided, &packed), status, \
                         words);                                                                 \
    } while (0)

static void test_packing(void **state)
{
    (void)state;
    const kiln_operator *gemm = kiln_operator_find(KILN_GEMM);
    product p;
    kiln_tensor *scales = &p.scales[B_SCALES], *zeros = &p.scales[B_ZEROS];
    PACKING((void)0, KILN_OK, "");
    PACKING(strided.scale = NULL, KILN_INVALID, "B lacks scales");
    PACKING(strided.zero_point = NULL, KILN_INVALID, "B lacks zero points");
    PACKING(strided.scale_block[1] = 4, KILN_INVALID, "scale_block of B");
    PACKING(scales->shape[0] = 4, KILN_INVALID, "the scales of B has shape");
    PACKING(zeros->type = KILN_U4, KILN_INVALID, "the zero points of B has type u4");
    PACKING(zeros->strides[0] = 3, KILN_INVALID, "start on a byte");
    PACKING(strided.strides[0] = 5, KILN_INVALID, "start on a byte");
    PACKING(strided.data = NULL, KILN_INVALID, "B has neither");
    PACKING(scales->data = NULL, KILN_INVALID, "the scales of B has neither");
    PACKING(packed.scale = scales, KILN_INVALID, "they are in the blob");
    PACKING(packed.zero_point = zeros, KILN_INVALID, "they are in the blob");
    PACKING(packed.type = KILN_U4, KILN_INVALID, "differ in type");
    PACKING(packed.shape[0] = 4, KILN_INVALID, "differ in shape");
    PACKING(packed.rank = 1, KILN_INVALID, "differ in shape");
    PACKING((set_batch(&strided, 1, 0), set_batch(&packed, 1, 0)), KILN_OK, "");
    PACKING((set_batch(&strided, 2, 20), set_batch(&packed, 2, 0)), KILN_INVALID, "B has shape");
    PACKING((set_batch(&strided, -1, 20), set_batch(&packed, -1, 0)), KILN_INVALID, "B has shape");
    for (uint32_t grouping = KILN_GROUPING_NONE; grouping <= KILN_GROUPING_K; grouping++)
        for (int64_t leading = 0; leading < 5; leading++) {
            bool groups = grouping != KILN_GROUPING_K;
            PACKING((p.desc.grouping = grouping, p.desc.groups = grouping ? 3 : 0,
                     p.desc.batch = grouping ? 1 : 3, set_batch(&strided, leading, 20),
                     set_batch(&packed, leading, 0)),
                    leading == (groups ? 3 : 1) || (leading == 1 && grouping == 0) ? KILN_OK
                                                                                   : KILN_INVALID,
                    "B has shape");
        }
    for (int64_t leading = -1; leading < 5; leading++) /* of a dynamic batch there may be fewer */
        PACKING((p.desc.head.flags |= KILN_GEMM_DYNAMIC_BATCH, p.desc.batch = 3,
                 set_batch(&strided, leading, 20), set_batch(&packed, leading, 0)),
                leading >= 0 && leading <= 3 ? KILN_OK : KILN_INVALID, "B has shape");
}

/* ---- Results ---- */

/* 3×4 by 4×12, of whose columns six are left, in blocks of four; a bias before and one behind. */
static void make_narrow(product *p)
{
    make_product(p);
    p->desc.n = 12;
    p->desc.d_type = KILN_E4M3;
    p->desc.d_quantization = (kiln_quantization){KILN_F32, KILN_TYPE_NONE, {1, 4}};
    p->tensors[KILN_GEMM_B] = kiln_matrix(KILN_F32, p->memory[1], 4, 12, 12);
    p->tensors[KILN_GEMM_C] = kiln_matrix(KILN_F32, p->memory[2], 3, 12, 12);
    p->tensors[KILN_GEMM_D] = kiln_matrix(KILN_E4M3, p->memory[3], 3, 6, 6);
    static const uint32_t kinds[] = {KILN_EPILOGUE_BIAS, KILN_EPILOGUE_SWIGLU, KILN_EPILOGUE_BIAS,
                                     KILN_EPILOGUE_QUANTIZE};
    for (uint32_t i = 0; i < 4; i++) {
        p->desc.epilogues[i].kind = kinds[i];
        if (kinds[i] == KILN_EPILOGUE_BIAS) {
            p->desc.epilogues[i].type = KILN_F32;
            give_slot(p, KILN_GEMM_OPERAND + i, KILN_F32, 1, &(int64_t){i ? 6 : 12});
        }
    }
    p->desc.epilogue_count = 4;
    give_slot(p, KILN_GEMM_D_SCALE, KILN_F32, 2, (const int64_t[]){3, 2});
}

static void test_swiglu(void **state)
{
    (void)state;
    product p;
#define NARROW(change, status, words) CASE_OF(make_narrow, change, status, words)
    NARROW((void)0, KILN_OK, "");
    NARROW(d->shape[1] = 12, KILN_INVALID, "n=24");
    NARROW(d->shape[1] = 5, KILN_INVALID, "n=10");
    NARROW(c->shape[1] = 6, KILN_INVALID, "C has shape [3, 6]");
    NARROW(b->shape[1] = 6, KILN_INVALID, "B has shape [4, 6]");
    NARROW(p.tensors[4].shape[0] = 6, KILN_INVALID, "epilogue[0] has shape");
    NARROW(p.tensors[6].shape[0] = 12, KILN_INVALID, "epilogue[2] has shape");
    NARROW((desc->head.flags = KILN_GEMM_DYNAMIC_N, desc->n = 13), KILN_OK, "");
    NARROW((desc->head.flags = KILN_GEMM_DYNAMIC_N, desc->n = INT64_MAX,
            d->shape[1] = INT64_MAX / 2 + 1),
           KILN_INVALID, "m=3");
    NARROW((desc->head.flags = KILN_GEMM_DYNAMIC_N, desc->n = INT64_MAX, d->shape[1] = INT64_MIN),
           KILN_INVALID, "m=3");
    /* C is wider than D, and so cannot be it; without swiglu, of one type, it can. */
    NARROW((desc->c_type = c->type = KILN_E4M3, c->data = d->data), KILN_INVALID, "D overlaps C");
    NARROW((desc->c_type = c->type = KILN_E4M3, c->data = d->data, d->strides[0] = 12),
           KILN_INVALID, "D overlaps C");
    NARROW((desc->epilogues[1] = (kiln_epilogue){.kind = KILN_EPILOGUE_RELU}, desc->n = 6,
            b->shape[1] = c->shape[1] = p.tensors[4].shape[0] = 6,
            desc->c_type = c->type = KILN_E4M3, c->strides[0] = 6, c->data = d->data),
           KILN_OK, "");
    /* A matrix behind swiglu. */
    kiln_epilogue residual = {.kind = KILN_EPILOGUE_RESIDUAL, .type = KILN_F32};
    NARROW((desc->epilogues[2] = residual, give_slot(&p, 6, KILN_F32, 2, (const int64_t[]){3, 6})),
           KILN_OK, "");
    NARROW((desc->epilogues[2] = residual, give_slot(&p, 6, KILN_F32, 2, (const int64_t[]){3, 12})),
           KILN_INVALID, "epilogue[2] has shape");
    NARROW((desc->epilogues[0] = residual, give_slot(&p, 4, KILN_F32, 2, (const int64_t[]){3, 12})),
           KILN_OK, "");
}

static void make_narrow_batch(product *p)
{
    make_narrow(p);
    p->desc.batch = 2;
    for (int slot = KILN_GEMM_A; slot <= KILN_GEMM_D; slot++)
        set_batch(&p->tensors[slot], 2, 100);
    set_batch(&p->tensors[KILN_GEMM_D_SCALE], 2, 6);
}

static void test_d_scale(void **state)
{
    (void)state;
    product p;
    kiln_tensor *scale = &p.tensors[KILN_GEMM_D_SCALE];
    kiln_buffer far = {.device = &elsewhere, .bytes = 4096},
                small = {.device = home, .bytes = 23, .host = p.side[KILN_GEMM_D_SCALE]};
    NARROW(args->head.tensor_count = KILN_GEMM_D_SCALE, KILN_INVALID, "D_SCALE is missing");
    NARROW(memset(scale, 0, sizeof *scale), KILN_INVALID, "D_SCALE is missing");
    NARROW(scale->type = KILN_UE8M0, KILN_INVALID, "D_SCALE has type ue8m0");
    NARROW((desc->d_quantization.scale_type = scale->type = KILN_UE8M0), KILN_OK, "");
    NARROW(scale->shape[1] = 3, KILN_INVALID, "D_SCALE has shape [3, 3]");
    NARROW(scale->shape[0] = 2, KILN_INVALID, "D_SCALE has shape [2, 2]");
    NARROW(scale->rank = 1, KILN_INVALID, "D_SCALE has shape [3] of rank 1");
    NARROW(scale->rank = 0, KILN_INVALID, "D_SCALE has shape [] of rank 0");
    NARROW((desc->d_quantization.block[1] = -1, scale->shape[1] = 1), KILN_OK, "");
    NARROW(desc->d_quantization.block[1] = -1, KILN_INVALID, "must be [3, 1]");
    NARROW((desc->d_quantization.block[1] = 1, scale->shape[1] = 6, scale->strides[0] = 6), KILN_OK,
           "");
    /* Rows or columns contiguous. */
    NARROW(scale->strides[0] = 9, KILN_OK, "");
    NARROW(scale->strides[0] = 1, KILN_INVALID, "D_SCALE has column stride 1 and row stride 1");
    NARROW((scale->strides[0] = 1, scale->strides[1] = 3), KILN_OK, "");
    NARROW((scale->strides[0] = 1, scale->strides[1] = 4), KILN_OK, "");
    NARROW((scale->strides[0] = 1, scale->strides[1] = 2), KILN_INVALID, "D_SCALE");
    NARROW((scale->strides[0] = 2, scale->strides[1] = 6), KILN_INVALID,
           "its rows or its columns must be contiguous");
    NARROW((scale->strides[0] = 0), KILN_INVALID, "D_SCALE has column stride 1 and row stride 0");
    NARROW((scale->strides[1] = -3, scale->strides[0] = 1), KILN_INVALID, "-3");
    NARROW((scale->strides[0] = 1, scale->strides[1] = INT64_MAX), KILN_INVALID, "2^63");
    NARROW((desc->d_quantization.block[1] = -1, scale->shape[1] = 1, scale->strides[1] = 9,
            scale->strides[0] = 7),
           KILN_OK, "");
    NARROW((desc->m = a->shape[0] = c->shape[0] = d->shape[0] = scale->shape[0] = 1,
            scale->strides[0] = 9, scale->strides[1] = 7),
           KILN_OK, "");
    /* Places, and what lies there. */
    NARROW(scale->data = NULL, KILN_INVALID, "D_SCALE has neither");
    NARROW(scale->buffer = &far, KILN_INVALID, "D_SCALE lives on elsewhere:0");
    NARROW(scale->buffer = &small, KILN_INVALID, "the buffer has 23 bytes");
    NARROW(scale->byte_offset = 2, KILN_INVALID, "D_SCALE are not multiples of 4");
    NARROW(scale->flags = 1, KILN_UNSUPPORTED, "D_SCALE has a layout");
    NARROW(scale->scale = a, KILN_INVALID, "D_SCALE has scales");
    NARROW(scale->data = d->data, KILN_INVALID, "D overlaps D_SCALE");
    NARROW(scale->data = (char *)d->data + 16, KILN_INVALID, "D overlaps D_SCALE");
    NARROW(scale->data = (char *)d->data + 20, KILN_OK, "");
    NARROW(scale->data = a->data, KILN_INVALID, "D_SCALE overlaps A");
    NARROW(scale->data = (char *)b->data + 188, KILN_INVALID, "D_SCALE overlaps B");
    NARROW(scale->data = c->data, KILN_INVALID, "D_SCALE overlaps C");
    NARROW((scale->data = c->data, args->beta = 0), KILN_OK, "");
    NARROW(scale->data = p.side[6], KILN_INVALID, "D_SCALE overlaps epilogue[2]");
    NARROW((scale->data = &p.side[6][6]), KILN_OK, "");
    NARROW((scale->data = &p.memory[0][2], a->strides[0] = scale->strides[0] = 6), KILN_INVALID,
           "D_SCALE overlaps A");
    NARROW((scale->data = &p.memory[0][4], a->strides[0] = scale->strides[0] = 6), KILN_OK,
           ""); /* side by side */
    NARROW((scale->data = &p.memory[0][4], a->strides[0] = 6, scale->strides[0] = 1,
            scale->strides[1] = 6),
           KILN_INVALID, "D_SCALE overlaps A");
    /* Batches. */
    CASE_OF(make_narrow_batch, (void)0, KILN_OK, "");
    CASE_OF(make_narrow_batch, scale->strides[0] = 5, KILN_INVALID, "stride of D_SCALE is 5");
    CASE_OF(make_narrow_batch, scale->strides[0] = 0, KILN_INVALID, "stride of D_SCALE is 0");
    CASE_OF(make_narrow_batch, (scale->strides[0] = 2, scale->strides[1] = 4), KILN_OK, "");
    CASE_OF(make_narrow_batch, (scale->strides[1] = 1, scale->strides[2] = 3), KILN_OK, "");
    CASE_OF(make_narrow_batch,
            (scale->strides[0] = 3, scale->strides[1] = 1, scale->strides[2] = 6), KILN_OK, "");
    CASE_OF(make_narrow_batch,
            (scale->strides[0] = 2, scale->strides[1] = 1, scale->strides[2] = 6), KILN_INVALID,
            "stride of D_SCALE is 2");
    CASE_OF(make_narrow_batch, scale->shape[0] = 1, KILN_INVALID, "D_SCALE has shape [1, 3, 2]");
    CASE_OF(make_narrow_batch, (*scale = kiln_matrix(KILN_F32, scale->data, 3, 2, 2)), KILN_INVALID,
            "D_SCALE has shape [3, 2]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_scales_by_group),
        cmocka_unit_test(test_short_check_keeps_away),
        cmocka_unit_test(test_nibbles),
        cmocka_unit_test(test_described_from_tensors),
        cmocka_unit_test(test_blobs_hold_their_scales),
        cmocka_unit_test(test_packing),
        cmocka_unit_test(test_swiglu),
        cmocka_unit_test(test_d_scale),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
