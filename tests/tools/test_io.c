/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor files: round trips, files of other programs, writing whole or not at all, digests. */
#define _GNU_SOURCE /* mkdtemp, strsep */
#include "tests/tools/io_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tools/io/digest.h"

static const char *const suffixes[] = {"npy", "npz", "safetensors"};

static bool npy_has(uint32_t type)
{
    return type != KILN_BF16 && type != KILN_E4M3 && type != KILN_E5M2 && type != KILN_E2M1 && type != KILN_UE8M0;
}

/* ---- Round trips ---- */

static uint8_t memory[1 << 16];

static void fill_memory(unsigned seed)
{
    print_message("# seed %u\n", seed);
    srand(seed);
    for (size_t i = 0; i < sizeof memory; i++)
        memory[i] = (uint8_t)(rand() >> 7);
}

static void write_and_read(const char *suffix, const kiln_tensor *tensor)
{
    char name[32];
    snprintf(name, sizeof name, "round.%s", suffix);
    const char *path = in_folder(name);
    tensor_output output = {"t", *tensor};
    write_good(path, &output, 1);
    tensor_file *file = open_good(path);
    assert_int_equal(tensor_file_count(file), 1);
    const tensor_entry *entry = tensor_file_at(file, 0);
    assert_string_equal(entry->name, strcmp(suffix, "npy") == 0 ? "" : "t");
    assert_null(entry->refusal);
    kiln_tensor view = get_good(file, NULL);
    assert_same_tensor(tensor, &view);
    row_major stream;
    row_major_open(&stream, tensor);
    assert_int_equal(entry->bytes, stream.total);
    tensor_file_close(file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(files_in_folder(), 0);
}

static void every_type_and_rank(void **state)
{
    (void)state;
    fill_memory(1);
    for (uint32_t type = KILN_F64; type < KILN_TYPE_COUNT; type++) {
        if (type == KILN_I4 || type == KILN_U4)
            continue;
        for (uint32_t rank = type == KILN_E2M1 ? 1 : 0; rank <= KILN_MAX_RANK; rank++) {
            int64_t shape[KILN_MAX_RANK];
            for (uint32_t i = 0; i < rank; i++)
                shape[i] = 1 + (i * 7 + rank + type) % 3;
            if (rank > 0)
                shape[rank - 1] *= 2;
            kiln_tensor tensor = kiln_tensor_host(type, memory + 1, rank, shape);
            for (int s = 0; s < COUNT(suffixes); s++)
                if (npy_has(type) || s == 2)
                    write_and_read(suffixes[s], &tensor);
        }
    }
}

static void zero_sizes(void **state)
{
    (void)state;
    int64_t shapes[][3] = {{0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {0, 0, 0}, {0, INT64_C(1) << 40, 4}};
    for (int i = 0; i < COUNT(shapes); i++)
        for (int s = 0; s < COUNT(suffixes); s++) {
            kiln_tensor tensor = kiln_tensor_host(KILN_F32, NULL, 3, shapes[i]);
            write_and_read(suffixes[s], &tensor);
        }
    kiln_tensor odd = kiln_tensor_host(KILN_E2M1, NULL, 3, (int64_t[]){3, 0, 3});
    write_and_read("safetensors", &odd);
}

static void any_strides(void **state)
{
    (void)state;
    fill_memory(2);
    for (int i = 0; i < 300; i++) {
        kiln_tensor tensor = {.data = memory, .byte_offset = rand() % 9, .type = KILN_F32, .rank = 1 + rand() % 4};
        for (uint32_t d = 0; d < tensor.rank; d++) {
            tensor.shape[d] = 1 + rand() % 5;
            tensor.strides[d] = rand() % 40; /* overlapping and broadcast, too */
        }
        write_and_read(suffixes[i % COUNT(suffixes)], &tensor);
    }
    kiln_tensor nibbles = kiln_matrix(KILN_E2M1, memory, 5, 6, 10);
    write_and_read("safetensors", &nibbles);
}

static void many_tensors(void **state)
{
    (void)state;
    enum { TENSORS = 300 };
    fill_memory(3);
    static char names[TENSORS][32];
    tensor_output outputs[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        snprintf(names[i], sizeof names[i], i % 2 ? "layer.%d/\"weight\"" : "层.%d", i * 7919 % TENSORS);
        outputs[i] = (tensor_output){names[i], kiln_vector(i % 3 ? KILN_U8 : KILN_I64, memory + i, i % 7)};
    }
    for (int s = 1; s < COUNT(suffixes); s++) {
        const char *path = in_folder(s == 1 ? "many.npz" : "many.safetensors");
        write_good(path, outputs, TENSORS);
        tensor_file *file = open_good(path);
        assert_int_equal(tensor_file_count(file), TENSORS);
        for (int i = 0; i < TENSORS; i++) {
            kiln_tensor view = get_good(file, names[i]), again = get_good(file, names[i]);
            assert_same_tensor(&outputs[i].tensor, &view);
            assert_ptr_equal(view.data, again.data);
            if (s == 2)
                assert_int_equal((uintptr_t)view.data % (view.type == KILN_I64 ? 8 : 1), 0);
        }
        kiln_tensor tensor;
        io_error error;
        assert_int_equal(tensor_file_get(file, "absent", &tensor, &error), KILN_NOT_FOUND);
        assert_says(error.text, "absent|300");
        assert_int_equal(tensor_file_get(file, NULL, &tensor, &error), KILN_NOT_FOUND);
        assert_says(error.text, "say which");
        tensor_file_close(file);
        unlink(path);
    }
}

static void equal_tensors_make_equal_files(void **state)
{
    (void)state;
    tensor_output output = {"t", kiln_vector(KILN_F32, memory, 5)};
    for (int s = 0; s < COUNT(suffixes); s++) {
        char name[32];
        snprintf(name, sizeof name, "first.%s", suffixes[s]);
        const char *first = in_folder(name);
        snprintf(name, sizeof name, "second.%s", suffixes[s]);
        const char *second = in_folder(name);
        size_t first_size, second_size;
        write_good(first, &output, 1);
        setenv("TZ", "Asia/Tokyo", 1);
        write_good(second, &output, 1);
        unsetenv("TZ");
        uint8_t *first_bytes = slurp(first, &first_size), *second_bytes = slurp(second, &second_size);
        assert_int_equal(first_size, second_size);
        assert_memory_equal(first_bytes, second_bytes, first_size);
        free(first_bytes);
        free(second_bytes);
        unlink(first);
        unlink(second);
    }
}

/* ---- Files of other programs ---- */

/* Elements 1, 2, 3, … */
static void assert_counts(const kiln_tensor *tensor, const char *name)
{
    size_t size;
    uint8_t *bytes = elements_of(tensor, &size);
    int64_t elements = kiln_tensor_elements(tensor);
    for (int64_t i = 0; i < elements; i++)
        if (kiln_load_f64(tensor->type, bytes, i) != (tensor->type == KILN_BOOL ? 1 : i + 1))
            fail_msg("%s: element %d is %f", name, (int)i, kiln_load_f64(tensor->type, bytes, i));
    free(bytes);
}

static void files_of_numpy(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t type, rank;
        int64_t shape[2], strides[2];
    } cases[] = {{"f4.npy", KILN_F32, 2, {2, 3}, {3, 1}},  {"version2.npy", KILN_I16, 1, {5}, {1}},
                 {"version3.npy", KILN_U8, 2, {2, 2}, {2, 1}}, {"scalar.npy", KILN_F64, 0, {0}, {0}},
                 {"fortran.npy", KILN_F16, 2, {2, 3}, {1, 2}}};
    for (int i = 0; i < COUNT(cases); i++) {
        tensor_file *file = open_good(data_file(cases[i].name));
        kiln_tensor view = get_good(file, NULL);
        assert_int_equal(view.type, cases[i].type);
        assert_int_equal(view.rank, cases[i].rank);
        assert_memory_equal(view.shape, cases[i].shape, view.rank * sizeof(int64_t));
        assert_memory_equal(view.strides, cases[i].strides, view.rank * sizeof(int64_t));
        assert_counts(&view, cases[i].name);
        tensor_file_close(file);
    }
}

static void written_as_numpy_writes(void **state)
{
    (void)state;
    float numbers[] = {1, 2, 3, 4, 5, 6};
    double one = 1;
    tensor_output outputs[] = {{NULL, kiln_matrix(KILN_F32, numbers, 2, 3, 3)},
                               {NULL, kiln_tensor_host(KILN_F64, &one, 0, NULL)}};
    for (int i = 0; i < 2; i++) {
        size_t expected_size, size;
        uint8_t *expected = slurp(data_file(i ? "scalar.npy" : "f4.npy"), &expected_size);
        write_good(in_folder("a.npy"), &outputs[i], 1);
        uint8_t *bytes = slurp(in_folder("a.npy"), &size);
        assert_int_equal(size, expected_size);
        assert_memory_equal(bytes, expected, size);
        free(expected);
        free(bytes);
    }
    unlink(in_folder("a.npy"));
}

static void archives_of_numpy(void **state)
{
    (void)state;
    static const char *const names[] = {"f4", "f2", "i8", "i2", "i1", "u8", "u4", "u2"};
    static const uint32_t types[] = {KILN_F32, KILN_F16, KILN_I64, KILN_I16, KILN_I8, KILN_U64, KILN_U32, KILN_U16};
    tensor_file *file = open_good(data_file("deflated.npz"));
    assert_int_equal(tensor_file_count(file), COUNT(names));
    for (int i = 0; i < COUNT(names); i++) {
        kiln_tensor view = get_good(file, names[i]);
        assert_int_equal(view.type, types[i]);
        assert_string_equal(tensor_file_at(file, i)->name, names[i]);
        assert_counts(&view, names[i]);
    }
    tensor_file_close(file);

    file = open_good(data_file("zip64.npz"));
    kiln_tensor x = get_good(file, "x"), y = get_good(file, "y");
    assert_counts(&x, "x");
    assert_same_tensor(&x, &y);
    tensor_file_close(file);
}

/* What Kiln cannot read leaves its neighbours readable. */
static void one_member_refused(void **state)
{
    (void)state;
    kiln_tensor tensor;
    io_error error;
    tensor_file *file = open_good(data_file("stored.npz"));
    assert_int_equal(tensor_file_count(file), 3);
    kiln_tensor a = get_good(file, "a"), b = get_good(file, "b");
    assert_int_equal(a.type, KILN_F64);
    assert_int_equal(b.type, KILN_I32);
    assert_counts(&a, "a");
    assert_counts(&b, "b");
    assert_says(tensor_file_at(file, 2)->refusal, "stored.npz|'c.npy'|<U4|convert");
    assert_int_equal(tensor_file_get(file, "c", &tensor, &error), KILN_UNSUPPORTED);
    assert_string_equal(error.text, tensor_file_at(file, 2)->refusal);
    tensor_file_close(file);

    file = open_good(data_file("bzip2.npz"));
    assert_int_equal(tensor_file_get(file, "x", &tensor, &error), KILN_UNSUPPORTED);
    assert_says(error.text, "compression method 12");
    tensor_file_close(file);
}

static void file_of_safetensors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t type;
    } tensors[] = {{"float64", KILN_F64}, {"float32", KILN_F32}, {"float16", KILN_F16}, {"bfloat16", KILN_BF16},
                   {"float8_e4m3fn", KILN_E4M3}, {"float8_e5m2", KILN_E5M2}, {"float8_e8m0fnu", KILN_UE8M0},
                   {"float4_e2m1fn_x2", KILN_E2M1}, {"int64", KILN_I64}, {"int32", KILN_I32}, {"int16", KILN_I16},
                   {"int8", KILN_I8}, {"uint64", KILN_U64}, {"uint32", KILN_U32}, {"uint16", KILN_U16},
                   {"uint8", KILN_U8}, {"bool", KILN_BOOL}};
    tensor_file *file = open_good(data_file("types.safetensors"));
    assert_int_equal(tensor_file_count(file), COUNT(tensors) + 1);
    for (int i = 0; i < COUNT(tensors); i++) {
        kiln_tensor view = get_good(file, tensors[i].name);
        assert_int_equal(view.type, tensors[i].type);
        assert_counts(&view, tensors[i].name);
    }
    kiln_tensor tensor;
    io_error error;
    assert_int_equal(tensor_file_get(file, "complex64", &tensor, &error), KILN_UNSUPPORTED);
    assert_says(error.text, "types.safetensors|complex64|C64");
    tensor_file_close(file);
}

