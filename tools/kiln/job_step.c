/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: reading the steps. */
#include <float.h>
#include <string.h>

#include "tools/kiln/command.h"
#include "tools/kiln/gemm_words.h"
#include "tools/kiln/job.h"

static bool type_of(const kiln_yaml_node *node, uint32_t *type, kiln_yaml_error *error)
{
#define TYPE_NAME(id, number, name, bits, kind) name,
    static const char *const names[] = {KILN_TYPES(TYPE_NAME)};
#undef TYPE_NAME
    size_t index;
    if (!kiln_yaml_choice(node, "type", names, sizeof names / sizeof names[0], &index, error))
        return false;
    *type = kiln_type_from_name(names[index]);
    return true;
}

/* ---- Epilogues ---- */

static bool clip_limits(const kiln_yaml_node *value, kiln_epilogue *epilogue,
                        kiln_yaml_error *error)
{
    if (!kiln_yaml_expect(value, "clip", KILN_YAML_SEQUENCE, error))
        return false;
    if (value->count != 2)
        return kiln_yaml_fail(error, value, "clip takes two numbers, as in {clip: [0, 6]}");
    if (!kiln_yaml_number(value->items[0], "clip", -DBL_MAX, DBL_MAX, &epilogue->p0, error) ||
        !kiln_yaml_number(value->items[1], "clip", -DBL_MAX, DBL_MAX, &epilogue->p1, error))
        return false;
    return epilogue->p0 <= epilogue->p1 ||
           kiln_yaml_fail(error, value, "clip: the lower limit %g is above the upper one %g",
                          epilogue->p0, epilogue->p1);
}

/* Whether {scale: X} gives a number rather than a tensor's name. */
static bool is_number(const kiln_yaml_node *value)
{
    double number;
    return value->kind == KILN_YAML_SCALAR && !value->quoted &&
           tool_read_number(value->text, &number);
}

static bool epilogue_value(const kiln_job *job, const kiln_yaml_node *value, job_epilogue *epilogue,
                           kiln_yaml_error *error)
{
    uint32_t kind = epilogue->epilogue.kind;
    const char *name = gemm_epilogue_name(kind);
    epilogue->node = value;
    if (kind == KILN_EPILOGUE_CLIP)
        return clip_limits(value, &epilogue->epilogue, error);
    if (kind == KILN_EPILOGUE_SCALE && is_number(value))
        return kiln_yaml_number(value, "scale", -DBL_MAX, DBL_MAX, &epilogue->epilogue.p0, error);
    if (gemm_epilogue_takes_operand(kind))
        return job_use_tensor(job, value, name, &epilogue->operand, error);
    return kiln_yaml_fail(error, value, "epilogue %s takes no value; write it as '%s'", name, name);
}

/* "relu", or a mapping of one name to its value. */
static bool parse_epilogue(const kiln_job *job, const kiln_yaml_node *item, job_epilogue *epilogue,
                           kiln_yaml_error *error)
{
    bool plain = item->kind == KILN_YAML_SCALAR;
    if (!plain && (item->kind != KILN_YAML_MAPPING || item->count != 1))
        return kiln_yaml_fail(
            error, item, "an epilogue is a name, or one name with its value, as in {bias: b1}");
    const kiln_yaml_node *key = plain ? item : item->keys[0];
    size_t count, index;
    const char *const *names = gemm_epilogue_names(&count);
    if (!kiln_yaml_choice(key, "an epilogue", names, count, &index, error))
        return false;
    memset(epilogue, 0, sizeof *epilogue);
    epilogue->epilogue.kind = gemm_epilogue_kind(names[index]);
    epilogue->operand = JOB_NONE;
    epilogue->node = item;
    if (!plain)
        return epilogue_value(job, item->items[0], epilogue, error);
    if (epilogue->epilogue.kind == KILN_EPILOGUE_CLIP ||
        gemm_epilogue_takes_operand(epilogue->epilogue.kind))
        return kiln_yaml_fail(error, item, "epilogue %s needs a value, as in {%s: …}", names[index],
                              names[index]);
    return true;
}

static bool parse_epilogues(const kiln_job *job, const kiln_yaml_node *list, job_step *step,
                            kiln_yaml_error *error)
{
    if (!kiln_yaml_expect(list, "epilogues", KILN_YAML_SEQUENCE, error))
        return false;
    if (list->count > KILN_GEMM_MAX_EPILOGUES)
        return kiln_yaml_fail(error, list, "%d epilogues are too many: at most %d are possible",
                              (int)list->count, KILN_GEMM_MAX_EPILOGUES);
    for (size_t i = 0; i < list->count; i++)
        if (!parse_epilogue(job, list->items[i], &step->epilogues[i], error))
            return false;
    step->epilogue_count = (uint32_t)list->count;
    return true;
}

/* ---- Operands ---- */

static bool operand(const kiln_job *job, const kiln_yaml_node *node, const char *key,
                    int64_t *index, const kiln_yaml_node **place, kiln_yaml_error *error)
{
    const kiln_yaml_node *value = kiln_yaml_get(node, key);
    if (!value)
        return kiln_yaml_fail(error, node, "a step needs '%s'", key);
    *place = value;
    return job_use_tensor(job, value, key, index, error);
}

