/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiles for the host the kernels that move bytes. */
#include "t/kernels/checks.h"

#include <stddef.h>

int main(void)
{
    const struct check *const arrays[] = {checks_of_moves, checks_of_exchanges,
        checks_of_plans, checks_of_pushes, NULL};

    return checks_run(arrays);
}
