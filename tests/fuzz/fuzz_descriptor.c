/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: descriptors of kiln.gemm/1, as `kiln explain descriptor=HEX` and replayed calls give
 * them. The input is laid over that of a plain GEMM, by exclusive or. A descriptor's canonical form
 * is its own; a backend that serves it makes a plan of it.
 * Plugin: plugins/ref */
#include "core/plan.h"
#include "tests/fuzz/plugins.h"

static const kiln_gemm_desc plain = {.head = {sizeof plain, 0},
                                     .m = 5,
                                     .n = 6,
                                     .k = 7,
                                     .batch = 1,
                                     .a_type = KILN_F32,
                                     .b_type = KILN_F32,
                                     .d_type = KILN_F32};

/* What has one form only is as it was asked for. */
static void check_kept(const kiln_gemm_desc *asked, const kiln_gemm_desc *made)
{
    must(made->m == asked->m && made->n == asked->n && made->k == asked->k);
    must(made->batch == (asked->batch ? asked->batch : 1) && made->groups == asked->groups);
    must(made->a_type == asked->a_type && made->b_type == asked->b_type);
    must(made->d_type == asked->d_type && made->epilogue_count == asked->epilogue_count);
    must(((made->head.flags ^ asked->head.flags) & (KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B |
                                                    KILN_GEMM_DYNAMIC_M | KILN_GEMM_SATURATE)) ==
         0);
    for (uint32_t i = 0; i < made->epilogue_count; i++)
        must(made->epilogues[i].kind == asked->epilogues[i].kind);
}

/* Two requests of one meaning have the same bytes. */
static void check_canonical(const kiln_op_head *descriptor)
{
    kiln_request once, twice;
    char text[128];
    if (kiln_request_make(open_runtime(), KILN_GEMM, descriptor, NULL, &once) != KILN_OK) {
        must(*kiln_last_error());
        return;
    }
    const kiln_op_head *canonical = (const kiln_op_head *)once.descriptor;
    must(once.descriptor_size == sizeof(kiln_gemm_desc) &&
         canonical->struct_size == sizeof(kiln_gemm_desc));
    kiln_gemm_desc asked;
    must(kiln_receive_descriptor(&asked, sizeof asked, descriptor) == KILN_OK);
    check_kept(&asked, (const kiln_gemm_desc *)once.descriptor);
    must(kiln_request_make(open_runtime(), KILN_GEMM, canonical, NULL, &twice) == KILN_OK);
    must(memcmp(once.descriptor, twice.descriptor, sizeof(kiln_gemm_desc)) == 0);
    once.known->describe(once.descriptor, text, sizeof text);
    must(*text && strlen(text) < sizeof text);
}

static void check_plan(const kiln_op_head *descriptor)
{
    kiln_candidate candidate;
    int64_t count = 0;
    kiln_status status =
        kiln_explain(open_runtime(), KILN_GEMM, descriptor, NULL, &candidate, 1, &count);
    if (status != KILN_OK)
        return;
    must(count == 1 && strcmp(candidate.backend, "ref") == 0);
    must(candidate.chosen == (candidate.support != KILN_SUPPORT_NO));
    must(candidate.chosen ? candidate.workspace_bytes >= 0 : *candidate.reason);
    kiln_plan *plan;
    status = kiln_plan_create(open_runtime(), KILN_GEMM, descriptor, NULL, &plan);
    must((status == KILN_OK) == (candidate.chosen != 0) || status == KILN_NO_MEMORY);
    if (status == KILN_OK)
        kiln_plan_release(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    _Alignas(8) uint8_t descriptor[KILN_MAX_DESCRIPTOR] = {0};
    size = size < sizeof descriptor ? size : sizeof descriptor;
    memcpy(descriptor, &plain, sizeof plain);
    for (size_t i = 0; i < size; i++)
        descriptor[i] ^= bytes[i];
    kiln_op_head *head = (kiln_op_head *)descriptor;
    if (head->struct_size > sizeof descriptor) /* there is no more memory */
        head->struct_size = sizeof descriptor;
    check_canonical(head);
    check_plan(head);
    return 0;
}
