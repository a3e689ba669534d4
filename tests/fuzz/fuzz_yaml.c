/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML reader: any bytes, then every conversion of every node. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"a", "name", "threads", "kiln.gemm/1"};

static void convert(const kiln_yaml_node *node)
{
    kiln_yaml_error error;
    int64_t integer;
    double number;
    bool truth;
    size_t index;
    const char *text;
    if (node->kind == KILN_YAML_SCALAR && strlen(node->text) > KILN_YAML_MAX_BYTES)
        abort();
    for (int with_size = 0; with_size < 2; with_size++)
        if (kiln_yaml_integer(node, "k", -1000, 1 << 30, with_size, &integer, &error) &&
            (integer < -1000 || integer > 1 << 30))
            abort();
    if (kiln_yaml_number(node, "k", -1, 1e9, &number, &error) && !(number >= -1 && number <= 1e9))
        abort();
    if (kiln_yaml_choice(node, "k", names, 4, &index, &error) &&
        strcmp(node->text, names[index]) != 0)
        abort();
    kiln_yaml_boolean(node, "k", &truth, &error);
    kiln_yaml_text(node, "k", &text, &error);
    kiln_yaml_expect_keys(node, "k", names, 4, &error);
}

/* Returns the number of nodes, aliases expanded. */
static size_t walk(const kiln_yaml_node *node, int depth)
{
    size_t count = 1;
    convert(node);
    if (depth > KILN_YAML_MAX_DEPTH)
        abort();
    for (size_t i = 0; i < node->count; i++) {
        if (node->kind == KILN_YAML_MAPPING) {
            if (kiln_yaml_get(node, node->keys[i]->text) != node->items[i])
                abort();
            count += walk(node->keys[i], depth + 1);
        }
        count += walk(node->items[i], depth + 1);
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kiln_yaml *tree = NULL;
    kiln_yaml_error error = {""};
    if (kiln_yaml_parse("fuzz.yaml", (const char *)data, size, &tree, &error) == KILN_YAML_OK) {
        if (walk(kiln_yaml_root(tree), 0) > KILN_YAML_MAX_NODES)
            abort();
        kiln_yaml_free(tree);
    } else if (tree || strncmp(error.text, "fuzz.yaml:", 10) != 0) {
        abort();
    }
    return 0;
}
