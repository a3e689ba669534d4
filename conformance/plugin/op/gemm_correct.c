/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of kiln.gemm/1: everything mixed at random, and enough of it that the plugin serves. */
#include <stdio.h>

#include "conformance/plugin/op/gemm_near.h"
#include "conformance/plugin/op/op.h"

enum {
    LEAST_SERVED = 200, /* random cases, of all that are served */
    LEAST_OF_EACH = 8   /* of every kind of A and B and grouping that is served at all */
};

/* Forms of what is served, by kind of A and B and by grouping. */
typedef struct forms {
    bool known[CONFORMANCE_GEMM_TYPES][CONFORMANCE_GEMM_GROUPINGS];
    conformance_plain_types form[CONFORMANCE_GEMM_TYPES][CONFORMANCE_GEMM_GROUPINGS];
} forms;

static void find_forms(const conformance_session *session, forms *all)
{
    char reason[256];
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES - 1; type++) /* the last is any */
        for (uint32_t grouping = 0; grouping < CONFORMANCE_GEMM_GROUPINGS; grouping++) {
            conformance_plain_types *form = &all->form[type][grouping];
            *form = conformance_plain_row(type);
            form->grouping = grouping;
            all->known[type][grouping] = conformance_plain_find(session, form, reason);
        }
}

/* As they come. */
static bool try_first(conformance_gemm_tally *tally, int64_t cases)
{
    for (int64_t index = 0; index < cases; index++) {
        conformance_gemm_case *test = conformance_gemm_case_create(tally->seed, index);
        if (!test)
            return false;
        conformance_gemm_tally_case(tally, test);
    }
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES; type++)
        for (int grouping = 0; grouping < CONFORMANCE_GEMM_GROUPINGS; grouping++)
            tally->next[type][grouping] = cases;
    return true;
}

/* Each kind of A and B and grouping that is served, at least so often. Which are, the first round
 * finds out. */
static bool try_each(conformance_gemm_tally *tally, const forms *all, int64_t wanted)
{
    bool done = true, first = wanted == LEAST_OF_EACH;
    for (int type = 0; done && type < CONFORMANCE_GEMM_TYPES - !first; type++)
        for (uint32_t grouping = 0; done && grouping < CONFORMANCE_GEMM_GROUPINGS; grouping++)
            if (first || tally->served[type][grouping] > 0)
                done = conformance_gemm_tally_until(
                    tally, type, grouping,
                    all->known[type][grouping] ? &all->form[type][grouping] : NULL, wanted);
    return done;
}

/* A kind of which a form is known is served as often as is wanted. One of which none is, such as of
 * operands that are served with one epilogue alone, may have been met by chance: that it is not met
 * more often is no fault. */
static void judge_counts(const conformance_gemm_tally *tally, const forms *all,
                         conformance_report *report)
{
    int64_t few = 0;
    bool any_known = false;
    const char *few_name = "";
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES - 1; type++)
        for (int grouping = 0; grouping < CONFORMANCE_GEMM_GROUPINGS; grouping++) {
            int64_t served = tally->served[type][grouping];
            bool known = all->known[type][grouping];
            any_known |= known;
            if (served < LEAST_OF_EACH && known) {
                conformance_fail(report,
                                 "it serves %s, %s, but of many random cases no more than %lld, "
                                 "and %d are needed to say something; the last that is declined: "
                                 "%.600s",
                                 conformance_gemm_types[type].name,
                                 conformance_gemm_groupings[grouping], (long long)served,
                                 LEAST_OF_EACH, tally->last_decline);
            } else if (served < LEAST_OF_EACH && served > 0 && few++ == 0) {
                few_name = conformance_gemm_types[type].name;
            }
        }
    if (tally->passed == 0)
        conformance_skip(report, "nothing is served; the last: %.900s", tally->last_decline);
    else if (tally->passed < LEAST_SERVED && any_known)
        conformance_fail(report,
                         "of %lld random cases it serves %lld, and %d are needed to say something; "
                         "the last that is declined: %.700s",
                         (long long)tally->tried, (long long)tally->passed, LEAST_SERVED,
                         tally->last_decline);
    else if (tally->passed < LEAST_SERVED)
        conformance_skip(report,
                         "of %lld random cases it serves %lld, which are right, but %d are needed "
                         "to say something; the last that is declined: %.600s",
                         (long long)tally->tried, (long long)tally->passed, LEAST_SERVED,
                         tally->last_decline);
    if (report->verdict != CONFORMANCE_CHECK_PASSED)
        return;
    int used =
        snprintf(report->text, sizeof report->text,
                 "largest measured/bound %.3f (case %lld); %lld of %lld elements without a bound",
                 tally->largest_ratio, (long long)tally->largest_index, (long long)tally->unbounded,
                 (long long)tally->elements);
    if (few > 0)
        snprintf(report->text + used, sizeof report->text - (size_t)used,
                 "; of %lld kinds, such as %s, fewer than %d cases are served: too few to say much",
                 (long long)few, few_name, LEAST_OF_EACH);
}

static void try_all(const conformance_session *session, const conformance_subject *subject,
                    conformance_report *report)
{
    static conformance_gemm_tally tally;
    static forms all;
    tally.session = session;
    tally.device = session->device;
    tally.seed = subject->seed;
    find_forms(session, &all);
    bool done = try_first(&tally, subject->cases);
    int64_t before = -1;
    for (int64_t wanted = LEAST_OF_EACH; done && tally.failed == 0 && tally.passed > before;
         wanted *= 2) {
        before = tally.passed;
        done = try_each(&tally, &all, wanted);
        if (tally.passed >= LEAST_SERVED)
            break;
    }
    report->cases = tally.tried;
    report->declined = tally.declined;
    report->judged = tally.passed;
    report->vectors = tally.vectors;
    if (!done)
        conformance_fail(report, "no memory for a case");
    else if (tally.failed)
        conformance_fail(report, "%lld of %lld cases are wrong, first: %.900s",
                         (long long)tally.failed, (long long)tally.tried, tally.first_failure);
    else
        judge_counts(&tally, &all, report);
}

void conformance_op_gemm_correct(const conformance_subject *subject, conformance_report *report)
{
    conformance_session session;
    if (!conformance_session_open(subject, NULL, report, &session))
        return;
    if (conformance_session_offers(&session, KILN_GEMM))
        try_all(&session, subject, report);
    else
        conformance_skip(report, "the plugin does not offer " KILN_GEMM);
    conformance_session_close(&session);
}

/* All other checks are on the plugin's first device, where it has one. */
void conformance_op_gemm_on_host(const conformance_subject *subject, conformance_report *report)
{
    conformance_session session;
    if (!conformance_session_open(subject, NULL, report, &session))
        return;
    conformance_session there = session;
    there.device = kiln_device_at(session.runtime, 0);
    there.host = true;
    if (!conformance_session_offers(&session, KILN_GEMM))
        conformance_skip(report, "the plugin does not offer " KILN_GEMM);
    else if (session.host)
        conformance_skip(report, "it has no devices, so that all checks are on the host");
    else
        try_all(&there, subject, report);
    conformance_session_close(&session);
}
