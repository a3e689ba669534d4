/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine says of itself, as opaque words that a profile's `match` may ask for. */
#define _GNU_SOURCE /* open_memstream, getline */
#include "core/profile/internal.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

enum { MAX_PATH = 4096 };

/* The lines of /proc/cpuinfo that list features, under the names that kernels give them. */
static bool is_feature_line(const char *line)
{
    static const char *const names[] = {"flags", "Features", "features", "isa"};
    size_t length = strcspn(line, " \t:");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == length && strncmp(line, names[i], length) == 0)
            return strchr(line, ':') != NULL;
    return false;
}

/* The first processor speaks for all. */
static void write_features(FILE *words, const char *root)
{
    char path[MAX_PATH], *line = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
    FILE *file = fopen(path, "re");
    while (file && getline(&line, &capacity, file) > 0) {
        if (!is_feature_line(line))
            continue;
        char *rest = strchr(line, ':') + 1, *word;
        while ((word = strsep(&rest, " \t\n")))
            if (*word)
                fprintf(words, "%s ", word);
        break;
    }
    free(line);
    if (file)
        fclose(file);
}

/* One "0x10de" in a file; -1 when there is none. */
static long read_id(const char *folder, const char *device, const char *name)
{
    char path[MAX_PATH], text[32] = "";
    if ((size_t)snprintf(path, sizeof path, "%s/%s/%s", folder, device, name) >= sizeof path)
        return -1;
    FILE *file = fopen(path, "re");
    bool got = file && fgets(text, sizeof text, file);
    if (file)
        fclose(file);
    char *end = text;
    long id = got ? strtol(text, &end, 16) : -1;
    return end != text && id >= 0 && id <= 0xffff ? id : -1;
}

static void write_pci_devices(FILE *words, const char *root)
{
    char folder[MAX_PATH];
    snprintf(folder, sizeof folder, "%s/sys/bus/pci/devices", root);
    DIR *open = opendir(folder);
    for (struct dirent *entry; open && (entry = readdir(open));) {
        long vendor = read_id(folder, entry->d_name, "vendor"),
             device = read_id(folder, entry->d_name, "device");
        if (vendor >= 0 && device >= 0)
            fprintf(words, "pci:%04lx:%04lx ", (unsigned long)vendor, (unsigned long)device);
    }
    if (open)
        closedir(open);
}

kiln_status kiln_machine_words(const char *root, char **words)
{
    char *text = NULL;
    size_t size;
    struct utsname system;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return kiln_fail_memory("the list of the machine's features");
    fprintf(stream, " %s ", uname(&system) == 0 ? system.machine : "");
    write_features(stream, root);
    write_pci_devices(stream, root);
    if (fclose(stream) != 0) {
        free(text);
        return kiln_fail_memory("the list of the machine's features");
    }
    *words = text;
    return KILN_OK;
}

bool kiln_machine_has(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; length && (at = strstr(at, word)); at++)
        if (at > words && at[-1] == ' ' && at[length] == ' ')
            return true;
    return false;
}
