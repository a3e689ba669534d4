/* SPDX-License-Identifier: Apache-2.0 */
/* A folder in memory for fuzz targets of what reads or writes files by name. */
#ifndef KILN_TESTS_FUZZ_SCRATCH_H
#define KILN_TESTS_FUZZ_SCRATCH_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_path[64];

static inline int scratch_remove(const char *path, const struct stat *status, int type,
                                 struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

static inline void scratch_end(void)
{
    nftw(scratch_path, scratch_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* The folder, made at the first call; removed when the program ends by itself. */
static inline const char *scratch_folder(void)
{
    if (!*scratch_path) {
        snprintf(scratch_path, sizeof scratch_path, "%s/kiln-fuzz-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        if (!mkdtemp(scratch_path) || atexit(scratch_end) != 0)
            abort();
    }
    return scratch_path;
}

#endif
