# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/symm_mem/blocks.t t/symm_mem/callers.t t/symm_mem/deadline.t \
    t/symm_mem/every.t t/symm_mem/exchanges.t t/symm_mem/extremes.t \
    t/symm_mem/faults.t t/symm_mem/handles.t t/symm_mem/litmus.t t/symm_mem/memory.t \
    t/symm_mem/moves.t t/symm_mem/one_sided.t t/symm_mem/ops_faults.t \
    t/symm_mem/outside.t t/symm_mem/pages.t t/symm_mem/pools.t t/symm_mem/poor.t \
    t/symm_mem/reductions.t t/symm_mem/released.t t/symm_mem/returned.t \
    t/symm_mem/settings.t t/symm_mem/signals.t t/symm_mem/unlocked.t \
    t/symm_mem/workspace.t
t_libt_a_SOURCES += t/symm_mem/ops.h t/symm_mem/symm.h

# Notes how long a round may take, and keeps a rank from the exchange.
t_symm_mem_deadline_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=symc_run_round \
    -Wl,--wrap=symc_run_exchange_until
t_symm_mem_poor_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=symc_alloc
# Another thread runs while memory is opened.
t_symm_mem_unlocked_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=symc_backing_open
# A thread waits in a call while another releases the group.
t_symm_mem_released_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=symc_run_wait_until \
    -Wl,--wrap=symc_group_drain_calls
# The test writes the contents of /proc/meminfo.
t_symm_mem_pages_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=symc_proc_read \
    -Wl,--wrap=symc_proc_each_line

if WITH_CUDA
device_tests += t/symm_mem/device_access.t t/symm_mem/device_awaited.t \
    t/symm_mem/device_calls.t t/symm_mem/device_faults.t t/symm_mem/device_groups.t \
    t/symm_mem/device_memory.t t/symm_mem/device_ops.t t/symm_mem/device_ops_faults.t \
    t/symm_mem/device_plans.t t/symm_mem/device_pools.t t/symm_mem/device_record.t \
    t/symm_mem/device_register.t t/symm_mem/device_register_faults.t \
    t/symm_mem/device_released.t t/symm_mem/device_switch.t
t_cuda_libmembers_a_SOURCES += t/symm_mem/device.h t/symm_mem/device_every.c \
    t/symm_mem/device_every.h t/symm_mem/device_freed.h t/symm_mem/device_sides.c \
    t/symm_mem/own.h t/symm_mem/own_on_device.c t/symm_mem/own_on_device.h
# Other threads run while one releases the group.
t_symm_mem_device_released_t_LDFLAGS = $(AM_LDFLAGS) \
    -Wl,--wrap=symc_queue_await_running -Wl,--wrap=symc_queue_stop \
    -Wl,--wrap=symc_group_cut -Wl,--wrap=symc_queue_close
# Another thread runs while one waits for a device.
t_symm_mem_device_awaited_t_LDFLAGS = $(AM_LDFLAGS) \
    -Wl,--wrap=symc_queue_await_begun
t_symm_mem_device_groups_t_LDFLAGS = $(AM_LDFLAGS) \
    -Wl,--wrap=symc_slot_open
endif
