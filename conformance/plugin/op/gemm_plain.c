/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, runs and judges the GEMMs of the checks on plugins. */
#include "conformance/plugin/op/gemm_plain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "conformance/gemm/case.h"
#include "conformance/planning.h"
#include "conformance/hash.h"
#include "conformance/random.h"

/* ---- Specs ---- */

conformance_gemm_spec conformance_gemm_plain(const conformance_plain_types *types, int64_t m,
                                             int64_t n, int64_t k)
{
    conformance_gemm_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.desc.head.struct_size = sizeof spec.desc;
    spec.desc.head.flags = types->transposes;
    spec.desc.m = spec.m = conformance_gemm_size(m, types->unit_m);
    spec.desc.n = spec.n = conformance_gemm_size(n, types->unit);
    spec.desc.k = spec.k = conformance_gemm_size(k, types->unit);
    spec.desc.batch = spec.batch = 1;
    spec.desc.a_type = types->a;
    spec.desc.b_type = types->b;
    spec.desc.d_type = types->d;
    spec.desc.precision = types->precision;
    spec.desc.a_alignment = spec.desc.b_alignment = spec.desc.d_alignment = types->alignment;
    spec.a_blocks = types->a_blocks;
    spec.b_blocks = types->b_blocks;
    spec.type = types->type;
    spec.alpha = 1;
    return spec;
}

kiln_gemm_desc conformance_gemm_settled(const conformance_gemm_spec *spec)
{
    kiln_gemm_desc desc = spec->desc;
    desc.a_quantization =
        conformance_gemm_quantization(&spec->a_blocks, desc.head.flags & KILN_GEMM_TRANSPOSE_A);
    desc.b_quantization =
        conformance_gemm_quantization(&spec->b_blocks, !(desc.head.flags & KILN_GEMM_TRANSPOSE_B));
    if (desc.c_type != KILN_TYPE_NONE && desc.c_alignment == 0)
        desc.c_alignment = desc.d_alignment;
    return desc;
}

kiln_epilogue *conformance_gemm_add(conformance_gemm_spec *spec, uint32_t kind, uint32_t operand)
{
    kiln_epilogue *epilogue = &spec->desc.epilogues[spec->desc.epilogue_count++];
    epilogue->kind = kind;
    epilogue->operand = operand;
    if (operand != KILN_OPERAND_NONE)
        epilogue->type = spec->desc.a_type == KILN_F64 ? KILN_F64 : KILN_F32;
    return epilogue;
}

/* ---- Memory ---- */

/* What the descriptor promises of a slot; 0 = nothing. */
static uint32_t *promise_of(kiln_gemm_desc *desc, uint32_t slot)
{
    uint32_t *promises[] = {&desc->a_alignment, &desc->b_alignment, &desc->c_alignment,
                            &desc->d_alignment};
    if (slot < KILN_GEMM_OPERAND)
        return promises[slot];
    return slot - KILN_GEMM_OPERAND < desc->epilogue_count
               ? &desc->epilogues[slot - KILN_GEMM_OPERAND].alignment
               : NULL;
}

/* Elements from one row to the next: rows of fewer than 8 bits an element start on a byte, and all
 * of them as promised, where nothing else is asked for. */
static int64_t row_stride(uint32_t type, int64_t columns, int64_t gap, uint32_t promised)
{
    int64_t bits = kiln_type_bits(type), each = bits < 8 ? 8 / bits : 1, stride = columns + gap;
    if (promised && gap == 0 && (int64_t)promised * 8 / bits > each)
        each = (int64_t)promised * 8 / bits;
    return stride > 0 ? (stride + each - 1) / each * each : each;
}

