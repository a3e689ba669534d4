/* SPDX-License-Identifier: Apache-2.0 */
/* The .npz format: a zip archive whose members NAME.npy are arrays, stored or deflated; zip64 where
 * sizes need it. */
#include <stdlib.h>
#include <zip.h>

#include "tools/io/internal.h"

/* No deflate stream makes more of its input than this. */
enum { DEFLATE_MAX_RATIO = 1032 };

enum { WHERE_BYTES = 512 };

static kiln_status fail_zip(io_error *error, const char *where, zip_error_t *cause)
{
    if (zip_error_code_zip(cause) == ZIP_ER_MEMORY)
        return io_fail_memory(error, where);
    return io_fail(error, KILN_PARSE, "%s: %s: the archive is damaged, write it again", where,
                   zip_error_strerror(cause));
}

/* ---- Reading ---- */

/* The member's index record, if it is one that we can and dare unpack. */
static kiln_status check_member(tensor_file *file, const char *where, int64_t index,
                                zip_stat_t *about, io_error *error)
{
    if (zip_stat_index(file->zip, (zip_uint64_t)index, 0, about) < 0)
        return fail_zip(error, where, zip_get_error(file->zip));
    size_t length = strlen(about->name);
    if (length < 4 || strcmp(about->name + length - 4, ".npy") != 0)
        return io_fail(error, KILN_UNSUPPORTED, "%s: the member is not an .npy array", where);
    if (about->encryption_method != ZIP_EM_NONE)
        return io_fail(error, KILN_UNSUPPORTED, "%s: the member is encrypted: save it without",
                       where);
    if (about->comp_method != ZIP_CM_STORE && about->comp_method != ZIP_CM_DEFLATE)
        return io_fail(
            error, KILN_UNSUPPORTED,
            "%s: compression method %u: save it with numpy.savez or numpy.savez_compressed", where,
            about->comp_method);
    bool stored = about->comp_method == ZIP_CM_STORE;
    if (about->comp_size > file->size)
        return io_fail(error, KILN_PARSE,
                       "%s: claims %llu compressed bytes in a file of %zu: the archive is damaged",
                       where, (unsigned long long)about->comp_size, file->size);
    uint64_t limit = stored ? about->comp_size : about->comp_size * DEFLATE_MAX_RATIO;
    if (about->size > limit || about->size > INT64_MAX || (stored && about->size != limit))
        return io_fail(
            error, KILN_PARSE,
            "%s: claims %llu bytes, which %llu %s bytes cannot hold: the archive is damaged", where,
            (unsigned long long)about->size, (unsigned long long)about->comp_size,
            stored ? "stored" : "compressed");
    return KILN_OK;
}

/* Exactly `size` bytes: libzip delivers fewer at the end of the data. */
static kiln_status read_exactly(zip_file_t *member, const char *where, void *out, int64_t size,
                                io_error *error)
{
    for (int64_t done = 0; done < size;) {
        zip_int64_t part = zip_fread(member, (char *)out + done, (zip_uint64_t)(size - done));
        if (part < 0)
            return fail_zip(error, where, zip_file_get_error(member));
        if (part == 0)
            return io_fail(error, KILN_PARSE,
                           "%s: ends after %lld bytes: the archive is damaged, write it again",
                           where, (long long)done);
        done += part;
    }
    return KILN_OK;
}

static kiln_status parse_header(zip_file_t *member, const char *where, int64_t total,
                                tensor_entry *entry, io_error *error)
{
    uint8_t prefix[NPY_PREFIX_BYTES] = {0};
    int64_t size;
    kiln_status status = read_exactly(member, where, prefix,
                                      total < NPY_PREFIX_BYTES ? total : NPY_PREFIX_BYTES, error);
    if (!status)
        status = npy_header_size(where, prefix, total, &size, error);
    if (status)
        return status;
    uint8_t *header = malloc((size_t)size + NPY_PREFIX_BYTES);
    if (!header)
        return io_fail_memory(error, where);
    memcpy(header, prefix, sizeof prefix);
    status = read_exactly(member, where, header + sizeof prefix, size - NPY_PREFIX_BYTES, error);
    if (!status)
        status = npy_parse(where, header, size, total, entry, error);
    free(header);
    return status;
}

