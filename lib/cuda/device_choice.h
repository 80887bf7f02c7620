/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which kernel serves an operation on devices, in how many pieces and on how
 * many blocks.  It depends on the operation and on what the members have agreed
 * on, so all of them choose the same.
 */
#ifndef SYMC_CUDA_DEVICE_CHOICE_H
#define SYMC_CUDA_DEVICE_CHOICE_H

#include "cuda/device_group.h"

/* How an operation is cut: each piece is a launch. */
struct symc_cuda_choice {
    enum symc_kernel kernel;
    bool copies;     /* by the driver: parts may be in buffers of their own, or
                        that is wanted */
    uint64_t count;  /* units of a part: elements of a reduction, else bytes */
    uint64_t unit;   /* bytes of one */
    uint64_t pitch;  /* bytes from one part to the next one in the staging */
    uint64_t pieces; /* units of a part in a launch, at most */
};

struct symc_cuda_choice symc_cuda_choose(const struct symc_cuda_limits *limits,
    int size, const struct symc_kind_info *info, const struct symc_op *op);

/* Whether an operation is an exchange of parts whose sizes no single member knows:
 * what it is cut into has no `count` before it is started. */
bool symc_cuda_is_exchange(const struct symc_kind_info *info);

/* Bytes of the largest part of an operation that a member receives, of a reduction
 * that any does; of several buffers those of all. */
uint64_t symc_cuda_find_part(
    const struct symc_kind_info *info, const struct symc_op *op, int size);

/* For so many bytes of a part. */
struct symc_grid symc_cuda_grid(const struct symc_cuda_limits *limits,
    enum symc_kernel kernel, int size, uint64_t nbytes);

/* Elements of these types are reduced as those of another one, and so many for
 * each. */
enum symmcoll_dtype symc_cuda_reduced_type(
    enum symmcoll_dtype dtype, uint64_t *factor);

#endif
