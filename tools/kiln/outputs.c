/* SPDX-License-Identifier: Apache-2.0 */
/* Running a job: writing the outputs, all or none. */
#define _GNU_SOURCE /* realpath */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/kiln/run.h"

/* ---- Where outputs go ---- */

/* The folder of a path, with a slash at its end; allocated. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? tool_text("%.*s", (int)(slash - path) + 1, path) : tool_text("./");
}

static bool is_link(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
}

/* The path without links, so that two spellings of one file are seen and a link at the end is
 * followed; NULL, with errno, when its folder, or what it links to, does not exist. */
static char *canonical_path(const char *path)
{
    char *whole = realpath(path, NULL);
    if (whole || is_link(path))
        return whole;
    const char *slash = strrchr(path, '/');
    char *folder = folder_of(path), *real = realpath(folder, NULL), *result = NULL;
    if (real)
        result = tool_text("%s/%s", strcmp(real, "/") == 0 ? "" : real, slash ? slash + 1 : path);
    free(folder);
    free(real);
    return result;
}

/* In a folder with the sticky bit, such as /tmp, only its owner and a file's may replace the file.
 * A rename would find that out too, but perhaps only when others have been made. */
static bool may_replace(const char *path)
{
    struct stat file, above;
    char *folder = folder_of(path);
    bool known = stat(path, &file) == 0 && stat(folder, &above) == 0;
    free(folder);
    return !known || !(above.st_mode & S_ISVTX) || geteuid() == 0 || file.st_uid == geteuid() ||
           above.st_uid == geteuid();
}

static bool refuse(const job_run *run, const job_output *output, const char *path, const char *why)
{
    kiln_yaml_error error;
    job_fail(&error, output->node, "output '%s': %s: %s", output->name, path, why);
    tool_fail(run->common, "%s", error.text);
    return false;
}

/* The name itself would push the reason out of the message. */
static bool refuse_long(const job_run *run, const job_output *output, const char *path)
{
    kiln_yaml_error error;
    job_fail(&error, output->node,
             "output '%.60s': the name %.60s… has %d bytes, which is too long; most file systems "
             "take 255 for a file or folder",
             output->name, path, (int)strlen(path));
    tool_fail(run->common, "%s", error.text);
    return false;
}

static bool check_output_path(job_run *run, int64_t index)
{
    const job_output *output = &run->job->outputs[index];
    const char *out_dir = run->options->out_dir;
    bool joined = out_dir && output->file[0] != '/';
    char *path = tool_text("%s%s%s", joined ? out_dir : "", joined ? "/" : "", output->file);
    char *folder = folder_of(path);
    struct stat about;
    bool good = true, there = stat(path, &about) == 0;
    if (!there && errno == ENAMETOOLONG)
        good = refuse_long(run, output, path);
    else if (there && !S_ISREG(about.st_mode))
        good = refuse(run, output, path, "not a regular file; give the name of one");
    else if (access(folder, W_OK | X_OK) != 0)
        good = refuse(run, output, path, strerror(errno));
    else if (!(run->outputs[index].path = canonical_path(path)))
        good = refuse(run, output, path, strerror(errno));
    else if (!may_replace(run->outputs[index].path))
        good = refuse(run, output, path, "belongs to somebody else, in a folder with a sticky bit");
    free(folder);
    run->outputs[index].shown = path;
    return good;
}

static bool is_npy(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".npy") == 0;
}

bool run_check_outputs(job_run *run)
{
    for (int64_t i = 0; i < run->job->output_count; i++) {
        if (!check_output_path(run, i))
            return false;
        for (int64_t other = 0; other < i; other++)
            if (is_npy(run->outputs[i].path) &&
                strcmp(run->outputs[i].path, run->outputs[other].path) == 0)
                return refuse(run, &run->job->outputs[i], run->outputs[i].path,
                              "another output goes there too");
    }
    return true;
}

/* ---- Writing ---- */

/* Everything that goes to the file of output `first`, under a temporary name beside it. */
static bool prepare(const job_run *run, int64_t first, tensor_pending **pending)
{
    const char *target = run->outputs[first].path;
    tensor_output *list = tool_allocate((size_t)run->job->output_count, sizeof *list);
    int64_t count = 0;
    for (int64_t i = first; i < run->job->output_count; i++)
        if (strcmp(run->outputs[i].path, target) == 0)
            list[count++] = (tensor_output){run->job->outputs[i].name, run->outputs[i].tensor};
    io_error problem;
    bool good = tensor_file_prepare(target, list, count, pending, &problem) == KILN_OK;
    if (!good)
        tool_fail(run->common, "%s", problem.text);
    free(list);
    return good;
}

static bool is_first_of_file(const job_run *run, int64_t index)
{
    for (int64_t other = 0; other < index; other++)
        if (strcmp(run->outputs[index].path, run->outputs[other].path) == 0)
            return false;
    return true;
}

bool run_write_outputs(job_run *run)
{
    int64_t count = 0;
    bool good = true;
    tensor_pending **files = tool_allocate((size_t)run->job->output_count, sizeof *files);
    for (int64_t i = 0; good && i < run->job->output_count; i++) {
        if (!is_first_of_file(run, i))
            continue;
        tool_progress("writing %s", run->job->outputs[i].file);
        good = !tool_interrupted() && prepare(run, i, &files[count]);
        count += good;
    }
    io_error problem;
    if (!good || tool_interrupted()) {
        for (int64_t i = 0; i < count; i++)
            tensor_pending_discard(files[i]);
        good = false;
    } else if (tensor_pending_commit(files, count, &problem) != KILN_OK) {
        tool_fail(run->common, "%s", problem.text);
        good = false;
    }
    free(files);
    return good;
}
