#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds every tests/fuzz/fuzz_NAME.c with clang's libFuzzer and the sanitizers, and runs each on tests/fuzz/corpus/NAME.
# Usage: fuzz.sh SOURCE-ROOT OUTPUT-FOLDER, with CLANG, CPPFLAGS, LIBS and PLUGINS (those that can be built) in the environment.
#   FUZZ_SECONDS     seconds for each (10); 0 = only the inputs of the corpus
#   FUZZ_RUNS        executions of each, in place of seconds
#   FUZZ_ONLY        the names to run, separated by blanks
#   FUZZ_SANITIZERS  address,undefined; empty = none, which is about twice as fast
# New inputs and failures are left in OUTPUT-FOLDER/found/NAME.

src=$1
out=$2
seconds=${FUZZ_SECONDS-10}
sanitizers=${FUZZ_SANITIZERS-address,undefined}
sanitizers=${sanitizers:+,$sanitizers}
if [ -z "$CLANG" ]; then
    echo "make fuzz needs clang. On Debian or Ubuntu:  apt-get install clang; then configure again" >&2
    exit 1
fi
flags="-O1 -g -pthread -fno-omit-frame-pointer -fno-sanitize-recover=undefined -ffp-contract=off"
defines='-DKILN_VERSION=\"fuzz\" -DKILN_STATIC_PLUGIN'
for name in PLUGIN PROFILE SYSCONF; do
    defines="$defines -DKILN_${name}_DIR=\\\"/nonexistent\\\""
done
mkdir -p "$out/bin" || exit 1
# Inputs are small: so may be what is kept of freed memory and of the stacks of allocations. Twice as fast.
export ASAN_OPTIONS="quarantine_size_mb=8:malloc_context_size=8${ASAN_OPTIONS:+:$ASAN_OPTIONS}"

# All of the library in one archive, so that a target names no sources. Programs' main files stay out.
echo "fuzz: compiling the library with $CLANG" >&2
rm -rf "$out/bin/objects" "$out/bin/library.a"
mkdir -p "$out/bin/objects"
folders="support core conformance tools bench"
for plugin in $PLUGINS; do
    folders="$folders $plugin"
done
# shellcheck disable=SC2086
(cd "$src" && find $folders -name '*.c' ! -name main.c ! -path support/preload.c 2>/dev/null) |
    while read -r file; do
        echo "$file $(echo "${file%.c}" | tr / _).o"
    done |
    compile="$CLANG $flags -fsanitize=fuzzer-no-link$sanitizers $defines $CPPFLAGS" src=$src out=$out \
        xargs -P "$(nproc 2>/dev/null || echo 2)" -n 2 sh -c 'eval "$compile -c \"\$src/\$1\" -o \"\$out/bin/objects/\$2\""' sh || exit 1
ar rcs "$out/bin/library.a" "$out"/bin/objects/*.o || exit 1

status=0
ran=0
for target in "$src"/tests/fuzz/fuzz_*.c; do
    [ -e "$target" ] || break
    name=${target##*/fuzz_}
    name=${name%.c}
    case " ${FUZZ_ONLY:-$name} " in *" $name "*) ;; *) continue ;; esac
    # A target that needs a plugin says so: "Plugin: plugins/ref".
    plugin=$(sed -n 's/^ \* Plugin: \([^ ]*\).*/\1/p' "$target")
    case " $PLUGINS " in
    *" $plugin "*) ;;
    *)
        [ -z "$plugin" ] || { echo "fuzz $name: left out: $plugin is not built"; continue; }
        ;;
    esac
    ran=$((ran + 1))
    corpus=$src/tests/fuzz/corpus/$name
    if [ ! -d "$corpus" ]; then
        echo "fuzz $name: FAILED: no corpus in tests/fuzz/corpus/$name"
        status=1
        continue
    fi
    eval "$CLANG $flags -fsanitize=fuzzer$sanitizers $defines $CPPFLAGS '$target' '$out/bin/library.a' $LIBS -o '$out/bin/fuzz_$name'" ||
        exit 1
    found=$out/found/$name
    mkdir -p "$found"
    limit="-max_total_time=$seconds"
    [ "$seconds" != 0 ] || limit=-runs=0
    [ -z "$FUZZ_RUNS" ] || limit="-runs=$FUZZ_RUNS"
    log=$out/bin/$name.log
    # What the code prints itself (file descriptors 1 and 2) is not wanted; libFuzzer and the sanitizers keep a copy of theirs.
    if "$out/bin/fuzz_$name" "$limit" -timeout=20 -rss_limit_mb=2048 -max_len=2048 -close_fd_mask=3 -print_final_stats=1 \
        -artifact_prefix="$found/" "$found" "$corpus" >"$log" 2>&1; then
        executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
        # With -runs=0 libFuzzer counts nothing; it says how many files it ran.
        [ "$limit" != -runs=0 ] || executions=$(sed -n 's/.*INFO: seed corpus: files: \([0-9]*\).*/\1/p' "$log")
        echo "fuzz $name: ${executions:-0} executions, ${rate:-0} a second," \
            "$(find "$corpus" -type f | wc -l) inputs in the corpus, no failure"
    else
        tail -n 40 "$log"
        echo "fuzz $name: FAILED; log: $log, input in $found"
        status=1
    fi
done
[ $ran -gt 0 ] || { echo "fuzz: no target found" >&2; exit 1; }
exit $status
