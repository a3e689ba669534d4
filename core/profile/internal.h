/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a profile share: the table of keys, the store of values, the layers that fill
 * it. */
#ifndef KILN_CORE_PROFILE_INTERNAL_H
#define KILN_CORE_PROFILE_INTERNAL_H

#include <stdio.h>

#include "core/error.h"
#include "core/profile/profile.h"
#include "support/yaml.h"

enum {
    KILN_PROFILE_MAX_LIST = 64,     /* entries of one list */
    KILN_PROFILE_MAX_VALUES = 4096, /* of a profile, with the options of all its plugins */
    KILN_PROFILE_MAX_FOLDERS = 16,  /* in which profiles are searched */
    KILN_PROFILE_MAX_CHOICES = 16
};

/* ---- keys.c: the table ---- */

typedef enum kiln_key_type {
    KILN_KEY_INTEGER = 1,
    KILN_KEY_SIZE, /* an integer that KiB, MiB or GiB may follow */
    KILN_KEY_BOOLEAN,
    KILN_KEY_TEXT,
    KILN_KEY_CHOICE,
    KILN_KEY_DEVICE,    /* host, or PLUGIN:INDEX */
    KILN_KEY_LIST,      /* of text */
    KILN_KEY_NAMES,     /* of names of plugins */
    KILN_KEY_PLUGINS,   /* likewise; "*" is one, too */
    KILN_KEY_OPERATORS, /* the row stands for operators.<operator> */
    KILN_KEY_OPTIONS    /* the row stands for options.<plugin>.<key> */
} kiln_key_type;

/* One row drives validation, defaults, the JSON schema, the reference, and what is listed as the
 * configuration. */
typedef struct kiln_key {
    const char *path;
    kiln_key_type type;
    int64_t minimum, maximum;  /* integers and sizes */
    const char *choices;       /* "deny|allow" */
    const char *default_value; /* as it would stand in a profile */
    const char *help;
} kiln_key;

extern const kiln_key kiln_keys[];
extern const size_t kiln_key_count;

/* What a path leads to. */
typedef enum kiln_key_place {
    KILN_PLACE_NONE,
    KILN_PLACE_SECTION,
    KILN_PLACE_VALUE
} kiln_key_place;

/* *key is set for KILN_PLACE_VALUE. "" is the section of everything. */
kiln_key_place kiln_key_find(const char *path, const kiln_key **key);

/* Whether a value fits its row. *integer receives the value of integers, sizes and booleans, the
 * index of choices. False comes with an error that says what is expected. */
bool kiln_key_check(const kiln_key *key, const char *path, const kiln_yaml_node *node,
                    int64_t *integer, kiln_yaml_error *error);

/* [a-z][a-z0-9-]*, at most 31 characters: what plugins are called. */
bool kiln_is_plugin_name(const char *text);

/* kiln_yaml_choice for choices as they stand in tables: "deny|allow". */
bool kiln_key_choice(const kiln_yaml_node *node, const char *what, const char *choices,
                     int64_t *index, kiln_yaml_error *error);

/* A list of distinct names for which `fits` holds; `expectation` says what fits. */
bool kiln_key_names(const kiln_yaml_node *node, const char *what, bool (*fits)(const char *text),
                    const char *expectation, kiln_yaml_error *error);

/* ---- operators.c ---- */

/* Whether a value may stand at operators.<operator>. */
bool kiln_operator_check(const char *path, const kiln_yaml_node *node, kiln_yaml_error *error);

/* ---- profile.c: the values ---- */

/* A path with its effective value. */
typedef struct kiln_profile_value {
    char *path;
    const kiln_key *key;
    const kiln_yaml_node *node;  /* of one of the profile's trees */
    const kiln_yaml_node *blame; /* where the path itself was written, or `node` */
    int64_t integer;             /* as kiln_key_check gives it */
    char *origin;
    char *flow; /* the value as YAML flow text */
    const char *help;
} kiln_profile_value;

struct kiln_profile {
    kiln_profile_value *values; /* in the order of the table */
    size_t count, capacity;
    kiln_yaml **trees;
    size_t tree_count, tree_capacity;
};

/* NULL when nothing gave the path a value. */
kiln_profile_value *kiln_profile_find(const kiln_profile *profile, const char *path);

/* Parses a text that becomes the profile's; *root lives as long. */
kiln_status kiln_profile_parse(kiln_profile *profile, const char *name, const char *text,
                               const kiln_yaml_node **root);

/* Makes a tree the profile's, even on failure. */
kiln_status kiln_profile_adopt(kiln_profile *profile, kiln_yaml *tree);

/* Gives `path` and what lies under it the values of `node`, over what earlier layers gave. `origin`
 * says where from; NULL = the place of each node. */
kiln_status kiln_profile_apply(kiln_profile *profile, const char *path, const kiln_yaml_node *node,
                               const char *origin);

/* Likewise for a text; `name` stands for it in errors. */
kiln_status kiln_profile_apply_text(kiln_profile *profile, const char *path, const char *name,
                                    const char *text, const char *origin);

/* Writes a text of any characters between double quotes. Bytes that are not UTF-8 stay as they are,
 * for the reader to refuse. */
void kiln_profile_write_quoted(FILE *stream, const char *text, size_t length);

/* Writes a node as YAML flow text, on one line. */
void kiln_profile_write_flow(FILE *stream, const kiln_yaml_node *node);

/* The status of a YAML error, which becomes this thread's sentence. */
kiln_status kiln_profile_fail(kiln_yaml_status status, const kiln_yaml_error *error);

/* ---- layers.c, environment.c, machine.c ---- */

/* Where the world keeps its configuration. NULL = nowhere. */
typedef struct kiln_profile_sources {
    const char *system_folder;    /* holds kiln.yaml and profiles/ */
    const char *home;             /* holds .config/kiln/kiln.yaml and .config/kiln/profiles/ */
    const char *installed_folder; /* holds the profiles that came with Kiln */
    char *const *environment;     /* "NAME=value", NULL-terminated */
    const char *machine_root;     /* what stands before /proc and /sys */
} kiln_profile_sources;

/* kiln_profile_load from given sources. Isolation takes what `options` say away from them. */
kiln_status kiln_profile_load_from(const kiln_runtime_options *options,
                                   const kiln_profile_sources *sources, kiln_profile **profile);

/* The value of a variable; NULL when it is not set or empty. `environment` may be NULL. */
const char *kiln_environment_get(char *const *environment, const char *name);

/* The layer of KILN_<SECTION>_<KEY> variables. */
kiln_status kiln_profile_apply_environment(kiln_profile *profile, char *const *environment);

/* The words that `match` may ask for, as " word word ": the architecture, the processor's features,
 * and pci:VVVV:DDDD per PCI device. The caller frees *words. */
kiln_status kiln_machine_words(const char *root, char **words);
bool kiln_machine_has(const char *words, const char *word);

#endif
