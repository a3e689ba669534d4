/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor files: round trips, files of other programs, digests. */
#define _GNU_SOURCE /* mkdtemp, strsep */
#include "tests/tools/io_fixture.h"

#include "tools/io/digest.h"

static bool npy_has(uint32_t type)
{
    return type != KILN_BF16 && type != KILN_E4M3 && type != KILN_E5M2 && type != KILN_E2M1 &&
           type != KILN_UE8M0;
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
        kiln_tensor tensor = {
            .data = memory, .byte_offset = rand() % 9, .type = KILN_F32, .rank = 1 + rand() % 4};
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
        snprintf(names[i], sizeof names[i], i % 2 ? "layer.%d/\"weight\"" : "层.%d",
                 i * 7919 % TENSORS);
        outputs[i] =
            (tensor_output){names[i], kiln_vector(i % 3 ? KILN_U8 : KILN_I64, memory + i, i % 7)};
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
        uint8_t *first_bytes = slurp(first, &first_size),
                *second_bytes = slurp(second, &second_size);
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
    } cases[] = {{"f4.npy", KILN_F32, 2, {2, 3}, {3, 1}},
                 {"version2.npy", KILN_I16, 1, {5}, {1}},
                 {"version3.npy", KILN_U8, 2, {2, 2}, {2, 1}},
                 {"scalar.npy", KILN_F64, 0, {0}, {0}},
                 {"fortran.npy", KILN_F16, 2, {2, 3}, {1, 2}}};
    for (int i = 0; i < COUNT(cases); i++) {
        tensor_file *file = open_good(data_file(cases[i].name));
        kiln_tensor view = get_good(file, NULL);
        assert_int_equal(view.type, cases[i].type);
        assert_int_equal(view.rank, cases[i].rank);
        assert_memory_equal(view.shape, cases[i].shape, view.rank * sizeof(int64_t));
        assert_memory_equal(view.strides, cases[i].strides, view.rank * sizeof(int64_t));
        assert_counts(&view, cases[i].name);
        io_error error;
        assert_int_equal(tensor_file_get(file, "x", &view, &error), KILN_NOT_FOUND);
        assert_says(error.text, cases[i].name);
        assert_says(error.text, "without a name: leave 'x' out");
        tensor_file_close(file);
    }
}

static void refused_files_of_numpy(void **state)
{
    (void)state;
    static const struct {
        const char *name, *words;
    } cases[] = {{"big_endian.npy", "'>f4'|not little-endian|astype('<f4')"},
                 {"structured.npy", "structured|field"},
                 {"bfloat16.npy", "'<V2'|.safetensors"},
                 {"complex.npy", "'<c8'|convert"},
                 {"object.npy", "|convert"}};
    for (int i = 0; i < COUNT(cases); i++) {
        tensor_file *file = open_good(data_file(cases[i].name));
        kiln_tensor tensor;
        io_error error;
        assert_int_equal(tensor_file_get(file, NULL, &tensor, &error), KILN_UNSUPPORTED);
        assert_says(error.text, cases[i].name);
        assert_says(error.text, cases[i].words);
        assert_string_equal(error.text, tensor_file_at(file, 0)->refusal);
        assert_int_equal(tensor_file_at(file, 0)->bytes, 0);
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
    static const uint32_t types[] = {KILN_F32, KILN_F16, KILN_I64, KILN_I16,
                                     KILN_I8,  KILN_U64, KILN_U32, KILN_U16};
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
    } tensors[] = {{"float64", KILN_F64},
                   {"float32", KILN_F32},
                   {"float16", KILN_F16},
                   {"bfloat16", KILN_BF16},
                   {"float8_e4m3fn", KILN_E4M3},
                   {"float8_e5m2", KILN_E5M2},
                   {"float8_e8m0fnu", KILN_UE8M0},
                   {"float4_e2m1fn_x2", KILN_E2M1},
                   {"int64", KILN_I64},
                   {"int32", KILN_I32},
                   {"int16", KILN_I16},
                   {"int8", KILN_I8},
                   {"uint64", KILN_U64},
                   {"uint32", KILN_U32},
                   {"uint16", KILN_U16},
                   {"uint8", KILN_U8},
                   {"bool", KILN_BOOL}};
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
    kiln_tensor a = kiln_matrix(KILN_F32, rows, 2, 3, 3),
                b = kiln_matrix(KILN_F32, columns, 2, 3, 1);
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
        cmocka_unit_test(refused_files_of_numpy),
        cmocka_unit_test(written_as_numpy_writes),
        cmocka_unit_test(archives_of_numpy),
        cmocka_unit_test(one_member_refused),
        cmocka_unit_test(file_of_safetensors),
        cmocka_unit_test(digest_ignores_strides),
        cmocka_unit_test(digest_ignores_unused_bits),
    };
    return cmocka_run_group_tests(tests, enter_folder, remove_folder);
}
