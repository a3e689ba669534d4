#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the built libraries export: libkiln exactly the functions that the public headers declare with KILN_API, a plugin
# exactly its entry. And names that are global within the tree carry their folder's prefix, since a static build links all of
# them together. Runs on a build folder: KILN_TEST_SRCDIR, KILN_TEST_BUILDDIR, NM.

src=${KILN_TEST_SRCDIR:-.}
build=${KILN_TEST_BUILDDIR:-.}
nm=${NM:-nm}
status=0
number=0
LC_ALL=C
export LC_ALL
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT

# result WHAT PROBLEM: PROBLEM is empty when all is well
result() {
    number=$((number + 1))
    if [ -z "$2" ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1: $2"
        status=1
    fi
}

# same WHAT EXPECTED-FILE FOUND-FILE: both sorted, one name a line
same() {
    missing=$(comm -23 "$2" "$3" | tr '\n' ' ')
    extra=$(comm -13 "$2" "$3" | tr '\n' ' ')
    result "$1" "${missing:+missing: $missing}${extra:+should not be there: $extra}"
}

exports() { # SHARED-OBJECT: sorted; version nodes (type A) left out
    $nm -D --defined-only "$1" | awk 'NF == 3 && $2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort
}

# prefixed ARCHIVE PREFIX: global names in it begin so
prefixed() {
    $nm -g --defined-only "$1" | awk 'NF == 3 { print $3 }' >"$scratch/names"
    odd=$(grep -vE "^($2|_)" "$scratch/names" | sort -u | tr '\n' ' ')
    [ -s "$scratch/names" ] || odd="the archive itself, which has none"
    result "global names in ${1##*/} begin with $2" "${odd:+make static or rename: $odd}"
}

# That the extraction sees every form of declaration.
mkdir "$scratch/headers"
cat >"$scratch/headers/planted.h" <<'END'
KILN_API int kiln_one(void);
KILN_API const char *kiln_two(int a,
                              int b);
/* KILN_API int kiln_not(void); */
#define ENTRY(name) \
    KILN_API int name##_not(void)
KILN_API
void kiln_three(int (*f)(void));
END
sh "$src/build-aux/api-names.sh" "$scratch/headers" >"$scratch/found"
printf 'kiln_one\nkiln_three\nkiln_two\n' >"$scratch/expected"
same "every form of declaration is seen" "$scratch/expected" "$scratch/found"

sh "$src/build-aux/api-names.sh" "$src/include/kiln" >"$scratch/api"
sed -n 's/^ *\(kiln_[a-z0-9_]*\);.*/\1/p' "$src/core/libkiln.map" | sort >"$scratch/map"
same "core/libkiln.map lists what the headers declare" "$scratch/api" "$scratch/map"

if [ -n "$KILN_TEST_STATIC" ]; then
    $nm -g --defined-only "$build/.libs/libkiln.a" | awk 'NF == 3 { print $3 }' | sort >"$scratch/all"
    comm -12 "$scratch/api" "$scratch/all" >"$scratch/found"
    same "libkiln.a defines what the headers declare" "$scratch/api" "$scratch/found"
else
    exports "$build/.libs/libkiln.so" >"$scratch/found"
    same "libkiln.so exports what the headers declare" "$scratch/api" "$scratch/found"
    echo kiln_plugin_v1 >"$scratch/expected"
    for plugin in "$build"/plugins/.libs/*.so; do
        [ -e "$plugin" ] || continue
        exports "$plugin" >"$scratch/found"
        same "${plugin##*/} exports its entry only" "$scratch/expected" "$scratch/found"
    done
fi

prefixed "$build/core/.libs/libcore.a" kiln_
for archive in "$build"/plugins/*/.libs/lib*.a; do
    [ -e "$archive" ] || continue
    name=${archive##*/lib}
    prefixed "$archive" "${name%.a}_"
done
echo "1..$number"
exit $status
