/* SPDX-License-Identifier: Apache-2.0 */
/* Which types a plugin serves, and in what form: what else a descriptor must say so that it does
 * not decline. A backend that knows scaled operands only, or only reduced precision, or only rows
 * of whole blocks, is checked as any other. */
#include <stdio.h>

#include "conformance/gemm/numeric.h"
#include "conformance/plugin/op/gemm_plain.h"

/* ---- The kinds of A and B ---- */

/* Beside those of the random cases, with which these are mixed there. */
static const uint32_t others[][2] = {
    {KILN_U8, KILN_I8}, {KILN_E2M1, KILN_E2M1}, {KILN_BF16, KILN_I8}, {KILN_F16, KILN_I4}};

enum { ANY_TYPE = CONFORMANCE_GEMM_TYPES - 1 };

_Static_assert(CONFORMANCE_PLAIN_ROWS == ANY_TYPE + sizeof others / sizeof *others,
               "a row for each type but any, and for each other");

conformance_plain_types conformance_plain_row(int row)
{
    conformance_plain_types types = {.type = row < ANY_TYPE ? row : ANY_TYPE};
    if (row < ANY_TYPE) {
        const conformance_gemm_type *type = &conformance_gemm_types[row];
        types.a = type->a;
        types.b = type->b;
        types.a_blocks = type->a_blocks;
        types.b_blocks = type->b_blocks;
    } else {
        types.a = others[row - ANY_TYPE][0];
        types.b = others[row - ANY_TYPE][1];
    }
    return types;
}

static bool is_scaled(const conformance_plain_types *types)
{
    return types->a_blocks.scale_type || types->b_blocks.scale_type;
}

/* The types of D that are tried each, of a kind of A and B; the others only where none of these is
 * served. Those of one element size take different paths, and so does widening. */
static int first_outputs(const conformance_plain_types *types, uint32_t outputs[3])
{
    if (is_scaled(types))
        return 0;
    if (conformance_type_is_integer(types->a) && conformance_type_is_integer(types->b)) {
        outputs[0] = KILN_I32;
        outputs[1] = KILN_F32;
        outputs[2] = KILN_I8;
        return types->a == types->b ? 3 : 1;
    }
    outputs[0] = types->a == KILN_F64 ? KILN_F64 : KILN_F32;
    outputs[1] = types->a == KILN_F32 ? (uint32_t)KILN_BF16 : types->a;
    return types->a == types->b &&
                   (types->a == KILN_F32 || types->a == KILN_F16 || types->a == KILN_BF16)
               ? 2
               : types->a == KILN_F64;
}

/* ---- The form ---- */

/* Sizes and places of which a backend may want no others. */
typedef struct regularity {
    int64_t unit_m, unit;
    uint32_t alignment;
    int64_t group_alignment;
} regularity;

static kiln_candidate ask(const conformance_session *session, const conformance_plain_types *types)
{
    conformance_gemm_spec spec = conformance_gemm_plain(types, 16, 16, 16);
    kiln_gemm_desc desc = conformance_gemm_settled(&spec);
    desc.grouping = types->grouping;
    if (types->grouping != KILN_GROUPING_NONE) {
        desc.groups = 3;
        desc.group_alignment = types->group_alignment;
    }
    return conformance_gemm_ask(session, &desc);
}

/* Whether another kernel than that of the exact form serves it with less precision. */
static bool serves_fast(const conformance_session *session, const conformance_plain_types *exact,
                        const kiln_candidate *answer)
{
    conformance_plain_types fast = *exact;
    if (exact->precision != KILN_PRECISION_EXACT)
        return false;
    fast.precision = KILN_PRECISION_FAST;
    kiln_candidate candidate = ask(session, &fast);
    return candidate.support != KILN_SUPPORT_NO &&
           strncmp(candidate.kernel, answer->kernel, sizeof candidate.kernel) != 0;
}

/* With the precision and the type of D that are set. */
static bool find_form(const conformance_session *session, conformance_plain_types *types,
                      char reason[256])
{
    static const regularity regularities[] = {
        {1, 1, 0, 0},      {1, 1, 16, 0},    {1, 16, 16, 0},     {1, 128, 64, 0},
        {1, 128, 64, 128}, {16, 16, 16, 16}, {128, 128, 64, 128}};
    for (size_t i = 0; i < sizeof regularities / sizeof *regularities; i++)
        for (uint32_t layout = 0; layout < (i == 0 ? 4u : 2u); layout++) {
            /* B as [N, K] is the most usual of the others. */
            types->transposes = (layout & 1 ? KILN_GEMM_TRANSPOSE_B : 0u) |
                                (layout & 2 ? KILN_GEMM_TRANSPOSE_A : 0u);
            types->unit_m = regularities[i].unit_m;
            types->unit = regularities[i].unit;
            types->alignment = regularities[i].alignment;
            types->group_alignment = regularities[i].group_alignment;
            kiln_candidate candidate = ask(session, types);
            if (candidate.support != KILN_SUPPORT_NO) {
                types->fast_too = serves_fast(session, types, &candidate);
                return true;
            }
            snprintf(reason, 256, "%s", candidate.reason);
        }
    return false;
}

