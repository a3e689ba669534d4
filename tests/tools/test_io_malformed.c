/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor files that lie: each is refused with its place and a remedy, and nothing crashes, leaks or
 * grows. */
#define _GNU_SOURCE /* mkdtemp, strsep */
#include "tests/tools/io_fixture.h"

#include <sys/stat.h>

/* A copy of exactly `size` bytes, so that a sanitizer sees any reading beyond them. */
static kiln_status open_copy(const char *name, const void *bytes, size_t size, tensor_file **file,
                             void **copy, io_error *error)
{
    *copy = malloc(size ? size : 1);
    memcpy(*copy, bytes, size);
    *file = NULL;
    error->text[0] = '\0';
    kiln_status status = tensor_file_open_memory(name, *copy, size, file, error);
    assert_true(status ? !*file && error->text[0] : *file != NULL);
    return status;
}

static void refuse_bytes(const char *name, const void *bytes, size_t size, kiln_status status,
                         const char *words)
{
    tensor_file *file;
    void *copy;
    io_error error;
    kiln_status result = open_copy(name, bytes, size, &file, &copy, &error);
    if (result == KILN_OK) { /* one tensor alone may be refused when it is asked for */
        kiln_tensor tensor = {.type = 77};
        result = tensor_file_get(file, NULL, &tensor, &error);
        assert_true(result == KILN_OK || tensor.type == 77);
    }
    tensor_file_close(file);
    free(copy);
    if (result != status)
        fail_msg("status %s in place of %s for \"%s\": %s", kiln_status_name(result),
                 kiln_status_name(status), words, result ? error.text : "");
    assert_says(error.text, name);
    assert_says(error.text, words);
}

/* ---- .npy ---- */

static size_t make_npy(uint8_t *out, int version, const char *header, size_t data)
{
    size_t length = strlen(header), start = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (uint8_t)version;
    out[7] = 0;
    for (size_t i = 8; i < start; i++)
        out[i] = (uint8_t)(length >> 8 * (i - 8));
    memcpy(out + start, header, length);
    memset(out + start + length, 0, data);
    return start + length + data;
}

static void lying_npy(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        kiln_status status;
        const char *words;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 8, KILN_OK, ""},
        {"{\"shape\":(2,),\"descr\":\"<f4\",\"fortran_order\":True}", 8, KILN_OK, ""},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7, KILN_PARSE,
         "at byte 67|7 bytes|need 8"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 9, KILN_PARSE,
         "9 bytes|need 8"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8, KILN_PARSE,
         "byte 61|size of zero or more"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2), }", 8, KILN_PARSE, "tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", 8, KILN_PARSE, "tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 2), }", 16, KILN_PARSE,
         "',' or ')'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,), }", 8, KILN_PARSE, "expected"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,", 8, KILN_PARSE, "expected"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", 8, KILN_PARSE, "True or False"},
        {"{'descr': '<f4', 'fortran_order': False}", 4, KILN_PARSE, "each of"},
        {"{'descr': '<f4', 'shape': (2,), 'shape': (2,), }", 8, KILN_PARSE, "each of"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", 8, KILN_PARSE,
         "no other key"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}", 8, KILN_PARSE, "',' or '}'"},
        {"{'descr' '<f4', 'fortran_order': False, 'shape': (2,)}", 8, KILN_PARSE, "':'"},
        {"{'descr': '<f\\x34', 'fortran_order': False, 'shape': (2,)}", 8, KILN_PARSE,
         "without escapes"},
        {"{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}", 8, KILN_PARSE, "expected"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", 8, KILN_PARSE,
         "spaces after"},
        {"[]", 8, KILN_PARSE, "'{'"},
        {"", 8, KILN_PARSE, "'{'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", 8, KILN_PARSE,
         "2^63"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", 0,
         KILN_PARSE, "2^63"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387904, 4)}", 0,
         KILN_PARSE, "2^63"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}", 4, KILN_PARSE,
         "4398046511104"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", 4,
         KILN_UNSUPPORTED, "rank 9"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", 4, KILN_UNSUPPORTED,
         "little-endian|astype('<f4')"},
        {"{'descr': '=f4', 'fortran_order': False, 'shape': (1,)}", 4, KILN_UNSUPPORTED,
         "astype('<f4')"},
        {"{'descr': '>u1', 'fortran_order': False, 'shape': (1,)}", 1, KILN_OK, ""},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", 8, KILN_UNSUPPORTED,
         "'<c8'|astype"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 8, KILN_UNSUPPORTED,
         "'|O'|astype"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}", 16, KILN_UNSUPPORTED,
         "'<f16'"},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", 0, KILN_UNSUPPORTED, "''"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4, KILN_UNSUPPORTED,
         "structured|field"},
    };
    static uint8_t bytes[256];
    for (int i = 0; i < COUNT(cases); i++)
        for (int version = 1; version <= 2; version++) {
            size_t size = make_npy(bytes, version, cases[i].header, cases[i].data);
            if (cases[i].status)
                refuse_bytes("case.npy", bytes, size, cases[i].status,
                             version == 1 ? cases[i].words : "");
            else {
                tensor_file *file = NULL;
                io_error error = {""};
                assert_int_equal(tensor_file_open_memory("case.npy", bytes, size, &file, &error),
                                 KILN_OK);
                get_good(file, NULL);
                tensor_file_close(file);
            }
        }
}

