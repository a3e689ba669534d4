/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the YAML reader. Any bytes; then every conversion of every node, and the tree
 * that libyaml makes of them. */
#include "tests/fuzz/must.h"

#include <inttypes.h>
#include <stdio.h>

#include <yaml.h>

#include "support/yaml.h"

static const char *const names[] = {"a", "name", "threads", "kiln.gemm/1"};

/* A number in its usual spelling is just that number, and a number with a limit beyond it none. */
static void convert_integer(const kiln_yaml_node *node)
{
    kiln_yaml_error error;
    int64_t value, sized = 0;
    char text[32];
    bool taken = kiln_yaml_integer(node, "k", INT64_MIN, INT64_MAX, false, &value, &error);
    if (kiln_yaml_integer(node, "k", -1000, 1 << 30, true, &sized, &error))
        must(sized >= -1000 && sized <= 1 << 30 && (!taken || sized == value));
    else
        must(!taken || value < -1000 || value > 1 << 30);
    if (!taken)
        return;
    snprintf(text, sizeof text, "%" PRId64, value);
    must(!node->quoted);
    must(strcmp(node->text, text) == 0 || strchr("+-0", node->text[0]));
    must(strtoll(node->text, NULL, 0) == value);
}

static void convert(const kiln_yaml_node *node)
{
    kiln_yaml_error error;
    double number;
    bool truth;
    size_t index;
    const char *text;
    if (kiln_yaml_number(node, "k", -1, 1e9, &number, &error))
        must(number >= -1 && number <= 1e9 && number == strtod(node->text, NULL));
    if (kiln_yaml_choice(node, "k", names, 4, &index, &error))
        must(strcmp(node->text, names[index]) == 0);
    if (kiln_yaml_boolean(node, "k", &truth, &error))
        must(strcmp(node->text, truth ? "true" : "false") == 0);
    must(kiln_yaml_text(node, "k", &text, &error) ==
         (node->kind == KILN_YAML_SCALAR && !kiln_yaml_is_null(node)));
    kiln_yaml_expect_keys(node, "k", names, 4, &error);
    convert_integer(node);
}

/* Returns the number of nodes, aliases expanded. */
static size_t walk(const kiln_yaml_node *node, int depth)
{
    size_t count = 1;
    convert(node);
    must(depth <= KILN_YAML_MAX_DEPTH && node->line > 0 && node->column > 0);
    for (size_t i = 0; i < node->count; i++) {
        if (node->kind == KILN_YAML_MAPPING) {
            must(kiln_yaml_get(node, node->keys[i]->text) == node->items[i]);
            count += walk(node->keys[i], depth + 1);
        }
        count += walk(node->items[i], depth + 1);
    }
    return count;
}

/* Compares with the tree that libyaml makes itself; its nodes have numbers. */
static void compare(const kiln_yaml_node *ours, yaml_document_t *document, int number)
{
    const yaml_node_t *theirs = yaml_document_get_node(document, number);
    must(theirs);
    if (theirs->type == YAML_SCALAR_NODE) {
        must(ours->kind == KILN_YAML_SCALAR && strlen(ours->text) == theirs->data.scalar.length);
        must(strcmp(ours->text, (const char *)theirs->data.scalar.value) == 0);
        must(ours->quoted == (theirs->data.scalar.style != YAML_PLAIN_SCALAR_STYLE));
    } else if (theirs->type == YAML_SEQUENCE_NODE) {
        const yaml_node_item_t *items = theirs->data.sequence.items.start;
        must(ours->kind == KILN_YAML_SEQUENCE);
        must(ours->count == (size_t)(theirs->data.sequence.items.top - items));
        for (size_t i = 0; i < ours->count; i++)
            compare(ours->items[i], document, items[i]);
    } else {
        const yaml_node_pair_t *pairs = theirs->data.mapping.pairs.start;
        must(ours->kind == KILN_YAML_MAPPING);
        must(ours->count == (size_t)(theirs->data.mapping.pairs.top - pairs));
        for (size_t i = 0; i < ours->count; i++) {
            compare(ours->keys[i], document, pairs[i].key);
            compare(ours->items[i], document, pairs[i].value);
        }
    }
    must(ours->line == (int32_t)theirs->start_mark.line + 1 &&
         ours->column == (int32_t)theirs->start_mark.column + 1);
}

static void compare_with_libyaml(const kiln_yaml_node *root, const uint8_t *bytes, size_t size)
{
    yaml_parser_t parser;
    yaml_document_t document;
    must(yaml_parser_initialize(&parser));
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, bytes, size);
    if (yaml_parser_load(&parser, &document)) {
        compare(root, &document, 1);
        yaml_document_delete(&document);
    } else { /* which is stricter than YAML there */
        must(parser.problem && strcmp(parser.problem, "second occurrence") == 0);
    }
    yaml_parser_delete(&parser);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    kiln_yaml *tree = NULL;
    kiln_yaml_error error = {""};
    if (kiln_yaml_parse("fuzz.yaml", (const char *)bytes, size, &tree, &error) == KILN_YAML_OK) {
        must(walk(kiln_yaml_root(tree), 0) <= KILN_YAML_MAX_NODES);
        compare_with_libyaml(kiln_yaml_root(tree), bytes, size);
        kiln_yaml_free(tree);
    } else {
        must(!tree && strncmp(error.text, "fuzz.yaml:", 10) == 0);
    }
    return 0;
}
