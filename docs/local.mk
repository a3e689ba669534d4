# SPDX-License-Identifier: Apache-2.0
dist_doc_DATA = \
	LICENSE \
	NEWS \
	README.md \
	docs/gemm.md \
	docs/vendor-guide.md
EXTRA_DIST += \
	docs/contract-rehearsal.md
