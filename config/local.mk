# SPDX-License-Identifier: Apache-2.0
dist_profile_DATA = \
	config/cpu.yaml \
	config/npu-davinci.yaml \
	config/ref.yaml
