/* SPDX-License-Identifier: Apache-2.0 */
/* What query answers: whole, within its bounds, and the same each time. */
#include "conformance/plugin/abi/abi.h"

#include <stdio.h>
#include <string.h>

#include "conformance/plugin/guard.h"
#include "conformance/plugin/served.h"

enum {
    KNOWN_ANSWER_FLAGS = KILN_ANSWER_REPRODUCIBLE | KILN_ANSWER_FLUSHES_DENORMALS,
    BEYOND = 64 /* bytes of an answer that this version does not know */
};

static void judge_text(const char *name, const char *text, size_t size, const char *field,
                       conformance_report *report)
{
    if (!memchr(text, '\0', size))
        conformance_fail(report, "%s: %s in the answer has no zero at its end", name, field);
}

/* An answer of status KILN_OK, to the question that `name` names. */
static void judge_answer(const char *name, const kiln_answer *answer, conformance_report *report)
{
    if (answer->support < KILN_SUPPORT_NO || answer->support > KILN_SUPPORT_NATIVE)
        conformance_fail(report, "%s: support is %d, which is not one of kiln_support", name,
                         answer->support);
    judge_text(name, answer->kernel, sizeof answer->kernel, "kernel", report);
    judge_text(name, answer->reason, sizeof answer->reason, "reason", report);
    if (answer->struct_size != sizeof *answer)
        conformance_fail(report, "%s: it changed the answer's struct_size to %llu", name,
                         (unsigned long long)answer->struct_size);
    if (answer->reserved)
        conformance_fail(report, "%s: the answer's reserved field is %u", name, answer->reserved);
    if (answer->support == KILN_SUPPORT_NO) {
        if (!answer->reason[0])
            conformance_fail(report, "%s: it declines without a reason", name);
        return;
    }
    if (answer->flags & ~(uint32_t)KNOWN_ANSWER_FLAGS)
        conformance_fail(report, "%s: the answer's flags are 0x%x, of which 0x%x are known", name,
                         answer->flags, KNOWN_ANSWER_FLAGS);
    if (!kiln_type_bits(answer->accumulator))
        conformance_fail(report, "%s: the answer's accumulator is %u, which is no type", name,
                         answer->accumulator);
    if (answer->workspace_bytes < 0 || answer->estimated_ns < 0)
        conformance_fail(report, "%s: workspace_bytes is %lld and estimated_ns %lld", name,
                         (long long)answer->workspace_bytes, (long long)answer->estimated_ns);
    int64_t alignment = answer->workspace_alignment;
    if (alignment < 0 || alignment > 64 || (alignment & (alignment - 1)))
        conformance_fail(report,
                         "%s: workspace_alignment is %lld; it is a power of two, at most 64", name,
                         (long long)alignment);
}

/* Puts one question with an answer of `size` bytes that ends where memory does. */
static kiln_status ask_guarded(const conformance_instance *instance,
                               const kiln_operator_table *table, kiln_device *device,
                               const kiln_op_head *descriptor, conformance_guard_pages *guard,
                               size_t size, kiln_answer **answer)
{
    *answer = conformance_guard_end(guard, size);
    memset(*answer, 0, size);
    (*answer)->struct_size = size;
    conformance_calling("query");
    kiln_status status = table->query(instance->instance, device, descriptor, *answer);
    conformance_calling(NULL);
    return status;
}

/* What a check of this file asks of every operator. */
typedef struct question {
    const conformance_instance *instance;
    const kiln_operator_table *table;
    const char *name;
    kiln_device *device;
    const kiln_op_head *descriptor;
    conformance_guard_pages *guard;
} question;

static void for_each_question(const conformance_subject *subject, conformance_report *report,
                              void (*visit)(const question *question, conformance_report *report))
{
    static conformance_served served[CONFORMANCE_SERVED];
    conformance_plugin plugin;
    conformance_instance instance;
    conformance_guard_pages guard;
    int64_t operators = 0;
    if (!conformance_load_and_open(&plugin, &instance, subject, report))
        return;
    bool guarded = conformance_guard_make(&guard, sizeof(kiln_answer) + BEYOND);
    for (int64_t i = 0; guarded && plugin.table.interfaces[i]; i++) {
        kiln_operator_table table;
        const kiln_op_head empty = {sizeof empty, 0};
        question asked = {
            &instance, &table, plugin.table.interfaces[i], conformance_device(&instance, -1),
            &empty,    &guard};
        if (!conformance_operator(&instance, asked.name, &table) || !table.query)
            continue;
        operators++;
        visit(&asked, report);
        if (conformance_device_count(&instance) > 0) {
            asked.device = conformance_device(&instance, 0);
            visit(&asked, report);
        }
        int64_t count = strcmp(asked.name, KILN_GEMM) == 0
                            ? conformance_find_served(&instance, &table, served)
                            : 0;
        for (int64_t j = 0; j < count; j++) {
            char name[96];
            snprintf(name, sizeof name, "%s, %s on %s", asked.name, served[j].name,
                     kiln_device_name(served[j].device));
            question yes = {&instance, &table, name, served[j].device, &served[j].desc.head,
                            &guard};
            visit(&yes, report);
        }
    }
    if (!guarded)
        conformance_fail(report, "the check has no memory");
    else if (operators == 0)
        conformance_skip(report, "it offers no operator");
    conformance_guard_free(&guard);
    conformance_close(&instance);
}

