/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A litmus test for generations: ranks create segments one after another, and
 * one of them is late each time. The others have left by then, and have
 * overwritten every range of bytes that they were assigned; the late rank must
 * find the contents that were there when it accepted. Runs between processes
 * and between threads.
 */
#include "../tap.h"
#include "child.h"

#include "segment/segment.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#define RANKS 3
#define ROUNDS 300
#define EXTRA 6
#define WORDS 16384
#define NBYTES (WORDS * sizeof(uint32_t))
#define ARENA ((size_t)16 << 20)

/* The offers and progress that ranks exchange outside of segments. */
struct board {
    struct symc_offer offers[2][RANKS];
    _Atomic int offered[RANKS]; /* rounds */
    _Atomic int written[RANKS];
    _Atomic int extra[RANKS];
    _Atomic int wrong;
};

struct rank {
    int number;
    bool threads;
    struct symc_block_view own;
    int fd;
    struct symc_peer peers[RANKS];
    struct symc_segments segments;
};

static struct board *board;
static struct rank ranks[RANKS];

static void await_all(const _Atomic int *done, int rounds)
{
    for (int r = 0; r < RANKS; r++) {
        while (atomic_load_explicit(&done[r], memory_order_acquire) < rounds)
            sched_yield();
    }
}

static void tell(_Atomic int *done, int rounds)
{
    atomic_store_explicit(done, rounds, memory_order_release);
}

static void fill(char *at, uint32_t value)
{
    uint32_t *words = (uint32_t *)(void *)at;

    for (size_t i = 0; i < WORDS; i++)
        words[i] = value;
}

static bool has(const char *at, uint32_t value)
{
    const uint32_t *words = (const uint32_t *)(const void *)at;

    for (size_t i = 0; i < WORDS; i++) {
        if (words[i] != value)
            return false;
    }
    return true;
}

static uint32_t value_of(int round, int rank)
{
    return (uint32_t)(round * RANKS + rank + 1);
}

/* Uses all available bytes. */
static bool use_others(struct rank *rank)
{
    struct symc_offer offers[EXTRA];

    for (int i = 0; i < EXTRA; i++) {
        if (symc_segment_offer(&rank->segments, NBYTES, NBYTES, &offers[i]) !=
            SYMMCOLL_OK)
            return false;
        fill((char *)rank->own.block + offers[i].offset, UINT32_MAX);
    }
    for (int i = 0; i < EXTRA; i++)
        symc_segment_withdraw(&rank->segments, &offers[i]);
    return true;
}

static bool run_round(struct rank *rank, int round)
{
    static const int all[RANKS] = {0, 1, 2};
    struct symc_offer *offers = board->offers[round % 2];
    struct symc_segment *segment;
    bool late = round % RANKS == rank->number, good = true;

    if (symc_segment_offer(&rank->segments, NBYTES, NBYTES,
            &offers[rank->number]) != SYMMCOLL_OK)
        return false;
    tell(&board->offered[rank->number], round + 1);
    await_all(board->offered, round + 1);
    if (symc_segment_accept(&rank->segments, all, rank->number, RANKS, offers,
            &segment) != SYMMCOLL_OK)
        return false;
    fill(segment->at[rank->number], value_of(round, rank->number));
    tell(&board->written[rank->number], round + 1);
    await_all(board->written, round + 1);
    if (late) {
        tell(&board->extra[rank->number], round + 1);
        await_all(board->extra, round + 1);
    }
    for (int r = 0; r < RANKS; r++)
        good = has(segment->at[r], value_of(round, r)) && good;
    symc_segment_leave(segment);
    if (!late) {
        good = use_others(rank) && good;
        tell(&board->extra[rank->number], round + 1);
    }
    return good;
}

/* Returns whether more bytes were used in total than the arena has. */
static bool has_reused(const struct rank *rank)
{
    return rank->segments.count * NBYTES > ARENA;
}

static void *run_rank(void *arg)
{
    struct rank *rank = arg;

    for (int round = 0; round < ROUNDS; round++) {
        if (!run_round(rank, round)) {
            fprintf(stderr, "# rank %d, round %d: %s\n", rank->number, round,
                symmcoll_last_error());
            atomic_store(&board->wrong, 1);
            /* The other ranks wait for this one. */
            if (!rank->threads)
                _exit(1);
        }
    }
    if (!has_reused(rank))
        atomic_store(&board->wrong, 1);
    return NULL;
}

/* Maps the other ranks' arenas. */
static bool connect_rank(struct rank *rank)
{
    for (int r = 0; r < RANKS; r++) {
        struct symc_peer *peer = &rank->peers[r];
        symmcoll_status_t status;

        *peer = (struct symc_peer){.pid = getpid(), .pidfd = -1};
        status =
            rank->threads
                ? symc_block_borrow(ranks[r].own.block, r, ARENA, &peer->view)
                : symc_block_map(ranks[r].fd, r, ARENA, ARENA, &peer->view);
        if (status != SYMMCOLL_OK)
            return false;
    }
    rank->own = rank->peers[rank->number].view;
    if (symc_segments_open(&rank->segments, rank->number, RANKS, &rank->own,
            rank->fd) != SYMMCOLL_OK)
        return false;
    symc_segments_connect(&rank->segments, rank->peers);
    return true;
}

static int run_process(void *arg)
{
    if (!connect_rank(arg))
        return 0;
    run_rank(arg);
    return 1;
}

static bool run_processes(void)
{
    pid_t pids[RANKS];
    bool good = true;

    for (int r = 0; r < RANKS; r++)
        pids[r] = start_child(run_process, &ranks[r]);
    for (int r = 0; r < RANKS; r++) {
        if (!good && pids[r] > 0)
            kill(pids[r], SIGKILL);
        good = end_child(pids[r]) && good;
    }
    return good;
}

static bool run_threads(void)
{
    pthread_t threads[RANKS];

    for (int r = 0; r < RANKS; r++) {
        if (!connect_rank(&ranks[r]))
            return false;
    }
    for (int r = 0; r < RANKS; r++) {
        if (pthread_create(&threads[r], NULL, run_rank, &ranks[r]) != 0)
            exit(1);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < RANKS; r++)
        symc_segments_close(&ranks[r].segments);
    return true;
}

static bool run_all(bool threads)
{
    bool good;

    memset((void *)board, 0, sizeof(*board));
    for (int r = 0; r < RANKS; r++) {
        struct rank *rank = &ranks[r];

        rank->number = r;
        rank->threads = threads;
        if (symc_block_create("test", r, RANKS, 4096, 4096, ARENA, &rank->own,
                &rank->fd) != SYMMCOLL_OK)
            exit(1);
    }
    good = threads ? run_threads() : run_processes();
    for (int r = 0; r < RANKS; r++) {
        symc_block_unmap(&ranks[r].own);
        close(ranks[r].fd);
    }
    return good && atomic_load(&board->wrong) == 0;
}

int main(void)
{
    plan(2);
    alarm(600);
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 1;
    ok(run_all(false),
        "a late process finds no new bytes under an old generation");
    ok(run_all(true), "nor does a late thread");
    return done_testing();
}
