/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: .safetensors files. */
#include "tests/fuzz/tensor_file.h"

static char *write_safetensors(const tensor_output *outputs, int64_t count, size_t *size)
{
    char *file = write_to_memory(safetensors_write, outputs, count, size);
    must(file);
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return read_all_tensors("fuzz.safetensors", bytes, size, write_safetensors);
}
