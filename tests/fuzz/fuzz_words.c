/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a GEMM in words, and the cases of a benchmark, in words as well, which blanks
 * separate here. What is read is the same when it is written in words and read again. */
#include "tests/fuzz/words.h"

#include <inttypes.h>
#include <stdio.h>

#include "bench/cases.h"
#include "tools/kiln/gemm_words.h"

static bool read_words(char *const *texts, int count, gemm_words *words)
{
    gemm_problem problem = {""};
    memset(words, 0, sizeof *words);
    for (int i = 0; i < count; i++)
        if (!gemm_words_read(words, texts[i], &problem)) {
            must(problem.text[0]);
            return false;
        }
    if (gemm_words_finish(words, &problem))
        return true;
    must(problem.text[0]);
    return false;
}

static void check_number(const char *text, const char *name, int64_t found)
{
    size_t length = strlen(name);
    if (strncmp(text, name, length) == 0)
        must(strtoll(text + length, NULL, 10) == found);
}

/* What one word says, read in another way. */
static void check_word(const char *text, const gemm_words *words)
{
    const kiln_gemm_desc *desc = &words->desc;
    uint32_t flags = desc->head.flags;
    const char *value = strchr(text, '=');
    bool truth = !value || strcmp(value, "=true") == 0;
    check_number(text, "m=", desc->m);
    check_number(text, "n=", desc->n);
    check_number(text, "k=", desc->k);
    check_number(text, "batch=", desc->batch);
    check_number(text, "alignment=", desc->d_alignment);
    if (strncmp(text, "transpose_a", 11) == 0)
        must(truth == ((flags & KILN_GEMM_TRANSPOSE_A) != 0));
    if (strncmp(text, "transpose_b", 11) == 0)
        must(truth == ((flags & KILN_GEMM_TRANSPOSE_B) != 0));
    if (strncmp(text, "saturate", 8) == 0)
        must(truth == ((flags & KILN_GEMM_SATURATE) != 0));
    if (strncmp(text, "b=", 2) == 0)
        must(strcmp(kiln_type_name(desc->b_type), value + 1) == 0);
    if (strncmp(text, "d=", 2) == 0)
        must(strcmp(kiln_type_name(desc->d_type), value + 1) == 0);
    if (strncmp(text, "a_scale=", 8) == 0)
        must(strcmp(kiln_type_name(desc->a_quantization.scale_type), value + 1) == 0);
    if (strncmp(text, "group_alignment=", 16) == 0)
        must(strtoll(value + 1, NULL, 10) == desc->group_alignment);
    if (strncmp(text, "max_rel_error=", 14) == 0)
        must(words->desc.max_rel_error == strtod(value + 1, NULL));
    if (strncmp(text, "alpha=", 6) == 0)
        must(words->alpha == strtod(value + 1, NULL));
    if (strncmp(text, "epilogues=", 10) == 0) {
        uint32_t count = 1;
        for (const char *c = text; *c; c++)
            count += *c == ',';
        /* A D with scales is quantised, said or not. */
        must(desc->epilogue_count == count ||
             (desc->epilogue_count == count + 1 && desc->d_quantization.scale_type));
    }
}

static void write_epilogue(FILE *stream, const kiln_epilogue *epilogue)
{
    static const char *const shapes[] = {"", "scalar", "row", "column", "matrix"};
    bool scale = epilogue->kind == KILN_EPILOGUE_SCALE && !epilogue->operand,
         swiglu = epilogue->kind == KILN_EPILOGUE_SWIGLU;
    fputs(gemm_epilogue_name(epilogue->kind), stream);
    if (swiglu && epilogue->p0 < 0)
        fputs(":halves", stream);
    if (epilogue->kind == KILN_EPILOGUE_CLIP || scale || (swiglu && epilogue->p0 > 0))
        fprintf(stream, ":%.17g", epilogue->p0);
    if (epilogue->kind == KILN_EPILOGUE_CLIP)
        fprintf(stream, ":%.17g", epilogue->p1);
    if (epilogue->operand && epilogue->operand != KILN_OPERAND_MATRIX &&
        epilogue->kind != KILN_EPILOGUE_BIAS_GRADIENT)
        fprintf(stream, ":%s", shapes[epilogue->operand]);
    if (epilogue->type)
        fprintf(stream, ":%s", kiln_type_name(epilogue->type));
}

static void write_quantization(FILE *stream, char name, const kiln_quantization *said)
{
    if (said->scale_type)
        fprintf(stream, " %c_scale=%s", name, kiln_type_name(said->scale_type));
    if (said->zero_type)
        fprintf(stream, " %c_zero_point=true", name);
    if (!said->scale_type && !said->zero_type)
        return;
    fprintf(stream, " %c_block=", name);
    for (int i = 0; i < 2; i++) {
        if (said->block[i] < 0)
            fprintf(stream, "all");
        else
            fprintf(stream, "%d", said->block[i]);
        fputs(i ? "" : "x", stream);
    }
}

/* Scales, groups, precision. */
static void write_more(FILE *stream, const kiln_gemm_desc *desc)
{
    static const char *const groupings[] = {"", "contiguous", "masked", "k"},
                             *const precisions[] = {"exact", "fast", "auto"};
    write_quantization(stream, 'a', &desc->a_quantization);
    write_quantization(stream, 'b', &desc->b_quantization);
    write_quantization(stream, 'd', &desc->d_quantization);
    if (desc->grouping)
        fprintf(stream, " groups=%s:%" PRId64, groupings[desc->grouping], desc->groups);
    if (desc->group_alignment)
        fprintf(stream, " group_alignment=%" PRId64, desc->group_alignment);
    fprintf(stream, " precision=%s", precisions[desc->precision]);
    if (desc->precision == KILN_PRECISION_AUTO)
        fprintf(stream, " max_rel_error=%.17g", desc->max_rel_error);
}

