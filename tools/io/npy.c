/* SPDX-License-Identifier: Apache-2.0 */
/* The .npy format, versions 1.0, 2.0 and 3.0:
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 *
 * "\x93NUMPY", major, minor, header length (2 bytes little-endian in 1.0, else 4), a Python dict
 * literal with exactly the keys descr, fortran_order and shape, spaces, a newline, the elements. */
#include "tools/io/internal.h"

static const struct npy_type {
    uint32_t type;
    char kind; /* as in descr */
    char size;
} npy_types[] = {{KILN_F64, 'f', '8'}, {KILN_F32, 'f', '4'}, {KILN_F16, 'f', '2'},
                 {KILN_I64, 'i', '8'}, {KILN_I32, 'i', '4'}, {KILN_I16, 'i', '2'},
                 {KILN_I8, 'i', '1'},  {KILN_U64, 'u', '8'}, {KILN_U32, 'u', '4'},
                 {KILN_U16, 'u', '2'}, {KILN_U8, 'u', '1'},  {KILN_BOOL, 'b', '1'}};

enum { NPY_TYPE_COUNT = sizeof npy_types / sizeof npy_types[0] };

/* ---- Reading ---- */

kiln_status npy_header_size(const char *where, const uint8_t *prefix, int64_t total,
                            int64_t *header_size, io_error *error)
{
    if (total < NPY_PREFIX_BYTES || memcmp(prefix, "\x93NUMPY", 6) != 0)
        return io_fail(error, KILN_PARSE,
                       "%s: at byte 0: not an .npy header, or cut short: save the array again",
                       where);
    int major = prefix[6], minor = prefix[7];
    if (major < 1 || major > 3 || minor != 0)
        return io_fail(error, KILN_PARSE,
                       "%s: at byte 6: .npy version %d.%d: save it as 1.0, 2.0 or 3.0", where,
                       major, minor);
    int64_t length = prefix[8] | prefix[9] << 8, start = 10;
    if (major > 1) {
        length |= (int64_t)prefix[10] << 16 | (int64_t)prefix[11] << 24;
        start = 12;
    }
    if (length > NPY_HEADER_MAX || length > total - start)
        return io_fail(error, KILN_PARSE,
                       "%s: at byte 8: the header claims %lld bytes, of %lld that follow and %d at "
                       "most: the file is "
                       "damaged or cut short",
                       where, (long long)length, (long long)(total - start), NPY_HEADER_MAX);
    *header_size = start + length;
    return KILN_OK;
}

/* The dict literal, and what it said. */
struct literal {
    const char *where;
    const char *begin, *at, *end;
    io_error *error;
    char descr[32];
    bool fortran_order;
    uint32_t rank; /* may exceed KILN_MAX_RANK: then shape holds the first ones */
    int64_t shape[KILN_MAX_RANK];
};

static kiln_status expected(const struct literal *text, const char *what)
{
    return io_fail(text->error, KILN_PARSE,
                   "%s: at byte %lld: expected %s: the header is damaged, save the array again",
                   text->where, (long long)(text->at - text->begin), what);
}

static void skip_spaces(struct literal *text)
{
    while (text->at < text->end &&
           (*text->at == ' ' || *text->at == '\n' || *text->at == '\t' || *text->at == '\r'))
        text->at++;
}

/* Whether the next character that is no space is `c`; it is consumed if so. */
static bool accept(struct literal *text, char c)
{
    skip_spaces(text);
    if (text->at == text->end || *text->at != c)
        return false;
    text->at++;
    return true;
}

static bool accept_word(struct literal *text, const char *word)
{
    size_t length = strlen(word);
    skip_spaces(text);
    if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length) != 0)
        return false;
    text->at += length;
    return true;
}

/* A string without escapes: none of those that matter has any. */
static kiln_status read_string(struct literal *text, char *out, size_t capacity)
{
    skip_spaces(text);
    char quote = text->at < text->end ? *text->at : 0;
    if (quote != '\'' && quote != '"')
        return expected(text, "a string");
    const char *first = text->at + 1, *last = first;
    while (last < text->end && *last != quote && *last != '\\' && *last != '\n' && *last != '\0')
        last++;
    if (last == text->end || *last != quote || (size_t)(last - first) >= capacity)
        return expected(text, "a short string without escapes");
    memcpy(out, first, (size_t)(last - first));
    out[last - first] = '\0';
    text->at = last + 1;
    return KILN_OK;
}

