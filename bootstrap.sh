#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From a fresh checkout to a result, on Debian or Ubuntu:
#
#   ./bootstrap.sh run         sets up, builds, and runs the digits job on the plugins ref and npu
#   ./bootstrap.sh check       sets up, builds, and runs the tests
#   ./bootstrap.sh build       sets up and builds
#   ./bootstrap.sh autoreconf  only makes configure (needs autoconf, automake, libtool, pkg-config)
#
# Set-up means: packages that are missing (by apt-get, with sudo if need be), configure, make. Everything is built in ./build;
# a second call does only what is left to do. Progress goes to standard error, results to standard output.
#   JOBS       how many compilers at once (as many as there are processors)
#   CONFIGURE  options for configure, for the first call
set -u
cd "$(dirname "$0")" || exit 1
root=$PWD
build=$root/build
logs=$build/logs
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}

# What shows that it is there: a command, or c:HEADER or p:PKG-CONFIG-MODULE; and the package that brings it.
needs='
cc                  gcc
make                make
autoconf            autoconf
automake            automake
libtoolize          libtool
pkg-config          pkg-config
c:stdio.h           libc6-dev
c:ltdl.h            libltdl-dev
p:yaml-0.1          libyaml-dev
p:openblas          libopenblas-dev
p:jansson           libjansson-dev
p:libzip            libzip-dev
p:libxxhash         libxxhash-dev
p:cmocka            libcmocka-dev
'

say() {
    echo "bootstrap: $*" >&2
}

# step WHAT LOG COMMAND…: runs the command with its output in the log; a failure says which step and where its log is.
step() {
    what=$1
    log=$logs/$2
    shift 2
    begin=$(date +%s)
    say "$what …"
    if ! "$@" >"$log" 2>&1 </dev/null; then
        tail -n 15 "$log" >&2
        say "FAILED: $what; the whole log is $log"
        exit 1
    fi
    say "$what: done in $(($(date +%s) - begin)) s"
}

present() {
    case $1 in
    c:*) command -v cc >/dev/null && echo "#include <${1#c:}>" | cc -E - >/dev/null 2>&1 ;;
    p:*) command -v pkg-config >/dev/null && pkg-config --exists "${1#p:}" 2>/dev/null ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

missing_packages() {
    echo "$needs" | while read -r probe package; do
        [ -z "$probe" ] || present "$probe" || echo "$package"
    done
}

packages() {
    missing=$(missing_packages | tr '\n' ' ')
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null; then
        say "FAILED: this system has no apt-get. Install what brings the following on Debian, then call again: $missing"
        exit 1
    fi
    admin=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null ||
            { say "FAILED: not root, and no sudo. As root:  apt-get install $missing"; exit 1; }
        admin=sudo
        # Before the output goes to a log, so that the question for a password is seen.
        sudo -v || { say "FAILED: sudo. As root:  apt-get install $missing"; exit 1; }
    fi
    step "list of packages (apt-get update)" apt-update.log $admin apt-get update
    step "packages $missing" apt-install.log \
        $admin env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
    missing=$(missing_packages | tr '\n' ' ')
    [ -z "$missing" ] || { say "FAILED: still missing after the installation: $missing; see $logs"; exit 1; }
}

# Only makes configure and what belongs to it. build-aux/autoconf.sh says why it stands in for autoconf.
generate() {
    AUTOCONF=$root/build-aux/autoconf.sh autoreconf --force --install
}

# Is configure older than anything that it and Makefile.in are made of?
stale() {
    [ ! -f configure ] || [ ! -f Makefile.in ] || [ -n "$(find . -path ./build -prune -o \
        \( -name local.mk -o -name Makefile.am -o -name configure.ac -o -name kiln.m4 \) -newer configure -print)" ]
}

build() {
    mkdir -p "$logs" || exit 1
    packages
    if [ -f config.status ]; then
        say "FAILED: this folder was configured itself, which keeps ./build from working:  make distclean"
        exit 1
    fi
    if stale; then
        step "configure script (autoreconf)" autoreconf.log generate
        touch configure
    fi
    if [ ! -f "$build/config.status" ]; then
        # shellcheck disable=SC2086
        cd "$build" && step "configure" configure.log ../configure ${CONFIGURE:-}
        cd "$root" || exit 1
        grep 'is switched off' "$logs/configure.log" >&2
    fi
    step "make (a few minutes at first)" make.log make -C "$build" -j "$jobs"
}

run() {
    build
    say "the digits job"
    "$build/run" sh "$root/examples/digits/run.sh" || { say "FAILED: the digits job"; exit 1; }
}

# Each test's line as it ends; then one line in all.
check() {
    build
    say "make check …"
    begin=$(date +%s)
    { make -C "$build" -j "$jobs" check 2>&1 </dev/null; echo $? >"$logs/check.status"; } |
        tee "$logs/check.log" | grep -E '^(PASS|FAIL|SKIP|XFAIL|XPASS|ERROR): '
    sum=$(sh build-aux/sum-tests.sh "$build" | tail -n 1)
    seconds=$(($(date +%s) - begin))
    if [ "$(cat "$logs/check.status")" = 0 ]; then
        echo "check: all is well after $seconds s: $sum"
    else
        echo "check: FAILED after $seconds s: $sum; log: $logs/check.log, details: $build/test-suite.log"
        exit 1
    fi
}

case ${1-} in
run | check | build) "$1" ;;
autoreconf) generate ;;
*)
    sed -n 's/^# \{0,1\}//; 3,13p' "$0" >&2
    exit 2
    ;;
esac
