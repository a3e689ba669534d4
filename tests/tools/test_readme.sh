#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What README.md shows works as it is written there: the C example, the profile, the commands. Prints TAP.
. "$KILN_TEST_SRCDIR/tests/tools/cli_fixture.sh"

readme=$KILN_TEST_SRCDIR/README.md
build=$KILN_TEST_BUILDDIR

# block LANGUAGE: the fenced block of that language; there is one of each.
block() {
    awk -v fence="\`\`\`$1" '$0 == fence { inside = 1; next } /^```$/ { inside = 0 } inside' "$readme"
}

# ---- The C example ----

# The line that compiles it calls cc and pkg-config, which stand for the compiler and the libkiln of this build.
mkdir bin
flags=$(sed -n 's/^CFLAGS = //p; s/^KILN_CFLAGS = //p' "$build/Makefile" | tr ' ' '\n' | grep '^-fsanitize=' | tr '\n' ' ')
cat >bin/cc <<END
#!/bin/sh
exec ${CC:-cc} $flags "\$@"
END
cat >bin/pkg-config <<END
#!/bin/sh
[ "\$*" = "--cflags --libs kiln" ] || { echo "pkg-config \$* is not what was expected" >&2; exit 1; }
folders() {
    sed -n "s|\\\${includedir}|$KILN_TEST_SRCDIR/include|; s|\\\${libdir}|$build/.libs|; s|^\$1: *||p" "$build/kiln.pc"
}
folders Cflags
folders Libs
END
chmod +x bin/cc bin/pkg-config
command=$(sed -n 's/^    \(cc example\.c .*\)/\1/p' "$readme")
if [ -n "$KILN_TEST_STATIC" ]; then
    skipped "the C example compiles and multiplies" "there is no shared libkiln"
else
    block c >example.c
    invoke 0 env PATH="$work/bin:$PATH" LD_LIBRARY_PATH="$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" sh -c "$command"
    [ -n "$command" ] || problem="the README has no line 'cc example.c …'"
    printf '4 5\n10 11\n' >expected
    same stdout expected
    result "the C example compiles and multiplies"
fi

# ---- The profile, and commands inside sentences ----

block yaml >my-machine.yaml
npu=
kiln info --profile ./my-machine.yaml 2>/dev/null | grep -q '^  npu .* open ' || npu="the plugin npu does not open"
if [ -n "$npu" ]; then
    skipped "the profile is what it says" "$npu"
else
    invoke 0 kiln info --profile ./my-machine.yaml --print-config
    says stdout "my-machine.yaml:" "npu:0" "deny"
    invoke 0 kiln info --profile ./my-machine.yaml
    says stdout "profile  my-machine, from " "npu:1"
    lacks stdout "npu:2"
    result "the profile is what it says"
    invoke 0 kiln explain --profile ./my-machine.yaml kiln.gemm/1 m=64 n=64 k=64 type=f32 device=host
    says stdout "* chosen: ref on host"
    result "the profile keeps f32 on the reference"
fi

# ---- Commands ----

ln -s "$KILN_TEST_SRCDIR/examples" examples
npy A.npy '<f4' '2, 3' "$(f32 1 2 3 4 5 6)"
npy B.npy '<f4' '3, 2' "$(f32 1 0 0 1 1 1)"
npy D.expected '<f4' '2, 2' "$(f32 4 5 10 11)"
{
    sed -n 's/^    \(kiln [a-z].*\)/\1/p' "$readme" | grep -v '|'
    grep -o '`kiln [a-z]* [^`]*`' "$readme" | tr -d '`'
} >commands
while read -r line; do
    line=${line%%  *} # what follows is a comment
    case $line in
    *./acme.so*) # stands for any plugin
        if [ -n "$KILN_TEST_STATIC" ]; then
            skipped "$line" "a static build loads no shared objects"
            continue
        fi
        line="kiln check-plugin $build/plugins/.libs/ref.so --level abi"
        ;;
    *npu* | *my-machine*)
        if [ -n "$npu" ]; then
            skipped "$line" "$npu"
            continue
        fi
        ;;
    esac
    # /tmp is everybody's: the same files may be written there by another test, or belong to another user.
    invoke 0 sh -c "$(echo "$line" | sed 's|--out-dir /tmp|--out-dir .|')"
    [ -s stdout ] || problem="${problem:-nothing was printed}"
    case $line in
    "kiln explain "*)
        says stdout "* chosen: "
        ;;
    *" --out D.npy")
        tail -c 16 D.npy >D.bytes
        tail -c 16 D.expected >expected
        same D.bytes expected
        ;;
    *"--compare ref")
        says stdout "compared with ref" "npu:0" "accuracy 98.6 %" "passed"
        lacks stdout "FAILED"
        ;;
    esac
    result "$line"
done <commands
problem=
for words in "explain" "check-plugin" "run gemm" "run examples" "info --profile" "info --reference" "info --schema"; do
    grep -q "^kiln $words" commands || problem="${problem:-the README has no command kiln $words}"
done
result "none of the README's commands was overlooked"

finish
