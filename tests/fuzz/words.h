/* SPDX-License-Identifier: Apache-2.0 */
/* Splitting the input of a fuzz target into words. */
#ifndef KILN_TESTS_FUZZ_WORDS_H
#define KILN_TESTS_FUZZ_WORDS_H

#include "tests/fuzz/must.h"

enum { MAX_WORDS = 40 };

/* Cuts the text at every `separator`, in place, and returns the number of words; what is beyond
 * MAX_WORDS is dropped. NULL stands behind the last. */
static inline int split(char *text, const char *separator, char *words[MAX_WORDS + 1])
{
    int count = 0;
    char *rest = text;
    for (char *word; count < MAX_WORDS && (word = strsep(&rest, separator));)
        words[count++] = word;
    words[count] = NULL;
    return count;
}

#endif
