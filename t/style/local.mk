# SPDX-License-Identifier: BSD-3-Clause
tree_tests += t/style/conflicts.t t/style/descriptors.t t/style/environment.t \
    t/style/headers.t t/style/kernels.t t/style/ladders.t t/style/layers.t \
    t/style/licence.t t/style/prose.t t/style/semantics.t t/style/words.t
other_scripts += t/style/covered.t t/style/effects.t t/style/symbols.t

# What t/COVERAGE and t/config/EFFECTS name has run before that is looked up.
t/style/covered.log t/style/effects.log: $(program_tests:.t=.log) \
    t/devices/info.log
