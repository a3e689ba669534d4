/* SPDX-License-Identifier: Apache-2.0 */
/* Expanding words into cases. */
#include "bench/cases.h"

#include <stdlib.h>
#include <string.h>

#include "bench/gemm.h"

enum { MAXIMUM_WORDS = 24, MAXIMUM_TEXT = 512, MAXIMUM_CASES = 10000 };

/* Each key once, in the order of first appearance. */
typedef struct word_set {
    char words[MAXIMUM_WORDS][96];
    int count;
} word_set;

typedef struct case_list {
    const char *name;
    const char *const *entries; /* words separated by spaces; NULL-terminated */
} case_list;

/* Quick, and different in kind: cubes in and out of caches, odd sizes, rows, thin panels. */
static const char *const small_entries[] = {
    "m=64,128,256,512 n=64 k=64 type=f32",
    "m=256 n=256 k=256 type=f32",
    "m=512 n=512 k=512 type=f32",
    "m=127 n=129 k=131 type=f32",
    "m=1 n=1024 k=1024 type=f32",
    "m=8 n=1024 k=1024 type=f32",
    NULL,
};

/* Projections of a large language model (those that DeepGEMM tests with), for one token, and for
 * small and large batches. */
static const char *const model_entries[] = {
    "m=1,64,128 n=2112 k=7168 type=bf16 transpose_b",
    "m=1,64,128 n=576 k=7168 type=bf16 transpose_b",
    "m=1,64,128 n=24576 k=1536 type=bf16 transpose_b",
    "m=1,64,128 n=32768 k=512 type=bf16 transpose_b",
    "m=1,64,128 n=7168 k=16384 type=bf16 transpose_b",
    "m=1,64,128 n=4096 k=7168 type=bf16 transpose_b",
    "m=1,64,128 n=7168 k=2048 type=bf16 transpose_b",
    "m=1,64,128 n=256 k=7168 type=bf16 transpose_b",
    "m=1,64,128 n=129280 k=7168 type=bf16 transpose_b",
    NULL,
};

static const case_list lists[] = {{"small", small_entries}, {"model", model_entries}};

const char bench_case_lists[] = "small, model";

static size_t key_length(const char *word)
{
    return strcspn(word, "=");
}

static bool same_key(const char *a, const char *b)
{
    return key_length(a) == key_length(b) && strncmp(a, b, key_length(a)) == 0;
}

static bool holds(const word_set *set, const char *word)
{
    for (int i = 0; i < set->count; i++)
        if (same_key(set->words[i], word))
            return true;
    return false;
}

/* Puts a word in the place of the one with its key, or at the end. */
static bool put(word_set *set, const char *word, bench_message *message)
{
    int place = 0;
    while (place < set->count && !same_key(set->words[place], word))
        place++;
    if (place == MAXIMUM_WORDS)
        return bench_say(message, "more than %d different words", MAXIMUM_WORDS);
    if (strlen(word) >= sizeof set->words[0])
        return bench_say(message, "'%.40s…' is too long: a word has at most %d bytes", word,
                         (int)sizeof set->words[0] - 1);
    if (strchr(word, ' '))
        return bench_say(message, "'%.40s…' is no word of a case", word);
    memcpy(set->words[place], word, strlen(word) + 1);
    set->count += place == set->count;
    return true;
}

static bool append_case(bench_cases *cases, const word_set *set, bench_message *message)
{
    char text[MAXIMUM_WORDS * (sizeof set->words[0] + 1)] = "";
    for (int i = 0; i < set->count; i++) {
        strcat(text, i ? " " : "");
        strcat(text, set->words[i]);
    }
    if (cases->count >= MAXIMUM_CASES)
        return bench_say(message, "more than %d cases", MAXIMUM_CASES);
    char **texts = realloc(cases->texts, (size_t)(cases->count + 1) * sizeof *texts);
    if (texts)
        cases->texts = texts;
    char *copy = texts ? strdup(text) : NULL;
    if (!copy)
        return bench_say(message, "memory is exhausted");
    texts[cases->count++] = copy;
    return true;
}

