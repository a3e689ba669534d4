/* SPDX-License-Identifier: Apache-2.0 */
/* What a plain or batched GEMM refuses before it touches anything: every sentence once. */
#include "tests/core/gemm_product.h"

static void test_argument_structs(void **state)
{
    (void)state;
    product p;
    CASE(args->head.struct_size = sizeof(kiln_args_head), KILN_INVALID, "struct_size is 16");
    CASE(args->head.struct_size = 0xfffffff0u, KILN_INVALID, "struct_size is 4294967280");
    CASE(args->head.tensor_count = 3, KILN_INVALID, "3 tensors were given");
    CASE(args->head.tensor_count = 15, KILN_INVALID, "15 tensors were given");
    CASE(args->head.tensors = NULL, KILN_INVALID, "tensors were given");
    CASE(desc->c_type = 0, KILN_INVALID, "beta is 1");
    CASE((desc->c_type = 0, args->beta = 0, memset(c, 0, sizeof *c)), KILN_OK, "");
    CASE((desc->c_type = 0, args->beta = (double)NAN), KILN_INVALID, "beta is nan");
    struct {
        kiln_gemm_args args;
        uint64_t beyond;
    } larger;
    make_product(&p);
    larger.args = p.args;
    larger.beyond = 0;
    larger.args.head.struct_size = sizeof larger;
    kiln_gemm_desc canonical = p.desc;
    const kiln_operator *gemm = kiln_operator_find(KILN_GEMM);
    _Alignas(8) unsigned char prepared[KILN_OPERATOR_PREPARED] = {0};
    bool empty;
    assert_ok(gemm->canonicalise(&canonical));
    assert_ok(gemm->check(&canonical, prepared, home, &larger.args.head, &empty));
    larger.beyond = 1;
    assert_fails(gemm->check(&canonical, prepared, home, &larger.args.head, &empty),
                 KILN_UNSUPPORTED, "does not know");
}

static void test_shapes_and_types(void **state)
{
    (void)state;
    product p;
    CASE(a->type = KILN_F64, KILN_INVALID, "A has type f64; the plan was made for f32");
    CASE(d->type = 0, KILN_INVALID, "D has type none");
    CASE(d->shape[0] = 4, KILN_INVALID, "m=4");
    CASE(d->shape[1] = 6, KILN_INVALID, "n=6");
    CASE(a->shape[1] = 5, KILN_INVALID, "k=5");
    CASE(a->shape[0] = 2, KILN_INVALID, "A has shape");
    CASE(b->shape[0] = 5, KILN_INVALID, "B has shape");
    CASE(b->shape[1] = 4, KILN_INVALID, "B has shape");
    CASE(c->shape[1] = 4, KILN_INVALID, "C has shape");
    CASE(d->rank = 1, KILN_INVALID, "D has shape");
    CASE(d->rank = 9, KILN_INVALID, "of rank 9");
    CASE(a->rank = 0, KILN_INVALID, "of rank 0");
    CASE(a->rank = 0xffffffffu, KILN_INVALID, "A has shape");
    CASE(b->rank = 4, KILN_INVALID, "B has shape");
    CASE(d->shape[0] = -3, KILN_INVALID, "m=-3");
    CASE((desc->head.flags = KILN_GEMM_TRANSPOSE_A), KILN_INVALID, "k=3");
    CASE((desc->head.flags = KILN_GEMM_TRANSPOSE_B), KILN_INVALID, "B has shape");
    CASE((desc->head.flags = KILN_GEMM_TRANSPOSE_B,
          *b = kiln_matrix(KILN_F32, p.memory[1], 5, 4, 4)),
         KILN_OK, "");
    CASE((desc->m = 2, desc->head.flags = KILN_GEMM_DYNAMIC_M), KILN_INVALID, "m=3");
    CASE((desc->m = 3000, desc->head.flags = KILN_GEMM_DYNAMIC_M), KILN_OK, "");
    CASE((desc->n = 4, desc->head.flags = KILN_GEMM_DYNAMIC_N), KILN_INVALID, "n=5");
    CASE((desc->k = 3, desc->head.flags = KILN_GEMM_DYNAMIC_K), KILN_INVALID, "k=4");
    CASE((desc->m = 3000, desc->head.flags = KILN_GEMM_DYNAMIC_M,
          d->shape[0] = a->shape[0] = c->shape[0] = -1),
         KILN_INVALID, "m=-1");
}

