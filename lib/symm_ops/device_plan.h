/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans of exchanges in device memory, written and read by kernels. Private to
 * this directory.
 */
#ifndef SYMC_SYMM_OPS_DEVICE_PLAN_H
#define SYMC_SYMM_OPS_DEVICE_PLAN_H

#include "symm_ops/pieces.h"

/* Adds a reference to the handle of a plan. */
void symc_plan_hold(struct symmcoll_symm *handle);

/* Allocates memory for a number of pieces. Errors: those of struct
 * symc_memory_ops, NO_MEMORY. */
symmcoll_status_t symc_device_plan_open(struct symmcoll_symm *handle,
    const char *where, size_t pieces, struct symc_device_plan **plan);

/* Waits like symmcoll_symm_free(), and frees a plan. If it is still in use
 * after that, it is freed with the memory of the handle. NULL is ignored. */
void symc_device_plan_close(
    struct symmcoll_symm *handle, struct symc_device_plan *plan);

/* Describes an exchange for its kernels; plan NULL: they use the staging
 * buffer. */
void symc_device_plan_describe(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, const struct symc_device_plan *plan,
    struct symc_launch *launch);

#endif
