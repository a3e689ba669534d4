/* SPDX-License-Identifier: Apache-2.0 */
/* How fuzz targets say that a promise is broken. */
#ifndef KILN_TESTS_FUZZ_MUST_H
#define KILN_TESTS_FUZZ_MUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Stops the program, with which libFuzzer keeps the input. */
static inline void must(bool good)
{
    if (!good)
        abort();
}

/* The bytes as text, which ends at the first NUL. The caller frees it. */
static inline char *text_of(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1);
    must(text);
    memcpy(text, bytes, size);
    text[size] = '\0';
    return text;
}

#endif
