/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of a kernel for an operation, and of its number of pieces and blocks.  It
 * depends only on the operation and on values that all members have agreed on, so all
 * members choose the same.
 */
#ifndef SYMC_CUDA_DEVICE_CHOICE_H
#define SYMC_CUDA_DEVICE_CHOICE_H

#include "cuda/device_group.h"

/* The kernel and the pieces of an operation; each piece is a launch. */
struct symc_cuda_choice {
    enum symc_kernel kernel;
    bool copies;     /* by the driver: parts may be in separate buffers, or the
                        settings want copies */
    uint64_t count;  /* units of a part: elements of a reduction, else bytes */
    uint64_t unit;   /* bytes of a unit */
    uint64_t pitch;  /* bytes between parts in the staging */
    uint64_t pieces; /* units of a part in one launch, at most */
};

struct symc_cuda_choice symc_cuda_choose(const struct symc_cuda_limits *limits,
    int size, const struct symc_kind_info *info, const struct symc_op *op);

/* Returns whether an operation exchanges parts whose sizes no single member knows; its
 * choice has no `count` before it starts. */
bool symc_cuda_is_exchange(const struct symc_kind_info *info);

/* Returns the bytes of the largest part of an operation that this member receives; for a
 * reduction, that any member receives; for several buffers, of all buffers together. */
uint64_t symc_cuda_find_part(
    const struct symc_kind_info *info, const struct symc_op *op, int size);

/* Returns the grid for a part of nbytes bytes. */
struct symc_grid symc_cuda_grid(const struct symc_cuda_limits *limits,
    enum symc_kernel kernel, int size, uint64_t nbytes);

/* Returns the type that elements of a type are reduced as, and how many elements of it
 * (factor, out) one element is. */
enum symmcoll_dtype symc_cuda_reduced_type(
    enum symmcoll_dtype dtype, uint64_t *factor);

#endif