/* A matrix, or a vector of `columns` when `rows` is 0. */
static bool make_tensor(const conformance_gemm_spec *spec, conformance_gemm_case *test,
                        uint32_t slot, uint32_t type, bool vector, int64_t rows, int64_t columns)
{
    conformance_tensor *made = &test->tensors[slot];
    kiln_tensor *tensor = &made->tensor;
    bool batched = !vector && (spec->batched || spec->batch != 1);
    bool of_operand = slot >= CONFORMANCE_GEMM_SCALE; /* scales and zero points of A and B */
    uint32_t follows = of_operand ? (slot - CONFORMANCE_GEMM_SCALE) % 2 : slot;
    const uint32_t *promised = promise_of(&test->desc, slot);
    int64_t stride = row_stride(type, columns, spec->gap[slot], promised ? *promised : 0);
    int64_t entry = vector ? columns : rows * stride;
    int64_t entries = batched && !spec->shared[follows] ? spec->batch : 1;
    made->bytes = (spec->offset[slot] + kiln_type_row_bytes(type, entries * entry) + 127) / 64 * 64;
    made->memory = aligned_alloc(64, (size_t)made->bytes);
    made->before = malloc((size_t)made->bytes);
    if (!made->memory || !made->before)
        return false;
    memset(made->memory, 0xff, (size_t)made->bytes);
    tensor->data = made->memory;
    tensor->byte_offset = spec->offset[slot];
    tensor->type = type;
    tensor->rank = vector ? 1 : 2 + batched;
    tensor->shape[tensor->rank - 1] = columns;
    tensor->strides[tensor->rank - 1] = 1;
    if (!vector) {
        tensor->shape[batched] = rows;
        tensor->strides[batched] = stride;
    }
    if (batched) {
        tensor->shape[0] = spec->batch;
        tensor->strides[0] = spec->shared[follows] ? 0 : entry;
    }
    return true;
}

/* Scales and zero points of A or B, whose tensor has been made. */
static bool make_scales(const conformance_gemm_spec *spec, conformance_gemm_case *test,
                        uint32_t slot)
{
    const kiln_quantization *quantization =
        slot == KILN_GEMM_A ? &test->desc.a_quantization : &test->desc.b_quantization;
    kiln_tensor *tensor = &test->tensors[slot].tensor;
    uint32_t last = tensor->rank - 1, scale = CONFORMANCE_GEMM_SCALE + slot,
             zero = CONFORMANCE_GEMM_ZERO_POINT + slot;
    int64_t rows = conformance_gemm_blocks_in(tensor->shape[last - 1], quantization->block[0]),
            columns = conformance_gemm_blocks_in(tensor->shape[last], quantization->block[1]);
    if (quantization->scale_type || quantization->zero_type)
        for (int i = 0; i < 2; i++)
            tensor->scale_block[i] = quantization->block[i] > 0 ? quantization->block[i] : 0;
    if (quantization->scale_type) {
        if (!make_tensor(spec, test, scale, quantization->scale_type, false, rows, columns))
            return false;
        tensor->scale = &test->tensors[scale].tensor;
    }
    if (quantization->zero_type) {
        if (!make_tensor(spec, test, zero, quantization->zero_type, false, rows, columns))
            return false;
        tensor->zero_point = &test->tensors[zero].tensor;
    }
    return true;
}

static bool make_operands(const conformance_gemm_spec *spec, conformance_gemm_case *test)
{
    bool made = true;
    for (uint32_t i = 0; made && i < spec->desc.epilogue_count; i++) {
        const kiln_epilogue *epilogue = &spec->desc.epilogues[i];
        uint32_t slot = KILN_GEMM_OPERAND + i;
        if (epilogue->operand == KILN_OPERAND_MATRIX)
            made = make_tensor(spec, test, slot, epilogue->type, false, spec->m, spec->n);
        else if (epilogue->operand != KILN_OPERAND_NONE)
            made = make_tensor(spec, test, slot, epilogue->type, true, 0,
                               epilogue->operand == KILN_OPERAND_ROW      ? spec->n
                               : epilogue->operand == KILN_OPERAND_COLUMN ? spec->m
                                                                          : 1);
    }
    return made;
}

