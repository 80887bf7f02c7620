# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/object/limits.t t/object/message.t t/object/object.t
t_libt_a_SOURCES += t/object/make.c t/object/object.h
