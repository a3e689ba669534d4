# SPDX-License-Identifier: Apache-2.0
# vendor-plugin is no part of this build: it is built against an installed Kiln, by its own.
digitsdir = $(pkgdatadir)/examples/digits
dist_digits_DATA = \
	examples/digits/README.md \
	examples/digits/digits.c \
	examples/digits/digits.yaml \
	examples/digits/heldout.npy \
	examples/digits/images.npy \
	examples/digits/labels.npy \
	examples/digits/weights.safetensors
dist_digits_SCRIPTS = \
	examples/digits/run.sh \
	examples/digits/train.py

noinst_PROGRAMS += examples/digits/digits
examples_digits_digits_SOURCES = examples/digits/digits.c
examples_digits_digits_LDADD = $(KILN_LIBS)

vendordir = $(pkgdatadir)/examples/vendor-plugin
dist_vendor_DATA = \
	examples/vendor-plugin/Makefile \
	examples/vendor-plugin/README.md \
	examples/vendor-plugin/acme.c \
	examples/vendor-plugin/acme.h \
	examples/vendor-plugin/acme.yaml \
	examples/vendor-plugin/axpy.c \
	examples/vendor-plugin/gemm.c \
	examples/vendor-plugin/plugin.h \
	examples/vendor-plugin/use-acme.c
