/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests batch and permute; subgroups; sends and receives concurrent with
 * collectives and from several threads.
 */
#include "../coll/data.h"
#include "pair.h"

#include "group/group.h"

#include <pthread.h>
#include <stdlib.h>

static const size_t counts[] = {1, 50, 3000, 60000};

/* Sends from every rank to every other one. */
static bool exchange(
    struct symmcoll_group *group, int rank, size_t count, bool blocks)
{
    int size = symmcoll_group_size(group);
    struct symmcoll_pair_op ops[16];
    struct symmcoll_work *work = NULL;
    size_t n = 0;
    bool right;

    for (int r = 0; r < size; r++) {
        if (r == rank)
            continue;
        ops[n++] = (struct symmcoll_pair_op){sizeof(struct symmcoll_pair_op),
            SYMMCOLL_PAIR_SEND, SYMMCOLL_INT32, make(count, rank, r), count, r,
            6};
        ops[n++] = (struct symmcoll_pair_op){sizeof(struct symmcoll_pair_op),
            SYMMCOLL_PAIR_RECV, SYMMCOLL_INT32, make(count, -1, 0), count, r,
            6};
    }
    right = say(symmcoll_batch(group, ops, n, NULL, blocks ? NULL : &work) ==
                    SYMMCOLL_OK,
                "batch") &&
            (blocks || ends(work));
    for (size_t i = 0; i < n; i++) {
        right = right && (ops[i].kind == SYMMCOLL_PAIR_SEND ||
                             is_made(ops[i].buf, count, ops[i].peer, rank));
        free(ops[i].buf);
    }
    return right;
}

static int batches(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (size_t i = 0; right && i < LENGTH(counts); i++)
        right = exchange(group, rank, counts[i], true) &&
                exchange(group, rank, counts[i], false);
    return right;
}