static bool make_tensors(const conformance_gemm_spec *spec, conformance_gemm_case *test)
{
    const kiln_gemm_desc *desc = &test->desc;
    bool transpose_a = desc->head.flags & KILN_GEMM_TRANSPOSE_A,
         transpose_b = desc->head.flags & KILN_GEMM_TRANSPOSE_B;
    bool made = make_tensor(spec, test, KILN_GEMM_A, desc->a_type, false,
                            transpose_a ? spec->k : spec->m, transpose_a ? spec->m : spec->k) &&
                make_tensor(spec, test, KILN_GEMM_B, desc->b_type, false,
                            transpose_b ? spec->n : spec->k, transpose_b ? spec->k : spec->n) &&
                make_scales(spec, test, KILN_GEMM_A) && make_scales(spec, test, KILN_GEMM_B) &&
                make_tensor(spec, test, KILN_GEMM_D, desc->d_type, false, spec->m, spec->n);
    if (made && desc->d_quantization.scale_type)
        made = make_tensor(spec, test, KILN_GEMM_D_SCALE, desc->d_quantization.scale_type, false,
                           spec->m,
                           conformance_gemm_blocks_in(spec->n, desc->d_quantization.block[1]));
    if (made && spec->aliased)
        test->tensors[KILN_GEMM_C].tensor = test->tensors[KILN_GEMM_D].tensor;
    else if (made && desc->c_type != KILN_TYPE_NONE)
        made = make_tensor(spec, test, KILN_GEMM_C, desc->c_type, false, spec->m, spec->n);
    return made && make_operands(spec, test);
}

/* No promise is better than what the addresses give. */
static void set_alignments(const conformance_gemm_spec *spec, conformance_gemm_case *test)
{
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        uint32_t *promised = promise_of(&test->desc, slot);
        if (!promised || !test->tensors[slot].tensor.data)
            continue;
        uint32_t given = kiln_tensor_alignment(&test->tensors[slot].tensor);
        if (*promised > given || (*promised == 0 && spec->offset[slot] != 0))
            *promised = given;
    }
    if (spec->aliased && spec->offset[KILN_GEMM_D] != 0)
        test->desc.c_alignment = test->desc.d_alignment;
}

/* ---- Values ---- */

static uint8_t *row_at(const conformance_tensor *made, uint8_t *memory, int64_t entry, int64_t row)
{
    const kiln_tensor *tensor = &made->tensor;
    int64_t element = (tensor->rank > 1 ? row * tensor->strides[tensor->rank - 2] : 0) +
                      (tensor->rank > 2 ? entry * tensor->strides[0] : 0);
    return memory + tensor->byte_offset + element * kiln_type_bits(tensor->type) / 8;
}

static int64_t entries_of(const kiln_tensor *tensor)
{
    return tensor->rank > 2 ? tensor->shape[0] : 1;
}

static int64_t rows_of(const kiln_tensor *tensor)
{
    return tensor->rank > 1 ? tensor->shape[tensor->rank - 2] : 1;
}

void conformance_gemm_set(conformance_gemm_case *test, uint32_t slot, int64_t row, int64_t column,
                          double value)
{
    conformance_tensor *made = &test->tensors[slot];
    for (int64_t entry = 0; entry < entries_of(&made->tensor); entry++) {
        kiln_store_f64(made->tensor.type, row_at(made, made->memory, entry, row), column, value,
                       KILN_SATURATE);
        kiln_store_f64(made->tensor.type, row_at(made, made->before, entry, row), column, value,
                       KILN_SATURATE);
    }
}

double conformance_gemm_get(const conformance_gemm_case *test, uint32_t slot, int64_t row,
                            int64_t column)
{
    const conformance_tensor *made = &test->tensors[slot];
    return kiln_load_f64(made->tensor.type, row_at(made, made->memory, 0, row), column);
}

