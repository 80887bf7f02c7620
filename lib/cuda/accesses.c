/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks do alone, while it runs: by the numbers that their kernels tell when
 * they give up.
 */
#include "cuda/access.h"

#include <stdio.h>

uint32_t symc_cuda_access_number(struct symc_cuda_group *group)
{
    group->order.numbered++;
    if (group->order.numbered == 0)
        group->order.numbered++;
    return group->order.numbered;
}

void symc_cuda_access_begin(struct symc_cuda_group *group,
    struct symc_cuda_token *token, const struct symc_access *access,
    uint32_t number)
{
    token->access = (struct symc_cuda_accessing){
        number, access->kind, access->channel, access->value};
    token->next = group->order.accesses;
    group->order.accesses = token;
}

void symc_cuda_access_end(
    struct symc_cuda_group *group, struct symc_cuda_token *token)
{
    struct symc_cuda_token **at = &group->order.accesses;

    if (token->access.number == 0)
        return;
    while (*at != token)
        at = &(*at)->next;
    *at = token->next;
    token->access.number = 0;
}

const struct symc_cuda_token *symc_cuda_access_find(
    const struct symc_cuda_group *group, uint32_t number)
{
    const struct symc_cuda_token *at = group->order.accesses;

    while (at != NULL && (number == 0 || at->access.number != number))
        at = at->next;
    return at;
}

void symc_cuda_access_format(const struct symc_cuda_group *group,
    const struct symc_cuda_token *token, uint32_t peer, char *text,
    size_t nbytes)
{
    int rank = symc_cuda_world_rank(group, group->rank);
    int other = symc_cuda_world_rank(group, (int)peer);

    if (token->access.kind == SYMC_ACCESS_WAIT32)
        snprintf(text, nbytes,
            "rank %d waited in vain for rank %d to store %u at %p", rank, other,
            token->access.value, token->op.in);
    else
        snprintf(text, nbytes,
            "rank %d waited in vain for rank %d on channel %d", rank, other,
            token->access.channel);
}
