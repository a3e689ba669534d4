/* SPDX-License-Identifier: Apache-2.0 */
/* Writing tensor files, whole or not at all. */
#define _GNU_SOURCE /* realpath, strndup, "e" of fopen */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/io/internal.h"

/* ---- What is to be written ---- */

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static kiln_status check_name(const char *path, const char *name, io_error *error)
{
    if (!name || !*name)
        return io_fail(error, KILN_INVALID, "%s: a tensor has no name: give it one", path);
    json_t *copy = json_string(name); /* knows UTF-8 */
    json_decref(copy);
    return copy ? KILN_OK
                : io_fail(error, KILN_INVALID,
                          "%s: the name '%.120s' is not UTF-8: name the tensor differently", path,
                          name);
}

static kiln_status check_names(const char *path, const tensor_output *outputs, int64_t count,
                               io_error *error)
{
    const char **names = malloc(((size_t)count + 1) * sizeof *names);
    if (!names)
        return io_fail_memory(error, path);
    kiln_status status = KILN_OK;
    for (int64_t i = 0; !status && i < count; i++) {
        names[i] = outputs[i].name;
        status = check_name(path, names[i], error);
    }
    if (!status)
        qsort(names, (size_t)count, sizeof *names, compare_names);
    for (int64_t i = 1; !status && i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status =
                io_fail(error, KILN_INVALID,
                        "%s: two tensors are named '%.120s': name one differently", path, names[i]);
    free(names);
    return status;
}

static kiln_status check_tensors(const char *path, const tensor_output *outputs, int64_t count,
                                 io_error *error)
{
    for (int64_t i = 0; i < count; i++) {
        row_major elements;
        const char *wrong = row_major_open(&elements, &outputs[i].tensor);
        if (wrong)
            return io_fail(error, KILN_INVALID, "%s: tensor '%.120s' cannot be written: %s", path,
                           outputs[i].name ? outputs[i].name : "", wrong);
    }
    return KILN_OK;
}

kiln_status io_write_elements(const char *path, FILE *stream, const kiln_tensor *tensor,
                              io_error *error)
{
    enum { PART = 1 << 18 };
    char *part = malloc(PART);
    if (!part)
        return io_fail_memory(error, path);
    row_major elements;
    row_major_open(&elements, tensor);
    size_t size;
    while (!ferror(stream) && (size = row_major_read(&elements, part, PART)) > 0)
        fwrite(part, 1, size, stream);
    free(part);
    return KILN_OK;
}

/* ---- Where ---- */

/* Where the file really goes, and under which name until it is whole. */
struct place {
    char *target, *folder, *temporary;
    int mode; /* permissions of the file that is replaced; -1: none is */
};

static void release_place(struct place *place)
{
    free(place->target);
    free(place->folder);
    free(place->temporary);
}

static kiln_status find_place(const char *path, struct place *place, io_error *error)
{
    struct stat about;
    bool link = lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
    place->mode = -1;
    place->target = link ? realpath(path, NULL) : strdup(path);
    if (!place->target)
        return io_fail_system(error, errno, "%s: cannot be written: where the link leads", path);
    if (stat(place->target, &about) == 0) {
        if (!S_ISREG(about.st_mode))
            return io_fail(error, KILN_INVALID, "%s: is not a regular file: give the name of one",
                           path);
        place->mode = about.st_mode & 07777;
    }
    const char *slash = strrchr(place->target, '/');
    place->folder =
        slash ? strndup(place->target, (size_t)(slash - place->target) + 1) : strdup("./");
    return place->folder ? KILN_OK : io_fail_memory(error, path);
}

/* Makes the temporary, empty. The mode of a new file follows the umask, which mkstemp() would not.
 */
static kiln_status make_temporary(const char *path, struct place *place, io_error *error)
{
    enum { SUFFIX = 64, ATTEMPTS = 1000 };
    size_t size = strlen(place->folder) + SUFFIX;
    place->temporary = malloc(size);
    if (!place->temporary)
        return io_fail_memory(error, path);
    int descriptor = -1;
    errno = EEXIST;
    for (int i = 0; i < ATTEMPTS && descriptor < 0 && errno == EEXIST; i++) {
        snprintf(place->temporary, size, "%s.kiln-%ld-%d.tmp", place->folder, (long)getpid(), i);
        descriptor = open(place->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (descriptor < 0) {
        kiln_status status = io_fail_system(
            error, errno, "%s: cannot be written: making a file in its folder", path);
        free(place->temporary);
        place->temporary = NULL;
        return status;
    }
    close(descriptor);
    return KILN_OK;
}

/* ---- Writing ---- */

typedef kiln_status write_stream_fn(const char *path, FILE *stream, const tensor_output *outputs,
                                    int64_t count, io_error *error);

static kiln_status fail_write(const char *path, int number, io_error *error)
{
    return io_fail_system(error, number, "%s: could not be written, and is as it was", path);
}

static kiln_status write_stream(const char *path, const char *temporary, write_stream_fn *write,
                                const tensor_output *outputs, int64_t count, io_error *error)
{
    FILE *stream = fopen(temporary, "we");
    if (!stream)
        return fail_write(path, errno, error);
    errno = 0;
    kiln_status status = write(path, stream, outputs, count, error);
    if (!status && (ferror(stream) || fflush(stream) != 0))
        status = fail_write(path, errno ? errno : EIO, error);
    if (fclose(stream) != 0 && !status)
        status = fail_write(path, errno, error);
    return status;
}

/* Gives the temporary its name. After that nothing fails: a folder that cannot be synced may, at a
 * loss of power, come back with the old file, which is whole as well. */
static kiln_status commit(const char *path, const struct place *place, io_error *error)
{
    int descriptor = open(place->temporary, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || (place->mode >= 0 && fchmod(descriptor, (mode_t)place->mode) < 0) ||
        fsync(descriptor) < 0) {
        kiln_status status = fail_write(path, errno, error);
        if (descriptor >= 0)
            close(descriptor);
        return status;
    }
    close(descriptor);
    if (rename(place->temporary, place->target) < 0)
        return fail_write(path, errno, error);
    descriptor = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0) {
        fsync(descriptor);
        close(descriptor);
    }
    return KILN_OK;
}

static bool ends_in(const char *path, const char *suffix)
{
    size_t length = strlen(path), ending = strlen(suffix);
    return length > ending && strcmp(path + length - ending, suffix) == 0;
}

kiln_status tensor_file_write(const char *path, const tensor_output *outputs, int64_t count,
                              io_error *error)
{
    bool npy = ends_in(path, ".npy"), npz = ends_in(path, ".npz");
    if (!npy && !npz && !ends_in(path, ".safetensors"))
        return io_fail(error, KILN_INVALID, "%s: tensor files end in .npy, .npz or .safetensors",
                       path);
    struct place place = {0};
    kiln_status status = check_tensors(path, outputs, count, error);
    if (!status && !npy)
        status = check_names(path, outputs, count, error);
    if (!status)
        status = find_place(path, &place, error);
    if (!status)
        status = make_temporary(path, &place, error);
    if (!status && npz)
        status = npz_write(path, place.temporary, outputs, count, error);
    else if (!status)
        status = write_stream(path, place.temporary, npy ? npy_write : safetensors_write, outputs,
                              count, error);
    if (!status)
        status = commit(path, &place, error);
    if (status && place.temporary)
        unlink(place.temporary);
    release_place(&place);
    return status;
}
