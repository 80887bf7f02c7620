/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: symmetric memory that is registered with NCCL, so that it moves data
 * from and to where it lies, by copy engines or multicast.
 *
 * NCCL looks at addresses, on each rank for itself, and waits for ever where some
 * ranks find a window and others do not.  So windows are of a communicator of their
 * own, which is used where the members have compared their buffers and all have them
 * at the same offset of it.  Where one cannot be made that communicator is aborted,
 * with what runs on it, and everything goes on with the other.
 */
#ifndef SYMC_CUDA_NCCL_NCCL_WINDOW_H
#define SYMC_CUDA_NCCL_NCCL_WINDOW_H

#include "cuda/device_group.h"
#include "cuda/joined.h"
#include "cuda/nccl/nccl_comm.h"

/* Whether an operation that is NCCL's has buffers in memory of which the members
 * have not tried to make a window.  Where it has been compared alike on all. */
bool symc_cuda_windows_lack(
    const struct symc_cuda_group *group, const struct symc_op *op);

/*
 * Collective, where core->gather may be called, after group->comm has been made of
 * such a config: make windows of the memory that has its buffers.  In the context.
 * Memory of which a member cannot make one has none.
 * Errors: those of symc_cuda_comm_open().
 */
symmcoll_status_t symc_cuda_windows_prepare(struct symc_cuda_group *group,
    const struct symc_op *op, struct symc_cuda_until until,
    const struct symc_nccl_config *config);

/* From now on there are none; all members call it. */
void symc_cuda_windows_stop(struct symc_cuda_group *group);

/* When it is started: the communicator whose windows have its buffers on all
 * members; else NULL. */
struct symc_cuda_comm *symc_cuda_windows_find(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* That communicator, whatever has its buffers; NULL: there is none. */
struct symc_cuda_comm *symc_cuda_windows_comm(
    const struct symc_cuda_group *group);

/* End them, and the communicator, after the last operation; in the context. */
void symc_cuda_windows_close(struct symc_cuda_group *group, int64_t timeout_ns);

/* The memory is left: it is in no window any more.  In the context; any thread may
 * call it, also after the windows have been closed. */
void symc_cuda_windows_leave(struct symc_cuda_joined *joined);

#endif
