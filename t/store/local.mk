# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/store/counters.t t/store/deadlines.t t/store/fake_store.t \
    t/store/file.t t/store/file_faults.t t/store/hash.t t/store/poor.t \
    t/store/prefix.t t/store/user.t t/store/waiting.t t/store/watch.t
# The tcp store, beside Debian's redis-server.
if HAVE_HIREDIS
program_tests += t/store/tcp.t
endif
if HAVE_LIBEVENT
program_tests += t/store/ended.t t/store/limits.t t/store/local.t t/store/renewal.t \
    t/store/server.t t/store/stopped.t t/store/takeover.t t/store/turns.t
endif
t_libt_a_SOURCES += t/store/apart.h t/store/certs.h t/store/common.h \
    t/store/contract.h t/store/file_util.h t/store/helpers.h t/store/raw.h \
    t/store/stranger.h t/store/table.h
t_store_poor_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=symc_alloc
