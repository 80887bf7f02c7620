/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one rank does alone with joined memory, and which of it a kernel did that
 * gave up.
 */
#ifndef SYMC_CUDA_ACCESS_H
#define SYMC_CUDA_ACCESS_H

#include "cuda/device_group.h"

/* See struct symc_memory_ops. */
symmcoll_status_t symc_cuda_access(
    void *state, const struct symc_access *access, void **token);

/* ---- accesses.c ---- */

/* What is to be told with the failure of the next one; 0 is of operations. */
uint32_t symc_cuda_access_number(struct symc_cuda_group *group);

/* A token runs. */
void symc_cuda_access_begin(struct symc_cuda_group *group,
    struct symc_cuda_token *token, const struct symc_access *access,
    uint32_t number);

/* A token is not running any more; nothing if it is of an operation. */
void symc_cuda_access_end(
    struct symc_cuda_group *group, struct symc_cuda_token *token);

/* What runs with such a number; NULL: none does. */
const struct symc_cuda_token *symc_cuda_access_find(
    const struct symc_cuda_group *group, uint32_t number);

/* "rank 0 waited in vain for rank 1 on channel 3". */
void symc_cuda_access_format(const struct symc_cuda_group *group,
    const struct symc_cuda_token *token, uint32_t peer, char *text,
    size_t nbytes);

#endif
