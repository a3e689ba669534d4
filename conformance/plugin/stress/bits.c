/* SPDX-License-Identifier: Apache-2.0 */
/* Stress: the promise that bits depend on types, K, the blocks of scales along K and the device
 * alone. Where an answer does not claim it, nothing is asked. */
#include <stdio.h>
#include <stdlib.h>

#include "conformance/plugin/op/op.h"
#include "conformance/plugin/stress/bits.h"

bool conformance_bits_run(conformance_gemm_bench *bench, conformance_gemm_case *test)
{
    conformance_gemm_result result;
    if (!test)
        return false;
    conformance_gemm_execute(bench->session.runtime, bench->session.name, test, &result);
    if (result.outcome == CONFORMANCE_FAILED)
        conformance_fail(bench->report, "%s", result.text);
    bool promised =
        result.outcome == CONFORMANCE_PASSED && (result.answer_flags & KILN_ANSWER_REPRODUCIBLE);
    if (!promised) {
        bench->report->declined++;
        snprintf(bench->last_decline, sizeof bench->last_decline, "%.399s",
                 result.outcome == CONFORMANCE_DECLINED ? result.text
                                                        : "no answer promises reproducible bits");
    }
    return promised;
}

static int64_t entries_of(const conformance_gemm_case *test)
{
    const kiln_tensor *d = &test->tensors[KILN_GEMM_D].tensor;
    return d->rank > 2 ? d->shape[0] : 1;
}

/* The bits of an element of D. */
static uint64_t bits_of(const conformance_gemm_case *test, int64_t entry, int64_t row,
                        int64_t column)
{
    const conformance_tensor *d = &test->tensors[KILN_GEMM_D];
    size_t size = (size_t)kiln_type_bits(d->tensor.type) / 8;
    int64_t element = row * d->tensor.strides[d->tensor.rank - 2] + column +
                      (d->tensor.rank > 2 ? entry * d->tensor.strides[0] : 0);
    uint64_t bits = 0;
    memcpy(&bits, d->memory + d->tensor.byte_offset + element * (int64_t)size, size);
    return bits;
}

/* Compares the whole of `part`, a single matrix or as many as of `whole`, with the block of every
 * matrix of `whole` that begins at (row, column). */
static bool same_bits(conformance_gemm_bench *bench, const char *what,
                      const conformance_gemm_case *whole, int64_t row, int64_t column,
                      const conformance_gemm_case *part)
{
    int64_t entries = entries_of(whole), part_entries = entries_of(part);
    for (int64_t at = 0; at < entries * part->m * part->n; at++) {
        int64_t j = at % part->n, i = at / part->n % part->m, entry = at / part->n / part->m;
        if (bits_of(part, entry % part_entries, i, j) == bits_of(whole, entry, row + i, column + j))
            continue;
        char name[32] = "";
        if (entries > 1)
            snprintf(name, sizeof name, "%lld, ", (long long)entry);
        conformance_fail(
            bench->report,
            "%s x %s -> %s, K %lld: D[%s%lld, %lld] of %lld x %lld has other bits %s, though the "
            "answer promises the same",
            kiln_type_name(whole->desc.a_type), kiln_type_name(whole->desc.b_type),
            kiln_type_name(whole->desc.d_type), (long long)whole->k, name, (long long)(row + i),
            (long long)(column + j), (long long)whole->m, (long long)whole->n, what);
        return false;
    }
    return true;
}

/* Gives `part` the elements of A or B from row or column `first` of `whole` on, or with blocks the
 * scales or zero points of these. */
static void take_matrix(conformance_gemm_case *part, const conformance_gemm_case *whole,
                        uint32_t slot, bool k_is_row, int64_t first, int64_t count,
                        const conformance_gemm_blocks *blocks)
{
    int64_t across = blocks && blocks->across > 0 ? blocks->across
                     : blocks                     ? INT64_MAX
                                                  : 1,
            along = blocks && blocks->along_k > 0 ? blocks->along_k
                    : blocks                      ? INT64_MAX
                                                  : 1;
    if (!part->tensors[slot].memory)
        return;
    for (int64_t k = 0; k < part->k; k += along < part->k ? along : part->k)
        for (int64_t i = 0; i < count; i++) {
            int64_t to = i / across, from = (first + i) / across, step = k / along;
            conformance_gemm_set(
                part, slot, k_is_row ? step : to, k_is_row ? to : step,
                conformance_gemm_get(whole, slot, k_is_row ? step : from, k_is_row ? from : step));
        }
}

