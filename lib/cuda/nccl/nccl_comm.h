/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group's communicator of NCCL: made when its members first need it, on all of
 * them or on none, and ended with the group.
 *
 * No call waits for another rank: NCCL is told to return at once, and what is in
 * progress is asked for, until it has ended on all members, has failed on one, a
 * member has left, or a deadline has passed.  Then the communicator is aborted, while
 * no thread is in it.  What ends it waits for others all the same, and has a thread
 * of its own (nccl_keeper.h).
 */
#ifndef SYMC_CUDA_NCCL_NCCL_COMM_H
#define SYMC_CUDA_NCCL_NCCL_COMM_H

#include "backend/backend.h"
#include "cuda/nccl/nccl.h"
#include "cuda/nccl/nccl_keeper.h"

struct symc_cuda_comm;

/* Until when something is to have been made, and how long all of it may take, for
 * messages. */
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
 * Collective, where core->gather may be called: make one (out) of such a config,
 * but for its name and that no call blocks, while all members are waited for until
 * then.  In the context of the device, which no
 * other member has; in the same one, as `where` has it, it is ended.
 * Errors: of this member alone; what has been made is ended.  UNSUPPORTED (the
 * members' versions differ), TIMEOUT, NO_MEMORY, those of core->gather, and
 * of NCCL with what it says: SYSTEM, PEER, INVALID, DEVICE.
 */
symmcoll_status_t symc_cuda_comm_open(const struct symc_nccl *nccl,
    const struct symc_nccl_config *config, const struct symc_core *core,
    struct symc_cuda_where where, struct symc_cuda_until until, int rank,
    int size, struct symc_cuda_comm **comm);

/* Whether what was called has ended: OK, IN_PROGRESS, or why it failed.  Any
 * thread may call it at any time. */
symmcoll_status_t symc_cuda_comm_test(struct symc_cuda_comm *comm);

struct symc_cuda_part;

/*
 * Enqueue on a stream that each member sends its part for each other, and for
 * itself; all of them do.  Returns when NCCL has enqueued it, for which the others
 * may have to come; parts is read in the call.
 * Errors: as of a failed group, TIMEOUT, and those of NCCL; the communicator is
 * aborted.
 */
symmcoll_status_t symc_cuda_comm_exchange(struct symc_cuda_comm *comm,
    const struct symc_op *op, const struct symc_cuda_part *parts,
    struct CUstream_st *stream);

/* What a collective's elements are to NCCL. */
struct symc_cuda_elements {
    enum symc_nccl_type type;
    enum symc_nccl_op op; /* that reduces them */
    size_t nbytes;        /* of one */
    bool scaled;          /* this rank's are multiplied before, by its factor */
    double factor;
};

/* Whether this NCCL has a collective for an operation, alike on all members; what
 * it has none for symc_cuda_comm_exchange() does. */
bool symc_cuda_comm_collects(const struct symc_cuda_comm *comm,
    const struct symc_kind_info *info, const struct symc_op *op);

/*
 * Enqueue such a collective on a stream: a reduction of such elements, or one that
 * moves bytes; all members do.  As symc_cuda_comm_exchange(), lists are read in the
 * call.
 */
symmcoll_status_t symc_cuda_comm_collect(struct symc_cuda_comm *comm,
    const struct symc_kind_info *info, const struct symc_op *op,
    struct symc_cuda_elements elements, struct CUstream_st *stream);

/* While what was enqueued runs: OK, or why it will not end as it should; then it
 * is aborted, and every later call returns the same. */
symmcoll_status_t symc_cuda_comm_watch(struct symc_cuda_comm *comm);

/* Stop all that is in progress, a while later; every later call of it fails.  Any
 * thread may call it at any time; a second time does nothing. */
void symc_cuda_comm_abort(struct symc_cuda_comm *comm);

/* The same where no thread is in it, and nothing else: who is in it finds out by
 * itself that the group has failed.  Waits for nothing. */
void symc_cuda_comm_try_abort(struct symc_cuda_comm *comm);

/* Nothing is begun with it any more, for something could not be made of it on a member:
 * an error of that is none of what it has begun, and this goes on. */
void symc_cuda_comm_forgo(struct symc_cuda_comm *comm);

/* Finalize and release it, after the last call; where that fails, a member has
 * left or the time has passed, abort it.  It is not waited for longer than that: what
 * is left of it ends with those of the others.  NULL is allowed. */
void symc_cuda_comm_close(struct symc_cuda_comm *comm, int64_t timeout_ns);

#endif
