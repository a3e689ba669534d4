/* SPDX-License-Identifier: Apache-2.0 */
/* Opening tensor files, their entries, and the errors of all of tools/io. */
#define _GNU_SOURCE /* strdup, O_CLOEXEC */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include "tools/io/internal.h"

static void write_sentence(io_error *error, const char *format, va_list arguments)
{
    vsnprintf(error->text, sizeof error->text, format, arguments);
    for (char *c = error->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

kiln_status io_fail(io_error *error, kiln_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_sentence(error, format, arguments);
    va_end(arguments);
    return status;
}

kiln_status io_fail_system(io_error *error, int number, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_sentence(error, format, arguments);
    va_end(arguments);
    size_t used = strlen(error->text);
    snprintf(error->text + used, sizeof error->text - used, ": %s", strerror(number));
    switch (number) {
    case ENOENT:
    case ENOTDIR:
        return KILN_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return KILN_PERMISSION;
    case ENOMEM:
        return KILN_NO_MEMORY;
    default:
        return KILN_IO;
    }
}

kiln_status io_fail_memory(io_error *error, const char *path)
{
    return io_fail(error, KILN_NO_MEMORY, "%s: memory is exhausted", path);
}

tensor_entry *io_add_entry(tensor_file *file, const char *name)
{
    if (file->count == file->capacity) {
        int64_t capacity = file->capacity ? file->capacity * 2 : 16;
        tensor_entry *entries = realloc(file->entries, (size_t)capacity * sizeof *entries);
        if (!entries)
            return NULL;
        file->entries = entries;
        file->capacity = capacity;
    }
    char *copy = strdup(name);
    if (!copy)
        return NULL;
    tensor_entry *entry = &file->entries[file->count++];
    memset(entry, 0, sizeof *entry);
    entry->name = copy;
    return entry;
}

kiln_status io_settle_entry(const tensor_file *file, tensor_entry *entry, kiln_status status,
                            io_error *error)
{
    if (status != KILN_UNSUPPORTED)
        return status;
    entry->refusal = strdup(error->text);
    return entry->refusal ? KILN_OK : io_fail_memory(error, file->path);
}

bool io_measure(int bits, uint32_t rank, const int64_t *shape, int64_t *bytes)
{
    int64_t product = bits;
    bool empty = false;
    for (uint32_t i = 0; i < rank; i++) {
        empty = empty || shape[i] == 0;
        if (__builtin_mul_overflow(product, shape[i] ? shape[i] : 1, &product))
            return false;
    }
    *bytes = empty ? 0 : product / 8;
    return empty || product % 8 == 0;
}

static int compare_entries(const void *left, const void *right)
{
    return strcmp((*(tensor_entry *const *)left)->name, (*(tensor_entry *const *)right)->name);
}

/* Names must be unique: whatever reads by name would otherwise take one of two at random. */
static kiln_status index_names(tensor_file *file, io_error *error)
{
    file->by_name = malloc(((size_t)file->count + 1) * sizeof *file->by_name);
    if (!file->by_name)
        return io_fail_memory(error, file->path);
    for (int64_t i = 0; i < file->count; i++)
        file->by_name[i] = &file->entries[i];
    qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, compare_entries);
    for (int64_t i = 1; i < file->count; i++)
        if (compare_entries(&file->by_name[i - 1], &file->by_name[i]) == 0)
            return io_fail(
                error, KILN_PARSE,
                "%s: two tensors are named '%.120s': write the file anew with different names",
                file->path, file->by_name[i]->name);
    return KILN_OK;
}

/* ---- Kinds ---- */

static const struct kind {
    const char *suffix;
    kiln_status (*read)(tensor_file *file, io_error *error);
} kinds[] = {{".npy", npy_read}, {".npz", npz_read}, {".safetensors", safetensors_read}};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static const struct kind *kind_of_name(const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; i < KIND_COUNT; i++) {
        size_t suffix = strlen(kinds[i].suffix);
        if (length > suffix && strcmp(name + length - suffix, kinds[i].suffix) == 0)
            return &kinds[i];
    }
    return NULL;
}

static const struct kind *kind_of_content(const uint8_t *bytes, size_t size)
{
    if (size >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0)
        return &kinds[0];
    if (size >= 4 && (memcmp(bytes, "PK\3\4", 4) == 0 || memcmp(bytes, "PK\5\6", 4) == 0))
        return &kinds[1];
    if (size >= 9 && bytes[8] == '{')
        return &kinds[2];
    return NULL;
}

