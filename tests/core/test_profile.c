/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: precedence of layers, places of errors, the search for a profile, options of plugins.
 * Not tested: that a setuid program's environment and home are ignored, since a test cannot be one;
 * that they can be left out is. */
#define _GNU_SOURCE /* mkdtemp, nftw */
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
#include <sys/utsname.h>
#include <unistd.h>

#include "core/profile/internal.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- A small world of files ---- */

static char world[] = "test_profile.XXXXXX";
static char etc[64], home[64], installed[64], machine[64];

static void write_file(const char *folder, const char *rest, const char *text)
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

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    return remove(path);
}

static int make_world(void **state)
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

static int remove_world(void **state)
{
    (void)state;
    return nftw(world, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Everything there is, with the given variables. */
static kiln_profile_sources all_sources(char *const *environment)
{
    return (kiln_profile_sources){etc, home, installed, environment, machine};
}

static kiln_profile *load(const kiln_runtime_options *options, const kiln_profile_sources *sources)
{
    kiln_profile *profile = NULL;
    if (kiln_profile_load_from(options, sources, &profile) != KILN_OK)
        fail_msg("%s", kiln_last_error());
    return profile;
}

static void refuse(const kiln_runtime_options *options, const kiln_profile_sources *sources,
                   kiln_status status, const char *sentence)
{
    kiln_profile *profile = NULL;
    assert_int_equal(kiln_profile_load_from(options, sources, &profile), status);
    assert_null(profile);
    assert_string_equal(kiln_last_error(), sentence);
}

static const kiln_profile_sources nowhere = {NULL, NULL, NULL, NULL, ""};

static kiln_profile *load_text(const char *text)
{
    kiln_runtime_options options = {.struct_size = sizeof options, .profile_text = text};
    return load(&options, &nowhere);
}

static void refuse_text(const char *text, const char *sentence)
{
    kiln_runtime_options options = {.struct_size = sizeof options, .profile_text = text};
    refuse(&options, &nowhere, KILN_PARSE, sentence);
}

static void assert_setting(const kiln_profile *profile, const char *path, const char *value,
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

/* ---- Values ---- */

static void built_in_values(void **state)
{
    (void)state;
    kiln_profile *profile = load(NULL, &nowhere);
    assert_int_equal(kiln_profile_integer(profile, "schema"), 1);
    assert_int_equal(kiln_profile_integer(profile, "staging.pool_bytes"), 256 << 20);
    assert_int_equal(kiln_profile_integer(profile, "threads.count"), 0);
    assert_int_equal(kiln_profile_integer(profile, "threads.spin_us"), 50);
    assert_int_equal(kiln_profile_integer(profile, "plans.cache_entries"), 1024);
    assert_false(kiln_profile_boolean(profile, "threads.affinity"));
    assert_true(kiln_profile_boolean(profile, "tuning.use"));
    assert_string_equal(kiln_profile_text(profile, "staging.policy"), "deny");
    assert_string_equal(kiln_profile_text(profile, "log.level"), "warning");
    assert_string_equal(kiln_profile_text(profile, "devices.default"), "host");
    assert_string_equal(kiln_profile_text(profile, "tuning.file"), "");
    assert_string_equal(kiln_profile_text(profile, "record.file"), "");
    assert_int_equal(kiln_profile_list_count(profile, "plugins"), 1);
    assert_string_equal(kiln_profile_list_at(profile, "plugins", 0), "*");
    assert_string_equal(kiln_profile_list_at(profile, "plugins", 1), "");
    assert_int_equal(kiln_profile_list_count(profile, "plugin_path"), 0);
    assert_int_equal(kiln_profile_list_count(profile, "collective.transport"), 0);
    assert_setting(profile, "plugins", "[\"*\"]", "built-in");
    assert_setting(profile, "staging.pool_bytes", "256MiB", "built-in");
    assert_setting(profile, "tuning.file", "\"\"", "built-in");
    /* What is not in the table has no value, and asking does no harm. */
    assert_int_equal(kiln_profile_integer(profile, "threads"), 0);
    assert_string_equal(kiln_profile_text(profile, "nothing"), "");
    assert_null(kiln_profile_setting_get(profile, "nothing"));
    kiln_setting_info info = {.struct_size = sizeof info};
    assert_int_equal(kiln_profile_setting_at(profile, -1, &info), KILN_INVALID);
    assert_int_equal(kiln_profile_setting_at(profile, 1000, &info), KILN_INVALID);
    kiln_profile_free(profile);
    kiln_profile_free(NULL);
}

static void every_key(void **state)
{
    (void)state;
    kiln_profile *profile = load_text("schema: 0x1\n"
                                      "name: all\n"
                                      "description: 'says \"all\"'\n"
                                      "match: [a, b:c]\n"
                                      "plugins: [npu, '*']\n"
                                      "plugin_path: [/opt/kiln, 'a b']\n"
                                      "operators: {acme.sort/2: [acme], default: {deny: [npu]}}\n"
                                      "devices: {default: npu:1}\n"
                                      "options: {npu: {cores: 2, label: x y}}\n"
                                      "staging: {policy: allow, pool_bytes: 1 GiB}\n"
                                      "threads: {count: 3, spin_us: 0, affinity: true}\n"
                                      "plans: {cache_entries: 7}\n"
                                      "tuning: {file: /tmp/t, use: false}\n"
                                      "record: {file: r.jsonl}\n"
                                      "log: {level: debug}\n"
                                      "collective: {transport: [shm, fabric]}\n");
    static const char *const expected[][2] = {
        {"schema", "0x1"},
        {"name", "all"},
        {"description", "\"says \\\"all\\\"\""},
        {"match", "[a, b:c]"},
        {"plugins", "[npu, \"*\"]"},
        {"plugin_path", "[/opt/kiln, a b]"},
        {"operators.acme.sort/2", "[acme]"},
        {"operators.default", "{deny: [npu]}"},
        {"devices.default", "npu:1"},
        {"options.npu.cores", "2"},
        {"options.npu.label", "x y"},
        {"staging.policy", "allow"},
        {"staging.pool_bytes", "1 GiB"},
        {"threads.count", "3"},
        {"threads.spin_us", "0"},
        {"threads.affinity", "true"},
        {"plans.cache_entries", "7"},
        {"tuning.file", "/tmp/t"},
        {"tuning.use", "false"},
        {"record.file", "r.jsonl"},
        {"log.level", "debug"},
        {"collective.transport", "[shm, fabric]"},
    };
    assert_int_equal(kiln_profile_setting_count(profile), COUNT(expected));
    for (size_t i = 0; i < COUNT(expected); i++) {
        kiln_setting_info info = {.struct_size = sizeof info};
        assert_int_equal(kiln_profile_setting_at(profile, (int64_t)i, &info), KILN_OK);
        assert_string_equal(info.path, expected[i][0]);
        assert_string_equal(info.value, expected[i][1]);
        assert_memory_equal(info.origin, "profile_text:", 13);
    }
    assert_int_equal(kiln_profile_integer(profile, "staging.pool_bytes"), 1 << 30);
    assert_string_equal(kiln_profile_list_at(profile, "collective.transport", 1), "fabric");
    assert_string_equal(kiln_profile_setting_get(profile, "description"), "says \"all\"");
    assert_string_equal(kiln_profile_setting_get(profile, "match"), "[a, b:c]");
    assert_string_equal(kiln_profile_origin(profile, "threads.affinity"), "profile_text:11:43");
    kiln_profile_free(profile);
}

/* What is listed can be given back as settings, and gives the same. */
static void listed_values_read_back(void **state)
{
    (void)state;
    kiln_profile *profile = load_text(
        "schema: 1\n"
        "name: \"tab\\there, quote ' \\\" \\\\ é\"\n"
        "description: 'null'\n"
        "match: ['*', '- a', '#', ': ', 'a:', '{}', ' ', '~', 'é']\n"
        "operators: {kiln.gemm/1: {backends: [a], types: {f16: [], i8: [b]}}}\n"
        "options: {p: {k: '  ', l: yes, m: -1, n: .5, o: '-', p: '...', q: '1:2', r: '+-1'}}\n");
    kiln_setting settings[32];
    int64_t count = kiln_profile_setting_count(profile);
    assert_true(count <= (int64_t)COUNT(settings));
    for (int64_t i = 0; i < count; i++) {
        kiln_setting_info info = {.struct_size = sizeof info};
        kiln_profile_setting_at(profile, i, &info);
        settings[i] = (kiln_setting){info.path, info.value};
    }
    kiln_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = (uint64_t)count};
    kiln_profile *again = load(&options, &nowhere);
    assert_int_equal(kiln_profile_setting_count(again), count);
    for (int64_t i = 0; i < count; i++)
        assert_setting(again, settings[i].path, settings[i].value, "caller");
    assert_string_equal(kiln_profile_text(again, "name"), "tab\there, quote ' \" \\ é");
    assert_string_equal(kiln_profile_list_at(again, "match", 6), " ");
    kiln_profile_free(again);
    kiln_profile_free(profile);
}

/* ---- Precedence ---- */

static void precedence_of_layers(void **state)
{
    (void)state;
    write_file(
        etc, "kiln.yaml",
        "schema: 1\nthreads: {count: 1, spin_us: 1, affinity: true}\nplans: {cache_entries: 11}\n"
        "log: {level: error}\nplugins: [etc]\noptions: {p: {a: etc, b: etc}}\n"
        "operators: {x/1: [etc], y/1: [etc]}\n");
    write_file(
        home, ".config/kiln/kiln.yaml",
        "schema: 1\nthreads: {count: 2, spin_us: 2}\nplans: {cache_entries: 12}\nplugins: [home]\n"
        "options: {p: {b: home}}\noperators: {y/1: {deny: [home]}}\n");
    write_file(etc, "profiles/site.yaml",
               "schema: 1\nthreads:\n  count: 3\n  spin_us: 3\nplans: {cache_entries: 13}\n");
    char *environment[] = {"KILN_PROFILE=site", "KILN_THREADS_COUNT=4",
                           "KILN_PLANS_CACHE_ENTRIES=14", NULL};
    kiln_setting settings[] = {{"threads.count", "5"}};
    kiln_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = 1};
    kiln_profile_sources sources = all_sources(environment);
    kiln_profile *profile = load(&options, &sources);
    char origin[160];
    assert_setting(profile, "threads.count", "5", "caller");
    assert_setting(profile, "plans.cache_entries", "14", "KILN_PLANS_CACHE_ENTRIES");
    snprintf(origin, sizeof origin, "%s/profiles/site.yaml:4:12", etc);
    assert_setting(profile, "threads.spin_us", "3", origin);
    snprintf(origin, sizeof origin, "%s/.config/kiln/kiln.yaml:4:10", home);
    assert_setting(profile, "plugins", "[home]", origin); /* lists replace */
    snprintf(origin, sizeof origin, "%s/.config/kiln/kiln.yaml:5:18", home);
    assert_setting(profile, "options.p.b", "home", origin); /* options merge by key */
    snprintf(origin, sizeof origin, "%s/kiln.yaml:6:18", etc);
    assert_setting(profile, "options.p.a", "etc", origin);
    snprintf(origin, sizeof origin, "%s/kiln.yaml:7:18", etc);
    assert_setting(profile, "operators.x/1", "[etc]", origin); /* operators by operator */
    assert_int_equal(kiln_profile_backends(profile, "y/1", KILN_F32, NULL, 0), -1);
    snprintf(origin, sizeof origin, "%s/kiln.yaml:2:43", etc);
    assert_setting(profile, "threads.affinity", "true", origin);
    assert_setting(profile, "staging.policy", "deny", "built-in");
    kiln_profile_free(profile);

    /* A profile that the caller names or gives comes in place of KILN_PROFILE. */
    write_file(installed, "other.yaml", "schema: 1\nthreads: {spin_us: 33}\n");
    options.profile = "other";
    profile = load(&options, &sources);
    assert_int_equal(kiln_profile_integer(profile, "threads.spin_us"), 33);
    kiln_profile_free(profile);
    options.profile = NULL;
    options.profile_text = "schema: 1\nthreads: {spin_us: 333}\n";
    profile = load(&options, &sources);
    assert_int_equal(kiln_profile_integer(profile, "threads.spin_us"), 333);
    kiln_profile_free(profile);
    options.profile = "other";
    refuse(&options, &sources, KILN_INVALID,
           "both profile and profile_text are given; give one of them");

    /* Without home and environment, as for a setuid program. */
    sources.home = NULL;
    sources.environment = NULL;
    profile = load(NULL, &sources);
    assert_int_equal(kiln_profile_integer(profile, "threads.count"), 1);
    kiln_profile_free(profile);
}

static void isolation(void **state)
{
    (void)state;
    write_file(etc, "kiln.yaml", "schema: 1\nbroken");
    write_file(home, ".config/kiln/kiln.yaml", "schema: 1\nbroken");
    write_file(etc, "profiles/mine.yaml", "schema: 1\nname: etc\n");
    write_file(installed, "mine.yaml", "schema: 1\nname: installed\n");
    char *environment[] = {"KILN_THREADS_COUNT=broken", "KILN_PROFILE=mine",
                           "KILN_PROFILE_PATH=/nowhere", NULL};
    kiln_profile_sources sources = all_sources(environment);
    kiln_setting settings[] = {{"threads.count", "5"}};
    kiln_runtime_options options = {.struct_size = sizeof options,
                                    .flags = KILN_RUNTIME_ISOLATED,
                                    .settings = settings,
                                    .setting_count = 1};
    kiln_profile *profile = load(&options, &sources);
    assert_int_equal(kiln_profile_integer(profile, "threads.count"), 5);
    assert_string_equal(kiln_profile_text(profile, "name"), "");
    kiln_profile_free(profile);

    options.profile = "mine"; /* what the caller names is read, from the installed folder */
    profile = load(&options, &sources);
    assert_string_equal(kiln_profile_text(profile, "name"), "installed");
    kiln_profile_free(profile);
    options.profile = NULL;
    options.profile_text = "schema: 1\nname: text\n";
    profile = load(&options, &sources);
    assert_string_equal(kiln_profile_text(profile, "name"), "text");
    kiln_profile_free(profile);
}

static void real_sources(void **state)
{
    (void)state;
    setenv("KILN_THREADS_SPIN_US", "77", 1);
    setenv("KILN_PROFILE_PATH", world, 1); /* empty: nothing is chosen by the machine */
    setenv("HOME", home, 1);
    write_file(home, ".config/kiln/kiln.yaml", "schema: 1\ndescription: from home\n");
    kiln_runtime_options options = {.struct_size = sizeof options};
    kiln_profile *profile = NULL;
    assert_int_equal(kiln_profile_load(&options, &profile), KILN_OK);
    assert_setting(profile, "threads.spin_us", "77", "KILN_THREADS_SPIN_US");
    assert_string_equal(kiln_profile_text(profile, "description"), "from home");
    kiln_profile_free(profile);
    options.flags = KILN_RUNTIME_ISOLATED;
    assert_int_equal(kiln_profile_load(&options, &profile), KILN_OK);
    assert_setting(profile, "threads.spin_us", "50", "built-in");
    assert_string_equal(kiln_profile_text(profile, "description"), "");
    kiln_profile_free(profile);
    unsetenv("KILN_THREADS_SPIN_US");
    unsetenv("KILN_PROFILE_PATH");
}

/* ---- Errors ---- */

static void located_errors(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"name: x", "profile_text:1:1: the key 'schema' is missing; begin with 'schema: 1'"},
        {"schema: 2", "profile_text:1:9: schema: expected an integer from 1 to 1, found '2'"},
        {"[a]", "profile_text:1:1: profile: expected a mapping such as {key: value}, found a list"},
        {"", "profile_text:1:1: there is nothing in it; write one document"},
        {"schema: 1\nthraeds: {}",
         "profile_text:2:1: unknown key 'thraeds' (did you mean 'threads'?)"},
        {"schema: 1\nthreads:\n  cuont: 1",
         "profile_text:3:3: unknown key 'cuont' (did you mean 'count'?)"},
        {"schema: 1\nthreads: {xyzzy: 1}",
         "profile_text:2:11: unknown key 'xyzzy'; known: count, spin_us, affinity"},
        {"schema: 1\nthreads.count: 1",
         "profile_text:2:1: unknown key 'threads.count'; known: schema, name, description, match, "
         "plugins, plugin_path, "
         "operators, devices, options, staging, threads, plans, tuning, record, log, collective"},
        {"schema: 1\nthreads: 4",
         "profile_text:2:10: threads: expected a mapping such as {key: value}, found '4'"},
        {"schema: 1\nthreads:",
         "profile_text:2:9: threads: expected a mapping such as {key: value}, found nothing"},
        {"schema: 1\nthreads: {count: four}",
         "profile_text:2:18: threads.count: expected an integer from 0 to 4096, found 'four'"},
        {"schema: 1\nthreads: {count: 4097}",
         "profile_text:2:18: threads.count: expected an integer from 0 to 4096, found '4097'"},
        {"schema: 1\nthreads: {count: '4'}",
         "profile_text:2:18: threads.count: expected an integer from 0 to 4096, "
         "found '4', which is text for its quotes"},
        {"schema: 1\nthreads: {affinity: yes}",
         "profile_text:2:21: threads.affinity: expected true or false (yes, no, "
         "on, off, 1, 0 are not taken), found 'yes'"},
        {"schema: 1\nstaging: {pool_bytes: 1KB}",
         "profile_text:2:23: staging.pool_bytes: expected an integer from 1048576 to 1099511627776 "
         "(KiB, MiB or GiB may "
         "follow), found '1KB'"},
        {"schema: 1\nstaging: {policy: maybe}",
         "profile_text:2:19: staging.policy: expected one of deny, allow, found 'maybe'"},
        {"schema: 1\ntuning: {file: [a]}",
         "profile_text:2:16: tuning.file: expected text, found a list"},
        {"schema: 1\ndevices: {default: npu}", "profile_text:2:20: devices.default: expected host "
                                               "or PLUGIN:INDEX such as acme:0, found 'npu'"},
        {"schema: 1\ndevices: {default: npu:x}",
         "profile_text:2:20: devices.default: expected host or PLUGIN:INDEX such as acme:0, found "
         "'npu:x'"},
        {"schema: 1\nplugins: ref",
         "profile_text:2:10: plugins: expected a list such as [a, b], found 'ref'"},
        {"schema: 1\nplugins: [Ref]",
         "profile_text:2:11: plugins: 'Ref' is not a plugin's name or '*'"},
        {"schema: 1\nplugins: [ref, ref]", "profile_text:2:16: plugins: 'ref' is listed twice"},
        {"schema: 1\nplugins: [ref, [a]]",
         "profile_text:2:16: plugins: expected text, found a list"},
        {"schema: 1\nmatch: ['']", "profile_text:2:9: match: '' is not allowed: it is empty"},
        {"schema: 1\ncollective: {transport: ['*']}",
         "profile_text:2:26: collective.transport: '*' is not a plugin's name"},
        {"schema: 1\ncollective: {algorithm: ring}",
         "profile_text:2:14: unknown key 'algorithm'; known: transport"},
        {"schema: 1\noperators: {gemm: [ref]}",
         "profile_text:2:19: operators: 'gemm' is not an operator's name; write NAME/VERSION, such "
         "as kiln.gemm/1, or "
         "default"},
        {"schema: 1\noperators: {kiln.gemm/0: [ref]}",
         "profile_text:2:26: operators: 'kiln.gemm/0' is not an operator's name; write "
         "NAME/VERSION, such as "
         "kiln.gemm/1, or default"},
        {"schema: 1\noperators: {kiln.gemm/1: ref}",
         "profile_text:2:26: operators.kiln.gemm/1: expected a list of plugins such as [a, b], or "
         "a mapping of backends, "
         "deny and types"},
        {"schema: 1\noperators: {kiln.gemm/1: {backend: [ref]}}",
         "profile_text:2:27: unknown key 'backend' (did you mean 'backends'?)"},
        {"schema: 1\noperators: {kiln.gemm/1: {types: {fp16: [ref]}}}",
         "profile_text:2:35: unknown key 'fp16' (did you mean 'f16'?)"},
        {"schema: 1\noperators: {kiln.gemm/1: {types: {f16: ref}}}",
         "profile_text:2:40: operators.kiln.gemm/1.types: expected a list such as [a, b], found "
         "'ref'"},
        {"schema: 1\noperators: {default: {deny: [a, B]}}",
         "profile_text:2:33: operators.default.deny: 'B' is not a plugin's name"},
        {"schema: 1\noptions: {npu: 4}",
         "profile_text:2:16: options.npu: expected a mapping such as {key: value}, found '4'"},
        {"schema: 1\noptions: {npu: {cores: [1]}}",
         "profile_text:2:24: options.npu.cores: expected text, found a list"},
        {"schema: 1\noptions: {NPU: {cores: 1}}",
         "profile_text:2:24: options.NPU.cores: 'NPU' is not a plugin's name"},
        {"schema: 1\nname: a\nname: b", "profile_text:3:1: duplicate key 'name', first on line 2"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        refuse_text(cases[i][0], cases[i][1]);
}

static void limits(void **state)
{
    (void)state;
    char *text = malloc(1 << 16);
    assert_non_null(text);
    size_t size = (size_t)sprintf(text, "schema: 1\nplugins: [a0");
    for (int i = 1; i < 64; i++)
        size += (size_t)sprintf(text + size, ", a%d", i);
    strcpy(text + size, "]");
    kiln_profile_free(load_text(text));
    strcpy(text + size, ", z]");
    refuse_text(text, "profile_text:2:10: plugins: more than 64 entries");

    size = (size_t)sprintf(text, "schema: 1\noptions:\n  p:\n");
    kiln_profile *profile = load(NULL, &nowhere);
    int64_t built_in = kiln_profile_setting_count(profile);
    kiln_profile_free(profile);
    for (int64_t i = built_in; i < KILN_PROFILE_MAX_VALUES; i++)
        size += (size_t)sprintf(text + size, "    k%d: 1\n", (int)i);
    kiln_profile_free(load_text(text));
    strcpy(text + size, "    k: 1\n");
    char sentence[128];
    snprintf(sentence, sizeof sentence, "profile_text:%d:8: more than %d values in all",
             (int)(KILN_PROFILE_MAX_VALUES - built_in + 4), KILN_PROFILE_MAX_VALUES);
    refuse_text(text, sentence);
    free(text);

    char deep[64] = "schema: 1\nmatch: ";
    memset(deep + 17, '[', 16);
    refuse_text(deep, "profile_text:2:23: nested deeper than 16 levels");
}

static void wrong_settings(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"threads.cuont", "1",
         "setting threads.cuont:1:1: unknown key 'threads.cuont' (did you mean 'threads.count'?)"},
        {"threads.count", "many",
         "setting threads.count:1:1: threads.count: expected an integer from 0 to 4096, found "
         "'many'"},
        {"plugins", "[a, b",
         "setting plugins:2:1: did not find expected ',' or ']' while parsing a flow sequence that "
         "begins on line 1"},
        {"threads", "{cuont: 1}",
         "setting threads:1:2: unknown key 'cuont' (did you mean 'count'?)"},
        {"operators.gemm", "[a]",
         "setting operators.gemm:1:1: operators: 'gemm' is not an operator's name; write "
         "NAME/VERSION, such as "
         "kiln.gemm/1, or default"},
        {"threads.count.", "1",
         "setting threads.count.:1:1: unknown key 'threads.count.' (did you mean "
         "'threads.count'?)"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        kiln_setting setting = {cases[i][0], cases[i][1]};
        kiln_runtime_options options = {
            .struct_size = sizeof options, .settings = &setting, .setting_count = 1};
        refuse(&options, &nowhere, KILN_PARSE, cases[i][2]);
    }
    kiln_setting setting = {"threads.count", NULL};
    kiln_runtime_options options = {
        .struct_size = sizeof options, .settings = &setting, .setting_count = 1};
    refuse(&options, &nowhere, KILN_INVALID, "setting 0 has no path or no value");
}

