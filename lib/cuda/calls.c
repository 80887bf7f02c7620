/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/calls.h"

#include <stdio.h>
#include <stdlib.h>

/* The first CAPTURED_MOST captured calls have an entry each; later ones share one entry
 * per kind, which holds the latest. */
#define CAPTURED_MOST 1024
#define CAPTURED_PLACES (CAPTURED_MOST + SYMC_KIND_COUNT)

/* ---- numbers ---- */

/* Numbers of running calls wrap around; 0 is not used. */
static uint32_t next_number(struct symc_cuda_group *group)
{
    group->numbered = (group->numbered + 1) % SYMC_CUDA_CAPTURED;
    if (group->numbered == 0)
        group->numbered++;
    return group->numbered;
}

static struct symc_cuda_call describe(const struct symc_access *access)
{
    struct symc_cuda_call call = {.alone = access != NULL, .nan = -1};

    if (access != NULL) {
        call.kind = access->kind;
        call.channel = access->channel;
        call.value = access->value;
    }
    return call;
}

/* Copies an operation without its pointers to memory of the call. */
static struct symc_op keep(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    struct symc_op kept = *op;

    kept.listed = false;
    if ((group->core->kinds[op->kind].traits & SYMC_MOVES) != 0)
        kept.out = NULL;
    return kept;
}

static symmcoll_status_t capture(struct symc_cuda_group *group,
    const struct symc_op *op, struct symc_cuda_call call)
{
    struct symc_cuda_captures *captures = &group->captures;
    uint32_t at = captures->count;

    if (captures->calls == NULL)
        captures->calls = calloc(CAPTURED_PLACES, sizeof(*captures->calls));
    if (captures->calls == NULL)
        return group->core->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for a call that is captured");
    if (at < CAPTURED_MOST)
        captures->count++;
    else
        at = CAPTURED_MOST + (uint32_t)op->kind;
    call.number = SYMC_CUDA_CAPTURED + at;
    captures->calls[at].op = keep(group, op);
    captures->calls[at].call = call;
    if (at >= CAPTURED_MOST)
        captures->calls[at].op.seq = 0;
    group->launching = call;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_cuda_call_begin(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_access *access, bool captured)
{
    struct symc_cuda_call call = describe(access);

    if (captured)
        return capture(group, op, call);
    call.number = next_number(group);
    group->launching = call;
    return SYMMCOLL_OK;
}

/* ---- running calls ---- */

void symc_cuda_call_end(
    struct symc_cuda_group *group, struct symc_cuda_token *token)
{
    struct symc_cuda_token *first = group->order.started;

    if (token != NULL) {
        token->op = keep(group, &token->op);
        token->call = group->launching;
        token->before = NULL;
        token->next = first;
        if (first != NULL)
            first->before = token;
        group->order.started = token;
    }
    group->launching = (struct symc_cuda_call){.number = 0};
}

void symc_cuda_call_forget(
    struct symc_cuda_group *group, struct symc_cuda_token *token)
{
    if (token->next != NULL)
        token->next->before = token->before;
    if (token->before != NULL)
        token->before->next = token->next;
    else
        group->order.started = token->next;
    token->call.number = 0;
}

/* ---- look-up ---- */

static bool find_captured(const struct symc_cuda_group *group, uint32_t at,
    struct symc_cuda_known *known)
{
    const struct symc_cuda_captured *found;

    if (group->captures.calls == NULL || at >= CAPTURED_PLACES)
        return false;
    found = &group->captures.calls[at];
    *known = (struct symc_cuda_known){.op = &found->op,
        .call = &found->call,
        .captured = true,
        .latest = at >= CAPTURED_MOST};
    return found->call.number != 0;
}

bool symc_cuda_call_find(const struct symc_cuda_group *group, uint32_t number,
    struct symc_cuda_known *known)
{
    const struct symc_cuda_token *at = group->order.started;

    if (number >= SYMC_CUDA_CAPTURED)
        return find_captured(group, number - SYMC_CUDA_CAPTURED, known);
    while (at != NULL && at->call.number != number)
        at = at->next;
    if (at != NULL)
        *known = (struct symc_cuda_known){.op = &at->op, .call = &at->call};
    return at != NULL;
}

static const char *name_capture(
    const struct symc_cuda_known *known, char buffer[64])
{
    if (known->latest)
        snprintf(
            buffer, 64, "captured in a graph, after %d calls: ", CAPTURED_MOST);
    else
        snprintf(buffer, 64, "%s", "captured in a graph: ");
    return known->captured ? buffer : "";
}

bool symc_cuda_call_format(const struct symc_cuda_group *group,
    const struct symc_cuda_known *known, uint32_t peer, char *text,
    size_t nbytes)
{
    int rank = symc_cuda_world_rank(group, group->rank);
    int other = symc_cuda_world_rank(group, (int)peer);
    const struct symc_cuda_call *call = known->call;
    char buffer[64];
    const char *how = name_capture(known, buffer);

    if (!call->alone || known->latest)
        snprintf(text, nbytes, "%srank %d timed out waiting for rank %d", how,
            rank, other);
    else if (call->kind == SYMC_ACCESS_WAIT32)
        snprintf(text, nbytes,
            "%srank %d timed out waiting for rank %d to store %u at %p", how,
            rank, other, call->value, known->op->in);
    else
        snprintf(text, nbytes,
            "%srank %d timed out waiting for rank %d on channel %d", how, rank,
            other, call->channel);
    return call->alone || known->captured;
}

void symc_cuda_calls_close(struct symc_cuda_group *group)
{
    free(group->captures.calls);
    group->captures = (struct symc_cuda_captures){.count = 0};
}
