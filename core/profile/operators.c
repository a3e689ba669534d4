/* SPDX-License-Identifier: Apache-2.0 */
/* The section `operators`: which backends may serve an operator, for which types, in which order.
 */
#include "core/profile/internal.h"

#include <string.h>

static const char *const type_names[] = {
#define TYPE_NAME(id, number, name, bits, kind) name,
    KILN_TYPES(TYPE_NAME)
#undef TYPE_NAME
};

/* NAME/VERSION: "kiln.gemm/1". */
static bool is_operator_name(const char *text)
{
    size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789._-");
    if (*text < 'a' || *text > 'z' || text[name] != '/' || strlen(text) > 63)
        return false;
    const char *version = text + name + 1;
    return *version >= '1' && *version <= '9' && !version[strspn(version, "0123456789")];
}

static bool check_backends(const char *path, const char *part, const kiln_yaml_node *node,
                           kiln_yaml_error *error)
{
    char what[256];
    snprintf(what, sizeof what, "%s%s", path, part);
    return kiln_key_names(node, what, kiln_is_plugin_name, "a plugin's name", error);
}

static bool check_types(const char *path, const kiln_yaml_node *types, kiln_yaml_error *error)
{
    char what[256];
    snprintf(what, sizeof what, "%s.types", path);
    if (!kiln_yaml_expect_keys(types, what, type_names, sizeof type_names / sizeof type_names[0],
                               error))
        return false;
    for (size_t i = 0; i < types->count; i++)
        if (!check_backends(what, "", types->items[i], error))
            return false;
    return true;
}

bool kiln_operator_check(const char *path, const kiln_yaml_node *node, kiln_yaml_error *error)
{
    static const char *const parts[] = {"backends", "deny", "types"};
    const char *name = strchr(path, '.') + 1;
    if (strcmp(name, "default") != 0 && !is_operator_name(name))
        return kiln_yaml_fail(error, node,
                              "operators: '%s' is not an operator's name; write NAME/VERSION, such "
                              "as kiln.gemm/1, or default",
                              name);
    if (node->kind == KILN_YAML_SEQUENCE)
        return check_backends(path, "", node, error);
    if (node->kind != KILN_YAML_MAPPING)
        return kiln_yaml_fail(
            error, node,
            "%s: expected a list of plugins such as [a, b], or a mapping of %s, %s and %s", path,
            parts[0], parts[1], parts[2]);
    const kiln_yaml_node *backends = kiln_yaml_get(node, "backends"),
                         *deny = kiln_yaml_get(node, "deny");
    const kiln_yaml_node *types = kiln_yaml_get(node, "types");
    return kiln_yaml_expect_keys(node, path, parts, 3, error) &&
           (!backends || check_backends(path, ".backends", backends, error)) &&
           (!deny || check_backends(path, ".deny", deny, error)) &&
           (!types || check_types(path, types, error));
}

/* The entry of an operator, or NULL. */
static const kiln_yaml_node *find_entry(const kiln_profile *profile, const char *operator_name)
{
    char path[128];
    snprintf(path, sizeof path, "operators.%s", operator_name);
    const kiln_profile_value *value = kiln_profile_find(profile, path);
    return value ? value->node : NULL;
}

/* The order that an entry gives for a type, or NULL. */
static const kiln_yaml_node *order_of(const kiln_yaml_node *entry, uint32_t type)
{
    if (!entry || entry->kind == KILN_YAML_SEQUENCE)
        return entry;
    const kiln_yaml_node *types = kiln_yaml_get(entry, "types");
    const kiln_yaml_node *order = types ? kiln_yaml_get(types, kiln_type_name(type)) : NULL;
    return order ? order : kiln_yaml_get(entry, "backends");
}

static bool lists(const kiln_yaml_node *list, const char *name)
{
    for (size_t i = 0; list && i < list->count; i++)
        if (strcmp(list->items[i]->text, name) == 0)
            return true;
    return false;
}

bool kiln_profile_denied(const kiln_profile *profile, const char *operator_name,
                         const char *backend)
{
    const kiln_yaml_node *own = find_entry(profile, operator_name);
    const kiln_yaml_node *deny = own ? kiln_yaml_get(own, "deny") : NULL;
    if (!deny) {
        const kiln_yaml_node *general = find_entry(profile, "default");
        deny = general ? kiln_yaml_get(general, "deny") : NULL;
    }
    return lists(deny, backend);
}

int64_t kiln_profile_backends(const kiln_profile *profile, const char *operator_name, uint32_t type,
                              const char **names, int64_t capacity)
{
    const kiln_yaml_node *order = order_of(find_entry(profile, operator_name), type);
    if (!order)
        order = order_of(find_entry(profile, "default"), type);
    if (!order)
        return -1;
    int64_t count = 0;
    for (size_t i = 0; i < order->count; i++) {
        const char *backend = order->items[i]->text;
        if (kiln_profile_denied(profile, operator_name, backend))
            continue;
        if (count < capacity)
            names[count] = backend;
        count++;
    }
    return count;
}
