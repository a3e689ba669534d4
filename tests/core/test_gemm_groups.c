/* SPDX-License-Identifier: Apache-2.0 */
/* Groupings: which tensors have the groups as leading dimension, the tensor GROUPS, vectors and
 * matrices of epilogues in batches and groups, bias gradients, and what an empty run is. */
#include "tests/core/gemm_product.h"

/* 3×4 by 4×5, in three groups where `grouping` says so; or in a batch of three. */
static void make_grouped(product *p, uint32_t grouping)
{
    make_product(p);
    p->desc.grouping = grouping;
    p->desc.groups = grouping ? 3 : 0;
    p->desc.batch = grouping ? 1 : 3;
    for (int slot = KILN_GEMM_A; slot <= KILN_GEMM_D; slot++) {
        bool groups = grouping == KILN_GROUPING_K            ? slot >= KILN_GEMM_C
                      : grouping == KILN_GROUPING_CONTIGUOUS ? slot == KILN_GEMM_B
                                                             : true;
        if (groups)
            set_batch(&p->tensors[slot], 3, 20);
    }
    const int64_t counts[] = {0, 3, 3, 3}; /* M, groups, groups */
    if (grouping)
        give_slot(p, KILN_GEMM_GROUPS, KILN_I32, 1, &counts[grouping]);
}

static void make_contiguous(product *p)
{
    make_grouped(p, KILN_GROUPING_CONTIGUOUS);
}

static void make_masked(product *p)
{
    make_grouped(p, KILN_GROUPING_MASKED);
}

static void make_k(product *p)
{
    make_grouped(p, KILN_GROUPING_K);
}

/* Without its leading dimension, or with another. */
static void flatten(kiln_tensor *tensor)
{
    *tensor = kiln_matrix(tensor->type, tensor->data, tensor->shape[1], tensor->shape[2],
                          tensor->strides[1]);
}

static void test_leading_dimensions(void **state)
{
    (void)state;
    static const char *const names[] = {"A has shape", "B has shape", "C has shape",
                                        "matrices of D"};
    for (uint32_t grouping = KILN_GROUPING_CONTIGUOUS; grouping <= KILN_GROUPING_K; grouping++)
        for (int slot = KILN_GEMM_A; slot <= KILN_GEMM_D; slot++) {
            product p;
            make_grouped(&p, grouping);
            ACCEPTED(&p);
            kiln_tensor *tensor = &p.tensors[slot];
            bool groups = tensor->rank == 3;
            if (groups)
                flatten(tensor);
            else
                set_batch(tensor, 3, 20);
            REFUSED(&p, KILN_INVALID, names[slot]);
            for (int64_t leading = 0; leading < 5; leading++) {
                make_grouped(&p, grouping);
                if (!groups)
                    set_batch(tensor, 1, 20);
                tensor->shape[0] = leading;
                if (leading == (groups ? 3 : 1)) /* a leading 1 may stand where there is none */
                    ACCEPTED(&p);
                else
                    REFUSED(&p, KILN_INVALID, names[slot]);
            }
        }
    product p; /* and may be left out: here of the only group */
    make_contiguous(&p);
    p.desc.groups = 1;
    flatten(&p.tensors[KILN_GEMM_B]);
    ACCEPTED(&p);
    /* Inputs may be the same for all groups; results lie apart. */
    CASE_OF(make_masked, (a->strides[0] = b->strides[0] = c->strides[0] = 0), KILN_OK, "");
    CASE_OF(make_masked, d->strides[0] = 0, KILN_INVALID, "batch stride of D is 0");
    CASE_OF(make_masked, d->strides[0] = 14, KILN_INVALID, "batch stride of D is 14");
    CASE_OF(make_masked, d->strides[0] = 15, KILN_OK, "");
    CASE_OF(make_k, d->strides[0] = 14, KILN_INVALID, "batch stride of D is 14");
    CASE_OF(make_contiguous, b->strides[0] = 0, KILN_OK, "");
    /* Dynamic sizes and transposes. */
    CASE_OF(make_contiguous, (desc->head.flags = KILN_GEMM_DYNAMIC_M, desc->m = 4096), KILN_OK, "");
    CASE_OF(make_masked, (desc->head.flags = KILN_GEMM_DYNAMIC_M, desc->m = 2), KILN_INVALID,
            "m=3");
    CASE_OF(make_k, (desc->head.flags = KILN_GEMM_DYNAMIC_K, desc->k = 4096), KILN_OK, "");
    CASE_OF(make_contiguous,
            (desc->head.flags = KILN_GEMM_TRANSPOSE_A, a->shape[0] = 4, a->shape[1] = 3), KILN_OK,
            "");
    CASE_OF(make_contiguous,
            (desc->head.flags = KILN_GEMM_TRANSPOSE_B, b->shape[1] = 5, b->shape[2] = 4), KILN_OK,
            "");
}

