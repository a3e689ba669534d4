#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The plugin that docs/vendor-guide.md makes, block by block as it stands there, is certified. Prints TAP.
. "$KILN_TEST_SRCDIR/tests/tools/cli_fixture.sh"

guide=$KILN_TEST_SRCDIR/docs/vendor-guide.md
if [ -n "$KILN_TEST_STATIC" ]; then
    skipped "the guide's plugin is certified" "a static build loads no shared objects"
    finish
fi

case $(sed -n 's/^CFLAGS = //p; s/^KILN_CFLAGS = //p' "$KILN_TEST_BUILDDIR/Makefile") in
*fsanitize=thread*)
    skipped "the guide's plugin is certified" "every level takes too long with ThreadSanitizer"
    finish
    ;;
esac

# Blocks come behind a line that is `FILE`:, those of one file one after the other.
awk '
    /^`[A-Za-z.]+`:$/ { file = substr($0, 2, length($0) - 3); next }
    /^```./ && file { inside = 1; next }
    /^```$/ { if (inside) file = ""; inside = 0; next }
    inside { print >>file }
' "$guide"

# The compiler and the flags of this build, as its pkg-config would say them.
flags=$(sed -n 's/^CFLAGS = //p; s/^KILN_CFLAGS = //p' "$KILN_TEST_BUILDDIR/Makefile" | tr ' ' '\n' | grep '^-fsanitize=' | tr '\n' ' ')
mkdir bin
cat >bin/pkg-config <<END
#!/bin/sh
echo "-I$KILN_TEST_SRCDIR/include"
END
chmod +x bin/pkg-config
# A sanitizer's runtime is the program's: it stays undefined in the plugin.
[ -z "$flags" ] || sed -i 's/-Wl,-z,defs//' Makefile
chmod go-w .
invoke 0 env PATH="$work/bin:$PATH" make CC="${CC:-cc} $flags" CFLAGS="-O2 -g -Wall -Wextra -Werror"
result "the guide's plugin compiles without warnings"

invoke 0 env KILN_PLUGIN_PATH="$work:$KILN_PLUGIN_PATH" kiln explain kiln.gemm/1 m=64 n=64 k=64 type=f16
says stdout "only f32 is offered"
result "it declines what it does not serve, with its reason"
# shellcheck disable=SC2046
invoke 0 env KILN_PLUGIN_PATH="$work:$KILN_PLUGIN_PATH" kiln $(sed -n 's/.* kiln \(explain acme.axpy.*\)/\1/p' "$guide")
says stdout "chosen: acme on host"
result "its own operator is explained by the descriptor's bytes"

invoke 0 kiln check-plugin ./acme.so --level stress --cases 200
lacks stdout "not ok"
says stdout "# operators acme.axpy/1: query and plan tried, never run; kiln.gemm/1: results compared" \
    "; results of acme.axpy/1 were not looked at" "op.gemm.batches # SKIP not applicable: " "stress.bits-batch # SKIP not applicable: "
result "it is certified, but for what its own operator computes"
finish
