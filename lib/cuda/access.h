/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations: accesses of one rank to symmetric memory.
 */
#ifndef SYMC_CUDA_ACCESS_H
#define SYMC_CUDA_ACCESS_H

#include "cuda/device_group.h"

/* access() of struct symc_memory_ops. */
symmcoll_status_t symc_cuda_access(
    void *state, const struct symc_access *access, void **token);

#endif
