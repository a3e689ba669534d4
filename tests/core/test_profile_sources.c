/* SPDX-License-Identifier: Apache-2.0 */
/* Where profiles come from: variables, names, the machine, what is shipped. */
#include "tests/core/profile_world.h"

#include <sys/utsname.h>

/* ---- Environment ---- */

static kiln_profile *load_environment(char *const *environment)
{
    kiln_profile_sources sources = nowhere;
    sources.environment = environment;
    kiln_runtime_options options = {.struct_size = sizeof options,
                                    .profile_text = "schema: 1\nplugin_path: [/from/profile]\n"};
    return load(&options, &sources);
}

static void environment_variables(void **state)
{
    (void)state;
    char *environment[] = {"PATH=/bin",
                           "KILN_THREADS_COUNT=0x10",
                           "KILN_THREADS_AFFINITY=", /* empty is unset */
                           "KILN_STAGING_POOL_BYTES=2MiB",
                           "KILN_PLUGINS=ignored",
                           "KILN_SOMETHING_ELSE=1",
                           "KILN_threads_count=99",
                           "KILN__X=1",
                           "KILN_=1",
                           "KILN_TEST_SEED=4",
                           "KILN_NOVALUE",
                           "KILN_TUNING_FILE=/tmp/it's: [odd] #1",
                           "KILN_RECORD=r: x",
                           "KILN_DEVICES_DEFAULT=npu:1",
                           "KILN_LOG_LEVEL=debug",
                           "KILN_COLLECTIVE_TRANSPORT=[a, b]",
                           "KILN_OPERATORS_DEFAULT=[ref]",
                           "KILN_OPTIONS_NPU_UB_BYTES=64KiB",
                           "KILN_OPTIONS_COMM__FABRIC_RX_DEPTH=8",
                           "KILN_PLUGIN_PATH=/one::/it's two:/one",
                           NULL};
    kiln_profile *profile = load_environment(environment);
    assert_setting(profile, "threads.count", "0x10", "KILN_THREADS_COUNT");
    assert_int_equal(kiln_profile_integer(profile, "threads.count"), 16);
    assert_setting(profile, "threads.affinity", "false", "built-in");
    assert_int_equal(kiln_profile_integer(profile, "staging.pool_bytes"), 2 << 20);
    assert_string_equal(kiln_profile_text(profile, "tuning.file"), "/tmp/it's: [odd] #1");
    assert_string_equal(kiln_profile_text(profile, "record.file"), "r: x");
    assert_string_equal(kiln_profile_origin(profile, "record.file"), "KILN_RECORD");
    assert_string_equal(kiln_profile_text(profile, "devices.default"), "npu:1");
    assert_string_equal(kiln_profile_text(profile, "log.level"), "debug");
    assert_setting(profile, "collective.transport", "[a, b]", "KILN_COLLECTIVE_TRANSPORT");
    assert_setting(profile, "operators.default", "[ref]", "KILN_OPERATORS_DEFAULT");
    assert_setting(profile, "options.npu.ub_bytes", "64KiB", "KILN_OPTIONS_NPU_UB_BYTES");
    assert_setting(profile, "options.comm-fabric.rx_depth", "8",
                   "KILN_OPTIONS_COMM__FABRIC_RX_DEPTH");
    assert_setting(profile, "plugin_path", "[/one, \"/it's two\", /from/profile]",
                   "KILN_PLUGIN_PATH");
    assert_setting(profile, "plugins", "[\"*\"]", "built-in");
    kiln_profile_free(profile);

    char *text[] = {"KILN_TUNING_FILE=a \n b\\n\"\t\x01\xc2\x85",
                    "KILN_PLUGIN_PATH=/a\nb:/\xe2\x80\xa8", NULL};
    profile = load_environment(text);
    assert_string_equal(kiln_profile_text(profile, "tuning.file"), strchr(text[0], '=') + 1);
    assert_string_equal(kiln_profile_list_at(profile, "plugin_path", 0), "/a\nb");
    assert_string_equal(kiln_profile_list_at(profile, "plugin_path", 1), "/\xe2\x80\xa8");
    kiln_profile_free(profile);

    char *colons[] = {"KILN_PLUGIN_PATH=::", NULL};
    profile = load_environment(colons);
    assert_setting(profile, "plugin_path", "[/from/profile]", "KILN_PLUGIN_PATH");
    kiln_profile_free(profile);
}

