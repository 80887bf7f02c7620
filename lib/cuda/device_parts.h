/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of an operation in which each member sends a part to each other member.
 */
#ifndef SYMC_CUDA_DEVICE_PARTS_H
#define SYMC_CUDA_DEVICE_PARTS_H

#include <stddef.h>

struct symc_cuda_group;
struct symc_op;

/* A part to another member and a part from it; 0 bytes: none.  A member's own part may
 * already be in place. */
struct symc_cuda_part {
    const void *in;
    size_t in_nbytes;
    void *out;
    size_t out_nbytes;
};

/* Finds the address of each part (out), by member: in a separate buffer, or after the
 * preceding part.  With one part, only the root's entry has it. */
void symc_cuda_find_parts(const struct symc_cuda_group *group,
    const struct symc_op *op, struct symc_cuda_part *parts);

#endif
