/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of kiln.gemm/1: that what query says is true, and how run treats memory and arguments.
 */
#include <stdio.h>
#include <stdlib.h>

#include "conformance/planning.h"
#include "conformance/hash.h"
#include "conformance/plugin/op/gemm_plain.h"
#include "conformance/plugin/op/op.h"

enum { RANDOM_REQUESTS = 200 };

/* ---- What is asked ---- */

typedef void request_fn(conformance_gemm_bench *bench, const kiln_gemm_desc *desc);

static void ask_random(conformance_gemm_bench *bench, uint64_t seed, request_fn *function)
{
    for (int64_t index = 0; index < RANDOM_REQUESTS && !conformance_bench_failed(bench); index++) {
        conformance_gemm_case *test = conformance_gemm_case_create(seed, index);
        if (!test) {
            conformance_fail(bench->report, "no memory for a case");
            return;
        }
        bench->report->cases++;
        bench->report->vectors =
            conformance_hash(bench->report->vectors, &test->desc, sizeof test->desc);
        function(bench, &test->desc);
        conformance_gemm_case_free(test);
    }
}

/* Plain descriptors of all types, also of those that are not served. */
static void ask_plain(conformance_gemm_bench *bench, request_fn *function)
{
    for (int i = 0; i < CONFORMANCE_PLAIN_ROWS + bench->type_count; i++)
        for (uint32_t variant = 0; variant < 8; variant++) {
            conformance_plain_types types;
            if (i < bench->type_count) {
                types = bench->types[i];
            } else {
                types = conformance_plain_row(i - bench->type_count);
                types.d = types.a == KILN_F64 ? KILN_F64 : KILN_F32;
            }
            conformance_gemm_spec spec = conformance_gemm_plain(&types, 5, 6, 7);
            spec.desc.head.flags ^= variant & 3;
            if (variant & 4)
                spec.desc.c_type = spec.desc.d_type;
            kiln_gemm_desc desc = conformance_gemm_settled(&spec);
            bench->report->cases++;
            if (!conformance_bench_failed(bench))
                function(bench, &desc);
        }
}

static void each_request(const conformance_subject *subject, conformance_report *report,
                         request_fn *function)
{
    conformance_gemm_bench bench;
    conformance_session_options options = {.watched = true};
    if (conformance_bench_begin(subject, &options, report, &bench)) {
        ask_plain(&bench, function);
        ask_random(&bench, subject->seed, function);
    }
    conformance_bench_end(&bench);
}

static const kiln_operator_table *table_of(const conformance_gemm_bench *bench)
{
    const kiln_plugin *plugin = &bench->session.loaded.table;
    return plugin->interface(bench->session.instance, KILN_GEMM);
}

static kiln_status query(conformance_gemm_bench *bench, const kiln_gemm_desc *desc,
                         kiln_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    answer->struct_size = sizeof *answer;
    return (kiln_status)CONFORMANCE_CALL("query", table_of(bench)->query(bench->session.instance,
                                                                         bench->session.device,
                                                                         &desc->head, answer));
}

static void describe(const kiln_gemm_desc *desc, char *text, size_t size)
{
    snprintf(text, size, "flags %#x, m %lld n %lld k %lld batch %lld, %s x %s -> %s, %u epilogues",
             (unsigned)desc->head.flags, (long long)desc->m, (long long)desc->n, (long long)desc->k,
             (long long)desc->batch, kiln_type_name(desc->a_type), kiln_type_name(desc->b_type),
             kiln_type_name(desc->d_type), (unsigned)desc->epilogue_count);
}

/* ---- serves-something ---- */

