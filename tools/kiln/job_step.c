/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: reading the steps. */
#include <float.h>
#include <string.h>

#include "tools/kiln/command.h"
#include "tools/kiln/gemm_words.h"
#include "tools/kiln/job.h"

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

/* How gates and the values that they gate lie in the columns. */
static bool swiglu_pieces(const kiln_yaml_node *value, kiln_epilogue *epilogue,
                          kiln_yaml_error *error)
{
    int64_t columns;
    if (value->kind == KILN_YAML_SCALAR && value->text && strcmp(value->text, "halves") == 0) {
        epilogue->p0 = -1;
        return true;
    }
    if (!kiln_yaml_integer(value, "swiglu", 1, INT32_MAX, false, &columns, error))
        return kiln_yaml_fail(error, value,
                              "swiglu takes halves or the columns of a piece, a whole number from "
                              "1 to %d%s%.40s%s",
                              INT32_MAX, value->kind == KILN_YAML_SCALAR ? ", not '" : "",
                              value->kind == KILN_YAML_SCALAR ? value->text : "",
                              value->kind == KILN_YAML_SCALAR ? "'" : "");
    epilogue->p0 = columns == 1 ? 0 : (double)columns;
    return true;
}

/* {bias_gradient: NAME}, or {name, each}: the step makes that tensor. */
static bool gradient(kiln_job *job, const kiln_yaml_node *value, job_epilogue *epilogue,
                     kiln_yaml_error *error)
{
    static const char *const keys[] = {"name", "each"};
    const kiln_yaml_node *name = value, *each = NULL;
    const char *text;
    if (value->kind != KILN_YAML_SCALAR) {
        if (!kiln_yaml_expect_keys(value, "bias_gradient", keys, 2, error))
            return false;
        name = kiln_yaml_get(value, "name");
        each = kiln_yaml_get(value, "each");
        if (!name)
            return kiln_yaml_fail(error, value, "bias_gradient: 'name' is missing");
    }
    return (!each || kiln_yaml_boolean(each, "each", &epilogue->each, error)) &&
           kiln_yaml_text(name, "bias_gradient", &text, error) &&
           job_add_result(job, text, name, &epilogue->operand, error);
}

static bool epilogue_value(kiln_job *job, const kiln_yaml_node *value, job_epilogue *epilogue,
                           kiln_yaml_error *error)
{
    uint32_t kind = epilogue->epilogue.kind;
    const char *name = gemm_epilogue_name(kind);
    epilogue->node = value;
    if (kind == KILN_EPILOGUE_CLIP)
        return clip_limits(value, &epilogue->epilogue, error);
    if (kind == KILN_EPILOGUE_SWIGLU)
        return swiglu_pieces(value, &epilogue->epilogue, error);
    if (kind == KILN_EPILOGUE_BIAS_GRADIENT)
        return gradient(job, value, epilogue, error);
    if (kind == KILN_EPILOGUE_SCALE && is_number(value))
        return kiln_yaml_number(value, "scale", -DBL_MAX, DBL_MAX, &epilogue->epilogue.p0, error);
    if (gemm_epilogue_takes_operand(kind))
        return job_use_tensor(job, value, name, &epilogue->operand, error);
    return kiln_yaml_fail(error, value, "epilogue %s takes no value; write it as '%s'", name, name);
}