static void test_strides_and_places(void **state)
{
    (void)state;
    product p;
    CASE(d->strides[0] = 4, KILN_INVALID, "D has column stride 1 and row stride 4 for rows of 5");
    CASE(a->strides[0] = 0, KILN_INVALID, "A has column stride 1 and row stride 0");
    CASE(b->strides[1] = 2, KILN_INVALID, "B has column stride 2");
    CASE(b->strides[0] = -5, KILN_INVALID, "stride -5");
    CASE(a->strides[0] = INT64_MAX, KILN_INVALID, "2^63");
    CASE(a->strides[0] = INT64_MAX / 2, KILN_INVALID, "2^63");
    CASE(a->byte_offset = INT64_MAX - 8, KILN_INVALID, "2^63");
    CASE(a->byte_offset = -4, KILN_INVALID, "byte offset -4");
    CASE(b->byte_offset = INT64_MIN, KILN_INVALID, "byte offset");
    CASE(a->data = NULL, KILN_INVALID, "A has neither a buffer nor an address");
    CASE((a->data = NULL, a->byte_offset = 64), KILN_INVALID, "neither");
    CASE(a->layout = KILN_LAYOUT_PACKED, KILN_UNSUPPORTED, "layout");
    CASE(b->flags = 1, KILN_UNSUPPORTED, "flags");
    CASE(d->reserved = 1, KILN_UNSUPPORTED, "reserved");
    /* A single row may have any row stride. */
    CASE((desc->m = a->shape[0] = c->shape[0] = d->shape[0] = 1, a->strides[0] = d->strides[0] = 0),
         KILN_OK, "");
    /* In buffers. */
    kiln_buffer far = {.device = &elsewhere, .bytes = 4096},
                near = {.device = home, .bytes = 48, .host = p.memory[0]};
    CASE(a->buffer = &far, KILN_INVALID, "A lives on elsewhere:0, but the plan was made for host");
    CASE((a->buffer = &near, a->data = NULL), KILN_OK, "");
    CASE((a->buffer = &near, a->byte_offset = 4), KILN_INVALID, "the buffer has 48 bytes");
    CASE((a->buffer = &near, a->byte_offset = 64), KILN_INVALID, "the buffer has 48 bytes");
    CASE((a->buffer = &near, a->byte_offset = -4), KILN_INVALID, "byte offset -4");
}

static void test_promised_alignment(void **state)
{
    (void)state;
    product p;
    kiln_buffer wrapped = {.device = home, .bytes = 512, .host = (char *)p.memory[0] + 4};
    CASE((desc->a_alignment = 16), KILN_OK, "");
    CASE((desc->a_alignment = 16, a->data = &p.memory[0][1]), KILN_INVALID,
         "A are not multiples of 16 bytes");
    CASE((desc->a_alignment = 16, a->byte_offset = 4), KILN_INVALID,
         "A are not multiples of 16 bytes");
    CASE((desc->a_alignment = 16, a->data = &p.memory[0][1], a->byte_offset = 12), KILN_OK, "");
    CASE((desc->a_alignment = 16, a->strides[0] = 5), KILN_INVALID,
         "A are not multiples of 16 bytes");
    CASE((desc->d_alignment = 32), KILN_INVALID, "D are not multiples of 32 bytes");
    CASE((desc->a_alignment = 8, a->buffer = &wrapped), KILN_INVALID, "A are not multiples of 8");
    /* Said nothing, it is the element's size; 1 promises nothing. */
    CASE(a->data = (char *)p.memory[0] + 1, KILN_INVALID, "A are not multiples of 4 bytes");
    CASE((desc->a_alignment = desc->d_alignment = 1, a->data = (char *)p.memory[0] + 1,
          d->data = (char *)p.memory[3] + 3),
         KILN_OK, "");
}

