/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and opening plugins: what is wrong with a file or its folder, where plugins are searched,
 * and plugins that break the contract. Those that need no file of their own are registered. */
#include "tests/core/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static kiln_plugin_info info_at(kiln_runtime *runtime, int64_t index)
{
    kiln_plugin_info info = {.struct_size = sizeof info};
    assert_ok(kiln_plugin_at(runtime, index, &info));
    return info;
}

/* The `nth` plugin of a name; fails when there are not so many. */
static kiln_plugin_info find_plugin(kiln_runtime *runtime, const char *name, int64_t nth)
{
    for (int64_t i = 0; i < kiln_plugin_count(runtime); i++) {
        kiln_plugin_info info = info_at(runtime, i);
        if (strcmp(info.name, name) == 0 && nth-- == 0)
            return info;
    }
    fail_msg("there is no plugin %s", name);
    return (kiln_plugin_info){0};
}

static int64_t count_plugins(kiln_runtime *runtime, const char *name)
{
    int64_t count = 0;
    for (int64_t i = 0; i < kiln_plugin_count(runtime); i++)
        count += strcmp(info_at(runtime, i).name, name) == 0;
    return count;
}

/* The state and the reason of a plugin that the profile asks for by name, from a folder. */
static void assert_state(const char *folder, const char *name, const char *state, const char *words)
{
    char profile[5000];
    snprintf(profile, sizeof profile, "plugins: [%s]\nplugin_path: ['%s']", name, folder);
    kiln_runtime *runtime = fixture_open(profile);
    kiln_plugin_info info = find_plugin(runtime, name, 0);
    assert_string_equal(info.state, state);
    assert_says(info.reason, words);
    if (strcmp(state, "failed") == 0)
        assert_says(fixture_log(), words);
    kiln_runtime_close(runtime);
    fixture_clear_log();
}

static void copy_file(const char *from, const char *to, mode_t mode)
{
    char buffer[65536];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t size; (size = read(in, buffer, sizeof buffer)) > 0;)
        assert_int_equal(write(out, buffer, (size_t)size), size);
    close(in);
    close(out);
    assert_int_equal(chmod(to, mode), 0);
}

/* Copies the plugin "plain" into a folder. */
static void copy_plain(const char *folder, const char *name, mode_t mode)
{
    char from[5000], to[5000];
    snprintf(from, sizeof from, "%s/plain.so", fixture_plugin_folder());
    snprintf(to, sizeof to, "%s/%s.so", folder, name);
    copy_file(from, to, mode);
}

/* ---- Files ---- */

static void test_files_that_are_no_plugins(void **state)
{
    (void)state;
    const char *built = fixture_plugin_folder(), *folder = fixture_folder();
    assert_state(built, "plain", "open", "");
    assert_state(built, "major", "failed", "does not export kiln_plugin_v1");
    assert_state(built, "blank", "failed", "does not export kiln_plugin_v1");
    assert_state(built, "undefined", "failed",
                 "undefined symbol: acme_function_that_nobody_defines");
    char path[5000];
    static const char *const contents[] = {"", "this is no shared object", "\177ELF"};
    for (int64_t i = 0; i < COUNT(contents); i++) {
        snprintf(path, sizeof path, "%s/text%lld.so", folder, (long long)i);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(contents[i], file);
        fclose(file);
        char name[32];
        snprintf(name, sizeof name, "text%lld", (long long)i);
        assert_state(folder, name, "failed", "cannot be loaded");
    }
    snprintf(path, sizeof path, "%s/folder.so", folder);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_state(folder, "folder", "failed", "not a regular file");
    snprintf(path, sizeof path, "%s/dangling.so", folder);
    assert_int_equal(symlink("/nonexistent/plugin", path), 0);
    assert_state(folder, "dangling", "failed", "No such file or directory");
    copy_plain(folder, "renamed", 0755);
    assert_state(folder, "renamed", "failed", "calls itself 'plain'");
    /* Names that no profile could say are passed over. */
    static const char *const odd[] = {"Upper", "-dash", "1st", "under_score", "a.b"};
    for (int64_t i = 0; i < COUNT(odd); i++)
        copy_plain(folder, odd[i], 0755);
    copy_plain(folder, "a-name-that-is-longer-than-thirty-one-bytes", 0755);
    snprintf(path, sizeof path, "plugin_path: ['%s']", folder);
    kiln_runtime *runtime = fixture_open(path);
    assert_int_equal(kiln_plugin_count(runtime), COUNT(contents) + 3);
    kiln_runtime_close(runtime);
}

