/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: opening the files and taking types and shapes from them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kiln/command.h"
#include "tools/kiln/job.h"

/* ---- Files: each is opened once ---- */

static bool open_file(kiln_job *job, const char *name, const kiln_yaml_node *node,
                      tensor_file **file, kiln_yaml_error *error)
{
    if (!name[0])
        return job_fail(error, node, "the name of a file is wanted, not ''");
    char *path = tool_text("%s%s", name[0] == '/' ? "" : job->folder, name);
    for (int64_t i = 0; i < job->file_count; i++)
        if (strcmp(job->files[i].path, path) == 0) {
            free(path);
            *file = job->files[i].file;
            return true;
        }
    io_error problem;
    if (tensor_file_open(path, file, &problem) != KILN_OK) {
        free(path);
        return job_fail(error, node, "%s", problem.text);
    }
    job->files = tool_grow(job->files, (size_t)job->file_count + 1, sizeof *job->files);
    job->files[job->file_count++] = (job_file){path, *file};
    return true;
}

static const tensor_entry *entry_by_name(const tensor_file *file, const char *name)
{
    for (int64_t i = 0; i < tensor_file_count(file); i++)
        if (strcmp(tensor_file_at(file, i)->name, name) == 0)
            return tensor_file_at(file, i);
    return NULL;
}

