/* SPDX-License-Identifier: Apache-2.0 */
/* The record of what an application asks for: one JSON line per plan and sizes of its runs, with
 * how often they came, written when the runtime is closed. */
#ifndef KILN_CORE_RECORD_H
#define KILN_CORE_RECORD_H

#include "core/plan.h"

/* Plans, and sizes of runs, that a record tells apart: what bounds its memory. */
enum { KILN_RECORD_MAXIMUM = 100000 };

/* `path` "" means no record: *record is NULL then. `maximum` is at least 1. */
kiln_status kiln_record_create(const char *path, int64_t maximum, kiln_record **record);

/* Appends the lines to the file, in one write, and frees. A failure is returned after everything is
 * freed. */
kiln_status kiln_record_close(kiln_record *record, bool write);

/* Remembers a plan, or finds the equal one that is remembered, for kiln_plan.recorded; NULL when
 * not recording, and when the record is full. */
kiln_recorded_plan *kiln_record_plan(kiln_record *record, const kiln_plan *plan);

/* Counts a run of a plan that is recorded, by its sizes where the core knows the operator. Its
 * arguments have been checked. Takes no lock and allocates nothing for sizes that came before. In a
 * child of fork nothing is counted: the record is its parent's. */
void kiln_record_run(const kiln_plan *plan, const kiln_args_head *arguments);

#endif
