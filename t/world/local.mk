# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/world/asked.t t/world/cancel.t t/world/cause.t t/world/closed.t \
    t/world/cycles.t t/world/death.t t/world/elsewhere.t t/world/exchange.t \
    t/world/finalize.t t/world/forked.t t/world/handling.t t/world/harness.t \
    t/world/issued_faults.t t/world/joining.t t/world/leaving.t t/world/limits.t \
    t/world/names.t t/world/numbers.t t/world/poor.t t/world/premul.t \
    t/world/privileged.t t/world/processors.t t/world/records.t t/world/request.t \
    t/world/rounds.t t/world/sentences.t t/world/stopped.t t/world/stray.t \
    t/world/streams.t t/world/timeout.t
other_scripts += t/world/launched.t t/world/valgrind.t
check_PROGRAMS += t/world/launched_rank
t_libt_a_SOURCES += t/world/faults.c t/world/faults.h t/world/faults_rank.c \
    t/world/others.h
t_world_poor_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=symc_alloc
# With a fallocate() of its own in place of the C library's.
t_world_limits_t_SOURCES = t/world/limits.c t/world/enospc.c
