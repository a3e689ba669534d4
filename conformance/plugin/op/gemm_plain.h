/* SPDX-License-Identifier: Apache-2.0 */
/* GEMMs that differ from a plain one in a single respect, so that a check which fails names what is
 * wrong. The random sweep has them all mixed. */
#ifndef KILN_CONFORMANCE_PLUGIN_GEMM_PLAIN_H
#define KILN_CONFORMANCE_PLUGIN_GEMM_PLAIN_H

#include "conformance/gemm.h"
#include "conformance/plugin/session.h"

/* Types that go together in a plain GEMM, and the form in which a backend serves them. */
typedef struct conformance_plain_types {
    uint32_t a, b, d;
    conformance_gemm_blocks a_blocks, b_blocks; /* how A and B are quantised */
    int type; /* in conformance_gemm_types; the last, "any", where it is none of the others */
    uint32_t precision;   /* KILN_PRECISION_EXACT; or FAST: see there */
    bool fast_too;        /* exact, and another kernel serves FAST */
    uint32_t transposes;  /* flags of the descriptor; others may be served as well */
    uint32_t alignment;   /* that the descriptor promises of A, B, C and D; 0 = none */
    int64_t unit_m, unit; /* M, and N and K, are multiples of these */
    uint32_t grouping;
    int64_t group_alignment;
} conformance_plain_types;

enum {
    CONFORMANCE_PLAIN_ROWS = CONFORMANCE_GEMM_TYPES - 1 + 4,
    CONFORMANCE_PLAIN_TYPES = 4 * CONFORMANCE_PLAIN_ROWS /* at most */
};

/* Row `row` of the kinds of A and B: those that random cases go round, and some others. d is NONE
 * and nothing is known of its form. */
conformance_plain_types conformance_plain_row(int row);

/* Finds a form in which the plugin serves the types of A and B that `types` has, with its grouping;
 * exact where that is served, or else fast, and with the type of D that is set, or any where it is
 * NONE. False when it declines all, and `reason` has the last. */
bool conformance_plain_find(const conformance_session *session, conformance_plain_types *types,
                            char reason[256]);

/* What one check works with. */
typedef struct conformance_gemm_bench {
    conformance_session session;
    conformance_report *report;
    uint64_t state; /* of the random values */
    int type_count; /* plain GEMMs that are served: each kind of A and B, with one or more types of
                       D, exact or fast; both where their kernels differ */
    conformance_plain_types types[CONFORMANCE_PLAIN_TYPES];
    char last_decline[400];
} conformance_gemm_bench;

/* Opens the session and finds out which plain types are served. False, with the verdict set, when
 * there is nothing to check. End it in any case. */
bool conformance_bench_begin(const conformance_subject *subject,
                             const conformance_session_options *options, conformance_report *report,
                             conformance_gemm_bench *bench);

/* The same for checks that have more than plain GEMMs to ask for: that none of these is served is
 * left to them. */
bool conformance_bench_begin_any(const conformance_subject *subject,
                                 const conformance_session_options *options,
                                 conformance_report *report, conformance_gemm_bench *bench);

/* The verdict becomes NOT_APPLICABLE when everything was declined. */
void conformance_bench_end(conformance_gemm_bench *bench);

/* A GEMM and its memory. Zero is the plain choice in every field but those that
 * conformance_gemm_spec() sets. */
typedef struct conformance_gemm_spec {
    kiln_gemm_desc desc; /* sizes are maxima where dynamic; types and epilogues as they are to be */
    int64_t m, n, k, batch; /* of the run */
    double alpha, beta;
    bool batched; /* tensors have a leading batch, also of 1 */
    bool aliased; /* C is D */
    bool streamed;
    int64_t gap[CONFORMANCE_GEMM_TENSORS];    /* elements between rows */
    int64_t offset[CONFORMANCE_GEMM_TENSORS]; /* bytes before the first element */
    bool shared[CONFORMANCE_GEMM_TENSORS];    /* batch stride 0; A's and B's scales follow them */
    double magnitude;                         /* of the values; 0 = 1 */
    conformance_gemm_blocks a_blocks, b_blocks;
    int type; /* in conformance_gemm_types */
} conformance_gemm_spec;

/* D = op(A) op(B) in the form that is served, contiguous, of fixed sizes that are at least these,
 * for the bench's device. A check that asks for other transposes inverts what the form has. */
conformance_gemm_spec conformance_gemm_plain(const conformance_plain_types *types, int64_t m,
                                             int64_t n, int64_t k);

/* `size`, or what stands in its place where only multiples of `unit` are served. */
static inline int64_t conformance_gemm_size(int64_t size, int64_t unit)
{
    return unit > 1 ? (size + unit - 1) / unit * unit : size;
}

/* The descriptor of a spec whose transposes are settled: how A and B are quantised depends on them.
 */
kiln_gemm_desc conformance_gemm_settled(const conformance_gemm_spec *spec);

