/* SPDX-License-Identifier: Apache-2.0 */
/* Which views of memory overlap, and that the short check of plain matrices accepts nothing that
 * the full one refuses, and the other way round. */
#include "tests/core/gemm_product.h"

/* ---- Overlap ---- */

static void test_overlap(void **state)
{
    (void)state;
    product p;
    CASE(a->data = d->data, KILN_INVALID, "D overlaps A");
    CASE(b->data = (char *)d->data + 56, KILN_INVALID, "D overlaps B");
    CASE(b->data = (char *)d->data + 60, KILN_OK, "");
    CASE(a->data = (char *)d->data - 44, KILN_INVALID, "D overlaps A");
    CASE(a->data = (char *)d->data - 48, KILN_OK, "");
    CASE(c->data = d->data, KILN_OK, "");
    CASE((c->data = d->data, args->beta = 0), KILN_OK, "");
    CASE(c->data = (char *)d->data + 4, KILN_INVALID, "D overlaps C");
    CASE((c->data = d->data, c->strides[0] = 6), KILN_INVALID, "D overlaps C");
    CASE((c->data = (char *)d->data - 8, c->byte_offset = 8), KILN_OK,
         ""); /* the same place, said otherwise */
    CASE((desc->c_type = c->type = KILN_I32, c->data = d->data), KILN_INVALID, "D overlaps C");
    kiln_buffer both = {.device = home, .bytes = 1024, .host = p.memory[3]};
    CASE((a->buffer = &both, a->byte_offset = 0), KILN_INVALID, "D overlaps A");
    CASE((a->buffer = d->buffer = &both, a->byte_offset = 64), KILN_OK, "");
    CASE((a->buffer = d->buffer = &both, a->byte_offset = 56), KILN_INVALID, "D overlaps A");
    /* On a device, offsets in one buffer can be compared, those in two not. */
    kiln_buffer far[4];
    for (int same = 0; same < 2; same++) {
        make_product(&p);
        p.home = &elsewhere;
        for (int i = 0; i < 4; i++) {
            far[i] = (kiln_buffer){.device = &elsewhere, .bytes = 4096};
            p.tensors[i].buffer = &far[same && i == KILN_GEMM_D ? 0 : i];
        }
        if (same)
            REFUSED(&p, KILN_INVALID, "D overlaps A");
        else
            ACCEPTED(&p);
    }
}

/* Matrices side by side in one wider matrix share no element, though their ranges do. */
static void test_columns_of_one_matrix(void **state)
{
    (void)state;
    product p;
    CASE((a->data = &p.memory[3][5], a->strides[0] = d->strides[0] = 9), KILN_OK, "");
    CASE((a->data = &p.memory[3][4], a->strides[0] = d->strides[0] = 9), KILN_INVALID,
         "D overlaps A");
    CASE((a->data = &p.memory[3][5], a->strides[0] = d->strides[0] = 8), KILN_INVALID,
         "D overlaps A");
    CASE((a->data = p.memory[3], d->data = &p.memory[3][4], a->strides[0] = d->strides[0] = 9),
         KILN_OK, "");
    CASE((a->data = &p.memory[3][5], a->strides[0] = 10, d->strides[0] = 9), KILN_INVALID,
         "D overlaps A");
    CASE((desc->k = b->shape[0] = a->shape[1] = 4, b->data = &p.memory[3][5],
          b->strides[0] = d->strides[0] = 10),
         KILN_OK, "");
    CASE((c->data = &p.memory[3][5], c->strides[0] = d->strides[0] = 10), KILN_OK, "");
    /* A row vector in the gap. */
    CASE((desc->epilogue_count = 1,
          desc->epilogues[0] = (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS, .type = KILN_F32},
          args->head.tensor_count = 5, p.tensors[4] = kiln_vector(KILN_F32, &p.memory[3][5], 5),
          d->strides[0] = 10),
         KILN_OK, "");
    CASE((desc->epilogue_count = 1,
          desc->epilogues[0] = (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS, .type = KILN_F32},
          args->head.tensor_count = 5, p.tensors[4] = kiln_vector(KILN_F32, &p.memory[3][6], 5),
          d->strides[0] = 10),
         KILN_INVALID, "D overlaps epilogue[0]");
}

/* Random views in one small memory, compared with marking every element's bytes. */
static void test_overlap_at_random(void **state)
{
    (void)state;
    int64_t accepted = 0, refused = 0, needless = 0;
    for (int64_t i = 0; i < 30000; i++) {
        product p;
        make_product(&p);
        p.args.beta = 0;
        int64_t m = fixture_random(1, 4), n = fixture_random(1, 4), k = fixture_random(1, 4),
                batch = fixture_random(1, 3);
        int64_t pitch = fixture_random(8, 14);
        p.desc.m = m, p.desc.n = n, p.desc.k = k, p.desc.batch = batch;
        p.tensors[KILN_GEMM_D] =
            kiln_matrix(KILN_F32, &p.memory[0][fixture_random(0, 40)], m, n, pitch);
        p.tensors[KILN_GEMM_A] = kiln_matrix(KILN_F32, &p.memory[0][fixture_random(0, 40)], m, k,
                                             fixture_random(0, 3) ? pitch : k);
        p.tensors[KILN_GEMM_B] = kiln_matrix(KILN_F32, p.memory[2], k, n, n);
        for (int t = 0; t < 4 && batch > 1; t++) /* behind one another, side by side, or anyhow */
            set_batch(&p.tensors[t], batch,
                      fixture_random(0, 2) == 0 ? m * pitch
                      : fixture_random(0, 1)    ? 4
                                                : fixture_random(t == 3, 20));
        unsigned char owner[512] = {0};
        bool collides = false;
        for (int t = 3; t >= 0; t -= 3) {
            const kiln_tensor *x = &p.tensors[t];
            uint32_t first = x->rank - 2;
            int64_t base = (float *)x->data - p.memory[0];
            for (int64_t e = 0; e < batch; e++)
                for (int64_t r = 0; r < x->shape[first]; r++)
                    for (int64_t c = 0; c < x->shape[first + 1]; c++) {
                        unsigned char *mark = &owner[base + (first ? e * x->strides[0] : 0) +
                                                     r * x->strides[first] + c];
                        collides = collides || *mark == 1; /* of D */
                        *mark = t == 3 ? 1 : 2;
                    }
        }
        kiln_status status = check_both(&p);
        if (collides)
            assert_int_equal(status, KILN_INVALID);
        accepted += status == KILN_OK;
        refused += collides;
        needless += status != KILN_OK && !collides;
    }
    /* Being careful is allowed, but not the rule. */
    assert_true(accepted > 3000 && refused > 3000);
    assert_true(needless < accepted);
}

