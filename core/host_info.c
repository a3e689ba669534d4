/* SPDX-License-Identifier: Apache-2.0 */
/* What the host is, as a device. */
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/device.h"

/* The processor's own name for itself, "" where the system does not tell. */
static void read_model(char *model, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    *model = '\0';
    while (file && !*model && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':'))
            snprintf(model, size, "%.*s", (int)strcspn(strchr(line, ':') + 2, "\n"),
                     strchr(line, ':') + 2);
    if (file)
        fclose(file);
}

static void add_cache(kiln_device_info *info, const char *name, int size_name, int line_name)
{
    long size = sysconf(size_name), line = sysconf(line_name);
    if (size <= 0 || info->memory_count == KILN_MAX_MEMORIES)
        return;
    kiln_memory_info *memory = &info->memories[info->memory_count++];
    snprintf(memory->name, sizeof memory->name, "%s", name);
    memory->bytes = size;
    memory->instances = 1;
    memory->line = line > 0 ? line : 0;
}

kiln_status kiln_host_info(void *instance, int64_t index, kiln_device_info *info)
{
    (void)instance, (void)index;
    struct utsname system;
    char model[64];
    uname(&system);
    snprintf(info->name, sizeof info->name, "host (%.40s)", system.machine);
    read_model(model, sizeof model);
    snprintf(info->fingerprint, sizeof info->fingerprint, "host %.20s, %.60s, " __VERSION__,
             system.machine, model);
    info->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    info->compute_units = sysconf(_SC_NPROCESSORS_ONLN);
    info->spaces = 1u << KILN_SPACE_DEVICE | 1u << KILN_SPACE_HOST;
    info->flags = KILN_DEVICE_HOST_ADDRESSABLE | KILN_DEVICE_FORK_SAFE;
    add_cache(info, "L1d", _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL1_DCACHE_LINESIZE);
    add_cache(info, "L2", _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL2_CACHE_LINESIZE);
    add_cache(info, "L3", _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL3_CACHE_LINESIZE);
    return KILN_OK;
}
