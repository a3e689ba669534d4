/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor files appear whole or not at all. */
#define _GNU_SOURCE /* mkdtemp, strsep */
#include "tests/tools/io_fixture.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static float big[1 << 18];

/* Files grow to 64 KiB and no further, as on a full disk. */
static void limit_files(rlim_t bytes, struct rlimit *old)
{
    getrlimit(RLIMIT_FSIZE, old);
    struct rlimit limit = {bytes, old->rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, SIG_IGN);
}

static void full_disk(void **state)
{
    (void)state;
    tensor_output small = {"t", kiln_vector(KILN_F32, big, 3)},
                  large = {"t", kiln_vector(KILN_F32, big, COUNT(big))};
    for (int s = 0; s < COUNT(suffixes); s++)
        for (int old = 0; old < 2; old++) {
            char name[32];
            snprintf(name, sizeof name, "full.%s", suffixes[s]);
            const char *path = in_folder(name);
            if (old)
                write_good(path, &small, 1);
            struct rlimit limit;
            io_error error = {""};
            limit_files(1 << 16, &limit);
            kiln_status status = tensor_file_write(path, &large, 1, &error);
            setrlimit(RLIMIT_FSIZE, &limit);
            assert_int_equal(status, KILN_IO);
            assert_says(error.text, "/full.|could not be written|File too large");
            assert_int_equal(files_in_folder(), old);
            if (!old)
                continue;
            tensor_file *file = open_good(path);
            kiln_tensor view = get_good(file, NULL);
            assert_same_tensor(&small.tensor, &view);
            tensor_file_close(file);
            unlink(path);
        }
}

static void refuse_write(const char *name, const tensor_output *outputs, int64_t count,
                         kiln_status status, const char *words)
{
    io_error error = {""};
    int files = files_in_folder();
    assert_int_equal(tensor_file_write(in_folder(name), outputs, count, &error), status);
    assert_says(error.text, name);
    assert_says(error.text, words);
    assert_int_equal(files_in_folder(), files);
}

