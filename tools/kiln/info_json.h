/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of kiln info; the pieces serve `kiln bench` and `kiln run` too. Objects are the
 * caller's; NULL when memory is exhausted. */
#ifndef KILN_TOOLS_INFO_JSON_H
#define KILN_TOOLS_INFO_JSON_H

#include "tools/kiln/command.h"

/* {"kiln", "profile": {"name", "origin"}, "threads", "default_device", "plugins": […], "devices":
 * […]} */
json_t *info_json(kiln_runtime *runtime);

/* [{"path", "value", "origin", "help"}, …] */
json_t *info_config_json(const kiln_runtime *runtime);

/* {"name", "origin"} of the profile in use. */
json_t *info_profile_json(const kiln_runtime *runtime);

/* Fills in the name of the profile in use, "" when it has none; returns where it was set. */
const char *info_profile(const kiln_runtime *runtime, char name[128]);

/* One plugin and one device. */
json_t *info_plugin_json(const kiln_runtime *runtime, int64_t index);
json_t *info_device_json(kiln_device *device);

#endif