static void structured_settings(void **state)
{
    (void)state;
    kiln_setting settings[] = {{"operators.kiln.gemm/1", "[npu, ref]"},
                               {"threads", "{count: 2, affinity: true}"},
                               {"options.comm-fabric.provider", "tcp"},
                               {"plugins", "[npu, '*']"}};
    kiln_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = COUNT(settings)};
    kiln_profile *profile = load(&options, &nowhere);
    const char *names[4];
    assert_int_equal(kiln_profile_backends(profile, "kiln.gemm/1", KILN_F32, names, 4), 2);
    assert_string_equal(names[1], "ref");
    assert_int_equal(kiln_profile_integer(profile, "threads.count"), 2);
    assert_true(kiln_profile_boolean(profile, "threads.affinity"));
    assert_setting(profile, "options.comm-fabric.provider", "tcp", "caller");
    assert_string_equal(kiln_profile_list_at(profile, "plugins", 0), "npu");
    kiln_profile_free(profile);
}

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
                           "KILN_PLUGIN_PATH=/one::/it's two",
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

/* ---- Operators ---- */

static void assert_backends(const kiln_profile *profile, const char *operator_name, uint32_t type,
                            const char *expected)
{
    const char *names[8];
    char list[128] = "";
    int64_t count = kiln_profile_backends(profile, operator_name, type, names, 8);
    for (int64_t i = 0; i < count; i++)
        sprintf(list + strlen(list), "%s%s", i ? " " : "", names[i]);
    assert_string_equal(count < 0 ? "(plugins)" : list, expected);
}