static bool no_such_entry(const tensor_file *file, const job_tensor *tensor, kiln_yaml_error *error)
{
    int64_t count = tensor_file_count(file);
    const char **names = tool_allocate((size_t)count, sizeof *names);
    for (int64_t i = 0; i < count; i++)
        names[i] = tensor_file_at(file, i)->name;
    const char *near = kiln_yaml_nearest(tensor->entry, names, (size_t)count);
    free(names);
    return job_fail(error, tensor->node, "%s has no tensor '%s'%s%s%s", tensor->file, tensor->entry,
                    near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static bool ask_which(const tensor_file *file, const job_tensor *tensor, kiln_yaml_error *error)
{
    char names[256] = "";
    size_t used = 0;
    int64_t count = tensor_file_count(file);
    for (int64_t i = 0; i < count && i < 8 && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 tensor_file_at(file, i)->name);
    return job_fail(error, tensor->node, "%s holds %lld tensors: say which of %s%s", tensor->file,
                    (long long)count, names, count > 8 ? ", …" : "");
}

static bool find_entry(const tensor_file *file, const job_tensor *tensor,
                       const tensor_entry **entry, kiln_yaml_error *error)
{
    if (tensor->entry)
        *entry = entry_by_name(file, tensor->entry);
    else if (tensor_file_count(file) == 1)
        *entry = tensor_file_at(file, 0);
    else
        return ask_which(file, tensor, error);
    if (!*entry)
        return no_such_entry(file, tensor, error);
    if ((*entry)->refusal)
        return job_fail(error, tensor->node, "%s: %s", tensor->file, (*entry)->refusal);
    return true;
}

/* ---- Rows ---- */

static bool is_integer(uint32_t type)
{
    switch (type) {
#define TYPE_CASE(id, number, name, bits, kind) \
    case number:                                \
        return kind == 's' || kind == 'u';
        KILN_TYPES(TYPE_CASE)
#undef TYPE_CASE
    default:
        return false;
    }
}

/* Replaces the leading extent by the number of rows that are taken. */
static bool take_rows(job_tensor *tensor, const kiln_tensor *indices, kiln_yaml_error *error)
{
    int64_t count = indices->shape[0], rows = tensor->shape[0];
    int64_t *list = tool_allocate((size_t)count, sizeof *list);
    tensor->row_list = list;
    for (int64_t i = 0; i < count; i++) {
        double index = kiln_load_f64(indices->type, indices->data, i * indices->strides[0]);
        if (!(index >= 0 && index < (double)rows))
            return job_fail(error, tensor->node, "%s[%lld] is %.0f, but %s has rows 0 to %lld",
                            tensor->rows, (long long)i, index, tensor->file, (long long)rows - 1);
        list[i] = (int64_t)index;
    }
    tensor->shape[0] = count;
    char shape[160];
    return job_tensor_is_countable(tensor) ||
           job_fail(error, tensor->node, "rows: '%s' would be %s, which is too large", tensor->name,
                    job_shape_text(tensor, shape));
}

static bool read_rows(kiln_job *job, job_tensor *tensor, kiln_yaml_error *error)
{
    tensor_file *file;
    kiln_tensor indices;
    io_error problem;
    if (!open_file(job, tensor->rows, tensor->node, &file, error))
        return false;
    if (tensor_file_get(file, NULL, &indices, &problem) != KILN_OK)
        return job_fail(error, tensor->node, "rows: %s", problem.text);
    if (indices.rank != 1 || !is_integer(indices.type))
        return job_fail(error, tensor->node,
                        "rows: %s is %s of rank %u; a vector of whole numbers is wanted",
                        tensor->rows, kiln_type_name(indices.type), indices.rank);
    if (tensor->rank == 0 || kiln_type_bits(tensor->type) < 8)
        return job_fail(error, tensor->node, "rows cannot be taken from a %s tensor of rank %u",
                        kiln_type_name(tensor->type), tensor->rank);
    return take_rows(tensor, &indices, error);
}

/* ---- Tensors ---- */

/* Whole numbers whose bits mean something else: as wide, or two of 4 bits in a byte. */
static bool read_as(job_tensor *tensor, const kiln_tensor *found, kiln_yaml_error *error)
{
    int bits = kiln_type_bits(tensor->read_as), stored = kiln_type_bits(tensor->type);
    bool halves = bits == 4 && stored == 8;
    if (tensor->read_as == 0 || tensor->read_as == tensor->type)
        return true;
    if (!is_integer(tensor->type) || (bits != stored && !halves))
        return job_fail(error, tensor->node,
                        "type: '%s' is %s in %s; only whole numbers as wide as %s%s can be read as "
                        "that",
                        tensor->name, kiln_type_name(tensor->type), tensor->file,
                        kiln_type_name(tensor->read_as), bits == 4 ? ", or bytes of two," : "");
    if (halves) {
        uint32_t last = tensor->rank - 1;
        if (tensor->rank == 0 || (found->strides[last] != 1 && tensor->shape[last] > 1) ||
            tensor->shape[last] > INT64_MAX / 2)
            return job_fail(error, tensor->node,
                            "type: '%s' must have its rows in one piece to be read as two %s a "
                            "byte",
                            tensor->name, kiln_type_name(tensor->read_as));
        tensor->shape[last] *= 2;
    }
    tensor->type = tensor->read_as;
    return job_tensor_is_countable(tensor) ||
           job_fail(error, tensor->node, "type: '%s' would be too large", tensor->name);
}

kiln_tensor job_file_view(const job_tensor *tensor, const kiln_tensor *stored)
{
    kiln_tensor view = *stored;
    bool halves = kiln_type_bits(tensor->type) < kiln_type_bits(stored->type);
    view.type = tensor->type;
    for (uint32_t i = 0; halves && i < view.rank; i++)
        view.strides[i] *= i + 1 < view.rank ? 2 : 1;
    if (halves)
        view.shape[view.rank - 1] = tensor->shape[view.rank - 1];
    return view;
}

/* Whether bytes that hold one number of 4 bits each say nothing else in their other four: those may
 * be 0, the sign of the number, or the number again. */
static bool is_one_a_byte(const kiln_tensor *stored, bool has_sign)
{
    const int64_t enough = INT64_C(1) << 20; /* to tell, in files that have no end */
    int64_t elements = kiln_tensor_elements(stored);
    for (int64_t i = 0; i < elements && i < enough; i++) {
        int64_t rest = i, offset = 0;
        for (uint32_t d = stored->rank; d-- > 0; rest /= stored->shape[d])
            offset += rest % stored->shape[d] * stored->strides[d];
        unsigned byte = (unsigned)(int)kiln_load_f64(stored->type, stored->data, offset) & 255;
        unsigned low = byte & 15, high = byte >> 4;
        if (high != 0 && high != low && !(has_sign && high == 15 && low >= 8))
            return false;
    }
    return true;
}

/* Zero points of 4 bits: rows of them begin with a byte, so that of the last byte half may be
 * unused. Block or scale says it; otherwise a byte that is alone in its row is one number. */
static bool shape_zero_point(const kiln_job *job, const job_tensor *tensor, kiln_yaml_error *error)
{
    job_tensor *zero = &job->tensors[tensor->zero_point];
    kiln_tensor stored;
    io_error problem;
    if (!zero->source || zero->rank == 0 || kiln_type_bits(zero->type) != 4)
        return true;
    if (tensor_file_get(zero->source, zero->entry, &stored, &problem) != KILN_OK)
        return job_fail(error, zero->node, "%s", problem.text);
    int64_t *count = &zero->shape[zero->rank - 1], bytes = stored.shape[zero->rank - 1], rows,
            columns;
    job_scale_counts(job, tensor, &rows, &columns);
    if (zero->rank == 1)
        columns *= rows, rows = 1;
    bool alone = kiln_tensor_elements(&stored) == 1, two = columns == 2 && (rows == 1 || !alone),
         odd = bytes == 1 ? !two : columns == 2 * bytes - 1;
    if (kiln_type_bits(stored.type) != 8 || *count != 2 * bytes || !odd)
        return true;
    *count -= 1;
    return bytes > 1 || is_one_a_byte(&stored, zero->type == KILN_I4) ||
           job_fail(error, tensor->zero_point_node,
                    "zero_point '%s' has one number of %s in a byte, its low four bits, but the "
                    "others are not 0; say which elements share one of two, as in block: [1, 32], "
                    "or clear them",
                    zero->name, kiln_type_name(zero->type));
}

static bool open_tensor(kiln_job *job, job_tensor *tensor, kiln_yaml_error *error)
{
    const tensor_entry *entry = NULL;
    if (!open_file(job, tensor->file, tensor->node, &tensor->source, error) ||
        !find_entry(tensor->source, tensor, &entry, error))
        return false;
    tensor->type = entry->tensor.type;
    tensor->rank = entry->tensor.rank;
    memcpy(tensor->shape, entry->tensor.shape, sizeof tensor->shape);
    return read_as(tensor, &entry->tensor, error) &&
           (!tensor->rows || read_rows(job, tensor, error));
}

bool job_open_files(kiln_job *job, kiln_yaml_error *error)
{
    for (int64_t i = 0; i < job->tensor_count; i++) {
        tool_progress("opening tensor %lld of %lld", (long long)i + 1,
                      (long long)job->tensor_count);
        if (job->tensors[i].file && !open_tensor(job, &job->tensors[i], error))
            return false;
    }
    for (int64_t i = 0; i < job->tensor_count; i++)
        if (job->tensors[i].zero_point != JOB_NONE &&
            !shape_zero_point(job, &job->tensors[i], error))
            return false;
    return true;
}
