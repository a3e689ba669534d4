/* SPDX-License-Identifier: Apache-2.0 */
/* A GEMM in words, as `kiln explain`, `kiln run gemm` and `kiln bench gemm` take it:
 *
 *     m=512 n=1024 k=4096 [batch=8] type=f16 [d=f32] [transpose_b] [epilogues=bias,relu]
 * [b_scale=f32 b_block=128x128] [groups=contiguous:8] [device=npu:0]
 *
 * Words may come in any order, each once. A switch such as transpose_b may also be given as
 * transpose_b=true or =false. */
#ifndef KILN_TOOLS_GEMM_WORDS_H
#define KILN_TOOLS_GEMM_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "kiln/gemm.h"

/* What went wrong, as one sentence. */
typedef struct gemm_problem {
    char text[320];
} gemm_problem;

/* Zeroed means: nothing read yet. */
typedef struct gemm_words {
    kiln_gemm_desc desc; /* complete after gemm_words_finish() */
    double alpha;        /* 1 unless given */
    double beta;         /* 0 unless given; otherwise desc has a C, of D's type unless given */
    char device[64];     /* "" = the profile's */
    char backend[32];    /* "" = by the profile */
    uint32_t type;       /* of all matrices that are not told otherwise */
    uint64_t seen;       /* bit per word, so that each comes once */
} gemm_words;

/* Fills the problem, as printf; false. */
bool gemm_fail(gemm_problem *problem, const char *format, ...) KILN_PRINTF(2, 3);

/* Text that explains the words, for help texts: lines of at most 80 columns. */
extern const char gemm_words_help[];

/* Reads one word. False with a problem when it is none, is repeated, or has a wrong value. */
bool gemm_words_read(gemm_words *words, const char *word, gemm_problem *problem);

/* Whether kiln.gemm/1 multiplies these as integers: i8, u8, i4, u4. */
bool gemm_is_integer(uint32_t type);

/* The type of D where none is asked for, by types and scales of A and B: i32 for integers without
 * scales; else A's or, if that has 8 bits or less, B's; f32 where both have, and there are scales
 * or an integer among them. */
uint32_t gemm_default_type(const kiln_gemm_desc *desc);

/* Completes the descriptor when all words are read: m, n, k and a type must have been given; D's
 * type is gemm_default_type(); operands of epilogues are f32, f64 for f64; a scale or zero point
 * serves the whole matrix, and of D each row. A D with scales is quantised by an epilogue, which is
 * appended unless it is there. Without alignment=BYTES, the promise is that of freshly allocated,
 * contiguous matrices: the largest power of two, at most 64, that divides a row. */
bool gemm_words_finish(gemm_words *words, gemm_problem *problem);

/* Pieces that options share: "128x128" or "1xall" (-1); the kind of "contiguous", "masked" or "k",
 * of which the first `length` characters count, NONE when it is none; "exact", "fast" or "auto". */
bool gemm_block_read(const char *text, int32_t block[2]);
uint32_t gemm_grouping_kind(const char *text, size_t length);
bool gemm_precision_read(const char *text, uint32_t *precision);

/* Reads one epilogue: "bias", "relu", "gelu_erf", "gelu_tanh", "silu", "residual", "multiply",
 * "scale:0.5", "scale", "clip:0:6", "swiglu", "swiglu:halves" (p0 -1), "swiglu:64", "quantize",
 * "bias_gradient". Those with an operand take its shape and type as further parts:
 * "bias:column", "bias:f16", "scale:scalar:f32". Only what is said is set: shape (default row;
 * matrix for residual and multiply) and type (default 0). */
bool gemm_epilogue_read(const char *text, kiln_epilogue *epilogue, gemm_problem *problem);

/* "bias" for KILN_EPILOGUE_BIAS and so on; "unknown" otherwise. And the kind of such a name; NONE
 * when it is none. */
const char *gemm_epilogue_name(uint32_t kind);
kiln_epilogue_kind gemm_epilogue_kind(const char *name);

/* Whether epilogues of this kind need an operand tensor: bias, residual, multiply and bias_gradient
 * (which writes it) always, scale unless it has a number. And whether it is a matrix. */
bool gemm_epilogue_takes_operand(uint32_t kind);
bool gemm_epilogue_takes_matrix(uint32_t kind);

/* All names of epilogues that `kiln` can ask for, for suggestions; *count is how many. */
const char *const *gemm_epilogue_names(size_t *count);

/* One line for people: "m=512 n=1024 k=4096 f16×f16→f32 transpose_b bias relu". Returns `text`. */
const char *gemm_describe(const kiln_gemm_desc *desc, char *text, size_t size);

/* Appends to `text` the words about scales, groups and precision, a blank before each. */
void gemm_describe_more(const kiln_gemm_desc *desc, char *text, size_t size);

/* An epilogue as gemm_epilogue_read takes it; types of operands where they are not usual for A. */
void gemm_describe_epilogue(const kiln_epilogue *epilogue, uint32_t a_type, char *text,
                            size_t size);

#endif
