# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/group/connectivity.t t/group/create.t t/group/deaths.t \
    t/group/drain.t t/group/ended.t t/group/entered.t t/group/error_info.t \
    t/group/faults.t t/group/find.t \
    t/group/free.t t/group/inherited.t t/group/local.t t/group/many.t t/group/memory.t \
    t/group/mismatch.t t/group/outside.t t/group/records.t t/group/several.t \
    t/group/shrink.t t/group/split.t
t_libt_a_SOURCES += t/group/groups.h
t_group_faults_t_SOURCES = t/group/faults.c t/world/enospc.c

# Ranks that die at each step.
t_group_deaths_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=symc_run_round \
    -Wl,--wrap=symc_agreement_round -Wl,--wrap=symc_group_open \
    -Wl,--wrap=symc_proposal_put -Wl,--wrap=symc_proposal_finish \
    -Wl,--wrap=symc_group_close
t_group_memory_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=symc_alloc
