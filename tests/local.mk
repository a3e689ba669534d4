# SPDX-License-Identifier: Apache-2.0
# Each folder of tests has its own list. What may stand there is explained in the Makefile.am of the root.
include tests/support/local.mk
