/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the cases of `kiln bench gemm`. */
#define _GNU_SOURCE /* strsep */
#include "tools/kiln/bench_case.h"

#include <stdio.h>
#include <string.h>

/* "bf16" where that says all, else "i8*u8->i32". */
static void name_types(const kiln_gemm_desc *desc, char *text, size_t size)
{
    bool plain =
        desc->d_type == desc->a_type || (desc->a_type == KILN_I8 && desc->d_type == KILN_I32);
    if (plain && desc->b_type == desc->a_type)
        snprintf(text, size, "%s", kiln_type_name(desc->a_type));
    else
        snprintf(text, size, "%s*%s->%s", kiln_type_name(desc->a_type),
                 kiln_type_name(desc->b_type), kiln_type_name(desc->d_type));
}

bool bench_case_finish(const bench_options *self, bench_case *one, gemm_problem *problem)
{
    kiln_gemm_desc *desc = &one->gemm.desc;
    if (desc->m < 1 || desc->n < 1 || desc->k < 1 || desc->batch < 0) {
        snprintf(problem->text, sizeof problem->text,
                 "%s: m, n and k must be at least 1 to be measured", one->shape);
        return false;
    }
    if (self->packed) {
        desc->head.flags |= KILN_GEMM_PACKED_B;
        one->planned.head.flags |= KILN_GEMM_PACKED_B;
    }
    one->gemm.seed = (uint64_t)self->seed;
    bench_message message;
    if (!bench_gemm_countable(&one->gemm, &message)) {
        snprintf(problem->text, sizeof problem->text, "%.100s: %.200s", one->shape, message.text);
        return false;
    }
    name_types(desc, one->dtype, sizeof one->dtype);
    return true;
}

bool bench_case_read(const bench_options *self, const char *text, bench_case *one,
                     gemm_problem *problem)
{
    gemm_words words = {.seen = 0};
    char copy[2560], *rest = copy;
    memset(one, 0, sizeof *one);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strsep(&rest, " "); word; word = strsep(&rest, " ")) {
        if (!gemm_words_read(&words, word, problem))
            return false;
        size_t used = strlen(one->shape), length = strcspn(word, "=");
        bool told_elsewhere = (length == 4 && strncmp(word, "type", 4) == 0) ||
                              (length == 6 && strncmp(word, "device", 6) == 0) ||
                              (length == 7 && strncmp(word, "backend", 7) == 0);
        if (!told_elsewhere)
            snprintf(one->shape + used, sizeof one->shape - used, "%s%s", used ? " " : "", word);
    }
    if (!gemm_words_finish(&words, problem))
        return false;
    one->gemm = (bench_gemm){.desc = words.desc, .alpha = words.alpha, .beta = words.beta};
    memcpy(one->device, words.device, sizeof one->device);
    memcpy(one->backend, words.backend, sizeof one->backend);
    return bench_case_finish(self, one, problem);
}
