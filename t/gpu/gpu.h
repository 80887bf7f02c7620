/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers for the programs of t/gpu: they run on a GPU, with the driver that
 * is found, or, as a rehearsal, with the one of t/gpu/rehearsal, which runs
 * the kernels on the host. Without any device they are skipped, with the
 * reason. Several ranks share the first device, because one is the expected
 * number.
 */
#ifndef T_GPU_GPU_H
#define T_GPU_GPU_H

#include "cuda/driver.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Called first in main: checks settings in the environment, a driver and a
 * device, or calls skip_all(); and sets an alarm. Afterwards this process uses
 * CUDA only through gpu_open(), and may fork until then.
 */
void gpu_begin(unsigned int seconds);

/* Returns whether the kernels run on the host. */
bool gpu_is_rehearsal(void);
/* Returns whether a rehearsal is short: the fewest rounds in which everything
 * is run. */
bool gpu_is_short(void);
/* Returns n, or its replacement in a rehearsal, or in a short one. */
int gpu_choose(int n, int rehearsed, int in_short);

/* Returns the functions of the driver, and makes a device's context current.
 * From here on a failure ends the program, with the call's name. */
const struct symc_cuda *gpu_open(void);
void gpu_check(CUresult result, const char *what);
#define GPU_CHECK(call) gpu_check(call, #call)

/* Returns the number of multiprocessors of the device. */
int gpu_multiprocessors(void);

/* ---- blocked streams ---- */

/* Work added to the stream from now on does not begin before gpu_resume(); the
 * host does not wait. At most one in a process for each stream. */
struct gpu_stall {
    unsigned int *word;
};
void gpu_stall(struct gpu_stall *stall, CUstream stream);
void gpu_resume(const struct gpu_stall *stall);
/* Frees the stall, when the stream has ended. */
void gpu_stall_free(struct gpu_stall *stall);

#endif