static void test_unsafe_files_and_folders(void **state)
{
    (void)state;
    const char *folder = fixture_folder(), *open_to_all = fixture_folder();
    char path[5000];
    copy_plain(folder, "plain", 0757);
    assert_state(folder, "plain", "failed", "may be written by everybody");
    snprintf(path, sizeof path, "%s/plain.so", folder);
    chmod(path, 0775);
    snprintf(path, sizeof path, "plugins: [plain]\nplugin_path: ['%s']", folder);
    kiln_runtime *runtime = fixture_open(path);
    assert_string_equal(find_plugin(runtime, "plain", 0).state, "open");
    assert_says(fixture_log(), "may be written by its group");
    kiln_runtime_close(runtime);
    fixture_clear_log();

    copy_plain(open_to_all, "plain", 0755);
    chmod(open_to_all, 0777);
    snprintf(path, sizeof path, "plugins: [plain]\nplugin_path: ['%s', '%s']", open_to_all, folder);
    runtime = fixture_open(path);
    assert_says(fixture_log(), "may be written by everybody");
    kiln_plugin_info info = find_plugin(runtime, "plain", 0); /* the one from the safe folder */
    assert_string_equal(info.state, "open");
    assert_says(info.path, folder);
    assert_int_equal(count_plugins(runtime, "plain"), 1);
    kiln_runtime_close(runtime);
    fixture_clear_log();

    if (geteuid() != 0) {
        print_message("not root: a plugin of another user is not tried\n");
        return;
    }
    snprintf(path, sizeof path, "%s/plain.so", folder);
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_state(folder, "plain", "failed", "belongs to another user");
}

/* ---- The search ---- */

static void test_first_of_a_name_wins(void **state)
{
    (void)state;
    const char *first = fixture_folder(), *second = fixture_folder();
    char profile[5000];
    copy_plain(first, "plain", 0755);
    copy_plain(second, "plain", 0755);
    snprintf(profile, sizeof profile,
             "plugins: ['*']\nplugin_path: ['%s', '%s', '/nonexistent/folder', '%s/']", first,
             second, first);
    kiln_runtime *runtime = fixture_open(profile);
    kiln_plugin_info taken = find_plugin(runtime, "plain", 0),
                     other = find_plugin(runtime, "plain", 1);
    assert_string_equal(taken.state, "open");
    assert_says(taken.path, first);
    assert_string_equal(taken.operators, "acme.nothing/1");
    assert_string_equal(taken.version, "1.0");
    assert_string_equal(other.state, "shadowed");
    assert_says(other.path, second);
    assert_says(other.reason, first);
    assert_int_equal(count_plugins(runtime, "plain"),
                     2); /* a folder that is named twice is searched once */
    kiln_runtime_close(runtime);
}

