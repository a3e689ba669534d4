#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kiln explain --measure: what it prints, how it fails. Prints TAP. Nothing here depends on how fast anything is.
. "$KILN_TEST_SRCDIR/tests/tools/cli_fixture.sh"

KILN_PROFILE=ref
export KILN_PROFILE
kiln info --json | grep -q "kiln.gemm/1" || { echo "1..0 # SKIP the plugin ref offers no GEMM here"; exit 0; }
quick="--rounds 3 --slice 1 --set threads.count=1"
measure="kiln explain --measure $quick"

# ---- Usage ----

rejects "without an operator" 2 "name an operator" $measure
rejects "without a shape" 2 "m= is missing" $measure gemm
rejects "an empty shape" 2 "at least 1" $measure gemm m=0 n=1 k=1 type=f32
rejects "a shape beyond counting" 2 "more than 2^56" $measure gemm m=999999999999 n=999999999999 k=9 type=f32
rejects "a descriptor" 2 "--measure takes a GEMM in words" $measure acme.sort/1 descriptor=0800000000000000
rejects "a backend that is not there" 1 "nosuch" $measure gemm m=4 n=4 k=4 type=f32 backend=nosuch
rejects "a device that is not there" 1 "gpu:7" $measure gemm m=4 n=4 k=4 type=f32 device=gpu:7
rejects "--rounds" 2 "--rounds takes a whole number from 1" kiln explain --measure --rounds 0 gemm m=4 n=4 k=4 type=f32
rejects "--slice" 2 "--slice takes a whole number from 1" kiln explain --measure --slice x gemm m=4 n=4 k=4 type=f32
invoke 0 kiln explain --help
says stdout "--measure" "packing" "tails" "bandwidth" "call overhead" "rest" "direct call" "not reported" "negative"
result "--help says how each number is found"

# ---- On the host ----

shape="m=33 n=20 k=40 type=f32 transpose_b epilogues=bias,relu"
invoke 0 $measure gemm $shape
says stdout "m=33 n=20 k=40" "on ref, host" "run " "ceiling of arithmetic" "ceiling of memory" "GB/s" "gap " "  bandwidth " "  packing " \
    "  tails " "  call overhead " "  rest " "direct call " "with A and B packed beforehand" "m=64 n=64 k=64" \
    "a guess: the device names no block" "the run against itself reads" "of the ceiling that binds"
result "every part has its line and says how it was found"
invoke 0 $measure kiln.gemm/1 $shape --json
says stdout '"operator": "kiln.gemm/1"' '"backend": "ref"' '"unit": "ns"' '"run"' '"ceiling_of_arithmetic"' '"ceiling_of_memory"' \
    '"gap"' '"bandwidth"' '"packing"' '"tails"' '"call_overhead"' '"rest"' '"direct_call"' '"interval"' '"self_ratio"' '"block_told": false'
[ "$(grep -c '"reported": true' stdout)" -eq 10 ] || problem="${problem:-$(grep -c '"reported": true' stdout) numbers of 10 are reported}"
result "--json"
# The value lies within its interval, in each of the ten.
awk '/"value":/ { value = $2 + 0 }
    /"interval":/ { getline; low = $1 + 0; getline; high = $1 + 0; outside += low > value || value > high; count++ }
    END { exit outside > 0 || count != 10 }' stdout || problem="a value is outside of its interval"
result "values lie within their intervals"
invoke 0 $measure gemm m=64 n=128 k=64 type=f64
says stdout "none: m, n and k are multiples of 64, 64 and 64"
result "whole blocks have no tails"

# ---- On a model ----

case " $KILN_TEST_PLUGINS " in
*" plugins/npu "*)
    npu="kiln explain --measure --profile npu-davinci gemm m=33 n=64 k=64 type=f16"
    invoke 0 $npu
    says stdout "cycles" "not reported" "it has cycles, and neither times nor ceilings" "moved: " "m=48 n=64 k=64"
    lacks stdout "GFLOP/s"
    result "a model has cycles, and says what it cannot tell"
    invoke 0 $npu --json
    says stdout '"unit": "cycles"' '"block_told": true' '"gflops": null'
    [ "$(grep -c '"reported": true' stdout)" -eq 3 ] || problem="${problem:-$(grep -c '"reported": true' stdout) numbers of 3 are reported}"
    cp stdout once
    result "a model --json"
    invoke 0 $npu --json
    same stdout once
    result "cycles do not vary"
    ;;
esac

# ---- Interruption ----

: >stdout
kiln explain --measure --rounds 100000 --slice 50 gemm m=64 n=64 k=64 type=f32 >stdout 2>stderr &
process=$!
# Once it catches the signal, it may come at any time.
until catches $process || ended $process; do
    sleep 0.1
done
kill -INT $process
wait $process
code=$?
problem=
[ $code -eq 130 ] || problem="exit code $code instead of 130"
grep -q "interrupted" stdout stderr || problem="${problem:-nothing is said of it}"
result "an interrupt ends it"

finish
