/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of tensor files share: a folder of their own, files as bytes, comparisons. */
#ifndef KILN_TESTS_TOOLS_IO_FIXTURE_H
#define KILN_TESTS_TOOLS_IO_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/io/row_major.h"
#include "tools/io/tensor_file.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static const char *const suffixes[] = {"npy", "npz", "safetensors"};

static char folder[] = "/tmp/kiln-test-io-XXXXXX";

static inline int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* Two names at most are in use at a time. */
static inline const char *in_folder(const char *name)
{
    static char paths[2][256];
    static int turn;
    turn = !turn;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", folder, name);
    return paths[turn];
}

static inline int files_in_folder(void)
{
    int count = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (const struct dirent *entry; (entry = readdir(listing));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(listing);
    return count;
}

/* The whole file; the caller frees it. */
static inline uint8_t *slurp(const char *path, size_t *size)
{
    FILE *stream = fopen(path, "rb");
    if (!stream)
        fail_msg("%s cannot be opened", path);
    uint8_t *bytes = malloc(1 << 20);
    *size = fread(bytes, 1, 1 << 20, stream);
    fclose(stream);
    return bytes;
}

static inline const char *data_file(const char *name)
{
    static char path[1024];
    const char *root = getenv("KILN_TEST_SRCDIR");
    snprintf(path, sizeof path, "%s/tests/tools/data/%s", root ? root : ".", name);
    return path;
}

static inline tensor_file *open_good(const char *path)
{
    tensor_file *file = NULL;
    io_error error = {""};
    if (tensor_file_open(path, &file, &error) != KILN_OK)
        fail_msg("%s", error.text);
    return file;
}

static inline kiln_tensor get_good(tensor_file *file, const char *name)
{
    kiln_tensor tensor;
    io_error error = {""};
    if (tensor_file_get(file, name, &tensor, &error) != KILN_OK)
        fail_msg("%s", error.text);
    return tensor;
}

static inline void write_good(const char *path, const tensor_output *outputs, int64_t count)
{
    io_error error = {""};
    if (tensor_file_write(path, outputs, count, &error) != KILN_OK)
        fail_msg("%s", error.text);
}

/* All elements, row-major; the caller frees them. */
static inline uint8_t *elements_of(const kiln_tensor *tensor, size_t *size)
{
    row_major stream;
    const char *wrong = row_major_open(&stream, tensor);
    if (wrong)
        fail_msg("%s", wrong);
    uint8_t *bytes = malloc((size_t)stream.total + 1);
    *size = row_major_read(&stream, bytes, (size_t)stream.total + 1);
    assert_int_equal(*size, stream.total);
    return bytes;
}

static inline void assert_same_tensor(const kiln_tensor *left, const kiln_tensor *right)
{
    size_t left_size, right_size;
    assert_int_equal(left->type, right->type);
    assert_int_equal(left->rank, right->rank);
    assert_memory_equal(left->shape, right->shape, left->rank * sizeof left->shape[0]);
    uint8_t *left_bytes = elements_of(left, &left_size),
            *right_bytes = elements_of(right, &right_size);
    assert_int_equal(left_size, right_size);
    assert_memory_equal(left_bytes, right_bytes, left_size);
    free(left_bytes);
    free(right_bytes);
}

/* The text must name the file and say all of `words`, which '|' separates. */
static inline void assert_says(const char *text, const char *words)
{
    char copy[512], *rest = copy;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word; (word = strsep(&rest, "|"));)
        if (!strstr(text, word))
            fail_msg("\"%s\" does not say \"%s\"", text, word);
}

#endif
