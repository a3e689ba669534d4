/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what the machine says of itself. Three files, separated by NUL: /proc/cpuinfo, and
 * the vendor and device of one PCI device. */
#include <sys/utsname.h>

#include "core/profile/internal.h"
#include "tests/fuzz/must.h"
#include "tests/fuzz/scratch.h"

static const char *const folders[] = {"/proc",
                                      "/sys",
                                      "/sys/bus",
                                      "/sys/bus/pci",
                                      "/sys/bus/pci/devices",
                                      "/sys/bus/pci/devices/0000:00:1f.2"};
static const char *const files[] = {"/proc/cpuinfo", "/sys/bus/pci/devices/0000:00:1f.2/vendor",
                                    "/sys/bus/pci/devices/0000:00:1f.2/device"};

static void write_file(const char *name, const uint8_t *bytes, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s%s", scratch_folder(), name);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(file >= 0 && write(file, bytes, size) == (ssize_t)size);
    close(file);
}

static void make_folders(void)
{
    char path[256];
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(path, sizeof path, "%s%s", scratch_folder(), folders[i]);
        must(mkdir(path, 0700) == 0);
    }
}

/* Words between single blanks, each of which is found, and the architecture before all. */
static void check_words(char *words)
{
    struct utsname system;
    char copy[4096], *rest = copy, *word;
    must(uname(&system) == 0 && kiln_machine_has(words, system.machine));
    must(!kiln_machine_has(words, "") && words[0] == ' ' && words[strlen(words) - 1] == ' ');
    must(!strpbrk(words, "\t\n") && !strstr(words, "  ") && strlen(words) < sizeof copy);
    strcpy(copy, words + 1);
    while ((word = strsep(&rest, " ")))
        must(!*word || kiln_machine_has(words, word));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static bool made;
    if (!made)
        make_folders();
    made = true;
    for (int i = 0; i < 3; i++) {
        const uint8_t *end = size ? memchr(bytes, 0, size) : NULL;
        size_t length = end ? (size_t)(end - bytes) : size;
        write_file(files[i], bytes, length);
        bytes += length + (end != NULL);
        size -= length + (end != NULL);
    }
    char *words;
    must(kiln_machine_words(scratch_folder(), &words) == KILN_OK);
    check_words(words);
    free(words);
    return 0;
}
