/* SPDX-License-Identifier: Apache-2.0 */
/* The effective configuration of a runtime: a table of keys, and the layers that give them values.
 * Read-only once loaded, so any thread may ask. */
#ifndef KILN_CORE_PROFILE_H
#define KILN_CORE_PROFILE_H

#include <stdbool.h>

#include "kiln/kiln.h"
#include "kiln/plugin.h"

typedef struct kiln_profile kiln_profile;

/* Reads and merges every layer that `options` (may be NULL) allows. Errors are located:
 * "FILE:LINE:COLUMN: …". */
kiln_status kiln_profile_load(const kiln_runtime_options *options, kiln_profile **profile);
void kiln_profile_free(kiln_profile *profile);

/* Values by path. The path must be one of the table's and of that type; every key of the table has
 * a default. */
int64_t kiln_profile_integer(const kiln_profile *profile, const char *path);
bool kiln_profile_boolean(const kiln_profile *profile, const char *path);
const char *kiln_profile_text(const kiln_profile *profile, const char *path); /* "" when empty */
int64_t kiln_profile_list_count(const kiln_profile *profile, const char *path);
const char *kiln_profile_list_at(const kiln_profile *profile, const char *path, int64_t index);

/* What to say of where a path's value came from: "built-in", "FILE:LINE:COLUMN", a variable's name,
 * "caller". */
const char *kiln_profile_origin(const kiln_profile *profile, const char *path);

/* The backends that may serve an operator for a principal element type (kiln_type), in order,
 * without those that are denied. The first list that exists counts: the operator's for the type,
 * its `backends`, the type's of operators.default, its `backends`. Writes at most `capacity` names
 * (owned by the profile) and returns the true number; -1 when there is no such list, so that the
 * order of plugins holds. */
int64_t kiln_profile_backends(const kiln_profile *profile, const char *operator_name, uint32_t type,
                              const char **names, int64_t capacity);

/* Whether the profile denies a backend for an operator: by the operator's `deny`, or, where it has
 * none, by that of operators.default. */
bool kiln_profile_denied(const kiln_profile *profile, const char *operator_name,
                         const char *backend);

/* Validates options.<plugin> against what the plugin declares and writes one value per declared
 * option. Text is owned by the profile. Unknown keys are located errors, with the nearest known
 * key. */
kiln_status kiln_profile_plugin_options(kiln_profile *profile, const kiln_plugin *plugin,
                                        kiln_option_value *values);

/* For kiln_setting_count, kiln_setting_at and kiln_setting_get. */
int64_t kiln_profile_setting_count(const kiln_profile *profile);
kiln_status kiln_profile_setting_at(const kiln_profile *profile, int64_t index,
                                    kiln_setting_info *info);
const char *kiln_profile_setting_get(const kiln_profile *profile, const char *path);

#endif