/* Opens the member and hands it on; the record of its sizes was found good. */
static kiln_status open_member(tensor_file *file, int64_t index, char where[WHERE_BYTES],
                               zip_stat_t *about, zip_file_t **member, io_error *error)
{
    const char *name = zip_get_name(file->zip, (zip_uint64_t)index, 0);
    snprintf(where, WHERE_BYTES, "%s: member '%.120s'", file->path, name ? name : "?");
    kiln_status status = check_member(file, where, index, about, error);
    if (status)
        return status;
    *member = zip_fopen_index(file->zip, (zip_uint64_t)index, 0);
    return *member ? KILN_OK : fail_zip(error, where, zip_get_error(file->zip));
}

static kiln_status read_member(tensor_file *file, int64_t index, tensor_entry *entry,
                               io_error *error)
{
    char where[WHERE_BYTES];
    zip_stat_t about;
    zip_file_t *member;
    kiln_status status = open_member(file, index, where, &about, &member, error);
    if (status)
        return io_settle_entry(file, entry, status, error);
    status = parse_header(member, where, (int64_t)about.size, entry, error);
    zip_fclose(member);
    return io_settle_entry(file, entry, status, error);
}

/* numpy.load() calls the member NAME.npy by NAME. */
static tensor_entry *add_member(tensor_file *file, int64_t index)
{
    const char *name = zip_get_name(file->zip, (zip_uint64_t)index, 0);
    tensor_entry *entry = io_add_entry(file, name ? name : "");
    size_t length = entry ? strlen(entry->name) : 0;
    if (length >= 4 && strcmp(entry->name + length - 4, ".npy") == 0)
        ((char *)entry->name)[length - 4] = '\0';
    return entry;
}

kiln_status npz_read(tensor_file *file, io_error *error)
{
    zip_error_t cause;
    zip_error_init(&cause);
    zip_source_t *source = zip_source_buffer_create(file->bytes, file->size, 0, &cause);
    if (source)
        file->zip = zip_open_from_source(source, ZIP_RDONLY, &cause);
    if (!file->zip) {
        zip_source_free(source);
        kiln_status status = fail_zip(error, file->path, &cause);
        zip_error_fini(&cause);
        return status;
    }
    zip_error_fini(&cause);
    int64_t count = zip_get_num_entries(file->zip, 0);
    file->members = calloc((size_t)count + 1, sizeof *file->members);
    if (!file->members)
        return io_fail_memory(error, file->path);
    for (int64_t i = 0; i < count; i++) {
        tensor_entry *entry = add_member(file, i);
        if (!entry)
            return io_fail_memory(error, file->path);
        kiln_status status = read_member(file, i, entry, error);
        if (status)
            return status;
    }
    return KILN_OK;
}

kiln_status npz_load(tensor_file *file, int64_t index, io_error *error)
{
    tensor_entry *entry = &file->entries[index];
    char where[WHERE_BYTES];
    zip_stat_t about;
    zip_file_t *member;
    kiln_status status = open_member(file, index, where, &about, &member, error);
    if (status)
        return status;
    uint8_t *bytes = aligned_alloc(64, (about.size + 63) / 64 * 64);
    status = bytes ? read_exactly(member, where, bytes, (int64_t)about.size, error)
                   : io_fail(error, KILN_NO_MEMORY,
                             "%s: %llu bytes are more than memory can hold: extract the array to "
                             "an .npy file, which is mapped",
                             where, (unsigned long long)about.size);
    /* Only the end of the data makes libzip compare size and checksum. */
    uint8_t beyond;
    zip_int64_t more = status ? 0 : zip_fread(member, &beyond, 1);
    if (more < 0)
        status = fail_zip(error, where, zip_file_get_error(member));
    else if (more > 0)
        status =
            io_fail(error, KILN_PARSE,
                    "%s: holds more than the %llu bytes that it claims: the archive is damaged",
                    where, (unsigned long long)about.size);
    zip_fclose(member);
    if (status) {
        free(bytes);
        return status;
    }
    file->members[index] = bytes;
    entry->tensor.data = bytes + (int64_t)about.size - entry->bytes;
    return KILN_OK;
}

/* ---- Writing ---- */

/* A member to be: its .npy header, then its elements. */
struct member {
    char header[NPY_WRITE_MAX];
    size_t header_size, position; /* position in the header */
    const kiln_tensor *tensor;
    row_major elements;
    zip_error_t error;
};

