/* SPDX-License-Identifier: Apache-2.0 */
/* A job: tensors from files, steps that compute on them, outputs and checks. Read from YAML
 * (job_parse), or made from the options of `kiln run gemm`; completed and checked by job_resolve
 * before anything runs. */
#ifndef KILN_TOOLS_JOB_H
#define KILN_TOOLS_JOB_H

#include "kiln/gemm.h"
#include "support/yaml.h"
#include "tools/io/tensor_file.h"

enum { JOB_NONE = -1 }; /* index of nothing */

/* Everywhere: `node` is where it stands in the YAML, for located errors; NULL when the job came
 * from the command line. Text belongs to the YAML tree or to the command line unless said
 * otherwise. */

typedef struct job_tensor {
    const char *name;
    const kiln_yaml_node *node;
    const char *file;  /* NULL for what a step makes */
    const char *entry; /* name inside the file; NULL = the only one */
    const char *rows;  /* .npy of row indices to take; NULL = all */
    int64_t producer;  /* step that makes it; JOB_NONE for files */
    /* From job_resolve. */
    uint32_t type, rank;
    int64_t shape[KILN_MAX_RANK];
    tensor_file *source; /* the job's */
    int64_t *row_list;   /* allocated; shape[0] valid indices, when `rows` is given */
} job_tensor;

typedef struct job_epilogue {
    kiln_epilogue epilogue;
    int64_t operand; /* tensor, or JOB_NONE */
    const kiln_yaml_node *node;
} job_epilogue;

/* One kiln.gemm/1. a, b, c and d are tensors; c may be JOB_NONE. */
typedef struct job_step {
    const char *name;
    const kiln_yaml_node *node;
    int64_t a, b, c, d;
    const kiln_yaml_node *a_node, *b_node, *c_node;
    bool transpose_a, transpose_b;
    double alpha, beta;
    uint32_t type_out; /* 0 = A's; i32 for i8 */
    job_epilogue epilogues[KILN_GEMM_MAX_EPILOGUES];
    uint32_t epilogue_count;
    const char *backend; /* NULL = by the profile */
    const char *device;  /* NULL = the profile's default, or where `backend` can serve */
    kiln_gemm_desc desc; /* from job_resolve */
} job_step;

/* A tensor to write, or (classes) the column of the largest score in each of its rows. */
typedef struct job_output {
    const char *name;
    const kiln_yaml_node *node;
    int64_t tensor;
    const char *file;
    bool classes;
} job_output;

/* Which share of the rows of `scores` has its largest score in the column that `labels` names. */
typedef struct job_check {
    const kiln_yaml_node *node;
    int64_t scores, labels;
    double at_least;
} job_check;

typedef struct job_file {
    char *path; /* allocated */
    tensor_file *file;
} job_file;

typedef struct kiln_job {
    const char *name;
    char *folder; /* allocated: paths of inputs are relative to it; "" = the current one */
    kiln_yaml *tree;
    job_tensor *tensors;
    job_step *steps;
    job_output *outputs;
    job_check *checks;
    job_file *files; /* opened by job_resolve */
    int64_t tensor_count, step_count, output_count, check_count, file_count;
} kiln_job;

/* Reads a job from YAML in memory or from a file. False with a located error; the job then is
 * empty. Otherwise job_free() it. */
bool job_parse(const char *name, const char *text, size_t size, kiln_job *result,
               kiln_yaml_error *error);
bool job_read(const char *path, kiln_job *result, kiln_yaml_error *error);

/* Opens the files of the job, takes types and shapes from them, works out those of every step, and
 * fills the steps' descriptors. Checks everything that can be known without a backend. Reads no
 * elements but row indices. False with an error. */
bool job_resolve(kiln_job *job, kiln_yaml_error *error);

/* Releases everything in the job, not the job itself. */
void job_free(kiln_job *job);

/* ---- Pieces, for job_*.c and run_gemm.c ---- */

/* Append a zeroed one and return it; valid until the next call. */
job_tensor *job_add_tensor(kiln_job *job);
job_step *job_add_step(kiln_job *job);
job_output *job_add_output(kiln_job *job);

/* The tensor of that name, JOB_NONE when there is none. */
int64_t job_find_tensor(const kiln_job *job, const char *name);

/* Reads the name of a tensor that already exists; `what` names the key in errors. */
bool job_use_tensor(const kiln_job *job, const kiln_yaml_node *node, const char *what,
                    int64_t *index, kiln_yaml_error *error);

/* Refuses a name that is empty or that a tensor already bears. */
bool job_name_is_free(const kiln_job *job, const char *name, const kiln_yaml_node *node,
                      kiln_yaml_error *error);

/* Reads the list of steps. */
bool job_parse_steps(kiln_job *job, const kiln_yaml_node *list, kiln_yaml_error *error);

/* Opens the files and gives their tensors type and shape; works out the shapes of the steps. */
bool job_open_files(kiln_job *job, kiln_yaml_error *error);
bool job_shape_steps(kiln_job *job, kiln_yaml_error *error);

/* Writes an error: located when there is a node. Returns false. */
bool job_fail(kiln_yaml_error *error, const kiln_yaml_node *node, const char *format, ...)
    KILN_PRINTF(3, 4);

/* "[360, 64]" of a tensor's shape. Returns `text`. */
const char *job_shape_text(const job_tensor *tensor, char text[160]);

/* The view that a step passes for tensor `index` in slot `slot` of kiln.gemm/1, without memory:
 * shapes and strides as the operator wants them (a leading batch of stride 0 where the tensor has
 * none, vectors flat). */
kiln_tensor job_view(const kiln_job *job, const job_step *step, uint32_t slot, int64_t index);

/* A contiguous tensor of that tensor's type and shape, without memory. */
kiln_tensor job_whole(const job_tensor *tensor);

/* Bytes of it. */
int64_t job_tensor_bytes(const job_tensor *tensor);

/* Whether its bytes and strides, and those of its elements in any type, can be counted at all. */
bool job_tensor_is_countable(const job_tensor *tensor);

/* Calls for every tensor that a step reads: next slot after `slot` (begin with -1) that is in use;
 * -1 at the end. *index is the tensor. D is not among them. */
int job_next_input(const job_step *step, int slot, int64_t *index);

#endif