static kiln_status read_extent(struct literal *text, int64_t *extent)
{
    skip_spaces(text);
    const char *first = text->at;
    *extent = 0;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
        if (__builtin_mul_overflow(*extent, 10, extent) ||
            __builtin_add_overflow(*extent, *text->at - '0', extent))
            return expected(text, "a size below 2^63");
    return text->at == first ? expected(text, "a size of zero or more") : KILN_OK;
}

/* (), (3,) or (3, 4), with or without a last comma; (3) is a number in Python. */
static kiln_status read_shape(struct literal *text)
{
    if (!accept(text, '('))
        return expected(text, "the tuple of the shape");
    bool comma = true;
    for (; !accept(text, ')'); text->rank++) {
        int64_t extent = 0;
        kiln_status status = comma ? read_extent(text, &extent) : expected(text, "',' or ')'");
        if (status)
            return status;
        if (text->rank < KILN_MAX_RANK)
            text->shape[text->rank] = extent;
        comma = accept(text, ',');
    }
    return text->rank == 1 && !comma ? expected(text, "a tuple, as in (3,)") : KILN_OK;
}

static kiln_status read_descr(struct literal *text)
{
    skip_spaces(text);
    if (text->at < text->end && (*text->at == '[' || *text->at == '('))
        return io_fail(
            text->error, KILN_UNSUPPORTED,
            "%s: the array has a structured type: save each field as an array of its own",
            text->where);
    return read_string(text, text->descr, sizeof text->descr);
}

static kiln_status read_order(struct literal *text)
{
    text->fortran_order = accept_word(text, "True");
    return text->fortran_order || accept_word(text, "False") ? KILN_OK
                                                             : expected(text, "True or False");
}

static kiln_status read_dict(struct literal *text)
{
    static const struct {
        const char *key;
        kiln_status (*read)(struct literal *text);
    } keys[] = {{"descr", read_descr}, {"fortran_order", read_order}, {"shape", read_shape}};
    bool seen[3] = {false, false, false}, comma = true;
    if (!accept(text, '{'))
        return expected(text, "'{'");
    while (!accept(text, '}')) {
        char key[16];
        kiln_status status =
            comma ? read_string(text, key, sizeof key) : expected(text, "',' or '}'");
        if (status)
            return status;
        int i = 0;
        while (i < 3 && strcmp(key, keys[i].key) != 0)
            i++;
        if (i == 3 || seen[i])
            return expected(text,
                            "each of 'descr', 'fortran_order' and 'shape' once and no other key");
        seen[i] = true;
        status = accept(text, ':') ? keys[i].read(text) : expected(text, "':'");
        if (status)
            return status;
        comma = accept(text, ',');
    }
    if (!seen[0] || !seen[1] || !seen[2])
        return expected(text, "each of 'descr', 'fortran_order' and 'shape' before the end");
    skip_spaces(text);
    return text->at < text->end ? expected(text, "nothing but spaces after the '}'") : KILN_OK;
}

static kiln_status type_of_descr(const struct literal *text, uint32_t *type)
{
    const char *descr = text->descr;
    if (strlen(descr) == 3 && strchr("<>|=", descr[0])) {
        for (int i = 0; i < NPY_TYPE_COUNT; i++) {
            if (descr[1] != npy_types[i].kind || descr[2] != npy_types[i].size)
                continue;
            *type = npy_types[i].type;
            if (descr[2] == '1' || descr[0] == '<')
                return KILN_OK;
            return io_fail(
                text->error, KILN_UNSUPPORTED,
                "%s: element type '%s' is not little-endian: save array.astype('<%s') instead",
                text->where, descr, descr + 1);
        }
    }
    return io_fail(
        text->error, KILN_UNSUPPORTED,
        "%s: element type '%s' is none of f2 f4 f8 i1…i8 u1…u8 b1: convert the array first, as by "
        "array.astype('<f4'), or, for small floats, save it as .safetensors",
        text->where, descr);
}

