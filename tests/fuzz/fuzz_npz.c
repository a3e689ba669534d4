/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: .npz files. */
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/tensor_file.h"

/* libzip writes files, not memory. */
static char *write_npz(const tensor_output *outputs, int64_t count, size_t *size)
{
    char path[128];
    io_error error;
    if (count == 0)
        return NULL;
    snprintf(path, sizeof path, "%s/written.npz", scratch_folder());
    kiln_status status = npz_write(path, path, outputs, count, &error);
    if (status != KILN_OK)
        return NULL;
    FILE *file = fopen(path, "r");
    struct stat about;
    must(file && fstat(fileno(file), &about) == 0);
    char *bytes = malloc((size_t)about.st_size);
    must(bytes && fread(bytes, 1, (size_t)about.st_size, file) == (size_t)about.st_size);
    fclose(file);
    *size = (size_t)about.st_size;
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return read_all_tensors("fuzz.npz", bytes, size, write_npz);
}
