/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining a world: exchange arenas over the bootstrap server, and map what the
 * others brought.
 */
#include "bootstrap/bootstrap.h"
#include "bootstrap/message.h"
#include "segment/liveness.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What every rank can map of every arena. */
static size_t find_common(const struct symc_bootstrap_offer *all, int size)
{
    size_t common = all[0].nbytes;

    for (int r = 1; r < size; r++) {
        if (all[r].nbytes < common)
            common = all[r].nbytes;
    }
    return common;
}

/* Map what a process offered, or borrow what a thread did. */
static symmcoll_status_t take_offer(const struct symc_bootstrap_offer *offer,
    int rank, size_t common, bool threads, struct symc_peer *peer)
{
    size_t mapped = common > offer->least ? common : offer->least;
    symmcoll_status_t status = SYMMCOLL_OK;

    peer->pid = offer->pid;
    peer->pidfd = offer->fds[1];
    peer->pidfd_inode = symc_liveness_pidfd_inode(peer->pidfd);
    if (!threads) {
        status = symc_block_map(
            offer->fds[0], rank, offer->nbytes, mapped, &peer->view);
        if (status != SYMMCOLL_OK)
            return status;
        close(offer->fds[0]);
        peer->mine = true;
    } else {
        struct symc_block *block = offer->address;

        /* Pairs with the release at the end of symc_block_create(). */
        atomic_load_explicit(&block->users, memory_order_acquire);
        status = symc_block_borrow(block, rank, offer->nbytes, &peer->view);
    }
    return status;
}

/* Undo what has been taken of the others; the own block stays. */
static void return_offers(struct symc_bootstrap_offer *all,
    struct symc_peer *peers, int size, int rank)
{
    for (int r = 0; r < size; r++) {
        bool taken = peers[r].view.block != NULL;

        if (r != rank && peers[r].mine)
            symc_block_unmap(&peers[r].view);
        if (!taken && all[r].fds[0] >= 0)
            close(all[r].fds[0]);
        if (all[r].fds[1] >= 0)
            close(all[r].fds[1]);
        peers[r] = (struct symc_peer){.pidfd = -1};
    }
}

symmcoll_status_t symc_bootstrap_join(const struct symc_bootstrap_args *args,
    const struct symc_block_view *own, int fd, size_t least,
    struct symc_peer *peers, bool *threads)
{
    struct symc_bootstrap_offer mine = {.fds = {fd, -1},
        .nbytes = own->mapped,
        .least = least,
        .address = own->block};
    struct symc_bootstrap_offer *all =
        symc_alloc((size_t)args->size, sizeof(struct symc_bootstrap_offer));
    symmcoll_status_t status;

    if (all == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    /* Kernels before 5.3 have no pidfd: the liveness word does not need it. */
    mine.fds[1] = (int)syscall(SYS_pidfd_open, getpid(), 0);
    status = symc_bootstrap_exchange(args, &mine, all, threads);
    if (mine.fds[1] >= 0)
        close(mine.fds[1]);
    if (status != SYMMCOLL_OK)
        goto free_all;
    for (int r = 0; r < args->size; r++)
        peers[r] = (struct symc_peer){.pidfd = -1};
    for (int r = 0; status == SYMMCOLL_OK && r < args->size; r++) {
        if (r != args->rank)
            status = take_offer(
                &all[r], r, find_common(all, args->size), *threads, &peers[r]);
    }
    if (status != SYMMCOLL_OK) {
        return_offers(all, peers, args->size, args->rank);
        goto free_all;
    }
    for (int f = 0; f < SYMC_BOOTSTRAP_FDS; f++) {
        if (all[args->rank].fds[f] >= 0)
            close(all[args->rank].fds[f]);
    }
    peers[args->rank] = (struct symc_peer){
        .view = *own, .pid = getpid(), .pidfd = -1, .mine = !*threads};

free_all:
    free(all);
    return status;
}

void symc_bootstrap_leave(struct symc_peer *peers, int size)
{
    for (int r = 0; r < size; r++) {
        struct symc_block *block = peers[r].view.block;

        if (peers[r].pidfd >= 0)
            close(peers[r].pidfd);
        /* Threads share each other's mapping: the last one takes it down. */
        if (block != NULL &&
            (peers[r].mine || atomic_fetch_sub(&block->users, 1) == 1))
            symc_block_unmap(&peers[r].view);
        peers[r] = (struct symc_peer){.pidfd = -1};
    }
}
