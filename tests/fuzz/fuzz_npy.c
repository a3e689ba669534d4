/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: .npy files. */
#include "tests/fuzz/tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return read_all_tensors("fuzz.npy", bytes, size);
}
