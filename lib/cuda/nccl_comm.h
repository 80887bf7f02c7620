/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group's communicator of NCCL: made when its members first need it, on all of
 * them or on none, and ended with the group.
 *
 * No call waits for another rank: NCCL is told to return at once, and what is in
 * progress is asked for, until it has ended on all members, has failed on one, a
 * member has left, or a deadline has passed.  Then the communicator is aborted, by one thread while no other is in
 * it.  No GPU has shown any of this yet.
 */
#ifndef SYMC_CUDA_NCCL_COMM_H
#define SYMC_CUDA_NCCL_COMM_H

#include "backend/backend.h"
#include "cuda/nccl.h"

struct symc_cuda_comm;

/*
 * Collective, where core->gather may be called: make one (out) for an operation
 * that needs it, until whose timeout all members are waited for.  In the context
 * of the device, which no other member has.
 * Errors: of this member alone; what has been made is ended.  UNSUPPORTED (the
 * members' versions differ), TIMEOUT, NO_MEMORY, those of core->gather, and
 * of NCCL with what it says: SYSTEM, PEER, INVALID, DEVICE.
 */
symmcoll_status_t symc_cuda_comm_open(const struct symc_nccl *nccl,
    const struct symc_core *core, const struct symc_op *op, int rank, int size,
    struct symc_cuda_comm **comm);

/* Whether what was called has ended: OK, IN_PROGRESS, or why it failed.  Any
 * thread may call it at any time. */
symmcoll_status_t symc_cuda_comm_test(struct symc_cuda_comm *comm);

/* Stop all that is in progress; every later call of it fails.  Any thread may
 * call it at any time; a second time does nothing. */
void symc_cuda_comm_abort(struct symc_cuda_comm *comm);

/* Finalize and release it, after the last call; where that fails, a member has
 * left or the time has passed, abort it.  NULL is allowed. */
void symc_cuda_comm_close(struct symc_cuda_comm *comm, int64_t timeout_ns);

#endif
