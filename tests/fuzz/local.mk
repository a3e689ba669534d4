# SPDX-License-Identifier: Apache-2.0
# Built by "make fuzz" alone, with clang: every fuzz_NAME.c there is, on the inputs in corpus/NAME.
EXTRA_DIST += tests/fuzz
