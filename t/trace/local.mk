# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/trace/coalesced.t t/trace/dump.t t/trace/dump_files.t \
    t/trace/groups.t t/trace/pickle.t t/trace/position.t t/trace/ring.t
t_libt_a_SOURCES += t/trace/dump_util.h t/trace/json.h t/trace/ring_util.h
