#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kiln run JOB.yaml: the digits job, malformed jobs, outputs and interruption. Prints TAP.
. "$KILN_TEST_SRCDIR/tests/tools/cli_fixture.sh"

KILN_PROFILE=ref
export KILN_PROFILE
mkdir out
npy a.npy '<f4' '2, 3' "$(f32 1 2 3 4 5 6)"
npy b.npy '<f4' '3, 2' "$(f32 1 0 0 1 1 1)"
npy v.npy '<f4' '2,' "$(f32 1 -10)"
npy labels.npy '|u1' '2,' '\000\001'
npy rows.npy '<i8' '2,' '\001\000\000\000\000\000\000\000\001\000\000\000\000\000\000\000'
npy beyond.npy '<i8' '1,' '\002\000\000\000\000\000\000\000'
npy negative.npy '<i8' '1,' '\377\377\377\377\377\377\377\377'

# ---- The digits job ----

invoke 0 kiln run "$digits/digits.yaml" --out-dir out --compare oracle --digest
says stdout "profile ref" "hidden1" "hidden2" "fallbacks = 0" "staged = 0 B" "compared with oracle" "accuracy 98.6 % (355 of 360)"
lacks stdout "FAILED"
leaves out "classes.npy logits.npy"
sed -n 's/^\(logits\|classes\) .*\] *\([0-9a-f]\{32\}\) .*/\1 \2/p' stdout >first
result "digits on ref, compared with the oracle"
invoke 0 kiln run "$digits/digits.yaml" --out-dir out --digest --set threads.count=1
sed -n 's/^\(logits\|classes\) .*\] *\([0-9a-f]\{32\}\) .*/\1 \2/p' stdout >second
[ "$(wc -l <first)" -eq 2 ] || problem="${problem:-no digests}"
same first second
result "the digests are those of one thread"
invoke 0 kiln run "$digits/digits.yaml" --out-dir out --json
says stdout '"job": "digits"' '"ref": 3' '"fallbacks": 0' '"correct": 355' '"passed": true'
result "digits --json"
rm -f out/*
invoke 0 kiln run "$digits/digits.yaml" --dry-run
says stdout "m=360 n=128 k=64" "dry run"
leaves out ""
result "digits --dry-run"

# ---- Several devices ----

cat >npu.yaml <<'END'
schema: 1
name: npu-test
plugins: [npu, ref]
operators: {kiln.gemm/1: [npu, ref]}
devices: {default: "npu:0"}
END
# One step on each of two devices and the host.
sed -e "s|file: \([ilw]\)|file: $digits/\1|; s|rows: |rows: $digits/|" \
    -e 's/^    d: {name: h2,.*/    backend: ref\n&/; s/^    d: {name: logits,.*/    device: "npu:1"\n&/' \
    "$digits/digits.yaml" >mixed.yaml
npy half.npy '<f2' '2, 2' '\000\074\000\100\000\102\000\104'
npy whole.npy '<f4' '2, 2' "$(f32 1 2 3 4)"
if kiln info --profile ./npu.yaml 2>/dev/null | grep -q '^  npu .* open '; then
    invoke 0 kiln run "$digits/digits.yaml" --profile ./npu.yaml --out-dir out --compare ref --json
    says stdout '"npu": 3' '"fallbacks": 0' '"copied_bytes": 0' '"with": "ref"' '"correct": 355'
    lacks stdout '"cycles": 0'
    lacks stdout '"cycles": null'
    result "digits on npu, compared with ref"
    invoke 0 kiln run mixed.yaml --profile ./npu.yaml --out-dir out --compare oracle
    says stdout "npu:0" "host" "npu:1" "copied = 152.5 KiB" "fallbacks = 0" "355 of 360" "is a software model"
    result "steps on two devices and the host"
    invoke 0 kiln run mixed.yaml --profile ./npu.yaml --out-dir out
    says stdout "copied = 152.5 KiB"
    result "a comparison is no step's cost"
    invoke 1 kiln run mixed.yaml --profile ./npu.yaml --out-dir out --compare ref
    says stdout "NOT COMPARED: the step itself ran on ref"
    [ "$(grep -c '[0-9]  passed$' stdout)" -eq 2 ] || problem="${problem:-not two comparisons}"
    result "a mixed job is compared where it can be"
    invoke 0 kiln run gemm --profile ./npu.yaml --a whole.npy --b whole.npy --out out/d.npy
    says stdout "fallbacks = 1" "YES" "step 'gemm' fell back: on npu:0: " "a_type = f32" "copied = 32 B"
    result "a step that the device cannot serve falls back, and says so"
    rejects "a device that is asked for is not left" 1 "a_type = f32" \
        kiln run gemm --profile ./npu.yaml --a whole.npy --b whole.npy --out out/d.npy --device npu:1
    invoke 0 kiln run gemm --profile ./npu.yaml --set devices.default=host --set staging.policy=allow \
        --a half.npy --b half.npy --out out/d.npy --compare oracle
    says stdout "staged = 24 B" "npu" "fallbacks = 0"
    result "staging by the library is counted"
    rm -f out/*
else
    skipped "steps on npu and on several devices" "the plugin npu does not open"
fi
if kiln info --profile npu-davinci 2>/dev/null | grep -q '^  npu .* open '; then
    invoke 0 sh "$digits/run.sh" kiln
    says stdout "98.61 % (355 of 360)" "npu 3" "yes"
    lacks stdout "FAILED"
    result "examples/digits/run.sh"
else
    skipped "examples/digits/run.sh" "the plugin npu does not open"
fi

# ---- Malformed jobs ----

head='schema: 1
tensors: {a: a.npy, b: {file: b.npy}, v: v.npy, labels: labels.npy}
'
step='steps: [{operator: kiln.gemm/1, a: a, b: b, d: d}]
'
# refuses WHAT TEXT JOB: the job, written to job.yaml, is refused with the text before anything runs.
refuses() {
    printf '%s' "$3" >job.yaml
    invoke 1 kiln run job.yaml --out-dir out
    says stderr "$2"
    [ ! -s stdout ] || problem="${problem:-something was printed on standard output}"
    leaves out ""
    result "$1"
}
refuses "no YAML" "job.yaml:2:1: " 'schema: [1
'
refuses "an empty file" "job.yaml" ''
refuses "a list" "job.yaml:1:1: " '- 1
'
refuses "an unknown key" "job.yaml:3:1: unknown key 'step' (did you mean 'steps'?)" "${head}step: []
"
refuses "a duplicate key" "duplicate key 'schema'" "schema: 1
schema: 1
"
refuses "no schema" "'schema' is missing" 'tensors: {}
steps: []
'
refuses "a later schema" "job.yaml:1:9: this kiln reads jobs of schema 1, not 2" 'schema: 2
'
refuses "no steps" "'steps' is missing" "$head"
refuses "an empty list of steps" "job.yaml:3:8: steps: a job needs at least one" "${head}steps: []
"
refuses "steps that are no list" "job.yaml:3:8: " "${head}steps: 5
"
refuses "a tensor without file" "'file' is missing" 'schema: 1
tensors: {a: {rows: a.npy}}
steps: []
'
refuses "an unknown key of a tensor" "(did you mean 'rows'?)" 'schema: 1
tensors: {a: {file: a.npy, row: a.npy}}
steps: []
'
refuses "an unknown key of a step" "(did you mean 'transpose_b'?)" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: d, transposeb: true}]
"
refuses "an unknown operator" "job.yaml:3:20: operator: expected one of kiln.gemm/1" "${head}steps: [{operator: kiln.gem/1, a: a, b: b, d: d}]
"
refuses "a step without operator" "a step needs 'operator'" "${head}steps: [{a: a, b: b, d: d}]
"
refuses "a step without b" "a step needs 'b'" "${head}steps: [{operator: kiln.gemm/1, a: a, d: d}]
"
refuses "a step without d" "a step needs 'd'" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b}]
"
refuses "an unknown tensor" "job.yaml:4:44: there is no tensor 'labes' (did you mean 'labels'?)" "${head}steps:
  - {operator: kiln.gemm/1, a: a, d: d, b: labes}
"
refuses "a tensor of a later step" "is made only by the step in line 5" "${head}steps:
  - {operator: kiln.gemm/1, a: e, b: b, d: d}
  - {operator: kiln.gemm/1, a: a, b: b, d: {name: e}}
"
refuses "a result whose name is taken" "there already is a tensor 'v', in line 2" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: v}]
"
refuses "an unknown type" "job.yaml:3:64: type: expected one of f64, f32" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: {name: d, type: f1}}]
"
refuses "an unknown epilogue" "expected one of bias, relu" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: d, epilogues: [rely]}]
"
refuses "an epilogue without its tensor" "needs a value" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: d, epilogues: [bias]}]
"
refuses "an epilogue with a value too many" "relu takes no value" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: d, epilogues: [{relu: v}]}]
"
refuses "clip with one limit" "clip takes two numbers" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: d, epilogues: [{clip: [1]}]}]
"
refuses "clip upside down" "above the upper one" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: d, epilogues: [{clip: [1, 0]}]}]
"
refuses "nine epilogues" "at most 8" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: d, epilogues: [relu, relu, relu, relu, relu, relu, relu, relu, relu]}]
"
refuses "c without beta" "c is used only with a beta" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, c: a, d: d}]
"
refuses "beta without c" "needs c" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, beta: 1, d: d}]
"
refuses "a number that is none" "alpha" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, alpha: much, d: d}]
"
refuses "shapes that do not fit, at the step" "job.yaml:3:42: step 'd': the inner dimensions differ" "${head}steps: [{operator: kiln.gemm/1, a: a, b: a, d: d}]
"
refuses "a bias that does not fit" "step 'd': bias 'v' is [2]; [3] is wanted" "${head}steps: [{operator: kiln.gemm/1, a: b, b: a, d: d, epilogues: [{bias: v}]}]
"
refuses "types that nobody serves" "job.yaml:3:9: step 'd': " "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: {name: d, type: bool}}]
"
refuses "an unknown backend" "nosuch" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: d, backend: nosuch}]
"
refuses "an unknown device" "job.yaml:3:9: step 'd': " "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: d, device: 'npu:77'}]
"
refuses "a file that does not exist" "job.yaml:2:11: missing.npy" "schema: 1
tensors: {a: missing.npy, b: b.npy}
$step"
refuses "rows beyond the tensor" "beyond.npy[0] is 2, but a.npy has rows 0 to 1" "schema: 1
tensors: {a: {file: a.npy, rows: beyond.npy}, b: b.npy}
$step"
refuses "negative rows" "negative.npy[0] is -1" "schema: 1
tensors: {a: {file: a.npy, rows: negative.npy}, b: b.npy}
$step"
refuses "rows that are no whole numbers" "a vector of whole numbers is wanted" "schema: 1
tensors: {a: {file: a.npy, rows: v.npy}, b: b.npy}
$step"
refuses "an output that is no tensor" "there is no tensor 'e'" "$head${step}outputs: {e: e.npy}
"
refuses "two outputs to one file" "both go to d.npy" "$head${step}outputs: {d: d.npy, a: d.npy}
"
refuses "two outputs to one file by two names" "another output goes there too" "$head${step}outputs: {d: d.npy, a: ../out/d.npy}
"
refuses "classes of a vector" "one column per class" "$head${step}outputs: {c: {scores: v, file: c.npy}}
"
refuses "a backend without a name" "backend: a name is wanted" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: d, backend: ''}]
"
refuses "a device without a name" "device: a name is wanted" "${head}steps: [{operator: kiln.gemm/1, a: a, b: b, d: d, device: ''}]
"
refuses "a file without a name" "the name of a file is wanted" "schema: 1
tensors: {a: '', b: b.npy}
$step"
refuses "an output whose name is too long" "which is too long; most file systems take 255" "$head${step}outputs: {d: $(printf '%0252d' 0).npy}
"
refuses "an output to a folder that does not exist" "No such file or directory" "$head${step}outputs: {d: nowhere/d.npy}
"
refuses "an unknown check" "(did you mean 'accuracy'?)" "$head${step}checks: [{acuracy: {}}]
"
refuses "a check without limit" "'at_least' is missing" "$head${step}checks: [{accuracy: {scores: d, labels: labels}}]
"
refuses "a limit beyond 1" "at_least" "$head${step}checks: [{accuracy: {scores: d, labels: labels, at_least: 97}}]
"
refuses "labels that do not fit" "one for each of the 2 rows of 'd' is wanted" "$head${step}checks: [{accuracy: {scores: d, labels: a, at_least: 0.5}}]
"
refuses "a tensor without a name" "a tensor's name may not be empty" "schema: 1
tensors: {'': a.npy, b: b.npy}
$step"
refuses "a result without a name" "a tensor's name may not be empty" "$head
steps: [{operator: kiln.gemm/1, a: a, b: b, d: ''}]
"
refuses "an output without a name" "an output's name may not be empty" "$head${step}outputs: {'': {scores: d, file: c.npz}}
"
refuses "a factor beyond every number" "alpha: expected a number, found '1e999'" "$head
steps: [{operator: kiln.gemm/1, a: a, b: b, d: d, alpha: 1e999}]
"
# 2^24 rows of 2^40 bytes each are 2^64 bytes; the files are holes.
printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1099511627776), }" >wide.npy
printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (16777216,), }" >many.npy
if grep -q __tsan_init "$KILN_TEST_BUILDDIR/.libs/kiln" "$KILN_TEST_BUILDDIR/kiln" 2>/dev/null; then
    skipped "rows beyond what can be counted" "ThreadSanitizer cannot map a terabyte"
elif truncate -s 1099511627904 wide.npy 2>/dev/null && truncate -s 16777344 many.npy; then
    refuses "rows beyond what can be counted" "which is too large" "schema: 1
tensors: {w: {file: wide.npy, rows: many.npy}, a: a.npy, b: b.npy}
${step}outputs: {w: w.npy}
"
fi
rm -f wide.npy many.npy
rejects "a job that does not exist" 1 "missing.yaml" kiln run missing.yaml
rejects "a folder as job" 1 "kiln run: " kiln run out
rejects "no job" 2 "name a job file" kiln run
rejects "two jobs" 2 "takes one job file, not 2" kiln run job.yaml job.yaml
yes 'x: [' 2>/dev/null | head -c 3000000 >job.yaml
rejects "a huge job" 1 "job.yaml" kiln run job.yaml

# ---- Rows, classes, checks ----

# job TEXT: writes job.yaml
job() {
    printf '%s' "$1" >job.yaml
}
job "schema: 1
tensors: {a: {file: a.npy, rows: rows.npy}, b: b.npy}
${step}outputs: {d: d.npz, a: d.npz, c: {scores: d, file: c.npy}}
"
invoke 0 kiln run job.yaml --out-dir out
leaves out "c.npy d.npz"
says stdout "[2, 2]" "c.npy"
result "rows, classes, and two outputs in one .npz"
npy both.npy '<f4' '2, 2' "$(f32 10 11 10 11)"
invoke 0 kiln run gemm --a out/d.npz:d --b both.npy --compare oracle --out out/e.npy
npy eye.npy '<f4' '2, 2' "$(f32 1 0 0 1)"
invoke 0 kiln run gemm --a out/d.npz:d --b eye.npy --out out/e.npy
tail -c 16 both.npy >expected.bytes
tail -c 16 out/e.npy >e.bytes
same e.bytes expected.bytes
tail -c 16 out/c.npy >c.bytes
printf '\001\000\000\000\000\000\000\000\001\000\000\000\000\000\000\000' >expected.bytes
same c.bytes expected.bytes
result "they hold the second row, twice, and its class"
rm -f out/*

# Scores are [[4, 5], [10, 11]]: class 1 twice; the labels are 0 and 1.
job "$head${step}outputs: {d: d.npy}
checks: [{accuracy: {scores: d, labels: labels, at_least: 0.5}}]
"
invoke 0 kiln run job.yaml --out-dir out
says stdout "accuracy 50.0 % (1 of 2), wanted 50.0 %: passed"
result "a check that just passes"
job "$head${step}outputs: {d: d.npy}
checks: [{accuracy: {scores: d, labels: labels, at_least: 0.51}}]
"
rm -f out/*
invoke 1 kiln run job.yaml --out-dir out
says stdout "accuracy 50.0 % (1 of 2), wanted 51.0 %: FAILED"
leaves out "d.npy"
result "a check that fails: exit code 1, outputs written"
rm -f out/*

# ---- All outputs or none ----

job "schema: 1
tensors: {a: a.npy, b: b.npy, images: '$digits/images.npy'}
steps:
  - {operator: kiln.gemm/1, a: a, b: b, d: small}
  - {operator: kiln.gemm/1, a: images, b: images, transpose_b: true, d: large}
outputs: {small: small.npy, large: large.npy}
"
invoke 1 sh -c 'ulimit -f 64; exec kiln run job.yaml --out-dir out'
says stderr "large.npy"
leaves out ""
result "when one output fails, none is written"

# ---- Interruption: steps that take many seconds, stopped at once ----

{
    echo "schema: 1"
    echo "tensors: {a: '$digits/images.npy', b: {file: '$digits/weights.safetensors', tensor: layer1.weight}}"
    echo "steps:"
    i=0
    while [ $i -lt 1500 ]; do
        echo "  - {operator: kiln.gemm/1, a: a, b: b, transpose_b: true, d: d$i}"
        i=$((i + 1))
    done
    echo "outputs: {d0: d0.npy}"
} >job.yaml
for signal in INT TERM; do
    problem=
    kiln run job.yaml --out-dir out --compare oracle >stdout 2>stderr &
    job=$!
    until catches $job || ended $job; do
        sleep 0.1
    done
    sleep 1
    kill -$signal $job
    wait $job
    code=$?
    [ $signal = INT ] && wanted=130 || wanted=143
    [ $code -eq $wanted ] || problem="exit code $code instead of $wanted"
    says stderr "stopped by a signal; nothing was written"
    leaves out ""
    result "SIG$signal stops at the next step"
done

# The next step never comes while a pipe as the job keeps the program waiting: the second signal, of either kind, ends it.
# ThreadSanitizer holds signals back while the program waits so.
if grep -q __tsan_init "$KILN_TEST_BUILDDIR/.libs/kiln" "$KILN_TEST_BUILDDIR/kiln" 2>/dev/null; then
    skipped "a second signal, also another one, ends kiln run at once" "ThreadSanitizer defers signals"
else
    mkfifo waiting.yaml
    kiln run waiting.yaml >stdout 2>stderr &
    job=$!
    exec 9>waiting.yaml # waits for the program to read: then it has looked for signals for the last time
    kill -INT $job
    while catches $job; do
        sleep 0.1
    done
    sleep 1
    problem=
    ! ended $job || problem="the first signal ended it"
    kill -TERM $job
    (sleep 60; kill -KILL $job) >/dev/null 2>&1 &
    guard=$!
    wait $job
    code=$?
    kill $guard 2>/dev/null
    exec 9>&-
    [ $code -eq 143 ] || problem="${problem:-exit code $code instead of 143}"
    result "a second signal, also another one, ends kiln run at once"
fi

finish
