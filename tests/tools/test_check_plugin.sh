#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kiln check-plugin: usage, reports, skip files, plugins that pass, and plugins that misbehave. Prints TAP.
. "$KILN_TEST_SRCDIR/tests/tools/cli_fixture.sh"

[ -z "$KILN_TEST_STATIC" ] || { echo "1..0 # SKIP there are no shared objects"; exit 0; }
built=$KILN_TEST_BUILDDIR/plugins/.libs
odd=$KILN_TEST_BUILDDIR/tests/core/plugins/.libs
hostile=$KILN_TEST_BUILDDIR/tests/tools/plugins/.libs/hostile.so
check='kiln check-plugin'
# Else every process sleeps a second when it ends.
TSAN_OPTIONS=${TSAN_OPTIONS:+$TSAN_OPTIONS:}atexit_sleep_ms=0
export TSAN_OPTIONS

# ---- Usage ----

rejects "no file" 2 "name the plugin's file" $check
rejects "two files" 2 "one plugin at a time" $check a.so b.so
rejects "a file that is not there" 2 "nobody.so: there is no such file" $check nobody.so
rejects "unknown option, with a suggestion" 2 "did you mean '--level'" $check --levl abi x.so
rejects "unknown level" 2 "--level is abi, device, op or stress, not 'all'" $check --level all x.so
rejects "a seed that is no number" 2 "--seed takes a whole number" $check --seed x "$hostile"
rejects "no cases" 2 "--cases takes a whole number from 1" $check --cases 0 "$hostile"
rejects "a time limit that is no number" 2 "--time-limit takes" $check --time-limit -1 "$hostile"
rejects "an option without a value" 2 "--option takes KEY=VALUE" $check --option act "$hostile"
rejects "a pattern that selects nothing" 2 "has no such check" $check --only 'abi.nothing*' "$hostile"
rejects "a check of a higher level" 2 "level abi has no such check" $check --level abi --only device.alloc "$hostile"
rejects "a list of a file" 2 "--list takes no file" $check --list "$hostile"
invoke 0 $check --help
says stdout "usage: kiln check-plugin" "--level" "--junit" "Exit codes"
result "--help"
invoke 0 $check --list --level abi
says stdout "abi.one-symbol" "The file exports kiln_plugin_v1 and nothing else."
lacks stdout "device."
result "--list of a level"
invoke 0 $check --list --only 'device.copy-*'
says stdout "device.copy-strided"
lacks stdout "device.fill"
result "--list of a pattern"

# ---- Plugins that keep the contract ----

# certified PLUGIN-FILE NAME [OPTION…]: passes the levels abi and device.
certified() {
    plugin=$1 name=$2
    shift 2
    invoke 0 $check --level device "$@" "$plugin"
    says stdout "TAP version 13" "ok 1 - abi.file-name" "# plugin   $name " "# hash     xxh3-128 " "# abi      1.0; the plugin's is 1.0" \
        "# level    device, seed 1, 1000 cases" "# vectors  " " 0 failed, 0 skipped" "# verdict  certified at level device"
    lacks stdout "not ok"
    [ "$(sed -n 's/^1\.\.//p' stdout)" = "$(grep -c '^ok ' stdout)" ] || problem="${problem:-the plan and the tests differ in number}"
    result "$name is certified at level device"
}

certified "$built/ref.so" ref
says stdout "# operators kiln.gemm/1: query and plan tried, never run"
result "and the certificate says what was done with its operators"
says stdout "device.alloc # SKIP not applicable: it offers no kiln.device/1"
result "what does not apply says why"
case " $KILN_TEST_PLUGINS " in
*" plugins/npu "*)
    certified "$built/npu.so" npu
    problem=$(grep '^ok.* - device\..*SKIP' stdout | grep -v ThreadSanitizer | head -n 1)
    result "every check of devices applies to a device"
    invoke 0 $check --only device.two-devices --option devices=1 "$built/npu.so"
    says stdout "# SKIP not applicable: it has one device" "# options  {devices: 1}"
    result "--option reaches the plugin"
    invoke 0 $check --only 'device.copy-*' --seed 1 "$built/npu.so"
    grep '^# vectors' stdout >first
    invoke 0 $check --only 'device.copy-*' --seed 1 "$built/npu.so"
    grep '^# vectors' stdout >again
    same first again
    invoke 0 $check --only 'device.copy-*' --seed 2 "$built/npu.so"
    grep '^# vectors' stdout >other
    ! cmp -s first other || problem="${problem:-another seed has the same hash}"
    says stdout "a part is no certificate"
    result "the hash of the vectors follows the seed and nothing else"
    ;;
