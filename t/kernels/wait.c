/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals, and waits that end, on the host. */
#include "t/kernels/checks.h"

#include <stddef.h>

int main(void)
{
    const struct check *const arrays[] = {
        checks_of_signals, checks_of_waits, NULL};

    return checks_run(arrays);
}
