/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives of the stand-in for NCCL: groups of calls, each of which
 * is a function in the caller's stream that ends when all of its messages have
 * been taken, or when its communicator is aborted. Between two ranks messages
 * arrive in the order of their calls.
 */
#include "t/nccl/comms.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The thread's current group. ThreadSanitizer does not track the release of
 * more than a pointer of a library that was loaded later. */
static _Thread_local struct fake_work *group
    __attribute__((tls_model("initial-exec")));
static _Thread_local int inside __attribute__((tls_model("initial-exec")));

API int ncclGroupStart(void);
API int ncclGroupEnd(void);
API int ncclSend(const void *in, size_t count, int type, int peer,
    struct symc_nccl_comm *comm, struct CUstream_st *stream);
API int ncclRecv(void *out, size_t count, int type, int peer,
    struct symc_nccl_comm *comm, struct CUstream_st *stream);

/* ---- work in a stream ---- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Copies a chunk into a channel. Returns whether one has moved. */
static int post(struct fake_channel *channel, struct fake_call *call,
    const struct fake_work *work)
{
    if (atomic_load(&channel->full) != 0)
        return 0;
    channel->routine = call->routine;
    channel->placed = work->placed;
    channel->total = call->nbytes;
    channel->nbytes = least(call->nbytes - call->moved, FAKE_CHUNK);
    memcpy(channel->data, call->in + call->moved, channel->nbytes);
    call->moved += channel->nbytes;
    call->over = call->moved == call->nbytes;
    atomic_store(&channel->full, 1);
    return 1;
}

static int take(struct fake_channel *channel, struct fake_call *call,
    const struct fake_work *work)
{
    if (atomic_load(&channel->full) == 0)
        return 0;
    if (channel->routine != call->routine)
        fake_nccl_die("ranks make different calls");
    if (channel->placed != work->placed)
        fake_nccl_die("ranks have their buffers elsewhere in windows");
    if (channel->total != call->nbytes)
        fake_nccl_die("a message has another size than its receive");
    memcpy(call->out + call->moved, channel->data, channel->nbytes);
    call->moved += channel->nbytes;
    call->over = call->moved == call->nbytes;
    atomic_store(&channel->full, 0);
    return 1;
}

/* Returns whether an earlier call of the same direction and peer is
 * unfinished. */
static int is_behind(const struct fake_work *work, int index)
{
    const struct fake_call *call = &work->calls[index];

    for (int i = 0; i < index; i++) {
        const struct fake_call *before = &work->calls[i];

        if (before->over == 0 && before->peer == call->peer &&
            (before->in == NULL) == (call->in == NULL))
            return 1;
    }
    return 0;
}

/* Moves data of a work's calls. left (out): unfinished calls. Returns whether
 * anything has moved. */
static int move(struct fake_work *work, int *left)
{
    const struct symc_nccl_comm *comm = work->comm;
    int moved = 0;

    *left = 0;
    for (int i = 0; i < work->ncalls; i++) {
        struct fake_call *call = &work->calls[i];

        if (call->over == 0 && !is_behind(work, i))
            moved |= call->in != NULL
                         ? post(&comm->clique->channels[comm->rank][call->peer],
                               call, work)
                         : take(&comm->clique->channels[call->peer][comm->rank],
                               call, work);
        *left += call->over == 0;
    }
    return moved;
}

static void run(void *arg)
{
    struct fake_work *work = arg;
    int left = 1;

    for (int i = 0; i < work->nscales; i++)
        fake_scale_begin(&work->scales[i]);
    while (left > 0 && atomic_load(&work->comm->phase) != FAKE_OVER &&
           atomic_load(&work->comm->phase) != FAKE_REVOKED) {
        if (move(work, &left) == 0 && left > 0)
            usleep(20);
    }
    fake_windows_unuse(work);
    for (int i = 0; left == 0 && i < work->nsums; i++)
        fake_sum_finish(&work->sums[i], atomic_load(&work->comm->clique->size));
    atomic_fetch_sub(&work->comm->running, 1);
    fake_work_free(work);
}

int fake_work_enqueue(struct fake_work *work)
{
    atomic_fetch_add(&fake_nccl.enqueued, 1);
    atomic_fetch_add(&work->comm->running, 1);
    return fake_driver_launch(work->stream, run, work);
}

void fake_work_free(struct fake_work *work)
{
    for (int i = 0; work != NULL && i < work->nsums; i++)
        free(work->sums[i].parts);
    for (int i = 0; work != NULL && i < work->nscales; i++)
        free(work->scales[i].out);
    free(work);
}

/* ---- calls ---- */

