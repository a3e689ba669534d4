/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a case on their way. */
#ifndef KILN_CONFORMANCE_GEMM_RESULT_H
#define KILN_CONFORMANCE_GEMM_RESULT_H

#include "conformance/gemm.h"

/* Records a failure, keeping the first; returns false, so that `return conformance_gemm_fail(…)`
 * reads well. */
bool conformance_gemm_fail(conformance_gemm_result *result, const char *format, ...)
    KILN_PRINTF(2, 3);

#endif