static void test_environment_comes_first(void **state)
{
    (void)state;
    const char *from_variable = fixture_folder(), *from_profile = fixture_folder();
    char text[5000], before[5000];
    copy_plain(from_variable, "plain", 0755);
    copy_plain(from_profile, "plain", 0755);
    const char *old = getenv("KILN_PLUGIN_PATH");
    snprintf(before, sizeof before, "%s", old ? old : "");
    snprintf(text, sizeof text, "%s::/nonexistent/folder:%s", from_variable, from_variable);
    setenv("KILN_PLUGIN_PATH", text, 1);
    snprintf(text, sizeof text, "plugins: [plain]\nplugin_path: ['%s', '%s']", from_profile,
             from_variable);
    kiln_runtime *runtime = NULL;
    assert_ok(fixture_try_open(text, 0, &runtime));
    assert_says(find_plugin(runtime, "plain", 0).path, from_variable);
    assert_string_equal(find_plugin(runtime, "plain", 0).state, "open");
    assert_says(find_plugin(runtime, "plain", 1).path, from_profile);
    assert_int_equal(count_plugins(runtime, "plain"), 2);
    kiln_runtime_close(runtime);
    runtime = fixture_open(text); /* isolated: the variable is not read */
    assert_says(find_plugin(runtime, "plain", 0).path, from_profile);
    kiln_runtime_close(runtime);
    if (old)
        setenv("KILN_PLUGIN_PATH", before, 1);
    else
        unsetenv("KILN_PLUGIN_PATH");
}

static void test_what_the_profile_leaves_out(void **state)
{
    (void)state;
    char profile[5000];
    snprintf(profile, sizeof profile,
             "plugins: [larger, missing]\nplugin_path: ['%s']\nlog: {level: info}",
             fixture_plugin_folder());
    kiln_runtime *runtime = fixture_open(profile);
    assert_string_equal(find_plugin(runtime, "larger", 0).state, "open");
    assert_string_equal(find_plugin(runtime, "crashing", 0).state,
                        "not in profile"); /* and is not touched */
    assert_says(find_plugin(runtime, "crashing", 0).reason, "plugins:");
    assert_says(fixture_log(), "names plugin missing, which was not found");
    assert_string_equal(find_plugin(runtime, "missing", 0).state, "not found");
    assert_says(find_plugin(runtime, "missing", 0).reason, "no missing.so is in");
    kiln_plugin_info info = {.struct_size = sizeof info};
    assert_fails(kiln_plugin_at(runtime, kiln_plugin_count(runtime), &info), KILN_NOT_FOUND,
                 "there is no plugin");
    assert_fails(kiln_plugin_at(runtime, -1, &info), KILN_NOT_FOUND, "there is no plugin -1");
    info.struct_size = 7;
    assert_fails(kiln_plugin_at(runtime, 0, &info), KILN_INVALID, "struct_size is 7");
    kiln_runtime_close(runtime);
    fixture_clear_log();
}

/* ---- Versions ---- */

static void test_plugin_of_a_later_minor(void **state)
{
    (void)state;
    char profile[5000];
    snprintf(profile, sizeof profile, "plugins: [larger]\nplugin_path: ['%s']",
             fixture_plugin_folder());
    kiln_runtime *runtime = fixture_open(profile);
    assert_int_equal(find_plugin(runtime, "larger", 0).abi_minor, KILN_PLUGIN_ABI_MINOR + 3);
    kiln_gemm_desc desc = {.head = {.struct_size = sizeof desc},
                           .m = 1,
                           .n = 1,
                           .k = 1,
                           .a_type = KILN_F32,
                           .b_type = KILN_F32,
                           .d_type = KILN_F32};
    kiln_plan *plan;
    assert_ok(kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan));
    kiln_plan_release(plan);
    /* It does not know epilogues: a plain GEMM in their place would be wrong. */
    desc.epilogue_count = 1;
    desc.epilogues[0].kind = KILN_EPILOGUE_RELU;
    assert_fails(kiln_plan_create(runtime, KILN_GEMM, &desc.head, NULL, &plan), KILN_UNSUPPORTED,
                 "beyond");
    kiln_runtime_close(runtime);
}

/* ---- A crash ---- */

static int crash_pipe[2];

static void tell_activity(int number)
{
    (void)number;
    const char *activity = kiln_activity();
    ssize_t ignored = write(crash_pipe[1], activity, strlen(activity));
    (void)ignored;
    _exit(77);
}