static void lying_npy_prefix(void **state)
{
    (void)state;
    static uint8_t bytes[256];
    size_t size =
        make_npy(bytes, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 8);
    bytes[8] = 0xff;
    refuse_bytes("a.npy", bytes, size, KILN_PARSE, "at byte 8|claims 255 bytes, of 66");
    bytes[9] = 0xff;
    refuse_bytes("a.npy", bytes, size, KILN_PARSE, "claims 65535");
    bytes[6] = 4;
    refuse_bytes("a.npy", bytes, size, KILN_PARSE, "at byte 6|version 4.0|3.0");
    bytes[6] = 2;
    bytes[7] = 1;
    refuse_bytes("a.npy", bytes, size, KILN_PARSE, "version 2.1");
    size = make_npy(bytes, 3, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 8);
    memset(bytes + 8, 0xff, 4);
    refuse_bytes("a.npy", bytes, size, KILN_PARSE, "claims 4294967295");

    static uint8_t huge[1 << 17];
    memset(huge, ' ', sizeof huge);
    memcpy(huge, "\x93NUMPY\2\0\1\0\1\0", 12);
    refuse_bytes("a.npy", huge, sizeof huge, KILN_PARSE, "claims 65537|65536 at most");
    refuse_bytes("a.npy", "\x93NUMPY\1", 7, KILN_PARSE, "at byte 0|cut short");
}

/* ---- .safetensors ---- */

static size_t make_safetensors(uint8_t *out, const char *header, size_t data)
{
    uint64_t length = strlen(header);
    memcpy(out, &length, 8);
    memcpy(out + 8, header, length);
    memset(out + 8 + length, 0, data);
    return 8 + length + data;
}