void conformance_gemm_set_all(conformance_gemm_case *test, uint32_t slot, double value)
{
    const kiln_tensor *tensor = &test->tensors[slot].tensor;
    for (int64_t row = 0; row < rows_of(tensor); row++)
        for (int64_t column = 0; column < tensor->shape[tensor->rank - 1]; column++)
            conformance_gemm_set(test, slot, row, column, value);
}

static double random_value(uint64_t *state, uint32_t type, double magnitude)
{
    double value = conformance_random_unit(state);
    switch (type) {
    case KILN_I32:
        return value * 1000;
    case KILN_I8:
        return value * 20;
    case KILN_U8:
        return fabs(value) * 40;
    case KILN_I4:
    case KILN_U4:
    case KILN_E2M1:
        return value * 6;
    default:
        return value * magnitude;
    }
}

/* From a quarter to 2, so that each counts. */
static double random_scale(uint64_t *state)
{
    return ldexp(1 + fabs(conformance_random_unit(state)),
                 (int)conformance_random_below(state, 3) - 2);
}

static void fill(conformance_gemm_bench *bench, conformance_tensor *made, double magnitude,
                 bool scales)
{
    const kiln_tensor *tensor = &made->tensor;
    for (int64_t entry = 0; entry < entries_of(tensor); entry++)
        for (int64_t row = 0; row < rows_of(tensor); row++)
            for (int64_t column = 0; column < tensor->shape[tensor->rank - 1]; column++)
                kiln_store_f64(tensor->type, row_at(made, made->memory, entry, row), column,
                               scales ? random_scale(&bench->state)
                                      : random_value(&bench->state, tensor->type, magnitude),
                               KILN_SATURATE);
}

conformance_gemm_case *conformance_gemm_make(conformance_gemm_bench *bench,
                                             const conformance_gemm_spec *spec)
{
    conformance_gemm_case *test = calloc(1, sizeof *test);
    if (test) {
        test->desc = conformance_gemm_settled(spec);
        test->type = spec->type;
        test->alpha = spec->alpha;
        test->beta = spec->beta;
        test->m = spec->m;
        test->n = spec->n;
        test->k = spec->k;
        test->batch = spec->batch;
        test->d_columns = spec->n;
        test->spread = spec->magnitude != 0 ? spec->magnitude : 1;
        test->aliased = spec->aliased;
        test->streamed = spec->streamed;
    }
    if (!test || !make_tensors(spec, test)) {
        conformance_gemm_case_free(test);
        conformance_fail(bench->report, "no memory for a case");
        return NULL;
    }
    set_alignments(spec, test);
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        conformance_tensor *made = &test->tensors[slot];
        if (!made->memory)
            continue;
        if (slot != KILN_GEMM_D_SCALE &&
            (slot != KILN_GEMM_D || (spec->aliased && spec->beta != 0)))
            fill(bench, made, spec->magnitude != 0 ? spec->magnitude : 1,
                 slot >= CONFORMANCE_GEMM_SCALE && slot < CONFORMANCE_GEMM_ZERO_POINT);
        memcpy(made->before, made->memory, (size_t)made->bytes);
    }
    uint64_t hash = conformance_gemm_case_hash(test);
    bench->report->vectors = conformance_hash(bench->report->vectors, &hash, sizeof hash);
    bench->report->cases++;
    return test;
}

/* ---- Running and judging ---- */

conformance_outcome conformance_gemm_try_case(conformance_gemm_bench *bench, const char *what,
                                              conformance_gemm_case *test)
{
    conformance_gemm_result result;
    if (!test)
        return CONFORMANCE_FAILED;
    conformance_gemm_execute(bench->session.runtime, bench->session.name, test, &result);
    if (result.outcome == CONFORMANCE_PASSED)
        conformance_gemm_judge(test, &result);
    bench->report->judged += result.outcome == CONFORMANCE_PASSED;
    if (result.outcome == CONFORMANCE_FAILED) {
        char text[400];
        conformance_gemm_case_describe(test, text, sizeof text);
        const char *words = strchr(text, ':'); /* it has no seed and index */
        conformance_fail(bench->report, "%s:%s: %s", what, words ? words + 1 : text, result.text);
    } else if (result.outcome == CONFORMANCE_DECLINED) {
        bench->report->declined++;
        snprintf(bench->last_decline, sizeof bench->last_decline, "%.399s", result.text);
    }
    conformance_gemm_case_free(test);
    return result.outcome;
}

