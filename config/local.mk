# SPDX-License-Identifier: Apache-2.0
dist_profile_DATA =
