# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/host/direct.t t/host/geometry.t t/host/late.t t/host/litmus.t \
    t/host/order.t t/host/staging.t t/host/stress.t t/host/symmetric.t \
    t/host/symmetric_faults.t t/host/symmetric_lists.t
t_libt_a_SOURCES += t/host/symmetric.h
t_host_stress_t_SOURCES = t/host/stress.c t/host/stress.h t/host/stress_kinds.c
# A rank finds its parts after another has left.
t_host_late_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=symc_host_find_parts
