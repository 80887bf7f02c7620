/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of all kernel checks. */
#include "t/kernels/checks.h"

#include <stddef.h>

const struct check *const checks_of_all[] = {checks_of_reductions,
    checks_of_rows, checks_of_moves, checks_of_exchanges, checks_of_plans,
    checks_of_pushes, checks_of_own_memory, checks_of_signals, checks_of_waits,
    NULL};
