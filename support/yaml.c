/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML tree: from libyaml's events to nodes, and the file that they come from. */
#define _GNU_SOURCE /* O_CLOEXEC under -std=c11 */
#include "support/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yaml.h>

enum { MAX_KEY_BYTES = 128, FIRST_BLOCK_BYTES = 512 };

/* A piece of a tree's memory; everything in a tree is freed at once. */
struct block {
    struct block *next;
    size_t used, size;
    max_align_t memory[];
};

struct kiln_yaml {
    struct block *blocks;
    const char *name;
    kiln_yaml_node *root;
};

/* What an alias may name. Weight and height are of the whole subtree, aliases expanded. */
struct anchor {
    const char *name;
    kiln_yaml_node *node;
    size_t weight;
    int height;
    bool closed;
};

/* A sequence or mapping whose end has not been seen. */
struct frame {
    kiln_yaml_node *node;
    struct anchor *anchor; /* NULL = none */
    size_t first;          /* its children begin here in `pending` */
    size_t weight_before;
    int height;
};

struct reader {
    kiln_yaml *tree;
    kiln_yaml_error *error;
    yaml_parser_t parser;
    struct frame frames[KILN_YAML_MAX_DEPTH];
    int depth;
    struct anchor anchors[KILN_YAML_MAX_ALIASES];
    int anchor_count, alias_count;
    size_t weight;            /* nodes so far, aliases expanded */
    kiln_yaml_node **pending; /* children of all open frames */
    size_t pending_count, pending_capacity;
};

static void *tree_alloc(kiln_yaml *tree, size_t bytes)
{
    size_t step = sizeof(max_align_t);
    bytes = (bytes + step - 1) / step * step;
    struct block *block = tree->blocks;
    if (!block || block->size - block->used < bytes) {
        size_t size = block ? 2 * block->size : FIRST_BLOCK_BYTES;
        size = bytes > size ? bytes : size;
        block = malloc(sizeof *block + size);
        if (!block)
            return NULL;
        *block = (struct block){tree->blocks, 0, size};
        tree->blocks = block;
    }
    void *memory = (char *)block->memory + block->used;
    block->used += bytes;
    return memory;
}

