/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All kernels by name, from the headers of kernels/: for programs that launch
 * them on a device, on which each is represented by an address, and for the
 * driver of the rehearsal, in which that is the kernel itself.
 */
#ifndef T_GPU_KERNELS_H
#define T_GPU_KERNELS_H

#include <stddef.h>

struct gpu_kernel {
    void (*kernel)(const void *args);
    const char *name;
    size_t nbytes; /* of its arguments */
};

/* Returns a kernel by its number; NULL after the last one. */
const struct gpu_kernel *gpu_kernel(int number);

#endif
