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
 * First in main: settings in the environment, a driver and a device, or else
 * skip_all(); and an alarm, so that nothing hangs.  This process uses no CUDA
 * afterwards but by gpu_open(), and may fork until then.
 */
void gpu_begin(unsigned int seconds);

/* The kernels run on the host. */
bool gpu_is_rehearsal(void);
/* The short form of a rehearsal: the fewest rounds in which each thing is done. */
bool gpu_is_short(void);
/* n, or what takes its place in a rehearsal, or in a short one. */
int gpu_choose(int n, int rehearsed, int in_short);

/* Returns the functions of the driver, and makes a device's context current.
 * From here on a failure ends the program, with the call's name. */
const struct symc_cuda *gpu_open(void);
void gpu_check(CUresult result, const char *what);
#define GPU_CHECK(call) gpu_check(call, #call)

/* Multiprocessors of the device. */
int gpu_multiprocessors(void);

/* ---- blocked streams ---- */

/* Work added to the stream from now on does not begin before gpu_resume(); the
 * host does not wait. At most one in a process for each stream. */
struct gpu_stall {
    unsigned int *word;
};
void gpu_stall(struct gpu_stall *stall, CUstream stream);
void gpu_resume(const struct gpu_stall *stall);
/* When the stream has ended. */
void gpu_stall_free(struct gpu_stall *stall);

#endif
