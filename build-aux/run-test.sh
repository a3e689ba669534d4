#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one test with a time limit and an environment that does not depend on the user. Usage: run-test.sh PROGRAM [ARGUMENT…]
# Makefile.am says which variables a test sees.

for name in $(env | sed -n 's/^\(KILN_[A-Za-z0-9_]*\)=.*/\1/p'); do
    case $name in
    KILN_TEST_*) ;;
    *) unset "$name" ;;
    esac
done
unset XDG_CONFIG_HOME XDG_CACHE_HOME XDG_STATE_HOME XDG_DATA_HOME
HOME=$KILN_TEST_BUILDDIR/tests/home
export HOME
mkdir -p "$HOME" || exit 99

CMOCKA_MESSAGE_OUTPUT=TAP
export CMOCKA_MESSAGE_OUTPUT
# Kiln answers for a failed allocation; the sanitizers' allocators must not.
ASAN_OPTIONS=allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}
TSAN_OPTIONS=allocator_may_return_null=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}
UBSAN_OPTIONS=print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}
export ASAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS

limit=${KILN_TEST_TIMEOUT:-900}

# A shell's background jobs ignore interrupts, and so would a test; coreutils before 8.31 cannot mend that.
reset=
if env --default-signal true 2>/dev/null; then reset='env --default-signal'; fi

# cmocka reports a skipped test as "not ok N # SKIP", which the protocol reads as a failure. The exit status goes round the
# pipe through descriptor 3.
exec 4>&1
status=$({ { timeout -k 10 "$limit" $reset "$KILN_TEST_BUILDDIR/run" "$@" 3>&- 4>&-; echo $? >&3; } |
    sed -u 's/^not ok \(.*# SKIP\)/ok \1/' >&4; } 3>&1)
if [ "$status" = 124 ] || [ "$status" = 137 ]; then
    echo "Bail out! $1 was stopped after $limit s (KILN_TEST_TIMEOUT)"
    echo "$1 was stopped after $limit s" >&2
fi
exit "$status"
