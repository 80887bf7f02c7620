/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining a world: exchange of arenas through the bootstrap server, and
 * mapping.
 */
#include "base/descriptor.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/message.h"
#include "segment/liveness.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns the bytes that every arena has. */
static size_t find_common(const struct symc_bootstrap_offer *all, int size)
{
    size_t common = all[0].nbytes;

    for (int r = 1; r < size; r++) {
        if (all[r].nbytes < common)
            common = all[r].nbytes;
    }
    return common;
}

/* Maps what a process has offered, or borrows what a thread has. */
static symmcoll_status_t take_offer(const struct symc_bootstrap_offer *offer,
    int rank, size_t common, bool threads, struct symc_peer *peer)
{
    size_t mapped = common > offer->least ? common : offer->least;
    symmcoll_status_t status = SYMMCOLL_OK;

    peer->pid = offer->pid;
    peer->pidfd = offer->fds[SYMC_BOOTSTRAP_PIDFD];
    peer->inbox = threads ? offer->inbox : offer->fds[SYMC_BOOTSTRAP_INBOX];
    peer->pidfd_inode = symc_liveness_pidfd_inode(peer->pidfd);
    if (!threads) {
        status = symc_block_map(
            offer->fds[0], rank, offer->nbytes, mapped, &peer->view);
        if (status != SYMMCOLL_OK)
            return status;
        close(offer->fds[SYMC_BOOTSTRAP_ARENA]);
        peer->mine = true;
    } else {
        struct symc_block *block = offer->address;

        /* Pairs with the release at the end of symc_block_create(). */
        atomic_load_explicit(&block->users, memory_order_acquire);
        status = symc_block_borrow(block, rank, offer->nbytes, &peer->view);
    }
    return status;
}

static void close_fds(struct symc_bootstrap_offer *offer, int first)
{
    for (int f = first; f < SYMC_BOOTSTRAP_FDS; f++) {
        if (offer->fds[f] >= 0)
            close(offer->fds[f]);
    }
}

/* Undoes the mapping of the other ranks; this rank's arena stays. */
static void return_offers(struct symc_bootstrap_offer *all,
    struct symc_peer *peers, int size, int rank)
{
    for (int r = 0; r < size; r++) {
        bool taken = peers[r].view.block != NULL;

        if (r != rank && peers[r].mine)
            symc_block_unmap(&peers[r].view);
        /* Mapping has closed the descriptor of the arena. */
        close_fds(
            &all[r], taken ? SYMC_BOOTSTRAP_ARENA + 1 : SYMC_BOOTSTRAP_ARENA);
        peers[r] = (struct symc_peer){.pidfd = -1, .inbox = -1};
    }
}

/* Maps or borrows the offers of all other ranks. */
static symmcoll_status_t take_offers(const struct symc_bootstrap_args *args,
    struct symc_bootstrap_offer *all, bool threads, struct symc_peer *peers)
{
    size_t common = find_common(all, args->size);

    for (int r = 0; r < args->size; r++)
        peers[r] = (struct symc_peer){.pidfd = -1, .inbox = -1};
    for (int r = 0; r < args->size; r++) {
        symmcoll_status_t status =
            r == args->rank
                ? SYMMCOLL_OK
                : take_offer(&all[r], r, common, threads, &peers[r]);

        if (status == SYMMCOLL_OK)
            continue;
        return_offers(all, peers, args->size, args->rank);
        return status;
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_bootstrap_join(const struct symc_bootstrap_args *args,
    const struct symc_bootstrap_own *own, struct symc_peer *peers,
    bool *threads)
{
    struct symc_bootstrap_offer mine = {.nbytes = own->view.mapped,
        .least = own->least,
        .address = own->view.block,
        .inbox = own->inbox};
    struct symc_bootstrap_offer *all =
        symc_alloc((size_t)args->size, sizeof(struct symc_bootstrap_offer));
    int way = own->inbox;
    symmcoll_status_t status = SYMMCOLL_ERR_NO_MEMORY;

    if (all == NULL)
        goto close_way;
    mine.fds[SYMC_BOOTSTRAP_ARENA] = own->fd;
    mine.fds[SYMC_BOOTSTRAP_INBOX] = own->inbox;
    /* Kernels before 5.3 have no pidfd. The liveness word does not need it. */
    mine.fds[SYMC_BOOTSTRAP_PIDFD] =
        symc_descriptor_raise((int)syscall(SYS_pidfd_open, getpid(), 0));
    status = symc_bootstrap_exchange(args, &mine, all, threads);
    if (mine.fds[SYMC_BOOTSTRAP_PIDFD] >= 0)
        close(mine.fds[SYMC_BOOTSTRAP_PIDFD]);
    if (status != SYMMCOLL_OK)
        goto free_all;
    status = take_offers(args, all, *threads, peers);
    if (status != SYMMCOLL_OK) {
        if (args->lent != NULL)
            *args->lent = *threads;
        goto free_all;
    }
    close_fds(&all[args->rank], 0);
    peers[args->rank] = (struct symc_peer){.view = own->view,
        .pid = getpid(),
        .pidfd = -1,
        .mine = !*threads,
        .inbox = -1};
    if (*threads) {
        peers[args->rank].inbox = way; /* the other threads use it too */
        way = -1;
    }

free_all:
    free(all);
close_way:
    if (way >= 0 && (args->lent == NULL || !*args->lent))
        close(way);
    return status;
}

void symc_bootstrap_leave(struct symc_peer *peers, int size)
{
    for (int r = 0; r < size; r++) {
        struct symc_block *block = peers[r].view.block;

        if (peers[r].pidfd >= 0)
            close(peers[r].pidfd);
        /* Threads share each other's mappings and the sending ends of the
         * inboxes: the last one frees them. */
        if (block != NULL &&
            (peers[r].mine || atomic_fetch_sub(&block->users, 1) == 1)) {
            symc_block_unmap(&peers[r].view);
            if (peers[r].inbox >= 0)
                close(peers[r].inbox);
        }
        peers[r] = (struct symc_peer){.pidfd = -1, .inbox = -1};
    }
}
