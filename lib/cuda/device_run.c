/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Enqueuing an operation: its launches, one after another on one stream.  An operation
 * that does not fit in the staging goes through it in pieces; each kernel ends when all
 * members have read what this member had staged.
 */
#include "cuda/calls.h"
#include "cuda/device_launch.h"
#include "cuda/nccl/nccl_run.h"

bool symc_cuda_serves(const struct symc_kind_info *info)
{
    return (info->traits & (SYMC_PAIR | SYMC_MONITORED)) == 0 &&
           info->counter == SYMC_COUNT_COLLECTIVE;
}

/* ---- the launches of an operation ---- */

static symmcoll_status_t launch_piece(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    struct symc_cuda_piece piece, CUstream stream)
{
    if (choice->kernel == SYMC_KERNEL_PULL)
        return symc_cuda_launch_move(group, op, choice, piece, stream);
    return choice->kernel == SYMC_KERNEL_EXCHANGE
               ? symc_cuda_launch_exchange(group, op, choice, piece, stream)
               : symc_cuda_launch_reduction(group, op, choice, piece, stream);
}

static symmcoll_status_t enqueue_pieces(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream)
{
    const struct symc_kind_info *info = &group->core->kinds[op->kind];
    struct symc_cuda_choice choice;
    symmcoll_status_t status = SYMMCOLL_OK;

    choice = symc_cuda_choose(&group->limits, group->size, info, op);
    if (choice.copies)
        return symc_cuda_enqueue_copies(group, op, &choice, stream);
    if (choice.kernel == SYMC_KERNEL_BARRIER)
        return symc_cuda_launch_barrier(group, op, stream);
    if (choice.kernel == SYMC_KERNEL_EXCHANGE)
        choice.count = group->agreed->largest * op->elem;
    for (struct symc_cuda_piece piece = {.from = 0};
         piece.from < choice.count && status == SYMMCOLL_OK;
         piece.from += piece.count) {
        piece.count = choice.count - piece.from;
        if (piece.count > choice.pieces)
            piece.count = choice.pieces;
        status = launch_piece(group, op, &choice, piece, stream);
    }
    return status;
}

/* Enqueues several buffers one after the other, in the order of all members.  Stops if
 * the group has failed: a call that returned then no longer owns its arrays. */
static symmcoll_status_t enqueue_buffers(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream)
{
    const struct symc_core *core = group->core;
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < op->buffers && status == SYMMCOLL_OK; i++) {
        struct symc_op one;

        if (core->failed(core->group, -1))
            return core->failure(core->group, op, -1);
        one = symc_op_of_listed(op, i);
        status = enqueue_pieces(group, &one, stream);
    }
    return status;
}

static symmcoll_status_t enqueue(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream)
{
    const struct symc_kind_info *info = &group->core->kinds[op->kind];

    if ((info->traits & SYMC_MOVES) != 0)
        return symc_cuda_enqueue_moves(group, op, stream);
    if (symc_cuda_is_by_nccl(group, op)) {
        group->launching.by_nccl = true;
        return symc_cuda_enqueue_nccl(group, op, stream);
    }
    return (info->traits & SYMC_COALESCED) != 0
               ? enqueue_buffers(group, op, stream)
               : enqueue_pieces(group, op, stream);
}

/* ---- one operation ---- */

/* Fails if the buffers are on another device than the group's; only this rank knows of
 * it. */
static symmcoll_status_t check_device(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    if (op->device == group->device)
        return SYMMCOLL_OK;
    return group->core->fail(SYMMCOLL_ERR_DEVICE,
        "%s: expected memory of device %d, on which the group has begun, found "
        "out %p and in %p of device %d",
        group->core->kinds[op->kind].name, group->device, op->out, op->in,
        op->device);
}

/* Refuses an operation of NCCL within a group of NCCL's calls, a stream that could
 * deadlock with other members, and buffers that end outside their memory or are
 * misaligned. */
static symmcoll_status_t check_operation(
    struct symc_cuda_group *group, const struct symc_op *op)
{
    symmcoll_status_t status = symc_cuda_check_grouped(group, op);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_cuda_check_order(group, op);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_cuda_check_buffers(group, op);
}

symmcoll_status_t symc_cuda_check(void *state, const struct symc_op *op)
{
    struct symc_cuda_group *group = state;
    const char *name = group->core->kinds[op->kind].name;
    struct symc_cuda_entered entered;
    symmcoll_status_t status;
    bool captured = false;

    status = symc_cuda_group_enter(group, &entered);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_cuda_check_stream(
        &group->context, group->core->fail, op->stream, name);
    if (status == SYMMCOLL_OK && !op->direct)
        status = symc_cuda_query_captured(group, op->stream, &captured);
    if (status != SYMMCOLL_OK)
        goto leave;
    status = captured
                 ? group->core->fail(SYMMCOLL_ERR_INVALID,
                       "%s: expected a call without a work while stream %p is "
                       "captured, found one with a work",
                       name, op->stream)
                 : check_operation(group, op);
leave:
    symc_cuda_leave(&entered);
    return status;
}