/* Whether commas separate values of this word that make cases of their own. */
static bool varies(const char *word)
{
    static const char *const keys[] = {"m=", "n=", "k=", "batch=", "type="};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strncmp(word, keys[i], strlen(keys[i])) == 0)
            return strchr(word, ',') != NULL;
    return false;
}

/* One case per combination of the lists from word `from` on. */
static bool append_product(bench_cases *cases, const word_set *set, int from,
                           bench_message *message)
{
    while (from < set->count && !varies(set->words[from]))
        from++;
    if (from == set->count)
        return append_case(cases, set, message);
    const char *word = set->words[from], *value = strchr(word, '=') + 1;
    size_t key = key_length(word) + 1;
    for (;;) {
        size_t length = strcspn(value, ",");
        if (length == 0)
            return bench_say(message, "'%s': a value of the list is missing", word);
        word_set one = *set;
        memcpy(one.words[from] + key, value, length);
        one.words[from][key + length] = 0;
        if (!append_product(cases, &one, from + 1, message))
            return false;
        if (!value[length])
            return true;
        value += length + 1;
    }
}

/* The words, over each entry of the list when there is one. */
static bool append_group(bench_cases *cases, const word_set *group, const case_list *list,
                         bench_message *message)
{
    if (!list)
        return append_product(cases, group, 0, message);
    for (int i = 0; list->entries[i]; i++) {
        word_set set = {.count = 0};
        char entry[MAXIMUM_TEXT], *rest = entry;
        strcpy(entry, list->entries[i]);
        for (char *word = strsep(&rest, " "); word; word = strsep(&rest, " "))
            if (!put(&set, word, message))
                return false;
        for (int j = 0; j < group->count; j++)
            if (!put(&set, group->words[j], message))
                return false;
        if (!append_product(cases, &set, 0, message))
            return false;
    }
    return true;
}

static bool find_list(const char *name, const case_list **list, bench_message *message)
{
    *list = NULL;
    if (!name)
        return true;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (strcmp(lists[i].name, name) == 0)
            *list = &lists[i];
    return *list ||
           bench_say(message, "there is no list '%s'; there are: %s", name, bench_case_lists);
}

/* Whether a case says the same as one before it: changing the words of a list can make its entries
 * alike. */
static void drop_doubles(bench_cases *cases)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < cases->count; i++) {
        bool is_double = false;
        for (int64_t j = 0; j < kept && !is_double; j++)
            is_double = strcmp(cases->texts[i], cases->texts[j]) == 0;
        if (is_double)
            free(cases->texts[i]);
        else
            cases->texts[kept++] = cases->texts[i];
    }
    cases->count = kept;
}

static bool expand(const char *const *words, int64_t count, const case_list *list,
                   bench_cases *cases, bench_message *message)
{
    word_set group = {.count = 0}, since = {.count = 0};
    for (int64_t i = 0; i < count; i++) {
        if (holds(&since, words[i])) {
            if (!append_group(cases, &group, list, message))
                return false;
            since.count = 0;
        }
        if (!put(&group, words[i], message) || !put(&since, words[i], message))
            return false;
    }
    return append_group(cases, &group, list, message);
}

bool bench_cases_expand(const char *const *words, int64_t count, const char *list,
                        bench_cases *cases, bench_message *message)
{
    const case_list *chosen;
    memset(cases, 0, sizeof *cases);
    if (!find_list(list, &chosen, message))
        return false;
    if (!expand(words, count, chosen, cases, message)) {
        bench_cases_free(cases);
        return false;
    }
    drop_doubles(cases);
    return true;
}

void bench_cases_free(bench_cases *cases)
{
    for (int64_t i = 0; i < cases->count; i++)
        free(cases->texts[i]);
    free(cases->texts);
    memset(cases, 0, sizeof *cases);
}
