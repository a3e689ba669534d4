/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: reading the YAML, but for the steps. */
#include "tools/kiln/job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kiln/command.h"

/* ---- Pieces ---- */

bool job_fail(kiln_yaml_error *error, const kiln_yaml_node *node, const char *format, ...)
{
    char text[sizeof error->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (node)
        return kiln_yaml_fail(error, node, "%s", text);
    memcpy(error->text, text, sizeof text);
    return false;
}

/* Arrays grow one by one: jobs are small, and realloc is not slow. */
static void *append(void **list, int64_t *count, size_t size)
{
    *list = tool_grow(*list, (size_t)*count + 1, size);
    return memset((char *)*list + (size_t)(*count)++ * size, 0, size);
}

job_tensor *job_add_tensor(kiln_job *job)
{
    job_tensor *tensor = append((void **)&job->tensors, &job->tensor_count, sizeof *tensor);
    tensor->producer = tensor->scale = tensor->zero_point = JOB_NONE;
    return tensor;
}

job_step *job_add_step(kiln_job *job)
{
    job_step *step = append((void **)&job->steps, &job->step_count, sizeof *step);
    *step = job_empty_step();
    return step;
}

job_step job_empty_step(void)
{
    return (job_step){.a = JOB_NONE,
                      .b = JOB_NONE,
                      .c = JOB_NONE,
                      .d = JOB_NONE,
                      .d_scale = JOB_NONE,
                      .groups = JOB_NONE,
                      .alpha = 1};
}

bool job_add_result(kiln_job *job, const char *name, const kiln_yaml_node *node, int64_t *index,
                    kiln_yaml_error *error)
{
    if (!job_name_is_free(job, name, node, error))
        return false;
    job_tensor *tensor = job_add_tensor(job);
    tensor->name = name;
    tensor->node = node;
    tensor->producer = job->step_count;
    *index = job->tensor_count - 1;
    return true;
}

job_output *job_add_output(kiln_job *job)
{
    return append((void **)&job->outputs, &job->output_count, sizeof *job->outputs);
}

int64_t job_find_tensor(const kiln_job *job, const char *name)
{
    for (int64_t i = 0; i < job->tensor_count; i++)
        if (strcmp(job->tensors[i].name, name) == 0)
            return i;
    return JOB_NONE;
}

bool job_name_is_free(const kiln_job *job, const char *name, const kiln_yaml_node *node,
                      kiln_yaml_error *error)
{
    int64_t other = job_find_tensor(job, name);
    if (!name[0])
        return job_fail(error, node, "a tensor's name may not be empty");
    if (other == JOB_NONE)
        return true;
    const kiln_yaml_node *place = job->tensors[other].node;
    return job_fail(error, node, "there already is a tensor '%s', in line %d; choose another name",
                    name, place ? (int)place->line : 0);
}

/* Whether a node names what a step makes: NAME, or {name: NAME, …}. */
static bool names_result(const kiln_yaml_node *node, const char *name)
{
    if (node && node->kind == KILN_YAML_MAPPING)
        node = kiln_yaml_get(node, "name");
    return node && node->kind == KILN_YAML_SCALAR && strcmp(node->text, name) == 0;
}

static bool makes(const kiln_yaml_node *step, const char *name)
{
    const kiln_yaml_node *d = kiln_yaml_get(step, "d"),
                         *epilogues = kiln_yaml_get(step, "epilogues");
    bool found = names_result(d, name) || (d && names_result(kiln_yaml_get(d, "scale"), name));
    for (size_t i = 0; epilogues && epilogues->kind == KILN_YAML_SEQUENCE && i < epilogues->count;
         i++)
        found = found || names_result(kiln_yaml_get(epilogues->items[i], "bias_gradient"), name);
    return found;
}

/* The step that makes a tensor further down, NULL when none does. */
static const kiln_yaml_node *later_step(const kiln_job *job, const char *name)
{
    const kiln_yaml_node *steps = kiln_yaml_get(kiln_yaml_root(job->tree), "steps");
    for (size_t i = 0; steps && steps->kind == KILN_YAML_SEQUENCE && i < steps->count; i++)
        if (makes(steps->items[i], name))
            return steps->items[i];
    return NULL;
}

static bool unknown_tensor(const kiln_job *job, const kiln_yaml_node *node, const char *name,
                           kiln_yaml_error *error)
{
    const kiln_yaml_node *later = later_step(job, name);
    if (later)
        return job_fail(error, node,
                        "tensor '%s' is made only by the step in line %d, which must come first",
                        name, (int)later->line);
    const char **names = tool_allocate((size_t)job->tensor_count, sizeof *names);
    for (int64_t i = 0; i < job->tensor_count; i++)
        names[i] = job->tensors[i].name;
    const char *near = kiln_yaml_nearest(name, names, (size_t)job->tensor_count);
    free(names);
    return job_fail(error, node, "there is no tensor '%s'%s%s%s", name,
                    near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

bool job_use_tensor(const kiln_job *job, const kiln_yaml_node *node, const char *what,
                    int64_t *index, kiln_yaml_error *error)
{
    const char *name;
    if (!kiln_yaml_text(node, what, &name, error))
        return false;
    int64_t found = job_find_tensor(job, name);
    if (found == JOB_NONE)
        return unknown_tensor(job, node, name, error);
    if (job->tensors[found].producer == job->step_count)
        return job_fail(error, node,
                        "tensor '%s' is made by this very step; only later steps may read it",
                        name);
    *index = found;
    return true;
}

/* ---- YAML ---- */

#define EXPECT_KEYS(node, what, keys, error) \
    kiln_yaml_expect_keys(node, what, keys, sizeof(keys) / sizeof(keys)[0], error)

static bool required(const kiln_yaml_node *mapping, const char *what, const char *key,
                     const kiln_yaml_node **value, kiln_yaml_error *error)
{
    *value = kiln_yaml_get(mapping, key);
    return *value || kiln_yaml_fail(error, mapping, "%s: '%s' is missing", what, key);
}

/* NAME: FILE writes the tensor NAME; NAME: {scores: TENSOR, file: FILE} writes classes. */
static bool parse_output(kiln_job *job, const kiln_yaml_node *key, const kiln_yaml_node *value,
                         kiln_yaml_error *error)
{
    static const char *const keys[] = {"file", "scores"};
    const kiln_yaml_node *file = value, *scores = NULL;
    job_output output = {.name = key->text, .node = key};
    if (value->kind != KILN_YAML_SCALAR) {
        if (!EXPECT_KEYS(value, "an output", keys, error) ||
            !required(value, "an output", "file", &file, error))
            return false;
        scores = kiln_yaml_get(value, "scores");
    }
    output.classes = scores != NULL;
    if (!key->text[0])
        return kiln_yaml_fail(error, key, "an output's name may not be empty");
    if (!kiln_yaml_text(file, "the output's file", &output.file, error) ||
        !job_use_tensor(job, scores ? scores : key, scores ? "scores" : "an output", &output.tensor,
                        error))
        return false;
    *job_add_output(job) = output;
    return true;
}

static bool parse_outputs(kiln_job *job, const kiln_yaml_node *mapping, kiln_yaml_error *error)
{
    if (!kiln_yaml_expect(mapping, "outputs", KILN_YAML_MAPPING, error))
        return false;
    for (size_t i = 0; i < mapping->count; i++)
        if (!parse_output(job, mapping->keys[i], mapping->items[i], error))
            return false;
    return true;
}

static bool parse_check(kiln_job *job, const kiln_yaml_node *item, kiln_yaml_error *error)
{
    static const char *const kinds[] = {"accuracy"};
    static const char *const keys[] = {"scores", "labels", "at_least"};
    const kiln_yaml_node *accuracy, *scores, *labels, *at_least;
    if (!EXPECT_KEYS(item, "a check", kinds, error) ||
        !required(item, "a check", "accuracy", &accuracy, error) ||
        !EXPECT_KEYS(accuracy, "accuracy", keys, error) ||
        !required(accuracy, "accuracy", "scores", &scores, error) ||
        !required(accuracy, "accuracy", "labels", &labels, error) ||
        !required(accuracy, "accuracy", "at_least", &at_least, error))
        return false;
    job_check check = {.node = accuracy};
    if (!job_use_tensor(job, scores, "scores", &check.scores, error) ||
        !job_use_tensor(job, labels, "labels", &check.labels, error) ||
        !kiln_yaml_number(at_least, "at_least", 0, 1, &check.at_least, error))
        return false;
    *(job_check *)append((void **)&job->checks, &job->check_count, sizeof check) = check;
    return true;
}

static bool parse_checks(kiln_job *job, const kiln_yaml_node *list, kiln_yaml_error *error)
{
    if (!kiln_yaml_expect(list, "checks", KILN_YAML_SEQUENCE, error))
        return false;
    for (size_t i = 0; i < list->count; i++)
        if (!parse_check(job, list->items[i], error))
            return false;
    return true;
}

static bool parse_head(kiln_job *job, const kiln_yaml_node *root, kiln_yaml_error *error)
{
    static const char *const keys[] = {"schema", "name", "tensors", "steps", "outputs", "checks"};
    const kiln_yaml_node *node;
    int64_t schema;
    if (!EXPECT_KEYS(root, "a job", keys, error) ||
        !required(root, "a job", "schema", &node, error))
        return false;
    if (!kiln_yaml_integer(node, "schema", 1, INT32_MAX, false, &schema, error))
        return false;
    if (schema != 1)
        return kiln_yaml_fail(error, node, "this kiln reads jobs of schema 1, not %lld",
                              (long long)schema);
    node = kiln_yaml_get(root, "name");
    return !node || kiln_yaml_text(node, "name", &job->name, error);
}

static bool parse_job(kiln_job *job, kiln_yaml_error *error)
{
    const kiln_yaml_node *root = kiln_yaml_root(job->tree), *tensors, *steps, *outputs, *checks;
    if (!parse_head(job, root, error) || !required(root, "a job", "tensors", &tensors, error) ||
        !required(root, "a job", "steps", &steps, error))
        return false;
    outputs = kiln_yaml_get(root, "outputs");
    checks = kiln_yaml_get(root, "checks");
    return job_parse_tensors(job, tensors, error) && job_parse_steps(job, steps, error) &&
           (!outputs || parse_outputs(job, outputs, error)) &&
           (!checks || parse_checks(job, checks, error));
}

static bool finish_parse(const char *name, kiln_job *result, kiln_yaml_error *error)
{
    const char *slash = strrchr(name, '/');
    result->folder = tool_text("%.*s", slash ? (int)(slash - name) + 1 : 0, name);
    result->name = slash ? slash + 1 : name;
    if (parse_job(result, error))
        return true;
    job_free(result);
    return false;
}

bool job_parse(const char *name, const char *text, size_t size, kiln_job *result,
               kiln_yaml_error *error)
{
    memset(result, 0, sizeof *result);
    if (kiln_yaml_parse(name, text, size, &result->tree, error) != KILN_YAML_OK)
        return false;
    return finish_parse(name, result, error);
}

bool job_read(const char *path, kiln_job *result, kiln_yaml_error *error)
{
    memset(result, 0, sizeof *result);
    if (kiln_yaml_read(path, &result->tree, error) != KILN_YAML_OK)
        return false;
    return finish_parse(path, result, error);
}

void job_free(kiln_job *job)
{
    for (int64_t i = 0; i < job->tensor_count; i++)
        free(job->tensors[i].row_list);
    for (int64_t i = 0; i < job->file_count; i++) {
        tensor_file_close(job->files[i].file);
        free(job->files[i].path);
    }
    free(job->files);
    free(job->tensors);
    free(job->steps);
    free(job->outputs);
    free(job->checks);
    free(job->folder);
    kiln_yaml_free(job->tree);
    memset(job, 0, sizeof *job);
}