static char *tree_copy(kiln_yaml *tree, const char *text, size_t length)
{
    char *copy = tree_alloc(tree, length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

static kiln_yaml_status out_of_memory(const char *name, kiln_yaml_error *error)
{
    snprintf(error->text, sizeof error->text, "%s:1:1: out of memory while it was read", name);
    return KILN_YAML_NO_MEMORY;
}

/* An error at a place that libyaml counts from zero. */
__attribute__((format(printf, 3, 4))) static kiln_yaml_status
fail_at(struct reader *reader, yaml_mark_t mark, const char *format, ...)
{
    kiln_yaml_node place = {.name = reader->tree->name,
                            .line = (int32_t)mark.line + 1,
                            .column = (int32_t)mark.column + 1};
    char sentence[sizeof reader->error->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    kiln_yaml_fail(reader->error, &place, "%s", sentence);
    return KILN_YAML_MALFORMED;
}

/* libyaml tells the byte, not the line, of text that is not UTF-8. */
static yaml_mark_t mark_of_byte(const char *text, size_t offset)
{
    yaml_mark_t mark = {0, 0, 0};
    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            mark.line++;
            mark.column = 0;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
            mark.column++;
        }
    }
    return mark;
}

static kiln_yaml_status parser_failed(struct reader *reader, const char *text, size_t size)
{
    const yaml_parser_t *parser = &reader->parser;
    const char *problem = parser->problem ? parser->problem : "malformed";
    if (parser->error == YAML_MEMORY_ERROR)
        return out_of_memory(reader->tree->name, reader->error);
    if (parser->error == YAML_READER_ERROR) {
        size_t offset = parser->problem_offset < size ? parser->problem_offset : size;
        return fail_at(reader, mark_of_byte(text, offset),
                       "%s; the text must be UTF-8 without control characters", problem);
    }
    if (!parser->context)
        return fail_at(reader, parser->problem_mark, "%s", problem);
    if (parser->context_mark.line == parser->problem_mark.line)
        return fail_at(reader, parser->problem_mark, "%s %s", problem, parser->context);
    return fail_at(reader, parser->problem_mark, "%s %s that begins on line %zu", problem,
                   parser->context, parser->context_mark.line + 1);
}

/* Hands a finished node to the collection that it stands in. */
static kiln_yaml_status add_child(struct reader *reader, kiln_yaml_node *node, yaml_mark_t mark)
{
    if (!reader->depth) {
        reader->tree->root = node;
        return KILN_YAML_OK;
    }
    const struct frame *frame = &reader->frames[reader->depth - 1];
    bool is_key =
        frame->node->kind == KILN_YAML_MAPPING && (reader->pending_count - frame->first) % 2 == 0;
    if (is_key) {
        if (node->kind != KILN_YAML_SCALAR)
            return fail_at(reader, mark, "a key must be plain text, not a list or a mapping");
        if (strlen(node->text) > MAX_KEY_BYTES)
            return fail_at(reader, mark, "a key may have at most %d bytes", MAX_KEY_BYTES);
        if (!node->quoted && strcmp(node->text, "<<") == 0)
            return fail_at(reader, mark, "merge keys (<<) are not supported; repeat the keys");
    }
    if (reader->pending_count == reader->pending_capacity) {
        size_t capacity = reader->pending_capacity ? reader->pending_capacity * 2 : 64;
        kiln_yaml_node **pending = realloc(reader->pending, capacity * sizeof(kiln_yaml_node *));
        if (!pending)
            return out_of_memory(reader->tree->name, reader->error);
        reader->pending = pending;
        reader->pending_capacity = capacity;
    }
    reader->pending[reader->pending_count++] = node;
    return KILN_YAML_OK;
}

static kiln_yaml_status add_weight(struct reader *reader, size_t weight, yaml_mark_t mark)
{
    reader->weight += weight;
    if (reader->weight > KILN_YAML_MAX_NODES)
        return fail_at(reader, mark, "more than %d values, counting what aliases repeat",
                       KILN_YAML_MAX_NODES);
    return KILN_YAML_OK;
}

/* The checks that all nodes share; *anchor is NULL for a node without one. */
static kiln_yaml_status make_node(struct reader *reader, kiln_yaml_kind kind, yaml_mark_t mark,
                                  const yaml_char_t *tag, const yaml_char_t *anchor_name,
                                  kiln_yaml_node **node, struct anchor **anchor)
{
    if (tag)
        return fail_at(reader, mark, "tags (%.40s) are not supported; leave it out",
                       (const char *)tag);
    kiln_yaml_status status = add_weight(reader, 1, mark);
    if (status != KILN_YAML_OK)
        return status;
    kiln_yaml *tree = reader->tree;
    *node = tree_alloc(tree, sizeof **node);
    *anchor = NULL;
    if (!*node)
        return out_of_memory(tree->name, reader->error);
    **node = (kiln_yaml_node){.kind = kind,
                              .name = tree->name,
                              .line = (int32_t)mark.line + 1,
                              .column = (int32_t)mark.column + 1};
    if (!anchor_name)
        return KILN_YAML_OK;
    if (reader->anchor_count == KILN_YAML_MAX_ALIASES)
        return fail_at(reader, mark, "more than %d anchors", KILN_YAML_MAX_ALIASES);
    *anchor = &reader->anchors[reader->anchor_count++];
    **anchor = (struct anchor){.node = *node, .weight = 1};
    (*anchor)->name = tree_copy(tree, (const char *)anchor_name, strlen((const char *)anchor_name));
    return (*anchor)->name ? KILN_YAML_OK : out_of_memory(tree->name, reader->error);
}

static kiln_yaml_status read_scalar(struct reader *reader, const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    kiln_yaml_node *node = NULL;
    struct anchor *anchor = NULL;
    kiln_yaml_status status =
        make_node(reader, KILN_YAML_SCALAR, event->start_mark, event->data.scalar.tag,
                  event->data.scalar.anchor, &node, &anchor);
    if (status != KILN_YAML_OK)
        return status;
    if (memchr(value, '\0', length))
        return fail_at(reader, event->start_mark, "text may not hold a NUL character");
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->text = tree_copy(reader->tree, value, length);
    if (!node->text)
        return out_of_memory(reader->tree->name, reader->error);
    if (anchor)
        anchor->closed = true;
    return add_child(reader, node, event->start_mark);
}

static kiln_yaml_status read_alias(struct reader *reader, const yaml_event_t *event)
{
    const char *name = (const char *)event->data.alias.anchor;
    struct anchor *anchor = NULL;
    for (int i = 0; i < reader->anchor_count; i++)
        if (strcmp(reader->anchors[i].name, name) == 0)
            anchor = &reader->anchors[i]; /* the last of that name counts */
    if (!anchor)
        return fail_at(reader, event->start_mark, "no anchor &%.40s stands before this alias",
                       name);
    if (!anchor->closed)
        return fail_at(reader, event->start_mark, "the alias *%.40s lies within its own anchor",
                       name);
    if (++reader->alias_count > KILN_YAML_MAX_ALIASES)
        return fail_at(reader, event->start_mark, "more than %d aliases", KILN_YAML_MAX_ALIASES);
    if (reader->depth + anchor->height > KILN_YAML_MAX_DEPTH)
        return fail_at(reader, event->start_mark, "nested deeper than %d levels",
                       KILN_YAML_MAX_DEPTH);
    if (reader->depth && anchor->height > reader->frames[reader->depth - 1].height)
        reader->frames[reader->depth - 1].height = anchor->height;
    kiln_yaml_status status = add_weight(reader, anchor->weight, event->start_mark);
    return status == KILN_YAML_OK ? add_child(reader, anchor->node, event->start_mark) : status;
}

static kiln_yaml_status open_collection(struct reader *reader, kiln_yaml_kind kind,
                                        const yaml_event_t *event)
{
    const yaml_char_t *tag = event->data.mapping_start.tag;
    const yaml_char_t *anchor_name = event->data.mapping_start.anchor;
    if (kind == KILN_YAML_SEQUENCE) {
        tag = event->data.sequence_start.tag;
        anchor_name = event->data.sequence_start.anchor;
    }
    if (reader->depth == KILN_YAML_MAX_DEPTH)
        return fail_at(reader, event->start_mark, "nested deeper than %d levels",
                       KILN_YAML_MAX_DEPTH);
    struct frame frame = {.first = 0, .weight_before = reader->weight};
    kiln_yaml_status status =
        make_node(reader, kind, event->start_mark, tag, anchor_name, &frame.node, &frame.anchor);
    if (status == KILN_YAML_OK)
        status = add_child(reader, frame.node, event->start_mark);
    if (status != KILN_YAML_OK)
        return status;
    frame.first = reader->pending_count;
    reader->frames[reader->depth++] = frame;
    return KILN_YAML_OK;
}

static int compare_keys(const void *left, const void *right)
{
    const kiln_yaml_node *a = *(kiln_yaml_node *const *)left, *b = *(kiln_yaml_node *const *)right;
    int order = strcmp(a->text, b->text);
    return order ? order : a->line != b->line ? a->line - b->line : a->column - b->column;
}

/* `sorted` has room for the keys of `mapping`. */
static kiln_yaml_status refuse_duplicates(struct reader *reader, const kiln_yaml_node *mapping,
                                          kiln_yaml_node **sorted)
{
    memcpy(sorted, mapping->keys, mapping->count * sizeof *sorted);
    qsort(sorted, mapping->count, sizeof *sorted, compare_keys);
    for (size_t i = 1; i < mapping->count; i++) {
        if (strcmp(sorted[i - 1]->text, sorted[i]->text) == 0) {
            kiln_yaml_fail(reader->error, sorted[i], "duplicate key '%s', first on line %d",
                           sorted[i]->text, sorted[i - 1]->line);
            return KILN_YAML_MALFORMED;
        }
    }
    return KILN_YAML_OK;
}

static kiln_yaml_status close_collection(struct reader *reader)
{
    const struct frame *frame = &reader->frames[--reader->depth];
    kiln_yaml_node *node = frame->node;
    size_t count = reader->pending_count - frame->first;
    reader->pending_count = frame->first;
    int height = frame->height + 1;
    if (reader->depth && height > reader->frames[reader->depth - 1].height)
        reader->frames[reader->depth - 1].height = height;
    if (frame->anchor) {
        frame->anchor->closed = true;
        frame->anchor->height = height;
        frame->anchor->weight = reader->weight - frame->weight_before;
    }
    if (!count)
        return KILN_YAML_OK;
    kiln_yaml_node **children = reader->pending + frame->first;
    node->items = tree_alloc(reader->tree, count * sizeof *node->items);
    if (!node->items)
        return out_of_memory(reader->tree->name, reader->error);
    if (node->kind == KILN_YAML_SEQUENCE) {
        node->count = count;
        memcpy(node->items, children, count * sizeof *children);
        return KILN_YAML_OK;
    }
    node->count = count / 2;
    node->keys = node->items + node->count;
    for (size_t i = 0; i < node->count; i++) {
        node->keys[i] = children[2 * i];
        node->items[i] = children[2 * i + 1];
    }
    return refuse_duplicates(reader, node, children);
}

static kiln_yaml_status read_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (reader->tree->root)
            return fail_at(reader, event->start_mark, "a second document; only one is allowed");
        return KILN_YAML_OK;
    case YAML_SCALAR_EVENT:
        return read_scalar(reader, event);
    case YAML_ALIAS_EVENT:
        return read_alias(reader, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_collection(reader, KILN_YAML_SEQUENCE, event);
    case YAML_MAPPING_START_EVENT:
        return open_collection(reader, KILN_YAML_MAPPING, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_collection(reader);
    default:
        return KILN_YAML_OK;
    }
}

static kiln_yaml_status read_document(struct reader *reader, const char *text, size_t size)
{
    if (size > KILN_YAML_MAX_BYTES)
        return fail_at(reader, (yaml_mark_t){0, 0, 0}, "larger than %d bytes", KILN_YAML_MAX_BYTES);
    if (!yaml_parser_initialize(&reader->parser))
        return out_of_memory(reader->tree->name, reader->error);
    yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader->parser, (const unsigned char *)text, size);
    kiln_yaml_status status = KILN_YAML_OK;
    bool ended = false;
    while (status == KILN_YAML_OK && !ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(&reader->parser, &event)) {
            status = parser_failed(reader, text, size);
            break;
        }
        ended = event.type == YAML_STREAM_END_EVENT;
        status = read_event(reader, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&reader->parser);
    if (status == KILN_YAML_OK && !reader->tree->root)
        return fail_at(reader, (yaml_mark_t){0, 0, 0},
                       "there is nothing in it; write one document");
    return status;
}

