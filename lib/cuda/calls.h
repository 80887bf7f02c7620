/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that a group's kernels belong to, by number.  A kernel that gives up writes
 * its call's number.  There are calls that run, and calls captured in graphs, which may
 * be launched at any time without a call of the library.
 */
#ifndef SYMC_CUDA_CALLS_H
#define SYMC_CUDA_CALLS_H

#include "cuda/device_group.h"

/* The first number of captured calls. */
#define SYMC_CUDA_CAPTURED UINT32_C(0x80000000)

/* Gives the call that is being started a number, in group->launching until
 * symc_cuda_call_end().  access: NULL for a collective.
 * Errors: NO_MEMORY. */
symmcoll_status_t symc_cuda_call_begin(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_access *access, bool captured);

/* Records that the call has been enqueued; token may be NULL. */
void symc_cuda_call_end(
    struct symc_cuda_group *group, struct symc_cuda_token *token);

/* Removes a token that has completed from the calls that run. */
void symc_cuda_call_forget(
    struct symc_cuda_group *group, struct symc_cuda_token *token);

/* A call that was found; op belongs to the group. */
struct symc_cuda_known {
    const struct symc_op *op;
    const struct symc_cuda_call *call;
    bool captured;
    bool
        latest; /* it shares one entry with others of its kind: op is that of the
                    latest of them, without a sequence number */
};

/* Finds a call; returns false if none has that number. */
bool symc_cuda_call_find(const struct symc_cuda_group *group, uint32_t number,
    struct symc_cuda_known *known);

/* Formats a call: "captured in a graph: rank 0 timed out waiting for rank 1 on channel 3".
 * Returns false if the text only names the peer that the operation waited for. */
bool symc_cuda_call_format(const struct symc_cuda_group *group,
    const struct symc_cuda_known *known, uint32_t peer, char *text,
    size_t nbytes);

/* Frees the list of captured calls; no kernel of the group runs any more. */
void symc_cuda_calls_close(struct symc_cuda_group *group);

#endif
