# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/coll/all_reduce.t t/coll/all_to_all_v.t t/coll/args.t \
    t/coll/arrays.t t/coll/barrier.t t/coll/big.t t/coll/broadcast_coalesced.t \
    t/coll/coalesced.t t/coll/exchange_faults.t t/coll/floating.t t/coll/kinds.t \
    t/coll/lists.t t/coll/many.t t/coll/mismatch.t t/coll/monitored.t t/coll/nan.t \
    t/coll/region.t t/coll/sequence.t t/coll/soak.t t/coll/subgroups.t
t_libt_a_SOURCES += t/coll/data.c t/coll/data.h
