/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fake driver with all kernels, for programs that find it themselves. With
 * FAKE_SPOILED in the environment it computes small sums of float32 wrongly.
 */
#include "t/cuda/fake/fake.h"
#include "t/cuda/kernels.h"

#include "kernels/args.h"

#include <stdlib.h>

void symc_packets_i32(const void *args);

__attribute__((constructor)) static void begin(void)
{
    kernels_register();
    if (getenv("FAKE_SPOILED") != NULL)
        fake_register_kernel("symc_packets_f32", symc_packets_i32,
            sizeof(struct symc_reduce_args));
}
