/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather and matmul on a device.
 */
#ifndef SYMC_FUSED_DEVICE_GATHER_H
#define SYMC_FUSED_DEVICE_GATHER_H

#include "fused/gather_matmul.h"

/* Runs a call after its arguments have been read, or, if status is an error,
 * publishes that this rank cannot go on. Errors: those of the call. */
symmcoll_status_t symc_fused_gather_on_device(struct gather_matmul *it,
    const struct symc_fused_call *begun, symmcoll_status_t status);

#endif