static int open_crashing(void *argument)
{
    kiln_runtime *runtime;
    struct sigaction action = {.sa_handler = tell_activity};
    sigaction(SIGSEGV, &action, NULL);
    fixture_try_open(argument, KILN_RUNTIME_ISOLATED, &runtime);
    return 1;
}

static void test_crash_in_probe_can_be_named(void **state)
{
    (void)state;
    fixture_needs_fork();
    char profile[5000], told[5000] = "";
    snprintf(profile, sizeof profile, "plugins: [crashing]\nplugin_path: ['%s']",
             fixture_plugin_folder());
    assert_int_equal(pipe(crash_pipe), 0);
    assert_int_equal(fixture_in_child(open_crashing, profile), 77);
    assert_true(read(crash_pipe[0], told, sizeof told - 1) > 0);
    close(crash_pipe[0]);
    close(crash_pipe[1]);
    assert_says(told, "probing plugin");
    assert_says(told, "crashing.so");
    assert_string_equal(kiln_activity(), "");
}

/* ---- Plugins that break the contract ---- */

static kiln_plugin odd; /* what the registered plugin "odd" offers; a test changes it */
static const kiln_plugin *offered;
static const char *const odd_interfaces[] = {"acme.nothing/1", KILN_DEVICE, NULL};
static int64_t odd_devices, odd_closes;
static kiln_status odd_status, odd_info_status;
static bool odd_says, odd_forks;
static kiln_device_table odd_table;
static const void *odd_table_offered;

static const kiln_plugin *odd_entry(int64_t host_abi_minor)
{
    assert_int_equal(host_abi_minor, KILN_PLUGIN_ABI_MINOR);
    return offered;
}

static int64_t odd_probe(void)
{
    return odd_devices;
}

static int nothing(void *argument)
{
    (void)argument;
    return 0;
}

static kiln_status odd_open(const kiln_host *host, const kiln_option_value *options,
                            void **instance)
{
    (void)options;
    *instance = &odd;
    if (odd_forks && fixture_in_child(nothing, NULL) != 0)
        return KILN_INTERNAL;
    return odd_status != KILN_OK && odd_says
               ? host->set_error(odd_status, "the moon is in the wrong house")
               : odd_status;
}

static void odd_close(void *instance)
{
    assert_ptr_equal(instance, &odd);
    odd_closes++;
}

static const void *odd_interface(void *instance, const char *name)
{
    (void)instance;
    return strcmp(name, KILN_DEVICE) == 0 ? odd_table_offered : NULL;
}

static kiln_status odd_count(void *instance, int64_t *count)
{
    (void)instance;
    *count = odd_devices;
    return odd_status;
}

static kiln_status odd_info(void *instance, int64_t index, kiln_device_info *info)
{
    (void)instance, (void)index;
    memset((char *)info + sizeof info->struct_size, 'x', sizeof *info - sizeof info->struct_size);
    info->struct_size = 3;
    memcpy(info->fingerprint, "\xc3\xa9 \xff\xc3", 5);
    return odd_info_status;
}

/* Functions that nobody calls in these tests, but that every device must have. */
static void never(void)
{
    abort();
}

static int make_odd(void **state)
{
    (void)state;
    odd = (kiln_plugin){.struct_size = sizeof odd,
                        .abi_minor = KILN_PLUGIN_ABI_MINOR,
                        .name = "odd",
                        .version = "1",
                        .vendor = "tests",
                        .description = "odd",
                        .interfaces = odd_interfaces,
                        .probe = odd_probe,
                        .open = odd_open,
                        .close = odd_close,
                        .interface = odd_interface};
    offered = &odd;
    odd_devices = 2;
    odd_closes = 0;
    odd_status = odd_info_status = KILN_OK;
    odd_says = true;
    odd_forks = false;
    odd_table_offered = NULL;
    void (**functions)(void) = (void (**)(void)) & odd_table.count;
    for (size_t i = 0;
         i < (sizeof odd_table - offsetof(kiln_device_table, count)) / sizeof *functions; i++)
        functions[i] = never;
    odd_table.struct_size = sizeof odd_table;
    odd_table.count = odd_count;
    odd_table.info = odd_info;
    return kiln_plugin_register("odd", odd_entry);
}

