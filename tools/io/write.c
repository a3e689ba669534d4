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

struct tensor_pending {
    char *path;   /* as given, for messages */
    char *target; /* where the file really goes */
    char *folder, *temporary;
    int mode;     /* permissions of the file that is replaced; -1: none is */
    char *old;    /* the hidden name of that file during a commit; NULL: it has none */
    bool had_old; /* during a commit: there is such a file */
};

static void release(tensor_pending *pending)
{
    free(pending->path);
    free(pending->target);
    free(pending->folder);
    free(pending->temporary);
    free(pending->old);
    free(pending);
}

static kiln_status find_place(const char *path, tensor_pending *pending, io_error *error)
{
    struct stat about;
    bool link = lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
    pending->mode = -1;
    pending->target = link ? realpath(path, NULL) : strdup(path);
    if (!pending->target)
        return io_fail_system(error, errno, "%s: cannot be written: where the link leads", path);
    if (stat(pending->target, &about) == 0) {
        if (!S_ISREG(about.st_mode))
            return io_fail(error, KILN_INVALID, "%s: is not a regular file: give the name of one",
                           path);
        pending->mode = about.st_mode & 07777;
    }
    const char *slash = strrchr(pending->target, '/');
    pending->folder =
        slash ? strndup(pending->target, (size_t)(slash - pending->target) + 1) : strdup("./");
    return pending->folder ? KILN_OK : io_fail_memory(error, path);
}

enum { ATTEMPTS = 1000 };

/* A name in the file's folder that nobody else should have; allocated. */
static char *hidden_name(const tensor_pending *pending, int attempt)
{
    char *name;
    return asprintf(&name, "%s.kiln-%ld-%d.tmp", pending->folder, (long)getpid(), attempt) < 0
               ? NULL
               : name;
}

/* Makes the temporary, empty. The mode of a new file follows the umask, which mkstemp() would not.
 */
