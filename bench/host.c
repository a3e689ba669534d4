/* SPDX-License-Identifier: Apache-2.0 */
/* What machine this is: figures mean nothing without it. */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench/result.h"
#include "kiln/kiln.h"

/* The value of the first line "KEY…: VALUE" of a file, "" when there is none. */
static void read_value(const char *path, const char *key, char *value, size_t size)
{
    char line[4096];
    value[0] = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0)
            continue;
        char *text = colon + 1 + strspn(colon + 1, " \t");
        text[strcspn(text, "\n")] = 0;
        snprintf(value, size, "%s", text);
        break;
    }
    fclose(file);
}

/* The first line of a file, "" when it cannot be read. */
static void read_line(const char *path, char *text, size_t size)
{
    text[0] = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    if (!fgets(text, (int)size, file))
        text[0] = 0;
    text[strcspn(text, "\n")] = 0;
    fclose(file);
}

/* The extensions that ceilings and kernels care about, as the system names them. */
static json_t *instructions(void)
{
    static const char *const wanted[] = {"avx2",     "fma",         "f16c",        "avx_vnni",
                                         "avx512f",  "avx512_vnni", "avx512_bf16", "avx512_fp16",
                                         "amx_tile", "amx_bf16",    "amx_int8",    "asimd",
                                         "sve",      "i8mm",        "bf16"};
    char flags[4096];
    read_value("/proc/cpuinfo", "flags", flags, sizeof flags);
    if (!flags[0])
        read_value("/proc/cpuinfo", "Features", flags, sizeof flags);
    json_t *list = json_array();
    char *rest = NULL;
    for (char *word = strtok_r(flags, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (strcmp(word, wanted[i]) == 0)
                json_array_append_new(list, json_string(word));
    return list;
}

static json_t *load_average(void)
{
    double load;
    return getloadavg(&load, 1) == 1 ? json_real(load) : json_null();
}

static json_t *caches(void)
{
    json_t *object = json_object();
    static const struct {
        const char *name;
        int query;
    } levels[] = {{"L1d", _SC_LEVEL1_DCACHE_SIZE},
                  {"L2", _SC_LEVEL2_CACHE_SIZE},
                  {"L3", _SC_LEVEL3_CACHE_SIZE}};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        long bytes = sysconf(levels[i].query);
        if (bytes > 0)
            json_object_set_new(object, levels[i].name, json_integer(bytes));
    }
    return object;
}

json_t *bench_host_json(void)
{
    char cpu[256], pages[128], governor[64], date[32] = "";
    struct utsname name;
    time_t now = time(NULL);
    struct tm utc;
    memset(&name, 0, sizeof name);
    uname(&name);
    read_value("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    read_line("/sys/kernel/mm/transparent_hugepage/enabled", pages, sizeof pages);
    read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor, sizeof governor);
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_t *object =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s}", "cpu", cpu[0] ? cpu : name.machine,
                  "machine", name.machine, "processors", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),
                  "page_bytes", (json_int_t)sysconf(_SC_PAGESIZE), "memory_bytes",
                  (json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), "system",
                  name.release, "kiln", kiln_version(), "date", date);
    json_object_set_new(object, "caches", caches());
    json_object_set_new(object, "instructions", instructions());
    json_object_set_new(object, "load", load_average());
    json_object_set_new(object, "huge_pages", json_string(pages));
    if (governor[0])
        json_object_set_new(object, "governor", json_string(governor));
    return object;
}
