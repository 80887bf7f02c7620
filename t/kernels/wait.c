/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiles for the host the kernels of signals and of waits with a deadline. */
#include "t/kernels/checks.h"

#include <stddef.h>

int main(void)
{
    const struct check *const arrays[] = {
        checks_of_signals, checks_of_waits, NULL};

    return checks_run(arrays);
}
