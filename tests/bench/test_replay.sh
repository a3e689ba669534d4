#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A record of calls, replayed: kiln bench --replay, kiln explain --replay. Prints TAP. Nothing here depends on how fast
# anything is.
. "$KILN_TEST_SRCDIR/tests/tools/cli_fixture.sh"

KILN_PROFILE=ref
export KILN_PROFILE
quick="--rounds 3 --slice 1 --attempts 1 --allow-void --threads 1"
no_gemm=
kiln info --json | grep -q "kiln.gemm/1" || no_gemm="the plugin ref offers no GEMM here"
[ -z "$no_gemm" ] || { echo "1..0 # SKIP $no_gemm"; exit 0; }

# ---- A record, as an application writes it ----

npy a.npy '<f4' '2, 3' "$(f32 1 2 3 4 5 6)"
npy eye.npy '<f4' '3, 3' "$(f32 1 0 0 0 1 0 0 0 1)"
npy row.npy '<f4' '3,' "$(f32 10 -20 0.5)"
npy square.npy '<f4' '2, 2' "$(f32 1 2 3 4)"

# runs TIMES OPTION…: that many processes that append to the record.
runs() {
    times=$1
    shift
    for i in $(seq "$times"); do
        KILN_RECORD=calls.jsonl kiln run gemm --out d.npy "$@" >run.out 2>&1 || cat run.out
    done
}
runs 3 --a a.npy --b eye.npy --bias row.npy --epilogue relu
runs 2 --a square.npy --b square.npy --transpose-b
runs 1 --a square.npy --b square.npy --c square.npy --beta 2
problem=
: >stdout
: >stderr
[ "$(wc -l <calls.jsonl)" -eq 6 ] || problem="not 6 lines"
[ "$(grep -c '"sizes":{"m":2,"n":3,"k":3,"batch":1},"runs":1}' calls.jsonl)" -eq 3 ] || problem="not 3 lines with their sizes"
result "several processes append to one record"

# ---- kiln bench --replay ----

replay="kiln bench --replay"
invoke 0 $replay calls.jsonl $quick --no-peers --json
says stdout '"shape": "m=2 n=3 k=3 epilogues=bias,relu"' '"shape": "m=2 n=2 k=2 transpose_b"' '"shape": "m=2 n=2 k=2 beta=1"' \
    '"file": "calls.jsonl"' '"failures": []' '"other_operators": []' '"never_ran": 0' '"backend": "ref"' '"peer": null'
result "every call is measured, with its transposes, epilogues and C"

# The numbers behind a key, one per line.
numbers() {
    sed -n "s/^ *\"$1\": \\([-0-9.e+]*\\),*\$/\\1/p" stdout
}
[ "$(numbers calls | tr '\n' ' ')" = "3 2 1 6 6 " ] || problem="calls are $(numbers calls | tr '\n' ' ')"
[ "$(numbers shapes | tr '\n' ' ')" = "3 3 " ] || problem="${problem:-shapes are $(numbers shapes | tr '\n' ' ')}"
result "equal lines are one, and the counts add up"

numbers median_ns >medians
numbers calls | head -n 3 >counts
numbers share >shares
total=$(numbers total)
paste medians counts shares | awk -v total="$total" '
    { sum += $1 * $2; share[NR] = $3; part[NR] = $1 * $2 }
    END {
        if (NR != 3 || total <= 0 || (sum - total)^2 > (1e-9 * total)^2) exit 1
        for (i = 1; i <= 3; i++) if ((part[i] / sum - share[i])^2 > 1e-18) exit 1
    }' || problem="$(cat medians counts shares; echo total $total)"
result "the total is calls times medians, and shares are parts of it"

invoke 0 $replay calls.jsonl $quick --no-peers
says stdout "total ref: " "for 6 calls of 3 shapes" "calls    share" "m=2 n=3 k=3 epilogues=bias,relu"
result "the table"
invoke 0 $replay calls.jsonl $quick --no-peers --csv
says stdout ",void,calls,share" "kiln.gemm/1,m=2 n=2 k=2 transpose_b,f32,ref,1,kiln," "total,,,ref,,kiln,"
[ "$(awk -F, '{ print NF }' stdout | sort -u | tr '\n' ' ')" = "16 17 " ] || problem="${problem:-lines of $(awk -F, '{ print NF }' stdout | sort -u | tr '\n' ' ') fields}"
result "--csv"
invoke 0 $replay calls.jsonl $quick --peer openblas --json
if grep -q "no peer openblas" stderr; then
    skipped "peers have totals" "no OpenBLAS that can be loaded"
else
    says stdout '"peer": "openblas"' '"backend_total"'
    # OpenBLAS has no epilogues: its total is of two shapes and three calls.
    [ "$(numbers shapes | tail -n 1)" = 2 ] || problem="${problem:-shapes of the peer: $(numbers shapes | tail -n 1)}"
    [ "$(numbers calls | tail -n 1)" = 3 ] || problem="${problem:-calls of the peer: $(numbers calls | tail -n 1)}"
    result "peers have totals"
