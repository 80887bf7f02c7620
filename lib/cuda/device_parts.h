/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of an operation, where each member sends its own to each other one.
 */
#ifndef SYMC_CUDA_DEVICE_PARTS_H
#define SYMC_CUDA_DEVICE_PARTS_H

#include <stddef.h>

struct symc_cuda_group;
struct symc_op;

/* What goes to another member and comes from it; no bytes: nothing does.  A member's
 * own part may be where it is to be. */
struct symc_cuda_part {
    const void *in;
    size_t in_nbytes;
    void *out;
    size_t out_nbytes;
};

/* Where each part is (out), by member: in a buffer of its own, or after the one before
 * it.  One part alone goes to the root, or comes from it. */
void symc_cuda_find_parts(const struct symc_cuda_group *group,
    const struct symc_op *op, struct symc_cuda_part *parts);

#endif
