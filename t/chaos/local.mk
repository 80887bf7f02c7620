# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/chaos/chaos.t
t_chaos_chaos_t_SOURCES = t/chaos/chaos.c t/chaos/chaos.h t/chaos/draw.c \
    t/chaos/groups.c t/chaos/judge.c t/chaos/operate.c t/chaos/rank.c t/chaos/symm.c
