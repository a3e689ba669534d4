/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets of tensor files share. */
#ifndef KILN_TESTS_FUZZ_TENSOR_FILE_H
#define KILN_TESTS_FUZZ_TENSOR_FILE_H

#include "tests/fuzz/must.h"
#include "tools/io/digest.h"
#include "tools/io/internal.h"

/* Writes the tensors in the target's format. Returns the file, allocated; NULL when the format
 * cannot hold them. */
typedef char *write_tensors_fn(const tensor_output *outputs, int64_t count, size_t *size);

/* The same tensor without gaps between its elements, in memory that the caller frees; its elements
 * are found by its strides, one by one. */
static inline kiln_tensor gather(const kiln_tensor *tensor, int64_t elements)
{
    int64_t index[KILN_MAX_RANK] = {0}, bits = kiln_type_bits(tensor->type);
    bool rows_of_bits = bits < 8 && tensor->rank > 0;
    int64_t row = rows_of_bits ? tensor->shape[tensor->rank - 1] : 1;
    size_t row_bytes = (size_t)kiln_type_row_bytes(tensor->type, row), at = 0;
    char *copy = malloc((size_t)(elements / row) * row_bytes);
    must(copy);
    for (int64_t done = 0; done < elements; done += row, at += row_bytes) {
        int64_t offset = 0;
        for (uint32_t i = 0; i < tensor->rank; i++)
            offset += index[i] * tensor->strides[i];
        memcpy(copy + at, (const char *)tensor->data + offset * bits / 8, row_bytes);
        for (uint32_t i = tensor->rank - rows_of_bits; i-- > 0;) {
            if (++index[i] < tensor->shape[i])
                break;
            index[i] = 0;
        }
    }
    return kiln_tensor_host(tensor->type, copy, tensor->rank, tensor->shape);
}

static inline void digest_of(const kiln_tensor *tensor, char digest[TENSOR_DIGEST_BYTES])
{
    io_error error;
    must(tensor_digest(tensor, digest, &error) == KILN_OK);
}

/* What is written must be read back as it was. */
static inline void write_and_read(const char *name, const tensor_output *outputs, int64_t count,
                                  write_tensors_fn *write)
{
    size_t size;
    io_error error;
    tensor_file *file;
    char *bytes = write(outputs, count, &size);
    if (!bytes)
        return;
    must(tensor_file_open_memory(name, bytes, size, &file, &error) == KILN_OK);
    must(tensor_file_count(file) == count);
    for (int64_t i = 0; i < count; i++) {
        char before[TENSOR_DIGEST_BYTES], after[TENSOR_DIGEST_BYTES];
        kiln_tensor tensor;
        must(tensor_file_get(file, outputs[i].name, &tensor, &error) == KILN_OK);
        digest_of(&outputs[i].tensor, before);
        digest_of(&tensor, after);
        must(strcmp(before, after) == 0);
    }
    tensor_file_close(file);
    free(bytes);
}

/* Opens the bytes as a file of that name, reads every element of every tensor that can be had,
 * writes them anew, and stops the program where a promise is broken. Returns 0. */
static inline int read_all_tensors(const char *name, const uint8_t *bytes, size_t size,
                                   write_tensors_fn *write)
{
    tensor_file *file = NULL;
    io_error error = {""};
    if (tensor_file_open_memory(name, bytes, size, &file, &error) != KILN_OK) {
        must(!file && error.text[0]);
        return 0;
    }
    int64_t count = tensor_file_count(file), good = 0;
    tensor_output *outputs = calloc((size_t)count + 1, sizeof *outputs);
    for (int64_t i = 0; outputs && i < count; i++) {
        const tensor_entry *entry = tensor_file_at(file, i);
        tensor_output *output = &outputs[good];
        output->name = entry->name;
        kiln_status status = tensor_file_get(file, entry->name, &output->tensor, &error);
        must((status == KILN_UNSUPPORTED) == (entry->refusal != NULL));
        if (status != KILN_OK)
            continue;
        char digest[TENSOR_DIGEST_BYTES], again[TENSOR_DIGEST_BYTES];
        digest_of(&output->tensor, digest);
        int64_t elements = kiln_tensor_elements(&output->tensor);
        if (elements > 0) {
            kiln_tensor copy = gather(&output->tensor, elements);
            digest_of(&copy, again);
            must(strcmp(digest, again) == 0);
            free(copy.data);
        }
        good++;
    }
    write_and_read(name, outputs, good, write);
    free(outputs);
    tensor_file_close(file);
    return 0;
}

/* For formats whose writer takes a stream. */
static inline char *write_to_memory(kiln_status (*write)(const char *path, FILE *stream,
                                                         const tensor_output *outputs,
                                                         int64_t count, io_error *error),
                                    const tensor_output *outputs, int64_t count, size_t *size)
{
    char *bytes = NULL;
    io_error error;
    FILE *stream = open_memstream(&bytes, size);
    must(stream);
    kiln_status status = write("fuzz", stream, outputs, count, &error);
    must(fclose(stream) == 0);
    if (status == KILN_OK)
        return bytes;
    free(bytes);
    return NULL;
}

#endif