void conformance_op_gemm_serves(const conformance_subject *subject, conformance_report *report)
{
    conformance_session session;
    char reason[256] = "";
    int64_t served = 0;
    if (!conformance_session_open(subject, NULL, report, &session))
        return;
    if (!conformance_session_offers(&session, KILN_GEMM)) {
        conformance_skip(report, "the plugin does not offer " KILN_GEMM);
        conformance_session_close(&session);
        return;
    }
    for (int64_t index = 0; index < RANDOM_REQUESTS; index++) {
        conformance_gemm_case *test = conformance_gemm_case_create(subject->seed, index);
        if (!test)
            break;
        kiln_candidate candidate = conformance_gemm_ask(&session, &test->desc);
        report->cases++;
        if (candidate.support != KILN_SUPPORT_NO)
            served++;
        else
            snprintf(reason, sizeof reason, "%s", candidate.reason);
        conformance_gemm_case_free(test);
    }
    /* Plain ones, in whatever form. */
    for (int row = 0; row < CONFORMANCE_PLAIN_ROWS * CONFORMANCE_GEMM_GROUPINGS; row++) {
        conformance_plain_types types = conformance_plain_row(row % CONFORMANCE_PLAIN_ROWS);
        types.grouping = (uint32_t)(row / CONFORMANCE_PLAIN_ROWS);
        report->cases++;
        served += conformance_plain_find(&session, &types, reason);
    }
    report->declined = report->cases - served;
    if (served == 0)
        conformance_fail(report, "all of %lld descriptors are declined; the last: %s",
                         (long long)report->cases, reason);
    conformance_session_close(&session);
}

/* ---- query keeps its word ---- */

static void keep_word(conformance_gemm_bench *bench, const kiln_gemm_desc *desc)
{
    char text[256];
    kiln_answer first, second;
    kiln_candidate candidate = conformance_gemm_ask(&bench->session, desc);
    describe(desc, text, sizeof text);
    if (candidate.support == KILN_SUPPORT_NO) {
        bench->report->declined++;
        return;
    }
    if (query(bench, desc, &first) != KILN_OK || query(bench, desc, &second) != KILN_OK ||
        memcmp(&first, &second, sizeof first) != 0) {
        conformance_fail(bench->report, "two questions about one descriptor (%s) have two answers",
                         text);
        return;
    }
    kiln_plan *plan = NULL;
    kiln_plan_options options = {.struct_size = sizeof options,
                                 .device = bench->session.device,
                                 .backend = bench->session.name,
                                 .staging = KILN_STAGING_DENY};
    kiln_status status =
        conformance_plan_create(bench->session.runtime, KILN_GEMM, &desc->head, &options, &plan);
    if (status != KILN_OK)
        conformance_fail(bench->report,
                         "query says that it serves %s, but planning fails with %s: %s", text,
                         kiln_status_name(status), kiln_last_error());
    kiln_plan_release(plan);
}

/* What is served is also run, by the same cases. */
static void run_random(conformance_gemm_bench *bench, uint64_t seed)
{
    for (int64_t index = 0; index < RANDOM_REQUESTS && !conformance_bench_failed(bench); index++) {
        conformance_gemm_case *test = conformance_gemm_case_create(seed, index);
        conformance_gemm_result result;
        if (!test)
            return;
        /* Packing has checks of its own. */
        bool served = !(test->desc.head.flags & (KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B)) &&
                      conformance_gemm_ask(&bench->session, &test->desc).support != KILN_SUPPORT_NO;
        if (served) {
            conformance_gemm_execute(bench->session.runtime, bench->session.name, test, &result);
            char text[256];
            describe(&test->desc, text, sizeof text);
            if (result.outcome != CONFORMANCE_PASSED)
                conformance_fail(bench->report,
                                 "query says that it serves %s, but the run fails: %.600s", text,
                                 result.text);
        }
        conformance_gemm_case_free(test);
    }
}

void conformance_op_gemm_word(const conformance_subject *subject, conformance_report *report)
{
    conformance_gemm_bench bench;
    conformance_session_options options = {.watched = true};
    if (conformance_bench_begin(subject, &options, report, &bench)) {
        ask_plain(&bench, keep_word);
        ask_random(&bench, subject->seed, keep_word);
        run_random(&bench, subject->seed);
    }
    conformance_bench_end(&bench);
}

/* ---- Reasons ---- */

static void check_reason(conformance_gemm_bench *bench, const kiln_gemm_desc *desc)
{
    char text[256];
    kiln_answer answer;
    kiln_status status = query(bench, desc, &answer);
    describe(desc, text, sizeof text);
    if (status == KILN_OK && answer.support == KILN_SUPPORT_NO && !answer.reason[0])
        conformance_fail(bench->report, "%s is declined without a reason", text);
    if (status > 0)
        conformance_fail(bench->report, "query returns %d, which is no status", (int)status);
}

void conformance_op_gemm_reasons(const conformance_subject *subject, conformance_report *report)
{
    each_request(subject, report, check_reason);
}