/* Adds an epilogue and returns it; its operand's type is f32, or f64 where A is. */
kiln_epilogue *conformance_gemm_add(conformance_gemm_spec *spec, uint32_t kind, uint32_t operand);

/* Memory and values of a spec; NULL, with a failure, when memory is exhausted. Alignments in the
 * descriptor become what the addresses give, where an offset or gap is set and they are 0, or
 * promise more. Counts as a case of the report and goes into its hash. */
conformance_gemm_case *conformance_gemm_make(conformance_gemm_bench *bench,
                                             const conformance_gemm_spec *spec);

/* Runs and judges; a failure goes into the report with `what`. Frees the case. */
conformance_outcome conformance_gemm_try_case(conformance_gemm_bench *bench, const char *what,
                                              conformance_gemm_case *test);
conformance_outcome conformance_gemm_try(conformance_gemm_bench *bench, const char *what,
                                         const conformance_gemm_spec *spec);

/* The first plain types that are served. */
const conformance_plain_types *conformance_bench_first(const conformance_gemm_bench *bench);

/* A whole check: function(bench, types) for each plain types that are served, until one fails. */
void conformance_bench_each(const conformance_subject *subject,
                            const conformance_session_options *options, conformance_report *report,
                            void (*function)(conformance_gemm_bench *bench,
                                             const conformance_plain_types *types));

/* Whether a spec is served. The verdict is NOT_APPLICABLE as long as nothing that was asked for is,
 * unless something has failed. */
bool conformance_bench_serves(conformance_gemm_bench *bench, const conformance_gemm_spec *spec);

/* The bench has failed: what follows need not be tried. */
bool conformance_bench_failed(const conformance_gemm_bench *bench);

/* What the plugin answers through the core; support NO with a reason when the core refuses. */
kiln_candidate conformance_gemm_ask(const conformance_session *session, const kiln_gemm_desc *desc);

/* A plan of the plugin alone. NULL when it declines; otherwise a failure is in the report. */
kiln_plan *conformance_gemm_plan(conformance_gemm_bench *bench, const kiln_gemm_desc *desc);

/* ---- Where a plan wants its tensors ---- */

/* The tensors of a case in the memory of the bench's device; on the host those of the case itself.
 */
typedef struct conformance_gemm_placed {
    kiln_tensor tensors[CONFORMANCE_GEMM_TENSORS];
    kiln_buffer *buffers[CONFORMANCE_GEMM_TENSORS];
} conformance_gemm_placed;

/* False, with a failure, when memory is exhausted. Release it in any case. */
bool conformance_gemm_place(conformance_gemm_bench *bench, const conformance_gemm_case *test,
                            conformance_gemm_placed *placed);
void conformance_gemm_release(conformance_gemm_placed *placed);

/* Brings what now stands in a slot into the case's memory. */
bool conformance_gemm_fetch(conformance_gemm_bench *bench, conformance_gemm_case *test,
                            const conformance_gemm_placed *placed, uint32_t slot);

/* Copies bytes between host memory and a buffer. */
bool conformance_copy_bytes(const conformance_session *session, kiln_buffer *buffer, void *memory,
                            int64_t bytes, bool to_buffer);

/* ---- Values ---- */

/* Sets element (row, column) of a slot in every batch entry, in the case's memory and in what it
 * remembers as the state before. */
void conformance_gemm_set(conformance_gemm_case *test, uint32_t slot, int64_t row, int64_t column,
                          double value);
/* The element of the first batch entry, in the case's memory. */
double conformance_gemm_get(const conformance_gemm_case *test, uint32_t slot, int64_t row,
                            int64_t column);
/* Every element of a slot. */
void conformance_gemm_set_all(conformance_gemm_case *test, uint32_t slot, double value);

/* ---- The plugin's own functions, past the core ---- */

typedef struct conformance_gemm_raw {
    kiln_plan *plan;
    kiln_operator_table table;
    void *native;
    kiln_plan_info info;
} conformance_gemm_raw;

/* Of a plan that lives as long. */
bool conformance_gemm_raw_of(conformance_gemm_bench *bench, kiln_plan *plan,
                             conformance_gemm_raw *raw);

/* The arguments of a case over other addresses than its own; see conformance_gemm_move. */
typedef struct conformance_gemm_moved {
    kiln_gemm_args args;
    kiln_tensor tensors[CONFORMANCE_GEMM_TENSORS];
    conformance_guarded memory[CONFORMANCE_GEMM_TENSORS];
} conformance_gemm_moved;

/* Places the elements of every tensor of a host case between pages that must not be touched, at the
 * end or the start, and forbids writing to the inputs. */
bool conformance_gemm_move(conformance_gemm_bench *bench, const conformance_gemm_case *test,
                           bool at_start, conformance_gemm_moved *moved);

/* Brings D back into the case's memory, for judging, and frees. */
void conformance_gemm_return(conformance_gemm_case *test, conformance_gemm_moved *moved);

#endif
