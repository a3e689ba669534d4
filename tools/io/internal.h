/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers and writers of tensor files share. */
#ifndef KILN_TOOLS_IO_INTERNAL_H
#define KILN_TOOLS_IO_INTERNAL_H

#include <stdio.h>

#include "tools/io/row_major.h"
#include "tools/io/tensor_file.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensor files are views of little-endian data: this host is big-endian"
#endif

struct zip;

struct tensor_file {
    char *path;           /* as given, for messages */
    const uint8_t *bytes; /* the whole file */
    size_t size;
    bool mapped;           /* `bytes` is a mapping of ours */
    tensor_entry *entries; /* names and refusals are allocated */
    int64_t count, capacity;
    tensor_entry **by_name; /* sorted */
    struct zip *zip;        /* of .npz; entry i is member i */
    void **members;         /* of .npz: the contents that were read, by entry */
};

/* Writes the sentence and returns `status`. */
kiln_status io_fail(io_error *error, kiln_status status, const char *format, ...) KILN_PRINTF(3, 4);

/* The same with the system's words for `errno` at its end, and the status that fits it. */
kiln_status io_fail_system(io_error *error, int number, const char *format, ...) KILN_PRINTF(3, 4);

kiln_status io_fail_memory(io_error *error, const char *path);

/* Appends an entry with a copy of `name`; NULL when memory is exhausted. Valid until the next call.
 */
tensor_entry *io_add_entry(tensor_file *file, const char *name);

/* Turns an UNSUPPORTED that concerns this entry alone into its refusal; passes every other status
 * on. */
kiln_status io_settle_entry(const tensor_file *file, tensor_entry *entry, kiln_status status,
                            io_error *error);

/* Bytes of row-major elements of `bits` each. False when they, or the product of the extents other
 * than zero, go beyond 63 bits, or when they do not fill whole bytes. */
bool io_measure(int bits, uint32_t rank, const int64_t *shape, int64_t *bytes);

/* ---- .npy ---- */

enum { NPY_PREFIX_BYTES = 12, NPY_HEADER_MAX = 65536 };

/* Bytes up to the end of the header, from the first NPY_PREFIX_BYTES of an array; `total` is the
 * size of all. `where` names the file or member in messages. */
kiln_status npy_header_size(const char *where, const uint8_t *prefix, int64_t total,
                            int64_t *header_size, io_error *error);

/* Fills the entry from a header of `header_size` bytes; the elements must fill the rest of `total`
 * exactly. */
kiln_status npy_parse(const char *where, const uint8_t *header, int64_t header_size, int64_t total,
                      tensor_entry *entry, io_error *error);

/* The header of a row-major array, padded so that the elements are aligned to 64 bytes. */
enum { NPY_WRITE_MAX = 512 };
kiln_status npy_format(const char *path, const kiln_tensor *tensor, char header[NPY_WRITE_MAX],
                       size_t *size, io_error *error);

/* ---- Readers: add the entries of file->bytes ---- */

kiln_status npy_read(tensor_file *file, io_error *error);
kiln_status npz_read(tensor_file *file, io_error *error);
kiln_status safetensors_read(tensor_file *file, io_error *error);

/* Reads member `index` into file->members and sets the entry's data. */
kiln_status npz_load(tensor_file *file, int64_t index, io_error *error);

/* ---- Writers: `path` is for messages, `temporary` an empty file ---- */

kiln_status npy_write(const char *path, FILE *stream, const tensor_output *outputs, int64_t count,
                      io_error *error);
kiln_status safetensors_write(const char *path, FILE *stream, const tensor_output *outputs,
                              int64_t count, io_error *error);
kiln_status npz_write(const char *path, const char *temporary, const tensor_output *outputs,
                      int64_t count, io_error *error);

/* Writes all elements of a tensor that row_major_open() accepts. */
kiln_status io_write_elements(const char *path, FILE *stream, const kiln_tensor *tensor,
                              io_error *error);

#endif
