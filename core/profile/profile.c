/* SPDX-License-Identifier: Apache-2.0 */
/* The store of effective values: how a layer is laid over it, and how it is read. */
#define _GNU_SOURCE /* open_memstream */
#include "core/profile/internal.h"

#include <stdlib.h>
#include <string.h>

kiln_status kiln_profile_fail(kiln_yaml_status status, const kiln_yaml_error *error)
{
    kiln_status meaning = status == KILN_YAML_UNREADABLE  ? KILN_IO
                          : status == KILN_YAML_NO_MEMORY ? KILN_NO_MEMORY
                                                          : KILN_PARSE;
    return kiln_fail(meaning, "%s", error->text);
}

void kiln_profile_free(kiln_profile *profile)
{
    if (!profile)
        return;
    for (size_t i = 0; i < profile->count; i++) {
        free(profile->values[i].path);
        free(profile->values[i].origin);
        free(profile->values[i].flow);
    }
    for (size_t i = 0; i < profile->tree_count; i++)
        kiln_yaml_free(profile->trees[i]);
    free(profile->values);
    free(profile->trees);
    free(profile);
}

kiln_status kiln_profile_adopt(kiln_profile *profile, kiln_yaml *tree)
{
    if (profile->tree_count == profile->tree_capacity) {
        size_t capacity = profile->tree_capacity ? profile->tree_capacity * 2 : 32;
        kiln_yaml **trees = realloc(profile->trees, capacity * sizeof(kiln_yaml *));
        if (!trees) {
            kiln_yaml_free(tree);
            return kiln_fail_memory("a profile");
        }
        profile->trees = trees;
        profile->tree_capacity = capacity;
    }
    profile->trees[profile->tree_count++] = tree;
    return KILN_OK;
}

kiln_status kiln_profile_parse(kiln_profile *profile, const char *name, const char *text,
                               const kiln_yaml_node **root)
{
    kiln_yaml *tree;
    kiln_yaml_error error;
    kiln_yaml_status parsed = kiln_yaml_parse(name, text, strlen(text), &tree, &error);
    if (parsed != KILN_YAML_OK)
        return kiln_profile_fail(parsed, &error);
    *root = kiln_yaml_root(tree);
    return kiln_profile_adopt(profile, tree);
}

/* ---- Text of a value ---- */

/* Whether a scalar needs no quotes to be read back as itself. Every number must pass: quotes would
 * make it text. */
static bool is_plain(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t sign = strspn(text, "+-."); /* "-3", ".5", but neither "-" nor "---" */
    if (sign > 2 || (*text != '/' && (!text[sign] || !strchr(letters, text[sign]))) ||
        strcmp(text, "null") == 0)
        return false;
    for (const char *c = text; *c; c++)
        if (!strchr(letters, *c) && !strchr("_./+-", *c) &&
            !((*c == ':' || *c == ' ') && c[1] && strchr(letters, c[1])))
            return false;
    return true;
}

void kiln_profile_write_quoted(FILE *stream, const char *text, size_t length)
{
    fputc('"', stream);
    for (size_t size, i = 0; i < length; i += size) {
        char escaped[8];
        size = kiln_yaml_escape(text + i, escaped);
        if (size)
            fputs(escaped, stream);
        else
            fputc(text[i], stream);
        size = size ? size : 1;
    }
    fputc('"', stream);
}

static void write_scalar(FILE *stream, const char *text)
{
    if (is_plain(text)) {
        fputs(text, stream);
        return;
    }
    kiln_profile_write_quoted(stream, text, strlen(text));
}

void kiln_profile_write_flow(FILE *stream, const kiln_yaml_node *node)
{
    if (node->kind == KILN_YAML_SCALAR) {
        write_scalar(stream, node->text);
        return;
    }
    bool mapping = node->kind == KILN_YAML_MAPPING;
    fputc(mapping ? '{' : '[', stream);
    for (size_t i = 0; i < node->count; i++) {
        fputs(i ? ", " : "", stream);
        if (mapping) {
            write_scalar(stream, node->keys[i]->text);
            fputs(": ", stream);
        }
        kiln_profile_write_flow(stream, node->items[i]);
    }
    fputc(mapping ? '}' : ']', stream);
}

