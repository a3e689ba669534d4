/* SPDX-License-Identifier: Apache-2.0 */
/* The record of what an application asks for: one JSON line per plan, with how often it ran,
 * written when the runtime is closed. */
#ifndef KILN_CORE_RECORD_H
#define KILN_CORE_RECORD_H

#include "core/plan.h"

/* `path` "" means no record: *record is NULL then. */
kiln_status kiln_record_create(const char *path, kiln_record **record);

/* Appends the lines to the file, in one write, and frees. A failure is returned after everything is
 * freed. */
kiln_status kiln_record_close(kiln_record *record, bool write);

/* Remembers a plan, or finds the equal one that is remembered; returns its number for
 * kiln_record_run, -1 when not recording. */
int64_t kiln_record_plan(kiln_record *record, const kiln_plan *plan);
void kiln_record_run(kiln_record *record, int64_t number);

#endif
