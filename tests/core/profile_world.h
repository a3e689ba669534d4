/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of profiles share: a small world of files, and ways to load from it. Include
 * first; defines _GNU_SOURCE. */
#ifndef TESTS_CORE_PROFILE_WORLD_H
#define TESTS_CORE_PROFILE_WORLD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkdtemp, nftw */
#endif
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/profile/internal.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static char world[] = "test_profile.XXXXXX";
static char etc[64], home[64], installed[64], machine[64];

static inline void write_file(const char *folder, const char *rest, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, rest);
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    if (!file)
        fail_msg("cannot write %s", path);
    fputs(text, file);
    fclose(file);
}

static inline int remove_one(const char *path, const struct stat *status, int kind,
                             struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    return remove(path);
}

static inline int make_world(void **state)
{
    (void)state;
    strcpy(world, "test_profile.XXXXXX");
    if (!mkdtemp(world))
        return -1;
    snprintf(etc, sizeof etc, "%s/etc", world);
    snprintf(home, sizeof home, "%s/home", world);
    snprintf(installed, sizeof installed, "%s/share", world);
    snprintf(machine, sizeof machine, "%s/machine", world);
    return 0;
}

static inline int remove_world(void **state)
{
    (void)state;
    return nftw(world, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Everything there is, with the given variables. */
static inline kiln_profile_sources all_sources(char *const *environment)
{
    return (kiln_profile_sources){etc, home, installed, environment, machine};
}

static inline kiln_profile *load(const kiln_runtime_options *options,
                                 const kiln_profile_sources *sources)
{
    kiln_profile *profile = NULL;
    if (kiln_profile_load_from(options, sources, &profile) != KILN_OK)
        fail_msg("%s", kiln_last_error());
    return profile;
}

static inline void refuse(const kiln_runtime_options *options, const kiln_profile_sources *sources,
                          kiln_status status, const char *sentence)
{
    kiln_profile *profile = NULL;
    assert_int_equal(kiln_profile_load_from(options, sources, &profile), status);
    assert_null(profile);
    assert_string_equal(kiln_last_error(), sentence);
}

static const kiln_profile_sources nowhere = {NULL, NULL, NULL, NULL, ""};

static inline kiln_profile *load_text(const char *text)
{
    kiln_runtime_options options = {.struct_size = sizeof options, .profile_text = text};
    return load(&options, &nowhere);
}

static inline void refuse_text(const char *text, const char *sentence)
{
    kiln_runtime_options options = {.struct_size = sizeof options, .profile_text = text};
    refuse(&options, &nowhere, KILN_PARSE, sentence);
}

static inline void assert_setting(const kiln_profile *profile, const char *path, const char *value,
                                  const char *origin)
{
    for (int64_t i = 0; i < kiln_profile_setting_count(profile); i++) {
        kiln_setting_info info = {.struct_size = sizeof info};
        assert_int_equal(kiln_profile_setting_at(profile, i, &info), KILN_OK);
        if (strcmp(info.path, path) == 0) {
            assert_string_equal(info.value, value);
            assert_string_equal(info.origin, origin);
            assert_string_equal(kiln_profile_origin(profile, path), origin);
            assert_true(*info.help);
            return;
        }
    }
    fail_msg("no setting %s", path);
}

static inline void assert_backends(const kiln_profile *profile, const char *operator_name,
                                   uint32_t type, const char *expected)
{
    const char *names[8];
    char list[128] = "";
    int64_t count = kiln_profile_backends(profile, operator_name, type, names, 8);
    for (int64_t i = 0; i < count; i++)
        sprintf(list + strlen(list), "%s%s", i ? " " : "", names[i]);
    assert_string_equal(count < 0 ? "(plugins)" : list, expected);
}

#endif