static void backends_of_operators(void **state)
{
    (void)state;
    kiln_profile *profile = load_text("schema: 1\n"
                                      "operators:\n"
                                      "  kiln.gemm/1: [npu, ref]\n"
                                      "  kiln.topk/1:\n"
                                      "    backends: [cpu, npu, ref]\n"
                                      "    deny: [npu]\n"
                                      "    types: {f16: [npu, ref], i8: []}\n"
                                      "  kiln.tile/1: {deny: []}\n"
                                      "  kiln.filter/1: {types: {f32: [cpu]}}\n"
                                      "  default:\n"
                                      "    backends: [ref, old, cpu]\n"
                                      "    deny: [old, ref]\n"
                                      "    types: {bf16: [npu]}\n");
    assert_backends(profile, "kiln.gemm/1", KILN_BF16, "npu");    /* ref by the general denial */
    assert_backends(profile, "kiln.topk/1", KILN_F32, "cpu ref"); /* its own denial replaces that */
    assert_backends(profile, "kiln.topk/1", KILN_F16, "ref");
    assert_backends(profile, "kiln.topk/1", KILN_I8, "");
    assert_backends(profile, "kiln.tile/1", KILN_F32, "ref old cpu");
    assert_backends(profile, "kiln.tile/1", KILN_BF16, "npu");
    assert_backends(profile, "kiln.filter/1", KILN_F32, "cpu");
    assert_backends(profile, "kiln.filter/1", KILN_F64,
                    "cpu"); /* default's order, less the denied */
    assert_backends(profile, "acme.sort/1", KILN_TYPE_NONE, "cpu");
    assert_backends(profile, "acme.sort/1", KILN_BF16, "npu");
    const char *names[1] = {NULL};
    assert_int_equal(kiln_profile_backends(profile, "kiln.tile/1", KILN_F32, names, 1), 3);
    assert_string_equal(names[0], "ref");
    assert_true(kiln_profile_denied(profile, "kiln.topk/1", "npu"));
    assert_false(kiln_profile_denied(profile, "kiln.topk/1", "old"));
    assert_true(kiln_profile_denied(profile, "kiln.gemm/1", "old"));
    assert_true(kiln_profile_denied(profile, "acme.sort/1", "old"));
    assert_false(kiln_profile_denied(profile, "kiln.tile/1", "old"));
    kiln_profile_free(profile);

    profile = load_text("schema: 1\noperators: {default: {deny: [x]}}");
    assert_backends(profile, "kiln.gemm/1", KILN_F32, "(plugins)");
    assert_true(kiln_profile_denied(profile, "kiln.gemm/1", "x"));
    assert_false(kiln_profile_denied(profile, "kiln.gemm/1", "y"));
    kiln_profile_free(profile);
    profile = load_text("schema: 1");
    assert_backends(profile, "kiln.gemm/1", KILN_F32, "(plugins)");
    assert_false(kiln_profile_denied(profile, "kiln.gemm/1", "x"));
    kiln_profile_free(profile);
}

