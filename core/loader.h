/* SPDX-License-Identifier: Apache-2.0 */
/* Finding plugins on disk and loading their modules; the only file that knows libltdl. */
#ifndef KILN_CORE_LOADER_H
#define KILN_CORE_LOADER_H

#include "core/runtime.h"

/* Finds the plugins that the profile's search path offers, opens an instance of each that the
 * profile names, and adds their devices. A plugin that cannot be opened stays in the list with its
 * reason. */
kiln_status kiln_loader_open_all(kiln_runtime *runtime);

/* Closes the instances, last opened first. Their modules stay in the process. */
void kiln_loader_close_all(kiln_runtime *runtime);

#endif
