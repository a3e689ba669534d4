#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails when core/ names a backend, an instruction set or a transport. Usage: check-core-names.sh [ROOT]

# An underscore separates words here: has_avx2 names an instruction set.
words='avx[0-9a-z]*|sse[0-9]*|ssse3|amx|fma3?|f16c|vnni|neon|asimd|sve2?|sme|x86|x86.64|amd64|i386|aarch64|arm64|riscv'
words="$words|cuda|cudart|nvidia|nvrtc|ptx|hip|rocm|amdgpu|npu|davinci|ascend|acl|metal|vulkan|opencl|sycl"
words="$words|openblas|blas|cblas|blis|mkl|onednn|libxsmm|libfabric|ofi|verbs|ibverbs|infiniband|rdma|ucx|mpi|openmpi|nccl|rccl"

# names FOLDER-OF-CORE PLUGIN… : the offending lines. A plugin's name is an offence as a string.
names() {
    folder=$1
    shift
    plugins=$(echo "$@" | tr ' ' '|')
    grep -rnIiE --include='*.c' --include='*.h' --include='*.mk' --include='*.map' \
        "(^|[^a-z0-9])($words)([^a-z0-9]|\$)|\"($plugins)\"" "$folder"
}

scratch=$(mktemp -d) || exit 99
echo 1..2
trap 'rm -rf "$scratch"' EXIT

# First that the check can fail, and only where it should.
for offence in 'if (has_avx2)' '/* as CUDA does */' 'plugins = "ref";' '#include <cblas.h>' 'KILN_AVX512F' 'x86_64'; do
    echo "$offence" >"$scratch/planted.c"
    names "$scratch" ref >/dev/null || { echo "not ok 1 - does not find the offence: $offence"; exit 1; }
done
echo 'classes of ships; a reference passed by ref; firm; smell; blasted; neonate' >"$scratch/planted.c"
if names "$scratch" ref; then
    echo "not ok 1 - takes innocent words for offences"
    exit 1
fi
echo "ok 1 - planted names are found, innocent words are not"

root=${1:-${KILN_TEST_SRCDIR:-.}}
plugins=$(cd "$root/plugins" && ls -d -- */ | tr -d /)
if names "$root/core" $plugins; then
    echo "not ok 2 - core/ must not name backends, instruction sets or transports: move this into a plugin, or into support/"
    exit 1
fi
echo "ok 2 - core/ names no backend, instruction set or transport"
