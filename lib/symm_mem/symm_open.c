/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the other members, at the places that they have published: checked,
 * and mapped if it is in memfds.
 */
#include "base/ranks.h"
#include "symm_mem/backing.h"
#include "symm_mem/symm_rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Checks that a range published by a member lies within the mapped part of its
 * arena. */
static symmcoll_status_t check_place(
    const struct symc_symm_rendezvous *rendezvous, int member, uint64_t at,
    uint64_t nbytes)
{
    const struct symmcoll_group *group = rendezvous->group;
    const struct symc_block_view *view =
        &symc_group_world(group)->peers[symc_group_global(group)[member]].view;
    char who[SYMC_RANK_TEXT];

    if (view->block != NULL && at >= view->layout.nbytes &&
        at <= view->mapped && nbytes <= view->mapped - at)
        return SYMMCOLL_OK;
    symc_format_rank(symc_group_ranks(group), member, SYMC_NO_PID, who);
    if (view->block == NULL)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "expected all members on one machine, found %s on another", who);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected memory in %zu bytes of its arena, found %llu bytes from "
        "%llu on",
        who, view->mapped, (unsigned long long)nbytes, (unsigned long long)at);
}

/* Finds or maps a member's memory in this process; fd is borrowed. */
static symmcoll_status_t find_member(
    struct symc_symm_rendezvous *rendezvous, int member, int fd)
{
    const struct symmcoll_group *group = rendezvous->group;
    const struct symc_symm_published *theirs = &rendezvous->all[member];
    struct symc_share *share = rendezvous->share;
    char *arena = (char *)symc_group_world(group)
                      ->peers[symc_group_global(group)[member]]
                      .view.block;
    char who[SYMC_RANK_TEXT + 8];
    void *at = NULL;
    symmcoll_status_t status =
        check_place(rendezvous, member, theirs->pad_at, theirs->pad_nbytes);

    if (status != SYMMCOLL_OK)
        return status;
    share->pads[member] = (uint32_t *)(void *)(arena + theirs->pad_at);
    if (member == symc_group_rank(group)) {
        share->at[member] = rendezvous->offer->allocation->data;
        return SYMMCOLL_OK;
    }
    if (theirs->memfd == 0) {
        share->at[member] = arena + theirs->data_at;
        return check_place(rendezvous, member, theirs->data_at, theirs->nbytes);
    }
    symc_format_rank(symc_group_ranks(group), member, SYMC_NO_PID, who);
    strcat(who, ": ");
    if (theirs->mapped < theirs->nbytes)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%sexpected %llu bytes or more, found %llu", who,
            (unsigned long long)theirs->nbytes,
            (unsigned long long)theirs->mapped);
    status = symc_backing_map(symc_kind_name(rendezvous->offer->kind), who, fd,
        theirs->data_at, theirs->mapped, &at);
    share->at[member] = at;
    share->maps[member] = at;
    share->mapped[member] = theirs->mapped;
    return status;
}

/* Exchanges the memfds. All members do, if one has a memfd. */
static symmcoll_status_t exchange(
    struct symc_symm_rendezvous *rendezvous, int *fds)
{
    struct symmcoll_group *group = rendezvous->group;
    bool any = false;

    for (int r = 0; r < symc_group_size(group); r++)
        any = any || rendezvous->all[r].memfd != 0;
    if (!any || symc_group_size(group) == 1)
        return SYMMCOLL_OK;
    return symc_run_exchange_until(symc_group_runner(group),
        rendezvous->offer->allocation->fd, rendezvous->offer->deadline_ns, fds);
}

/* Accepts the segment of the barrier words. From then on the others see when
 * this rank has left it. */
static symmcoll_status_t accept_words(struct symc_symm_rendezvous *rendezvous)
{
    struct symmcoll_group *group = rendezvous->group;
    struct symc_share *share = rendezvous->share;
    struct symc_offer *words =
        symc_alloc((size_t)symc_group_size(group), sizeof(*words));
    symmcoll_status_t status;

    if (words == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int r = 0; r < symc_group_size(group); r++)
        words[r] = rendezvous->all[r].words;
    /* the segment owns the offer, even if this fails */
    rendezvous->offered = false;
    status = symc_segment_accept_with(&symc_group_world(group)->segments,
        symc_group_global(group), symc_group_rank(group),
        symc_group_size(group), words, rendezvous->offer->allocation->buffer,
        &share->segment);
    for (int r = 0; status == SYMMCOLL_OK && r < symc_group_size(group); r++)
        share->words[r] = share->segment->at[r];
    free(words);
    return status;
}

symmcoll_status_t symc_symm_open(struct symc_symm_rendezvous *rendezvous)
{
    struct symmcoll_group *group = rendezvous->group;
    int fds[SYMC_RANKS_MAX];
    struct symc_error own;
    symmcoll_status_t status;

    for (int r = 0; r < symc_group_size(group); r++)
        fds[r] = -1;
    symc_error_keep(&own, accept_words(rendezvous));
    status = exchange(rendezvous, fds);
    if (own.status != SYMMCOLL_OK)
        status = symc_error_return(&own); /* the first error */
    for (int r = 0; r < symc_group_size(group); r++) {
        if (status == SYMMCOLL_OK)
            status = find_member(rendezvous, r, fds[r]);
        if (fds[r] >= 0)
            close(fds[r]);
    }
    return status;
}
