/* SPDX-License-Identifier: Apache-2.0 */
/* Random cases, made simpler until a backend serves them. */
#include "conformance/plugin/op/gemm_near.h"

#include <stdio.h>
#include <stdlib.h>

#include "conformance/gemm/case.h"
#include "conformance/gemm/numeric.h"

/* ---- One respect after the other ---- */

static void ease_epilogues(conformance_gemm_case *test, const conformance_gemm_wish *wish)
{
    kiln_gemm_desc *desc = &test->desc;
    bool quantized = conformance_gemm_occurs(desc, KILN_EPILOGUE_QUANTIZE);
    memset(desc->epilogues, 0, sizeof desc->epilogues);
    memset(&desc->d_quantization, 0, sizeof desc->d_quantization);
    desc->epilogue_count = wish->epilogue != KILN_EPILOGUE_NONE;
    desc->epilogues[0].kind = wish->epilogue;
    if (quantized)
        desc->d_type = wish->form->d;
    if (wish->epilogue == KILN_EPILOGUE_QUANTIZE) {
        desc->d_type = wish->d_type;
        desc->d_quantization.scale_type = KILN_F32;
        desc->d_quantization.block[0] = 1;
        desc->d_quantization.block[1] = 128;
    }
    if (wish->epilogue == KILN_EPILOGUE_BIAS_GRADIENT) {
        desc->epilogues[0].operand = KILN_OPERAND_ROW;
        desc->epilogues[0].type = desc->a_type == KILN_F64 ? KILN_F64 : KILN_F32;
    }
    test->d_columns = test->n;
}

static void ease_layout(kiln_gemm_desc *desc, const conformance_plain_types *form)
{
    kiln_quantization *quantizations[] = {&desc->a_quantization, &desc->b_quantization};
    static const uint32_t flags[] = {KILN_GEMM_TRANSPOSE_A, KILN_GEMM_TRANSPOSE_B};
    for (int i = 0; i < 2; i++) {
        if (((desc->head.flags ^ form->transposes) & flags[i]) == 0)
            continue;
        int32_t rows = quantizations[i]->block[0];
        desc->head.flags ^= flags[i];
        quantizations[i]->block[0] = quantizations[i]->block[1];
        quantizations[i]->block[1] = rows;
    }
}

static void ease_blocks(kiln_gemm_desc *desc, const conformance_plain_types *form)
{
    conformance_gemm_spec spec = conformance_gemm_plain(form, 1, 1, 1);
    spec.desc.head.flags = desc->head.flags;
    spec.desc = conformance_gemm_settled(&spec);
    desc->a_quantization = spec.desc.a_quantization;
    desc->b_quantization = spec.desc.b_quantization;
}

/* So that sums fall within D's range where it is narrow; random cases have fitted alpha to another
 * type. */
static void ease_output(conformance_gemm_case *test, const conformance_plain_types *form)
{
    kiln_gemm_desc *desc = &test->desc;
    if (conformance_gemm_occurs(desc, KILN_EPILOGUE_QUANTIZE) || desc->d_type == form->d)
        return;
    desc->d_type = form->d;
    test->spread = 1;
    if (test->alpha != 0 && conformance_type_largest(form->d) < 1e6)
        test->alpha = conformance_type_is_integer(form->a) || conformance_type_is_integer(form->b)
                          ? 0x1p-12
                          : 1;
}

static int64_t ease_size(uint64_t *random, int64_t size, int64_t wished, int64_t unit)
{
    if (wished > 0)
        size = wished;
    else if (unit > 1)
        size = unit * (1 + conformance_random_below(random, 2));
    else
        size = size > 0 ? size : 1;
    return (size + unit - 1) / unit * unit;
}

static void ease_sizes(uint64_t *random, conformance_gemm_case *test,
                       const conformance_gemm_wish *wish)
{
    /* Rows of whole promises, also of types of 4 bits; A may have M as its rows. */
    int64_t promised = wish->form->alignment > 0 ? 2 * (int64_t)wish->form->alignment : 1,
            unit = wish->form->unit > promised ? wish->form->unit : promised,
            unit_m = wish->form->unit_m;
    if ((test->desc.head.flags & KILN_GEMM_TRANSPOSE_A) && unit_m < promised)
        unit_m = promised;
    test->m = ease_size(random, test->m, wish->m, unit_m);
    test->k = ease_size(random, test->k, wish->k, unit);
    /* Pairs of swiglu that came with the case are left as they are. */
    if (!conformance_gemm_occurs(&test->desc, KILN_EPILOGUE_SWIGLU) ||
        wish->epilogue == KILN_EPILOGUE_SWIGLU)
        test->n = ease_size(random, test->n, wish->n, unit);
    if (wish->epilogue == KILN_EPILOGUE_SWIGLU)
        test->n += test->n % 2;
    test->d_columns =
        conformance_gemm_occurs(&test->desc, KILN_EPILOGUE_SWIGLU) ? test->n / 2 : test->n;
}

