#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints, sorted, the functions that the public headers declare with KILN_API.
# Usage: api-names.sh FOLDER-OF-HEADERS
cat "$1"/*.h | awk '
    # Leave out preprocessor lines with their continuations (macros make declarations too, but those are for plugins).
    continued || /^[ \t]*#/ { continued = /\\$/; next }
    { text = text $0 "\n" }
    END {
        while (match(text, /\/\*([^*]|\*+[^*\/])*\*+\//))
            text = substr(text, 1, RSTART - 1) " " substr(text, RSTART + RLENGTH)
        count = split(text, parts, /KILN_API[ \t\n]/)
        for (i = 2; i <= count; i++) {
            name = substr(parts[i], 1, index(parts[i], "(") - 1)
            gsub(/[ \t\n]+$/, "", name)
            gsub(/.*[ \t\n*]/, "", name)
            print name
        }
    }' | LC_ALL=C sort
