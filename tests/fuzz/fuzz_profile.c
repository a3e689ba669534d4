/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: any text; what loads must say the same when its listed values are given back as
 * settings. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/profile/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const kiln_option declared[] = {
    {"cores", "1", "integer", NULL, 1, 64, KILN_OPTION_INTEGER, 0},
    {"ratio", "0.5", "number", NULL, 0, 0, KILN_OPTION_NUMBER, 0},
    {"fast", "true", "boolean", NULL, 0, 0, KILN_OPTION_BOOLEAN, 0},
    {"label", NULL, "text", NULL, 0, 0, KILN_OPTION_STRING, 0},
    {"order", "a", "choice", "a|b", 0, 0, KILN_OPTION_CHOICE, 0},
};
static const kiln_plugin plugin = {
    .struct_size = sizeof plugin, .name = "npu", .options = declared, .option_count = 5};

static void read_values(kiln_profile *profile)
{
    const char *names[4];
    for (uint32_t type = 0; type <= KILN_TYPE_COUNT; type++)
        kiln_profile_backends(profile, "kiln.gemm/1", type, names, 4);
    kiln_profile_denied(profile, "kiln.gemm/1", "ref");
    if (kiln_profile_integer(profile, "threads.count") > 4096 ||
        kiln_profile_list_count(profile, "plugins") > 64)
        abort();
}

static void give_back(const kiln_profile *profile)
{
    int64_t count = kiln_profile_setting_count(profile);
    kiln_setting *settings = calloc((size_t)count, sizeof *settings);
    for (int64_t i = 0; settings && i < count; i++) {
        kiln_setting_info info = {.struct_size = sizeof info};
        kiln_profile_setting_at(profile, i, &info);
        settings[i] = (kiln_setting){info.path, info.value};
    }
    kiln_runtime_options options = {.struct_size = sizeof options,
                                    .flags = KILN_RUNTIME_ISOLATED,
                                    .settings = settings,
                                    .setting_count = settings ? (uint64_t)count : 0};
    kiln_profile *again = NULL;
    if (kiln_profile_load(&options, &again) != KILN_OK ||
        kiln_profile_setting_count(again) != count)
        abort();
    for (int64_t i = 0; settings && i < count; i++)
        if (strcmp(kiln_profile_setting_get(profile, settings[i].path),
                   kiln_profile_setting_get(again, settings[i].path)) != 0)
            abort();
    kiln_profile_free(again);
    free(settings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    kiln_runtime_options options = {
        .struct_size = sizeof options, .flags = KILN_RUNTIME_ISOLATED, .profile_text = text};
    kiln_profile *profile = NULL;
    if (kiln_profile_load(&options, &profile) == KILN_OK) {
        kiln_option_value values[5];
        read_values(profile);
        give_back(profile);
        kiln_profile_plugin_options(profile, &plugin, values);
        kiln_profile_free(profile);
    } else if (!*kiln_last_error()) {
        abort();
    }
    free(text);
    return 0;
}
