#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kiln run: jobs and single GEMMs, right and wrong. Prints TAP.
. "$KILN_TEST_SRCDIR/tests/tools/cli_fixture.sh"

KILN_PROFILE=ref
export KILN_PROFILE
npy a.npy '<f4' '2, 3' "$(f32 1 2 3 4 5 6)"
npy eye.npy '<f4' '3, 3' "$(f32 1 0 0 0 1 0 0 0 1)"
npy row.npy '<f4' '3,' "$(f32 10 -20 0.5)"
npy column.npy '<f4' '2, 1' "$(f32 1 -1)"
npy one.npy '<f4' '1,' "$(f32 1)"
npy square.npy '<f4' '2, 2' "$(f32 1 2 3 4)"
npy batch.npy '<f4' '2, 2, 2' "$(f32 1 2 3 4 0 1 1 0)"
npy bytes.npy '|i1' '2, 2' '\001\002\377\003'
npy empty.npy '<f4' '0, 3' ''
mkdir out

# ---- kiln run gemm: results, bit by bit ----

# computes WHAT SHAPE DATA OPTION…: D is as given.
computes() {
    what=$1 shape=$2 data=$3
    shift 3
    npy expected.npy "${type:-<f4}" "$shape" "$data"
    invoke 0 kiln run gemm --out out/d.npy --compare oracle "$@"
    invoke 0 kiln run gemm --out out/d.npy "$@"
    # The elements; the writer may pad its header differently.
    tail -c +129 expected.npy >expected.bytes
    tail -c "$(wc -c <expected.bytes)" out/d.npy >d.bytes 2>&1
    same d.bytes expected.bytes
    grep -sq "'shape': ($shape)" out/d.npy || problem="${problem:-the shape is not $shape}"
    rm -f out/d.npy
    result "$what"
}
computes "A times identity" '2, 3' "$(f32 1 2 3 4 5 6)" --a a.npy --b eye.npy
computes "alpha" '2, 3' "$(f32 2 4 6 8 10 12)" --a a.npy --b eye.npy --alpha 2
computes "plain product" '2, 2' "$(f32 7 10 15 22)" --a square.npy --b square.npy
computes "transpose_a" '2, 2' "$(f32 10 14 14 20)" --a square.npy --b square.npy --transpose-a
computes "transpose_b" '2, 2' "$(f32 5 11 11 25)" --a square.npy --b square.npy --transpose-b
computes "beta and C" '2, 3' "$(f32 0.5 1 1.5 2 2.5 3)" --a a.npy --b eye.npy --c a.npy --beta -0.5
computes "bias per column, relu" '2, 3' "$(f32 11 0 3.5 14 0 6.5)" --a a.npy --b eye.npy --bias row.npy --epilogue relu
computes "relu, bias: order counts" '2, 3' "$(f32 11 -18 3.5 14 -15 6.5)" --a a.npy --b eye.npy --epilogue relu --bias row.npy
computes "bias per row" '2, 3' "$(f32 2 3 4 3 4 5)" --a a.npy --b eye.npy --bias column.npy
computes "bias of one" '2, 3' "$(f32 2 3 4 5 6 7)" --a a.npy --b eye.npy --bias one.npy
computes "scale by a number, clip" '2, 3' "$(f32 2 4 5 5 5 5)" --a a.npy --b eye.npy --scale 2 --epilogue clip:0:5
computes "scale by a vector" '2, 3' "$(f32 10 -40 1.5 40 -100 3)" --a a.npy --b eye.npy --scale row.npy
computes "residual, multiply" '2, 3' "$(f32 2 8 18 32 50 72)" --a a.npy --b eye.npy --residual a.npy --multiply a.npy
computes "a batch, B shared" '2, 2, 2' "$(f32 7 10 15 22 3 4 1 2)" --a batch.npy --b square.npy
computes "zero rows" '0, 3' '' --a empty.npy --b eye.npy
type='<i4' computes "i8 gives i32" '2, 2' '\377\377\377\377\010\000\000\000\374\377\377\377\007\000\000\000' --a bytes.npy --b bytes.npy
computes "type-out" '2, 2' "$(f32 -1 8 -4 7)" --a bytes.npy --b bytes.npy --type-out f32
same_run="--a a.npy --b eye.npy"
invoke 0 kiln run gemm $same_run --type-out bf16 --out out/d.safetensors --digest
says stdout "bf16" "[2, 3]" "out/d.safetensors"
result "an output of bf16 goes to .safetensors"
computes "and comes back" '2, 2' "$(f32 14 32 32 77)" --a out/d.safetensors:d --b out/d.safetensors:d --transpose-b --type-out f32
rm -f out/*

# ---- kiln run gemm: usage and bad input ----

gemm="kiln run gemm --out out/d.npy"
rejects "gemm: missing a" 2 "--a FILE is missing" $gemm --b a.npy
rejects "gemm: missing b" 2 "--b FILE is missing" $gemm --a a.npy
rejects "gemm: missing out" 2 "--out FILE is missing" kiln run gemm $same_run
rejects "gemm: a twice" 2 "--a is given twice" $gemm --a a.npy $same_run
rejects "gemm: a word" 2 "takes options only, not 'x'" $gemm $same_run x
rejects "gemm: c without beta" 2 "--c and --beta go together" $gemm $same_run --c a.npy
rejects "gemm: beta without c" 2 "--c and --beta go together" $gemm $same_run --beta 1
rejects "gemm: alpha that is no number" 2 "--alpha takes a number, not 'x'" $gemm $same_run --alpha x
rejects "gemm: alpha that is not finite" 2 "--alpha takes a number, not 'nan'" $gemm $same_run --alpha nan
rejects "gemm: unknown type" 2 "there is no type 'f17'" $gemm $same_run --type-out f17
rejects "gemm: unknown epilogue" 2 "(did you mean 'relu'?)" $gemm $same_run --epilogue rely
rejects "gemm: epilogue that needs a tensor" 2 "write --bias FILE" $gemm $same_run --epilogue bias
rejects "gemm: unknown option" 2 "(did you mean '--epilogue'?)" $gemm $same_run --epiloge relu
rejects "gemm: tolerance without compare" 2 "--tolerance is about --compare" $gemm $same_run --tolerance 1
rejects "gemm: negative tolerance" 2 "--tolerance takes a number" $gemm $same_run --compare oracle --tolerance -1
rejects "gemm: file that does not exist" 1 "missing.npy" $gemm --a missing.npy --b eye.npy
rejects "gemm: file of unknown suffix" 1 "a.txt" $gemm --a a.txt --b eye.npy
head -c 140 a.npy >short.npy
rejects "gemm: truncated file" 1 "short.npy" $gemm --a short.npy --b eye.npy
rejects "gemm: empty file" 1 "nothing.npy" sh -c ': >nothing.npy; exec kiln run gemm --out out/d.npy --a nothing.npy --b eye.npy'
rejects "gemm: inner dimensions differ" 1 "a 'a' [2, 3] gives K = 3, b 'b' [2, 2] gives K = 2" $gemm --a a.npy --b square.npy
rejects "gemm: a hint where transposing helps" 1 "it would fit with transpose_b: true" $gemm --a a.npy --b a.npy
rejects "gemm: a vector is no matrix" 1 "a matrix is wanted" $gemm --a row.npy --b eye.npy
rejects "gemm: bias of a wrong length" 1 "[3] is wanted (one per column), [2, 1] (one per row) or [1]" $gemm $same_run --bias square.npy
rejects "gemm: residual of a wrong shape" 1 "but the result is [2, 3]" $gemm $same_run --residual square.npy
rejects "gemm: c of a wrong shape" 1 "but the result is [2, 3]" $gemm $same_run --c square.npy --beta 1
rejects "gemm: types that nobody serves" 1 "step 'gemm': " $gemm --a bytes.npy --b square.npy --type-out i64
rejects "gemm: unknown backend" 1 "nosuch" $gemm $same_run --backend nosuch
rejects "gemm: a backend without a name" 2 "--backend takes a name" $gemm $same_run --backend ''
rejects "gemm: a device without a name" 2 "--device takes a name" $gemm $same_run --device ''
rejects "gemm: a file without a name" 1 "the name of a file is wanted" $gemm --a '' --b eye.npy
rejects "gemm: unknown device" 1 "npu:9" $gemm $same_run --device npu:9
rejects "gemm: unknown backend to compare with" 1 "--compare nosuch" $gemm $same_run --compare nosuch
npy two_batches.npy '<f4' '2, 2, 3' "$(f32 1 2 3 4 5 6 1 2 3 4 5 6)"
npy batch_of_one.npy '<f4' '1, 2, 3' "$(f32 1 2 3 4 5 6)"
computes "residual: a batch of one serves a batch" '2, 2, 3' "$(f32 2 4 6 8 10 12 2 4 6 8 10 12)" \
    --a two_batches.npy --b eye.npy --residual batch_of_one.npy
rejects "gemm: a tensor of an .npy file has no name" 1 "a.npy:x" $gemm --a a.npy:x --b eye.npy
rejects "gemm: tensor that the file lacks" 1 "has no tensor 'layer1.weigt' (did you mean 'layer1.weight'?)" \
    $gemm --a "$digits/weights.safetensors:layer1.weigt" --b eye.npy
rejects "gemm: which of several" 1 "holds 6 tensors: say which of layer1.weight" $gemm --a "$digits/weights.safetensors" --b eye.npy
problem=
leaves out ""
result "no failure left a file"

# ---- Comparisons ----

invoke 1 kiln run gemm $same_run --out out/d.npy --compare ref
says stdout "NOT COMPARED: the step itself ran on ref"
result "a backend is not compared with itself"
invoke 1 kiln run gemm $same_run --out out/d.npy --compare ref --json
says stdout '"compared": false' '"passed": false'
result "nor in JSON"
npy third.npy '<f4' '1, 1' '\253\252\252\076'
npy tenth.npy '<f4' '1, 1' '\315\314\314\075'
invoke 0 kiln run gemm --a third.npy --b tenth.npy --out out/d.npy --compare oracle
says stdout "passed" "error/bound"
result "oracle: within the bound"
invoke 1 kiln run gemm --a third.npy --b tenth.npy --out out/d.npy --compare oracle --tolerance 0
says stdout "FAILED"
result "a tolerance that is not kept fails"
npy huge.npy '<f4' '1, 1' "$(f32 1e30)"
invoke 1 kiln run gemm --a huge.npy --b huge.npy --out out/d.npy --compare oracle --json
says stdout '"unbounded": 1' '"max_difference": 0.0' '"passed": false' "1 of 1 elements have no bound"
result "an element without a bound is no proof"
invoke 0 kiln run gemm --a huge.npy --b huge.npy --out out/d.npy --compare oracle --tolerance 0
result "a tolerance judges it: Inf where the oracle overflows too"
ones=$(i=1; while [ $i -lt 40 ]; do printf ' 1'; i=$((i + 1)); done)
npy tall.npy '<f4' '40, 1' "$(f32 1e30 $ones)"
npy wide.npy '<f4' '1, 40' "$(f32 1e30 $ones)"
invoke 0 kiln run gemm --a tall.npy --b wide.npy --out out/d.npy --compare oracle
grep -q ' 1  passed$' stdout || problem="${problem:-not one element without a bound}"
result "one in a thousand may be without a bound"
npy tall.npy '<f4' '40, 1' "$(f32 1e30 1e30 ${ones# 1})"
invoke 1 kiln run gemm --a tall.npy --b wide.npy --out out/d.npy --compare oracle
says stdout "FAILED: 2 of 1600 elements have no bound"
result "two may not"
npy tall.npy '<f4' '40, 1' "$(f32 1e30 $ones)"
clamps=$KILN_TEST_BUILDDIR/tests/tools/plugins/.libs
what="without a bound, a number is wrong where none can be"
if [ -n "$KILN_TEST_STATIC" ]; then
    skipped "$what" "there are no shared objects"
else
    invoke 1 env KILN_PROFILE= KILN_PLUGIN_PATH="$clamps" kiln run gemm --a tall.npy --b wide.npy --out out/d.npy \
        --set 'plugins=["clamp"]' --compare oracle
    says stdout "clamp" "[0, 0]" "FAILED: the error is beyond the bound"
    result "$what"
    invoke 1 env KILN_PLUGIN_PATH="$clamps:$KILN_PLUGIN_PATH" kiln run gemm --a tall.npy --b wide.npy --out out/d.npy \
        --set 'plugins=["ref", "clamp"]' --compare clamp
    says stdout "ref" "compared with clamp" "FAILED: the error is beyond the bound"
    result "also in the backend that is compared with"
fi
rm -f out/*

# ---- Outputs ----

rejects "out: folder that does not exist" 1 "No such file or directory" kiln run gemm $same_run --out nowhere/d.npy
long=$(printf '%0256d' 0)
rejects "out: a name that is too long" 1 "which is too long; most file systems take 255" kiln run gemm $same_run --out "out/$long.npy"
rejects "out: a folder whose name is too long" 1 "which is too long" kiln run gemm $same_run --out "$long/d.npy"
mkdir folder.npy
rejects "out: a folder" 1 "not a regular file" kiln run gemm $same_run --out folder.npy
rejects "out: unknown suffix" 1 "must end in .npy, .npz or .safetensors" kiln run gemm $same_run --out out/d.txt
rejects "out: a type that .npy lacks" 1 "name a .safetensors file" kiln run gemm $same_run --type-out bf16 --out out/d.npy
rejects "out: a file as folder" 1 "Not a directory" kiln run gemm $same_run --out d.npy --out-dir a.npy
rejects "out: --out-dir of nothing" 2 "--out-dir takes a folder" kiln run gemm $same_run --out d.npy --out-dir ''
ln -s nowhere/d.npy dangling.npy
rejects "out: a link to nowhere" 1 "dangling.npy: No such file" kiln run gemm $same_run --out dangling.npy
[ -L dangling.npy ] || problem="the link was replaced"
result "which stays"
rejects "out: --out-dir that does not exist" 1 "nowhere" kiln run gemm $same_run --out d.npy --out-dir nowhere
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod a-w locked
    rejects "out: folder without permission" 1 "Permission denied" kiln run gemm $same_run --out locked/d.npy
fi
echo old >out/d.npy
chmod 640 out/d.npy
invoke 1 sh -c 'ulimit -f 8; exec "$@"' sh kiln run gemm --a "$digits/images.npy" --b "$digits/images.npy" --transpose-b --out out/d.npy
leaves out "d.npy"
[ "$(cat out/d.npy)" = old ] || problem="${problem:-the old file is gone}"
says stderr "out/d.npy: could not be written"
lacks stderr ".kiln-"
result "a write that fails leaves the old file and nothing else"
invoke 0 kiln run gemm $same_run --out out/d.npy
case $(ls -l out/d.npy) in -rw-r-----*) ;; *) problem="${problem:-permissions changed}" ;; esac
leaves out "d.npy"
result "an old file is replaced and its permissions stay"
rm -f out/d.npy
invoke 1 sh -c 'exec kiln run gemm --a a.npy --b eye.npy --out out/d.npy <&- >&- 2>&-'
invoke 0 kiln run gemm --a out/d.npy --b eye.npy --out out/d.npy --compare oracle
result "descriptors that came closed: exit code 1, and nothing but the tensor in the file"
ln -s d.npy out/link.npy
invoke 0 kiln run gemm $same_run --out out/link.npy
[ -L out/link.npy ] || problem="${problem:-the link was replaced}"
result "a link is followed"
rm -f out/*
invoke 0 kiln run gemm $same_run --out out/d.npy --dry-run
says stdout "dry run: nothing was run, nothing was written" "m=2 n=3 k=3"
leaves out ""
result "--dry-run writes nothing"
invoke 0 kiln run gemm $same_run --dry-run --json
says stdout '"dry_run": true' '"backend": "ref"'
result "--dry-run needs no --out"

finish
