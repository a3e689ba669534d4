/* SPDX-License-Identifier: Apache-2.0 */
/* The .safetensors format: https://github.com/huggingface/safetensors#format
 *
 * Header length (8 bytes, little-endian), a JSON object {NAME: {"dtype", "shape", "data_offsets":
 * [BEGIN, END]}, …} which may hold "__metadata__", an object of strings, and end in spaces; then
 * the data, which the tensors cover without gap or overlap. Nothing is aligned.
 *
 * The header is parsed member by member, so that memory stays in proportion to the tensors: as one
 * JSON tree, a hostile header of 100 MB would take gigabytes. */
#include <jansson.h>
#include <stdlib.h>

#include "tools/io/internal.h"

enum { HEADER_MAX = 100000000, ENTRY_MAX = 65536 };

/* The format's element types. F4 and F6 are counted in elements, packed without regard to rows. */
static const struct dtype {
    const char *name;
    int bits;
    uint32_t type; /* NONE: Kiln has no such type */
} dtypes[] = {{"F64", 64, KILN_F64},
              {"F32", 32, KILN_F32},
              {"F16", 16, KILN_F16},
              {"BF16", 16, KILN_BF16},
              {"F8_E4M3", 8, KILN_E4M3},
              {"F8_E5M2", 8, KILN_E5M2},
              {"F8_E8M0", 8, KILN_UE8M0},
              {"F4", 4, KILN_E2M1},
              {"I64", 64, KILN_I64},
              {"I32", 32, KILN_I32},
              {"I16", 16, KILN_I16},
              {"I8", 8, KILN_I8},
              {"U64", 64, KILN_U64},
              {"U32", 32, KILN_U32},
              {"U16", 16, KILN_U16},
              {"U8", 8, KILN_U8},
              {"BOOL", 8, KILN_BOOL},
              {"C64", 64, KILN_TYPE_NONE},
              {"F8_E4M3FNUZ", 8, KILN_TYPE_NONE},
              {"F8_E5M2FNUZ", 8, KILN_TYPE_NONE},
              {"F6_E2M3", 6, KILN_TYPE_NONE},
              {"F6_E3M2", 6, KILN_TYPE_NONE}};

enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

/* ---- Reading the header ---- */

/* The header's text. Offsets in messages count from the beginning of the file. */
struct header {
    tensor_file *file;
    const char *begin, *at, *end;
    io_error *error;
};

static kiln_status malformed(const struct header *header, const char *at, const char *what)
{
    return io_fail(header->error, KILN_PARSE,
                   "%s: at byte %lld, in the header: %s: the file is damaged, save it again",
                   header->file->path, (long long)(at - header->begin) + 8, what);
}

static bool accept(struct header *header, char c)
{
    while (header->at < header->end && strchr(" \t\r\n", *header->at) && *header->at)
        header->at++;
    if (header->at == header->end || *header->at != c)
        return false;
    header->at++;
    return true;
}

/* One JSON value of at most `limit` bytes; the caller releases it. */
static kiln_status parse_value(struct header *header, size_t limit, json_t **value)
{
    size_t left = (size_t)(header->end - header->at);
    json_error_t cause;
    *value = json_loadb(header->at, left < limit ? left : limit,
                        JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &cause);
    if (!*value) {
        bool cut = left > limit && json_error_code(&cause) == json_error_premature_end_of_input;
        if (!cause.text[0]) /* nothing is wrong with the text */
            return io_fail_memory(header->error, header->file->path);
        return malformed(header, header->at + cause.position,
                         cut ? "a member longer than 65536 bytes" : cause.text);
    }
    header->at += cause.position;
    return KILN_OK;
}

/* The next key and its colon. `*key` is NULL after the last member. */
static kiln_status next_key(struct header *header, bool first, json_t **key)
{
    *key = NULL;
    if (accept(header, '}'))
        return KILN_OK;
    if (!first && !accept(header, ','))
        return malformed(header, header->at, "expected ',' or '}'");
    accept(header, ' ');
    if (header->at == header->end || *header->at != '"')
        return malformed(header, header->at, "expected a name in quotes");
    kiln_status status = parse_value(header, HEADER_MAX, key);
    if (!status && !accept(header, ':')) {
        json_decref(*key);
        status = malformed(header, header->at, "expected ':'");
    }
    return status;
}

