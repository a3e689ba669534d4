/* SPDX-License-Identifier: Apache-2.0 */
/* What cases go round: types that belong together, and names. */
#include "conformance/gemm.h"

/* clang-format off */
#define PLAIN {KILN_TYPE_NONE, KILN_TYPE_NONE, 0, 0}

const conformance_gemm_type conformance_gemm_types[] = {
    {"f64",              KILN_F64,  KILN_F64,  PLAIN, PLAIN},
    {"f32",              KILN_F32,  KILN_F32,  PLAIN, PLAIN},
    {"f16",              KILN_F16,  KILN_F16,  PLAIN, PLAIN},
    {"bf16",             KILN_BF16, KILN_BF16, PLAIN, PLAIN},
    {"f16*bf16",         KILN_F16,  KILN_BF16, PLAIN, PLAIN},
    {"bf16*f32",         KILN_BF16, KILN_F32,  PLAIN, PLAIN},
    {"e4m3",             KILN_E4M3, KILN_E4M3, PLAIN, PLAIN},
    {"e5m2*e4m3",        KILN_E5M2, KILN_E4M3, PLAIN, PLAIN},
    /* A by 1×128, B by 128×128 */
    {"e4m3-128-f32",     KILN_E4M3, KILN_E4M3, {KILN_F32, 0, 1, 128},   {KILN_F32, 0, 128, 128}},
    {"e4m3-128-ue8m0",   KILN_E4M3, KILN_E4M3, {KILN_UE8M0, 0, 1, 128}, {KILN_UE8M0, 0, 128, 128}},
    /* both by 1×128 */
    {"e4m3-1x128-f32",   KILN_E4M3, KILN_E4M3, {KILN_F32, 0, 1, 128},   {KILN_F32, 0, 1, 128}},
    {"e4m3*e5m2-32",     KILN_E4M3, KILN_E5M2, {KILN_UE8M0, 0, 1, 32},  {KILN_UE8M0, 0, 1, 32}},
    {"i8",               KILN_I8,   KILN_I8,   PLAIN, PLAIN},
    /* by row of A and column of B */
    {"i8-scaled",        KILN_I8,   KILN_I8,   {KILN_F32, 0, 1, -1},    {KILN_F32, 0, 1, -1}},
    {"u8*i8-zero",       KILN_U8,   KILN_I8,   {KILN_F32, KILN_U8, -1, -1}, {KILN_F32, KILN_I8, 1, -1}},
    {"i8*u8-zero",       KILN_I8,   KILN_U8,   {KILN_BF16, KILN_I8, 1, -1}, {KILN_F16, KILN_U8, 1, 64}},
    {"i8*i4",            KILN_I8,   KILN_I4,   {KILN_F32, 0, 1, -1},    {KILN_F32, 0, 1, 32}},
    /* weights alone */
    {"bf16*i4-zero",     KILN_BF16, KILN_I4,   PLAIN, {KILN_BF16, KILN_I4, 1, 32}},
    {"f16*u4-zero",      KILN_F16,  KILN_U4,   PLAIN, {KILN_F16, KILN_U4, 1, 128}},
    {"bf16*i8-scaled",   KILN_BF16, KILN_I8,   PLAIN, {KILN_F32, 0, 1, -1}},
    {"bf16*e2m1-32",     KILN_BF16, KILN_E2M1, PLAIN, {KILN_UE8M0, 0, 1, 32}},
    {"f32*e4m3-scaled",  KILN_F32,  KILN_E4M3, PLAIN, {KILN_BF16, 0, 16, -1}},
    {"e2m1-32-ue8m0",    KILN_E2M1, KILN_E2M1, {KILN_UE8M0, 0, 1, 32},  {KILN_UE8M0, 0, 1, 32}},
    {"e2m1-16-e4m3",     KILN_E2M1, KILN_E2M1, {KILN_E4M3, 0, 1, 16},   {KILN_E4M3, 0, 1, 16}},
    {"any",              0,         0,         PLAIN, PLAIN},
};
/* clang-format on */

_Static_assert(sizeof conformance_gemm_types / sizeof *conformance_gemm_types ==
                       CONFORMANCE_GEMM_TYPES &&
                   CONFORMANCE_GEMM_TYPES % 2 == 1 &&
                   CONFORMANCE_GEMM_TYPES % CONFORMANCE_GEMM_KINDS != 0,
               "the remainders of an index by types, kinds and 16 are independent");

const char *const conformance_gemm_layouts[] = {"nn", "nt", "tn", "tt"};
const char *const conformance_gemm_kinds[] = {
    "none",     "bias",  "relu", "gelu-erf", "gelu-tanh", "silu",         "residual",
    "multiply", "scale", "clip", "swiglu",   "quantize",  "bias-gradient"};
const char *const conformance_gemm_groupings[] = {"ungrouped", "contiguous", "masked", "k"};