static void test_groups_tensor(void **state)
{
    (void)state;
    static void (*const makers[])(product *) = {make_contiguous, make_masked, make_k};
    for (int i = 0; i < 3; i++) {
        product p;
        kiln_buffer far = {.device = &elsewhere, .bytes = 4096},
                    small = {.device = home, .bytes = 11, .host = p.side[KILN_GEMM_GROUPS]};
#define GROUPS(change, status, words)                              \
    do {                                                           \
        kiln_tensor *groups = &p.tensors[KILN_GEMM_GROUPS];        \
        CASE_OF(makers[i], ((void)groups, change), status, words); \
    } while (0)
        GROUPS((void)0, KILN_OK, "");
        GROUPS(args->head.tensor_count = KILN_GEMM_GROUPS, KILN_INVALID, "GROUPS is missing");
        GROUPS(memset(groups, 0, sizeof *groups), KILN_INVALID, "GROUPS is missing");
        GROUPS(groups->type = KILN_U32, KILN_INVALID, "GROUPS has type u32");
        GROUPS(groups->type = groups->type == KILN_I32 ? KILN_I64 : KILN_I32, KILN_INVALID,
               "GROUPS has type");
        GROUPS(groups->shape[0]++, KILN_INVALID, "GROUPS has shape");
        GROUPS(groups->shape[0]--, KILN_INVALID, "GROUPS has shape");
        GROUPS(groups->shape[0] = -1, KILN_INVALID, "GROUPS has shape");
        GROUPS((groups->shape[1] = groups->shape[0], groups->shape[0] = 1, groups->rank = 2),
               KILN_INVALID, "GROUPS has rank 2");
        GROUPS(groups->rank = 0, KILN_INVALID, "GROUPS has rank 0");
        GROUPS(groups->strides[0] = 2, KILN_INVALID, "GROUPS must be contiguous");
        GROUPS(groups->strides[0] = 0, KILN_INVALID, "GROUPS must be contiguous");
        GROUPS(groups->data = NULL, KILN_INVALID, "GROUPS has neither");
        GROUPS(groups->byte_offset = 2, KILN_INVALID, "GROUPS are not multiples of");
        GROUPS(groups->byte_offset = -8, KILN_INVALID, "inside of its buffer");
        GROUPS(groups->buffer = &far, KILN_INVALID, "GROUPS lives on elsewhere:0");
        GROUPS(groups->buffer = &small, KILN_INVALID, "inside of its buffer");
        GROUPS(groups->layout = KILN_LAYOUT_PACKED, KILN_UNSUPPORTED, "GROUPS has a layout");
        GROUPS(groups->flags = 1, KILN_UNSUPPORTED, "GROUPS has a layout");
        GROUPS(groups->reserved = 1, KILN_UNSUPPORTED, "GROUPS has a layout");
        GROUPS(groups->scale = a, KILN_INVALID, "GROUPS has scales");
        GROUPS(groups->zero_point = a, KILN_INVALID, "GROUPS has zero points");
        GROUPS(groups->data = d->data, KILN_INVALID, "D overlaps GROUPS");
        GROUPS(groups->data = a->data, KILN_OK, "");
    }
}

/* ---- Operands of epilogues ---- */

/* Every shape of operand in every form, for the batch and for each grouping: by what the header
 * says. M is 3, N is 5, and there are three groups. */
static void test_operand_forms(void **state)
{
    (void)state;
    for (uint32_t grouping = KILN_GROUPING_NONE; grouping <= KILN_GROUPING_K; grouping++)
        for (uint32_t operand = KILN_OPERAND_SCALAR; operand <= KILN_OPERAND_MATRIX; operand++)
            for (int64_t leading = -1; leading < 5; leading++) {
                product p;
                make_grouped(&p, grouping);
                int64_t columns = operand == KILN_OPERAND_SCALAR   ? 1
                                  : operand == KILN_OPERAND_COLUMN ? 3
                                                                   : 5;
                bool by_row = operand >= KILN_OPERAND_COLUMN, matrix = operand == 4;
                int64_t wanted = by_row && grouping == KILN_GROUPING_CONTIGUOUS ? 1 : 3;
                p.desc.epilogue_count = 1;
                p.desc.epilogues[0] =
                    (kiln_epilogue){.kind = matrix ? KILN_EPILOGUE_MULTIPLY : KILN_EPILOGUE_SCALE,
                                    .operand = operand,
                                    .type = KILN_F32};
                int64_t shape[3] = {leading, matrix ? 3 : columns, columns};
                uint32_t skip = leading < 0; /* rank 1, or 2 for a matrix: for all alike */
                give_slot(&p, KILN_GEMM_OPERAND, KILN_F32, (matrix ? 3 : 2) - skip, shape + skip);
                if (leading < 0 || leading == wanted)
                    ACCEPTED(&p);
                else
                    REFUSED(&p, KILN_INVALID, "epilogue[0] has shape");
            }
}

