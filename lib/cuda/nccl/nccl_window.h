/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: symmetric memory registered with NCCL, which then moves data in place, by
 * copy engines or multicast.
 *
 * NCCL looks up addresses on each rank by itself, and waits for ever if some ranks find
 * a window and others do not.  Windows therefore belong to a communicator of their own,
 * which is used when the members have compared their buffers and all have them at the
 * same offset of a window.  If a window cannot be made, that communicator is not used
 * any more, and everything continues with the other one.
 */
#ifndef SYMC_CUDA_NCCL_NCCL_WINDOW_H
#define SYMC_CUDA_NCCL_NCCL_WINDOW_H

#include "cuda/device_group.h"
#include "cuda/joined.h"
#include "cuda/nccl/nccl_comm.h"

/* Returns whether an operation of NCCL has buffers in memory for which the members have
 * not tried to make a window; alike on all members once their buffers are compared.
 * agreed: NULL before. */
bool symc_cuda_windows_lack(const struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_agreed *agreed);

/*
 * Collective; core->gather must be allowed; after group->comm was made of the same
 * config: makes windows of the memory of the buffers in group->agreed.  Memory for which a
 * member cannot make a window gets none.  The context must be current.
 * Errors: NO_MEMORY, those of symc_cuda_comm_open().
 */
symmcoll_status_t symc_cuda_windows_prepare(struct symc_cuda_group *group,
    struct symc_cuda_until until, const struct symc_nccl_config *config);

/* Stops using windows; all members call it. */
void symc_cuda_windows_stop(struct symc_cuda_group *group);

/* Returns the communicator whose windows hold the buffers of an operation that is being
 * started, on all members; else NULL. */
struct symc_cuda_comm *symc_cuda_windows_find(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* Returns the windows' communicator; NULL: there is none. */
struct symc_cuda_comm *symc_cuda_windows_comm(
    const struct symc_cuda_group *group);

/* Ends the windows and their communicator, after the last operation.  The context must be
 * current. */
void symc_cuda_windows_close(struct symc_cuda_group *group, int64_t timeout_ns);

/* Removes memory that is left from its window.  The context must be current; any thread
 * may call it, also after the windows have been closed. */
void symc_cuda_windows_leave(struct symc_cuda_joined *joined);

#endif