/* ---- Options of plugins ---- */

static const kiln_option acme_options[] = {
    {"cores", "1", "how many cores", NULL, 1, 64, KILN_OPTION_INTEGER, 0},
    {"ub_bytes", "256KiB", "size of the buffer", NULL, 1024, 1 << 20, KILN_OPTION_INTEGER, 0},
    {"any", "-5", "no limit", NULL, 0, 0, KILN_OPTION_INTEGER, 0},
    {"ratio", "0.5", "a ratio", NULL, 0, 1, KILN_OPTION_NUMBER, 0},
    {"fast", "false", "whether to be fast", NULL, 0, 0, KILN_OPTION_BOOLEAN, 0},
    {"label", NULL, "a name", NULL, 0, 0, KILN_OPTION_STRING, 0},
    {"order", "program", "the order", "program|reversed|round-robin", 0, 0, KILN_OPTION_CHOICE, 0},
};
static const kiln_plugin acme = {.struct_size = sizeof acme,
                                 .name = "acme",
                                 .options = acme_options,
                                 .option_count = COUNT(acme_options)};

static void default_options(void **state)
{
    (void)state;
    kiln_profile *profile = load_text("schema: 1\noptions: {other: {cores: 9}}");
    kiln_option_value values[COUNT(acme_options)];
    int64_t before = kiln_profile_setting_count(profile);
    assert_int_equal(kiln_profile_plugin_options(profile, &acme, values), KILN_OK);
    assert_int_equal(values[0].integer, 1);
    assert_int_equal(values[1].integer, 256 << 10);
    assert_string_equal(values[1].text, "256KiB");
    assert_int_equal(values[2].integer, -5);
    assert_true(values[3].number == 0.5);
    assert_int_equal(values[4].integer, 0);
    assert_string_equal(values[5].text, "");
    assert_int_equal(values[6].integer, 0);
    assert_string_equal(values[6].text, "program");
    assert_int_equal(kiln_profile_setting_count(profile), before + (int64_t)COUNT(acme_options));
    assert_setting(profile, "options.acme.ub_bytes", "256KiB", "built-in");
    assert_int_equal(kiln_profile_plugin_options(profile, &acme, values), KILN_OK);
    assert_int_equal(kiln_profile_setting_count(profile), before + (int64_t)COUNT(acme_options));
    kiln_profile_free(profile);
}

