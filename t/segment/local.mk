# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/segment/block.t t/segment/denied.t t/segment/doorbell.t \
    t/segment/generations.t t/segment/liveness.t t/segment/reuse.t t/segment/segment.t \
    t/segment/sizes.t
t_libt_a_SOURCES += t/segment/arenas.h t/segment/child.h
