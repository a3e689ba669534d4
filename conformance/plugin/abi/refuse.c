/* SPDX-License-Identifier: Apache-2.0 */
/* What query and plan must refuse: descriptors that say more than the plugin knows, that are too
 * short, or hold flags and numbers that nobody has given a meaning yet. */
#include "conformance/plugin/abi/abi.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/plugin/guard.h"
#include "conformance/plugin/served.h"

/* A descriptor has at most so many bytes, whoever defines it: what lies beyond means nothing to
 * anybody. */
enum { LONGEST = 1024, BEYOND = 64 };

typedef struct refusal {
    const conformance_instance *instance;
    const kiln_operator_table *table;
    const char *interface;
    kiln_device *device;
    conformance_guard_pages *guard; /* where descriptors stand: they end where memory does */
    conformance_report *report;
} refusal;

/* The descriptor's bytes, `size` of them, at the end of memory that can only be read. Its
 * struct_size is what the bytes say. */
static const kiln_op_head *place(const refusal *self, const void *bytes, size_t size)
{
    size_t aligned = (size + 7) / 8 * 8;
    unsigned char *at = conformance_guard_end(self->guard, aligned);
    memcpy(at, bytes, size);
    conformance_guard_read_only(self->guard);
    return (const kiln_op_head *)at;
}

/* What a plugin says of a descriptor: 1 yes, 0 no, -1 an error. */
static int ask(const refusal *self, const void *bytes, size_t size, kiln_answer *answer)
{
    int64_t errors = conformance_errors_set(self->instance);
    kiln_status status = conformance_query(self->instance, self->table, self->device,
                                           place(self, bytes, size), answer);
    if (status < 0 && conformance_errors_set(self->instance) == errors)
        conformance_fail(self->report,
                         "%s: query returns %s without a sentence through host->set_error",
                         self->interface, kiln_status_name(status));
    if (status == KILN_OK && answer->support == KILN_SUPPORT_NO && !answer->reason[0])
        conformance_fail(self->report, "%s: query declines without a reason", self->interface);
    return status < 0 ? -1 : answer->support > KILN_SUPPORT_NO;
}

/* `what` completes "accepts a descriptor …". */
static void demand_refusal(const refusal *self, const void *bytes, size_t size, const char *what)
{
    kiln_answer answer;
    self->report->cases++;
    if (ask(self, bytes, size, &answer) > 0)
        conformance_fail(self->report, "%s: query accepts a descriptor %s", self->interface, what);
}

/* The same where query may decline `plain` too, which lacks what is wrong: then it had some other
 * reason, nothing is shown, and the case counts as declined. */
static void demand_refusal_unlike(const refusal *self, const void *plain, size_t plain_size,
                                  const void *bytes, size_t size, const char *what)
{
    kiln_answer answer;
    self->report->declined += ask(self, plain, plain_size, &answer) <= 0;
    demand_refusal(self, bytes, size, what);
}

/* ---- Walking over operators and descriptors ---- */

/* Calls visit once per operator with served = NULL, and, for GEMM, once per descriptor that is
 * served. */
static void for_each(const conformance_subject *subject, conformance_report *report, bool operators,
                     void (*visit)(const refusal *self, const conformance_served *served))
{
    static conformance_served served[CONFORMANCE_SERVED];
    conformance_plugin plugin;
    conformance_instance instance;
    conformance_guard_pages guard;
    int64_t visited = 0;
    if (!conformance_load_and_open(&plugin, &instance, subject, report))
        return;
    if (!conformance_guard_make(&guard, LONGEST + BEYOND)) {
        conformance_fail(report, "the check has no memory");
        conformance_close(&instance);
        return;
    }
    for (int64_t i = 0; plugin.table.interfaces[i]; i++) {
        kiln_operator_table table;
        refusal self = {&instance, &table, plugin.table.interfaces[i], NULL, &guard, report};
        if (!conformance_operator(&instance, self.interface, &table) || !table.query)
            continue;
        for (int64_t device = -1; operators && device < 1; device++)
            if ((self.device = conformance_device(&instance, device))) {
                visit(&self, NULL);
                visited++;
            }
        int64_t count = !operators && strcmp(self.interface, KILN_GEMM) == 0
                            ? conformance_find_served(&instance, &table, served)
                            : 0;
        for (int64_t j = 0; j < count; j++) {
            self.device = served[j].device;
            visit(&self, &served[j]);
            visited++;
        }
    }
    if (visited == 0)
        conformance_skip(report, "%s",
                         operators ? "it offers no operator"
                                   : "it serves no descriptor of an operator that this kit knows");
    conformance_guard_free(&guard);
    conformance_close(&instance);
}