static void make_biased(product *p)
{
    make_masked(p);
    p->desc.epilogue_count = 1;
    p->desc.epilogues[0] = (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS, .type = KILN_F32};
    give_slot(p, KILN_GEMM_OPERAND, KILN_F32, 2, (const int64_t[]){3, 5});
}

static void test_vectors_by_group(void **state)
{
    (void)state;
    product p;
    kiln_tensor *bias = &p.tensors[KILN_GEMM_OPERAND];
    kiln_buffer small = {.device = home, .bytes = 59, .host = p.side[KILN_GEMM_OPERAND]};
    CASE_OF(make_biased, (void)0, KILN_OK, "");
    CASE_OF(make_biased, bias->strides[0] = 7, KILN_OK, "");
    CASE_OF(make_biased, bias->strides[0] = 0, KILN_OK, "");
    CASE_OF(make_biased, bias->strides[0] = -1, KILN_INVALID, "contiguous");
    CASE_OF(make_biased, bias->strides[0] = INT64_MAX / 2, KILN_INVALID, "inside");
    CASE_OF(make_biased, bias->strides[1] = 2, KILN_INVALID, "contiguous");
    CASE_OF(make_biased, bias->shape[1] = 4, KILN_INVALID, "must be [3, 5] or [5]");
    CASE_OF(make_biased, bias->buffer = &small, KILN_INVALID, "inside of its buffer");
    CASE_OF(make_biased, bias->data = d->data, KILN_INVALID, "D overlaps epilogue[0]");
    CASE_OF(make_biased, desc->epilogues[0].alignment = 16, KILN_INVALID, "multiples of 16");
    CASE_OF(make_biased, (desc->epilogues[0].alignment = 16, bias->strides[0] = 8), KILN_OK, "");
}

static void make_gradient(product *p)
{
    make_masked(p);
    p->desc.epilogue_count = 3;
    p->desc.epilogues[0] = (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS_GRADIENT, .type = KILN_F32};
    p->desc.epilogues[1] = (kiln_epilogue){.kind = KILN_EPILOGUE_RELU};
    p->desc.epilogues[2] = (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS_GRADIENT, .type = KILN_F32};
    give_slot(p, KILN_GEMM_OPERAND, KILN_F32, 1, (const int64_t[]){5});
    give_slot(p, KILN_GEMM_OPERAND + 2, KILN_F32, 2, (const int64_t[]){3, 5});
}

static void test_bias_gradients(void **state)
{
    (void)state;
    product p;
    kiln_tensor *all = &p.tensors[KILN_GEMM_OPERAND], *each = &p.tensors[KILN_GEMM_OPERAND + 2];
    CASE_OF(make_gradient, (void)0, KILN_OK, "");
    CASE_OF(make_gradient, args->head.tensor_count = 6, KILN_INVALID, "epilogue 2 needs");
    CASE_OF(make_gradient, memset(all, 0, sizeof *all), KILN_INVALID, "epilogue 0 needs");
    CASE_OF(make_gradient, all->type = KILN_F64, KILN_INVALID, "epilogue[0] has type f64");
    CASE_OF(make_gradient, all->shape[0] = 4, KILN_INVALID, "epilogue[0] has shape");
    CASE_OF(make_gradient, each->shape[0] = 2, KILN_INVALID, "epilogue[2] has shape");
    CASE_OF(make_gradient, each->strides[0] = 5, KILN_OK, "");
    CASE_OF(make_gradient, each->strides[0] = 4, KILN_INVALID, "stride of epilogue[2] is 4");
    CASE_OF(make_gradient, each->strides[0] = 0, KILN_INVALID, "stride of epilogue[2] is 0");
    CASE_OF(make_gradient, each->data = (char *)all->data + 16, KILN_INVALID,
            "epilogue[0] overlaps epilogue[2]");
    CASE_OF(make_gradient, each->data = (char *)all->data + 20, KILN_OK, "");
    CASE_OF(make_gradient, all->data = d->data, KILN_INVALID, "D overlaps epilogue[0]");
    CASE_OF(make_gradient, each->data = a->data, KILN_INVALID, "epilogue[2] overlaps A");
    CASE_OF(make_gradient, each->data = b->data, KILN_INVALID, "epilogue[2] overlaps B");
    CASE_OF(make_gradient, all->data = c->data, KILN_INVALID, "epilogue[0] overlaps C");
    CASE_OF(make_gradient, (c->data = d->data, all->data = d->data), KILN_INVALID,
            "D overlaps epilogue[0]");
    CASE_OF(make_gradient, (c->data = all->data, args->beta = 0), KILN_OK, "");
    CASE_OF(make_gradient, all->data = p.side[KILN_GEMM_GROUPS], KILN_INVALID,
            "epilogue[0] overlaps GROUPS");
    CASE_OF(make_gradient,
            (desc->epilogues[1] = (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS, .type = KILN_F32},
             *give_slot(&p, KILN_GEMM_OPERAND + 1, KILN_F32, 1, (const int64_t[]){5}) = *all),
            KILN_INVALID, "epilogue[0] overlaps epilogue[1]");
    CASE_OF(make_gradient, desc->a_type = a->type = KILN_F64, KILN_INVALID, "sums into f32");
}