static void assert_odd(const char *state, const char *words)
{
    kiln_runtime *runtime = fixture_open("plugins: [odd]");
    kiln_plugin_info info = find_plugin(runtime, "odd", 0);
    if (strcmp(info.state, state) != 0)
        print_error("'%s' is expected: ", words);
    assert_string_equal(info.state, state);
    assert_says(info.reason, words);
    assert_string_equal(info.path, "built in");
    assert_int_equal(kiln_device_count(runtime), 1); /* none of a plugin that failed */
    kiln_runtime_close(runtime);
}

static void test_incomplete_plugins(void **state)
{
    (void)state;
    assert_odd("open", "");
    assert_int_equal(odd_closes, 1);
    offered = NULL;
    assert_odd("failed", "does not work with ABI 1.0");
    offered = &odd;
    odd.struct_size = 7;
    assert_odd("failed", "struct_size of its kiln_plugin is too small");
    odd.struct_size = offsetof(kiln_plugin, close); /* older than its own functions */
    assert_odd("failed", "lacks its version");
    static const size_t needed[] = {
        offsetof(kiln_plugin, version),     offsetof(kiln_plugin, vendor),
        offsetof(kiln_plugin, description), offsetof(kiln_plugin, interfaces),
        offsetof(kiln_plugin, probe),       offsetof(kiln_plugin, open),
        offsetof(kiln_plugin, close),       offsetof(kiln_plugin, interface)};
    for (int64_t i = 0; i < COUNT(needed); i++) {
        make_odd(NULL);
        memset((char *)&odd + needed[i], 0, sizeof(void *));
        assert_odd("failed", "lacks its version");
    }
    make_odd(NULL);
    odd.name = NULL;
    assert_odd("failed", "calls itself ''");
    odd.name = "even";
    assert_odd("failed", "calls itself 'even'");
    make_odd(NULL);
    odd.option_count = 3;
    assert_odd("failed", "declares 3 options");
    static const kiln_option nameless[] = {{.type = KILN_OPTION_INTEGER}};
    odd.option_count = 1;
    odd.options = nameless;
    assert_odd("failed", "declares option 0");
    assert_int_equal(odd_closes, 0); /* it was never open */
}

static void test_plugins_that_do_not_open(void **state)
{
    (void)state;
    odd_devices = 0;
    assert_odd("no hardware", "found no device");
    odd_devices = -5;
    assert_odd("no hardware", "found no device");
    odd_devices = 1;
    odd_status = KILN_IO;
    assert_odd("failed", "the moon is in the wrong house");
    odd_says = false;
    float number; /* an older failure of this thread explains nothing */
    assert_fails(kiln_convert(99, &number, KILN_F32, &number, 1, 0), KILN_INVALID, "99");
    assert_odd("failed", "a file could not be read or written");
    assert_int_equal(odd_closes, 0); /* what was not opened is not closed */
}

/* Some drivers start helpers of their own when they are opened. */
static void test_plugin_that_forks(void **state)
{
    (void)state;
    fixture_needs_fork();
    odd_forks = true;
    assert_odd("open", "");
}

static void test_devices_that_are_wrong(void **state)
{
    (void)state;
    odd_table_offered = &odd_table;
    odd_table.struct_size = 4;
    assert_odd("failed", "struct_size of its kiln.device/1 table is too small");
    odd_table.struct_size = offsetof(kiln_device_table, stream_create);
    assert_odd("failed", "lacks stream_create");
    odd_table.struct_size = sizeof odd_table;
    odd_table.copy = NULL;
    assert_odd("failed", "lacks copy");
    make_odd(NULL);
    odd_table_offered = &odd_table;
    odd_devices = 1025;
    assert_odd("failed", "says that it has 1025 devices");
    odd_devices = INT64_MAX;
    assert_odd("failed", "devices; 0 to 1024");
    odd_devices = 2;
    odd_info_status = KILN_FAULT;
    assert_odd("failed", "a device failed while it worked");
    assert_int_equal(odd_closes, 3); /* each was open when it turned out */
}

