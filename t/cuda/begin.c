/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs before all ranks with devices of the fake driver. */
#include "t/cuda/kernels.h"
#include "t/cuda/members.h"
#include "t/sanitized.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

void device_begin(void)
{
    const char *build = getenv("T_BUILDDIR");
    char folder[PATH_MAX];

    snprintf(
        folder, sizeof(folder), "%s/t/cuda/.libs", build != NULL ? build : ".");
    setenv("SYMMCOLL_MODULE_DIR", folder, 1);
    setenv("SYMMCOLL_CUDA_STAGING", "4KiB", 1);
    setenv("SYMMCOLL_CUDA_PACKETS_MAX", "64", 1);
    setenv("SYMMCOLL_CUDA_ONE_SHOT_MAX", "256", 1);
    setenv("SYMMCOLL_CUDA_ONE_SHOT_MAX_TWO", "256", 1);
    setenv("SYMMCOLL_CUDA_BLOCKS", "2", 1);
    setenv("SYMMCOLL_CUDA_NCCL", "", 1); /* not this machine's */
    kernels_register();
    if (!fake_configure("devices=8 memory=256M granularity=4K"))
        diag("the fake driver does not take its settings");
}

void on_both(int n, rank_fn body, const char *what)
{
    if (THREADS_CHECKED && n > CHECKED_PROCESSES)
        ok(1, "%s (%d processes) # SKIP ThreadSanitizer sees the threads", what,
            n);
    else
        ok(ranks_run(n, body), "%s (%d processes)", what, n);
    ok(threads_run(n, body), "%s (%d threads)", what, n);
}