static kiln_status make_temporary(const char *path, tensor_pending *pending, io_error *error)
{
    int descriptor = -1;
    errno = EEXIST;
    for (int i = 0; i < ATTEMPTS && descriptor < 0 && errno == EEXIST; i++) {
        free(pending->temporary);
        pending->temporary = hidden_name(pending, i);
        if (!pending->temporary)
            return io_fail_memory(error, path);
        descriptor = open(pending->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (descriptor < 0) {
        kiln_status status = io_fail_system(
            error, errno, "%s: cannot be written: making a file in its folder", path);
        free(pending->temporary);
        pending->temporary = NULL;
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
    return io_fail_system(error, number, "%s: could not be written, nothing was changed", path);
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

/* Everything that can fail, but for the new name. */
static kiln_status sync_temporary(const tensor_pending *pending, io_error *error)
{
    int descriptor = open(pending->temporary, O_RDONLY | O_CLOEXEC);
    bool good = descriptor >= 0 &&
                (pending->mode < 0 || fchmod(descriptor, (mode_t)pending->mode) == 0) &&
                fsync(descriptor) == 0;
    kiln_status status = good ? KILN_OK : fail_write(pending->path, errno, error);
    if (descriptor >= 0)
        close(descriptor);
    return status;
}

static bool ends_in(const char *path, const char *suffix)
{
    size_t length = strlen(path), ending = strlen(suffix);
    return length > ending && strcmp(path + length - ending, suffix) == 0;
}

static kiln_status write_temporary(tensor_pending *pending, const tensor_output *outputs,
                                   int64_t count, io_error *error)
{
    const char *path = pending->path;
    bool npy = ends_in(path, ".npy"), npz = ends_in(path, ".npz");
    if (!npy && !npz && !ends_in(path, ".safetensors"))
        return io_fail(error, KILN_INVALID, "%s: tensor files end in .npy, .npz or .safetensors",
                       path);
    kiln_status status = check_tensors(path, outputs, count, error);
    if (!status && !npy)
        status = check_names(path, outputs, count, error);
    if (!status)
        status = find_place(path, pending, error);
    if (!status)
        status = make_temporary(path, pending, error);
    if (!status && npz)
        status = npz_write(path, pending->temporary, outputs, count, error);
    else if (!status)
        status = write_stream(path, pending->temporary, npy ? npy_write : safetensors_write,
                              outputs, count, error);
    return status ? status : sync_temporary(pending, error);
}

kiln_status tensor_file_prepare(const char *path, const tensor_output *outputs, int64_t count,
                                tensor_pending **prepared, io_error *error)
{
    tensor_pending *pending = calloc(1, sizeof *pending);
    if (!pending)
        return io_fail_memory(error, path);
    pending->path = strdup(path);
    kiln_status status = pending->path ? write_temporary(pending, outputs, count, error)
                                       : io_fail_memory(error, path);
    if (status)
        tensor_pending_discard(pending);
    else
        *prepared = pending;
    return status;
}

void tensor_pending_discard(tensor_pending *pending)
{
    if (!pending)
        return;
    if (pending->temporary)
        unlink(pending->temporary);
    if (pending->old)
        unlink(pending->old);
    release(pending);
}

/* Keeps the old file, if there is one, under a hidden name. */
static void keep_old(tensor_pending *pending)
{
    char *name = NULL;
    int number = EEXIST;
    for (int i = 0; i < ATTEMPTS && number == EEXIST; i++) {
        free(name);
        name = hidden_name(pending, i);
        number = !name ? ENOMEM : link(pending->target, name) == 0 ? 0 : errno;
    }
    if (number == 0)
        pending->old = name;
    else
        free(name);
    pending->had_old = number != ENOENT;
}

/* Takes back a file that has been given its name. */
static bool take_back(tensor_pending *pending)
{
    if (!pending->had_old)
        return unlink(pending->target) == 0;
    if (!pending->old || rename(pending->old, pending->target) != 0)
        return false;
    free(pending->old);
    pending->old = NULL;
    return true;
}

/* The failure of a rename, number `failed`, after what came before it has been taken back. */
static kiln_status fail_commit(tensor_pending *const *pending, int64_t failed, int number,
                               io_error *error)
{
    char changed[512] = "";
    for (int64_t i = failed - 1; i >= 0; i--) {
        if (take_back(pending[i]))
            continue;
        size_t used = strlen(changed);
        snprintf(changed + used, sizeof changed - used, "%s%s%s%s", used ? ", " : "",
                 pending[i]->path, pending[i]->old ? ", whose old content is " : "",
                 pending[i]->old ? pending[i]->old : "");
        free(pending[i]->old); /* the name only: the file stays */
        pending[i]->old = NULL;
    }
    if (!changed[0])
        return fail_write(pending[failed]->path, number, error);
    return io_fail_system(error, number,
                          "%s: could not be written, and these have changed and could not be put "
                          "back: %s",
                          pending[failed]->path, changed);
}

/* A folder that cannot be synced is no failure: at a loss of power it may come back with the old
 * file, which is whole as well. */
static void sync_folder(const char *folder)
{
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0) {
        fsync(descriptor);
        close(descriptor);
    }
}

kiln_status tensor_pending_commit(tensor_pending **pending, int64_t count, io_error *error)
{
    kiln_status status = KILN_OK;
    int64_t done = 0;
    for (; !status && done < count; done += !status) {
        if (done + 1 < count) /* nothing can fail after the last */
            keep_old(pending[done]);
        if (rename(pending[done]->temporary, pending[done]->target) < 0)
            status = fail_commit(pending, done, errno, error);
    }
    for (int64_t i = 0; i < count; i++) {
        if (i < done) {
            free(pending[i]->temporary); /* no longer there */
            pending[i]->temporary = NULL;
            sync_folder(pending[i]->folder);
        }
        tensor_pending_discard(pending[i]);
    }
    return status;
}

kiln_status tensor_file_write(const char *path, const tensor_output *outputs, int64_t count,
                              io_error *error)
{
    tensor_pending *pending;
    kiln_status status = tensor_file_prepare(path, outputs, count, &pending, error);
    return status ? status : tensor_pending_commit(&pending, 1, error);
}