static void test_empty_products(void **state)
{
    (void)state;
    product p;
    bool empty;
    make_product(&p);
    p.desc.head.flags = KILN_GEMM_DYNAMIC_M;
    p.tensors[KILN_GEMM_A].shape[0] = p.tensors[KILN_GEMM_C].shape[0] =
        p.tensors[KILN_GEMM_D].shape[0] = 0;
    for (int i = 0; i < 4; i++)
        p.tensors[i].data = NULL;
    assert_ok(check(&p, false, &empty));
    assert_true(empty);
    ACCEPTED(&p);
    make_product(&p); /* K = 0 reads neither A nor B, but D is written */
    p.desc.k = 0;
    p.tensors[KILN_GEMM_A].shape[1] = p.tensors[KILN_GEMM_B].shape[0] = 0;
    p.tensors[KILN_GEMM_A].data = p.tensors[KILN_GEMM_B].data = NULL;
    assert_ok(check(&p, false, &empty));
    assert_false(empty);
    p.args.beta = 0;
    ACCEPTED(&p);
    p.tensors[KILN_GEMM_D].data = NULL;
    REFUSED(&p, KILN_INVALID, "D has neither");
    /* A matrix whose second dimension is empty, but it is not K. */
    make_product(&p);
    p.desc.head.flags = KILN_GEMM_DYNAMIC_K;
    p.args.beta = 0;
    p.tensors[KILN_GEMM_A].rank = 3;
    p.tensors[KILN_GEMM_A].shape[0] = 3;
    p.tensors[KILN_GEMM_A].shape[1] = 0;
    p.tensors[KILN_GEMM_A].shape[2] = 4;
    p.tensors[KILN_GEMM_A].strides[2] = 1;
    REFUSED(&p, KILN_INVALID, "A has shape");
}

/* ---- Batches ---- */

static void test_batches(void **state)
{
    (void)state;
    product p;
    make_batch(&p);
    ACCEPTED(&p);
    p.tensors[KILN_GEMM_A].strides[0] = p.tensors[KILN_GEMM_C].strides[0] =
        0; /* the same for every entry */
    ACCEPTED(&p);
    for (int i = 0; i < 4; i++) {
        make_batch(&p);
        p.tensors[i].shape[0] = 3;
        REFUSED(&p, KILN_INVALID, i == KILN_GEMM_D ? "batch=3" : "shape");
        make_batch(&p);
        p.tensors[i].strides[0] = -100;
        REFUSED(&p, KILN_INVALID, "-100");
        make_batch(&p);
        p.tensors[i].strides[0] = INT64_MAX / 4;
        REFUSED(&p, KILN_INVALID, "2^63");
        make_batch(&p); /* every tensor of a batch has the dimension */
        kiln_tensor *tensor = &p.tensors[i];
        *tensor = kiln_matrix(KILN_F32, tensor->data, tensor->shape[1], tensor->shape[2],
                              tensor->shape[2]);
        REFUSED(&p, KILN_INVALID, i == KILN_GEMM_D ? "batch=1" : "shape");
    }
    make_batch(&p); /* without a batch a leading 1 is welcome */
    p.desc.batch = 1;
    for (int i = 0; i < 4; i++)
        p.tensors[i].shape[0] = 1;
    ACCEPTED(&p);
    make_batch(&p);
    p.tensors[KILN_GEMM_D].strides[0] = 14;
    REFUSED(&p, KILN_INVALID, "batch stride of D is 14");
    p.tensors[KILN_GEMM_D].strides[0] = 15;
    ACCEPTED(&p);
    p.tensors[KILN_GEMM_D].strides[0] = 0;
    REFUSED(&p, KILN_INVALID, "batch stride of D is 0");
    p.tensors[KILN_GEMM_D].strides[0] =
        5; /* the matrices side by side, as in [rows, heads, columns] */
    p.tensors[KILN_GEMM_D].strides[1] = 10;
    ACCEPTED(&p);
    p.tensors[KILN_GEMM_D].strides[1] = 9;
    REFUSED(&p, KILN_INVALID, "batch stride of D is 5");
    p.tensors[KILN_GEMM_D].strides[1] = 10;
    p.tensors[KILN_GEMM_D].strides[0] = 4;
    REFUSED(&p, KILN_INVALID, "batch stride of D is 4");
}