/* ---- Whole or not at all ---- */

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
    tensor_output small = {"t", kiln_vector(KILN_F32, big, 3)}, large = {"t", kiln_vector(KILN_F32, big, COUNT(big))};
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

static void refuse_write(const char *name, const tensor_output *outputs, int64_t count, kiln_status status,
                         const char *words)
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
        tensor_output output = {"t", kiln_vector(KILN_F32, memory, 4)};
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
    files_of_numpy(state);
    assert_int_equal(open_descriptors(), before);
}

/* ---- Digests ---- */

static void digest_of(const kiln_tensor *tensor, char digest[TENSOR_DIGEST_BYTES])
{
    io_error error = {""};
    if (tensor_digest(tensor, digest, &error) != KILN_OK)
        fail_msg("%s", error.text);
    assert_int_equal(strlen(digest), 32);
}

static void digest_ignores_strides(void **state)
{
    (void)state;
    char digest[TENSOR_DIGEST_BYTES], other[TENSOR_DIGEST_BYTES];
    float rows[6] = {1, 2, 3, 4, 5, 6}, columns[6] = {1, 4, 2, 5, 3, 6};
    kiln_tensor a = kiln_matrix(KILN_F32, rows, 2, 3, 3), b = kiln_matrix(KILN_F32, columns, 2, 3, 1);
    b.strides[1] = 2;
    digest_of(&a, digest);
    assert_string_equal(digest, "1b96e454d725b9b359094c6514923830");
    digest_of(&b, other);
    assert_string_equal(digest, other);

    tensor_file *file = open_good(data_file("f4.npy"));
    kiln_tensor view = get_good(file, NULL);
    digest_of(&view, other);
    assert_string_equal(digest, other);
    tensor_file_close(file);

    columns[5] = 7;
    digest_of(&b, other);
    assert_string_not_equal(digest, other);
    columns[5] = 6;
    b = kiln_matrix(KILN_F32, rows, 3, 2, 2);
    digest_of(&b, other);
    assert_string_not_equal(digest, other);
    b = kiln_matrix(KILN_U32, rows, 2, 3, 3);
    digest_of(&b, other);
    assert_string_not_equal(digest, other);
}