esac

acme=$KILN_TEST_SRCDIR/examples/vendor-plugin
if ${CC:-cc} -std=c11 -O1 -I"$KILN_TEST_SRCDIR/include" -fPIC -fvisibility=hidden -shared -o acme.so \
    "$acme/acme.c" "$acme/axpy.c" "$acme/gemm.c" 2>/dev/null; then
    certified ./acme.so acme --option rows_per_part=3
else
    skipped "acme is certified at level device" "the example does not compile here"
fi

# ---- Plugins that do not ----

# caught PLUGIN-FILE CHECK SENTENCE [OPTION…]: the check fails and says so.
caught() {
    plugin=$1 name=$2 sentence=$3
    shift 3
    invoke 1 $check --level abi --time-limit 2 "$@" "$plugin"
    grep -A 1000 -e "- $name\$" stdout | sed -n '1,/^  \.\.\.$/p' >found
    grep -q "^not ok" found || problem="${problem:-$name does not fail}"
    grep -qF -e "$sentence" found || problem="${problem:-$name does not say: $sentence}"
    says stdout "# verdict  not certified"
    result "${plugin##*/} $*: $name fails"
}

caught "$odd/blank.so" abi.one-symbol "exports blank_answer"
caught "$odd/blank.so" abi.loads "does not export kiln_plugin_v1"
caught "$odd/major.so" abi.loads "does not export kiln_plugin_v1"
caught "$odd/undefined.so" abi.loads "acme_function_that_nobody_defines"
says stdout "abi.plan # SKIP not applicable: not tried, since abi.loads fails"
result "what cannot be tried says why"
caught "$odd/crashing.so" abi.probe "crashed with SIGSEGV in probe"
caught "$odd/plain.so" abi.interface-names "gives NULL for acme.nothing/1"
cp "$built/ref.so" other.so
caught ./other.so abi.table "it calls itself 'ref', but its file other.so"
cp "$built/ref.so" Ref.so.1
caught ./Ref.so.1 abi.file-name "it must be NAME.so"
echo nonsense >nonsense.so
caught ./nonsense.so abi.one-symbol "not an ELF shared object"
: >empty.so
caught ./empty.so abi.loads "cannot be loaded"

# An operator that Kiln has never heard of: its descriptor may be long, but no longer than any may be.
# wide NAME FLAG…: builds ./NAME.so.
wide() {
    name=$1
    shift
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c11 -O1 -I"$KILN_TEST_SRCDIR/include" -fPIC -fvisibility=hidden -shared -DNAME="\"$name\"" "$@" -o "$name.so" \
        "$KILN_TEST_SRCDIR/tests/tools/plugins/wide.c" 2>/dev/null
}

