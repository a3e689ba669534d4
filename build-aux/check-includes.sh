#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails when a source file includes a header that its folder may not use. Usage: check-includes.sh [ROOT]

# folder: what it may include, as the first folder of the header's path (plugins/NAME counts as one folder)
rules='
include: kiln
support: support
core: kiln core support
plugins: kiln
conformance: kiln conformance
bench: kiln bench conformance support tools
tools: kiln tools support conformance bench
examples: kiln
'

# offences ROOT: "FILE:LINE: includes HEADER" for each that breaks a rule. A header is sought beside the file first, as the compiler
# does. support/preload.c is the one exception: it joins plugins and libkiln in static builds.
offences() {
    (cd "$1" && find include support core plugins conformance bench tools examples -name '*.[ch]' \
        ! -path support/preload.c ! -path 'examples/vendor-plugin/*' 2>/dev/null |
        xargs grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]' /dev/null) |
        awk -v root="$1" -v rules="$rules" '
        BEGIN {
            count = split(rules, lines, "\n")
            for (i = 1; i <= count; i++) {
                if (!match(lines[i], /^[a-z]+:/)) continue
                folder = substr(lines[i], 1, RLENGTH - 1)
                number = split(substr(lines[i], RLENGTH + 2), words, " ")
                for (j = 1; j <= number; j++) allowed[folder, words[j]] = 1
            }
            number = split("kiln include support core plugins conformance bench tools examples tests tile compat", words, " ")
            for (j = 1; j <= number; j++) ours[words[j]] = 1
        }
        function exists(path,    line, found) {
            found = (getline line < path) >= 0
            close(path)
            return found
        }
        function normal(path,    parts, number, i, out, depth) {
            number = split(path, parts, "/")
            depth = 0
            for (i = 1; i <= number; i++) {
                if (parts[i] == "..") depth--
                else if (parts[i] != "." && parts[i] != "") out[++depth] = parts[i]
            }
            path = ""
            for (i = 1; i <= depth; i++) path = path (i > 1 ? "/" : "") out[i]
            return path
        }
        function unit(path,    parts) {
            split(path, parts, "/")
            return parts[1] == "plugins" ? parts[1] "/" parts[2] : parts[1]
        }
        {
            split($0, at, ":")
            file = at[1]
            header = $0
            if (!match(header, /[<"][^>"]*[>"]/)) next
            quoted = substr(header, RSTART, 1) == "\""
            header = substr(header, RSTART + 1, RLENGTH - 2)
            folder = file
            sub(/[^\/]*$/, "", folder)
            path = header
            if (quoted && exists(root "/" folder header)) path = normal(folder header)
            sub(/^include\//, "", path)
            split(path, parts, "/")
            if (!(parts[1] in ours) && (!quoted)) next
            split(file, own, "/")
            if (unit(path) == unit(file) || (own[1], parts[1]) in allowed) next
            print file ":" at[2] ": includes " header
        }'
}

scratch=$(mktemp -d) || exit 99
echo 1..2
trap 'rm -rf "$scratch"' EXIT

# First that the check can fail, and only where it should.
mkdir -p "$scratch/core/ops" "$scratch/plugins/a" "$scratch/plugins/b" "$scratch/tools/kiln" "$scratch/support"
touch "$scratch/core/pool.h" "$scratch/plugins/b/own.h"
plant() { # FILE, INCLUDE, 1 if it is an offence
    echo "#include $2" >"$scratch/$1"
    found=$(offences "$scratch" | wc -l)
    rm "$scratch/$1"
    [ "$found" -eq "$3" ] || { echo "not ok 1 - wrong about $2 in $1"; exit 1; }
}
plant core/x.c '"core/pool.h"' 0
plant core/x.c '"pool.h"' 0
plant core/ops/x.c '"../pool.h"' 0
plant core/x.c '"kiln/kiln.h"' 0
plant core/x.c '<stdio.h>' 0
plant core/x.c '"plugins/a/own.h"' 1
plant core/ops/x.c '"../../plugins/b/own.h"' 1
plant core/x.c '"tools/kiln/command.h"' 1
plant plugins/b/x.c '"own.h"' 0
plant plugins/b/x.c '<kiln/plugin.h>' 0
plant plugins/a/x.c '"plugins/b/own.h"' 1
plant plugins/a/x.c '"../b/own.h"' 1
plant plugins/a/x.c '"core/pool.h"' 1
plant plugins/a/x.c '<core/pool.h>' 1
plant plugins/a/x.c '"support/yaml.h"' 1
plant tools/kiln/x.c '"core/pool.h"' 1
plant tools/kiln/x.c '"support/yaml.h"' 0
plant support/x.c '"kiln/kiln.h"' 1
echo "ok 1 - planted includes are judged rightly"

found=$(offences "${1:-${KILN_TEST_SRCDIR:-.}}")
if [ -n "$found" ]; then
    echo "$found"
    echo "not ok 2 - these folders may not use those headers; build-aux/check-includes.sh has the table"
    exit 1
fi
echo "ok 2 - every folder includes only what it may"