/* Both: the operators, whose own descriptors nobody else knows, and then what is served of GEMM. */
static void for_each_of_both(const conformance_subject *subject, conformance_report *report,
                             void (*visit)(const refusal *self, const conformance_served *served))
{
    conformance_report served = {0};
    for_each(subject, report, true, visit);
    if (report->verdict != CONFORMANCE_CHECK_PASSED)
        return;
    for_each(subject, &served, false, visit);
    report->cases += served.cases;
    report->declined += served.declined;
    if (served.verdict == CONFORMANCE_CHECK_FAILED)
        conformance_fail(report, "%s", served.text);
    else if (report->cases == report->declined)
        conformance_skip(report, "it declines the descriptor of zeros and serves no other that "
                                 "this kit knows");
}

/* ---- Sizes ---- */

/* Zeros beyond what is known say nothing; anything else must be refused, wherever it stands. */
static void visit_longer(const refusal *self, const conformance_served *served)
{
    unsigned char bytes[LONGEST] = {0};
    const size_t known = sizeof served->desc;
    static const size_t sizes[] = {8, 9, 64, LONGEST - sizeof served->desc};
    kiln_answer answer;
    memcpy(bytes, &served->desc, known);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t size = (uint32_t)(known + sizes[i]);
        memcpy(bytes, &size, sizeof size);
        self->report->cases++;
        if (ask(self, bytes, size, &answer) <= 0)
            conformance_fail(self->report,
                             "%s: query accepts a descriptor of %zu bytes, but not the same one "
                             "with %zu zeros behind it",
                             self->interface, known, sizes[i]);
    }
}

void conformance_abi_query_longer(const conformance_subject *subject, conformance_report *report)
{
    for_each(subject, report, false, visit_longer);
}

/* A descriptor of zeros that is longer than any can be: of a vendor's own operator only the head is
 * known. */
typedef struct too_long {
    kiln_op_head head;
    unsigned char bytes[LONGEST + BEYOND - sizeof(kiln_op_head)];
} too_long;

static too_long make_too_long(unsigned char last)
{
    too_long made = {{sizeof made, 0}, {0}};
    made.bytes[sizeof made.bytes - 1] = last;
    return made;
}

static void visit_tail(const refusal *self, const conformance_served *served)
{
    unsigned char bytes[LONGEST] = {0};
    uint32_t size = LONGEST;
    char what[96];
    if (!served) {
        too_long zeros = make_too_long(0), wrong = make_too_long(1);
        demand_refusal_unlike(self, &zeros, sizeof zeros, &wrong, sizeof wrong,
                              "that is longer than any may be, and whose last byte is not zero");
        return;
    }
    const size_t known = sizeof served->desc;
    const size_t places[] = {known, known + 7, known + 8, LONGEST - 1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        for (int whole = 0; whole < 2; whole++) {
            size = (uint32_t)(whole ? LONGEST : places[i] + 1);
            memset(bytes, 0, sizeof bytes);
            memcpy(bytes, &served->desc, known);
            memcpy(bytes, &size, sizeof size);
            bytes[places[i]] = 0x80;
            snprintf(what, sizeof what, "of %u bytes whose byte %zu, beyond %zu, is not zero", size,
                     places[i], known);
            demand_refusal(self, bytes, size, what);
        }
}

void conformance_abi_query_tail(const conformance_subject *subject, conformance_report *report)
{
    for_each_of_both(subject, report, visit_tail);
}

/* Bytes of a descriptor without the zeros at its end. */
static size_t used_bytes(const kiln_gemm_desc *desc)
{
    size_t used = sizeof *desc;
    while (used > sizeof desc->head && ((const unsigned char *)desc)[used - 1] == 0)
        used--;
    return (used + 7) / 8 * 8;
}

/* What is missing at the end counts as zero, and is not read. */
static void visit_shorter(const refusal *self, const conformance_served *served)
{
    const size_t known = sizeof served->desc;
    kiln_gemm_desc desc = served->desc;
    kiln_answer plain, answer;
    const size_t sizes[] = {used_bytes(&desc), offsetof(kiln_gemm_desc, epilogues),
                            offsetof(kiln_gemm_desc, grouping), sizeof desc.head};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        desc = served->desc;
        memset((unsigned char *)&desc + sizes[i], 0, known - sizes[i]);
        int whole = ask(self, &desc, known, &plain);
        desc.head.struct_size = (uint32_t)sizes[i];
        int cut = ask(self, &desc, sizes[i], &answer);
        self->report->cases++;
        self->report->declined += whole <= 0 && cut <= 0;
        if ((whole > 0) != (cut > 0))
            conformance_fail(
                self->report,
                "%s: query says %s to a descriptor of %zu bytes and %s to the same one "
                "without its zeros, %zu bytes",
                self->interface, whole > 0 ? "yes" : "no", known, cut > 0 ? "yes" : "no", sizes[i]);
    }
}