if wide wide; then
    invoke 0 $check --level abi ./wide.so
    says stdout "# verdict  certified at level abi" "abi.plan # SKIP not applicable: it serves no descriptor"
    problem=${problem:-$(grep "abi.query-tail.*SKIP\|abi.query-flags.*SKIP\|abi.plan-refuses.*SKIP" stdout)}
    result "a vendor's descriptor of 1,024 bytes is right"
    says stdout "# operators wide.sort/1: query and plan tried, never run"
    lacks stdout "not looked at"
    invoke 0 $check --level op ./wide.so
    says stdout "it has no operator that the levels above know; results of wide.sort/1 were not looked at"
    result "the certificate says that it is never run"
    invoke 0 $check --level op --json ./wide.so
    says stdout '"name": "wide.sort/1"' '"found": "query and plan tried, never run"'
    result "and JSON says so"
    wide wide -DNO_OUTPUTS
    caught ./wide.so abi.required-functions "its table of wide.sort/1 lacks outputs: Kiln does not know this operator" \
        --only abi.required-functions
    wide wide -DQUERY_IS_DEAF
    caught ./wide.so abi.query-tail "accepts a descriptor that is longer than any may be, and whose last byte is not zero" --only abi.query-tail
    wide wide -DPLAN_IS_DEAF
    caught ./wide.so abi.plan-refuses "plan accepts a descriptor" --only abi.plan-refuses
    # A plugin's name may be a word that means something to YAML, and a file's name anything.
    wide null
    invoke 0 $check --level abi ./null.so
    says stdout "# plugin   null 1"
    result "a plugin may be called null"
    cp wide.so 'a, b: {c} #"d.so'
    caught './a, b: {c} #"d.so' abi.opens "under a name of at most 31 of [a-z0-9-]" --only abi.opens
    caught './a, b: {c} #"d.so' abi.file-name "is not a plugin's name" --only abi.file-name
else
    skipped "a vendor's descriptor of 1,024 bytes is right" "the plugin does not compile here"
fi

# ---- Plugins that serve little ----

if [ -n "$KILN_TEST_BRIEF" ]; then
    skipped "plugins that serve little" "KILN_TEST_BRIEF is set"
elif ${CC:-cc} -std=gnu11 -O1 -I"$KILN_TEST_SRCDIR/include" -DREAL="\"$built/ref.so\"" -fPIC -fvisibility=hidden -shared -o narrow.so \
    "$KILN_TEST_SRCDIR/tests/tools/plugins/narrow.c" -ldl 2>/dev/null; then
    narrow="$check --level stress --cases 40"
    # What they serve is computed and judged, whatever form it must have.
    invoke 0 $check --level op --cases 40 ./narrow.so
    says stdout "# verdict  certified at level op: $(sed -n 's/^# checks   \([0-9]*\) passed.*/\1/p' stdout) passed, $(
        sed -n 's/.* \([0-9]*\) not applicable$/\1/p' stdout) not applicable"
    for name in correct layouts tails zero-sizes dynamic-sizes strides gaps-survive offsets alignment-promises batches factors c-is-d \
        nan-inf denormals saturation rounding scales beta-zero-reads-no-c alpha-zero-reads-nothing epilogues epilogue-order guard-pages \
        workspace-bound parts argument-structs; do
        grep -q "^ok [0-9]* - op.gemm.$name\$" stdout || problem="${problem:-op.gemm.$name does not apply, or is not there}"
    done
    says stdout "# operators kiln.gemm/1: results compared"
    lacks stdout "not looked at"
    result "a plugin for e4m3 with scales alone is certified, and all that can apply does"

    # spoiled WHAT OPTIONS CHECK…: each of these checks fails, and no other runs.
    spoiled() {
        what=$1 options=$2
        shift 2
        only=
        for name in "$@"; do only="$only --only $name"; done
        # shellcheck disable=SC2086
        invoke 1 $narrow $options $only ./narrow.so
        for name in "$@"; do
            grep -q "^not ok [0-9]* - $name\$" stdout || problem="${problem:-$name does not fail}"
        done
        problem=${problem:-$(grep '^ok' stdout | head -n 1)}
        result "$what"
    }
    spoiled "what is wrong with scaled operands is found" "--option wrong=corner" op.gemm.correct op.gemm.tails op.gemm.strides \
        op.gemm.gaps-survive op.gemm.offsets op.gemm.scales op.gemm.guard-pages op.gemm.parts stress.parallel-for
    spoiled "what is wrong with fast results is found" "--option serves=fast --option wrong=corner" op.gemm.correct op.gemm.tails \
        op.gemm.strides op.gemm.gaps-survive op.gemm.offsets op.gemm.scales op.gemm.epilogues
    spoiled "shares of groups are looked at" "--option serves=groups --option wrong=shares" op.gemm.parts
    spoiled "bits of scales that are found are looked at" "--option wrong=bits" stress.bits-threads
    says stdout "D_SCALE has other bits with another number of threads"
    result "and the check says where"
    spoiled "a plugin that does not open with some number of threads fails" "--option wrong=threads" stress.bits-threads
    says stdout "the plugin opens, but not with threads.count 5" "narrow: five threads are bad luck"
    result "and the plugin's words are there"
    spoiled "too few random cases are not enough" "--option serves=one-size" op.gemm.correct
    says stdout "it serves f32, ungrouped, but of many random cases no more than 0, and 8 are needed"
    result "and how many there were"
    echo "op.gemm.correct it serves one size only" >skips
    invoke 1 $check --level op --cases 40 --option serves=one-size --skip skips ./narrow.so
    says stdout " 0 failed, 1 skipped" "# verdict  not certified: no check of level op could compare a computed result"
    result "a plugin of whose results none was compared is not certified"
    invoke 1 $check --level op --cases 40 --option serves=one-size --skip skips --json ./narrow.so
    says stdout '"certified": false' '"judged": 0'
    result "and JSON says so"
