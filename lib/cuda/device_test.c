/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of an operation that was enqueued: whether the device has finished it, whether
 * a kernel gave up, and how to end it early.
 */
#include "cuda/calls.h"
#include "cuda/nccl/nccl_run.h"

#include <stdio.h>
#include <time.h>

#define FOUND_TEXT 176
#define ANSWER_NS (SYMC_NS_PER_S / 5) /* for aborted kernels to end */
#define NAP_NS 50000

bool symc_cuda_gave_up(const struct symc_cuda_group *group)
{
    return __atomic_load_n(&group->words->failure.complete, __ATOMIC_ACQUIRE) !=
           0;
}

/* Returns whether a block has begun to write its failure record but has not finished it.
 * Other blocks that see the record's beginning end at once. */
static bool is_giving_up(const struct symc_cuda_group *group)
{
    const struct symc_device_failure *failure = &group->words->failure;

    return __atomic_load_n(&failure->reason, __ATOMIC_ACQUIRE) !=
               SYMC_DEVICE_NONE &&
           !symc_cuda_gave_up(group);
}

/* Returns the member whose departure ended a kernel that waited for peer, or -1. */
static int find_left(const struct symc_cuda_group *group, uint32_t peer)
{
    const struct symc_core *core = group->core;

    if (peer < (uint32_t)group->size && core->failed(core->group, (int)peer))
        return (int)peer;
    for (int r = 0; r < group->size; r++) {
        if (r != group->rank && core->failed(core->group, r))
            return r;
    }
    return -1;
}

static symmcoll_status_t report_timeout(
    const struct symc_cuda_group *group, const struct symc_cuda_known *known)
{
    const struct symc_core *core = group->core;
    const uint32_t peer = group->words->failure.peer;
    bool missing[SYMC_KERNEL_RANKS] = {false};
    char found[FOUND_TEXT];

    missing[peer] = true;
    if (symc_cuda_call_format(group, known, peer, found, sizeof(found)))
        return core->expire(core->group, known->op, missing, found);
    /* Waiting kernels stay resident, so the peer's kernel may have found no room. */
    if (group->shared) {
        (void)snprintf(found, sizeof(found),
            "rank %d did not come, or found no place on its device, which ranks "
            "share, beside kernels of more groups than cuda.groups says",
            symc_cuda_world_rank(group, (int)peer));
        return core->expire(core->group, known->op, missing, found);
    }
    return core->expire(core->group, known->op, missing, NULL);
}

static symmcoll_status_t report_splits(
    const struct symc_cuda_group *group, const struct symc_cuda_known *known)
{
    static const char *const wrongs[SYMC_WRONGS] = {
        [SYMC_WRONG_SPLIT] = "a split of at least",
        [SYMC_WRONG_OFFSET] = "an offset of at least",
        [SYMC_WRONG_END] = "the end of a split at or before row",
        [SYMC_WRONG_ROOM] = "room in out for at least"};
    const struct symc_core *core = group->core;
    const struct symc_device_failure *failure = &group->words->failure;
    const struct symc_device_splits *splits = &failure->splits;

    (void)core->fail(SYMMCOLL_ERR_INVALID,
        "the splits of rank %d in memory of its device: expected %s %lld, found "
        "%lld at piece %llu",
        symc_cuda_world_rank(group, (int)failure->peer), wrongs[splits->wrong],
        (long long)splits->expected, (long long)splits->found,
        (unsigned long long)splits->piece);
    return core->raise(core->group, known->op, SYMMCOLL_ERR_INVALID);
}

/* Fails the group in the name of a known call. */
static symmcoll_status_t report(
    const struct symc_cuda_group *group, const struct symc_cuda_known *known)
{
    const struct symc_core *core = group->core;
    const struct symc_device_failure *failure = &group->words->failure;
    int left = find_left(group, failure->peer);

    if (failure->reason == SYMC_DEVICE_ABORTED && left >= 0)
        return core->failure(core->group, known->op, left);
    if (failure->reason == SYMC_DEVICE_TIMEOUT &&
        failure->peer < (uint32_t)group->size)
        return report_timeout(group, known);
    if (failure->reason == SYMC_DEVICE_SPLITS &&
        failure->splits.wrong < SYMC_WRONGS)
        return report_splits(group, known);
    (void)core->fail(SYMMCOLL_ERR_INTERNAL,
        "a kernel gave up in block %u while it waited for rank %u",
        failure->block, failure->peer);
    return core->raise(core->group, known->op, SYMMCOLL_ERR_INTERNAL);
}

symmcoll_status_t symc_cuda_explain(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    const struct symc_core *core = group->core;
    static const struct symc_cuda_call unknown;
    struct symc_cuda_known known;
    symmcoll_status_t status;

    if (core->failed(core->group, -1))
        return core->failure(core->group, op, -1);
    if (!symc_cuda_call_find(group, group->words->failure.number, &known))
        known = (struct symc_cuda_known){.op = op, .call = &unknown};
    status = report(group, &known);
    return known.op == op ? status : core->failure(core->group, op, -1);
}

/* Returns the ns that an ended operation took, or 0.  The context must be current; no
 * call here blocks. */
static int64_t find_time(
    const struct symc_cuda_group *group, const struct symc_cuda_token *token)
{
    float ms = 0;

    if (token->begun == NULL || token->call.alone ||
        group->cuda->event_elapsed_time(&ms, token->begun, token->event) !=
            CUDA_SUCCESS ||
        !(ms > 0))
        return 0;
    return (int64_t)((double)ms * 1e6 + 0.5);
}

/* Returns SUCCESS, NOT_READY, or the error after which the device does nothing more. */
static struct symc_cuda_called query_device(
    struct symc_cuda_group *group, const struct symc_cuda_token *token)
{
    struct symc_cuda_entered entered;
    struct symc_cuda_called called = symc_cuda_enter(&group->context, &entered);

