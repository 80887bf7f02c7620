/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests small operations with lists of buffers, or with counts of their own,
 * which are issued like others; later operations take into account what they
 * read and write.
 */
#include "../coll/data.h"
#include "../pair/pair.h"

#include "group/group.h"
#include "run/work.h"

#include <string.h>

#define ROUNDS 100
#define MOST 3 /* ranks */

/* A thread of the world may have the ticket for a moment, and an operation is
 * then queued. This counts the attempts, of which one at least must be
 * issued. */
struct tries {
    int issued;
    bool right;
};

static void try_it(
    struct tries *tries, symmcoll_status_t status, struct symmcoll_work *work)
{
    tries->right = say(status == SYMMCOLL_OK, "started") && tries->right;
    if (status != SYMMCOLL_OK)
        return;
    tries->issued += work->issued;
    tries->right = ends(work) && tries->right;
}

static bool were_issued(const struct tries *tries, const char *what)
{
    return tries->right && say(tries->issued > 0, what);
}

/* Starts the attendant, which runs from the first queued operation on. */
static bool warm(struct symmcoll_group *group)
{
    struct symmcoll_work *work;

    return symmcoll_barrier(group, NULL, &work) == SYMMCOLL_OK && ends(work);
}

/* Returns the value that rank i sends to rank j in a round. */
static int value_of(int i, int j, int round)
{
    return i * 100 + j * 10 + round;
}

static size_t count_of(int i, int j, int round)
{
    return (size_t)((i * 5 + j * 3 + round) % 7);
}

struct buffers {
    int in[MOST][8], out[MOST][8];
    const void *ins[MOST];
    void *outs[MOST];
    size_t in_counts[MOST], out_counts[MOST];
};

static void fill(struct buffers *buffers, int rank, int size, int round)
{
    memset(buffers->out, 0, sizeof(buffers->out));
    for (int r = 0; r < size; r++) {
        buffers->ins[r] = buffers->in[r];
        buffers->outs[r] = buffers->out[r];
        buffers->in_counts[r] = count_of(rank, r, round);
        buffers->out_counts[r] = count_of(r, rank, round);
        for (int i = 0; i < 8; i++)
            buffers->in[r][i] = value_of(rank, r, round);
    }
}

static bool is_received(
    const struct buffers *buffers, int rank, int size, int round)
{
    for (int r = 0; r < size; r++) {
        for (size_t i = 0; i < buffers->out_counts[r]; i++) {
            if (buffers->out[r][i] == value_of(r, rank, round))
                continue;
            diag("round %d: from rank %d: %d, expected %d", round, r,
                buffers->out[r][i], value_of(r, rank, round));
            return false;
        }
    }
    return true;
}

static int exchanges_are_issued(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    struct tries tries = {0, warm(group)};

    for (int round = 0; round < ROUNDS && tries.right; round++) {
        struct symmcoll_work *work = NULL;
        symmcoll_status_t status;
        struct buffers buffers;

        fill(&buffers, rank, size, round);
        status =
            symmcoll_all_to_all_list(group, buffers.outs, buffers.out_counts,
                buffers.ins, buffers.in_counts, SYMMCOLL_INT32, NULL, &work);

        try_it(&tries, status, work);
        tries.right = tries.right && is_received(&buffers, rank, size, round);
    }
    return were_issued(&tries, "all_to_all_list");
}

static int flat_exchanges_are_issued(struct symmcoll_group *group, int rank)
{
    struct tries tries = {0, warm(group)};

    for (int round = 0; round < ROUNDS && tries.right; round++) {
        size_t ins[2], outs[2], peer;
        int in[16], out[16] = {0};
        struct symmcoll_work *work = NULL;
        symmcoll_status_t status;

        for (int r = 0; r < 2; r++) {
            ins[r] = count_of(rank, r, round);
            outs[r] = count_of(r, rank, round);
        }
        for (size_t i = 0; i < 16; i++)
            in[i] = value_of(rank, i < ins[0] ? 0 : 1, round);
        status = symmcoll_all_to_all_v(group, out, outs[0] + outs[1], outs, in,
            ins[0] + ins[1], ins, SYMMCOLL_INT32, NULL, &work);

        try_it(&tries, status, work);
        peer = rank == 0 ? outs[0] : 0; /* the beginning of its part */
        for (size_t i = 0; i < outs[1 - rank]; i++)
            tries.right =
                tries.right && out[peer + i] == value_of(1 - rank, rank, round);
    }
    return were_issued(&tries, "all_to_all_v");
}

static int gathers_are_issued(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    struct tries tries = {0, warm(group)};

    for (int round = 0; round < ROUNDS && tries.right; round++) {
        struct symmcoll_work *work = NULL;
        symmcoll_status_t status;
        struct buffers buffers;
        int in[8];

        fill(&buffers, rank, size, round);
        for (int r = 0; r < size; r++)
            buffers.out_counts[r] = count_of(r, 0, round);
        for (int i = 0; i < 8; i++)
            in[i] = value_of(rank, rank, round);
        status =
            symmcoll_all_gather_list(group, buffers.outs, buffers.out_counts,
                in, count_of(rank, 0, round), SYMMCOLL_INT32, NULL, &work);

        try_it(&tries, status, work);
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < buffers.out_counts[r]; i++)
                tries.right =
                    tries.right && buffers.out[r][i] == value_of(r, r, round);
    }
    return were_issued(&tries, "all_gather_list");
}

