/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: .npy files. */
#include "tests/fuzz/tensor_file.h"

static char *write_npy(const tensor_output *outputs, int64_t count, size_t *size)
{
    char *file = count ? write_to_memory(npy_write, outputs, count, size) : NULL;
    must(!count || file); /* whatever NumPy's formats hold can be written to them */
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return read_all_tensors("fuzz.npy", bytes, size, write_npy);
}
