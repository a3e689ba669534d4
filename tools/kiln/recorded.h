/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a record of calls (record.file, KILN_RECORD): lines of JSON, one per plan and sizes of
 * its runs. Several processes may have appended to the file, and anybody may have edited it:
 * nothing in it is believed. */
#ifndef KILN_TOOLS_RECORDED_H
#define KILN_TOOLS_RECORDED_H

#include <stdbool.h>
#include <stdio.h>

#include "kiln/gemm.h"
#include "tools/kiln/command.h"

enum {
    RECORDED_MAXIMUM_SIZES = 8,
    RECORDED_MAXIMUM_DESCRIPTOR = 1024, /* as the core takes */
    RECORDED_MAXIMUM_LINE = 1 << 16,    /* in bytes, without its end */
    RECORDED_MAXIMUM_CALLS = 100000,    /* that differ, in one file */
    RECORDED_MAXIMUM_ERRORS = 10        /* that are told */
};

typedef struct recorded_size {
    char name[16];
    int64_t value; /* at least 0 */
} recorded_size;

/* Calls that are alike: one line of the file, or several that were equal. */
typedef struct recorded_call {
    char operator_name[64];
    char backend[32]; /* that served it; "" = not told */
    char device[64];  /* where that backend ran */
    char home[64];    /* where the tensors lived */
    int64_t runs;     /* at least 0: a plan may never have run */
    int64_t line;     /* the first of them, from 1 */
    size_t descriptor_size;
    void *descriptor;   /* begins with a kiln_op_head, whose struct_size is descriptor_size */
    int64_t size_count; /* 0: the sizes are not told */
    recorded_size sizes[RECORDED_MAXIMUM_SIZES]; /* by name */
} recorded_call;

/* A file. Zeroed means empty. */
typedef struct recorded_calls {
    char *name;
    recorded_call *calls; /* in the order of their lines */
    int64_t count;
    int64_t lines;                         /* that were read, without the empty ones */
    char *errors[RECORDED_MAXIMUM_ERRORS]; /* "FILE:LINE: what is wrong", the first of them */
    int64_t error_count;                   /* all of them */
} recorded_calls;

/* Reads all lines of a file. False when it cannot be read or anything in it is wrong: `errors` says
 * what, in full sentences. Memory is the caller's in any case. */
bool recorded_read(const char *path, recorded_calls *calls);

/* The same from an open stream; `name` stands for it in errors. */
bool recorded_read_stream(FILE *file, const char *name, recorded_calls *calls);

void recorded_free(recorded_calls *calls);

/* Prints the errors. */
void recorded_tell(const tool_common *common, const recorded_calls *calls);

/* A GEMM as it was recorded. */
typedef struct recorded_gemm {
    kiln_gemm_desc planned; /* as it was planned: maxima where dynamic */
    kiln_gemm_desc actual;  /* with the sizes of the run, nothing dynamic */
    bool sizes_told;        /* else they are the maxima */
} recorded_gemm;

/* Reads the descriptor and sizes of a call of kiln.gemm/1. False, with one sentence, when this
 * version cannot: it was recorded by a newer one, or is not a GEMM at all. What it accepts is safe
 * to compute with: known types, sizes that are not negative, at most 8 epilogues of known kinds.
 * Whether anybody serves it is another question. Promises of alignment are lowered to what
 * contiguous operands of these sizes can keep. */
bool recorded_gemm_read(const recorded_call *call, recorded_gemm *gemm, char *problem, size_t size);

/* The words that `kiln bench gemm` would take for it, but for the types, in `text`: "m=4 n=8 k=16
 * transpose_b". What words cannot say is added in brackets; maxima are "m<=4". Returns `text`. */
const char *recorded_gemm_words(const kiln_gemm_desc *desc, char *text, size_t size);

#endif
