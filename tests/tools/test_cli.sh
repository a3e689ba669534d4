#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kiln, kiln info, kiln explain: usage, what they print, how they fail. Prints TAP.
. "$KILN_TEST_SRCDIR/tests/tools/cli_fixture.sh"

# ---- The program ----

rejects "no command" 2 "usage: kiln COMMAND" kiln
rejects "unknown command, with a suggestion" 2 "unknown command 'infp' (did you mean 'info'?)" kiln infp
rejects "unknown option of the program" 2 "unknown option '--nothing'" kiln --nothing
invoke 0 kiln --help
says stdout "info" "explain" "run" "bench" "Exit codes"
result "kiln --help"
invoke 0 kiln --version
says stdout "kiln 0."
result "kiln --version"
for command in info explain run "run gemm" bench; do
    invoke 0 kiln $command --help
    says stdout "usage: kiln ${command}" "--json" "--profile"
    result "kiln $command --help"
done
if [ -c /dev/full ]; then
    problem=
    kiln --help >/dev/full 2>stderr
    code=$?
    : >stdout
    [ $code -eq 1 ] || problem="exit code $code instead of 1"
    says stderr "cannot write to standard output"
    result "a full disk under standard output is an error"
fi

# ---- Common options ----

rejects "unknown option, with a suggestion" 2 "unknown option '--profiel=ref' (did you mean '--profile'?)" kiln info --profiel=ref
rejects "missing value" 2 "option '--profile' needs a value" kiln info --profile
rejects "value where none is taken" 2 "option '--json' takes no value" kiln info --json=yes
rejects "unknown letter" 2 "unknown option '-x'" kiln info -x
rejects "--set without =" 2 "--set takes PATH=VALUE" kiln info --set threads.count
rejects "--set of an unknown key" 1 "threads.coun" kiln info --profile ref --set threads.coun=2
says stderr "threads.count"
rejects "--set of a wrong value" 1 "threads.count" kiln info --profile ref --set threads.count=many
rejects "unknown profile" 1 "nosuch" kiln info --profile nosuch
rejects "profile file that does not exist" 1 "missing.yaml" kiln info --profile missing.yaml
printf 'schema: 1\nplugin: [ref]\n' >bad.yaml
rejects "malformed profile is located" 1 "bad.yaml:2:1: " kiln info --profile ./bad.yaml
says stderr "did you mean 'plugins'"
rejects "a folder as profile" 1 "kiln info: " kiln info --profile ./

# ---- info ----

rejects "info takes no words" 2 "takes no words, not 'ref'" kiln info ref
rejects "info: one view at a time" 2 "exclude each other" kiln info --schema --reference
invoke 0 kiln info --profile ref
says stdout "profile  ref, from " "kiln.gemm/1" "open" "host" "threads"
result "info shows profile, plugins and devices"
invoke 0 kiln info --profile ref --json
says stdout '"kiln"' '"plugins"' '"state": "open"' '"devices"' '"default_device": "host"'
result "info --json"
invoke 0 kiln info --profile ref --print-config --set threads.count=1
says stdout "threads.count" "caller" "ref.yaml:" "built-in"
result "info --print-config names origins"
invoke 0 kiln info --profile ref --print-config --json
says stdout '"path": "threads.count"' '"origin": "built-in"'
result "info --print-config --json"
invoke 0 env KILN_THREADS_COUNT=1 kiln info --profile ref --print-config
says stdout "KILN_THREADS_COUNT"
result "a variable is an origin"
invoke 0 env KILN_THREADS_COUNT=1 kiln info --isolated --profile "$KILN_TEST_SRCDIR/config/ref.yaml" --print-config
lacks stdout "KILN_THREADS_COUNT"
result "--isolated reads no variables"
invoke 0 kiln info --schema
says stdout '"$schema"' '"properties"'
result "info --schema"
invoke 0 kiln info --reference
says stdout "threads.count"
result "info --reference"

# A pipe as a file that is read keeps the program waiting, until it is stopped.
mkfifo waiting.yaml
KILN_PROFILE=./waiting.yaml kiln info >stdout 2>stderr &
waiting=$!
exec 3>waiting.yaml # goes on once the program reads
kill -TERM $waiting
wait $waiting
code=$?
exec 3>&-
problem=
[ $code -eq 143 ] || problem="exit code $code instead of 143"
result "one SIGTERM ends info"
printf 'schema: 1\nplugins: [ref]\nname: "a\\e[31m\\nb"\n' >escape.yaml
invoke 0 kiln info --profile ./escape.yaml --print-config
! grep -q "$(printf '\033')" stdout || problem="an escape sequence came through"
result "names cannot command the terminal"

# ---- explain ----