/* ---- Tuning parameters ---- */

/* Plans with one candidate of the first plain GEMM that is served. */
static kiln_status plan_candidate(void *argument, const kiln_parameter *parameters, int64_t count)
{
    conformance_gemm_bench *bench = argument;
    conformance_gemm_spec spec = conformance_gemm_plain(conformance_bench_first(bench), 16, 16, 16);
    kiln_gemm_desc desc = conformance_gemm_settled(&spec);
    kiln_plan_options options = {.struct_size = sizeof options,
                                 .device = bench->session.device,
                                 .backend = bench->session.name,
                                 .parameters = parameters,
                                 .parameter_count = (uint64_t)count};
    kiln_plan *plan = NULL;
    bench->report->cases++;
    if (conformance_plan_create(bench->session.runtime, KILN_GEMM, &desc.head, &options, &plan) !=
        KILN_OK)
        conformance_fail(bench->report, "parameters that space offers are refused by plan: %s",
                         kiln_last_error());
    kiln_plan_release(plan);
    return conformance_bench_failed(bench) ? KILN_CANCELLED : KILN_OK;
}

void conformance_op_gemm_parameters(const conformance_subject *subject, conformance_report *report)
{
    conformance_gemm_bench bench;
    conformance_session_options options = {.watched = true};
    kiln_operator_table table;
    if (conformance_bench_begin(subject, &options, report, &bench)) {
        conformance_gemm_spec spec =
            conformance_gemm_plain(conformance_bench_first(&bench), 16, 16, 16);
        kiln_gemm_desc desc = conformance_gemm_settled(&spec);
        if (kiln_receive_table(&table, sizeof table, table_of(&bench)) != KILN_OK || !table.space)
            conformance_skip(report, "its table has no space: there is nothing to tune");
        else if (CONFORMANCE_CALL("space", table.space(bench.session.instance, bench.session.device,
                                                       &desc.head, plan_candidate, &bench)) !=
                 KILN_OK)
            conformance_fail(report, "space fails for a GEMM that query serves: %s",
                             kiln_last_error());
    }
    conformance_bench_end(&bench);
}

/* ---- Memory of a run ---- */

static void each_host_type(const conformance_subject *subject, conformance_report *report,
                           void (*function)(conformance_gemm_bench *bench,
                                            const conformance_plain_types *types))
{
    conformance_gemm_bench bench;
    if (conformance_bench_begin(subject, NULL, report, &bench)) {
        if (!bench.session.host)
            conformance_skip(report, "its tensors are not in host memory");
        for (int i = 0; bench.session.host && i < bench.type_count; i++)
            if (!conformance_bench_failed(&bench))
                function(&bench, &bench.types[i]);
    }
    conformance_bench_end(&bench);
}

static void judge_raw(conformance_gemm_bench *bench, const char *what, conformance_gemm_case *test,
                      const conformance_gemm_raw *raw, kiln_status status)
{
    conformance_gemm_result result = {.outcome = CONFORMANCE_PASSED,
                                      .answer_flags = raw->info.flags};
    if (status != KILN_OK) {
        conformance_fail(bench->report, "%s: run fails with %s: %s", what, kiln_status_name(status),
                         kiln_last_error());
        return;
    }
    conformance_gemm_judge(test, &result);
    bench->report->judged++;
    if (result.outcome == CONFORMANCE_FAILED)
        conformance_fail(bench->report, "%s: %s", what, result.text);
}

/* Runs the spec with every tensor at the edge of its pages. */
static void try_guarded(conformance_gemm_bench *bench, const char *what,
                        const conformance_gemm_spec *spec)
{
    for (int at_start = 0; at_start < 2 && !conformance_bench_failed(bench); at_start++) {
        conformance_gemm_case *test = conformance_gemm_make(bench, spec);
        kiln_plan *plan = test ? conformance_gemm_plan(bench, &test->desc) : NULL;
        conformance_gemm_moved moved;
        conformance_gemm_raw raw;
        if (plan && conformance_gemm_raw_of(bench, plan, &raw) &&
            conformance_gemm_move(bench, test, at_start, &moved)) {
            conformance_calling("run, with every tensor between pages that must not be touched");
            kiln_status status = kiln_plan_run(plan, NULL, &moved.args.head);
            conformance_calling(NULL);
            conformance_gemm_return(test, &moved);
            judge_raw(bench, what, test, &raw, status);
        }
        kiln_plan_release(plan);
        conformance_gemm_case_free(test);
    }
}

