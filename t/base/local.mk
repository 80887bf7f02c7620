# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/base/alloc.t t/base/clock.t t/base/dtype.t t/base/error.t \
    t/base/half.t t/base/kinds.t t/base/log.t t/base/proc.t t/base/process.t \
    t/base/ranks.t t/base/reduce.t t/base/text.t t/base/thread.t
t_libt_a_SOURCES += t/base/reference.c t/base/reference.h
