#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kiln run: scales, zero points, groups, swiglu, quantised results, bias gradients, precision. Prints TAP.
. "$KILN_TEST_SRCDIR/tests/tools/cli_fixture.sh"

KILN_PROFILE=ref
export KILN_PROFILE
mkdir out

# i32 NUMBER…: the numbers as data for npy.
i32() {
    echo "$@" | tr ' ' '\n' | awk '{
        x = $1 < 0 ? $1 + 4294967296 : $1
        for (i = 0; i < 4; i++) {
            printf "\\%03o", x % 256
            x = int(x / 256)
        }
    }'
}

# holds FILE SHAPE DATA: the last elements of an .npy file, and its shape.
holds() {
    npy expected.npy '<f4' "$2" "$3"
    tail -c +129 expected.npy >expected.bytes
    tail -c "$(wc -c <expected.bytes)" "$1" >found.bytes 2>&1
    same found.bytes expected.bytes
    grep -sqa "'shape': ($2)" "$1" || problem="${problem:-the shape of $1 is not $2}"
}

# e4m3: 1 is \070, 2 \100, 0.5 \060.
npy x.npy '|u1' '3, 2' '\070\100\060\070\100\100'
npy id.npy '|u1' '2, 2' '\070\000\000\070'
npy w.npy '|u1' '2, 2, 2' '\070\000\000\070\100\000\000\100'
npy ws.npy '<f4' '2, 1, 1' "$(f32 1 10)"
npy s3.npy '<f4' '3,' "$(f32 1 2 0.5)"
npy s31.npy '<f4' '3, 1' "$(f32 1 2 0.5)"
npy s2.npy '<f4' '2,' "$(f32 1 10)"
npy s22.npy '<f4' '2, 2' "$(f32 1 10 2 3)"
npy one.npy '<f4' '1,' "$(f32 10)"
npy a.npy '<f4' '2, 3' "$(f32 1 2 3 4 5 6)"
npy a3.npy '<f4' '2, 2, 3' "$(f32 1 2 3 4 5 6 1 2 3 4 5 6)"
npy square.npy '<f4' '2, 2' "$(f32 1 2 3 4)"
npy eye2.npy '<f4' '2, 2' "$(f32 1 0 0 1)"
npy eye.npy '<f4' '3, 3' "$(f32 1 0 0 0 1 0 0 0 1)"
npy b4.npy '<f4' '3, 4' "$(f32 1 0 2 0 0 1 0 3 1 1 1 1)"
npy gb.npy '<f4' '2, 2' "$(f32 100 200 1000 2000)"
npy i8.npy '|i1' '2, 3' '\001\002\003\377\376\375'
npy u8.npy '|u1' '3, 2' '\012\013\014\015\016\017'
npy ten.npy '|u1' '1,' '\012'
npy ten2.npy '|u1' '1, 2' '\012\012'
npy ks.npy '<f4' '3, 1' "$(f32 1 0.5 0.25)"
npy i4.npy '|u1' '2, 2' '\041\003\377\016'
npy r192.npy '|u1' '1, 192' "$(awk 'BEGIN { for (i = 0; i < 192; i++) printf "\\070" }')"
npy c192.npy '|u1' '192, 1' "$(awk 'BEGIN { for (i = 0; i < 192; i++) printf "\\070" }')"
npy s12.npy '<f4' '1, 2' "$(f32 1 10)"
npy s41.npy '<f4' '4, 1' "$(f32 1 2 3 4)"
npy six.npy '|u1' '6, 2' '\070\070\070\070\070\070\070\070\070\070\070\070'
npy rows.npy '<i4' '3,' "$(i32 1 -1 0)"
npy beyond.npy '<i4' '3,' "$(i32 1 2 0)"
npy counts.npy '<i4' '2,' "$(i32 1 2)"
npy ends.npy '<i4' '2,' "$(i32 2 3)"
npy none.npy '<i4' '0,' ''
npy wide.npy '<i8' '2,' '\001\000\000\000\000\000\000\000\001\000\000\000\000\000\000\000'
files='id: {file: id.npy, type: e4m3}, w: {file: w.npy, type: e4m3, scale: ws}, ws: ws.npy, s3: s3.npy, s31: s31.npy, s2: s2.npy,
    s22: s22.npy, one: one.npy, a: a.npy, a3: a3.npy, square: square.npy, eye2: eye2.npy, eye: eye.npy, b4: b4.npy, gb: gb.npy,
    i8: i8.npy, u8: u8.npy, ten: ten.npy, ks: ks.npy, rows: rows.npy, beyond: beyond.npy, counts: counts.npy, ends: ends.npy,
    none: none.npy, wide: wide.npy, s12: s12.npy, s41: s41.npy'

