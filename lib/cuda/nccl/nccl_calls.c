/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of a group's communicator of NCCL: enqueuing them, for which NCCL may need
 * the other members, and watching them while they run.
 */
#include "cuda/device_parts.h"
#include "cuda/nccl/nccl_state.h"

#include <sched.h>

/* A thread of NCCL enqueues, mostly within POLL_NS: its progress is polled for that long,
 * and less and less often after it. */
#define POLL_NS (INT64_C(100) * 1000)
#define NAP_LEAST_NS (INT64_C(10) * 1000)

/* ---- enqueuing ---- */

/* Waits until NCCL has enqueued the latest call. */
static symmcoll_status_t await_enqueued(
    struct symc_cuda_comm *comm, const struct symc_op *op)
{
    const struct symc_core *core = comm->core;
    const int64_t polled = core->now() + POLL_NS;
    int64_t deadline = symc_deadline_ns(core->now(), op->timeout_ns);
    int64_t nap = NAP_LEAST_NS;
    int member;

    for (;;) {
        symmcoll_status_t status = symc_cuda_comm_test(comm);

        if (status != SYMMCOLL_IN_PROGRESS)
            return status;
        if (core->now() < polled) {
            sched_yield();
            continue;
        }
        if (symc_cuda_comm_find_broken(comm, &member))
            return core->failure(core->group, op, member);
        if (core->now() >= deadline)
            return core->fail(SYMMCOLL_ERR_TIMEOUT,
                "%s on rank %d: expected it to be enqueued within %.3g s, "
                "found it in progress",
                comm->call, symc_cuda_comm_world_rank(comm, comm->rank),
                (double)op->timeout_ns / (double)SYMC_NS_PER_S);
        symc_cuda_comm_pause(core, nap);
        if (nap < SYMC_CUDA_COMM_NAP_NS)
            nap *= 2;
    }
}

symmcoll_status_t symc_cuda_comm_enqueue(struct symc_cuda_comm *comm,
    const struct symc_op *op, struct symc_cuda_routine routine, const void *arg,
    struct CUstream_st *stream)
{
    symmcoll_status_t status;

    pthread_mutex_lock(&comm->lock);
    comm->call = routine.name;
    status = comm->made == NULL
                 ? symc_cuda_comm_refuse_aborted(comm)
                 : symc_cuda_comm_judge(comm, routine.call(comm, arg, stream));
    pthread_mutex_unlock(&comm->lock);
    if (status == SYMMCOLL_IN_PROGRESS)
        status = await_enqueued(comm, op);
    if (status != SYMMCOLL_OK)
        symc_cuda_comm_abort(comm);
    return status;
}

/* Sends and receives in a group of calls, which is ended even if one fails. */
static enum symc_nccl_result send_all(const struct symc_cuda_comm *comm,
    const void *arg, struct CUstream_st *stream)
{
    const struct symc_cuda_part *parts = arg;
    const struct symc_nccl *nccl = comm->nccl;
    enum symc_nccl_result first = nccl->group_start(), result;

    if (first != SYMC_NCCL_SUCCESS)
        return first;
    for (int i = 0; i < comm->size; i++) {
        /* Each rank starts with a different peer, to spread the load of links. */
        int r = (comm->rank + i) % comm->size;

        if (r == comm->rank && parts[r].in == parts[r].out)
            continue;
        if (first == SYMC_NCCL_SUCCESS && parts[r].in_nbytes > 0)
            first = nccl->send(parts[r].in, parts[r].in_nbytes, SYMC_NCCL_UINT8,
                r, comm->made, stream);
        if (first == SYMC_NCCL_SUCCESS && parts[r].out_nbytes > 0)
            first = nccl->recv(parts[r].out, parts[r].out_nbytes,
                SYMC_NCCL_UINT8, r, comm->made, stream);
    }
    result = nccl->group_end();
    return first != SYMC_NCCL_SUCCESS ? first : result;
}

symmcoll_status_t symc_cuda_comm_exchange(struct symc_cuda_comm *comm,
    const struct symc_op *op, const struct symc_cuda_part *parts,
    struct CUstream_st *stream)
{
    return symc_cuda_comm_enqueue(comm, op,
        (struct symc_cuda_routine){"ncclSend and ncclRecv", send_all}, parts,
        stream);
}

/* ---- while it runs ---- */

/* Returns OK or the error of running work, for which it stops the communicator.  Called
 * with the lock held. */
static symmcoll_status_t judge_running(struct symc_cuda_comm *comm)
{
    enum symc_nccl_result found = SYMC_NCCL_SUCCESS, result;
    symmcoll_status_t status;

    if (comm->made == NULL)
        return comm->broken == SYMMCOLL_OK
                   ? symc_cuda_comm_refuse_aborted(comm)
                   : comm->core->fail(comm->broken, "%s", comm->reason);
    if (comm->forgone)
        return SYMMCOLL_OK;
    result = comm->nccl->comm_get_async_error(comm->made, &found);
    if (result != SYMC_NCCL_SUCCESS)
        found = result;
    status = symc_cuda_comm_status(found);
    if (status >= 0)
        return SYMMCOLL_OK;
    comm->broken = status;
    symc_cuda_comm_describe(comm, found, comm->reason);
    symc_cuda_comm_drop(comm);
    return comm->core->fail(status, "%s", comm->reason);
}

symmcoll_status_t symc_cuda_comm_watch(struct symc_cuda_comm *comm)
{
    symmcoll_status_t status;

    pthread_mutex_lock(&comm->lock);
    status = judge_running(comm);
    pthread_mutex_unlock(&comm->lock);
    return status;
}
