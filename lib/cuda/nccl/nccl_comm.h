/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group's communicator of NCCL: made when its members first need it, on all of them or
 * on none, and ended with the group.
 *
 * No call waits for another rank: NCCL's calls return at once, and work in progress is
 * polled until it has ended on all members, has failed on one, a member has left, or a
 * deadline has passed.  Then the communicator is aborted, while no thread is in it.  The
 * calls that end it do wait for other ranks, and are made by a thread of their own
 * (nccl_keeper.h).
 */
#ifndef SYMC_CUDA_NCCL_NCCL_COMM_H
#define SYMC_CUDA_NCCL_NCCL_COMM_H

#include "backend/backend.h"
#include "cuda/nccl/nccl.h"
#include "cuda/nccl/nccl_keeper.h"

struct symc_cuda_comm;

/* A deadline, and the whole timeout for messages. */
struct symc_cuda_until {
    int64_t deadline_ns;
    int64_t timeout_ns;
};

static inline struct symc_cuda_until symc_cuda_until(
    const struct symc_core *core, int64_t timeout_ns)
{
    return (struct symc_cuda_until){
        symc_deadline_ns(core->now(), timeout_ns), timeout_ns};
}

/*
 * Collective; core->gather must be allowed: makes a communicator (out) of a config, with
 * the group's name and calls that do not block, until the deadline.  Call it in the
 * context of the device, on which no other member is; `where` ends the communicator in
 * the same context.
 * Errors: of this member alone; the communicator is ended then.  UNSUPPORTED (the
 * members' versions differ), TIMEOUT, NO_MEMORY, those of core->gather, and errors of
 * NCCL with its text: SYSTEM, PEER, DEVICE.
 */
symmcoll_status_t symc_cuda_comm_open(const struct symc_nccl *nccl,
    const struct symc_nccl_config *config, const struct symc_core *core,
    struct symc_cuda_where where, struct symc_cuda_until until, int rank,
    int size, struct symc_cuda_comm **comm);

/* Returns whether the latest call has ended: OK, IN_PROGRESS, or why it failed.  Any
 * thread may call it at any time. */
symmcoll_status_t symc_cuda_comm_test(struct symc_cuda_comm *comm);

struct symc_cuda_part;

/*
 * Collective: enqueues on a stream that each member sends its parts to all members.
 * Returns when NCCL has enqueued it, for which it may need the other members; parts is
 * read in the call.
 * Errors: those of a failed group, TIMEOUT, and those of NCCL; the communicator is
 * aborted then.
 */
symmcoll_status_t symc_cuda_comm_exchange(struct symc_cuda_comm *comm,
    const struct symc_op *op, const struct symc_cuda_part *parts,
    struct CUstream_st *stream);

/* A collective's elements in NCCL's terms. */
struct symc_cuda_elements {
    enum symc_nccl_type type;
    enum symc_nccl_op op; /* the reduction */
    size_t nbytes;        /* of one element */
    bool scaled; /* this rank's elements are multiplied by factor first */
    double factor;
};

/* Returns whether this NCCL has a collective for an operation, alike on all members;
 * otherwise use symc_cuda_comm_exchange(). */
bool symc_cuda_comm_collects(const struct symc_cuda_comm *comm,
    const struct symc_kind_info *info, const struct symc_op *op);

/*
 * Collective: enqueues NCCL's collective for an operation on a stream: a reduction of
 * such elements, or one that moves bytes.  Returns and fails as
 * symc_cuda_comm_exchange(); lists are read in the call.
 */
symmcoll_status_t symc_cuda_comm_collect(struct symc_cuda_comm *comm,
    const struct symc_kind_info *info, const struct symc_op *op,
    struct symc_cuda_elements elements, struct CUstream_st *stream);

/* Checks enqueued work that runs: OK, or the error for which it will not succeed; the
 * communicator is aborted then, and later calls return the same error. */
symmcoll_status_t symc_cuda_comm_watch(struct symc_cuda_comm *comm);

/* Makes the keeper stop all work in progress; later calls fail.  Does not wait.  Any
 * thread may call it at any time; a second call does nothing. */
void symc_cuda_comm_abort(struct symc_cuda_comm *comm);

/* symc_cuda_comm_abort() if no thread is in the communicator; otherwise does nothing, as
 * that thread finds by itself that the group has failed.  Waits for nothing. */
void symc_cuda_comm_try_abort(struct symc_cuda_comm *comm);

/* Stops new work on the communicator, because a member could not make something of it.
 * An error of that call is not one of running work, which continues. */
void symc_cuda_comm_forgo(struct symc_cuda_comm *comm);

/* Finalizes and frees the communicator after its last call; aborts it if that fails, a
 * member has left or the timeout has passed.  Waits for each step no longer than the
 * timeout: the rest ends together with the other members'.  NULL is allowed. */
void symc_cuda_comm_close(struct symc_cuda_comm *comm, int64_t timeout_ns);

#endif