    if (called.result != CUDA_SUCCESS)
        return called;
    called = symc_cuda_called(
        "cuEventQuery", group->cuda->event_query(token->event));
    if (called.result == CUDA_SUCCESS && token->beside != NULL)
        called = symc_cuda_called(
            "cuStreamQuery", group->cuda->stream_query(token->beside));
    if (called.result == CUDA_SUCCESS && token->endless)
        called.result = CUDA_ERROR_NOT_READY;
    group->took_ns =
        called.result == CUDA_SUCCESS ? find_time(group, token) : 0;
    symc_cuda_leave(&entered);
    return called;
}

/* Fails with an error of the device.  The record of an operation that moves its own data
 * has no addresses, as they were the call's. */
static symmcoll_status_t report_device(const struct symc_cuda_group *group,
    const struct symc_op *op, struct symc_cuda_called called)
{
    return op->out == NULL && op->in == NULL
               ? symc_cuda_group_fail(group, called.result, "%s", called.name)
               : symc_cuda_group_fail(group, called.result,
                     "%s of what has out %p and in %p", called.name, op->out,
                     op->in);
}

static void end(struct symc_cuda_group *group, struct symc_cuda_token *token)
{
    group->order.running--;
    symc_cuda_nans_end(group, token);
    symc_cuda_call_forget(group, token);
    symc_cuda_order_put(group, token);
}

void symc_cuda_abort(void *state)
{
    struct symc_cuda_group *group = state;

    __atomic_store_n(&group->words->aborted, 1, __ATOMIC_RELEASE);
    for (int r = 0; r < group->size; r++)
        __atomic_store_n(&group->words->left[r], 1, __ATOMIC_RELEASE);
    /* NCCL is aborted even if it runs nothing of this member: the other members' aborts
     * wait for this one. */
    symc_cuda_try_abort_nccl(group);
}

/* Tests an operation.  If a kernel gave up, all others are aborted, and the failure is
 * returned only once the operation has ended: nothing writes to the caller's memory
 * then. */
symmcoll_status_t symc_cuda_test(void *state, void *token, int64_t *took_ns)
{
    struct symc_cuda_group *group = state;
    struct symc_cuda_token *tested = token;
    struct symc_cuda_called called = query_device(group, tested);
    const struct symc_op *op = &tested->op;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (symc_cuda_gave_up(group))
        symc_cuda_abort(group);
    if (called.result == CUDA_ERROR_NOT_READY)
        return SYMMCOLL_IN_PROGRESS;
    /* The operation may have ended early because of that, and the reason is not known
     * yet. */
    if (called.result == CUDA_SUCCESS && is_giving_up(group))
        return SYMMCOLL_IN_PROGRESS;
    /* If kernels of this operation gave up, their record was complete before the
     * event. */
    if (called.result == CUDA_SUCCESS && symc_cuda_gave_up(group))
        status = symc_cuda_explain(group, op);
    else if (called.result == CUDA_SUCCESS && tested->call.by_nccl)
        status = symc_cuda_judge_nccl(group, tested);
    if (called.result == CUDA_SUCCESS && status == SYMMCOLL_OK)
        status = symc_cuda_nans_judge(group, tested);
    if (called.result != CUDA_SUCCESS) {
        status = report_device(group, op, called);
        group->order.lost |= !symc_cuda_is_fatal(called.result);
    }
    if (status == SYMMCOLL_OK)
        *took_ns = group->took_ns;
    end(group, tested);
    return status;
}

symmcoll_status_t symc_cuda_watch(void *state, void *token)
{
    const struct symc_cuda_group *group = state;
    const struct symc_cuda_token *watched = token;

    return watched->call.by_nccl ? symc_cuda_watch_nccl(group, watched)
                                 : SYMMCOLL_OK;
}

/* Aborts all kernels.  Returns whether a running kernel has recorded the peer that it
 * waited for. */
static bool abort_kernels(struct symc_cuda_group *group)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    const int64_t until = group->core->now() + ANSWER_NS;

    symc_cuda_abort(group);
    while (!symc_cuda_gave_up(group)) {
        if (group->core->now() >= until)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

/* Aborts all kernels, and names the peer that one waited for.  A kernel that began late
 * has time left when the operation has none.  The kernel that answers may belong to an
 * earlier operation that this one is ordered after: this one then waits for the same
 * member. */
symmcoll_status_t symc_cuda_expire(void *state, void *token)
{
    struct symc_cuda_group *group = state;
    const struct symc_core *core = group->core;
    const struct symc_cuda_token *expired = token;
    const struct symc_device_failure *failure = &group->words->failure;
    bool missing[SYMC_KERNEL_RANKS] = {false};

    if (expired->call.by_nccl || !abort_kernels(group))
        return SYMMCOLL_OK;
    if (failure->reason != SYMC_DEVICE_ABORTED ||
        failure->peer >= (uint32_t)group->size)
        return symc_cuda_explain(group, &expired->op);
    missing[failure->peer] = true;
    return core->expire(core->group, &expired->op, missing, NULL);
}

symmcoll_status_t symc_cuda_cancel(void *state, void *token)
{
    struct symc_cuda_group *group = state;
    CUresult result;

    symc_cuda_abort(group);
    symc_cuda_abort_nccl(group);
    result = query_device(group, token).result;
    /* A broken context runs nothing; after another error the work may still run. */
    if (result != CUDA_SUCCESS && !symc_cuda_is_fatal(result))
        return SYMMCOLL_IN_PROGRESS;
    end(group, token);
    return SYMMCOLL_ERR_CANCELED;
}
