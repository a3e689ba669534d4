/* SPDX-License-Identifier: Apache-2.0 */
/* Running a job: routing its steps, placing its tensors, executing, comparing, writing, reporting.
 */
#ifndef KILN_TOOLS_RUN_H
#define KILN_TOOLS_RUN_H

#include "tools/io/digest.h"
#include "tools/kiln/command.h"
#include "tools/kiln/job.h"

/* ---- What was asked for ---- */

typedef struct run_options {
    const char *compare; /* a plugin, or "oracle"; NULL = nothing */
    const char *out_dir; /* folder of the outputs; NULL = the current one */
    double tolerance;    /* of comparisons; negative = the documented bounds */
    bool digest;
    bool dry_run;
} run_options;

/* ---- What happened ---- */

/* How far a step's result is from another's. */
typedef struct run_comparison {
    bool compared;
    bool passed;
    char why[256];         /* not compared, or not passed */
    double max_difference; /* absolute; Inf when only one of the two is finite or a number */
    double max_relative; /* the largest |difference| / |reference|, over elements whose reference is
                            not 0 */
    double bound_ratio;  /* the largest error / bound, of both results; negative = not known */
    int64_t unbounded;   /* elements that have no bound; negative = not known */
    int64_t elements;    /* that were looked at */
    int64_t worst[3]; /* batch or group, row, column of the largest bound_ratio, or else difference
                       */
    int64_t worst_of; /* the tensor where it is: D, its scales, or a bias gradient */
    double worst_badness; /* that ratio or difference */
    double worst_result, worst_reference;
} run_comparison;

typedef struct run_step {
    kiln_plan *plan;
    kiln_plan_info info;
    kiln_device *device; /* where its tensors live */
    bool fallback;       /* not the profile's first choice */
    char reason[1024];   /* why this backend, or why not the first choice */
    kiln_plan *other;    /* of the backend to compare with; NULL for the oracle */
    kiln_device *other_device;
    int64_t time_ns, staged_bytes, copied_bytes;
    int64_t cycles; /* 0 when the device counts none */
    bool counts_cycles;
    run_comparison comparison;
} run_step;

typedef struct run_output {
    char *shown;        /* allocated: where it goes, as asked for */
    char *path;         /* allocated: the same without links */
    kiln_tensor tensor; /* on the host */
    int64_t *classes;   /* allocated; what `tensor` shows when the output is of classes */
    char digest[TENSOR_DIGEST_BYTES]; /* "" unless asked for */
} run_output;

typedef struct run_check {
    int64_t correct, total;
    bool passed;
} run_check;

typedef struct job_run {
    const tool_common *common;
    const run_options *options;
    kiln_runtime *runtime;
    kiln_job *job;
    int64_t device_count;
    kiln_stream **streams; /* by device; made at first use */
    kiln_buffer **buffers; /* [tensor * device_count + device]; what is where */
    bool *used;            /* in the same order: a step made it or read it there */
    run_step *steps;
    run_output *outputs;
    run_check *checks;
    _Atomic int64_t staged_bytes; /* counted by the trace */
} job_run;

/* Each function below prints what is wrong and returns false on failure. */

/* Finds a backend and a device for every step, and for every comparison, by planning. Runs nothing.
 */
bool run_plan(job_run *run);

/* The device's stream, made at first use. */
bool run_stream(job_run *run, kiln_device *device, kiln_stream **stream);

/* Puts a tensor on a device unless it is there: from its file, or from wherever it was computed.
 * For a step, *moved grows by what this costs: the bytes that had to come from another device, or
 * to another than the default one. For comparisons and outputs, which are no step's cost, `moved`
 * is NULL. */
bool run_place(job_run *run, int64_t tensor, kiln_device *device, int64_t *moved);

/* Where a tensor is on a device: the run's reference, NULL when it is not there. */
kiln_buffer **run_buffer(const job_run *run, int64_t tensor, const kiln_device *device);

/* Allocates room for a tensor on a device; the caller holds the reference. */
bool run_allocate(job_run *run, int64_t tensor, kiln_device *device, kiln_buffer **buffer);

/* The same for what a step makes. */
bool run_allocate_result(job_run *run, const job_step *step, int64_t tensor, kiln_device *device,
                         kiln_buffer **buffer);