void conformance_abi_query_shorter(const conformance_subject *subject, conformance_report *report)
{
    for_each(subject, report, false, visit_shorter);
}

/* A descriptor that is shorter than its own head. */
static void visit_headless(const refusal *self, const conformance_served *served)
{
    (void)served;
    for (uint32_t size = 0; size < sizeof(kiln_op_head); size++) {
        char what[64];
        conformance_guard_pages *guard = self->guard;
        kiln_answer answer;
        /* Of a struct that says it has fewer bytes than its size field, that field still exists. */
        size_t bytes = size <= 4 ? 4 : 8;
        uint32_t *at = conformance_guard_end(guard, bytes);
        memset(at, 0xff, bytes);
        *at = size;
        conformance_guard_read_only(guard);
        snprintf(what, sizeof what, "whose struct_size is %u", size);
        self->report->cases++;
        if (conformance_query(self->instance, self->table, self->device, (kiln_op_head *)at,
                              &answer) == KILN_OK &&
            answer.support > KILN_SUPPORT_NO)
            conformance_fail(self->report, "%s: query accepts a descriptor %s", self->interface,
                             what);
    }
}

void conformance_abi_query_headless(const conformance_subject *subject, conformance_report *report)
{
    for_each(subject, report, true, visit_headless);
}

/* ---- Flags and numbers ---- */

enum {
    GEMM_FLAGS = KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B | KILN_GEMM_PACKED_A |
                 KILN_GEMM_PACKED_B | KILN_GEMM_DYNAMIC_M | KILN_GEMM_DYNAMIC_N |
                 KILN_GEMM_DYNAMIC_K | KILN_GEMM_DYNAMIC_BATCH | KILN_GEMM_SATURATE
};

static void visit_flags(const refusal *self, const conformance_served *served)
{
    const kiln_op_head none = {sizeof none, 0}, all = {sizeof all, UINT32_MAX};
    if (!served) {
        demand_refusal_unlike(self, &none, sizeof none, &all, sizeof all,
                              "with all 32 flags, of which some mean nothing");
        return;
    }
    for (int bit = 0; bit < 32; bit++) {
        kiln_gemm_desc desc = served->desc;
        char what[64];
        if (1u << bit & GEMM_FLAGS)
            continue;
        desc.head.flags |= 1u << bit;
        snprintf(what, sizeof what, "with the flag 0x%x, which means nothing yet", 1u << bit);
        demand_refusal(self, &desc, sizeof desc, what);
    }
}

void conformance_abi_query_flags(const conformance_subject *subject, conformance_report *report)
{
    for_each_of_both(subject, report, visit_flags);
}

/* A field of a descriptor that holds a number with a meaning. */
typedef struct numbered {
    const char *name;
    size_t offset;
    uint32_t unknown; /* the first number without meaning */
} numbered;

#define FIELD(name, unknown)                           \
    {                                                  \
#name, offsetof(kiln_gemm_desc, name), unknown \
    }

