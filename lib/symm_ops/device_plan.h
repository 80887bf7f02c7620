/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans of exchanges in the memory of a device, which its kernels write and read.
 * Private to this directory.
 */
#ifndef SYMC_SYMM_OPS_DEVICE_PLAN_H
#define SYMC_SYMM_OPS_DEVICE_PLAN_H

#include "symm_ops/pieces.h"

/* A plan keeps its handle, and what that is of. */
void symc_plan_hold(struct symmcoll_symm *handle);

/* Memory for so many pieces.  Errors: those of struct symc_memory_ops, NO_MEMORY. */
symmcoll_status_t symc_device_plan_open(struct symmcoll_symm *handle,
    const char *where, size_t pieces, struct symc_device_plan **plan);

/* Wait as symmcoll_symm_free(), and free it; what is still used then is freed with the
 * memory of the handle.  The plan may be NULL. */
void symc_device_plan_close(
    struct symmcoll_symm *handle, struct symc_device_plan *plan);

/* What the kernels of an exchange are told; plan NULL: they use the staging. */
void symc_device_plan_describe(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, const struct symc_device_plan *plan,
    struct symc_launch *launch);

#endif