/* Flags, sizes, types. `aligned`: the alignment was said, the same for all. */
static void write_words(FILE *stream, const gemm_words *words, bool aligned)
{
    static const char *const dynamic[] = {"m", "n", "k", "batch"};
    const kiln_gemm_desc *desc = &words->desc;
    uint32_t flags = desc->head.flags;
    fprintf(stream, "m=%" PRId64 " n=%" PRId64 " k=%" PRId64, desc->m, desc->n, desc->k);
    if (desc->batch)
        fprintf(stream, " batch=%" PRId64, desc->batch);
    fprintf(stream, " a=%s b=%s d=%s", kiln_type_name(desc->a_type), kiln_type_name(desc->b_type),
            kiln_type_name(desc->d_type));
    if (words->type)
        fprintf(stream, " type=%s", kiln_type_name(words->type));
    if (desc->c_type)
        fprintf(stream, " c=%s", kiln_type_name(desc->c_type));
    if (desc->accumulator)
        fprintf(stream, " accumulator=%s", kiln_type_name(desc->accumulator));
    fprintf(stream, " alpha=%.17g beta=%.17g", words->alpha, words->beta);
    fprintf(stream, " transpose_a=%s", flags & KILN_GEMM_TRANSPOSE_A ? "true" : "false");
    fprintf(stream, "%s%s", flags & KILN_GEMM_TRANSPOSE_B ? " transpose_b" : "",
            flags & KILN_GEMM_SATURATE ? " saturate" : "");
    if (aligned)
        fprintf(stream, " alignment=%u", desc->a_alignment);
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        fputs(i ? "," : " epilogues=", stream);
        write_epilogue(stream, &desc->epilogues[i]);
    }
    for (int i = 0, any = 0; i < 4; i++)
        if (flags & (uint32_t)KILN_GEMM_DYNAMIC_M << i)
            fprintf(stream, "%s%s", any++ ? "," : " dynamic=", dynamic[i]);
    write_more(stream, desc);
    if (words->device[0])
        fprintf(stream, " device=%s", words->device);
    if (words->backend[0])
        fprintf(stream, " backend=%s", words->backend);
}

static void write_and_read(const gemm_words *words, bool aligned)
{
    char *text = NULL, *texts[MAX_WORDS + 1];
    size_t size;
    gemm_words again;
    FILE *stream = open_memstream(&text, &size);
    must(stream);
    write_words(stream, words, aligned);
    must(fclose(stream) == 0);
    must(read_words(texts, split(text, " ", texts), &again));
    must(memcmp(&words->desc, &again.desc, sizeof again.desc) == 0);
    must(words->alpha == again.alpha && words->beta == again.beta && words->type == again.type);
    must(strcmp(words->device, again.device) == 0 && strcmp(words->backend, again.backend) == 0);
    free(text);
}

/* A case has one value of each list, and an empty one only where the word itself was empty. */
static void check_case(char *const *words, int count, char *const *texts, int text_count)
{
    static const char *const lists[] = {"m=", "n=", "k=", "batch=", "type="};
    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
            bool given = false;
            if (strncmp(words[i], lists[k], strlen(lists[k])) != 0)
                continue;
            for (int j = 0; j < text_count; j++)
                given = given || strcmp(texts[j], lists[k]) == 0;
            must(!strchr(words[i], ',') && (given || strcmp(words[i], lists[k]) != 0));
        }
}

/* Every case has what a case of its words alone has, and no two are alike. */
static void expand(char *const *texts, int count, const char *list)
{
    bench_cases cases;
    bench_message message;
    if (!bench_cases_expand((const char *const *)texts, count, list, &cases, &message)) {
        must(!cases.count && message.text[0]);
        return;
    }
    must(cases.count > 0);
    for (int64_t i = 0; i < cases.count; i++) {
        for (int64_t j = 0; j < i && j < 50; j++)
            must(strcmp(cases.texts[i], cases.texts[j]) != 0);
        char *copy = strdup(cases.texts[i]), *words[MAX_WORDS + 1];
        must(copy);
        bench_cases one;
        int word_count = split(copy, " ", words);
        check_case(words, word_count, texts, count);
        must(bench_cases_expand((const char *const *)words, word_count, NULL, &one, &message));
        must(one.count == 1 && strcmp(one.texts[0], cases.texts[i]) == 0);
        bench_cases_free(&one);
        free(copy);
    }
    bench_cases_free(&cases);
}

/* The number of cases is a product of the lengths of lists. */
static bool is_small(const char *text)
{
    int commas = 0;
    for (; *text; text++)
        commas += *text == ',';
    return commas < 6;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = text_of(bytes, size), *texts[MAX_WORDS + 1], description[128];
    bool small = is_small(text), aligned = false;
    int count = split(text, " \n", texts);
    gemm_words words;
    for (int i = 0; i < count; i++)
        aligned = aligned || strncmp(texts[i], "alignment=", 10) == 0;
    if (read_words(texts, count, &words)) {
        must(strlen(gemm_describe(&words.desc, description, size % sizeof description + 1)) <
             sizeof description);
        for (int i = 0; i < count; i++)
            check_word(texts[i], &words);
        write_and_read(&words, aligned);
    }
    if (small && size % 4 < 2)
        expand(texts, count, size % 32 == 1 ? "model" : size % 32 == 4 ? "small" : NULL);
    free(text);
    return 0;
}