static void try_guards(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    static const int64_t sizes[][3] = {{1, 1, 2}, {3, 5, 6}, {8, 16, 32}, {17, 33, 66}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t variant = 0; variant < 3; variant++) {
            conformance_gemm_spec spec =
                conformance_gemm_plain(types, sizes[i][0], sizes[i][1], sizes[i][2]);
            if (variant == 1)
                spec.desc.head.flags ^= KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B;
            if (variant == 2) {
                spec.desc.c_type = types->d;
                spec.beta = 1;
                conformance_gemm_add(&spec, KILN_EPILOGUE_BIAS, KILN_OPERAND_ROW);
            }
            try_guarded(bench, "tensors between guard pages", &spec);
        }
}

void conformance_op_gemm_guards(const conformance_subject *subject, conformance_report *report)
{
    each_host_type(subject, report, try_guards);
}

/* ---- The workspace ---- */

static void run_with_exact_workspace(conformance_gemm_bench *bench, conformance_gemm_case *test,
                                     const conformance_gemm_raw *raw, int64_t parts)
{
    conformance_guarded workspace;
    kiln_answer answer;
    query(bench, &test->desc, &answer);
    int64_t bytes = raw->info.workspace_bytes,
            alignment = answer.workspace_alignment > 0 ? answer.workspace_alignment : 64;
    kiln_tensor tensors[CONFORMANCE_GEMM_TENSORS];
    for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++)
        tensors[slot] = test->tensors[slot].tensor;
    kiln_gemm_args args = {{sizeof args, KILN_GEMM_SLOTS, tensors}, test->alpha, test->beta};
    kiln_status status = KILN_OK;
    for (int64_t part = 0; status == KILN_OK && part < (parts ? parts : 1); part++) {
        if (!conformance_guard(bytes, alignment, false, &workspace)) {
            conformance_fail(bench->report, "no memory for a workspace");
            return;
        }
        kiln_run_context context = {.struct_size = sizeof context,
                                    .workspace = bytes > 0 ? workspace.data : NULL,
                                    .workspace_bytes = bytes,
                                    .part = part,
                                    .parts = parts};
        status = (kiln_status)CONFORMANCE_CALL("run, with just the workspace that query asked for",
                                               raw->table.run(raw->native, &context, &args.head));
        /* What lies before an aligned end belongs to nobody either. */
        const uint8_t *page = (const uint8_t *)workspace.mapping + 4096;
        for (const uint8_t *byte = page; bytes > 0 && byte < workspace.data; byte++)
            if (*byte != 0xff) {
                conformance_fail(bench->report, "run writes before its workspace");
                break;
            }
        conformance_guard_release(&workspace);
    }
    judge_raw(bench, "with just the workspace that was asked for", test, raw, status);
}

static void try_workspace(conformance_gemm_bench *bench, const conformance_gemm_spec *spec)
{
    for (int64_t parts = 0; parts < 4 && !conformance_bench_failed(bench); parts += 3) {
        conformance_gemm_case *test = conformance_gemm_make(bench, spec);
        kiln_plan *plan = test ? conformance_gemm_plan(bench, &test->desc) : NULL;
        conformance_gemm_raw raw;
        if (plan && conformance_gemm_raw_of(bench, plan, &raw))
            run_with_exact_workspace(bench, test, &raw, parts);
        kiln_plan_release(plan);
        conformance_gemm_case_free(test);
    }
}

