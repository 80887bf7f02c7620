# SPDX-License-Identifier: BSD-3-Clause
tree_tests += t/man/lint.t
output_tests += t/man/coverage.t t/man/examples.t t/man/options.t
