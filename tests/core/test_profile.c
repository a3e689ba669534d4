/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: values, precedence of layers, places of errors. Not tested: that a setuid program's
 * environment and home are ignored, since a test cannot be one; that they can be left out is. */
#include "tests/core/profile_world.h"

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
    assert_int_equal(kiln_profile_setting_at(profile, -1, &info), KILN_NOT_FOUND);
    assert_int_equal(kiln_profile_setting_at(profile, 1000, &info), KILN_NOT_FOUND);
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
        "match: ['*', '- a', '#', ': ', 'a:', '{}', ' ', '~', 'é', \"\\x80 \\N \\L \\P \\uffff\",\n"
        "  \"\\x7f\\ufeff\"]\n"
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
    /* Characters that YAML refuses, or takes for the end of a line, unless they are escaped. */
    assert_string_equal(kiln_profile_list_at(again, "match", 9),
                        "\xc2\x80 \xc2\x85 \xe2\x80\xa8 \xe2\x80\xa9 \xef\xbf\xbf");
    assert_string_equal(kiln_profile_list_at(again, "match", 10), "\x7f\xef\xbb\xbf");
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
        cmocka_unit_test(schema_and_reference),
    };
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
