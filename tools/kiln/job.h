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
    uint32_t read_as;  /* what the bits of integers in the file mean; 0 = what the file says */
    /* Tensors of what an element means, (stored - zero point) * scale, or JOB_NONE; and the
     * elements that share one, which is -1 for the whole extent and 0 until job_resolve unless it
     * was said. */
    int64_t scale, zero_point;
    int32_t block[2];
    bool block_told;
    const kiln_yaml_node *scale_node, *zero_point_node;
    /* From job_resolve. */
    uint32_t type, rank;
    int64_t shape[KILN_MAX_RANK];
    tensor_file *source; /* the job's */
    int64_t *row_list;   /* allocated; shape[0] valid indices, when `rows` is given */
} job_tensor;

typedef struct job_epilogue {
    kiln_epilogue epilogue;
    int64_t operand; /* tensor, or JOB_NONE; of a bias gradient what the step makes */
    bool each;       /* of a bias gradient: a row for each batch entry or group */
    const kiln_yaml_node *node;
} job_epilogue;

/* One kiln.gemm/1. a, b, c, d, d_scale and groups are tensors; c, d_scale and groups may be
 * JOB_NONE. The last epilogue quantises exactly when there is a d_scale. */
typedef struct job_step {
    const char *name;
    const kiln_yaml_node *node;
    int64_t a, b, c, d, d_scale, groups;
    const kiln_yaml_node *a_node, *b_node, *c_node, *groups_node;
    bool transpose_a, transpose_b;
    double alpha, beta;
    uint32_t type_out;       /* 0 = chosen by job_resolve, as gemm_default_type does */
    uint32_t d_scale_type;   /* 0 = f32 */
    uint32_t grouping;       /* kiln_grouping */
    int64_t group_alignment; /* as in kiln_gemm_desc */
    uint32_t precision;      /* kiln_precision */
    double max_rel_error;
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
 * elements but row indices and zero points of 4 bits. False with an error. */
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

/* A job's step before anything is said of it. */
job_step job_empty_step(void);

/* Reads the tensors that come from files, and the list of steps. */
bool job_parse_tensors(kiln_job *job, const kiln_yaml_node *mapping, kiln_yaml_error *error);
bool job_parse_steps(kiln_job *job, const kiln_yaml_node *list, kiln_yaml_error *error);

/* Reads a type's name, and how many elements share a scale: [rows, columns], each a number or
 * "all". */
bool job_parse_type(const kiln_yaml_node *node, uint32_t *type, kiln_yaml_error *error);
bool job_parse_block(const kiln_yaml_node *node, int32_t block[2], kiln_yaml_error *error);

/* Appends the tensor that step number job->step_count makes under that name; its index goes to
 * *index. */
bool job_add_result(kiln_job *job, const char *name, const kiln_yaml_node *node, int64_t *index,
                    kiln_yaml_error *error);

/* Whether a tensor's elements mean more than what is stored. */
bool job_is_quantized(const job_tensor *tensor);

/* Whether elements of a type may: e4m3, e5m2, e2m1, i8, u8, i4, u4. */
bool job_is_quantizable(uint32_t type);

/* Fits a tensor's scales and zero points to it, and completes its blocks. */
bool job_fit_scales(const kiln_job *job, job_tensor *tensor, kiln_yaml_error *error);

/* How many rows and columns of scales and zero points a tensor has, by its block or its scale; 0
 * when neither says it. */
void job_scale_counts(const kiln_job *job, const job_tensor *tensor, int64_t *rows,
                      int64_t *columns);

/* What job_fit_scales has found, as a descriptor says it. */
kiln_quantization job_quantization(const kiln_job *job, const job_tensor *tensor);

/* A tensor as it stands in its file, in the type that the job reads it as. */
kiln_tensor job_file_view(const job_tensor *tensor, const kiln_tensor *stored);

/* Opens the files and gives their tensors type and shape; works out the shapes of the steps. */
bool job_open_files(kiln_job *job, kiln_yaml_error *error);
bool job_shape_steps(kiln_job *job, kiln_yaml_error *error);

/* Writes an error: located when there is a node. Returns false. */
bool job_fail(kiln_yaml_error *error, const kiln_yaml_node *node, const char *format, ...)
    KILN_PRINTF(3, 4);

/* "[360, 64]" of a tensor's shape. Returns `text`. */
const char *job_shape_text(const job_tensor *tensor, char text[160]);

/* Slots of kiln.gemm/1 as a job counts them: behind those of the operator come the scales of A and
 * B, and their zero points. */
enum {
    JOB_SCALE = KILN_GEMM_SLOTS, /* of A; that of B is the next */
    JOB_ZERO_POINT = KILN_GEMM_SLOTS + 2,
    JOB_SLOTS = KILN_GEMM_SLOTS + 4
};

/* The view that a step passes for tensor `index` in slot `slot`, without memory: shapes and strides
 * as the operator wants them (a leading batch of stride 0 where the tensor has none, vectors
 * flat). */
kiln_tensor job_view(const kiln_job *job, const job_step *step, uint32_t slot, int64_t index);

/* Makes the views of scales and zero points those of A and B, when all slots have their memory. */
void job_attach_scales(const kiln_job *job, const job_step *step, kiln_tensor tensors[JOB_SLOTS]);

/* Extent of the leading dimension that a slot of the step has; 0 = it has none. */
int64_t job_leading(const kiln_job *job, const job_step *step, uint32_t slot);

/* A contiguous tensor of that tensor's type and shape, without memory. */
kiln_tensor job_whole(const job_tensor *tensor);

/* Bytes of it. */
int64_t job_tensor_bytes(const job_tensor *tensor);

/* Whether its bytes and strides, and those of its elements in any type, can be counted at all. */
bool job_tensor_is_countable(const job_tensor *tensor);

/* Call for every tensor that a step reads, or makes: next slot after `slot` (begin with -1) that is
 * in use; -1 at the end. *index is the tensor. */
int job_next_input(const kiln_job *job, const job_step *step, int slot, int64_t *index);
int job_next_output(const kiln_job *job, const job_step *step, int slot, int64_t *index);

#endif
