/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiles for the host the kernels of reductions. */
#include "t/kernels/checks.h"

#include <stddef.h>

int main(void)
{
    const struct check *const arrays[] = {
        checks_of_reductions, checks_of_rows, NULL};

    return checks_run(arrays);
}
