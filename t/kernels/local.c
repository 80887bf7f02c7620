/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiles for the host the kernels that work on one rank's memory. */
#include "t/kernels/checks.h"

#include <stddef.h>

int main(void)
{
    const struct check *const arrays[] = {checks_of_own_memory, NULL};

    return checks_run(arrays);
}
