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

/* The folder of a path, "." when it names none; allocated. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return tool_text(".");
    return slash == path ? tool_text("/") : tool_text("%.*s", (int)(slash - path), path);
}

/* The path without links, so that two spellings of one file are seen and a link at the end is
 * followed; NULL, with errno, when its folder does not exist. */
static char *canonical_path(const char *path)
{
    char *whole = realpath(path, NULL);
    if (whole)
        return whole;
    const char *slash = strrchr(path, '/');
    char *folder = folder_of(path), *real = realpath(folder, NULL), *result = NULL;
    if (real)
        result = tool_text("%s/%s", strcmp(real, "/") == 0 ? "" : real, slash ? slash + 1 : path);
    free(folder);
    free(real);
    return result;
}

static bool refuse(const job_run *run, const job_output *output, const char *path, const char *why)
{
    kiln_yaml_error error;
    job_fail(&error, output->node, "output '%s': %s: %s", output->name, path, why);
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
    bool good = true;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        good = refuse(run, output, path, "not a regular file; give the name of one");
    else if (access(folder, W_OK | X_OK) != 0)
        good = refuse(run, output, path, strerror(errno));
    else if (!(run->outputs[index].path = canonical_path(path)))
        good = refuse(run, output, path, strerror(errno));
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

/* A file that is whole but does not bear its name yet. */
typedef struct pending {
    const char *target;
    char *temporary;
} pending;

static void discard(pending *files, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        unlink(files[i].temporary);
        free(files[i].temporary);
    }
    free(files);
}

/* Writes everything that goes to the file of output `first` under a temporary name beside it. */
static bool write_temporary(const job_run *run, int64_t first, pending *file)
{
    const char *target = run->outputs[first].path, *suffix = strrchr(target, '.');
    tensor_output *list = tool_allocate((size_t)run->job->output_count, sizeof *list);
    int64_t count = 0;
    for (int64_t i = first; i < run->job->output_count; i++)
        if (strcmp(run->outputs[i].path, target) == 0)
            list[count++] = (tensor_output){run->job->outputs[i].name, run->outputs[i].tensor};
    char *folder = folder_of(target);
    file->target = target;
    file->temporary =
        tool_text("%s/.kiln-%ld-%lld%s", folder, (long)getpid(), (long long)first, suffix);
    io_error problem;
    kiln_status status = tensor_file_write(file->temporary, list, count, &problem);
    if (status != KILN_OK) {
        /* The sentence begins with the temporary's name, which tells nobody anything. */
        size_t length = strlen(file->temporary);
        bool named = strncmp(problem.text, file->temporary, length) == 0;
        tool_fail(run->common, "%s%s", named ? target : "", problem.text + (named ? length : 0));
        free(file->temporary);
    }
    free(folder);
    free(list);
    return status == KILN_OK;
}

static bool give_name(const job_run *run, const pending *file)
{
    struct stat about;
    if (stat(file->target, &about) == 0)
        chmod(file->temporary, about.st_mode & 07777);
    if (rename(file->temporary, file->target) == 0)
        return true;
    tool_fail(run->common, "%s: %s", file->target, strerror(errno));
    return false;
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
    pending *files = tool_allocate((size_t)run->job->output_count, sizeof *files);
    int64_t count = 0;
    bool good = true;
    for (int64_t i = 0; good && i < run->job->output_count; i++) {
        if (!is_first_of_file(run, i))
            continue;
        tool_progress("writing %s", run->job->outputs[i].file);
        good = !tool_interrupted() && write_temporary(run, i, &files[count]);
        count += good;
    }
    good = good && !tool_interrupted();
    /* What has been renamed is no longer there to be discarded. */
    for (int64_t i = 0; good && i < count; i++)
        good = give_name(run, &files[i]);
    discard(files, count);
    return good;
}