static void digest_ignores_unused_bits(void **state)
{
    (void)state;
    char digest[TENSOR_DIGEST_BYTES], other[TENSOR_DIGEST_BYTES];
    uint8_t tight[4] = {0x21, 0x03, 0x54, 0x06}, loose[6] = {0x21, 0xf3, 0xff, 0x54, 0xe6, 0xff};
    kiln_tensor a = kiln_matrix(KILN_U4, tight, 2, 3, 4), b = kiln_matrix(KILN_U4, loose, 2, 3, 6);
    digest_of(&a, digest);
    digest_of(&b, other);
    assert_string_equal(digest, other);
    loose[1] ^= 1;
    digest_of(&b, other);
    assert_string_not_equal(digest, other);
    b.layout = KILN_LAYOUT_PACKED;
    io_error error;
    assert_int_equal(tensor_digest(&b, other, &error), KILN_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_rank),
        cmocka_unit_test(zero_sizes),
        cmocka_unit_test(any_strides),
        cmocka_unit_test(many_tensors),
        cmocka_unit_test(equal_tensors_make_equal_files),
        cmocka_unit_test(files_of_numpy),
        cmocka_unit_test(written_as_numpy_writes),
        cmocka_unit_test(archives_of_numpy),
        cmocka_unit_test(one_member_refused),
        cmocka_unit_test(file_of_safetensors),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(refused_writes),
        cmocka_unit_test(replaces_through_links_and_keeps_permissions),
        cmocka_unit_test(no_descriptor_stays_open),
        cmocka_unit_test(digest_ignores_strides),
        cmocka_unit_test(digest_ignores_unused_bits),
    };
    return cmocka_run_group_tests(tests, enter_folder, remove_folder);
}