/* Sets all bytes of a buffer to 0, also on devices that cannot fill. */
kiln_status run_zero(kiln_runtime *runtime, kiln_buffer *buffer);

/* Makes the places on a device where a step puts its results; by slot, they are the run's. */
bool run_make(job_run *run, const job_step *step, kiln_device *device,
              kiln_buffer *made[JOB_SLOTS]);

/* The whole tensor on the host, placing it there first. */
bool run_host_tensor(job_run *run, int64_t tensor, kiln_tensor *view);

/* Runs `plan` for a step on tensors of `device`, results to `made` by slot, and waits. *time_ns is
 * how long it took. */
bool run_plan_once(job_run *run, const job_step *step, kiln_plan *plan, kiln_device *device,
                   kiln_buffer *const made[JOB_SLOTS], int64_t *time_ns);

/* Places, runs and compares every step. Returns false too when it was interrupted. */
bool run_steps(job_run *run);

/* Compares the result of a step as options->compare says. */
bool run_compare(job_run *run, int64_t step);

/* Brings the outputs to the host, with their digests; makes the checks. */
bool run_gather_outputs(job_run *run);
bool run_make_checks(job_run *run);

/* Refuses outputs that could not be written, before anything runs. */
bool run_check_outputs(job_run *run);

/* Writes all outputs, or none. */
bool run_write_outputs(job_run *run);

/* Whether all comparisons and checks passed. */
bool run_passed(const job_run *run);

/* Sums over the steps. */
typedef struct run_totals {
    int64_t fallbacks, staged_bytes, copied_bytes, cycles, time_ns;
    bool counts_cycles; /* some device does */
} run_totals;

run_totals run_sum(const job_run *run);

/* Print the report; run_report_json() returns the exit code of printing. */
void run_report(const job_run *run);
int run_report_json(const job_run *run);

/* Plans, runs and reports a resolved job. Returns the exit code. */
int run_job(const tool_common *common, const run_options *options, kiln_runtime *runtime,
            kiln_job *job);

/* ---- The command ---- */

/* What reading a command line gives beside exit codes: the help was printed. */
enum { RUN_HELPED = -1 };

/* Values of the options that `kiln run JOB` and `kiln run gemm` share; their rows; their help. */
enum {
    RUN_OPTION_COMPARE = TOOL_OPTION_OWN,
    RUN_OPTION_TOLERANCE,
    RUN_OPTION_DIGEST,
    RUN_OPTION_DRY_RUN,
    RUN_OPTION_OUT_DIR,
    RUN_OPTION_OWN
};

#define RUN_OPTIONS                                                   \
    {"compare", required_argument, NULL, RUN_OPTION_COMPARE},         \
        {"tolerance", required_argument, NULL, RUN_OPTION_TOLERANCE}, \
        {"digest", no_argument, NULL, RUN_OPTION_DIGEST},             \
        {"dry-run", no_argument, NULL, RUN_OPTION_DRY_RUN},           \
    {                                                                 \
        "out-dir", required_argument, NULL, RUN_OPTION_OUT_DIR        \
    }

#define RUN_HELP                                                                                   \
    "  --compare BACKEND    run every step on BACKEND too, from the same inputs, and compare;\n"   \
    "                       'oracle' is a loop in double precision, with its error bound\n"        \
    "  --tolerance X        differences may be X of the reference's largest magnitude (default:\n" \
    "                       the documented error bound)\n"                                         \
    "  --digest             print a hash of every output\n"                                        \
    "  --dry-run            check and plan everything, run and write nothing\n"                    \
    "  --out-dir FOLDER     where outputs go (default: the current folder)\n"

/* Takes one of them. False after having printed what is wrong. */
bool run_take_option(const tool_common *common, run_options *options, int option,
                     const char *value);

/* Refuses options that do not go together. */
bool run_check_options(const tool_common *common, const run_options *options);

/* Reads the command line of `kiln run gemm` into a job of one step; argv[0] is "gemm". TOOL_OK,
 * TOOL_USAGE or RUN_HELPED. */
int run_gemm_read(tool_common *common, run_options *options, int argc, char **argv, kiln_job *job);

#endif
