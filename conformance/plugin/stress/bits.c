/* SPDX-License-Identifier: Apache-2.0 */
/* Stress: the promise that bits depend on types, K and the device alone. Where an answer does not
 * claim it, nothing is asked. */
#include <stdio.h>
#include <stdlib.h>

#include "conformance/plugin/op/gemm_plain.h"
#include "conformance/plugin/op/op.h"

/* Runs a case; true when it is served and promises bits. */
static bool run_promised(conformance_gemm_bench *bench, conformance_gemm_case *test)
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
        snprintf(bench->last_decline, sizeof bench->last_decline,
                 "no answer promises reproducible bits");
    }
    return promised;
}

/* The bits of an element of D, of batch entry 0. */
static uint64_t bits_of(const conformance_gemm_case *test, int64_t row, int64_t column)
{
    const conformance_tensor *d = &test->tensors[KILN_GEMM_D];
    size_t size = (size_t)kiln_type_bits(d->tensor.type) / 8;
    int64_t element = row * d->tensor.strides[d->tensor.rank - 2] + column;
    uint64_t bits = 0;
    memcpy(&bits, d->memory + d->tensor.byte_offset + element * (int64_t)size, size);
    return bits;
}

/* Compares the whole of `part` with the block of `whole` that begins at (row, column). */
static bool same_bits(conformance_gemm_bench *bench, const char *what,
                      const conformance_gemm_case *whole, int64_t row, int64_t column,
                      const conformance_gemm_case *part)
{
    for (int64_t i = 0; i < part->m; i++)
        for (int64_t j = 0; j < part->n; j++)
            if (bits_of(part, i, j) != bits_of(whole, row + i, column + j)) {
                conformance_fail(
                    bench->report,
                    "%s x %s -> %s, K %lld: D[%lld, %lld] of %lld x %lld has other bits %s, though "
                    "the answer promises the same",
                    kiln_type_name(whole->desc.a_type), kiln_type_name(whole->desc.b_type),
                    kiln_type_name(whole->desc.d_type), (long long)whole->k, (long long)(row + i),
                    (long long)(column + j), (long long)whole->m, (long long)whole->n, what);
                return false;
            }
    return true;
}

/* Gives `part` the values of rows from `row` and columns from `column` of `whole`. */
static void take_values(conformance_gemm_case *part, const conformance_gemm_case *whole,
                        int64_t row, int64_t column)
{
    for (int64_t k = 0; k < part->k; k++) {
        for (int64_t i = 0; i < part->m; i++)
            conformance_gemm_set(part, KILN_GEMM_A, i, k,
                                 conformance_gemm_get(whole, KILN_GEMM_A, row + i, k));
        for (int64_t j = 0; j < part->n; j++)
            conformance_gemm_set(part, KILN_GEMM_B, k, j,
                                 conformance_gemm_get(whole, KILN_GEMM_B, k, column + j));
    }
}

enum { DEEP = 301 };

/* ---- Again, and elsewhere ---- */

static void repeat(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    conformance_gemm_spec spec = conformance_gemm_plain(types, 33, 29, DEEP);
    conformance_gemm_case *first = conformance_gemm_make(bench, &spec);
    bool promised = run_promised(bench, first);
    for (int round = 1; promised && round < 8 && !conformance_bench_failed(bench); round++) {
        for (uint32_t slot = 0; slot < KILN_GEMM_OPERAND; slot++)
            spec.offset[slot] = round % 2 ? 0 : round * 4 * (1 + (int64_t)slot);
        conformance_gemm_case *again = conformance_gemm_make(bench, &spec);
        if (again) {
            take_values(again, first, 0, 0);
            if (run_promised(bench, again))
                same_bits(bench, round % 2 ? "when it is run again" : "at other addresses", first,
                          0, 0, again);
        }
        conformance_gemm_case_free(again);
    }
    conformance_gemm_case_free(first);
}

void conformance_stress_bits_repeat(const conformance_subject *subject, conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, repeat);
}

/* ---- Threads ---- */

void conformance_stress_bits_threads(const conformance_subject *subject, conformance_report *report)
{
    static const int64_t counts[] = {1, 2, 3, 5};
    conformance_gemm_case *first[CONFORMANCE_PLAIN_TYPES] = {NULL};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        conformance_session_options options = {.threads = counts[i]};
        conformance_gemm_bench bench;
        if (conformance_bench_begin(subject, &options, report, &bench))
            for (int k = 0, large = 1; k < CONFORMANCE_PLAIN_TYPES; k++) {
                if (!bench.served[k] || conformance_bench_failed(&bench))
                    continue;
                /* One that is surely worth several threads. */
                conformance_gemm_spec spec = conformance_gemm_plain(
                    &conformance_plain_types_all[k], large ? 150 : 40, large ? 64 : 24, DEEP);
                large = 0;
                conformance_gemm_case *test = conformance_gemm_make(&bench, &spec);
                if (test && first[k])
                    take_values(test, first[k], 0, 0);
                bool promised = run_promised(&bench, test);
                if (promised && first[k])
                    same_bits(&bench, "with another number of threads", first[k], 0, 0, test);
                if (promised && !first[k]) {
                    first[k] = test;
                    test = NULL;
                }
                conformance_gemm_case_free(test);
            }
        conformance_bench_end(&bench);
        if (report->verdict != CONFORMANCE_CHECK_PASSED)
            break;
    }
    for (int k = 0; k < CONFORMANCE_PLAIN_TYPES; k++)
        conformance_gemm_case_free(first[k]);
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
    bool promised = run_promised(bench, whole);
    for (size_t i = 0; promised && i < sizeof blocks / sizeof *blocks; i++) {
        const int64_t *block = blocks[i];
        spec = conformance_gemm_plain(types, block[2], block[3], DEEP);
        conformance_gemm_case *part = conformance_gemm_make(bench, &spec);
        if (part) {
            take_values(part, whole, block[0], block[1]);
            if (run_promised(bench, part) &&
                !same_bits(bench, "without the rows and columns beside it", whole, block[0],
                           block[1], part))
                promised = false;
        }
        conformance_gemm_case_free(part);
    }
    conformance_gemm_case_free(whole);
}

void conformance_stress_bits_neighbours(const conformance_subject *subject,
                                        conformance_report *report)
{
    conformance_bench_each(subject, NULL, report, neighbours);
}

/* ---- Batches ---- */

static void batch(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    conformance_gemm_spec spec = conformance_gemm_plain(types, 19, 21, DEEP);
    conformance_gemm_case *single = conformance_gemm_make(bench, &spec);
    bool promised = run_promised(bench, single);
    for (int64_t size = 2; promised && size < 6 && !conformance_bench_failed(bench); size++) {
        spec.batch = spec.desc.batch = size;
        conformance_gemm_case *several = conformance_gemm_make(bench, &spec);
        if (several) {
            take_values(several, single, 0, 0); /* into every entry */
            if (run_promised(bench, several))
                same_bits(bench, "in a batch", several, 0, 0, single);
        }
        conformance_gemm_case_free(several);
    }
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
    if (whole && shared && run_promised(bench, whole)) {
        take_values(shared, whole, 0, 0);
        kiln_plan *plan = conformance_gemm_plan(bench, &spec.desc);
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
        conformance_bench_each(subject, NULL, report, parts);
    else
        conformance_skip(report, "its plans are not run in shares");
}
