/* SPDX-License-Identifier: Apache-2.0 */
/* The operators that the core knows. */
#include "core/ops/operator.h"

static const kiln_operator *const operators[] = {&kiln_gemm_operator};

const kiln_operator *kiln_operator_find(const char *name)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strcmp(operators[i]->name, name) == 0)
            return operators[i];
    return NULL;
}
