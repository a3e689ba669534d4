/* SPDX-License-Identifier: Apache-2.0 */
/* Text tables: columns as wide as their widest cell. */
#include "tools/kiln/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct tool_table {
    size_t columns;
    size_t count; /* cells, headings included */
    char **cells;
    bool *right;
};

static void append(tool_table *table, char *text)
{
    table->cells = tool_grow(table->cells, table->count + 1, sizeof *table->cells);
    table->cells[table->count++] = text;
}

tool_table *tool_table_new(const char *headings)
{
    tool_table *table = tool_allocate(1, sizeof *table);
    table->columns = 1;
    for (const char *c = headings; *c; c++)
        table->columns += *c == '|';
    table->right = tool_allocate(table->columns, sizeof *table->right);
    for (size_t column = 0; column < table->columns; column++) {
        table->right[column] = *headings == '>';
        headings += *headings == '>';
        size_t length = strcspn(headings, "|");
        append(table, tool_text("%.*s", (int)length, headings));
        headings += length + 1;
    }
    return table;
}

void tool_table_cell(tool_table *table, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = tool_text_v(format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++) /* a name may hold what breaks lines or commands terminals */
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    append(table, text);
}

/* Characters, not bytes: a continuation byte of UTF-8 takes no place. */
static int text_width(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* 0 when every cell below the heading is empty. */
static int column_width(const tool_table *table, size_t column)
{
    int width = 0;
    for (size_t cell = table->columns + column; cell < table->count; cell += table->columns)
        if (text_width(table->cells[cell]) > width)
            width = text_width(table->cells[cell]);
    int heading = text_width(table->cells[column]);
    return width == 0 || width > heading ? width : heading;
}

static void print_row(const tool_table *table, size_t first, const int *widths, int indent,
                      FILE *out)
{
    int pad = indent;
    for (size_t column = 0; column < table->columns && first + column < table->count; column++) {
        if (widths[column] == 0)
            continue;
        const char *text = table->cells[first + column];
        int space = widths[column] - text_width(text);
        if (table->right[column])
            pad += space;
        if (text[0]) {
            fprintf(out, "%*s%s", pad, "", text);
            pad = 0;
        }
        pad += table->right[column] ? 2 : space + 2;
    }
    fputc('\n', out);
}

void tool_table_print(tool_table *table, int indent, FILE *out)
{
    int *widths = tool_allocate(table->columns, sizeof *widths);
    for (size_t column = 0; column < table->columns; column++)
        widths[column] = column_width(table, column);
    for (size_t first = 0; first < table->count; first += table->columns)
        print_row(table, first, widths, indent, out);
    for (size_t cell = 0; cell < table->count; cell++)
        free(table->cells[cell]);
    free(table->cells);
    free(table->right);
    free(widths);
    free(table);
}
