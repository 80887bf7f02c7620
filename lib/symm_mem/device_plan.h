/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans of exchanges in the memory of a device, which its kernels write and read.
 * Private to this directory.
 */
#ifndef SYMC_SYMM_MEM_DEVICE_PLAN_H
#define SYMC_SYMM_MEM_DEVICE_PLAN_H

#include "symm_mem/pieces.h"

/* Memory of a plan, on the device of a handle. */
struct symc_device_plan {
    const struct symc_memory_ops *mem; /* NULL: none */
    void *memory;                      /* the backend's */
    void *at;
};

/* For so many pieces.  Errors: those of struct symc_memory_ops. */
symmcoll_status_t symc_device_plan_open(const struct symmcoll_symm *handle,
    const char *where, size_t pieces, struct symc_device_plan *plan);

/* When the operations of the handle's group that run have ended. */
void symc_device_plan_close(
    const struct symmcoll_symm *handle, struct symc_device_plan *plan);

/* What the kernels of an exchange are told; plan NULL: they use the staging. */
void symc_device_plan_describe(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, const struct symc_device_plan *plan,
    struct symc_launch *launch);

#endif
