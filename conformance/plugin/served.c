/* SPDX-License-Identifier: Apache-2.0 */
/* Small GEMMs of every kind of operand. */
#include "conformance/plugin/served.h"

typedef struct kind {
    const char *name;
    uint32_t a, b, d;
    kiln_quantization a_quantization, b_quantization;
} kind;

static const kind kinds[] = {
    {"f64", KILN_F64, KILN_F64, KILN_F64, {0}, {0}},
    {"f32", KILN_F32, KILN_F32, KILN_F32, {0}, {0}},
    {"f16", KILN_F16, KILN_F16, KILN_F16, {0}, {0}},
    {"f16 to f32", KILN_F16, KILN_F16, KILN_F32, {0}, {0}},
    {"bf16", KILN_BF16, KILN_BF16, KILN_BF16, {0}, {0}},
    {"bf16 to f32", KILN_BF16, KILN_BF16, KILN_F32, {0}, {0}},
    {"i8 to i32", KILN_I8, KILN_I8, KILN_I32, {0}, {0}},
    {"u8 and i8 to i32", KILN_U8, KILN_I8, KILN_I32, {0}, {0}},
    {"i8 with scales to f32",
     KILN_I8,
     KILN_I8,
     KILN_F32,
     {.scale_type = KILN_F32, .block = {1, -1}},
     {.scale_type = KILN_F32, .block = {1, -1}}},
    {"e4m3 with scales to bf16",
     KILN_E4M3,
     KILN_E4M3,
     KILN_BF16,
     {.scale_type = KILN_F32, .block = {1, 128}},
     {.scale_type = KILN_F32, .block = {128, 128}}},
    {"bf16 and i4 with scales",
     KILN_BF16,
     KILN_I4,
     KILN_BF16,
     {0},
     {.scale_type = KILN_BF16, .block = {1, 128}}},
};

/* The host, and the first two devices of its own: the others are alike. */
enum { KINDS = sizeof kinds / sizeof kinds[0], LAYOUTS = 3, DEVICES = 2 };
_Static_assert(KINDS *LAYOUTS *(1 + DEVICES) <= CONFORMANCE_SERVED, "every yes has room");

static void describe(const kind *row, int layout, kiln_gemm_desc *desc)
{
    *desc = (kiln_gemm_desc){
        .head = {sizeof *desc, 0},
        .m = 128,
        .n = 128,
        .k = 128,
        .batch = 1,
        .a_type = row->a,
        .b_type = row->b,
        .d_type = row->d,
        .a_alignment = 64,
        .b_alignment = 64,
        .d_alignment = 64,
        .a_quantization = row->a_quantization,
        .b_quantization = row->b_quantization,
    };
    if (layout > 0)
        desc->head.flags |= KILN_GEMM_TRANSPOSE_B;
    if (layout > 1)
        desc->head.flags |= KILN_GEMM_DYNAMIC_M;
}

kiln_status conformance_query(const conformance_instance *instance,
                              const kiln_operator_table *table, kiln_device *device,
                              const kiln_op_head *descriptor, kiln_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    answer->struct_size = sizeof *answer;
    conformance_enter(instance->plugin, "query");
    kiln_status status = table->query(instance->instance, device, descriptor, answer);
    conformance_leave(instance->plugin, "query");
    return status;
}

int64_t conformance_find_served(const conformance_instance *instance,
                                const kiln_operator_table *table,
                                conformance_served served[CONFORMANCE_SERVED])
{
    int64_t count = 0;
    for (int64_t place = -1; place < DEVICES && place < conformance_device_count(instance); place++)
        for (int i = 0; i < KINDS * LAYOUTS; i++) {
            kiln_answer answer;
            conformance_served *next = &served[count];
            next->device = conformance_device(instance, place);
            next->name = kinds[i / LAYOUTS].name;
            describe(&kinds[i / LAYOUTS], i % LAYOUTS, &next->desc);
            if (conformance_query(instance, table, next->device, &next->desc.head, &answer) ==
                    KILN_OK &&
                answer.support > KILN_SUPPORT_NO)
                count++;
        }
    return count;
}