/* "relu", or a mapping of one name to its value. */
static bool parse_epilogue(kiln_job *job, const kiln_yaml_node *item, job_epilogue *epilogue,
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

static bool parse_epilogues(kiln_job *job, const kiln_yaml_node *list, job_step *step,
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

/* Of a plugin or a device. */
static bool optional_place(const kiln_yaml_node *node, const char *key, const char **value,
                           kiln_yaml_error *error)
{
    if (!optional_name(node, key, value, error))
        return false;
    return !*value || **value ||
           kiln_yaml_fail(error, kiln_yaml_get(node, key),
                          "%s: a name is wanted, not ''; leave %s out for what the profile says",
                          key, key);
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

/* Where the scales of a quantised result go: a name, or {name, type}. */
static bool parse_d_scale(kiln_job *job, const kiln_yaml_node *scale, job_step *step,
                          kiln_yaml_error *error)
{
    static const char *const keys[] = {"name", "type"};
    const kiln_yaml_node *name = scale, *type = NULL;
    const char *text;
    if (scale->kind != KILN_YAML_SCALAR) {
        if (!kiln_yaml_expect_keys(scale, "scale", keys, 2, error))
            return false;
        name = kiln_yaml_get(scale, "name");
        type = kiln_yaml_get(scale, "type");
        if (!name)
            return kiln_yaml_fail(error, scale, "scale: 'name' is missing");
    }
    return kiln_yaml_text(name, "scale", &text, error) &&
           (!type || job_parse_type(type, &step->d_scale_type, error)) &&
           job_add_result(job, text, name, &step->d_scale, error);
}

/* A result with scales is quantised, by the last epilogue, whether that is written down or not. */
static bool quantize_d(kiln_job *job, const kiln_yaml_node *d, job_step *step,
                       kiln_yaml_error *error)
{
    const kiln_yaml_node *scale = kiln_yaml_get(d, "scale"), *block = kiln_yaml_get(d, "block");
    uint32_t last = step->epilogue_count - 1;
    bool asked =
        step->epilogue_count > 0 && step->epilogues[last].epilogue.kind == KILN_EPILOGUE_QUANTIZE;
    int32_t shared[2] = {1, -1};
    if (!scale && block)
        return kiln_yaml_fail(error, block,
                              "block says what shares a scale; name that too, as in "
                              "{name: h, type: e4m3, scale: h_scale}");
    if (!scale)
        return !asked ||
               kiln_yaml_fail(error, step->epilogues[last].node,
                              "quantize needs a name for the scales that it finds, as in d: "
                              "{name: h, type: e4m3, scale: h_scale}");
    if (!asked && step->epilogue_count == KILN_GEMM_MAX_EPILOGUES)
        return kiln_yaml_fail(error, scale,
                              "quantising the result is one epilogue more than the "
                              "%d that are possible",
                              KILN_GEMM_MAX_EPILOGUES);
    if (block && !job_parse_block(block, shared, error))
        return false;
    if (shared[0] != 1)
        return kiln_yaml_fail(error, block,
                              "the rows of a result have scales of their own: block "
                              "must be [1, COLUMNS]");
    if (!parse_d_scale(job, scale, step, error))
        return false;
    if (!asked)
        step->epilogues[step->epilogue_count++] = (job_epilogue){
            .epilogue.kind = KILN_EPILOGUE_QUANTIZE, .operand = JOB_NONE, .node = scale};
    job_tensor *tensor = &job->tensors[step->d];
    tensor->scale = step->d_scale;
    tensor->scale_node = scale;
    memcpy(tensor->block, shared, sizeof shared);
    return true;
}

/* The result: a name, or {name, type, scale, block}. */
static bool parse_d(kiln_job *job, const kiln_yaml_node *node, job_step *step,
                    kiln_yaml_error *error)
{
    static const char *const keys[] = {"name", "type", "scale", "block"};
    const kiln_yaml_node *d = kiln_yaml_get(node, "d"), *name = d, *type = NULL;
    const char *text;
    if (!d)
        return kiln_yaml_fail(error, node, "a step needs 'd', the name of its result");
    if (d->kind != KILN_YAML_SCALAR) {
        if (!kiln_yaml_expect_keys(d, "d", keys, sizeof keys / sizeof keys[0], error))
            return false;
        name = kiln_yaml_get(d, "name");
        type = kiln_yaml_get(d, "type");
        if (!name)
            return kiln_yaml_fail(error, d, "d: 'name' is missing");
    }
    return kiln_yaml_text(name, "d", &text, error) &&
           (!type || job_parse_type(type, &step->type_out, error)) &&
           job_add_result(job, text, name, &step->d, error) && quantize_d(job, d, step, error);
}

/* ---- Groups and precision ---- */

/* {KIND: TENSOR}, perhaps with an alignment. */
static bool parse_groups(const kiln_job *job, const kiln_yaml_node *node, job_step *step,
                         kiln_yaml_error *error)
{
    static const char *const keys[] = {"contiguous", "masked", "k", "alignment"};
    const kiln_yaml_node *groups = kiln_yaml_get(node, "groups");
    if (!groups)
        return true;
    if (!kiln_yaml_expect_keys(groups, "groups", keys, 4, error))
        return false;
    const kiln_yaml_node *alignment = kiln_yaml_get(groups, keys[3]);
    for (uint32_t kind = 0; kind < 3; kind++) {
        const kiln_yaml_node *tensor = kiln_yaml_get(groups, keys[kind]);
        if (!tensor)
            continue;
        if (step->grouping)
            return kiln_yaml_fail(error, tensor, "groups are contiguous, masked or by k: name one");
        step->grouping = KILN_GROUPING_CONTIGUOUS + kind;
        step->groups_node = tensor;
        if (!job_use_tensor(job, tensor, "groups", &step->groups, error))
            return false;
    }
    if (!step->grouping)
        return kiln_yaml_fail(error, groups,
                              "groups needs a kind with its tensor, as in "
                              "{contiguous: rows}, {masked: counts} or {k: ends}");
    return !alignment || kiln_yaml_integer(alignment, "alignment", 1, INT64_C(1) << 40, false,
                                           &step->group_alignment, error);
}

/* A max_rel_error alone asks for as much speed as it allows. */
static bool parse_precision(const kiln_yaml_node *node, job_step *step, kiln_yaml_error *error)
{
    static const char *const names[] = {"exact", "fast", "auto"};
    const kiln_yaml_node *precision = kiln_yaml_get(node, "precision"),
                         *limit = kiln_yaml_get(node, "max_rel_error");
    size_t index = limit ? KILN_PRECISION_AUTO : KILN_PRECISION_EXACT;
    if (precision && !kiln_yaml_choice(precision, "precision", names, 3, &index, error))
        return false;
    if (limit && !kiln_yaml_number(limit, "max_rel_error", 0, 1, &step->max_rel_error, error))
        return false;
    step->precision = (uint32_t)index;
    if (limit && index != KILN_PRECISION_AUTO)
        return kiln_yaml_fail(error, limit,
                              "max_rel_error is for precision auto; leave one of the "
                              "two out");
    return limit || index != KILN_PRECISION_AUTO ||
           kiln_yaml_fail(error, precision, "precision auto needs a max_rel_error");
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
    static const char *const keys[] = {"name",        "operator",    "a",         "b",
                                       "c",           "d",           "alpha",     "beta",
                                       "groups",      "backend",     "device",    "precision",
                                       "transpose_a", "transpose_b", "epilogues", "max_rel_error"};
    job_step step = job_empty_step();
    step.node = node;
    if (!kiln_yaml_expect_keys(node, "a step", keys, sizeof keys / sizeof keys[0], error) ||
        !parse_operator(node, error) || !optional_name(node, "name", &step.name, error) ||
        !operand(job, node, "a", &step.a, &step.a_node, error) ||
        !operand(job, node, "b", &step.b, &step.b_node, error) ||
        !parse_c(job, node, &step, error) || !optional_number(node, "alpha", &step.alpha, error) ||
        !optional_boolean(node, "transpose_a", &step.transpose_a, error) ||
        !optional_boolean(node, "transpose_b", &step.transpose_b, error) ||
        !parse_groups(job, node, &step, error) || !parse_precision(node, &step, error) ||
        !optional_place(node, "backend", &step.backend, error) ||
        !optional_place(node, "device", &step.device, error))
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
