#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the digits job on two profiles, compares both with a loop in double precision, and prints one table.
# Fails unless accuracy, backends, fallbacks, cycles, differences and classes are as they must be.
# Usage: run.sh [KILN], the program to run; "kiln" in PATH by default.

kiln=${1:-kiln}
here=$(cd "$(dirname "$0")" && pwd) || exit 1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# value REPORT KEY: the first value of a key in a report, without quotes. One key stands in each line.
value() {
    sed -n "s/^ *\"$2\": *\"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1" | head -n 1
}

# backends REPORT: steps by backend, such as "npu 3".
backends() {
    sed -n '/"steps_by_backend": {/,/}/s/^ *"\([^"]*\)": *\([0-9]*\),\{0,1\}$/\1 \2/p' "$1" | paste -s -d ',' -
}

problems=$out/problems
: >"$problems"
problem() {
    echo "  $*" >>"$problems"
}

# run PROFILE: leaves the report and the outputs in $out/PROFILE.
run() {
    mkdir -p "$out/$1" || exit 1
    "$kiln" run "$here/digits.yaml" --profile "$1" --compare oracle --digest --json --out-dir "$out/$1" \
        >"$out/$1/report.json"
    code=$?
    [ $code -lt 128 ] || exit $code
    if [ ! -s "$out/$1/report.json" ]; then
        echo "digits: kiln run on profile $1 failed" >&2
        exit 1
    fi
    [ $code -eq 0 ] || problem "$1: a check or comparison of the job failed"
}

row() {
    printf '  %-12s %-22s %-10s %9s %9s %12s %9s %8s\n' "$@"
}

# report PROFILE EXPECTED-BACKENDS: one row, and what is wrong with it.
report() {
    report=$out/$1/report.json
    accuracy=$(value "$report" accuracy)
    correct=$(value "$report" correct)
    total=$(value "$report" total)
    fallbacks=$(value "$report" fallbacks)
    cycles=$(awk '/"totals": \{/ { inside = 1 } inside' "$report" >"$out/totals" && value "$out/totals" cycles)
    [ "$cycles" != null ] || cycles=-
    difference=$(value "$out/totals" max_difference)
    ratio=$(sed -n 's/^ *"bound_ratio": *\([^,]*\),*$/\1/p' "$report" | sort -g | tail -n 1)
    used=$(backends "$report")
    same=yes
    cmp -s "$out/ref/classes.npy" "$out/$1/classes.npy" || same=NO
    row "$1" "$(awk -v a="$accuracy" -v c="$correct" -v t="$total" 'BEGIN { printf "%.2f %% (%d of %d)", 100 * a, c, t }')" \
        "$used" "$fallbacks" "$cycles" "$(printf %.2e "$difference")" "$(printf %.3f "$ratio")" "$same"
    awk -v a="$accuracy" 'BEGIN { exit !(a >= 0.97) }' || problem "$1: accuracy is below 97 %"
    [ "$total" = 360 ] || problem "$1: 360 held-out images are expected, not '$total'"
    [ "$used" = "$2" ] || problem "$1: every step should have run on ${2% *}, but: $used"
    [ "$fallbacks" = 0 ] || problem "$1: $fallbacks steps fell back"
    [ $same = yes ] || problem "$1: some image has another class than on ref"
}

run ref
run npu-davinci
echo "Handwritten digits: three fused GEMM layers (64-128-64-10, f16) on images that training never saw"
echo
row profile accuracy steps fallbacks cycles 'difference' 'of bound' classes
row '' '' '' '' '' 'from oracle' '' 'as ref'
report ref "ref 3"
report npu-davinci "npu 3"
[ "$cycles" -gt 0 ] 2>"$out/totals" || problem "npu-davinci: the device counted no cycles"
echo
echo "  The oracle is a plain loop in double precision; 'of bound' is the largest difference as a share of"
echo "  the documented error bound. The npu is a software model: its cycles are the model's, not hardware's."
if [ -s "$problems" ]; then
    echo
    echo "FAILED:"
    cat "$problems"
    exit 1
fi
