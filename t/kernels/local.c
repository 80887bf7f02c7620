/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that work on one rank's memory, on the host. */
#include "t/kernels/checks.h"

#include <stddef.h>

int main(void)
{
    const struct check *const arrays[] = {checks_of_own_memory, NULL};

    return checks_run(arrays);
}
