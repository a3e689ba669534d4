/* SPDX-License-Identifier: Apache-2.0 */
/* The file of checks that are known to fail. */
#include "tools/kiln/check_plugin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

plugin_skip *plugin_skips_find(plugin_skips *skips, const char *name)
{
    for (size_t i = 0; i < skips->count; i++)
        if (strcmp(skips->items[i].name, name) == 0)
            return &skips->items[i];
    return NULL;
}

/* A line without its newline; it is changed. */
static bool take_line(const tool_common *common, plugin_skips *skips, char *line, int number)
{
    line += strspn(line, " \t\r");
    line[strcspn(line, "\r\n")] = '\0';
    if (!*line || *line == '#')
        return true;
    size_t length = strcspn(line, " \t");
    char *reason = line + length + strspn(line + length, " \t");
    line[length] = '\0';
    if (!*reason) {
        tool_usage(common, "%s:%d: '%s' has no reason; a line is: CHECK REASON", skips->file,
                   number, line);
        return false;
    }
    const plugin_skip *former = plugin_skips_find(skips, line);
    if (former) {
        tool_usage(common, "%s:%d: '%s' stands in line %d already", skips->file, number, line,
                   former->line);
        return false;
    }
    skips->items = tool_grow(skips->items, skips->count + 1, sizeof *skips->items);
    skips->items[skips->count++] = (plugin_skip){
        .name = tool_text("%s", line), .reason = tool_text("%s", reason), .line = number};
    return true;
}

bool plugin_skips_read(const tool_common *common, const char *file, plugin_skips *skips)
{
    char *line = NULL;
    size_t size = 0;
    int number = 0;
    bool good = true;
    FILE *stream = fopen(file, "r");
    skips->file = file;
    if (!stream) {
        tool_usage(common, "%s: %s", file, strerror(errno));
        return false;
    }
    errno = 0;
    while (good && getline(&line, &size, stream) >= 0)
        good = take_line(common, skips, line, ++number);
    if (good && ferror(stream)) {
        tool_usage(common, "%s: %s", file, strerror(errno));
        good = false;
    }
    free(line);
    fclose(stream);
    return good;
}

void plugin_skips_free(plugin_skips *skips)
{
    for (size_t i = 0; i < skips->count; i++) {
        free(skips->items[i].name);
        free(skips->items[i].reason);
    }
    free(skips->items);
}
