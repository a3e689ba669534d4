# SPDX-License-Identifier: Apache-2.0
dist_doc_DATA = \
	LICENSE \
	NEWS \
	README.md

# Beside README.md as in the source tree, so that its links lead somewhere there, too.
guidesdir = $(docdir)/docs
dist_guides_DATA = \
	docs/contract-rehearsal.md \
	docs/gemm.md \
	docs/vendor-guide.md
guides_DATA = \
	tests/conformance/planted/table.md