static const numbered gemm_numbers[] = {
    FIELD(a_type, KILN_TYPE_COUNT),
    FIELD(b_type, KILN_TYPE_COUNT),
    FIELD(c_type, KILN_TYPE_COUNT),
    FIELD(d_type, KILN_TYPE_COUNT),
    FIELD(accumulator, KILN_TYPE_COUNT),
    FIELD(precision, KILN_PRECISION_AUTO + 1),
    FIELD(grouping, KILN_GROUPING_K + 1),
    FIELD(a_quantization.scale_type, KILN_TYPE_COUNT),
    FIELD(b_quantization.scale_type, KILN_TYPE_COUNT),
    FIELD(d_quantization.scale_type, KILN_TYPE_COUNT),
    FIELD(a_quantization.zero_type, KILN_TYPE_COUNT),
    FIELD(b_quantization.zero_type, KILN_TYPE_COUNT),
    FIELD(d_quantization.zero_type, KILN_TYPE_COUNT),
    FIELD(epilogue_count, KILN_GEMM_MAX_EPILOGUES + 1),
};

static void try_numbers(const refusal *self, const kiln_gemm_desc *base, const numbered *field)
{
    const uint32_t values[] = {field->unknown, field->unknown + 100, 0x7fffffff, UINT32_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        kiln_gemm_desc desc = *base;
        char what[96];
        memcpy((char *)&desc + field->offset, &values[i], sizeof values[i]);
        snprintf(what, sizeof what, "with %s = %u, which means nothing", field->name, values[i]);
        demand_refusal_unlike(self, base, sizeof *base, &desc, sizeof desc, what);
    }
}

static void visit_enums(const refusal *self, const conformance_served *served)
{
    static const numbered epilogue_numbers[] = {
        FIELD(epilogues[0].kind, KILN_EPILOGUE_BIAS_GRADIENT + 1),
        FIELD(epilogues[0].operand, KILN_OPERAND_MATRIX + 1),
        FIELD(epilogues[0].type, KILN_TYPE_COUNT),
    };
    for (size_t i = 0; i < sizeof gemm_numbers / sizeof gemm_numbers[0]; i++)
        try_numbers(self, &served->desc, &gemm_numbers[i]);
    kiln_gemm_desc desc = served->desc;
    desc.epilogue_count = 1;
    desc.epilogues[0] = (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS,
                                        .operand = KILN_OPERAND_ROW,
                                        .type = desc.a_type == KILN_F64 ? KILN_F64 : KILN_F32};
    for (size_t i = 0; i < sizeof epilogue_numbers / sizeof epilogue_numbers[0]; i++)
        try_numbers(self, &desc, &epilogue_numbers[i]);
}

void conformance_abi_query_enums(const conformance_subject *subject, conformance_report *report)
{
    for_each(subject, report, false, visit_enums);
}

/* ---- Plans ---- */

static kiln_status make_plan(const refusal *self, const kiln_op_head *descriptor, void **plan)
{
    kiln_plan_request request = {
        .struct_size = sizeof request, .device = self->device, .descriptor = descriptor};
    self->report->cases++;
    return conformance_make_plan(self->instance, self->table, &request, plan);
}

/* As it is, twice, without the zeros at its end, and with more of them: plan reads a descriptor as
 * query does. */
static void visit_plan(const refusal *self, const conformance_served *served)
{
    const size_t known = sizeof served->desc;
    const size_t sizes[] = {known, known, used_bytes(&served->desc), known + BEYOND};
    static const char *const forms[] = {"", "", " without the zeros at its end",
                                        " with more zeros at its end"};
    void *plans[4] = {NULL, NULL, NULL, NULL};
    bool made[4] = {false, false, false, false};
    if (!self->table->plan || !self->table->free)
        return;
    for (int i = 0; i < 4; i++) {
        unsigned char bytes[LONGEST] = {0};
        kiln_answer answer;
        uint32_t size = (uint32_t)sizes[i];
        memcpy(bytes, &served->desc, known);
        memcpy(bytes, &size, sizeof size);
        if (ask(self, bytes, size, &answer) <= 0)
            continue; /* abi.query-shorter and abi.query-longer say so */
        kiln_status status = make_plan(self, place(self, bytes, size), &plans[i]);
        made[i] = status == KILN_OK;
        if (!made[i])
            conformance_fail(self->report, "%s: query accepts %s%s on %s, but plan returns %s: %s",
                             self->interface, served->name, forms[i],
                             kiln_device_name(served->device), kiln_status_name(status),
                             kiln_last_error());
    }
    for (int i = 0; i < 4; i++)
        if (made[i])
            CONFORMANCE_CALL_VOID("free", self->table->free(plans[i]));
}