static int sums_are_issued(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    struct tries tries = {0, warm(group)};

    for (int round = 0; round < ROUNDS && tries.right; round++) {
        struct symmcoll_work *work = NULL;
        symmcoll_status_t status;
        struct buffers buffers;
        int sum = 0;

        fill(&buffers, rank, size, round);
        for (int r = 0; r < size; r++) {
            buffers.in_counts[r] = count_of(r, 0, round);
            sum += value_of(r, rank, round);
        }
        status = symmcoll_reduce_scatter_list(group, buffers.out[0],
            count_of(rank, 0, round), buffers.ins, buffers.in_counts,
            SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, &work);

        try_it(&tries, status, work);
        for (size_t i = 0; i < count_of(rank, 0, round); i++)
            tries.right = tries.right && buffers.out[0][i] == sum;
    }
    return were_issued(&tries, "reduce_scatter_list");
}

/* Has several operations in flight, two of which differ. */
static int mismatches_end_alone(struct symmcoll_group *group, int rank)
{
    int peer = 1 - rank;
    bool right = warm(group);

    for (int round = 0; right && round < ROUNDS; round++) {
        struct symmcoll_work *works[3] = {NULL};
        struct buffers buffers[3];

        for (int k = 0; k < 3; k++) {
            fill(&buffers[k], rank, 2, round + k);
            buffers[k].in_counts[peer] += k == 1 && rank == 0;
            right = say(symmcoll_all_to_all_list(group, buffers[k].outs,
                            buffers[k].out_counts, buffers[k].ins,
                            buffers[k].in_counts, SYMMCOLL_INT32, NULL,
                            &works[k]) == SYMMCOLL_OK,
                        "started") &&
                    right;
        }
        right = ends(works[0]) && right;
        right = ends_with(works[1], SYMMCOLL_ERR_MISMATCH, "rank 0 passed") &&
                right;
        right = ends(works[2]) && right &&
                is_received(&buffers[0], rank, 2, round) &&
                is_received(&buffers[2], rank, 2, round + 2);
    }
    return right;
}

/* ---- dependencies between operations ---- */

/* The root's next operation reads a part that its gather_list is to receive. */
static int results_are_awaited(struct symmcoll_group *group, int rank)
{
    int own = 0, part = 0, in = 5 + rank, sum = 0;
    void *outs[2] = {&own, &part};
    struct symmcoll_work *first, *second;
    bool right = warm(group);

    if (rank == 1)
        right = right && get(group, 0, 1, 1, 0, 0);
    right = right &&
            say(symmcoll_gather_list(group, rank == 0 ? outs : NULL, &in, 1,
                    SYMMCOLL_INT32, 0, NULL, &first) == SYMMCOLL_OK,
                "gather_list") &&
            say(symmcoll_all_reduce(group, &sum, rank == 0 ? &part : &own, 1,
                    SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, &second) == SYMMCOLL_OK,
                "all_reduce");
    if (rank == 0)
        right = right && put(group, 1, 1, 1, 0, 0);
    return right && ends(first) && ends(second) && say(sum == 6, "its sum");
}

/* The root's scatter_list reads data that an earlier operation is to
 * receive. */
static int parts_are_awaited(struct symmcoll_group *group, int rank)
{
    int sums[2] = {0}, in = 5 + rank, out = 0;
    const void *ins[2] = {&sums[0], &sums[1]};
    struct symmcoll_work *first, *second;
    bool right = warm(group);

    if (rank == 1)
        right = right && get(group, 0, 1, 1, 0, 0);
    right = right &&
            say(symmcoll_all_reduce(group, &sums[1], &in, 1, SYMMCOLL_INT32,
                    SYMMCOLL_SUM, NULL, &first) == SYMMCOLL_OK,
                "all_reduce") &&
            say(symmcoll_scatter_list(group, &out, rank == 0 ? ins : NULL, 1,
                    SYMMCOLL_INT32, 0, NULL, &second) == SYMMCOLL_OK,
                "scatter_list");
    if (rank == 0)
        right = right && put(group, 1, 1, 1, 0, 0);
    return right && ends(first) && ends(second) &&
           say(out == (rank == 0 ? 0 : 11), "its part");
}

int main(void)
{
    plan(14);
    both_run(2, exchanges_are_issued,
        "small exchanges of lists are issued, and are whole");
    both_run(2, flat_exchanges_are_issued,
        "small exchanges with splits are issued, and are whole");
    both_run(3, gathers_are_issued,
        "small gathers of unlike parts are issued, and are whole");
    both_run(3, sums_are_issued,
        "small sums of unlike parts are issued, and are whole");
    both_run(2, mismatches_end_alone,
        "issued operations whose counts differ end alone");
    both_run(2, results_are_awaited,
        "what reads a part of a list that is being received waits for it");
    both_run(2, parts_are_awaited,
        "what reads a list waits for what is received into it");
    return done_testing();
}
