/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What clang-tidy's analyzer cannot see across files, put before each of them:
 * a function that fails gives back the status that it was given.
 */
#include "base/base.h"

#define symc_fail(status, ...) (symc_fail(status, __VA_ARGS__), (status))
#define symc_fail_errno(status, ...)                                           \
    (symc_fail_errno(status, __VA_ARGS__), (status))
