/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one YAML document into a tree that knows where everything stood.
 *
 * A strict subset of YAML 1.1: exactly one document, keys are unique scalars, no tags, no merge
 * keys. Hostile input costs bounded time and memory: see the limits. Linked hidden into whoever
 * uses it; depends on libyaml alone.
 *
 * Whatever can fail says why in a kiln_yaml_error, as "NAME:LINE:COLUMN: sentence". A tree is
 * read-only, so threads may share it. */
#ifndef KILN_SUPPORT_YAML_H
#define KILN_SUPPORT_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits. Nodes and depth count what aliases stand for, so walking a tree is as bounded as the tree
 * itself. */
enum {
    KILN_YAML_MAX_BYTES = 1 << 20,
    KILN_YAML_MAX_NODES = 20000,
    KILN_YAML_MAX_DEPTH = 16, /* of nested sequences and mappings */
    KILN_YAML_MAX_ALIASES = 64
};

typedef enum kiln_yaml_status {
    KILN_YAML_OK = 0,
    KILN_YAML_MALFORMED = -1,
    KILN_YAML_UNREADABLE = -2, /* the file, not its contents */
    KILN_YAML_NO_MEMORY = -3
} kiln_yaml_status;

typedef struct kiln_yaml_error {
    char text[768];
} kiln_yaml_error;

typedef enum kiln_yaml_kind {
    KILN_YAML_SCALAR = 1,
    KILN_YAML_SEQUENCE = 2,
    KILN_YAML_MAPPING = 3
} kiln_yaml_kind;

typedef struct kiln_yaml kiln_yaml;
typedef struct kiln_yaml_node kiln_yaml_node;

/* Belongs to its tree. */
struct kiln_yaml_node {
    kiln_yaml_kind kind;
    bool quoted;            /* scalar: in quotes or a block, so certainly text */
    int32_t line;           /* from 1 */
    int32_t column;         /* from 1, in characters */
    const char *name;       /* the tree's, for errors */
    const char *text;       /* scalar: UTF-8 without NUL inside; else NULL */
    size_t count;           /* items of a sequence, pairs of a mapping */
    kiln_yaml_node **items; /* sequence: the items; mapping: the values */
    kiln_yaml_node **keys;  /* mapping: the keys, all scalars, in the order of `items` */
};

/* Parses `size` bytes. `name` stands for the text in errors ("job.yaml", "settings"); it is copied.
 * On success the caller owns *tree; otherwise *tree is untouched. */
kiln_yaml_status kiln_yaml_parse(const char *name, const char *text, size_t size, kiln_yaml **tree,
                                 kiln_yaml_error *error);

/* Reads and parses a file; its path is the tree's name. */
kiln_yaml_status kiln_yaml_read(const char *path, kiln_yaml **tree, kiln_yaml_error *error);

/* NULL is accepted. */
void kiln_yaml_free(kiln_yaml *tree);

/* The top node; never NULL. */
const kiln_yaml_node *kiln_yaml_root(const kiln_yaml *tree);

/* Whether a node is absent in the eyes of YAML: empty, ~ or null, without quotes. */
bool kiln_yaml_is_null(const kiln_yaml_node *node);

/* The value of a key; NULL when `mapping` is no mapping or lacks it. */
const kiln_yaml_node *kiln_yaml_get(const kiln_yaml_node *mapping, const char *key);

/* Writes "NAME:LINE:COLUMN: …" about a node. Returns false, so that `return kiln_yaml_fail(…)`
 * reads well. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
bool kiln_yaml_fail(kiln_yaml_error *error, const kiln_yaml_node *node, const char *format, ...);

/* The functions below return false, with an error, unless the node is what is asked for. `what`
 * names the value in errors
 * ("threads.count"); outputs are written only on success. */

bool kiln_yaml_expect(const kiln_yaml_node *node, const char *what, kiln_yaml_kind kind,
                      kiln_yaml_error *error);

/* A mapping all of whose keys stand in `names`. */
bool kiln_yaml_expect_keys(const kiln_yaml_node *node, const char *what, const char *const *names,
                           size_t count, kiln_yaml_error *error);

/* Always false: "unknown WHAT 'WORD' (did you mean 'NAME'?)", or the names where none is near. */
bool kiln_yaml_fail_unknown(const kiln_yaml_node *node, const char *what, const char *word,
                            const char *const *names, size_t count, kiln_yaml_error *error);

/* Decimal or 0x-hexadecimal within [minimum, maximum]. With `size`, KiB, MiB or GiB may follow. */
bool kiln_yaml_integer(const kiln_yaml_node *node, const char *what, int64_t minimum,
                       int64_t maximum, bool size, int64_t *value, kiln_yaml_error *error);

/* A finite decimal number within [minimum, maximum], whatever the locale. */
bool kiln_yaml_number(const kiln_yaml_node *node, const char *what, double minimum, double maximum,
                      double *value, kiln_yaml_error *error);

/* true or false. */
bool kiln_yaml_boolean(const kiln_yaml_node *node, const char *what, bool *value,
                       kiln_yaml_error *error);

/* Any scalar but null. The text belongs to the tree. */
bool kiln_yaml_text(const kiln_yaml_node *node, const char *what, const char **value,
                    kiln_yaml_error *error);

/* One of `names`; *index is which. */
bool kiln_yaml_choice(const kiln_yaml_node *node, const char *what, const char *const *names,
                      size_t count, size_t *index, kiln_yaml_error *error);

/* How the character at `text` stands between double quotes, in YAML and in JSON alike: as it is, or
 * by an escape. Returns the bytes of `text` that it takes; 0, and an empty `escaped`, at the end of
 * the text and for bytes that are not UTF-8. */
size_t kiln_yaml_escape(const char *text, char escaped[8]);

/* The name that `word` most likely means: the nearest by edits, NULL when none is near. */
const char *kiln_yaml_nearest(const char *word, const char *const *names, size_t count);

#endif