bool conformance_plain_find(const conformance_session *session, conformance_plain_types *types,
                            char reason[256])
{
    static const uint32_t outputs[] = {KILN_BF16, KILN_F32,  KILN_F16, KILN_F64, KILN_I32,
                                       KILN_E4M3, KILN_E5M2, KILN_I8,  KILN_U8};
    static const uint32_t precisions[] = {KILN_PRECISION_EXACT, KILN_PRECISION_FAST};
    const uint32_t wanted = types->d;
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
        for (size_t k = 0; k < (wanted ? 1 : sizeof outputs / sizeof *outputs); k++) {
            types->precision = precisions[i];
            types->d = wanted ? wanted : outputs[k];
            if (find_form(session, types, reason))
                return true;
        }
    types->d = wanted;
    return false;
}

/* ---- The bench ---- */

static void add_types(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    if (bench->type_count < CONFORMANCE_PLAIN_TYPES)
        bench->types[bench->type_count++] = *types;
}

/* All that is served of one kind of A and B; twice where kernels differ by precision. */
static void find_types(conformance_gemm_bench *bench, const conformance_plain_types *row)
{
    uint32_t outputs[3];
    int count = first_outputs(row, outputs), found = 0;
    char reason[256] = "";
    for (int i = 0; i < count + 1; i++) {
        conformance_plain_types types = *row;
        if (i == count && found > 0)
            break;
        types.d = i < count ? outputs[i] : (uint32_t)KILN_TYPE_NONE;
        if (!conformance_plain_find(&bench->session, &types, reason))
            continue;
        found++;
        bool twice = types.fast_too;
        types.fast_too = false;
        add_types(bench, &types);
        types.precision = KILN_PRECISION_FAST;
        if (twice)
            add_types(bench, &types);
    }
    if (found == 0)
        snprintf(bench->last_decline, sizeof bench->last_decline, "%s", reason);
}

bool conformance_bench_begin_any(const conformance_subject *subject,
                                 const conformance_session_options *options,
                                 conformance_report *report, conformance_gemm_bench *bench)
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
    for (int row = 0; row < CONFORMANCE_PLAIN_ROWS; row++) {
        conformance_plain_types types = conformance_plain_row(row);
        find_types(bench, &types);
    }
    return true;
}

bool conformance_bench_begin(const conformance_subject *subject,
                             const conformance_session_options *options, conformance_report *report,
                             conformance_gemm_bench *bench)
{
    if (!conformance_bench_begin_any(subject, options, report, bench))
        return false;
    if (bench->type_count == 0)
        conformance_skip(report, "no plain GEMM is served: %s", bench->last_decline);
    return bench->type_count > 0;
}

void conformance_bench_end(conformance_gemm_bench *bench)
{
    conformance_report *report = bench->report;
    if (report->verdict == CONFORMANCE_CHECK_PASSED && report->cases == 0)
        conformance_skip(report, "none of the types that are served can show it");
    else if (report->verdict == CONFORMANCE_CHECK_PASSED && report->declined >= report->cases)
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
        for (int i = 0; i < bench.type_count && !conformance_bench_failed(&bench); i++)
            function(&bench, &bench.types[i]);
    conformance_bench_end(&bench);
}

const conformance_plain_types *conformance_bench_first(const conformance_gemm_bench *bench)
{
    return &bench->types[0];
}

bool conformance_bench_serves(conformance_gemm_bench *bench, const conformance_gemm_spec *spec)
{
    kiln_gemm_desc desc = conformance_gemm_settled(spec);
    kiln_candidate candidate = conformance_gemm_ask(&bench->session, &desc);
    conformance_report *report = bench->report;
    bool served = candidate.support != KILN_SUPPORT_NO;
    if (!served && report->cases == report->declined) {
        conformance_skip(report, "it does not serve what the check would run: %s",
                         candidate.reason);
    } else if (served && report->verdict == CONFORMANCE_CHECK_NOT_APPLICABLE) {
        /* Something applies after all. */
        report->verdict = CONFORMANCE_CHECK_PASSED;
        report->text[0] = '\0';
    }
    return served;
}

bool conformance_bench_failed(const conformance_gemm_bench *bench)
{
    return bench->report->verdict == CONFORMANCE_CHECK_FAILED;
}