/* Maxima that are none, or still enough. */
static void settle_maxima(conformance_gemm_case *test)
{
    kiln_gemm_desc *desc = &test->desc;
    static const uint32_t flags[] = {KILN_GEMM_DYNAMIC_M, KILN_GEMM_DYNAMIC_N, KILN_GEMM_DYNAMIC_K,
                                     KILN_GEMM_DYNAMIC_BATCH};
    int64_t *maxima[] = {&desc->m, &desc->n, &desc->k, &desc->batch};
    const int64_t sizes[] = {test->m, test->n, test->k, test->batch};
    const bool whole[] = {desc->head.flags & KILN_GEMM_PACKED_A,
                          desc->head.flags & KILN_GEMM_PACKED_B,
                          desc->head.flags & (KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B), false};
    for (int i = 0; i < 4; i++)
        if (!(desc->head.flags & flags[i]) || whole[i] || *maxima[i] < sizes[i])
            *maxima[i] = sizes[i];
}

static void ease(uint64_t *random, conformance_gemm_case *test, const conformance_gemm_wish *wish)
{
    kiln_gemm_desc *desc = &test->desc;
    const conformance_plain_types *form = wish->form;
    const uint32_t dynamic =
        KILN_GEMM_DYNAMIC_M | KILN_GEMM_DYNAMIC_N | KILN_GEMM_DYNAMIC_K | KILN_GEMM_DYNAMIC_BATCH;
    if (wish->ease & CONFORMANCE_EASE_EPILOGUES)
        ease_epilogues(test, wish);
    if (wish->ease & CONFORMANCE_EASE_OPTIONS)
        desc->head.flags &=
            ~(uint32_t)(KILN_GEMM_SATURATE | KILN_GEMM_PACKED_A | KILN_GEMM_PACKED_B);
    if (wish->ease & CONFORMANCE_EASE_FIXED)
        desc->head.flags &= ~dynamic;
    if (wish->ease & CONFORMANCE_EASE_PRECISION) {
        /* Half of them are for the other kernel. */
        desc->precision = form->fast_too && conformance_random_one_in(random, 2)
                              ? (uint32_t)KILN_PRECISION_FAST
                              : form->precision;
        desc->max_rel_error = 0;
    }
    if (wish->ease & CONFORMANCE_EASE_LAYOUT)
        ease_layout(desc, form);
    if (wish->ease & CONFORMANCE_EASE_BLOCKS)
        ease_blocks(desc, form);
    if (wish->ease & CONFORMANCE_EASE_OUTPUT)
        ease_output(test, form);
    if (wish->ease & CONFORMANCE_EASE_C) {
        desc->c_type = KILN_TYPE_NONE;
        test->beta = 0;
    }
    if (wish->ease & CONFORMANCE_EASE_PLACES)
        test->features &= ~(uint32_t)CONFORMANCE_GEMM_GAPS;
    if (wish->ease & CONFORMANCE_EASE_BATCH) {
        test->batch = wish->batch > 0 && desc->grouping == KILN_GROUPING_NONE ? wish->batch : 1;
        if (desc->grouping != KILN_GROUPING_NONE)
            desc->groups = 3;
        desc->group_alignment = form->group_alignment;
    }
    if (wish->ease & CONFORMANCE_EASE_SIZES)
        ease_sizes(random, test, wish);
    if (wish->ease & CONFORMANCE_EASE_VALUES) {
        test->features &= ~(uint32_t)(CONFORMANCE_GEMM_SPECIALS | CONFORMANCE_GEMM_DENORMALS |
                                      CONFORMANCE_GEMM_EXTREME);
        if (kiln_gemm_factor(desc, test->alpha) == 0)
            test->alpha = 1;
    }
    test->aliased = test->aliased && desc->c_type == desc->d_type &&
                    !conformance_gemm_occurs(desc, KILN_EPILOGUE_SWIGLU);
    if (test->batch == 0 && !(desc->head.flags & KILN_GEMM_DYNAMIC_BATCH))
        test->batch = 1;
    settle_maxima(test);
}

/* ---- Cases ---- */

/* What the plugin says when every address is as good as can be: only then are tensors made. */
static bool is_served(const conformance_session *session, const kiln_gemm_desc *chosen,
                      char reason[256])
{
    kiln_gemm_desc desc = *chosen;
    desc.a_alignment = desc.b_alignment = desc.d_alignment = 64;
    if (desc.c_type != KILN_TYPE_NONE)
        desc.c_alignment = 64;
    for (uint32_t i = 0; i < desc.epilogue_count; i++)
        if (desc.epilogues[i].operand != KILN_OPERAND_NONE)
            desc.epilogues[i].alignment = 64;
    kiln_candidate candidate = conformance_gemm_ask(session, &desc);
    snprintf(reason, 256, "%s", candidate.reason[0] ? candidate.reason : "no reason is given");
    return candidate.support != KILN_SUPPORT_NO;
}