/* ---- Empty sizes ---- */

/* Whether there is nothing to do; the run must be right. */
static bool nothing_in(product *p)
{
    bool empty = false;
    ACCEPTED(p);
    assert_ok(check(p, true, &empty));
    return empty;
}

/* No rows: every group is empty, but sums of no rows are 0. */
static void lose_rows(product *p)
{
    for (int slot = KILN_GEMM_A; slot <= KILN_GEMM_D; slot++)
        if (slot != KILN_GEMM_B) {
            p->tensors[slot].shape[p->tensors[slot].rank - 2] = 0;
            p->tensors[slot].data = NULL;
        }
    p->desc.m = 0;
    if (p->desc.grouping == KILN_GROUPING_CONTIGUOUS) {
        p->tensors[KILN_GEMM_GROUPS].shape[0] = 0;
        p->tensors[KILN_GEMM_GROUPS].data = NULL;
    }
}

static void test_empty_runs(void **state)
{
    (void)state;
    product p;
    for (uint32_t grouping = KILN_GROUPING_NONE; grouping <= KILN_GROUPING_K; grouping++) {
        make_grouped(&p, grouping);
        lose_rows(&p);
        p.tensors[KILN_GEMM_B].data = NULL;
        assert_true(nothing_in(&p));
        for (uint32_t rank = 1; rank <= 2; rank++) {
            make_grouped(&p, grouping);
            lose_rows(&p);
            p.desc.epilogue_count = 1;
            p.desc.epilogues[0] =
                (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS_GRADIENT, .type = KILN_F32};
            kiln_tensor *sums = give_slot(&p, KILN_GEMM_OPERAND, KILN_F32, rank,
                                          (const int64_t[]){3, 5} + 2 - rank);
            assert_false(nothing_in(&p));
            sums->data = NULL;
            REFUSED(&p, KILN_INVALID, "epilogue[0] has neither");
            p.args.head.tensor_count = KILN_GEMM_OPERAND;
            REFUSED(&p, KILN_INVALID, "epilogue 0 needs");
        }
        make_grouped(&p, grouping); /* without K there are C and the epilogue */
        p.desc.k = 0;
        p.tensors[KILN_GEMM_A].shape[p.tensors[KILN_GEMM_A].rank - 1] = 0;
        p.tensors[KILN_GEMM_A].data = p.tensors[KILN_GEMM_B].data = NULL;
        assert_false(nothing_in(&p));
        p.tensors[KILN_GEMM_GROUPS].data = NULL;
        if (grouping)
            REFUSED(&p, KILN_INVALID, "GROUPS has neither");
    }
    /* Without columns there is nothing, nor in an empty batch, but for sums over all of it. */
    make_gradient(&p);
    p.desc.n = 0;
    for (int slot = 0; slot < KILN_GEMM_SLOTS; slot++)
        p.tensors[slot].data = NULL;
    p.tensors[KILN_GEMM_D].shape[2] = 0;
    assert_true(nothing_in(&p));
    for (uint32_t rank = 1; rank <= 2; rank++) {
        make_grouped(&p, KILN_GROUPING_NONE);
        p.desc.head.flags = KILN_GEMM_DYNAMIC_BATCH;
        p.desc.epilogue_count = 1;
        p.desc.epilogues[0] =
            (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS_GRADIENT, .type = KILN_F32};
        for (int slot = KILN_GEMM_A; slot <= KILN_GEMM_D; slot++) {
            p.tensors[slot].shape[0] = 0;
            p.tensors[slot].data = NULL;
        }
        give_slot(&p, KILN_GEMM_OPERAND, KILN_F32, rank, (const int64_t[]){0, 5} + 2 - rank);
        assert_int_equal(nothing_in(&p), rank == 2);
    }
}

