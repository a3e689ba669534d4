/* SPDX-License-Identifier: Apache-2.0 */
/* Fast conversions between f32 and the 16-bit floats, for peers that multiply in f32 only: a slow
 * conversion would make them look worse than they are. */
#ifndef KILN_BENCH_CONVERT_H
#define KILN_BENCH_CONVERT_H

#include <stdint.h>

/* `count` consecutive values of `type` (KILN_F16 or KILN_BF16) to f32, exactly. */
void bench_widen(float *destination, uint32_t type, const void *source, int64_t count);

/* And back, rounded to nearest even. NaN stays NaN. */
void bench_narrow(uint32_t type, void *destination, const float *source, int64_t count);

#endif