#define ENTRY(dtype, shape, offsets) \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void lying_safetensors(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        kiln_status status;
        const char *words;
    } cases[] = {
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8]") "}", 8, KILN_OK, ""},
        {"{\"__metadata__\":{}, \"a\":" ENTRY("F32", "[2]", "[0,8]") "}  \n", 8, KILN_OK, ""},
        {"{\"b\":" ENTRY("F32", "[2]", "[8,16]") ",\"a\":" ENTRY("F32", "[2]", "[0,8]") "}", 16,
         KILN_NOT_FOUND, ""},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8]") "}", 7, KILN_PARSE, "at least 8|has 7"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8]") "}", 9, KILN_PARSE, "need 8|has 9"},
        {"{}", 1, KILN_PARSE, "need 0|has 1"},
        {"{\"a\":" ENTRY("F32", "[2]", "[4,12]") "}", 12, KILN_PARSE,
         "'a'|begins at offset 4|ends at 0|gap"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8]") ",\"b\":" ENTRY("F32", "[1]", "[4,8]") "}", 8,
         KILN_PARSE, "'b'|overlap"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8]") ",\"b\":" ENTRY("F32", "[2]", "[0,8]") "}", 8,
         KILN_PARSE, "overlap"},
        {"{\"a\":" ENTRY("F32", "[2]", "[-8,0]") "}", 8, KILN_PARSE, "'a'|[-8, 0]|negative"},
        {"{\"a\":" ENTRY("F32", "[2]", "[8,0]") "}", 8, KILN_PARSE, "[8, 0]|backwards"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,9223372036854775808]") "}", 8, KILN_PARSE, "at byte"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,9223372036854775807]") "}", 8, KILN_PARSE, "do not fit"},
        {"{\"a\":" ENTRY("U8", "[9223372036854775807]", "[0,9223372036854775807]") "}", 8,
         KILN_PARSE, "do not fit"},
        {"{\"a\":" ENTRY("U8", "[1152921504606846975]", "[0,1152921504606846975]") "}", 8,
         KILN_PARSE, "at least"},
        {"{\"a\":" ENTRY("F32", "[3]", "[0,8]") "}", 8, KILN_PARSE, "'a'|8 bytes|F32"},
        {"{\"a\":" ENTRY("F32", "[4611686018427387904,4]", "[0,8]") "}", 8, KILN_PARSE,
         "do not fit"},
        {"{\"a\":" ENTRY("F32", "[-2]", "[0,8]") "}", 8, KILN_PARSE, "size 0 of the shape"},
        {"{\"a\":" ENTRY("F32", "[2,1.0]", "[0,8]") "}", 8, KILN_PARSE, "size 1 of the shape"},
        {"{\"a\":" ENTRY("F32", "2", "[0,8]") "}", 8, KILN_PARSE, "shape (a list)"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8,8]") "}", 8, KILN_PARSE, "data_offsets (two"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0]") "}", 8, KILN_PARSE, "data_offsets (two"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8.0]") "}", 8, KILN_PARSE, "data_offsets (two"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, KILN_PARSE, "'a'|needs dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8, KILN_PARSE,
         "nothing else"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
         KILN_PARSE, "duplicate"},
        {"{\"a\":" ENTRY("F32", "[1]", "[0,4]") ",\"a\":" ENTRY("F32", "[1]", "[4,8]") "}", 8,
         KILN_PARSE, "two tensors|'a'"},
        {"{\"a\":3}", 0, KILN_PARSE, "'a'"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8]"), 8, KILN_PARSE, "at byte"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8]") ",}", 8, KILN_PARSE, "a name in quotes"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8]") " \"b\"}", 8, KILN_PARSE, "',' or '}'"},
        {"{\"a\" " ENTRY("F32", "[2]", "[0,8]") "}", 8, KILN_PARSE, "':'"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8]") "}x", 8, KILN_PARSE,
         "at byte 62, in the header|spaces"},
        {"{\"\\u0000\":" ENTRY("F32", "[2]", "[0,8]") "}", 8, KILN_PARSE, "u0000"},
        {"{\"\xff\":" ENTRY("F32", "[2]", "[0,8]") "}", 8, KILN_PARSE,
         "at byte 10, in the header|0xff"},
        {"{\"__metadata__\":{\"x\":1},\"a\":" ENTRY("F32", "[2]", "[0,8]") "}", 8, KILN_PARSE,
         "at byte 29|not a string"},
        {"{\"__metadata__\":[],\"a\":" ENTRY("F32", "[2]", "[0,8]") "}", 8, KILN_PARSE,
         "object of strings"},
        {"{\"__metadata__\":{\"x\":\"y\"", 8, KILN_PARSE, "',' or '}'"},
        {"{\"a\":" ENTRY("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", 8, KILN_UNSUPPORTED,
         "'a'|rank 9"},
        {"{\"a\":" ENTRY("F7", "[1]", "[0,8]") "}", 8, KILN_UNSUPPORTED, "unknown dtype 'F7'"},
        {"{\"a\":" ENTRY("C64", "[1]", "[0,8]") "}", 8, KILN_UNSUPPORTED, "C64"},
        {"{\"a\":" ENTRY("C64", "[2]", "[0,8]") "}", 8, KILN_PARSE, "do not fit"},
        {"{\"a\":" ENTRY("F4", "[16]", "[0,8]") "}", 8, KILN_OK, ""},
        {"{\"a\":" ENTRY("F4", "[16,1]", "[0,8]") "}", 8, KILN_UNSUPPORTED, "odd innermost"},
        {"{\"a\":" ENTRY("F4", "[3]", "[0,2]") "}", 2, KILN_PARSE, "do not fit"},
        {"{\"a\":" ENTRY("F6_E2M3", "[4]", "[0,3]") "}", 3, KILN_UNSUPPORTED, "F6_E2M3"},
        {"{\"a\\n\":" ENTRY("C64", "[1]", "[0,8]") "}", 8, KILN_UNSUPPORTED, "'a?'"},
    };
    static uint8_t bytes[512];
    for (int i = 0; i < COUNT(cases); i++) {
        size_t size = make_safetensors(bytes, cases[i].header, cases[i].data);
        if (cases[i].status) {
            refuse_bytes("case.safetensors", bytes, size, cases[i].status, cases[i].words);
            continue;
        }
        tensor_file *file = NULL;
        io_error error = {""};
        if (tensor_file_open_memory("case.safetensors", bytes, size, &file, &error) != KILN_OK)
            fail_msg("%s", error.text);
        get_good(file, "a");
        tensor_file_close(file);
    }
}

