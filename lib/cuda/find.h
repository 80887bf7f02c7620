/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose memory an address is.
 */
#ifndef SYMC_CUDA_FIND_H
#define SYMC_CUDA_FIND_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether an address is in the memory of a device, and of which one.  Memory of
 * the host that is known to the driver, and managed memory, are the host's; what
 * nobody can read any more is on SYMC_NO_DEVICE.  Opens and initialises nothing:
 * where the process has no libcuda, no memory is a device's.  Any thread may call
 * it at any time.
 */
bool symc_cuda_find(const void *data, int16_t *device);

/* Whether the process has libcuda by now.  Any thread may call it at any time. */
bool symc_cuda_is_present(void);

#endif