else
    skipped "plugins that serve little" "the plugin does not compile here"
fi

# A sanitizer finds memory that is lost by itself; else it is what every cycle adds.
leak="every open and close leaves memory behind: "
case $(nm -D "$hostile") in
*__asan_*) leak="AddressSanitizer: " ;;
*__tsan_*) leak= ;;
esac
[ -z "$leak" ] || caught "$hostile" abi.reopen-memory "$leak" --option act=leak --only abi.reopen-memory
caught "$hostile" abi.opens "crashed with SIGSEGV in open" --option act=crash --only abi.opens
caught "$hostile" abi.opens "crashed with SIGABRT in open" --option act=abort --only abi.opens
caught "$hostile" abi.opens "took longer than 2 s in open" --option act=hang --only abi.opens
caught "$hostile" abi.opens "took longer than 2 s in open" --option act=deaf --only abi.opens
caught "$hostile" abi.opens "ended the process with exit code 3 in open" --option act=exit --only abi.opens
caught "$hostile" abi.opens "ended the process with exit code 0 in open" --option act=quit --only abi.opens
caught "$hostile" abi.opens "left a process behind" --option act=fork --only abi.opens
caught "$hostile" abi.opens "did not arrive whole" --option act=scribble --only abi.opens
caught "$hostile" abi.opens 'hostile: <refuses> & says \"why\"' --option act=refuse --only abi.opens
caught "$hostile" abi.silent 'standard output: \"good morning\"' --option act=print --only abi.silent
caught "$hostile" abi.silent 'standard error: \"good?evening\"' --option act=complain --only abi.silent
caught "$hostile" abi.opens "option" --option nothing=1 --only abi.opens
caught "$hostile" abi.opens "act" --option "act=it's, {a} #trap: [" --only abi.opens

# ---- Skip files ----

loud="--level abi --only abi.silent --only abi.loads --option act=print"
printf '# known\n\n  abi.silent \t greets people # politely\n' >skips
invoke 0 $check $loud --skip skips "$hostile"
says stdout "abi.silent # SKIP greets people * politely" "1 passed, 0 failed, 1 skipped"
result "a check that fails as foreseen is skipped"
echo 'abi.loads it was broken once' >>skips
invoke 1 $check $loud --skip skips "$hostile"
says stdout "not ok 3 - skip of abi.loads" "skips:4: the check passes; take the line out" "1..3" "1 skip not used" "# verdict  not certified"
result "a skip of a check that passes is an error"
printf 'abi.silent it prints\nabi.nonsense no\n' >skips
invoke 1 $check $loud --skip skips "$hostile"
says stdout "skips:2: there is no such check"
result "a skip of no check is an error"
printf 'abi.silent it prints\ndevice.alloc no\n' >skips
invoke 1 $check $loud --skip skips "$hostile"
says stdout "skips:2: the check is not in the level"
result "a skip of a higher level is an error"
printf 'device.alloc no\n' >skips
invoke 1 $check --level device --only device.alloc --skip skips "$hostile"
says stdout "skips:1: the check does not apply to this plugin"
result "a skip of what does not apply is an error"
printf 'abi.silent it prints\nabi.options not asked for here\n' >skips
invoke 0 $check $loud --skip skips "$hostile"
result "a skip of what --only leaves out is none"
printf 'abi.silent\n' >skips
rejects "a skip without a reason" 2 "skips:1: 'abi.silent' has no reason" $check $loud --skip skips "$hostile"
printf 'abi.silent a\nabi.silent b\n' >skips
rejects "a skip that stands twice" 2 "skips:2: 'abi.silent' stands in line 1 already" $check $loud --skip skips "$hostile"
rejects "a skip file that is not there" 2 "nowhere: No such file" $check $loud --skip nowhere "$hostile"