gemm="kiln.gemm/1 m=4 n=8 k=16"
rejects "explain without an operator" 2 "name an operator" kiln explain
rejects "explain of an unknown operator" 2 "'kiln.gem/1' is no operator" kiln explain kiln.gem/1 m=1
rejects "explain of something that is no operator" 2 "'gem' is no operator" kiln explain gem m=1
rejects "explain: a vendor's operator has no words" 2 "described by descriptor=HEX" kiln explain acme.sort/1 m=1
rejects "explain: descriptor of a wrong length" 2 "descriptor= takes" kiln explain acme.sort/1 descriptor=0900000000000000
rejects "explain: descriptor that is not hexadecimal" 2 "descriptor= takes" kiln explain acme.sort/1 descriptor=08000000zz000000
invoke 1 kiln explain acme.sort/1 descriptor=0800000000000000 --profile ref
says stdout "acme.sort/1  descriptor of 8 bytes" "ref" "does not offer acme.sort/1" "No backend serves this."
result "explain of a vendor's operator"
rejects "explain: unknown word" 2 "unknown word 'typ' (did you mean 'type'?)" kiln explain $gemm typ=f16
rejects "explain: word without value" 2 "'m' needs a value" kiln explain kiln.gemm/1 m
rejects "explain: word twice" 2 "'m' is given twice" kiln explain $gemm m=5
rejects "explain: missing dimension" 2 "k= is missing" kiln explain kiln.gemm/1 m=1 n=1 type=f32
rejects "explain: missing type" 2 "type= is missing" kiln explain $gemm
rejects "explain: unknown type" 2 "type=f17: no such type" kiln explain $gemm type=f17
rejects "explain: negative dimension" 2 "m=-1" kiln explain kiln.gemm/1 m=-1 n=1 k=1 type=f32
rejects "explain: dimension that is no number" 2 "m=1x" kiln explain kiln.gemm/1 m=1x n=1 k=1 type=f32
rejects "explain: huge dimension" 2 "m=99999999999999999999" kiln explain kiln.gemm/1 m=99999999999999999999 n=1 k=1 type=f32
rejects "explain: dimension beyond the largest" 2 "m=281474976710657: a whole number from 0 to 281474976710656 is wanted" \
    kiln explain kiln.gemm/1 m=281474976710657 n=1 k=1 type=f32