void conformance_op_gemm_workspace(const conformance_subject *subject, conformance_report *report)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {5, 7, 9}, {33, 65, 20}, {130, 40, 200}};
    conformance_gemm_bench bench;
    conformance_session_options options = {.watched = true};
    if (conformance_bench_begin(subject, &options, report, &bench)) {
        if (!bench.session.host)
            conformance_skip(report, "its workspace is not in host memory");
        for (int i = 0; bench.session.host && i < bench.type_count; i++)
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
                const conformance_plain_types *types = &bench.types[i];
                conformance_gemm_spec spec =
                    conformance_gemm_plain(types, sizes[k][0], sizes[k][1], sizes[k][2]);
                if (conformance_bench_failed(&bench))
                    continue;
                try_workspace(&bench, &spec);
                /* The bound is over all runs that the descriptor allows. */
                spec.desc.head.flags |= KILN_GEMM_DYNAMIC_M | KILN_GEMM_DYNAMIC_K;
                spec.desc.m = conformance_gemm_size(spec.m + 50, types->unit_m);
                spec.desc.k = conformance_gemm_size(spec.k + 50, types->unit);
                try_workspace(&bench, &spec);
            }
    }
    conformance_bench_end(&bench);
}

/* ---- Arguments that are not to be obeyed ---- */

typedef struct long_args {
    kiln_gemm_args args;
    uint64_t beyond[4];
} long_args;

/* Hands arguments to the plugin itself; a device's are queued and waited for. */
static kiln_status run_raw(conformance_gemm_bench *bench, const conformance_gemm_raw *raw,
                           const kiln_args_head *arguments)
{
    kiln_run_context context = {.struct_size = sizeof context};
    kiln_stream *stream = NULL;
    void *workspace = NULL;
    if (bench->session.host && raw->info.workspace_bytes > 0) {
        context.workspace_bytes = raw->info.workspace_bytes;
        context.workspace = workspace =
            aligned_alloc(64, (size_t)(raw->info.workspace_bytes + 63) / 64 * 64);
    }
    if (!bench->session.host && kiln_stream_create(bench->session.device, &stream) != KILN_OK)
        return KILN_INTERNAL;
    context.stream = stream;
    kiln_status status =
        (kiln_status)CONFORMANCE_CALL("run", raw->table.run(raw->native, &context, arguments));
    if (stream) {
        kiln_status waited = kiln_stream_wait(stream);
        status = status != KILN_OK ? status : waited;
    }
    kiln_stream_destroy(stream);
    free(workspace);
    return status;
}

typedef struct argument_trial {
    const char *what;
    uint32_t struct_size;
    uint64_t beyond;
    bool refused;
} argument_trial;

static void try_arguments(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    const argument_trial trials[] = {
        {"a longer struct that says nothing more", sizeof(long_args), 0, false},
        {"a longer struct that says more", sizeof(long_args), 1, true},
        {"a struct without beta", offsetof(kiln_gemm_args, beta), 0, true},
        {"a struct of nothing but its head", sizeof(kiln_args_head), 0, true},
        {"a struct of no bytes", 0, 0, true},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        conformance_gemm_spec spec = conformance_gemm_plain(types, 5, 6, 7);
        conformance_gemm_case *test = conformance_gemm_make(bench, &spec);
        kiln_plan *plan = test ? conformance_gemm_plan(bench, &test->desc) : NULL;
        conformance_gemm_raw raw;
        conformance_gemm_placed placed = {.buffers = {NULL}};
        bool ready = plan && conformance_gemm_raw_of(bench, plan, &raw) &&
                     conformance_gemm_place(bench, test, &placed);
        long_args longer = {
            .args = {{trials[i].struct_size, KILN_GEMM_SLOTS, placed.tensors}, 1, 0},
            .beyond = {trials[i].beyond}};
        if (ready && (bench->session.host || raw.info.workspace_bytes == 0)) {
            kiln_status status = run_raw(bench, &raw, &longer.args.head);
            if (trials[i].refused && status == KILN_OK)
                conformance_fail(bench->report, "run obeys arguments in %s", trials[i].what);
            if (!trials[i].refused && status != KILN_OK)
                conformance_fail(bench->report, "run refuses arguments in %s: %s", trials[i].what,
                                 kiln_last_error());
            if (trials[i].refused && bench->session.host &&
                memcmp(test->tensors[KILN_GEMM_D].memory, test->tensors[KILN_GEMM_D].before,
                       (size_t)test->tensors[KILN_GEMM_D].bytes) != 0)
                conformance_fail(bench->report, "run refuses %s, but has written to D",
                                 trials[i].what);
        } else if (plan) {
            bench->report->declined++;
        }
        conformance_gemm_release(&placed);
        kiln_plan_release(plan);
        conformance_gemm_case_free(test);
    }
}

void conformance_op_gemm_arguments(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, try_arguments);
}