static void refused_writes(void **state)
{
    (void)state;
    uint8_t bytes[64] = {0};
    kiln_tensor scale = kiln_vector(KILN_F32, bytes, 1);
    tensor_output good = {"t", kiln_vector(KILN_F32, bytes, 4)}, twice[] = {good, good}, bad = good;
    refuse_write("t.bin", &good, 1, KILN_INVALID, ".npy, .npz or .safetensors");
    refuse_write("absent/t.npy", &good, 1, KILN_NOT_FOUND, "No such file");
    refuse_write("absent/t.npz", &good, 1, KILN_NOT_FOUND, "No such file");
    refuse_write("t.npy", twice, 2, KILN_INVALID, "one tensor, not 2");
    refuse_write("t.npy", NULL, 0, KILN_INVALID, "one tensor, not 0");
    refuse_write("t.npz", NULL, 0, KILN_INVALID, "no tensor");
    refuse_write("t.npz", twice, 2, KILN_INVALID, "two tensors are named 't'");
    refuse_write("t.safetensors", twice, 2, KILN_INVALID, "two tensors are named 't'");
    bad.name = "";
    refuse_write("t.npz", &bad, 1, KILN_INVALID, "no name");
    bad.name = "\xc3\x28";
    refuse_write("t.safetensors", &bad, 1, KILN_INVALID, "not UTF-8");
    bad.name = "__metadata__";
    refuse_write("t.safetensors", &bad, 1, KILN_INVALID, "__metadata__");
    bad = (tensor_output){"t", kiln_vector(KILN_BF16, bytes, 4)};
    refuse_write("t.npy", &bad, 1, KILN_UNSUPPORTED, "bf16|.safetensors");
    refuse_write("t.npz", &bad, 1, KILN_UNSUPPORTED, "bf16|.safetensors");
    bad.tensor.type = KILN_I4;
    refuse_write("t.npy", &bad, 1, KILN_UNSUPPORTED, "i4|i8 or u8");
    refuse_write("t.safetensors", &bad, 1, KILN_UNSUPPORTED, "i4|i8 or u8");
    bad.tensor = kiln_matrix(KILN_E2M1, bytes, 2, 3, 4);
    refuse_write("t.safetensors", &bad, 1, KILN_UNSUPPORTED, "odd innermost|pad");
    bad.tensor.strides[0] = 3;
    refuse_write("t.safetensors", &bad, 1, KILN_INVALID, "whole bytes|pad");
    bad = good;
    bad.tensor.data = NULL;
    refuse_write("t.npy", &bad, 1, KILN_INVALID, "no data");
    bad = good;
    bad.tensor.scale = &scale;
    refuse_write("t.npy", &bad, 1, KILN_INVALID, "scales");
    bad = good;
    bad.tensor.layout = KILN_LAYOUT_PACKED;
    refuse_write("t.npy", &bad, 1, KILN_INVALID, "packed");
    bad = good;
    bad.tensor.shape[0] = -1;
    refuse_write("t.npy", &bad, 1, KILN_INVALID, "negative");
    bad.tensor.shape[0] = INT64_MAX;
    refuse_write("t.npy", &bad, 1, KILN_INVALID, "2^57");
    bad = good;
    bad.tensor.type = KILN_TYPE_NONE;
    refuse_write("t.npy", &bad, 1, KILN_INVALID, "element type");
    bad = good;
    bad.tensor.rank = 9;
    refuse_write("t.npy", &bad, 1, KILN_INVALID, "rank");
    bad = good;
    bad.tensor.buffer = (kiln_buffer *)bytes;
    refuse_write("t.npy", &bad, 1, KILN_INVALID, "buffer|host memory");
    assert_int_equal(symlink("absent/t.npy", in_folder("nowhere.npy")), 0);
    refuse_write("nowhere.npy", &good, 1, KILN_NOT_FOUND, "link");
    unlink(in_folder("nowhere.npy"));
    assert_int_equal(mkdir(in_folder("folder.npy"), 0700), 0);
    refuse_write("folder.npy", &good, 1, KILN_INVALID, "not a regular file");
    rmdir(in_folder("folder.npy"));
    assert_int_equal(symlink("/dev/full", in_folder("device.npy")), 0);
    refuse_write("device.npy", &good, 1, KILN_INVALID, "not a regular file");
    unlink(in_folder("device.npy"));
    if (geteuid() != 0) {
        chmod(folder, 0500);
        refuse_write("t.npy", &good, 1, KILN_PERMISSION, "Permission denied");
        chmod(folder, 0700);
    }
}

static void replaces_through_links_and_keeps_permissions(void **state)
{
    (void)state;
    struct stat about;
    for (int s = 0; s < COUNT(suffixes); s++) {
        tensor_output output = {"t", kiln_vector(KILN_F32, big, 4)};
        char name[32], link[32];
        snprintf(name, sizeof name, "real.%s", suffixes[s]);
        snprintf(link, sizeof link, "link.%s", suffixes[s]);
        write_good(in_folder(name), &output, 1);
        assert_int_equal(chmod(in_folder(name), 0640), 0);
        assert_int_equal(symlink(name, in_folder(link)), 0);
        output.tensor.shape[0] = 3;
        write_good(in_folder(link), &output, 1);
        assert_int_equal(lstat(in_folder(link), &about), 0);
        assert_true(S_ISLNK(about.st_mode));
        assert_int_equal(stat(in_folder(name), &about), 0);
        assert_int_equal(about.st_mode & 07777, 0640);
        tensor_file *file = open_good(in_folder(name));
        assert_int_equal(get_good(file, NULL).shape[0], 3);
        tensor_file_close(file);
        unlink(in_folder(link));
        unlink(in_folder(name));
    }
    assert_int_equal(files_in_folder(), 0);
}

