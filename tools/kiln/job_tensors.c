/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: reading the tensors that come from files, with what their elements mean. */
#include <string.h>

#include "tools/kiln/command.h"
#include "tools/kiln/job.h"

bool job_parse_type(const kiln_yaml_node *node, uint32_t *type, kiln_yaml_error *error)
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

static bool block_extent(const kiln_yaml_node *node, int32_t *extent, kiln_yaml_error *error)
{
    int64_t value;
    if (node->kind == KILN_YAML_SCALAR && node->text && strcmp(node->text, "all") == 0) {
        *extent = -1;
        return true;
    }
    if (!kiln_yaml_integer(node, "block", 1, INT32_MAX, false, &value, error))
        return false;
    *extent = (int32_t)value;
    return true;
}

bool job_parse_block(const kiln_yaml_node *node, int32_t block[2], kiln_yaml_error *error)
{
    if (node->kind != KILN_YAML_SEQUENCE || node->count != 2)
        return kiln_yaml_fail(error, node,
                              "block takes the rows and columns that share a scale, each a number "
                              "or 'all', as in [1, 128]");
    return block_extent(node->items[0], &block[0], error) &&
           block_extent(node->items[1], &block[1], error);
}

static bool optional_text(const kiln_yaml_node *mapping, const char *key, const char **value,
                          kiln_yaml_error *error)
{
    const kiln_yaml_node *node = kiln_yaml_get(mapping, key);
    return !node || kiln_yaml_text(node, key, value, error);
}

/* The keys of a tensor beside its file. Names of tensors are looked up when all are known. */
static bool parse_meaning(job_tensor *tensor, const kiln_yaml_node *value, kiln_yaml_error *error)
{
    const kiln_yaml_node *type = kiln_yaml_get(value, "type"),
                         *block = kiln_yaml_get(value, "block");
    tensor->scale_node = kiln_yaml_get(value, "scale");
    tensor->zero_point_node = kiln_yaml_get(value, "zero_point");
    tensor->block_told = block != NULL;
    if (block && !tensor->scale_node && !tensor->zero_point_node)
        return kiln_yaml_fail(error, block,
                              "block says what shares a scale or a zero_point, of which there is "
                              "none; name one, or leave block out");
    return (!type || job_parse_type(type, &tensor->read_as, error)) &&
           (!block || job_parse_block(block, tensor->block, error));
}

static bool parse_tensor(kiln_job *job, const kiln_yaml_node *key, const kiln_yaml_node *value,
                         kiln_yaml_error *error)
{
    static const char *const keys[] = {"file",  "tensor",     "rows", "type",
                                       "scale", "zero_point", "block"};
    const kiln_yaml_node *file = value;
    if (!job_name_is_free(job, key->text, key, error))
        return false;
    job_tensor *tensor = job_add_tensor(job);
    tensor->name = key->text;
    tensor->node = key;
    if (value->kind != KILN_YAML_SCALAR) {
        if (!kiln_yaml_expect_keys(value, "a tensor", keys, sizeof keys / sizeof keys[0], error))
            return false;
        file = kiln_yaml_get(value, "file");
        if (!file)
            return kiln_yaml_fail(error, value, "a tensor: 'file' is missing");
    }
    return kiln_yaml_text(file, value == file ? "the tensor's file" : "file", &tensor->file,
                          error) &&
           optional_text(value, "tensor", &tensor->entry, error) &&
           optional_text(value, "rows", &tensor->rows, error) &&
           parse_meaning(tensor, value, error);
}

/* Scales have no scales. */
static bool use_scale(const kiln_job *job, const kiln_yaml_node *node, const char *key,
                      int64_t *index, kiln_yaml_error *error)
{
    if (!node)
        return true;
    if (!job_use_tensor(job, node, key, index, error))
        return false;
    const job_tensor *other = &job->tensors[*index];
    return (!other->scale_node && !other->zero_point_node) ||
           kiln_yaml_fail(error, node, "%s '%s' has a scale or a zero_point itself", key,
                          other->name);
}

bool job_parse_tensors(kiln_job *job, const kiln_yaml_node *mapping, kiln_yaml_error *error)
{
    if (!kiln_yaml_expect(mapping, "tensors", KILN_YAML_MAPPING, error))
        return false;
    for (size_t i = 0; i < mapping->count; i++)
        if (!parse_tensor(job, mapping->keys[i], mapping->items[i], error))
            return false;
    for (int64_t i = 0; i < job->tensor_count; i++) {
        job_tensor *tensor = &job->tensors[i];
        if (!use_scale(job, tensor->scale_node, "scale", &tensor->scale, error) ||
            !use_scale(job, tensor->zero_point_node, "zero_point", &tensor->zero_point, error))
            return false;
    }
    return true;
}