/* ---- Epilogue operands and packed operands ---- */

static void test_operands(void **state)
{
    (void)state;
    static const struct {
        uint32_t kind, operand;
        int64_t count;
    } vectors[] = {
        {KILN_EPILOGUE_BIAS, KILN_OPERAND_ROW, 5},     {KILN_EPILOGUE_BIAS, KILN_OPERAND_COLUMN, 3},
        {KILN_EPILOGUE_BIAS, KILN_OPERAND_SCALAR, 1},  {KILN_EPILOGUE_SCALE, KILN_OPERAND_ROW, 5},
        {KILN_EPILOGUE_SCALE, KILN_OPERAND_COLUMN, 3},
    };
    product p;
    for (int64_t i = 0; i < COUNT(vectors); i++) {
        kiln_buffer small = {.device = home, .bytes = vectors[i].count * 4, .host = p.memory[2]};
#define VECTOR(change, status, words)                                                   \
    CASE((desc->epilogue_count = 1,                                                     \
          desc->epilogues[0] = (kiln_epilogue){.kind = vectors[i].kind,                 \
                                               .operand = vectors[i].operand,           \
                                               .type = KILN_F32},                       \
          args->beta = 0, args->head.tensor_count = 5,                                  \
          p.tensors[4] = kiln_vector(KILN_F32, p.memory[2], vectors[i].count), change), \
         status, words)
        VECTOR((void)0, KILN_OK, "");
        VECTOR(args->head.tensor_count = 4, KILN_INVALID, "epilogue 0 needs its operand in slot 4");
        VECTOR(p.tensors[4].shape[0] = 99, KILN_INVALID, "epilogue[0] has shape");
        VECTOR(p.tensors[4].rank = 2, KILN_INVALID, "epilogue[0] has shape");
        VECTOR(p.tensors[4].rank = 0, KILN_INVALID, "epilogue[0] has shape");
        VECTOR(p.tensors[4].type = KILN_BF16, KILN_INVALID, "has type bf16");
        VECTOR(p.tensors[4].data = NULL, KILN_INVALID, "neither");
        VECTOR(p.tensors[4].byte_offset = -4, KILN_INVALID, "epilogue[0]");
        VECTOR(p.tensors[4].layout = KILN_LAYOUT_PACKED, KILN_UNSUPPORTED,
               "epilogue[0] has a layout");
        VECTOR(p.tensors[4].scale = p.tensors, KILN_INVALID, "epilogue[0] has scales");
        VECTOR((p.tensors[4].rank = 2, p.tensors[4].shape[1] = p.tensors[4].shape[0],
                p.tensors[4].strides[1] = p.tensors[4].shape[0] = 1),
               KILN_OK, "");
        VECTOR(p.tensors[4].data = d->data, KILN_INVALID, "D overlaps epilogue[0]");
        VECTOR(p.tensors[4].buffer = &small, KILN_OK, "");
        VECTOR((p.tensors[4].buffer = &small, p.tensors[4].byte_offset = 4), KILN_INVALID,
               "inside of its buffer");
        VECTOR((desc->epilogues[0].alignment = 64, p.tensors[4].data = &p.memory[2][1]),
               KILN_INVALID, "multiples of 64");
        if (vectors[i].count > 1)
            VECTOR(p.tensors[4].strides[0] = 2, KILN_INVALID, "contiguous");
    }
    kiln_epilogue residual = {.kind = KILN_EPILOGUE_RESIDUAL, .type = KILN_F32};
#define MATRIX(change, status, words)          \
    do {                                       \
        make_batch(&p);                        \
        p.args.beta = 0;                       \
        p.desc.epilogue_count = 1;             \
        p.desc.epilogues[0] = residual;        \
        p.args.head.tensor_count = 5;          \
        p.tensors[4] = p.tensors[KILN_GEMM_C]; \
        change;                                \
        if ((status) == KILN_OK)               \
            ACCEPTED(&p);                      \
        else                                   \
            REFUSED(&p, status, words);        \
    } while (0)
    MATRIX((void)0, KILN_OK, "");
    MATRIX(p.tensors[4] = kiln_matrix(KILN_F32, p.memory[2], 3, 5, 5), KILN_OK,
           ""); /* shared by the batch */
    MATRIX(p.tensors[4].shape[0] = 1, KILN_INVALID, "epilogue[0] has shape");
    MATRIX(p.tensors[4].shape[2] = 4, KILN_INVALID, "epilogue[0] has shape");
    MATRIX(p.tensors[4].data = p.memory[3], KILN_INVALID, "D overlaps epilogue[0]");
}