kiln_yaml_status kiln_yaml_parse(const char *name, const char *text, size_t size, kiln_yaml **tree,
                                 kiln_yaml_error *error)
{
    kiln_yaml *made = calloc(1, sizeof *made);
    struct reader *reader = calloc(1, sizeof *reader);
    kiln_yaml_status status = KILN_YAML_NO_MEMORY;
    if (made && reader && (made->name = tree_copy(made, name, strlen(name)))) {
        reader->tree = made;
        reader->error = error;
        status = read_document(reader, text, size);
        free(reader->pending);
    } else {
        out_of_memory(name, error);
    }
    free(reader);
    if (status == KILN_YAML_OK)
        *tree = made;
    else
        kiln_yaml_free(made);
    return status;
}

/* Reads at most `capacity` bytes; -1 with errno. */
static ssize_t read_file(const char *path, char *buffer, size_t capacity)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (file < 0)
        return -1;
    size_t size = 0;
    ssize_t got = 1;
    while (got && size < capacity) {
        got = read(file, buffer + size, capacity - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            break;
        size += (size_t)got;
    }
    int reason = errno;
    close(file);
    errno = reason;
    return got < 0 ? -1 : (ssize_t)size;
}

kiln_yaml_status kiln_yaml_read(const char *path, kiln_yaml **tree, kiln_yaml_error *error)
{
    size_t capacity = KILN_YAML_MAX_BYTES + 1; /* one more, to see that there is more */
    char *buffer = malloc(capacity);
    if (!buffer)
        return out_of_memory(path, error);
    kiln_yaml_status status = KILN_YAML_UNREADABLE;
    ssize_t size = read_file(path, buffer, capacity);
    if (size < 0)
        snprintf(error->text, sizeof error->text, "%s: cannot be read: %s", path, strerror(errno));
    else
        status = kiln_yaml_parse(path, buffer, (size_t)size, tree, error);
    free(buffer);
    return status;
}

void kiln_yaml_free(kiln_yaml *tree)
{
    if (!tree)
        return;
    for (struct block *block = tree->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(tree);
}

const kiln_yaml_node *kiln_yaml_root(const kiln_yaml *tree)
{
    return tree->root;
}
