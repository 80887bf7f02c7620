# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/config/effects.t t/config/environment.t t/config/file.t \
    t/config/public.t t/config/value.t
output_tests += t/config/conf-tool.t
t_libt_a_SOURCES += t/config/reading.h
EXTRA_DIST += t/config/EFFECTS

# Counts non-temporal copies.
t_config_effects_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=symc_copy
