# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/threads/compare.t t/threads/descriptors.t t/threads/lent.t \
    t/threads/run.t

# A rank gives up when another has borrowed its block.
t_threads_lent_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=symc_bootstrap_join \
    -Wl,--wrap=symc_block_borrow -Wl,--wrap=symc_bootstrap_message_receive \
    -Wl,--wrap=symc_rendezvous_close
