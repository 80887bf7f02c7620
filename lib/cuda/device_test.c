/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What has become of an operation that was enqueued: whether the device has come
 * to its end, whether a kernel gave up, and ending it before its time.
 */
#include "cuda/access.h"

#define FOUND_TEXT 128

bool symc_cuda_gave_up(const struct symc_cuda_group *group)
{
    return __atomic_load_n(&group->words->failure.complete, __ATOMIC_ACQUIRE) !=
           0;
}

symmcoll_status_t symc_cuda_explain(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    const struct symc_core *core = group->core;
    const struct symc_device_failure *failure = &group->words->failure;
    const struct symc_cuda_token *access;
    bool missing[SYMC_KERNEL_RANKS] = {false};
    char found[FOUND_TEXT];

    if (core->failed(core->group, -1))
        return core->failure(core->group, op, -1);
    access = symc_cuda_access_find(group, failure->number);
    if (failure->reason == SYMC_DEVICE_TIMEOUT && access != NULL) {
        missing[failure->peer] = true;
        symc_cuda_access_format(
            group, access, failure->peer, found, sizeof(found));
        return core->unmatched(core->group, &access->op, missing, found);
    }
    if (failure->reason == SYMC_DEVICE_TIMEOUT &&
        failure->peer < (uint32_t)group->size) {
        missing[failure->peer] = true;
        return core->expire(core->group, op, missing);
    }
    if (failure->reason == SYMC_DEVICE_SPLITS)
        return core->fail(SYMMCOLL_ERR_INVALID,
            "the splits of rank %d in memory of its device: expected none "
            "below 0, of no more rows than in_rows, and of no more to a rank "
            "than its out_rows",
            symc_cuda_world_rank(group, (int)failure->peer));
    return core->fail(SYMMCOLL_ERR_INTERNAL,
        "a kernel gave up in block %u while it waited for rank %u",
        failure->block, failure->peer);
}

/* In the context: ns of what has ended, or 0; no call here waits. */
static int64_t find_time(
    const struct symc_cuda_group *group, const struct symc_cuda_token *token)
{
    float ms = 0;

    if (token->begun == NULL || token->access.number != 0 ||
        group->cuda->event_elapsed_time(&ms, token->begun, token->event) !=
            CUDA_SUCCESS ||
        !(ms > 0))
        return 0;
    return (int64_t)((double)ms * 1e6 + 0.5);
}

/* SUCCESS, NOT_READY, or why the device will do nothing more. */
static CUresult ask_device(
    struct symc_cuda_group *group, const struct symc_cuda_token *token)
{
    struct symc_cuda_entered entered;
    CUresult result = symc_cuda_enter(&group->context, &entered);

    if (result != CUDA_SUCCESS)
        return result;
    result = group->cuda->event_query(token->event);
    group->took_ns = result == CUDA_SUCCESS ? find_time(group, token) : 0;
    symc_cuda_leave(&entered);
    return result;
}

static void end(struct symc_cuda_group *group, struct symc_cuda_token *token)
{
    group->order.running--;
    symc_cuda_access_end(group, token);
    symc_cuda_order_put(group, token);
}

void symc_cuda_abort(void *state)
{
    struct symc_cuda_group *group = state;

    __atomic_store_n(&group->words->aborted, 1, __ATOMIC_RELEASE);
}

/* Where a kernel gave up the others end, too, and then it is told: nothing
 * writes to the caller's memory any more. */
symmcoll_status_t symc_cuda_test(void *state, void *token)
{
    struct symc_cuda_group *group = state;
    struct symc_cuda_token *tested = token;
    CUresult result = ask_device(group, tested);
    struct symc_op op = tested->op;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (symc_cuda_gave_up(group))
        symc_cuda_abort(group);
    if (result == CUDA_ERROR_NOT_READY)
        return SYMMCOLL_IN_PROGRESS;
    /* Before the event it was said, if this operation's kernels did it. */
    if (result == CUDA_SUCCESS && symc_cuda_gave_up(group))
        status = symc_cuda_explain(group, &op);
    end(group, tested);
    return result == CUDA_SUCCESS ? status
                                  : symc_cuda_group_fail(group, result,
                                        "out %p, in %p", op.out, op.in);
}

int64_t symc_cuda_took(void *state)
{
    const struct symc_cuda_group *group = state;

    return group->took_ns;
}

symmcoll_status_t symc_cuda_cancel(void *state, void *token)
{
    struct symc_cuda_group *group = state;

    symc_cuda_abort(group);
    if (ask_device(group, token) == CUDA_ERROR_NOT_READY)
        return SYMMCOLL_IN_PROGRESS;
    end(group, token);
    return SYMMCOLL_ERR_CANCELED;
}
