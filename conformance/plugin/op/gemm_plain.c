/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, runs and judges the GEMMs of the checks on plugins. */
#include "conformance/plugin/op/gemm_plain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const conformance_plain_types conformance_plain_types_all[CONFORMANCE_PLAIN_TYPES] = {
    {KILN_F32, KILN_F32, KILN_F32},    {KILN_F64, KILN_F64, KILN_F64},
    {KILN_F16, KILN_F16, KILN_F32},    {KILN_F16, KILN_F16, KILN_F16},
    {KILN_BF16, KILN_BF16, KILN_F32},  {KILN_BF16, KILN_BF16, KILN_BF16},
    {KILN_I8, KILN_I8, KILN_I32},      {KILN_I8, KILN_I8, KILN_F32},
    {KILN_I8, KILN_I8, KILN_I8},       {KILN_U8, KILN_I8, KILN_I32},
    {KILN_E4M3, KILN_E4M3, KILN_BF16}, {KILN_E5M2, KILN_E4M3, KILN_F32},
    {KILN_E2M1, KILN_E2M1, KILN_F32},  {KILN_BF16, KILN_I8, KILN_BF16},
    {KILN_F16, KILN_I4, KILN_F16},     {KILN_F32, KILN_F32, KILN_BF16},
};

/* ---- Specs ---- */