static kiln_status check_metadata(struct header *header)
{
    if (!accept(header, '{'))
        return malformed(header, header->at, "__metadata__ must be an object of strings");
    for (bool first = true;; first = false) {
        json_t *key, *value;
        kiln_status status = next_key(header, first, &key);
        if (status || !key)
            return status;
        json_decref(key);
        const char *at = header->at;
        status = parse_value(header, HEADER_MAX, &value);
        if (status)
            return status;
        bool string = json_is_string(value);
        json_decref(value);
        if (!string)
            return malformed(header, at, "a value of __metadata__ is not a string");
    }
}

/* Type and shape of an entry, against the bytes that it claims. UNSUPPORTED concerns this entry
 * alone. */
static kiln_status describe(const struct header *header, const char *dtype, const json_t *shape,
                            tensor_entry *entry)
{
    const char *path = header->file->path;
    io_error *error = header->error;
    int64_t extents[KILN_MAX_RANK] = {0}, bytes;
    size_t rank = json_array_size(shape);
    int i = 0;
    while (i < DTYPE_COUNT && strcmp(dtype, dtypes[i].name) != 0)
        i++;
    if (i == DTYPE_COUNT)
        return io_fail(error, KILN_UNSUPPORTED,
                       "%s: tensor '%.120s' has the unknown dtype '%.40s': convert it", path,
                       entry->name, dtype);
    if (rank > KILN_MAX_RANK)
        return io_fail(error, KILN_UNSUPPORTED,
                       "%s: tensor '%.120s' has rank %zu, tensors at most %d: reshape it", path,
                       entry->name, rank, KILN_MAX_RANK);
    for (size_t d = 0; d < rank; d++) {
        extents[d] = json_integer_value(json_array_get(shape, d));
        if (!json_is_integer(json_array_get(shape, d)) || extents[d] < 0)
            return io_fail(
                error, KILN_PARSE,
                "%s: tensor '%.120s': size %zu of the shape is not a whole number of zero "
                "or more: the file is damaged, save it again",
                path, entry->name, d);
    }
    if (!io_measure(dtypes[i].bits, (uint32_t)rank, extents, &bytes) || bytes != entry->bytes)
        return io_fail(
            error, KILN_PARSE,
            "%s: tensor '%.120s': %lld bytes of data do not fit its shape and dtype %s: the "
            "file is damaged, save it again",
            path, entry->name, (long long)entry->bytes, dtype);
    if (dtypes[i].type == KILN_TYPE_NONE)
        return io_fail(error, KILN_UNSUPPORTED,
                       "%s: tensor '%.120s' has dtype %s, which Kiln does not compute with: "
                       "convert it",
                       path, entry->name, dtype);
    if (dtypes[i].bits < 8 && bytes > 0 && (rank == 0 || extents[rank - 1] % 2 != 0))
        return io_fail(error, KILN_UNSUPPORTED,
                       "%s: tensor '%.120s' of dtype %s has an odd innermost size, so that rows "
                       "do not start on bytes: pad it to an even one",
                       path, entry->name, dtype);
    entry->tensor = kiln_tensor_host(dtypes[i].type, NULL, (uint32_t)rank, extents);
    return KILN_OK;
}

static kiln_status add_tensor(struct header *header, const char *name, const json_t *value)
{
    tensor_file *file = header->file;
    const char *dtype;
    const json_t *shape;
    json_int_t begin, end;
    json_error_t cause;
    if (json_unpack_ex((json_t *)value, &cause, JSON_STRICT, "{s:s, s:o, s:[I,I!]!}", "dtype",
                       &dtype, "shape", &shape, "data_offsets", &begin, &end) < 0 ||
        !json_is_array(shape))
        return io_fail(header->error, KILN_PARSE,
                       "%s: tensor '%.120s': needs dtype, shape (a list) and data_offsets (two "
                       "whole numbers), and nothing else: %s",
                       file->path, name, cause.text);
    if (begin < 0 || end < begin)
        return io_fail(header->error, KILN_PARSE,
                       "%s: tensor '%.120s': data_offsets [%lld, %lld] are negative or run "
                       "backwards: the file is damaged, save it again",
                       file->path, name, (long long)begin, (long long)end);
    tensor_entry *entry = io_add_entry(file, name);
    if (!entry)
        return io_fail_memory(header->error, file->path);
    entry->bytes = end - begin;
    kiln_status status = describe(header, dtype, shape, entry);
    entry->tensor.byte_offset = begin;
    return io_settle_entry(file, entry, status, header->error);
}