conformance_outcome conformance_gemm_try(conformance_gemm_bench *bench, const char *what,
                                         const conformance_gemm_spec *spec)
{
    return conformance_gemm_try_case(bench, what, conformance_gemm_make(bench, spec));
}

kiln_candidate conformance_gemm_ask(const conformance_session *session, const kiln_gemm_desc *desc)
{
    kiln_plan_options options = {.struct_size = sizeof options,
                                 .device = session->device,
                                 .backend = session->name,
                                 .staging = KILN_STAGING_DENY};
    kiln_candidate candidate;
    int64_t count = 0;
    memset(&candidate, 0, sizeof candidate);
    if (kiln_explain(session->runtime, KILN_GEMM, &desc->head, &options, &candidate, 1, &count) !=
        KILN_OK) {
        candidate.support = KILN_SUPPORT_NO;
        snprintf(candidate.reason, sizeof candidate.reason, "%.255s", kiln_last_error());
    } else if (count == 0) {
        snprintf(candidate.reason, sizeof candidate.reason, "the backend is not asked");
    }
    return candidate;
}

kiln_plan *conformance_gemm_plan(conformance_gemm_bench *bench, const kiln_gemm_desc *desc)
{
    kiln_plan_options options = {.struct_size = sizeof options,
                                 .device = bench->session.device,
                                 .backend = bench->session.name,
                                 .staging = KILN_STAGING_DENY};
    kiln_plan *plan = NULL;
    kiln_status status =
        conformance_plan_create(bench->session.runtime, KILN_GEMM, &desc->head, &options, &plan);
    if (status == KILN_OK)
        return plan;
    if (status == KILN_UNSUPPORTED) {
        bench->report->declined++;
        snprintf(bench->last_decline, sizeof bench->last_decline, "%.399s", kiln_last_error());
    } else {
        conformance_fail(bench->report, "planning failed with %s: %s", kiln_status_name(status),
                         kiln_last_error());
    }
    return NULL;
}

/* ---- Where a plan wants its tensors ---- */

/* A and B point to their scales and zero points where these lie now. */
static void attach_scales(kiln_tensor *tensors)
{
    for (uint32_t slot = KILN_GEMM_A; slot <= KILN_GEMM_B; slot++) {
        if (tensors[slot].scale)
            tensors[slot].scale = &tensors[CONFORMANCE_GEMM_SCALE + slot];
        if (tensors[slot].zero_point)
            tensors[slot].zero_point = &tensors[CONFORMANCE_GEMM_ZERO_POINT + slot];
    }
}

bool conformance_copy_bytes(const conformance_session *session, kiln_buffer *buffer, void *memory,
                            int64_t bytes, bool to_buffer)
{
    kiln_tensor there = kiln_vector(KILN_U8, NULL, bytes),
                here = kiln_vector(KILN_U8, memory, bytes);
    there.buffer = buffer;
    return kiln_copy(NULL, session->runtime, to_buffer ? &there : &here,
                     to_buffer ? &here : &there) == KILN_OK;
}

bool conformance_gemm_place(conformance_gemm_bench *bench, const conformance_gemm_case *test,
                            conformance_gemm_placed *placed)
{
    memset(placed, 0, sizeof *placed);
    for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        const conformance_tensor *made = &test->tensors[slot];
        placed->tensors[slot] = made->tensor;
        if (!made->memory || bench->session.host)
            continue;
        if (kiln_buffer_alloc(bench->session.device, KILN_SPACE_DEVICE, made->bytes,
                              &placed->buffers[slot]) != KILN_OK ||
            !conformance_copy_bytes(&bench->session, placed->buffers[slot], made->before,
                                    made->bytes, true)) {
            conformance_fail(bench->report, "no device memory: %s", kiln_last_error());
            return false;
        }
        placed->tensors[slot].buffer = placed->buffers[slot];
        placed->tensors[slot].data = NULL;
    }
    attach_scales(placed->tensors);
    return true;
}