static void test_packed_operands(void **state)
{
    (void)state;
    product p;
    kiln_buffer small = {.device = home, .bytes = 100, .host = p.memory[1]};
    CASE(desc->head.flags = KILN_GEMM_PACKED_B, KILN_INVALID, "B is not packed");
    CASE((desc->head.flags = KILN_GEMM_PACKED_B, b->layout = KILN_LAYOUT_PACKED), KILN_OK, "");
    CASE(
        (desc->head.flags = KILN_GEMM_PACKED_A, a->layout = KILN_LAYOUT_PACKED, a->type = KILN_F64),
        KILN_INVALID, "A has type f64");
    CASE(
        (desc->head.flags = KILN_GEMM_PACKED_B, b->layout = KILN_LAYOUT_PACKED, b->buffer = &small),
        KILN_INVALID, "no room for its header");
    CASE((desc->head.flags = KILN_GEMM_PACKED_B, b->layout = KILN_LAYOUT_PACKED,
          b->byte_offset = -1),
         KILN_INVALID, "no room");
    CASE((desc->head.flags = KILN_GEMM_PACKED_B, b->layout = KILN_LAYOUT_PACKED, b->data = NULL),
         KILN_INVALID, "neither");

    const kiln_operator *gemm = kiln_operator_find(KILN_GEMM);
    make_product(&p);
    assert_ok(gemm->canonicalise(&p.desc));
    kiln_tensor packed = p.tensors[KILN_GEMM_B], strided = packed;
    packed.layout = KILN_LAYOUT_PACKED;
    assert_ok(gemm->check_packed(&p.desc, KILN_GEMM_B, &strided, &packed));
    assert_fails(gemm->check_packed(&p.desc, KILN_GEMM_C, &strided, &packed), KILN_INVALID,
                 "operand 2 cannot be packed");
    assert_fails(gemm->check_packed(&p.desc, KILN_GEMM_A, &strided, &packed), KILN_INVALID,
                 "A has shape");
    assert_fails(gemm->check_packed(&p.desc, KILN_GEMM_B, &packed, &strided), KILN_INVALID,
                 "layout KILN_LAYOUT_PACKED");
    strided.strides[0] = 4;
    assert_fails(gemm->check_packed(&p.desc, KILN_GEMM_B, &strided, &packed), KILN_INVALID,
                 "row stride 4");
    strided.strides[0] = 5;
    strided.type = KILN_BF16;
    assert_fails(gemm->check_packed(&p.desc, KILN_GEMM_B, &strided, &packed), KILN_INVALID,
                 "type bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_argument_structs),   cmocka_unit_test(test_shapes_and_types),
        cmocka_unit_test(test_strides_and_places), cmocka_unit_test(test_promised_alignment),
        cmocka_unit_test(test_empty_products),     cmocka_unit_test(test_batches),
        cmocka_unit_test(test_operands),           cmocka_unit_test(test_packed_operands),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