/* Checks the operation that opened the group: at its call there was no group to check it
 * against. */
static symmcoll_status_t check_first(
    struct symc_cuda_group *group, const struct symc_op *op)
{
    symmcoll_status_t status;

    if (group->checked)
        return SYMMCOLL_OK;
    status = symc_cuda_check_stream(&group->context, group->core->fail,
        op->stream, group->core->kinds[op->kind].name);
    if (status == SYMMCOLL_OK)
        status = check_operation(group, op);
    group->checked = status == SYMMCOLL_OK;
    return status;
}

/* Enqueues an operation.  After an error the token stands for the work that the driver
 * has accepted. */
static symmcoll_status_t enqueue_all(struct symc_cuda_group *group,
    const struct symc_op *op, struct symc_cuda_place place,
    struct symc_cuda_token **token)
{
    symmcoll_status_t status =
        symc_cuda_nans_search(group, op, place.stream, place.captured);

    if (status == SYMMCOLL_OK)
        status = enqueue(group, op, place.stream);
    if (status == SYMMCOLL_OK)
        status = symc_cuda_order_end(group, op, place, token);
    if (status != SYMMCOLL_OK && !place.captured)
        *token = symc_cuda_order_abandon(group, op, place.stream);
    return status;
}

/* Lets the caller's stream wait for the operation's stream, after an error for the work
 * enqueued before it.  Returns the given status if it is an error. */
static symmcoll_status_t let_caller_wait(const struct symc_cuda_group *group,
    const struct symc_op *op, struct symc_cuda_place place,
    const struct symc_cuda_token *token, symmcoll_status_t status)
{
    const struct symc_cuda *cuda = group->cuda;

    if (status == SYMMCOLL_OK)
        status = symc_cuda_order_after(group, op->stream, place.stream);
    if (status != SYMMCOLL_OK && token != NULL && !token->endless)
        (void)cuda->stream_wait_event(op->stream, token->event, 0);
    return status;
}

/* Checks and orders an operation, and enqueues it.  place (out): its stream.  The mark is
 * released on each path. */
static symmcoll_status_t order_and_enqueue(struct symc_cuda_group *group,
    const struct symc_op *op, void *mark, struct symc_cuda_place *place,
    struct symc_cuda_token **token)
{
    symmcoll_status_t status = check_first(group, op);

    if (status != SYMMCOLL_OK) {
        symc_cuda_unmark(group, mark);
        return status;
    }
    status = symc_cuda_order_begin(group, op, mark, place);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_cuda_call_begin(group, op, NULL, place->captured);
    if (status != SYMMCOLL_OK)
        return status;
    return enqueue_all(group, op, *place, token);
}

/* Starts an operation.  An error of the driver concerns this rank alone, and fails the
 * group.  The context must be current. */
static symmcoll_status_t start(struct symc_cuda_group *group,
    const struct symc_op *op, void *mark, struct symc_cuda_token **token)
{
    struct symc_cuda_place place = {.stream = NULL};
    symmcoll_status_t status =
        order_and_enqueue(group, op, mark, &place, token);
    bool by_nccl;

    if (place.aside)
        status = let_caller_wait(group, op, place, *token, status);
    by_nccl = group->launching.by_nccl;
    symc_cuda_call_end(group, *token);
    if (status == SYMMCOLL_OK)
        return status;
    /* Not this rank's own error: the group has failed between two buffers.  Its failure
     * has been reported with this status, and is reported once. */
    if (group->core->failed(group->core->group, -1))
        return status;
    /* NCCL waits for other members, which may time out, or whose group may fail. */
    return by_nccl && status != SYMMCOLL_ERR_INVALID &&
                   status != SYMMCOLL_ERR_UNSUPPORTED
               ? status
               : symc_cuda_of_one(status);
}

symmcoll_status_t symc_cuda_start(void *state, const struct symc_op *op,
    const struct symc_agreed *agreed, void *mark, void **token)
{
    struct symc_cuda_group *group = state;
    struct symc_cuda_entered entered;
    struct symc_cuda_token *started = NULL;
    symmcoll_status_t status = symc_cuda_check_moves(group, op);

    if (status == SYMMCOLL_OK && symc_cuda_gave_up(group))
        status = symc_cuda_explain(group, op);
    if (status != SYMMCOLL_OK)
        goto unmark;
    status = check_device(group, op);
    if (status != SYMMCOLL_OK)
        goto unmark;
    status = symc_cuda_of_one(symc_cuda_group_enter(group, &entered));
    if (status != SYMMCOLL_OK)
        goto unmark;
    group->agreed = agreed;
    status = start(group, op, mark, &started);
    symc_cuda_leave(&entered);
    *token = started;
    return status == SYMMCOLL_OK && started != NULL ? SYMMCOLL_IN_PROGRESS
                                                    : status;

unmark:
    symc_cuda_unmark(group, mark);
    return status;
}