static bool optional_boolean(const kiln_yaml_node *node, const char *key, bool *value,
                             kiln_yaml_error *error)
{
    const kiln_yaml_node *found = kiln_yaml_get(node, key);
    return !found || kiln_yaml_boolean(found, key, value, error);
}

static bool optional_number(const kiln_yaml_node *node, const char *key, double *value,
                            kiln_yaml_error *error)
{
    const kiln_yaml_node *found = kiln_yaml_get(node, key);
    return !found || kiln_yaml_number(found, key, -DBL_MAX, DBL_MAX, value, error);
}

static bool optional_name(const kiln_yaml_node *node, const char *key, const char **value,
                          kiln_yaml_error *error)
{
    const kiln_yaml_node *found = kiln_yaml_get(node, key);
    return !found || kiln_yaml_text(found, key, value, error);
}

static bool parse_c(const kiln_job *job, const kiln_yaml_node *node, job_step *step,
                    kiln_yaml_error *error)
{
    const kiln_yaml_node *c = kiln_yaml_get(node, "c"), *beta = kiln_yaml_get(node, "beta");
    if (c && !operand(job, node, "c", &step->c, &step->c_node, error))
        return false;
    if (!optional_number(node, "beta", &step->beta, error))
        return false;
    if (c && !beta)
        return kiln_yaml_fail(error, c, "c is used only with a beta: add one, or leave c out");
    return c || step->beta == 0 || kiln_yaml_fail(error, beta, "beta other than 0 needs c");
}

/* The result: a name, or {name, type}. */
static bool parse_d(kiln_job *job, const kiln_yaml_node *node, job_step *step,
                    kiln_yaml_error *error)
{
    static const char *const keys[] = {"name", "type"};
    const kiln_yaml_node *d = kiln_yaml_get(node, "d"), *name = d, *type = NULL;
    const char *text;
    if (!d)
        return kiln_yaml_fail(error, node, "a step needs 'd', the name of its result");
    if (d->kind != KILN_YAML_SCALAR) {
        if (!kiln_yaml_expect_keys(d, "d", keys, 2, error))
            return false;
        name = kiln_yaml_get(d, "name");
        type = kiln_yaml_get(d, "type");
        if (!name)
            return kiln_yaml_fail(error, d, "d: 'name' is missing");
    }
    if (!kiln_yaml_text(name, "d", &text, error) ||
        (type && !type_of(type, &step->type_out, error)) ||
        !job_name_is_free(job, text, name, error))
        return false;
    job_tensor *tensor = job_add_tensor(job);
    tensor->name = text;
    tensor->node = name;
    tensor->producer = job->step_count;
    step->d = job->tensor_count - 1;
    return true;
}

/* ---- Steps ---- */

static bool parse_operator(const kiln_yaml_node *node, kiln_yaml_error *error)
{
    static const char *const operators[] = {KILN_GEMM};
    const kiln_yaml_node *name = kiln_yaml_get(node, "operator");
    size_t index;
    if (!name)
        return kiln_yaml_fail(error, node, "a step needs 'operator', such as %s", KILN_GEMM);
    return kiln_yaml_choice(name, "operator", operators, 1, &index, error);
}

static bool parse_step(kiln_job *job, const kiln_yaml_node *node, kiln_yaml_error *error)
{
    static const char *const keys[] = {
        "name", "operator",    "a",           "b",         "c",       "d",     "alpha",
        "beta", "transpose_a", "transpose_b", "epilogues", "backend", "device"};
    job_step step = {
        .node = node, .a = JOB_NONE, .b = JOB_NONE, .c = JOB_NONE, .d = JOB_NONE, .alpha = 1};
    if (!kiln_yaml_expect_keys(node, "a step", keys, sizeof keys / sizeof keys[0], error) ||
        !parse_operator(node, error) || !optional_name(node, "name", &step.name, error) ||
        !operand(job, node, "a", &step.a, &step.a_node, error) ||
        !operand(job, node, "b", &step.b, &step.b_node, error) ||
        !parse_c(job, node, &step, error) || !optional_number(node, "alpha", &step.alpha, error) ||
        !optional_boolean(node, "transpose_a", &step.transpose_a, error) ||
        !optional_boolean(node, "transpose_b", &step.transpose_b, error) ||
        !optional_name(node, "backend", &step.backend, error) ||
        !optional_name(node, "device", &step.device, error))
        return false;
    const kiln_yaml_node *epilogues = kiln_yaml_get(node, "epilogues");
    if (epilogues && !parse_epilogues(job, epilogues, &step, error))
        return false;
    if (!parse_d(job, node, &step, error))
        return false;
    if (!step.name)
        step.name = job->tensors[step.d].name;
    *job_add_step(job) = step;
    return true;
}

bool job_parse_steps(kiln_job *job, const kiln_yaml_node *list, kiln_yaml_error *error)
{
    if (!kiln_yaml_expect(list, "steps", KILN_YAML_SEQUENCE, error))
        return false;
    if (list->count == 0)
        return kiln_yaml_fail(error, list, "steps: a job needs at least one");
    for (size_t i = 0; i < list->count; i++)
        if (!parse_step(job, list->items[i], error))
            return false;
    return true;
}
