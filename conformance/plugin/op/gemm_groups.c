/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of kiln.gemm/1: groups, and groups that say more than was declared. */
#include <stdio.h>

#include "conformance/plugin/op/gemm_near.h"
#include "conformance/plugin/op/op.h"

enum {
    CASES = 120, /* as they come */
    OF_EACH = 4  /* of every kind of A and B and grouping that is served */
};

static bool begin(const conformance_subject *subject, conformance_report *report,
                  conformance_session *session, conformance_gemm_tally *tally)
{
    if (!conformance_session_open(subject, NULL, report, session))
        return false;
    tally->session = session;
    tally->device = session->device;
    tally->seed = subject->seed;
    if (conformance_session_offers(session, KILN_GEMM))
        return true;
    conformance_skip(report, "the plugin does not offer " KILN_GEMM);
    conformance_session_close(session);
    return false;
}

static void end(conformance_gemm_tally *tally, conformance_session *session, bool done,
                conformance_report *report)
{
    report->cases = tally->tried;
    report->declined = tally->declined;
    report->judged = tally->passed;
    report->vectors = tally->vectors;
    if (!done)
        conformance_fail(report, "no memory for a case");
    else if (tally->failed)
        conformance_fail(report, "%lld of %lld grouped cases are wrong, first: %.900s",
                         (long long)tally->failed, (long long)tally->tried, tally->first_failure);
    else if (tally->passed == 0)
        conformance_skip(report, "no groups are served; the last: %.800s", tally->last_decline);
    conformance_session_close(session);
}

/* Grouped cases as they come; `violate`: with groups beyond their limits. */
static bool try_first(conformance_gemm_tally *tally, bool violate)
{
    for (int64_t index = 0; tally->tried < CASES && index < 20 * CASES; index++) {
        if (index / CONFORMANCE_GEMM_LAYOUTS % CONFORMANCE_GEMM_GROUPINGS == KILN_GROUPING_NONE)
            continue;
        conformance_gemm_case *test = conformance_gemm_case_create(tally->seed, index);
        if (!test)
            return false;
        if (!violate || conformance_gemm_case_violate(test, (uint64_t)index))
            conformance_gemm_tally_case(tally, test);
        else
            conformance_gemm_case_free(test);
    }
    return true;
}

/* Calls a function for every kind of A and B and grouping that is served, with its form. */
static bool each_form(conformance_gemm_tally *tally,
                      bool (*function)(conformance_gemm_tally *tally, int type, uint32_t grouping,
                                       const conformance_plain_types *form))
{
    char reason[256];
    bool done = true;
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES - 1; type++)
        for (uint32_t grouping = KILN_GROUPING_CONTIGUOUS;
             done && tally->failed == 0 && grouping < CONFORMANCE_GEMM_GROUPINGS; grouping++) {
            conformance_plain_types form = conformance_plain_row(type);
            form.grouping = grouping;
            if (conformance_plain_find(tally->session, &form, reason))
                done = function(tally, type, grouping, &form);
        }
    return done;
}

static bool try_groups(conformance_gemm_tally *tally, int type, uint32_t grouping,
                       const conformance_plain_types *form)
{
    return conformance_gemm_tally_until(tally, type, grouping, form, OF_EACH);
}

void conformance_op_gemm_groups(const conformance_subject *subject, conformance_report *report)
{
    static conformance_gemm_tally tally;
    conformance_session session;
    if (begin(subject, report, &session, &tally))
        end(&tally, &session, try_first(&tally, false) && each_form(&tally, try_groups), report);
}

/* Each way of being beyond a limit, every other one on a stream. */
static bool try_violations(conformance_gemm_tally *tally, int type, uint32_t grouping,
                           const conformance_plain_types *form)
{
    const conformance_gemm_wish wish = {.form = form, .ease = CONFORMANCE_EASE_ALL};
    int64_t index = 0;
    char reason[256];
    for (uint64_t way = 0; way < OF_EACH; way++) {
        index = conformance_gemm_index(index, type, grouping) + 1;
        conformance_gemm_case *test =
            conformance_gemm_near(tally->session, tally->seed, index - 1, &wish, reason);
        if (!test && reason[0] == '\0')
            return false;
        if (test && way % 2)
            test->streamed = true;
        if (test && conformance_gemm_case_violate(test, way))
            conformance_gemm_tally_case(tally, test);
        else
            conformance_gemm_case_free(test);
    }
    return true;
}

void conformance_op_gemm_capacity(const conformance_subject *subject, conformance_report *report)
{
    static conformance_gemm_tally tally;
    conformance_session session;
    if (begin(subject, report, &session, &tally))
        end(&tally, &session, try_first(&tally, true) && each_form(&tally, try_violations), report);
}