int ncclGroupStart(void)
{
    if (inside++ > 0)
        return SYMC_NCCL_SUCCESS;
    group = calloc(1, sizeof(*group));
    if (group == NULL)
        inside = 0;
    return group != NULL ? SYMC_NCCL_SUCCESS : SYMC_NCCL_SYSTEM_ERROR;
}

/* Begins work at once, or after as many queries as the test sets. Called with
 * the lock. */
static int begin(struct symc_nccl_comm *comm, struct fake_work *work)
{
    if (atomic_load(&comm->phase) != FAKE_READY || comm->questions > 0 ||
        comm->pending != NULL)
        fake_nccl_die("a communicator is used that is not ready");
    comm->questions = atomic_load(&fake_nccl.slow);
    if (comm->questions == 0 && atomic_load(&fake_nccl.stuck) == 0)
        return fake_work_enqueue(work);
    comm->pending = work;
    return SYMC_NCCL_IN_PROGRESS;
}

int ncclGroupEnd(void)
{
    struct fake_work *work = group;
    struct symc_nccl_comm *comm;

    if (inside == 0)
        return SYMC_NCCL_INVALID_USAGE;
    if (--inside > 0)
        return SYMC_NCCL_SUCCESS;
    group = NULL;
    comm = work->comm;
    if (work->ncalls == 0) {
        fake_work_free(work);
        return SYMC_NCCL_SUCCESS;
    }
    fake_nccl_enter(comm);
    return fake_nccl_leave(comm, begin(comm, work));
}

void fake_group_leave_out(void)
{
    if (inside > 0)
        fake_nccl_die("a communicator is used inside of a group of calls");
}

#ifndef NCCL_FEW

API int ncclGroupSimulateEnd(struct symc_nccl_simulated *simulated);

/* Simulates the end of a group: in an outer group it changes and reads
 * nothing. */
int ncclGroupSimulateEnd(struct symc_nccl_simulated *simulated)
{
    atomic_fetch_add(&fake_nccl.simulated, 1);
    if (inside == 0)
        return SYMC_NCCL_INVALID_USAGE;
    if (inside == 1 && group->ncalls > 0)
        fake_nccl_die("calls are simulated");
    if (ncclGroupEnd() != SYMC_NCCL_SUCCESS || inside > 0 ||
        atomic_load(&fake_nccl.simulates))
        return SYMC_NCCL_SUCCESS;
    if (simulated->magic == SYMC_NCCL_SIMULATED_MAGIC)
        return SYMC_NCCL_SUCCESS;
    atomic_store(&fake_nccl.said,
        "ncclSimInfo_t argument must be initialized via "
        "NCCL_SIM_INFO_INITIALIZER\n");
    return SYMC_NCCL_INVALID_ARGUMENT;
}

#endif

struct fake_work *fake_group_enter(
    struct symc_nccl_comm *comm, struct CUstream_st *stream)
{
    if (ncclGroupStart() != SYMC_NCCL_SUCCESS)
        fake_nccl_die("there is no memory");
    if (group->ncalls > 0 && (group->comm != comm || group->stream != stream))
        fake_nccl_die("a group has two communicators or streams");
    group->comm = comm;
    group->stream = stream;
    group->routine = FAKE_MESSAGE;
    return group;
}

int fake_group_leave(void)
{
    int result = ncclGroupEnd();

    return atomic_load(&fake_nccl.call_result) != 0
               ? atomic_load(&fake_nccl.call_result)
               : result;
}

void fake_work_add(struct fake_work *work, struct fake_call call)
{
    if (work->ncalls == FAKE_CALLS || call.peer < 0 ||
        call.peer >= atomic_load(&work->comm->clique->size))
        fake_nccl_die("there are too many calls, or one is for nobody");
    call.routine = work->routine;
    work->calls[work->ncalls++] = call;
}

static int add(struct symc_nccl_comm *comm, struct CUstream_st *stream,
    struct fake_call call)
{
    if (group == NULL)
        fake_nccl_die("a message is outside of a group of calls");
    fake_work_add(fake_group_enter(comm, stream), call);
    return fake_group_leave();
}

int ncclSend(const void *in, size_t count, int type, int peer,
    struct symc_nccl_comm *comm, struct CUstream_st *stream)
{
    if (type != SYMC_NCCL_UINT8 || count == 0)
        fake_nccl_die("expected bytes");
    return add(comm, stream,
        (struct fake_call){.in = in, .nbytes = count, .peer = peer});
}

int ncclRecv(void *out, size_t count, int type, int peer,
    struct symc_nccl_comm *comm, struct CUstream_st *stream)
{
    if (type != SYMC_NCCL_UINT8 || count == 0)
        fake_nccl_die("expected bytes");
    return add(comm, stream,
        (struct fake_call){.out = out, .nbytes = count, .peer = peer});
}