/* Gives `part` the values of rows from `row` and columns from `column` of `whole`. */
static void take_values(conformance_gemm_case *part, const conformance_gemm_case *whole,
                        const conformance_plain_types *types, int64_t row, int64_t column)
{
    bool a_by_k = part->desc.head.flags & KILN_GEMM_TRANSPOSE_A,
         b_by_k = !(part->desc.head.flags & KILN_GEMM_TRANSPOSE_B);
    take_matrix(part, whole, KILN_GEMM_A, a_by_k, row, part->m, NULL);
    take_matrix(part, whole, KILN_GEMM_B, b_by_k, column, part->n, NULL);
    for (uint32_t kind = CONFORMANCE_GEMM_SCALE; kind < CONFORMANCE_GEMM_TENSORS; kind += 2) {
        take_matrix(part, whole, kind + KILN_GEMM_A, a_by_k, row, part->m, &types->a_blocks);
        take_matrix(part, whole, kind + KILN_GEMM_B, b_by_k, column, part->n, &types->b_blocks);
    }
}

/* Whether `count` rows or columns from `first` on have their scales for themselves, in the blocks
 * in which they would be without the others. */
static bool keeps_blocks(const conformance_gemm_blocks *blocks, int64_t first, int64_t count)
{
    int64_t across = blocks->across > 0 ? blocks->across : INT64_MAX;
    return first % across == 0 || first / across == (first + count - 1) / across;
}

enum { DEEP = 301 };

/* A whole check: plain GEMMs, then everything else that is served. */
static void check(const conformance_subject *subject, conformance_report *report,
                  void (*plain)(conformance_gemm_bench *bench,
                                const conformance_plain_types *types),
                  void (*served)(conformance_gemm_bench *bench, conformance_bits_cases *all))
{
    static conformance_bits_cases all;
    conformance_gemm_bench bench;
    if (conformance_bench_begin_any(subject, NULL, report, &bench)) {
        for (int i = 0; i < bench.type_count && !conformance_bench_failed(&bench); i++)
            plain(&bench, &bench.types[i]);
        if (!conformance_bench_failed(&bench)) {
            conformance_bits_find(&bench.session, subject->seed, &all);
            served(&bench, &all);
        }
    }
    conformance_bench_end(&bench);
}

/* ---- Again, and elsewhere ---- */

static void repeat(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    conformance_gemm_spec spec = conformance_gemm_plain(types, 33, 29, DEEP);
    conformance_gemm_case *first = conformance_gemm_make(bench, &spec);
    bool promised = conformance_bits_run(bench, first);
    for (int round = 1; promised && round < 8 && !conformance_bench_failed(bench); round++) {
        for (uint32_t slot = 0; slot < KILN_GEMM_OPERAND; slot++)
            spec.offset[slot] = round % 2 ? 0 : round * 4 * (1 + (int64_t)slot);
        conformance_gemm_case *again = conformance_gemm_make(bench, &spec);
        if (again) {
            take_values(again, first, types, 0, 0);
            if (conformance_bits_run(bench, again))
                same_bits(bench, round % 2 ? "when it is run again" : "at other addresses", first,
                          0, 0, again);
        }
        conformance_gemm_case_free(again);
    }
    conformance_gemm_case_free(first);
}

static void repeat_served(conformance_gemm_bench *bench, conformance_bits_cases *all)
{
    for (int round = 0; round < 3; round++)
        conformance_bits_compare(bench, all, "when it is run again");
    conformance_bits_move(bench, all);
}

void conformance_stress_bits_repeat(const conformance_subject *subject, conformance_report *report)
{
    check(subject, report, repeat, repeat_served);
}

/* ---- Threads ---- */

