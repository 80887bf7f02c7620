/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matmul and reduce_scatter on a device.
 */
#ifndef SYMC_FUSED_DEVICE_SCATTER_H
#define SYMC_FUSED_DEVICE_SCATTER_H

#include "fused/matmul_scatter.h"

/* Runs a call after its arguments have been read, or, if status is an error,
 * publishes that this rank cannot go on. Errors: those of the call. */
symmcoll_status_t symc_fused_scatter_on_device(
    struct matmul_scatter *it, symmcoll_status_t status);

#endif