conformance_gemm_spec conformance_gemm_plain(const conformance_plain_types *types, int64_t m,
                                             int64_t n, int64_t k)
{
    conformance_gemm_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.desc.head.struct_size = sizeof spec.desc;
    spec.desc.m = spec.m = m;
    spec.desc.n = spec.n = n;
    spec.desc.k = spec.k = k;
    spec.desc.batch = spec.batch = 1;
    spec.desc.a_type = types->a;
    spec.desc.b_type = types->b;
    spec.desc.d_type = types->d;
    spec.alpha = 1;
    return spec;
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

/* Elements from one row to the next: rows of fewer than 8 bits an element start on a byte. */
static int64_t row_stride(uint32_t type, int64_t columns, int64_t gap)
{
    int bits = kiln_type_bits(type);
    int64_t each = bits < 8 ? 8 / bits : 1, stride = columns + gap;
    return stride > 0 ? (stride + each - 1) / each * each : each;
}

/* A matrix, or a vector of `columns` when `rows` is 0. */
static bool make_tensor(const conformance_gemm_spec *spec, conformance_gemm_case *test,
                        uint32_t slot, uint32_t type, bool vector, int64_t rows, int64_t columns)
{
    conformance_tensor *made = &test->tensors[slot];
    kiln_tensor *tensor = &made->tensor;
    bool batched = !vector && (spec->batched || spec->batch != 1);
    int64_t stride = row_stride(type, columns, spec->gap[slot]);
    int64_t entry = vector ? columns : rows * stride;
    int64_t entries = batched && !spec->shared[slot] ? spec->batch : 1;
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
        tensor->strides[0] = spec->shared[slot] ? 0 : entry;
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
    const kiln_gemm_desc *desc = &spec->desc;
    bool transpose_a = desc->head.flags & KILN_GEMM_TRANSPOSE_A,
         transpose_b = desc->head.flags & KILN_GEMM_TRANSPOSE_B;
    bool made = make_tensor(spec, test, KILN_GEMM_A, desc->a_type, false,
                            transpose_a ? spec->k : spec->m, transpose_a ? spec->m : spec->k) &&
                make_tensor(spec, test, KILN_GEMM_B, desc->b_type, false,
                            transpose_b ? spec->n : spec->k, transpose_b ? spec->k : spec->n) &&
                make_tensor(spec, test, KILN_GEMM_D, desc->d_type, false, spec->m, spec->n);
    if (made && spec->aliased)
        test->tensors[KILN_GEMM_C].tensor = test->tensors[KILN_GEMM_D].tensor;
    else if (made && desc->c_type != KILN_TYPE_NONE)
        made = make_tensor(spec, test, KILN_GEMM_C, desc->c_type, false, spec->m, spec->n);
    return made && make_operands(spec, test);
}

/* What the addresses give, where they are not the plain ones. */
static void set_alignments(const conformance_gemm_spec *spec, conformance_gemm_case *test)
{
    kiln_gemm_desc *desc = &test->desc;
    uint32_t *alignments[] = {&desc->a_alignment, &desc->b_alignment, &desc->c_alignment,
                              &desc->d_alignment};
    for (uint32_t slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++) {
        uint32_t *alignment = slot < KILN_GEMM_OPERAND ? alignments[slot]
                              : slot - KILN_GEMM_OPERAND < desc->epilogue_count
                                  ? &desc->epilogues[slot - KILN_GEMM_OPERAND].alignment
                                  : NULL;
        if (alignment && *alignment == 0 && spec->offset[slot] != 0)
            *alignment = kiln_tensor_alignment(&test->tensors[slot].tensor);
    }
    if (spec->aliased && spec->offset[KILN_GEMM_D] != 0)
        desc->c_alignment = desc->d_alignment;
}

/* The index of these types without scales among those of the random cases, for their name. */
static int type_of(const kiln_gemm_desc *desc)
{
    int type = 0;
    while (type + 1 < CONFORMANCE_GEMM_TYPES && (conformance_gemm_types[type].a != desc->a_type ||
                                                 conformance_gemm_types[type].b != desc->b_type ||
                                                 conformance_gemm_types[type].a_blocks.scale_type ||
                                                 conformance_gemm_types[type].b_blocks.scale_type))
        type++;
    return type; /* the last is any */
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
    double value = (double)(int64_t)conformance_next(state) * 0x1p-63;
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

static void fill(conformance_gemm_bench *bench, conformance_tensor *made, double magnitude)
{
    const kiln_tensor *tensor = &made->tensor;
    for (int64_t entry = 0; entry < entries_of(tensor); entry++)
        for (int64_t row = 0; row < rows_of(tensor); row++)
            for (int64_t column = 0; column < tensor->shape[tensor->rank - 1]; column++)
                kiln_store_f64(tensor->type, row_at(made, made->memory, entry, row), column,
                               random_value(&bench->state, tensor->type, magnitude), KILN_SATURATE);
}

conformance_gemm_case *conformance_gemm_make(conformance_gemm_bench *bench,
                                             const conformance_gemm_spec *spec)
{
    conformance_gemm_case *test = calloc(1, sizeof *test);
    if (test) {
        test->desc = spec->desc;
        test->type = type_of(&spec->desc);
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
        if (slot != KILN_GEMM_D || (spec->aliased && spec->beta != 0))
            fill(bench, made, spec->magnitude != 0 ? spec->magnitude : 1);
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
        kiln_plan_create(bench->session.runtime, KILN_GEMM, &desc->head, &options, &plan);
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

/* ---- The bench ---- */

bool conformance_bench_begin(const conformance_subject *subject,
                             const conformance_session_options *options, conformance_report *report,
                             conformance_gemm_bench *bench)
{
    memset(bench, 0, sizeof *bench);
    bench->report = report;
    bench->state = subject->seed;
    if (!conformance_session_open(subject, options, report, &bench->session))
        return false;
    if (!conformance_session_offers(&bench->session, KILN_GEMM)) {
        conformance_skip(report, "the plugin does not offer " KILN_GEMM);
        return false;
    }
    bool any = false;
    for (int i = 0; i < CONFORMANCE_PLAIN_TYPES; i++) {
        conformance_gemm_spec spec =
            conformance_gemm_plain(&conformance_plain_types_all[i], 16, 16, 16);
        kiln_candidate candidate = conformance_gemm_ask(&bench->session, &spec.desc);
        bench->served[i] = candidate.support != KILN_SUPPORT_NO;
        any |= bench->served[i];
        if (!bench->served[i])
            snprintf(bench->last_decline, sizeof bench->last_decline, "%s", candidate.reason);
    }
    if (!any)
        conformance_skip(report, "no plain GEMM is served: %s", bench->last_decline);
    return any;
}

void conformance_bench_end(conformance_gemm_bench *bench)
{
    conformance_report *report = bench->report;
    if (report->verdict == CONFORMANCE_CHECK_PASSED && report->declined >= report->cases)
        conformance_skip(report, "nothing of the kind is served: %s", bench->last_decline);
    conformance_session_close(&bench->session);
}

void conformance_bench_each(const conformance_subject *subject,
                            const conformance_session_options *options, conformance_report *report,
                            void (*function)(conformance_gemm_bench *bench,
                                             const conformance_plain_types *types))
{
    conformance_gemm_bench bench;
    if (conformance_bench_begin(subject, options, report, &bench))
        for (int i = 0; i < CONFORMANCE_PLAIN_TYPES && !conformance_bench_failed(&bench); i++)
            if (bench.served[i])
                function(&bench, &conformance_plain_types_all[i]);
    conformance_bench_end(&bench);
}

const conformance_plain_types *conformance_bench_first(const conformance_gemm_bench *bench)
{
    int i = 0;
    while (!bench->served[i])
        i++;
    return &conformance_plain_types_all[i];
}

bool conformance_bench_failed(const conformance_gemm_bench *bench)
{
    return bench->report->verdict == CONFORMANCE_CHECK_FAILED;
}

/* ---- Where a plan wants its tensors ---- */

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
