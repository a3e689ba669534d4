#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What each backend of the tree serves and declines of a fixed set of cases must be what the tree says in counts/. A change is
# no failure by itself, but must be seen: count_cases.c says how those files are made. Prints TAP.
LC_ALL=C
export LC_ALL
[ -z "$KILN_TEST_BRIEF" ] || { echo "1..0 # SKIP KILN_TEST_BRIEF is set"; exit 0; }
[ -z "$KILN_TEST_STATIC" ] || { echo "1..0 # SKIP there are no shared objects"; exit 0; }
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
counts=$KILN_TEST_SRCDIR/tests/conformance/counts
example=$KILN_TEST_SRCDIR/examples/vendor-plugin
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -O1 -fPIC -fvisibility=hidden -shared -I"$KILN_TEST_SRCDIR/include" -o "$work/acme.so" "$example/acme.c" \
    "$example/axpy.c" "$example/gemm.c" || { echo "Bail out! the example plugin cannot be built"; exit 99; }
KILN_PLUGIN_PATH=$work:$KILN_PLUGIN_PATH
export KILN_PLUGIN_PATH

tests=0
failures=0
for backend in ref npu acme; do
    case $backend:" $KILN_TEST_PLUGINS " in
    acme:* | *" plugins/$backend "*) ;;
    *) continue ;;
    esac
    tests=$((tests + 1))
    if "$KILN_TEST_BUILDDIR/tests/conformance/count_cases" $backend >"$work/$backend.txt" 2>"$work/errors" &&
        diff "$counts/$backend.txt" "$work/$backend.txt" >"$work/diff"; then
        echo "ok $tests - $backend serves what it did"
    else
        failures=$((failures + 1))
        echo "not ok $tests - $backend serves what it did"
        sed 's/^/# /' "$work/errors" "$work/diff" | head -n 40
    fi
done
echo "1..$tests"
[ $failures -eq 0 ]