conformance_gemm_case *conformance_gemm_near(const conformance_session *session, uint64_t seed,
                                             int64_t index, const conformance_gemm_wish *wish,
                                             char reason[256])
{
    conformance_gemm_case chosen = {.seed = seed, .index = index};
    uint64_t random = conformance_case_random(seed, index);
    conformance_case_choose(&random, &chosen);
    if (wish->form)
        ease(&random, &chosen, wish);
    if (!is_served(session, &chosen.desc, reason))
        return NULL;
    reason[0] = '\0';
    conformance_gemm_case *test = malloc(sizeof *test);
    if (!test)
        return NULL;
    *test = chosen;
    if (!conformance_case_make_tensors(&random, test)) {
        conformance_gemm_case_free(test);
        return NULL;
    }
    conformance_case_fill(&random, test);
    return test;
}

int64_t conformance_gemm_index(int64_t first, int type, uint32_t grouping)
{
    while (first % CONFORMANCE_GEMM_TYPES != type ||
           first / CONFORMANCE_GEMM_LAYOUTS % CONFORMANCE_GEMM_GROUPINGS != (int64_t)grouping)
        first++;
    return first;
}

/* ---- Many of them ---- */

static void note(char *text, size_t size, const conformance_gemm_case *test, const char *what)
{
    char line[400];
    conformance_gemm_case_describe(test, line, sizeof line);
    snprintf(text, size, "%.399s: %.560s", line, what);
}

conformance_outcome conformance_gemm_tally_case(conformance_gemm_tally *tally,
                                                conformance_gemm_case *test)
{
    conformance_gemm_result result;
    tally->vectors += conformance_gemm_case_hash(test);
    tally->tried++;
    conformance_gemm_execute_on(tally->session->runtime, tally->device, tally->session->name, test,
                                &result);
    if (result.outcome == CONFORMANCE_PASSED)
        conformance_gemm_judge(test, &result);
    if (result.outcome == CONFORMANCE_PASSED) {
        tally->passed++;
        tally->served[test->type][test->desc.grouping]++;
        tally->elements += result.elements;
        tally->unbounded += result.unbounded;
        if (result.largest_ratio > tally->largest_ratio) {
            tally->largest_ratio = result.largest_ratio;
            tally->largest_index = test->index;
        }
    } else if (result.outcome == CONFORMANCE_DECLINED) {
        tally->declined++;
        note(tally->last_decline, sizeof tally->last_decline, test, result.text);
    } else if (tally->failed++ == 0) {
        note(tally->first_failure, sizeof tally->first_failure, test, result.text);
    }
    conformance_gemm_case_free(test);
    return result.outcome;
}

/* Each respect with a chance of `chance` in 4. */
static uint32_t draw_ease(uint64_t *random, int64_t chance)
{
    uint32_t drawn = 0;
    for (uint32_t bit = 1; bit < CONFORMANCE_EASE_ALL; bit *= 2)
        drawn |= conformance_random_below(random, 4) < chance ? bit : 0;
    return drawn;
}

bool conformance_gemm_tally_until(conformance_gemm_tally *tally, int type, uint32_t grouping,
                                  const conformance_plain_types *form, int64_t wanted)
{
    enum { EACH = 24, LONG_SEARCH = 2000 };
    int64_t *served = &tally->served[type][grouping], *next = &tally->next[type][grouping];
    uint64_t random = tally->seed + (uint64_t)type * CONFORMANCE_GEMM_GROUPINGS + grouping;
    char reason[256];
    for (int64_t i = 0; *served < wanted && tally->failed == 0; i++) {
        bool rare = *served > 0 && type < CONFORMANCE_GEMM_TYPES - 1; /* the last is any */
        int64_t limit = form ? 6 * EACH + 2 * wanted : rare ? LONG_SEARCH : EACH;
        if (i >= limit)
            break;
        conformance_gemm_wish wish = {.form = form,
                                      .ease = form ? draw_ease(&random, i / EACH) : 0};
        int64_t index = conformance_gemm_index(*next, type, grouping);
        *next = index + 1;
        conformance_gemm_case *test =
            conformance_gemm_near(tally->session, tally->seed, index, &wish, reason);
        if (test) {
            conformance_gemm_tally_case(tally, test);
        } else if (reason[0] == '\0') {
            return false;
        } else {
            tally->tried++;
            tally->declined++;
            snprintf(tally->last_decline, sizeof tally->last_decline, "%s x %s: %s",
                     form ? kiln_type_name(form->a) : "any", form ? kiln_type_name(form->b) : "any",
                     reason);
        }
    }
    return true;
}