# ---- Reports ----

# well_formed FILE: XML, by whatever can tell.
well_formed() {
    if command -v python3 >/dev/null; then
        python3 -c 'import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
suite = root.find("testsuite")
cases = suite.findall("testcase")
assert int(suite.get("tests")) == len(cases)
assert int(suite.get("failures")) == len([case for case in cases if case.find("failure") is not None])
assert int(suite.get("skipped")) == len([case for case in cases if case.find("skipped") is not None])' "$1" 2>xml-error ||
            problem="${problem:-$(tail -n 1 xml-error)}"
    elif command -v xmllint >/dev/null; then
        xmllint --noout "$1" 2>xml-error || problem="${problem:-$(head -n 1 xml-error)}"
    fi
    grep -q '</testsuites>' "$1" || problem="${problem:-$1 is cut short}"
}

mkdir reports
printf 'abi.silent <&">\nabi.nonsense no\n' >skips
invoke 1 $check --level device --only 'abi.[los]*' --only device.alloc --option act=refuse --skip skips --junit reports/a.xml "$hostile"
says reports/a.xml 'hostile: &lt;refuses&gt; &amp; says &quot;why&quot;' 'name="skip of abi.nonsense"' 'value="1.0 &lt;&amp;&gt;"' \
    '<skipped message="not tried, since abi.opens fails"/>'
leaves reports a.xml
well_formed reports/a.xml
result "JUnit's XML is well-formed, whatever a plugin says"
echo former >reports/a.xml
invoke 1 $check --only abi.loads --junit reports/none/b.xml "$hostile"
says stderr "--junit reports/none/b.xml: No such file"
says reports/a.xml former
result "a report that cannot be written is an error"
if [ -c /dev/full ] && [ "$(id -u)" -ne 0 ]; then
    chmod a-w reports
    invoke 1 $check --only abi.loads --junit reports/a.xml "$hostile"
    says reports/a.xml former
    result "a report is written whole or not at all"
    chmod u+w reports
fi
invoke 1 $check --only abi.loads --only abi.silent --option act=print --json "$hostile"
says stdout '"name": "abi.silent"' '"result": "failed"' '"verdict": "not certified"' '"plugin": "hostile"'
lacks stdout "TAP"
if command -v python3 >/dev/null; then
    python3 -c 'import json; report = json.load(open("stdout")); assert report["failed"] == 1 and len(report["checks"]) == 2' ||
        problem="${problem:-not the JSON that is expected}"
fi
result "--json"

# ---- Interruption ----

# The first child of a process, when it has one.
child_of() {
    grep -l "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status 2>/dev/null | sed 's|^/proc/\([0-9]*\)/.*|\1|' | head -n 1
}

problem=
kiln check-plugin --only abi.opens --option act=hang "$hostile" >stdout 2>stderr &
process=$!
until catches $process || ended $process; do sleep 0.1; done
until child=$(child_of $process) && [ -n "$child" ] || ended $process; do sleep 0.1; done
kill -TERM $process
wait $process
code=$?
[ $code -eq 143 ] || problem="exit code $code instead of 143"
says stdout "Bail out! stopped by signal 15"
says stderr "the process of the check was ended"
[ -z "$child" ] || ! kill -0 "$child" 2>/dev/null || problem="${problem:-the process of the check goes on}"
result "a signal ends the check, and says so"

finish