fi
invoke 0 kiln bench gemm --replay calls.jsonl $quick --no-peers --top 1
says stdout "m=2 n=3 k=3 epilogues=bias,relu" "passed over (--top): shapes: 2, with" "of the operations" "3 of 6 calls, 1 of 3 shapes"
lacks stdout "transpose_b"
result "--top measures those with the most operations, and says what is passed over"
invoke 1 $replay calls.jsonl $quick --no-peers --backend nosuch --json
says stdout '"cases": []' '"totals": []'
says stderr "m=2 n=3 k=3 epilogues=bias,relu on nosuch: "
result "a backend that is not there is a failure of every shape"
invoke 0 $replay calls.jsonl $quick --no-peers --packed
says stdout "total ref: "
result "--packed"

# ---- What cannot be measured is told ----

# with FROM TO FILE: the first line, changed.
with() {
    head -n 1 calls.jsonl | sed "s/$1/$2/" >"$3"
    ! cmp -s "$3" first.jsonl || problem="nothing was changed: $1"
}
head -n 1 calls.jsonl >first.jsonl
tail -n 1 calls.jsonl >last.jsonl
zeros=0000000000000000

problem=
with '"operator":"kiln.gemm.1"' '"operator":"acme.sort\/1"' other.jsonl
cat other.jsonl other.jsonl last.jsonl >others.jsonl
invoke 0 $replay others.jsonl $quick --no-peers --json
says stdout '"operator": "acme.sort/1"' "left out, since only kiln.gemm/1 is measured: acme.sort/1, calls: 2, shapes: 1"
result "other operators are left out, with their count"
invoke 1 $replay other.jsonl $quick
says stderr "other.jsonl holds no call of kiln.gemm/1 that ran"
result "nothing but other operators"

# The descriptor's flags are its second word, K its fourth.
problem=
with '"descriptor":"\(........\)00000000' '"descriptor":"\108000000' packed.jsonl
invoke 0 $replay packed.jsonl $quick --no-peers
says stdout "m=2 n=3 k=3 epilogues=bias,relu" "[packed: b]"
result "a packed operand is packed first"
problem=
with '"descriptor":"\(........\)00000000' '"descriptor":"\110000000' dynamic.jsonl
invoke 0 $replay dynamic.jsonl $quick --no-peers --json
says stdout '"shape": "m=2 n=3 k=3 epilogues=bias,relu"'
result "a dynamic plan runs with the sizes of its call"
sed 's/,"sizes":{[^}]*}//' dynamic.jsonl >unsized.jsonl
cat unsized.jsonl last.jsonl >mixed.jsonl
invoke 1 $replay mixed.jsonl $quick --no-peers --json
says stdout '"shape": "m=2 n=2 k=2 beta=1"' "1 call not measured: mixed.jsonl:1: its sizes were not recorded"
says stderr "mixed.jsonl:1: its sizes were not recorded"
result "sizes that were not recorded are a failure of that line only"
problem=
with '"descriptor":"\(................................................\)0300000000000000\([0-9a-f]*\)","sizes":{"m":2,"n":3,"k":3' \
    '"descriptor":"\10000000000000000\2","sizes":{"m":2,"n":3,"k":0' empty.jsonl
cat empty.jsonl last.jsonl >mixed.jsonl
invoke 1 $replay mixed.jsonl $quick --no-peers
says stdout "total ref: " "1 of 2 calls, 1 of 2 shapes"
says stderr "mixed.jsonl:1: m=2 n=3 k=0" "m, n and k must be at least 1 to be measured"
result "K = 0 is told"
problem=
with '"descriptor":"a001\([0-9a-f]*\)"' "\"descriptor\":\"a801\\1${zeros}\"" later.jsonl
invoke 0 $replay later.jsonl $quick --no-peers
result "a longer descriptor that says nothing more"
with '"descriptor":"a001\([0-9a-f]*\)"' '"descriptor":"a801\10100000000000000"' later.jsonl
invoke 1 $replay later.jsonl $quick --no-peers
says stderr "later.jsonl:1: its descriptor has fields that this version does not know"
says stdout "nothing was measured: calls: 1, shapes: 1"
result "a longer descriptor that says more"
problem=
with '"backend":"ref"' '"backend":"other"' another.jsonl
cat first.jsonl another.jsonl >two.jsonl
invoke 0 $replay two.jsonl $quick --no-peers --json
[ "$(numbers calls | tr '\n' ' ')" = "2 2 2 " ] || problem="${problem:-calls are $(numbers calls | tr '\n' ' ')}"
[ "$(numbers shapes | tr '\n' ' ')" = "1 1 " ] || problem="${problem:-shapes are $(numbers shapes | tr '\n' ' ')}"
result "who served a call does not make it another shape"
problem=
with '"runs":1' '"runs":0' never.jsonl
cat never.jsonl last.jsonl >mixed.jsonl
invoke 0 $replay mixed.jsonl $quick --no-peers
says stdout "plans that were made and never ran: 1" "for 1 call of 1 shape"
result "plans that never ran"
problem=
with '"m":2' '"m":3' misfit.jsonl
invoke 1 $replay misfit.jsonl $quick --no-peers
says stderr "misfit.jsonl:1: m is 3, but the plan was made for 2"
result "sizes that the plan does not allow"

