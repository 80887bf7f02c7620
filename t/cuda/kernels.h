/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's kernels for the fake driver, which runs them on the engine of
 * t/kernels.
 */
#ifndef T_CUDA_KERNELS_H
#define T_CUDA_KERNELS_H

/* Registers the kernels. Called before the driver is used. */
void kernels_register(void);

/* Returns how often a kernel has run in this process. */
int kernels_runs(const char *name);

#endif