/* A device whose information is not even terminated, nor UTF-8. */
static void test_device_information_is_made_safe(void **state)
{
    (void)state;
    odd_table_offered = &odd_table;
    kiln_runtime *runtime = fixture_open("plugins: [odd]");
    assert_int_equal(kiln_device_count(runtime), 3);
    kiln_device *device;
    assert_ok(kiln_device_find(runtime, "odd:1", &device));
    kiln_device_info info = {.struct_size = sizeof info};
    assert_ok(kiln_device_get_info(device, &info));
    assert_int_equal(strlen(info.name), sizeof info.name - 1);
    assert_int_equal(strlen(info.fingerprint), sizeof info.fingerprint - 1);
    assert_memory_equal(info.fingerprint, "\xc3\xa9 ??xx", 7);
    assert_int_equal(info.memory_count, KILN_MAX_MEMORIES);
    assert_int_equal(strlen(info.memories[7].name), sizeof info.memories[7].name - 1);
    assert_fails(kiln_device_find(runtime, "odd:2", &device), KILN_NOT_FOUND, "host, odd:0, odd:1");
    kiln_runtime_close(runtime);
}

/* ---- Registering ---- */

static void test_registering(void **state)
{
    (void)state;
    assert_ok(kiln_plugin_register("odd", odd_entry)); /* the same again */
    assert_fails(kiln_plugin_register("odd", (kiln_plugin_entry_fn)never), KILN_INVALID,
                 "'odd' is registered already");
    assert_fails(kiln_plugin_register("", odd_entry), KILN_INVALID, "a name of at most");
    assert_fails(kiln_plugin_register(NULL, odd_entry), KILN_INVALID, "a name of at most");
    assert_fails(kiln_plugin_register("other", NULL), KILN_INVALID, "its entry");
    assert_fails(kiln_plugin_register("a-name-of-exactly-thirty-two-byt", odd_entry), KILN_INVALID,
                 "31");
    assert_fails(kiln_plugin_register("Odd", odd_entry), KILN_INVALID, "[a-z0-9-]");
    /* It comes before those on disk. */
    const char *folder = fixture_folder();
    char profile[5000];
    copy_plain(folder, "odd", 0755);
    snprintf(profile, sizeof profile, "plugins: [odd]\nplugin_path: ['%s']", folder);
    kiln_runtime *runtime = fixture_open(profile);
    assert_string_equal(find_plugin(runtime, "odd", 0).path, "built in");
    assert_string_equal(find_plugin(runtime, "odd", 0).state, "open");
    assert_string_equal(find_plugin(runtime, "odd", 1).state, "shadowed");
    kiln_runtime_close(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_that_are_no_plugins),
        cmocka_unit_test(test_unsafe_files_and_folders),
        cmocka_unit_test(test_first_of_a_name_wins),
        cmocka_unit_test(test_environment_comes_first),
        cmocka_unit_test(test_what_the_profile_leaves_out),
        cmocka_unit_test(test_plugin_of_a_later_minor),
        cmocka_unit_test(test_crash_in_probe_can_be_named),
        cmocka_unit_test_setup(test_incomplete_plugins, make_odd),
        cmocka_unit_test_setup(test_plugins_that_do_not_open, make_odd),
        cmocka_unit_test_setup(test_plugin_that_forks, make_odd),
        cmocka_unit_test_setup(test_devices_that_are_wrong, make_odd),
        cmocka_unit_test_setup(test_device_information_is_made_safe, make_odd),
        cmocka_unit_test_setup(test_registering, make_odd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
