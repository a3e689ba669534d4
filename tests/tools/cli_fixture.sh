# SPDX-License-Identifier: Apache-2.0
# What the tests of the command line share. Sourced; needs `kiln` in PATH and KILN_TEST_SRCDIR. Works in a folder of its own.

LC_ALL=C
export LC_ALL
command -v kiln >/dev/null || { echo "Bail out! there is no kiln in PATH"; exit 99; }
case " $KILN_TEST_PLUGINS " in
*" plugins/ref "*) ;;
*) echo "1..0 # SKIP the plugin ref was not built"; exit 0 ;;
esac
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
digits=$KILN_TEST_SRCDIR/examples/digits
tests=0
failures=0

# Each test runs one command; what it printed is in $work/stdout and $work/stderr.

# result WHAT: counts a test, passed when $problem is empty.
result() {
    tests=$((tests + 1))
    if [ -z "$problem" ]; then
        echo "ok $tests - $1"
        return
    fi
    failures=$((failures + 1))
    echo "not ok $tests - $1"
    echo "# $problem"
    sed 's/^/# stdout: /' "$work/stdout" | head -n 20
    sed 's/^/# stderr: /' "$work/stderr" | head -n 20
    problem=
}

# skipped WHAT REASON: counts a test that cannot be made here.
skipped() {
    tests=$((tests + 1))
    echo "ok $tests - $1 # SKIP $2"
    problem=
}

# invoke CODE COMMAND…: runs it; a problem when it exits with another code, or says something of a sanitizer.
invoke() {
    wanted=$1
    shift
    problem=
    "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
    code=$?
    [ $code -eq "$wanted" ] || problem="exit code $code instead of $wanted: $*"
    ! grep -q 'Sanitizer\|runtime error:' "$work/stderr" || problem="a sanitizer found something: $*"
}

# says FILE TEXT…: each text stands in what was printed there.
says() {
    file=$1
    shift
    for text in "$@"; do
        grep -qF -e "$text" "$work/$file" || problem="${problem:-$file lacks: $text}"
    done
}

# lacks FILE TEXT
lacks() {
    ! grep -qF -e "$2" "$work/$1" || problem="${problem:-$1 has: $2}"
}

# rejects WHAT CODE TEXT COMMAND…: the command fails with the code, says the text, and prints nothing on standard output.
rejects() {
    what=$1 code_wanted=$2 sentence=$3
    shift 3
    invoke "$code_wanted" "$@"
    says stderr "$sentence"
    [ ! -s stdout ] || problem="${problem:-something was printed on standard output}"
    result "$what"
}

# leaves FOLDER NAMES: the folder holds just these, hidden files included.
leaves() {
    found=$(ls -A "$1" | tr '\n' ' ')
    [ "$found" = "${2:+$2 }" ] || problem="${problem:-$1 holds: $found}"
}

# npy FILE TYPE SHAPE DATA: writes an array; DATA is for printf, little-endian, as in '\001\000\000\000' for 1 in <i4.
npy() {
    printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '$2', 'fortran_order': False, 'shape': ($3), }" >"$1"
    printf "$4" >>"$1"
}

# same FILE FILE
same() {
    cmp -s "$1" "$2" || problem="${problem:-$1 differs from $2}"
}

# catches PROCESS: the program handles SIGTERM by now, and has not received it or SIGINT yet. Until it has started it does not.
catches() {
    # The script that stands for it in a build folder catches signals of its own, and loses them.
    case $(readlink "/proc/$1/exe" 2>/dev/null) in */kiln | */lt-kiln) ;; *) return 1 ;; esac
    caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
    [ $((0x${caught:-0} & 0x4000)) -ne 0 ]
}

# ended PROCESS: true also when nobody has waited for it yet.
ended() {
    [ ! -e "/proc/$1/exe" ]
}

finish() {
    echo "1..$tests"
    [ "$failures" -eq 0 ] || { echo "# $failures of $tests failed"; exit 1; }
    exit 0
}

# f32 NUMBER…: the numbers as data for npy.
f32() {
    echo "$@" | tr ' ' '\n' | awk '{
        x = $1 < 0 ? -$1 : $1 + 0
        bits = 0
        if (x > 0) {
            for (e = 127; x >= 2; e++) x /= 2
            for (; x < 1; e--) x *= 2
            bits = e * 8388608 + (x - 1) * 8388608
        }
        if ($1 < 0) bits += 2147483648
        for (i = 0; i < 4; i++) {
            printf "\\%03o", bits % 256
            bits = int(bits / 256)
        }
    }'
}