static void lying_safetensors_prefix(void **state)
{
    (void)state;
    static uint8_t bytes[512];
    size_t size = make_safetensors(bytes, "{}", 0);
    bytes[0] = 3;
    refuse_bytes("a.safetensors", bytes, size + 1, KILN_PARSE, "expected nothing but spaces");
    refuse_bytes("a.safetensors", bytes, size, KILN_PARSE, "at byte 0|claims 3 bytes, of 2");
    memset(bytes, 0xff, 8);
    refuse_bytes("a.safetensors", bytes, size, KILN_PARSE, "claims 18446744073709551615");
    memset(bytes, 0, 8);
    refuse_bytes("a.safetensors", bytes, size, KILN_PARSE, "empty");
}

/* A member's JSON is parsed alone and has a limit, so that a header of any size stays cheap. */
static void bloated_safetensors(void **state)
{
    (void)state;
    enum { BLOAT = 1 << 20 };
    char *header = malloc(BLOAT + 64);
    uint8_t *bytes = malloc(BLOAT + 128);
    int used = sprintf(header, "{\"a\":{\"dtype\":\"F32\",\"shape\":[");
    while (used < BLOAT)
        used += sprintf(header + used, "0,");
    strcpy(header + used, "0],\"data_offsets\":[0,0]}}");
    refuse_bytes("a.safetensors", bytes, make_safetensors(bytes, header, 0), KILN_PARSE,
                 "longer than 65536 bytes");
    used = sprintf(header, "{\"a\":");
    memset(header + used, '[', BLOAT - (size_t)used);
    header[BLOAT] = '\0';
    refuse_bytes("a.safetensors", bytes, make_safetensors(bytes, header, 0), KILN_PARSE, "depth");
    free(header);
    free(bytes);
}

/* ---- .npz ---- */

/* Where the first zip record of that signature begins. */
static size_t find_record(const uint8_t *bytes, size_t size, const char *signature)
{
    for (size_t i = 0; i + 4 <= size; i++)
        if (memcmp(bytes + i, signature, 4) == 0)
            return i;
    fail_msg("no record");
    return 0;
}

