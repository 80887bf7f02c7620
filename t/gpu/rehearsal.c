/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake driver with all kernels in it, which any program finds as it finds
 * the real one. */
#include "t/cuda/fake/fake.h"
#include "t/gpu/kernels.h"
#include "t/kernels/engine.h"

#include <stdlib.h>

/* Makes a kernel time out before its call does, as on a device, even if other
 * work occupies the processors for seconds. */
#define CLOCK_FACTOR 4

static void run(fake_kernel_fn kernel, const void *args, uint32_t blocks,
    uint32_t threads, uint64_t seed)
{
    const struct engine_launch launch = {kernel, args, blocks, threads};
    const struct engine_stream stream = {&launch, 1};

    engine_run(&stream, 1, seed);
}

__attribute__((constructor)) static void register_kernels(void)
{
    const struct gpu_kernel *kernel;

    for (int i = 0; (kernel = gpu_kernel(i)) != NULL; i++)
        fake_register_kernel(kernel->name, kernel->kernel, kernel->nbytes);
    if (!fake_configure("waits=1"))
        abort();
    engine_hurry_clock(CLOCK_FACTOR);
    fake_set_engine(run);
}
