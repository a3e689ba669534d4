/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces for runs on the calling thread. */
#ifndef KILN_CORE_WORKSPACE_H
#define KILN_CORE_WORKSPACE_H

#include "core/plan.h"

/* A workspace of the plan's size, aligned to 64 bytes, for the calling thread until it is given
 * back; NULL when memory is exhausted. Allocates only when neither the thread nor the plan has an
 * idle one. */
void *kiln_workspace_take(kiln_plan *plan);
void kiln_workspace_give(kiln_plan *plan, void *workspace);

#endif