static void given_options(void **state)
{
    (void)state;
    kiln_profile *profile = load_text(
        "schema: 1\n"
        "options:\n"
        "  acme: {cores: 64, ub_bytes: 1MiB, any: 9223372036854775807, ratio: 1, fast: true,\n"
        "         label: 'two words', order: round-robin}\n");
    kiln_option_value values[COUNT(acme_options)];
    assert_int_equal(kiln_profile_plugin_options(profile, &acme, values), KILN_OK);
    assert_int_equal(values[0].integer, 64);
    assert_int_equal(values[1].integer, 1 << 20);
    assert_true(values[2].integer == INT64_MAX);
    assert_true(values[3].number == 1);
    assert_int_equal(values[4].integer, 1);
    assert_string_equal(values[5].text, "two words");
    assert_int_equal(values[6].integer, 2);
    for (int64_t i = 0; i < kiln_profile_setting_count(profile); i++) {
        kiln_setting_info info = {.struct_size = sizeof info};
        kiln_profile_setting_at(profile, i, &info);
        if (strcmp(info.path, "options.acme.cores") == 0)
            assert_string_equal(info.help, "how many cores");
    }
    kiln_profile_free(profile);
}

static void wrong_options(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{corse: 1}",
         "profile_text:2:18: unknown option of plugin acme 'corse' (did you mean 'cores'?)"},
        {"{xyzzy: 1}", "profile_text:2:18: unknown option of plugin acme 'xyzzy'; known: cores, "
                       "ub_bytes, any, ratio, fast, "
                       "label, order"},
        {"{cores: 65}", "profile_text:2:25: options.acme.cores: expected an integer from 1 to 64 "
                        "(KiB, MiB or GiB may "
                        "follow), found '65'"},
        {"{any: x}", "profile_text:2:23: options.acme.any: expected an integer (KiB, MiB or GiB "
                     "may follow), found 'x'"},
        {"{ratio: 1.5}",
         "profile_text:2:25: options.acme.ratio: expected a number from 0 to 1, found '1.5'"},
        {"{fast: on}", "profile_text:2:24: options.acme.fast: expected true or false (yes, no, on, "
                       "off, 1, 0 are not "
                       "taken), found 'on'"},
        {"{order: random}", "profile_text:2:25: options.acme.order: expected one of program, "
                            "reversed, round-robin, found 'random'"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[256];
        kiln_option_value values[COUNT(acme_options)];
        snprintf(text, sizeof text, "schema: 1\noptions: {acme: %s}", cases[i][0]);
        kiln_profile *profile = load_text(text);
        assert_int_equal(kiln_profile_plugin_options(profile, &acme, values), KILN_PARSE);
        assert_string_equal(kiln_last_error(), cases[i][1]);
        kiln_profile_free(profile);
    }
}

