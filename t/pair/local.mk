# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/pair/areas.t t/pair/batch.t t/pair/faults.t t/pair/groups.t \
    t/pair/left.t t/pair/match.t t/pair/record.t t/pair/send.t t/pair/slow.t \
    t/pair/small.t t/pair/stray.t
t_libt_a_SOURCES += t/pair/pair.c t/pair/pair.h
