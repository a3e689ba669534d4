#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Adds up the results of all tests whose .trs files lie below the given folders, as "N passed, N failed, N skipped"; each
# cmocka test counts as one. Names the failed ones before that. Exit status 1 if any failed, or if there were none at all.
find "$@" -name '*.trs' -type f | LC_ALL=C sort | xargs awk '
    $1 != ":test-result:" { next }
    $2 == "PASS" || $2 == "XFAIL" { passed++; next }
    $2 == "SKIP" { skipped++; next }
    {
        failed++
        if (!(FILENAME in seen)) {
            seen[FILENAME] = 1
            log_name = FILENAME
            sub(/trs$/, "log", log_name)
            while ((getline line < log_name) > 0)
                if (line ~ /^(FAIL|ERROR|XPASS)[: ]/) print log_name ": " line
            close(log_name)
        }
    }
    END {
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit (failed > 0 || passed == 0)
    }'