static void prepared_files_appear_on_commit(void **state)
{
    (void)state;
    for (int s = 0; s < COUNT(suffixes); s++) {
        tensor_output output = {"t", kiln_vector(KILN_F32, big, 4)};
        char name[32];
        snprintf(name, sizeof name, "later.%s", suffixes[s]);
        const char *path = in_folder(name);
        tensor_pending *pending = NULL;
        io_error error = {""};
        assert_int_equal(tensor_file_prepare(path, &output, 1, &pending, &error), KILN_OK);
        assert_int_equal(access(path, F_OK), -1);
        tensor_pending_discard(pending);
        assert_int_equal(files_in_folder(), 0);
        assert_int_equal(tensor_file_prepare(path, &output, 1, &pending, &error), KILN_OK);
        assert_int_equal(tensor_pending_commit(&pending, 1, &error), KILN_OK);
        tensor_file_close(open_good(path));
        unlink(path);

        assert_int_equal(tensor_file_prepare(path, &output, 1, &pending, &error), KILN_OK);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(tensor_pending_commit(&pending, 1, &error), KILN_IO);
        assert_says(error.text, "later.|nothing was changed");
        rmdir(path);
        assert_int_equal(files_in_folder(), 0);
    }
    tensor_pending_discard(NULL);
}

static int64_t rows_of(const char *path)
{
    tensor_file *file = open_good(path);
    int64_t rows = get_good(file, NULL).shape[0];
    tensor_file_close(file);
    return rows;
}

static void prepare_all(char paths[][300], int count, int64_t rows, tensor_pending **pending)
{
    tensor_output output = {"t", kiln_vector(KILN_F32, big, rows)};
    io_error error = {""};
    for (int i = 0; i < count; i++)
        if (tensor_file_prepare(paths[i], &output, 1, &pending[i], &error) != KILN_OK)
            fail_msg("%s", error.text);
}

/* Three files: one that is there, one that is new, and one whose name a folder takes meanwhile. */
static void a_commit_that_fails_midway_is_taken_back(void **state)
{
    (void)state;
    static const char *const names[] = {"old.npy", "new.npy", "taken.npy"};
    char paths[3][300];
    struct stat before, after;
    tensor_pending *pending[3];
    tensor_output old = {"t", kiln_vector(KILN_F32, big, 4)};
    io_error error = {""};
    for (int i = 0; i < 3; i++)
        snprintf(paths[i], sizeof paths[i], "%s", in_folder(names[i]));
    write_good(paths[0], &old, 1);
    assert_int_equal(stat(paths[0], &before), 0);

    prepare_all(paths, 3, 3, pending);
    assert_int_equal(mkdir(paths[2], 0700), 0);
    assert_int_equal(tensor_pending_commit(pending, 3, &error), KILN_IO);
    assert_says(error.text, "taken.npy|nothing was changed");
    assert_int_equal(rmdir(paths[2]), 0);
    assert_int_equal(files_in_folder(), 1);
    assert_int_equal(rows_of(paths[0]), 4);
    assert_int_equal(stat(paths[0], &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);

    prepare_all(paths, 3, 3, pending);
    assert_int_equal(tensor_pending_commit(pending, 3, &error), KILN_OK);
    assert_int_equal(files_in_folder(), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rows_of(paths[i]), 3);
        unlink(paths[i]);
    }
}

static int open_descriptors(void)
{
    int count = 0;
    DIR *listing = opendir("/proc/self/fd");
    while (listing && readdir(listing))
        count++;
    if (listing)
        closedir(listing);
    return count;
}

static void no_descriptor_stays_open(void **state)
{
    (void)state;
    int before = open_descriptors();
    refused_writes(state);
    full_disk(state);
    replaces_through_links_and_keeps_permissions(state);
    prepared_files_appear_on_commit(state);
    a_commit_that_fails_midway_is_taken_back(state);
    assert_int_equal(open_descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_disk),
        cmocka_unit_test(refused_writes),
        cmocka_unit_test(replaces_through_links_and_keeps_permissions),
        cmocka_unit_test(prepared_files_appear_on_commit),
        cmocka_unit_test(a_commit_that_fails_midway_is_taken_back),
        cmocka_unit_test(no_descriptor_stays_open),
    };
    return cmocka_run_group_tests(tests, enter_folder, remove_folder);
}
