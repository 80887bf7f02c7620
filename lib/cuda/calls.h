/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that kernels of a group are of, by the number that a kernel tells when
 * it gives up: those that run, and those that were captured in graphs, which
 * are started when nobody calls the library.
 */
#ifndef SYMC_CUDA_CALLS_H
#define SYMC_CUDA_CALLS_H

#include "cuda/device_group.h"

/* Calls that are captured have numbers from here on. */
#define SYMC_CUDA_CAPTURED UINT32_C(0x80000000)

/* The number of what is started now: group->launching until symc_cuda_call_end().
 * access: NULL, or what a rank does alone.
 * Errors: NO_MEMORY. */
symmcoll_status_t symc_cuda_call_begin(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_access *access, bool captured);

/* It has been enqueued; its token, NULL: it has none. */
void symc_cuda_call_end(
    struct symc_cuda_group *group, struct symc_cuda_token *token);

/* A token runs no more. */
void symc_cuda_call_forget(
    struct symc_cuda_group *group, struct symc_cuda_token *token);

/* A call and what is known of it; op is the group's. */
struct symc_cuda_known {
    const struct symc_op *op;
    const struct symc_cuda_call *call;
    bool captured;
    bool
        latest; /* one of its kind that there was no room for: op is that of the
                    latest of them, without its number */
};

/* Find a call; false: there is none of that number. */
bool symc_cuda_call_find(const struct symc_cuda_group *group, uint32_t number,
    struct symc_cuda_known *known);

/* "captured in a graph: rank 0 waited in vain for rank 1 on channel 3"; false:
 * there is no more to say than for whom an operation waited. */
bool symc_cuda_call_format(const struct symc_cuda_group *group,
    const struct symc_cuda_known *known, uint32_t peer, char *text,
    size_t nbytes);

/* All of them; what runs has ended. */
void symc_cuda_calls_close(struct symc_cuda_group *group);

#endif