/* ---- What a run reads and writes ---- */

static void test_inputs_and_outputs(void **state)
{
    (void)state;
    enum {
        A = 1 << KILN_GEMM_A,
        B = 1 << KILN_GEMM_B,
        C = 1 << KILN_GEMM_C,
        D = 1 << KILN_GEMM_D,
        FIRST = 1 << KILN_GEMM_OPERAND,
        GROUPS_READ = 1 << KILN_GEMM_GROUPS,
        D_SCALE = 1 << KILN_GEMM_D_SCALE
    };
    static const struct {
        uint32_t grouping;
        double alpha, beta;
        int64_t k;
        uint32_t kinds[3];
        uint64_t inputs, outputs;
    } cases[] = {
        {0, 1, 1, 4, {0}, A | B | C, D},
        {0, 1, 0, 4, {0}, A | B, D},
        {0, 0, 1, 4, {0}, C, D},
        {0, 1, 1, 0, {0}, C, D},
        {0, (double)NAN, (double)NAN, 4, {0}, A | B | C, D},
        {0, 1, 0, 4, {KILN_EPILOGUE_BIAS, KILN_EPILOGUE_RELU}, A | B | FIRST, D},
        {0, 1, 0, 4, {KILN_EPILOGUE_BIAS_GRADIENT}, A | B, D | FIRST},
        {0,
         1,
         0,
         4,
         {KILN_EPILOGUE_RELU, KILN_EPILOGUE_BIAS_GRADIENT, KILN_EPILOGUE_QUANTIZE},
         A | B,
         D | FIRST << 1 | D_SCALE},
        {KILN_GROUPING_K, 1, 0, 4, {KILN_EPILOGUE_QUANTIZE}, A | B | GROUPS_READ, D | D_SCALE},
        /* Rows that are left out must survive a copy to and fro. */
        {KILN_GROUPING_CONTIGUOUS, 1, 0, 4, {0}, A | B | D | GROUPS_READ, D},
        {KILN_GROUPING_MASKED, 0, 1, 4, {0}, C | D | GROUPS_READ, D},
        {KILN_GROUPING_MASKED,
         1,
         0,
         4,
         {KILN_EPILOGUE_BIAS_GRADIENT, KILN_EPILOGUE_QUANTIZE},
         A | B | D | D_SCALE | GROUPS_READ,
         D | FIRST | D_SCALE},
    };
    const kiln_operator *gemm = kiln_operator_find(KILN_GEMM);
    for (int64_t i = 0; i < COUNT(cases); i++) {
        product p;
        make_grouped(&p, cases[i].grouping);
        p.args.alpha = cases[i].alpha;
        p.args.beta = cases[i].beta;
        p.tensors[KILN_GEMM_A].shape[p.tensors[KILN_GEMM_A].rank - 1] = cases[i].k;
        for (int j = 0; j < 3 && cases[i].kinds[j]; j++) {
            uint32_t kind = cases[i].kinds[j];
            p.desc.epilogues[p.desc.epilogue_count++] = (kiln_epilogue){
                .kind = kind,
                .type = kind == KILN_EPILOGUE_BIAS || kind == KILN_EPILOGUE_BIAS_GRADIENT
                            ? KILN_F32
                            : KILN_TYPE_NONE};
            if (kind == KILN_EPILOGUE_QUANTIZE) {
                p.desc.d_type = KILN_E4M3;
                p.desc.d_quantization = (kiln_quantization){KILN_F32, 0, {1, 128}};
            }
        }
        assert_ok(gemm->canonicalise(&p.desc));
        assert_int_equal(gemm->inputs(&p.desc, &p.args.head), cases[i].inputs);
        assert_int_equal(gemm->outputs(&p.desc), cases[i].outputs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leading_dimensions), cmocka_unit_test(test_groups_tensor),
        cmocka_unit_test(test_operand_forms),      cmocka_unit_test(test_vectors_by_group),
        cmocka_unit_test(test_bias_gradients),     cmocka_unit_test(test_empty_runs),
        cmocka_unit_test(test_inputs_and_outputs),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
