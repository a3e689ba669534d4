#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs autoconf, then takes the word `core` out of the "rm -f core" lines of the generated configure: here core is a
# folder, which rm refuses to remove, so that configure would complain and leave its scratch files.
set -e
${KILN_AUTOCONF:-autoconf} "$@"
test ! -f configure || sed 's/rm -f core /rm -f /' configure >configure.tmp
test ! -f configure.tmp || { cat configure.tmp >configure && rm -f configure.tmp; }
