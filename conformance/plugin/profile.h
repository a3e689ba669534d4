/* SPDX-License-Identifier: Apache-2.0 */
/* The profile of a runtime in which one plugin is checked. */
#ifndef KILN_CONFORMANCE_PLUGIN_PROFILE_H
#define KILN_CONFORMANCE_PLUGIN_PROFILE_H

#include "conformance/plugin.h"

/* The text of a profile with this plugin alone, whatever its file is called. `options` is YAML of
 * options.<name>, or "". `on_disk`: the runtime finds it in its folder; else it was registered.
 * NULL when memory is exhausted; otherwise free it. */
char *conformance_profile(const conformance_subject *subject, const char *options, int64_t threads,
                          bool on_disk);

#endif
