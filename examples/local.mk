# SPDX-License-Identifier: Apache-2.0
# vendor-plugin is no part of this build: it is built against an installed Kiln, by its own.
digitsdir = $(pkgdatadir)/examples/digits
dist_digits_DATA = \
	examples/digits/README.md \
	examples/digits/digits.yaml \
	examples/digits/heldout.npy \
	examples/digits/images.npy \
	examples/digits/labels.npy \
	examples/digits/weights.safetensors
dist_digits_SCRIPTS = \
	examples/digits/run.sh \
	examples/digits/train.py