static void wrong_declarations(void **state)
{
    (void)state;
    static const struct {
        kiln_option option;
        const char *sentence;
    } cases[] = {
        {{NULL, "1", "", NULL, 0, 0, KILN_OPTION_INTEGER, 0},
         "plugin bad declares option 0 ('') wrongly: its key is missing, longer than 63 bytes, or "
         "has '.', ':' or space in it"},
        {{"a.b", "1", "", NULL, 0, 0, KILN_OPTION_INTEGER, 0},
         "plugin bad declares option 0 ('a.b') wrongly: its key is missing, longer than 63 bytes, "
         "or has '.', ':' or space in "
         "it"},
        {{"a", "1", "", NULL, 0, 0, 99, 0},
         "plugin bad declares option 0 ('a') wrongly: its type is unknown"},
        {{"a", "1", "", NULL, 0, 0, KILN_OPTION_CHOICE, 0},
         "plugin bad declares option 0 ('a') wrongly: it is a choice without choices"},
        {{"a", "7", "", NULL, 1, 2, KILN_OPTION_INTEGER, 0},
         "plugin bad: default of options.bad.a:1:1: options.bad.a: expected an integer from 1 to 2 "
         "(KiB, MiB or GiB may "
         "follow), found '7'"},
        {{"a", "[", "", NULL, 0, 0, KILN_OPTION_STRING, 0},
         "plugin bad: default of options.bad.a:2:1: did not find expected node content while "
         "parsing a flow node"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        kiln_plugin bad = {.struct_size = sizeof bad,
                           .name = "bad",
                           .options = &cases[i].option,
                           .option_count = 1};
        kiln_option_value value;
        kiln_profile *profile = load_text("schema: 1");
        assert_int_equal(kiln_profile_plugin_options(profile, &bad, &value), KILN_PLUGIN);
        assert_string_equal(kiln_last_error(), cases[i].sentence);
        kiln_profile_free(profile);
    }
    kiln_plugin absent = {.struct_size = sizeof absent, .name = "bad", .option_count = 3};
    kiln_profile *empty = load_text("schema: 1");
    assert_int_equal(kiln_profile_plugin_options(empty, &absent, NULL), KILN_PLUGIN);
    assert_string_equal(kiln_last_error(), "plugin bad declares 3 options but no array of them");
    absent.options = acme_options;
    absent.option_count = 1000;
    assert_int_equal(kiln_profile_plugin_options(empty, &absent, NULL), KILN_PLUGIN);
    assert_string_equal(kiln_last_error(),
                        "plugin bad declares 1000 options; at most 256 are allowed");
    kiln_profile_free(empty);
    kiln_plugin none = {.struct_size = sizeof none, .name = "none"};
    kiln_profile *profile = load_text("schema: 1\noptions: {none: {a: 1}}");
    assert_int_equal(kiln_profile_plugin_options(profile, &none, NULL), KILN_PARSE);
    assert_string_equal(kiln_last_error(),
                        "profile_text:2:18: unknown option of plugin none 'a'; known: none");
    kiln_profile_free(profile);
}

/* ---- What is made from the table ---- */

static void schema_and_reference(void **state)
{
    (void)state;
    const char *schema = kiln_profile_schema(), *reference = kiln_profile_reference();
    assert_non_null(schema);
    assert_non_null(reference);
    assert_ptr_equal(schema, kiln_profile_schema());
    kiln_yaml *tree = NULL; /* JSON is YAML */
    kiln_yaml_error error;
    if (kiln_yaml_parse("schema", schema, strlen(schema), &tree, &error) != KILN_YAML_OK)
        fail_msg("%s", error.text);
    for (size_t i = 0; i < kiln_key_count; i++) {
        const kiln_yaml_node *node = kiln_yaml_root(tree);
        char path[64], *rest = path, *part, cell[96];
        snprintf(path, sizeof path, "%s", kiln_keys[i].path);
        while ((part = strsep(&rest, "."))) {
            node = kiln_yaml_get(node, "properties");
            node = node ? kiln_yaml_get(node, part) : NULL;
            if (!node)
                fail_msg("%s is not in the schema", kiln_keys[i].path);
        }
        assert_string_equal(kiln_yaml_get(node, "description")->text, kiln_keys[i].help);
        if (kiln_keys[i].type == KILN_KEY_INTEGER) {
            int64_t maximum;
            assert_true(kiln_yaml_integer(kiln_yaml_get(node, "maximum"), "maximum", 0, INT64_MAX,
                                          false, &maximum, &error));
            assert_int_equal(maximum, kiln_keys[i].maximum);
        }
        snprintf(cell, sizeof cell, "| `%s", kiln_keys[i].path);
        assert_non_null(strstr(reference, cell));
        assert_non_null(strstr(reference, kiln_keys[i].help));
    }
    kiln_yaml_free(tree);
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
    assert_int_equal(kiln_profile_list_count(profile, "match"), 3);
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
        cmocka_unit_test(built_in_values),
        cmocka_unit_test(every_key),
        cmocka_unit_test(listed_values_read_back),
        cmocka_unit_test_setup_teardown(precedence_of_layers, make_world, remove_world),
        cmocka_unit_test_setup_teardown(isolation, make_world, remove_world),
        cmocka_unit_test_setup_teardown(real_sources, make_world, remove_world),
        cmocka_unit_test(located_errors),
        cmocka_unit_test(limits),
        cmocka_unit_test(wrong_settings),
        cmocka_unit_test(structured_settings),
        cmocka_unit_test(environment_variables),
        cmocka_unit_test(wrong_variables),
        cmocka_unit_test_setup_teardown(profiles_by_name, make_world, remove_world),
        cmocka_unit_test_setup_teardown(profiles_by_machine, make_world, remove_world),
        cmocka_unit_test(backends_of_operators),
        cmocka_unit_test(default_options),
        cmocka_unit_test(given_options),
        cmocka_unit_test(wrong_options),
        cmocka_unit_test(wrong_declarations),
        cmocka_unit_test(schema_and_reference),
        cmocka_unit_test(shipped_profiles),
    };
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
