#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every public header compiles by itself, twice in a row, without a warning, as C11 and as C++17.
# Usage: check-headers.sh [ROOT], with CC and CXX in the environment.

root=${1:-${KILN_TEST_SRCDIR:-.}}
status=0
number=0
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT

compile() { # COMPILER STANDARD FILE
    $1 -std="$2" -pedantic-errors -Wall -Wextra -Wshadow -Wundef -Werror -I"$root/include" -fsyntax-only "$3" 2>&1
}

# result WHAT COMMAND…
result() {
    number=$((number + 1))
    what=$1
    shift
    if "$@"; then
        echo "ok $number - $what"
    else
        echo "not ok $number - $what"
        status=1
    fi
}

refuses_nonsense() {
    echo 'int broken(void) { return undeclared; }' >"$scratch/broken.c"
    ! compile "${CC:-cc}" c11 "$scratch/broken.c" >/dev/null
}

result "the compiler refuses what is wrong" refuses_nonsense
for header in "$root"/include/kiln/*.h; do
    name=${header##*/}
    file=$scratch/${name%.h}
    printf '#include <kiln/%s>\n#include <kiln/%s>\nint main(void) { return 0; }\n' "$name" "$name" >"$file.c"
    result "$name is clean C11" compile "${CC:-cc}" c11 "$file.c"
    if [ -n "${CXX-}" ]; then
        cp "$file.c" "$file.cpp"
        result "$name is clean C++17" compile "$CXX" c++17 "$file.cpp"
    else
        number=$((number + 1))
        echo "ok $number - $name is clean C++17 # SKIP no C++ compiler was found"
    fi
done
echo "1..$number"
exit $status
