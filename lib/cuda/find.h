/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose memory an address is.
 */
#ifndef SYMC_CUDA_FIND_H
#define SYMC_CUDA_FIND_H

#include "base/base.h"

/*
 * Whether an address is in the memory of a device, and of which one.  Memory of
 * the host that is known to the driver, and managed memory, are the host's; what
 * nobody can read any more is on SYMC_NO_DEVICE, and what the driver fails to tell on
 * SYMC_UNKNOWN_DEVICE, in a process that has had memory of devices.  Opens and initialises nothing:
 * where the process has no libcuda, no memory is a device's.  Any thread may call
 * it at any time.
 */
bool symc_cuda_find(const void *data, int16_t *device);

/* Fail with the call of the driver that failed to tell last, and its error. */
symmcoll_status_t symc_cuda_refuse(
    symmcoll_status_t (*fail)(
        symmcoll_status_t status, const char *format, ...),
    const char *where, const void *data);

/* Whether a byte is in the same allocation as an earlier one that is a device's, or
 * in the same addresses that were reserved at once; also where the driver does not
 * say.  Any thread may call it at any time. */
bool symc_cuda_is_one(const void *first, const void *last);

/* symc_cuda_find() of a byte, by one question.  whole (out): it is a device's, and the
 * driver says that the last one is in the same allocation, and mapped.  Any thread may
 * call it at any time. */
bool symc_cuda_find_whole(
    const void *first, const void *last, int16_t *device, bool *whole);

/* Whether the process has libcuda by now.  Any thread may call it at any time. */
bool symc_cuda_is_present(void);

#endif
