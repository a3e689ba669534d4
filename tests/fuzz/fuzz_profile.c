/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: profiles. Any text; what loads must say the same when its listed values are given
 * back as settings. */
#include "tests/fuzz/profile.h"

static const kiln_option declared[] = {
    {"cores", "1", "integer", NULL, 1, 64, KILN_OPTION_INTEGER, 0},
    {"ratio", "0.5", "number", NULL, 0, 0, KILN_OPTION_NUMBER, 0},
    {"fast", "true", "boolean", NULL, 0, 0, KILN_OPTION_BOOLEAN, 0},
    {"label", NULL, "text", NULL, 0, 0, KILN_OPTION_STRING, 0},
    {"order", "a", "choice", "a|b", 0, 0, KILN_OPTION_CHOICE, 0},
};
static const kiln_plugin plugin = {
    .struct_size = sizeof plugin, .name = "npu", .options = declared, .option_count = 5};

static const char *const integers[] = {"threads.count", "threads.spin_us", "plans.cache_entries"};

static void read_values(const kiln_profile *profile)
{
    const char *names[4];
    for (uint32_t type = 0; type <= KILN_TYPE_COUNT; type++) {
        int64_t count = kiln_profile_backends(profile, "kiln.gemm/1", type, names, 4);
        must(count >= -1 && count <= KILN_PROFILE_MAX_LIST);
        for (int64_t i = 0; i < count && i < 4; i++)
            must(kiln_is_plugin_name(names[i]) &&
                 !kiln_profile_denied(profile, "kiln.gemm/1", names[i]));
    }
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        const char *said = kiln_profile_setting_get(profile, integers[i]);
        must(kiln_profile_integer(profile, integers[i]) == (said ? strtoll(said, NULL, 0) : 0));
    }
    must(kiln_profile_integer(profile, "threads.count") <= 4096);
    must(kiln_profile_list_count(profile, "plugins") <= KILN_PROFILE_MAX_LIST);
}

static void read_options(kiln_profile *profile)
{
    kiln_option_value values[5];
    if (kiln_profile_plugin_options(profile, &plugin, values) != KILN_OK)
        return;
    must(values[0].integer >= 1 && values[0].integer <= 64);
    must(values[4].integer == 0 || values[4].integer == 1);
}

/* All layers, as a runtime loads them. */
static void load(const char *text)
{
    kiln_runtime_options options = {
        .struct_size = sizeof options, .flags = KILN_RUNTIME_ISOLATED, .profile_text = text};
    kiln_profile *profile;
    if (kiln_profile_load(&options, &profile) != KILN_OK)
        return;
    read_values(profile);
    kiln_profile_free(profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = text_of(bytes, size);
    kiln_profile *profile = new_profile();
    if (kiln_profile_apply_text(profile, "", "profile", text, NULL) == KILN_OK) {
        read_values(profile);
        give_back(profile);
        if (size % 8 == 0)
            load(text);
        if (size % 2 == 0)
            read_options(profile);
    } else {
        must(strncmp(kiln_last_error(), "profile:", 8) == 0);
    }
    kiln_profile_free(profile);
    free(text);
    return 0;
}