rejects "explain: dynamic of an unknown name" 2 "a list of m, n, k and batch is wanted, not 'x'" kiln explain $gemm type=f32 dynamic=m,x
rejects "explain: dynamic of nothing" 2 "not ''" kiln explain $gemm type=f32 dynamic=m,
many=m,n,k,m,n,k,m,n,k,m,n,k,m,n,k,m,n,k,m,n,k,m,n,k,m,n,k,m,n,k,m,n,k
rejects "explain: an unknown name at the end of a long list" 2 "not 'nonsense'" kiln explain $gemm type=f32 dynamic=$many,nonsense
invoke 0 kiln explain $gemm type=f32 dynamic=$many,batch --profile ref
result "explain: a long list of dynamic dimensions"
rejects "explain: scales of D of an unknown type" 2 "d_scale=f17: no such type; scales are f32, e4m3 or ue8m0" kiln explain $gemm type=i8 d_scale=f17
rejects "explain: scales of D that are i8" 1 "it must be f32, e4m3 or ue8m0" kiln explain $gemm type=f32 d=i8 d_scale=i8 --profile ref
rejects "bench: a word that is too long" 2 "is too long: a word has at most 95 bytes" kiln bench gemm m=1 n=1 k=1 type=f32 \
    epilogues=$(printf 'relu,%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18)relu
rejects "explain: unknown epilogue" 2 "unknown epilogue 'rely' (did you mean 'relu'?)" kiln explain $gemm type=f32 epilogues=bias,rely
rejects "explain: clip without limits" 2 "clip takes two numbers" kiln explain $gemm type=f32 epilogues=clip:1
rejects "explain: clip upside down" 2 "lower limit" kiln explain $gemm type=f32 epilogues=clip:1:0
rejects "explain: epilogue with a foreign part" 2 "relu' does not take ':row'" kiln explain $gemm type=f32 epilogues=relu:row
rejects "explain: nine epilogues" 2 "at most 8" kiln explain $gemm type=f32 \
    epilogues=relu,relu,relu,relu,relu,relu,relu,relu,relu
rejects "explain: a block without a scale" 2 "neither a_scale= nor a_zero_point" kiln explain $gemm type=i8 a_block=1x128
rejects "explain: a block of D without a scale" 2 "d_scale= is missing" kiln explain $gemm type=i8 d_block=1x128
rejects "explain: a block that is none" 2 "b_block=128: the rows and columns" kiln explain $gemm type=i8 b_scale=f32 b_block=128
rejects "explain: a scale of an unknown type" 2 "a_scale=f17: no such type" kiln explain $gemm type=i8 a_scale=f17
rejects "explain: groups of an unknown kind" 2 "contiguous:COUNT, masked:COUNT or k:COUNT" kiln explain $gemm type=f16 groups=some:8
rejects "explain: no groups" 2 "groups=k:0" kiln explain $gemm type=f16 groups=k:0
rejects "explain: group_alignment without groups" 2 "groups=, which is missing" kiln explain $gemm type=f16 group_alignment=8
rejects "explain: an unknown precision" 2 "exact, fast or auto" kiln explain $gemm type=f16 precision=quick
rejects "explain: max_rel_error beyond 1" 2 "max_rel_error=2: a number from 0 to 1" kiln explain $gemm type=f16 max_rel_error=2
rejects "explain: precision=auto alone" 2 "precision=auto needs max_rel_error=" kiln explain $gemm type=f16 precision=auto
rejects "explain: swiglu of a part of a column" 2 "swiglu:0.5: halves" kiln explain $gemm type=f16 epilogues=swiglu:0.5
rejects "explain: d_scale with eight epilogues" 2 "one epilogue more" kiln explain $gemm type=f16 d=i8 d_scale=f32 \
    epilogues=relu,relu,relu,relu,relu,relu,relu,relu
rejects "explain: scales that nobody can have" 1 "a_type is f32; scales and zero points are for" kiln explain $gemm type=f32 a_scale=f32 \
    --profile ref
rejects "explain: alignment that is no power of two" 2 "power of two" kiln explain $gemm type=f32 alignment=3
rejects "explain: unknown device" 1 "gpu:7" kiln explain $gemm type=f32 device=gpu:7 --profile ref
invoke 0 kiln explain $gemm type=f16 d=f32 transpose_b epilogues=bias:column:f16,scale:0.5,clip:0:6 --profile ref
says stdout "m=4 n=8 k=16 f16×f16→f32 transpose_b bias scale clip" "* chosen: ref on host" "native"
result "explain shows candidates and choice"
invoke 0 kiln explain $gemm type=e4m3 d=e5m2 a_scale=f32 a_block=1x16 b_scale=f16 b_block=allx4 d_scale=ue8m0 d_block=1x2 \
    groups=contiguous:2 group_alignment=4 max_rel_error=0.25 epilogues=swiglu:halves,bias_gradient --profile ref
says stdout "e4m3×e4m3→e5m2 swiglu bias_gradient quantize a_scale=f32 a_block=1x16 b_scale=f16 b_block=allx4 d_scale=ue8m0" \
    "d_block=1x2 groups=contiguous:2 group_alignment=4 max_rel_error=0.25" "chosen: ref"
result "explain: scales, groups, a quantised result"
for types in "type=u8:u8×u8→i32" "a=i8 b=u4:i8×u4→i32" "a=bf16 b=i4:bf16×i4→bf16" "a=e4m3 b=f16:e4m3×f16→f16" "type=e4m3:e4m3×e4m3→e4m3" \
    "type=e4m3 b_scale=f32:e4m3×e4m3→f32" "a=i8 b=e4m3:i8×e4m3→f32"; do
    invoke 0 kiln explain $gemm ${types%:*} --profile ref
    says stdout "${types##*:}"
    result "explain: the type of D, ${types##*:}"
done
invoke 0 kiln explain --json $gemm type=f32 --profile ref
says stdout '"operator": "kiln.gemm/1"' '"chosen": "ref"' '"candidates"' '"support": "native"' '"workspace_bytes"'
result "explain --json"
invoke 1 kiln explain $gemm type=f32 backend=nosuch --profile ref
says stdout "nosuch" "no plugin of this name" "No backend serves this."
result "explain: nobody serves"
invoke 1 kiln explain --json $gemm type=f32 backend=nosuch --profile ref
says stdout '"chosen": null'
result "explain --json: nobody serves"

# ---- A plugin that crashes ----

crashers=$KILN_TEST_BUILDDIR/tests/tools/plugins/.libs
if [ -z "$KILN_TEST_STATIC" ] && [ -e "$crashers/crasher.so" ]; then
    for command in "info" "explain $gemm type=f32"; do
        invoke 1 env KILN_PLUGIN_PATH="$crashers" kiln $command --set 'plugins=["*"]'
        says stderr "kiln: crashed while prob" "crasher.so" "SIG" "KILN_PLUGIN_PATH"
        result "kiln $command names the plugin that crashed"
    done
fi

finish