void conformance_abi_plan(const conformance_subject *subject, conformance_report *report)
{
    for_each(subject, report, false, visit_plan);
}

/* A caller may plan without having asked. What query accepts, though it is wrong, the checks of
 * query speak of. */
static void demand_no_plan(const refusal *self, const void *bytes, size_t size, const char *what)
{
    kiln_answer answer;
    void *plan = NULL;
    if (ask(self, bytes, size, &answer) > 0)
        return;
    int64_t errors = conformance_errors_set(self->instance);
    kiln_status status = make_plan(self, place(self, bytes, size), &plan);
    if (status == KILN_OK) {
        conformance_fail(self->report,
                         "%s: plan accepts a descriptor %s, which query declines (%s)",
                         self->interface, what, answer.reason);
        CONFORMANCE_CALL_VOID("free", self->table->free(plan));
    } else if (conformance_errors_set(self->instance) == errors) {
        conformance_fail(self->report,
                         "%s: plan returns %s without a sentence through host->set_error",
                         self->interface, kiln_status_name(status));
    }
}

static void visit_plan_refuses(const refusal *self, const conformance_served *served)
{
    const kiln_op_head all = {sizeof all, UINT32_MAX};
    if (!self->table->plan || !self->table->free)
        return;
    if (!served) {
        too_long wrong = make_too_long(1);
        demand_no_plan(self, &wrong, sizeof wrong,
                       "that is longer than any may be, and whose last byte is not zero");
        demand_no_plan(self, &all, sizeof all, "with all 32 flags, of which some mean nothing");
        return;
    }
    kiln_gemm_desc wrong[4];
    static const char *const what[] = {"with a_type beyond the last", "with the flag 0x80000000",
                                       "with precision beyond the last",
                                       "with an epilogue beyond the last"};
    for (int i = 0; i < 4; i++)
        wrong[i] = served->desc;
    wrong[0].a_type = KILN_TYPE_COUNT;
    wrong[1].head.flags |= 1u << 31;
    wrong[2].precision = KILN_PRECISION_AUTO + 1;
    wrong[3].epilogue_count = 1;
    wrong[3].epilogues[0].kind = KILN_EPILOGUE_BIAS_GRADIENT + 1;
    for (int i = 0; i < 4; i++)
        demand_no_plan(self, &wrong[i], sizeof wrong[i], what[i]);
    struct {
        kiln_gemm_desc desc;
        unsigned char beyond[BEYOND];
    } longer = {served->desc, {0}};
    longer.desc.head.struct_size = sizeof longer;
    longer.beyond[BEYOND - 1] = 1;
    demand_no_plan(self, &longer, sizeof longer, "that says something beyond what is known");
}

void conformance_abi_plan_refuses(const conformance_subject *subject, conformance_report *report)
{
    for_each_of_both(subject, report, visit_plan_refuses);
}

/* A plan request that says something beyond what the plugin knows. */
static void visit_plan_request(const refusal *self, const conformance_served *served)
{
    struct {
        kiln_plan_request request;
        unsigned char beyond[16];
    } longer = {{.struct_size = sizeof longer, .device = self->device}, {0}};
    if (!self->table->plan || !self->table->free)
        return;
    for (int wrong = 0; wrong < 2; wrong++) {
        void *plan = NULL;
        longer.beyond[15] = (unsigned char)wrong;
        longer.request.descriptor = place(self, &served->desc, sizeof served->desc);
        self->report->cases++;
        kiln_status status =
            conformance_make_plan(self->instance, self->table, &longer.request, &plan);
        if (status == KILN_OK)
            CONFORMANCE_CALL_VOID("free", self->table->free(plan));
        if (wrong && status != KILN_UNSUPPORTED)
            conformance_fail(self->report,
                             "%s: plan returns %s to a request that says something beyond what it "
                             "knows, not UNSUPPORTED",
                             self->interface, kiln_status_name(status));
        if (!wrong && status != KILN_OK)
            conformance_fail(self->report,
                             "%s: plan refuses a request with zeros beyond what it knows",
                             self->interface);
    }
}

void conformance_abi_plan_request(const conformance_subject *subject, conformance_report *report)
{
    for_each(subject, report, false, visit_plan_request);
}