# job TENSORS STEP [REST]: a job of one step, written to job.yaml.
job() {
    printf 'schema: 1\ntensors: {%s,\n    %s}\nsteps: [{operator: kiln.gemm/1, %s}]\n%s\n' "$files" "$1" "$2" "${3:-outputs: {d: d.npy\}}" >job.yaml
}

# computes WHAT SHAPE DATA TENSORS STEP: D, f32, is as given, and as the oracle says.
computes() {
    job "$4" "$5"
    invoke 0 kiln run job.yaml --out-dir out --compare oracle
    says stdout "passed"
    holds out/d.npy "$2" "$3"
    rm -f out/*
    result "$1"
}

# ---- Scales and zero points ----

computes "a scale for each row" '3, 2' "$(f32 1 2 1 2 1 1)" 'x: {file: x.npy, type: e4m3, scale: s31}' 'a: x, b: id, d: d'
computes "the same from a vector" '3, 2' "$(f32 1 2 1 2 1 1)" 'x: {file: x.npy, type: e4m3, scale: s3}' 'a: x, b: id, d: d'
computes "a scale for each column" '3, 2' "$(f32 1 20 0.5 10 2 20)" 'x: {file: x.npy, type: e4m3, scale: s2}' 'a: x, b: id, d: d'
computes "one scale" '3, 2' "$(f32 10 20 5 10 20 20)" 'x: {file: x.npy, type: e4m3, scale: one}' 'a: x, b: id, d: d'
computes "a scale for each block" '3, 2' "$(f32 1 20 0.5 10 4 6)" \
    'x: {file: x.npy, type: e4m3, scale: s22, block: [2, 1]}' 'a: x, b: id, d: d'
# Blocks of 128 and 64; halves would give 1056.
computes "a block that is not said is a power of two" '1, 1' "$(f32 768)" \
    'x: {file: r192.npy, type: e4m3, scale: s12}, y: {file: c192.npy, type: e4m3}' 'a: x, b: y, d: {name: d, type: f32}'
computes "another one is said" '1, 1' "$(f32 1056)" \
    'x: {file: r192.npy, type: e4m3, scale: s12, block: [1, 96]}, y: {file: c192.npy, type: e4m3}' 'a: x, b: y, d: {name: d, type: f32}'
npy diagonal.npy '<f4' '2, 2' "$(f32 1 0 0 10)"
computes "of B, transposed" '2, 3' "$(f32 1 1 1 20 20 10)" \
    'x: {file: x.npy, type: e4m3, scale: s31}, y: diagonal.npy' 'a: y, b: x, transpose_b: true, d: d'
invoke 0 kiln explain kiln.gemm/1 m=8 n=8 k=8 a=e4m3 b=i8
says stdout "e4m3×i8→f32"
invoke 0 kiln explain kiln.gemm/1 m=8 n=8 k=8 a=i8 b=e4m3
says stdout "i8×e4m3→f32"
invoke 0 kiln explain kiln.gemm/1 m=8 n=8 k=8 a=e4m3 b=e5m2
says stdout "e4m3×e5m2→e4m3"
result "the type of D where one of A and B is an integer"
computes "e4m3 and f32 together: D is f32" '3, 2' "$(f32 1 2 0.5 1 2 2)" 'x: {file: x.npy, type: e4m3}' 'a: x, b: eye2, d: d'
computes "zero points, one for all" '2, 2' "$(f32 16 22 -16 -22)" \
    'y: {file: u8.npy, zero_point: ten}' 'a: i8, b: y, d: {name: d, type: f32}'
computes "scales with one zero point" '2, 2' "$(f32 5 7.75 11 19)" \
    'y: {file: u8.npy, scale: ks, zero_point: ten}' 'a: a, b: y, d: d'
computes "i4, two in a byte" '2, 4' "$(f32 -1 0 -1 0 -1 2 1 0)" 'y: {file: i4.npy, type: i4}' 'a: square, b: y, d: d'
type_i4='y: {file: i4.npy, type: i4, scale: y_scale, block: [1, 2]}, y_scale: s22.npy'
computes "i4 with a scale for every two columns" '2, 4' "$(f32 -3 -2 18 0 -5 -2 66 0)" "$type_i4" 'a: square, b: y, d: d'

npy z3.npy '|u1' '1, 1' '\003'
npy z33.npy '|u1' '1, 1' '\063'
npy zv3.npy '|u1' '1,' '\003'
npy minus.npy '|i1' '1, 1' '\375'
npy rows3.npy '|u1' '2, 1' '\001\002'
npy z21.npy '|u1' '1, 1' '\022'
# y is 1 2 3 0 and -1 -1 -2 0.
for zero in z3 z33 zv3; do
    computes "i4: one zero point, $zero" '2, 4' "$(f32 -10 -9 -10 -9 -22 -19 -20 -21)" \
        "y: {file: i4.npy, type: i4, zero_point: z}, z: {file: $zero.npy, type: i4}" 'a: square, b: y, d: d'
done
computes "i4: one zero point below 0" '2, 4' "$(f32 8 9 8 9 20 23 22 21)" \
    'y: {file: i4.npy, type: i4, zero_point: z}, z: {file: minus.npy, type: i4}' 'a: square, b: y, d: d'
computes "i4: one zero point for each row" '2, 4' "$(f32 -6 -5 -6 -5 -12 -9 -10 -11)" \
    'y: {file: i4.npy, type: i4, zero_point: z}, z: {file: rows3.npy, type: i4}' 'a: square, b: y, d: d'
npy s21.npy '<f4' '2, 1' "$(f32 1 2)"
computes "i4: one zero point, a scale for each row" '2, 4' "$(f32 -18 -17 -20 -15 -38 -35 -40 -33)" \
    "y: {file: i4.npy, type: i4, scale: y_scale, zero_point: z}, y_scale: s21.npy, z: {file: z3.npy, type: i4}" \
    'a: square, b: y, d: d'
computes "i4: two zero points in a byte, by the block" '2, 4' "$(f32 -7 -6 -4 -3 -15 -12 -6 -7)" \
    'y: {file: i4.npy, type: i4, zero_point: z, block: [2, 2]}, z: {file: z21.npy, type: i4}' 'a: square, b: y, d: d'
invoke 0 kiln run gemm --a square.npy --b i4.npy --b-type i4 --b-zero-point z3.npy --out out/d.npy --compare oracle
holds out/d.npy '2, 4' "$(f32 -10 -9 -10 -9 -22 -19 -20 -21)"
result "gemm: i4 with one zero point"
rm -f out/*

# ---- Groups ----

grouped='x: {file: x.npy, type: e4m3, scale: s31}'
computes "contiguous groups of a quantised product; padding is 0" '3, 2' "$(f32 20 40 0 0 1 1)" "$grouped" \
    'a: x, b: w, groups: {contiguous: rows}, d: d'
computes "a bias for each group" '3, 2' "$(f32 1020 2040 0 0 101 201)" "$grouped" \
    'a: x, b: w, groups: {contiguous: rows}, epilogues: [{bias: gb}], d: d'
job "$grouped" 'a: x, b: w3, groups: {contiguous: rows}, d: {name: h, type: e2m1, scale: s}}, {operator: kiln.gemm/1, a: h, b: eye, d: {name: d, type: f32}' \
    'outputs: {d: d.npy}'
sed -i 's|^tensors: {|&w3: {file: w3.npy, type: e4m3}, |' job.yaml
npy w3.npy '|u1' '2, 2, 3' '\070\000\000\000\070\000\070\000\000\000\070\000'
invoke 0 kiln run job.yaml --out-dir out --compare oracle
[ "$(grep -c "  passed$" stdout)" -eq 2 ] || problem="${problem:-not two comparisons}"
tail -c 24 out/d.npy | head -c 12 >found.bytes
head -c 12 /dev/zero >expected.bytes
same found.bytes expected.bytes
rm -f out/*
result "contiguous groups into rows of half a byte more; padding is 0"
computes "masked groups; B serves them all" '2, 2, 3' "$(f32 1 2 3 0 0 0 1 2 3 4 5 6)" 'z: a.npy' \
    'a: a3, b: eye, groups: {masked: counts}, d: d'
computes "groups by k" '2, 2, 3' "$(f32 1 2 0 4 5 0 0 0 3 0 0 6)" 'z: a.npy' 'a: a, b: eye, groups: {k: ends}, d: d'

# ---- Results ----

job 'z: a.npy' 'a: a, b: b4, epilogues: [swiglu, {bias_gradient: g}], d: d' 'outputs: {d: d.npy, g: g.npy}'
invoke 0 kiln run job.yaml --out-dir out --compare oracle
says stdout "[2, 2]" "passed"
cp out/d.npy pairs.npy
sed -i 's/swiglu/{swiglu: halves}/' job.yaml
invoke 0 kiln run job.yaml --out-dir out --compare oracle
says stdout "[2, 2]" "passed"
! cmp -s out/d.npy pairs.npy || problem="halves are like pairs"
sed -i 's/halves/1/' job.yaml
invoke 0 kiln run job.yaml --out-dir out
same out/d.npy pairs.npy
result "swiglu: of pairs, of halves, and by 1 the same as pairs"
job 'z: a.npy' 'a: a3, b: eye, epilogues: [{bias_gradient: all}, {bias_gradient: {name: one_each, each: true}}], d: d' \
    'outputs: {all: all.npy, one_each: each.npy}'
invoke 0 kiln run job.yaml --out-dir out --compare oracle
holds out/all.npy '3,' "$(f32 10 14 18)"
holds out/each.npy '2, 3' "$(f32 5 7 9 5 7 9)"
result "bias gradients: of the batch, and of each entry"
rm -f out/*

# m = 3 and 6 give scales 2^-5 and 2^-4 for i8: 32 64 96 and 64 80 96.
job 'z: a.npy' 'a: a, b: eye, d: {name: h, type: i8, scale: {name: hs, type: ue8m0}}}, {operator: kiln.gemm/1, a: h, b: eye, d: d' \
    'outputs: {h: h.npy, hs: hs.safetensors, d: d.npy}'
invoke 0 kiln run job.yaml --out-dir out --compare oracle
[ "$(grep -c '  passed$' stdout)" -eq 2 ] || problem="${problem:-not two comparisons}"
says stdout "ue8m0  [2, 1]"
printf '\040\100\140\100\120\140' >expected.bytes
tail -c 6 out/h.npy >found.bytes
same found.bytes expected.bytes
printf '\172\173' >expected.bytes
tail -c 2 out/hs.safetensors >found.bytes
same found.bytes expected.bytes
holds out/d.npy '2, 3' "$(f32 1 2 3 4 5 6)"
result "a quantised result, which the next step reads with its scales"
invoke 0 kiln run job.yaml --out-dir out --compare oracle --tolerance 0
result "what it means is exact here"
npy third.npy '<f4' '2, 3' "$(f32 1.1 2.3 3.7 4.9 5.3 6.1)"
sed -i 's/a: a, b: eye/a: third, b: eye/; s/z: a.npy/third: third.npy/' job.yaml
invoke 1 kiln run job.yaml --out-dir out --compare oracle --tolerance 0
says stdout "FAILED: the difference may be 0 of the largest magnitude"
result "and not elsewhere"
rm -f out/*

# ---- Precision ----

for said in 'max_rel_error: 0.25' 'precision: auto, max_rel_error: 0.25'; do
    job 'z: a.npy' "a: a, b: eye, d: d, $said"
    invoke 0 kiln run job.yaml --dry-run
    says stdout "max_rel_error=0.25"
    result "$said"
done
job 'z: a.npy' 'a: a, b: eye, d: d, precision: fast'
invoke 0 kiln run job.yaml --dry-run
says stdout "precision=fast"
result "precision: fast"

# ---- kiln run gemm ----

invoke 0 kiln run gemm --a x.npy --a-type e4m3 --a-scale s22.npy --a-block 2x1 --b w.npy --b-type e4m3 --b-scale ws.npy \
    --groups contiguous:rows.npy --bias-gradient out/g.npy --out out/d.npy --compare oracle
says stdout "passed"
holds out/d.npy '3, 2' "$(f32 20 400 0 0 4 6)"
holds out/g.npy '2,' "$(f32 24 406)"
result "gemm: scales, groups, a bias gradient"
invoke 0 kiln run gemm --a i8.npy --b u8.npy --b-zero-point ten.npy --out out/d.npy --compare oracle
says stdout "i32   [2, 2]"
result "gemm: a zero point"
invoke 0 kiln run gemm --a a.npy --b b4.npy --epilogue swiglu:halves --type-out e5m2 --d-scale out/s.npy --d-block 1x1 \
    --max-rel-error 0.01 --out out/d.safetensors --compare oracle
says stdout "e5m2  [2, 2]" "f32   [2, 2]" "passed"
result "gemm: swiglu, a quantised result"
rm -f out/*

# ---- What is wrong ----

# refuses WHAT TEXT TENSORS STEP: before anything runs.
refuses() {
    job "$3" "$4"
    invoke 1 kiln run job.yaml --out-dir out
    says stderr "$2"
    says stderr "job.yaml:"
    [ ! -s stdout ] || problem="${problem:-something was printed on standard output}"
    leaves out ""
    result "$1"
}
plain='a: a, b: eye, d: d'
refuses "a scale that does not exist" "there is no tensor 'sqare' (did you mean 'square'?)" 'x: {file: x.npy, scale: sqare}' "$plain"
refuses "a scale of a scale" "scale 'w' has a scale or a zero_point itself" 'x: {file: x.npy, scale: w}' "$plain"
refuses "its own scale" "scale 'x' has a scale" 'x: {file: x.npy, scale: x}' "$plain"
refuses "a scale of f32" "'x' is f32; scales and zero points are for e4m3" 'x: {file: a.npy, scale: s2}' "$plain"
refuses "a scale that is i32" "scale 'rows' is i32; f32, f16, bf16, e4m3 or ue8m0 is wanted" 'x: {file: i8.npy, scale: rows}' "$plain"
refuses "a scale that does not fit" "scale 's41' is [4, 1], which does not fit 'x' [6, 2]: say which elements share one, as in block: [1, 96]" \
    'x: {file: six.npy, type: e4m3, scale: s41}' "$plain"
refuses "a scale that does not fit its block" "by its block, [2, 1] is wanted" \
    'x: {file: x.npy, type: e4m3, scale: s22, block: [2, 2]}' "$plain"
refuses "a zero point that does not fit the scale" "zero_point 'ten2' is [1, 2], which does not fit 'x' [3, 2]: by its scale, [3, 1]" \
    'x: {file: u8.npy, scale: s31, zero_point: ten2}, ten2: ten2.npy' "$plain"
refuses "a vector that fits nothing" "one for each row, one for each column or one for each group" \
    'x: {file: six.npy, type: e4m3, scale: s3}' "$plain"
refuses "a vector that fits twice" "shape it [n, 1], [1, n] or [n, 1, 1] where several would do" 'y: {file: id.npy, type: e4m3, scale: s2}' "$plain"
refuses "block without a scale" "of which there is none" 'x: {file: x.npy, block: [1, 1]}' "$plain"
refuses "a block that is no pair" "as in [1, 128]" 'x: {file: i8.npy, scale: s2, block: 128}' "$plain"
refuses "a block of nothing" "block: expected an integer from 1" 'x: {file: i8.npy, scale: s2, block: [0, 1]}' "$plain"
refuses "a zero point of another type" "zero_point 'ten' is u8, but 'x' is i8" 'x: {file: i8.npy, zero_point: ten}' "$plain"
refuses "a vector with a scale" "a scale or zero_point is for a matrix" 'x: {file: ten.npy, scale: one}' "$plain"
refuses "a type that is not as wide" "only whole numbers as wide as f16 can be read as that" 'x: {file: x.npy, type: f16}' "$plain"
refuses "floats read as something else" "'x' is f32 in a.npy" 'x: {file: a.npy, type: i32}' "$plain"
refuses "c with scales" "c 'y' has scales, which only a and b may have" 'y: {file: id.npy, type: e4m3, scale: one}' \
    'a: square, b: eye2, c: y, beta: 1, d: d'
refuses "groups of no kind" "as in {contiguous: rows}" 'z: a.npy' "$plain, groups: {alignment: 4}"
refuses "groups of two kinds" "name one" 'z: a.npy' "$plain, groups: {contiguous: rows, k: ends}"
refuses "groups of an unknown kind" "did you mean 'contiguous'?" 'z: a.npy' "$plain, groups: {contigous: rows}"
refuses "groups that are i64" "groups 'wide' is i64 [2]; a vector of i32 is wanted" 'z: a.npy' 'a: a, b: eye, d: d, groups: {k: wide}'
refuses "no groups" "there are no groups: 'none' is empty" 'z: a.npy' 'a: a, b: eye, d: d, groups: {k: none}'
refuses "a group for another number of rows" "the group of each of the 2 rows is wanted" 'z: a.npy' 'a: a, b: eye, d: d, groups: {contiguous: rows}'
refuses "one B for contiguous groups" "one matrix for each group is wanted" 'z: a.npy' 'a: a, b: eye, d: d, groups: {contiguous: counts}'
refuses "another number of groups" "'a3' is [2, 2, 3]; there are 3 groups" 'z: a.npy' 'a: a3, b: eye, d: d, groups: {masked: rows}'
refuses "an alignment of nothing" "alignment: expected an integer from 1" 'z: a.npy' "$plain, groups: {k: ends, alignment: 0}"
refuses "an odd number of columns for swiglu" "swiglu pairs columns, 2 to a pair, but there are 3" 'z: a.npy' "$plain, epilogues: [swiglu]"
refuses "swiglu of nothing" "swiglu takes halves or the columns of a piece" 'z: a.npy' "$plain, epilogues: [{swiglu: 0}]"
refuses "swiglu of nothing, in one sentence" ": swiglu takes halves or the columns of a piece, a whole number from 1 to 2147483647, not '0'" 'z: a.npy' \
    "$plain, epilogues: [{swiglu: 0}]"
refuses "swiglu of a list" "swiglu takes halves or the columns of a piece" 'z: a.npy' "$plain, epilogues: [{swiglu: [1]}]"
refuses "swiglu twice" "step 'd': swiglu can be there only once" 'z: a.npy' 'a: a, b: b4, d: d, epilogues: [swiglu, {swiglu: halves}]'
refuses "quantize that is not last" "step 'd': quantize must be the last epilogue" 'z: a.npy' \
    'a: a, b: eye, d: {name: d, type: i8, scale: s}, epilogues: [quantize, relu]'
refuses "quantize that is not last, without scales" "step 'd': quantize must be the last epilogue" 'z: a.npy' "$plain, epilogues: [quantize, relu]"
refuses "two numbers where one is wanted" "zero_point 'z' has one number of i4 in a byte" \
    'y: {file: i4.npy, type: i4, zero_point: z}, z: {file: z21.npy, type: i4}' "$plain"
refuses "a single zero point of 4 bits for several blocks in a row" "cannot serve the 2 blocks that 'y' has in a row; write it down for each block, as [2, 2]" \
    'y: {file: i4.npy, type: i4, scale: s22, block: [1, 2], zero_point: z}, z: {file: z3.npy, type: i4}' "$plain"
refuses "each without a batch" "there is neither a batch nor a grouping" 'z: a.npy' "$plain, epilogues: [{bias_gradient: {name: g, each: true}}]"
refuses "a bias gradient of that name already" "there already is a tensor 'a'" 'z: a.npy' "$plain, epilogues: [{bias_gradient: a}]"
refuses "a bias gradient that the step reads" "made by this very step" 'z: a.npy' "$plain, epilogues: [{bias_gradient: g}, {bias: g}]"
refuses "quantize without a place for the scales" "quantize needs a name for the scales" 'z: a.npy' "$plain, epilogues: [quantize]"
refuses "a quantised result without a type" "such as e4m3 or i8" 'z: a.npy' 'a: a, b: eye, d: {name: d, scale: s}'
refuses "scales of a result that are f64" "the scales of d 'd' are f64; f32, e4m3 or ue8m0 is wanted" 'z: a.npy' \
    'a: a, b: eye, d: {name: d, type: i8, scale: {name: s, type: f64}}'
refuses "a quantised result of f16" "d 'd' is f16, which is not quantised" 'z: a.npy' 'a: a, b: eye, d: {name: d, type: f16, scale: s}'
refuses "rows of a result that share a scale" "block must be [1, COLUMNS]" 'z: a.npy' \
    'a: a, b: eye, d: {name: d, type: i8, scale: s, block: [2, 1]}'
job 'z: a.npy' 'a: a, b: eye, d: {name: d, type: i8, scale: s}' 'outputs: {c: {scores: d, file: c.npy}}'
rejects "scores with scales" 1 "scores 'd' have scales" kiln run job.yaml --out-dir out
# cannot_hold WHAT TEXT D OUTPUTS: that comes before anything runs.
cannot_hold() {
    job 'z: a.npy' "a: a, b: eye, d: $3" "outputs: $4"
    invoke 1 kiln run job.yaml --out-dir out
    says stderr "job.yaml:8:" "$2"
    leaves out ""
    result "$1"
}
cannot_hold "e2m1 of three columns" "output 'd' is e2m1 [2, 3], but d.safetensors holds two elements in a byte" '{name: d, type: e2m1, scale: s}' \
    '{d: d.safetensors}'
cannot_hold "the same beside its scales" "pad b so that their number is even" '{name: d, type: e2m1, scale: s}' '{s: d.safetensors, d: d.safetensors}'
cannot_hold "i4 in .safetensors" "choose i8 or u8 as its type" '{name: d, type: i4, scale: s}' '{d: d.safetensors, s: s.npy}'
cannot_hold "i4 in .npy" "choose i8 or u8 as its type" '{name: d, type: i4, scale: s}' '{d: d.npy, s: s.npy}'
cannot_hold "a name that .safetensors has not" "cannot hold a tensor of that name" '__metadata__' '{__metadata__: d.safetensors}'
job 'z: a.npy' 'a: a, b: b4, d: {name: d, type: e2m1, scale: s}' 'outputs: {d: d.safetensors}'
invoke 0 kiln run job.yaml --out-dir out
result "e2m1 of four columns"
rm -f out/*
refuses "max_rel_error with precision fast" "max_rel_error is for precision auto" 'z: a.npy' "$plain, precision: fast, max_rel_error: 0.1"
refuses "precision auto alone" "needs a max_rel_error" 'z: a.npy' "$plain, precision: auto"
refuses "a max_rel_error beyond 1" "max_rel_error" 'z: a.npy' "$plain, max_rel_error: 2"
job 'z: a.npy' 'a: x3, b: w, groups: {contiguous: beyond}, d: d'
sed -i 's/z: a.npy/x3: {file: x.npy, type: e4m3}/' job.yaml
rejects "a group beyond the last" 1 "step 'd': " kiln run job.yaml --out-dir out
gemm="kiln run gemm --a i8.npy --b u8.npy --out out/d.npy"
rejects "gemm: a block without a scale" 2 "--a-block is about --a-scale" $gemm --a-block 1x1
rejects "gemm: a scale that does not fit its block" 1 "by its block, [3, 1] is wanted" \
    kiln run gemm --a x.npy --a-type e4m3 --a-scale s22.npy --a-block 1x2 --b eye2.npy --out out/d.npy
rejects "gemm: a scale that asks for a block" 1 "say which elements share one, as in --a-block 1x96" \
    kiln run gemm --a six.npy --a-type e4m3 --a-scale s41.npy --b eye2.npy --out out/d.npy
rejects "gemm: scales of a result that are f64" 1 "the scales of d 'd' are f64" $gemm --type-out i8 --d-scale out/s.npy --d-scale-type f64
rejects "gemm: a quantised result of f16" 1 "d 'd' is f16, which is not quantised" $gemm --type-out f16 --d-scale out/s.npy
for option in a b c a-type b-type a-scale b-scale a-zero-point b-zero-point d-scale bias-gradient out; do
    rejects "gemm: $option twice" 2 "--$option is given twice" kiln run gemm --$option f32 --$option f32
done
rejects "gemm: a-block twice" 2 "--a-block is given twice" kiln run gemm --a-block 1x1 --a-block 1x1
rejects "gemm: d-block twice" 2 "--d-block is given twice" kiln run gemm --d-block 1x1 --d-block 1x1
rejects "gemm: groups twice" 2 "--groups is given twice" kiln run gemm --groups k:rows.npy --groups masked:rows.npy
rejects "gemm: a switch twice" 2 "--transpose-b is given twice" kiln run gemm --transpose-b --transpose-b
rejects "gemm: beta twice" 2 "--beta is given twice" kiln run gemm --beta 1 --beta 1
rejects "gemm: precision auto alone" 2 "--precision auto needs --max-rel-error" $gemm --precision auto
rejects "gemm: a block that is none" 2 "as in 1x128, not '3'" $gemm --a-scale one.npy --a-block 3
rejects "gemm: groups of an unknown kind" 2 "--groups takes contiguous:FILE" $gemm --groups some:rows.npy
rejects "gemm: groups with an empty file" 2 "--groups takes contiguous:FILE, masked:FILE or k:FILE, not 'contiguous:'" $gemm --groups contiguous:
rejects "gemm: bias_gradient as an epilogue" 2 "write --bias-gradient FILE" $gemm --epilogue bias_gradient
rejects "gemm: e2m1 of an odd number of columns" 1 "pad b" kiln run gemm --a a.npy --b eye.npy --type-out e2m1 --out out/d.safetensors
rejects "gemm: groups without a file" 2 "--groups takes contiguous:FILE" $gemm --groups masked
rejects "gemm: d-block without d-scale" 2 "needs --d-scale FILE" $gemm --d-block 1x2
rejects "gemm: max-rel-error beyond 1" 2 "from 0 to 1, not '2'" $gemm --max-rel-error 2
rejects "gemm: an unknown precision" 2 "exact, fast or auto" $gemm --precision quick
rejects "gemm: an unknown type" 2 "--a-type: there is no type 'e4m4'" $gemm --a-type e4m4

# ---- The example of the manual page ----

# numbers COUNT SEED: e4m3 of either sign, from 2^-3 to 8.
numbers() {
    awk -v count="$1" -v seed="$2" 'BEGIN {
        srand(seed)
        for (i = 0; i < count; i++)
            printf "\\%03o", 32 + int(rand() * 48) + 128 * int(rand() * 2)
    }'
}
mkdir page
cd page || exit 99
npy x.npy '|u1' '6, 128' "$(numbers 768 1)"
npy x_scale.npy '<f4' '6, 1' "$(f32 1 2 0.5 1 2 0.5)"
npy expert.npy '<i4' '6,' "$(i32 1 0 -1 1 1 0)"
npy up.npy '|u1' '2, 256, 128' "$(numbers 65536 2)"
npy up_scale.npy '<f4' '2, 2, 1' "$(f32 0.125 0.25 0.5 0.0625)"
npy down.npy '|u1' '2, 128, 128' "$(numbers 32768 3)"
npy down_scale.npy '<f4' '2, 1, 1' "$(f32 0.125 0.25)"
cat >pack.yaml <<'END'
schema: 1
tensors:
  up: {file: up.npy, type: e4m3}
  up_scale: up_scale.npy
  down: {file: down.npy, type: e4m3}
  down_scale: down_scale.npy
steps: [{operator: kiln.gemm/1, a: up, b: up, transpose_b: true, d: {name: d, type: f32}}]
outputs: {up: experts.safetensors, up_scale: experts.safetensors, down: experts.safetensors, down_scale: experts.safetensors}
END
invoke 0 kiln run pack.yaml
result "experts.safetensors is made"
awk '/^schema: 1/ { inside = 1; text = "" } inside && /^\.Ed/ { inside = 0; if (text ~ /name: experts/) printf "%s", text }
    inside { text = text $0 "\n" }' "$KILN_TEST_SRCDIR/docs/man/kiln-run.1" >experts.yaml
invoke 0 kiln run experts.yaml --compare oracle --digest
says stdout "job experts" "passed" "y.safetensors"
lacks stdout "FAILED"
[ "$(grep -c '  passed$' ../stdout)" -eq 2 ] || problem="${problem:-not two comparisons}"
result "the example of kiln-run(1)"
cd ..

finish