void conformance_gemm_release(conformance_gemm_placed *placed)
{
    for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++)
        kiln_buffer_release(placed->buffers[slot]);
    memset(placed, 0, sizeof *placed);
}

bool conformance_gemm_fetch(conformance_gemm_bench *bench, conformance_gemm_case *test,
                            const conformance_gemm_placed *placed, uint32_t slot)
{
    conformance_tensor *made = &test->tensors[slot];
    return !placed->buffers[slot] || conformance_copy_bytes(&bench->session, placed->buffers[slot],
                                                            made->memory, made->bytes, false);
}

/* ---- Past the core ---- */

bool conformance_gemm_raw_of(conformance_gemm_bench *bench, kiln_plan *plan,
                             conformance_gemm_raw *raw)
{
    kiln_plan_native native = {.struct_size = sizeof native};
    *raw = (conformance_gemm_raw){.plan = plan, .info = {.struct_size = sizeof raw->info}};
    if (kiln_plan_get_native(plan, &native) != KILN_OK ||
        kiln_plan_get_info(plan, &raw->info) != KILN_OK) {
        conformance_fail(bench->report, "a plan tells nothing of itself: %s", kiln_last_error());
        return false;
    }
    raw->native = native.plan;
    return kiln_receive_table(&raw->table, sizeof raw->table, native.table) == KILN_OK;
}

/* Bytes from a tensor's first element to the end of its last. */
static int64_t span_of(const kiln_tensor *tensor)
{
    int64_t last = 0;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] == 0)
            return 0;
        if (i + 1 < tensor->rank)
            last += (tensor->shape[i] - 1) * tensor->strides[i];
    }
    return last * kiln_type_bits(tensor->type) / 8 +
           kiln_type_row_bytes(tensor->type, tensor->rank ? tensor->shape[tensor->rank - 1] : 1);
}

bool conformance_gemm_move(conformance_gemm_bench *bench, const conformance_gemm_case *test,
                           bool at_start, conformance_gemm_moved *moved)
{
    memset(moved, 0, sizeof *moved);
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        const conformance_tensor *made = &test->tensors[slot];
        moved->tensors[slot] = made->tensor;
        if (!made->memory)
            continue;
        int64_t bytes = span_of(&made->tensor), element = kiln_type_bits(made->tensor.type) / 8;
        if (!conformance_guard(bytes, element > 0 ? element : 1, at_start, &moved->memory[slot])) {
            conformance_fail(bench->report, "no memory for guarded tensors");
            return false;
        }
        memcpy(moved->memory[slot].data, made->before + made->tensor.byte_offset, (size_t)bytes);
        moved->tensors[slot].data = moved->memory[slot].data;
        moved->tensors[slot].byte_offset = 0;
        if (slot != KILN_GEMM_D)
            conformance_guard_protect(&moved->memory[slot], true);
    }
    attach_scales(moved->tensors);
    if (test->aliased)
        moved->tensors[KILN_GEMM_C] = moved->tensors[KILN_GEMM_D];
    moved->args = (kiln_gemm_args){
        {sizeof moved->args, KILN_GEMM_SLOTS, moved->tensors}, test->alpha, test->beta};
    return true;
}

void conformance_gemm_return(conformance_gemm_case *test, conformance_gemm_moved *moved)
{
    conformance_tensor *d = &test->tensors[KILN_GEMM_D];
    if (moved->memory[KILN_GEMM_D].mapping)
        memcpy(d->memory + d->tensor.byte_offset, moved->memory[KILN_GEMM_D].data,
               (size_t)span_of(&d->tensor));
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++)
        conformance_guard_release(&moved->memory[slot]);
}
