/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: records of calls. Any bytes, and whatever GEMMs can be read from them. */
#include "tests/fuzz/must.h"

#include "tools/kiln/recorded.h"

/* What is accepted can be computed with. */
static void check_gemm(const recorded_call *call)
{
    recorded_gemm gemm;
    char text[320] = "", words[64];
    if (!recorded_gemm_read(call, &gemm, text, sizeof text)) {
        must(text[0]);
        return;
    }
    const kiln_gemm_desc *actual = &gemm.actual, *planned = &gemm.planned;
    const uint32_t dynamic =
        KILN_GEMM_DYNAMIC_M | KILN_GEMM_DYNAMIC_N | KILN_GEMM_DYNAMIC_K | KILN_GEMM_DYNAMIC_BATCH;
    must(actual->m >= 0 && actual->m <= planned->m && actual->n >= 0 && actual->n <= planned->n);
    must(actual->k >= 0 && actual->k <= planned->k && actual->batch >= 0);
    must(actual->batch <= planned->batch && !(actual->head.flags & dynamic));
    must(actual->epilogue_count <= KILN_GEMM_MAX_EPILOGUES && kiln_type_bits(actual->a_type) > 0);
    must(actual->grouping == KILN_GROUPING_NONE || actual->groups > 0);
    recorded_gemm_words(actual, text, sizeof text);
    recorded_gemm_words(planned, words, sizeof words);
    must(memchr(text, 0, sizeof text) && memchr(words, 0, sizeof words));
}

static void check_call(const recorded_call *call)
{
    kiln_op_head head;
    memcpy(&head, call->descriptor, sizeof head);
    must(head.struct_size == call->descriptor_size && strchr(call->operator_name, '/'));
    must(call->runs >= 0 && call->size_count >= 0 && call->size_count <= RECORDED_MAXIMUM_SIZES);
    for (int64_t i = 0; i < call->size_count; i++)
        must(call->sizes[i].value >= 0);
    check_gemm(call);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    recorded_calls calls;
    if (size == 0) /* fmemopen refuses it */
        return 0;
    FILE *file = fmemopen((void *)(uintptr_t)bytes, size, "r");
    must(file);
    bool good = recorded_read_stream(file, "fuzz.jsonl", &calls);
    fclose(file);
    must(good == (calls.error_count == 0) && calls.count <= calls.lines);
    for (int64_t i = 0; i < calls.error_count && i < RECORDED_MAXIMUM_ERRORS; i++)
        must(strncmp(calls.errors[i], "fuzz.jsonl:", 11) == 0 &&
             !strpbrk(calls.errors[i], "\n\33"));
    for (int64_t i = 0; i < calls.count; i++) {
        must(i == 0 || calls.calls[i].line > calls.calls[i - 1].line);
        check_call(&calls.calls[i]);
    }
    recorded_free(&calls);
    return 0;
}