/* One case of each types, and what the first session served. */
typedef struct thread_cases {
    int type_count;
    conformance_plain_types types[CONFORMANCE_PLAIN_TYPES];
    conformance_gemm_case *first[CONFORMANCE_PLAIN_TYPES];
} thread_cases;

static void compare_threads(conformance_gemm_bench *bench, thread_cases *all)
{
    for (int k = 0; k < all->type_count && !conformance_bench_failed(bench); k++) {
        /* One that is surely worth several threads. */
        conformance_gemm_spec spec =
            conformance_gemm_plain(&all->types[k], k == 0 ? 150 : 40, k == 0 ? 64 : 24, DEEP);
        conformance_gemm_case *test = conformance_gemm_make(bench, &spec);
        if (test && all->first[k])
            take_values(test, all->first[k], &all->types[k], 0, 0);
        bool promised = conformance_bits_run(bench, test);
        if (promised && all->first[k])
            same_bits(bench, "with another number of threads", all->first[k], 0, 0, test);
        if (promised && !all->first[k]) {
            all->first[k] = test;
            test = NULL;
        }
        conformance_gemm_case_free(test);
    }
}

/* One of Kiln's threads, several, and the caller's own. */
typedef struct thread_choice {
    int64_t threads, team;
} thread_choice;

typedef struct team_job {
    void (*task)(void *argument, int64_t part);
    void *argument;
    int64_t parts, members;
} team_job;

static void team_member(void *argument, int64_t index)
{
    const team_job *job = argument;
    for (int64_t part = index; part < job->parts; part += job->members)
        job->task(job->argument, part);
}

static void team_parallel_for(void *context, int64_t parts,
                              void (*task)(void *argument, int64_t part), void *argument)
{
    const thread_choice *self = context;
    team_job job = {task, argument, parts, self->team};
    if (!conformance_threads(self->team, team_member, &job)) {
        job.members = 1;
        team_member(&job, 0);
    }
}

void conformance_stress_bits_threads(const conformance_subject *subject, conformance_report *report)
{
    static thread_choice choices[] = {{1, 0}, {2, 0}, {3, 0}, {5, 0}, {0, 3}};
    static thread_cases all;
    static conformance_bits_cases served;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        thread_choice *choice = &choices[i];
        conformance_session_options options = {.threads = choice->threads,
                                               .parallel_for =
                                                   choice->team ? team_parallel_for : NULL,
                                               .parallel_context = choice,
                                               .parallel_threads = choice->team};
        conformance_gemm_bench bench;
        bool begun = conformance_bench_begin_any(subject, &options, report, &bench);
        if (begun && i == 0) {
            all.type_count = bench.type_count;
            memcpy(all.types, bench.types, sizeof all.types);
            conformance_bits_find(&bench.session, subject->seed, &served);
        }
        if (begun) {
            if (bench.type_count == 0 && all.type_count > 0)
                conformance_fail(report,
                                 "with %lld threads it serves nothing of what it serves with one: "
                                 "%.700s",
                                 (long long)(choice->team ? choice->team : choice->threads),
                                 bench.last_decline);
            compare_threads(&bench, &all);
            conformance_bits_compare(&bench, &served,
                                     choice->team ? "with a team of the caller's"
                                                  : "with another number of threads");
        }
        conformance_bench_end(&bench);
        if (report->verdict != CONFORMANCE_CHECK_PASSED)
            break;
    }
    for (int k = 0; k < all.type_count; k++)
        conformance_gemm_case_free(all.first[k]);
}

/* ---- Neighbours ---- */