/* ---- The two ways agree ---- */

static int64_t pick(const int64_t *values, int64_t count)
{
    return values[fixture_random(0, count - 1)];
}

/* Spoils one field of one tensor. */
static void spoil(product *p)
{
    static const int64_t sizes[] = {0,
                                    1,
                                    2,
                                    3,
                                    4,
                                    5,
                                    6,
                                    -1,
                                    INT64_MAX,
                                    INT64_MIN,
                                    (int64_t)1 << 28,
                                    ((int64_t)1 << 28) + 1,
                                    (int64_t)1 << 40};
    kiln_tensor *tensor = &p->tensors[fixture_random(0, 3)];
    int dimension = (int)fixture_random(0, 2);
    switch (fixture_random(0, 11)) {
    case 0:
        tensor->shape[dimension] = pick(sizes, COUNT(sizes));
        break;
    case 1:
        tensor->strides[dimension] = pick(sizes, COUNT(sizes));
        break;
    case 2:
        tensor->byte_offset = pick(sizes, COUNT(sizes));
        break;
    case 3:
        tensor->rank = (uint32_t)fixture_random(0, 4);
        break;
    case 4:
        tensor->type = (uint32_t)fixture_random(0, KILN_TYPE_COUNT);
        break;
    case 5:
        tensor->data = p->tensors[fixture_random(0, 3)].data;
        break;
    case 6:
        tensor->data = (void *)((uintptr_t)tensor->data + (uintptr_t)fixture_random(-64, 64));
        break;
    case 7:
        tensor->data = fixture_random(0, 1) ? NULL : (void *)(uintptr_t)pick(sizes, COUNT(sizes));
        break;
    case 8:
        *(fixture_random(0, 1) ? &tensor->flags : &tensor->layout) = (uint32_t)fixture_random(0, 1);
        break;
    case 9:
        p->args.head.tensor_count = (uint32_t)fixture_random(0, 20);
        break;
    case 10:
        *(fixture_random(0, 1) ? &tensor->scale : &tensor->zero_point) = p->tensors;
        break;
    default:
        p->args.beta = (double)fixture_random(0, 1);
        break;
    }
}

static void test_short_and_full_check_agree(void **state)
{
    (void)state;
    int64_t accepted = 0;
    for (int64_t i = 0; i < 200000; i++) {
        product p;
        make_product(&p);
        static const uint32_t types[] = {KILN_F32, KILN_F64, KILN_I8, KILN_I4};
        uint32_t type = types[fixture_random(0, 3)];
        int64_t m = fixture_random(0, 4), n = fixture_random(0, 4), k = fixture_random(0, 4);
        uint32_t flags = (uint32_t)fixture_random(0, 3) | (uint32_t)fixture_random(0, 7) << 4;
        p.args.beta = fixture_random(0, 3) == 0;
        p.desc.head.flags = flags;
        p.desc.m = flags & KILN_GEMM_DYNAMIC_M ? m + fixture_random(0, 2) : m;
        p.desc.n = flags & KILN_GEMM_DYNAMIC_N ? n + fixture_random(0, 2) : n;
        p.desc.k = flags & KILN_GEMM_DYNAMIC_K ? k + fixture_random(0, 2) : k;
        p.desc.a_type = p.desc.b_type = p.desc.c_type = p.desc.d_type = type;
        p.desc.a_alignment = fixture_random(0, 2) ? 0 : 16;
        for (int t = 0; t < 4; t++) {
            bool turned = (t == KILN_GEMM_A && flags & KILN_GEMM_TRANSPOSE_A) ||
                          (t == KILN_GEMM_B && flags & KILN_GEMM_TRANSPOSE_B);
            int64_t rows = t == KILN_GEMM_B ? k : m, columns = t == KILN_GEMM_A ? k : n;
            rows = turned ? columns : rows;
            columns = turned ? (t == KILN_GEMM_B ? k : m) : columns;
            p.tensors[t] =
                kiln_matrix(type, p.memory[t], rows, columns, columns + fixture_random(0, 3));
            if (fixture_random(0, 9) == 0)
                set_batch(&p.tensors[t], 1, 99);
        }
        for (int64_t wrong = fixture_random(0, 2); wrong > 0; wrong--)
            spoil(&p);
        accepted += check_both(&p) == KILN_OK;
    }
    assert_true(accepted > 20000 && accepted < 180000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_columns_of_one_matrix),
        cmocka_unit_test(test_overlap_at_random),
        cmocka_unit_test(test_short_and_full_check_agree),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
