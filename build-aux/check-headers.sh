#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every public header compiles by itself, twice in a row, without a warning, as C11 and as C++17.
# Usage: check-headers.sh [ROOT], with CC and CXX in the environment.

root=${1:-${KILN_TEST_SRCDIR:-.}}
status=0
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT

compile() { # COMPILER STANDARD FILE
    $1 -std="$2" -pedantic-errors -Wall -Wextra -Wshadow -Wundef -Werror -I"$root/include" -fsyntax-only "$3"
}

echo 'int broken(void) { return undeclared; }' >"$scratch/broken.c"
if compile "${CC:-cc}" c11 "$scratch/broken.c" 2>/dev/null; then
    echo "the compiler accepts anything"
    exit 1
fi
for header in "$root"/include/kiln/*.h; do
    name=${header##*/}
    printf '#include <kiln/%s>\n#include <kiln/%s>\nint main(void) { return 0; }\n' "$name" "$name" >"$scratch/${name%.h}.c"
    cp "$scratch/${name%.h}.c" "$scratch/${name%.h}.cpp"
    compile "${CC:-cc}" c11 "$scratch/${name%.h}.c" || { echo "$name is not clean C11"; status=1; }
    if [ -n "$CXX" ]; then
        compile "$CXX" c++17 "$scratch/${name%.h}.cpp" || { echo "$name is not clean C++17"; status=1; }
    fi
done
[ -n "$CXX" ] || { echo "no C++ compiler: C++17 was not checked"; [ $status -ne 0 ] || status=77; }
exit $status