kiln_status npy_parse(const char *where, const uint8_t *header, int64_t header_size, int64_t total,
                      tensor_entry *entry, io_error *error)
{
    const char *begin = (const char *)header;
    struct literal text = {.where = where,
                           .begin = begin,
                           .at = begin + (header[6] == 1 ? 10 : 12),
                           .end = begin + header_size,
                           .error = error};
    uint32_t type = KILN_TYPE_NONE;
    int64_t bytes;
    kiln_status status = read_dict(&text);
    if (!status)
        status = type_of_descr(&text, &type);
    if (status)
        return status;
    if (text.rank > KILN_MAX_RANK)
        return io_fail(error, KILN_UNSUPPORTED,
                       "%s: the array has rank %u, tensors at most %d: reshape it", where,
                       text.rank, KILN_MAX_RANK);
    if (!io_measure(kiln_type_bits(type), text.rank, text.shape, &bytes))
        return io_fail(error, KILN_PARSE, "%s: the shape exceeds 2^63 bits: the header is damaged",
                       where);
    if (bytes != total - header_size)
        return io_fail(error, KILN_PARSE,
                       "%s: at byte %lld: %lld bytes follow the header, but its shape and type "
                       "'%s' need %lld: the file "
                       "is damaged or cut short, save the array again",
                       where, (long long)header_size, (long long)(total - header_size), text.descr,
                       (long long)bytes);
    entry->tensor = kiln_tensor_host(type, NULL, text.rank, text.shape);
    entry->bytes = bytes;
    int64_t stride = 1;
    for (uint32_t i = 0; text.fortran_order && i < text.rank; i++) {
        entry->tensor.strides[i] = stride;
        stride *= text.shape[i] ? text.shape[i] : 1;
    }
    return KILN_OK;
}

kiln_status npy_read(tensor_file *file, io_error *error)
{
    int64_t total = (int64_t)file->size, header_size;
    kiln_status status = npy_header_size(file->path, file->bytes, total, &header_size, error);
    if (status)
        return status;
    tensor_entry *entry = io_add_entry(file, "");
    if (!entry)
        return io_fail_memory(error, file->path);
    status = npy_parse(file->path, file->bytes, header_size, total, entry, error);
    if (!status)
        entry->tensor.data = (void *)(file->bytes + header_size);
    return io_settle_entry(file, entry, status, error);
}

/* ---- Writing ---- */

kiln_status npy_format(const char *path, const kiln_tensor *tensor, char header[NPY_WRITE_MAX],
                       size_t *size, io_error *error)
{
    int i = 0;
    while (i < NPY_TYPE_COUNT && npy_types[i].type != tensor->type)
        i++;
    if (i == NPY_TYPE_COUNT)
        return io_fail(error, KILN_UNSUPPORTED, "%s: NumPy's formats have no %s: %s", path,
                       kiln_type_name(tensor->type),
                       tensor->type == KILN_I4 || tensor->type == KILN_U4
                           ? "convert it to i8 or u8"
                           : "write a .safetensors file instead");
    int used =
        10 + snprintf(header + 10, NPY_WRITE_MAX - 10,
                      "{'descr': '%c%c%c', 'fortran_order': False, 'shape': (",
                      npy_types[i].size == '1' ? '|' : '<', npy_types[i].kind, npy_types[i].size);
    for (uint32_t d = 0; d < tensor->rank; d++)
        used += snprintf(header + used, (size_t)(NPY_WRITE_MAX - used), d ? ", %lld" : "%lld",
                         (long long)tensor->shape[d]);
    used += snprintf(header + used, (size_t)(NPY_WRITE_MAX - used),
                     tensor->rank == 1 ? ",), }" : "), }");
    int end = (used + 1 + 63) / 64 * 64;
    memset(header + used, ' ', (size_t)(end - 1 - used));
    header[end - 1] = '\n';
    memcpy(header, "\x93NUMPY\1\0", 8);
    header[8] = (char)((end - 10) & 0xff);
    header[9] = (char)((end - 10) >> 8);
    *size = (size_t)end;
    return KILN_OK;
}

kiln_status npy_write(const char *path, FILE *stream, const tensor_output *outputs, int64_t count,
                      io_error *error)
{
    char header[NPY_WRITE_MAX];
    size_t size;
    if (count != 1)
        return io_fail(error, KILN_INVALID,
                       "%s: an .npy file holds one tensor, not %lld: write .npz or .safetensors",
                       path, (long long)count);
    kiln_status status = npy_format(path, &outputs->tensor, header, &size, error);
    if (status)
        return status;
    fwrite(header, 1, size,
           stream); /* a failure stays in the stream, where the caller looks for it */
    return io_write_elements(path, stream, &outputs->tensor, error);
}