# ---- Malformed files, and usage ----

cat first.jsonl last.jsonl >bad.jsonl
echo '{"record":1,"operator":"kiln.gemm/1"' >>bad.jsonl
echo '{"record":1,"operator":"kiln.gemm/1","runs":1,"descriptor":"zz"}' >>bad.jsonl
rejects "malformed lines are located, and nothing is measured" 1 "bad.jsonl:3: not JSON" $replay bad.jsonl $quick
says stderr 'bad.jsonl:4: "descriptor" is missing, or not the hexadecimal digits'
result "all of them are told"
rejects "a file that does not exist" 1 "missing.jsonl: cannot be read: No such file" $replay missing.jsonl
rejects "a folder" 1 "cannot be read: Is a directory" $replay .
: >empty.jsonl
rejects "an empty file" 1 "holds no call" $replay empty.jsonl
head -c 20000 /dev/urandom >noise.jsonl
rejects "noise" 1 "noise.jsonl:1: " $replay noise.jsonl
rejects "words" 2 "a --replay takes no words, not 'm=1'" $replay calls.jsonl m=1
rejects "words for gemm" 2 "a --replay takes no words, not 'm=1'" kiln bench gemm --replay calls.jsonl m=1
rejects "overhead" 2 "a --replay takes no words, not 'overhead'" kiln bench overhead --replay calls.jsonl
rejects "--replay and --list" 2 "exclude each other" $replay calls.jsonl --list small
rejects "--top without a replay" 2 "--top is for a --replay" kiln bench gemm --top 3 m=1 n=1 k=1 type=f32
rejects "--top of nothing" 2 "--top takes a whole number from 1" $replay calls.jsonl --top 0

# ---- kiln explain --replay ----

invoke 0 kiln explain --replay calls.jsonl
says stdout "m=2 n=3 k=3 epilogues=bias,relu" "f32*f32->f32" "calls that ref would serve: 6"
result "explain: who would serve each call"
invoke 0 kiln explain --replay calls.jsonl --json
says stdout '"file": "calls.jsonl"' '"chosen": "ref"' '"calls": 3' '"unserved": 0' '"ref": 6' '"home": "host"'
result "explain --json"
invoke 1 kiln explain --replay others.jsonl
says stdout "acme.sort/1" "nobody" "calls that ref would serve: 1" "plans that nobody would serve: 1"
result "explain: a vendor's operator that nobody offers"
invoke 1 kiln explain --replay calls.jsonl backend=nosuch
says stdout "nosuch: no plugin of this name was found" "plans that nobody would serve: 3"
result "explain: a backend that is not there"
problem=
with '"device":"host"' '"device":"acme:3"' elsewhere.jsonl
invoke 0 kiln explain --replay elsewhere.jsonl
says stdout "there is no acme:3 here" "ref on acme:3"
result "explain: a device that is not there"
invoke 0 $replay elsewhere.jsonl $quick --no-peers
says stdout "total ref: "
result "bench: a device that is not there"
invoke 1 kiln explain --replay later.jsonl
says stdout "the descriptor holds fields that this version does not know"
result "explain: a descriptor of a later version"
rejects "explain: malformed lines are located" 1 "bad.jsonl:3: not JSON" kiln explain --replay bad.jsonl
rejects "explain: an empty file" 1 "empty.jsonl holds no call" kiln explain --replay empty.jsonl
rejects "explain: words" 2 "--replay takes device=NAME and backend=NAME, not 'm=1'" kiln explain --replay calls.jsonl m=1
rejects "explain: unknown device" 1 "gpu:7" kiln explain --replay calls.jsonl device=gpu:7
rejects "explain: --replay and --measure" 2 "exclude each other" kiln explain --replay calls.jsonl --measure

case " $KILN_TEST_PLUGINS " in
*" plugins/npu "*)
    invoke 0 kiln explain --profile npu-davinci --replay calls.jsonl
    says stdout "npu: " "calls that ref would serve: 6"
    result "explain: why not the first choice"
    npy half.npy '<f2' '2, 2' '\000\074\000\100\000\074\000\100'
    problem=
    : >npu.jsonl
    KILN_PROFILE=npu-davinci KILN_RECORD=npu.jsonl kiln run gemm --a half.npy --b half.npy --out d.npy >stdout 2>stderr || problem="not run"
    grep -q '"device":"npu:0"' npu.jsonl || problem="${problem:-not recorded on the device: $(cat npu.jsonl)}"
    result "a call on a device is recorded there"
    invoke 0 $replay npu.jsonl $quick --profile npu-davinci --json
    says stdout '"device": "npu:0"' '"unit": "cycles"' '"median_cycles"'
    result "a model is replayed in cycles, where the call was"
    sed 's/"device":"npu:0"/"device":"host"/' npu.jsonl >moved.jsonl
    invoke 0 $replay moved.jsonl $quick --profile npu-davinci --set 'plugins=["npu"]' --json
    says stdout '"device": "npu:0"'
    result "where nobody serves it, it is run where somebody does"
    ;;
esac

finish
