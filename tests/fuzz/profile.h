/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets of profiles share. A profile without the built-in values, which are the
 * same each time and slow to read. */
#ifndef KILN_TESTS_FUZZ_PROFILE_H
#define KILN_TESTS_FUZZ_PROFILE_H

#include "core/profile/internal.h"
#include "tests/fuzz/must.h"

static inline kiln_profile *new_profile(void)
{
    kiln_profile *profile = calloc(1, sizeof *profile);
    must(profile);
    return profile;
}

/* The listed values, given back as settings, must make the same profile. */
static inline void give_back(const kiln_profile *profile)
{
    kiln_profile *again = new_profile();
    int64_t count = kiln_profile_setting_count(profile);
    for (int64_t i = 0; i < count; i++) {
        kiln_setting_info info = {.struct_size = sizeof info};
        must(kiln_profile_setting_at(profile, i, &info) == KILN_OK);
        must(kiln_profile_apply_text(again, info.path, "again", info.value, "caller") == KILN_OK);
        must(strcmp(kiln_profile_setting_get(profile, info.path),
                    kiln_profile_setting_get(again, info.path)) == 0);
        must(kiln_profile_integer(profile, info.path) == kiln_profile_integer(again, info.path));
    }
    must(kiln_profile_setting_count(again) == count);
    kiln_profile_free(again);
}

#endif
