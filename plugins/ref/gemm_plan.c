/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: how D is cut into tiles, and the memory that a run needs. */
#include <stdlib.h>

#include "plugins/ref/gemm.h"

enum { TILE = 128 }; /* rows and columns of a tile, where nothing asks for others */

/* Multiples of `unit` that cover `extent`, at least one; INT64_MAX stands for all beyond counting.
 */
static int64_t round_up(int64_t extent, int64_t unit)
{
    int64_t rounded;
    if (extent <= unit)
        return unit;
    return __builtin_mul_overflow(ref_divide_up(extent, unit), unit, &rounded) ? INT64_MAX
                                                                               : rounded;
}

/* The least common multiple; INT64_MAX, which stands for all, beyond counting. */
static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t shared = a, rest = b, multiple;
    if (a == INT64_MAX || b == INT64_MAX)
        return INT64_MAX;
    while (rest) {
        int64_t next = shared % rest;
        shared = rest;
        rest = next;
    }
    return __builtin_mul_overflow(a / shared, b, &multiple) ? INT64_MAX : multiple;
}

/* Columns that must stand in one tile: pairs of pieces of SWIGLU, blocks of scales of QUANTIZE. */
static int64_t bound_columns(const kiln_gemm_desc *desc)
{
    const kiln_epilogue *swiglu = ref_gemm_find(desc, KILN_EPILOGUE_SWIGLU);
    int64_t unit = REF_COLUMNS, halves = swiglu ? 2 : 1;
    if (swiglu && swiglu->p0 != 0)
        unit = swiglu->p0 < 0 ? INT64_MAX : common_multiple(unit, 2 * (int64_t)swiglu->p0);
    if (ref_gemm_find(desc, KILN_EPILOGUE_QUANTIZE))
        unit = desc->d_quantization.block[1] < 0
                   ? INT64_MAX
                   : common_multiple(unit, halves * desc->d_quantization.block[1]);
    return unit;
}

/* Whole panels, no more than are needed. What belongs together is found in one tile: it is as wide
 * as it takes, and lower for that. */
static void find_tile(const kiln_gemm_desc *desc, ref_gemm_layout *layout)
{
    int64_t columns = round_up(TILE, bound_columns(desc)), rows = TILE;
    columns = ref_smaller(columns, round_up(desc->n, REF_COLUMNS));
    if (columns > TILE)
        rows = columns >= TILE * TILE / REF_ROWS ? REF_ROWS
                                                 : TILE * TILE / columns / REF_ROWS * REF_ROWS;
    layout->tile_columns = columns;
    layout->tile_rows = ref_smaller(rows, round_up(desc->m, REF_ROWS));
}

/* Doubles of each part of a slot. */
typedef struct slot_parts {
    int64_t a, b, sums, run, row, gradients;
} slot_parts;

static slot_parts parts_of(const ref_gemm_layout *layout)
{
    slot_parts parts = {
        .a = layout->tile_rows * REF_DEPTH,
        .b = REF_B_BLOCK,
        .sums = layout->tile_rows * layout->tile_columns,
        .run = layout->exact_runs ? layout->tile_rows * layout->tile_columns : 0,
        .row = layout->tile_columns,
        .gradients = layout->gradients * layout->tile_columns,
    };
    return parts;
}

bool ref_gemm_layout_of(const kiln_gemm_desc *desc, ref_gemm_layout *layout)
{
    memset(layout, 0, sizeof *layout);
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        layout->gradients += desc->epilogues[i].kind == KILN_EPILOGUE_BIAS_GRADIENT;
    layout->exact_runs = ref_gemm_is_integer(desc) &&
                         (desc->a_quantization.scale_type || desc->b_quantization.scale_type);
    layout->groups_bytes = ref_gemm_groups_bytes(desc);
    find_tile(desc, layout);
    /* So that the sum of all parts, in bytes, cannot overflow: where a tile is wide it is low. */
    if (layout->groups_bytes < 0 || layout->tile_columns > INT64_MAX / (1 << 14))
        return false;
    slot_parts parts = parts_of(layout);
    layout->slot_bytes =
        (parts.a + parts.b + parts.sums + parts.run + 2 * parts.row + parts.gradients) *
        (int64_t)sizeof(double);
    return true;
}

ref_gemm_slot ref_gemm_slot_at(const ref_gemm_layout *layout, char *memory)
{
    slot_parts parts = parts_of(layout);
    ref_gemm_slot slot;
    slot.a = (double *)(void *)memory;
    slot.b = slot.a + parts.a;
    slot.sums = slot.b + parts.b;
    slot.run = slot.sums + parts.sums;
    slot.values = slot.run + parts.run;
    slot.other = slot.values + parts.row;
    slot.gradients = slot.other + parts.row;
    return slot;
}

kiln_status ref_gemm_plan_create(void *instance, const kiln_plan_request *request, void **plan)
{
    ref_instance *ref = instance;
    kiln_answer answer = {.struct_size = sizeof answer};
    if (kiln_check_request(request, sizeof *request) != KILN_OK)
        return ref->host->set_error(KILN_UNSUPPORTED,
                                    "ref: the plan request is of another version");
    kiln_status status = ref_gemm_query(instance, request->device, request->descriptor, &answer);
    if (status != KILN_OK)
        return status;
    if (answer.support == KILN_SUPPORT_NO)
        return ref->host->set_error(KILN_UNSUPPORTED, "ref: %s", answer.reason);
    if (request->parameter_count)
        return ref->host->set_error(KILN_INVALID,
                                    "ref: parameter '%s' is unknown: ref has no tuning parameters",
                                    request->parameters[0].name);
    ref_gemm_plan *made = calloc(1, sizeof *made);
    if (!made)
        return ref->host->set_error(KILN_NO_MEMORY, "ref: no memory for a plan");
    made->instance = ref;
    kiln_receive_descriptor(&made->desc, sizeof made->desc, request->descriptor);
    ref_gemm_layout_of(&made->desc, &made->layout);
    *plan = made;
    return KILN_OK;
}

void ref_gemm_plan_free(void *plan)
{
    free(plan);
}
