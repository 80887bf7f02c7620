/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device that an address belongs to.
 */
#ifndef SYMC_CUDA_FIND_H
#define SYMC_CUDA_FIND_H

#include "base/base.h"

/*
 * Returns whether an address is in device memory, and which device's (out).  Pinned host
 * memory and managed memory count as host memory.  Once the process has used device
 * memory, an address that cannot be read any more is on SYMC_NO_DEVICE, and one for which
 * the driver's query fails is on SYMC_UNKNOWN_DEVICE.  Opens and initialises nothing: in
 * a process without libcuda no memory is a device's.  Any thread may call it at any time.
 */
bool symc_cuda_find(const void *data, int16_t *device);

/* Fails with the latest failed query of the driver and its error. */
symmcoll_status_t symc_cuda_refuse(
    symmcoll_status_t (*fail)(
        symmcoll_status_t status, const char *format, ...),
    const char *where, const void *data);

/* Returns whether two bytes, the first one in device memory, are in the same allocation
 * or the same reservation of addresses; true if the driver cannot say.  Any thread may
 * call it at any time. */
bool symc_cuda_is_one(const void *first, const void *last);

/* Does symc_cuda_find() on the first byte, with one query in most cases.  whole (out):
 * it is a device's, and the last byte is in the same allocation and mapped.  Any thread
 * may call it at any time. */
bool symc_cuda_find_whole(
    const void *first, const void *last, int16_t *device, bool *whole);

/* Returns whether the process has loaded libcuda.  Any thread may call it at any time. */
bool symc_cuda_is_present(void);

#endif