/* NULL when memory is exhausted. */
static char *flow_text(const kiln_yaml_node *node)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    kiln_profile_write_flow(stream, node);
    bool failed = ferror(stream);
    if (fclose(stream) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

static char *origin_text(const kiln_yaml_node *node, const char *origin)
{
    char place[32];
    snprintf(place, sizeof place, ":%d:%d", node->line, node->column);
    size_t size = (origin ? strlen(origin) : strlen(node->name) + strlen(place)) + 1;
    char *text = malloc(size);
    if (text)
        snprintf(text, size, "%s%s", origin ? origin : node->name, origin ? "" : place);
    return text;
}

/* ---- Laying a layer over what is there ---- */

kiln_profile_value *kiln_profile_find(const kiln_profile *profile, const char *path)
{
    for (size_t i = 0; i < profile->count; i++)
        if (strcmp(profile->values[i].path, path) == 0)
            return &profile->values[i];
    return NULL;
}

/* Makes room for a path behind those of its row and before those of the next; NULL when memory is
 * exhausted. */
static kiln_profile_value *insert_value(kiln_profile *profile, const kiln_key *key,
                                        const char *path)
{
    if (profile->count == profile->capacity) {
        size_t capacity = profile->capacity ? profile->capacity * 2 : 64;
        kiln_profile_value *values = realloc(profile->values, capacity * sizeof *values);
        if (!values)
            return NULL;
        profile->values = values;
        profile->capacity = capacity;
    }
    char *copy = strdup(path);
    if (!copy)
        return NULL;
    size_t at = profile->count;
    while (at && profile->values[at - 1].key > key)
        at--;
    kiln_profile_value *value = &profile->values[at];
    memmove(value + 1, value, (profile->count - at) * sizeof *value);
    *value = (kiln_profile_value){.path = copy, .key = key, .help = key->help};
    profile->count++;
    return value;
}

static kiln_status set_value(kiln_profile *profile, const kiln_key *key, const char *path,
                             const kiln_yaml_node *blame, const kiln_yaml_node *node,
                             const char *origin)
{
    kiln_yaml_error error;
    int64_t integer = 0;
    if (!kiln_key_check(key, path, node, &integer, &error))
        return kiln_profile_fail(KILN_YAML_MALFORMED, &error);
    kiln_profile_value *value = kiln_profile_find(profile, path);
    if (!value && profile->count >= KILN_PROFILE_MAX_VALUES) {
        kiln_yaml_fail(&error, node, "more than %d values in all", KILN_PROFILE_MAX_VALUES);
        return kiln_profile_fail(KILN_YAML_MALFORMED, &error);
    }
    char *flow = flow_text(node), *place = origin_text(node, origin);
    if (flow && place && !value)
        value = insert_value(profile, key, path);
    if (!flow || !place || !value) {
        free(flow);
        free(place);
        return kiln_fail_memory("a profile");
    }
    free(value->flow);
    free(value->origin);
    value->flow = flow;
    value->origin = place;
    value->node = node;
    value->blame = blame;
    value->integer = integer;
    return KILN_OK;
}

/* `parent` is the section that `path` was said to stand in; NULL when the whole path was given. */
static kiln_status unknown_path(const char *parent, const char *path, const kiln_yaml_node *node)
{
    const char *names[64];
    char children[64][32];
    size_t count = 0, skip = parent && *parent ? strlen(parent) + 1 : 0;
    for (size_t i = 0; i < kiln_key_count && count < 64; i++) {
        const char *name = kiln_keys[i].path;
        if (parent && strncmp(name, path, skip) != 0)
            continue;
        size_t length = parent ? strcspn(name + skip, ".") : strlen(name);
        snprintf(children[count], sizeof children[count], "%.*s", (int)length, name + skip);
        if (count && strcmp(children[count], children[count - 1]) == 0)
            continue;
        names[count] = children[count];
        count++;
    }
    kiln_yaml_error error;
    kiln_yaml_fail_unknown(node, "key", path + skip, names, count, &error);
    return kiln_profile_fail(KILN_YAML_MALFORMED, &error);
}

static kiln_status apply_at(kiln_profile *profile, const char *parent, const char *path,
                            const kiln_yaml_node *blame, const kiln_yaml_node *node,
                            const char *origin)
{
    const kiln_key *key = NULL;
    kiln_key_place place = kiln_key_find(path, &key);
    /* Inside a file a dot does not nest; only operators have dots in their names. */
    if (parent && strcmp(parent, "operators") != 0 && strchr(blame->text, '.'))
        place = KILN_PLACE_NONE;
    if (place == KILN_PLACE_NONE)
        return unknown_path(parent, path, blame);
    if (place == KILN_PLACE_VALUE)
        return set_value(profile, key, path, blame, node, origin);

    kiln_yaml_error error;
    if (!kiln_yaml_expect(node, *path ? path : "profile", KILN_YAML_MAPPING, &error))
        return kiln_profile_fail(KILN_YAML_MALFORMED, &error);
    for (size_t i = 0; i < node->count; i++) {
        char child[512]; /* keys have at most 128 bytes, and nest no deeper than three */
        snprintf(child, sizeof child, "%s%s%s", path, *path ? "." : "", node->keys[i]->text);
        kiln_status status = apply_at(profile, path, child, node->keys[i], node->items[i], origin);
        if (status != KILN_OK)
            return status;
    }
    return KILN_OK;
}

kiln_status kiln_profile_apply(kiln_profile *profile, const char *path, const kiln_yaml_node *node,
                               const char *origin)
{
    return apply_at(profile, NULL, path, node, node, origin);
}

kiln_status kiln_profile_apply_text(kiln_profile *profile, const char *path, const char *name,
                                    const char *text, const char *origin)
{
    const kiln_yaml_node *root = NULL;
    kiln_status status = kiln_profile_parse(profile, name, text, &root);
    return status == KILN_OK ? kiln_profile_apply(profile, path, root, origin) : status;
}

/* ---- Reading ---- */

int64_t kiln_profile_integer(const kiln_profile *profile, const char *path)
{
    const kiln_profile_value *value = kiln_profile_find(profile, path);
    return value ? value->integer : 0;
}

bool kiln_profile_boolean(const kiln_profile *profile, const char *path)
{
    return kiln_profile_integer(profile, path) != 0;
}

const char *kiln_profile_text(const kiln_profile *profile, const char *path)
{
    const kiln_profile_value *value = kiln_profile_find(profile, path);
    return value && value->node->kind == KILN_YAML_SCALAR ? value->node->text : "";
}

int64_t kiln_profile_list_count(const kiln_profile *profile, const char *path)
{
    const kiln_profile_value *value = kiln_profile_find(profile, path);
    return value && value->node->kind == KILN_YAML_SEQUENCE ? (int64_t)value->node->count : 0;
}

const char *kiln_profile_list_at(const kiln_profile *profile, const char *path, int64_t index)
{
    if (index < 0 || index >= kiln_profile_list_count(profile, path))
        return "";
    return kiln_profile_find(profile, path)->node->items[index]->text;
}

const char *kiln_profile_origin(const kiln_profile *profile, const char *path)
{
    const kiln_profile_value *value = kiln_profile_find(profile, path);
    return value ? value->origin : "";
}

int64_t kiln_profile_setting_count(const kiln_profile *profile)
{
    return (int64_t)profile->count;
}

kiln_status kiln_profile_setting_at(const kiln_profile *profile, int64_t index,
                                    kiln_setting_info *info)
{
    uint64_t size = info->struct_size;
    if (size < sizeof size)
        return kiln_fail(KILN_INVALID, "kiln_setting_info.struct_size is %llu; set it to sizeof",
                         (unsigned long long)size);
    if (index < 0 || index >= (int64_t)profile->count)
        return kiln_fail(KILN_NOT_FOUND, "setting %lld was asked for; there are %zu, from 0",
                         (long long)index, profile->count);
    const kiln_profile_value *value = &profile->values[index];
    const kiln_setting_info whole = {
        .path = value->path, .value = value->flow, .origin = value->origin, .help = value->help};
    memcpy(info, &whole, size < sizeof whole ? (size_t)size : sizeof whole);
    info->struct_size = size;
    return KILN_OK;
}

const char *kiln_profile_setting_get(const kiln_profile *profile, const char *path)
{
    const kiln_profile_value *value = kiln_profile_find(profile, path);
    if (!value)
        return NULL;
    return value->node->kind == KILN_YAML_SCALAR ? value->node->text : value->flow;
}