static zip_int64_t read_source(struct member *member, char *out, zip_uint64_t size)
{
    size_t left = member->header_size - member->position;
    size_t part = size < left ? (size_t)size : left;
    memcpy(out, member->header + member->position, part);
    member->position += part;
    return (zip_int64_t)(part + row_major_read(&member->elements, out + part, (size_t)size - part));
}

/* libzip asks for the member's bytes by this. */
static zip_int64_t serve_source(void *context, void *data, zip_uint64_t size,
                                zip_source_cmd_t command)
{
    struct member *member = context;
    switch (command) {
    case ZIP_SOURCE_SUPPORTS:
        return ZIP_SOURCE_SUPPORTS_READABLE;
    case ZIP_SOURCE_OPEN:
        member->position = 0;
        row_major_open(&member->elements, member->tensor);
        return 0;
    case ZIP_SOURCE_READ:
        return read_source(member, data, size);
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE: /* the members are the caller's array */
        return 0;
    case ZIP_SOURCE_STAT: {
        zip_stat_t *about = ZIP_SOURCE_GET_ARGS(zip_stat_t, data, size, &member->error);
        if (!about)
            return -1;
        zip_stat_init(about);
        about->valid = ZIP_STAT_SIZE;
        about->size = member->header_size + (zip_uint64_t)member->elements.total;
        return sizeof *about;
    }
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&member->error, data, size);
    default:
        zip_error_set(&member->error, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
}

static kiln_status fail_write(io_error *error, const char *path, zip_error_t *cause)
{
    return io_fail(error, zip_error_code_zip(cause) == ZIP_ER_MEMORY ? KILN_NO_MEMORY : KILN_IO,
                   "%s: could not be written, nothing was changed: %s", path,
                   zip_error_strerror(cause));
}

static kiln_status add_output(zip_t *zip, const char *path, const tensor_output *output,
                              struct member *member, io_error *error)
{
    kiln_status status =
        npy_format(path, &output->tensor, member->header, &member->header_size, error);
    if (status)
        return status;
    member->tensor = &output->tensor;
    row_major_open(&member->elements, member->tensor);
    size_t length = strlen(output->name);
    char *name = malloc(length + sizeof ".npy");
    if (!name)
        return io_fail_memory(error, path);
    memcpy(name, output->name, length);
    memcpy(name + length, ".npy", sizeof ".npy");
    zip_source_t *source = zip_source_function(zip, serve_source, member);
    zip_int64_t index = source ? zip_file_add(zip, name, source, ZIP_FL_ENC_UTF_8) : -1;
    free(name);
    if (index < 0) {
        zip_source_free(source);
        return fail_write(error, path, zip_get_error(zip));
    }
    enum { FIRST_OF_1980 = 1 << 5 | 1 }; /* as NumPy: equal tensors make equal files */
    if (zip_set_file_compression(zip, (zip_uint64_t)index, ZIP_CM_STORE, 0) < 0 ||
        zip_file_set_dostime(zip, (zip_uint64_t)index, 0, FIRST_OF_1980, 0) < 0)
        return fail_write(error, path, zip_get_error(zip));
    return KILN_OK;
}

kiln_status npz_write(const char *path, const char *temporary, const tensor_output *outputs,
                      int64_t count, io_error *error)
{
    if (count == 0)
        return io_fail(error, KILN_INVALID,
                       "%s: there is no tensor to write, and .npz cannot be empty: write one, or "
                       ".safetensors",
                       path);
    struct member *members = calloc((size_t)count, sizeof *members);
    if (!members)
        return io_fail_memory(error, path);
    int code = 0;
    kiln_status status = KILN_OK;
    zip_t *zip = zip_open(temporary, ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (!zip) {
        zip_error_t cause;
        zip_error_init_with_code(&cause, code);
        status = fail_write(error, path, &cause);
        zip_error_fini(&cause);
    }
    for (int64_t i = 0; !status && i < count; i++)
        status = add_output(zip, path, &outputs[i], &members[i], error);
    if (!status && zip_close(zip) < 0)
        status = fail_write(error, path, zip_get_error(zip));
    if (status && zip)
        zip_discard(zip);
    free(members);
    return status;
}