static kiln_status parse_members(struct header *header)
{
    header->at++; /* the brace, seen when the file was recognised */
    for (bool first = true;; first = false) {
        json_t *key, *value;
        kiln_status status = next_key(header, first, &key);
        if (status)
            return status;
        if (!key)
            break;
        if (strcmp(json_string_value(key), "__metadata__") == 0) {
            status = check_metadata(header);
        } else {
            status = parse_value(header, ENTRY_MAX, &value);
            if (!status) {
                status = add_tensor(header, json_string_value(key), value);
                json_decref(value);
            }
        }
        json_decref(key);
        if (status)
            return status;
    }
    accept(header, ' ');
    return header->at < header->end
               ? malformed(header, header->at, "expected nothing but spaces after the object")
               : KILN_OK;
}

/* ---- Reading the data ---- */

static int compare_places(const void *left, const void *right)
{
    const tensor_entry *a = left, *b = right;
    if (a->tensor.byte_offset != b->tensor.byte_offset)
        return a->tensor.byte_offset < b->tensor.byte_offset ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Puts the entries in the order of their data, which must cover `size` bytes exactly. */
static kiln_status place_entries(const struct header *header, int64_t size)
{
    tensor_file *file = header->file;
    const char *data = header->end;
    int64_t expected = 0;
    if (file->count > 0) /* else there is no array */
        qsort(file->entries, (size_t)file->count, sizeof *file->entries, compare_places);
    for (int64_t i = 0; i < file->count; i++) {
        tensor_entry *entry = &file->entries[i];
        int64_t begin = entry->tensor.byte_offset;
        if (begin != expected)
            return io_fail(header->error, KILN_PARSE,
                           "%s: tensor '%.120s' begins at offset %lld of the data, but the one "
                           "before ends at %lld: %s: "
                           "the file is damaged, save it again",
                           file->path, entry->name, (long long)begin, (long long)expected,
                           begin < expected ? "they overlap" : "there is a gap");
        expected += entry->bytes;
        if (expected > size)
            break;
        entry->tensor.data = (void *)(data + begin);
        entry->tensor.byte_offset = 0;
        if (entry->refusal) {
            memset(&entry->tensor, 0, sizeof entry->tensor);
            entry->bytes = 0;
        }
    }
    if (expected != size)
        return io_fail(header->error, KILN_PARSE,
                       "%s: the tensors need %s%lld bytes of data and the file has %lld: it is "
                       "damaged or cut short",
                       file->path, expected > size ? "at least " : "", (long long)expected,
                       (long long)size);
    return KILN_OK;
}

kiln_status safetensors_read(tensor_file *file, io_error *error)
{
    uint64_t length;
    memcpy(&length, file->bytes, sizeof length);
    if (length > HEADER_MAX || length > file->size - 8)
        return io_fail(
            error, KILN_PARSE,
            "%s: at byte 0: the header claims %llu bytes, of %zu that follow and %d at most: "
            "the file is damaged or cut short",
            file->path, (unsigned long long)length, file->size - 8, HEADER_MAX);
    const char *begin = (const char *)file->bytes + 8;
    struct header header = {
        .file = file, .begin = begin, .at = begin, .end = begin + length, .error = error};
    if (length == 0)
        return malformed(&header, begin, "the header is empty");
    kiln_status status = parse_members(&header);
    return status ? status : place_entries(&header, (int64_t)(file->size - 8 - length));
}

/* ---- Writing ---- */

static const struct dtype *dtype_of(uint32_t type)
{
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (dtypes[i].type == type)
            return &dtypes[i];
    return NULL;
}

static kiln_status check_output(const char *path, const tensor_output *output, io_error *error)
{
    const kiln_tensor *tensor = &output->tensor;
    if (!dtype_of(tensor->type))
        return io_fail(error, KILN_UNSUPPORTED,
                       "%s: tensor '%.120s': .safetensors has no %s: convert it to i8 or u8", path,
                       output->name, kiln_type_name(tensor->type));
    if (kiln_type_bits(tensor->type) < 8 && kiln_tensor_elements(tensor) != 0 &&
        (tensor->rank == 0 || tensor->shape[tensor->rank - 1] % 2 != 0))
        return io_fail(error, KILN_UNSUPPORTED,
                       "%s: tensor '%.120s' of type %s has an odd innermost size, and "
                       ".safetensors does not start rows on bytes: pad it to an even one",
                       path, output->name, kiln_type_name(tensor->type));
    if (strcmp(output->name, "__metadata__") == 0)
        return io_fail(error, KILN_INVALID,
                       "%s: a tensor cannot be named __metadata__: name it differently", path);
    return KILN_OK;
}

/* Adds one member and moves `offset` on. */
static bool add_member(json_t *header, const tensor_output *output, int64_t *offset)
{
    row_major elements;
    row_major_open(&elements, &output->tensor);
    json_t *shape = json_array();
    for (uint32_t i = 0; i < output->tensor.rank; i++)
        json_array_append_new(shape, json_integer(output->tensor.shape[i]));
    bool shaped = json_array_size(shape) == output->tensor.rank;
    json_t *member = json_pack("{s:s, s:o, s:[I,I]}", "dtype", dtype_of(output->tensor.type)->name,
                               "shape", shape, "data_offsets", (json_int_t)*offset,
                               (json_int_t)(*offset + elements.total));
    *offset += elements.total;
    return json_object_set_new(header, output->name, member) == 0 && shaped;
}

/* Wide types first, each in the given order: all data is then aligned if the header is. */
static const int widths[] = {64, 32, 16, 8, 4};

enum { WIDTH_COUNT = sizeof widths / sizeof widths[0] };

/* The header as text, spaces up to a multiple of 64 bytes with its length included. */
static char *format_header(const tensor_output *outputs, int64_t count, size_t *size)
{
    int64_t offset = 0;
    json_t *header = json_object();
    bool good = header;
    for (int w = 0; w < WIDTH_COUNT; w++)
        for (int64_t i = 0; good && i < count; i++)
            if (kiln_type_bits(outputs[i].tensor.type) == widths[w])
                good = add_member(header, &outputs[i], &offset);
    char *text = good ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    if (!text)
        return NULL;
    size_t length = strlen(text), padded = (8 + length + 63) / 64 * 64;
    char *bytes = malloc(padded);
    if (bytes) {
        uint64_t declared = padded - 8;
        memset(bytes, ' ', padded);
        memcpy(bytes, &declared, 8);
        memcpy(bytes + 8, text, length);
        *size = padded;
    }
    free(text);
    return bytes;
}

kiln_status safetensors_write(const char *path, FILE *stream, const tensor_output *outputs,
                              int64_t count, io_error *error)
{
    kiln_status status = KILN_OK;
    for (int64_t i = 0; !status && i < count; i++)
        status = check_output(path, &outputs[i], error);
    if (status)
        return status;
    size_t size;
    char *header = format_header(outputs, count, &size);
    if (!header)
        return io_fail_memory(error, path);
    if (size - 8 > HEADER_MAX)
        status =
            io_fail(error, KILN_CAPACITY,
                    "%s: the names and shapes of %lld tensors exceed the %d bytes of a header: "
                    "write several files",
                    path, (long long)count, HEADER_MAX);
    else
        fwrite(header, 1, size,
               stream); /* a failure stays in the stream, where the caller looks for it */
    free(header);
    for (int w = 0; w < WIDTH_COUNT; w++)
        for (int64_t i = 0; !status && i < count; i++)
            if (kiln_type_bits(outputs[i].tensor.type) == widths[w])
                status = io_write_elements(path, stream, &outputs[i].tensor, error);
    return status;
}