static void put32(uint8_t *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

/* Offsets in a record of the central directory. */
enum { METHOD = 10, CRC = 16, COMPRESSED = 20, SIZE = 24, FLAGS = 8 };

static void lying_archives(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int field;
        uint32_t value;
        kiln_status status;
        const char *words;
    } cases[] = {
        {"deflated.npz", SIZE, 0x7fffffff, KILN_PARSE,
         "'f4.npy'|claims 2147483647 bytes|cannot hold"},
        {"deflated.npz", SIZE, 135, KILN_PARSE, "'f4.npy'|7 bytes follow|need 8"},
        {"deflated.npz", SIZE, 4096, KILN_PARSE, "'f4.npy'|need 8"},
        {"deflated.npz", SIZE, 3, KILN_PARSE, "'f4.npy'|cut short"},
        {"deflated.npz", COMPRESSED, 0x7fffffff, KILN_PARSE, "claims 2147483647 compressed"},
        {"zip64.npz", METHOD, 8, KILN_PARSE, "'x.npy'"},
        {"deflated.npz", METHOD, 0, KILN_PARSE, "'f4.npy'|cannot hold"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        size_t size;
        uint8_t *bytes = slurp(data_file(cases[i].name), &size);
        uint8_t *record = bytes + find_record(bytes, size, "PK\1\2");
        put32(record + cases[i].field,
              cases[i].value | (cases[i].field == METHOD ? record[12] << 16 : 0));
        refuse_bytes(cases[i].name, bytes, size, cases[i].status, cases[i].words);
        free(bytes);
    }
}

/* Damage of the data is found when they are read. */
static void damaged_members(void **state)
{
    (void)state;
    uint8_t numbers[300] = {0};
    tensor_output outputs[] = {{"x", kiln_vector(KILN_U8, numbers, 300)}};
    size_t size;
    const char *path = in_folder("damaged.npz");
    write_good(path, outputs, 1);
    uint8_t *bytes = slurp(path, &size);
    unlink(path);
    bytes[300] ^= 1; /* an element */
    refuse_bytes("a.npz", bytes, size, KILN_PARSE, "'x.npy'|CRC|damaged");
    bytes[find_record(bytes, size, "PK\1\2") + FLAGS] |= 1;
    refuse_bytes("a.npz", bytes, size, KILN_UNSUPPORTED, "'x.npy'|encrypted");
    free(bytes);

    bytes = slurp(data_file("zip64.npz"), &size);
    for (size_t i = 0; i + 5 <= size; i++) /* both in the local headers and in the directory */
        if (memcmp(bytes + i, "y.npy", 5) == 0)
            bytes[i] = 'x';
    refuse_bytes("a.npz", bytes, size, KILN_PARSE, "two tensors are named 'x'");
    free(bytes);
}

/* ---- All kinds ---- */

static void wrong_kinds(void **state)
{
    (void)state;
    tensor_file *file = NULL;
    io_error error;
    refuse_bytes("a.npy", "", 0, KILN_PARSE, "empty");
    refuse_bytes("a.npy", "PK\3\4.........", 13, KILN_PARSE,
                 "not that of a .npy file but of a .npz file: rename");
    refuse_bytes("a.npz", "\x93NUMPY......", 12, KILN_PARSE, "of a .npy file: rename");
    refuse_bytes("a.npz", "garbage", 7, KILN_PARSE, "damaged or something else");
    refuse_bytes("a.safetensors", "\1\0\0\0\0\0\0\0[", 9, KILN_PARSE, "damaged or something else");
    refuse_bytes("a.bin", "\x93NUMPY......", 12, KILN_INVALID, ".npy, .npz or .safetensors");
    refuse_bytes(".npy", "\x93NUMPY......", 12, KILN_INVALID, ".npy, .npz or .safetensors");
    assert_int_equal(tensor_file_open(in_folder("absent.npy"), &file, &error), KILN_NOT_FOUND);
    assert_says(error.text, "absent.npy|No such file");
    mkdir(in_folder("folder.npy"), 0700);
    assert_int_equal(tensor_file_open(in_folder("folder.npy"), &file, &error), KILN_IO);
    assert_says(error.text, "folder.npy|regular file");
    mkfifo(in_folder("pipe.npy"), 0600);
    assert_int_equal(tensor_file_open(in_folder("pipe.npy"), &file, &error), KILN_IO);
    assert_says(error.text, "pipe.npy|regular file");
    fclose(fopen(in_folder("empty.npz"), "w"));
    assert_int_equal(tensor_file_open(in_folder("empty.npz"), &file, &error), KILN_PARSE);
    assert_says(error.text, "empty.npz|empty");
    assert_null(file);
    tensor_file_close(NULL);
}

static const char *const samples[] = {"f4.npy",           "version2.npy", "fortran.npy",
                                      "stored.npz",       "deflated.npz", "zip64.npz",
                                      "types.safetensors"};

static void truncated_anywhere(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT(samples); i++) {
        size_t size;
        uint8_t *bytes = slurp(data_file(samples[i]), &size);
        for (size_t part = 0; part < size; part++)
            refuse_bytes(samples[i], bytes, part, KILN_PARSE, "");
        free(bytes);
    }
}

/* Any byte may be anything: what still opens must read within bounds, which the sanitizers judge.
 */
static void changed_anywhere(void **state)
{
    (void)state;
    int opened = 0, refused = 0;
    for (int i = 0; i < COUNT(samples); i++) {
        size_t size, elements;
        uint8_t *bytes = slurp(data_file(samples[i]), &size);
        for (size_t at = 0; at < size * 4; at++) {
            uint8_t old = bytes[at / 4];
            bytes[at / 4] = (uint8_t)(at % 4 == 0   ? 0xff
                                      : at % 4 == 1 ? 0
                                                    : old ^ (at % 4 == 2 ? 1 : 0x80));
            tensor_file *file;
            void *copy;
            io_error error;
            *(open_copy(samples[i], bytes, size, &file, &copy, &error) ? &refused : &opened) += 1;
            for (int64_t t = 0; file && t < tensor_file_count(file); t++) {
                kiln_tensor view;
                if (tensor_file_get(file, tensor_file_at(file, t)->name, &view, &error) == KILN_OK)
                    free(elements_of(&view, &elements));
            }
            tensor_file_close(file);
            free(copy);
            bytes[at / 4] = old;
        }
        free(bytes);
    }
    assert_true(opened > 0 && refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lying_npy),           cmocka_unit_test(lying_npy_prefix),
        cmocka_unit_test(lying_safetensors),   cmocka_unit_test(lying_safetensors_prefix),
        cmocka_unit_test(bloated_safetensors), cmocka_unit_test(lying_archives),
        cmocka_unit_test(damaged_members),     cmocka_unit_test(wrong_kinds),
        cmocka_unit_test(truncated_anywhere),  cmocka_unit_test(changed_anywhere),
    };
    return cmocka_run_group_tests(tests, enter_folder, remove_folder);
}
