/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: files of checks to skip, `kiln check-plugin --skip FILE`. Any file; what is read is
 * the same when it is written and read again. */
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/must.h"
#include "tools/kiln/check_plugin.h"

static int new_file(int *file)
{
    if (*file < 0)
        *file = memfd_create("fuzz", MFD_CLOEXEC);
    must(*file >= 0 && ftruncate(*file, 0) == 0);
    return *file;
}

static bool read_skips(const uint8_t *bytes, size_t size, plugin_skips *skips)
{
    static int file = -1;
    char path[32];
    tool_common common = {.command = "kiln check-plugin"};
    must(pwrite(new_file(&file), bytes, size, 0) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    memset(skips, 0, sizeof *skips);
    return plugin_skips_read(&common, path, skips);
}

static void check(plugin_skips *skips)
{
    int line = 0;
    for (size_t i = 0; i < skips->count; i++) {
        plugin_skip *skip = &skips->items[i];
        must(skip->name[0] && skip->name[0] != '#' && !strpbrk(skip->name, " \t\r\n"));
        must(skip->reason[0] && !strpbrk(skip->reason, "\r\n") && skip->line > line);
        must(plugin_skips_find(skips, skip->name) == skip && !skip->used);
        line = skip->line;
    }
}

static void write_and_read(const plugin_skips *skips)
{
    char *text = NULL;
    size_t size;
    plugin_skips again;
    FILE *stream = open_memstream(&text, &size);
    must(stream);
    for (size_t i = 0; i < skips->count; i++)
        fprintf(stream, "# %zu\n\n\t%s  %s\n", i, skips->items[i].name, skips->items[i].reason);
    must(fclose(stream) == 0);
    must(read_skips((const uint8_t *)text, size, &again) && again.count == skips->count);
    for (size_t i = 0; i < skips->count; i++)
        must(strcmp(skips->items[i].name, again.items[i].name) == 0 &&
             strcmp(skips->items[i].reason, again.items[i].reason) == 0);
    plugin_skips_free(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    plugin_skips skips;
    if (read_skips(bytes, size, &skips)) {
        check(&skips);
        write_and_read(&skips);
    }
    plugin_skips_free(&skips);
    return 0;
}
