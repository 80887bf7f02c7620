# SPDX-License-Identifier: BSD-3-Clause

# Device code, run on the host.
program_tests += t/kernels/local.t t/kernels/move.t t/kernels/reduce.t \
    t/kernels/switch_sums.t t/kernels/wait.t
t_kernels_local_t_LDADD = t/kernels/libkernels.a $(LDADD)
t_kernels_move_t_LDADD = t/kernels/libkernels.a $(LDADD)
t_kernels_mutants_t_LDADD = t/kernels/libkernels.a $(LDADD)
t_kernels_reduce_t_LDADD = t/kernels/libkernels.a $(LDADD)
t_kernels_switch_sums_t_LDADD = t/kernels/libkernels.a $(LDADD) -lm
t_kernels_wait_t_LDADD = t/kernels/libkernels.a $(LDADD)
tree_tests += t/kernels/report.t
check_LIBRARIES += t/kernels/libkernels.a
t_kernels_libkernels_a_SOURCES = t/kernels/all.c t/kernels/bound.c t/kernels/bound.h \
    t/kernels/checks.c t/kernels/checks.h t/kernels/device_host.h t/kernels/engine.c \
    t/kernels/engine.h t/kernels/exchanges.c t/kernels/fiber.c t/kernels/fiber.h \
    t/kernels/group.c t/kernels/group.h t/kernels/kernels.c t/kernels/machine.c \
    t/kernels/machine.h t/kernels/moves.c t/kernels/multicast.c t/kernels/multicast.h \
    t/kernels/own_memory.c t/kernels/plans.c t/kernels/pushes.c t/kernels/reductions.c \
    t/kernels/rows.c t/kernels/signals.c t/kernels/waits.c