static kiln_status read_entries(tensor_file *file, io_error *error)
{
    const struct kind *kind = kind_of_name(file->path),
                      *content = kind_of_content(file->bytes, file->size);
    if (!kind)
        return io_fail(error, KILN_INVALID, "%s: tensor files end in .npy, .npz or .safetensors",
                       file->path);
    if (file->size == 0)
        return io_fail(error, KILN_PARSE, "%s: the file is empty: write it again", file->path);
    if (content != kind)
        return io_fail(error, KILN_PARSE, "%s: the content is not that of a %s file%s%s%s",
                       file->path, kind->suffix,
                       content ? " but of a " : ": it is damaged or something else under this name",
                       content ? content->suffix : "", content ? " file: rename it" : "");
    kiln_status status = kind->read(file, error);
    return status ? status : index_names(file, error);
}

/* ---- Opening and closing ---- */

static kiln_status open_bytes(const char *path, const void *bytes, size_t size, bool mapped,
                              tensor_file **opened, io_error *error)
{
    tensor_file *file = calloc(1, sizeof *file);
    char *copy = strdup(path);
    if (!file || !copy) {
        free(file);
        free(copy);
        if (mapped)
            munmap((void *)bytes, size);
        return io_fail_memory(error, path);
    }
    file->path = copy;
    file->bytes = bytes;
    file->size = size;
    file->mapped = mapped;
    kiln_status status = read_entries(file, error);
    if (status)
        tensor_file_close(file);
    else
        *opened = file;
    return status;
}

kiln_status tensor_file_open_memory(const char *name, const void *bytes, size_t size,
                                    tensor_file **file, io_error *error)
{
    return open_bytes(name, bytes, size, false, file, error);
}

kiln_status tensor_file_open(const char *path, tensor_file **file, io_error *error)
{
    /* Without O_NONBLOCK the name of a pipe would wait for a writer before it could be refused. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    if (descriptor < 0 || fstat(descriptor, &about) < 0) {
        kiln_status status = io_fail_system(error, errno, "%s: cannot be opened", path);
        if (descriptor >= 0)
            close(descriptor);
        return status;
    }
    if (!S_ISREG(about.st_mode)) {
        close(descriptor);
        return io_fail(error, KILN_IO,
                       "%s: is not a regular file, and only those can be mapped: copy it to one",
                       path);
    }
    if (about.st_size == 0) {
        close(descriptor);
        return open_bytes(path, "", 0, false, file, error);
    }
    void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    int number = errno;
    close(descriptor);
    if (bytes == MAP_FAILED)
        return io_fail_system(error, number, "%s: cannot be mapped", path);
    return open_bytes(path, bytes, (size_t)about.st_size, true, file, error);
}

void tensor_file_close(tensor_file *file)
{
    if (!file)
        return;
    if (file->zip)
        zip_discard(file->zip);
    for (int64_t i = 0; i < file->count; i++) {
        free((char *)file->entries[i].name);
        free((char *)file->entries[i].refusal);
        if (file->members)
            free(file->members[i]);
    }
    free(file->members);
    free(file->by_name);
    free(file->entries);
    if (file->mapped)
        munmap((void *)file->bytes, file->size);
    free(file->path);
    free(file);
}

/* ---- Entries ---- */

int64_t tensor_file_count(const tensor_file *file)
{
    return file->count;
}

const tensor_entry *tensor_file_at(const tensor_file *file, int64_t index)
{
    return &file->entries[index];
}

static kiln_status find_entry(const tensor_file *file, const char *name, tensor_entry **found,
                              io_error *error)
{
    if (!name) {
        if (file->count != 1)
            return io_fail(error, KILN_NOT_FOUND, "%s: holds %lld tensors: say which by name",
                           file->path, (long long)file->count);
        *found = file->entries;
        return KILN_OK;
    }
    tensor_entry key = {.name = name}, *key_pointer = &key;
    tensor_entry **hit =
        bsearch(&key_pointer, file->by_name, (size_t)file->count, sizeof *hit, compare_entries);
    if (hit) {
        *found = *hit;
        return KILN_OK;
    }
    if (file->count == 1 && file->entries[0].name[0] == '\0')
        return io_fail(error, KILN_NOT_FOUND,
                       "%s: has one tensor, without a name: leave '%.120s' out", file->path, name);
    return io_fail(error, KILN_NOT_FOUND, "%s: has no tensor '%.120s' among its %lld%s%.120s%s",
                   file->path, name, (long long)file->count, file->count ? "; the first is '" : "",
                   file->count ? file->entries[0].name : "", file->count ? "'" : "");
}

kiln_status tensor_file_get(tensor_file *file, const char *name, kiln_tensor *tensor,
                            io_error *error)
{
    tensor_entry *entry = NULL;
    kiln_status status = find_entry(file, name, &entry, error);
    if (status)
        return status;
    if (entry->refusal)
        return io_fail(error, KILN_UNSUPPORTED, "%s", entry->refusal);
    if (file->zip && !entry->tensor.data) {
        status = npz_load(file, entry - file->entries, error);
        if (status)
            return status;
    }
    *tensor = entry->tensor;
    return KILN_OK;
}
