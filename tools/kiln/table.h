/* SPDX-License-Identifier: Apache-2.0 */
/* Text tables: columns as wide as their widest cell. */
#ifndef KILN_TOOLS_TABLE_H
#define KILN_TOOLS_TABLE_H

#include <stdio.h>

#include "tools/kiln/command.h"

typedef struct tool_table tool_table;

/* `headings` are separated by '|'; one that begins with '>' heads a column of numbers, set to the
 * right. */
tool_table *tool_table_new(const char *headings);

/* Appends one cell, going on to the next row when a row is full. */
void tool_table_cell(tool_table *table, const char *format, ...) KILN_PRINTF(2, 3);

/* Prints the table, each line after `indent` spaces, and frees it. Columns all of whose cells are
 * empty are left out. */
void tool_table_print(tool_table *table, int indent, FILE *out);

#endif