static int bad_batches(struct symmcoll_group *group, int rank)
{
    int value = 4, other = 0, peer = 1 - rank;
    struct symmcoll_pair_op ops[2] = {
        {sizeof(struct symmcoll_pair_op), SYMMCOLL_PAIR_SEND, SYMMCOLL_INT32,
            &value, 1, peer, 0},
        {sizeof(struct symmcoll_pair_op), (enum symmcoll_pair_kind)9,
            SYMMCOLL_INT32, &other, 1, peer, 0}};
    struct symmcoll_work *work;
    bool right =
        is_status(symmcoll_batch(group, ops, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "one operation or more") &&
        is_status(symmcoll_batch(group, NULL, 1, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "one operation or more") &&
        is_status(symmcoll_batch(NULL, ops, 1, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "expected a group") &&
        is_status(symmcoll_batch(group, ops, 2, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "operation 1: expected a send or a receive");

    ops[1].kind = SYMMCOLL_PAIR_RECV;
    ops[1].peer = rank;
    right = right && is_status(symmcoll_batch(group, ops, 2, NULL, NULL),
                         SYMMCOLL_ERR_INVALID,
                         "batch: operation 1: recv: expected another rank");
    /* No message has been sent; now the second operation differs. */
    ops[1].peer = peer;
    ops[1].count = rank == 0 ? 1 : 0;
    right =
        right &&
        say(symmcoll_batch(group, ops, 2, NULL, &work) == SYMMCOLL_OK, "batch");
    if (!right)
        return false;
    if (rank == 1)
        right = ends_with(work, SYMMCOLL_ERR_MISMATCH, "recv seq 1 'batch'");
    else
        right = ends(work) && other == 4;
    return right && symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
}

static bool permute(struct symmcoll_group *group, int rank, const int *dst_of,
    size_t count, bool blocks)
{
    int *in = make(count, rank, 2), *out = make(count, -1, 0), source = 0;
    struct symmcoll_work *work = NULL;
    bool right;

    for (int r = 0; r < symmcoll_group_size(group); r++)
        source = dst_of[r] == rank ? r : source;
    right = say(symmcoll_permute(group, out, in, count, SYMMCOLL_INT32, dst_of,
                    NULL, blocks ? NULL : &work) == SYMMCOLL_OK,
                "permute") &&
            (blocks || ends(work)) && is_made(out, count, source, 2);
    free(in);
    free(out);
    return right;
}

static int permutations(struct symmcoll_group *group, int rank)
{
    static const int lists[][4] = {
        {1, 0, 3, 2}, {3, 2, 1, 0}, {1, 2, 3, 0}, {0, 2, 1, 3}, {0, 1, 2, 3}};
    static const int bad[][4] = {{0, 1, 2, 2}, {0, 1, 2, 4}, {0, 1, -1, 3}};
    bool right = true;
    int in = 0, out = 0, both[3] = {0};
    unsigned char own = (unsigned char)rank, copy = 9;

    for (size_t i = 0; right && i < LENGTH(lists); i++) {
        for (size_t c = 0; right && c < LENGTH(counts); c++)
            right = permute(group, rank, lists[i], counts[c], true) &&
                    permute(group, rank, lists[i], counts[c], false);
    }
    for (size_t i = 0; right && i < LENGTH(bad); i++)
        right = is_status(symmcoll_permute(group, &out, &in, 1, SYMMCOLL_INT32,
                              bad[i], NULL, NULL),
            SYMMCOLL_ERR_INVALID, "permute: expected");
    for (size_t i = 0; right && i < LENGTH(lists); i++)
        right = is_status(symmcoll_permute(group, both + 1, both, 2,
                              SYMMCOLL_INT32, lists[i], NULL, NULL),
            SYMMCOLL_ERR_INVALID, "out at byte 4 of in");
    /* A data type without sums, sent by each rank to itself. */
    right = right &&
            say(symmcoll_permute(group, &copy, &own, 1, SYMMCOLL_FLOAT8_E4M3FN,
                    lists[4], NULL, NULL) == SYMMCOLL_OK,
                "permute of float8") &&
            copy == own;
    right = right && permute(group, rank, lists[0], 1, true);
    /* The error names the rank with another count, and the call. */
    right =
        right && is_status(symmcoll_permute(group, both, &in, rank == 1 ? 2 : 1,
                               SYMMCOLL_UINT8, lists[0], NULL, NULL),
                     rank < 2 ? SYMMCOLL_ERR_MISMATCH : SYMMCOLL_OK,
                     rank < 2 ? "'permute' of group" : "");
    return right && is_status(symmcoll_permute(group, both, NULL, 1,
                                  SYMMCOLL_INT32, lists[0], NULL, NULL),
                        SYMMCOLL_ERR_INVALID, "permute: send: expected in");
}

/* Sends from each rank to itself in an aborted group. */
static int refused_ones_write_nothing(struct symmcoll_group *group, int rank)
{
    static const int same[] = {0, 1};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *part;
    struct symmcoll_work *work = NULL;
    int in = rank, out = -1;
    bool right;

    args.ranks = same;
    args.nranks = 2;
    if (!say(symmcoll_group_create(group->world, &args, &part) == SYMMCOLL_OK,
            "group_create"))
        return false;
    right = say(symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK, "barrier");
    symmcoll_group_abort(part, "enough");
    right = right &&
            say(symmcoll_permute(
                    part, &out, &in, 1, SYMMCOLL_INT32, same, NULL, NULL) < 0,
                "permute") &&
            say(symmcoll_permute(
                    part, &out, &in, 1, SYMMCOLL_INT32, same, NULL, &work) < 0,
                "permute as a work") &&
            work == NULL && say(out == -1, "out");
    return say(symmcoll_group_free(part) == SYMMCOLL_OK, "group_free") && right;
}

/* ---- beside others ---- */

struct beside {
    struct symmcoll_group *group;
    int rank, tag;
    bool right;
};

enum {
    ROUNDS = 60
};

static void *talk(void *arg)
{
    struct beside *self = arg;
    int peer = 1 - self->rank;

    self->right = true;
    for (int i = 0; self->right && i < ROUNDS; i++) {
        size_t count = counts[(i + self->tag) % (int)LENGTH(counts)];

        self->right = self->rank == 0
                          ? put(self->group, peer, self->tag, count, 0, i) &&
                                get(self->group, peer, self->tag, count, 1, i)
                          : get(self->group, peer, self->tag, count, 0, i) &&
                                put(self->group, peer, self->tag, count, 1, i);
    }
    return NULL;
}

/* Two threads of each rank exchange messages while a third one reduces. */
static int threads_talk(struct symmcoll_group *group, int rank)
{
    struct beside both[2];
    pthread_t threads[2];
    bool right = true;

    for (int t = 0; t < 2; t++) {
        both[t] = (struct beside){group, rank, t, false};
        if (pthread_create(&threads[t], NULL, talk, &both[t]) != 0)
            return false;
    }
    for (int i = 0; right && i < ROUNDS; i++) {
        size_t count = counts[i % (int)LENGTH(counts)];
        float *x = calloc(count, sizeof(*x));

        x[0] = 1;
        right = say(symmcoll_all_reduce(group, x, x, count, SYMMCOLL_FLOAT32,
                        SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK,
                    "all_reduce") &&
                x[0] == 2;
        free(x);
    }
    for (int t = 0; t < 2; t++) {
        pthread_join(threads[t], NULL);
        right = both[t].right && right;
    }
    return right;
}

/* Checks that sends and receives complete while a barrier is pending. */
static int collectives_do_not_hold_it_up(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *barrier = NULL, *work;
    int *buf = make(60000, rank == 0 ? 0 : -1, 1);
    bool right;

    if (rank == 0) {
        /* The message completes while this rank is in the barrier. */
        right = say(symmcoll_send(group, buf, 60000, SYMMCOLL_INT32, 1, 0, NULL,
                        &work) == SYMMCOLL_OK,
                    "send") &&
                symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK &&
                ends(work);
    } else {
        right = say(symmcoll_recv(group, buf, 60000, SYMMCOLL_INT32, 0, 0, NULL,
                        NULL, NULL) == SYMMCOLL_OK,
                    "recv") &&
                is_made(buf, 60000, 0, 1) &&
                symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    }
    free(buf);
    /* A pending collective delays no message. */
    if (rank == 0)
        right = right &&
                symmcoll_barrier(group, NULL, &barrier) == SYMMCOLL_OK &&
                put(group, 1, 1, 5, 0, 0) && ends(barrier);
    else
        right = right && get(group, 0, 1, 5, 0, 0) &&
                symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    return right;
}

/* Like the PyTorch test: ranks 2 and 3 of four are a group of two, with
 * messages of the same ranks and tag in the world's group. */
/* Uses as a tag the number that a permute's messages have. */
static int permutes_beside_messages(struct symmcoll_group *group, int rank)
{
    static const int swapped[4] = {1, 0}; /* of two ranks */

    return put(group, 1 - rank, 0, 50, rank, 4) &&
           permute(group, rank, swapped, 50, true) &&
           get(group, 1 - rank, 0, 50, 1 - rank, 4);
}

static int subgroups(struct symmcoll_group *group, int rank)
{
    static const int ranks[] = {2, 3};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_world *world = group->world;
    struct symmcoll_group *part;
    struct symmcoll_work *work;
    int mine = rank, swapped[] = {1, 0}, found = -1, source = -1;
    bool right;

    args.ranks = ranks;
    args.nranks = 2;
    right = say(symmcoll_group_create(world, &args, &part) == SYMMCOLL_OK,
        "group_create");
    if (!right)
        return false;
    if (rank < 2) {
        work = (struct symmcoll_work *)&mine;
        right = symmcoll_send(part, &mine, 1, SYMMCOLL_INT32, 0, 0, NULL,
                    &work) == SYMMCOLL_NOT_MEMBER &&
                work == NULL &&
                symmcoll_permute(part, &found, &mine, 1, SYMMCOLL_INT32,
                    swapped, NULL, NULL) == SYMMCOLL_NOT_MEMBER;
    } else if (rank == 2) {
        right = put(group, 3, 7, 5, 2, 1) && put(part, 1, 7, 5, 2, 2) &&
                get(part, SYMMCOLL_ANY_SOURCE, 7, 40000, 3, 3);
    } else {
        right = get(part, 0, 7, 5, 2, 2) && get(group, 2, 7, 5, 2, 1) &&
                put(part, 0, 7, 40000, 3, 3);
    }
    if (right && rank >= 2) {
        right = say(symmcoll_permute(part, &found, &mine, 1, SYMMCOLL_INT32,
                        swapped, NULL, NULL) == SYMMCOLL_OK,
                    "permute") &&
                found == 5 - rank &&
                say(symmcoll_send(part, &mine, 1, SYMMCOLL_INT32, 3 - rank, 1,
                        NULL, NULL) == SYMMCOLL_OK &&
                        symmcoll_recv(part, &found, 1, SYMMCOLL_INT32,
                            SYMMCOLL_ANY_SOURCE, 1, &source, NULL,
                            NULL) == SYMMCOLL_OK &&
                        source == 3 - rank && found == 5 - rank,
                    "to the other member");
    }
    return say(symmcoll_group_free(part) == SYMMCOLL_OK, "group_free") && right;
}

int main(void)
{
    plan(16);
    both_run(4, subgroups,
        "C40 G32 peers are ranks of the group, whose messages are its own");
    both_run(3, batches, "C44 C46 a batch sends and receives at once");
    both_run(2, bad_batches,
        "C44 a batch is checked as a whole, and has the first error");
    both_run(4, permutations,
        "C45 each rank has the elements of the one that sends to it");
    both_run(2, refused_ones_write_nothing,
        "C45 a permute that is refused has written nothing");
    both_run(2, threads_talk,
        "threads of a rank send and receive beside one that reduces");
    both_run(2, collectives_do_not_hold_it_up,
        "C1 what a rank sends proceeds in its collectives");
    both_run(2, permutes_beside_messages,
        "a permute takes no messages of sends, nor they of it");
    return done_testing();
}
