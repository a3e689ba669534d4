#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the plugin planted/ without a defect and once for each defect that planted/defects.txt lists, and runs kiln
# check-plugin on it. Without one all checks must pass. With one the check that is named must fail, and in the long form
# (KILN_TEST_COUNT, as in make check-long) no other that is not named beside it: then the table of what each check says is
# compared with the one in the tree. A check without a defect fails the test as well. Prints TAP.
#
#     ./run sh tests/conformance/test_planted.sh --table FILE     writes that table, and is the long form, too
#     ./run sh tests/conformance/test_planted.sh --only NAME…     these defects, in the long form
LC_ALL=C
export LC_ALL
[ -z "$KILN_TEST_BRIEF" ] || { echo "1..0 # SKIP KILN_TEST_BRIEF is set"; exit 0; }
[ -z "$KILN_TEST_STATIC" ] || { echo "1..0 # SKIP there are no shared objects"; exit 0; }
command -v kiln >/dev/null || { echo "Bail out! there is no kiln in PATH"; exit 99; }
source=${KILN_TEST_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
planted=$source/tests/conformance/planted
table=
only=
long=${KILN_TEST_COUNT:+1}
case $1 in
--table) table=$2 long=1 ;;
--only) shift && only=" $* " long=1 ;;
esac
if grep -q '^CFLAGS.*fsanitize=thread\|^KILN_CFLAGS.*fsanitize=thread' "${KILN_TEST_BUILDDIR:-.}/Makefile"; then
    echo "1..0 # SKIP ThreadSanitizer sees nothing inside of a plugin that was built without it"
    exit 0
fi
# A sanitizer finds leaks of its own, in every check: what else fails says nothing then.
sanitized=$(grep -c 'CFLAGS.*fsanitize' "${KILN_TEST_BUILDDIR:-.}/Makefile")
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
jobs=$(nproc 2>/dev/null || echo 1)

# compile FOLDER HOST-OR-DEVICE DEFECT FILE…: objects in the folder.
compile() {
    folder=$1 place=$2 defect=$3
    shift 3
    flags="-std=gnu11 -O1 -Wall -Wextra -fPIC -fvisibility=hidden -ffp-contract=off -pthread"
    [ "$place" = host ] || flags="$flags -DPLANTED_DEVICE"
    [ -z "$defect" ] || flags="$flags -DPLANT_$defect=1"
    for file in "$@"; do
        # shellcheck disable=SC2086
        ${CC:-cc} $flags -I"$source/include" -c -o "$folder/$(basename "$file" .c).o" "$file" || return 1
    done
}

# build NAME HOST-OR-DEVICE DEFECT FILE: $work/NAME/FILE.so. Only what has the defect in it is compiled again.
build() {
    mkdir -p "$work/$1" || return 1
    cp "$work/objects-$2"/*.o "$work/$1"
    if [ -n "$3" ]; then
        # shellcheck disable=SC2046
        compile "$work/$1" "$2" "$3" $(grep -l "planted($3)\|PLANT_$3)" "$planted"/*.c) || return 1
    fi
    # shellcheck disable=SC2086
    ${CC:-cc} -shared -pthread -o "$work/$1/$4.so" "$work/$1"/*.o -lm
}

# examine NAME PLACE DEFECT CHECK: $work/NAME/failed has "CHECK<tab>what it said" for each that failed. The place is host or
# device, and may go on with "as FILE".
examine() {
    name=$1 kind=${2%% as *} wanted=$4 library=planted
    [ "$2" = "$kind" ] || library=${2#* as }
    if ! build "$1" "$kind" "$3" "$library" >"$work/compiler-$name" 2>&1; then
        mkdir -p "$work/$name"
        echo "the compiler	$(head -n 1 "$work/compiler-$name")" >"$work/$name/failed"
        return
    fi
    set -- --cases 60 --seed 1
    [ -n "$wanted" ] && set -- "$@" --only "$wanted"
    kiln check-plugin "$@" "$work/$name/$library.so" >"$work/$name/tap" 2>"$work/$name/errors"
    echo $? >"$work/$name/status"
    awk '/^not ok / { name = $0; sub(/^not ok [0-9]+ - /, "", name) }
        /^  message: / && name { text = $0; sub(/^  message: "/, "", text); sub(/"$/, "", text)
            print name "\t" text; name = "" }' "$work/$name/tap" >"$work/$name/failed"
}

# The lists, without comments and blanks around the bars.
sed -e '/^#/d' -e '/^ *$/d' -e 's/ *| */|/g' "$planted/defects.txt" >"$work/defects"
{
    echo "right-host|host||-|"
    echo "right-device|device||-|"
    cat "$work/defects"
} | while IFS='|' read -r name place check may what; do
    [ -z "$only" ] || [ "${only#* "$name" }" != "$only" ] || continue
    echo "$name|$place|$check|$may|$what"
done >"$work/list"

for place in host device; do
    mkdir "$work/objects-$place" && compile "$work/objects-$place" $place "" "$planted"/*.c || exit 99
done

# As many at a time as there are processors.
running=0
while IFS='|' read -r name place check may what; do
    defect=$name
    [ -n "$check" ] || defect=
    part=$check
    [ -z "$long" ] || part=
    examine "$name" "$place" "$defect" "$part" &
    running=$((running + 1))
    if [ "$running" -ge "$jobs" ]; then
        wait
        running=0
    fi
done <"$work/list"
wait

# is_listed CHECK PATTERNS
is_listed() {
    found=$1
    set -f
    for pattern in $2; do
        # shellcheck disable=SC2254
        case $found in $pattern) set +f; return 0 ;; esac
    done
    set +f
    return 1
}

# Checks that no defect is named for.
unplanted() {
    cut -d '|' -f 3 "$work/defects" | sort -u >"$work/planted-checks"
    kiln check-plugin --list | sed 's/ .*//' | sort -u | comm -23 - "$work/planted-checks"
}

