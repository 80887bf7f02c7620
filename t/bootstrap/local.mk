# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/bootstrap/bootstrap.t t/bootstrap/flood.t t/bootstrap/launcher.t \
    t/bootstrap/strangers.t
t_libt_a_SOURCES += t/bootstrap/joining.h

# The messages that cannot be sent are the test's choice.
t_bootstrap_launcher_t_LDFLAGS = $(AM_LDFLAGS) \
    -Wl,--wrap=symc_bootstrap_message_send
