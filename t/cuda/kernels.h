/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels of the library for the fake driver, which runs them by the engine
 * of t/kernels.
 */
#ifndef T_CUDA_KERNELS_H
#define T_CUDA_KERNELS_H

/* Before the driver is used. */
void kernels_register(void);

/* How often a kernel has run in this process. */
int kernels_runs(const char *name);

#endif
