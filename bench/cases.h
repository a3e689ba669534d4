/* SPDX-License-Identifier: Apache-2.0 */
/* Many cases from few words. */
#ifndef KILN_BENCH_CASES_H
#define KILN_BENCH_CASES_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/measure.h"

/* Cases as text, one each: "m=64 n=512 k=512 type=f32". */
typedef struct bench_cases {
    char **texts;
    int64_t count;
} bench_cases;

/* Expands `count` words. A word that comes again begins the next case, which keeps the words before
 * it unless they come again too; of m, n, k, batch and type, lists make one case per value: "m=1,64
 * n=512 k=512 type=f32 n=1024" are four cases. With a list's name (may be NULL) the words change
 * each entry of that list. False with a message for unknown lists and empty values. */
bool bench_cases_expand(const char *const *words, int64_t count, const char *list,
                        bench_cases *cases, bench_message *message);
void bench_cases_free(bench_cases *cases);

/* Names of the lists, for messages: "small, model". */
extern const char bench_case_lists[];

#endif
