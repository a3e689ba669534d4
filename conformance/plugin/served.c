/* SPDX-License-Identifier: Apache-2.0 */
/* Small GEMMs of every kind of operand. */
#include "conformance/plugin/served.h"

#include "conformance/gemm/case.h"
#include "conformance/gemm/numeric.h"
#include "conformance/planning.h"

/* Beside the types of the random cases but the last, which is any. */
static const conformance_gemm_type others[] = {
    {"u8*i8", KILN_U8, KILN_I8, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {"bf16*i4-128", KILN_BF16, KILN_I4, {0, 0, 0, 0}, {KILN_BF16, 0, 1, 128}},
};

/* The host, and the first two devices of its own: the others are alike. */
enum {
    TYPES = CONFORMANCE_GEMM_TYPES - 1,
    ROWS = TYPES + sizeof others / sizeof *others,
    LAYOUTS = 3, /* at most, of the first type of D that is served of a row */
    EACH = LAYOUTS + 1,
    DEVICES = 2
};
_Static_assert(ROWS *EACH *(1 + DEVICES) <= CONFORMANCE_SERVED, "every yes has room");

/* The transposes that are usual come first. */
static const uint32_t layouts[] = {
    0, KILN_GEMM_TRANSPOSE_B, KILN_GEMM_TRANSPOSE_B | KILN_GEMM_DYNAMIC_M, KILN_GEMM_TRANSPOSE_A,
    KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B};

static void describe(const conformance_gemm_type *row, uint32_t d_type, uint32_t flags,
                     uint32_t precision, kiln_gemm_desc *desc)
{
    *desc = (kiln_gemm_desc){
        .head = {sizeof *desc, flags},
        .m = 128,
        .n = 128,
        .k = 128,
        .batch = 1,
        .a_type = row->a,
        .b_type = row->b,
        .d_type = d_type,
        .a_alignment = 64,
        .b_alignment = 64,
        .d_alignment = 64,
        .precision = precision,
        .a_quantization =
            conformance_gemm_quantization(&row->a_blocks, flags & KILN_GEMM_TRANSPOSE_A),
        .b_quantization =
            conformance_gemm_quantization(&row->b_blocks, !(flags & KILN_GEMM_TRANSPOSE_B)),
    };
}

/* Whether D may have a type: the core refuses others, so that a plugin is not asked. */
static bool may_give(const conformance_gemm_type *row, uint32_t d_type)
{
    bool whole = conformance_type_is_integer(row->a) && conformance_type_is_integer(row->b) &&
                 !row->a_blocks.scale_type && !row->b_blocks.scale_type;
    return (d_type != KILN_F64 || row->a == KILN_F64) && (d_type != KILN_I32 || whole);
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

kiln_status conformance_make_plan(const conformance_instance *instance,
                                  const kiln_operator_table *table,
                                  const kiln_plan_request *request, void **plan)
{
    conformance_enter(instance->plugin, "plan");
    conformance_planning_begin();
    kiln_status status = table->plan(instance->instance, request, plan);
    conformance_planning_end();
    conformance_leave(instance->plugin, "plan");
    return status;
}

/* What is being found. */
typedef struct search {
    const conformance_instance *instance;
    const kiln_operator_table *table;
    kiln_device *device;
    conformance_served *served;
    int64_t count;
} search;

/* At most `wanted` layouts of a row with a type of D and a precision; returns how many are served.
 */
static int add_layouts(search *self, const conformance_gemm_type *row, uint32_t d_type,
                       uint32_t precision, int wanted)
{
    int found = 0;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts && found < wanted; i++) {
        kiln_answer answer;
        conformance_served *next = &self->served[self->count];
        next->device = self->device;
        next->name = row->name;
        describe(row, d_type, layouts[i], precision, &next->desc);
        if (conformance_query(self->instance, self->table, self->device, &next->desc.head,
                              &answer) == KILN_OK &&
            answer.support > KILN_SUPPORT_NO) {
            self->count++;
            found++;
        }
    }
    return found;
}

/* Exact, or where nothing is so, fast; with one type of D in its layouts, and another in one. */
static void add_row(search *self, const conformance_gemm_type *row)
{
    static const uint32_t outputs[] = {KILN_F64,  KILN_I32, KILN_F32,  KILN_BF16, KILN_F16,
                                       KILN_E4M3, KILN_I8,  KILN_E5M2, KILN_U8};
    static const uint32_t precisions[] = {KILN_PRECISION_EXACT, KILN_PRECISION_FAST};
    int found = 0;
    for (size_t i = 0; i < 2 && found == 0; i++)
        for (size_t k = 0; k < sizeof outputs / sizeof *outputs && found < EACH; k++)
            if (may_give(row, outputs[k]))
                found += add_layouts(self, row, outputs[k], precisions[i],
                                     found == 0 ? LAYOUTS : EACH - found);
}

int64_t conformance_find_served(const conformance_instance *instance,
                                const kiln_operator_table *table,
                                conformance_served served[CONFORMANCE_SERVED])
{
    search self = {instance, table, NULL, served, 0};
    for (int64_t place = -1; place < DEVICES && place < conformance_device_count(instance);
         place++) {
        self.device = conformance_device(instance, place);
        for (int row = 0; row < (int)ROWS; row++)
            add_row(&self, row < TYPES ? &conformance_gemm_types[row] : &others[row - TYPES]);
    }
    return self.count;
}
