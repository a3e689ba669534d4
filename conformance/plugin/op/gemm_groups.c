/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of kiln.gemm/1: groups, and groups that say more than was declared. */
#include <stdio.h>

#include "conformance/plugin/op/gemm_plain.h"
#include "conformance/plugin/op/op.h"

enum {
    CASES = 120,
    ALL_GROUPINGS = 1 << KILN_GROUPING_CONTIGUOUS | 1 << KILN_GROUPING_MASKED | 1 << KILN_GROUPING_K
};

static bool begin(const conformance_subject *subject, conformance_report *report,
                  conformance_session *session)
{
    if (!conformance_session_open(subject, NULL, report, session))
        return false;
    if (conformance_session_offers(session, KILN_GEMM))
        return true;
    conformance_skip(report, "the plugin does not offer " KILN_GEMM);
    conformance_session_close(session);
    return false;
}

void conformance_op_gemm_groups(const conformance_subject *subject, conformance_report *report)
{
    const conformance_gemm_filter filter = {.groupings = ALL_GROUPINGS};
    static conformance_gemm_summary summary;
    conformance_session session;
    if (!begin(subject, report, &session))
        return;
    kiln_status status = conformance_gemm_sweep_of(session.runtime, session.name, &filter,
                                                   subject->seed, 0, CASES, &summary);
    report->cases = CASES;
    report->declined = summary.declined;
    report->vectors = summary.vectors;
    if (status != KILN_OK)
        conformance_fail(report, "the sweep failed with %s", kiln_status_name(status));
    else if (summary.failed)
        conformance_fail(report, "%lld of %d grouped cases are wrong, first: %.900s",
                         (long long)summary.failed, CASES, summary.first_failure);
    else if (summary.passed == 0)
        conformance_skip(report, "no groups are served; the last: %.800s", summary.last_decline);
    conformance_session_close(&session);
}

static void try_violation(conformance_session *session, conformance_report *report,
                          conformance_gemm_case *test)
{
    conformance_gemm_result result;
    conformance_gemm_execute(session->runtime, session->name, test, &result);
    if (result.outcome == CONFORMANCE_PASSED)
        conformance_gemm_judge(test, &result);
    report->cases++;
    uint64_t hash = conformance_gemm_case_hash(test);
    report->vectors = conformance_hash(report->vectors, &hash, sizeof hash);
    if (result.outcome == CONFORMANCE_FAILED) {
        char text[400];
        conformance_gemm_case_describe(test, text, sizeof text);
        conformance_fail(report, "%s: %s", text, result.text);
    }
    report->declined += result.outcome == CONFORMANCE_DECLINED;
    if (result.outcome == CONFORMANCE_DECLINED)
        snprintf(report->text, sizeof report->text, "%.900s", result.text);
}

void conformance_op_gemm_capacity(const conformance_subject *subject, conformance_report *report)
{
    conformance_session session;
    if (!begin(subject, report, &session))
        return;
    for (int64_t index = 0;
         report->cases < CASES && index < 20 * CASES && report->verdict == CONFORMANCE_CHECK_PASSED;
         index++) {
        if (index / CONFORMANCE_GEMM_LAYOUTS % CONFORMANCE_GEMM_GROUPINGS == KILN_GROUPING_NONE)
            continue;
        conformance_gemm_case *test = conformance_gemm_case_create(subject->seed, index);
        if (!test) {
            conformance_fail(report, "no memory for a case");
            break;
        }
        if (conformance_gemm_case_violate(test, (uint64_t)index))
            try_violation(&session, report, test);
        conformance_gemm_case_free(test);
    }
    if (report->verdict == CONFORMANCE_CHECK_PASSED && report->declined == report->cases) {
        char last[900];
        snprintf(last, sizeof last, "%.890s", report->text);
        conformance_skip(report, "no groups are served; the last: %s", last);
    } else if (report->verdict == CONFORMANCE_CHECK_PASSED) {
        report->text[0] = '\0';
    }
    conformance_session_close(&session);
}
