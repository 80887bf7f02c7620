/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks for tests of segments that all run in one thread, each with its own
 * arena, so that their order is certain. They map each other as processes do,
 * or share one mapping as threads do.
 */
#ifndef T_SEGMENT_ARENAS_H
#define T_SEGMENT_ARENAS_H

#include "t/segment/child.h"
#include "t/tap.h"

#include "segment/memory.h"
#include "segment/segment.h"

#define RANKS 3
#define ARENA ((size_t)64 << 20)
#define TRACE 4096

struct rank {
    struct symc_block_view own;
    int fd;
    struct symc_peer peers[RANKS];
    struct symc_segments segments;
};

static struct rank ranks[RANKS];
static const int all_ranks[RANKS] = {0, 1, 2};

static inline void must(symmcoll_status_t status)
{
    if (status == SYMMCOLL_OK)
        return;
    diag("%s", symmcoll_last_error());
    exit(1);
}

/* Creates a rank's arena. */
static inline void begin_rank(int r, size_t nbytes)
{
    struct rank *rank = &ranks[r];

    must(symc_block_create(
        "test", r, RANKS, TRACE, TRACE, nbytes, &rank->own, &rank->fd));
    must(symc_segments_open(&rank->segments, r, RANKS, &rank->own, rank->fd));
}

/* Maps the arenas of all ranks, including its own. */
static inline void connect_rank(int r, bool threads)
{
    struct rank *rank = &ranks[r];

    for (int p = 0; p < RANKS; p++) {
        struct symc_peer *peer = &rank->peers[p];
        size_t nbytes = ranks[p].own.mapped;

        *peer = (struct symc_peer){.pid = getpid(), .pidfd = -1};
        if (p == r)
            peer->view = rank->own;
        else if (threads)
            must(symc_block_borrow(ranks[p].own.block, p, nbytes, &peer->view));
        else
            must(symc_block_map(ranks[p].fd, p, nbytes, nbytes, &peer->view));
        peer->mine = !threads;
    }
    symc_segments_connect(&rank->segments, rank->peers);
}

static inline void begin(bool threads)
{
    for (int r = 0; r < RANKS; r++)
        begin_rank(r, ARENA);
    for (int r = 0; r < RANKS; r++)
        connect_rank(r, threads);
}

static inline void end(bool threads)
{
    for (int r = 0; r < RANKS; r++) {
        symc_segments_close(&ranks[r].segments);
        for (int p = 0; p < RANKS; p++) {
            if (p != r && !threads)
                symc_block_unmap(&ranks[r].peers[p].view);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        symc_block_unmap(&ranks[r].own);
        close(ranks[r].fd);
    }
}

static inline void offer_all(size_t nbytes, struct symc_offer all[RANKS])
{
    for (int r = 0; r < RANKS; r++)
        must(symc_segment_offer(&ranks[r].segments, nbytes, nbytes, &all[r]));
}

static inline void accept_all(
    const struct symc_offer all[RANKS], struct symc_segment *made[RANKS])
{
    for (int r = 0; r < RANKS; r++)
        must(symc_segment_accept(
            &ranks[r].segments, all_ranks, r, RANKS, all, &made[r]));
}

static inline void make_all(size_t nbytes, struct symc_segment *made[RANKS])
{
    struct symc_offer all[RANKS];

    offer_all(nbytes, all);
    accept_all(all, made);
}

static inline bool is_filled(const char *at, size_t nbytes, int value)
{
    for (size_t i = 0; i < nbytes; i++) {
        if (at[i] != value)
            return false;
    }
    return true;
}

/* Run a test with both kinds of ranks. */
static inline void run_both(void (*test)(const char *how))
{
    static const char *const modes[] = {"processes", "threads"};

    for (int threads = 0; threads < 2; threads++) {
        begin(threads != 0);
        test(modes[threads]);
        end(threads != 0);
    }
}

#endif