/* ---- The checks ---- */

static void visit_answer(const question *asked, conformance_report *report)
{
    kiln_answer *answer;
    int64_t errors = conformance_errors_set(asked->instance);
    kiln_status status = ask_guarded(asked->instance, asked->table, asked->device,
                                     asked->descriptor, asked->guard, sizeof *answer, &answer);
    report->cases++;
    if (status == KILN_OK)
        judge_answer(asked->name, answer, report);
    else if (status > 0)
        conformance_fail(report, "%s: query returns %d, which is no status", asked->name,
                         (int)status);
    else if (conformance_errors_set(asked->instance) == errors)
        conformance_fail(report, "%s: query returns %s without a sentence through host->set_error",
                         asked->name, kiln_status_name(status));
    report->declined += status != KILN_OK || answer->support == KILN_SUPPORT_NO;
}

void conformance_abi_query_answer(const conformance_subject *subject, conformance_report *report)
{
    for_each_question(subject, report, visit_answer);
}

/* The answer of a caller that knows more: what lies beyond what the plugin knows is not its own. */
static void visit_size(const question *asked, conformance_report *report)
{
    kiln_answer *answer;
    report->cases++;
    ask_guarded(asked->instance, asked->table, asked->device, asked->descriptor, asked->guard,
                sizeof *answer, &answer);
    if (!conformance_guard_whole(asked->guard, sizeof *answer))
        conformance_fail(report, "%s: query writes before the answer", asked->name);
    kiln_answer plain = *answer;
    ask_guarded(asked->instance, asked->table, asked->device, asked->descriptor, asked->guard,
                sizeof *answer + BEYOND, &answer);
    const unsigned char *beyond = (const unsigned char *)(answer + 1);
    for (int i = 0; i < BEYOND; i++)
        if (beyond[i] && asked->instance->plugin->table.abi_minor <= KILN_PLUGIN_ABI_MINOR)
            conformance_fail(report, "%s: query writes beyond the answer that it knows",
                             asked->name);
    if (answer->support != plain.support)
        conformance_fail(report, "%s: support is %d for an answer of %zu bytes and %d for %zu",
                         asked->name, plain.support, sizeof *answer, answer->support,
                         sizeof *answer + BEYOND);
}

void conformance_abi_query_answer_size(const conformance_subject *subject,
                                       conformance_report *report)
{
    for_each_question(subject, report, visit_size);
}

/* The same question gets the same answer, and is not written to. */
static void visit_stable(const question *asked, conformance_report *report)
{
    conformance_guard_pages descriptor;
    kiln_answer first, again;
    size_t size = asked->descriptor->struct_size;
    report->cases++;
    if (!conformance_guard_make(&descriptor, size))
        return;
    kiln_op_head *copy = conformance_guard_end(&descriptor, size);
    memcpy(copy, asked->descriptor, size);
    conformance_guard_read_only(&descriptor);
    kiln_status status =
        conformance_query(asked->instance, asked->table, asked->device, copy, &first);
    for (int i = 0; i < 3; i++) {
        kiln_status next =
            conformance_query(asked->instance, asked->table, asked->device, copy, &again);
        if (next != status || again.support != first.support || again.flags != first.flags ||
            again.accumulator != first.accumulator ||
            again.workspace_bytes != first.workspace_bytes ||
            memcmp(again.kernel, first.kernel, sizeof again.kernel) != 0)
            conformance_fail(report, "%s: the same question gets another answer the second time",
                             asked->name);
    }
    conformance_guard_free(&descriptor);
}

void conformance_abi_query_stable(const conformance_subject *subject, conformance_report *report)
{
    for_each_question(subject, report, visit_stable);
}