# Defects in the sources that no line speaks of.
unlisted() {
    cut -d '|' -f 1 "$work/defects" | sort -u >"$work/listed"
    grep -oh 'planted([A-Z0-9_]*)' "$planted"/*.c | sed 's/.*(\(.*\))/\1/' | sort -u | comm -23 - "$work/listed"
}

tests=0
failures=0
result() { # result WHAT PROBLEM
    tests=$((tests + 1))
    if [ -z "$2" ]; then
        echo "ok $tests - $1"
    else
        failures=$((failures + 1))
        echo "not ok $tests - $1"
        printf '%s\n' "$2" | sed 's/^/# /'
    fi
}

if [ -z "$only" ]; then
    result "every check has a defect that it must find" "$(unplanted)"
    result "every defect in the sources is listed" "$(unlisted)"
fi

{
    echo "# Planted defects"
    echo
    echo "Made by \`./run sh tests/conformance/test_planted.sh --table tests/conformance/planted/table.md\`, which builds the plugin in"
    echo "this folder once for each line, broken in that one way, and runs \`kiln check-plugin --cases 60\` on it. The named check must"
    echo "fail, and no other but those that \`defects.txt\` lists with it."
    echo
    echo "| level | planted | what is wrong | caught by | what the check said |"
    echo "|---|---|---|---|---|"
} >"$work/table"
tab=$(printf '\t')
while IFS='|' read -r name place check may what; do
    problem=
    said=
    caught=
    while IFS=$tab read -r failed text; do
        if [ "$failed" = "$check" ]; then
            caught=1
            said=$text
        elif [ "$check" = "" ]; then
            problem="$problem$failed fails without a defect: $text
"
        elif [ -n "$long" ] && [ "$sanitized" = 0 ] && ! is_listed "$failed" "$may"; then
            problem="$problem$failed fails as well: $text
"
        fi
    done <"$work/$name/failed"
    # Some things cannot be seen past a sanitizer, and the check says so.
    if [ "$sanitized" != 0 ] && [ -n "$check" ] && [ -z "$caught" ] &&
        grep -q "^ok [0-9]* - $check # SKIP not applicable" "$work/$name/tap"; then
        tests=$((tests + 1))
        echo "ok $tests - $name: $check # SKIP it does not apply under a sanitizer"
        continue
    fi
    [ -z "$check" ] || [ -n "$caught" ] || problem="$problem$check does not find it
$(tail -n 3 "$work/$name/errors" 2>/dev/null)"
    if [ -z "$check" ]; then
        [ "$(cat "$work/$name/status" 2>/dev/null)" = 0 ] || problem="$problem$(tail -n 3 "$work/$name/errors" 2>/dev/null)
$(tail -n 3 "$work/$name/tap" 2>/dev/null)"
        result "without a defect, $place: all checks pass" "$problem"
    else
        result "$name: $check" "$problem"
        # Addresses, folders and times are others each time.
        said=$(printf '%s' "$said" | sed -e "s#$work/$name/##g" -e 's/0x[0-9a-f]\{6,\}/0x…/g' -e 's/[|]/\\|/g' | cut -c 1-180)
        echo "| ${check%%.*} | $name | $what | \`$check\` | $said |" >>"$work/table"
    fi
done <"$work/list"

if [ -n "$table" ]; then
    cp "$work/table" "$table" || failures=$((failures + 1))
elif [ -n "$long" ] && [ -z "$only" ]; then
    # What was said has numbers in it that may be others on another machine; who caught what may not.
    result "the table in the tree is of these defects" "$(cut -d '|' -f 1-5 "$work/table" >"$work/a"
    cut -d '|' -f 1-5 "$planted/table.md" >"$work/b"
    diff "$work/b" "$work/a")"
fi
echo "1..$tests"
[ "$failures" -eq 0 ]