static void wrong_variables(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"KILN_THREADS_COUTN=1",
         "KILN_THREADS_COUTN:1:1: unknown key 'threads.coutn' (did you mean 'threads.count'?)"},
        {"KILN_THREADS_COUNT=two",
         "KILN_THREADS_COUNT:1:1: threads.count: expected an integer from 0 to 4096, found 'two'"},
        {"KILN_THREADS_COUNT='1",
         "KILN_THREADS_COUNT:1:3: found unexpected end of stream while scanning a quoted scalar"},
        {"KILN_LOG_LEVEL=loud", "KILN_LOG_LEVEL:1:1: log.level: expected one of error, warning, "
                                "info, debug, found 'loud'"},
        {"KILN_DEVICES_DEFAULT=cpu", "KILN_DEVICES_DEFAULT:1:1: devices.default: expected host or "
                                     "PLUGIN:INDEX such as acme:0, found 'cpu'"},
        {"KILN_OPERATORS_GEMM=[ref]", "KILN_OPERATORS_GEMM:1:1: operators: 'gemm' is not an "
                                      "operator's name; write NAME/VERSION, such as kiln.gemm/1, "
                                      "or default"},
        {"KILN_RECORD=\xff", "KILN_RECORD:1:2: invalid leading UTF-8 octet; the text must be UTF-8 "
                             "without control characters"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *environment[] = {(char *)cases[i][0], NULL};
        kiln_profile_sources sources = nowhere;
        sources.environment = environment;
        refuse(NULL, &sources, KILN_PARSE, cases[i][1]);
    }
}

/* ---- The search for a profile ---- */

static void profiles_by_name(void **state)
{
    (void)state;
    write_file(home, ".config/kiln/profiles/both.yaml", "schema: 1\nname: home\n");
    write_file(etc, "profiles/both.yaml", "schema: 1\nname: etc\n");
    write_file(installed, "ref.yaml", "schema: 1\nname: reference\n");
    write_file(installed, "npu-davinci.yaml", "schema: 1\n");
    write_file(installed, "notes.txt", "");
    kiln_profile_sources sources = all_sources(NULL);
    kiln_runtime_options options = {.struct_size = sizeof options, .profile = "both"};
    kiln_profile *profile = load(&options, &sources);
    assert_string_equal(kiln_profile_text(profile, "name"), "home");
    kiln_profile_free(profile);
    options.profile = "ref";
    profile = load(&options, &sources);
    assert_string_equal(kiln_profile_text(profile, "name"), "reference");
    kiln_profile_free(profile);

    char sentence[512], path[256];
    options.profile = "reff";
    snprintf(sentence, sizeof sentence,
             "no profile 'reff' (did you mean 'ref'?); profiles by folder: "
             "%s/.config/kiln/profiles (both), %s/profiles "
             "(both), %s (npu-davinci, ref)",
             home, etc, installed);
    refuse(&options, &sources, KILN_NOT_FOUND, sentence);
    options.profile = "x";
    refuse(&options, &nowhere, KILN_NOT_FOUND,
           "no profile 'x'; profiles by folder: no folder is searched");

    char *environment[] = {"KILN_PROFILE_PATH=/nowhere:", "KILN_PROFILE=both", NULL};
    sources.environment = environment;
    refuse(NULL, &sources, KILN_NOT_FOUND,
           "KILN_PROFILE: no profile 'both'; profiles by folder: /nowhere (none)");
    char list[256];
    snprintf(list, sizeof list, "KILN_PROFILE_PATH=/nowhere:%s/profiles", etc);
    environment[0] = list;
    profile = load(NULL, &sources);
    assert_string_equal(kiln_profile_text(profile, "name"), "etc");
    kiln_profile_free(profile);

    /* A file: by a slash or by its ending. */
    snprintf(path, sizeof path, "%s/ref.yaml", installed);
    options.profile = path;
    profile = load(&options, &sources);
    assert_string_equal(kiln_profile_text(profile, "name"), "reference");
    kiln_profile_free(profile);
    options.profile = "absent.yaml";
    refuse(&options, &sources, KILN_IO, "absent.yaml: cannot be read: No such file or directory");
    options.profile = installed;
    snprintf(sentence, sizeof sentence, "%s: cannot be read: Is a directory", installed);
    refuse(&options, &sources, KILN_IO, sentence);
    write_file(installed, "bad.yaml", "schema: 1\nthreads: {count: -1}\n");
    options.profile = "bad";
    options.profile_text = NULL;
    sources.environment = NULL;
    snprintf(sentence, sizeof sentence,
             "%s/bad.yaml:2:18: threads.count: expected an integer from 0 to 4096, found '-1'",
             installed);
    refuse(&options, &sources, KILN_PARSE, sentence);
}

static void assert_chosen(const char *name)
{
    kiln_profile_sources sources = all_sources(NULL);
    kiln_profile *profile = load(NULL, &sources);
    assert_string_equal(kiln_profile_text(profile, "name"), name);
    kiln_profile_free(profile);
}

