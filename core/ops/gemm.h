/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of kiln.gemm/1 share: see kiln_operator for what each does. */
#ifndef KILN_CORE_OPS_GEMM_H
#define KILN_CORE_OPS_GEMM_H

#include "core/ops/operator.h"
#include "kiln/gemm.h"

void kiln_gemm_prepare(const void *descriptor, kiln_device *home, void *prepared);
kiln_status kiln_gemm_check(const void *descriptor, const void *prepared, kiln_device *home,
                            const kiln_args_head *arguments, bool *empty);
kiln_status kiln_gemm_check_packed(const void *descriptor, uint32_t operand,
                                   const kiln_tensor *strided, const kiln_tensor *packed);

#endif
