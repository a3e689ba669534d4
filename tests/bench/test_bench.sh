#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kiln bench: usage, what it prints, how it fails. Prints TAP. Nothing here depends on how fast anything is.
. "$KILN_TEST_SRCDIR/tests/tools/cli_fixture.sh"

quick="--rounds 3 --slice 1 --attempts 1 --allow-void --threads 1"

# ---- Usage ----

rejects "nothing to measure" 2 "gemm or overhead" kiln bench
rejects "unknown measurement" 2 "'gem' is not measured" kiln bench gem
rejects "gemm without a shape" 2 "name a shape" kiln bench gemm
rejects "shape without a type" 2 "type= is missing" kiln bench gemm m=1 n=1 k=1
rejects "empty shape" 2 "at least 1" kiln bench gemm m=0 n=1 k=1 type=f32
rejects "unknown word, with a suggestion" 2 "did you mean 'transpose_b'?" kiln bench gemm m=1 n=1 k=1 type=f32 transpos_b
rejects "a later case is read before anything runs" 2 "k=x" kiln bench gemm m=1 n=1 k=1 type=f32 k=x
rejects "a shape beyond counting" 2 "m=999999999999 n=999999999999 k=9: D has 999999999999 times 999999999999 elements" \
    kiln bench gemm m=999999999999 n=999999999999 k=9 type=f32
rejects "a row beyond counting" 2 "A has 1024 times" kiln bench gemm m=1024 n=1 k=281474976710656 type=f64
rejects "a batch beyond counting" 2 "batch 1099511627776" kiln bench gemm batch=1099511627776 m=1024 n=1024 k=1024 type=i8
rejects "unknown list" 2 "there are: small, model" kiln bench gemm --list huge
rejects "words for overhead" 2 "no word 'm=1'" kiln bench overhead m=1
rejects "wrong number" 2 "--rounds takes a whole number from 1" kiln bench gemm --rounds 0 m=1 n=1 k=1 type=f32
rejects "--csv and --json" 2 "exclude each other" kiln bench gemm --csv --json m=1 n=1 k=1 type=f32
rejects "unknown peer" 1 "there is no peer 'nosuch'" kiln bench gemm --profile ref --peer nosuch m=1 n=1 k=1 type=f32
rejects "peer's library that does not exist" 1 "/nonexistent/blas.so" \
    kiln bench gemm --profile ref --peer openblas --peer-path /nonexistent/blas.so m=1 n=1 k=1 type=f32

# ---- Measuring ----

no_gemm=
kiln info --profile ref --json | grep -q "kiln.gemm/1" || no_gemm="the plugin ref offers no GEMM here"

# measures WHAT: whether the test can be made; counts it as skipped when not.
measures() {
    [ -z "$no_gemm" ] || { skipped "$1" "$no_gemm"; return 1; }
}

if measures "gemm --json"; then
    invoke 0 kiln bench gemm $quick --no-peers --profile ref --json m=8,9 n=16 k=32 type=f32 type=f64 transpose_b
    says stdout '"host"' '"ceilings"' '"cases"' '"operator": "kiln.gemm/1"' '"shape": "m=8 n=16 k=32"' \
        '"shape": "m=9 n=16 k=32 transpose_b"' '"dtype": "f64"' '"backend": "ref"' '"threads": 1' '"median_ns"' '"gflops"' \
        '"ceiling_pct"' '"samples"' '"peers": []' '"failures": []'
    result "gemm --json"
fi
if measures "lists and repeated words make cases"; then
    [ "$(grep -c '"operator"' stdout)" -eq 4 ] || problem="not four cases"
    result "lists and repeated words make cases"
fi
if measures "gemm --csv"; then
    invoke 0 kiln bench gemm $quick --no-peers --profile ref --csv m=8 n=16 k=32 type=bf16
    says stdout "operator,shape,dtype" "kiln.gemm/1,m=8 n=16 k=32,bf16,ref,1,kiln,"
    result "gemm --csv"
fi
if measures "all backends"; then
    invoke 0 kiln bench gemm $quick --no-peers --profile ref --backend all m=8 n=16 k=32 type=i8
    says stdout "i8" "ref"
    result "all backends"
fi
if measures "a backend that is not there is a failure"; then
    invoke 1 kiln bench gemm $quick --no-peers --profile ref --backend nosuch --json m=8 n=16 k=32 type=f32
    says stderr "nosuch"
    says stdout '"cases": []' '"error"'
    result "a backend that is not there is a failure"
fi

# The peer is the library that ref itself wraps; in a process of its own it has its own kernels and threads.
what="a peer is compared, natively and by conversion"
if measures "$what"; then
    invoke 0 kiln bench gemm $quick --peer openblas --profile ref --json m=33 n=20 k=40 type=f32 type=f16 alpha=0.5 beta=2
    if grep -q "no peer openblas" stderr; then
        skipped "$what" "no OpenBLAS that can be loaded"
    else
        says stdout '"name": "openblas"' '"version": "0.' '"kernel"' '"ratio"' '"ratio_interval"'
        [ "$(grep -c '"name": "openblas"' stdout)" -eq 2 ] || problem="${problem:-not two peers}"
        result "$what"
    fi
fi

# ---- Interruption ----

what="an interrupt ends the run and keeps what was measured"
if measures "$what"; then
    : >stdout # what is waited for below is the head of the table
    kiln bench gemm --rounds 100000 --budget 1000 --no-peers --profile ref m=64 n=64 k=64 type=f32 >stdout 2>stderr &
    process=$!
    while [ ! -s stdout ] && kill -0 $process 2>kill.log; do
        sleep 0.1
    done
    kill -INT $process
    wait $process
    code=$?
    problem=
    [ $code -eq 130 ] || problem="exit code $code instead of 130"
    says stdout "interrupted"
    result "$what"
fi

finish