static void profiles_by_machine(void **state)
{
    (void)state;
    write_file(machine, "proc/cpuinfo",
               "processor\t: 0\nmodel name\t: X flags: none\nflags\t\t: fpu wide "
               "wider\n\nprocessor : 1\nflags : other\n");
    write_file(machine, "sys/bus/pci/devices/0000:00:01.0/vendor", "0x1D0F\n");
    write_file(machine, "sys/bus/pci/devices/0000:00:01.0/device", "0x8061\n");
    write_file(machine, "sys/bus/pci/devices/0000:00:02.0/vendor", "junk\n");
    write_file(machine, "sys/bus/pci/devices/0000:00:02.0/device", "0x1\n");

    char *words = NULL;
    struct utsname system;
    uname(&system);
    assert_int_equal(kiln_machine_words(machine, &words), KILN_OK);
    assert_true(kiln_machine_has(words, system.machine));
    assert_true(kiln_machine_has(words, "fpu") && kiln_machine_has(words, "wide") &&
                kiln_machine_has(words, "wider"));
    assert_true(kiln_machine_has(words, "pci:1d0f:8061"));
    assert_false(kiln_machine_has(words, "wid") || kiln_machine_has(words, "ider") ||
                 kiln_machine_has(words, "other"));
    assert_false(kiln_machine_has(words, "") || kiln_machine_has(words, "none") ||
                 kiln_machine_has(words, "flags"));
    assert_int_equal(strlen(words),
                     strlen("  fpu wide wider pci:1d0f:8061 ") + strlen(system.machine));
    free(words);

    assert_chosen(""); /* no folder is there */
    write_file(installed, "a.yaml", "schema: 1\nname: a\nmatch: []\n");
    write_file(installed, "b.yaml", "schema: 1\nname: b\n");
    assert_chosen(""); /* no words, no choice */
    write_file(installed, "c.yaml", "schema: 1\nname: c\nmatch: [fpu]\n");
    assert_chosen("c");
    write_file(etc, "profiles/d.yaml", "schema: 1\nname: d\nmatch: [wide, wider, absent]\n");
    assert_chosen("c"); /* all words must be there */
    write_file(etc, "profiles/e.yaml", "schema: 1\nname: e\nmatch: [wide, 'pci:1d0f:8061']\n");
    assert_chosen("e"); /* the most words win */
    write_file(installed, "f.yaml", "schema: 1\nname: f\nmatch: [wide, fpu]\n");
    assert_chosen(""); /* equals: nobody */
    write_file(home, ".config/kiln/profiles/f.yaml", "schema: 1\nname: f in home\n");
    assert_chosen("e"); /* the file of that name in an earlier folder counts */

    char sentence[256];
    kiln_profile_sources sources = all_sources(NULL);
    write_file(installed, "g.yaml", "schema: 1\nmatch: fpu\n");
    snprintf(sentence, sizeof sentence,
             "%s/g.yaml:2:8: match: expected a list such as [a, b], found 'fpu'", installed);
    refuse(NULL, &sources, KILN_PARSE, sentence);
}

/* ---- The profiles that are shipped ---- */

static void shipped_profiles(void **state)
{
    (void)state;
    const char *root = getenv("KILN_TEST_SRCDIR");
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/config", root ? root : ".");
    kiln_profile_sources sources = {.installed_folder = folder, .machine_root = ""};
    kiln_runtime_options options = {.struct_size = sizeof options, .profile = "ref"};
    kiln_profile *profile = load(&options, &sources);
    assert_string_equal(kiln_profile_text(profile, "name"), "ref");
    assert_backends(profile, "acme.sort/1", KILN_F32, "ref");
    kiln_profile_free(profile);

    options.profile = "cpu";
    profile = load(&options, &sources);
    assert_string_equal(kiln_profile_text(profile, "name"), "cpu");
    assert_backends(profile, "kiln.gemm/1", KILN_F32, "cpu ref");
    /* Not by itself, as long as its plugin does not exist. */
    assert_int_equal(kiln_profile_list_count(profile, "match"), 0);
    kiln_profile_free(profile);

    options.profile = "npu-davinci";
    profile = load(&options, &sources);
    assert_string_equal(kiln_profile_text(profile, "name"), "npu-davinci");
    assert_backends(profile, "kiln.gemm/1", KILN_F16, "npu ref");
    assert_string_equal(kiln_profile_text(profile, "devices.default"), "npu:0");
    assert_string_equal(kiln_profile_text(profile, "staging.policy"), "deny");
    assert_int_equal(kiln_profile_list_count(profile, "match"),
                     0); /* a model is never chosen unasked */
    kiln_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment_variables),
        cmocka_unit_test(wrong_variables),
        cmocka_unit_test_setup_teardown(profiles_by_name, make_world, remove_world),
        cmocka_unit_test_setup_teardown(profiles_by_machine, make_world, remove_world),
        cmocka_unit_test(shipped_profiles),
    };
    return cmocka_run_group_tests_name("profile_sources", tests, NULL, NULL);
}