static void neighbours(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    /* First row and column, rows, columns. */
    static const int64_t blocks[][4] = {{0, 0, 1, 45},  {1, 0, 1, 45},  {36, 0, 1, 45},
                                        {0, 0, 37, 1},  {0, 44, 37, 1}, {5, 7, 1, 1},
                                        {3, 2, 16, 16}, {9, 20, 17, 5}, {30, 40, 7, 5}};
    conformance_gemm_spec spec = conformance_gemm_plain(types, 37, 45, DEEP);
    conformance_gemm_case *whole = conformance_gemm_make(bench, &spec);
    bool promised = conformance_bits_run(bench, whole);
    for (size_t i = 0; promised && i < sizeof blocks / sizeof *blocks; i++) {
        const int64_t *block = blocks[i];
        spec = conformance_gemm_plain(types, block[2], block[3], DEEP);
        if (block[0] + spec.m > whole->m || block[1] + spec.n > whole->n ||
            !keeps_blocks(&types->a_blocks, block[0], spec.m) ||
            !keeps_blocks(&types->b_blocks, block[1], spec.n))
            continue;
        conformance_gemm_case *part = conformance_gemm_make(bench, &spec);
        if (part) {
            take_values(part, whole, types, block[0], block[1]);
            if (conformance_bits_run(bench, part) &&
                !same_bits(bench, "without the rows and columns beside it", whole, block[0],
                           block[1], part))
                promised = false;
        }
        conformance_gemm_case_free(part);
    }
    conformance_gemm_case_free(whole);
}

static void neighbours_served(conformance_gemm_bench *bench, conformance_bits_cases *all)
{
    conformance_bits_shrink(bench, all);
    conformance_bits_ungroup(bench, all);
}

void conformance_stress_bits_neighbours(const conformance_subject *subject,
                                        conformance_report *report)
{
    check(subject, report, neighbours, neighbours_served);
}

/* ---- Batches ---- */

/* Every entry has the values of the single one. */
static void batch(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    conformance_gemm_spec spec = conformance_gemm_plain(types, 19, 21, DEEP);
    conformance_gemm_case *single = conformance_gemm_make(bench, &spec);
    bool promised = conformance_bits_run(bench, single), compared = false;
    for (int64_t size = 2; promised && size < 6 && !conformance_bench_failed(bench); size++) {
        spec.batch = spec.desc.batch = size;
        conformance_gemm_case *several = conformance_gemm_make(bench, &spec);
        if (several) {
            take_values(several, single, types, 0, 0); /* into every entry */
            if (conformance_bits_run(bench, several)) {
                same_bits(bench, "in a batch", several, 0, 0, single);
                compared = true;
            }
        }
        conformance_gemm_case_free(several);
    }
    if (promised && !compared) /* a single matrix shows nothing */
        bench->report->cases--;
    conformance_gemm_case_free(single);
}

void conformance_stress_bits_batch(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, batch);
}

/* ---- Shares ---- */

static void parts(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    conformance_gemm_spec spec = conformance_gemm_plain(types, 41, 39, DEEP);
    conformance_gemm_case *whole = conformance_gemm_make(bench, &spec),
                          *shared = conformance_gemm_make(bench, &spec);
    if (whole && shared && conformance_bits_run(bench, whole)) {
        take_values(shared, whole, types, 0, 0);
        kiln_plan *plan = conformance_gemm_plan(bench, &shared->desc);
        kiln_tensor tensors[CONFORMANCE_GEMM_TENSORS];
        for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++)
            tensors[slot] = shared->tensors[slot].tensor;
        kiln_gemm_args args = {{sizeof args, KILN_GEMM_SLOTS, tensors}, 1, 0};
        for (int64_t count = 1; plan && count < 7 && !conformance_bench_failed(bench); count++) {
            kiln_status status = KILN_OK;
            for (int64_t part = 0; status == KILN_OK && part < count; part++)
                status = kiln_plan_run_part(plan, part, count, &args.head);
            if (status != KILN_OK)
                conformance_fail(bench->report, "a share fails: %s", kiln_last_error());
            else
                same_bits(bench, "in another number of shares", whole, 0, 0, shared);
        }
        kiln_plan_release(plan);
    }
    conformance_gemm_case_free(whole);
    conformance_gemm_case_free(shared);
}

void conformance_stress_bits_parts(const conformance_subject *subject, conformance_report *report)
{
    conformance_session session;
    if (!conformance_session_open(subject, NULL, report, &session))
        return;
    bool host = session.host;
    conformance_session_close(&session);
    if (host)
        check(subject, report, parts, conformance_bits_share);
    else
        conformance_skip(report, "its plans are not run in shares");
}
