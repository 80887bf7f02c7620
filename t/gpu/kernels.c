/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs every kernel against its reference on a device: the checks of
 * t/kernels, with 1 to 9 ranks, each with a stream, and a thousand repetitions
 * of some of them.
 */
#include "t/gpu/gpu.h"
#include "t/gpu/repeated.h"
#include "t/kernels/checks.h"

#include <stddef.h>

#define ARRAYS 32

int main(void)
{
    const struct check *arrays[ARRAYS] = {checks_of_repetitions};

    gpu_begin(300);
    for (int i = 0; checks_of_all[i] != NULL && i + 2 < ARRAYS; i++)
        arrays[i + 1] = checks_of_all[i];
    return checks_run(arrays);
}
